#include "main.h"

#include "base/json.h"

static const char *const LIST[] = {"gpipe", "1f1b", "zb-h1", NULL};
static const char *const NONE[] = {NULL};

START_TEST(finding)
{
  ck_assert_int_eq(names_find(LIST, "1f1b"), 1);
  ck_assert_int_eq(names_find(LIST, "1F1B"), -1);
  ck_assert_int_eq(names_find(NONE, ""), -1);
}
END_TEST

START_TEST(sets)
{
  g_autoptr(GString) text = g_string_new("of");

  ck_assert_uint_eq(names_parse_set(LIST, "zb-h1+gpipe"), 5);
  ck_assert_uint_eq(names_parse_set(LIST, "gpipe+gpipe") | names_parse_set(LIST, "") | names_parse_set(LIST, "gpipe+") |
                    names_parse_set(LIST, "gpipe,1f1b"), 0);
  names_append_set(LIST, 0, ":", text);
  names_append_set(LIST, 5, ":", text);
  ck_assert_str_eq(text->str, "of:gpipe+zb-h1");
  g_autofree char *joined = names_joined(LIST, 5, ", "), *none = names_joined(LIST, 0, ", ");
  ck_assert_str_eq(joined, "gpipe, zb-h1");
  ck_assert_str_eq(none, "");
}
END_TEST

START_TEST(nearest)
{
  ck_assert_str_eq(names_nearest(LIST, "gpip"), "gpipe");
  ck_assert_str_eq(names_nearest(LIST, "zb_h2"), "zb-h1");
  ck_assert_str_eq(names_nearest((const char *const[]){"a100", "b200", "b300", NULL}, "b100"), "b200");
  ck_assert_ptr_null(names_nearest(NONE, "x"));
}
END_TEST

START_TEST(near)
{
  ck_assert(names_near("gpipe", "gippe"));
  ck_assert(names_near("hidden", "hidden_size"));
  ck_assert(names_near("tp", "pt"));
  ck_assert(!names_near("tp", "zb"));
  ck_assert(!names_near("gpipe", "chimera"));
  ck_assert(!names_near("gpipe", ""));
}
END_TEST

/* A name that leaves out parts of another, or their separators. */
START_TEST(runs)
{
  static const char *const models[] = { "llama-2-70b", "llama-3.1-70b", "llama-3.1-8b", "llama-30b", "mixtral-8x7b",
                                        NULL };

  ck_assert_str_eq(names_nearest(models, "llama3-8b"), "llama-3.1-8b");
  ck_assert_str_eq(names_nearest(models, "Llama-3-70B"), "llama-3.1-70b");
  ck_assert_str_eq(names_nearest(models, "llama-70b"), "llama-2-70b");
  ck_assert_str_eq(names_nearest(models, "llama_30b"), "llama-30b");
  ck_assert_str_eq(names_nearest(models, "mixtral"), "mixtral-8x7b");
  ck_assert_str_eq(names_nearest(models, "lama-30b"), "llama-30b"); /* by edits */
  ck_assert(names_near("llama-3.1-8b", "llama8b"));
  ck_assert(!names_near("llama-3.1-8b", "8b-mistral"));
}
END_TEST

START_TEST(hints)
{
  test_text(names_hint(LIST, "f1b"), "did you mean \"1f1b\"?");
  test_text(names_hint(LIST, "interleaved"), "known are gpipe, 1f1b, zb-h1");
  ck_assert_ptr_null(names_hint(NONE, "x"));
  test_text(names_meant(LIST, "f1b"), "; did you mean \"1f1b\"?");
  test_text(names_meant(LIST, "interleaved"), "");
  test_text(names_meant(NONE, "x"), "");
}
END_TEST

START_TEST(long_lists_and_names_are_cut)
{
  const char *list[51] = {NULL};
  for (int i = 0; i < 50; i++)
    list[i] = "k";
  g_autofree char *wrong = g_strnfill(1000000, 'x');
  g_autofree char *hint = names_hint(list, wrong);
  ck_assert(g_str_has_suffix(hint, ", k, …"));
  ck_assert_int_eq(strlen(hint), strlen("known are ") + 40 * 3 - 2 + strlen(", …"));
}
END_TEST

TEST_MAIN("names", finding, sets, nearest, near, runs, hints, long_lists_and_names_are_cut)
