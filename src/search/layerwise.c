#include "search/layerwise.h"

#include "plan/plan.h"

#include <math.h>
#include <string.h>

double layerwise_seconds(const LayerwiseProblem *p, const int *choice)
{
  double seconds = 0;
  int before = p->outside;

  for (int layer = 0; layer < p->layers; layer++) {
    seconds += p->change_s[before * p->strategies + choice[layer]] + p->seconds[layer * p->strategies + choice[layer]];
    before = choice[layer];
  }
  return seconds + p->change_s[before * p->strategies + p->outside];
}

double layerwise_bytes(const LayerwiseProblem *p, const int *choice)
{
  double bytes = 0;

  for (int layer = 0; layer < p->layers; layer++)
    bytes += p->bytes[layer * p->strategies + choice[layer]];
  return bytes;
}

/* ---- the solver ---- */

typedef struct {
  double seconds, bytes;
  int strategy, before; /* before: label of the layer before, -1 = none */
} Label;

static int by_bytes(gconstpointer a, gconstpointer b)
{
  const Label *x = a, *y = b;

  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? -1 : 1;
  if (x->seconds != y->seconds)
    return x->seconds < y->seconds ? -1 : 1;
  return (x->before > y->before) - (x->before < y->before);
}

/* Appends those labels that no other beats in both. */
static void keep_best(GArray *from, GArray *to)
{
  double least = INFINITY;

  g_array_sort(from, by_bytes);
  for (guint i = 0; i < from->len; i++) {
    const Label *l = &g_array_index(from, Label, i);
    if (l->seconds >= least)
      continue;
    least = l->seconds;
    g_array_append_vals(to, l, 1);
  }
}

/* What labels are held against: no choice that goes on from one takes less than its seconds, the rest's seconds and
 * price x bytes, less price x the room that is left (Lagrange); `seconds` are some choice's that fits. */
typedef struct {
  double price, seconds;
  double *rest; /* [layer][strategy before]: least of seconds + price x bytes from the layer on */
} Bound;

#define ROUNDING 1e-9 /* of sums in another order */

static gboolean may_take(const LayerwiseProblem *p, int strategy)
{
  return !p->barred || !p->barred[strategy];
}

/* From the last layer to the first; `choice` gets what comes to the least. */
static void fill_rest(const LayerwiseProblem *p, Bound *b, double price, int *choice, int *next)
{
  int n = p->strategies;

  for (int s = 0; s < n; s++)
    b->rest[p->layers * n + s] = p->change_s[s * n + p->outside];
  for (int layer = p->layers - 1; layer >= 0; layer--)
    for (int s = 0; s < n; s++) {
      double *least = &b->rest[layer * n + s];
      *least = INFINITY;
      for (int t = 0; t < n; t++) {
        int at = layer * n + t;
        double sum = p->change_s[s * n + t] + p->seconds[at] + price * p->bytes[at] + b->rest[at + n];
        if (may_take(p, t) && sum < *least) {
          *least = sum;
          next[layer * n + s] = t;
        }
      }
    }
  for (int layer = 0, s = p->outside; layer < p->layers && isfinite(b->rest[p->outside]); layer++)
    choice[layer] = s = next[layer * n + s];
  b->price = price;
}

/* Fills for a price; returns whether what comes to the least fits. */
static gboolean try_price(const LayerwiseProblem *p, Bound *b, double price, int *choice, int *next)
{
  fill_rest(p, b, price, choice, next);
  if (!isfinite(b->rest[p->outside]) || layerwise_bytes(p, choice) > p->room)
    return FALSE;
  b->seconds = fmin(b->seconds, layerwise_seconds(p, choice));
  return TRUE;
}

/* The first layers as one choice has them, the others as another. */
static void try_mixtures(const LayerwiseProblem *p, Bound *b, const int *first, const int *others)
{
  g_autofree int *choice = g_memdup2(others, p->layers * sizeof *others);

  for (int i = 0; i < p->layers; i++) {
    choice[i] = first[i];
    if (layerwise_bytes(p, choice) <= p->room)
      b->seconds = fmin(b->seconds, layerwise_seconds(p, choice));
  }
}

/* With the price that bounds best, as far as halving finds it. */
static void find_bound(const LayerwiseProblem *p, Bound *b)
{
  g_autofree int *small = g_new0(int, p->layers + 1), *large = g_new0(int, p->layers + 1);
  g_autofree int *choice = g_new0(int, p->layers + 1), *next = g_new0(int, p->layers * p->strategies + 1);
  double low = 0, high, best = -INFINITY, price = 0;

  b->seconds = INFINITY;
  if (try_price(p, b, 0, large, next) || !isfinite(b->rest[p->outside]) || p->room <= 0)
    return;
  high = b->rest[p->outside] / p->room;
  for (int i = 0; i < 60 && !try_price(p, b, high, small, next); i++)
    high *= 2;
  for (int i = 0; i < 40 && !stop_asked(p->stop); i++) {
    double middle = (low + high) / 2;
    gboolean fits = try_price(p, b, middle, choice, next);
    double bound = b->rest[p->outside] - middle * p->room;
    *(fits ? &high : &low) = middle;
    memcpy(fits ? small : large, choice, p->layers * sizeof *choice);
    if (bound > best) {
      best = bound;
      price = middle;
    }
  }
  try_mixtures(p, b, small, large);
  try_mixtures(p, b, large, small);
  fill_rest(p, b, price, choice, next);
}

