/* States on the host and on NVMe. */
#include "accuracy/run_kind.h"
#include "cost/offload.h"
#include "main.h"
#include "search/bound.h"
#include "sim/simulate.h"
#include "stated.h"

/* A copy is as slow as its narrowest part: the link, the host's memory, the drives of 8 devices. */
START_TEST(copies_share_the_node)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  ck_assert_double_eq_tol(host_copy_s(f.cluster, STATES(&f.plan), STORE_CPU, TRUE, 1e9), 1e9 / 2.5e10, 1e-12);
  ck_assert_double_eq_tol(host_copy_s(f.cluster, STATES(&f.plan), STORE_NVME, TRUE, 1e9), 8e9 / 2e10, 1e-12);
  ck_assert_double_eq_tol(host_copy_s(f.cluster, STATES(&f.plan), STORE_NVME, FALSE, 1e9), 8e9 / 1e10, 1e-12);
  f.cluster->host_memory_bytes_per_s = 1e11;
  ck_assert_double_eq_tol(host_copy_s(f.cluster, STATES(&f.plan), STORE_CPU, TRUE, 1e9), 8e9 / 1e11, 1e-12);
  ck_assert_double_eq(host_copy_s(f.cluster, STATES(&f.plan), STORE_DEVICE, TRUE, 1e9), 0);
  planned_clear(&f);
}
END_TEST

/* Serial: 30 bytes of Adam, 2 up, 16 each way of NVMe; sub-groups overlap them down to the longest, of which one that is
 * not full counts by its part. */
START_TEST(sub_groups_overlap)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  f.plan.zero = 1;
  f.plan.offload.optimizer = STORE_NVME;
  double adam = 1e9 * 30 * 8 / 2e11, up = 2e9 / 2.5e10, drives = 1e9 * 16 * 8 * (1 / 2e10 + 1 / 1e10);
  HostStep whole = host_step(STATES(&f.plan), f.cluster, 1e9, 8);
  ck_assert_double_eq_tol(whole.host_s + whole.copied_s, adam + up + drives, 1e-9);
  f.plan.offload.sub_group = 1e8;
  HostStep ten = host_step(STATES(&f.plan), f.cluster, 1e9, 8);
  ck_assert_double_eq_tol(ten.host_s + ten.copied_s, drives + (adam + up) / 10, 1e-9);
  HostStep more = host_step(STATES(&f.plan), f.cluster, 1.0001e9, 8);
  ck_assert_double_gt(more.host_s + more.copied_s, ten.host_s + ten.copied_s);
  f.plan.offload.sub_group = 0; /* 1e9 through NVMe, else all */
  HostStep usual = host_step(STATES(&f.plan), f.cluster, 4e9, 8);
  ck_assert_double_eq_tol(usual.host_s + usual.copied_s, 4 * drives + adam + up, 1e-9);
  f.plan.offload.optimizer = STORE_CPU;
  usual = host_step(STATES(&f.plan), f.cluster, 4e9, 8);
  ck_assert_double_eq_tol(usual.host_s, 4 * adam, 1e-9);
  ck_assert_double_eq_tol(usual.copied_s, 4 * up, 1e-9);
  f.plan.offload.optimizer = STORE_NVME;
  f.plan.offload.sub_group = 1e8;
  f.plan.offload.delayed = TRUE;
  HostStep late = host_step(STATES(&f.plan), f.cluster, 1e9, 8);
  ck_assert_double_eq_tol(late.beside_s, adam + drives, 1e-9);
  ck_assert_double_eq_tol(late.copied_s, up, 1e-9);
  f.plan.overlap.offload = FALSE;
  ck_assert_double_eq_tol(host_step(STATES(&f.plan), f.cluster, 1e9, 8).copied_s, 2 * up, 1e-9);
  planned_clear(&f);
}
END_TEST

/* Adam's bytes are those of the node's ranks, however a pipeline cuts the model: its fullest stage waits for all of
 * them, and an end that is not full leaves the host to the others. What bounds the search stays below (planned_run). */
