/* Layers by pattern, linear attention, experts behind a latent: counts, work, what divides it, what keeps it. */
#include "main.h"
#include "cost/price.h"
#include "layouts.h"
#include "planned.h"
#include "test_model.h"

#include "plan/recompute.h"

/* Hidden 512 with 16 heads of 64 values, 8 groups of keys of 32, chunks of 128. */
#define SIZES                                                                                       \
  "\"layers\":4,\"hidden\":512,\"heads\":8,\"vocab\":1024,\"seq\":1024,\"mlp\":\"relu2\"," \
  "\"norm\":\"rmsnorm\""
#define MAMBA                                                                        \
  "\"linear_attention\":\"mamba2\",\"linear_heads\":16,\"linear_head_dim\":64," \
  "\"linear_groups\":8,\"linear_state\":32,\"linear_chunk\":128"
#define EXPERTS "\"experts\":16,\"experts_per_token\":2,\"expert_ffn_hidden\":256"
#define HYBRID "{" SIZES "," MAMBA "," EXPERTS ",\"layer_pattern\":\"ME*-\"}"

static void setup(Planned *f, const char *text, int devices)
{
  planned_init(f, parsed(text), fixture_cluster("dgx-h100", devices), "megatron-core");
  f->plan.gpus = f->plan.dp = f->plan.global_batch = devices;
  f->plan.recompute = RECOMPUTE_NONE;
}

static LayerSums layer(Planned *f, int i)
{
  planned_build(f);
  return planned_layer(f, i);
}

/* Each letter is one part behind one norm. */
START_TEST(patterns)
{
  g_autoptr(Model) m = parsed(HYBRID);

  ck_assert_int_eq(m->blocks, 4);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(block(m, i)->norms, 1);
  ck_assert(block(m, 0)->linear.heads == 16 && !block(m, 0)->attention.heads && !block(m, 0)->ffn.width);
  ck_assert(block(m, 1)->ffn.experts == 16 && !spec_mixes(block(m, 1)));
  ck_assert(block(m, 2)->attention.heads == 8 && !block(m, 2)->linear.heads && !block(m, 2)->ffn.width);
  ck_assert(block(m, 3)->ffn.width == 2048 && !block(m, 3)->ffn.experts && !spec_mixes(block(m, 3)));
  ck_assert(model_linear(m) && model_attending(m) == block(m, 2));
  /* projection of z, x, B, C and dt; convolution of x, B and C with a bias; A, D and the step's bias; norm */
  gint64 projected = 2 * 1024 + 2 * 256 + 16, convolved = 1024 + 2 * 256;
  ck_assert_int_eq(block(m, 0)->params,
                   512 * projected + convolved * (4 + 1) + 3 * 16 + 1024 + 1024 * 512 + 512);
  ck_assert_int_eq(block(m, 0)->matrix_params, 512 * projected + 1024 * 512);
}
END_TEST

/* Every n-th layer attends, all have a feed-forward; the attention's gate is as wide as its output. */
START_TEST(intervals)
{
  g_autoptr(Model) m = parsed("{" SIZES ",\"linear_attention\":\"gated_delta_net\",\"linear_heads\":8,"
                              "\"linear_head_dim\":64,\"linear_groups\":4,\"linear_state\":32,"
                              "\"full_attention_interval\":4,\"attention_gate\":true}");
  g_autoptr(Model) plain = parsed("{" SIZES "}");

  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(block(m, i)->attention.heads > 0, i == 3);
    ck_assert(block(m, i)->ffn.width == 2048 && block(m, i)->norms == 2);
  }
  ck_assert_int_eq(block(m, 3)->params - block(plain, 3)->params, 512 * 512);
  gint64 projected = 2 * 512 + 2 * 128 + 2 * 8;
  ck_assert_int_eq(block(m, 0)->params - 2 * 512 * 2048 - 2 * 512,
                   512 * projected + (512 + 2 * 128) * 4 + 2 * 8 + 64 + 512 * 512);
}
END_TEST

