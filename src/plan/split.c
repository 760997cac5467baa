#include "plan/split.h"

#include "base/sort.h"

#include <math.h>
#include <string.h>

const char *const split_kind_names[] = { "even", "costs", "ends", "fill", "any", NULL };

/* Encoder and decoder each in equal stages. */
static int first_of_stacks(int stages, int split_rank, const Model *model, int stage)
{
  int encoder = model->encoder_blocks;

  if (stage <= split_rank)
    return 1 + encoder / split_rank * stage;
  return 1 + encoder + (model->blocks - encoder) / (stages - split_rank) * (stage - split_rank);
}

int split_first_layer(const LayerSplit *split, int stages, int split_rank, const Model *model, int stage)
{
  int first = 1;

  if (stage <= 0)
    return 0;
  if (stage >= stages)
    return model->n_layers;
  if (split_rank)
    return first_of_stacks(stages, split_rank, model, stage);
  if (!split->stages)
    return 1 + model->blocks / stages * stage;
  for (int i = 0; i < stage; i++)
    first += split->layers[i];
  return first;
}

int split_layers(const LayerSplit *s)
{
  int layers = 0;
  for (int i = 0; i < s->stages; i++)
    layers += s->layers[i];
  return layers;
}

gboolean split_fill(int layers, int stages, int ends, LayerSplit *out)
{
  int units = layers + 2 * ends, full = (units + stages - 1) / stages, rest = units - full * (stages - 1);

  if (stages < 2)
    full = rest = layers;
  if (stages > SPLIT_STAGES_MAX || full > SPLIT_LAYERS_MAX || rest < 1)
    return FALSE;
  out->stages = stages;
  memset(out->layers, full, stages);
  if (stages > 1) {
    out->layers[0] = full - ends;
    out->layers[stages - 1] = rest - ends;
  }
  return TRUE;
}

gboolean split_by_cost(const Model *model, int stages, LayerSplit *out)
{
  double h = model->hidden, block = 4 * h * h + 3.0 * model_layer(model, 1)->ffn.width * h, head = h * model->vocab;
  double share = (block * model->blocks + head) / stages;
  int stage = 0;

  if (stages > SPLIT_STAGES_MAX || model->blocks > SPLIT_LAYERS_MAX)
    return FALSE;
  *out = (LayerSplit) { .stages = stages };
  for (int i = 0; i < model->blocks; i++) {
    out->layers[stage]++;
    stage += (i + 1) * block > (stage + 1) * share && stage < stages - 1;
  }
  return stage == stages - 1;
}

static gboolean alike(const LayerSplit *s, int from, int to)
{
  for (int i = from + 1; i < to; i++)
    if (s->layers[i] != s->layers[from])
      return FALSE;
  return TRUE;
}

gboolean split_is_kind(const LayerSplit *s, SplitKind kind)
{
  if (kind == SPLITS_ANY || alike(s, 0, s->stages))
    return TRUE;
  if (kind == SPLITS_ENDS)
    return alike(s, 1, s->stages - 1);
  for (int ends = 0; kind == SPLITS_FILL && ends < 2; ends++) {
    LayerSplit filled;
    if (split_fill(split_layers(s), s->stages, ends, &filled) && memcmp(filled.layers, s->layers, s->stages) == 0)
      return TRUE;
  }
  return FALSE;
}

/* ---- balance ---- */

/* Running sum over the layers on the devices of a stage. */
static const double *seconds_of(const SplitProblem *p, int stage)
{
  return p->types ? p->seconds + (gsize)p->types[stage] * (p->n_layers + 1) : p->seconds;
}

static int least_of(const SplitProblem *p, int stage)
{
  return stage == 0 || stage == p->stages - 1 ? p->least_at_ends : 1;
}

/* Blocks without which some stage would be empty. */
static int needed(const SplitProblem *p)
{
  int blocks = 0;
  for (int stage = 0; stage < p->stages; stage++)
    blocks += least_of(p, stage);
  return blocks;
}

/* Seconds of a stage that holds blocks from..to-1; INFINITY if it may not. */
static double find_stage_s(const SplitProblem *p, int stage, int from, int to)
{
  int first = stage == 0 ? 0 : 1 + from, end = stage == p->stages - 1 ? p->n_layers : 1 + to;
  const double *seconds = seconds_of(p, stage);

  if (to - from < least_of(p, stage) || to - from > SPLIT_LAYERS_MAX ||
      (p->fits && !p->fits(p->data, stage, first, end)))
    return INFINITY;
  return seconds[end] - seconds[first] + (p->extra_s ? p->extra_s[stage] : 0);
}

