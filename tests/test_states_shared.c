/* How states are shared: ZeRO's windows and policies, ZeRO++, DDP, DataParallel, divided checkpoints. */
#include "cost/quantized.h"
#include "main.h"
#include "stated.h"


/* The live limit and the prefetch bucket bound what is gathered at once; tiles divide it and leave
 * activations alone. */
START_TEST(windows_bound_gathers)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  f.plan.zero = 3;
  g_autoptr(PriceTable) prices = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
  double block = prices->layers[f.model->layers[1]].params;
  StatedRun one_ahead = stated_run(&f);
  f.plan.sharding.prefetch = 3.5 * block;
  StatedRun three_ahead = stated_run(&f);
  f.plan.sharding.live = 1;
  StatedRun limited = stated_run(&f);
  f.plan.sharding.prefetch = 0;
  f.plan.sharding.live = 0;
  StatedRun none_ahead = stated_run(&f);
  ck_assert_double_eq_tol(three_ahead.m.memory[PART_BUFFERS] - one_ahead.m.memory[PART_BUFFERS], 2 * 2 * block, 1);
  ck_assert_double_eq_tol(limited.m.peak_memory_bytes, none_ahead.m.peak_memory_bytes, 1);
  ck_assert_double_eq_tol(limited.m.iteration_s, none_ahead.m.iteration_s, 1e-12);
  ck_assert(none_ahead.m.iteration_s > one_ahead.m.iteration_s);
  ck_assert(none_ahead.m.peak_memory_bytes < one_ahead.m.peak_memory_bytes);
  f.plan.sharding.tiling = 4;
  StatedRun tiled = stated_run(&f);
  ck_assert(tiled.m.memory[PART_BUFFERS] < none_ahead.m.memory[PART_BUFFERS] - block);
  ck_assert_double_eq_tol(tiled.m.memory[PART_ACTIVATIONS], none_ahead.m.memory[PART_ACTIVATIONS], 1);
  ck_assert(tiled.m.iteration_s > none_ahead.m.iteration_s);
  planned_clear(&f);
}
END_TEST

/* Volumes of 2 micro-batches in parameters: gathers 2 each, or 1 if weights stay; reductions 1 each, or 1 at
 * the end. */
START_TEST(fsdp_policies)
{
  Planned f;

  stated_init(&f, "fsdp", 8);
  f.plan.zero = 3;
  double params = stated_params(&f);
  StatedRun reshards = stated_run(&f);
  ck_assert_double_eq_tol(reshards.bytes[TASK_GATHER] / params, 2 * 2 * 2, 1e-9);
  ck_assert_double_eq_tol(reshards.bytes[TASK_REDUCE] / params, 2 * 2, 1e-9);
  f.plan.sharding.keeps_gathered = TRUE;
  StatedRun keeps = stated_run(&f);
  ck_assert_double_eq_tol(keeps.bytes[TASK_GATHER] / params, 2 * 2, 1e-9);
  ck_assert(keeps.m.peak_memory_bytes > reshards.m.peak_memory_bytes + params);
  f.plan.sharding.no_sync = TRUE;
  StatedRun unsynced = stated_run(&f);
  ck_assert_double_eq_tol(unsynced.bytes[TASK_REDUCE] / params, 2, 1e-9);
  ck_assert_double_eq_tol(unsynced.m.memory[PART_GRADIENTS], 4 * params, 1);
  /* in a pipeline whose forwards all come first, the weights of a stage come once for all micro-batches */
  f.plan.sharding.no_sync = FALSE;
  f.plan.pp = 2;
  f.plan.dp = 4;
  f.plan.schedule = schedule_find("gpipe");
  ck_assert_double_eq_tol(stated_run(&f).bytes[TASK_GATHER] / stated_params(&f), 2, 1e-9);
  planned_clear(&f);
}
END_TEST

/* Gathers of a step of pp stages in m micro-batches, in parameters: stages that hold FSDP2 back gather for the passes
 * behind a forward, which are m + 1 of each chunk whatever the order, or once if forwards keep weights, too. At the
 * step's end all are given back. */
START_TEST(stages_hold_weights)
{
  static const char *const names[] = { "1f1b", "gpipe", "interleaved-rounds", "zb-v", "zb-h1" };
  Planned f;

  stated_init(&f, "torchtitan", 8);
  f.plan.zero = 3;
  f.plan.pp = f.plan.dp = f.plan.tp = 2;
  f.plan.global_batch = 2 * f.plan.micro_batch * 6;
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    f.plan.schedule = schedule_find(names[i]);
    f.plan.vpp = MAX(1, f.plan.schedule->min_chunks);
    f.plan.sharding.keeps_gathered = FALSE;
    StatedRun reshards = stated_run(&f);
    f.plan.sharding.keeps_gathered = TRUE;
    StatedRun keeps = stated_run(&f);
    ck_assert_double_eq_tol(reshards.bytes[TASK_GATHER] / keeps.bytes[TASK_GATHER], 6 + 1, 1e-9);
    ck_assert_double_eq_tol(keeps.bytes[TASK_GATHER], 2 * stated_params(&f), 1);
    ck_assert_double_eq_tol(keeps.bytes[TASK_REDUCE], reshards.bytes[TASK_REDUCE], 1);
  }
  f.plan.pp = f.plan.vpp = 1;
  f.plan.dp = 4;
  f.plan.schedule = schedule_find("1f1b");
  ck_assert_double_eq_tol(stated_run(&f).bytes[TASK_GATHER], 3 * 2 * stated_params(&f), 1);
  planned_clear(&f);
}
END_TEST

