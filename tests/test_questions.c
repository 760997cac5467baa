/* Questions are rows of searches: each row against a search of its own that knows of no other. */
#include "main.h"

#include "ask/question.h"
#include "base/units.h"
#include "cost/price.h"
#include "search/rounds.h"
#include "search_instance.h"

#include <math.h>
#include <stdio.h>

static double cell(const Answer *a, int row, const char *key)
{
  int column = 0;

  while (g_strcmp0(a->columns[column].key, key) != 0)
    ck_assert_int_lt(++column, a->n_columns);
  return answer_value(a, row, column);
}

/* The least of the objective over the space, with all that a search looks for beside; INFINITY if nothing fits. */
static double fresh(const Model *model, const Cluster *cluster, const Plan *base, SearchOptions o)
{
  o.base = base;
  o.tie = TIE_SHARE;
  o.over = TRUE;
  g_autoptr(SearchResult) r = search(model, cluster, &o, NULL);
  return r->best->len ? g_array_index(r->best, Found, 0).value : INFINITY;
}

static void draw(Instance *in, GRand *rand)
{
  static const char *const frameworks[] = { "megatron-core", "deepspeed", "megatron-core-2026", "torchtitan" };

  instance_framework_init(in, rand, frameworks[g_rand_int_range(rand, 0, 4)]);
  in->cluster->device.memory_bytes *= g_rand_double_range(rand, 0.4, 0.9);
  in->options.objective = &objectives[0];
  in->options.top = 1;
}

START_TEST(brief_is_the_same)
{
  GRand *rand = g_rand_new_with_seed(6000 + _i);
  int found = 0;

  for (int i = 0; i < 12; i++) {
    Instance in;
    Found best;
    draw(&in, rand);
    in.options.refine = i % 2;
    in.options.objective = &objectives[i / 2 % 3]; /* time, tokens, memory */
    double value = fresh(in.model, in.cluster, &in.base, in.options);
    gboolean fits = ask_best(in.model, in.cluster, &in.options, in.cluster->devices, &best);
    ck_assert_int_eq(fits, isfinite(value));
    ck_assert(!fits || best.value == value);
    found += fits;
    instance_clear(&in);
  }
  ck_assert(found > 0);
  g_rand_free(rand);
}
END_TEST

/* Gives devices memory in which a search just finds a plan; returns how much is too little, by a factor less. */
static double tighten(const Model *model, Cluster *cluster, const Plan *base, SearchOptions o, double low, double high,
                      double factor)
{
  while (high / low > factor) {
    double middle = cluster->device.memory_bytes = sqrt(low * high);
    *(isfinite(fresh(model, cluster, base, o)) ? &high : &low) = middle;
  }
  cluster->device.memory_bytes = high;
  return low;
}

/* Memory in which a search just finds a plan is not said to be too little, and less of it is: of a model that is mostly
 * states. */
START_TEST(fits_where_a_search_finds)
{
  static const char *const frameworks[] = { "megatron-core", "torchtitan", "deepspeed", "megatron-core-2026" };
  g_autoptr(Framework) framework = fixture_framework(frameworks[_i]);
  Cluster *cluster = fixture_cluster("dgx", 4);
  Model *model = fixture_model(8, 4096, 32, 512, 32000);
  Plan base = plan_default(model, framework), likely = { 0 };
  SearchOptions o = { .base = &base, .fixed = fixed_none(), .objective = &objectives[0], .top = 1, .threads = 1 };

  base.gpus = 4;
  base.global_batch = 8;
  double low = tighten(model, cluster, &base, o, GIB, 80 * GIB, 1.01);
  ck_assert(ask_fits(model, cluster, &o, 4, TRY_LEAN | TRY_ALL, &likely));
  cluster->device.memory_bytes = low;
  likely = (Plan) { 0 };
  ck_assert(!ask_fits(model, cluster, &o, 4, TRY_LEAN | TRY_ALL, &likely));
  cluster_free(cluster);
  model_free(model);
}
END_TEST

