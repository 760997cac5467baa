#include <glib/gstdio.h>

#include "base/files.h"
#include "base/json.h"
#include "main.h"
#include "plan/keys.h"
#include "planned.h"

static void setup(Planned *f, int devices)
{
  planned_init(f, fixture_model(12, 512, 8, 128, 1000), fixture_cluster("dgx", devices), "megatron-core");
  f->plan.gpus = devices;
}

START_TEST(rules_name_their_numbers)
{
  Planned f;

  setup(&f, 16);
  planned_refuse(&f, RULE_GPUS, "plan: gpus: 16: expected tensor 1 x pipeline 1 x context 1 x data 1 = 1");
  f.plan.dp = 16;
  f.plan.global_batch = 24;
  planned_refuse(&f, RULE_BATCH, "plan: global_batch_size: 24: expected a multiple of data_parallel_size 16 x "
                                 "micro_batch_size 1");
  f.plan.global_batch = 48;
  f.plan.tp = 16;
  f.plan.dp = 1;
  planned_refuse(&f, RULE_HEADS, "plan: tensor_model_parallel_size: 16: expected a divisor of the 8 attention heads");
  f.plan.tp = 2;
  f.plan.pp = 8;
  planned_refuse(&f, RULE_LAYERS, "plan: pipeline_model_parallel_size: 8: expected 12 layers to divide by 8 stages, or "
                                  "a layer_split");
  f.plan.pp = 4;
  f.plan.dp = 2;
  f.plan.schedule = schedule_find("interleaved");
  planned_refuse(&f, RULE_SCHEDULE, "plan: pipeline_schedule: schedule interleaved needs 2 or more chunks a pipeline "
                                    "rank, the plan has 1");
  f.plan.schedule = schedule_find("1f1b");
  f.plan.tp = 1;
  f.plan.dp = 4;
  f.plan.sequence_parallel = TRUE;
  planned_refuse(&f, RULE_SEQUENCE_PARALLEL, "plan: sequence_parallel: true: expected tensor_model_parallel_size above "
                                             "1, it is 1");
  f.plan.sequence_parallel = FALSE;
  planned_accept(&f);
  f.cluster->device.peak_flops_per_s[DTYPE_BF16] = 0;
  planned_refuse(&f, RULE_PRECISION, "plan: precision: \"bf16\": expected a format that a100-sxm4-80gb supports "
                                     "(fp32, tf32, fp16)");
  planned_clear(&f);
}
END_TEST

START_TEST(devices_must_match)
{
  Planned f;

  setup(&f, 16);
  f.plan.gpus = f.plan.dp = 8;
  f.plan.global_batch = 8;
  planned_refuse(&f, RULE_GPUS, "plan: gpus: 8: expected the 16 devices of cluster dgx");
  planned_clear(&f);
}
END_TEST

/* Steps are simulated pass by pass: as many as that, and no more. */
START_TEST(steps_have_an_end)
{
  Planned f;

  setup(&f, 8);
  f.plan.dp = 8;
  f.plan.global_batch = 8 * 65536;
  planned_accept(&f);
  f.plan.global_batch = 8 * 65537;
  planned_refuse(&f, RULE_SCHEDULE, "plan: global_batch_size: 524296: expected at most 65536 micro-batches a step to "
                                    "simulate, they are 65537");
  f.plan.zero = 2; /* whose passes are 12 layers' each */
  f.plan.global_batch = 8 * 43690;
  planned_accept(&f);
  f.plan.global_batch = 8 * 43691;
  planned_refuse(&f, RULE_SCHEDULE, "plan: global_batch_size: 349528: expected at most 524288 passes a step to "
                                    "simulate, 43691 micro-batches make 524292");
  planned_clear(&f);
}
END_TEST

static gboolean parse(const char *text, const Model *model, Plan *plan, Framework **framework, GError **error)
{
  return plan_parse(text, strlen(text), "p.json", model, plan, framework, error);
}

