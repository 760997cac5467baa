#include "main.h"

#include "base/files.h"
#include "base/json.h"
#include "lib/tdp.h"

#define ASKS_GPT3 "\"model\": \"gpt3\", \"cluster\": \"dgx\", \"gpus\": 64"
#define FEW_PLANS "\"fix\": \"tp=8,schedule=1f1b\""
#define ASKS_FEW_PLANS ASKS_GPT3 ", " FEW_PLANS

static JsonDoc *document(const tdp_answer *a)
{
  GError *error = NULL;

  ck_assert_msg(tdp_status(a) == 0, "%s", tdp_error(a));
  ck_assert_ptr_null(tdp_error(a));
  JsonDoc *doc = json_parse(tdp_json(a), strlen(tdp_json(a)), "answer", &error);
  ck_assert_ptr_nonnull(doc);
  return doc;
}

static double number(const JsonDoc *doc, const char *object, const char *key)
{
  const cJSON *in = object ? json_get(json_root(doc), object) : json_root(doc);
  return json_get(cJSON_IsArray(in) ? in->child : in, key)->valuedouble;
}

/* A plan that is found, simulated as an object, takes what it was said to take. */
START_TEST(plans_are_simulated)
{
  tdp_answer *found = tdp_plan("{" ASKS_FEW_PLANS "}");
  g_autoptr(JsonDoc) doc = document(found);
  char *plan = cJSON_PrintUnformatted(json_get(json_get(json_root(doc), "plans")->child, "plan"));
  g_autofree char *question = g_strdup_printf("{\"model\": \"gpt3\", \"cluster\": \"dgx\", \"plan\": %s}", plan);
  tdp_answer *simulated = tdp_simulate(question);
  g_autoptr(JsonDoc) one = document(simulated);

  ck_assert_double_eq(number(one, NULL, "iteration_s"), number(doc, "plans", "iteration_s"));
  ck_assert_double_eq(number(one, NULL, "peak_memory_bytes"), number(doc, "plans", "peak_memory_bytes"));
  cJSON_free(plan);
  tdp_free(found);
  tdp_free(simulated);
}
END_TEST

/* An adapter of the question: of all plans that are found, and in place of a plan's own. */
START_TEST(adapters_are_taken)
{
  tdp_answer *found = tdp_plan("{" ASKS_FEW_PLANS ", \"adapter\": \"lora:r=8,targets=qkv\", \"top\": 1}");
  g_autoptr(JsonDoc) doc = document(found);
  char *plan = cJSON_PrintUnformatted(json_get(json_get(json_root(doc), "plans")->child, "plan"));
  g_autofree char *question = g_strdup_printf("{\"model\": \"gpt3\", \"cluster\": \"dgx\", \"plan\": %s, "
                                              "\"adapter\": \"lora:r=16,targets=qkv\"}", plan);
  tdp_answer *simulated = tdp_simulate(question);
  g_autoptr(JsonDoc) one = document(simulated);

  ck_assert_double_eq(number(doc, "plans", "trained_parameters"), 96.0 * 8 * (12288 + 3 * 12288));
  ck_assert_double_eq(number(one, NULL, "trained_parameters"), 96.0 * 16 * (12288 + 3 * 12288));
  ck_assert_str_eq(json_get(json_get(json_root(doc), "question"), "adapter")->valuestring, "lora:r=8,targets=qkv");
  cJSON_free(plan);
  tdp_free(found);
  tdp_free(simulated);
}
END_TEST

/* The same bytes each time, also from several threads at once. */
static gpointer asked(gpointer data)
{
  (void)data;
  return tdp_plan(test_stride() > 1 ? "{" ASKS_FEW_PLANS ", \"threads\": 2}"
                                    : "{" ASKS_GPT3 ", \"fix\": \"tp=8\", \"threads\": 2}");
}

START_TEST(threads)
{
  enum { THREADS = 4 };
  GThread *thread[THREADS];
  tdp_answer *first = asked(NULL);

  for (int i = 0; i < THREADS; i++)
    thread[i] = g_thread_new("ask", asked, NULL);
  for (int i = 0; i < THREADS; i++) {
    tdp_answer *a = g_thread_join(thread[i]);
    ck_assert_str_eq(tdp_json(a), tdp_json(first));
    tdp_free(a);
  }
  tdp_free(first);
}
END_TEST

