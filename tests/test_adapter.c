/* Adapters: texts, counts that PEFT prints, what passes make and keep, what ranks hold and move, bounds and search. */
#include "main.h"
#include "planned.h"
#include "search/bound.h"
#include "search_instance.h"
#include "sim/simulate.h"

#include <math.h>

static Adapter adapter_of(const char *text)
{
  Adapter a;
  g_autofree char *expected = adapter_parse(text, &a);

  ck_assert_msg(!expected, "%s: %s", text, expected);
  return a;
}

/* ---- texts ---- */

/* What is written is read again as the same, whatever names it was said by. */
START_TEST(texts_are_read)
{
  static const char *const texts[][2] = {
    { "none", "none" },
    { "lora:r=16", "lora:r=16" },
    { "qlora:r=64,targets=all-linear", "qlora:r=64" },
    { "lora:targets=v_proj,q_proj,r=8", "lora:r=8,targets=q_proj,v_proj" },
    { "lora:r=8,targets=linear_qkv,linear_proj,linear_fc1,linear_fc2", "lora:r=8,targets=o_proj,down_proj,qkv,fc1" },
    { "lora:r=8,targets=qkv,proj,fc1,fc2", "lora:r=8,targets=o_proj,down_proj,qkv,fc1" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    Adapter a = adapter_of(texts[i][0]), again;
    g_autofree char *text = adapter_text(&a), *expected = adapter_parse(text, &again);
    ck_assert_str_eq(text, texts[i][1]);
    ck_assert_ptr_null(expected);
    ck_assert_mem_eq(&a, &again, sizeof a);
  }
}
END_TEST

START_TEST(bad_texts_are_refused)
{
  static const char *const texts[][2] = {
    { "", "none, lora:r=N" }, { "lora", "none, lora:r=N" }, { "dora:r=8", "none, lora:r=N" },
    { "none:r=8", "none, lora:r=N" }, { "lora:", "r=N, the rank" }, { "lora:targets=q_proj", "r=N, the rank" },
    { "lora:r=0", "r=N once" }, { "lora:r=16,r=8", "r=N once" }, { "lora:r=1.5", "r=N once" },
    { "lora:r=16,alpha=3", "r=N once" }, { "lora:r=16,q_proj", "r=N once" }, { "lora:r=65537", "r=N once" },
    { "lora:r=16,targets=", "not \"\"" }, { "lora:r=16,targets=q_proj,query", "not \"query\"" },
    { "lora:r=16,targets=qkv,k_proj", "qkv as one matrix" }, { "lora:r=16,targets=fc1,up_proj", "fc1 as one matrix" },
    { "lora:r=16,targets=all-linear,qkv", "qkv as one matrix" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    Adapter a;
    g_autofree char *expected = adapter_parse(texts[i][0], &a);
    ck_assert_msg(expected && strstr(expected, texts[i][1]), "%s: %s", texts[i][0], expected);
    ck_assert_int_eq(a.kind, ADAPTER_NONE);
  }
}
END_TEST

/* ---- counts ---- */

static Model *mt0_large(void)
{
  static const char text[] = "{\"model_type\": \"mt5\", \"d_model\": 1024, \"d_ff\": 2816, \"d_kv\": 64,"
                             " \"num_heads\": 16, \"num_layers\": 24, \"num_decoder_layers\": 24,"
                             " \"vocab_size\": 250112,"
                             " \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false,"
                             " \"relative_attention_num_buckets\": 32}";
  GError *error = NULL;
  Model *m = model_parse(text, strlen(text), "mt0-large", &error);

  ck_assert_msg(m != NULL, "%s", error ? error->message : "");
  return m;
}

/* What print_trainable_parameters() of PEFT says (tests/interop/adapters.py asks it of more models): of Llama 2 7B as
 * in guides to it ("trainable params: 4,194,304 || all params: 6,742,609,920"; with all linear layers 39,976,960 of
 * 6,778,392,576), of Llama 3 8B (41,943,040 of 8,072,204,288), of mt0-large in PEFT's quick tour ("trainable params:
 * 2359296 || all params: 1231940608"). */
START_TEST(counts_are_those_of_peft)
{
  static const struct { const char *model, *adapter; gint64 trained, all; } known[] = {
    { "llama-2-7b", "lora:r=8,targets=q_proj,v_proj", 4194304, 6742609920 },
    { "llama-2-7b", "lora:r=16", 39976960, 6738415616 + 39976960 },
    { "llama-3.1-8b", "lora:r=16", 41943040, 8072204288 },
    { NULL, "lora:r=8,targets=q_proj,v_proj", 2359296, 1231940608 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(known); i++) {
    g_autoptr(Model) m = known[i].model ? fixture_known_model(known[i].model) : mt0_large();
    Adapter a = adapter_of(known[i].adapter);
    ck_assert_int_eq(adapter_params(&a, m), known[i].trained);
    ck_assert_int_eq(m->params + adapter_params(&a, m), known[i].all);
  }
}
END_TEST

/* Of GPT-NeoX 20B's shapes: one A for fused queries, keys and values, h r + r 3h, or one for each of the three. */
START_TEST(fused_matrices_share_an_a)
{
  g_autoptr(Model) m = fixture_model(44, 6144, 64, 2048, 50432);
  Adapter a = adapter_of("lora:r=8,targets=qkv"), apart = adapter_of("lora:r=8,targets=q_proj,k_proj,v_proj");

  ck_assert_int_eq(adapter_params(&a, m), 44 * 8 * (6144 + 3 * 6144));
  ck_assert_int_eq(adapter_params(&apart, m), 44 * 8 * 3 * (6144 + 6144));
}
END_TEST

/* ---- work ---- */

static LayerWork work_of(const Planned *p, int layer)
{
  LayerWork work;

  layer_work_init(&work, p->model, model_layer(p->model, layer), PASSES(&p->plan), p->cluster);
  return work;
}

static double flops_of(const GArray *ops, Pass pass)
{
  double flops = 0;

  for (guint i = 0; i < ops->len; i++)
    flops += g_array_index(ops, Op, i).pass == pass ? g_array_index(ops, Op, i).flops : 0;
  return flops;
}

static double saved_of(const LayerWork *work)
{
  double bytes = 0;

  for (guint i = 0; i < work->forward->len; i++)
    bytes += g_array_index(work->forward, Op, i).saved_bytes;
  return bytes;
}

static void set_up(Planned *p, Model *model, const char *adapter, int tp)
{
  planned_init(p, model, fixture_cluster("dgx", 8), "megatron-core");
  planned_divide(p, tp, 1, 8 / tp);
  p->plan.global_batch = 8;
  p->plan.sequence_parallel = tp > 1;
  p->plan.recompute = RECOMPUTE_NONE;
  p->plan.adapter = adapter_of(adapter);
  p->framework->adapters = ~0u;
}

/* Parameters that devices train add up to the count, of every kind of matrix; with the frozen ones, to the model's. */
START_TEST(devices_hold_what_is_counted)
{
  static const char *const models[] = { "llama-3.1-8b", "gpt3-175b", "deepseek-v2-lite", "t5-base", "falcon-7b",
                                        "qwen3-next-80b-a3b" };
  static const char *const adapters[] = { "lora:r=16", "lora:r=16,targets=qkv,proj,fc2",
                                          "lora:r=32,targets=q_proj,o_proj" };
  int checked = 0;

  for (gsize k = 0; k < G_N_ELEMENTS(models) * G_N_ELEMENTS(adapters); k++) {
    g_autofree char *path = g_strdup_printf("models/%s.json", models[k / G_N_ELEMENTS(adapters)]);
    if (!g_file_test(path, G_FILE_TEST_EXISTS))
      continue;
    Planned p;
    set_up(&p, fixture_known_model(models[k / G_N_ELEMENTS(adapters)]), adapters[k % G_N_ELEMENTS(adapters)], 1);
    g_autofree char *refused = adapter_refusal(&p.plan.adapter, p.model);
    double pad = (op_vocab(p.model, PASSES(&p.plan)) - p.model->vocab) * (double)p.model->hidden;
    double trained = 0, frozen = 0;
    for (int i = 0; i < p.model->n_layers && !refused; i++) {
      LayerWork work = work_of(&p, i);
      trained += work.params + work.expert_params;
      frozen += work.frozen[0].params + work.frozen[1].params;
      ck_assert_double_eq(work.frozen[0].bytes, 2 * work.frozen[0].params);
      layer_work_clear(&work);
    }
    if (!refused) {
      ck_assert_double_eq(trained, adapter_params(&p.plan.adapter, p.model));
      ck_assert_double_eq(frozen, p.model->params + pad * (p.model->tied_embeddings ? 1 : 2));
      checked++;
    }
    planned_clear(&p);
  }
  ck_assert_int_ge(checked, 8);
}
END_TEST

/* A frozen block makes gradients of inputs alone; with adapters of rank r a backward is a forward's work and, of each
 * adapter, two thirds of three times its own. */
START_TEST(frozen_weights_have_no_gradients)
{
  for (int tp = 1; tp <= 4; tp *= 4) {
    Planned p, plain;
    const double h = 1024, f = 3072, s = 512, r = 16;

    set_up(&p, fixture_llama(2, h, 8, 8, s, 512), "lora:r=16,targets=q_proj,down_proj", tp);
    set_up(&plain, fixture_llama(2, h, 8, 8, s, 512), "none", tp);
    ck_assert_int_eq(model_layer(p.model, 1)->ffn.width, f);
    LayerWork work = work_of(&p, 1), all = work_of(&plain, 1);
    double products = 2 * s * (4 * h * h + 3 * h * f) / tp, adapters = 2 * s * (h * r + r * h + f * r + r * h) / tp;
    double core = flops_of(all.forward, PASS_FORWARD) - products;
    ck_assert_double_eq_tol(flops_of(work.forward, PASS_FORWARD), products + core + adapters, 1);
    ck_assert_double_eq_tol(flops_of(work.backward, PASS_INPUT), products + 2 * core + adapters, 1);
    ck_assert_double_eq_tol(flops_of(work.backward, PASS_WEIGHT), adapters, 1);
    ck_assert_double_eq_tol(flops_of(all.backward, PASS_WEIGHT), products, 1);
    ck_assert_double_eq(work.params * tp, adapters * tp / (2 * s));
    for (guint i = 0; i < work.backward->len; i++) {
      const Op *op = &g_array_index(work.backward, Op, i);
      ck_assert_msg(op->pass != PASS_WEIGHT || g_str_has_prefix(op->name, "adapter"), "%s", op->name);
      ck_assert_msg(!op->async && !op->overlaps, "%s", op->name); /* nothing is left for it to run beside */
    }
    layer_work_clear(&work);
    layer_work_clear(&all);
    planned_clear(&p);
    planned_clear(&plain);
  }
}
END_TEST

/* Of a block with queries, keys and values of hidden width h, gates of width f: frozen, the inputs of up and of down
 * go; attention's kernel keeps what the projection reads; an adapter keeps the input of A, and r numbers of each
 * token (tests/interop/saved.py asks autograd). */
START_TEST(frozen_blocks_keep_less)
{
  const double h = 1024, f = 3072, s = 512, r = 16, e = 2;
  const struct { const char *adapter; double less; } cases[] = {
    { "lora:r=16,targets=q_proj,v_proj", e * s * (h + f) - 2 * e * s * r },
    { "lora:r=16,targets=qkv", e * s * (h + f) - e * s * r },
    { "lora:r=16,targets=o_proj", e * s * (h + h + f) - e * s * r },
    { "lora:r=16,targets=down_proj", e * s * (h + h) - e * s * r },
    { "lora:r=16", -7 * e * s * r },
    { "qlora:r=16", -7 * e * s * r },
  };
  Planned plain;

  set_up(&plain, fixture_llama(2, h, 8, 8, s, 512), "none", 1);
  LayerWork all = work_of(&plain, 1);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned p;
    set_up(&p, fixture_llama(2, h, 8, 8, s, 512), cases[i].adapter, 1);
    LayerWork work = work_of(&p, 1);
    ck_assert_double_eq_tol(saved_of(&all) - saved_of(&work), cases[i].less, 1e-6);
    ck_assert_double_eq(saved_of(&work), work.saved_bytes);
    ck_assert_double_le(work.deferred_bytes, all.deferred_bytes + 14 * e * s * r);
    layer_work_clear(&work);
    planned_clear(&p);
  }
  layer_work_clear(&all);
  planned_clear(&plain);
}
END_TEST

/* Bytes that kernels of one name move, both ways. */
static double traffic_of(const LayerWork *work, const char *name)
{
  const GArray *const passes[] = { work->forward, work->backward };
  double bytes = 0;

  for (int i = 0; i < 2; i++)
    for (guint k = 0; k < passes[i]->len; k++) {
      const Op *op = &g_array_index(passes[i], Op, k);
      bytes += g_str_equal(op->name, name) ? op->memory.bytes : 0;
    }
  return bytes;
}

/* Read and written once each way: r values of a token, or under PEFT the outputs; these are added to what they stand
 * beside, as gradients of inputs are. */
START_TEST(outputs_are_scaled_and_added)
{
  const double h = 1024, f = 3072, s = 512, r = 16, e = 2;

  for (int outputs = 0; outputs < 2; outputs++) {
    Planned p;
    set_up(&p, fixture_llama(2, h, 8, 8, s, 512), "lora:r=16,targets=q_proj,down_proj", 1);
    p.framework->adapter_scales_outputs = outputs;
    LayerWork work = work_of(&p, 1);
    ck_assert_double_eq(traffic_of(&work, "scale adapter"), 2 * 2 * e * s * (outputs ? 2 * h : 2 * r));
    ck_assert_double_eq(traffic_of(&work, "add adapter"), 3 * e * s * (2 * h + h + f));
    layer_work_clear(&work);
    planned_clear(&p);
  }
}
END_TEST

/* No gradient reaches the embedding, and the head makes none of its own. */
START_TEST(ends_are_frozen)
{
  Planned p;

  set_up(&p, fixture_model(2, 512, 8, 128, 1024), "lora:r=8", 2);
  LayerWork first = work_of(&p, 0), last = work_of(&p, p.model->n_layers - 1);
  ck_assert_uint_eq(first.backward->len, 0);
  ck_assert_double_eq(first.saved_bytes + first.params + last.params, 0);
  ck_assert_double_eq(flops_of(last.backward, PASS_WEIGHT), 0);
  ck_assert_double_eq(flops_of(last.backward, PASS_INPUT), flops_of(last.forward, PASS_FORWARD));
  layer_work_clear(&first);
  layer_work_clear(&last);
  planned_clear(&p);
}
END_TEST

/* 4 bits and a scale of 8 for 64 weights, and one of 32 for 256 of these: 4.127 bits (arXiv 2305.14314, section 3).
 * Norms stay as they are; every product makes its weights first, each way, of each matrix on its own: gate and up are two,
 * of which one is there at a time. */
START_TEST(blocks_are_in_4_bits)
{
  Planned p, wide;
  const double h = 1024, f = 3072, matrices = 4 * h * h + 3 * h * f;
  int unpacked = 0;
  double kernels = 0;

  set_up(&p, fixture_llama(2, h, 8, 8, 64, 512), "qlora:r=16", 1);
  set_up(&wide, fixture_llama(2, h, 8, 8, 64, 512), "lora:r=16", 1);
  p.framework->fused_weights = FALSE; /* as of frameworks that have qlora */
  LayerWork work = work_of(&p, 1), plain = work_of(&wide, 1);
  ck_assert_double_eq(work.frozen[0].params, plain.frozen[0].params);
  ck_assert_double_eq_tol(8 * (work.frozen[0].bytes - 2 * 2 * h) / matrices, 4.127, 1e-4);
  for (guint i = 0; i < work.forward->len; i++) {
    const Op *op = &g_array_index(work.forward, Op, i);
    gboolean unpacks = g_str_equal(op->name, "unpack weights");
    unpacked += unpacks;
    kernels += unpacks ? op->memory.kernels : 0;
  }
  for (guint i = 0; i < work.backward->len; i++)
    unpacked += g_str_equal(g_array_index(work.backward, Op, i).name, "unpack weights");
  ck_assert_int_eq(unpacked, 2 * 4);
  ck_assert_double_eq(kernels, ADAPTER_UNPACK_KERNELS * 7);
  double stream = op_boundary_bytes(p.model, PASSES(&p.plan)); /* the residual's gradient beside it */
  ck_assert_double_eq(work.transient_bytes - stream, 2 * h * f);
  ck_assert_double_lt(plain.transient_bytes - stream, 2 * h * f);
  layer_work_clear(&work);
  layer_work_clear(&plain);
  planned_clear(&p);
  planned_clear(&wide);
}
END_TEST

/* ---- ranks ---- */

static double moved_bytes(const Planned *p, TaskKind kind, int *tasks)
{
  double bytes = 0;

  *tasks = 0;
  for (guint i = 0; i < p->program->tasks->len; i++) {
    const Task *t = &g_array_index(p->program->tasks, Task, i);
    bytes += t->kind == kind ? g_array_index(p->program->segments, Segment, t->segment).comm_bytes : 0;
    *tasks += t->kind == kind;
  }
  return bytes;
}

/* Gradients of adapters alone are summed; under ZeRO-3 every pass gathers all weights. */
START_TEST(ranks_sum_adapters_alone)
{
  for (int zero = 0; zero <= 3; zero++) {
    Planned p;
    int sums, gathers, tied;

    set_up(&p, fixture_llama(4, 512, 8, 8, 128, 512), zero % 2 ? "qlora:r=8" : "lora:r=8", 1);
    p.plan.zero = zero;
    p.plan.precision = DTYPE_BF16;
    planned_run(&p);
    double trained = adapter_params(&p.plan.adapter, p.model), frozen = 0;
    for (int i = 0; i < p.model->n_layers; i++)
      frozen += price_of_layer(p.prices, p.model, 0, i)->frozen[0].bytes;
    double bytes = moved_bytes(&p, TASK_REDUCE, &sums), gathered = moved_bytes(&p, TASK_GATHER, &gathers);
    ck_assert_double_eq_tol(bytes, trained * LAYOUT(&p.plan)->states[0].reduce_bytes, 1e-6 * bytes);
    ck_assert_double_eq_tol(gathered, zero == 0 ? 0 : zero < 3 ? 2 * trained : 2 * (2 * trained + frozen),
                            1e-6 * gathered + 1);
    moved_bytes(&p, TASK_TIED, &tied);
    ck_assert_int_eq(tied, 0);
    planned_clear(&p);
  }
}
END_TEST

/* Weights on the host, frozen ones with them: each rank's part comes up for every pass, and none stays. */
START_TEST(frozen_weights_come_from_the_host)
{
  Planned p;
  int fetches;

  planned_init(&p, fixture_llama(4, 512, 8, 8, 128, 512), fixture_cluster("dgx", 8), "deepspeed");
  p.cluster->host_memory_bytes = 1e12;
  p.cluster->host_memory_bytes_per_s = 2e11;
  p.cluster->device.host_bytes_per_s = 2.5e10;
  planned_spread(&p, 1);
  p.plan.zero = 3;
  p.plan.offload.parameters = p.plan.offload.optimizer = STORE_CPU;
  p.plan.adapter = adapter_of("qlora:r=8");
  Metrics m = planned_run(&p);
  double trained = adapter_params(&p.plan.adapter, p.model), frozen = 0;
  for (int i = 0; i < p.model->n_layers; i++)
    frozen += price_of_layer(p.prices, p.model, 0, i)->frozen[0].bytes;
  double bytes = moved_bytes(&p, TASK_FETCH, &fetches);
  ck_assert_double_eq_tol(bytes, 2 * (2 * trained + frozen) / 8, 1e-6 * bytes);
  ck_assert_double_eq(m.memory[PART_WEIGHTS], 0);
  double held = frozen + (2 + 16) * trained; /* embedding and head in 16 bits: the check of room, but for norms */
  p.cluster->host_memory_bytes = held;
  planned_accept(&p);
  p.cluster->host_memory_bytes = 0.998 * held;
  planned_refuse(&p, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 0 GiB");
  planned_clear(&p);
}
END_TEST

/* A tied table on two stages is a copy that nobody changes. */
START_TEST(frozen_tables_are_not_summed)
{
  for (int frozen = 0; frozen < 2; frozen++) {
    Planned p;
    int tied;

    planned_init(&p, fixture_gpt_plain(4, 512, 8, 128, 512), fixture_cluster("dgx", 8), "megatron-core");
    planned_divide(&p, 1, 2, 4);
    p.plan.global_batch = 16;
    p.plan.adapter = adapter_of(frozen ? "lora:r=8" : "none");
    planned_run(&p);
    moved_bytes(&p, TASK_TIED, &tied);
    ck_assert_int_eq(tied, frozen ? 0 : 2);
    planned_clear(&p);
  }
}
END_TEST

static Metrics metrics_of(const char *model, const char *adapter, int zero, int gpus, int seq)
{
  Planned p;

  planned_init(&p, fixture_known_model(model), fixture_cluster("dgx", gpus), "fsdp");
  planned_spread(&p, 1);
  p.plan.seq = seq;
  p.plan.zero = zero;
  p.plan.recompute = RECOMPUTE_FULL;
  p.plan.adapter = adapter_of(adapter);
  Metrics m = planned_run(&p);
  planned_clear(&p);
  return m;
}

/* QLoRA: 65 B parameters fit one GPU of 48 GB and 33 B one of 24 GB, where the optimizer's states are paged out, with
 * all matrices adapted at r 64, one sequence of 512 and checkpoints (arXiv 2305.14314, sections 1 and 3, appendix G: 33
 * B do not without paging); 16 bits of them do not. */
START_TEST(large_models_fit_one_gpu)
{
  Metrics m65 = metrics_of("llama-65b", "qlora:r=64", 0, 1, 512);
  Metrics m30 = metrics_of("llama-30b", "qlora:r=64", 0, 1, 512);
  Metrics wide = metrics_of("llama-65b", "lora:r=64", 0, 1, 512);

  ck_assert_double_lt(m65.peak_memory_bytes - m65.memory[PART_OPTIMIZER], 48e9);
  ck_assert_double_gt(m65.memory[PART_WEIGHTS], 65e9 * 4.127 / 8);
  ck_assert_double_lt(m30.peak_memory_bytes - m30.memory[PART_OPTIMIZER], 24e9);
  ck_assert_double_gt(m30.peak_memory_bytes, 24e9);
  ck_assert_double_gt(wide.peak_memory_bytes, 130e9);
}
END_TEST

/* ZeRO-3 divides what is frozen. */
START_TEST(frozen_weights_are_divided)
{
  Metrics whole = metrics_of("llama-2-7b", "lora:r=16", 0, 8, 2048);
  Metrics divided = metrics_of("llama-2-7b", "lora:r=16", 3, 8, 2048);

  ck_assert_double_eq_tol(whole.memory[PART_WEIGHTS] / divided.memory[PART_WEIGHTS], 8, 0.1);
}
END_TEST

/* ---- what plans may have ---- */

START_TEST(rules_are_said)
{
  Planned p;

  set_up(&p, fixture_llama(2, 512, 8, 8, 128, 512), "lora:r=6", 4);
  p.framework->adapters = 0;
  planned_refuse(&p, RULE_ADAPTER, "plan: adapter: \"lora:r=6\": expected none under framework megatron-core");
  p.framework->adapters = 1u << ADAPTER_LORA;
  planned_refuse(&p, RULE_ADAPTER, "plan: adapter: rank 6: expected a multiple of tensor_model_parallel_size 4, whose "
                                   "ranks divide it");
  p.plan.adapter = adapter_of("lora:r=8,targets=q_a_proj");
  planned_refuse(&p, RULE_ADAPTER, "plan: adapter: \"lora:r=8,targets=q_a_proj\": expected targets that llama has, not "
                                   "q_a_proj");
  planned_clear(&p);
}
END_TEST

START_TEST(experts_are_not_adapted)
{
  Planned p;

  set_up(&p, fixture_moe(2, 512, 8, 128, 512, 4, 2, 0), "lora:r=8", 1);
  ck_assert_int_eq(plan_check(&p.plan, p.model, p.cluster, NULL), RULE_ADAPTER);
  p.plan.adapter = adapter_of("lora:r=8,targets=q_proj,v_proj");
  p.plan.ep = 4;
  planned_run(&p);
  double trained = 0;
  for (int i = 0; i < p.model->n_layers; i++) {
    const LayerPrice *price = price_of_layer(p.prices, p.model, 0, i);
    trained += price->params;
    ck_assert_double_eq(price->expert_params, 0);
    ck_assert(model_layer(p.model, i)->kind != LAYER_BLOCK || price->frozen[1].params > 0);
  }
  ck_assert_double_eq(trained, adapter_params(&p.plan.adapter, p.model));
  planned_clear(&p);
}
END_TEST

/* ---- search ---- */

static void draw_adapter(Instance *in, GRand *rand)
{
  static const char *const dense[] = { "lora:r=8", "qlora:r=16", "lora:r=8,targets=qkv,fc1", "qlora:r=8,targets=q_proj",
                                       "lora:r=8,targets=o_proj,down_proj" };
  static const char *const attention[] = { "lora:r=8,targets=q_proj,v_proj", "qlora:r=8,targets=qkv,proj" };
  int i = g_rand_int_range(rand, 0, 5);

  in->framework->adapters = ~0u; /* all ways of all frameworks, whether or not they train adapters */
  in->base.adapter = adapter_of(model_has_experts(in->model) ? attention[i % 2] : dense[i]);
  in->base.products = PRODUCTS_PLAIN;
  if (in->base.precision == DTYPE_FP32)
    in->base.adapter.kind = ADAPTER_LORA;
  in->base.sharding.persistence = 0;
}

#define BRUTE_FORCED 400

/* Memory that few plans fit, so that bounds of parts of the space decide. */
static double tight_memory(const Instance *in, const GArray *plans)
{
  double least = INFINITY;

  for (guint i = 0; i < plans->len; i++) {
    Metrics m;
    instance_simulate(in, &g_array_index(plans, Plan, i), NULL, &m);
    least = MIN(least, m.peak_memory_bytes);
  }
  return least * 1.0001;
}

/* Every plan of spaces of whole frameworks with adapters is simulated: no bound exceeds it, and the search's answer is
 * the best. */
START_TEST(searches_agree)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = g_rand_new_with_seed(7000 + _i);
  int done = 0;

  for (int tries = 0; done < 2 && tries < 200; tries++) {
    Instance in;
    instance_framework_init(&in, rand, name);
    instance_fix(&in, rand);
    draw_adapter(&in, rand);
    in.cluster->device.memory_bytes = 1.6e9 + g_rand_double_range(rand, 0, 1e9);
    g_autoptr(GArray) all = instance_plans_within(&in, BRUTE_FORCED);
    if (all && all->len > 0) {
      instance_check_all(&in, all);
      in.cluster->device.memory_bytes = tight_memory(&in, all);
      instance_check(&in);
      done++;
    }
    instance_clear(&in);
  }
  ck_assert_msg(done == 2, "%s: %d spaces", name, done);
  g_rand_free(rand);
}
END_TEST

/* On a slow network, where what ranks gather and sum decides: below ZeRO-3 adapters alone, then all weights. */
START_TEST(bounds_hold_on_slow_links)
{
  Planned p;

  planned_init(&p, fixture_llama(6, 512, 8, 8, 128, 512), fixture_cluster("dgx", 8), "megatron-core");
  for (int t = 0; t < p.cluster->n_tiers; t++)
    p.cluster->tiers[t].bytes_per_s = p.cluster->tiers[t].port_bytes_per_s = 1e9;
  planned_divide(&p, 1, _i / 4 ? 2 : 1, _i / 4 ? 4 : 8);
  p.plan.global_batch = 16;
  p.plan.zero = _i / 4 ? MIN(_i % 4, 1) : _i % 4;
  p.plan.overlap.gradients = p.plan.overlap.parameters = TRUE;
  p.plan.adapter = adapter_of("lora:r=16");
  Metrics m = planned_run(&p);
  g_autoptr(PriceSums) sums = price_sums_new(p.model, LAYOUT(&p.plan), p.cluster);
  ck_assert_double_le(bound_time_by_order(p.model, LAYOUT(&p.plan), p.cluster, sums), m.iteration_s);
  planned_clear(&p);
}
END_TEST

TEST_LOOPS("adapters", { texts_are_read, 1 }, { bad_texts_are_refused, 1 }, { counts_are_those_of_peft, 1 },
           { fused_matrices_share_an_a, 1 }, { devices_hold_what_is_counted, 1 },
           { frozen_weights_have_no_gradients, 1 }, { frozen_blocks_keep_less, 1 }, { ends_are_frozen, 1 },
           { outputs_are_scaled_and_added, 1 },
           { blocks_are_in_4_bits, 1 }, { ranks_sum_adapters_alone, 1 },
           { frozen_weights_come_from_the_host, 1 }, { frozen_tables_are_not_summed, 1 },
           { large_models_fit_one_gpu, 1 }, { frozen_weights_are_divided, 1 }, { rules_are_said, 1 },
           { experts_are_not_adapted, 1 }, { bounds_hold_on_slow_links, 8 },
           { searches_agree, FIXTURE_FRAMEWORKS, TRUE })