/* A machine of one device, as tdp-calibrate writes it for one rank: nothing joins it to others. */
START_TEST(one_device_has_no_links)
{
  static const char alone[] =
      "{\"name\": \"alone\", \"nodes\": 1, \"source\": \"default: a test\", \"server\": {\"name\": \"s\", \"gpu\": "
      "\"a100-sxm4-80gb\", \"devices_per_node\": 1, \"source\": \"default: a test\"}}";
  GError *error = NULL;
  Cluster *cluster = cluster_parse(alone, strlen(alone), "alone.json", &error);
  Planned p;

  ck_assert_msg(cluster, "%s", error ? error->message : "");
  planned_init(&p, fixture_model(8, 512, 8, 128, 1024), cluster, "megatron-core");
  p.plan.gpus = 1;
  ck_assert_double_gt(planned_run(&p).iteration_s, 0);
  planned_clear(&p);
}
END_TEST

START_TEST(defaults_follow)
{
  g_autoptr(Model) model = fixture_model(12, 512, 8, 128, 1000);
  g_autoptr(Framework) framework = NULL;
  Plan p;

  ck_assert(parse("{\"gpus\": 16, \"tensor_model_parallel_size\": 4, \"pipeline_model_parallel_size\": 2}", model, &p,
                  &framework, NULL));
  ck_assert_int_eq(p.dp, 2);
  ck_assert_int_eq(p.vpp, 1);
  ck_assert_int_eq(p.seq, 128);
  ck_assert_str_eq(p.schedule->name, "1f1b");
  ck_assert_str_eq(p.framework->name, FRAMEWORK_USUAL);
  ck_assert(p.overlap.gradients && p.precision == DTYPE_BF16 && p.attention == ATTENTION_FLASH3);
}
END_TEST

START_TEST(chunks_mean_interleaved)
{
  g_autoptr(Model) model = fixture_model(12, 512, 8, 128, 1000);
  g_autoptr(Framework) framework = NULL;
  Plan p;

  ck_assert(parse("{\"pipeline_model_parallel_size\": 2, \"virtual_pipeline_model_parallel_size\": 3,"
                  "\"data_parallel_size\": 4}", model, &p, &framework, NULL));
  ck_assert_int_eq(p.gpus, 8);
  ck_assert_str_eq(p.schedule->name, "interleaved");
}
END_TEST

typedef struct {
  const char *text, *message;
} Bad;

static const Bad bad_files[] = {
  { "{\"zero_stage\": 4}", "p.json: zero_stage: 4: expected an integer from 0 to 3" },
  { "{\"zero_stage\": \"1\"}", "p.json: zero_stage: \"1\": expected an integer from 0 to 3" },
  { "{\"gpus\": 0}", "p.json: gpus: 0: expected an integer from 1 to 10000000" },
  { "{\"tensor_parallel_size\": 2}", "p.json: tensor_parallel_size: unknown key, did you mean "
                                     "\"tensor_model_parallel_size\"?" },
  { "{\"recompute_granularity\": \"some\"}",
    "p.json: recompute_granularity: \"some\": expected one of none, selective, full" },
  { "{\"overlap\": {\"gradient\": true}}", "p.json: overlap.gradient: unknown key, did you mean \"gradients\"?" },
  { "{\"sequence_parallel\": 1}", "p.json: sequence_parallel: 1: expected true or false" },
};

START_TEST(bad_files_are_refused)
{
  g_autoptr(Model) model = fixture_model(12, 512, 8, 128, 1000);
  Framework *framework = NULL;
  GError *error = NULL;
  Plan p;

  ck_assert(!parse(bad_files[_i].text, model, &p, &framework, &error));
  ck_assert_ptr_null(framework);
  test_error(&error, 2, bad_files[_i].message);
}
END_TEST

START_TEST(unknown_schedules_are_refused)
{
  g_autoptr(Model) model = fixture_model(12, 512, 8, 128, 1000);
  Framework *framework = NULL;
  GError *error = NULL;
  Plan p;

  ck_assert(!parse("{\"pipeline_schedule\": \"zigzag\"}", model, &p, &framework, &error));
  ck_assert(g_str_has_prefix(error->message, "p.json: pipeline_schedule: \"zigzag\": expected one of naive, gpipe, "
                                             "1f1b"));
  g_clear_error(&error);
}
END_TEST

/* Schedules that need a number of chunks have it as default. */
START_TEST(chunks_follow_the_schedule)
{
  g_autoptr(Model) model = fixture_model(16, 512, 8, 128, 1000);
  g_autoptr(Framework) framework = NULL;
  Plan p;

  ck_assert(parse("{\"pipeline_model_parallel_size\": 4, \"pipeline_schedule\": \"zb-v\"}", model, &p, &framework,
                  NULL));
  ck_assert_int_eq(p.vpp, 2);
}
END_TEST