static double stage_s(const SplitProblem *p, int stage, int from, int to)
{
  gsize width = p->blocks + 1;
  return p->known ? p->known[(stage * width + from) * width + to] : find_stage_s(p, stage, from, to);
}

/* Times of all stages that may be asked for, for problems that ask often what fits. */
static double *stage_times(const SplitProblem *p)
{
  gsize width = p->blocks + 1;
  double *times = g_new(double, p->stages * width * width);

  for (int stage = 0; stage < p->stages; stage++)
    for (gsize from = 0; from < width; from++)
      for (gsize to = from; to < width; to++) {
        gsize at = (stage * width + from) * width + to;
        /* more blocks than do not fit do not fit either */
        gboolean full = p->fits && to > from + least_of(p, stage) && isinf(times[at - 1]);
        times[at] = full ? INFINITY : find_stage_s(p, stage, from, to);
      }
  return times;
}

/* What a run over the table makes least of, no stage being slower than the limit. */
typedef enum { LEAST_SLOWEST, LEAST_SQUARES, LEAST_SUM } Least;

/* Blocks that all stages up to one can hold together, those behind it holding the rest. */
typedef struct {
  int least, most;
} Window;

typedef struct {
  const SplitProblem *problem;
  double limit;     /* of a stage's seconds */
  Least least;
  double *best;     /* [stage][blocks so far] */
  guint8 *taken;    /* blocks of the stage in that solution */
  Window windows[SPLIT_STAGES_MAX]; /* outside them no solution passes */
} Table;

static double join(const Table *t, double before, double stage)
{
  if (t->least == LEAST_SLOWEST)
    return MAX(before, stage);
  return before + (t->least == LEAST_SQUARES ? stage * stage : stage);
}

static gboolean may_hold(const Table *t, int stage, int from, int to)
{
  double s = stage_s(t->problem, stage, from, to);
  return isfinite(s) && s <= t->limit;
}

/* With more blocks a stage takes no less, with a later first one no more: so each
 * stage holding as many as it can tells the most, from the last one back the least. */
static void find_windows(Table *t)
{
  const SplitProblem *p = t->problem;
  int last = p->stages - 1, blocks = p->blocks;

  for (int stage = 0, to = 0; stage <= last; stage++) {
    int from = to;
    for (to += least_of(p, stage); to < blocks && may_hold(t, stage, from, to + 1); to++)
      ;
    t->windows[stage].most = to = MIN(to, blocks);
  }
  for (int stage = last, from = blocks; stage >= 0; stage--) {
    int to = from;
    t->windows[stage].least = to;
    for (from -= least_of(p, stage); from > 0 && may_hold(t, stage, from - 1, to); from--)
      ;
    from = MAX(from, 0);
  }
}

static void fill_cell(Table *t, int stage, int blocks, int width)
{
  const double *before = t->best + (gsize)(stage - 1) * width;
  const Window *window = &t->windows[stage - 1];
  double best = INFINITY;
  int taken = 0;

  for (int n = MAX(least_of(t->problem, stage), blocks - window->most); n <= blocks - window->least; n++) {
    double s = stage_s(t->problem, stage, blocks - n, blocks);
    if (isinf(s) || s > t->limit || (t->least == LEAST_SLOWEST && s >= best))
      break;
    double value = join(t, before[blocks - n], s);
    if (value < best) {
      best = value;
      taken = n;
    }
  }
  t->best[(gsize)stage * width + blocks] = best;
  t->taken[(gsize)stage * width + blocks] = taken;
}

/* Best of all blocks on all stages, INFINITY if there is no way. */
static double run_table(Table *t)
{
  const SplitProblem *p = t->problem;
  int width = p->blocks + 1;
  const Window *window = t->windows;

  find_windows(t);
  if (window[p->stages - 1].most < width - 1)
    return INFINITY;
  for (int i = window->least; i <= window->most; i++) {
    double s = stage_s(p, 0, 0, i);
    t->best[i] = s > t->limit ? INFINITY : t->least == LEAST_SQUARES ? s * s : s;
    t->taken[i] = MIN(i, SPLIT_LAYERS_MAX);
  }
  for (int stage = 1; stage < p->stages; stage++)
    for (int i = window[stage].least; i <= window[stage].most; i++)
      fill_cell(t, stage, i, width);
  return t->best[(gsize)p->stages * width - 1];
}

/* Whether every block takes the same, within the rounding of a running sum. */
static gboolean blocks_alike(const SplitProblem *p)
{
  double first = p->seconds[2] - p->seconds[1], slack = 1e-12 * p->seconds[p->n_layers];

  for (int i = 2; i <= p->blocks; i++)
    if (fabs(p->seconds[i + 1] - p->seconds[i] - first) > slack)
      return FALSE;
  return p->blocks > 0;
}

