/* DeepSpeed's JSON as people have it: batches, old forms, values that Hugging Face's trainer fills in. */
#include "main.h"

#include "import/launch.h"

#include <string.h>

#define MICRO "\"train_micro_batch_size_per_gpu\": "
#define STEPS "\"gradient_accumulation_steps\": "
#define NARROW "\"bf16\": { \"enabled\": true, \"bf16_master_weights_and_grads\": true"
#define BY_TRAINER "the file says auto, which Hugging Face's trainer fills in by its own --"
#define BF16 "\"bf16\": { \"enabled\": true }"
#define PARTED "\"activation_checkpointing\": { \"partition_activations\": true }"

/* Nothing else is taken for granted than what all files leave open, and these. */
static const struct {
  const char *text;
  int gpus;
  const char *plan[4], *assumed;
} files[] = {
  /* three numbers tell the ranks, unless --gpus does */
  { "{ \"train_batch_size\": 64, " MICRO "4, " STEPS "4 }", 0, { "\"gpus\": 4", "\"global_batch_size\": 64" }, "" },
  { "{ \"train_batch_size\": 64, " MICRO "4, " STEPS "2, \"tensor_parallel\": { \"autotp_size\": 2 } }", 0,
    { "\"gpus\": 16", "\"tensor_model_parallel_size\": 2" }, "" },
  { "{ \"train_batch_size\": 64, " MICRO "4, " STEPS "4 }", 8, { "\"gpus\": 8" },
    "train_batch_size: 64: expected 4 x gradient_accumulation_steps 4 x 8 ranks: DeepSpeed refuses it\n" },
  { "{ \"train_batch_size\": 63, " MICRO "4, " STEPS "4 }", 0, { "\"gpus\": 1", "\"global_batch_size\": 63" },
    "gpus: 1: the file does not say how many it runs on\n"
    "train_batch_size: 63: expected 4 x gradient_accumulation_steps 4 x 1 ranks: DeepSpeed refuses it\n" },
  /* what is filled in is said once, and nothing of what follows from the rest */
  { "{ \"train_batch_size\": \"auto\", " MICRO "\"auto\", " STEPS "\"auto\" }", 8,
    { "\"global_batch_size\": 8", "\"micro_batch_size\": 1" },
    "train_micro_batch_size_per_gpu: 1: the file says auto\ngradient_accumulation_steps: 1: the file says auto\n" },
  { "{ \"train_batch_size\": 64, " MICRO "2, " STEPS "\"auto\" }", 8, { "\"global_batch_size\": 64" }, "" },
  { "{ \"train_batch_size\": \"auto\", " MICRO "2, " STEPS "4 }", 8, { "\"global_batch_size\": 64" }, "" },
  /* the trainer's format: that which the file has a section of, of both bf16 */
  { "{ " MICRO "2, \"fp16\": { \"enabled\": \"auto\" } }", 8, { "\"precision\": \"fp16\"" },
    "fp16.enabled: true: " BY_TRAINER "fp16\n" },
  { "{ " MICRO "2, \"fp16\": { \"enabled\": \"auto\" }, \"bf16\": { \"enabled\": \"auto\" } }", 8, { "\"precision\": \"bf16\"" },
    "bf16.enabled: true: " BY_TRAINER "bf16\n" },
  { "{ " MICRO "2, \"fp16\": { \"enabled\": \"auto\" }, " BF16 " }", 8, { "\"precision\": \"bf16\"" }, "" },
  { "{ " MICRO "2, \"fp16\": { \"enabled\": false }, \"bf16\": { \"enabled\": false } }", 8, { "\"precision\": \"fp32\"" }, "" },
  { "{ " STEPS "4 }", 8, { NULL }, NULL }, /* is nobody's */
  { "{ \"zero_optimization\": { \"stage\": 1 }, " STEPS "4 }", 8, { "\"global_batch_size\": 32" },
    "train_micro_batch_size_per_gpu: 1: the file names no batch\n" },
  /* a bucket that is DeepSpeed's own is as none */
  { "{ " MICRO "2, \"zero_optimization\": { \"stage\": 2, \"reduce_bucket_size\": 5e8 } }", 8,
    { "!reduce_bucket_size" }, "" },
  { "{ " MICRO "2, \"zero_optimization\": { \"stage\": 2, \"reduce_bucket_size\": 2e8 } }", 8,
    { "\"reduce_bucket_size\": 200000000" }, "" },
  /* the form of the first release */
  { "{ " MICRO "2, \"zero_optimization\": true }", 8, { "\"zero_stage\": 1" }, "" },
  { "{ " MICRO "2, \"zero_optimization\": false }", 8, { "\"zero_stage\": 0" }, "" },
  { "{ " MICRO "2, \"zero_optimization\": { \"stage\": 2 } }", 8, { "\"zero_stage\": 2" }, "" },
  /* the format of gradients, and on the wire */
  { "{ " MICRO "2, " BF16 ", \"data_types\": { \"grad_accum_dtype\": \"fp32\" } }", 8,
    { "\"main_grads_dtype\": \"fp32\"", "\"grad_reduce_dtype\": \"bf16\"" }, "" },
  { "{ " MICRO "2, " BF16 ", \"data_types\": { \"grad_accum_dtype\": \"fp32\" }, "
    "\"communication_data_type\": \"FP32\" }", 8, { "\"main_grads_dtype\": \"fp32\"", "!grad_reduce_dtype" }, "" },
  { "{ " MICRO "2, " BF16 ", \"communication_data_type\": \"fp32\" }", 8,
    { "\"grad_reduce_dtype\": \"fp32\"", "!main_grads_dtype" }, "" },
  { "{ " MICRO "2, " BF16 ", \"data_types\": { \"grad_accum_dtype\": \"bf16\" }, "
    "\"communication_data_type\": \"bf16\" }", 8, { "!_dtype\"" }, "" },
  { "{ " MICRO "2, \"data_types\": { \"grad_accum_dtype\": null } }", 8, { "!_dtype\"" }, "" },
  { "{ " MICRO "2, " BF16 ", \"data_types\": { \"grad_accum_dtype\": \"torch.float32\" } }", 8,
    { "\"main_grads_dtype\": \"fp32\"", "\"grad_reduce_dtype\": \"bf16\"" }, "" },
  { "{ " MICRO "2, " BF16 ", \"data_types\": { \"grad_accum_dtype\": \"bfloat16\" } }", 8, { "!_dtype\"" }, "" },
  { "{ " MICRO "2, \"data_types\": { \"grad_accum_dtype\": \"half\" } }", 8,
    { "\"main_grads_dtype\": \"fp16\"", "\"grad_reduce_dtype\": \"fp32\"" }, "" },
  { "{ " MICRO "2, " BF16 ", \"data_types\": { \"grad_accum_dtype\": \"auto\" } }", 8, { "!_dtype\"" },
    "data_types.grad_accum_dtype: the model's own format: the file says auto\n" },
  /* main weights and moments in the model's format, of moments those that the optimizer has */
  { "{ " MICRO "2, " NARROW ", \"bf16_optimizer_states\": true } }", 8,
    { "\"main_params_dtype\": \"bf16\"", "\"exp_avg_dtype\": \"bf16\"", "\"exp_avg_sq_dtype\": \"bf16\"",
      "!main_grads_dtype" }, "" },
  { "{ " MICRO "2, \"bf16\": { \"enabled\": true, \"bf16_master_weights_and_grads\": \"maybe\" } }", 8, { "!main_params" },
    "bf16.bf16_master_weights_and_grads: maybe: neither true nor false: taken as false\n" },
  { "{ " MICRO "2, " NARROW " } }", 8, { "\"main_params_dtype\": \"bf16\"", "!exp_avg" }, "" },
  { "{ " MICRO "2, \"optimizer\": { \"type\": \"SGD\" }, " NARROW ", \"bf16_optimizer_states\": true } }", 8,
    { "\"main_params_dtype\": \"bf16\"", "\"exp_avg_dtype\": \"bf16\"", "!exp_avg_sq" }, "" },
  { "{ " MICRO "2, \"optimizer\": { \"type\": \"Muon\" }, " NARROW ", \"bf16_optimizer_states\": true } }", 8,
    { "\"exp_avg_dtype\": \"bf16\"", "\"exp_avg_sq_dtype\": \"bf16\"" }, "" },
  { "{ " MICRO "2, \"optimizer\": { \"type\": \"Adafactor\" }, " NARROW ", \"bf16_optimizer_states\": true } }", 8,
    { "\"main_params_dtype\": \"bf16\"", "!exp_avg" }, "" },
  { "{ " MICRO "2, \"optimizer\": { \"type\": \"Lion\" }, " NARROW ", \"bf16_optimizer_states\": true } }", 8,
    { "\"exp_avg_dtype\": \"bf16\"", "\"exp_avg_sq_dtype\": \"bf16\"" },
    "optimizer.type: Lion: taken as Adam, its own states are not simulated\n" },
  /* inputs of blocks that are made again are divided over tensor-parallel ranks alone */
  { "{ " MICRO "2, " PARTED " }", 8, { "\"recompute_granularity\": \"none\"" },
    "activation_checkpointing.partition_activations: true: divides nothing, the file has no tensor parallelism\n" },
  { "{ " MICRO "2, \"tensor_parallel\": { \"autotp_size\": 4 }, " PARTED " }", 8,
    { "\"recompute_granularity\": \"full\"", "\"partition_activations\": true" }, "" },
};

