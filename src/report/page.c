#include "report/page_sections.h"

#include "base/error.h"
#include "base/files.h"

#include <string.h>

/* As it stands, whatever of it Markdown has a meaning for; it would drop spaces before it. */
static void append_plain(GString *markdown, const char *text)
{
  for (; *text == ' '; text++)
    g_string_append(markdown, "&nbsp;");
  for (const char *c = text; *c; c++)
    if (strchr("|\\<*_`[", *c))
      g_string_append_printf(markdown, "\\%c", *c);
    else
      g_string_append_c(markdown, *c);
}

Page *page_new(const char *title, const char *subtitle)
{
  Page *page = g_new0(Page, 1);

  page->title = g_utf8_make_valid(title, -1);
  page->subtitle = g_utf8_make_valid(subtitle, -1);
  page->json = g_string_new(NULL);
  page->markdown = g_string_new(NULL);
  json_writer_init(&page->writer, page->json);
  page->writer.compact = TRUE;
  json_open(&page->writer, NULL, '{');
  json_put_string(&page->writer, "title", page->title);
  json_put_string(&page->writer, "subtitle", page->subtitle);
  json_open(&page->writer, "sections", '[');
  g_string_append(page->markdown, "# ");
  append_plain(page->markdown, page->title);
  g_string_append(page->markdown, "\n\n");
  append_plain(page->markdown, page->subtitle);
  g_string_append_c(page->markdown, '\n');
  return page;
}

void page_free(Page *page)
{
  if (!page)
    return;
  g_free(page->title);
  g_free(page->subtitle);
  g_string_free(page->json, TRUE);
  g_string_free(page->markdown, TRUE);
  g_free(page);
}

void page_begin(Page *page, const char *kind, const char *heading)
{
  json_open(&page->writer, NULL, '{');
  json_put_string(&page->writer, "kind", kind);
  json_put_string(&page->writer, "heading", heading);
  g_string_append(page->markdown, "\n## ");
  append_plain(page->markdown, heading);
  g_string_append(page->markdown, "\n\n");
}

void page_end(Page *page)
{
  json_close(&page->writer, '}');
}

void page_put_color(Page *page, const char *key, guint32 rgb)
{
  g_autofree char *color = g_strdup_printf("#%06x", rgb);
  json_put_string(&page->writer, key, color);
}

void page_fenced(Page *page, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  GString *fence = g_string_new("```");

  while (strstr(valid, fence->str))
    g_string_append_c(fence, '`');
  g_string_append_printf(page->markdown, "%s\n%s%s%s\n", fence->str, valid, g_str_has_suffix(valid, "\n") ? "" : "\n",
                         fence->str);
  g_string_free(fence, TRUE);
}

static void put_fenced(Page *page, const char *kind, const char *heading, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);

  page_begin(page, kind, heading);
  json_put_string(&page->writer, "text", valid);
  page_fenced(page, text);
  page_end(page);
}

void page_text(Page *page, const char *heading, const char *text)
{
  if (*text)
    put_fenced(page, "text", heading, text);
}

void page_command(Page *page, const char *heading, const char *command)
{
  put_fenced(page, "command", heading, command);
}

void page_markdown_table(Page *page, const Table *table)
{
  GString *markdown = page->markdown;

  for (int row = -1; row < table_rows(table); row++) {
    g_string_append_c(markdown, '|');
    for (int column = 0; column < table_columns(table); column++) {
      append_plain(markdown, table_cell(table, row, column));
      g_string_append(markdown, " |");
    }
    g_string_append_c(markdown, '\n');
    if (row >= 0)
      continue;
    g_string_append_c(markdown, '|');
    for (int column = 0; column < table_columns(table); column++)
      g_string_append(markdown, table_left(table, column) ? "---|" : "--:|");
    g_string_append_c(markdown, '\n');
  }
}

void page_open_table(Page *page, const char *heading, const char *says, const Table *table)
{
  JsonWriter *w = &page->writer;

  page_begin(page, "table", heading);
  json_put_string(w, "says", says);
  json_open(w, "left", '[');
  for (int column = 0; column < table_columns(table); column++)
    json_put_bool(w, NULL, table_left(table, column));
  json_close(w, ']');
  json_open(w, "rows", '[');
  for (int row = -1; row < table_rows(table); row++) {
    json_open(w, NULL, '[');
    for (int column = 0; column < table_columns(table); column++)
      json_put_string(w, NULL, table_cell(table, row, column));
    json_close(w, ']');
  }
  json_close(w, ']');
  if (says) {
    append_plain(page->markdown, says);
    g_string_append(page->markdown, "\n\n");
  }
  page_markdown_table(page, table);
}

void page_table(Page *page, const char *heading, const char *says, const Table *table)
{
  page_open_table(page, heading, says, table);
  page_end(page);
}

gboolean page_check(const char *path, GError **error)
{
  if (g_str_has_suffix(path, ".html") || g_str_has_suffix(path, ".md"))
    return files_check_write(path, error);
  return input_error(error, "--report: %s: expected a name that ends in .html or .md", path);
}

/* JSON that cannot end the element it stands in. */
static void append_embedded(GString *html, const char *json)
{
  for (const char *c = json; *c; c++)
    if (*c == '<')
      g_string_append(html, "\\u003c");
    else
      g_string_append_c(html, *c);
}

static void append_escaped(GString *html, const char *text)
{
  g_autofree char *escaped = g_markup_escape_text(text, -1);
  g_string_append(html, escaped);
}

/* Appends a file of the data folder. */
static gboolean append_file(GString *html, const char *below, GError **error)
{
  g_autofree char *path = files_data_path(below);
  gsize length;
  g_autofree char *text = files_read(path, &length, error);

  if (text)
    g_string_append_len(html, text, length);
  else
    g_prefix_error(error, "--report: ");
  return text != NULL;
}

/* What stands for a name in the page's frame: "@title@" and so on, else a file of plots/. */
static gboolean append_part(GString *html, const Page *page, const char *name, GError **error)
{
  if (g_str_equal(name, "title")) {
    append_escaped(html, page->title);
  } else if (g_str_equal(name, "plain")) {
    append_escaped(html, page->markdown->str);
  } else if (g_str_equal(name, "data")) {
    append_embedded(html, page->json->str);
    g_string_append(html, "]}");
  } else {
    g_autofree char *below = g_strconcat("plots/", name, NULL);
    return append_file(html, below, error);
  }
  return TRUE;
}

static gboolean write_html(const Page *page, const char *path, GError **error)
{
  g_autoptr(GString) frame = g_string_new(NULL), html = g_string_new(NULL);
  gboolean ok = append_file(frame, "plots/report.html", error);
  g_auto(GStrv) parts = ok ? g_strsplit(frame->str, "@", -1) : NULL;

  for (int i = 0; ok && parts[i]; i++)
    if (i % 2)
      ok = append_part(html, page, parts[i], error);
    else
      g_string_append(html, parts[i]);
  return ok && files_write(path, html->str, html->len, error);
}

gboolean page_write(const Page *page, const char *path, GError **error)
{
  if (g_str_has_suffix(path, ".md"))
    return files_write(path, page->markdown->str, page->markdown->len, error);
  return write_html(page, path, error);
}