/* Blocks that are alike, one after the other to the stage that takes least so far. */
static gboolean balance_alike(const SplitProblem *p, LayerSplit *out)
{
  int last = p->stages - 1, left = p->blocks, end = 1 + left;
  double block = (p->seconds[end] - p->seconds[1]) / left;
  double load[SPLIT_STAGES_MAX] = { 0 };

  for (int stage = 0; stage <= last; stage++) {
    out->layers[stage] = least_of(p, stage);
    load[stage] = out->layers[stage] * block;
    left -= out->layers[stage];
  }
  load[0] += p->seconds[1];
  load[last] += p->seconds[p->n_layers] - p->seconds[end];
  out->stages = p->stages;
  for (; left > 0; left--) {
    int least = 0;
    for (int stage = 1; stage <= last; stage++)
      if (load[stage] < load[least] * (1 - 1e-12))
        least = stage;
    if (out->layers[least] == SPLIT_LAYERS_MAX)
      return FALSE;
    out->layers[least]++;
    load[least] += block;
  }
  return left == 0;
}

static void read_table(const Table *t, LayerSplit *out)
{
  const SplitProblem *p = t->problem;
  int width = p->blocks + 1;

  for (int stage = p->stages - 1, left = width - 1; stage >= 0; left -= out->layers[stage--])
    out->layers[stage] = t->taken[(gsize)stage * width + left];
  out->stages = p->stages;
}

/* The times above `from` and up to `to` that some stage can take, in order. */
static GArray *limits_between(const SplitProblem *p, double from, double to)
{
  GArray *limits = g_array_new(FALSE, FALSE, sizeof(double));

  for (int stage = 0; stage < p->stages; stage++)
    for (int first = 0; first <= (stage == 0 ? 0 : p->blocks); first++)
      for (int end = stage == p->stages - 1 ? p->blocks : first + least_of(p, stage); end <= p->blocks; end++) {
        double s = stage_s(p, stage, first, end);
        if (s > to)
          break;
        if (s > from)
          g_array_append_val(limits, s);
      }
  g_array_sort(limits, sort_reals);
  return limits;
}

/* Whether stages within a limit hold all blocks where each takes as many as it can and leaves the others their least. */
static gboolean reaches(Table *t, double limit)
{
  const SplitProblem *p = t->problem;
  int to = 0, left = needed(p);

  t->limit = limit;
  for (int stage = 0; stage < p->stages; stage++) {
    int from = to;
    left -= least_of(p, stage);
    to += least_of(p, stage);
    if (!may_hold(t, stage, from, stage == p->stages - 1 ? p->blocks : to))
      return FALSE;
    while (to + left < p->blocks && may_hold(t, stage, from, to + 1))
      to++;
  }
  return TRUE;
}

/* The least limit under which that is so, but for a thousandth, or one above `most`. */
static double likely_limit(Table *t, double low, double most)
{
  double high = low;

  while (high < most && !reaches(t, high)) {
    low = high;
    high *= 1.2;
  }
  while (high < most && high / low > 1.001) {
    double middle = (low + high) / 2;
    *(reaches(t, middle) ? &high : &low) = middle;
  }
  return high;
}

/* The least possible slowest stage, under limits that rise until a split keeps within one. */
static double find_slowest(Table *t)
{
  const SplitProblem *p = t->problem;
  double all = INFINITY, slowest = INFINITY;

  t->least = LEAST_SLOWEST;
  for (int stage = 0; stage < p->stages; stage++)
    all = MIN(all, seconds_of(p, stage)[p->n_layers]);
  for (t->limit = likely_limit(t, all / p->stages, 2 * all); isinf(slowest) && t->limit < 2 * all; t->limit *= 1.2)
    slowest = run_table(t);
  t->limit = INFINITY;
  return isfinite(slowest) ? slowest : run_table(t);
}

/* Least time of a split with no stage slower than the limit, noted where it beats the best so far. */
static void try_limit(Table *t, double limit, double *best, LayerSplit *out)
{
  t->limit = limit;
  double time = t->problem->repeats * limit + run_table(t);
  if (time < *best) {
    *best = time;
    read_table(t, out);
  }
}