/* Whether anything fits, by a search for the best. */
static gboolean context_fits(const Instance *in, int seq)
{
  Plan base = in->base;

  base.seq = seq;
  return isfinite(fresh(in->model, in->cluster, &base, in->options));
}

START_TEST(contexts_are_the_longest)
{
  GRand *rand = g_rand_new_with_seed(6100 + _i);
  int longer = 0;

  for (int i = 0; i < 4; i++) {
    Instance in;
    int seq, step;
    draw(&in, rand);
    in.model->position_rows = 0;
    if (i == 3) { /* nothing is lean */
      in.options.fixed.value[KEY_MICRO_BATCH] = 1;
      in.options.fixed.value[KEY_RECOMPUTE] = RECOMPUTE_NONE;
    }
    const Asked asked = { in.model, in.cluster, &in.options, 0, NULL };
    g_autoptr(Answer) a = question_find("largest-context")->answer(&asked);
    if (answer_rows(a) == 0) {
      ck_assert(!context_fits(&in, in.base.seq));
    } else {
      ck_assert_int_eq(sscanf(a->says->str, "Sequences of %d tokens fit, in steps of %d", &seq, &step), 2);
      Plan base = in.base;
      base.seq = seq;
      ck_assert_double_eq(cell(a, 0, "iteration_s"), fresh(in.model, in.cluster, &base, in.options));
      if (!in.model->position_rows || seq + step <= in.model->position_rows) {
        ck_assert(!context_fits(&in, seq + step));
        longer++;
      }
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(longer, 0);
  g_rand_free(rand);
}
END_TEST

/* From a number of layers that halves badly, with room for each of many more. */
START_TEST(depths_are_the_largest)
{
  g_autoptr(Framework) framework = fixture_framework("ddp");
  Instance in = { .cluster = fixture_cluster("dgx", 2), .model = fixture_model(5, 1024, 16, 1024, 1000) };

  in.base = plan_default(in.model, framework);
  in.base.gpus = 2;
  in.base.global_batch = 2;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 1, .threads = 1,
                                 .objective = &objectives[0] };
  const Asked asked = { in.model, in.cluster, &in.options, 0, NULL };
  for (int most = 1; most < 60; most += 1 + most / 8) {
    int layers, step;
    g_autoptr(Model) fits = fixture_model(most, 1024, 16, 1024, 1000);
    tighten(fits, in.cluster, &in.base, in.options, 1e9, 64e9, 1.0001);
    g_autoptr(Answer) a = question_find("largest-model")->answer(&asked);
    ck_assert_int_eq(sscanf(a->says->str, "%d layers", &layers), 1);
    ck_assert_int_eq(sscanf(strstr(a->says->str, "in steps of "), "in steps of %d", &step), 1);
    ck_assert_int_le(layers, most);
    ck_assert_int_gt(layers + step, most);
    ck_assert_int_le(step, MAX(1, 2 * layers / 32));
  }
  model_free(in.model);
  cluster_free(in.cluster);
}
END_TEST

static int row_of(const Answer *a, const char *title)
{
  int row = 0;

  while (!g_str_equal(answer_label(a, row, 0), title))
    ck_assert_int_lt(++row, answer_rows(a));
  return row;
}

/* What the best plan gains when figures change together. */
static void check_gain(const Instance *in, const Answer *a, double own, const char *title, double factor,
                       double *const *figures)
{
  const char *key = factor == 2 ? "best_change_double" : factor > 1 ? "best_change_plus" : "best_change_minus";
  const char *step = factor == 2 ? "step_change_double" : factor > 1 ? "step_change_plus" : "step_change_minus";
  double before[8];
  int n = 0;

  for (; figures[n]; n++) {
    before[n] = *figures[n];
    *figures[n] *= factor;
  }
  double best = fresh(in->model, in->cluster, &in->base, in->options), said = cell(a, row_of(a, title), key);
  while (n-- > 0)
    *figures[n] = before[n];
  if (strcmp(title, "memory size") != 0) /* the plan that was best stands beside those of the search */
    best = MIN(best, own * (1 + cell(a, row_of(a, title), step)));
  ck_assert(isnan(said) == isinf(best));
  ck_assert_msg(isnan(said) || fabs(said - (best / own - 1)) < 1e-12, "%s x %g: %.17g, %.17g", title, factor, said,
                best / own - 1);
}

/* Where few plans fit, those that more memory lets in are faster, and are found. With DeepSpeed's copies at the step the
 * passes of the fastest would fit too. */
START_TEST(more_memory_lets_others_in)
{
  g_autoptr(Framework) framework = fixture_framework(_i ? "deepspeed" : "megatron-core");
  Instance in = { .cluster = fixture_cluster("dgx", 4), .model = fixture_model(8, 4096, 32, 512, 32000) };
  double *const memory[] = { &in.cluster->device.memory_bytes, NULL };

  framework->step_gradients = STEP_IN_PLACE;
  in.base = plan_default(in.model, framework);
  in.base.gpus = 4;
  in.base.global_batch = 8;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .objective = &objectives[0], .top = 1,
                                 .threads = 1 };
  tighten(in.model, in.cluster, &in.base, in.options, GIB, 80 * GIB, 1.01);
  const Asked asked = { in.model, in.cluster, &in.options, 0, NULL };
  g_autoptr(Answer) a = answer_sensitivity(&asked);
  double own = fresh(in.model, in.cluster, &in.base, in.options);
  ck_assert_double_lt(cell(a, row_of(a, "memory size"), "best_change_double"), 0);
  ck_assert(isnan(cell(a, row_of(a, "memory size"), "step_change_minus")));
  ck_assert_double_eq(cell(a, row_of(a, "memory size"), "step_change_plus"), 0);
  check_gain(&in, a, own, "memory size", 1.1, memory);
  check_gain(&in, a, own, "memory size", 2, memory);
  cluster_free(in.cluster);
  model_free(in.model);
}
END_TEST

