#include "main.h"

#include "base/table.h"

START_TEST(columns_are_aligned)
{
  g_autoptr(Table) table = table_new("<name|step|<note");
  table_add(table, "gpt3");
  table_add(table, "%.1f", 18.25);
  table_take(table, g_strdup("slow"));
  table_add(table, "t");
  table_add(table, "%d", 12345);
  table_add(table, "x");
  test_text(table_text(table, 0), "name   step  note\n"
                                  "gpt3   18.2  slow\n"
                                  "t     12345  x\n");
}
END_TEST

/* Bars of the format divide cells, those of texts do not. */
START_TEST(several_cells_at_once)
{
  g_autoptr(Table) table = table_new("<name|step|<note");
  table_add(table, "%s|%.1f|", "a|b", 18.25);
  table_add(table, "t|%d", 12345);
  table_add(table, "%s", "");
  table_add(table, "x||z");
  ck_assert_int_eq(table_rows(table), 3);
  test_text(table_text(table, 0), "name   step  note\n"
                                  "a|b    18.2\n"
                                  "t     12345\n"
                                  "x            z\n");
}
END_TEST

/* Nor does a byte of theirs, whatever it is. */
START_TEST(any_byte_stays_in_its_cell)
{
  for (int byte = 1; byte < 128; byte++) {
    g_autoptr(Table) table = table_new("<name|step|<note");
    const char text[] = { 'a', (char)byte, (char)byte, 'b', '\0' };
    table_add(table, "%s|%d|%s", text, 7, text);
    ck_assert_int_eq(table_rows(table), 1);
    ck_assert_str_eq(table_cell(table, 0, 0), text);
    ck_assert_str_eq(table_cell(table, 0, 1), "7");
    ck_assert_str_eq(table_cell(table, 0, 2), text);
  }
}
END_TEST

START_TEST(indent_and_short_last_row)
{
  g_autoptr(Table) table = table_new("<a|b|<c");
  table_add(table, "1");
  test_text(table_text(table, 2), "  a  b  c\n  1\n");
}
END_TEST

START_TEST(utf8_counts_columns_not_bytes)
{
  g_autoptr(Table) table = table_new("<unit|v");
  table_add(table, "µs");
  table_add(table, "1");
  table_add(table, "日本語");
  table_add(table, "2");
  table_add(table, "e\xCC\x81");
  table_add(table, "3");
  test_text(table_text(table, 0), "unit    v\n"
                                  "µs      1\n"
                                  "日本語  2\n"
                                  "e\xCC\x81       3\n");
}
END_TEST

START_TEST(no_titles_no_title_line)
{
  g_autoptr(Table) table = table_new("<|");
  table_add(table, "layers");
  table_add(table, "96");
  table_add(table, "vocab");
  table_add(table, "51200");
  test_text(table_text(table, 1), " layers     96\n vocab   51200\n");
}
END_TEST

START_TEST(no_rows)
{
  g_autoptr(Table) table = table_new("<a|b");
  test_text(table_text(table, 0), "a  b\n");
}
END_TEST

START_TEST(broken_utf8_is_replaced)
{
  g_autoptr(Table) table = table_new("<a");
  table_add(table, "x\xFFy");
  test_text(table_text(table, 0), "a\nx\xEF\xBF\xBDy\n");
}
END_TEST

TEST_MAIN("table", columns_are_aligned, several_cells_at_once, any_byte_stays_in_its_cell,
          indent_and_short_last_row, utf8_counts_columns_not_bytes, no_titles_no_title_line, no_rows, broken_utf8_is_replaced)