/* Small tensors are not gathered and stay whole. */
START_TEST(small_tensors_persist)
{
  Planned f;

  stated_init(&f, "deepspeed", 8);
  f.plan.zero = 3;
  StatedRun all = stated_run(&f);
  f.plan.sharding.persistence = 1025;
  StatedRun some = stated_run(&f);
  double norms = (2 * 8 + 1) * 1024;
  ck_assert_double_eq_tol(all.bytes[TASK_GATHER] - some.bytes[TASK_GATHER], 2 * 2 * 2 * norms, 1);
  ck_assert_double_eq_tol(some.m.memory[PART_WEIGHTS] - all.m.memory[PART_WEIGHTS], 2 * norms * 7 / 8, 1);
  planned_clear(&f);
}
END_TEST

/* Bytes that a rank's collectives send out of its node for each of their bytes: none, or the bus factor
 * of a ring over all ranks; of a second hop of an all-to-all its own. */
static double network_bytes(Planned *f, TaskKind kind, double factor)
{
  double bytes = 0;

  planned_build(f);
  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Task *t = &g_array_index(f->program->tasks, Task, i);
    const Segment *s = &g_array_index(f->program->segments, Segment, t->segment);
    if (s->kind == kind && s->group.per_domain[0] < s->group.size)
      bytes += factor * s->comm_bytes;
  }
  return bytes;
}

/* ZeRO++'s table 1: from 3 model sizes in 16 bits between nodes to 0.75. */
START_TEST(volumes_fall_to_a_quarter)
{
  Planned f;

  stated_init(&f, "deepspeed", 32);
  f.plan.global_batch = 32;
  f.plan.zero = 3;
  double size = 2 * stated_params(&f), states = state_bytes(STATES(&f.plan));
  ck_assert_double_eq_tol((network_bytes(&f, TASK_GATHER, 1) + network_bytes(&f, TASK_REDUCE, 1)) / size, 3, 1e-9);
  StatedRun plain = stated_run(&f);
  f.plan.sharding.secondary = 8;
  ck_assert_double_eq_tol(state_bytes(STATES(&f.plan)), states + 2 / 8.0, 1e-12);
  f.plan.sharding.quantized_weights = f.plan.sharding.quantized_gradients = TRUE;
  ck_assert_double_eq_tol(network_bytes(&f, TASK_GATHER, 1) / size, 0.5, 1e-9);
  ck_assert_double_eq_tol(network_bytes(&f, TASK_REDUCE, 1) / size, 0.25, 1e-9);
  for (int t = f.cluster->network_tier; t < f.cluster->n_tiers; t++)
    f.cluster->tiers[t].bytes_per_s = f.cluster->tiers[t].port_bytes_per_s = 1e9;
  StatedRun small = stated_run(&f);
  f.plan.sharding = sharding_options_default();
  ck_assert(stated_run(&f).m.iteration_s > 1.5 * small.m.iteration_s);
  ck_assert(small.m.iteration_s > plain.m.iteration_s);
  planned_clear(&f);
}
END_TEST

/* Kernels that quantize are paid for: with links that take no time they are all that is left. */
START_TEST(quantizing_takes_time)
{
  g_autoptr(Cluster) cluster = fixture_free_cluster(32);
  GroupShape all = group_shape(cluster, 32, 1), node = group_within(&all, 8), nodes = group_across(&all, 8);
  double rate = cluster->device.memory_bytes_per_s * cluster->device.kernels.memory_fraction;

  ck_assert_int_eq(node.size, 8);
  ck_assert_int_eq(nodes.size, 4);
  ck_assert_int_eq(nodes.per_domain[0], 1);
  ck_assert_double_eq_tol(quantized_gather_cost(cluster, 1e10, &all).seconds * rate / 1e10, 3 + 3 / 32.0, 0.02);
  ck_assert_double_eq_tol(quantized_scatter_cost(cluster, 1e10, &all).seconds * rate / 1e10,
                          2.5 + 0.5 + 2 / 8.0 + (2.5 + 0.5 + 2 / 4.0) / 8, 0.02);
}
END_TEST