/* Labels of a layer under one strategy, from those before[first..end). */
static void extend(const LayerwiseProblem *p, const Bound *b, int layer, int strategy, const GArray *labels, int first,
                   int end, GArray *scratch)
{
  int at = layer * p->strategies + strategy;
  double rest = b->rest[at + p->strategies], most = b->seconds + ROUNDING * (fabs(b->seconds) + b->price * p->room);

  for (int i = first; i < end; i++) {
    const Label *l = &g_array_index(labels, Label, i);
    Label next = { l->seconds + p->change_s[l->strategy * p->strategies + strategy] + p->seconds[at],
                   l->bytes + p->bytes[at], strategy, i };
    if (next.bytes <= p->room && next.seconds + rest - b->price * (p->room - next.bytes) <= most)
      g_array_append_val(scratch, next);
  }
}

/* Whether what comes behind a layer takes the same under either. */
static gboolean change_alike(const LayerwiseProblem *p, int s, int t)
{
  return memcmp(p->change_s + s * p->strategies, p->change_s + t * p->strategies,
                p->strategies * sizeof *p->change_s) == 0;
}

/* The first strategy of each that changes alike. */
static int *find_layouts(const LayerwiseProblem *p)
{
  int *layout = g_new(int, p->strategies);

  for (int s = 0; s < p->strategies; s++) {
    layout[s] = 0;
    while (!change_alike(p, layout[s], s))
      layout[s]++;
  }
  return layout;
}

/* Labels of a layer: of those whose layouts are alike, the ones that no other beats in both. */
static void extend_all(const LayerwiseProblem *p, const Bound *b, int layer, const int *layout, GArray *labels,
                       int first, GArray *scratch)
{
  int end = labels->len;

  for (int s = 0; s < p->strategies; s++) {
    g_array_set_size(scratch, 0);
    for (int t = s; t < p->strategies && layout[s] == s; t++)
      if (layout[t] == s && may_take(p, t))
        extend(p, b, layer, t, labels, first, end, scratch);
    keep_best(scratch, labels);
  }
}

gboolean layerwise_solve(const LayerwiseProblem *p, int *choice, double *seconds)
{
  g_autoptr(GArray) labels = g_array_new(FALSE, FALSE, sizeof(Label));
  g_autoptr(GArray) scratch = g_array_new(FALSE, FALSE, sizeof(Label));
  g_autofree int *layout = find_layouts(p);
  g_autofree double *rest = g_new(double, (p->layers + 1) * p->strategies);
  Bound bound = { 0, INFINITY, rest };
  Label start = { 0, 0, p->outside, -1 };
  int first = 0, best = -1;

  find_bound(p, &bound);
  g_array_append_val(labels, start);
  for (int layer = 0; layer < p->layers; layer++) {
    int end = labels->len;
    if (stop_asked(p->stop))
      return FALSE;
    extend_all(p, &bound, layer, layout, labels, first, scratch);
    first = end;
  }
  *seconds = INFINITY;
  for (int i = first; i < (int)labels->len; i++) {
    const Label *l = &g_array_index(labels, Label, i);
    double whole = l->seconds + p->change_s[l->strategy * p->strategies + p->outside];
    if (whole < *seconds) {
      *seconds = whole;
      best = i;
    }
  }
  for (int layer = p->layers - 1, i = best; i >= 0 && layer >= 0; layer--) {
    choice[layer] = g_array_index(labels, Label, i).strategy;
    i = g_array_index(labels, Label, i).before;
  }
  return best >= 0;
}

void layerwise_problem_free(LayerwiseProblem *p)
{
  if (!p)
    return;
  g_free(p->seconds);
  g_free(p->bytes);
  g_free(p->change_s);
  g_free(p->pass_s);
  g_free(p);
}

/* ---- communicators ---- */

#define DEGREES_MAX 32

/* The tensor degrees of a stage's strategies, the plan's own, the first variant's, first. */
typedef struct {
  int n, of[DEGREES_MAX];
  double bytes[DEGREES_MAX]; /* of communicators; the own ones are counted with the plan */
} Degrees;

static int degree_at(const Degrees *d, int tp)
{
  int i = 0;

  while (i < d->n && d->of[i] != tp)
    i++;
  return i;
}