START_TEST(pipelines_share_the_host)
{
  Planned f;

  stated_init(&f, "megatron-core", 8);
  model_free(f.model);
  f.model = fixture_llama(8, 1024, 16, 16, 1024, 32000);
  f.plan.zero = 1;
  f.plan.offload.optimizer = STORE_CPU;
  f.cluster->host_memory_bytes_per_s = 2e10; /* so that little else matters */
  double adam = stated_params(&f) * 30 / 2e10;
  for (int dp = 1; dp <= 4; dp *= 2)
    for (f.plan.pipeline_inner = FALSE; f.plan.pipeline_inner <= (dp > 1); f.plan.pipeline_inner++) {
      planned_divide(&f, 1, 8 / dp, dp);
      Metrics m = planned_run(&f);
      ck_assert_double_eq_tol((m.optimizer_s - f.framework->step_s) / adam, 1, 0.01);
    }
  planned_clear(&f);
}
END_TEST

/* Room is asked of the fullest node, by every rank's own layers: those of stages that are not alike, an embedding at the
 * ends and tied weights twice among them, in whatever order ranks stand on nodes. */
START_TEST(the_fullest_node_has_room)
{
  static const struct {
    int pp, dp, inner, chunks, split[4];
    const char *schedule;
  } cases[] = { { 2, 8, 0, 1, { 0 }, "1f1b" },       { 4, 4, 0, 1, { 0 }, "1f1b" },       { 4, 4, 1, 1, { 0 }, "1f1b" },
                { 4, 4, 0, 2, { 0 }, "interleaved" }, { 2, 8, 0, 2, { 0 }, "zb-v" },       { 4, 4, 0, 1, { 1, 1, 3, 3 }, "1f1b" },
                { 2, 8, 0, 1, { 2, 6 }, "1f1b" },     { 1, 16, 0, 1, { 0 }, "1f1b" } };
  double nodes[2] = { 0 };
  Planned f;

  stated_init(&f, "megatron-core", 16);
  model_free(f.model);
  f.model = fixture_model(8, 1024, 16, 1024, 51200); /* tied */
  f.plan.zero = 1;
  f.plan.offload.optimizer = STORE_CPU;
  f.plan.pipeline_inner = cases[_i].inner;
  f.plan.vpp = cases[_i].chunks;
  f.plan.schedule = schedule_find(cases[_i].schedule);
  f.plan.split.stages = cases[_i].split[0] ? cases[_i].pp : 0;
  for (int i = 0; i < 4; i++)
    f.plan.split.layers[i] = cases[_i].split[i];
  planned_divide(&f, 1, cases[_i].pp, cases[_i].dp);
  planned_build(&f);
  const Mesh mesh = LAYOUT(&f.plan)->mesh;
  for (int rank = 0; rank < 16; rank++)
    for (int chunk = 0; chunk < f.plan.vpp; chunk++) {
      int coordinates[AXIS_COUNT];
      mesh_coordinates(&mesh, rank, coordinates);
      const ScheduleShape shape = plan_shape(&f.plan);
      int stage = schedule_stage(f.plan.schedule, &shape, coordinates[AXIS_PIPELINE], chunk);
      gboolean apart = stage == plan_stages(&f.plan) - 1 && f.plan.pp > 1 && !g_str_equal(cases[_i].schedule, "zb-v");
      double params = apart ? 51200.0 * 1024 : 0;
      for (int i = plan_stage_first_layer(&f.plan, f.model, stage); i < plan_stage_first_layer(&f.plan, f.model, stage + 1); i++)
        params += model_layer(f.model, i)->params;
      nodes[rank / 8] += 16 * params / f.plan.dp;
    }
  f.cluster->host_memory_bytes = MAX(nodes[0], nodes[1]);
  planned_accept(&f);
  f.cluster->host_memory_bytes = 0.9999 * MAX(nodes[0], nodes[1]);
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_OFFLOAD);
  planned_clear(&f);
}
END_TEST

/* ZeRO-Offload moves 2 bytes a parameter down and 2 up, divided over ranks; with ZeRO-2 and 3 down with each of 2
 * micro-batches, before the second up where DeepSpeed adds them on the device. */
