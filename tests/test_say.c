#include "main.h"

#include "base/table.h"
#include "cli/say.h"

#include <string.h>

START_TEST(sentences_go_on_in_the_next_line)
{
  test_text(say_folded("", 20), "");
  test_text(say_folded("short\n\nlines\n", 20), "short\n\nlines\n");
  test_text(say_folded("one two three four five six", 20), "one two three four\nfive six");
  test_text(say_folded("  one two three four five six\n", 20), "  one two three four\n  five six\n");
  test_text(say_folded("plan  one two three four five\n", 20), "plan  one two three\n      four five\n");
  test_text(say_folded("a /longer/than/all/the/columns b\n", 20), "a\n/longer/than/all/the/columns\nb\n");
  test_text(say_folded("é two three four fivé siç\n", 20), "é two three four\nfivé siç\n");
}
END_TEST

START_TEST(columns_that_do_not_fit_stand_below)
{
  test_text(say_folded("heading\n"
                       "  #  left    step  fits  memory\n"
                       "  1  a b c  1.5 s  97 %   7 GiB\n"
                       "  2  d      2.5 s   9 %  70 GiB\n"
                       "a sentence of more than one line\n", 22),
            "heading\n"
            "  #  left    step\n"
            "  1  a b c  1.5 s\n"
            "  2  d      2.5 s\n"
            "  #  fits  memory\n"
            "  1  97 %   7 GiB\n"
            "  2   9 %  70 GiB\n"
            "a sentence of more\n"
            "than one line\n");
}
END_TEST

START_TEST(long_texts_of_a_table_stay_in_their_column)
{
  test_text(say_folded("n  step   fits  plan\n"
                       "1  1.5 s  97 %  tp 8, pp 4 of 12 chunks, dp 4, zero 1, micro-batch 1, interleaved\n"
                       "2  2.5 s  91 %  naive\n", 44),
            "n  step   fits  plan\n"
            "1  1.5 s  97 %  tp 8, pp 4 of 12 chunks, dp\n"
            "                4, zero 1, micro-batch 1,\n"
            "                interleaved\n"
            "2  2.5 s  91 %  naive\n");
}
END_TEST

/* Words of a text, sorted, each once. */
static char *words_of(const char *text)
{
  g_auto(GStrv) parts = g_strsplit_set(text, " \n", -1);
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  GString *out = g_string_new(NULL);

  for (int i = 0; parts[i]; i++)
    g_hash_table_add(seen, parts[i]);
  GList *keys = g_list_sort(g_hash_table_get_keys(seen), (GCompareFunc)strcmp);
  for (GList *k = keys; k; k = k->next)
    g_string_append_printf(out, "%s ", (char *)k->data);
  g_list_free(keys);
  return g_string_free(out, FALSE);
}

static char *drawn_cell(GRand *rand)
{
  int words = g_rand_int_range(rand, 0, 4) ? 1 : g_rand_int_range(rand, 0, 30);
  GString *cell = g_string_new(NULL);

  for (int i = 0; i < words; i++)
    g_string_append_printf(cell, "%s%.*s", i ? " " : "", g_rand_int_range(rand, 1, 12), "abcdefghijkl");
  return g_string_free(cell, FALSE);
}

/* Tables of all kinds, with sentences around, at all widths: nothing is lost, nothing is wider. */
START_TEST(no_line_is_wider_and_no_word_is_lost)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed(_i);
  int columns = g_rand_int_range(rand, 2, 12), indent = 2 * g_rand_int_range(rand, 0, 2);
  g_autoptr(GString) titles = g_string_new("id"), text = g_string_new("Sentence before a table of such a width\n");

  for (int i = 1; i < columns; i++)
    g_string_append_printf(titles, "|%st%d", g_rand_int_range(rand, 0, 2) ? "<" : "", i);
  g_autoptr(Table) table = table_new(titles->str);
  for (int i = 0; i < columns * g_rand_int_range(rand, 1, 8); i++)
    table_take(table, drawn_cell(rand));
  g_autofree char *rows = table_text(table, indent);
  g_string_append(text, rows);
  for (int width = 20; width < 160; width += 7) {
    g_autofree char *folded = say_folded(text->str, width);
    g_autofree char *before = words_of(text->str), *after = words_of(folded);
    g_auto(GStrv) lines = g_strsplit(folded, "\n", -1);
    ck_assert_str_eq(after, before);
    for (int i = 0; lines[i]; i++)
      ck_assert_msg((int)strlen(lines[i]) <= width, "%d: %s\n%s", width, lines[i], folded);
  }
}
END_TEST

TEST_LOOPS("say", { sentences_go_on_in_the_next_line }, { columns_that_do_not_fit_stand_below },
             { long_texts_of_a_table_stay_in_their_column }, { no_line_is_wider_and_no_word_is_lost, 200, TRUE })
