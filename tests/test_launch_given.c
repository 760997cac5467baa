/* Scripts that ask who starts them: arguments, variables, and words that nobody says. */
#include "main.h"

#include "base/error.h"
#include "base/files.h"
#include "commands.h"
#include "fixture.h"
#include "import/launch.h"
#include "plan/check.h"
#include "plan/keys.h"

#include <string.h>

#define SIZES "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 "

static void gives(const char *words, const char *expected)
{
  g_auto(GStrv) given = launch_given(words, NULL);

  ck_assert_ptr_nonnull(given);
  test_text(g_strjoinv("|", given), expected);
}

START_TEST(words_are_a_shells)
{
  g_autoptr(GError) error = NULL;

  gives("", "");
  gives("  \n", "");
  gives("8B 4 'a b' c\\ d", "1=8B|2=4|3=a b|4=c d");
  gives("SIZE=8B LR=1e-5 dsw A=b", "SIZE=8B|LR=1e-5|1=dsw|2=A=b"); /* behind an argument all are */
  gives("X= =y --a=b", "X=|1==y|2=--a=b");
  ck_assert_ptr_null(launch_given("8B 'open", &error));
  ck_assert_str_eq(error->message, "8B 'open: expected words as a shell takes them, as in \"SIZE=8B 4 1e-5\"");
}
END_TEST

static void runs(const char *script, const char *words, const char *expected)
{
  g_auto(GStrv) given = launch_given(words, NULL);
  g_autoptr(ShellScript) s = shell_read(script, NULL, (const char *const *)given);

  test_text(commands_text(s), expected);
}

START_TEST(scripts_take_them)
{
  runs("run $1 ${2} ${10} $# \"$@\"\n", "a b c d e f g h i j", "run|a|b|j|10|a|b|c|d|e|f|g|h|i|j\n");
  runs("run ${1:-x} ${2:-y} $3\n", "a", "run|a|y|$3\n");
  runs("if [ $1 = 8B ]; then L=32; else L=40; fi\nrun $L\n", "8B", "run|32\n");
  runs("if [ $# -lt 2 ]; then run few; else run $2; fi\n", "a b", "run|b\n");
  runs("run $TP $PP\nTP=4\nrun $TP\n", "TP=2", "run|2|$PP\nrun|4\n"); /* what the script sets wins */
  runs("TP=${TP:-1}\nPP=${PP:-1}\nrun $TP $PP\n", "TP=2", "run|2|1\n");
}
END_TEST

START_TEST(arguments_move)
{
  runs("run $1; shift; run $1 $#; shift 2; run $1 \"$@\"\n", "a b c d e", "run|a\nrun|b|4\nrun|d|d|e\n");
  runs("shift 9; run $# x\n", "a b", "run|0|x\n");
  runs("set -- p q; run $1 $2 $#\n", "a b c", "run|p|q|2\n");
  runs("set -e\nset -x\nrun $1\n", "a", "set|-e\nset|-x\nrun|a\n");
  runs("run $*\nrun \"$*\" ${@} ${@:2} ${*:3}\n", "a b c", "run|a|b|c\nrun|a b c|a|b|c|b|c|c\n");
  runs("A=(x y z)\nrun ${A[@]:1}\n", "", "run|y|z\n");
  runs("f() { run $1 $#; }\nf 7 8\nrun $1\n", "a", "run|7|2\nrun|a\n"); /* a function has its own */
  runs("f() { run $1; }\nf\n", "a", "run|$1\n");
  runs("f() { shift; run $1; }\nf 7 8\nrun $1\n", "a", "run|8\nrun|a\n");
  runs("f() { f \"$@\" \"$@\"; }\nf 1\nrun $1\n", "a", "run|a\n"); /* which would end memory */
  runs("A=$1\nrun ${A:1} ${A:1:2} ${A: -2} ${A:0:-1} ${A:9} x ${A:(1+1):1} ${#A} ${A:-z}\n", "abcd",
       "run|bcd|bc|cd|abc|x|c|4|abcd\n");
  runs("A=$1\nrun ${A/b/xy} ${A//b} ${A/#a/q} ${A/#b/q} ${A/%b/q} ${A/*-/} ${A//[ab]/z}\n", "ab-b",
       "run|axy-b|a-|qb-b|ab-b|ab-q|b|zz-z\n");
  runs("B=/\nA=a/b\nrun ${A/\\//:} ${A/$B/_} ${A/a\\/b/c}\n", "", "run|a:b|a_b|c\n");
  runs("A=aa\nfor I in 1 2 3 4 5 6 7 8; do A=${A//a/$A$A$A$A}; done\nrun ${A:0:1}\n", "", "run|a\n"); /* ends memory */
  runs("A=$(date)\nrun ${A:0:1} ${A/d/e} ${#A}\n", "", "run|$(...)|$(...)|$(...)\n"); /* open words stay open */
  runs("A=(p qq)\nrun ${#A[@]} ${#A} ${A[@]:1}\n", "", "run|2|1|qq\n");
  runs("S=${1,,}\nif [ $S = 8b ]; then run ${S^^}; fi\n", "8B", "run|8B\n");
}
END_TEST

