/* Arguments as Megatron-LM's logs list them. */
#include "launch_sample.h"

#include <string.h>

/* A log lists what arguments were made into: formats of torch's, and a hybrid's pattern by both of its names. */
START_TEST(made_arguments_in_logs)
{
  static const char head[] = "------------------------ arguments ------------------------\n"
                             "  bf16 ............................................ True\n"
                             "  hidden_size ..................................... 64\n"
                             "  num_attention_heads ............................. 4\n"
                             "  seq_length ...................................... 64\n"
                             "  world_size ...................................... 8\n"
                             "  use_distributed_optimizer ....................... True\n";
  static const struct {
    const char *lines, *plan, *model;
  } cases[] = {
    { "  num_layers ...................................... 4\n"
      "  use_megatron_fsdp ............................... True\n"
      "  data_parallel_sharding_strategy ................. optim_grads_params\n"
      "  megatron_fsdp_main_params_dtype ................. torch.float32\n"
      "  megatron_fsdp_main_grads_dtype .................. None\n"
      "  megatron_fsdp_grad_comm_dtype ................... torch.float16\n",
      "\"main_params_dtype\": \"fp32\",\n  \"main_grads_dtype\": \"bf16\",\n  \"grad_reduce_dtype\": \"fp16\"",
      "\"layers\": 4" },
    { "  num_layers ...................................... 4\n"
      "  use_precision_aware_optimizer ................... True\n"
      "  main_params_dtype ............................... torch.float16\n"
      "  exp_avg_dtype ................................... torch.uint8\n",
      "\"main_params_dtype\": \"fp16\",\n  \"exp_avg_dtype\": \"fp8\"", "\"layers\": 4" },
    { "  num_layers ...................................... 4\n"
      "  hybrid_layer_pattern ............................ M-*-\n"
      "  hybrid_override_pattern ......................... M-*-\n"
      "  mtp_hybrid_override_pattern ..................... None\n",
      "\"zero_stage\": 1", "\"layer_pattern\": \"M-*-\"" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("%s%s-------------------- end of arguments ---------------------\n", head,
                                            cases[i].lines);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.log", &(LaunchOptions) { 0 }, &error);
    ck_assert_msg(l != NULL, "%zu: %s", i, error ? error->message : "");
    ck_assert_msg(strstr(l->plan, cases[i].plan) != NULL, "%s", l->plan);
    ck_assert_msg(strstr(l->model, cases[i].model) != NULL, "%s", l->model);
  }
}
END_TEST

START_TEST(log_of_megatron)
{
  g_autoptr(Launch) l = launch_of_sample("llama-1b.log", 0);

  ck_assert_int_eq(l->gpus, 16);
  ck_assert(!l->editable);
  ck_assert_double_eq(l->measured_s, 1.1); /* without the first */
  ck_assert_double_eq(l->measured_bytes, 20480.0 * 1024 * 1024);
  ck_assert_ptr_nonnull(strstr(l->model, "\"bias\": false"));
  ck_assert_ptr_nonnull(strstr(l->model, "\"dropout\": false"));
  ck_assert_ptr_nonnull(strstr(l->model, "\"vocab\": 128256"));
  ck_assert_ptr_nonnull(strstr(l->plan, "\"sequence_parallel\": true"));
  ck_assert_ptr_nonnull(strstr(l->plan, "\"recompute_granularity\": \"none\""));
  ck_assert_ptr_nonnull(strstr(l->plan, "\"gradients\": true"));
  ck_assert_uint_eq(l->ignored->len, 1);
  ck_assert_str_eq(l->ignored->pdata[0], "1 other arguments of the list");
}
END_TEST

TEST_MAIN("launch-log", made_arguments_in_logs, log_of_megatron)
