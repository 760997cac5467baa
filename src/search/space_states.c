/* What may become of states in the space: ZeRO, groups over which it divides, what goes to the host, formats. */
#include "search/space.h"

#include "layout/layout.h"
#include "search/excluded.h"

/* Whether a framework has no plan with a feature, whatever else it has. */
static gboolean excludes_alone(const Framework *f, Feature feature)
{
  for (guint i = 0; f->excludes && i < f->excludes->len; i++)
    if (g_array_index(f->excludes, Exclusion, i).features == (guint64)1 << feature)
      return TRUE;
  return FALSE;
}

gboolean space_can(const Framework *f, SpaceExtra extra)
{
  guint host = 1u << CHOICE_OFFLOAD_OPTIMIZER | 1u << CHOICE_OFFLOAD_PARAMETERS | 1u << CHOICE_OFFLOAD_ACTIVATIONS;
  guint zero_pp = 1u << CHOICE_HPZ | 1u << CHOICE_QWZ | 1u << CHOICE_QGZ;
  guint moments = 1u << STATE_EXP_AVG | 1u << STATE_EXP_AVG_SQ;

  switch (extra) {
  case SPACE_OFFLOAD:
    return (f->choices & host) != 0;
  case SPACE_ZERO_PP:
    return (f->choices & zero_pp) == zero_pp;
  case SPACE_STATES:
    return (f->state_formats & moments) == moments && !excludes_alone(f, FEATURE_PARTED_STATES);
  case SPACE_ORDER:
    return f->tp_pp_dp;
  default:
    return f->context != 0;
  }
}

typedef struct {
  const SearchOptions *options;
  const Model *model;
  const Cluster *cluster;
} Asked;

/* Of the plan's ranks that hold the same weights. */
static GroupShape replicas_of(const Asked *w, const Plan *plan)
{
  const Layout layout = layout_of(plan);
  return state_group(&layout, w->cluster, FALSE, RANKS_REPLICAS);
}

/* Of a stage, the fixed number of ranks, or so many as its framework divides over. */
static int most_shards(const Asked *w, const Plan *plan, int zero)
{
  int fixed = w->options->fixed.value[KEY_SHARD_GROUP];
  Plan with = *plan;

  if (zero > 0 && fixed >= 0)
    return fixed;
  with.zero = zero;
  return zero > 0 ? excluded_shards(&with, w->model, w->cluster) : 0;
}

/* Ranks that ZeRO may divide over: all (0), or as many as the framework can, and those of a node; or the fixed number. */
static int shard_groups(const Asked *w, const Plan *plan, int zero, int groups[2])
{
  int fixed = w->options->fixed.value[KEY_SHARD_GROUP], network = w->cluster->network_tier;
  GroupShape replicas = replicas_of(w, plan);
  int inside = network > 0 ? replicas.per_domain[network - 1] : 1;

  groups[0] = most_shards(w, plan, zero);
  groups[1] = inside;
  return zero > 0 && fixed < 0 && plan->framework->shard_groups && inside > 1 && inside < replicas.size &&
                 inside != groups[0] && replicas.size % inside == 0
             ? 2
             : 1;
}

/* In the order of what --fix takes. */
static const Offload offloads[] = {
  { .optimizer = STORE_DEVICE },
  { .optimizer = STORE_CPU },
  { .optimizer = STORE_CPU, .parameters = STORE_CPU },
  { .optimizer = STORE_NVME, .parameters = STORE_NVME },
};

/* Whether plans may keep states on the device: also with activations on the host. */
static gboolean may_stay(const Asked *w, const Plan *plan)
{
  guint activations = 1u << CHOICE_OFFLOAD_ACTIVATIONS | 1u << CHOICE_OFFLOAD_LAYERS;

  return !(w->options->space & SPACE_HOST_ALONE) || plan->framework->choices & activations;
}