START_TEST(what_commands_print_is_given)
{
  runs("N=$(nvidia-smi | wc -l)\nM=`nproc`\nrun $N $M $((N / 2))\n", "N=8", "run|8|$(...)|4\n");
  runs("N=$(($(ds_ssh a | wc -l)-2))\nrun $((N * 2))\n", "N=8", "run|16\n");
  runs("N=1\nN=$(nproc)\nrun $N\n", "N=8", "run|8\n"); /* not what it was set to before */
  runs("NN=$(nproc)\nrun $NN\n", "N=8", "run|$(...)\n"); /* another name */
}
END_TEST

static Launch *launched(const char *text, const char *words, GError **error)
{
  g_auto(GStrv) given = launch_given(words, NULL);
  return launch_read(text, "x.sh", &(LaunchOptions) { .given = (const char *const *)given }, error);
}

static char *lines_of(const GPtrArray *lines)
{
  GString *text = g_string_new(NULL);

  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf(text, "%s\n", (const char *)lines->pdata[i]);
  return g_string_free(text, FALSE);
}

START_TEST(plans_come_of_them)
{
  const char *text = "torchrun --nproc_per_node 8 pretrain_gpt.py " SIZES "--tensor-model-parallel-size $2\n";
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) told = launched(text, "dsw 4", NULL);

  ck_assert_ptr_nonnull(strstr(told->plan, "\"tensor_model_parallel_size\": 4"));
  ck_assert_ptr_null(launched(text, "dsw", &error));
  ck_assert_str_eq(error->message, "x.sh: --tensor-model-parallel-size: $2: expected a number, and nothing in the "
                                   "script says it: give --script-args");
}
END_TEST

START_TEST(what_nobody_asks_for_is_said)
{
  g_autoptr(Launch) l = launched("torchrun --nproc_per_node $2 pretrain_gpt.py " SIZES "--lr ${LR:-1e-4}\n",
                                 "LR=1e-5 TP=4 dsw 8 9", NULL);
  g_autoptr(Launch) moved = launched("shift\ntorchrun --nproc_per_node $1 pretrain_gpt.py " SIZES "\n", "dsw 8", NULL);
  g_autofree char *said = lines_of(l->assumed), *none = lines_of(moved->assumed);

  ck_assert_ptr_nonnull(strstr(said, "--script-args: TP=4: nothing in the script asks for it"));
  ck_assert_ptr_nonnull(strstr(said, "--script-args: 1=dsw: "));
  ck_assert_ptr_nonnull(strstr(said, "--script-args: 3=9: "));
  ck_assert_ptr_null(strstr(said, "LR=1e-5"));
  ck_assert_ptr_null(strstr(said, "2=8"));
  ck_assert_ptr_null(strstr(none, "--script-args"));
  g_autoptr(Launch) loop = launched("while [ $# -gt 0 ]; do case $1 in --tp) TP=$2;; esac; shift 2; done\n"
                                    "torchrun --nproc_per_node 8 pretrain_gpt.py " SIZES "\n", "--tp 4", NULL);
  g_autofree char *passed = lines_of(loop->assumed);
  ck_assert_ptr_nonnull(strstr(passed, "line 1: a loop is passed over"));
}
END_TEST

/* What unset variables behind a value expand to: nothing. */
START_TEST(open_words_are_no_values)
{
  g_autoptr(Launch) l = launched("O=\"--seq-length 128 $more $other\"\ntorchrun --nproc_per_node 8 pretrain_gpt.py "
                                 SIZES "--bf16 --swiglu $O --num-experts 4 $1x\n", "", NULL);

  ck_assert_ptr_null(l); /* "$1x" is a word that has something more to it */
  l = launched("O=\"--seq-length 128 $more $other\"\ntorchrun --nproc_per_node 8 pretrain_gpt.py " SIZES
               "--bf16 --swiglu $O --tensor-model-parallel-size 1 $1\n", "", NULL);
  ck_assert_ptr_nonnull(strstr(l->plan, "\"seq_length\": 128"));
  g_autofree char *said = lines_of(l->assumed);
  ck_assert_ptr_nonnull(strstr(said, "$more: nothing in the script says it: no arguments"));
  ck_assert_ptr_nonnull(strstr(said, "$other: "));
}
END_TEST

