#include "main.h"
#include "planned.h"

/* A GPT of 16 blocks and what a test changes of its plan. */
static void setup(Planned *f, const char *framework)
{
  planned_init(f, fixture_model(16, 512, 8, 128, 1024), fixture_cluster("dgx", 64), framework);
}

static void build(Planned *f)
{
  planned_divide(f, f->plan.tp, f->plan.pp, f->plan.dp);
  planned_build(f);
}

static const Segment *segment_of(const Planned *f, guint task)
{
  return &g_array_index(f->program->segments, Segment, g_array_index(f->program->tasks, Task, task).segment);
}

/* Bytes that a row's tasks of a kind move in a step. */
static double moved(const Planned *f, TaskKind kind, int row)
{
  double bytes = 0;

  for (guint i = 0; i < f->program->tasks->len; i++)
    if (g_array_index(f->program->tasks, Task, i).kind == kind && g_array_index(f->program->tasks, Task, i).row == row)
      bytes += segment_of(f, i)->comm_bytes;
  return bytes;
}

static int count(const Planned *f, TaskKind kind)
{
  int n = 0;
  for (guint i = 0; i < f->program->tasks->len; i++)
    n += g_array_index(f->program->tasks, Task, i).kind == kind;
  return n;
}

static double params(const Planned *f)
{
  double sum = 0;
  for (int i = 0; i < f->model->n_layers; i++)
    sum += f->prices->layers[f->model->layers[i]].params;
  return sum;
}

typedef struct {
  int zero;
  DType precision;
  const char *framework;
  double weights, gradients, optimizer; /* bytes a parameter at data parallel 8 */
} States;

/* ZeRO (arXiv 1910.02054) with 2-byte gradients: 16, 4 + 12/d, 2 + 14/d, 16/d;
 * Megatron with fp32 gradients: 18, 6 + 12/d, in fp16 16; fp32: 16; nanotron
 * too, whose 16-bit gradients go with their backward. */
static const States states[] = {
  { 0, DTYPE_FP16, "deepspeed", 2, 2, 12 },
  { 1, DTYPE_FP16, "deepspeed", 2, 2, 12.0 / 8 },
  { 2, DTYPE_FP16, "deepspeed", 2, 2.0 / 8, 12.0 / 8 },
  { 3, DTYPE_FP16, "deepspeed", 2.0 / 8, 2.0 / 8, 12.0 / 8 },
  { 0, DTYPE_FP16, "megatron-core", 2, 2, 12 },
  { 1, DTYPE_BF16, "nanotron-2025", 2, 4, 12.0 / 8 },
  { 0, DTYPE_BF16, "megatron-core", 2, 4, 12 },
  { 1, DTYPE_BF16, "megatron-core", 2, 4, 12.0 / 8 },
  { 0, DTYPE_FP32, "deepspeed", 4, 4, 8 },
};

START_TEST(states_by_the_book)
{
  const States *s = &states[_i];
  Planned f;

  setup(&f, s->framework);
  f.plan.dp = f.plan.global_batch = 8;
  f.plan.zero = s->zero;
  f.plan.precision = s->precision;
  build(&f);
  const double *bytes = f.program->rows[0].static_bytes;
  ck_assert_double_eq_tol(bytes[PART_WEIGHTS] / params(&f), s->weights, 1e-9);
  ck_assert_double_eq_tol(bytes[PART_GRADIENTS] / params(&f), s->gradients, 1e-9);
  ck_assert_double_eq_tol(bytes[PART_OPTIMIZER] / params(&f), s->optimizer, 1e-9);
  ck_assert_double_eq_tol(bytes[PART_OVERHEAD], f.framework->context_bytes + f.framework->group_bytes, 1);
  planned_clear(&f);
}
END_TEST

typedef struct {
  int zero;
  double reduced, gathered; /* model sizes in a step of three micro-batches */
} Volume;

/* DDP and ZeRO-1 reduce once; ZeRO-2 scatters every micro-batch; ZeRO-3 gathers
 * for each forward and backward besides. */
static const Volume volumes[] = { { 0, 1, 0 }, { 1, 1, 1 }, { 2, 3, 1 }, { 3, 3, 6 } };

START_TEST(volumes_by_the_book)
{
  const Volume *v = &volumes[_i % 4];
  Planned f;

  setup(&f, "deepspeed");
  f.plan.dp = 8;
  f.plan.global_batch = 24;
  f.plan.zero = v->zero;
  f.plan.overlap.gradients = f.plan.overlap.parameters = _i < 4;
  build(&f);
  ck_assert_double_eq_tol(moved(&f, TASK_REDUCE, 0) / (params(&f) * 2), v->reduced, 1e-9);
  ck_assert_double_eq_tol(moved(&f, TASK_GATHER, 0) / (params(&f) * 2), v->gathered, 1e-9);
  planned_clear(&f);
}
END_TEST