/* Whether the space has plans of this stage and offload: none on the host unless it is asked for. */
static gboolean offers(const Asked *w, const Plan *plan, int zero, int offload)
{
  const Fixed *f = &w->options->fixed;
  Plan with = *plan;
  gboolean runs = TRUE;

  /* on one rank a stage only says what leaves it: gradients, and weights */
  if (!plan_has_replicas(plan) && zero > 0 && zero != (offload >= 2 ? 3 : offload == 1 ? 2 : 0))
    return FALSE;
  if (f->value[KEY_OFFLOAD] >= 0)
    return f->value[KEY_OFFLOAD] == offload;
  with.zero = zero;
  with.offload = offloads[offload];
  for (int choice = CHOICE_OFFLOAD_OPTIMIZER; choice < CHOICE_COUNT; choice++)
    runs &= !plan_takes(&with, choice) || framework_offers(plan->framework, choice);
  if (offload == 0)
    return may_stay(w, plan);
  return w->options->space & SPACE_OFFLOAD && runs &&
         (offload == 1 ? zero > 0 || !plan_has_replicas(plan) : zero == 3);
}

/* Ranks of a node that may share ZeRO++'s second copy, 0 = none. */
static int secondary_ranks(const Asked *w, const Plan *plan)
{
  int network = w->cluster->network_tier;
  GroupShape replicas = replicas_of(w, plan);
  int inside = network > 0 ? replicas.per_domain[network - 1] : 1;
  gboolean may = w->options->space & SPACE_ZERO_PP && space_can(plan->framework, SPACE_ZERO_PP);

  gboolean divides = inside > 1 && inside < replicas.size && replicas.size % inside == 0;
  return may && divides && !plan_experts_apart(plan) ? inside : 0;
}

/* Formats of Adam's states on demand: fp32, moments in bf16, and beside these master weights as remainders. Formats of
 * gradients are not among them: passes accumulate in these. */
static const struct {
  StateFormat moments;
  gboolean remainders;
} state_formats[] = { { FORMAT_USUAL, FALSE }, { FORMAT_USUAL, FALSE }, { FORMAT_BF16, FALSE }, { FORMAT_BF16, TRUE } };

/* The formats that the space has: the base plan's, or all from the second on. */
static int first_formats(const Asked *w, const Plan *plan, int *end)
{
  gboolean adam = plan->optimizer.name == OPTIMIZER_ADAM || plan->optimizer.name == OPTIMIZER_ADAMW;
  gboolean may = w->options->space & SPACE_STATES && adam && space_can(plan->framework, SPACE_STATES);
  gboolean remainders = plan->framework->state_formats >> STATE_MAIN_PARAMS & 1 && plan->precision == DTYPE_BF16;

  *end = !may ? 1 : remainders ? (int)G_N_ELEMENTS(state_formats) : (int)G_N_ELEMENTS(state_formats) - 1;
  return may ? 1 : 0;
}

static void choose_formats(Optimizer *o, int choice)
{
  if (choice == 0)
    return;
  o->formats[STATE_EXP_AVG] = o->formats[STATE_EXP_AVG_SQ] = state_formats[choice].moments;
  o->remainders = state_formats[choice].remainders;
}

/* But for how weights are gathered. */
static Plan plan_with(const Plan *plan, const StateChoice *state)
{
  Plan with = *plan;

  with.param_gather = GATHER_USUAL;
  with.zero = state->zero;
  with.sharding.keeps_gathered = state->kept;
  with.offload = offloads[state->offload];
  choose_formats(&with.optimizer, state->formats);
  return with;
}

/* Whether weights on the device may stay gathered for the backward, as the framework divides them over other ranks. */
static gboolean may_keep(const Plan *plan, int zero, int offload)
{
  return zero == 3 && framework_offers(plan->framework, CHOICE_RESHARD) && plan_has_replicas(plan) &&
         !offloads[offload].parameters;
}

/* Whether a state is that of stage 0 under another name: on one rank ZeRO-2 says that gradients leave as they are made,
 * which they do not everywhere. A stage that is fixed is kept. */
static gboolean is_named_twice(const Asked *w, const Plan *plan, const StateChoice *state)
{
  const Plan with = plan_with(plan, state);

  if (plan_has_replicas(plan) || state->zero != 2 || w->options->fixed.value[KEY_ZERO] == 2)
    return FALSE;
  const Layout layout = layout_of(&with);
  return !layout.states[0].drops_gradients;
}

/* Weights are gathered in 8 bits wherever they can be, which never takes longer or more than 16. Returns whether the
 * state is of what is fixed. */
