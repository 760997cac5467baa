/* Exports mean what their targets' parsers resolved them to. tests/data/interop.json holds plans of which `make interop`
 * found every field of the meaning equal, what was resolved, and the sum of the file that was read, so that a file that
 * no parser has read is seen here. */
#include "main.h"

#include "interop.h"

#include <math.h>

#define FILE_NAME "tests/data/interop.json"

static JsonDoc *recorded(void)
{
  GError *error = NULL;
  JsonDoc *doc = json_load(FILE_NAME, &error);

  ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
  return doc;
}

static const char *text_of(const cJSON *entry, const char *key)
{
  const cJSON *item = json_get(entry, key);

  ck_assert_msg(cJSON_IsString(item), "%s: expected text", key);
  return item->valuestring;
}

static gboolean alike(const cJSON *a, const cJSON *b)
{
  if (cJSON_IsNumber(a) && cJSON_IsNumber(b))
    return fabs(a->valuedouble - b->valuedouble) <= 1e-9 + 1e-6 * fabs(a->valuedouble);
  if (cJSON_IsString(a) && g_str_equal(a->valuestring, "adamw"))
    return cJSON_IsString(b) && (g_str_equal(b->valuestring, "adam") || g_str_equal(b->valuestring, "adamw"));
  return cJSON_Compare(a, b, TRUE) || (cJSON_IsString(a) && cJSON_IsString(b) && g_str_equal(a->valuestring, "adam") &&
                                       g_str_equal(b->valuestring, "adamw"));
}

static JsonDoc *meaning_of(const Drawn *d)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  interop_meaning(d, &w);
  json_close(&w, '}');
  return json_parse(text->str, text->len, "meaning", NULL);
}

static char *sum_of(const Drawn *d, const char *target)
{
  const Exporter *exporter = exporter_find(target);
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *text = export_plan(exporter, d->model, d->cluster, &d->plan, losses, NULL);
  g_autofree char *body = text ? interop_body(exporter, text) : g_strdup("");

  ck_assert_msg(text && losses->len == 0, "%s: %s: lossless when it was recorded", target, d->text);
  return g_compute_checksum_for_string(G_CHECKSUM_SHA256, body, -1);
}

static void check_entry(const cJSON *entry)
{
  const char *target = text_of(entry, "target"), *plan = text_of(entry, "plan");
  Drawn d = interop_take(text_of(entry, "model"), plan);
  g_autoptr(JsonDoc) meaning = meaning_of(&d);
  g_autofree char *sum = sum_of(&d, target);
  const cJSON *field;

  ck_assert_msg(g_str_equal(sum, text_of(entry, "sha256")),
                "%s: %s: another file than its parser read: make interop RECORD=1", target, plan);
  cJSON_ArrayForEach(field, json_get(entry, "resolved"))
  {
    const cJSON *ours = json_get(json_root(meaning), field->string);
    ck_assert_msg(ours && alike(ours, field), "%s: %s: %s is not what %s resolved", target, plan, field->string,
                  text_of(entry, "parser"));
  }
  interop_clear(&d);
}

START_TEST(exports_mean_what_parsers_read)
{
  g_autoptr(JsonDoc) doc = recorded();
  const cJSON *entry;

  cJSON_ArrayForEach(entry, json_root(doc)) check_entry(entry);
}
END_TEST

/* Each target has its share, and says what world it starts or how its stages run. */
START_TEST(every_target_is_recorded)
{
  static const char *const targets[] = { "megatron", "accelerate", "torchtitan", "nanotron", "maxtext", "primus",
                                         "deepspeed", "torch-schedule" };
  g_autoptr(JsonDoc) doc = recorded();

  for (gsize i = 0; i < G_N_ELEMENTS(targets); i++) {
    const cJSON *entry;
    int n = 0;
    cJSON_ArrayForEach(entry, json_root(doc)) n += g_str_equal(text_of(entry, "target"), targets[i]);
    ck_assert_msg(n >= 2, "%s: %d plans", targets[i], n);
  }
}
END_TEST

TEST_MAIN("interop", exports_mean_what_parsers_read, every_target_is_recorded)