/* Each boundary carries 2 s b h bytes each way for each micro-batch, a share of
 * it under sequence parallelism or scatter-gather; interleaving multiplies. */
START_TEST(sends_by_the_book)
{
  double activation = 2.0 * 128 * 512;
  Planned f;

  setup(&f, "fsdp");
  f.plan.pp = 4;
  f.plan.tp = 2;
  f.plan.global_batch = 8;
  build(&f);
  ck_assert_int_eq(count(&f, TASK_SEND), 2 * 3 * 8);
  ck_assert_double_eq_tol(moved(&f, TASK_SEND, 0), 8 * activation, 1);
  ck_assert_double_eq_tol(moved(&f, TASK_SEND, 1), 2 * 8 * activation, 1);
  planned_clear(&f);

  /* tensor-parallel ranks send a part each where the software cuts what it sends, or rows are divided anyway */
  static const struct {
    const char *framework;
    gboolean rows;
    double part;
  } senders[] = { { "megatron-2021", FALSE, 0.5 }, { "megatron-core", FALSE, 1 }, { "megatron-core", TRUE, 0.5 } };
  for (gsize i = 0; i < G_N_ELEMENTS(senders); i++) {
    setup(&f, senders[i].framework);
    f.plan.pp = 4;
    f.plan.tp = 2;
    f.plan.sequence_parallel = senders[i].rows;
    f.plan.global_batch = 8;
    plan_set_schedule(&f.plan, schedule_find("interleaved"), 2);
    build(&f);
    ck_assert_int_eq(count(&f, TASK_SEND), 2 * 7 * 8);
    ck_assert_double_eq_tol(moved(&f, TASK_SEND, 1), 4 * 8 * activation * senders[i].part, 1);
    planned_clear(&f);
  }
}
END_TEST

static Segment first_send(Planned *f, gboolean scatters)
{
  setup(f, "megatron-core");
  f->framework->scatter_gather = TRUE;
  f->plan.pp = f->plan.tp = 2;
  f->plan.sequence_parallel = !scatters;
  f->plan.global_batch = 8;
  build(f);
  for (guint i = 0; i < f->program->segments->len; i++)
    if (g_array_index(f->program->segments, Segment, i).kind == TASK_SEND)
      return g_array_index(f->program->segments, Segment, i);
  ck_abort_msg("no send");
}

/* Receivers gather what came in parts: its time counts, but the sender's links are as busy as with a part alone. */
START_TEST(senders_do_not_gather)
{
  Planned f, rows;
  Segment scattered = first_send(&f, TRUE), part = first_send(&rows, FALSE);

  ck_assert_double_eq(scattered.comm_bytes, part.comm_bytes);
  ck_assert_double_gt(scattered.seconds, part.seconds);
  ck_assert_double_eq_tol(scattered.seconds - part.seconds, scattered.cost.seconds - part.cost.seconds, 1e-12);
  ck_assert_double_gt(part.cost.use.transfer_s, 0);
  ck_assert_double_eq(scattered.cost.use.transfer_s, part.cost.use.transfer_s);
  for (int tier = 0; tier < TIER_MAX; tier++)
    ck_assert_double_eq(scattered.cost.use.port_s[tier], part.cost.use.port_s[tier]);
  planned_clear(&f);
  planned_clear(&rows);
}
END_TEST

/* Tied embeddings are summed by both ends, once; untied or on one stage never. */
START_TEST(tied_embeddings)
{
  Planned f;

  setup(&f, "megatron-core");
  f.plan.pp = 4;
  f.plan.global_batch = 4;
  build(&f);
  ck_assert_int_eq(count(&f, TASK_TIED), 2);
  ck_assert_double_eq_tol(moved(&f, TASK_TIED, 3), 4.0 * 1024 * 512, 1);
  ck_assert_double_eq(moved(&f, TASK_TIED, 1), 0);
  planned_clear(&f);
  setup(&f, "megatron-core");
  build(&f);
  ck_assert_int_eq(count(&f, TASK_TIED), 0);
  planned_clear(&f);
}
END_TEST

/* Whether `task` waits for `other`, directly or through its lane or others. */
static gboolean waits_for(const Program *p, int task, int other)
{
  const Task *t = &g_array_index(p->tasks, Task, task);

  for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
    if (p->deps[d] == other)
      return TRUE;
  return FALSE;
}

