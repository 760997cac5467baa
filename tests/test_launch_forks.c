/* Words of forks of Megatron-LM: BigCode's, Megatron-LLaMA's, Megatron-DeepSpeed's, and underscores of Megatron-LLM. */
#include "main.h"

#include "import/launch.h"

#include <string.h>

#define SIZES "--num-layers 12 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 --bf16 "

static Launch *read_text(const char *text)
{
  return launch_recognises(text) ? launch_read(text, "x.sh", &(LaunchOptions) { 8 }, NULL) : NULL;
}

START_TEST(words)
{
  static const struct { const char *words, *says, *lacks; } cases[] = {
    { "--use-flash-attn-triton", "\"attention\": \"flash\"", NULL },
    { "--use-flash-attn --use-flash-attn-v2", "\"attention\": \"flash\"", NULL },
    { "--overlapped-distributed-optimizer", "\"zero_stage\": 1", "\"gradients\": false" },
    { "--overlapped-distributed-optimizer --reduce-bucket-size 1000", "\"parameters\": true", NULL },
    { "--use-rotary-position-embeddings --rotary-position-embeddings-theta 5000", "\"rope_theta\": 5000", NULL },
    { "--RMSNorm", "\"norm\": \"rmsnorm\"", NULL },
    { "--overlap-moe-expert-parallel-comm", "\"framework\": \"megatron-core-2026\"", NULL },
    { "--moe-flex-dispatcher-backend none", "\"framework\": \"megatron-core\"", NULL },
    { "--kd --hidden-size-teacher 128", "\"gpus\": 8", NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("python pretrain_gpt.py " SIZES "%s\n", cases[i].words);
    g_autoptr(Launch) l = read_text(text);
    ck_assert_msg(l != NULL, "%s", text);
    ck_assert_msg(strstr(l->plan, cases[i].says) || strstr(l->model, cases[i].says), "%s: %s", text, l->plan);
    ck_assert_msg(!cases[i].lacks || !strstr(l->plan, cases[i].lacks), "%s: %s", text, l->plan);
    ck_assert_uint_eq(l->unknown->len, 0);
  }
}
END_TEST

START_TEST(underscores)
{
  g_autoptr(Launch) l = read_text("python finetune.py --num_layers=4 --hidden_size 64 --num_attention_heads 4 "
                                  "--seq_length 64 --micro_batch_size 2 --tensor_model_parallel_size 2\n");

  ck_assert(l && strstr(l->plan, "\"tensor_model_parallel_size\": 2"));
}
END_TEST

START_TEST(no_training)
{
  static const char *const programs[] = { "analyze_data.py", "test_blendable_dataset.py" };

  for (gsize i = 0; i < G_N_ELEMENTS(programs); i++) {
    g_autofree char *text = g_strdup_printf("python %s " SIZES "\n", programs[i]);
    ck_assert_ptr_null(read_text(text));
  }
}
END_TEST

TEST_MAIN("launch-forks", words, underscores, no_training)
