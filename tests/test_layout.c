/* What plans mean, against definitions: every plan of random spaces of several frameworks. */
#include "layouts.h"
#include "main.h"
#include "planned.h"
#include "search_instance.h"

static const char *const frameworks[] = { "megatron-core", "deepspeed", "torchtitan", "galvatron", "nanotron-2025",
                                          "megatron-core-dev-2026", "fsdp" };

/* ---- who is in which group ---- */

/* The groups of ranks that differ in one coordinate alone: each rank is in one of them, at an index of its own. */
static void check_axis(const Mesh *m, const int (*at)[AXIS_COUNT], int axis)
{
  g_autofree int *members = g_new0(int, m->ranks);
  g_autofree gboolean *taken = g_new0(gboolean, (gsize)m->ranks * m->dense[axis].size);

  for (int rank = 0; rank < m->ranks; rank++) {
    int first[AXIS_COUNT], index = at[rank][axis];
    memcpy(first, at[rank], sizeof first);
    first[axis] = 0;
    int group = mesh_rank(m, first);
    ck_assert_int_lt(index, m->dense[axis].size);
    ck_assert(!taken[(gsize)group * m->dense[axis].size + index]);
    taken[(gsize)group * m->dense[axis].size + index] = TRUE;
    ck_assert_int_eq(rank, group + index * m->dense[axis].stride);
    members[group]++;
  }
  for (int rank = 0; rank < m->ranks; rank++)
    ck_assert(members[rank] == 0 || members[rank] == m->dense[axis].size);
}

/* The same on the experts' grid of each stage, in places. */
static void check_expert_axis(const Mesh *m, int axis)
{
  g_autofree int *members = g_new0(int, m->ranks);

  for (int rank = 0; rank < m->ranks; rank++) {
    int at[EXPERT_AXIS_COUNT], dense[AXIS_COUNT];
    mesh_expert_coordinates(m, rank, at);
    mesh_coordinates(m, rank, dense);
    int place = mesh_place(m, rank) - at[axis] * m->experts[axis].stride;
    ck_assert_int_lt(at[axis], m->experts[axis].size);
    ck_assert_int_ge(place, 0);
    members[dense[AXIS_PIPELINE] * m->places + place]++;
  }
  for (int place = 0; place < m->ranks; place++)
    ck_assert(members[place] == 0 || members[place] == m->experts[axis].size);
}

static void check_mesh(const Plan *p, const Mesh *m)
{
  g_autofree int (*at)[AXIS_COUNT] = g_malloc_n(p->gpus, sizeof *at);
  int dense = 1, experts = 1;

  for (int a = 0; a < AXIS_COUNT; a++)
    dense *= m->dense[a].size;
  for (int a = 0; a < EXPERT_AXIS_COUNT; a++)
    experts *= m->experts[a].size;
  ck_assert_int_eq(m->ranks, p->gpus);
  ck_assert_int_eq(dense, p->gpus);
  ck_assert_int_eq(experts, m->places);
  ck_assert_int_eq(m->places * p->pp, p->gpus);
  for (int rank = 0; rank < p->gpus; rank++)
    mesh_coordinates(m, rank, at[rank]);
  for (int a = 0; a < AXIS_COUNT; a++)
    check_axis(m, (const int (*)[AXIS_COUNT])at, a);
  for (int a = 0; a < EXPERT_AXIS_COUNT; a++)
    check_expert_axis(m, a);
}

/* ---- what is divided, gathered, summed and moved ---- */

/* torchtitan's stages sum once, whatever a plan says. */
static gboolean sums_each(const Plan *p)
{
  gboolean stages = p->pp > 1 && g_str_equal(p->framework->name, "torchtitan");

  return p->zero >= 2 && !p->sharding.no_sync && !stages;
}