/* NICs faster than the slots behind them bring nothing. */
START_TEST(networks_end_at_slots)
{
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Instance in = { .cluster = fixture_cluster("dgx", 16), .model = fixture_model(4, 1024, 8, 512, 32000) };
  Tier *network = &in.cluster->tiers[in.cluster->network_tier];

  in.cluster->device.host_bytes_per_s *= (_i ? 1 : 1.5) * network->bytes_per_s /
                                         device_slot_bytes_per_s(&in.cluster->device);
  tier_bound_by_slot(network, &in.cluster->device);
  in.base = plan_default(in.model, framework);
  in.base.gpus = 16;
  in.base.global_batch = 16;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .objective = &objectives[0], .top = 1,
                                 .threads = 1 };
  in.options.fixed.value[KEY_PP] = 1;
  in.options.fixed.value[KEY_TP] = 1;
  const Asked asked = { in.model, in.cluster, &in.options, 0, NULL };
  g_autoptr(Answer) a = answer_sensitivity(&asked);
  g_autofree char *title = g_strdup_printf("%s bandwidth", network->name);
  double own = fresh(in.model, in.cluster, &in.base, in.options);
  ck_assert_double_gt(cell(a, row_of(a, title), "step_change_minus"), 0);
  if (_i)
    ck_assert_double_eq(cell(a, row_of(a, title), "step_change_double"), 0);
  else
    check_gain(&in, a, own, title, 1.1, (double *[]) { &network->bytes_per_s, &network->port_bytes_per_s, NULL });
  network->bytes_per_s *= 1.5;
  network->port_bytes_per_s *= 1.5;
  if (!_i)
    ck_assert_double_eq_tol(cell(a, row_of(a, title), "best_change_double"),
                            fresh(in.model, in.cluster, &in.base, in.options) / own - 1, 1e-12);
  cluster_free(in.cluster);
  model_free(in.model);
}
END_TEST

/* Where stages split layers by what they take, other rates make other splits, which may need more memory: what does
 * not fit under some rates may fit under others. */
