/* What a change of the hardware, or of how much of it there is, would do. */
#include "ask/knobs.h"
#include "ask/question.h"

#include "search/rounds.h"

#include <math.h>
#include <string.h>

/* ---- sensitivity ---- */

/* What each number is multiplied by. */
static const double factors[] = { 0.9, 1.1, 2 };
static const char *const factor_names[] = { "-10 %", "+10 %", "doubled" };
enum { MINUS, PLUS, DOUBLE, FACTORS };

static const AnswerColumn sensitivity_columns[] = {
  { "number", "<number", CELL_TEXT },
  { "step_change_minus", "same plan at -10 %", CELL_PERCENT }, { "step_change_plus", "at +10 %", CELL_PERCENT },
  { "step_change_double", "doubled", CELL_PERCENT },
  { "best_change_minus", "best plan at -10 %", CELL_PERCENT }, { "best_change_plus", "at +10 %", CELL_PERCENT },
  { "best_change_double", "doubled", CELL_PERCENT },
  { "plan_minus", NULL, CELL_TEXT }, { "plan_plus", NULL, CELL_TEXT }, { "plan_double", NULL, CELL_TEXT },
  { NULL, "<best plan changes", CELL_TEXT },
};

/* What one number does at each factor: shares of the step. */
typedef struct {
  char *title;
  double step[FACTORS], best[FACTORS];
  char *others[FACTORS]; /* "no", or the plan that wins */
} Effect;

static void effect_clear(gpointer effect)
{
  Effect *e = effect;

  g_free(e->title);
  for (int i = 0; i < FACTORS; i++)
    g_free(e->others[i]);
}

/* What is known of the parts of the space (SearchResult.bounds). NULL: nothing, on mixed nodes, whose devices a change
 * leaves alone, and where a device waits less for others the quicker it is. */
typedef struct {
  Floors *own;            /* on the cluster as it is, and what searches behind that say of any rates */
  const Floors *cheapest; /* where all that costs is less */
} Known;

/* What holds where a number is multiplied; `twice`: bounds where it is doubled, NULL = none. Where a device has more
 * memory other plans fit, which take no less than any plan. */
static Floors *floors_at(const Cluster *c, const Known *known, const Knob *knob, int tier, int at, const Floors *twice)
{
  Floors *floors = floors_new();

  if (known->own)
    floors_raise(floors, known->own, knob->room && at != MINUS ? FLOORS_AT_SHARE_ANY_MEMORY : FLOORS_AT_SHARE,
                 knob_floor_scale(c, knob, tier, factors[at]));
  if (known->cheapest && knob->costs && at == MINUS)
    floors_raise(floors, known->cheapest, FLOORS_AT_SHARE, 1);
  if (known->own && twice && !knob->costs && at == PLUS)
    floors_raise(floors, twice, FLOORS_AT_SHARE, knob_floor_scale(c, knob, tier, factors[PLUS] / factors[DOUBLE]));
  return floors;
}

/* Keeps what a search that changed the number says of searches that change others; `bounds` may be NULL. */
static void learn(const Known *known, const Knob *knob, const Floors *bounds)
{
  if (known->own && bounds)
    floors_raise(known->own, bounds, knob->room ? FLOORS_ANYWHERE : FLOORS_ANY_RATES, 0);
}

/* What a plan that was best elsewhere comes to: the first or, where that does not fit, another. */
static double known_of(const Asked *q, const Cluster *cluster, const GArray *winners, GArray *simulated)
{
  double known = 0;

  for (guint i = 0; i < winners->len && known == 0; i++)
    known = ask_known(q->model, cluster, q->options, &g_array_index(winners, Plan, i), i == 0, simulated);
  return known;
}

/* The best plan on a changed cluster, and the bounds there; `m`: what the plan that was best comes to. It, or a winner of
 * another search, is a plan to beat if it is of the space there too. FALSE: none fits. */
