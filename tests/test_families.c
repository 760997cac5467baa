/* Model families beside decoders of text: what they hold, what a step of them does, who runs them. */
#include "fixture.h"
#include "export/export.h"
#include "search/search.h"
#include "sim/simulate.h"
#include "test_model.h"

/* Counted by Hugging Face's classes, of PyTorch Image Models (ViT) and of the papers. */
static const struct {
  const char *name;
  gint64 params;
} counts[] = {
  { "bert-base", 110106428 }, { "bert-large", 336226108 }, { "vit-base-16", 86567656 }, { "vit-large-16", 304326632 },
  { "vit-huge-14", 632045800 }, { "t5-11b", 11307321344 }, { "gpt-j-6b", 6050882784 }, { "palm-540b", 540356474880 },
};

START_TEST(parameters_are_counted)
{
  g_autoptr(Model) m = fixture_known_model(counts[_i].name);
  ck_assert_msg(m->params == counts[_i].params, "%s: %" G_GINT64_FORMAT, m->name, m->params);
}
END_TEST

#define SIZES "\"hidden_size\":1024,\"intermediate_size\":4096,\"num_hidden_layers\":24,\"num_attention_heads\":16," \
              "\"vocab_size\":30522"

/* BertForMaskedLM has no pooler; Megatron's has norms before, and one behind all. */
START_TEST(bert_has_variants)
{
  g_autoptr(Model) masked = parsed("{\"model_type\":\"bert\"," SIZES ",\"architectures\":[\"BertForMaskedLM\"]}");
  g_autoptr(Model) megatron = parsed("{\"model_type\":\"megatron-bert\"," SIZES "}");

  ck_assert_int_eq(masked->params, 335174458);
  ck_assert(masked->post_norm && masked->embedding_norm && !block(masked, 0)->attention.causal && masked->dropout);
  ck_assert(!megatron->post_norm && !megatron->embedding_norm);
  ck_assert_int_eq(megatron->params, 335174458);
}
END_TEST

/* 110 of Hugging Face's BERT in our own keys. */
START_TEST(native_keys_say_the_same)
{
  g_autoptr(Model) hf = fixture_known_model("bert-large");
  g_autoptr(Model) native = parsed("{\"layers\":24,\"hidden\":1024,\"heads\":16,\"vocab\":30522,\"seq\":512,\"causal\":false,"
                                   "\"norm_position\":\"post\",\"embedding_norm\":true,\"type_vocab_size\":2,"
                                   "\"mlm_head\":true,\"pooler\":true,\"dropout\":true}");

  ck_assert_int_eq(native->params, hf->params);
  ck_assert_double_eq(model_flops(native, 512), model_flops(hf, 512));
  refused("{\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":512,\"seq\":64,\"pooler\":true}",
          "f: pooler: true: expected this key only beside mlm_head");
}
END_TEST

/* Logits of 15 % of the tokens: the head's products shrink, the blocks' do not. */
START_TEST(predicted_tokens_alone_have_logits)
{
  g_autoptr(Model) all = parsed("{\"model_type\":\"bert\"," SIZES "}");
  g_autoptr(Model) some = parsed("{\"model_type\":\"bert\"," SIZES ",\"sparse_prediction\":true}");
  double head = 6.0 * 512 * (1024.0 * 30522 + 1024 * 1024);

  ck_assert_double_eq_tol(model_flops(all, 512) - model_flops(some, 512), 0.85 * head, 1e3);
}
END_TEST

static int tensor_sums(const GArray *ops)
{
  int sums = 0;

  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    sums += op->kind == OP_COLLECTIVE && op->collective.axis == AXIS_TENSOR;
  }
  return sums;
}

/* Attention and feed-forward in turn sum twice each way; side by side, once (GPT-J, PaLM: arXiv 2204.02311,
 * section 2). */
START_TEST(parallel_blocks_sum_once)
{
  static const struct {
    const char *model;
    int sums;
  } cases[] = { { "gpt2-xl", 2 }, { "gpt-j-6b", 1 }, { "gpt-neox-20b", 1 }, { "falcon-40b", 1 } };
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = fixture_known_model(cases[i].model);
    Plan plan = plan_default(model, framework);
    LayerWork work;
    plan.tp = plan.gpus = 8;
    for (int sp = 0; sp < 2; sp++) {
      plan.sequence_parallel = sp;
      layer_work_init(&work, model, model_layer(model, 1), PASSES(&plan), cluster);
      ck_assert_int_eq(tensor_sums(work.forward), cases[i].sums * (1 + sp));
      ck_assert_int_eq(tensor_sums(work.backward), cases[i].sums * (1 + 2 * sp));
      layer_work_clear(&work);
    }
  }
}
END_TEST

