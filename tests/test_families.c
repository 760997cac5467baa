/* Model families beside decoders of text: what they hold, what a step of them does, who runs them. */
#include "fixture.h"
#include "interop/export.h"
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

/* Attention and feed-forward in turn sum twice each way; side by side, once (GPT-J, PaLM: arXiv 2204.02311, section 2). */
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
      layer_work_init(&work, model, model_layer(model, 1), &plan, cluster);
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
                { "vit-huge-14", "megatron-core" }, { "vit-huge-14", "fsdp" }, { "gpt-j-6b", "megatron-core" } };

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
  ck_assert_double_gt(trace->end_s, model_flops(model, best->seq) * 64 / (8 * cluster->device.peak_flops_per_s[DTYPE_BF16]));
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

  ck_assert_msg(text && strstr(text, "\"sparse_attention\": {\n    \"mode\": \"fixed\",\n    \"block\": 16,"), "%s", text);
  ck_assert_ptr_null(export_of("megatron", "bert-large", &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, "megatron: model bert-large: mlm_head: expected a decoder without it");
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
           { exporters_write_or_refuse })
