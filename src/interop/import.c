#include "interop/import.h"

#include "base/error.h"
#include "base/files.h"

#include <string.h>

#define STRANGE_SHOWN 60

const Importer *const importers[] = { &import_nccl_topology, &import_kineto, &import_topology_matrix,
                                      &import_megatron_log, NULL };

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

void import_notes_clear(ImportNotes *notes)
{
  g_clear_pointer(&notes->first_strange, g_free);
}

char *import_error(const ImportNotes *notes, GError **error, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_autofree char *message = g_strdup_vprintf(format, args);
  va_end(args);
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %s", notes->file, message);
  return NULL;
}

/* ---- files ---- */

/* By gzip itself, which every system with such files has. */
static char *unpack(const char *path, GError **error)
{
  const char *argv[] = { "gzip", "-dc", "--", path, NULL };
  g_autofree char *text = NULL;
  g_autoptr(GError) failure = NULL;
  int status = 0;

  if (g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &text, NULL,
                   &status, &failure) &&
      g_spawn_check_wait_status(status, &failure))
    return g_steal_pointer(&text);
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: cannot be unpacked: %s", path, failure->message);
  return NULL;
}

char *import_load(const char *path, GError **error)
{
  gsize length;
  g_autofree char *bytes = files_read(path, &length, error);

  if (!bytes)
    return NULL;
  if (length > 2 && strcmp(path, "-") != 0 && (guchar)bytes[0] == 0x1f && (guchar)bytes[1] == 0x8b)
    return unpack(path, error);
  return g_steal_pointer(&bytes);
}
