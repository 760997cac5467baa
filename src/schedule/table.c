#include "base/error.h"
#include "schedule/table.h"

#include "base/csv.h"
#include "base/files.h"
#include "schedule/all.h"

#include <string.h>

/* One pass as the file says it. */
typedef struct {
  int stage, micro;
  Pass pass;
  gboolean paired;
} Action;

typedef struct {
  const char *name;
  GArray **ranks; /* Action */
  int n_ranks, stages, micro;
  int row, cell;  /* of the action that is read, from 1 */
} Reader;

#define STAGES_MAX 4096

static const struct {
  const char *word;
  int pass; /* Pass, -1 = communication */
} words[] = {
  { "F", PASS_FORWARD }, { "B", PASS_BACKWARD }, { "I", PASS_INPUT }, { "W", PASS_WEIGHT },
  { "UNSHARD", -1 }, { "RESHARD", -1 }, { "REDUCE_GRAD", -1 },
  { "SEND_F", -1 }, { "RECV_F", -1 }, { "SEND_B", -1 }, { "RECV_B", -1 },
};

static gboolean bad_action(const Reader *r, const char *text, const char *expected, GError **error)
{
  return input_error(error, "%s: row %d, cell %d: \"%s\": expected %s", r->name, r->row, r->cell, text, expected);
}

/* Digits at `*at`, which moves behind them; -1 if there are none or too many. */
static int scan_number(const char **at)
{
  gsize n = strspn(*at, "0123456789");
  int value = n > 0 && n < 10 ? (int)g_ascii_strtoull(*at, NULL, 10) : -1;

  *at += n;
  return value;
}

static gboolean read_action(Reader *r, const char *text, gboolean paired, GError **error)
{
  const char *at = text;
  Action action = { .stage = scan_number(&at), .paired = paired };
  gsize length = strcspn(at, "0123456789");
  guint i = 0;

  while (i < G_N_ELEMENTS(words) && (strlen(words[i].word) != length || strncmp(words[i].word, at, length) != 0))
    i++;
  if (action.stage < 0 || i == G_N_ELEMENTS(words))
    return bad_action(r, text, "a stage, an action and a micro-batch, as in 0F3", error);
  if (action.stage >= STAGES_MAX)
    return bad_action(r, text, "at most 4096 stages", error);
  at += length;
  action.micro = scan_number(&at);
  if (*at || (words[i].pass >= 0 && action.micro < 0))
    return bad_action(r, text, "the number of a micro-batch at the end", error);
  if (words[i].pass < 0)
    return TRUE;
  action.pass = words[i].pass;
  r->stages = MAX(r->stages, action.stage + 1);
  r->micro = MAX(r->micro, action.micro + 1);
  g_array_append_val(r->ranks[r->row - 1], action);
  return TRUE;
}

/* "(0F3;7B1)OVERLAP_F_B" */
static gboolean read_pair(Reader *r, const char *text, GError **error)
{
  const char *end = strstr(text, ")OVERLAP_F_B");
  g_autofree char *inner = end ? g_strndup(text + 1, end - text - 1) : NULL;
  g_auto(GStrv) parts = end ? g_strsplit(inner, ";", -1) : NULL;

  if (!end || strlen(end) != strlen(")OVERLAP_F_B") || g_strv_length(parts) != 2)
    return bad_action(r, text, "two actions as in (0F3;7B1)OVERLAP_F_B", error);
  return read_action(r, g_strstrip(parts[0]), TRUE, error) && read_action(r, g_strstrip(parts[1]), FALSE, error);
}

static gboolean read_rows(Reader *r, GPtrArray *rows, GError **error)
{
  for (r->row = 1; r->row <= r->n_ranks; r->row++) {
    char **cells = g_ptr_array_index(rows, r->row - 1);
    for (r->cell = 1; cells[r->cell - 1]; r->cell++) {
      char *text = g_strstrip(cells[r->cell - 1]);
      if (*text && !(*text == '(' ? read_pair(r, text, error) : read_action(r, text, FALSE, error)))
        return FALSE;
    }
  }
  return TRUE;
}

