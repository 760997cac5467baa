#include "main.h"

#include <glib/gstdio.h>

#include "base/csv.h"
#include "base/error.h"

static void refuses(const char *text, const char *message)
{
  GError *error = NULL;
  ck_assert_ptr_null(csv_parse(text, "f", &error));
  test_error(&error, TDP_ERROR_INPUT, message);
}

static Csv *parsed(const char *text)
{
  GError *error = NULL;
  Csv *csv = csv_parse(text, "f", &error);
  ck_assert_msg(csv != NULL, "%s", error ? error->message : "");
  return csv;
}

static int line(const Csv *csv, int row)
{
  return g_array_index(csv->lines, int, row);
}

START_TEST(plain_cells)
{
  g_autoptr(Csv) csv = parsed("a,b\n1,2\n3,\n");
  ck_assert_int_eq(csv->columns->len, 2);
  ck_assert_int_eq(csv->rows->len, 2);
  ck_assert_str_eq(csv_cell(csv, 0, "a"), "1");
  ck_assert_str_eq(csv_cell(csv, 1, "b"), "");
  ck_assert_str_eq(csv_cell(csv, 1, "nowhere"), "");
  ck_assert_int_eq(csv_column(csv, "b"), 1);
  ck_assert_int_eq(csv_column(csv, "B"), -1);
}
END_TEST

START_TEST(quoted_cells)
{
  g_autoptr(Csv) csv = parsed("a,\"b,c\"\r\n\"x \"\"y\"\"\",\"two\r\nlines\"\r\n\"\",end");
  ck_assert_str_eq(csv_cell(csv, 0, "a"), "x \"y\"");
  ck_assert_str_eq(csv_cell(csv, 0, "b,c"), "two\r\nlines");
  ck_assert_str_eq(csv_cell(csv, 1, "a"), "");
  ck_assert_str_eq(csv_cell(csv, 1, "b,c"), "end");
  ck_assert_int_eq(line(csv, 0), 2);
  ck_assert_int_eq(line(csv, 1), 4);
}
END_TEST

START_TEST(line_ends_empty_lines_and_mark)
{
  g_autoptr(Csv) csv = parsed("\xEF\xBB\xBF\n\na,b\n\n1,2\r\n\r\n3,4\r5,6");
  ck_assert_int_eq(csv_column(csv, "a"), 0);
  ck_assert_int_eq(csv->rows->len, 3);
  ck_assert_int_eq(line(csv, 0), 5);
  ck_assert_int_eq(line(csv, 1), 7);
  ck_assert_int_eq(line(csv, 2), 8);
  ck_assert_str_eq(csv_cell(csv, 2, "b"), "6");
}
END_TEST

START_TEST(header_only)
{
  g_autoptr(Csv) csv = parsed("a,b");
  ck_assert_int_eq(csv->rows->len, 0);
}
END_TEST

START_TEST(bad_text)
{
  refuses("", "f:1: empty, expected a header line");
  refuses("\n\n", "f:3: empty, expected a header line");
  refuses("a,b\n1,2\n\n3\n", "f:4: 1 cells, expected 2 as in the header");
  refuses("a,b\n1,2,3\n", "f:2: 3 cells, expected 2 as in the header");
  refuses("\na,b,a\n", "f:2: column \"a\" stands twice");
  refuses("a;b\n1;2\n", "f:1: no comma: expected names of columns with commas between them");
  refuses("a\n\"x\n\ny", "f:2: quote without an end");
  refuses("a\n\"", "f:2: quote without an end");
  refuses("a\n\"x\"\"", "f:2: quote without an end");
  refuses("a\n\"x\"y\n", "f:2: text behind a closing quote");
  refuses("a\nx\"y\"\n", "f:2: quote inside a cell that does not start with one");
  refuses("a\nb\n\xFF\n", "f:3: byte 0xFF is not valid UTF-8");
}
END_TEST

START_TEST(numbers)
{
  g_autoptr(Csv) csv = parsed("r,i\n 1.5e3 ,-7\n,\n2,3e2\n-2147483648,2147483647\n");
  double real = 0.25;
  int integer = G_MININT;
  ck_assert(csv_real(csv, 1, "r", &real, NULL) && real == 0.25);
  ck_assert(csv_int(csv, 1, "i", &integer, NULL) && integer == G_MININT);
  ck_assert(csv_real(csv, 0, "absent", &real, NULL) && real == 0.25);
  ck_assert(csv_real(csv, 0, "r", &real, NULL) && real == 1500);
  ck_assert(csv_int(csv, 0, "i", &integer, NULL) && integer == -7);
  ck_assert(csv_int(csv, 2, "i", &integer, NULL) && integer == 300);
  ck_assert(csv_int(csv, 3, "i", &integer, NULL) && integer == G_MAXINT);
  ck_assert(csv_int(csv, 3, "r", &integer, NULL) && integer == G_MININT);
}
END_TEST

