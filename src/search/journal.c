#include "search/journal.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TITLE "tdp-plan state 2 "

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

/* Reads what is there; returns the length of its whole lines, -1 if it is another search's. */
static gssize read_entries(Journal *j, const char *text, const char *fingerprint)
{
  g_autofree char *title = g_strconcat(TITLE, fingerprint, "\n", NULL);
  const char *line = text + strlen(title), *end;

  if (*text == '\0')
    return 0;
  if (!g_str_has_prefix(text, title))
    return -1;
  for (; (end = strchr(line, '\n')); line = end + 1) {
    JournalEntry e;
    char *rest;
    e.index = g_ascii_strtoll(line, &rest, 10);
    e.step_s = g_ascii_strtod(rest, &rest);
    e.memory_bytes = g_ascii_strtod(rest, &rest);
    e.slack_s = g_ascii_strtod(rest, &rest);
    e.gradients_s = g_ascii_strtod(rest, &rest);
    e.parameters_s = g_ascii_strtod(rest, &rest);
    if (rest != end)
      return -1;
    keep_entry(j, &e);
  }
  return line - text;
}

static Journal *journal_fail(Journal *j, GError **error, int code, const char *what)
{
  g_set_error(error, TDP_ERROR, code, "--state: %s: %s", j->path, what);
  journal_close(j, NULL);
  return NULL;
}

Journal *journal_open(const char *path, const char *fingerprint, GError **error)
{
  Journal *j = g_new0(Journal, 1);
  g_autofree char *text = NULL;
  gssize whole = 0;

  j->path = g_strdup(path);
  j->entries = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
  if (g_file_get_contents(path, &text, NULL, NULL))
    whole = read_entries(j, text, fingerprint);
  if (whole < 0)
    return journal_fail(j, error, TDP_ERROR_INPUT,
                        "expected the state of this very search, or a file that is not there");
  j->file = fopen(path, whole > 0 ? "r+" : "w");
  if (!j->file || fseek(j->file, whole, SEEK_SET) != 0)
    return journal_fail(j, error, TDP_ERROR_RUNTIME, g_strerror(errno));
  if (whole == 0)
    fprintf(j->file, TITLE "%s\n", fingerprint);
  return j;
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
    g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "--state: %s: cannot be written", j->path);
  g_hash_table_unref(j->entries);
  g_free(j->path);
  g_free(j);
  return ok;
}