/* They run whatever the algorithm. */
START_TEST(quantizing_slows_the_runner_up)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 32);
  GroupShape all = group_shape(cluster, 32, 1);
  CollectiveCost plain = collective_cost(cluster, COLLECTIVE_ALL_GATHER, 1e10 * QUANTIZED_WEIGHT_BYTES, &all);
  CollectiveCost cost = quantized_gather_cost(cluster, 1e10, &all);

  ck_assert_ptr_nonnull(plain.runner_up);
  ck_assert_str_eq(cost.runner_up, plain.runner_up);
  ck_assert_double_gt(cost.seconds, plain.seconds);
  ck_assert_double_eq_tol(cost.runner_up_s - plain.runner_up_s, cost.seconds - plain.seconds, 1e-9);
}
END_TEST

/* DDP: one thing a batch, 2 psi over a ring; a second copy of gradients unless they are views of the buckets. */
START_TEST(ddp_copies_gradients)
{
  Planned f;

  stated_init(&f, "ddp", 8);
  f.plan.precision = DTYPE_FP32;
  double params = stated_params(&f);
  StatedRun copies = stated_run(&f);
  ck_assert_double_eq_tol(copies.bytes[TASK_REDUCE] / params, 4, 1e-9);
  ck_assert_int_eq(copies.tasks[TASK_GATHER] + copies.tasks[TASK_OUTPUTS], 0);
  f.plan.sharding.bucket_view = TRUE;
  StatedRun views = stated_run(&f);
  ck_assert_double_eq_tol(copies.m.memory[PART_BUFFERS] - views.m.memory[PART_BUFFERS], 4 * params, 1);
  ck_assert(views.m.iteration_s < copies.m.iteration_s);
  planned_clear(&f);
}
END_TEST

/* DataParallel: each micro-batch weights out, outputs in, gradients in, nothing of it hidden; one node at most. */
START_TEST(first_gpu_is_the_hub)
{
  Planned f, d;

  stated_init(&f, "dataparallel", 8);
  stated_init(&d, "ddp", 8);
  f.plan.precision = d.plan.precision = DTYPE_FP32;
  double params = stated_params(&f);
  StatedRun hub = stated_run(&f), ddp = stated_run(&d);
  ck_assert_double_eq_tol(hub.bytes[TASK_GATHER] / params, 2 * 4, 1e-9);
  ck_assert_double_eq_tol(hub.bytes[TASK_REDUCE] / params, 2 * 4, 1e-9);
  ck_assert_double_eq_tol(hub.bytes[TASK_OUTPUTS], 2 * 7 * 1024.0 * 1000 * 4, 1);
  ck_assert(hub.m.iteration_s > ddp.m.iteration_s && hub.m.data_comm_s > ddp.m.data_comm_s);
  ck_assert(hub.m.memory[PART_BUFFERS] >= 8 * 1024.0 * 1000 * 4);
  planned_clear(&d);
  planned_clear(&f);
  stated_init(&f, "dataparallel", 16);
  planned_refuse(&f, RULE_PROCESS, "plan: gpus: 16: expected at most the 8 of a node, dataparallel is one process and "
                                   "cannot span machines");
  planned_clear(&f);
}
END_TEST

/* Full recomputation's inputs are divided over tensor-parallel ranks, and gathered once a block and micro-batch. */
START_TEST(checkpoints_are_partitioned)
{
  Planned f;

  stated_init(&f, "megatron-core", 8);
  f.plan.tp = 8;
  f.plan.dp = 1;
  f.plan.recompute = RECOMPUTE_FULL;
  StatedRun whole = stated_run(&f);
  f.plan.partition_activations = TRUE;
  StatedRun part = stated_run(&f);
  double inputs = 8 * 1024.0 * 1024 * 2;
  ck_assert_double_eq_tol(whole.m.memory[PART_ACTIVATIONS] - part.m.memory[PART_ACTIVATIONS], inputs * 7 / 8,
                          inputs / 100);
  ck_assert(part.m.tensor_comm_s > whole.m.tensor_comm_s);
  f.plan.sequence_parallel = TRUE;
  planned_refuse(&f, RULE_SHARDING, "plan: partition_activations: true: expected tensor parallelism without "
                                   "sequence_parallel, and recompute_granularity full");
  planned_clear(&f);
}
END_TEST

/* A checkpoint holds the weights beside Adam's three fp32 copies; where FSDP keeps fp32 weights alone, these only. */
START_TEST(checkpoints_hold_each_state_once)
{
  static const struct {
    const char *framework;
    int zero;
    double bytes;
  } cases[] = { { "megatron-core", 1, 14 }, { "deepspeed", 3, 14 }, { "fsdp", 2, 14 }, { "fsdp", 3, 12 } };
  Planned f;

  stated_init(&f, cases[_i].framework, 8);
  f.plan.zero = cases[_i].zero;
  ck_assert_double_eq(op_checkpoint_bytes(STATES(&f.plan)), cases[_i].bytes);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("states_shared", { windows_bound_gathers }, { fsdp_policies }, { stages_hold_weights },
           { small_tensors_persist }, { volumes_fall_to_a_quarter }, { quantizing_takes_time }, { quantizing_slows_the_runner_up },
           { ddp_copies_gradients }, { first_gpu_is_the_hub }, { checkpoints_are_partitioned }, { checkpoints_hold_each_state_once, 4 })