static const struct {
  const char *question;
  int status;
  const char *error;
} wrong[] = {
  { "", 2, "question:1:1: expected a value" },
  { "[]", 2, "question: " },
  { "{", 2, "question:1:2: expected a key" },
  { "{}", 2, "question: model: missing" },
  { "{\"model\": \"gpt3\"}", 2, "question: cluster: missing" },
  { "{\"model\": \"gpt4\", \"cluster\": \"dgx\"}", 2, "did you mean" },
  { "{\"model\": 3, \"cluster\": \"dgx\"}", 2, "question: model: 3: expected a name, a path or an object" },
  { "{\"model\": {\"name\": \"x\"}, \"cluster\": \"dgx\"}", 2, "model: layers: missing" },
  { "{" ASKS_GPT3 ", \"gpuz\": 1}", 2, "question: gpuz: unknown key, did you mean \"gpus\"?" },
  { "{" ASKS_GPT3 ", \"seq_length\": 0}", 2, "question: seq_length: 0" },
  { "{" ASKS_GPT3 ", \"fix\": \"tp=x\"}", 2, "--fix" },
  { "{" ASKS_GPT3 ", \"adapter\": \"lora:r=x\"}", 2, "--adapter: lora:r=x: expected r=N" },
  { "{" ASKS_GPT3 ", \"question\": \"why\"}", 2, "--question: why" },
  { "{" ASKS_GPT3 ", \"question\": \"training\"}", 2, "expected --tokens" },
  { "{" ASKS_GPT3 ", \"question\": \"scaling\", \"pareto\": \"time,memory\"}", 2, "expected one of" },
  { "{" ASKS_GPT3 ", \"power_limit\": 0}", 2, "question: power_limit: 0" },
  { "{" ASKS_GPT3 ", \"power_limit\": 1000}", 2, "1000: expected 200 to 400 W of the device" },
  { "{" ASKS_GPT3 ", \"question\": \"training\", \"tokens\": 1e12, \"spares\": -1}", 2, "question: spares: -1" },
  { "{" ASKS_GPT3 ", \"why_not\": \"tp=x\"}", 2, "why-not" },
  { "{" ASKS_GPT3 ", \"question\": \"training\", \"tokens\": 1e12, \"operations\": \"none\"}", 2, "known are" },
  { "{\"model\": \"gpt3\", \"cluster\": \"dgx\", \"gpus\": 8}", 3, "no plan fits" },
};

/* One line, with what is wrong; no document. */
START_TEST(questions_are_refused)
{
  tdp_answer *a = tdp_plan(wrong[_i].question);

  ck_assert_int_eq(tdp_status(a), wrong[_i].status);
  ck_assert_msg(strstr(tdp_error(a), wrong[_i].error) != NULL, "%s", tdp_error(a));
  ck_assert_ptr_null(strchr(tdp_error(a), '\n'));
  ck_assert_ptr_null(tdp_json(a));
  tdp_free(a);
}
END_TEST

START_TEST(questions_of_all_kinds)
{
  static const char *const kinds[] = {
    "\"question\": \"scaling\", " FEW_PLANS, "\"question\": \"training\", \"tokens\": 3e11, " FEW_PLANS,
    "\"pareto\": \"time,memory\", " FEW_PLANS,
    "\"why_not\": \"tp=1\"", "\"exact\": true, \"top\": 2, \"price\": 2.5, \"memory_margin\": 0.2, " FEW_PLANS,
  };
  g_autofree char *question = g_strdup_printf("{" ASKS_GPT3 ", %s}", kinds[_i]);
  tdp_answer *a = tdp_plan(question);
  g_autoptr(JsonDoc) doc = document(a);

  ck_assert(g_str_has_prefix(json_get(json_root(doc), "schema")->valuestring, "tdp-plan-"));
  tdp_free(a);
}
END_TEST