START_TEST(gradients_go_down)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  f.plan.offload.optimizer = STORE_CPU;
  for (f.plan.zero = 1; f.plan.zero <= 3; f.plan.zero++) {
    StatedRun r = stated_run(&f);
    ck_assert_double_eq_tol(r.bytes[TASK_STORE] / (stated_params(&f) * 2 / 8), f.plan.zero == 1 ? 1 : 3, 1e-9);
    f.framework->offload_adds = FALSE;
    StatedRun alone = stated_run(&f);
    ck_assert_double_eq_tol(alone.bytes[TASK_STORE] / (stated_params(&f) * 2 / 8), f.plan.zero == 1 ? 1 : 2, 1e-9);
    ck_assert(alone.m.peak_memory_bytes == r.m.peak_memory_bytes);
    ck_assert(f.plan.zero == 1 ? alone.m.iteration_s == r.m.iteration_s : alone.m.iteration_s < r.m.iteration_s);
    f.framework->offload_adds = TRUE;
    ck_assert_double_eq(r.m.memory[PART_OPTIMIZER], 0);
    ck_assert(f.plan.zero == 1 ? r.m.memory[PART_GRADIENTS] > 0 : r.m.memory[PART_GRADIENTS] == 0);
  }
  f.plan.zero = 2;
  f.plan.gpus = f.plan.dp = 1;
  f.plan.global_batch = 2;
  ck_assert(cluster_resize(f.cluster, 1, NULL));
  StatedRun one = stated_run(&f);
  ck_assert_double_eq_tol(one.bytes[TASK_STORE], 3 * 2 * stated_params(&f), 1);
  ck_assert_int_eq(one.tasks[TASK_REDUCE], 0);
  planned_clear(&f);
}
END_TEST

/* Sums of gradients that have not run when a pass starts that makes more, at most once the queue is full, in the
 * second half of the step; `*params`: of these. */
static int queue_of(const Planned *f, double *params)
{
  g_autoptr(Trace) trace = simulate(f->program);
  g_autoptr(GArray) passes = g_array_new(FALSE, FALSE, sizeof(double)); /* when each starts */
  g_autoptr(GArray) sums = g_array_new(FALSE, FALSE, sizeof(Span));
  int most = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    const Segment *segment = &g_array_index(trace->segments, Segment, s->segment);
    if (segment->kind == TASK_REDUCE)
      g_array_append_vals(sums, s, 1);
    if (segment->kind == TASK_PASS && segment->pass == PASS_BACKWARD)
      g_array_append_val(passes, s->start);
  }
  ck_assert_int_eq(passes->len, sums->len);
  *params = 0;
  for (guint i = passes->len / 2; i < passes->len; i++) {
    double queued = 0;
    int n = 0;
    for (guint k = 0; k < i; k++) {
      const Span *s = &g_array_index(sums, Span, k);
      gboolean waits = s->end > g_array_index(passes, double, i) + 1e-12;
      n += waits;
      queued += waits ? g_array_index(trace->segments, Segment, s->segment).comm_bytes : 0;
    }
    most = MAX(most, n);
    *params = MAX(*params, queued / STATES(&f->plan)->reduce_bytes);
  }
  return most;
}

typedef struct {
  const char *framework;
  int zero, queue;
  double params; /* that may be on their way in any number of sums */
} Queue;

static const Queue queues[] = {
  { "deepspeed", 2, 1, 0 },        { "fsdp", 2, 2, 0 },    { "fsdp", 3, 2, 0 },
  { "megatron-core", 2, 1, 60e6 }, { "tdp-run", 2, 1, 0 },
};

/* Over a slow network gradients leave as fast as it carries them: passes wait for a queue that is full, and what is
 * held does not grow with the batch. A longer queue holds more and is no slower. */
START_TEST(gradients_queue)
{
  const Queue *q = &queues[_i];
  Planned f;
  double held[2], params;

  stated_init(&f, q->framework, 8);
  f.plan.zero = q->zero;
  f.plan.overlap.gradients = TRUE;
  f.framework->bucket_params = 4e6;
  f.framework->bucket_params_per_rank = 0;
  f.cluster->tiers[0].bytes_per_s /= 20;
  ck_assert_int_eq(f.framework->reduce_queue, q->queue);
  f.framework->reduce_queue_params = q->params;
  for (int i = 0; i < 2; i++) {
    f.plan.global_batch = i ? 8 * 64 : 8 * 4;
    held[i] = planned_run(&f).memory[PART_BUFFERS];
    int queued = queue_of(&f, &params);
    if (q->params > 0)
      ck_assert(queued > q->queue && params <= q->params && params > q->params / 2);
    else
      ck_assert_int_eq(queued, q->zero == 3 ? MIN(queued, q->queue) : q->queue);
  }
  ck_assert_double_eq(held[0], held[1]);
  double step = planned_run(&f).iteration_s;
  f.framework->reduce_queue = 1000;
  Metrics longer = planned_run(&f);
  ck_assert(longer.iteration_s <= step * (1 + 1e-12));
  if (q->zero == 2)
    ck_assert_double_gt(longer.memory[PART_BUFFERS], 2 * held[1]);
  planned_clear(&f);
}
END_TEST