/* Goes through the stage times that may be the slowest, until even the least sum of all would not help. */
static void balance_repeats(Table *t, double slowest, LayerSplit *out)
{
  double best = INFINITY, least_sum, repeats = t->problem->repeats;

  t->least = LEAST_SUM;
  t->limit = INFINITY;
  least_sum = run_table(t);
  try_limit(t, slowest, &best, out);
  g_autoptr(GArray) limits = limits_between(t->problem, slowest, (best - least_sum) / repeats * (1 + 1e-9));
  for (guint i = 0; i < limits->len; i++) {
    double limit = g_array_index(limits, double, i);
    if (repeats * limit + least_sum >= best)
      break;
    if (i == 0 || limit > g_array_index(limits, double, i - 1))
      try_limit(t, limit, &best, out);
  }
}

static gboolean balance_any(const SplitProblem *p, LayerSplit *out)
{
  if (!p->fits && !p->types && p->repeats == 0 && blocks_alike(p))
    return balance_alike(p, out);

  int width = p->blocks + 1;
  SplitProblem asked = *p;
  g_autofree double *times = p->repeats > 0 && p->fits ? stage_times(p) : NULL;
  g_autofree double *best = g_new(double, (gsize)p->stages * width);
  g_autofree guint8 *taken = g_new(guint8, (gsize)p->stages * width);
  asked.known = times;
  Table t = { .problem = &asked, .best = best, .taken = taken };
  double slowest = find_slowest(&t);

  if (!isfinite(slowest))
    return FALSE;
  if (p->repeats > 0) {
    balance_repeats(&t, slowest, out);
    return TRUE;
  }
  t.limit = slowest;
  t.least = LEAST_SQUARES;
  run_table(&t);
  read_table(&t, out);
  return TRUE;
}

/* The slowest stage and the sum of squares of a split; INFINITY if a stage may not be. */
static void rate(const SplitProblem *p, const LayerSplit *s, double *slowest, double *squares)
{
  *slowest = *squares = 0;
  for (int stage = 0, first = 0; stage < s->stages; first += s->layers[stage++]) {
    double seconds = stage_s(p, stage, first, first + s->layers[stage]);
    *slowest = MAX(*slowest, seconds);
    *squares += seconds * seconds;
  }
}

/* The best of the splits that are offered one by one. */
typedef struct {
  LayerSplit split;
  double slowest, squares;
} Best;

static void offer(const SplitProblem *p, const LayerSplit *split, Best *best)
{
  Best other = { .split = *split };

  rate(p, split, &other.slowest, &other.squares);
  if (other.slowest < best->slowest || (other.slowest == best->slowest && other.squares < best->squares))
    *best = other;
}

static void offer_ends(const SplitProblem *p, Best *best)
{
  int between = p->stages - 2, blocks = p->blocks;

  for (int each = 1; each * between <= blocks && each <= SPLIT_LAYERS_MAX; each++)
    for (int first = 0, ends = blocks - each * between; first <= ends; first++) {
      LayerSplit s = { .stages = p->stages };
      if (MAX(first, ends - first) > SPLIT_LAYERS_MAX)
        continue;
      memset(s.layers, each, p->stages);
      s.layers[0] = first;
      s.layers[p->stages - 1] = ends - first;
      offer(p, &s, best);
    }
}

static void offer_filled(const SplitProblem *p, Best *best)
{
  for (int ends = 0; ends < 2; ends++) {
    LayerSplit s = { 0 };
    if (split_fill(p->blocks, p->stages, ends, &s))
      offer(p, &s, best);
  }
}

static void offer_even(const SplitProblem *p, Best *best)
{
  LayerSplit s = { 0 };

  if (p->blocks % p->stages == 0 && split_fill(p->blocks, p->stages, 0, &s))
    offer(p, &s, best);
}

gboolean split_may_be(SplitKind kind, int blocks, int stages, int least_at_ends)
{
  const SplitProblem problem = { .blocks = blocks, .stages = stages, .least_at_ends = least_at_ends };

  return stages <= SPLIT_STAGES_MAX && needed(&problem) <= blocks && (kind > SPLITS_COSTS || blocks % stages == 0);
}

gboolean split_balance(const SplitProblem *p, SplitKind kind, LayerSplit *out)
{
  Best best = { .slowest = INFINITY };

  *out = (LayerSplit) { 0 };
  if (!split_may_be(kind, p->blocks, p->stages, p->least_at_ends))
    return FALSE;
  if (kind == SPLITS_ANY || (kind == SPLITS_ENDS && p->stages < 3))
    return balance_any(p, out);
  if (kind == SPLITS_ENDS)
    offer_ends(p, &best);
  else if (kind == SPLITS_FILL)
    offer_filled(p, &best);
  else
    offer_even(p, &best);
  *out = best.split;
  return isfinite(best.slowest);
}