/* Which rank holds which stage; -1 = none. */
static gboolean find_owners(const Reader *r, int *owner, GError **error)
{
  for (int stage = 0; stage < r->stages; stage++)
    owner[stage] = -1;
  for (int rank = 0; rank < r->n_ranks; rank++)
    for (guint i = 0; i < r->ranks[rank]->len; i++) {
      int stage = g_array_index(r->ranks[rank], Action, i).stage;
      if (owner[stage] >= 0 && owner[stage] != rank)
        return input_error(error, "%s: stage %d is on rank %d and on rank %d", r->name, stage, owner[stage], rank);
      owner[stage] = rank;
    }
  return TRUE;
}

/* Chunks of a rank are its stages in order. */
static gboolean place_stages(ScheduleTable *t, const Reader *r, GError **error)
{
  g_autofree int *owner = g_new(int, r->stages), *held = g_new0(int, t->ranks);

  if (!find_owners(r, owner, error))
    return FALSE;
  for (int stage = 0; stage < r->stages; stage++) {
    int rank = owner[stage];
    if (rank < 0)
      return input_error(error, "%s: stage %d is on no rank", r->name, stage);
    if (held[rank] == t->chunks)
      return input_error(error, "%s: rank %d holds more than %d of the %d stages, expected as many on each of the %d "
                         "ranks", r->name, rank, t->chunks, r->stages, t->ranks);
    t->places[stage] = (Place) { rank, held[rank] };
    t->stages[rank * t->chunks + held[rank]++] = stage;
  }
  return TRUE;
}

static void take_order(ScheduleTable *t, const Reader *r)
{
  int n = 0;

  t->order = g_new(ScheduleOrder, 1);
  t->order->ranks = t->ranks;
  t->order->first = g_new(int, t->ranks + 1);
  for (int rank = 0; rank < t->ranks; rank++)
    n += r->ranks[rank]->len;
  t->order->slots = g_new(Slot, MAX(n, 1));
  n = 0;
  for (int rank = 0; rank < t->ranks; rank++) {
    t->order->first[rank] = n;
    for (guint i = 0; i < r->ranks[rank]->len; i++) {
      const Action *a = &g_array_index(r->ranks[rank], Action, i);
      t->schedule.split |= a->pass == PASS_INPUT;
      t->order->slots[n++] = (Slot) { a->micro, t->places[a->stage].chunk, a->pass, a->paired };
    }
  }
  t->order->first[t->ranks] = n;
}

static gboolean check(const ScheduleShape *shape, GError **error)
{
  const ScheduleTable *t = shape->table;

  g_assert(t);
  if (shape->ranks == t->ranks && shape->chunks == t->chunks && shape->micro == t->micro)
    return TRUE;
  return input_error(error,
                     "schedule %s is for %d pipeline ranks of %d chunks and %d micro-batches, the plan has %d, %d "
                     "and %d", t->name, t->ranks, t->chunks, t->micro, shape->ranks, shape->chunks, shape->micro);
}

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  const ScheduleOrder *all = shape->table->order;

  for (int i = all->first[rank]; i < all->first[rank + 1]; i++)
    slot_append(slots, all->slots[i]);
}

static ScheduleTable *table_new(const Reader *r)
{
  ScheduleTable *t = g_new0(ScheduleTable, 1);

  t->name = g_strdup(r->name);
  t->ranks = r->n_ranks;
  t->micro = r->micro;
  t->chunks = r->stages / r->n_ranks;
  t->stages = g_new(int, t->ranks * t->chunks);
  t->places = g_new(Place, r->stages);
  t->schedule = (Schedule) {
    .name = t->name,
    .title = t->name,
    .min_chunks = 1,
    .max_chunks = G_MAXINT,
    .placement = PLACE_TABLE,
    .pairs = TRUE,
    .check = check,
    .order = order,
  };
  return t;
}

