/* What changes passes in the space: sequence parallelism, and what backwards make again. */
#include "search/excluded.h"
#include "search/space.h"

#include "plan/excludes.h"

ModuleSets space_module_sets(const Model *model, const Cluster *cluster, const Plan *base)
{
  const Framework *f = base->framework;
  guint left = recompute_modules_of(model);
  ModuleSets sets = { 0 };
  Plan plan = *base;

  plan.scope = (RecomputeScope) { 0 };
  plan.recompute = RECOMPUTE_FULL;
  guint64 full = plan_excluded(&plan, model, cluster, f);
  plan.recompute = RECOMPUTE_NONE;
  guint64 kept = plan_excluded(&plan, model, cluster, f) & ~full;
  sets.always = kept != 0;
  plan.recompute = RECOMPUTE_SELECTIVE;
  guint64 excluded = plan_excluded(&plan, model, cluster, f);
  /* what is excluded only until the core is made again: it is part of all sets */
  plan.scope.modules = kept & ~excluded ? 1u << MODULE_CORE_ATTN : 0;
  kept |= excluded & ~full;
  for (int i = 0; i < f->n_recompute_modules; i++) {
    guint before = plan.scope.modules, module = 1u << f->recompute_modules[i];
    plan.scope.modules = before | module;
    if (!(left & module) || plan_excluded(&plan, model, cluster, f) & ~excluded)
      plan.scope.modules = before;
    else if (!sets.always || !(plan_excluded(&plan, model, cluster, f) & kept))
      sets.sets[sets.n++] = plan.scope.modules;
  }
  return sets;
}

/* The choice as it stands or, where that is fixed, with some number of recomputed
 * layers: all of them and up to COUNT_CHOICES fewer of a rank's, evenly spaced. */
static int add_counts(const Fixed *f, int layers, PassChoice choice, PassChoice *passes)
{
  int fixed = f->value[KEY_RECOMPUTE_LAYERS], n_passes = 0;

  choice.recompute_layers = MAX(fixed, 0);
  passes[n_passes++] = choice;
  for (int n = 1, step = 1 + layers / COUNT_CHOICES; fixed == 0 && n < layers; n += step) {
    choice.recompute_layers = n;
    passes[n_passes++] = choice;
  }
  return n_passes;
}

/* Each set, followed by those behind it. */
static int add_sets(const ModuleSets *sets, PassChoice choice, PassChoice *passes)
{
  choice.recompute = RECOMPUTE_SELECTIVE;
  for (int i = 0; i < sets->n; i++) {
    passes[i] = choice;
    passes[i].modules = sets->sets[i];
    passes[i].after = sets->n - 1 - i;
  }
  return sets->n;
}

/* Whether what full recomputation keeps may go to the host: where that is asked for. */
static gboolean offers_activations(const SearchOptions *o)
{
  return o->space & SPACE_OFFLOAD && o->fixed.value[KEY_OFFLOAD] < 0 &&
         framework_offers(o->base->framework, CHOICE_OFFLOAD_ACTIVATIONS);
}

gboolean space_offers_layers(const SearchOptions *o, const Cluster *cluster, const Plan *plan)
{
  const int *fixed = o->fixed.value;

  return framework_offers(plan->framework, CHOICE_OFFLOAD_LAYERS) && plan->pp == 1 &&
         (cluster->device.host_coherent || o->space & SPACE_OFFLOAD) && fixed[KEY_OFFLOAD_LAYERS] != 0 &&
         fixed[KEY_RECOMPUTE] <= RECOMPUTE_NONE;
}

int space_offloaded(const Model *model, int choice)
{
  return MIN(model->blocks - 1, SPLIT_LAYERS_MAX) * choice / OFFLOAD_CHOICES;
}

/* Each number of such blocks. */
static int add_offloads(const Model *model, PassChoice choice, PassChoice *passes)
{
  int n = 0;

  for (int i = 1; i <= OFFLOAD_CHOICES; i++) {
    int layers = space_offloaded(model, i);
    if (layers > choice.offload_layers) {
      choice.offload_layers = layers;
      passes[n++] = choice;
    }
  }
  return n;
}

