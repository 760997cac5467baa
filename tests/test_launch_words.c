/* Megatron-LM's arguments, a few at a time: what a word of a command line says of the model and of the plan. */
#include "main.h"

#include "base/error.h"
#include "fixture.h"
#include "import/launch.h"
#include "import/megatron_flags.h"
#include "plan/check.h"

#include <fnmatch.h>
#include <string.h>

#define SIZES "--num-layers 12 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 --bf16 "

typedef struct {
  const char *words;
  const char *model, *plan; /* found in what is read; NULL = whatever it says */
  const char *lacks;        /* found in neither; NULL likewise */
} Said;

static Launch *read_words(const char *words, GError **error)
{
  g_autofree char *text = g_strdup_printf("python pretrain_gpt.py --hidden-dropout 0.1 " SIZES "%s\n", words);
  return launch_read(text, "x.sh", &(LaunchOptions) { 8 }, error);
}

static void means(const Said *said, gsize n)
{
  for (gsize i = 0; i < n; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = read_words(said[i].words, &error);
    ck_assert_msg(l != NULL, "%s: %s", said[i].words, error ? error->message : "");
    ck_assert_msg(!said[i].model || strstr(l->model, said[i].model), "%s: %s", said[i].words, l->model);
    ck_assert_msg(!said[i].plan || strstr(l->plan, said[i].plan), "%s: %s", said[i].words, l->plan);
    ck_assert_msg(!said[i].lacks || !(strstr(l->model, said[i].lacks) || strstr(l->plan, said[i].lacks)), "%s: %s %s",
                  said[i].words, l->model, l->plan);
    ck_assert_msg(l->unknown->len == 0, "%s: %s", said[i].words, l->unknown->len ? (char *)l->unknown->pdata[0] : "");
  }
}

/* Pairs of words and what is said instead. */
static void refused(const char *const (*pairs)[2], gsize n)
{
  for (gsize i = 0; i < n; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = read_words(pairs[i][0], &error);
    ck_assert_msg(l == NULL, "%s", pairs[i][0]);
    ck_assert_str_eq(error->message, pairs[i][1]);
    ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  }
}

/* Narrow products beside other weights than those that are simulated. */
START_TEST(weights_beside_narrow_products)
{
  static const char *const rows[][2] = {
    { "--bf16 --fp8-format hybrid", NULL }, { "", NULL },
    { "--fp8-format hybrid", "precision: fp8: nothing says --bf16: simulated with weights in bf16, not in fp32" },
    { "--fp16 --fp8-format hybrid", "precision: fp8: nothing says --bf16: simulated with weights in bf16, not in fp16" },
    { "--fp4-format e2m1", "precision: fp4: nothing says --bf16: simulated with weights in bf16, not in fp32" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                                            "--hidden-dropout 0.1 --seq-length 64 --global-batch-size 8 %s\n", rows[i][0]);
    g_autoptr(Launch) l = launch_read(text, "x.sh", &(LaunchOptions) { 8 }, NULL);
    ck_assert_uint_eq(l->assumed->len, rows[i][1] != NULL);
    ck_assert_pstr_eq(l->assumed->len ? l->assumed->pdata[0] : NULL, rows[i][1]);
  }
}
END_TEST

#define GDN "--experimental-attention-variant gated_delta_net "