/* Plans that differ in ZeRO++ alone have labels that differ. */
START_TEST(labels_name_what_is_sharded_beside)
{
  static const char *const said[][2] = {
    { "", "zero 3, micro-batch" },
    { ", \"zero_optimization\": {\"zero_hpz_partition_size\": 4}", "zero 3, hpz 4, micro-batch" },
    { ", \"zero_optimization\": {\"zero_quantized_weights\": true}", "zero 3, quantized weights, micro-batch" },
    { ", \"zero_optimization\": {\"zero_quantized_gradients\": true}", "zero 3, quantized gradients, micro-batch" },
    { ", \"zero_optimization\": {\"zero_quantized_weights\": true, \"zero_quantized_gradients\": true}",
      "zero 3, quantized weights and gradients, micro-batch" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(said); i++) {
    g_autoptr(Model) model = fixture_model(16, 512, 8, 128, 1000);
    g_autoptr(Framework) framework = NULL;
    GError *error = NULL;
    Plan p;
    g_autofree char *text = g_strdup_printf("{\"data_parallel_size\": 8, \"zero_stage\": 3, "
                                            "\"framework\": \"deepspeed\"%s}", said[i][0]);
    ck_assert_msg(parse(text, model, &p, &framework, &error), "%s", error ? error->message : "");
    g_autofree char *label = plan_label(&p);
    ck_assert_msg(strstr(label, said[i][1]) != NULL, "%s", label);
  }
}
END_TEST

/* What is written reads back as the same plan. */
START_TEST(round_trip)
{
  Planned f;
  g_autoptr(GString) text = g_string_new(NULL);
  g_autoptr(Framework) framework = NULL;
  JsonWriter w;
  Plan back;

  setup(&f, 16);
  f.plan.tp = 2;
  f.plan.pp = 2;
  f.plan.vpp = 3;
  f.plan.dp = 4;
  f.plan.global_batch = 64;
  f.plan.zero = 2;
  f.plan.recompute = RECOMPUTE_FULL;
  f.plan.sequence_parallel = TRUE;
  f.plan.precision = DTYPE_FP16;
  f.plan.overlap.pipeline = FALSE;
  f.plan.schedule = schedule_find("interleaved");
  json_writer_init(&w, text);
  plan_write(&f.plan, &w, NULL);
  ck_assert(parse(text->str, f.model, &back, &framework, NULL));
  back.framework = f.plan.framework;
  ck_assert_mem_eq(&back, &f.plan, sizeof back);
  planned_clear(&f);
}
END_TEST

START_TEST(mesh_counts_tensor_fastest)
{
  Plan p = { .gpus = 24, .tp = 2, .cp = 1, .dp = 3, .pp = 4, .ep = 1 };
  int c[AXIS_COUNT];

  for (int rank = 0; rank < 24; rank++) {
    mesh_coordinates(MESH(&p), rank, c);
    ck_assert_int_eq(mesh_rank(MESH(&p), c), rank);
  }
  mesh_coordinates(MESH(&p), 9, c);
  ck_assert(c[AXIS_TENSOR] == 1 && c[AXIS_DATA] == 1 && c[AXIS_PIPELINE] == 1);
  ck_assert_int_eq(MESH(&p)->dense[AXIS_PIPELINE].stride, 6);
}
END_TEST

/* On nodes of 8: tensor groups inside, data groups across, stages 16 apart. */
START_TEST(mesh_shapes)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 128);
  Plan p = { .gpus = 128, .tp = 4, .cp = 1, .dp = 4, .pp = 8, .ep = 1 };
  GroupShape tensor = mesh_group(MESH(&p), cluster, AXIS_TENSOR), data = mesh_group(MESH(&p), cluster, AXIS_DATA);
  GroupShape pair = mesh_pair(MESH(&p), cluster, 0, 1);

  ck_assert(tensor.size == 4 && tensor.per_domain[0] == 4);
  ck_assert(data.size == 4 && data.per_domain[0] == 2);
  ck_assert(pair.size == 2 && pair.per_domain[0] == 1);
  p = (Plan) { .gpus = 8, .tp = 2, .cp = 1, .dp = 1, .pp = 4, .ep = 1 };
  pair = mesh_pair(MESH(&p), cluster, 0, 1);
  ck_assert(pair.per_domain[0] == 2);
  p = (Plan) { .gpus = 16, .tp = 1, .cp = 1, .dp = 2, .pp = 8, .ep = 1 };
  ck_assert(mesh_pair(MESH(&p), cluster, 2, 3).per_domain[0] == 2);
  ck_assert(mesh_pair(MESH(&p), cluster, 3, 4).per_domain[0] == 1);
  ck_assert(mesh_pair(MESH(&p), cluster, 0, 7).per_domain[0] == 1);
}
END_TEST

