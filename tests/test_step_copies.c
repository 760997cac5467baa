/* Copies of gradients at the step, and gradients of tables beside the passes. */
#include "main.h"
#include "search/bound.h"
#include "sim/simulate.h"
#include "stated.h"

/* Bytes a parameter at the step, whole + shared / d: Megatron Core's own table (docs, dist_optimizer.md); DeepSpeed's
 * 24 and what its ZeRO flattens and copies beside 4 + 12/d, 2 + 14/d and 16/d, of ZeRO-1 where other ranks' gradients are
 * gone by then; fp32 gradients of Megatron, FSDP and of those who step on them need no copy, none lies on the host, and
 * what the allocator keeps of ZeRO's step of 2021 is op_step_bytes'. */
static const struct {
  const char *framework;
  DType precision;
  int zero;
  double whole, shared;
} stepped[] = {
  { "megatron-core", DTYPE_FP16, 0, 20, 0 },       { "megatron-core", DTYPE_FP16, 1, 4, 16 },
  { "megatron-core", DTYPE_BF16, 0, 18, 0 },       { "megatron-core", DTYPE_BF16, 1, 6, 12 },
  { "megatron-core", DTYPE_FP32, 0, 16, 0 },       { "megatron-core", DTYPE_FP32, 1, 8, 8 },
  { "nemo-2025-02", DTYPE_BF16, 0, 20, 0 },        { "nemo-2025-02", DTYPE_BF16, 1, 4, 16 },
  { "megatron-core", DTYPE_FP16, 2, 2, 18 },       { "megatron-core", DTYPE_FP16, 3, 0, 20 },
  { "megatron-2020", DTYPE_FP16, 0, 20, 0 },       { "megatron-2022", DTYPE_FP16, 0, 20, 0 },
  { "deepspeed", DTYPE_FP16, 0, 24, 0 },           { "deepspeed", DTYPE_BF16, 0, 24, 0 },
  { "deepspeed", DTYPE_FP16, 1, 2, 20 },           { "deepspeed", DTYPE_BF16, 1, 2, 20 },
  { "deepspeed", DTYPE_FP16, 2, 2, 20 },           { "deepspeed", DTYPE_FP16, 3, 0, 22 },
  { "deepspeed", DTYPE_FP32, 0, 16, 0 },           { "deepspeed", DTYPE_FP32, 2, 4, 20 },
  { "gpt-neox-2023", DTYPE_FP16, 1, 2, 20 },       { "megatron-deepspeed-2021", DTYPE_FP16, 0, 24, 0 },
  { "megatron-deepspeed-2021", DTYPE_FP16, 1, 4, 12 }, { "megatron-deepspeed-2022", DTYPE_BF16, 1, 8, 12 },
  { "fsdp", DTYPE_BF16, 2, 2, 16 },
  { "nanotron-2025", DTYPE_FP16, 0, 16, 0 },       { "tdp-run", DTYPE_FP16, 1, 4, 12 },
};

START_TEST(gradients_of_the_step)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework(stepped[_i].framework);
  Plan plan = plan_default(model, framework);
  double params[2] = { 1e9, 0 };

  plan.precision = stepped[_i].precision;
  plan.zero = stepped[_i].zero;
  framework->bucket_copies = 0;
  for (plan.dp = 1; plan.dp <= 64; plan.dp *= 2) {
    StateBytes held = op_states(STATES(&plan));
    double states = held.weights + held.gradients + held.optimizer, step = stepped[_i].whole + stepped[_i].shared / plan.dp;
    ck_assert_double_eq_tol(states + op_step_copies(LAYOUT(&plan)->states, params) / 1e9, MAX(states, step), 1e-9);
  }
  plan.dp = 8;
  plan.offload.optimizer = STORE_CPU;
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, params), 0);
}
END_TEST

/* Buckets are free by the step of ZeRO-1 and 2; ZeRO-3 steps sub-groups of 1e9; experts that are apart are a group of
 * their own, behind the others', but beside Megatron's; the precision-aware optimizer reads bf16 gradients. */
