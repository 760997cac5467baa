#include "import/nccl_tests.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "import/nccl_tests_json.h"

#define TOKENS_MAX 64
#define BLANK_HALF 30 /* so many spaces stand where one half of a row was not timed */
#define SLACK 0.01    /* beyond what the printed digits leave open */

static const struct {
  const char *op;
  Collective collective;
} ops[] = {
  {"all_reduce", COLLECTIVE_ALL_REDUCE},         {"all_gather", COLLECTIVE_ALL_GATHER},
  {"reduce_scatter", COLLECTIVE_REDUCE_SCATTER}, {"alltoall", COLLECTIVE_ALL_TO_ALL},
  {"broadcast", COLLECTIVE_BROADCAST},           {"sendrecv", COLLECTIVE_SEND},
};

static const struct {
  const char *name;
  int bytes;
} types[] = {
  {"int8", 1},   {"uint8", 1},  {"char", 1},   {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"f8e4m3", 1}, {"f8e5m2", 1},
  {"half", 2},   {"bfloat16", 2}, {"int32", 4}, {"uint32", 4},  {"int", 4},      {"float", 4},  {"int64", 8},
  {"uint64", 8}, {"double", 8},
};

/* Word of a line, and the spaces before it. */
typedef struct {
  char *text;
  int gap;
} Token;

/* Where columns stand in a row; -1 if there is none. */
typedef struct {
  int redop, root, time, last_wrong;
  gboolean wrong; /* else the last of a half is the largest error */
} Columns;

typedef struct {
  NcclTests *tests;
  Collective collective; /* as the caller says */
  int line;
  char *hint;            /* op of a command line; for the next run */
  NcclRun *run;          /* being read; NULL before its banner */
  Columns columns;       /* time is 0 until the header of the run */
  GArray *groups;        /* int, of each rank listed */
  GPtrArray *hosts;      /* char *, the same */
} Parser;