static gboolean is_usual(const char *line)
{
  return g_str_has_prefix(line, "seq_length: the model's") || g_str_has_prefix(line, "recompute_granularity: none");
}

START_TEST(files_say_their_plan)
{
  LaunchOptions options = { .gpus = files[_i].gpus };
  g_autoptr(Launch) l = launch_read(files[_i].text, "x.json", &options, NULL);
  g_autoptr(GString) assumed = g_string_new(NULL);

  if (!files[_i].assumed) {
    ck_assert_ptr_null(l);
    return;
  }
  ck_assert(l != NULL);
  for (int k = 0; k < 4 && files[_i].plan[k]; k++) {
    gboolean not = files[_i].plan[k][0] == '!';
    ck_assert_msg((strstr(l->plan, files[_i].plan[k] + not) == NULL) == not, "%s: %s", files[_i].plan[k], l->plan);
  }
  ck_assert_int_eq(strstr(l->plan, "partition_activations") != NULL, strstr(l->plan, "\"full\"") != NULL);
  for (guint i = 0; i < l->assumed->len; i++)
    if (!is_usual(l->assumed->pdata[i]))
      g_string_append_printf(assumed, "%s\n", (char *)l->assumed->pdata[i]);
  ck_assert_str_eq(assumed->str, files[_i].assumed);
  ck_assert_uint_eq(l->unknown->len + l->not_simulated->len, 0);
}
END_TEST

