/* Megatron-LM's arguments in YAML. */
#include "main.h"

#include "import/launch.h"
#include "model/model.h"

#include <string.h>

#define MODEL "ENV_VARS:\n  NCCL_NVLS_ENABLE: 0\nMODEL_ARGS:\n  # the model\n  --num-layers: 4\n" \
              "  --hidden-size: 64\n  --num-attention-heads: 4\n  --seq-length: 128\n" \
              "  --max-position-embeddings: 128\n  --vocab-size: 1024\n" \
              "  --attention-dropout: 0.0\n  --hidden-dropout: 0.0\n"

static Launch *read_yaml(const char *more, const char *given, GError **error)
{
  g_autofree char *text = g_strconcat(MODEL, more, NULL);
  g_auto(GStrv) words = launch_given(given, NULL);

  return launch_read(text, "x.yaml", &(LaunchOptions) { .gpus = 8, .given = (const char *const *)words }, error);
}

/* Switches, words that a shell would take apart, quotes within YAML's, and variables. */
START_TEST(arguments_are_read)
{
  static const struct { const char *more, *given, *plan, *model; } cases[] = {
    { "  --micro-batch-size: 2\n  --bf16: true\n", "", "\"micro_batch_size\": 2", "\"layers\": 4" },
    { "  --swiglu: true\n  --use-distributed-optimizer: true\n", "", "\"zero_stage\": 1", "\"mlp\": \"swiglu\"" },
    { "  --swiglu: false\n  --use-distributed-optimizer: false\n", "", "\"zero_stage\": 0", "\"mlp\": \"gelu\"" },
    { "  --tensor-model-parallel-size: ${TP}\n", "TP=4", "\"tensor_model_parallel_size\": 4", "\"layers\"" },
    { "  --recompute-granularity: selective\n  --recompute-modules: layernorm mlp\n", "",
      "\"recompute_modules\": [\"layernorm\", \"mlp\"]", "\"layers\"" },
    { "  --recompute-granularity: selective\n  --recompute-modules:\n    - layernorm # small\n    - mlp\n  --bf16: true\n",
      "", "\"recompute_modules\": [\"layernorm\", \"mlp\"]", "\"layers\"" },
    { "  --recompute-granularity: selective\n  --recompute-modules: [layernorm, 'mlp']\n", "",
      "\"recompute_modules\": [\"layernorm\", \"mlp\"]", "\"layers\"" },
    { "  --recompute-granularity: selective\n  --recompute-modules: [layernorm,\n    'mlp']\n  --bf16: true\n", "",
      "\"recompute_modules\": [\"layernorm\", \"mlp\"]", "\"layers\"" },
    { "  --recompute-granularity: selective\n  --recompute-modules: ''\n  --recompute-modules:\n    - mlp\n", "",
      "\"recompute_modules\": [\"mlp\"]", "\"layers\"" },
    { "  --context-parallel-size: 2\n  --cp-comm-type:\n    - \"a2a\"\n", "", "\"cp_comm_type\": \"a2a\"", "\"layers\"" },
    { "  --num-experts: 4\n  --moe-layer-freq: ([0]*1+[1]*3)\n  --moe-router-topk: 1\n", "", "\"gpus\": 8",
      "\"first_dense_layers\": 1" },
    { "  --num-experts: 4\n  --moe-layer-freq: \"'([0]*1+[1]*3)'\"\n  --moe-router-topk: 1\n", "", "\"gpus\": 8",
      "\"first_dense_layers\": 1" },
    { "  --pipeline-model-parallel-size: 2\n  --pipeline-model-parallel-layout: Et|(t)*3L\n", "",
      "\"pipeline_model_parallel_size\": 2", "\"layers\"" },
    { "  --data-path: ${DATA}/`a` $(b) \"c\"\n  --split: 1, 2, 3\n", "", "\"gpus\": 8", "\"layers\"" },
    { "  --tensorboard-dir: ''\nTEST_TYPE: regular\n", "", "\"gpus\": 8", "\"layers\"" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = read_yaml(cases[i].more, cases[i].given, &error);
    ck_assert_msg(l != NULL, "%zu: %s", i, error ? error->message : "");
    ck_assert_msg(strstr(l->plan, cases[i].plan) && strstr(l->model, cases[i].model), "%s\n%s", l->plan, l->model);
    ck_assert(!l->editable && l->named);
    ck_assert_str_eq(l->title, "Megatron-LM arguments");
    ck_assert_uint_eq(l->unknown->len, 0);
  }
}
END_TEST

/* The program follows from what only it takes. */
START_TEST(programs)
{
  static const struct { const char *more, *model; } cases[] = {
    { "  --tokenizer-type: BertWordPieceLowerCase\n", "BertForPreTraining" },
    { "  --encoder-num-layers: 2\n  --encoder-seq-length: 128\n  --decoder-seq-length: 32\n",
      "\"model_type\": \"t5\"" } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = read_yaml(cases[i].more, "", &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(l->model, cases[i].model) != NULL, "%s", l->model);
  }
}
END_TEST

START_TEST(is_refused)
{
  static const struct { const char *more, *message; } cases[] = {
    { "  --tensor-model-parallel-size: ${TP}\n",
      "x.yaml: --tensor-model-parallel-size: $TP: expected a number, and nothing" },
    { "  --num-tokens-to-generate: 30\n",
      "x.yaml: --num-tokens-to-generate: 30: expected nothing, as only the training" },
    { "  --micro-batch-size: few\n", "x.yaml: --micro-batch-size: few: expected a number" },
    { "  --tensor-model-parallel-size: 3\n", "x.yaml: --gpus: 8: expected a multiple" } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    GError *error = NULL;
    ck_assert_ptr_null(read_yaml(cases[i].more, "", &error));
    ck_assert_msg(g_str_has_prefix(error->message, cases[i].message), "%s", error->message);
    g_error_free(error);
  }
}
END_TEST

/* There is one switch for both places: where one alone has dropout, that is said. */
START_TEST(dropouts)
{
  static const struct { const char *more, *model, *says; } cases[] = {
    { "", "\"dropout\": false", NULL },
    { "  --attention-dropout: 0.1\n  --hidden-dropout: 0.2\n", "\"dropout\": true", NULL },
    { "  --hidden-dropout: 0.1\n", "\"dropout\": true",
      "dropout: 0 in attention and 0.1 behind it: simulated in both: attention takes longer with it" },
    { "  --attention-dropout: 0.2\n", "\"dropout\": true",
      "dropout: 0.2 in attention and 0 behind it: simulated in both" } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Launch) l = read_yaml(cases[i].more, "", NULL);
    const char *said = NULL;
    ck_assert(l && strstr(l->model, cases[i].model));
    for (guint k = 0; k < l->assumed->len; k++)
      if (g_str_has_prefix(l->assumed->pdata[k], "dropout"))
        said = l->assumed->pdata[k];
    ck_assert_msg(g_strcmp0(said, cases[i].says) == 0, "%s", said);
  }
}
END_TEST

TEST_MAIN("launch-yaml", arguments_are_read, programs, dropouts, is_refused)