START_TEST(changes_take_the_place_of_what_is_asked)
{
  const char *const given[] = { "1=2", NULL };
  g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *changed =
    launch_change("TP=$1\ntorchrun pretrain_gpt.py " SIZES "--tensor-model-parallel-size $TP --bf16\n", "x.sh", given,
                  "run x.py --tensor-model-parallel-size 2", "run x.py --tensor-model-parallel-size 4", left);

  ck_assert_uint_eq(left->len, 0);
  ck_assert_str_eq(changed, "TP=4\ntorchrun pretrain_gpt.py " SIZES "--tensor-model-parallel-size $TP --bf16\n");
}
END_TEST

START_TEST(patterns_of_experts)
{
  static const struct { const char *pattern; int dense; } rows[] = {
    { "([1]*4)", 0 },       { "[1]*4", 0 },         { "([0]*1+[1]*3)", 1 }, { "([0]*2+[1]*2)*1", 2 },
    { "[0,1,1,1]", 1 },     { "[0]*1+[1,1,1]", 1 }, { "[1,1]*2", 0 },       { "([0]*1+[1]*2)", -1 },
    { "([0]*1+[1]*4)", -1 }, { "[0,1]*2", -1 },     { "([1]*4)*2", -1 },    { "([1]*4", -1 },
    { "[1]*4x", -1 },       { "[2]*4", -1 },        { "[1]*99999999999", -1 }, { "[]*9", -1 },
  };
  const int row = _i;
  g_autofree char *text = g_strdup_printf("torchrun --nproc_per_node 8 pretrain_gpt.py " SIZES "--num-experts 8 "
                                          "--moe-layer-freq '%s'\n", rows[row].pattern);
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launched(text, "", &error);
  g_autofree char *dense = g_strdup_printf("\"first_dense_layers\": %d", rows[row].dense);

  ck_assert_int_eq(l != NULL, rows[row].dense >= 0);
  if (l)
    ck_assert((strstr(l->model, dense) != NULL) == (rows[row].dense > 0));
  else
    ck_assert_ptr_nonnull(strstr(error->message, "x.sh: --moe-layer-freq: "));
}
END_TEST

/* Until Megatron Core 0.17 shares of the layers; expected is what its allocate_layers() gives. */
START_TEST(shares_of_mamba)
{
  static const struct { const char *layers, *shares, *letters; } rows[] = {
    { "56", "--hybrid-attention-ratio 0.08 --hybrid-mlp-ratio 0.5", "M-M-M--M-M*-M-M-M-M--M*-M-M-M-M-M*--M-M-M-M-M*-M--M-M-M-" },
    { "10", "--hybrid-attention-ratio 0.25 --hybrid-mlp-ratio 0.25", "MMM*-M*MM-" }, /* halves to the even count */
    { "7", "--hybrid-attention-ratio 0.5 --hybrid-mlp-ratio 0.5", "-**-**-" },
    { "10", "--hybrid-attention-ratio 0.1", "MMMMM*MMMM" },
    { "6", "", "MMMMMM" },
    { "4", "--hybrid-mlp-ratio 0.5 --hybrid-override-pattern M-*-", "M-*-" },
    { "4", "--hybrid-attention-ratio 0.6 --hybrid-mlp-ratio 0.5", NULL },
  };
  g_autofree char *text = g_strdup_printf("torchrun pretrain_mamba.py --num-layers %s --hidden-size 64 --seq-length 64 "
                                          "--num-attention-heads 4 --micro-batch-size 1 %s --spec a b\n",
                                          rows[_i].layers, rows[_i].shares);
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launched(text, "", &error);

  if (!rows[_i].letters) {
    ck_assert_str_eq(error->message, "x.sh: --hybrid-attention-ratio, --hybrid-mlp-ratio: 0.6, 0.5: expected shares of "
                                     "the layers");
    return;
  }
  g_autofree char *pattern = g_strdup_printf("\"layer_pattern\": \"%s\"", rows[_i].letters);
  ck_assert_msg(l && strstr(l->model, pattern), "%s", l ? l->model : error->message);
  ck_assert_uint_eq(l->unknown->len, 0);
}
END_TEST

/* What is started trains no language model, or another one beside it. */
START_TEST(other_programs)
{
  static const char *const rows[][2] = {
    { "tools/run_text_generation_server.py", "run_text_generation_server.py: expected a program that trains a" },
    { "tools/deepseek_v2_hf_to_mg.py", "deepseek_v2_hf_to_mg.py: expected a program that trains a" },
    { "pretrain_vlm.py", "pretrain_vlm.py: expected a program that trains a language model alone" },
    { "examples/multimodal/train.py --vision-model-type clip --decoder-seq-length 1024",
      "--vision-model-type: clip: expected nothing" },
    { "tasks/main.py --task RACE", "--task: RACE: expected nothing" },
    { "pretrain_gpt_merged.py --img-h 224 --bf16", NULL }, /* of one's own */
  };
  g_autofree char *text = g_strdup_printf("torchrun %s " SIZES "\n", rows[_i][0]);
  g_autoptr(GError) error = NULL;

  g_autoptr(Launch) l = launched(text, "", &error);

  ck_assert_int_eq(l != NULL, rows[_i][1] == NULL);
  ck_assert_msg(l || strstr(error->message, rows[_i][1]) != NULL, "%s", error ? error->message : "");
}
END_TEST