/* A key is added in the line of its object, or on a line of its own where keys have such. */
START_TEST(keys_are_added)
{
  static const char *const texts[][2] = {
    { "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": true}}",
      "{\"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true}, \"bf16\": {\"enabled\": true}}" },
    { "{\n  \"zero_optimization\": {\n    \"stage\": 3\n  }\n}\n",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2,\n    \"overlap_comm\": true\n  }\n}\n" },
  };
  const char *before = "{ \"zero_optimization\": { \"stage\": 3, \"overlap_comm\": true } }";
  const char *after = "{ \"zero_optimization\": { \"stage\": 2, \"overlap_comm\": true } }";

  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *changed = launch_change(texts[i][0], "x.json", NULL, before, after, notes);
    ck_assert_str_eq(changed, texts[i][1]);
    ck_assert_uint_eq(notes->len, 0);
  }
}
END_TEST

/* A key goes with one of its commas, first, last or alone, also where keys share a line; all else stays. */
START_TEST(keys_are_taken_out)
{
#define STAGE "\"stage\": 3"
#define HPZ "\"zero_hpz_partition_size\": 8"
  static const char *const texts[][2] = {
    { "{\"zero_optimization\": {" STAGE ", " HPZ "}}", "{\"zero_optimization\": {" STAGE "}}" },
    { "{\"zero_optimization\":{" HPZ "," STAGE "},\"a\":1}", "{\"zero_optimization\":{" STAGE "},\"a\":1}" },
    { "{\"zero_optimization\": {\n  " HPZ ",\n  " STAGE "\n}}", "{\"zero_optimization\": {\n  " STAGE "\n}}" },
    { "{\"zero_optimization\": {\n  " STAGE ",\n  " HPZ "\n}}", "{\"zero_optimization\": {\n  " STAGE "\n}}" },
    { "{\"zero_optimization\": {\n  " STAGE ",\n  \"zero_hpz_partition_size\"\n: 8 }}",
      "{\"zero_optimization\": {\n  " STAGE " }}" },
  };
  const char *before = "{\"zero_optimization\": {" STAGE ", " HPZ "}}", *after = "{\"zero_optimization\": {" STAGE "}}";

  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *changed = launch_change(texts[i][0], "x.json", NULL, before, after, notes);
    ck_assert_str_eq(changed, texts[i][1]);
    ck_assert_uint_eq(notes->len, 0);
  }
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
#define HOST ", \"offload_optimizer\": {\"device\": \"cpu\"}}}"
  g_autofree char *alone = launch_change("{\"zero_optimization\": {" STAGE HOST, "x.json", NULL,
                                         "{\"zero_optimization\": {" STAGE HOST, after, notes);
  ck_assert_str_eq(alone, "{\"zero_optimization\": {" STAGE ", \"offload_optimizer\": {}}}");
