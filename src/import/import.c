#include "import/import.h"

#include "base/error.h"
#include "base/files.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGE_SHOWN 60
#define SQLITE_MAGIC "SQLite format 3" /* with the zero behind it */

static const Importer *const importers[] = { &import_nccl_topology, &import_kineto, &import_topology_matrix,
                                      &import_megatron_log, &import_torchtitan_log, &import_nsys, NULL };

const Importer *importer_of(const char *text)
{
  for (int i = 0; importers[i]; i++)
    if (importers[i]->recognises(text))
      return importers[i];
  return NULL;
}

void import_strange(ImportNotes *notes, const char *text)
{
  if (notes->strange++ == 0) {
    gsize length = MIN(strcspn(text, "\r\n"), STRANGE_SHOWN);
    g_autofree char *cut = g_strndup(text, length);
    notes->first_strange = g_utf8_make_valid(cut, -1);
    for (char *c = notes->first_strange; *c; c++)
      if ((guchar)*c < 0x20)
        *c = ' ';
  }
}

void import_drop_colours(char *text)
{
  char *to = text;

  for (const char *from = text; *from;)
    if (from[0] == '\033' && from[1] == '[') {
      from += 2 + strspn(from + 2, "0123456789;");
      from = *from ? g_utf8_next_char(from) : from;
    } else {
      *to++ = *from++;
    }
  *to = '\0';
}

void import_notes_clear(ImportNotes *notes)
{
  g_clear_pointer(&notes->first_strange, g_free);
  g_clear_pointer(&notes->untold, g_free);
  g_clear_pointer(&notes->no_column, g_free);
}

/* ---- files ---- */

/* What a child writes to a pipe, as much as files may hold; the pipe is closed, so that one that goes on ends. */
static char *read_child(GPid child, int pipe, GError **error)
{
  g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", pipe);
  gsize length;
  g_autofree char *text = files_read(path, &length, error);
  int status = 0;

  close(pipe);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  return text && g_spawn_check_wait_status(status, error) ? g_steal_pointer(&text) : NULL;
}

/* What another program prints about the file. */
static char *ask(const char *const *argv, const char *path, const char *what, GError **error)
{
  GSpawnFlags flags = G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL | G_SPAWN_DO_NOT_REAP_CHILD;
  g_autoptr(GError) failure = NULL;
  char *text = NULL;
  GPid child;
  int pipe;

  if (g_spawn_async_with_pipes(NULL, (char **)argv, NULL, flags, NULL, NULL, &child, NULL, &pipe, NULL, &failure))
    text = read_child(child, pipe, &failure);
  if (!text)
    input_error(error, "%s: cannot be %s: %s", path, what, failure->message);
  return text;
}

/* By gzip itself, which every system with such files has. */
static char *unpack(const char *path, GError **error)
{
  const char *argv[] = { "gzip", "-dc", "--", path, NULL };

  return ask(argv, path, "unpacked", error);
}

/* Tables of nsys export --type sqlite, of which each is there only if it has rows, and what of each is a name. */
static const struct {
  const char *table, *name;
} activities[] = {
  { "CUPTI_ACTIVITY_KIND_KERNEL", "(SELECT value FROM StringIds WHERE id = demangledName)" },
  { "CUPTI_ACTIVITY_KIND_MEMCPY", "'Memcpy ' || CASE copyKind WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 8 THEN 'DtoD' "
                                  "WHEN 10 THEN 'PtoP' ELSE 'kind ' || copyKind END" },
  { "CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'" },
  { "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "'CUDA graph ' || graphId || ', its kernels not told apart'" },
};

static char *ask_sqlite(const char *path, const char *sql, GError **error)
{
  g_autofree char *absolute = g_canonicalize_filename(path, NULL);
  const char *argv[] = { "sqlite3", "-readonly", "-csv", "-header", absolute, sql, NULL };

  return ask(argv, path, "read by sqlite3 as what nsys export writes", error);
}

/* By the sqlite3 program: what ran on devices. */
static char *query(const char *path, GError **error)
{
  g_autofree char *tables = ask_sqlite(path, "SELECT name FROM sqlite_master WHERE type = 'table'", error);
  g_auto(GStrv) names = tables ? g_strsplit_set(tables, "\r\n", -1) : NULL;
  g_autoptr(GString) sql = g_string_new(NULL);

  if (!tables)
    return NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(activities); i++)
    if (g_strv_contains((const char *const *)names, activities[i].table))
      g_string_append_printf(sql, "%sSELECT end - start AS \"Duration (ns)\", deviceId AS Device, %s AS Name FROM %s",
                             sql->len ? " UNION ALL " : "", activities[i].name, activities[i].table);
  if (sql->len)
    return ask_sqlite(path, sql->str, error);
  input_error(error, "%s: no table of what ran on a device: expected what nsys export --type "
              "sqlite writes of a run with --trace cuda", path);
  return NULL;
}

char *import_load(const char *path, GError **error)
{
  gsize length;
  g_autofree char *bytes = files_read(path, &length, error);

  if (!bytes)
    return NULL;
  gboolean packed = length > 2 && (guchar)bytes[0] == 0x1f && (guchar)bytes[1] == 0x8b;
  gboolean database = length >= sizeof SQLITE_MAGIC && memcmp(bytes, SQLITE_MAGIC, sizeof SQLITE_MAGIC) == 0;
  if ((packed || database) && g_str_equal(path, "-")) {
    input_error(error, "-: %s: expected text there, or the file by its name",
                packed ? "packed by gzip" : "a database of sqlite");
    return NULL;
  }
  if (packed)
    return unpack(path, error);
  return database ? query(path, error) : g_steal_pointer(&bytes);
}