/* Arguments of Pai-Megatron-Patch, whose scripts are started so. */
START_TEST(patched_arguments)
{
  const char *text = "torchrun --nproc_per_node 8 pretrain_qwen.py " SIZES "--max-position-embeddings $3 "
                     "--num-experts 8 --enable-shared-expert --shared-moe-ffn-hidden-size 256 "
                     "--patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size $1\n";
  g_autoptr(Launch) l = launched(text, "293", NULL);
  g_autoptr(Launch) pattern = launched("torchrun pretrain_mamba.py " SIZES "--hybrid-override-pattern M-*- "
                                       "--num-experts 8\n", "", NULL);

  g_autoptr(Launch) named = launched("torchrun pretrain_gpt.py " SIZES "--tokenizer-type HuggingFaceTokenizer "
                                     "--tokenizer-model meta-llama/Llama-3.1-8B --vocab-extra-ids 1000\n", "", NULL);

  ck_assert_ptr_nonnull(strstr(named->model, "\"vocab\": 129256"));
  ck_assert_ptr_nonnull(strstr(l->model, "\"vocab\": 151936"));
  ck_assert_ptr_nonnull(strstr(l->model, "\"shared_ffn_hidden\": 256"));
  ck_assert_uint_eq(l->unknown->len, 0);
  g_autofree char *said = lines_of(pattern->assumed);
  ck_assert_ptr_nonnull(strstr(said, "no experts: no layer of the pattern has any (E), whatever --num-experts says"));
}
END_TEST