/* What a file says wrongly, by its key. */
START_TEST(wrong_files)
{
  static const struct {
    const char *text, *message;
  } cases[] = {
    {"{" SIZES "," MAMBA ",\"layer_pattern\":\"MX*-\"}",
     "f: layer_pattern: \"MX*-\": expected a letter for each layer: M linear attention, * attention, H both, - feed-forward, "
     "E experts"},
    {"{" SIZES "," MAMBA ",\"layer_pattern\":\"M*-\"}",
     "f: layer_pattern: \"M*-\": expected 4 letters, one a layer, not 3"},
    {"{" SIZES "," MAMBA "}", "f: linear_attention: \"mamba2\": expected this key only with layers of it, by "
                              "layer_pattern or full_attention_interval"},
    {"{" SIZES ",\"layer_pattern\":\"M*-*\"}",
     "f: linear_attention: missing: expected the kind of layers M of layer_pattern"},
    {"{" SIZES "," MAMBA ",\"layer_pattern\":\"ME*-\"}",
     "f: experts: missing: expected an integer from 1 to 65536, as layers have experts"},
    {"{" SIZES ",\"linear_attention\":\"mamba2\",\"linear_heads\":16,\"linear_head_dim\":64,\"linear_groups\":3,"
     "\"linear_state\":32,\"layer_pattern\":\"M*-*\"}",
     "f: linear_groups: 3: expected a divisor of linear_heads (16)"},
    {"{" SIZES ",\"index_heads\":4}", "f: index_heads: 4: expected this key only beside kv_lora_rank"},
    {"{\"model_type\":\"glm_moe_dsa\",\"hidden_size\":64,\"num_hidden_layers\":1,\"vocab_size\":10,"
     "\"num_attention_heads\":4,\"intermediate_size\":96,\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
     "\"index_topk_freq\":4}",
     "f: index_topk_freq: 4: expected 1, as layers that share an indexer have no cost here"},
    {"{" SIZES ",\"linear_heads\":4}", "f: linear_heads: 4: expected this key only beside linear_attention"},
    {"{" SIZES ",\"expert_latent\":4}", "f: expert_latent: 4: expected this key only beside experts"},
    {"{" SIZES "," MAMBA ",\"layer_pattern\":\"M*-*\",\"parallel_block\":true}",
     "f: parallel_block: true: expected false beside layer_pattern or full_attention_interval"},
    {"{" SIZES ",\"layer_pattern\":\"*-*-\",\"norm_position\":\"post\"}",
     "f: norm_position: \"post\": expected \"pre\" beside layer_pattern or full_attention_interval"},
    {"{" SIZES "," MAMBA ",\"full_attention_interval\":2,\"parallel_block\":true}",
     "f: parallel_block: true: expected false beside layer_pattern or full_attention_interval"},
    {"{" SIZES "," MAMBA ",\"layer_pattern\":\"M*-*\",\"mtp_num_layers\":1,\"mtp_layer_pattern\":\"-*\"}",
     "f: mtp_layer_pattern: \"-*\": expected the parts of a module, a mixer first, as \"*E\", beside layer_pattern"},
    {"{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":10,"
     "\"hybrid_override_pattern\":\"M?\"}",
     "f: hybrid_override_pattern: \"M?\": expected a letter for each layer: M linear attention, * attention, "
     "- feed-forward, E experts"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,\"vocab_size\":10,"
     "\"num_attention_heads\":4,\"intermediate_size\":96,\"layer_types\":[\"linear_attention\"]}",
     "f: layer_types[0]: \"linear_attention\": expected one of full_attention, sliding_attention"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    refused(cases[i].text, cases[i].message);
}
END_TEST

/* Weights on one device are the parameters; the FLOPs of a layer of products are those of its matrices and of the scan:
 * scores of chunks, their product with values, states made and asked, 2.5 times as much backward. */
START_TEST(work_is_the_model)
{
  Planned f;
  double params = 0, tokens = 1024;

  setup(&f, HYBRID, 1);
  for (int i = 0; i < f.model->n_layers; i++)
    params += layer(&f, i).params;
  ck_assert_double_eq(params, f.model->params);
  double scan = 2 * 8 * 128 * 32 + 2 * 1024 * (128 + 2 * 32.0);
  double flops = tokens * (6.0 * block(f.model, 0)->matrix_params + 3.5 * scan);
  ck_assert_double_eq_tol(layer(&f, 1).flops / flops, 1, 1e-12);
  ck_assert_double_eq_tol(layer(&f, 4).flops / (tokens * 6.0 * block(f.model, 3)->matrix_params), 1, 1e-12);
  /* 7 for an element of a state, of which a token has heads x values x keys; three passes' worth */
  g_autoptr(Model) dense = parsed("{" SIZES "," MAMBA ",\"layer_pattern\":\"---M\"}");
  g_autoptr(Model) none = parsed("{" SIZES ",\"layer_pattern\":\"----\"}");
  double difference = model_flops(dense, 1024) - model_flops(none, 1024);
  double matrices = 6.0 * 1024 * (block(dense, 3)->matrix_params - block(none, 3)->matrix_params);
  ck_assert_double_eq_tol((difference - matrices) / (3.0 * 1024 * 7 * 1024 * 32), 1, 1e-9);
  planned_clear(&f);
}
END_TEST

/* A Mamba-2 layer keeps what the norm and the projections read, what the first projection made, the scan's output and
 * the norm's: 2 (h + h + (2 v + 2 k + heads) + v + v + v) bytes a token, heads' parts divided by tensor parallelism. */
START_TEST(kept_bytes)
{
  Planned f;
  double h = 512, v = 1024, projected = 2 * v + 2 * 256 + 16;

  setup(&f, HYBRID, 8);
  double rows = f.framework->norm_row_values * 4;
  ck_assert_double_eq(layer(&f, 1).saved_bytes, 1024 * (2 * (2 * h + projected + 3 * v) + rows));
  f.plan.tp = 8;
  f.plan.dp = 1;
  f.plan.sequence_parallel = TRUE;
  ck_assert_double_eq(layer(&f, 1).saved_bytes, 1024 / 8 * (2 * (2 * h + projected + 3 * v) + rows));
  planned_clear(&f);
}
END_TEST

/* The kernels that a GB10 was timed with: 16,384 tokens, 112 heads of 64, 8 groups, state 128, no gate (here there is
 * one: its two passes over values forward and five backward are taken off). */
START_TEST(scans_take_what_was_measured)
{
  static const double ms[] = { 87.611, 63.571, 56.995 };
  Planned f;

  for (int i = 0; i < 3; i++) {
    g_autofree char *text = g_strdup_printf(
      "{\"layers\":1,\"hidden\":512,\"vocab\":1024,\"seq\":16384,\"norm\":\"rmsnorm\",\"linear_attention\":\"mamba2\","
      "\"linear_heads\":112,\"linear_head_dim\":64,\"linear_groups\":8,\"linear_state\":128,\"linear_chunk\":%d,"
      "\"layer_pattern\":\"M\"}", 64 << i);
    double seconds = 0;

    setup(&f, text, 1);
    LayerWork work;
    layer_work_init(&work, f.model, block(f.model, 0), PASSES(&f.plan), f.cluster);
    Device *gb10 = &f.cluster->device;
    gb10->memory_bytes_per_s = 273e9;
    gb10->sms = 48;
    gb10->kernels.memory_launch_s = 0;
    const GArray *passes[] = { work.forward, work.backward };
    for (int pass = 0; pass < 2; pass++)
      for (guint k = 0; k < passes[pass]->len; k++) {
        Op op = g_array_index(passes[pass], Op, k);
        if (!g_str_equal(op.name, "chunk scan"))
          continue;
        op.memory.bytes -= 16384.0 * 112 * 64 * 2 * (pass ? 5 : 2);
        seconds += op_s(&op, PASSES(&f.plan), f.cluster);
      }
    ck_assert_double_eq_tol(seconds * 1e3 / ms[i], 1, 0.006);
    layer_work_clear(&work);
    planned_clear(&f);
  }
}
END_TEST

/* Tensor parallelism takes heads with their groups, work divided; context parallelism changes rows for heads whatever
 * attention does: z, x, B, C and dt there, x back, and so backward. */
START_TEST(divided)
{
  Planned f;

  setup(&f, HYBRID, 8);
  LayerSums whole = layer(&f, 1);
  f.plan.tp = 8;
  f.plan.dp = 1;
  LayerSums part = layer(&f, 1);
  ck_assert_double_eq_tol(part.flops * 8 / whole.flops, 1, 1e-12);
  ck_assert_double_eq((part.params - 512) * 8 + 512, whole.params);
  f.plan.tp = 1;
  f.plan.cp = 8;
  f.plan.context = CONTEXT_RING;
  part = layer(&f, 1);
  ck_assert_double_eq_tol(part.flops * 8 / whole.flops, 1, 1e-12);
  double sent = 2 * 2.0 * (1024 / 8) * (2 * 1024 + 512 + 16 + 1024) * 7 / 8;
  ck_assert_double_eq_tol(part.sent[AXIS_CONTEXT] / sent, 1, 1e-9);
  ck_assert_double_eq(layer(&f, 2).sent[AXIS_CONTEXT], 0);
  planned_clear(&f);
}
END_TEST

START_TEST(refused_degrees)
{
  Planned f;

  setup(&f, "{" SIZES ",\"kv_heads\":8,\"linear_attention\":\"mamba2\",\"linear_heads\":16,\"linear_head_dim\":64,"
            "\"linear_groups\":2,\"linear_state\":32,\"layer_pattern\":\"M-*-\"}", 8);
  f.plan.tp = 4;
  f.plan.dp = 2;
  planned_refuse(&f, RULE_HEADS, "plan: tensor_model_parallel_size: 4: expected a divisor of the 16 heads and 2 groups "
                                 "of linear attention");
  f.plan.tp = 1;
  f.plan.cp = 8;
  f.plan.dp = 1;
  planned_accept(&f);
  planned_clear(&f);
  setup(&f, "{" SIZES ",\"linear_attention\":\"mamba2\",\"linear_heads\":12,\"linear_head_dim\":64,"
            "\"linear_groups\":3,\"linear_state\":32,\"layer_pattern\":\"M-*-\"}", 8);
  f.plan.cp = 8;
  f.plan.dp = 1;
  planned_refuse(&f, RULE_HEADS, "plan: context_parallel_size: 8: expected a divisor of the 12 heads of linear "
                                 "attention on a rank, and a divisor or a multiple of their 3 groups");
  planned_clear(&f);
}
END_TEST

/* Experts in a latent: two projections a token, rows as wide as the latent travel, the shared expert reads the rest. */
START_TEST(latent_experts)
{
  Planned whole, latent;

  setup(&whole, "{" SIZES "," EXPERTS ",\"shared_ffn_hidden\":256,\"layer_pattern\":\"*E*E\"}", 8);
  setup(&latent, "{" SIZES "," EXPERTS ",\"shared_ffn_hidden\":256,\"expert_latent\":128,"
                 "\"layer_pattern\":\"*E*E\"}", 8);
  ck_assert_int_eq(block(latent.model, 1)->expert_params * 4, block(whole.model, 1)->expert_params);
  ck_assert_int_eq(block(latent.model, 1)->params - block(latent.model, 1)->expert_params,
                   block(whole.model, 1)->params - block(whole.model, 1)->expert_params + 2 * 512 * 128);
  whole.plan.ep = latent.plan.ep = 8;
  LayerSums a = layer(&whole, 2), b = layer(&latent, 2);
  ck_assert_double_eq_tol(a.sent[AXIS_EXPERT] / b.sent[AXIS_EXPERT], 4, 1e-9);
  ck_assert_double_eq_tol(a.flops - b.flops, 6.0 * 1024 * (2 * 2 * 256 * (512 - 128) - 2 * 512 * 128), 1);
  ck_assert_double_eq(b.params + 8 * b.expert_params, block(latent.model, 1)->params);
  planned_clear(&whole);
  planned_clear(&latent);
}
END_TEST

/* Modules are those parts that some layer has. */
START_TEST(modules)
{
  g_autoptr(Model) hybrid = parsed(HYBRID);
  g_autoptr(Model) state = parsed("{" SIZES "," MAMBA ",\"layer_pattern\":\"MMMM\"}");

  ck_assert_uint_eq(recompute_modules_of(hybrid), 1u << MODULE_CORE_ATTN | 1u << MODULE_LAYERNORM | 1u << MODULE_MLP |
                                                    1u << MODULE_MOE | 1u << MODULE_MOE_ACT);
  ck_assert_uint_eq(recompute_modules_of(state), 1u << MODULE_LAYERNORM);
}
END_TEST

/* A module of a pattern of parts has both, whatever the last layer has. */
START_TEST(modules_of_tokens)
{
  g_autoptr(Model) m = parsed("{" SIZES "," MAMBA "," EXPERTS ",\"layer_pattern\":\"ME*-\",\"mtp_num_layers\":1,"
                              "\"mtp_layer_pattern\":\"*E\"}");
  const LayerSpec *module = model_layer(m, 5);

  ck_assert_int_eq(module->kind, LAYER_MTP);
  ck_assert(module->attention.heads == 8 && module->ffn.experts == 16 && module->norms == 2);
}
END_TEST

/* A chunked window attends to stretches, each with its own causal triangle: as many sequences of that length would. */
START_TEST(chunks)
{
  Planned f, alone;

  setup(&f, "{" SIZES ",\"window\":256,\"chunked\":true}", 8);
  setup(&alone, "{" SIZES "}", 8);
  LayerSums chunked = layer(&f, 1);
  alone.plan.seq = 256;
  alone.plan.micro_batch = 4;
  alone.plan.global_batch = 32;
  LayerSums sequences = layer(&alone, 1);
  ck_assert_double_eq(chunked.flops, sequences.flops);
  ck_assert_double_eq_tol(model_flops(f.model, 1024) - model_flops_unmasked(f.model, 1024, 1024),
                          4 * 6.0 * 1024 * 128 * 2 * 512, 1);
  ck_assert_double_eq(chunked.attention_s, sequences.attention_s);
  ck_assert_double_eq(chunked.saved_bytes, sequences.saved_bytes);
  f.plan.cp = 8;
  f.plan.dp = 1;
  f.plan.context = CONTEXT_ALL_TO_ALL;
  ck_assert_double_eq_tol(layer(&f, 1).flops * 8 / chunked.flops, 1, 1e-12);
  f.plan.context = CONTEXT_RING;
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_size: 8: expected 1, or cp_comm_type a2a, for a window of "
                                   "256 tokens");
  planned_clear(&f);
  planned_clear(&alone);
}
END_TEST

/* An indexer's weights stand whole on every rank; where it leaves keys out, heads read the latents of those left,
 * beside its own scores, of which a causal mask leaves half; backward a product has two gradients. */
START_TEST(chosen_keys)
{
#define LATENT                                                                                             \
  "\"kv_lora_rank\":128,\"q_lora_rank\":96,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,\"v_head_dim\":32"
#define INDEXER ",\"index_heads\":4,\"index_head_dim\":16,\"index_topk\":"
  Planned plain, all, some;

  setup(&plain, "{" SIZES "," LATENT "}", 8);
  setup(&all, "{" SIZES "," LATENT INDEXER "1024}", 8);
  setup(&some, "{" SIZES "," LATENT INDEXER "256}", 8);
  double weights = 96 * 4 * 16 + 512 * (16 + 4) + 2 * 16;
  ck_assert_double_eq(block(all.model, 0)->params - block(plain.model, 0)->params, weights);
  LayerSums a = layer(&plain, 1), b = layer(&all, 1), c = layer(&some, 1);
  ck_assert_double_eq(b.params - a.params, weights);
  ck_assert_double_eq_tol(b.flops - a.flops, 6.0 * 1024 * (weights - 32), 1e-3);
  double dense = 6.0 * 8 * 1024 * 1024 * (48 + 32), sparse = 6.0 * 8 * 1024 * 256 * (144 + 128);
  ck_assert_double_eq_tol(c.flops - b.flops, sparse - dense + 6.0 * 1024 * 512 * 64, 1e-3);
  double counted = 6.0 * 1024 * (256 * 8 * 80 + 1024 * 4 * 16);
  ck_assert_double_eq_tol(model_flops(some.model, 1024) - model_flops(all.model, 1024), 4 * (counted - dense), 1);
  ck_assert_double_eq_tol(model_flops(some.model, 1024) - model_flops_unmasked(some.model, 1024, 1024),
                          4 * 3.0 * 1024 * 1024 * 4 * 16, 1);
  ck_assert_double_eq_tol(model_flops(all.model, 1024) - model_flops_unmasked(all.model, 1024, 1024), 2 * dense, 1);
  all.plan.tp = 8;
  all.plan.dp = 1;
  ck_assert_double_eq((layer(&all, 1).params - weights - 512 * (144 + 96) - 128 - 96 - 2 * 512) * 8,
                      a.params - 512 * (144 + 96) - 128 - 96 - 2 * 512);
  some.plan.cp = 8;
  some.plan.dp = 1;
  some.plan.context = CONTEXT_ALL_TO_ALL;
  planned_refuse(&some, RULE_CONTEXT, "plan: context_parallel_size: 8: expected 1, model f has an indexer that chooses "
                                      "keys");
  planned_clear(&plain);
  planned_clear(&all);
  planned_clear(&some);
}
END_TEST

/* Stages, full recomputation and pipelines count layers of any part. */
START_TEST(pipelines)
{
  Planned f;

  setup(&f, HYBRID, 8);
  f.plan.pp = 4;
  f.plan.dp = 2;
  f.plan.global_batch = 16;
  planned_run(&f);
  f.plan.recompute = RECOMPUTE_FULL;
  planned_run(&f);
  ck_assert_double_eq(layer(&f, 1).saved_bytes, 1024 * 512 * 2.0);
  planned_clear(&f);
}
END_TEST

/* What linear attention keeps takes room on the host where the layer goes there. */
START_TEST(offloaded)
{
  Planned f;
  double each = 1024 * 2.0 * (2 * 512 + 2 * 1024 + 2 * 256 + 16 + 1024);

  setup(&f, "{" SIZES "," MAMBA ",\"layer_pattern\":\"MMM*\"}", 8);
  f.plan.offload.layers = 3;
  f.cluster->host_memory_bytes = 8 * 3 * each;
  planned_accept(&f);
  f.cluster->host_memory_bytes *= 0.99;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 0 GiB");
  planned_clear(&f);
}
END_TEST

static double laid_bytes(const GArray *ops)
{
  double bytes = 0;

  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, "lay by sequence"))
      bytes += g_array_index(ops, Op, i).memory.bytes;
  return bytes;
}