START_TEST(other_splits_are_found)
{
  static const char json[] =
    "{\"name\": \"m\", \"source\": \"made up\", \"layers\": 5, \"hidden\": 1024, \"heads\": 8, \"ffn_hidden\": 2048, "
    "\"experts\": 4, \"experts_per_token\": 2, \"expert_ffn_hidden\": 1024, \"vocab\": 50304, \"seq\": 2048, "
    "\"mlp\": \"swiglu\", \"norm\": \"rmsnorm\", \"positions\": \"rope\", \"tied_embeddings\": false, "
    "\"bias\": false, \"dropout\": false, \"global_batch_size\": 8}";
  static const char nodes[] =
    "{\"name\": \"c\", \"nodes\": 4, \"source\": \"default: x\", "
    "\"server\": {\"name\": \"s\", \"gpu\": \"h100-sxm5-80gb\", "
    "\"devices_per_node\": 4, \"tiers\": [{\"name\": \"nvlink\", \"link\": \"nvlink4-switch\", \"gb_per_s\": 32, "
    "\"source\": \"default: x\"}], \"source\": \"default: x\", "
    "\"network\": {\"nics_per_node\": 4, \"nic_gbit_per_s\": 100, \"link\": \"roce\", \"source\": \"default: x\"}, "
    "\"host_memory_gib\": 1024}}";
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(GError) error = NULL;
  Instance in = { .cluster = cluster_parse(nodes, strlen(nodes), "./c.json", &error),
                  .model = model_parse(json, strlen(json), "m", NULL) };

  ck_assert_msg(in.cluster && in.model, "%s", error ? error->message : "");
  in.base = plan_default(in.model, framework);
  in.base.gpus = 16;
  in.base.global_batch = 8;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .objective = &objectives[0], .top = 1,
                                 .threads = 1 };
  in.cluster->device.memory_bytes = (2.7 + 0.02 * (_i / 2)) * GIB;
  Cluster twice = *in.cluster, more = *in.cluster;
  if (_i % 2) {
    twice.device.memory_bytes_per_s *= 2;
    more.device.memory_bytes_per_s *= 1.1;
  } else {
    cluster_scale_peak(&twice, 2);
    cluster_scale_peak(&more, 1.1);
  }
  in.options.brief = TRUE;
  g_autoptr(SearchResult) fast = search(in.model, &twice, &in.options, NULL);
  double best = fresh(in.model, &more, &in.base, in.options);
  in.options.floors = fast->bounds;
  in.options.known = isinf(best) ? 0 : best;
  ck_assert_double_eq(fresh(in.model, &more, &in.base, in.options), best);
  cluster_free(in.cluster);
  model_free(in.model);
}
END_TEST