static void check_numbers(const Plan *p, const Layout *l, const StateLayout *s)
{
  ck_assert_int_eq(s->replicas * s->stride * p->pp, p->gpus);
  ck_assert_int_eq(s->shards * s->copies, s->replicas);
  ck_assert_int_eq(s->optimizer_parts, p->zero >= 1 ? s->shards : 1);
  ck_assert_int_eq(s->gradient_parts, sums_each(p) ? s->shards : 1);
  ck_assert_int_eq(s->weight_parts, p->zero == 3 ? s->shards : 1);
  ck_assert_int_eq(s->sums, s->replicas > 1);
  if (p->sharding.secondary)
    ck_assert_int_eq(s->sharding.secondary * s->stride, p->sharding.secondary * p->tp);
  ck_assert_int_le(s->sharding.secondary, s->shards);
  ck_assert_int_eq(l->has_replicas, l->states[0].sums || l->states[1].sums);
}

static void check_rules(const Plan *p, const StateLayout *s)
{
  gboolean scattered = sums_each(p), many = s->replicas > 1;
  gboolean down = p->offload.optimizer != STORE_DEVICE && p->overlap.offload;

  ck_assert_int_eq(s->sums_each, scattered);
  ck_assert_int_eq(s->stores_gradients, down);
  ck_assert_int_eq(s->drops_gradients, scattered && (many || down));
  ck_assert_int_eq(s->fetches_weights, p->zero == 3 && (many || p->offload.parameters != STORE_DEVICE));
  ck_assert_int_eq(s->gathers_ahead, p->zero >= 1 && p->overlap.parameters);
  ck_assert_int_eq(s->gathers_at_end, many && !p->overlap.parameters && (p->zero == 1 || p->zero == 2));
  ck_assert_int_eq(s->overlap_gradients, p->overlap.gradients && plan_sums_beside(p));
  ck_assert_int_eq(s->overlap_parameters, p->overlap.parameters);
}

static void check_pipeline(const Plan *p, const Layout *l, const Model *model)
{
  const PipelineLayout *pipeline = &l->pipeline;
  gboolean meets = p->schedule->vocabulary > 0;

  ck_assert_int_eq(pipeline->shape.micro * p->micro_batch * p->dp, p->global_batch);
  ck_assert_int_eq(pipeline->cut.stages * schedule_copies(p->schedule), p->pp * p->vpp);
  ck_assert_int_eq(pipeline->scatters_sends, p->framework->scatter_gather && p->tp > 1 && !p->sequence_parallel);
  ck_assert_int_eq(pipeline->overlaps_sends, p->overlap.pipeline);
  ck_assert_int_eq(stage_first_layer(&pipeline->cut, model, 0), 0);
  ck_assert_int_eq(stage_first_layer(&pipeline->cut, model, pipeline->cut.stages), model->n_layers);
  for (int stage = 0; stage < pipeline->cut.stages; stage++)
    ck_assert_int_eq(stage_first_layer(&pipeline->cut, model, stage), plan_stage_first_layer(p, model, stage));
  for (int rank = 0; rank < p->pp; rank++) {
    guint ends = 0; /* bit 0: the first stage, 1: the last */
    for (int chunk = 0; chunk < p->vpp; chunk++) {
      int stage = schedule_stage(p->schedule, &pipeline->shape, rank, chunk);
      ck_assert_int_eq(pipeline_rank(pipeline, stage, schedule_copy(p->schedule, chunk)), rank);
      ends |= (stage == 0) | (guint)(stage == pipeline->cut.stages - 1) << 1;
    }
    meets |= ends == 3;
  }
  ck_assert_int_eq(l->passes.ends_meet, meets);
}

