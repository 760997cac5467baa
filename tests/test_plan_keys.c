/* The table of a plan's keys: whole, and true in what it says of each. */
#include "main.h"

#include "base/files.h"
#include "fixture.h"
#include "plan/keys.h"

#include <string.h>

START_TEST(rows_are_whole)
{
  const char *object = NULL;
  int rows[KEY_COUNT] = { 0 };

  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    gboolean listed = key->field.type == JSON_ANY || key->field.type == JSON_STRING;
    ck_assert_msg(key->meaning, "%s: no words for docs/plan.md", key->field.key);
    ck_assert_msg(!listed || key->unit, "%s: no form", key->field.key);
    ck_assert_msg(!key->fix || (key->id && key->shorter), "%s: --fix cannot say it", key->field.key);
    ck_assert_msg(!key->object || g_strcmp0(key->object, object) == 0, "%s: not behind %s", key->field.key, key->object);
    ck_assert_msg(key->id == KEY_OTHER || ++rows[key->id] == 1, "%s: a second row", key->field.key);
    object = key->object ? object : key->field.key;
  }
  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    ck_assert_int_eq(rows[id], 1);
    gboolean beside = id == KEY_RECOMPUTE_LAYERS || id == KEY_RECOMPUTE_MODULES || id == KEY_GRAPH_MODULES; /* with others */
    ck_assert(beside || plan_key_of(id)->shorter);
  }
}
END_TEST

static const char *const plans[] = {
  "{\"gpus\": 16, \"global_batch_size\": 64}",
  "{\"gpus\": 16, \"global_batch_size\": 64, \"tensor_model_parallel_size\": 2, \"zero_stage\": 1, "
  "\"pipeline_model_parallel_size\": 4, \"virtual_pipeline_model_parallel_size\": 2}",
  "{\"gpus\": 16, \"global_batch_size\": 64, \"zero_stage\": 3, \"framework\": \"deepspeed\", "
  "\"recompute_granularity\": \"full\"}",
  "{\"gpus\": 16, \"global_batch_size\": 64, \"context_parallel_size\": 2, \"tensor_model_parallel_size\": 2, "
  "\"sequence_parallel\": true, \"zero_stage\": 1, \"recompute_granularity\": \"selective\"}",
  "{\"gpus\": 16, \"global_batch_size\": 64, \"expert_model_parallel_size\": 4, \"zero_stage\": 1, "
  "\"framework\": \"megatron-core-2026\"}",
};

/* The i-th value to try for a key; FALSE behind the last. */
static gboolean set_value(const PlanKey *key, int i, Plan *plan)
{
  static const double numbers[] = { 0, 1, 2, 3, 4, 8, 1e6 };
  gpointer slot = G_STRUCT_MEMBER_P(plan, key->field.offset);
  int names = key->field.names ? (int)g_strv_length((char **)key->field.names) : 2;

  if (key->field.type == JSON_BOOL || key->field.type == JSON_ENUM) {
    *(int *)slot = i;
    return i < names;
  }
  if (i == (int)G_N_ELEMENTS(numbers))
    return FALSE;
  double value = CLAMP(numbers[i], key->field.min, key->field.max);
  if (key->field.type == JSON_REAL)
    *(double *)slot = value;
  else
    *(int *)slot = (int)value;
  return TRUE;
}

/* Keys of one number that stand in Plan as they do in a file. */
static gboolean is_plain(const PlanKey *key)
{
  return key->field.type != JSON_ANY && key->field.offset < sizeof(Plan);
}

/* No rule of a part reads keys of a later one, nor rules of states those of passes, as plan.h says; what passes
 * keep on the host is read by both. */
START_TEST(parts_read_their_own_keys)
{
  g_autoptr(Model) model = fixture_known_model(strstr(plans[_i], "expert") ? "mixtral-8x7b" : "llama-3.1-8b");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 16);
  Framework *framework = NULL;
  Plan plan;
  int compared = 0;

  ck_assert(plan_parse(plans[_i], strlen(plans[_i]), "plan", model, &plan, &framework, NULL));
  ck_assert_int_eq(plan_check(&plan, model, cluster, NULL), RULE_NONE);
  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    Plan other = plan;
    for (int i = 0; is_plain(key) && set_value(key, i, &other); i++)
      for (PlanPart part = PLAN_DEGREES; part <= PLAN_STATES; part++) {
        gboolean reads = part == key->part || (key->part < PLAN_PASSES && part > key->part) ||
                         g_strcmp0(key->object, "offload") == 0 || key->id == KEY_OFFLOAD_LAYERS;
        compared += !reads;
        ck_assert_msg(reads || plan_check_part(&other, model, cluster, part) == RULE_NONE,
                      "%s, value %d: read by rules of part %d", key->field.key, i, part);
      }
  }
  ck_assert_int_gt(compared, 400);
  framework_free(framework);
}
END_TEST

/* What differs from the default is written, and reads back; where degrees are 1, 1 is one of them. */
START_TEST(values_are_written)
{
  g_autoptr(Model) model = fixture_known_model("llama-3.1-8b");
  int written = 0;

  for (const PlanKey *key = plan_keys; key->field.key; key++)
    for (int i = 0; is_plain(key); i++) {
      Framework *framework = NULL, *again = NULL;
      g_autoptr(GString) text = g_string_new(NULL);
      JsonWriter w;
      Plan plan, read;
      ck_assert(plan_parse("{}", 2, "plan", model, &plan, &framework, NULL));
      const Plan usual = plan;
      gboolean more = set_value(key, i, &plan);
      gboolean differs = memcmp(&plan, &usual, sizeof plan) != 0 &&
                         (key->field.type != JSON_INT || G_STRUCT_MEMBER(int, &plan, key->field.offset) != 1);
      json_writer_init(&w, text);
      plan_write(&plan, &w, NULL);
      g_autofree char *name = g_strdup_printf("\"%s\"", key->field.key);
      if (more && differs && !key->matters) {
        ck_assert_msg(strstr(text->str, name), "%s: value %d is not written", key->field.key, i);
        ck_assert(plan_parse(text->str, text->len, "plan", model, &read, &again, NULL));
        gsize size = key->field.type == JSON_REAL ? sizeof(double) : sizeof(int), at = key->field.offset;
        ck_assert_msg(memcmp((char *)&read + at, (char *)&plan + at, size) == 0, "%s: value %d reads otherwise",
                      key->field.key, i);
        written++;
      }
      framework_free(framework);
      g_clear_pointer(&again, framework_free);
      if (!more)
        break;
    }
  ck_assert_int_gt(written, 100);
}
END_TEST

/* The manual page names what --fix takes. */
START_TEST(fixable_keys_are_in_the_manual)
{
  g_autofree char *path = files_data_path("docs/man/tdp-plan.1"), *text = NULL;

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    g_autofree char *word = key->fix ? g_strdup_printf(".B %s\n", key->shorter) : NULL;
    ck_assert_msg(!word || strstr(text, word), "%s: not in %s", key->shorter, path);
  }
}
END_TEST

TEST_LOOPS("plan keys", { rows_are_whole, 1 }, { parts_read_their_own_keys, G_N_ELEMENTS(plans) },
           { values_are_written, 1 }, { fixable_keys_are_in_the_manual, 1 })