static const struct {
  const char *model, *framework;
} planned[] = { { "bert-large", "megatron-core" }, { "bert-large", "deepspeed" }, { "bert-large-sparse", "fsdp" },
                { "vit-huge-14", "megatron-core" }, { "vit-huge-14", "fsdp" }, { "gpt-j-6b", "megatron-core" },
                { "t5-11b", "megatron-core" }, { "t5-large", "deepspeed" } };

/* A search finds a plan that fits; its simulation takes longer than the matrices alone. */
START_TEST(families_are_planned)
{
  g_autoptr(Model) model = fixture_known_model(planned[_i].model);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-a100-80gb", 8);
  g_autoptr(Framework) framework = fixture_framework(planned[_i].framework);
  Plan base = plan_default(model, framework);
  GError *error = NULL;

  base.gpus = 8;
  base.global_batch = 64;
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1 };
  g_autoptr(SearchResult) found = search(model, cluster, &options, &error);
  ck_assert_msg(found && found->best->len == 1, "%s", error ? error->message : "none");
  const Plan *best = &g_array_index(found->best, Found, 0).plan;
  ck_assert_int_eq(plan_check(best, model, cluster, NULL), RULE_NONE);
  g_autoptr(Trace) trace = simulate_plan(model, cluster, best);
  ck_assert_double_gt(trace->end_s,
                      model_flops(model, best->seq) * 64 / (8 * cluster->device.peak_flops_per_s[DTYPE_BF16]));
}
END_TEST

/* An image's tokens are its patches and the class token. */
START_TEST(images_have_their_length)
{
  g_autoptr(Model) model = fixture_known_model("vit-huge-14");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 1);
  g_autoptr(Framework) framework = fixture_framework("fsdp");
  Plan plan = plan_default(model, framework);
  GError *error = NULL;

  ck_assert_int_eq(plan.seq, 257);
  ck_assert_int_eq(plan_check(&plan, model, cluster, NULL), RULE_NONE);
  plan.seq = 256;
  ck_assert_int_eq(plan_check(&plan, model, cluster, &error), RULE_SEQUENCE);
  test_error(&error, TDP_ERROR_INPUT,
             "plan: seq_length: 256: expected the 257 patches and class token of model vit-huge-14");
}
END_TEST

/* T5 of 12 and 12 blocks on 4 stages with Megatron's split: what each stage receives, and what a boundary carries. */
START_TEST(encoder_output_travels)
{
  g_autoptr(Model) model = fixture_known_model("t5-base");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 4);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan plan = plan_default(model, framework);
  double token = 768 * 2;

  plan.gpus = plan.pp = 4;
  plan.global_batch = 8;
  plan.split_rank = 1;
  plan.decoder_seq = 128;
  ck_assert_int_eq(plan_check(&plan, model, cluster, NULL), RULE_NONE);
  static const int starts[] = { 0, 13, 17, 21, 26 };
  for (int stage = 0; stage <= 4; stage++)
    ck_assert_int_eq(plan_stage_first_layer(&plan, model, stage), starts[stage]);
  ck_assert_double_eq(op_boundary_bytes_at(model, PASSES(&plan), 7), 512 * token);
  ck_assert_double_eq(op_boundary_bytes_at(model, PASSES(&plan), 13), 512 * token);
  ck_assert_double_eq(op_boundary_bytes_at(model, PASSES(&plan), 17), (512 + 128) * token);
  ck_assert(pipeline_entry_copies(&LAYOUT(&plan)->pipeline, model));
  g_autoptr(Trace) trace = simulate_plan(model, cluster, &plan);
  double sent[4] = { 0 };
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *s = &g_array_index(trace->segments, Segment, span->segment);
    sent[span->row] += s->kind == TASK_SEND ? s->comm_bytes : 0;
  }
  ck_assert_double_eq(sent[0], 8 * 512 * token);
  ck_assert_double_eq(sent[1], 8 * (512 + 512 + 128) * token);
  ck_assert_double_eq(sent[2], 8 * 2 * (512 + 128) * token);
  ck_assert_double_eq(sent[3], 8 * (512 + 128) * token);
}
END_TEST

