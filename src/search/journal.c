#include "search/journal.h"

#include "base/error.h"
#include "base/files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TITLE "tdp-plan state 3 "

struct Journal {
  char *path;
  FILE *file;
  GHashTable *entries; /* index to JournalEntry; looked up, never iterated */
};

static void keep_entry(Journal *j, const JournalEntry *entry)
{
  JournalEntry *copy = g_memdup2(entry, sizeof *entry);
  g_hash_table_insert(j->entries, &copy->index, copy);
}

static gboolean of_another(const Journal *j, GError **error)
{
  return input_error(error, "--state: %s: expected the state of this very search, or a file that is not there",
                     j->path);
}

static gboolean read_number(const char *text, double *out)
{
  char *end;

  *out = g_ascii_strtod(text, &end);
  return end != text && *end == '\0' && !g_ascii_isspace(*text) && *out >= 0;
}

static const JournalPlan *find_plan(const GArray *plans, gint64 index)
{
  guint from = 0, to = plans->len;

  while (from < to) {
    guint at = (from + to) / 2;
    const JournalPlan *plan = &g_array_index(plans, JournalPlan, at);
    if (index < plan->first)
      to = at;
    else if (index < plan->first + plan->n)
      return plan;
    else
      from = at + 1;
  }
  return NULL;
}

/* What is wrong with a line; NULL if nothing is. */
static const char *parse_line(const GArray *plans, const char *line, JournalEntry *e)
{
  double *const numbers[] = { &e->step_s, &e->memory_bytes, &e->slack_s, &e->gradients_s, &e->parameters_s };
  g_auto(GStrv) cells = g_strsplit(line, " ", -1);

  if (g_strv_length(cells) != 1 + G_N_ELEMENTS(numbers) ||
      !g_ascii_string_to_signed(cells[0], 10, 0, G_MAXINT64, &e->index, NULL))
    return "a plan's number and five values";
  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
    if (!read_number(cells[1 + i], numbers[i]))
      return "values from 0 on";
  if (isinf(e->step_s) || isinf(e->memory_bytes) || isinf(e->gradients_s) || isinf(e->parameters_s))
    return "finite times and bytes";
  const JournalPlan *plan = find_plan(plans, e->index);
  if (!plan)
    return "a plan that the search may simulate";
  return e->step_s < plan->bound_s ? "a step that takes no less than its bound" : NULL;
}

/* Reads what is there; `whole` becomes the length of its whole lines: 0 of a title that was cut. */
static gboolean read_entries(Journal *j, char *text, const char *fingerprint, const GArray *plans, gsize *whole,
                             GError **error)
{
  g_autofree char *title = g_strconcat(TITLE, fingerprint, "\n", NULL);
  char *line = text + strlen(title), *end;

  gboolean cut = g_str_has_prefix(text, TITLE) && g_str_has_prefix(title, text) && strlen(text) < strlen(title);

  if (*text == '\0' || cut)
    return TRUE;
  if (!g_str_has_prefix(text, title))
    return of_another(j, error);
  for (int n = 2; (end = strchr(line, '\n')); line = end + 1, n++) {
    JournalEntry e, known;
    *end = '\0';
    const char *expected = parse_line(plans, line, &e);
    if (!expected && journal_find(j, e.index, &known))
      expected = "each plan once";
    if (expected)
      return input_error(error, "--state: %s: line %d: expected %s", j->path, n, expected);
    keep_entry(j, &e);
  }
  *whole = line - text;
  return TRUE;
}

/* What the file holds; nothing where it is not there. */
static gboolean read_file(Journal *j, const char *fingerprint, const GArray *plans, gsize *whole, GError **error)
{
  gsize length;

  if (!g_file_test(j->path, G_FILE_TEST_EXISTS))
    return TRUE;
  if (!g_file_test(j->path, G_FILE_TEST_IS_REGULAR))
    return input_error(error, "--state: %s: expected a file, not a folder, a device or a pipe", j->path);
  g_autofree char *text = files_read(j->path, &length, error);
  if (!text) {
    g_prefix_error(error, "--state: ");
    return FALSE;
  }
  if (strlen(text) != length)
    return of_another(j, error);
  return read_entries(j, text, fingerprint, plans, whole, error);
}

static gboolean open_file(Journal *j, const char *fingerprint, gsize whole, GError **error)
{
  j->file = fopen(j->path, whole > 0 ? "r+" : "w");
  if (!j->file || fseek(j->file, whole, SEEK_SET) != 0)
    return runtime_error(error, "--state: %s: %s", j->path, g_strerror(errno));
  if (whole == 0)
    fprintf(j->file, TITLE "%s\n", fingerprint);
  return TRUE;
}

Journal *journal_open(const char *path, const char *fingerprint, const GArray *plans, GError **error)
{
  Journal *j = g_new0(Journal, 1);
  gsize whole = 0;

  j->path = g_strdup(path);
  j->entries = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
  if (read_file(j, fingerprint, plans, &whole, error) && open_file(j, fingerprint, whole, error))
    return j;
  journal_close(j, NULL);
  return NULL;
}

gboolean journal_find(const Journal *j, gint64 index, JournalEntry *out)
{
  const JournalEntry *found = j ? g_hash_table_lookup(j->entries, &index) : NULL;

  if (found)
    *out = *found;
  return found != NULL;
}

void journal_add(Journal *j, const JournalEntry *e)
{
  const double values[] = { e->step_s, e->memory_bytes, e->slack_s, e->gradients_s, e->parameters_s };
  JournalEntry known;

  if (!j || journal_find(j, e->index, &known))
    return;
  keep_entry(j, e);
  fprintf(j->file, "%" G_GINT64_FORMAT, e->index);
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++) {
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    fprintf(j->file, " %s", g_ascii_dtostr(text, sizeof text, values[i]));
  }
  fputc('\n', j->file);
}

void journal_flush(Journal *j)
{
  if (j)
    fflush(j->file);
}

gboolean journal_close(Journal *j, GError **error)
{
  gboolean ok = TRUE;

  if (!j)
    return TRUE;
  if (j->file) {
    ok = !ferror(j->file);
    ok = fclose(j->file) == 0 && ok;
  }
  if (!ok)
    runtime_error(error, "--state: %s: cannot be written", j->path);
  g_hash_table_unref(j->entries);
  g_free(j->path);
  g_free(j);
  return ok;
}