START_TEST(sensitivities_are_those_of_fresh_searches)
{
  static const double factors[] = { 0.9, 1.1, 2 };
  GRand *rand = g_rand_new_with_seed(6200 + _i);
  int found = 0;

  for (int i = 0; i < 3; i++) {
    Instance in;
    draw(&in, rand);
    Device *d = &in.cluster->device;
    Tier *t = &in.cluster->tiers[0];
    g_autofree char *bandwidth = g_strdup_printf("%s bandwidth", t->name);
    g_autofree char *latency = g_strdup_printf("%s latency", t->name);
    double *math[DTYPE_COUNT + 1] = { NULL };
    for (int type = 0; type < DTYPE_COUNT; type++)
      math[type] = &d->peak_flops_per_s[type];
    const Asked asked = { in.model, in.cluster, &in.options, 0, NULL };
    g_autoptr(Answer) a = answer_sensitivity(&asked);
    double own = fresh(in.model, in.cluster, &in.base, in.options);
    ck_assert_int_eq(answer_rows(a) > 0, isfinite(own));
    if (isfinite(own)) {
      found++;
      for (gsize k = 0; k < G_N_ELEMENTS(factors); k++) {
        check_gain(&in, a, own, "memory bandwidth", factors[k], (double *[]) { &d->memory_bytes_per_s, NULL });
        check_gain(&in, a, own, "memory size", factors[k], (double *[]) { &d->memory_bytes, NULL });
        check_gain(&in, a, own, "matrix FLOP/s", factors[k], math);
        check_gain(&in, a, own, bandwidth, factors[k], (double *[]) { &t->bytes_per_s, &t->port_bytes_per_s, NULL });
        check_gain(&in, a, own, latency, factors[k],
                   (double *[]) { &t->link.base_s, &t->link.hop_s, &t->link.tree_hop_s, &t->link.p2p_base_s,
                                  &t->link.short_base_s, &t->link.in_switch_base_s, NULL });
      }
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(found, 0);
  g_rand_free(rand);
}
END_TEST

/* Of what is known at any rates, what is known whatever the memory. */
static void forget_fits(Floors **learned)
{
  Floors *kept = floors_new();

  floors_raise(kept, *learned, FLOORS_ANYWHERE, 0);
  floors_free(*learned);
  *learned = kept;
}

/* Changes a number of the cluster in either direction, and gives what bounds of a search before it are there, and what was
 * learned of any rates. */
static Floors *change(Cluster *cluster, GRand *rand, const Floors *bounds, Floors **learned)
{
  double factor = g_rand_double_range(rand, 0.55, 1.8);
  Floors *floors = floors_new();

  if (instance_change(cluster, rand, factor, bounds, floors)->room)
    forget_fits(learned);
  floors_raise(floors, *learned, FLOORS_ANY_RATES, 0);
  return floors;
}

/* What is known of parts and choices from a search before a change, and from one before several of them, and a plan that
 * was simulated before, leave the plan that is found, whether a plan to beat is known or none is. From the seventh loop
 * on blocks are made again on some layers of a stage, any count of them: that takes less than of all. */
START_TEST(floors_leave_the_answer)
{
  GRand *rand = g_rand_new_with_seed(6400 + _i);
  int found = 0;

  for (int i = 0; i < 50; i++) {
    Instance in;
    draw(&in, rand);
    in.cluster->device.rate_jitter = 0; /* a faster device would wait less for others */
    in.cluster->tiers[0].link.compute_slowdown += i % 2 * 0.8;
    in.options.brief = TRUE;
    in.options.refine = in.options.over = FALSE;
    in.options.tie = 0;
    in.options.base = &in.base;
    if (_i >= 6) {
      in.options.fixed.value[KEY_RECOMPUTE] = RECOMPUTE_FULL;
      in.options.fixed.value[KEY_RECOMPUTE_LAYERS] = 0;
    }
    g_autoptr(SearchResult) own = search(in.model, in.cluster, &in.options, NULL);
    g_autoptr(Floors) bounds = g_steal_pointer(&own->bounds), learned = floors_new();
    floors_raise(learned, bounds, FLOORS_ANY_RATES, 0);
    for (int step = 0; step < 4 && own->best->len > 0; step++) {
      g_autoptr(GArray) simulated = g_array_new(FALSE, FALSE, sizeof(Simulation));
      g_autoptr(Floors) floors = change(in.cluster, rand, bounds, &learned);
      SearchOptions with = in.options;
      g_autoptr(SearchResult) other = search(in.model, in.cluster, &in.options, NULL);
      with.floors = floors;
      with.simulated = simulated;
      simulation_among(simulated, in.model, in.cluster, &g_array_index(own->best, Found, 0).plan);
      with.known = other->best->len && g_rand_boolean(rand) ? g_array_index(other->best, Found, 0).value * (1 + step * 0.01) : 0;
      g_autoptr(SearchResult) floored = search(in.model, in.cluster, &with, NULL);
      ck_assert_int_eq(floored->best->len, other->best->len);
      for (guint k = 0; k < other->best->len; k++) {
        const Found *a = &g_array_index(other->best, Found, k), *b = &g_array_index(floored->best, Found, k);
        g_autofree char *before = plan_label(&a->plan), *after = plan_label(&b->plan);
        ck_assert_str_eq(after, before);
        ck_assert_double_eq(b->value, a->value);
      }
      found += other->best->len > 0;
      floors_free(bounds);
      bounds = g_steal_pointer(&floored->bounds);
      floors_raise(learned, bounds, FLOORS_ANY_RATES, 0);
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(found, 10);
  g_rand_free(rand);
}
END_TEST

static const Knob *knob_named(const char *title)
{
  const Knob *knob = knobs;

  while (!g_str_equal(knob->title, title))
    ck_assert_ptr_nonnull((++knob)->title);
  return knob;
}

/* Collectives between nodes slow kernels by the share of a node's links that they take: slower ones less, by no more than
 * bounds are said to fall. */
START_TEST(slower_transfers_slow_kernels_less)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 16);
  const GroupShape group = group_shape(cluster, 16, 1);
  const Knob *knob = knob_named("bandwidth");
  int tier = cluster->network_tier;

  cluster->tiers[0].link.compute_slowdown = 1.8;
  double before = overlap_slowdown(cluster, &group), faster = knob_floor_scale(cluster, knob, tier, 2);
  ck_assert_double_gt(before, 1);
  ck_assert_double_eq(faster, 0.5);
  for (double factor = 0.9; factor > 0.1; factor -= 0.2) {
    Cluster slower = *cluster;
    knob->scale(&slower, tier, factor);
    double share = overlap_slowdown(&slower, &group) / before;
    ck_assert_double_lt(share, 1);
    ck_assert_double_ge(share, knob_floor_scale(cluster, knob, tier, factor));
    ck_assert_double_eq(knob_floor_scale(cluster, knob, 0, factor), 1); /* within nodes the share stays */
  }
}
END_TEST

/* Of single products and of those of several experts at once. */
START_TEST(launches_are_all_scaled)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  Kernels before = cluster->device.kernels;
  const Kernels *k = &cluster->device.kernels;

  for (int t = 0; t < DTYPE_COUNT; t++)
    cluster->device.kernels.grouped[t].launch_s = before.grouped[t].launch_s = 3e-6;
  knob_named("kernel launch time")->scale(cluster, 0, 2);
  for (int t = 0; t < DTYPE_COUNT; t++) {
    ck_assert_double_eq(k->matmul[t].launch_s, 2 * before.matmul[t].launch_s);
    ck_assert_double_eq(k->grouped[t].launch_s, 2 * before.grouped[t].launch_s);
  }
  ck_assert_double_eq(k->memory_launch_s, 2 * before.memory_launch_s);
  ck_assert_double_eq(k->attention_launch_s, 2 * before.attention_launch_s);
}
END_TEST

/* A plan that was simulated before comes to what was said of it, and to no other. */
START_TEST(simulated_once)
{
  GRand *rand = g_rand_new_with_seed(6500);
  int found = 0;

  for (int i = 0; i < 8; i++) {
    Instance in;
    g_autoptr(GArray) simulated = g_array_new(FALSE, FALSE, sizeof(Simulation));
    draw(&in, rand);
    in.options.base = &in.base;
    g_autoptr(SearchResult) own = search(in.model, in.cluster, &in.options, NULL);
    if (own->best->len > 0) {
      const Found *best = &g_array_index(own->best, Found, 0);
      const Metrics *m = simulation_among(simulated, in.model, in.cluster, &best->plan);
      ck_assert(memcmp(m, &best->metrics, sizeof *m) == 0);
      ck_assert(simulation_among(simulated, in.model, in.cluster, &best->plan) == m);
      ck_assert_int_eq(simulated->len, 1);
      g_array_index(simulated, Simulation, 0).metrics.iteration_s *= 1 - 1e-6;
      in.options.simulated = simulated;
      g_autoptr(SearchResult) other = search(in.model, in.cluster, &in.options, NULL);
      ck_assert_double_eq(g_array_index(other->best, Found, 0).metrics.iteration_s, best->metrics.iteration_s * (1 - 1e-6));
      found++;
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(found, 3);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("questions", { simulated_once, 1 }, { slower_transfers_slow_kernels_less, 1 }, { launches_are_all_scaled, 1 },
           { floors_leave_the_answer, 8, TRUE }, { fits_where_a_search_finds, 4, TRUE },
           { brief_is_the_same, 4, TRUE }, { contexts_are_the_longest, 6, TRUE },
           { depths_are_the_largest, 1 },
           { sensitivities_are_those_of_fresh_searches, 4, TRUE }, { more_memory_lets_others_in, 2 },
           { networks_end_at_slots, 2 }, { other_splits_are_found, 14, TRUE })