/* Arguments of BigCode's and MindSpeed-LLM's branches of Megatron-LM, and of its older versions. */
START_TEST(branches_arguments)
{
  static const struct { const char *arguments, *model, *plan; } rows[] = {
    { "--attention-head-type multiquery", "\"kv_heads\": 1,", NULL },
    { "--recompute-granularity full --recompute-method uniform --recompute-activations", NULL,
      "\"recompute_granularity\": \"selective\"" },
    { "--num-experts 8 --moe-layer-freq -1 --first-k-dense-replace 2", "\"first_dense_layers\": 2", NULL },
    { "--num-experts 8 --moe-layer-freq -1 --first-k-dense-replace -1", "\"experts\": 8", NULL },
    { "--deepspeed --ds-sequence-parallel-size 2", NULL, "\"cp_comm_type\": \"a2a\"" },
    { "--deepspeed --ds-sequence-parallel-size 2", NULL, "\"context_parallel_size\": 2" },
    { "--deepspeed --ds-sequence-parallel-size 2", NULL, "\"framework\": \"deepspeed\"" },
    { "--deepspeed --ds-sequence-parallel-size 1", NULL, "\"framework\": \"megatron-deepspeed-2022\"" },
    { "--context-parallel-size 2 --context-parallel-algo ulysses_cp_algo", NULL, "\"cp_comm_type\": \"a2a\"" },
    { "--context-parallel-size 2 --context-parallel-algo megatron_cp_algo", NULL, "\"cp_comm_type\": \"p2p\"" },
    { "--num-experts 8 --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall_seq", NULL,
      "\"moe_token_dispatcher_type\": \"alltoall\"" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("torchrun --nproc_per_node 8 pretrain_gpt.py " SIZES "%s\n",
                                            rows[i].arguments);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launched(text, "", &error);
    ck_assert_msg(l != NULL, "%s: %s", rows[i].arguments, error ? error->message : "");
    ck_assert_msg(!rows[i].model || strstr(l->model, rows[i].model), "%s: %s", rows[i].arguments, l->model);
    ck_assert_msg(!rows[i].plan || strstr(l->plan, rows[i].plan), "%s: %s", rows[i].arguments, l->plan);
    ck_assert_uint_eq(l->unknown->len, 0);
  }
}
END_TEST

/* Megatron-DeepSpeed's experts are in every other layer, and it may say how many for each. */
START_TEST(experts_of_deepspeed)
{
  static const struct { const char *arguments, *model, *says; } rows[] = {
    { "--num-experts 8 --moe-expert-parallel-size 2", "\"moe_every\": 2", NULL },
    { "--num-experts 8 8 --deepspeed", "\"experts\": 8,", NULL },
    { "--num-experts 8 --deepspeed", "\"experts_per_token\": 1,", NULL },
    { "--num-experts 8 --deepspeed --topk 2 --moe-loss-coeff 0.01", "\"router_aux_loss_coef\": 0.01", NULL },
    { "--num-experts 8 --deepspeed --expert-interval 4 --mlp-type standard", "\"moe_every\": 4", NULL },
    { "--num-experts 8 16 --deepspeed", NULL,
      "x.sh: --num-experts: 8 16: expected one number, or the same for every layer" },
    { "--num-experts 8 --deepspeed --mlp-type residual", NULL,
      "x.sh: --mlp-type: residual: expected standard: a block beside the experts is not simulated" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("deepspeed pretrain_gpt.py " SIZES "%s\n", rows[i].arguments);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launched(text, "", &error);
    ck_assert_msg((l != NULL) == !rows[i].says, "%s: %s", rows[i].arguments, error ? error->message : "");
    if (l)
      ck_assert_msg(strstr(l->model, rows[i].model) && l->unknown->len == 0, "%s: %s", rows[i].arguments, l->model);
    else
      ck_assert_str_eq(error->message, rows[i].says);
  }
}
END_TEST

/* Of the whole batch, the micro-batch and steps of accumulation two say the third, and one alone means one step, on 8
 * ranks. */
START_TEST(batches_of_deepspeed)
{
  static const struct { const char *settings; int batch, micro; } rows[] = {
    { "\"train_batch_size\": 64", 64, 8 },
    { "\"train_micro_batch_size_per_gpu\": 4", 32, 4 },
    { "\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4", 64, 2 },
    { "\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2", 64, 4 },
    { "\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2", 64, 2 },
    { "\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4", 64, 2 },
    { "\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": \"auto\"", 64, 8 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("{ %s, \"zero_optimization\": { \"stage\": 2 } }", rows[i].settings);
    g_autofree char *batch = g_strdup_printf("\"global_batch_size\": %d,", rows[i].batch);
    g_autofree char *micro = g_strdup_printf("\"micro_batch_size\": %d,", rows[i].micro);
    g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { .gpus = 8 }, NULL);
    ck_assert_msg(l && strstr(l->plan, batch) && strstr(l->plan, micro), "%s: %s", rows[i].settings, l ? l->plan : "");
  }
}
END_TEST

/* What changes the plan beside the stage, on 16 ranks; of no other stage than the one that has it, where it is named. */
START_TEST(stages_of_deepspeed)
{
  static const struct { const char *zero, *plan, *beyond; } rows[] = {
    { "\"stage\": 3, \"zero_hpz_partition_size\": 8", "\"zero_hpz_partition_size\": 8", NULL },
    { "\"stage\": 3, \"zero_hpz_partition_size\": 1", NULL, NULL },
    { "\"stage\": 3, \"zero_quantized_weights\": true", "\"zero_quantized_weights\": true", NULL },
    { "\"stage\": 3, \"zero_quantized_gradients\": true", "\"zero_quantized_gradients\": true", NULL },
    { "\"stage\": 3, \"zero_quantized_gradients\": false", NULL, NULL },
    { "\"stage\": 3, \"mics_shard_size\": 4", "\"shard_group_size\": 4", NULL },
    { "\"stage\": 3, \"mics_shard_size\": -1", NULL, NULL },
    { "\"stage\": 2, \"zero_quantized_weights\": true", NULL, "zero_optimization.zero_quantized_weights" },
    { "\"stage\": 3, \"zero_quantized_nontrainable_weights\": true", NULL,
      "zero_optimization.zero_quantized_nontrainable_weights" },
    { "\"stage\": 2, \"cpu_offload\": true", "\"optimizer\": \"cpu\"", NULL },
    { "\"stage\": 2, \"cpu_offload\": false", NULL, NULL },
    { "\"stage\": 2, \"cpu_offload\": true, \"offload_optimizer\": { \"device\": \"none\" }", NULL, NULL },
    { "\"stage\": 3, \"cpu_offload\": true, \"cpu_offload_param\": true", "\"parameters\": \"cpu\"", NULL },
    { "\"stage\": 3, \"offload_optimizer\": { \"device\": \"nvme\" }, \"sub_group_size\": 1e8",
      "\"sub_group_size\": 100000000", NULL },
    { "\"stage\": 3, \"offload_optimizer\": { \"device\": \"cpu\" }, \"sub_group_size\": 1000000000000",
      "\"optimizer\": \"cpu\"\n  }", NULL },
    { "\"stage\": 2, \"offload_optimizer\": { \"device\": \"cpu\" }, \"sub_group_size\": 1e8",
      "\"optimizer\": \"cpu\"\n  }", "zero_optimization.sub_group_size" },
    { "\"stage\": 3, \"sub_group_size\": 1e8", NULL, "zero_optimization.sub_group_size" },
  };
  g_autoptr(Model) model = fixture_known_model("llama-3.1-8b");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 16);

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("{ \"train_batch_size\": 16, \"bf16\": { \"enabled\": true }, "
                                            "\"zero_optimization\": { %s } }", rows[i].zero);
    g_autofree char *plain = g_strdup_printf("{ \"train_batch_size\": 16, \"bf16\": { \"enabled\": true }, "
                                             "\"zero_optimization\": { %.10s } }", rows[i].zero);
    g_autoptr(GError) error = NULL;
    g_autoptr(Framework) framework = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { .gpus = 16, .seq = 2048 }, NULL);
    g_autoptr(Launch) without = launch_read(plain, "x.json", &(LaunchOptions) { .gpus = 16, .seq = 2048 }, NULL);
    g_autofree char *beyond = lines_of(l->not_simulated);
    Plan plan;
    ck_assert_msg(!rows[i].plan || strstr(l->plan, rows[i].plan), "%s: %s", rows[i].zero, l->plan);
    ck_assert_msg(rows[i].plan || g_str_equal(l->plan, without->plan), "%s: %s", rows[i].zero, l->plan);
    ck_assert_msg(rows[i].beyond ? strstr(beyond, rows[i].beyond) != NULL : !*beyond, "%s: %s", rows[i].zero, beyond);
    ck_assert_msg(plan_parse(l->plan, strlen(l->plan), "x.json", model, &plan, &framework, &error), "%s: %s",
                  rows[i].zero, error ? error->message : "");
    ck_assert_msg(plan_check(&plan, model, cluster, &error) == RULE_NONE, "%s: %s", rows[i].zero,
                  error ? error->message : "");
  }
}
END_TEST