/* The norm waits for the last passes of all rows; every optimizer waits for it. */
START_TEST(norm_is_a_barrier)
{
  Planned f;
  int norm = -1;

  setup(&f, "megatron-core");
  f.plan.pp = 4;
  f.plan.global_batch = 4;
  build(&f);
  for (guint i = 0; i < f.program->tasks->len; i++)
    if (g_array_index(f.program->tasks, Task, i).kind == TASK_NORM)
      norm = i;
  ck_assert_int_ge(norm, 0);
  for (int row = 0; row < 4; row++) {
    int lane = row * LANE_COUNT + LANE_COMPUTE, end = f.program->lane_first[lane + 1];
    int optimizer = f.program->lane_tasks[end - 1], last_pass = f.program->lane_tasks[end - 2];
    ck_assert_int_eq(g_array_index(f.program->tasks, Task, optimizer).kind, TASK_OPTIMIZER);
    ck_assert(waits_for(f.program, optimizer, norm));
    ck_assert(waits_for(f.program, norm, last_pass));
  }
  planned_clear(&f);
}
END_TEST

/* ZeRO-3 never holds more than two gathered layers, and one without prefetch. */
START_TEST(gathers_are_bounded)
{
  for (int ahead = 0; ahead < 2; ahead++) {
    Planned f;
    setup(&f, "deepspeed");
    f.plan.dp = 8;
    f.plan.global_batch = 8;
    f.plan.zero = 3;
    f.plan.overlap.parameters = ahead;
    build(&f);
    int gathered = 0, passed = 0;
    for (int i = 0; i < (int)f.program->tasks->len; i++) {
      const Task *t = &g_array_index(f.program->tasks, Task, i);
      if (t->kind == TASK_GATHER && ++gathered > 1 + ahead)
        ck_assert_int_eq(t->n_deps, 1);
      passed += t->kind == TASK_PASS;
    }
    ck_assert_int_eq(gathered, passed);
    planned_clear(&f);
  }
}
END_TEST

/* The optimizer updates what the rank owns, behind passes over all of its gradients. */
START_TEST(optimizer_updates_its_share)
{
  double seconds[2];

  for (int zero = 0; zero < 2; zero++) {
    Planned f;
    setup(&f, "megatron-core");
    f.plan.dp = f.plan.global_batch = 8;
    f.plan.zero = zero;
    build(&f);
    for (guint i = 0; i < f.program->tasks->len; i++)
      if (g_array_index(f.program->tasks, Task, i).kind == TASK_OPTIMIZER)
        seconds[zero] = segment_of(&f, i)->seconds - f.cluster->device.kernels.memory_launch_s;
    planned_clear(&f);
  }
  ck_assert_double_eq_tol(seconds[0] / seconds[1], (38 + 3 * 4) / (38 / 8.0 + 3 * 4), 1e-9); /* scaled whole */
}
END_TEST

/* Collectives of a block: what, and how often, of 2 s b h bytes each. */
static int collectives(const GArray *ops, Collective what)
{
  int n = 0;
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    if (op->kind == OP_COLLECTIVE && op->collective.what == what) {
      ck_assert_double_eq(op->collective.bytes, 2.0 * 128 * 512);
      n++;
    }
  }
  return n;
}

/* Tensor parallelism: two all-reduces forward, two backward. With sequence
 * parallelism two gathers and two scatters each way, and two gathers again for
 * the weight gradients (Korthikanti et al. 2022, section 4.2). */