START_TEST(groups_of_the_step)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) deepspeed = fixture_framework("deepspeed");
  g_autoptr(Framework) nemo = fixture_framework("nemo-2025-02");
  Plan plan = plan_default(model, deepspeed);
  double one[2] = { 8e9, 0 }, two[2] = { 8e9, 6e9 };

  plan.precision = DTYPE_BF16;
  plan.dp = 4;
  plan.zero = 2;
  double buckets = op_bucket_bytes(STATES(&plan), 8e9);
  ck_assert_double_eq(buckets, 2 * 5e8 * 2);
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, one), 6 * 2e9 - buckets);
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, two), 6 * 2e9 - 2 * buckets);
  plan.zero = 3;
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, one), 6 * 1e9);
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, two), 6 * 1e9);
  plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_BF16; /* which gradients are as narrow as */
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, one), 2 * 1e9);
  plan.zero = 1;
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, one), 0); /* whole gradients are gone by then */
  plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_USUAL;
  plan.zero = 0;
  plan.dp = 1;
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, two), 4 * (8e9 + 6e9 + 8e9));
  plan.framework = nemo;
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, two), 4 * (8e9 + 6e9));
  StateLayout apart[2] = { LAYOUT(&plan)->states[0], LAYOUT(&plan)->states[1] };
  apart[1].optimizer_parts = 2;
  ck_assert_double_eq(op_step_copies(apart, two), 4 * (8e9 + 3e9));
  plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  ck_assert_double_eq(op_step_copies(LAYOUT(&plan)->states, two), 0);
}
END_TEST

/* With full recomputation nothing that passes hold is as large as the copies, which are then the peak, and the bound of
 * memory has them; without it the peak is the passes', and it is as if there were none. */
START_TEST(peak_of_the_step)
{
  Planned f;

  stated_init(&f, "megatron-core", 2);
  f.framework->placeholders = PLACEHOLDERS_NONE; /* buffers are those of passes alone */
  f.plan.zero = _i;
  f.plan.precision = DTYPE_FP16;
  for (int all = 0; all < 2; all++) {
    f.plan.recompute = all ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    f.plan.micro_batch = all ? 1 : 2;
    f.framework->step_gradients = STEP_COPIED;
    Metrics with = planned_run(&f);
    PriceSums *sums = price_sums_new(f.model, LAYOUT(&f.plan), f.cluster);
    BoundRanks ranks = bound_ranks(f.model, LAYOUT(&f.plan), sums);
    double bound = bound_memory(LAYOUT(&f.plan), &ranks), copies = 4 * stated_params(&f) / (_i ? 2 : 1);
    price_sums_free(sums);
    f.framework->step_gradients = STEP_IN_PLACE;
    Metrics without = planned_run(&f);
    double lost = 1 + f.framework->fragmentation;
    double dynamic = (without.memory[PART_ACTIVATIONS] + without.memory[PART_BUFFERS]) * lost;
    ck_assert_int_eq(copies * lost > dynamic, all);
    ck_assert_double_eq_tol(with.peak_memory_bytes - without.peak_memory_bytes, all ? copies * lost - dynamic : 0, 1);
    ck_assert_double_eq(with.memory[PART_ACTIVATIONS], all ? 0 : without.memory[PART_ACTIVATIONS]);
    ck_assert(!all || bound > without.peak_memory_bytes);
  }
  planned_clear(&f);
}
END_TEST

/* A rank's copies that no block holds: what is reserved has them beside the passes, but no plan needs that. */
static double taken(Planned *f, int rank)
{
  double bytes[PART_COUNT];

  planned_run(f);
  g_autoptr(Trace) trace = simulate(f->program);
  TraceRow *row = &trace->rows[rank];
  double step = row->taken_bytes, reserved = trace_row_reserved(trace, rank), peak = trace_row_peak(trace, rank, bytes);
  double passes = peak - (bytes[PART_ACTIVATIONS] + bytes[PART_BUFFERS] - row->static_bytes[PART_BUFFERS]) *
                           (1 + trace->fragmentation);
  double most = 0;
  for (guint i = 0; i < row->points->len; i++) { /* the step has no activations */
    const MemoryPoint *p = &g_array_index(row->points, MemoryPoint, i);
    most = p->activations > 0 ? MAX(most, p->activations + p->buffers) : most;
  }
  passes += most * (1 + trace->fragmentation);
  ck_assert_double_eq_tol(reserved, MAX(peak, passes + step), 1);
  return step;
}

/* Where ranks divide the optimizer, of experts or of the rest, copies are pieces and find room. */
START_TEST(pieces_find_room)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) nemo = fixture_framework("nemo-2025-02");
  Plan plan = plan_default(model, nemo);
  const double params[2] = { 8e9, 6e9 };

  plan.precision = DTYPE_BF16;
  plan.zero = 0;
  StateLayout states[2] = { LAYOUT(&plan)->states[0], LAYOUT(&plan)->states[1] };
  for (int divided = 0; divided < 4; divided++) { /* a bit a group */
    double whole = (divided & 1 ? 0 : 8e9) + (divided & 2 ? 0 : 6e9);
    for (int experts = 0; experts < 2; experts++)
      states[experts].optimizer_parts = divided >> experts & 1 ? 2 : 1;
    ck_assert_double_eq(op_step_taken(states, params, 0), 4 * whole);
    ck_assert_double_eq(op_step_taken(states, params, 1e9), MAX(0, 4 * whole - 1e9));
    ck_assert_double_eq(op_step_taken(states, params, 1e11), 0);
  }
}
END_TEST