START_TEST(optimizers_of_deepspeed)
{
  static const struct { const char *optimizer, *plan, *assumed; } rows[] = {
    { "{ \"type\": \"AdamW\" }", "\"optimizer\": \"adamw\"", "" },
    { "{ \"type\": \"Muon\" }", "\"optimizer\": \"muon\"", "" },
    { "{ \"type\": \"SGD\", \"params\": { \"momentum\": 0.8 } }", "\"sgd_momentum\": 0.8", "" },
    { "{ \"type\": \"SGD\" }", "\"sgd_momentum\": 0", "" },
    { "{ \"type\": \"Lion\" }", "\"zero_stage\": 2", "optimizer.type: Lion: taken as Adam, its own states are not simulated\n" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("{ \"train_batch_size\": 8, \"zero_optimization\": { \"stage\": 2 }, \"optimizer\": %s, "
                                            "\"activation_checkpointing\": { \"number_checkpoints\": 1 } }", rows[i].optimizer);
    g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { .gpus = 8, .seq = 2048 }, NULL);
    ck_assert_msg(l && strstr(l->plan, rows[i].plan), "%s: %s", rows[i].optimizer, l ? l->plan : "");
    ck_assert_ptr_nonnull(strstr(l->plan, "\"seq_length\": 2048"));
    test_text(lines_of(l->assumed), rows[i].assumed);
  }
}
END_TEST