/* Every schedule, those that hold two copies of the model among them. */
START_TEST(ends_meet_where_one_rank_has_both)
{
  g_autoptr(Model) model = fixture_model(48, 64, 4, 64, 128);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  int checked = 0;

  for (int i = 0; schedules[i]; i++)
    for (int pp = 1; pp <= 4; pp *= 2)
      for (int chunks = 1; chunks <= 4 && schedules[i]->placement != PLACE_TABLE; chunks++) {
        Plan p = plan_default(model, framework);
        p.gpus = p.pp = pp;
        p.global_batch = 16;
        plan_set_schedule(&p, schedules[i], chunks);
        const Layout l = layout_of(&p);
        if (!schedule_check(schedules[i], &l.pipeline.shape, NULL))
          continue;
        check_pipeline(&p, &l, model);
        checked++;
      }
  ck_assert_int_gt(checked, 20);
}
END_TEST

/* ---- passes ---- */

/* Whatever stood in the memory, equal plans give equal bytes. */
static void check_bytes(const Plan *p)
{
  PassLayout a, b;

  memset(&a, 0xaa, sizeof a);
  memset(&b, 0x55, sizeof b);
  pass_layout_init(&a, p);
  pass_layout_init(&b, p);
  ck_assert_mem_eq(&a, &b, sizeof a);
}

static gboolean same_passes(const Plan *a, const Plan *b)
{
  PassLayout x, y;

  pass_layout_init(&x, a);
  pass_layout_init(&y, b);
  return memcmp(&x, &y, sizeof x) == 0;
}

/* What happens once a step is not seen by passes; the size of a micro-batch is. */
static void check_sight(const Plan *p)
{
  Plan other = *p;

  other.global_batch *= 2;
  other.overlap.gradients = !p->overlap.gradients;
  other.overlap.parameters = !p->overlap.parameters;
  other.offload.optimizer = p->offload.optimizer ? STORE_DEVICE : STORE_CPU;
  ck_assert(same_passes(p, &other));
  other.micro_batch *= 2;
  ck_assert(!same_passes(p, &other));
}

static void check_passes(const Plan *p, const PassLayout *l)
{
  gboolean counts = p->recompute == RECOMPUTE_FULL && recompute_counts(&p->scope);

  ck_assert_int_eq(l->ranks, p->gpus);
  ck_assert_int_eq(l->experts_apart, l->ep > 1 || l->etp != l->tp);
  ck_assert_int_eq(pass_seq(l, TRUE), p->seq);
  ck_assert_int_eq(pass_seq(l, FALSE), p->decoder_seq ? p->decoder_seq : p->seq);
  ck_assert_int_eq(l->recompute.granularity, p->recompute);
  ck_assert_int_eq(l->recompute.cut.stages, counts ? plan_stages(p) : 0);
  for (int experts = 0; experts < 2; experts++) {
    const StateLayout *s = &STATES(p)[experts];
    const Framework *f = p->framework;
    int gathers = 2 - p->sharding.keeps_gathered - (f->stages_sum_once && p->pp > 1 && !p->schedule->opportunistic);
    double copies = f->shard_copy_bytes + gathers * f->shard_gather_bytes +
                    (plan_sums_each(p, p->zero) ? f->shard_reduce_bytes : 0);
    double each = (p->zero == 3 ? copies : 0) + p->framework->shard_gradient_bytes +
                  p->framework->shard_sum_bytes / s->gradient_parts;
    ck_assert_double_eq(l->shard_bytes[experts], p->zero >= 2 && s->replicas > 1 ? each : 0);
    ck_assert_double_eq(s->gradient_bytes, l->gradient_bytes);
  }
  ck_assert_double_eq(l->persistence, p->zero == 3 ? p->sharding.persistence : 0);
  ck_assert_double_ge(l->expert_copies, 1 - 1e-12 + (p->expert_padded ? p->expert_capacity - 1 : 0));
}