/* Megatron's rows lie by position: Mamba-2's input is copied to lie by sequence and its output back, and backward the
 * gradient of the input, of several sequences alone. A gated delta network's and others' rows are not. Nothing is kept. */
START_TEST(rows_lie_by_sequence)
{
  static const char *const delta = "{" SIZES ",\"linear_attention\":\"gated_delta_net\",\"linear_heads\":8,"
                                   "\"linear_head_dim\":64,\"linear_groups\":4,\"linear_state\":32,"
                                   "\"full_attention_interval\":4}";
  static const struct {
    int micro, tp;
    gboolean mamba, copies, expected;
  } cases[] = { { 1, 1, TRUE, TRUE, FALSE }, { 2, 1, TRUE, TRUE, TRUE },   { 4, 2, TRUE, TRUE, TRUE },
                { 2, 1, FALSE, TRUE, FALSE }, { 2, 1, TRUE, FALSE, FALSE } };
  const double projected = 2 * 1024 + 2 * 256 + 16, values = 1024;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    LayerWork work, without;
    setup(&f, cases[i].mamba ? HYBRID : delta, 2);
    f.plan.micro_batch = f.plan.global_batch = cases[i].micro;
    f.plan.tp = cases[i].tp;
    f.framework->mixer_copies = FALSE;
    layer_work_init(&without, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    f.framework->mixer_copies = cases[i].copies;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    double each = cases[i].expected ? 2.0 * 2 * cases[i].micro * f.plan.seq / cases[i].tp : 0;
    ck_assert_double_eq(laid_bytes(work.forward), each * (projected + values));
    ck_assert_double_eq(laid_bytes(work.backward), each * projected);
    ck_assert_double_eq(work.saved_bytes, without.saved_bytes);
    layer_work_clear(&work);
    layer_work_clear(&without);
    planned_clear(&f);
  }
}
END_TEST

TEST_MAIN("hybrid", patterns, intervals, wrong_files, work_is_the_model, kept_bytes, scans_take_what_was_measured,
          rows_lie_by_sequence, divided, refused_degrees, latent_experts, modules, modules_of_tokens, chunks, chosen_keys,
          pipelines, offloaded)