#undef HOST
#undef STAGE
#undef HPZ
}
END_TEST

/* A wrong one is named where it stands in the file. */
START_TEST(wrong_format_is_named)
{
  GError *error = NULL;

  ck_assert_ptr_null(launch_read("{ " MICRO "2, \"data_types\": { \"grad_accum_dtype\": \"int7\" } }", "x.json",
                                 &(LaunchOptions) { 8 }, &error));
  ck_assert_str_eq(error->message, "x.json: data_types.grad_accum_dtype: int7: expected fp32, bf16 or fp16");
  g_error_free(error);
}
END_TEST

/* Formats of weights and gradients that are not read may matter; scales of the loss do not. */
START_TEST(formats_are_said)
{
  static const char text[] = "{ " MICRO "2, \"bf16\": { \"enabled\": true, \"bf16_master_weights_and_grads\": true }, "
                             "\"fp16\": { \"loss_scale\": 0, \"fp16_master_weights_and_grads\": true }, "
                             "\"torch_autocast\": { \"enabled\": true } }";
  g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { 8 }, NULL);

  ck_assert_uint_eq(l->not_simulated->len, 1);
  ck_assert_str_eq(l->not_simulated->pdata[0],
                   "buffers, buckets and formats other than the software's usual ones: "
                   "fp16.fp16_master_weights_and_grads, torch_autocast.enabled");
  ck_assert_str_eq(l->ignored->pdata[0], "learning rate and other constants: fp16.loss_scale");
}
END_TEST

/* A step that leaves tokens or layers out takes less: that is no matter of constants. */
START_TEST(what_is_left_out_is_said)
{
  static const char text[] = "{ " MICRO "2, \"seq_parallel_communication_data_type\": \"bf16\", "
                             "\"dataloader_drop_last\": true, "
                             "\"data_efficiency\": { \"data_routing\": { \"random_ltd\": { \"enabled\": true } } }, "
                             "\"curriculum_learning\": { \"enabled\": true }, "
                             "\"progressive_layer_drop\": { \"enabled\": true } }";
  g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { 8 }, NULL);

  ck_assert_uint_eq(l->unknown->len, 0);
  ck_assert_uint_eq(l->not_simulated->len, 2);
  ck_assert_str_eq(l->not_simulated->pdata[0], "tokens and layers that a step leaves out: "
                                        "data_efficiency.data_routing.random_ltd.enabled, "
                                        "curriculum_learning.enabled, progressive_layer_drop.enabled");
  ck_assert_str_eq(l->not_simulated->pdata[1], "buffers, buckets and formats other than the software's usual ones: "
                                        "seq_parallel_communication_data_type");
  ck_assert_str_eq(l->ignored->pdata[0], "learning rate and other constants: dataloader_drop_last");
}
END_TEST