/* The delayed update hides Adam where passes are longer, and is the step where they are not. */
START_TEST(updates_are_delayed)
{
  Planned f;
  double steps[2][2];

  stated_init(&f, "zero-offload-2021", 8);
  f.plan.zero = 2;
  f.plan.global_batch = 64;
  f.plan.offload.optimizer = STORE_CPU;
  for (int slow = 0; slow < 2; slow++)
    for (int late = 0; late < 2; late++) {
      f.cluster->host_memory_bytes_per_s = slow ? 2e9 : 2e11;
      f.plan.offload.delayed = late;
      steps[slow][late] = stated_run(&f).m.iteration_s;
    }
  double adam = stated_params(&f) / 8 * 30 * 8 / 2e11;
  ck_assert_double_eq_tol(steps[0][0] - steps[0][1], adam, 1e-3 * adam);
  ck_assert(steps[1][1] > 100 * adam && steps[1][1] < steps[1][0]);
  planned_clear(&f);
}
END_TEST

/* Parameters of ZeRO-Infinity come up twice a micro-batch, a rank's part each; none is left on the device. */
START_TEST(weights_come_up)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  f.plan.zero = 3;
  StatedRun here = stated_run(&f);
  f.plan.offload.parameters = STORE_CPU;
  StatedRun there = stated_run(&f);
  ck_assert_double_eq_tol(there.bytes[TASK_FETCH], 2 * 2 * 2 * stated_params(&f) / 8, 1);
  ck_assert_int_eq(there.tasks[TASK_FETCH], there.tasks[TASK_GATHER]);
  ck_assert_double_eq(there.m.memory[PART_WEIGHTS], 0);
  ck_assert(there.m.peak_memory_bytes < here.m.peak_memory_bytes && there.m.iteration_s >= here.m.iteration_s);
  f.plan.offload.parameters = STORE_NVME;
  f.cluster->nvme_read_bytes_per_s = 1e9;
  ck_assert(stated_run(&f).m.offload_s > 10 * there.m.offload_s);
  planned_clear(&f);
}
END_TEST

/* Each block's input goes and comes back; with slow links passes wait, with any less is held. The step's copies would be
 * the peak. */
START_TEST(inputs_leave_and_return)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  f.framework->step_gradients = STEP_IN_PLACE;
  f.plan.recompute = RECOMPUTE_FULL;
  f.plan.micro_batch = 2;
  StatedRun here = stated_run(&f);
  f.plan.offload.activations = STORE_CPU;
  StatedRun there = stated_run(&f);
  double inputs = 8 * 2.0 * 1024 * 1024 * 2;
  ck_assert_double_eq_tol(there.bytes[TASK_STORE], inputs, 1);
  ck_assert_double_eq_tol(there.bytes[TASK_FETCH], inputs, 1);
  ck_assert(there.m.memory[PART_ACTIVATIONS] < here.m.memory[PART_ACTIVATIONS] - inputs / 2);
  f.cluster->device.host_bytes_per_s = 1e9;
  ck_assert(stated_run(&f).m.iteration_s > here.m.iteration_s + inputs / 1e9);
  planned_clear(&f);
}
END_TEST

/* All that the first blocks keep goes and comes back: as much time as without where links are fast, where they are slow
 * as long as they take, and never more is held than the others keep and what comes next. */