static gboolean best_there(const Asked *q, const Cluster *cluster, const Floors *floors, const GArray *winners,
                           Metrics *m, Found *out, Floors **bounds)
{
  g_autoptr(GArray) simulated = g_array_new(FALSE, FALSE, sizeof(Simulation));
  SearchOptions o = *q->options;

  *m = *simulation_among(simulated, q->model, cluster, &g_array_index(winners, Plan, 0));
  o.floors = floors->parts->len > 0 ? floors : NULL;
  o.known = known_of(q, cluster, winners, simulated);
  o.simulated = simulated;
  return ask_bounded(q->model, cluster, &o, out, bounds);
}

/* Those that differ in their split alone are one. */
static void add_winner(GArray *winners, const Plan *plan)
{
  Plan same = *plan;

  for (guint i = 0; i < winners->len; i++) {
    const Plan *other = &g_array_index(winners, Plan, i);
    memcpy(&same.split, &other->split, sizeof same.split);
    if (memcmp(&same, other, sizeof same) == 0)
      return;
  }
  g_array_append_vals(winners, plan, 1);
}

/* Bounds of a search in which each number that costs is less: they hold where one of them is. */
static Floors *cheapest_bounds(const Asked *q, const GArray *winners, const Floors *own)
{
  g_autoptr(Floors) floors = floors_new();
  Floors *bounds = NULL;
  Cluster cluster = *q->cluster;
  double slowdown = cluster.tiers[0].link.compute_slowdown;
  Metrics m;
  Found found;

  for (int k = 0; knobs[k].title; k++)
    for (int tier = 0; tier < (knobs[k].of_tier ? cluster.n_tiers : 1) && knobs[k].costs; tier++)
      knobs[k].scale(&cluster, tier, factors[MINUS]);
  floors_raise(floors, own, FLOORS_AT_SHARE, factors[MINUS] * cluster.tiers[0].link.compute_slowdown / slowdown);
  best_there(q, &cluster, floors, winners, &m, &found, &bounds);
  return bounds;
}