static void check_layout(const Plan *p, const Model *model)
{
  const Layout l = layout_of(p);
  PassLayout passes;

  check_mesh(p, &l.mesh);
  for (int experts = 0; experts < 2; experts++) {
    check_numbers(p, &l, &l.states[experts]);
    check_rules(p, &l.states[experts]);
  }
  ck_assert_int_eq(l.states[0].replicas, p->dp * p->cp);
  ck_assert_int_eq(l.states[0].copies, l.states[1].copies);
  check_pipeline(p, &l, model);
  check_passes(p, &l.passes);
  check_bytes(p);
  check_sight(p);
  pass_layout_init(&passes, p);
  ck_assert_mem_eq(&passes, &l.passes, sizeof passes);
}

START_TEST(plans_mean_what_they_say)
{
  GRand *rand = g_rand_new_with_seed(500 + _i);
  int checked = 0;

  for (int i = 0; i < 12; i++) {
    Instance in;
    instance_framework_init(&in, rand, frameworks[_i]);
    instance_fix(&in, rand);
    g_autoptr(GArray) all = instance_plans(&in);
    for (guint k = 0; k < all->len; k += 1 + all->len / 100, checked++)
      check_layout(&g_array_index(all, Plan, k), in.model);
    instance_clear(&in);
  }
  ck_assert_int_gt(checked, 50);
  g_rand_free(rand);
}
END_TEST

/* Of experts a part is a shard's, too, of which there are as many copies as of other weights; a shard group larger than
 * the replicas, and more ranks for experts than there are, leave numbers that are finite. */
START_TEST(experts_parts_are_their_shards)
{
  g_autoptr(Model) model = fixture_experts(1, 512, 8, 4, 128, 1000);
  g_autoptr(Framework) f = fixture_framework("tdp-run");
  Plan p = plan_default(model, f);

  p.gpus = p.dp = 8;
  p.ep = 2;
  p.zero = 2;
  for (int group = 1; group <= 8; group *= 2) {
    p.shard_group = group;
    const Layout l = layout_of(&p);
    int parts = MAX(1, group / 2); /* 4 ranks hold the same experts, 8 / group times */
    ck_assert_int_eq(l.states[1].shards, parts);
    ck_assert_double_eq(l.passes.shard_bytes[1], f->shard_gradient_bytes + f->shard_sum_bytes / parts);
    ck_assert_double_eq(l.passes.shard_bytes[0], f->shard_gradient_bytes + f->shard_sum_bytes / group);
  }
  ck_assert_double_gt(f->shard_sum_bytes, 0);
  for (p.ep = 2; p.ep <= 32; p.ep *= 4)
    for (p.shard_group = 1; p.shard_group <= 32; p.shard_group *= 2) {
      const Layout l = layout_of(&p);
      ck_assert_int_ge(MIN(l.states[0].shards, l.states[1].shards), 1);
      ck_assert_int_ge(MIN(l.states[0].copies, l.states[1].copies), 1);
      ck_assert(isfinite(l.passes.shard_bytes[0]) && isfinite(l.passes.shard_bytes[1]));
    }
}
END_TEST

/* ---- overlaps ---- */

/* The plan with one overlap the other way. */
static Plan with_other(const Plan *p, int bit)
{
  Plan other = *p;
  gboolean *const switches[] = { &other.overlap.gradients, &other.overlap.parameters, &other.overlap.pipeline,
                                 &other.overlap.tensor, &other.overlap.offload };

  *switches[bit] ^= 1;
  ck_assert_uint_eq(overlap_bits(&p->overlap) ^ overlap_bits(&other.overlap), 1u << bit);
  return other;
}

/* Which of a plan's overlaps change its simulated step: none but those that mean something. */
static guint changing(const Instance *in, const Plan *p)
{
  guint changed = 0;
  Metrics as_it_is, m;

  instance_simulate(in, p, NULL, &as_it_is);
  for (int bit = 0; bit < OVERLAP_BITS; bit++) {
    const Plan other = with_other(p, bit);
    if (plan_check(&other, in->model, in->cluster, NULL) != RULE_NONE)
      continue;
    instance_simulate(in, &other, NULL, &m);
    changed |= memcmp(&m, &as_it_is, sizeof m) != 0 ? 1u << bit : 0;
  }
  g_autofree char *label = plan_label(p);
  ck_assert_msg(!(changed & ~plan_overlaps(p)), "%s: %x change the step, %x mean something", label, changed,
                plan_overlaps(p));
  return changed;
}