START_TEST(stages_hold_all_layers)
{
  Planned f;

  setup(&f, 4);
  f.plan.pp = 2;
  f.plan.vpp = 3;
  ck_assert_int_eq(plan_stage_first_layer(&f.plan, f.model, 0), 0);
  ck_assert_int_eq(plan_stage_first_layer(&f.plan, f.model, 1), 3);
  ck_assert_int_eq(plan_stage_first_layer(&f.plan, f.model, 5), 11);
  ck_assert_int_eq(plan_stage_first_layer(&f.plan, f.model, 6), 14);
  planned_clear(&f);
}
END_TEST

START_TEST(unknown_framework)
{
  GError *error = NULL;

  ck_assert_ptr_null(framework_load("nosuch", &error));
  ck_assert(g_str_has_prefix(error->message, "framework: nosuch: expected a file of plans/frameworks/"));
  g_clear_error(&error);
}
END_TEST

/* Names of tools are no files: each is answered with the newest description of what it runs. */
START_TEST(frameworks_of_tools_are_meant)
{
  static const struct {
    const char *tool, *begin;
  } said[] = { { "primus", "megatron-core-20" }, { "Megatron-LM", "megatron-core-20" }, { "nemo", "nemo-20" },
               { "megatron-bridge", "nemo-20" }, { "accelerate", "fsdp\"" } };

  for (gsize i = 0; i < G_N_ELEMENTS(said); i++) {
    GError *error = NULL;
    ck_assert_ptr_null(framework_load(said[i].tool, &error));
    const char *meant = strstr(error->message, "; did you mean \"");
    ck_assert(meant && g_str_has_prefix(meant + strlen("; did you mean \""), said[i].begin));
    g_auto(GStrv) parts = g_strsplit(meant, "\"", -1);
    ck_assert(framework_exists(parts[1]));
    g_clear_error(&error);
  }
}
END_TEST

/* The plan's file and key are named, also where it is the framework's file that cannot be read. */
START_TEST(frameworks_of_plans_are_refused)
{
  static const char *const said[][2] = {
    { "{\"framework\": \"nosuch\"}", "p: framework: nosuch: expected a file of plans/frameworks/" },
    { "{\"framework\": \"./COPYING\"}", "p: framework: ./COPYING:1:21: expected a value" },
  };
  g_autoptr(Model) model = model_load("models/tiny.json", NULL);
  Framework *framework = NULL;
  GError *error = NULL;
  Plan plan;

  for (gsize i = 0; i < G_N_ELEMENTS(said); i++) {
    ck_assert(!plan_parse(said[i][0], strlen(said[i][0]), "p", model, &plan, &framework, &error));
    ck_assert_msg(g_str_has_prefix(error->message, said[i][1]), "%s", error->message);
    g_clear_error(&error);
  }
}
END_TEST

/* At least three words beside the key itself; what nobody read begins with "default: ", and is spelled no other way. */
static gboolean is_reason(const char *key, const char *reason)
{
  g_auto(GStrv) words = g_strsplit_set(reason, " ", -1);
  int said = 0;

  for (char **word = words; *word; word++)
    said += **word != '\0' && !g_str_equal(*word, key);
  return said >= 3 && !g_str_has_prefix(reason, "a default") &&
         (!g_str_has_prefix(reason, "default") || g_str_has_prefix(reason, "default: "));
}