START_TEST(bad_numbers)
{
  static const char *const bad_reals[] = {"x", "1x", "0x10", "inf", "nan", "1e999", "1 2", "-",
                                          "1,5"};
  static const char *const bad_ints[] = {"1.5", "2147483648", "-2147483649", "1e10", "one"};
  for (gsize i = 0; i < G_N_ELEMENTS(bad_reals); i++) {
    g_autofree char *text = g_strdup_printf("a\n\n\"%s\"\n", bad_reals[i]);
    g_autofree char *wanted = g_strdup_printf("f:3: a: \"%s\": expected a number", bad_reals[i]);
    g_autoptr(Csv) csv = parsed(text);
    GError *error = NULL;
    double value = 5;
    ck_assert(!csv_real(csv, 0, "a", &value, &error));
    test_error(&error, TDP_ERROR_INPUT, wanted);
    ck_assert(value == 5);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(bad_ints); i++) {
    g_autofree char *text = g_strdup_printf("a\n%s\n", bad_ints[i]);
    g_autofree char *wanted = g_strdup_printf("f:2: a: \"%s\": expected an integer", bad_ints[i]);
    g_autoptr(Csv) csv = parsed(text);
    GError *error = NULL;
    int value = 5;
    ck_assert(!csv_int(csv, 0, "a", &value, &error));
    test_error(&error, TDP_ERROR_INPUT, wanted);
    ck_assert_int_eq(value, 5);
  }
}
END_TEST

START_TEST(written_text_reads_back)
{
  static const char *const cells[] = {"plain", "a,b", "say \"hi\"", "two\nlines", "cr\rlf\r\n",
                                      " spaced ", "", "µ"};
  g_autoptr(GString) text = g_string_new(NULL);
  csv_put(text, "x", FALSE);
  csv_put(text, "y", TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS(cells); i++) {
    csv_put(text, cells[i], FALSE);
    csv_put(text, cells[i], TRUE);
  }
  ck_assert(g_str_has_prefix(text->str, "x,y\nplain,plain\n\"a,b\",\"a,b\"\n\"say \"\"hi\"\"\","));
  g_autoptr(Csv) csv = parsed(text->str);
  ck_assert_int_eq(csv->rows->len, G_N_ELEMENTS(cells));
  for (gsize i = 0; i < G_N_ELEMENTS(cells); i++) {
    ck_assert_str_eq(csv_cell(csv, (int)i, "x"), cells[i]);
    ck_assert_str_eq(csv_cell(csv, (int)i, "y"), cells[i]);
  }
}
END_TEST

START_TEST(lone_empty_cell_reads_back)
{
  g_autoptr(GString) text = g_string_new(NULL);
  csv_put(text, "x", TRUE);
  csv_put(text, "", TRUE);
  ck_assert_str_eq(text->str, "x\n\"\"\n");
  g_autoptr(Csv) csv = parsed(text->str);
  ck_assert_int_eq(csv->rows->len, 1);
}
END_TEST

START_TEST(loading)
{
  g_autofree char *directory = test_directory();
  g_autofree char *path = g_build_filename(directory, "t.csv", NULL);
  GError *error = NULL;
  ck_assert(g_file_set_contents(path, "a\n1\n", -1, NULL));
  g_autoptr(Csv) csv = csv_load(path, &error);
  ck_assert_ptr_nonnull(csv);
  ck_assert_str_eq(csv->name, path);

  ck_assert(g_file_set_contents(path, "a\n1\n\0\n", 6, NULL));
  ck_assert_ptr_null(csv_load(path, &error));
  g_autofree char *nul = g_strconcat(path, ":3: NUL byte", NULL);
  test_error(&error, TDP_ERROR_INPUT, nul);

  g_unlink(path);
  ck_assert_ptr_null(csv_load(path, &error));
  g_autofree char *gone = g_strconcat(path, ": No such file or directory", NULL);
  test_error(&error, TDP_ERROR_INPUT, gone);
  g_rmdir(directory);
}
END_TEST

START_TEST(rows_without_a_header)
{
  GError *error = NULL;
  g_autoptr(GPtrArray) rows = csv_parse_rows("a,,\"b,c\"\r\n\nd\n", "f", &error);
  ck_assert_ptr_nonnull(rows);
  ck_assert_uint_eq(rows->len, 2);
  char **first = g_ptr_array_index(rows, 0), **second = g_ptr_array_index(rows, 1);
  ck_assert_uint_eq(g_strv_length(first), 3);
  ck_assert_str_eq(first[1], "");
  ck_assert_str_eq(first[2], "b,c");
  ck_assert_uint_eq(g_strv_length(second), 1);
  g_autoptr(GPtrArray) none = csv_parse_rows("\n", "f", &error);
  ck_assert_uint_eq(none->len, 0);
  ck_assert_ptr_null(csv_parse_rows("a\n\"b", "f", &error));
  test_error(&error, TDP_ERROR_INPUT, "f:2: quote without an end");
  ck_assert_ptr_null(csv_parse_rows("a\n\xff", "f", &error));
  test_error(&error, TDP_ERROR_INPUT, "f:2: byte 0xFF is not valid UTF-8");
}
END_TEST

TEST_MAIN("csv", rows_without_a_header, plain_cells, quoted_cells, line_ends_empty_lines_and_mark, header_only,
          bad_text, numbers, bad_numbers, written_text_reads_back, lone_empty_cell_reads_back, loading)