START_TEST(overlaps_mean_something_or_change_nothing)
{
  GRand *rand = g_rand_new_with_seed(900);
  guint changed = 0;

  for (guint i = 0; i < 10 * G_N_ELEMENTS(frameworks); i++) {
    Instance in;
    instance_framework_init(&in, rand, frameworks[i % G_N_ELEMENTS(frameworks)]);
    instance_fix(&in, rand);
    g_autoptr(GArray) all = instance_plans(&in);
    for (guint k = 0; k < all->len; k += 1 + all->len / 12)
      changed |= changing(&in, &g_array_index(all, Plan, k));
    instance_clear(&in);
  }
  ck_assert_uint_eq(changed & OVERLAP_SWITCHES, OVERLAP_SWITCHES);
  g_rand_free(rand);
}
END_TEST

/* ---- strategies of layers ---- */

START_TEST(layers_have_their_runs)
{
  static const int of_layer[] = { -1, 0, 0, 1, 1, 1, 1, 1, 1, -1 };
  Planned f;
  Layout room;

  planned_init(&f, fixture_llama(8, 1024, 16, 16, 512, 1024), fixture_cluster("dgx-a100-40gb", 16), "galvatron");
  planned_divide(&f, 2, 2, 4);
  f.plan.micro_batch = 2;
  f.plan.global_batch = 32;
  ck_assert(strategies_append(&f.plan.strategies, (StrategyRun) { 4, 2, TRUE, 0, RECOMPUTE_NONE }));
  ck_assert(strategies_append(&f.plan.strategies, (StrategyRun) { 2, 6, FALSE, 1, RECOMPUTE_FULL }));
  planned_accept(&f);
  const Layout l = layout_of(&f.plan);
  ck_assert_int_eq(l.n_runs, 2);
  for (int i = 0; i < f.model->n_layers; i++) {
    int run = layout_run_of_layer(&l, i);
    StrategyRun strategy = run < 0 ? plan_run(&f.plan) : f.plan.strategies.runs[run];
    Plan view = plan_of_run(&f.plan, &strategy);
    const Layout *seen = layout_of_layer(&l, i, &room);
    ck_assert_int_eq(run, of_layer[i]);
    ck_assert_mem_eq(&seen->passes, PASSES(&view), sizeof seen->passes);
    ck_assert_int_eq(seen->states[0].replicas, plan_replicas(&view));
    ck_assert_int_eq(seen->states[0].zero, strategy.zero);
    StrategyRun own = layout_run(seen, -1);
    ck_assert(!strategies_differ(&own, &strategy));
    ck_assert_int_eq(seen->mesh.ranks, 16);
  }
  const Layout kept = layout_keeping(&l);
  ck_assert_int_eq(layout_of_layer(&kept, 5, &room)->passes.recompute.granularity, RECOMPUTE_NONE);
  ck_assert_int_eq(layout_of_layer(&l, 5, &room)->passes.recompute.granularity, RECOMPUTE_FULL);
  planned_clear(&f);
}
END_TEST

/* DeepSpeed's pipelines, and its data parallelism without ZeRO, sum gradients behind backwards, as do stages of
 * torch.distributed.pipelining theirs, whatever the plan says. */