/* Sets with which the exchange of tokens can travel beside other passes, and routers that are named be recorded: not
 * behind one that makes these again. */
static ModuleSets sets_of_kept_experts(const ModuleSets *sets)
{
  ModuleSets kept = *sets;

  while (kept.n > 0 && kept.sets[kept.n - 1] >> MODULE_MOE & 1)
    kept.n--;
  return kept;
}

/* Those with one choice of sequence parallelism and of the experts' exchange. */
static int add_passes(const SearchOptions *o, const ModuleSets *offered, int layers, PassChoice choice,
                      PassChoice *passes)
{
  const Fixed *f = &o->fixed;
  int fixed = f->value[KEY_RECOMPUTE], modules = f->value[KEY_RECOMPUTE_MODULES], n = 0;
  gboolean waits = choice.exchange && !o->base->framework->exchange_recompute;
  gboolean kept = waits || choice.graph_modules >> RECORDED_MOE_ROUTER & 1;
  ModuleSets sets = kept ? sets_of_kept_experts(offered) : *offered;

  if (f->value[KEY_OFFLOAD_LAYERS] > 0) {
    choice.offload_layers = f->value[KEY_OFFLOAD_LAYERS];
    passes[0] = choice;
    passes[0].recompute = MAX(fixed, RECOMPUTE_NONE);
    return 1;
  }
  if (fixed < 0 && sets.always) {
    n += add_sets(&sets, choice, passes);
  } else if (fixed < 0 || fixed == RECOMPUTE_NONE) {
    passes[n] = choice;
    passes[n++].after = fixed < 0 ? sets.n : 0;
    n += fixed < 0 ? add_sets(&sets, choice, passes + n) : 0;
  }
  if (fixed < 0 || fixed == RECOMPUTE_SELECTIVE) {
    passes[n] = choice;
    passes[n].recompute = RECOMPUTE_SELECTIVE;
    passes[n++].modules = MAX(modules, 0);
    n += modules == 0 ? add_sets(&sets, choice, passes + n) : 0;
  }
  if ((fixed < 0 && !waits) || fixed == RECOMPUTE_FULL) {
    PassChoice full = choice;
    full.recompute = RECOMPUTE_FULL;
    n += add_counts(f, layers, full, passes + n);
    full.recompute_layers = MAX(f->value[KEY_RECOMPUTE_LAYERS], 0);
    full.activations = TRUE;
    if (offers_activations(o))
      passes[n++] = full;
  }
  return n;
}

/* Switches of passes, where they are allowed: as they are fixed, else on if the framework runs them. */
static void set_switches(const SearchOptions *o, const Cluster *cluster, const Plan *plan, PassChoice *choice)
{
  const PlanKey *const *keys = plan_pass_switches();
  const StateChoice state = { 0 };
  Plan with = *plan;

  space_choose(&with, choice, &state);
  for (int i = 0; keys[i]; i++) {
    int fixed = o->fixed.value[keys[i]->id];
    gboolean offered = framework_offers(plan->framework, keys[i]->choice) && keys[i]->allowed(&with, cluster);
    choice->switches |= (fixed >= 0 ? fixed : offered) << i;
  }
}

/* Whether tokens may travel beside passes of other micro-batches. */
static gboolean offers_exchange(const SearchOptions *o, const Plan *plan)
{
  return plan->framework->exchange_overlap && plan->ep > 1 && !plan->overlap.experts &&
         o->fixed.value[KEY_OVERLAP] != 0;
}

gboolean space_tries_graph(const Framework *f, const Model *model, CudaGraph kind)
{
  return model_has_experts(model) && f->graphs >> kind & 1 && (kind != GRAPH_FULL || f->paged_stash);
}

/* Modules of partial graphs: those that are fixed or given, else the usual ones, and routers alone, whose input comes
 * without attention's mask and which attention with biases allows beside an exchange that overlaps. */
static int graph_modules(const SearchOptions *o, const Model *model, guint8 *out)
{
  int fixed = o->fixed.value[KEY_GRAPH_MODULES];

  out[0] = fixed > 0 ? fixed : (int)o->base->graph_modules;
  out[1] = RECORDED_ROUTERS;
  return 1 + (!out[0] && o->fixed.value[KEY_GRAPH] < 0 && model_has_experts(model));
}