/* Each micro-batch needs an action, so no more of them than actions: what is allocated stays small. */
static gboolean check_size(const Reader *r, GError **error)
{
  int actions = 0;

  for (int rank = 0; rank < r->n_ranks; rank++)
    actions += r->ranks[rank]->len;
  if (actions == 0)
    return input_error(error, "%s: expected a row of actions for each rank, as in 0F0,0F1,0B0,0B1", r->name);
  if (r->stages % r->n_ranks != 0)
    return input_error(error, "%s: %d stages on %d ranks, expected as many on each", r->name, r->stages, r->n_ranks);
  if (r->micro > actions)
    return input_error(error, "%s: micro-batch %d of %d actions in all: expected every micro-batch from 0 on", r->name,
                       r->micro - 1, actions);
  return TRUE;
}

static ScheduleTable *build(const Reader *r, GError **error)
{
  if (!check_size(r, error))
    return NULL;
  g_autoptr(ScheduleTable) t = table_new(r);
  ScheduleShape shape = { .ranks = t->ranks, .micro = t->micro, .chunks = t->chunks, .table = t };

  if (!place_stages(t, r, error))
    return NULL;
  take_order(t, r);
  if (!schedule_order_check(&t->schedule, &shape, t->order, error)) {
    g_prefix_error(error, "%s: ", r->name);
    return NULL;
  }
  return g_steal_pointer(&t);
}

ScheduleTable *schedule_table_parse(const char *text, const char *name, GError **error)
{
  g_autoptr(GPtrArray) rows = csv_parse_rows(text, name, error);

  if (!rows)
    return NULL;
  Reader r = { .name = name, .n_ranks = rows->len };
  r.ranks = g_new(GArray *, r.n_ranks);
  for (int i = 0; i < r.n_ranks; i++)
    r.ranks[i] = g_array_new(FALSE, FALSE, sizeof(Action));
  ScheduleTable *t = read_rows(&r, rows, error) ? build(&r, error) : NULL;
  for (int i = 0; i < r.n_ranks; i++)
    g_array_unref(r.ranks[i]);
  g_free(r.ranks);
  return t;
}

ScheduleTable *schedule_table_load(const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = files_read(path, &length, error);

  if (text && strlen(text) != length) {
    input_error(error, "%s: NUL byte", path);
    return NULL;
  }
  return text ? schedule_table_parse(text, path, error) : NULL;
}

void schedule_table_free(ScheduleTable *t)
{
  if (!t)
    return;
  g_free(t->name);
  g_free(t->stages);
  g_free(t->places);
  schedule_order_free(t->order);
  g_free(t);
}

int schedule_table_stage(const ScheduleTable *table, int rank, int chunk)
{
  return table->stages[rank * table->chunks + chunk];
}

Place schedule_table_place(const ScheduleTable *table, int stage)
{
  return table->places[stage];
}

static void put_slot(GString *text, const Schedule *schedule, const ScheduleShape *shape, int rank, const Slot *slot)
{
  g_string_append_printf(text, "%d%c%u", schedule_stage(schedule, shape, rank, slot->chunk), pass_letters[slot->pass],
                         slot->micro);
}

char *schedule_table_text(const Schedule *schedule, const ScheduleShape *shape, GError **error)
{
  const char *reason = schedule_copies(schedule) > 1 ? "holds two copies of the model"
                       : schedule->recompute ? "makes forwards again as passes of their own"
                       : schedule->vocabulary ? "spreads the vocabulary over all ranks" : NULL;

  if (reason) {
    input_error(error, "schedule %s %s, which PyTorch's schedule CSV cannot say", schedule->name, reason);
    return NULL;
  }
  GString *text = g_string_new(NULL);
  g_autoptr(ScheduleOrder) all = schedule_order_new(schedule, shape);
  for (int rank = 0; rank < shape->ranks; rank++)
    for (int i = all->first[rank]; i < all->first[rank + 1]; i++) {
      g_autoptr(GString) cell = g_string_new(all->slots[i].paired ? "(" : "");
      put_slot(cell, schedule, shape, rank, &all->slots[i]);
      if (all->slots[i].paired) {
        g_string_append_c(cell, ';');
        put_slot(cell, schedule, shape, rank, &all->slots[++i]);
        g_string_append(cell, ")OVERLAP_F_B");
      }
      csv_put(text, cell->str, i + 1 == all->first[rank + 1]);
    }
  return g_string_free(text, FALSE);
}