/* Megatron-LM's own mode of Muon changed: which one is taken is said, where ranks share matrices. */
START_TEST(modes_of_muon)
{
  static const struct { const char *flags, *assumed; } rows[] = {
    { "--optimizer muon --tensor-model-parallel-size 2", "muon_tp_mode: blockwise: nothing says --muon-tp-mode" },
    { "--optimizer dist_muon --tensor-model-parallel-size 2", "muon_tp_mode: blockwise: nothing says --muon-tp-mode" },
    { "--optimizer muon --tensor-model-parallel-size 2 --muon-tp-mode blockwise", NULL }, { "--optimizer muon", NULL },
    { "--optimizer adam --tensor-model-parallel-size 2", NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("torchrun --nproc_per_node 8 pretrain_gpt.py " SIZES "%s\n", rows[i].flags);
    g_autoptr(Launch) l = launched(text, "", NULL);
    g_autofree char *said = lines_of(l->assumed);
    ck_assert_msg(rows[i].assumed ? strstr(said, rows[i].assumed) != NULL : !strstr(said, "muon"), "%s: %s", text, said);
    ck_assert_int_eq(strstr(l->plan, "\"muon_tp_mode\": \"blockwise\"") != NULL, strstr(text, "muon --tensor") != NULL);
  }
}
END_TEST

/* What torchtitan's TOML leaves unsaid is as torchtitan has it: every second block is made again, and experts' matrices are
 * not divided. */
START_TEST(defaults_of_torchtitan)
{
  static const struct { const char *settings, *plan, *assumed; } rows[] = {
    { "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n", "\"selective\"", NULL },
    { "[activation_checkpoint]\nmode = \"selective\"\n", "\"selective\"", "selective_ac_option: 2: taken as \"op\"" },
    { "", "\"selective\"", "selective_ac_option: 2: taken as \"op\"" },
    { "[activation_checkpoint]\nselective_ac_option = \"4\"\n", "\"selective\"", "one block of 4 made again" },
    { "[activation_checkpoint]\nselective_ac_option = \"1\"\n", "\"recompute_granularity\": \"full\"", NULL },
    { "[activation_checkpoint]\nmode = \"full\"\n", "\"recompute_granularity\": \"full\"", NULL },
    { "[parallelism]\nexpert_parallel_degree = 4\n", "\"expert_tensor_parallel_size\": 1", "" },
    { "[parallelism]\nexpert_parallel_degree = 4\nexpert_tensor_parallel_degree = 2\ntensor_parallel_degree = 2\n",
      "\"expert_tensor_parallel_size\": 2", "" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n%s", rows[i].settings);
    g_autoptr(Launch) l = launch_read(text, "x.toml", &(LaunchOptions) { .gpus = 8 }, NULL);
    ck_assert_msg(l && strstr(l->plan, rows[i].plan), "%s: %s", rows[i].settings, l ? l->plan : "");
    g_autofree char *assumed = lines_of(l->assumed);
    ck_assert_msg(rows[i].assumed ? strstr(assumed, rows[i].assumed) != NULL : !strstr(assumed, "selective_ac_option"), "%s: %s",
                  rows[i].settings, assumed);
    ck_assert_msg(strstr(assumed, "compile.enable: false: simulated as if compiled"), "%s", assumed);
  }
}
END_TEST

/* Of a file with several, the function that is named; its settings come of calls, variables and other functions. */
START_TEST(functions_of_torchtitan)
{
  static const struct { const char *words, *plan[8], *says; } rows[] = {
    { "CONFIG=llama3_8b",
      { "\"gpus\": 64", "\"global_batch_size\": 64", "\"micro_batch_size\": 2", "\"seq_length\": 8192",
        "\"tensor_model_parallel_size\": 2", "\"recompute_granularity\": \"full\"", "\"precision\": \"bf16\"" }, NULL },
    { "CONFIG=llama3_70b",
      { "\"global_batch_size\": 64", "\"micro_batch_size\": 2", "\"seq_length\": 8192",
        "\"tensor_model_parallel_size\": 8", "\"pipeline_model_parallel_size\": 2", "\"precision\": \"fp8\"",
        "\"tp_comm_overlap\": true", "\"data_parallel_size\": 4" }, NULL },
    { "", { NULL }, "x.py: which configuration: expected one of llama3_8b, llama3_70b, qwen_8b_budget, qwen_8b_nvfp4: "
                    "give --script-args CONFIG=NAME" },
    { "CONFIG=rates", { NULL }, "x.py: rates: starts from LRSchedulersContainer.Config(), which is not read: expected one of "
                                "llama3_8b, llama3_70b, qwen_8b_budget, qwen_8b_nvfp4: give --script-args CONFIG=NAME" },
    { "CONFIG=qwen_8b_budget", { NULL }, "x.py: --gpus: 64: expected the 4 that the file comes to" },
  };
  g_autofree char *path = files_data_path("tests/data/launch/config_registry.py"), *text = NULL;

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_auto(GStrv) given = launch_given(rows[i].words, NULL);
    const LaunchOptions options = { 64, NULL, (const char *const *)given };
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.py", &options, &error);
    ck_assert_msg((l != NULL) == !rows[i].says, "%s: %s", rows[i].words, error ? error->message : "");
    if (!l)
      ck_assert_str_eq(error->message, rows[i].says);
    for (int k = 0; k < 8 && rows[i].plan[k]; k++)
      ck_assert_msg(strstr(l->plan, rows[i].plan[k]) != NULL, "%s: no %s in %s", rows[i].words, rows[i].plan[k],
                    l->plan);
    if (l)
      ck_assert(l->named && l->editable && l->unknown->len == 0);
  }
}
END_TEST

/* Names mean what they do where Python calls them: functions that stand behind, the last of a name, no more of a file than
 * the function itself. */
START_TEST(functions_stand_in_any_order)
{
#define RETURNS "    return Trainer.Config(model_spec=model_registry(\"8B\"), parallelism=ParallelismConfig(" \
  "tensor_parallel_degree=%d))\n"
  static const struct { const char *text; int tp; } rows[] = {
    { "def llama3() -> Trainer.Config:\n    c = base()\n    return c\ndef base():\n    return middle()\n"
      "def middle():\n" RETURNS, 4 },
    { "def llama3():\n    c = base()\n    c.parallelism.tensor_parallel_degree = 8\n    return c\ndef base():\n" RETURNS,
      8 },
    { "def base():\n" RETURNS "def llama3():\n    return base()\ndef base():\n    b = last()\n    return b\n"
      "def last():\n    l = llama3_8b()\n    l.parallelism.tensor_parallel_degree = 2\n    return l\n"
      "def llama3_8b():\n" RETURNS, 2 },
    { "def llama3():\n    c = base()\n# a comment\n    return c\nclass Other:\n    c = 1\n    return Trainer.Config()\n"
      "def base():\n" RETURNS, 4 },
    { "def llama3():\n" RETURNS "    llama3()\ndef loop():\n    return other()\ndef other():\n    return loop()\n", 4 },
  };
  static const char *const words[] = { "CONFIG=llama3", NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_auto(GStrv) parts = g_strsplit(rows[i].text, "%d", -1);
    g_autofree char *text = g_strjoinv("4", parts);
    g_autofree char *expected = g_strdup_printf("\"tensor_model_parallel_size\": %d,", rows[i].tp);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.py", &(LaunchOptions) { 64, NULL, words }, &error);
    ck_assert_msg(l != NULL, "%d: %s", (int)i, error ? error->message : "");
    ck_assert_msg(strstr(l->plan, expected) != NULL, "%d: %s", (int)i, l->plan);
    ck_assert_msg(strstr(l->model, "\"llama-3.1-8b\"") != NULL, "%d: %s", (int)i, l->model);
  }
#undef RETURNS
}
END_TEST

/* What is not simulated is said: neither another way to recompute nor another format is taken for the usual one. */
START_TEST(functions_say_what_is_left)
{
  static const char *const budget[] = { "CONFIG=qwen_8b_budget", "MODULE=qwen3", NULL };
  static const char *const nvfp4[] = { "CONFIG=qwen_8b_nvfp4", "MODULE=qwen3", NULL };
  const char *const *words = budget;
  g_autofree char *path = files_data_path("tests/data/launch/config_registry.py"), *text = NULL;

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  g_autoptr(Launch) l = launch_read(text, "torchtitan/models/llama3/config_registry.py",
                                    &(LaunchOptions) { 4, NULL, words }, NULL);
  ck_assert_ptr_nonnull(strstr(l->model, "\"name\": \"qwen3-8b\""));
  ck_assert_uint_eq(l->not_simulated->len, 1);
  ck_assert_str_eq(l->not_simulated->pdata[0], "kernels, buckets and formats other than the software's usual ones: "
                                        "activation_checkpoint.memory_budget, model_spec.converters");
  words = nvfp4;
  g_autoptr(Launch) four_bits = launch_read(text, "torchtitan/models/llama3/config_registry.py",
                                            &(LaunchOptions) { 4, NULL, words }, NULL);
  ck_assert_ptr_nonnull(strstr(four_bits->plan, "\"precision\": \"fp4\""));
  ck_assert_ptr_nonnull(strstr(four_bits->plan, "\"framework\": \"torchtitan-2026-09\"")); /* others run none */
  ck_assert_uint_eq(four_bits->not_simulated->len, 0);
}
END_TEST

/* Cut anywhere it is read or refused, and a file that names itself again and again ends. */
START_TEST(functions_are_bounded)
{
  g_autofree char *path = files_data_path("tests/data/launch/config_registry.py"), *text = NULL;
  g_autoptr(GString) again = g_string_new("def f0() -> Trainer.Config:\n    return Trainer.Config(a=1, b=2)\n");
  static const char *const words[] = { "CONFIG=llama3_70b", NULL };

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  for (gsize n = strlen(text); n-- > 0;) {
    text[n] = '\0';
    g_autoptr(GError) error = NULL;
    const LaunchOptions options = { 64, NULL, words };
    g_autoptr(Launch) l = launch_recognises(text) ? launch_read(text, "x.py", &options, &error) : NULL;
    ck_assert(!l || !error);
  }
  for (int i = 1; i < 40; i++)
    g_string_append_printf(again, "def f%d():\n    return Trainer.Config(a=f%d(), b=f%d())\n", i, i - 1, i - 1);
  for (int i = 40; i-- > 1;) /* each stands behind what starts from it */
    g_string_append_printf(again, "def b%d():\n    return Trainer.Config(a=b%d(), b=b%d())\n", i, i - 1, i);
  for (int i = 0; i < 5000; i++)
    g_string_append_printf(again, "def c%d():\n    return c%d()\n", i, i + 1);
  for (int i = 0; i < 5000; i++)
    g_string_append(again, i ? "(" : "def g():\n    x = f(");
  ck_assert(launch_recognises(again->str));
}
END_TEST

TEST_LOOPS("launch given", { words_are_a_shells }, { scripts_take_them }, { arguments_move },
           { what_nobody_asks_for_is_said }, { what_commands_print_is_given },
           { plans_come_of_them }, { open_words_are_no_values }, { changes_take_the_place_of_what_is_asked },
           { patterns_of_experts, 16 }, { shares_of_mamba, 7 }, { other_programs, 6 }, { patched_arguments },
           { branches_arguments }, { experts_of_deepspeed }, { batches_of_deepspeed }, { stages_of_deepspeed },
           { optimizers_of_deepspeed }, { modes_of_muon },
           { defaults_of_torchtitan }, { functions_of_torchtitan },
           { functions_stand_in_any_order }, { functions_say_what_is_left },
           { functions_are_bounded })