/* CUDA graphs: the kind that is fixed or given; with experts all that space_tries_graph() says. */
static int graphs(const SearchOptions *o, const Model *model, PassChoice *out)
{
  const Framework *f = o->base->framework;
  int fixed = o->fixed.value[KEY_GRAPH], n = 0;
  guint8 modules[2];

  for (int kind = GRAPH_NONE; kind < GRAPH_COUNT; kind++) {
    gboolean tried = space_tries_graph(f, model, kind) || kind == (int)o->base->graph;
    int sets = kind == GRAPH_PARTIAL ? graph_modules(o, model, modules) : 1;
    for (int i = 0; i < sets && (fixed >= 0 ? kind == fixed : tried); i++)
      out[n++] = (PassChoice) { .graph = kind, .graph_modules = kind == GRAPH_PARTIAL ? modules[i] : 0 };
  }
  return n;
}

int space_passes(const SearchOptions *o, const Model *model, const Cluster *cluster, const ModuleSets *sets,
                 const Plan *plan, PassChoice *passes)
{
  int fixed = o->fixed.value[KEY_SEQUENCE_PARALLEL], beside = o->fixed.value[KEY_EXCHANGE];
  int layers = MIN(model->blocks / plan->pp, SPLIT_LAYERS_MAX), n = 0;
  int first = MAX(beside, 0), last = beside >= 0 ? beside : offers_exchange(o, plan);
  PassChoice kinds[GRAPH_CHOICES];
  int n_graphs = graphs(o, model, kinds);

  /* with one rank on an axis, what divides it means nothing and is left out of the space */
  for (int sp = 0; sp <= (plan->tp > 1); sp++)
    for (int exchange = first; exchange <= last && (fixed < 0 || fixed == sp); exchange++)
      for (int g = 0; g < n_graphs; g++) {
        PassChoice choice = kinds[g];
        choice.sequence_parallel = sp;
        choice.exchange = exchange;
        n += add_passes(o, sets, layers, choice, passes + n);
      }
  for (int sp = 0; sp <= (plan->tp > 1) && kinds[0].graph == GRAPH_NONE && space_offers_layers(o, cluster, plan); sp++)
    if ((fixed < 0 || fixed == sp) && o->fixed.value[KEY_OFFLOAD_LAYERS] < 0)
      n += add_offloads(model, (PassChoice) { .sequence_parallel = sp, .exchange = first }, passes + n);
  for (int i = 0; i < n; i++)
    set_switches(o, cluster, plan, &passes[i]);
  return n;
}

/* Whether what the space switches on wherever it may be is on in both or in neither. */
static gboolean same_switches(const Plan *a, const Plan *b, const Cluster *cluster)
{
  const PlanKey *const *keys = plan_pass_switches();
  gboolean same = TRUE;

  for (int i = 0; keys[i]; i++)
    same &= keys[i]->allowed(a, cluster) == keys[i]->allowed(b, cluster);
  return same;
}

gboolean space_next_set(const SearchOptions *o, const Model *model, const Cluster *cluster, Plan *plan)
{
  const Plan base = space_base(o);
  ModuleSets sets = space_module_sets(model, cluster, &base);
  gboolean keeps = plan->recompute == RECOMPUTE_NONE, named = plan->recompute == RECOMPUTE_SELECTIVE && plan->scope.modules;
  Plan next = *plan;
  int at = 0;

  if ((plan->overlap.exchange && !plan->framework->exchange_recompute) || plan->graph_modules >> RECORDED_MOE_ROUTER & 1)
    sets = sets_of_kept_experts(&sets);
  if (o->fixed.value[KEY_RECOMPUTE] >= 0 || !(keeps || named) || offload_keeps(&plan->offload))
    return FALSE;
  while (at < sets.n && !(sets.sets[at] & ~plan->scope.modules))
    at++;
  if (at == sets.n)
    return FALSE;
  next.recompute = RECOMPUTE_SELECTIVE;
  next.scope.modules = sets.sets[at];
  if (excluded_newly(&next, plan, model, cluster) || !same_switches(&next, plan, cluster))
    return FALSE;
  *plan = next;
  return TRUE;
}