START_TEST(gradients_overlap_where_the_framework_does_it)
{
  static const struct {
    const char *framework;
    int pp, zero;
    gboolean overlaps, once;
  } cases[] = { { "deepspeed", 1, 1, TRUE },  { "deepspeed", 1, 0, FALSE },    { "deepspeed", 2, 1, FALSE },
                { "deepspeed", 1, 3, TRUE },  { "megatron-core", 2, 1, TRUE }, { "megatron-core", 1, 0, TRUE },
                { "torchtitan", 1, 3, TRUE },  { "torchtitan", 2, 3, FALSE, TRUE }, { "torchtitan", 2, 3, FALSE },
                { "fsdp", 2, 3, TRUE }, { "torchtitan-2026-09", 2, 2, FALSE },
                { "kempnerforge-2026", 2, 3, FALSE, TRUE }, { "kempnerforge-2026", 1, 3, TRUE, TRUE } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned p;
    planned_init(&p, fixture_llama(4, 64, 4, 4, 32, 128), fixture_cluster("dgx", 8), cases[i].framework);
    planned_divide(&p, 1, cases[i].pp, 8 / cases[i].pp);
    p.plan.zero = cases[i].zero;
    p.plan.sharding.no_sync = cases[i].once;
    p.plan.overlap.gradients = TRUE;
    Layout l = layout_of(&p.plan);
    ck_assert_int_eq(l.states[0].overlap_gradients, cases[i].overlaps);
    ck_assert_int_eq((l.overlaps_open & OVERLAP_GRADIENTS) != 0, cases[i].overlaps);
    planned_clear(&p);
  }
}
END_TEST

/* nanotron waits for sums of rows that are not divided, whatever the plan overlaps: a step takes as long either way,
 * and no less than where others hide them. */
START_TEST(whole_rows_are_waited_for)
{
  static const struct {
    const char *framework;
    gboolean rows, overlaps;
  } cases[] = { { "nanotron-2025", TRUE, TRUE }, { "nanotron-2025", FALSE, FALSE }, { "megatron-core", FALSE, TRUE },
                { "megatron-core", TRUE, TRUE } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned p;
    double step_s[2];
    planned_init(&p, fixture_llama(4, 1024, 16, 16, 1024, 1024), fixture_cluster("dgx", 2), cases[i].framework);
    planned_divide(&p, 2, 1, 1);
    p.plan.sequence_parallel = cases[i].rows;
    for (int on = 0; on < 2; on++) {
      p.plan.overlap.tensor = on;
      ck_assert_int_eq(layout_of(&p.plan).passes.overlap_tensor, on && cases[i].overlaps);
      step_s[on] = planned_run(&p).iteration_s;
    }
    ck_assert_int_eq(step_s[0] != step_s[1], cases[i].overlaps);
    planned_clear(&p);
  }
}
END_TEST

/* How sequences are shared says nothing where each is on one rank, whatever the plan's words. */
START_TEST(whole_sequences_change_no_heads)
{
  Planned p;

  planned_init(&p, fixture_llama(4, 64, 4, 4, 32, 128), fixture_cluster("dgx", 8), "megatron-core-2026");
  planned_divide(&p, 1, 1, 8);
  p.plan.global_batch = 8;
  for (int context = 0; context < CONTEXT_COUNT; context++) {
    p.plan.context = context;
    p.plan.context_inner = 2;
    planned_accept(&p);
    const PassLayout l = *PASSES(&p.plan);
    ck_assert_int_eq(l.context_inner, 1);
    ck_assert_int_eq(pass_group(&l, p.cluster, RANKS_CONTEXT_INNER).size, 1);
    ck_assert_int_eq(pass_group(&l, p.cluster, RANKS_CONTEXT_OUTER).size, 1);
  }
  planned_clear(&p);
}
END_TEST

TEST_LOOPS("layout", { experts_parts_are_their_shards, 1 },
           { whole_sequences_change_no_heads, 1 }, { whole_rows_are_waited_for, 1 },
           { gradients_overlap_where_the_framework_does_it, 1 },
           { plans_mean_what_they_say, G_N_ELEMENTS(frameworks) }, { layers_have_their_runs, 1 },
           { overlaps_mean_something_or_change_nothing, 1 },
           { ends_meet_where_one_rank_has_both, 1 })