/* Layers that are unlike others (core/transformer/utils.py, is_layer_window_attention; get_linear_attention_pattern). */
START_TEST(layers_of_kinds)
{
  static const Said said[] = {
    { "--window-size 7,0", "\"window\": 8", NULL, "sliding_window_pattern" },
    { "--window-size '(7, 0)' --window-attn-skip-freq 4", "\"sliding_window_pattern\": 4", NULL, NULL },
    { "--window-size 7,0 --window-attn-skip-freq '([1]*5+[0]*1)*2'", "\"sliding_window_pattern\": 6", NULL, NULL },
    { "--window-size 7,0 --window-attn-skip-freq '[1,1,1,1,0,1,1,1,1,0,1,1]'", "\"sliding_window_pattern\": 5", NULL, NULL },
    { "--window-size 7,0 --window-attn-skip-freq '[1]*12'", "\"window\": 8", NULL, "sliding_window_pattern" },
    { GDN "--linear-attention-freq 4 --attention-output-gate", "\"full_attention_interval\": 4", NULL, NULL },
    { GDN "--linear-attention-freq '([1]*3+[0])*3' --linear-num-key-heads 2", "\"linear_groups\": 2", NULL, NULL },
    { "--experimental-attention-variant gdn --linear-attention-freq 2 --attention-output-gate",
      "\"linear_heads\": 32,\n  \"linear_head_dim\": 128,\n  \"linear_groups\": 16,\n  \"linear_state\": 128,\n"
      "  \"linear_conv\": 4", NULL, NULL },
    { "--attention-output-gate", "\"attention_gate\": true", NULL, "linear_attention" },
    { "--position-embedding-type yarn --rotary-base 150000", "\"positions\": \"rope\",\n  \"rope_theta\": 150000,\n  "
      "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 1, \"original_max_position_embeddings\": 4096, "
      "\"beta_fast\": 32, \"beta_slow\": 1}", NULL, "truncate" },
    { "--position-embedding-type yarn --rotary-scaling-factor 32 --yarn-original-max-position-embeddings 8192 "
      "--yarn-beta-fast 24 --yarn-beta-slow 2 --mscale 0.7 --mscale-all-dim 1 --no-yarn-correction-range-round-to-int",
      "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32, \"original_max_position_embeddings\": 8192, "
      "\"beta_fast\": 24, \"beta_slow\": 2, \"mscale\": 0.7, \"mscale_all_dim\": 1, \"truncate\": false}", NULL, NULL },
    { "--position-embedding-type yarn --rotary-scaling-factor 32 --mscale 0",
      "\"beta_slow\": 1, \"attention_factor\": 1}", NULL, "mscale" },
    { "--position-embedding-type rope --rotary-scaling-factor 32", "\"positions\": \"rope\"", NULL, "rope_scaling" },
  };
  static const char *const bad[][2] = {
    { "--window-size 7,0 --window-attn-skip-freq '([0]+[1])*6'", "x.sh: --window-attn-skip-freq: ([0]+[1])*6: expected a "
      "number above 0, or a list where every n-th layer is 0" },
    { "--window-size 7,0 --window-attn-skip-freq 0", "x.sh: --window-attn-skip-freq: 0: expected a number above 0, or a list "
      "where every n-th layer is 0" },
    { "--window-size 7,0 --window-attn-skip-freq '[1,0]'", "x.sh: --window-attn-skip-freq: [1,0]: expected a number "
      "above 0, or a list where every n-th layer is 0" },
    { GDN, "x.sh: --linear-attention-freq: missing: expected a number above 0, or a list where every n-th layer is 0" },
    { GDN "--linear-attention-freq '[1]*12'", "x.sh: --linear-attention-freq: [1]*12: expected a number above 0, or a "
      "list where every n-th layer is 0" },
    { "--experimental-attention-variant gdn2", "x.sh: --experimental-attention-variant: gdn2: expected dsa, gdn or "
      "gated_delta_net" },
  };

  means(said, G_N_ELEMENTS(said));
  refused(bad, G_N_ELEMENTS(bad));
}
END_TEST