static gboolean choose_gather(const Asked *w, const Plan *plan, StateChoice *state)
{
  int fixed = w->options->fixed.value[KEY_PARAM_GATHER];
  const Plan with = plan_with(plan, state);

  gboolean can = plan_can_gather_narrow(&with), narrow = can && fixed != 0;
  if (narrow != plan_gathers_narrow(&with))
    state->gather = narrow ? GATHER_NARROW : GATHER_WIDE;
  return can || fixed != 1;
}

/* Whether plans that keep gathered weights, or do not, are left out. */
static gboolean fixed_otherwise(const Asked *w, gboolean kept)
{
  return w->options->fixed.value[KEY_RESHARD] == kept; /* 1: weights are given back */
}

/* Those of a stage that keep gathered weights or do not. Returns how many states there are then. */
static int add_states(const Asked *w, const Plan *plan, int zero, gboolean kept, StateChoice *states, int n_states)
{
  int groups[2], end, first = first_formats(w, plan, &end), n = shard_groups(w, plan, zero, groups);

  if (fixed_otherwise(w, kept))
    return n_states;
  for (int g = 0; g < n; g++)
    for (int offload = 0; offload < (int)G_N_ELEMENTS(offloads); offload++)
      if (offers(w, plan, zero, offload) && (!kept || may_keep(plan, zero, offload)))
        for (int formats = first; formats < end; formats++)
          states[n_states++] = (StateChoice) { .zero = zero, .offload = offload, .formats = formats,
                                               .shard_group = groups[g], .kept = kept };
  return n_states;
}

int space_states(const SearchOptions *options, const Model *model, const Cluster *cluster, const Plan *plan,
                 StateChoice *states)
{
  const Asked asked = { options, model, cluster }, *w = &asked;
  const Fixed *f = &options->fixed;
  int n_states = 0, n_chosen = 0, secondary = secondary_ranks(w, plan), end, first = first_formats(w, plan, &end);

  /* stages x groups x offloads, of ZeRO-3 also kept, and with a second copy, x formats */
  G_STATIC_ASSERT((5 * 2 * G_N_ELEMENTS(offloads) + 1) * (G_N_ELEMENTS(state_formats) - 1) <= STATE_CHOICES);
  for (int zero = 0; zero <= 3; zero++) {
    if (f->value[KEY_ZERO] >= 0 && f->value[KEY_ZERO] != zero)
      continue;
    n_states = add_states(w, plan, zero, TRUE, states, n_states);
    n_states = add_states(w, plan, zero, FALSE, states, n_states);
    for (int formats = first; formats < end && zero == 3 && secondary > 0 && !fixed_otherwise(w, FALSE); formats++)
      states[n_states++] = (StateChoice) { .zero = zero, .offload = MAX(f->value[KEY_OFFLOAD], 0), .formats = formats,
                                           .shard_group = most_shards(w, plan, zero), .secondary = secondary };
  }
  for (int i = 0; i < n_states; i++)
    if (!is_named_twice(w, plan, &states[i]) && choose_gather(w, plan, &states[i]))
      states[n_chosen++] = states[i];
  return n_chosen;
}

void space_choose(Plan *plan, const PassChoice *pass, const StateChoice *state)
{
  const PlanKey *const *keys = plan_pass_switches();

  plan->sequence_parallel = pass->sequence_parallel;
  plan->recompute = pass->recompute;
  plan->scope.method = pass->recompute_layers ? RECOMPUTE_BLOCK : RECOMPUTE_UNIFORM;
  plan->scope.layers = pass->recompute_layers;
  plan->scope.modules = pass->modules;
  plan->overlap.exchange = pass->exchange;
  plan->graph = pass->graph;
  plan->graph_modules = pass->graph_modules;
  for (int i = 0; keys[i]; i++)
    if (keys[i]->id)
      G_STRUCT_MEMBER(gboolean, plan, keys[i]->field.offset) = pass->switches >> i & 1;
  plan->zero = state->zero;
  plan->param_gather = state->gather;
  plan->offload = offloads[state->offload];
  plan->offload.activations = pass->activations ? STORE_CPU : STORE_DEVICE;
  plan->offload.layers = pass->offload_layers;
  plan->sharding.keeps_gathered = state->kept;
  plan->sharding.secondary = state->secondary;
  plan->sharding.quantized_weights = plan->sharding.quantized_gradients = state->secondary > 0;
  plan->shard_group = state->shard_group;
  choose_formats(&plan->optimizer, state->formats);
}