START_TEST(layers_leave_and_return)
{
  static const int counts[] = { 1, 3, 4, 7 };
  int layers = counts[_i];
  Planned f;

  stated_init(&f, "megatron-core", 8);
  planned_spread(&f, 4);
  f.plan.micro_batch = 2;
  f.plan.zero = 3; /* each layer is a piece */
  StatedRun here = stated_run(&f);
  double each = planned_layer(&f, 1).saved_bytes, moved = 2.0 * layers * each;
  double lost = 1 + f.plan.framework->fragmentation;
  f.plan.offload.layers = layers;
  f.cluster->device.host_bytes_per_s = f.cluster->host_memory_bytes_per_s = 1e15;
  StatedRun there = stated_run(&f);
  ck_assert_str_eq(run_kind(f.model, LAYOUT(&f.plan), f.cluster, &there.m).names[KIND_OFFLOAD], "activations");
  ck_assert_int_eq(there.tasks[TASK_STORE], 2 * layers);
  ck_assert_double_eq_tol(there.bytes[TASK_STORE], moved, 1);
  ck_assert_double_eq_tol(there.bytes[TASK_FETCH], moved, 1);
  ck_assert_double_eq_tol(there.m.iteration_s, here.m.iteration_s, 1e-3 * here.m.iteration_s);
  double freed = (here.m.memory[PART_ACTIVATIONS] - there.m.memory[PART_ACTIVATIONS]) / each;
  ck_assert_double_ge(freed, layers - 1 - 0.01);
  ck_assert_double_le(freed, layers * lost + 0.01);
  f.cluster->device.host_bytes_per_s = 1e8;
  StatedRun slow = stated_run(&f);
  double waits = slow.m.iteration_s - here.m.iteration_s, copies = 2 * moved / 1e8;
  ck_assert_double_le(waits, copies);
  ck_assert_double_ge(waits, copies - here.m.iteration_s - 2 * each / 1e8);
  ck_assert_double_le(slow.m.memory[PART_ACTIVATIONS], there.m.memory[PART_ACTIVATIONS] + 2 * each * lost);
  planned_clear(&f);
}
END_TEST

/* One by one also where no communication cuts the model into pieces: on one device, and where gradients are summed
 * behind all passes. */
START_TEST(layers_leave_alone)
{
  Planned f;

  stated_init(&f, "megatron-core", _i ? 8 : 1);
  planned_spread(&f, 4);
  f.plan.overlap.gradients = FALSE;
  f.plan.micro_batch = 2;
  StatedRun here = stated_run(&f);
  double each = planned_layer(&f, 1).saved_bytes;
  f.plan.offload.layers = 4;
  f.cluster->device.host_bytes_per_s = f.cluster->host_memory_bytes_per_s = 1e15;
  StatedRun there = stated_run(&f);
  ck_assert_int_eq(there.tasks[TASK_STORE], 2 * 4);
  ck_assert_int_eq(there.tasks[TASK_REDUCE], here.tasks[TASK_REDUCE]);
  ck_assert_double_eq_tol(there.m.iteration_s, here.m.iteration_s, 1e-3 * here.m.iteration_s);
  ck_assert_double_ge((here.m.memory[PART_ACTIVATIONS] - there.m.memory[PART_ACTIVATIONS]) / each, 3 - 0.01);
  planned_clear(&f);
}
END_TEST

/* Megatron Core's own rules of it. */
START_TEST(layers_have_rules)
{
  Planned f;

  stated_init(&f, "megatron-core", 8);
  f.plan.offload.layers = 8;
  planned_refuse(&f, RULE_OFFLOAD, "plan: cpu_offloading_num_layers: 8: expected fewer than the 8 layers of model llama");
  f.plan.offload.layers = 7;
  planned_accept(&f);
  f.plan.recompute = RECOMPUTE_FULL;
  planned_refuse(&f, RULE_OFFLOAD, "plan: cpu_offloading_num_layers: 7: expected 0 but under "
                                   "pipeline_model_parallel_size 1 with one chunk, recompute_granularity none, cuda_graph "
                                   "none and backwards in one pass (1, full, none, 1f1b)");
  f.plan.recompute = RECOMPUTE_NONE;
  f.cluster->host_memory_bytes = 1e6;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 2 GiB");
  f.cluster->host_memory_bytes = 1e12;
  planned_divide(&f, 1, 2, 4);
  planned_refuse(&f, RULE_OFFLOAD, "plan: cpu_offloading_num_layers: 7: expected 0 but under "
                                   "pipeline_model_parallel_size 1 with one chunk, recompute_granularity none, cuda_graph "
                                   "none and backwards in one pass (2, none, none, 1f1b)");
  planned_clear(&f);
  stated_init(&f, "deepspeed", 8);
  f.plan.offload.layers = 1;
  planned_refuse(&f, RULE_OFFLOAD, "plan: cpu_offloading_num_layers: expected nothing, deepspeed does not run it");
  planned_clear(&f);
}
END_TEST