/* Two stages of four blocks of width 1,024. Up and down have 4,096 x 1,024 weights, fp32 copies as large as what down
 * keeps of 2,048 rows; the table has 1,000 x 1,024, a smaller copy. The head keeps fp32 probabilities and its inputs. */
START_TEST(copies_find_blocks)
{
  Planned f;

  planned_init(&f, fixture_model(8, 1024, 16, 1024, 1000), fixture_cluster("dgx", 2), "megatron-core");
  planned_divide(&f, 1, 2, 1);
  f.framework->placeholders = PLACEHOLDERS_NONE;
  f.plan.precision = DTYPE_FP16;
  f.plan.attention = ATTENTION_FLASH;
  f.plan.zero = 0;
  double blocks = 4 * (12 * 1024 + 13) * 1024.0;
  for (int micro = 1; micro <= 2; micro++) {
    f.plan.micro_batch = micro;
    f.plan.global_batch = 2;
    double first = taken(&f, 0), last = taken(&f, 1);
    double head = price_of_layer(f.prices, f.model, 0, f.model->n_layers - 1)->saved_bytes;
    ck_assert_double_eq_tol(first, micro == 1 ? 4 * blocks : 0, 1);
    ck_assert_double_eq_tol(last, micro == 1 ? 4 * blocks - head : 0, 1);
    ck_assert_double_gt(head, 0);
  }
  f.plan.micro_batch = 1;
  planned_divide(&f, 1, 2, 2);
  ck_assert_double_eq_tol(taken(&f, 0), 4 * blocks, 1);
  f.plan.zero = 1;
  ck_assert_double_eq(taken(&f, 0), 0);
  f.plan.zero = 0;
  f.plan.precision = DTYPE_BF16; /* gradients are fp32 */
  ck_assert_double_eq(taken(&f, 0), 0);
  f.plan.precision = DTYPE_FP16;
  f.framework->step_gradients = STEP_FLATTENED;
  ck_assert_double_eq(taken(&f, 0), 0);
  planned_clear(&f);
}
END_TEST

/* nanotron: 16-bit gradients of a whole backward grow while activations go, and are gone behind it. So they count only
 * where they are more than what the micro-batch kept: with full recomputation. DeepSpeed's stay, and count always. */
START_TEST(dropped_copies_come_last)
{
  Planned f;

  planned_init(&f, fixture_model(4, 1024, 16, 512, 1000), fixture_cluster("dgx", 1), "nanotron-2025");
  planned_divide(&f, 1, 1, 1);
  f.plan.precision = DTYPE_BF16;
  f.plan.zero = 0;
  for (int all = 0; all < 2; all++) {
    double most[3]; /* none, dropped, kept */
    f.plan.recompute = all ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    f.plan.micro_batch = f.plan.global_batch = all ? 1 : 4;
    for (int i = 0; i < 3; i++) {
      f.framework->bf16_gradient_copy_bytes = i > 0 ? 2 : 0;
      f.framework->bf16_gradient_copy_dropped = i < 2;
      Metrics m = planned_run(&f);
      most[i] = m.peak_memory_bytes;
    }
    double copies = 2 * stated_params(&f);
    ck_assert_double_eq_tol(most[2] - most[0], copies, 1);
    ck_assert_double_le(most[1], most[2]);
    ck_assert_int_eq(most[1] > most[0], all);
  }
  planned_clear(&f);
}
END_TEST

/* A rank of two gathers 2 bytes a parameter beside the weights: its part, a list of both parts, all in one. The driver
 * gives the last, and the others where a part is no smaller than the blocks of passes; without ZeRO nothing is gathered. */