/* "FILE: KEY" of the first value without a reason, or reason without a value; NULL = none. Newly allocated. */
static char *find_unsourced(const char *file, const cJSON *object)
{
  static const char *const own[] = { "name", "like", "description", "unstated", "source", NULL };
  const cJSON *source = json_get(object, "source");

  for (const cJSON *item = object->child; item; item = item->next) {
    const cJSON *reason = json_get(source, item->string);
    gboolean said = cJSON_IsString(reason) && is_reason(item->string, reason->valuestring);
    if (g_str_equal(item->string, "unstated")) {
      char *inside = find_unsourced(file, item);
      if (inside)
        return inside;
    }
    if (!g_strv_contains(own, item->string) && !said)
      return g_strdup_printf("%s: %s", file, item->string);
  }
  for (const cJSON *item = source ? source->child : NULL; item; item = item->next)
    if (!json_get(object, item->string))
      return g_strdup_printf("%s: source.%s", file, item->string);
  return NULL;
}

/* Every value of a description, not numbers alone, says where it comes from, or that it is a default. */
START_TEST(every_value_has_a_source)
{
  g_autofree char *folder = files_data_path("plans/frameworks");
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  const char *file;
  int files = 0;

  ck_assert_ptr_nonnull(dir);
  while ((file = g_dir_read_name(dir))) {
    g_autofree char *path = g_build_filename(folder, file, NULL);
    g_autoptr(JsonDoc) doc = json_load(path, NULL);
    ck_assert_msg(doc != NULL, "%s", file);
    g_autofree char *unsourced = find_unsourced(file, json_root(doc));
    ck_assert_msg(!unsourced, "%s", unsourced);
    files++;
  }
  ck_assert_int_gt(files, 40);
}
END_TEST

START_TEST(a_value_without_source_is_found)
{
  static const struct {
    const char *text, *found;
  } rows[] = {
    { "{\"name\": \"f\", \"like\": \"a\", \"description\": \"d\", \"source\": {}}", NULL },
    { "{\"fused_rope\": true, \"source\": {}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"\"}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": 1}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"none then\"}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"fused_rope is  on\"}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"a default: as others have it\"}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"default as others have it\"}}", "f: fused_rope" },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"default: as others\"}}", NULL },
    { "{\"fused_rope\": true, \"source\": {\"fused_rope\": \"on in 2.0\"}}", NULL },
    { "{\"source\": {\"fused_rope\": \"none\"}}", "f: source.fused_rope" },
    { "{\"unstated\": {\"vocab\": 1, \"source\": {}}, \"source\": {}}", "f: vocab" },
  };
  g_autoptr(JsonDoc) doc = json_parse(rows[_i].text, strlen(rows[_i].text), "f", NULL);
  g_autofree char *found = find_unsourced("f", json_root(doc));

  ck_assert_pstr_eq(found, rows[_i].found);
}
END_TEST

/* Choices go by either name, and not by both. */
START_TEST(choices_have_an_older_name)
{
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "f.json", NULL);
  static const char *const texts[] = { "\"choices\": [\"partition_activations\"]",
                                       "\"sharding_options\": [\"partition_activations\"]",
                                       "\"choices\": [], \"sharding_options\": []" };

  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    GError *error = NULL;
    g_autofree char *text = g_strdup_printf("{\"name\": \"f\", \"like\": \"deepspeed\", %s, \"source\": {}}",
                                             texts[i]);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    Framework *f = framework_load(path, &error);
    ck_assert_int_eq(f != NULL, i < 2);
    ck_assert(i == 2 ? strstr(error->message, "sharding_options: []: expected none, where choices") != NULL
                     : f->choices == 1u << CHOICE_PARTITION);
    g_clear_error(&error);
    framework_free(f);
  }
  ck_assert_int_eq(g_unlink(path), 0);
  ck_assert_int_eq(g_rmdir(folder), 0);
}
END_TEST

TEST_LOOPS("plan", { rules_name_their_numbers },
           { devices_must_match },
           { steps_have_an_end },
           { one_device_has_no_links },
           { defaults_follow },
           { chunks_mean_interleaved },
           { bad_files_are_refused, G_N_ELEMENTS(bad_files) },
           { unknown_schedules_are_refused },
           { chunks_follow_the_schedule },
           { labels_name_what_is_sharded_beside },
           { round_trip },
           { mesh_counts_tensor_fastest },
           { mesh_shapes },
           { stages_hold_all_layers },
           { every_value_has_a_source }, { a_value_without_source_is_found, 12 },
           { unknown_framework }, { frameworks_of_tools_are_meant }, { frameworks_of_plans_are_refused },
           { choices_have_an_older_name })