/* What Hugging Face's trainer fills in for "auto" goes by the model's width; of stage 3 alone are the last two. */
START_TEST(auto_goes_by_the_width)
{
  static const char *const keys[] = { "reduce_bucket_size", "stage3_prefetch_bucket_size",
                                      "stage3_param_persistence_threshold" };
  static const char *const values[] = { "16777216", "15099494", "40960" };

  for (int stage = 2; stage <= 3; stage++)
    for (int hidden = 0; hidden <= 4096; hidden += 4096) {
      g_autofree char *text = g_strdup_printf("{ " MICRO "2, \"zero_optimization\": { \"stage\": %d, \"%s\": \"auto\", "
                                              "\"%s\": \"auto\", \"%s\": \"auto\" } }", stage, keys[0], keys[1],
                                              keys[2]);
      g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { .gpus = 8, .hidden = hidden }, NULL);
      g_autoptr(GString) said = g_string_new(NULL);
      for (guint i = 0; i < l->assumed->len; i++)
        g_string_append_printf(said, "%s\n", (char *)l->assumed->pdata[i]);
      for (int k = 0; k < 3; k++) {
        g_autofree char *written = g_strdup_printf("\"%s\": %s\\b", keys[k], values[k]);
        g_autofree char *line = g_strdup_printf("zero_optimization.%s: %s: the file says auto", keys[k],
                                                hidden ? values[k] : "DeepSpeed's own");
        gboolean read = k == 0 || stage == 3;
        ck_assert_msg(g_regex_match_simple(written, l->plan, 0, 0) == (read && hidden > 0), "%s", l->plan);
        ck_assert_msg((strstr(said->str, line) != NULL) == read, "%s", said->str);
      }
    }
}
END_TEST

/* For want of the width, or because the trainer fills in no such key: the reason is the one that holds. */
START_TEST(auto_that_nobody_fills_in_says_why)
{
  static const char text[] = "{ " MICRO "2, \"zero_optimization\": { \"stage\": 3, "
                             "\"stage3_max_live_parameters\": \"auto\", \"reduce_bucket_size\": \"auto\" } }";

  for (int hidden = 0; hidden <= 4096; hidden += 4096) {
    g_autoptr(Launch) l = launch_read(text, "x.json", &(LaunchOptions) { .gpus = 8, .hidden = hidden }, NULL);
    g_autoptr(GString) said = g_string_new(NULL);
    for (guint i = 0; i < l->assumed->len; i++)
      g_string_append_printf(said, "%s\n", (char *)l->assumed->pdata[i]);
    ck_assert_ptr_null(strstr(l->plan, "max_live"));
    ck_assert_msg(strstr(said->str, "stage3_max_live_parameters: DeepSpeed's own: the file says auto, and Hugging "
                         "Face's trainer fills in no such key\n") != NULL, "%s", said->str);
    ck_assert_msg((strstr(said->str, "reduce_bucket_size: DeepSpeed's own: the file says auto, and the model's width "
                          "is not known\n") != NULL) == !hidden, "%s", said->str);
  }
}
END_TEST

/* Lines are of all programs, of which tdp-plan alone has the options that answer them. */
START_TEST(options_stand_apart)
{
  static const struct { const char *starts, *option; } expected[] = {
    { "gpus: 1: ", "--gpus" }, { "seq_length: ", "--seq" }, { "recompute_granularity: ", NULL } };
  g_autoptr(Launch) l = launch_read("{ " MICRO "2 }", "x.json", &(LaunchOptions) { 0 }, NULL);

  ck_assert_uint_eq(l->options->len, l->assumed->len);
  for (gsize k = 0; k < G_N_ELEMENTS(expected); k++) {
    guint i = 0;
    while (i < l->assumed->len && !g_str_has_prefix(l->assumed->pdata[i], expected[k].starts))
      i++;
    ck_assert_msg(i < l->assumed->len, "%s", expected[k].starts);
    ck_assert_pstr_eq(l->options->pdata[i], expected[k].option);
    ck_assert_ptr_null(strstr(l->assumed->pdata[i], "(--"));
  }
}
END_TEST

TEST_LOOPS("launch-deepspeed", { files_say_their_plan, G_N_ELEMENTS(files) }, { formats_are_said, 1 },
           { wrong_format_is_named, 1 }, { auto_goes_by_the_width, 1 },
           { auto_that_nobody_fills_in_says_why, 1 }, { options_stand_apart, 1 },
           { what_is_left_out_is_said, 1 }, { keys_are_added, 1 }, { keys_are_taken_out, 1 })