START_TEST(updated_weights_are_copied)
{
  Planned f;

  planned_init(&f, fixture_model(8, 1024, 16, 1024, 1000), fixture_cluster("dgx", 4), "nanotron-2025");
  f.plan.precision = DTYPE_BF16;
  f.plan.global_batch = 8;
  f.plan.zero = 1;
  for (int d = 2; d <= 4; d *= 2) {
    planned_divide(&f, 1, 1, d);
    double params = stated_params(&f), step = taken(&f, 0), gathered = 0;
    double head = price_of_layer(f.prices, f.model, 0, f.model->n_layers - 1)->saved_bytes;
    for (guint i = 0; i < f.program->segments->len; i++) {
      const Segment *s = &g_array_index(f.program->segments, Segment, i);
      gathered = s->kind == TASK_GATHER ? MAX(gathered, s->alloc_bytes) : gathered;
      ck_assert(s->kind != TASK_GATHER || s->alloc_bytes == s->free_bytes);
    }
    ck_assert_double_eq_tol(gathered, (4 + 2.0 / d) * params, 1);
    ck_assert_double_eq_tol(step, (4 + 2.0 / d) * params - head, 1);
  }
  const StateLayout *s = STATES(&f.plan);
  ck_assert_double_eq(op_updated_taken(s, 4e9, 1e9, 0), 4e9);
  ck_assert_double_eq(op_updated_taken(s, 4e9, 0.9e9, 0), 9e9);
  ck_assert_double_eq(op_updated_taken(s, 4e9, 0.9e9, 1e10), 0);
  f.plan.zero = 0;
  ck_assert_double_eq(taken(&f, 0), 0);
  f.framework->updated_lists = FALSE;
  ck_assert_double_eq(op_updated_copies(STATES(&f.plan), 4e9), 0);
  ck_assert_double_eq(op_updated_taken(STATES(&f.plan), 4e9, 0, 0), 0);
  planned_clear(&f);
}
END_TEST

static double fullest(Planned *f, int rank)
{
  double most = 0;

  planned_run(f);
  g_autoptr(Trace) trace = simulate(f->program);
  const GArray *points = trace->rows[rank].points;
  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *p = &g_array_index(points, MemoryPoint, i);
    most = MAX(most, p->activations + p->buffers);
  }
  return most;
}

/* The first stage's gradient of its table comes when the micro-batch's activations are gone: two micro-batches later less
 * is gone. Nobody else has one, nor software that reduces what autograd made. */
START_TEST(tables_have_gradients)
{
  Planned f;
  double table = 64000 * 1024 * 2.0, most[2][2];

  planned_init(&f, fixture_model(4, 1024, 16, 256, 64000), fixture_cluster("dgx", 2), _i ? "fsdp" : "megatron-core");
  f.plan.precision = DTYPE_BF16;
  planned_divide(&f, 1, _i ? 1 : 2, _i ? 2 : 1);
  for (int micro = 1; micro <= 2; micro++)
    for (f.framework->table_gradients = FALSE; f.framework->table_gradients <= TRUE; f.framework->table_gradients++) {
      f.plan.global_batch = micro * f.plan.dp;
      most[micro - 1][f.framework->table_gradients] = fullest(&f, 0);
      ck_assert(_i || f.framework->table_gradients || fullest(&f, 1) > 0);
    }
  if (_i) {
    ck_assert_double_eq(most[0][0], most[0][1]);
  } else {
    double one = price_of_layer(f.prices, f.model, 0, 1)->saved_bytes * 2; /* of two blocks */
    ck_assert_double_lt(most[1][0], table);
    ck_assert_double_eq_tol(most[0][1], table, 1);
    ck_assert_double_ge(most[1][1], table + one);
    ck_assert_double_le(most[1][1], table + 1.1 * one); /* and the embedding's dropout */
  }
  planned_clear(&f);
}
END_TEST

/* It is as wide as weights, competes with a product's placeholder, and comes with gradients of weights where these have a
 * pass of their own: when also what that needs is gone. Of tdp-run, had it one, it is beside no layer's scratch. */
static const struct {
  const char *framework, *schedule;
  DType precision;
  Placeholders placeholders;
  int tokens; /* that tdp-run keeps */
} tables[] = {
  { "megatron-core", "1f1b", DTYPE_FP32, PLACEHOLDERS_NONE },
  { "megatron-core", "1f1b", DTYPE_BF16, PLACEHOLDERS_PASSING },
  { "megatron-core", "zb-h1", DTYPE_BF16, PLACEHOLDERS_NONE },
  { "tdp-run", "1f1b", DTYPE_BF16, PLACEHOLDERS_NONE, 512 },
};

