#include "main.h"

#include "base/json.h"

static JsonDoc *parsed(const char *text)
{
  GError *error = NULL;
  JsonDoc *doc = json_parse(text, strlen(text), "f", &error);
  ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
  return doc;
}

static void write_sample(JsonWriter *w)
{
  json_open(w, NULL, '{');
  json_put_string(w, "name", "gpt \"3\"\n\x01µ");
  json_put_int(w, "params", 174604259328);
  json_put_real(w, "step_s", 0.1);
  json_put_bool(w, "ok", TRUE);
  json_put_string(w, "none", NULL);
  json_open(w, "list", '[');
  json_put_int(w, NULL, 1);
  json_open(w, NULL, '{');
  json_close(w, '}');
  json_close(w, ']');
  json_open(w, "empty", '[');
  json_close(w, ']');
  json_close(w, '}');
}

START_TEST(indented)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  write_sample(&w);
  ck_assert_str_eq(text->str, "{\n"
                              "  \"name\": \"gpt \\\"3\\\"\\n\\u0001µ\",\n"
                              "  \"params\": 174604259328,\n"
                              "  \"step_s\": 0.1,\n"
                              "  \"ok\": true,\n"
                              "  \"none\": null,\n"
                              "  \"list\": [\n"
                              "    1,\n"
                              "    {}\n"
                              "  ],\n"
                              "  \"empty\": []\n"
                              "}\n");
  json_free(parsed(text->str));
}
END_TEST

START_TEST(compact)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  w.compact = TRUE;
  write_sample(&w);
  ck_assert_str_eq(text->str, "{\"name\": \"gpt \\\"3\\\"\\n\\u0001µ\", \"params\": 174604259328, "
                              "\"step_s\": 0.1, \"ok\": true, \"none\": null, "
                              "\"list\": [1, {}], \"empty\": []}\n");
}
END_TEST

START_TEST(one_document_a_line)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  w.compact = TRUE;
  for (int i = 0; i < 2; i++) {
    json_open(&w, NULL, '[');
    json_put_int(&w, NULL, i);
    json_close(&w, ']');
  }
  ck_assert_str_eq(text->str, "[0]\n[1]\n");
}
END_TEST

START_TEST(compact_array_inside)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_open(&w, "a", '[');
  w.compact = TRUE;
  json_put_int(&w, NULL, 1);
  json_put_int(&w, NULL, 2);
  json_close(&w, ']');
  w.compact = FALSE;
  json_put_int(&w, "b", 3);
  json_close(&w, '}');
  ck_assert_str_eq(text->str, "{\n  \"a\": [1, 2],\n  \"b\": 3\n}\n");
}
END_TEST

START_TEST(thousandths_are_exact)
{
  static const gint64 values[] = { 0, 1, 999, 1000, -1, -1500, 9007199254740993 };
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  w.compact = TRUE;
  json_open(&w, NULL, '[');
  for (guint i = 0; i < G_N_ELEMENTS(values); i++)
    json_put_thousandths(&w, NULL, values[i]);
  json_close(&w, ']');
  ck_assert_str_eq(text->str, "[0.000, 0.001, 0.999, 1.000, -0.001, -1.500, 9007199254740.993]\n");
}
END_TEST

START_TEST(written_text_reads_back)
{
  static const char awkward[] = "\"\\\b\f\n\r\t\x1F\x7F/µ😀";
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, awkward, awkward);
  json_put_real(&w, "r", 0.1 + 0.2);
  json_put_string(&w, "broken", "a\xFF");
  json_close(&w, '}');
  g_autoptr(JsonDoc) doc = parsed(text->str);
  ck_assert_str_eq(json_get(json_root(doc), awkward)->valuestring, awkward);
  ck_assert(json_get(json_root(doc), "r")->valuedouble == 0.1 + 0.2);
  ck_assert_str_eq(json_get(json_root(doc), "broken")->valuestring, "a\xEF\xBF\xBD");
}
END_TEST

TEST_MAIN("json_write", indented, compact, one_document_a_line, compact_array_inside,
          thousandths_are_exact, written_text_reads_back)