START_TEST(choices_have_rules)
{
  Planned f;

  stated_init(&f, "deepspeed", 16);
  f.plan.sharding.tiling = 2;
  planned_refuse(&f, RULE_SHARDING, "plan: tiling_factor: expected zero_stage 3, it is 0");
  f.plan.zero = 3;
  f.plan.sharding.keeps_gathered = TRUE;
  planned_refuse(&f, RULE_SHARDING, "plan: reshard_after_forward: expected nothing, deepspeed does not run it");
  f.plan.sharding = sharding_options_default();
  f.plan.sharding.secondary = 16;
  planned_refuse(&f, RULE_SHARDING, "plan: zero_hpz_partition_size: 16: expected a divisor of the 16 ranks over which "
                                    "ZeRO divides, and fewer than these");
  f.plan.sharding = sharding_options_default();
  f.plan.sharding.quantized_weights = TRUE;
  f.plan.precision = DTYPE_FP32;
  planned_refuse(&f, RULE_SHARDING, "plan: zero_quantized_weights: expected precision bf16 or fp16");
  f.plan.sharding = sharding_options_default();
  f.plan.precision = DTYPE_BF16;
  f.plan.offload.parameters = STORE_NVME;
  f.plan.zero = 2;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload parameters: expected zero_stage 3, it is 2");
  f.plan.zero = 3;
  f.cluster->nvme_bytes = 1e6;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GB of a node's NVMe, it takes 0 GB");
  f.cluster->nvme_bytes = 0;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected no nvme, that of cluster dgx is not known");
  f.plan.offload = (Offload) { .activations = STORE_CPU };
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload activations: expected recompute_granularity full and a schedule that "
                                   "keeps what forwards leave (none, 1f1b)");
  f.plan.recompute = RECOMPUTE_FULL;
  f.cluster->host_memory_bytes = 1e6;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 0 GiB");
  planned_clear(&f);
}
END_TEST

/* What a file says is what is written, and read again. */
START_TEST(keys_round_trip)
{
  static const char text[] =
      "{\"gpus\":16,\"data_parallel_size\":16,\"zero_stage\":3,\"recompute_granularity\":\"full\",\"framework\":\"deepspeed\","
      "\"zero_optimization\":{\"reduce_bucket_size\":7,\"stage3_prefetch_bucket_size\":0,\"stage3_max_live_parameters\":9,"
      "\"stage3_param_persistence_threshold\":11,\"zero_quantized_weights\":true,\"tiling_factor\":4},"
      "\"offload\":{\"optimizer\":\"nvme\",\"parameters\":\"cpu\",\"activations\":\"cpu\",\"sub_group_size\":5}}";
  g_autoptr(Model) model = fixture_llama(8, 1024, 16, 16, 1024, 1000);
  char *written[2];
  const char *from = text;

  for (int i = 0; i < 2; i++) {
    Framework *framework = NULL;
    GError *error = NULL;
    Plan plan;
    GString *out = g_string_new(NULL);
    JsonWriter w;
    ck_assert_msg(plan_parse(from, strlen(from), "plan", model, &plan, &framework, &error), "%s",
                  error ? error->message : "");
    ck_assert(plan.sharding.bucket == 7 && plan.sharding.prefetch == 0 && plan.sharding.live == 9);
    ck_assert(plan.sharding.tiling == 4 && !plan.sharding.keeps_gathered && plan.offload.sub_group == 5);
    ck_assert(plan.offload.optimizer == STORE_NVME && plan.offload.parameters == STORE_CPU && plan.overlap.offload);
    json_writer_init(&w, out);
    plan_write(&plan, &w, NULL);
    from = written[i] = g_string_free(out, FALSE);
    framework_free(framework);
  }
  ck_assert_str_eq(written[0], written[1]);
  g_free(written[0]);
  g_free(written[1]);
}
END_TEST

TEST_LOOPS("states", { layers_leave_and_return, 4 }, { layers_leave_alone, 2 }, { copies_share_the_node },
           { sub_groups_overlap }, { pipelines_share_the_host }, { the_fullest_node_has_room, 8 },
           { gradients_go_down }, { gradients_queue, G_N_ELEMENTS(queues) },
           { updates_are_delayed }, { weights_come_up }, { inputs_leave_and_return }, { layers_have_rules },
           { choices_have_rules }, { keys_round_trip })