#define fail(p, error, format, ...) \
  input_error(error, "%s:%d: " format, (p)->tests->name, (p)->line, ##__VA_ARGS__)

/* ---- words ---- */

/* Cuts the line into words. */
static int split(char *line, Token *tokens)
{
  int n = 0;
  while (n < TOKENS_MAX) {
    int gap = (int)strspn(line, " \t");
    line += gap;
    if (!*line)
      break;
    tokens[n++] = (Token){line, gap};
    line += strcspn(line, " \t");
    if (*line)
      *line++ = '\0';
    else
      break;
  }
  for (int i = 1; i < n; i++) /* the space that became the end of the word before */
    tokens[i].gap++;
  return n;
}

static gboolean is_digits(const char *text)
{
  return *text && strspn(text, "0123456789") == strlen(text);
}

/* `half` is what rounding may have taken off or added. */
static gboolean read_number(const char *text, double *value, double *half)
{
  char *end;
  if (!g_ascii_isdigit(*text) || strspn(text, "0123456789.eE+-") != strlen(text))
    return FALSE;
  *value = g_ascii_strtod(text, &end);
  const char *point = strchr(text, '.'), *exponent = strpbrk(text, "eE");
  int decimals = point ? (int)strspn(point + 1, "0123456789") : 0;
  int power = exponent ? (int)g_ascii_strtoll(exponent + 1, NULL, 10) : 0;
  *half = 0.5 * pow(10, (double)power - decimals);
  return *end == '\0' && isfinite(*value);
}

/* Op of the first NAME_perf in the line, newly allocated; NULL if there is none. */
static char *find_op(const char *line)
{
  const char *end = strstr(line, "_perf"), *start = end;
  while (start && start > line && (g_ascii_isalnum(start[-1]) || start[-1] == '_'))
    start--;
  return start < end ? g_strndup(start, (gsize)(end - start)) : NULL;
}

static Collective op_collective(const char *op)
{
  for (guint i = 0; i < G_N_ELEMENTS(ops); i++)
    if (strcmp(ops[i].op, op) == 0)
      return ops[i].collective;
  return COLLECTIVE_COUNT;
}

/* Without what mpirun --tag-output ("[1,0]<stdout>:") or srun --label ("0: ") put before it. */
static char *skip_label(char *line)
{
  char *end = line + strspn(line, " ");
  if (g_str_has_prefix(end, "[1,")) {
    end = strstr(end, ">:");
    return end && strstr(line, "]<std") ? end + 2 : line;
  }
  gsize digits = strspn(end, "0123456789");
  return digits && g_str_has_prefix(end + digits, ": ") ? end + digits + 2 : line;
}

/* ---- runs ---- */

static void run_free(gpointer data)
{
  NcclRun *run = data;
  if (!run)
    return;
  g_free(run->op);
  g_free(run->gpu);
  g_array_unref(run->rows);
  g_free(run);
}

static void end_run(Parser *p)
{
  if (p->run && p->run->rows->len)
    g_ptr_array_add(p->tests->runs, p->run);
  else
    run_free(p->run);
  p->run = NULL;
  p->columns.time = 0;
  g_array_set_size(p->groups, 0);
  g_ptr_array_set_size(p->hosts, 0);
}

/* The run that the line belongs to; a banner behind a header begins another. */
static NcclRun *this_run(Parser *p, gboolean banner)
{
  if (banner && p->run && p->columns.time)
    end_run(p);
  if (!p->run) {
    p->run = g_new0(NcclRun, 1);
    p->run->collective = COLLECTIVE_COUNT;
    p->run->rows = g_array_new(FALSE, FALSE, sizeof(NcclRow));
  }
  return p->run;
}

/* Host to number of its ranks, of the group or (-1) of all. */
static GHashTable *count_ranks(const Parser *p, int group)
{
  GHashTable *counts = g_hash_table_new(g_str_hash, g_str_equal);
  for (guint i = 0; i < p->hosts->len; i++) {
    char *host = g_ptr_array_index(p->hosts, i);
    int n = GPOINTER_TO_INT(g_hash_table_lookup(counts, host));
    if (group < 0 || g_array_index(p->groups, int, i) == group)
      g_hash_table_insert(counts, host, GINT_TO_POINTER(n + 1));
  }
  return counts;
}

/* All hosts have as many ranks. */
static gboolean are_equal(GHashTable *counts)
{
  GHashTableIter iter;
  gpointer count, first = NULL;
  g_hash_table_iter_init(&iter, counts);
  while (g_hash_table_iter_next(&iter, NULL, &count)) {
    if (first && first != count)
      return FALSE;
    first = count;
  }
  return TRUE;
}

static gboolean settle_ranks(Parser *p, GError **error)
{
  NcclRun *run = p->run;
  int listed = (int)p->hosts->len, group = listed ? g_array_index(p->groups, int, 0) : 0;
  if (listed == 0)
    return fail(p, error, "no list of devices before this row: expected lines like \"#  Rank  0 ... on HOST\"");
  g_autoptr(GHashTable) all = count_ranks(p, -1), mine = count_ranks(p, group);
  int hosts = (int)g_hash_table_size(all);
  for (int i = 0; i < listed; i++)
    run->ranks += g_array_index(p->groups, int, i) == group;
  run->nodes = (int)g_hash_table_size(mine);
  run->node_ranks = listed / hosts;
  if (listed % run->ranks == 0 && are_equal(all) && are_equal(mine))
    return TRUE;
  return fail(p, error, "%d ranks, %d of them in the first group, on %d node%s: expected as many in each", listed,
              run->ranks, hosts, hosts > 1 ? "s" : "");
}

/* ---- which collective ---- */

static int type_bytes(const char *type)
{
  for (guint i = 0; i < G_N_ELEMENTS(types); i++)
    if (strcmp(types[i].name, type) == 0)
      return types[i].bytes;
  return 0;
}

/* What a row's columns say: `count` is of the whole buffer or of a rank's part,
 * and all-to-all cannot be checked in place. NULL if they leave it open. */
static const char *guess_op(const Parser *p, const Token *row, int n)
{
  const Columns *c = &p->columns;
  double bytes = g_ascii_strtod(row[0].text, NULL), part = g_ascii_strtod(row[1].text, NULL) * type_bytes(row[2].text);
  gboolean reduces = c->redop > 0 && strcmp(row[c->redop].text, "none") != 0;
  gboolean rooted = c->root > 0 && *row[c->root].text != '-';
  gboolean whole = bytes == part, parts = bytes == part * p->run->ranks;
  if (!whole && !parts)
    return NULL;
  if (rooted)
    return reduces ? "reduce" : whole ? "broadcast" : "gather";
  if (reduces)
    return whole ? "all_reduce" : "reduce_scatter";
  if (whole)
    return "sendrecv";
  gboolean checked = strcmp(row[c->time + 3].text, "N/A") != 0;
  gboolean checked_in_place = c->last_wrong < n && strcmp(row[c->last_wrong].text, "N/A") != 0;
  return !checked ? NULL : checked_in_place ? "all_gather" : "alltoall";
}

static gboolean settle_op(Parser *p, const Token *row, int n, GError **error)
{
  NcclRun *run = p->run;
  if (!run->op)
    run->op = g_steal_pointer(&p->hint);
  g_clear_pointer(&p->hint, g_free);
  if (!run->op && row)
    run->op = g_strdup(guess_op(p, row, n));
  run->collective = run->op ? op_collective(run->op) : p->collective;
  if (run->op && p->collective != COLLECTIVE_COUNT && run->collective != p->collective)
    return fail(p, error, "--collective: %s: expected %s, which this run is", collective_names[p->collective], run->op);
  if (!run->op && p->collective == COLLECTIVE_COUNT)
    return fail(p, error, "the columns leave open which collective this is: expected --collective, as in "
                "--collective all-gather");
  for (guint i = 0; i < G_N_ELEMENTS(ops) && !run->op; i++)
    if (ops[i].collective == run->collective)
      run->op = g_strdup(ops[i].op);
  return TRUE;
}

/* ---- comments ---- */

static gboolean read_banner(Parser *p, char *rest, GError **error)
{
  (void)error;
  NcclRun *run = this_run(p, TRUE);
  char *op = find_op(rest);
  if (op) {
    g_free(run->op);
    run->op = op;
  }
  return TRUE;
}

/* Rank 0 [Group 0] Pid 1 on HOST device 0 [0000:19:00] NAME */
static gboolean read_rank(Parser *p, char *rest, GError **error)
{
  const char *bracket = strchr(rest, ']');
  g_autofree char *gpu = bracket ? g_strstrip(g_strdup(bracket + 1)) : NULL;
  Token tokens[TOKENS_MAX];
  int n = split(rest, tokens), group = 0;
  const char *host = NULL;
  for (int i = 1; i + 1 < n && !host; i++) {
    if (strcmp(tokens[i].text, "Group") == 0 && is_digits(tokens[i + 1].text))
      group = (int)MIN(g_ascii_strtoull(tokens[i + 1].text, NULL, 10), G_MAXINT);
    if (strcmp(tokens[i].text, "on") == 0)
      host = tokens[i + 1].text;
  }
  if (n < 2 || !is_digits(tokens[1].text) || !host || !gpu)
    return fail(p, error, "expected a rank as in \"#  Rank  0 Group  0 Pid  1 on HOST device  0 [0000:00:00] GPU\"");
  NcclRun *run = this_run(p, FALSE);
  if (!run->gpu)
    run->gpu = g_steal_pointer(&gpu);
  g_array_append_val(p->groups, group);
  g_ptr_array_add(p->hosts, g_strdup(host));
  return TRUE;
}

/* The header line: size count type [redop] [root] time algbw busbw ... */
static gboolean read_header(Parser *p, char *rest, GError **error)
{
  Token tokens[TOKENS_MAX];
  int n = split(rest, tokens);
  Columns c = {.redop = -1, .root = -1};
  for (int i = 0; i < n; i++) {
    const char *name = tokens[i].text;
    if (strcmp(name, "cputime") == 0)
      return fail(p, error, "cputime: expected the time on the GPU, from a run without -C");
    if (strcmp(name, "redop") == 0)
      c.redop = i;
    else if (strcmp(name, "root") == 0)
      c.root = i;
    else if (strcmp(name, "time") == 0 && !c.time)
      c.time = i;
    else if (strcmp(name, "#wrong") == 0 || strcmp(name, "error") == 0)
      c.last_wrong = i;
  }
  if (c.time < 3 || n < c.time + 4 || strcmp(tokens[1].text, "count") || strcmp(tokens[2].text, "type") ||
      strcmp(tokens[c.time + 1].text, "algbw") || strcmp(tokens[c.time + 2].text, "busbw"))
    return fail(p, error, "expected the columns size count type ... time algbw busbw #wrong");
  c.wrong = strcmp(tokens[c.time + 3].text, "#wrong") == 0;
  this_run(p, FALSE)->line = p->line;
  p->columns = c;
  return TRUE;
}

static gboolean read_out_of_bounds(Parser *p, char *rest, GError **error)
{
  return !strstr(rest, "FAILED") || fail(p, error, "%s: expected a run with right results", g_strstrip(rest));
}

/* Lines behind "#"; without a function they tell nothing that is needed. */
static const struct {
  const char *start;
  gboolean (*read)(Parser *p, char *rest, GError **error);
} comments[] = {
  {"nThread ", read_banner},
  {"nccl-tests version", read_banner},
  {"rccl-tests", read_banner},
  {"Collective test starting", read_banner},
  {"Rank ", read_rank},
  {"size ", read_header},
  {"Out of bounds values", read_out_of_bounds},
  {"Using devices", NULL},
  {"out-of-place", NULL},
  {"(B) ", NULL},
  {"Avg bus bandwidth", NULL},
  {"Collective test concluded", NULL},
  {"Blocking Enabled", NULL},
  {"Per-Iteration Report", NULL},
  {"Parallel Init Enabled", NULL},
  {"Writing JSON output", NULL},
  {"GPU memory usage", NULL},
  {"", NULL}, /* an empty one */
};

/* ---- rows ---- */

static gboolean is_row(const Token *tokens, int n)
{
  return n > 3 && is_digits(tokens[0].text) && is_digits(tokens[1].text) && g_ascii_isalpha(*tokens[2].text);
}

static gboolean read_cell(const Parser *p, const char *column, const char *text, double *value, double *half,
                          GError **error)
{
  return read_number(text, value, half) || fail(p, error, "%s: \"%s\": expected a number", column, text);
}

/* The bandwidths must be those of the bytes and the time, as far as digits go. */
static gboolean check_row(const Parser *p, const NcclRow *row, double time_half, double alg_half, double bus_half,
                          GError **error)
{
  double least = row->bytes / (row->seconds + time_half), most = row->bytes / fmax(row->seconds - time_half, 1e-12);
  double alg = row->alg_bytes_per_s, bus = row->bus_bytes_per_s;
  if (alg + alg_half < least * (1 - SLACK) || alg - alg_half > most * (1 + SLACK))
    return fail(p, error, "algbw: %.2f: expected %.2f, which %.0f bytes in %.2f us are", alg / GB,
                row->bytes / row->seconds / GB, row->bytes, row->seconds / US);
  if (p->run->collective == COLLECTIVE_COUNT)
    return TRUE;
  double factor = collective_bus_factor(p->run->collective, p->run->ranks);
  if (fabs(bus - alg * factor) > bus_half + alg_half * factor + SLACK * bus)
    return fail(p, error, "busbw: %.2f: expected %.2f, as %s of %d ranks has %.4g times algbw", bus / GB,
                alg * factor / GB, collective_names[p->run->collective], p->run->ranks, factor);
  return TRUE;
}

/* Wrong elements of one half; the "error" of old layouts is not judged. */
static gboolean check_wrong(const Parser *p, const char *text, GError **error)
{
  double wrong, half;
  if (!p->columns.wrong || strcmp(text, "N/A") == 0)
    return TRUE;
  if (!read_cell(p, "#wrong", text, &wrong, &half, error))
    return FALSE;
  return wrong == 0 || fail(p, error, "#wrong: %s: expected 0, from a run with right results", text);
}

static gboolean read_half(Parser *p, const Token *half, NcclRow *row, GError **error)
{
  double time_half, alg_half, bus_half;
  if (!read_cell(p, "time", half[0].text, &row->seconds, &time_half, error) ||
      !read_cell(p, "algbw", half[1].text, &row->alg_bytes_per_s, &alg_half, error) ||
      !read_cell(p, "busbw", half[2].text, &row->bus_bytes_per_s, &bus_half, error) ||
      !check_wrong(p, half[3].text, error))
    return FALSE;
  row->seconds *= US;
  row->alg_bytes_per_s *= GB;
  row->bus_bytes_per_s *= GB;
  if (!(row->seconds > 0))
    return fail(p, error, "time: \"%s\": expected more than 0 us", half[0].text);
  if (!check_row(p, row, time_half * US, alg_half * GB, bus_half * GB, error))
    return FALSE;
  /* Long times are printed with two digits (1.2e+06), their bandwidths with more. */
  if (strchr(half[0].text, 'e') && row->alg_bytes_per_s > 100 * alg_half * GB)
    row->seconds = row->bytes / row->alg_bytes_per_s;
  return TRUE;
}

static gboolean read_row(Parser *p, const Token *tokens, int n, GError **error)
{
  int time = p->columns.time;
  if (!time)
    return fail(p, error, "a row without a header: expected the line of columns (size count type ...) above");
  int columns = 1 + MAX(time + 3, MAX(p->columns.redop, p->columns.root));
  if (n < columns)
    return fail(p, error, "%d columns: expected at least %d, as the header has", n, columns);
  NcclRow row = {.line = p->line, .bytes = g_ascii_strtod(tokens[0].text, NULL),
                 .in_place = tokens[time].gap >= BLANK_HALF};
  if (row.bytes == 0 || strcmp(tokens[time].text, "N/A") == 0) {
    p->tests->empty_rows++;
    return TRUE;
  }
  if (!p->run->ranks && (!settle_ranks(p, error) || !settle_op(p, tokens, n, error)))
    return FALSE;
  int last = p->columns.last_wrong;
  if (!read_half(p, &tokens[time], &row, error) ||
      (!row.in_place && last < n && !check_wrong(p, tokens[last].text, error)))
    return FALSE;
  if (n > time + 4 && n <= last)
    return fail(p, error, "%d columns: expected %d, as the header has: the row is cut off", n, last + 1);
  g_array_append_val(p->run->rows, row);
  return TRUE;
}

/* ---- lines ---- */

static void add_strange(Parser *p)
{
  if (p->tests->strange_lines++ == 0)
    p->tests->first_strange_line = p->line;
}

static gboolean read_comment(Parser *p, char *text, GError **error)
{
  text += strspn(text, " \t");
  for (guint i = 0; i < G_N_ELEMENTS(comments); i++) {
    const char *start = comments[i].start;
    if (*start ? g_str_has_prefix(text, start) : !*text)
      return !comments[i].read || comments[i].read(p, text, error);
  }
  add_strange(p);
  return TRUE;
}

static gboolean read_line(Parser *p, char *line, GError **error)
{
  g_strchomp(line);
  line = skip_label(line);
  char *text = line + strspn(line, " \t");
  gboolean log = strstr(line, " NCCL ") != NULL; /* maybe in the middle of a row */
  if (!*text)
    return TRUE;
  if (*text == '#' && !log)
    return read_comment(p, text + 1, error);
  if (!log && g_str_has_prefix(text, "NCCL version "))
    return TRUE; /* NCCL prints it by itself */
  char *op = log ? NULL : find_op(line);
  Token tokens[TOKENS_MAX];
  int n = split(line, tokens);
  if (!log && is_row(tokens, n)) {
    g_free(op);
    return read_row(p, tokens, n, error);
  }
  if (op) {
    g_free(p->hint);
    p->hint = op;
  }
  add_strange(p);
  return TRUE;
}

static gboolean read_json(Parser *p, const char *text, GError **error)
{
  if (!nccl_tests_read_json(text, p->tests, this_run(p, FALSE), error) || !settle_op(p, NULL, 0, error))
    return FALSE;
  end_run(p);
  return TRUE;
}

static gboolean read_lines(Parser *p, const char *text, GError **error)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  g_auto(GStrv) lines = g_strsplit(valid, "\n", -1);
  if (text[strspn(text, " \t\r\n")] == '{')
    return read_json(p, text, error);
  for (int i = 0; lines[i]; i++) {
    p->line = i + 1;
    if (!read_line(p, lines[i], error))
      return FALSE;
  }
  end_run(p);
  if (p->tests->runs->len)
    return TRUE;
  return input_error(error, "%s: no rows: expected the text that nccl-tests prints", p->tests->name);
}