/* Sharded states in one collective, tensor by tensor, or from rank to rank. */
START_TEST(sharded_collectives_in_parts)
{
  static const struct { int zero, tensors, launches; gboolean whole; } ways[] = {
    { 3, 0, 2, FALSE }, { 3, 4, 2, FALSE }, { 1, 4, 2, FALSE }, { 2, 4, 2, TRUE }, { 1, 4, 2, TRUE },
  };

  for (guint w = 0; w < G_N_ELEMENTS(ways); w++) {
    Planned f;

    setup(&f, "megatron-2021");
    f.plan.dp = 16;
    f.plan.global_batch = 16;
    f.plan.zero = ways[w].zero;
    f.framework->shard_tensors = ways[w].tensors;
    f.framework->shard_list_launches = ways[w].launches;
    f.framework->whole_tensors = ways[w].whole;
    build(&f);
    int found = 0;
    for (guint i = 0; i < f.program->tasks->len; i++) {
      const Segment *s = segment_of(&f, i);
      if (s->kind != TASK_GATHER && s->kind != TASK_REDUCE)
        continue;
      gboolean tensors = ways[w].zero == 3 && ways[w].tensors;
      gboolean at_once = ways[w].zero == 1 && s->kind == TASK_REDUCE, whole = ways[w].whole && !at_once;
      int parts = whole ? 16 : tensors ? ways[w].tensors : 1;
      double part_s = tensors ? ways[w].launches * 16 * f.framework->issue_s : 0;
      Collective what = whole ? COLLECTIVE_BROADCAST : s->collective;
      ck_assert_int_eq(s->collective == COLLECTIVE_ALL_REDUCE, ways[w].whole && at_once);
      CollectiveCost part = collective_cost(f.cluster, what, s->comm_bytes / parts, &s->group);
      ck_assert_double_eq_tol(s->seconds, parts * (part.seconds + part_s) + f.framework->collective_s, 1e-12);
      ck_assert_double_eq_tol(s->cost.use.transfer_s, parts * part.use.transfer_s, 1e-12);
      found++;
    }
    ck_assert_int_ge(found, 2);
    planned_clear(&f);
  }
}
END_TEST

/* Whole tensors over a part of the replicas: one sum over all of these, no other over copies of a part. */
START_TEST(whole_tensors_are_summed_at_once)
{
  for (int whole = 0; whole < 2; whole++) {
    int n[2] = { 0 };
    Planned f;

    setup(&f, "megatron-2021");
    f.plan.dp = 16;
    f.plan.global_batch = 16;
    f.plan.zero = 1;
    f.framework->shard_groups = TRUE;
    f.plan.shard_group = 4;
    f.framework->whole_tensors = whole;
    build(&f);
    for (guint i = 0; i < f.program->tasks->len; i++) {
      const Segment *s = segment_of(&f, i);
      if (s->kind == TASK_GATHER)
        ck_assert_int_eq(s->group.size, 4);
      if (s->kind != TASK_REDUCE)
        continue;
      ck_assert_int_eq(s->group.size, whole ? 16 : 4);
      ck_assert_int_eq(s->collective, whole || s->across ? COLLECTIVE_ALL_REDUCE : COLLECTIVE_REDUCE_SCATTER);
      n[s->across]++;
    }
    ck_assert_int_ge(n[0], 1);
    ck_assert_int_eq(n[1], whole ? 0 : n[0]);
    planned_clear(&f);
  }
}
END_TEST

/* A bucket's tensors belong to as large a share of the ranks as it is of all weights: buckets make no more broadcasts. */
START_TEST(buckets_of_whole_tensors_have_their_owners)
{
  double seconds[2] = { 0 };

  for (int cut = 0; cut < 2; cut++) {
    Planned f;
    int n = 0;

    setup(&f, "megatron-2021");
    f.plan.dp = f.plan.global_batch = 64;
    f.plan.zero = 1;
    f.plan.overlap.parameters = f.plan.overlap.gradients = TRUE;
    f.framework->whole_tensors = TRUE;
    f.framework->bucket_params = cut ? 1 : 1e12;
    f.framework->collective_s = 0;
    build(&f);
    for (guint i = 0; i < f.program->tasks->len; i++)
      if (segment_of(&f, i)->kind == TASK_GATHER) {
        seconds[cut] += segment_of(&f, i)->seconds;
        n++;
      }
    ck_assert_int_eq(n > 1, cut);
    planned_clear(&f);
  }
  ck_assert_double_ge(seconds[1], 0.999 * seconds[0]);
  ck_assert_double_le(seconds[1], 1.25 * seconds[0]); /* each rounds its owners up */
}
END_TEST

/* How often each weight of a block is gathered in a step; of each gather links are busy for the same share. */
static double gathered_times(Planned *f)
{
  double bytes = 0, busy = -1;

  build(f);
  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Segment *s = segment_of(f, i);
    if (s->kind == TASK_GATHER && model_layer(f->model, s->first_layer)->kind == LAYER_BLOCK) {
      busy = busy < 0 ? s->cost.use.transfer_s / s->seconds : busy;
      ck_assert_double_eq_tol(s->cost.use.transfer_s / s->seconds, busy, 1e-12);
      bytes += s->comm_bytes;
    }
  }
  return bytes / (2 * planned_layer(f, 1).params * f->model->blocks);
}

/* Of four alike tensors of a recomputed layer the last stays where one fits, others where what passes both ways over
 * those behind them fits, too. */