static Degrees find_degrees(const GArray *variants)
{
  Degrees d = { 0 };

  for (guint i = 0; i < variants->len; i++) {
    const Layout layout = layout_of(&g_array_index(variants, Plan, i));
    int at = degree_at(&d, layout.passes.tp);
    g_assert(at < DEGREES_MAX);
    d.n = MAX(d.n, at + 1);
    d.of[at] = layout.passes.tp;
    d.bytes[at] = at == 0 ? 0 : MAX(d.bytes[at], op_layer_groups(&layout) * layout.passes.framework->group_bytes);
  }
  return d;
}

static guint taken_degrees(const LayerwiseProblem *p, const GArray *variants, const Degrees *d, const int *choice)
{
  guint taken = 0;

  for (int i = 0; i < p->layers; i++)
    taken |= 1u << degree_at(d, g_array_index(variants, Plan, choice[i]).tp);
  return taken;
}

static double group_bytes(const Degrees *d, guint degrees)
{
  double bytes = 0;

  for (int i = 0; i < d->n; i++)
    bytes += degrees >> i & 1 ? d->bytes[i] : 0;
  return bytes;
}

typedef struct {
  const LayerwiseProblem *problem;
  const GArray *variants;
  Degrees degrees;
  gboolean *barred;
  int *best; /* the best choice so far */
  double best_s;
} StageSearch;

/* With the degrees that must be paid for and without those that are barred; of one that the best then takes beside
 * these, both: paid for, and barred. What such a part can do at best is what it does where the others are free. */
static void solve_part(StageSearch *s, guint paid, guint barred)
{
  LayerwiseProblem p = *s->problem;
  g_autofree int *choice = g_new0(int, MAX(p.layers, 1));
  double seconds;

  for (int i = 0; i < p.strategies; i++)
    s->barred[i] = barred >> degree_at(&s->degrees, g_array_index(s->variants, Plan, i).tp) & 1;
  p.barred = s->barred;
  p.room -= group_bytes(&s->degrees, paid);
  if (!layerwise_solve(&p, choice, &seconds) || seconds >= s->best_s)
    return;
  guint taken = taken_degrees(&p, s->variants, &s->degrees, choice);
  if (layerwise_bytes(&p, choice) <= s->problem->room - group_bytes(&s->degrees, taken)) {
    memcpy(s->best, choice, p.layers * sizeof *choice);
    s->best_s = seconds;
    return;
  }
  int open = g_bit_nth_lsf(taken & ~paid & ~1u, -1);
  if (open < 0) /* a stage without layers, and no room */
    return;
  solve_part(s, paid | 1u << open, barred);
  solve_part(s, paid, barred | 1u << open);
}

gboolean layerwise_solve_stage(const LayerwiseProblem *p, const GArray *variants, int *choice, double *seconds)
{
  g_autofree gboolean *barred = g_new0(gboolean, MAX(p->strategies, 1));
  StageSearch s = { p, variants, find_degrees(variants), barred, choice, INFINITY };

  solve_part(&s, 0, 0);
  *seconds = s.best_s;
  return isfinite(s.best_s) && !stop_heard(p->stop);
}

double layerwise_stage_bytes(const LayerwiseProblem *p, const GArray *variants, const int *choice)
{
  const Degrees d = find_degrees(variants);

  return p->fixed_bytes + layerwise_bytes(p, choice) + group_bytes(&d, taken_degrees(p, variants, &d, choice));
}

StageTime layerwise_stage_time(const LayerwiseProblem *p, const int *choice, int micro_batches)
{
  StageTime t = { p->end_pass_s, p->end_once_s };
  double passes = 0, changes = layerwise_seconds(p, choice), once = 0;

  for (int layer = 0; layer < p->layers; layer++) {
    int at = layer * p->strategies + choice[layer];
    passes += p->pass_s[at];
    once += p->seconds[at] - micro_batches * p->pass_s[at];
    changes -= p->seconds[at];
  }
  t.pass_s += passes + MAX(changes, 0) / micro_batches;
  t.once_s += once;
  return t;
}

double layerwise_step_s(const Layout *layout, const StageTime *stages)
{
  const ScheduleShape *shape = &layout->pipeline.shape;
  double most = 0, sum = 0, once = 0;

  for (int i = 0; i < layout->pipeline.cut.stages; i++) {
    most = MAX(most, stages[i].pass_s);
    sum += stages[i].pass_s;
    once = MAX(once, stages[i].once_s);
  }
  /* chunks of a rank take turns: a rank's share of the passes, the stages one after the other */
  return (shape->micro * most * shape->chunks - most) + sum + once * shape->chunks + layout->passes.framework->step_s;
}

gboolean layerwise_append(const LayerwiseProblem *p, const int *choice, const GArray *variants, LayerStrategies *out)
{
  for (int i = 0; i < p->layers; i++) {
    StrategyRun run = plan_run(&g_array_index(variants, Plan, choice[i]));
    run.layers = 1;
    if (!strategies_append(out, run))
      return FALSE;
  }
  return TRUE;
}