NcclTests *nccl_tests_parse(const char *text, const char *name, Collective collective, GError **error)
{
  NcclTests *tests = g_new0(NcclTests, 1);
  tests->name = g_strdup(name);
  tests->runs = g_ptr_array_new_with_free_func(run_free);
  Parser p = {.tests = tests, .collective = collective, .line = 1,
              .groups = g_array_new(FALSE, FALSE, sizeof(int)), .hosts = g_ptr_array_new_with_free_func(g_free)};
  gboolean done = read_lines(&p, text, error);
  run_free(p.run);
  g_free(p.hint);
  g_array_unref(p.groups);
  g_ptr_array_unref(p.hosts);
  if (!done)
    g_clear_pointer(&tests, nccl_tests_free);
  return tests;
}

NcclTests *nccl_tests_load(const char *path, Collective collective, GError **error)
{
  gsize length;
  g_autofree char *text = files_read(path, &length, error);
  if (text && strlen(text) != length) {
    input_error(error, "%s: expected the text that nccl-tests prints, but it holds a NUL", path);
    return NULL;
  }
  return text ? nccl_tests_parse(text, path, collective, error) : NULL;
}

void nccl_tests_free(NcclTests *tests)
{
  if (!tests)
    return;
  g_free(tests->name);
  g_ptr_array_unref(tests->runs);
  g_free(tests);
}

void nccl_tests_points(const NcclTests *tests, GArray *points)
{
  for (guint r = 0; r < tests->runs->len; r++) {
    const NcclRun *run = g_ptr_array_index(tests->runs, r);
    for (guint i = 0; run->collective != COLLECTIVE_COUNT && i < run->rows->len; i++) {
      const NcclRow *row = &g_array_index(run->rows, NcclRow, i);
      LinkPoint point = {run->collective, run->ranks,   run->nodes, run->node_ranks,
                         row->bytes,      row->seconds, tests->name};
      g_array_append_val(points, point);
    }
  }
}