START_TEST(released_weights_are_gathered_again)
{
  static const struct {
    double live; /* tensors */
    Recompute recompute;
    double again; /* share of a backward's gather */
  } rows[] = {
    { 0, RECOMPUTE_FULL, 0 },     { 0.9, RECOMPUTE_FULL, 1 },    { 1, RECOMPUTE_FULL, 0.75 },
    { 1.9, RECOMPUTE_FULL, 0.75 }, { 2, RECOMPUTE_FULL, 0.5 },   { 4, RECOMPUTE_FULL, 0.25 },
    { 6, RECOMPUTE_FULL, 0 },     { 0.9, RECOMPUTE_NONE, 0 },    { 0.9, RECOMPUTE_SELECTIVE, 0 },
  };
  Planned f;

  setup(&f, "megatron-2021");
  f.plan.dp = 16;
  f.plan.global_batch = 16;
  f.plan.zero = 3;
  f.plan.recompute = rows[_i].recompute;
  f.framework->shard_tensors = 4;
  f.framework->shard_live_params = rows[_i].live * planned_layer(&f, 1).params / 4 * (1 + 1e-9);
  ck_assert_double_eq_tol(gathered_times(&f), 2 + rows[_i].again, 1e-6);
  planned_clear(&f);
}
END_TEST

START_TEST(tensor_collectives_by_the_book)
{
  Planned f;
  LayerWork work;

  setup(&f, "megatron-core");
  f.plan.tp = 4;
  build(&f);
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  ck_assert_int_eq(collectives(work.forward, COLLECTIVE_ALL_REDUCE), 2);
  ck_assert_int_eq(collectives(work.backward, COLLECTIVE_ALL_REDUCE), 2);
  layer_work_clear(&work);
  f.plan.sequence_parallel = TRUE;
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  ck_assert_int_eq(collectives(work.forward, COLLECTIVE_ALL_GATHER), 2);
  ck_assert_int_eq(collectives(work.forward, COLLECTIVE_REDUCE_SCATTER), 2);
  ck_assert_int_eq(collectives(work.backward, COLLECTIVE_ALL_GATHER), 4);
  ck_assert_int_eq(collectives(work.backward, COLLECTIVE_REDUCE_SCATTER), 2);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* Experts add a gather and a scatter each way, as attention has them. */
START_TEST(expert_collectives_mirror)
{
  g_autoptr(Model) model = fixture_known_model("mixtral-8x7b");
  Planned f;
  LayerWork work;
  int found[2][2] = { { 0 } };

  setup(&f, "megatron-core");
  f.plan.tp = 4;
  f.plan.seq = 128;
  f.plan.sequence_parallel = TRUE;
  build(&f);
  layer_work_init(&work, model, model_layer(model, 1), PASSES(&f.plan), f.cluster);
  for (int backward = 0; backward < 2; backward++) {
    const GArray *ops = backward ? work.backward : work.forward;
    for (guint i = 0; i < ops->len; i++)
      if (g_array_index(ops, Op, i).kind == OP_COLLECTIVE)
        found[backward][g_array_index(ops, Op, i).collective.what == COLLECTIVE_REDUCE_SCATTER]++;
  }
  ck_assert_int_eq(found[0][0], 2);
  ck_assert_int_eq(found[0][1], 2);
  ck_assert_int_eq(found[1][0], 4); /* both inputs again, both outputs' gradients */
  ck_assert_int_eq(found[1][1], 2);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* The head keeps two 16-bit inputs and fp32 logits. */
START_TEST(logits_are_kept)
{
  Planned f;
  LayerWork work;

  setup(&f, "fsdp");
  build(&f);
  layer_work_init(&work, f.model, model_layer(f.model, f.model->n_layers - 1), PASSES(&f.plan), f.cluster);
  ck_assert_double_eq_tol(work.saved_bytes, 4.0 * 128 * 512 + 4.0 * 128 * 1024, 1);
  ck_assert_double_ge(work.transient_bytes, 2.0 * 128 * 1024);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("program", { states_by_the_book, G_N_ELEMENTS(states) }, { volumes_by_the_book, 8 }, { sends_by_the_book },
           { senders_do_not_gather }, { tied_embeddings }, { norm_is_a_barrier }, { gathers_are_bounded }, { optimizer_updates_its_share },
           { whole_tensors_are_summed_at_once }, { buckets_of_whole_tensors_have_their_owners },
           { sharded_collectives_in_parts }, { released_weights_are_gathered_again, 9 }, { tensor_collectives_by_the_book }, { expert_collectives_mirror },
           { logits_are_kept })