static const struct {
  const char *question;
  int status;
  const char *error;
} not_simulated[] = {
  { "", 2, "question:1:1: expected a value" },
  { "{\"model\": \"tiny\", \"cluster\": \"dgx\"}", 2, "question: plan: missing" },
  { "{\"model\": \"tiny\", \"cluster\": 7, \"plan\": \"tiny-1f1b\"}", 2,
    "question: cluster: 7: expected a name, a path or an object" },
  { "{\"model\": \"tiny\", \"cluster\": {\"name\": \"x\"}, \"plan\": \"tiny-1f1b\"}", 2, "cluster: " },
  { "{\"model\": \"tiny\", \"cluster\": \"dgx\", \"plan\": true}", 2,
    "question: plan: true: expected a name, a path or an object" },
  { "{\"model\": \"tiny\", \"cluster\": \"dgx\", \"plan\": {\"pp\": 2}}", 2, "plan: " },
  { "{\"model\": \"tiny\", \"cluster\": \"dgx\", \"plan\": \"tiny-1f1b\", \"adapter\": \"lora:r=x\"}", 2,
    "lora:r=x" },
  { "{\"model\": \"tiny\", \"cluster\": \"dgx\", \"plan\": \"tiny-1f1b\", \"power_limit\": 1000}", 2,
    "1000: expected" },
};

START_TEST(simulations_are_refused)
{
  tdp_answer *a = tdp_simulate(not_simulated[_i].question);

  ck_assert_int_eq(tdp_status(a), not_simulated[_i].status);
  ck_assert_msg(strstr(tdp_error(a), not_simulated[_i].error) != NULL, "%s", tdp_error(a));
  ck_assert_ptr_null(strchr(tdp_error(a), '\n'));
  ck_assert_ptr_null(tdp_json(a));
  tdp_free(a);
}
END_TEST

static char *text_of(const char *below)
{
  g_autofree char *path = files_data_path(below);
  char *text = NULL;

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  return text;
}

/* What a name stands for may stand in its place. */
START_TEST(names_are_as_objects)
{
  g_autofree char *model = text_of("models/tiny.json"), *cluster = text_of("hardware/dgx.json");
  g_autofree char *plan = text_of("plans/tiny-1f1b.json");
  g_autofree char *question = g_strdup_printf("{\"model\": %s, \"cluster\": %s, \"plan\": %s}", model, cluster, plan);
  tdp_answer *of_names = tdp_simulate("{\"model\": \"tiny\", \"cluster\": \"dgx\", \"plan\": \"tiny-1f1b\"}");
  tdp_answer *of_objects = tdp_simulate(question);

  ck_assert_msg(tdp_status(of_objects) == 0, "%s", tdp_error(of_objects));
  ck_assert_str_eq(tdp_json(of_names), tdp_json(of_objects));
  tdp_free(of_names);
  tdp_free(of_objects);
}
END_TEST

static int said;

static void count_said(const gchar *text)
{
  (void)text;
  said++;
}

/* What ends early says so in its answer: stderr is the caller's. */
START_TEST(stderr_is_left_alone)
{
  g_set_printerr_handler(count_said);
  tdp_answer *a = tdp_plan("{" ASKS_GPT3 ", \"time_limit\": 1e-6}");
  g_set_printerr_handler(NULL);

  ck_assert_int_eq(tdp_status(a), 1);
  ck_assert_msg(strstr(tdp_error(a), "stopped before any plan") != NULL, "%s", tdp_error(a));
  ck_assert_int_eq(said, 0);
  tdp_free(a);
}
END_TEST

START_TEST(nothing_is_asked)
{
  ck_assert_int_eq(tdp_status(NULL), 1);
  ck_assert_ptr_null(tdp_json(NULL));
  ck_assert_ptr_null(tdp_error(NULL));
  ck_assert(g_ascii_isdigit(tdp_version()[0]));
  tdp_free(NULL);
  ck_assert_int_eq(tdp_abi(), TDP_ABI);
  tdp_answer *a = tdp_simulate("{\"model\": \"gpt3\", \"cluster\": \"dgx\", \"plan\": \"none\"}");
  ck_assert_int_eq(tdp_status(a), 2);
  tdp_free(a);
}
END_TEST

TEST_LOOPS("lib", { plans_are_simulated }, { adapters_are_taken },
           { threads }, { questions_are_refused, G_N_ELEMENTS(wrong) },
           { questions_of_all_kinds, 5 }, { stderr_is_left_alone }, { nothing_is_asked },
           { simulations_are_refused, G_N_ELEMENTS(not_simulated) }, { names_are_as_objects })