START_TEST(tables_stand_alone)
{
  Planned f;
  double table = 64000 * 1024 * dtype_bytes[tables[_i].precision];

  planned_init(&f, fixture_model(4, 1024, 16, 256, 64000), fixture_cluster("dgx", 2), tables[_i].framework);
  f.framework->placeholders = tables[_i].placeholders;
  f.plan.precision = tables[_i].precision;
  f.plan.global_batch = 1;
  planned_divide(&f, 1, 2, 1);
  plan_set_schedule(&f.plan, schedule_find(tables[_i].schedule), 1);
  f.framework->table_gradients = FALSE;
  double without = fullest(&f, 0);
  ck_assert_double_gt(without, 0);
  ck_assert_double_lt(without, table);
  f.framework->table_gradients = TRUE;
  ck_assert_double_eq_tol(fullest(&f, 0), table + tables[_i].tokens * sizeof(gint32), 1);
  planned_clear(&f);
}
END_TEST

/* torchtitan of 2024: the table of tokens stays gathered, 2 bytes a weight; not where ZeRO gathers nothing. */
START_TEST(root_group_stays)
{
  Planned f;
  double held[2][2]; /* of ZeRO-2 and 3, without and with the group */

  planned_init(&f, fixture_llama(8, 1024, 16, 4, 512, 1024), fixture_cluster("dgx", 2), "torchtitan-2024-compile");
  planned_divide(&f, 1, 1, 2);
  f.plan.global_batch = 2;
  f.plan.precision = DTYPE_BF16;
  ck_assert(f.framework->root_group);
  for (int i = 0; i < 4; i++) {
    f.plan.zero = 2 + i / 2;
    f.framework->root_group = i % 2;
    planned_run(&f);
    held[i / 2][i % 2] = f.program->rows[0].static_bytes[PART_BUFFERS];
  }
  ck_assert_double_eq(held[0][1], held[0][0]);
  ck_assert_double_eq_tol(held[1][1] - held[1][0], 2 * 1024 * 1024, 1);
  planned_clear(&f);
}
END_TEST

/*
 * Beside a tensor's copies to look for overflow and to take its norm (4 and 8 of 1e8), of a partition flattened and cast
 * to fp32 (2 and 4) where those are smaller: flat tensors of 5e8 parameters or more that updated weights are gathered
 * into, where no bucket and no copy holds them. All of a step, and all buckets, where the host does not wait.
 */
static const struct {
  const char *framework;
  int dp;
  double params, bucket, step;
} queued[] = {
  { "megatron-deepspeed-2021", 8, 1.2e9, 2.4e9, 1.2e9 + 2 * 1.2e9 }, { "megatron-deepspeed-2022", 8, 1.2e9, 1e9, 2.4e9 },
  { "megatron-deepspeed-2021", 8, 0.4e9, 0.8e9, 0.6e9 },             { "megatron-deepspeed-2022", 8, 0.4e9, 0.8e9, 0.6e9 },
  { "megatron-deepspeed-2021", 2, 1.2e9, 2.4e9, 4.8e9 },             { "megatron-deepspeed-2022", 2, 1.2e9, 1e9, 4.8e9 },
};

START_TEST(collectives_stand_side_by_side)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework(queued[_i].framework);
  Plan plan = plan_default(model, framework);

  plan.precision = DTYPE_FP16;
  plan.zero = 1;
  plan.dp = queued[_i].dp;
  ck_assert_double_eq_tol(op_bucket_bytes(STATES(&plan), queued[_i].params), queued[_i].bucket, 1);
  ck_assert_double_eq_tol(op_step_bytes(STATES(&plan), queued[_i].params, 1e8), queued[_i].step, 1);
  framework->gather_params = 0;
  ck_assert_double_le(op_step_bytes(STATES(&plan), queued[_i].params, 1e8), queued[_i].step);
  framework->gather_params = 5e8;
  plan.zero = 0;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), queued[_i].params, 1e8), 0);
}
END_TEST

/* BF16_Optimizer casts all gradients to reduce them, and what that took holds what updated weights are gathered into. */
START_TEST(casts_make_room_for_weights)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework("megatron-deepspeed-2022");
  Plan plan = plan_default(model, framework);

  plan.precision = DTYPE_BF16;
  plan.zero = 1;
  plan.dp = 8;
  framework->gather_params = 1e12;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 4e9, 1e8), 0);
  framework->bf16_reduced_copy = FALSE;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 4e9, 1e8), 8e9);
}
END_TEST

TEST_LOOPS("step_copies", { gradients_of_the_step, G_N_ELEMENTS(stepped) }, { groups_of_the_step }, { peak_of_the_step, 2 },
           { pieces_find_room }, { copies_find_blocks }, { dropped_copies_come_last }, { updated_weights_are_copied },
           { root_group_stays }, { tables_have_gradients, 2 }, { tables_stand_alone, G_N_ELEMENTS(tables) },
           { collectives_stand_side_by_side, G_N_ELEMENTS(queued) }, { casts_make_room_for_weights })