static gboolean same_cluster(const Cluster *a, const Cluster *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

static char *effect_title(const Cluster *c, const Knob *knob, int tier)
{
  if (!knob->of_tier)
    return g_strdup(knob->title);
  return knob->behind ? g_strdup_printf("%s %s %s", knob->title, c->tiers[tier].name, knob->behind)
                      : g_strdup_printf("%s %s", c->tiers[tier].name, knob->title);
}

/* Twice as much is searched before a little more, which it bounds, unless both are at a limit. A plan whose split of
 * layers other rates do not make may be better there than all that the space has. */
static Effect effect_of(const Asked *q, const Found *best, GArray *winners, const Known *known, const Knob *knob, int tier)
{
  double step = best->metrics.iteration_s;
  Effect e = { .title = effect_title(q->cluster, knob, tier) };
  g_autofree char *label = plan_label(&best->plan);
  g_autoptr(Floors) twice = NULL;
  Cluster clusters[FACTORS];

  for (int i = 0; i < FACTORS; i++) {
    clusters[i] = *q->cluster;
    knob->scale(&clusters[i], tier, factors[i]);
  }
  gboolean limit = same_cluster(&clusters[PLUS], &clusters[DOUBLE]);
  const int order[FACTORS] = { MINUS, limit ? PLUS : DOUBLE, limit ? DOUBLE : PLUS };
  for (int k = 0; k < FACTORS; k++) {
    int i = order[k];
    const Cluster *cluster = &clusters[i];
    Found found;
    Metrics m;
    if (same_cluster(cluster, q->cluster) || stop_asked(q->options->stop)) {
      e.others[i] = g_strdup("no");
      continue;
    }
    if (limit && i == DOUBLE) {
      e.step[i] = e.step[PLUS];
      e.best[i] = e.best[PLUS];
      e.others[i] = g_strdup(e.others[PLUS]);
      continue;
    }
    g_autoptr(Floors) floors = floors_at(cluster, known, knob, tier, i, twice), bounds = NULL;
    gboolean fits = best_there(q, cluster, floors, winners, &m, &found, &bounds);
    if (fits)
      add_winner(winners, &found.plan);
    learn(known, knob, bounds);
    if (i == DOUBLE)
      twice = g_steal_pointer(&bounds);
    gboolean runs = m.peak_memory_bytes <= m.capacity_bytes;
    gboolean stays = runs && (!fits || m.iteration_s <= found.metrics.iteration_s);
    g_autofree char *other = fits ? plan_label(&found.plan) : g_strdup("none fits");
    e.step[i] = runs ? m.iteration_s / step - 1 : NAN;
    e.best[i] = stays ? e.step[i] : fits ? found.metrics.iteration_s / step - 1 : NAN;
    e.others[i] = g_strdup(stays || g_str_equal(other, label) ? "no" : other);
  }
  return e;
}

static void add_effect(Answer *a, const Effect *e)
{
  g_autoptr(GString) others = g_string_new(NULL);

  answer_add_text(a, e->title);
  for (int i = 0; i < FACTORS; i++)
    answer_add(a, e->step[i]);
  for (int i = 0; i < FACTORS; i++)
    answer_add(a, e->best[i]);
  for (int i = 0; i < FACTORS; i++) {
    answer_add_text(a, e->others[i]);
    if (!g_str_equal(e->others[i], "no"))
      g_string_append_printf(others, "%s%s: %s", others->len ? "; " : "", factor_names[i], e->others[i]);
  }
  answer_add_text(a, others->len ? others->str : "no");
}

/* Shares of the step below this are not worth a sentence. */
#define GAIN_SAID 0.0005

/* Which number gains the best plan most at a factor. */
static const Effect *strongest(const GArray *effects, int factor)
{
  const Effect *most = NULL;

  for (guint i = 0; i < effects->len; i++) {
    const Effect *e = &g_array_index(effects, Effect, i);
    if (e->best[factor] < (most ? most->best[factor] : -GAIN_SAID))
      most = e;
  }
  return most;
}

static void say_slot(GString *s, const Cluster *c)
{
  double slot = device_slot_bytes_per_s(&c->device);

  if (c->network_tier >= 0 && factors[DOUBLE] * c->tiers[c->network_tier].bytes_per_s > slot)
    g_string_append_printf(s, " The network cannot exceed the GPU's slot, %.3g GB/s.", slot / 1e9);
}

/* Effects of all numbers; a stop leaves those before it. */
static void add_effects(const Asked *q, const Found *best, GArray *winners, const Known *known, GArray *effects)
{
  for (int k = 0; knobs[k].title; k++)
    for (int tier = 0; tier < (knobs[k].of_tier ? q->cluster->n_tiers : 1); tier++) {
      Effect e = effect_of(q, best, winners, known, &knobs[k], tier);
      if (stop_heard(q->options->stop)) {
        effect_clear(&e);
        return;
      }
      g_array_append_val(effects, e);
    }
}

static void say_strongest(GString *s, const GArray *effects)
{
  const Effect *more = strongest(effects, PLUS), *twice = strongest(effects, DOUBLE);

  if (more)
    g_string_append_printf(s, " The largest gain of +10 %%: %s, %.1f %%.", more->title, -100 * more->best[PLUS]);
  if (twice)
    g_string_append_printf(s, " The largest gain of doubling: %s, %.1f %%.", twice->title, -100 * twice->best[DOUBLE]);
}

Answer *answer_sensitivity(const Asked *q)
{
  Answer *a = answer_new(sensitivity_columns, G_N_ELEMENTS(sensitivity_columns));
  SearchOptions options = *q->options;
  Asked asked = { q->model, q->cluster, &options, 0, q->accuracy };
  g_autoptr(GArray) effects = g_array_new(FALSE, FALSE, sizeof(Effect));
  g_autoptr(GArray) winners = g_array_new(FALSE, FALSE, sizeof(Plan)); /* the first: of the cluster as it is */
  g_autoptr(Floors) bounds = NULL, cheapest = NULL;
  Known known = { 0 };
  Found best;

  options.refine = FALSE; /* what is best is to be best in one space each time */
  if (!ask_bounded(q->model, q->cluster, &options, &best, &bounds)) {
    gboolean stopped = stop_heard(options.stop);
    g_string_assign(a->says, stopped ? "Stopped before any plan that fits was found." : "No plan fits.");
    return a;
  }
  g_array_append_val(winners, best.plan);
  if (options.objective == &objectives[0] && q->cluster->device.rate_jitter == 0 && q->cluster->n_types == 0) {
    known.own = bounds;
    known.cheapest = cheapest = cheapest_bounds(&asked, winners, bounds);
  }
  g_array_set_clear_func(effects, effect_clear);
  answer_draw(a, -1, 0, 1 + FACTORS + PLUS);
  add_effects(&asked, &best, winners, &known, effects);
  const Result r = ask_result(q, q->model, &best);
  g_autofree char *label = plan_label(&best.plan), *step = result_step_text(&r);
  g_string_printf(a->says,
                  "How the step of the best plan (%s, %s) changes when one number of the hardware changes: of the same plan, and "
                  "of the plan that is best then.", label, step);
  if (stop_heard(options.stop))
    g_string_append_printf(a->says, " Stopped: %u numbers were changed, and the plan may not be the best.",
                           effects->len);
  say_strongest(a->says, effects);
  say_slot(a->says, q->cluster);
  for (guint i = 0; i < effects->len; i++)
    add_effect(a, &g_array_index(effects, Effect, i));
  return a;
}

/* ---- scaling ---- */

enum { SCALING_KIND, SCALING_GPUS, SCALING_RATE = 8 }; /* columns that are drawn */

static const AnswerColumn scaling_columns[] = {
  { "scaling", "<scaling", CELL_TEXT }, { "gpus", "GPUs", CELL_INT }, { "global_batch_size", "batch", CELL_INT },
  { "iteration_s", "step", CELL_SECONDS }, INTERVAL_COLUMNS, FIT_COLUMN, { "tokens_per_s", "tokens/s", CELL_REAL },
  { "tokens_per_s_per_gpu", "tokens/s/GPU", CELL_REAL }, { "efficiency", "tokens/s/GPU, change", CELL_PERCENT },
  { "plan", "<plan", CELL_TEXT },
};

/* A row, unless a stop came before any plan was found for it; tokens a second of a device. `own`: the best plan of the
 * cluster as it is, NULL = none. */
static double add_scaled(Answer *a, const Asked *q, gboolean weak, int factor, const Found *own, double first)
{
  Plan base = *q->options->base;
  SearchOptions o = *q->options;
  int gpus = q->cluster->devices * factor;
  Result r;
  Found f = own ? *own : (Found) { 0 };

  base.global_batch *= weak ? factor : 1;
  o.base = &base;
  gboolean found = factor == 1 ? own != NULL : ask_best(q->model, q->cluster, &o, gpus, &f);
  if (!found && stop_heard(o.stop))
    return NAN;
  g_autofree char *label = found ? plan_label(&f.plan) : g_strdup("none");
  if (found)
    r = ask_result(q, q->model, &f);
  double rate = found ? (double)base.global_batch * base.seq / f.metrics.iteration_s : NAN;
  answer_add_text(a, weak ? "weak" : "strong");
  answer_add(a, gpus);
  answer_add(a, base.global_batch);
  answer_add(a, found ? f.metrics.iteration_s : NAN);
  answer_add_interval(a, found ? &r : NULL);
  answer_add_fit(a, found ? &r : NULL);
  answer_add(a, rate);
  answer_add(a, rate / gpus);
  answer_add(a, factor == 1 ? 0 : rate / gpus / first - 1);
  answer_add_text(a, label);
  return rate / gpus;
}

Answer *answer_scaling(const Asked *q)
{
  Answer *a = answer_new(scaling_columns, G_N_ELEMENTS(scaling_columns));
  Found own;
  gboolean found = ask_best(q->model, q->cluster, q->options, q->cluster->devices, &own);

  answer_draw(a, SCALING_KIND, SCALING_GPUS, SCALING_RATE);
  g_string_printf(a->says,
                  "The best plan on 1 to 16 times %d GPUs: strong scaling keeps the global batch, weak scaling keeps "
                  "the batch of a GPU. Changes are against %d GPUs.", q->cluster->devices, q->cluster->devices);
  for (int weak = 0; weak < 2; weak++) {
    double first = NAN;
    for (int factor = 1; factor <= 16 && !stop_asked(q->options->stop); factor *= 2) {
      double rate = add_scaled(a, q, weak, factor, found ? &own : NULL, first);
      first = factor == 1 ? rate : first;
    }
  }
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}