/* Stages of the decoder hold two attentions a block, and those that did not start it the encoder's output as well. */
START_TEST(stacks_have_their_memory)
{
  g_autoptr(Model) model = fixture_known_model("t5-base");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 1);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan plan = plan_default(model, framework);
  LayerWork works[4];
  static const int layers[] = { 2, 13, 14, 15 };

  for (int i = 0; i < 4; i++)
    layer_work_init(&works[i], model, model_layer(model, layers[i]), PASSES(&plan), cluster);
  double output = 512.0 * 768 * 2;
  ck_assert_double_gt(works[2].saved_bytes, works[0].saved_bytes + 5 * output); /* norm and its output, q, k and
                                                                                   v, context */
  ck_assert_double_gt(works[1].saved_bytes, works[2].saved_bytes + output);
  ck_assert_double_eq(works[2].saved_bytes, works[3].saved_bytes);
  ck_assert_double_eq(works[2].params - works[0].params, 4.0 * 768 * 768 + 768);
  for (int i = 0; i < 4; i++)
    layer_work_clear(&works[i]);
}
END_TEST

START_TEST(stacks_have_rules)
{
  static const struct {
    const char *framework;
    int pp, split, cp;
    PlanRule rule;
    const char *says;
  } cases[] = {
    { "megatron-core", 3, 0, 1, RULE_LAYERS, "plan: pipeline_model_parallel_size: 3: expected that a stage starts "
                                             "with the "
      "decoder of model t5-base, which is what megatron-core runs, or a pipeline_model_parallel_split_rank" },
    { "deepspeed", 3, 0, 1, RULE_NONE, NULL },
    { "megatron-core", 3, 1, 1, RULE_NONE, NULL },
    { "megatron-core", 6, 5, 1, RULE_LAYERS, "plan: pipeline_model_parallel_split_rank: 5: expected a divisor of the "
                                             "12 "
      "encoder layers that leaves a divisor of the 12 decoder layers" },
    { "megatron-core", 1, 0, 2, RULE_CONTEXT, NULL },
    { "megatron-core-2026", 3, 1, 1, RULE_FAMILY, "plan: pipeline_model_parallel_size: 3: expected 1, megatron-core-2026 "
      "runs encoder-decoders as t5-base without stages" },
    { "megatron-core-2026", 1, 0, 1, RULE_NONE, NULL },
    { "nemo-2026-08", 3, 1, 1, RULE_FAMILY, NULL },
    { "nemo-2025-05", 3, 1, 1, RULE_NONE, NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = fixture_known_model("t5-base");
    g_autoptr(Cluster) cluster = fixture_cluster("dgx", cases[i].pp * cases[i].cp);
    g_autoptr(Framework) framework = fixture_framework(cases[i].framework);
    Plan plan = plan_default(model, framework);
    GError *error = NULL;
    plan.pp = cases[i].pp;
    plan.cp = cases[i].cp;
    plan.gpus = plan.pp * plan.cp;
    plan.split_rank = cases[i].split;
    plan.attention = cases[i].rule == RULE_CONTEXT ? ATTENTION_UNFUSED : plan.attention;
    ck_assert_int_eq(plan_check(&plan, model, cluster, &error), cases[i].rule);
    if (cases[i].says)
      test_error(&error, TDP_ERROR_INPUT, cases[i].says);
    g_clear_error(&error);
  }
}
END_TEST

static char *export_of(const char *exporter, const char *name, GError **error)
{
  g_autoptr(Model) model = fixture_known_model(name);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 1);
  g_autoptr(Framework) framework = fixture_framework(g_str_equal(exporter, "deepspeed") ? "deepspeed" : "fsdp");
  Plan plan = plan_default(model, framework);

  return export_plan(exporter_find(exporter), model, cluster, &plan, NULL, error);
}

START_TEST(exporters_write_or_refuse)
{
  GError *error = NULL;
  g_autofree char *text = export_of("deepspeed", "bert-large-sparse", &error);

  ck_assert_msg(text && strstr(text, "\"sparse_attention\": {\n    \"mode\": \"fixed\",\n    \"block\": 16,"), "%s",
                text);
  ck_assert_ptr_null(export_of("megatron", "bert-large-sparse", &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, "megatron: model bert-large-sparse: attention: \"flash\": expected a "
                                           "framework that runs block-sparse kernels for the sparse_attention of "
                                           "model bert-large-sparse");
  ck_assert_ptr_null(export_of("megatron", "vit-huge-14", &error));
  g_clear_error(&error);
  ck_assert_ptr_null(export_of("torchtitan", "vit-huge-14", &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, "torchtitan: model vit-huge-14: patch_size: expected a decoder without it");
}
END_TEST

TEST_LOOPS("families", { parameters_are_counted, G_N_ELEMENTS(counts) },
           { bert_has_variants },
           { native_keys_say_the_same },
           { predicted_tokens_alone_have_logits },
           { parallel_blocks_sum_once },
           { families_are_planned, G_N_ELEMENTS(planned) },
           { images_have_their_length },
           { encoder_output_travels },
           { stacks_have_their_memory },
           { stacks_have_rules },
           { exporters_write_or_refuse })