/* A hybrid's letters, between bars its stages, behind slashes its modules for further tokens. */
START_TEST(patterns)
{
  static const char *const cases[][4] = {
    { "'M-M-*|M-'", "2", "\"layer_split\": [5, 2]", "\"layer_pattern\": \"M-M-*M-\"" },
    { "'M-|M*|M-|M-'", "2", "\"virtual_pipeline_model_parallel_size\": 2", "\"linear_groups\": 8" },
    { "'M-*-/*-/*-'", "1", "\"virtual_pipeline_model_parallel_size\": 1", "\"mtp_num_layers\": 2" },
    { "'*-*-/*-'", "1", "\"zero_stage\": 0", "\"mtp_layer_pattern\": \"*-\"" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("python pretrain_hybrid.py " SIZES "--pipeline-model-parallel-size %s "
                                            "--hybrid-layer-pattern %s\n", cases[i][1], cases[i][0]);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_read(text, "x.sh", &(LaunchOptions) { 8 }, &error);
    ck_assert_msg(launch != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(launch->plan, cases[i][2]) != NULL, "%s", launch->plan);
    ck_assert_msg(strstr(launch->model, cases[i][3]) != NULL, "%s", launch->model);
    ck_assert_int_eq(strstr(launch->plan, "layer_split") != NULL, i == 0);
  }
}
END_TEST

/* What the older argument says must be --num-layers; the newer one overrides it, which is said. */
START_TEST(pattern_lengths)
{
  static const struct {
    const char *arguments, *model, *assumed;
  } cases[] = {
    { "--hybrid-layer-pattern M-M-*", "\"layers\": 5",
      "layers: the 5 of --hybrid-layer-pattern, which overrides the 12 of --num-layers" },
    { "--hybrid-layer-pattern M-M-*-M-M-*-", "\"layers\": 12", NULL },
    { "--hybrid-override-pattern M-M-*-M-M-*-", "\"layers\": 12", NULL },
    { "--hybrid-override-pattern M-M-*-M-M-*- --mtp-num-layers 2 --mtp-hybrid-override-pattern '*-'",
      "\"mtp_num_layers\": 2,\n  \"mtp_layer_pattern\": \"*-\"", NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("python pretrain_hybrid.py " SIZES "%s\n", cases[i].arguments);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_read(text, "x.sh", &(LaunchOptions) { 8 }, &error);
    ck_assert_msg(launch != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(launch->model, cases[i].model) != NULL, "%s", launch->model);
    gboolean said = FALSE;
    for (guint k = 0; k < launch->assumed->len; k++)
      said |= g_str_has_prefix(launch->assumed->pdata[k], "layers: ");
    ck_assert_int_eq(said, cases[i].assumed != NULL);
    if (said)
      ck_assert(g_ptr_array_find_with_equal_func(launch->assumed, cases[i].assumed, g_str_equal, NULL));
  }
}
END_TEST

#define EXPERTS "--num-experts 8 --expert-model-parallel-size 4 --moe-grouped-gemm --moe-permute-fusion "
#define FLEX EXPERTS "--moe-token-dispatcher-type flex "

/* The backend is flex's alone. */
START_TEST(exchanges)
{
  static const Said said[] = {
    { FLEX, NULL, "\"moe_token_dispatcher_type\": \"flex\"", "hybridep" },
    { FLEX "--moe-enable-deepep", NULL, "\"moe_token_dispatcher_type\": \"flex\"", "hybridep" },
    { FLEX "--moe-flex-dispatcher-backend deepep", NULL, "\"moe_token_dispatcher_type\": \"flex\"", "hybridep" },
    { FLEX "--moe-flex-dispatcher-backend hybridep", NULL, "\"moe_token_dispatcher_type\": \"hybridep\"", NULL },
    { FLEX "--moe-flex-dispatcher-backend ncclep", NULL, "\"moe_token_dispatcher_type\": \"hybridep\"", NULL },
    { EXPERTS "--moe-token-dispatcher-type alltoall --moe-flex-dispatcher-backend hybridep", NULL,
      "\"moe_token_dispatcher_type\": \"alltoall\"", "hybridep" },
    { EXPERTS "--moe-flex-dispatcher-backend hybridep", NULL, "\"moe_token_dispatcher_type\": \"allgather\"", "hybridep" },
    { FLEX "--moe-use-grouped-tensor --moe-dispatch-fwd-dtype mxfp8", NULL, NULL, NULL },
    { FLEX "--moe-router-num-groups 4 --moe-router-group-topk 2", "\"expert_groups\": 4,\n  \"groups_per_token\": 2", NULL, NULL },
    { FLEX "--moe-router-topk-limited-devices 2", "\"expert_groups\": 4,\n  \"groups_per_token\": 2", NULL, NULL },
    { FLEX "--moe-router-num-groups 1 --moe-router-group-topk 1", NULL, NULL, "expert_groups" },
    { FLEX "--moe-router-num-groups 4 --moe-router-group-topk 4", NULL, NULL, "expert_groups" },
    { EXPERTS "--quick-geglu --activation-func-clamp-value 7 --glu-linear-offset 1 --softmax-type learnable",
      "\"router_bias\": true,\n  \"clamped\": true,\n  \"sinks\": true", NULL, NULL },
    { EXPERTS "--quick-geglu --activation-func-clamp-value 0", NULL, NULL, "clamped" },
    { EXPERTS "--swiglu --activation-func-clamp-value 7", NULL, NULL, "clamped" },
    { "--quick-geglu --activation-func-clamp-value 7", NULL, NULL, "clamped" },
    { EXPERTS "--softmax-type off-by-one", NULL, NULL, "sinks" },
    { EXPERTS "--disable-bias-linear --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
      "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate",
      "\"shared_ffn_hidden\": 64,\n  \"router_correction\": true,\n  \"shared_gate\": true", NULL, "router_bias" },
    { EXPERTS "--moe-router-score-function sigmoid --moe-shared-expert-gate", NULL, NULL, "shared_gate" },
    { EXPERTS "--deepspeed", NULL, NULL, "router_bias" },
    { EXPERTS "--moe-aux-loss-coeff 0.01 --moe-router-load-balancing-type seq_aux_loss --moe-router-topk-scaling-factor 2.5",
      "\"router_aux_loss_coef\": 0.01,\n  \"seq_aux\": true,\n  \"routed_scaling_factor\": 2.5", NULL, NULL },
    { EXPERTS "--moe-aux-loss-coeff 0.01 --moe-router-load-balancing-type aux_loss", NULL, NULL, "seq_aux" },
    { EXPERTS "--moe-router-load-balancing-type seq_aux_loss", NULL, NULL, "seq_aux" },
  };
  static const char *const bad[][2] = {
    { FLEX "--moe-flex-dispatcher-backend uccl", "x.sh: --moe-flex-dispatcher-backend: uccl: expected deepep, hybridep or "
      "ncclep" },
  };

  means(said, G_N_ELEMENTS(said));
  refused(bad, G_N_ELEMENTS(bad));
  g_autoptr(Launch) nccl = read_words(FLEX "--moe-flex-dispatcher-backend ncclep --moe-use-grouped-tensor", NULL);
  ck_assert_uint_eq(nccl->assumed->len, 2);
  ck_assert_str_eq(nccl->assumed->pdata[0], "global_batch_size: 8: one micro-batch a data-parallel rank, as no argument says "
                   "more");
  ck_assert_str_eq(nccl->assumed->pdata[1], "moe_flex_dispatcher_backend: ncclep is simulated as hybridep: NCCL's exchange of "
                   "tokens has no measurements here");
  const GPtrArray *left = nccl->not_simulated;
  ck_assert_uint_eq(left->len, 1);
  ck_assert_str_eq(left->pdata[0], "kernels and fusions other than the software's usual ones: --moe-use-grouped-tensor");
}
END_TEST

/* What is taken of kernels that Megatron-LM runs only where it is asked to. */
START_TEST(kernels_of_experts)
{
  static const char *const cases[][2] = {
    { "--moe-grouped-gemm --moe-permute-fusion", NULL },
    { "--moe-grouped-gemm", "experts: simulated as with --moe-permute-fusion, which nothing says" },
    { "--moe-permute-fusion", "experts: simulated as with --moe-grouped-gemm, which nothing says" },
    { "", "experts: simulated as with --moe-grouped-gemm and --moe-permute-fusion, which nothing says" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *words = g_strdup_printf("--num-experts 8 --global-batch-size 8 %s", cases[i][0]);
    g_autoptr(Launch) l = read_words(words, NULL);
    ck_assert_uint_eq(l->assumed->len, cases[i][1] != NULL);
    if (cases[i][1])
      ck_assert_str_eq(l->assumed->pdata[0], cases[i][1]);
  }
}
END_TEST

#define PIPELINE "--pipeline-model-parallel-size 2 --num-layers 10 "
#define EMBEDDING "--account-for-embedding-in-pipeline-split "
#define LOSS "--account-for-loss-in-pipeline-split "

/* The embedding and the loss in the place of a layer (core/transformer/transformer_block.py, get_num_layers_to_build). */
START_TEST(stages_with_embedding)
{
  static const Said said[] = {
    { PIPELINE EMBEDDING LOSS, NULL, "\"layer_split\": [5, 5]", NULL },
    { "--pipeline-model-parallel-size 2 --num-layers 9 " EMBEDDING, NULL, "\"layer_split\": [4, 5]", NULL },
    { "--pipeline-model-parallel-size 2 --num-layers 9 " LOSS, NULL, "\"layer_split\": [5, 4]", NULL },
    { PIPELINE EMBEDDING LOSS "--num-layers-per-virtual-pipeline-stage 3", NULL, "\"layer_split\": [2, 3, 3, 2]", NULL },
    { PIPELINE EMBEDDING LOSS "--num-layers-per-virtual-pipeline-stage 1", NULL,
      "\"layer_split\": [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]", NULL },
    { "--num-layers 9 " EMBEDDING, NULL, NULL, "layer_split" },
  };
  static const char *const bad[][2] = {
    { PIPELINE EMBEDDING, "x.sh: --account-for-embedding-in-pipeline-split: expected 11 layers, counted with it, to divide by 2 "
      "stages" },
    { PIPELINE LOSS, "x.sh: --account-for-loss-in-pipeline-split: expected 11 layers, counted with it, to divide by 2 stages" },
  };

  means(said, G_N_ELEMENTS(said));
  refused(bad, G_N_ELEMENTS(bad));
}
END_TEST

/* Where states are divided, and gradients are as they are sent. */
START_TEST(shards)
{
  static const Said said[] = {
    { "--use-megatron-fsdp --use-distributed-optimizer", NULL, "\"zero_stage\": 0", NULL },
    { "--use-megatron-fsdp --use-distributed-optimizer --data-parallel-sharding-strategy optim", NULL, "\"zero_stage\": 1",
      NULL },
    { "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", NULL, "\"zero_stage\": 2", NULL },
    { "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", NULL, "\"zero_stage\": 3", NULL },
    { "--use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype fp32 --grad-reduce-in-bf16", NULL,
      "\"main_grads_dtype\": \"bf16\"", NULL },
    { "--use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype fp32", NULL,
      "\"main_grads_dtype\": \"fp32\"", NULL },
  };

  means(said, G_N_ELEMENTS(said));
}
END_TEST

#define FSDP3 "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "

/* Megatron-FSDP's formats are said by words of its own, which are no others'. */
START_TEST(formats_of_fsdp)
{
  static const Said said[] = {
    { FSDP3, NULL, NULL, "_dtype" },
    { FSDP3 "--megatron-fsdp-main-grads-dtype bf16", NULL, "\"main_grads_dtype\": \"bf16\"", "main_params_dtype" },
    { FSDP3 "--megatron-fsdp-main-grads-dtype auto", NULL, "\"main_grads_dtype\": \"bf16\"", NULL },
    { FSDP3 "--megatron-fsdp-main-grads-dtype fp32 --grad-reduce-in-bf16", NULL, "\"main_grads_dtype\": \"fp32\"",
      NULL },
    { FSDP3 "--megatron-fsdp-main-params-dtype auto", NULL,
      "\"main_params_dtype\": \"bf16\",\n  \"main_grads_dtype\": \"bf16\"",
      "grad_reduce_dtype" }, /* what knows one of the three has "auto" for the others */
    { FSDP3 "--megatron-fsdp-grad-comm-dtype bf16", NULL,
      "\"main_grads_dtype\": \"bf16\",\n  \"grad_reduce_dtype\": \"bf16\"", "main_params_dtype" },
    { FSDP3 "--megatron-fsdp-grad-comm-dtype auto", NULL, "\"main_grads_dtype\": \"bf16\"", "grad_reduce_dtype" },
    { FSDP3 "--megatron-fsdp-grad-comm-dtype auto", NULL, "\"framework\": \"megatron-core-2026\"", NULL },
    { FSDP3 "--megatron-fsdp-main-grads-dtype fp32", NULL, "\"framework\": \"megatron-core-2026\"", "_dtype" },
    { FSDP3 "--moe-paged-stash", NULL, "\"main_grads_dtype\": \"bf16\"", NULL },
    { FSDP3 "--grad-reduce-in-bf16", NULL, "\"main_grads_dtype\": \"bf16\"", "grad_reduce_dtype" },
    { "--use-distributed-optimizer --megatron-fsdp-main-grads-dtype bf16", NULL, NULL, "_dtype" },
  };

  means(said, G_N_ELEMENTS(said));
}
END_TEST

/* Ranks of a launch line that the degrees do not divide: another number may be told. */
START_TEST(ranks_that_do_not_divide)
{
  g_autoptr(Launch) l = launch_read("torchrun --nproc_per_node 6 pretrain_gpt.py " SIZES
                                    "--tensor-model-parallel-size 4\n", "x.sh", &(LaunchOptions) { 0 }, NULL);

  ck_assert_int_eq(l->gpus, 8);
  guint at = 0;
  ck_assert(g_ptr_array_find_with_equal_func(l->assumed, "gpus: 8: the launch line's 6 do not divide into tensor 4 x "
                                             "pipeline 1 x context 1 and experts over 1", g_str_equal, &at));
  ck_assert_pstr_eq(l->options->pdata[at], "--gpus");
}
END_TEST

/* Without these words Core accumulates in bf16 from 0.17 on, in fp32 before. Of a script that may run on either it is
 * said. */
START_TEST(formats_of_fsdp_by_generation)
{
  static const struct {
    const char *framework, *words;
    gboolean narrow, said;
  } cases[] = {
    { NULL, "", FALSE, TRUE },
    { "megatron-core", "", FALSE, FALSE },
    { "megatron-core-2026", "", TRUE, FALSE },
    { "megatron-core-2026", "--megatron-fsdp-main-grads-dtype fp32", FALSE, FALSE },
    { NULL, "--grad-reduce-in-bf16", TRUE, FALSE },
    { NULL, "--cuda-graph-impl local --cuda-graph-scope full_iteration", TRUE, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("python pretrain_gpt.py " SIZES FSDP3 "%s\n", cases[i].words);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.sh", &(LaunchOptions) { 8, cases[i].framework }, &error);
    gboolean said = FALSE;
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_msg((strstr(l->plan, "\"main_grads_dtype\": \"bf16\"") != NULL) == cases[i].narrow, "%zu: %s", i,
                  l->plan);
    for (guint k = 0; k < l->assumed->len; k++)
      said |= g_str_has_prefix(l->assumed->pdata[k], "main_grads_dtype: fp32, as before Core 0.17: ") &&
              g_strcmp0(l->options->pdata[k], "--framework megatron-core-2026") == 0;
    ck_assert_msg(said == cases[i].said, "%zu", i);
  }
}
END_TEST

START_TEST(batches_of_schedules)
{
  static const Said said[] = {
    { "--step-batch-size-schedule '0:384 200B:768 400B:1152'", NULL, "\"global_batch_size\": 1152", NULL },
    { "--step-batch-size-schedule none", NULL, "\"global_batch_size\": 8,", NULL },
  };

  means(said, G_N_ELEMENTS(said));
  g_autoptr(Launch) l = read_words(said[0].words, NULL);
  ck_assert_uint_eq(l->assumed->len, 1);
  ck_assert_str_eq(l->assumed->pdata[0], "global_batch_size: 1152: the last one, behind what --step-batch-size-schedule says");
}
END_TEST

/* Weights that further ranks divide are said, and nothing where tensor parallelism divides them as far. */
START_TEST(weight_shards)
{
  static const struct {
    const char *words, *said;
  } cases[] = {
    { "--tensor-model-parallel-size 2 --tensor-parallel-num-weight-shards 8",
      "--tensor-parallel-num-weight-shards: 8: simulated as 2: ranks that divide weights beside tensor parallelism, "
      "and gather each for its use, are not" },
    { "--tensor-model-parallel-size 2 --tensor-parallel-num-weight-shards 2", NULL },
    { "--num-experts 8 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 "
      "--expert-tensor-parallel-num-weight-shards 4",
      "--expert-tensor-parallel-num-weight-shards: 4: simulated as 1: ranks that divide weights beside tensor "
      "parallelism, and gather each for its use, are not" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Launch) l = read_words(cases[i].words, NULL);
    gboolean any = FALSE;
    for (guint k = 0; k < l->assumed->len; k++)
      any |= strstr(l->assumed->pdata[k], "weight-shards") != NULL;
    ck_assert_int_eq(any, cases[i].said != NULL);
    ck_assert(!any || g_ptr_array_find_with_equal_func(l->assumed, cases[i].said, g_str_equal, NULL));
  }
}
END_TEST

/* What a simulation of training would be wrong about altogether. */
START_TEST(not_simulated)
{
  static const char *const bad[][2] = {
    { "--perform-rl-step", "x.sh: --perform-rl-step: expected nothing, as answers that a step first generates are not simulated" },
    { "--heterogeneous-layers-config-path nas.json", "x.sh: --heterogeneous-layers-config-path: nas.json: expected nothing, as "
      "layers that another file tells one by one are not read" },
    { "--enable-mhc-connections", "x.sh: --enable-mhc-connections: expected nothing, as residual streams beside each other are "
      "not simulated" },
    { "--image-token-id 511", "x.sh: --image-token-id: 511: expected nothing, as only the training of a language model alone is "
      "simulated" },
    { "--yaml-cfg a.yaml", "x.sh: --yaml-cfg: a.yaml: expected nothing, as arguments in a file of their own are not read" },
  };

  refused(bad, G_N_ELEMENTS(bad));
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read("python train_rl.py " SIZES, "x.sh", &(LaunchOptions) { 8 }, &error);
  ck_assert_ptr_null(l);
  ck_assert_str_eq(error->message, "x.sh: train_rl.py: expected a program that trains a language model alone");
}
END_TEST

#define HF "--tokenizer-type HuggingFaceTokenizer --tokenizer-model "

static Launch *read_vocabulary(const char *arguments, int vocab)
{
  g_autofree char *words = g_strdup_printf("--global-batch-size 8 %s", arguments);
  Launch *l = read_words(words, NULL);
  g_autoptr(Model) model = model_parse(l->model, strlen(l->model), "x.sh", NULL);

  ck_assert_msg(model->vocab == vocab, "%s: %d", arguments, model->vocab);
  return l;
}

/* A tokenizer's name tells its tokens where it is that of a model of ours. */
START_TEST(named_tokenizers)
{
  static const struct { const char *words; int vocab; const char *assumed; } rows[] = {
    { HF "deepseek-ai/DeepSeek-V3-Base", 129280, "those of deepseek-v3, which --tokenizer-model names" },
    { HF "/data/Llama-3.1-8B-Instruct/", 128256, "those of llama-3.1-8b, which --tokenizer-model names" },
    { HF "mistralai/Mixtral-8x7B-v0.1", 32000, "those of mixtral-8x7b, which --tokenizer-model names" },
    { HF "deepseek-ai/DeepSeek-V3 --vocab-size 1024", 1024, NULL },
    { HF "/data/tokenizer.model", 50257, "the file does not say how many HuggingFaceTokenizer has (--vocab-size)" },
    { HF "../models/gpt3/..", 50257, "the file does not say how many HuggingFaceTokenizer has (--vocab-size)" },
    { "--tokenizer-type GPT2BPETokenizer --tokenizer-model deepseek-ai/DeepSeek-V3", 50257, NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(Launch) l = read_vocabulary(rows[i].words, rows[i].vocab);
    ck_assert_msg((l->assumed->len > 0) == (rows[i].assumed != NULL), "%s", rows[i].words);
    ck_assert_msg(!rows[i].assumed || g_str_has_suffix(l->assumed->pdata[0], rows[i].assumed), "%s: %s", rows[i].words,
                  (char *)(rows[i].assumed ? l->assumed->pdata[0] : ""));
  }
}
END_TEST

/* Rows of the embedding: multiples of the option times tensor parallelism. */
START_TEST(padded_vocabularies)
{
#define TOKENS "--vocab-size 50257 --make-vocab-size-divisible-by "
  static const struct { const char *words; int vocab; gboolean assumed; } rows[] = {
    { "--vocab-size 50257", 50257, FALSE }, { TOKENS "128", 50257, FALSE }, { TOKENS "64", 50257, FALSE }, /* 50304 */
    { TOKENS "4096", 53248, FALSE }, { TOKENS "4096 --tensor-model-parallel-size 2", 57344, FALSE },
    { TOKENS "1", 50257, TRUE }, { TOKENS "4096 --pad-vocab-size-to 50432", 50257, FALSE },
    { "--vocab-size 129280 --make-vocab-size-divisible-by 3232", 129280, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(Launch) l = read_vocabulary(rows[i].words, rows[i].vocab);
    ck_assert_msg((l->assumed->len > 0) == rows[i].assumed, "%s", rows[i].words);
  }
}
END_TEST

static gboolean fits(const SettingGroup *group, const char *name)
{
  for (int i = 0; group->patterns[i]; i++) {
    gboolean not = group->patterns[i][0] == '!';
    if (fnmatch(group->patterns[i] + not, name, 0) == 0)
      return !not;
  }
  return FALSE;
}

/* No name of a group is taken by a pattern of one before it. */
START_TEST(groups_are_apart)
{
  for (const SettingGroup *group = megatron_flag_groups; group->about; group++)
    for (int i = 0; group->patterns[i]; i++)
      for (const SettingGroup *before = megatron_flag_groups; before < group; before++)
        ck_assert_msg(strpbrk(group->patterns[i], "*!") || !fits(before, group->patterns[i]), "%s: %s, not %s",
                      group->patterns[i], before->about, group->about);
}
END_TEST

/* A pattern that fits a name's end says nothing of one that has a meaning of its own. */
START_TEST(groups_of_arguments)
{
  static const struct { const char *word; gboolean matters; } rows[] = {
    { "--disable-mamba-mem-eff-path", TRUE }, { "--nccl-communicator-config-path x", FALSE },
    { "--data-cache-path x", FALSE },         { "--muon-no-split-qkv", TRUE },
    { "--muon-momentum 0.9", FALSE },         { "--moe-ncclep-zero-copy", TRUE },
    { "--use-persistent-ckpt-worker", FALSE }, { "--rerun-mode disabled", FALSE },
    { EXPERTS "--quick-geglu --activation-func-clamp-value 7 --glu-linear-offset 1", FALSE },
    { EXPERTS "--swiglu --activation-func-clamp-value 7", TRUE }, { EXPERTS "--quick-geglu --glu-linear-offset 1", TRUE },
    { "--quick-geglu --activation-func-clamp-value 7", TRUE }, { "--softmax-type learnable", FALSE },
    { "--softmax-type vanilla", FALSE }, { EXPERTS "--moe-router-score-function sigmoid", TRUE },
    { EXPERTS "--moe-shared-expert-gate", TRUE }, { "--no-async-tensor-model-parallel-allreduce", TRUE },
    { "--profile-backward", TRUE }, { "--profile-ranks 0", FALSE }, { "--nccl-ub", TRUE }, { "--sft", TRUE },
    { "--dataloader-inter-document-masking", TRUE }, { "--dataloader-type cyclic", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(Launch) l = read_words(rows[i].word, NULL);
    ck_assert_msg(l->unknown->len == 0 && (l->not_simulated->len > 0) == rows[i].matters, "%s", rows[i].word);
  }
}
END_TEST

/* Modules of recorded layers: those that are named, of both names and of Python's lists, else whole layers of the model;
 * with switches of before. */
START_TEST(recorded_layers)
{
#define MODULES(list) "\"cuda_graph\": \"partial\", \"cuda_graph_modules\": [" list "]"
#define USUAL "\"cuda_graph\": \"partial\""
#define FULL "\"cuda_graph\": \"full\""
#define TE "--cuda-graph-impl transformer_engine "
#define LOCAL "--cuda-graph-impl local "
#define PADDED "--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity "
#define REMADE "--recompute-granularity selective --recompute-modules moe "
  static const struct {
    const char *words, *plan; /* NULL: no graphs */
    const char *assumed;      /* begins so; NULL: nothing is */
  } rows[] = {
    { "", NULL, NULL }, { "--cuda-graph-impl none", NULL, NULL }, { "--cuda-graph-modules attn", NULL, NULL },
    { "--cuda-graph-scope full_iteration", NULL, NULL }, { "--cuda-graph-impl full_iteration", FULL, NULL },
    { LOCAL "--cuda-graph-scope full_iteration", FULL, NULL }, { TE "--cuda-graph-scope attn", USUAL, NULL },
    { TE "--cuda-graph-scope \"['attn', 'mlp']\"", MODULES("\"attn\", \"mlp\""), NULL },
    { TE "--cuda-graph-modules mlp", MODULES("\"mlp\""), NULL },
    { TE, MODULES("\"attn\", \"mlp\""), NULL }, { TE "--cuda-graph-scope full", MODULES("\"attn\", \"mlp\""), NULL },
    { TE "--cuda-graph-modules attn mamba", USUAL, NULL }, { "--external-cuda-graph", MODULES("\"attn\", \"mlp\""), NULL },
    { "--enable-cuda-graph --cuda-graph-scope attn", USUAL, NULL },
    { TE "--cuda-graph-modules mamba", NULL, "cuda_graph: none: no layer has a module that is recorded" },
    { EXPERTS TE "--cuda-graph-modules attn moe_router", MODULES("\"attn\", \"moe_router\""), NULL },
    { EXPERTS TE "--cuda-graph-modules attn moe_router moe_preprocess", USUAL, NULL },
    { EXPERTS TE "--cuda-graph-modules attn mlp", MODULES("\"attn\""), NULL }, { EXPERTS TE, MODULES("\"attn\""), NULL },
    { EXPERTS PADDED TE, MODULES("\"attn\", \"moe\""), NULL },
    { EXPERTS TE "--moe-layer-freq '([0]*3+[1]*9)'", MODULES("\"attn\", \"mlp\""), NULL },
    { EXPERTS TE "--moe-layer-freq '([0]*3+[1]*9)' --cuda-graph-modules mlp", MODULES("\"mlp\""), NULL },
    { EXPERTS LOCAL "--cuda-graph-modules moe_router", MODULES("\"moe_router\", \"moe_preprocess\""), "cuda_graph_impl: local" },
    { EXPERTS LOCAL "--cuda-graph-modules moe_preprocess", MODULES("\"moe_router\", \"moe_preprocess\""),
      "cuda_graph_impl: local" },
    { EXPERTS LOCAL "--cuda-graph-modules attn moe_router", USUAL, "cuda_graph_impl: local" },
    { EXPERTS "--enable-cuda-graph --cuda-graph-modules attn moe_router", USUAL, "cuda_graph_impl: local" },
    { EXPERTS REMADE LOCAL "--cuda-graph-modules attn moe_router", MODULES("\"attn\""), "cuda_graph_modules: moe_router: " },
    { EXPERTS REMADE LOCAL "--cuda-graph-modules moe_router", NULL, "cuda_graph_modules: moe_router: " },
  };
  static const char *const bad[][2] = {
    { TE "--cuda-graph-modules attn router", "x.sh: cuda_graph_modules: router: expected modules of layers" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *words = g_strdup_printf("%s --global-batch-size 8", rows[i].words);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = read_words(words, &error);
    g_autoptr(Framework) framework = NULL;
    ck_assert_msg(l != NULL, "%s: %s", words, error ? error->message : "");
    g_autoptr(GString) plan = g_string_new(l->plan);
    g_string_replace(plan, "\n", " ", 0);
    while (g_string_replace(plan, "  ", " ", 0))
      ;
    const char *graph = strstr(plan->str, "\"cuda_graph");
    gboolean named = strstr(plan->str, "\"cuda_graph_modules") != NULL;
    ck_assert_msg(rows[i].plan ? graph && g_str_has_prefix(graph, rows[i].plan) : !graph, "%s: %s", words, plan->str);
    ck_assert_msg(named == (rows[i].plan && strstr(rows[i].plan, "_modules")), "%s: %s", words, plan->str);
    ck_assert_msg(!rows[i].assumed || g_str_has_prefix(l->assumed->pdata[0], rows[i].assumed), "%s", words);
    ck_assert_msg(l->unknown->len == 0 && (l->assumed->len > 0) == (rows[i].assumed != NULL), "%s: %s", words,
                  l->assumed->len ? (char *)l->assumed->pdata[0] : "");
    g_autoptr(Model) model = model_parse(l->model, strlen(l->model), "x.sh", NULL);
    g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
    Plan read;
    ck_assert_msg(plan_parse(l->plan, strlen(l->plan), "x.sh", model, &read, &framework, &error) &&
                  plan_check(&read, model, cluster, &error) == RULE_NONE, "%s: %s", words, error ? error->message : "");
  }
  refused(bad, G_N_ELEMENTS(bad));
}
END_TEST

TEST_MAIN("launch-words", weights_beside_narrow_products, layers_of_kinds, patterns, pattern_lengths, exchanges,
          kernels_of_experts, stages_with_embedding, shards, formats_of_fsdp, formats_of_fsdp_by_generation,
          ranks_that_do_not_divide, batches_of_schedules, named_tokenizers, padded_vocabularies, weight_shards,
          not_simulated, groups_are_apart, groups_of_arguments, recorded_layers)
