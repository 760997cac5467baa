#include "cli/exports.h"

#include "base/error.h"
#include "base/files.h"
#include "export/export.h"

#include <string.h>

static const char *file_of(const char *request)
{
  return strchr(request, '=') + 1;
}

static const Exporter *tool_of(const char *request)
{
  const char *end = strchr(request, '=');
  g_autofree char *name = end && end[1] ? g_strndup(request, end - request) : NULL;

  return name ? exporter_find(name) : NULL;
}

char *exports_help(const char *what)
{
  g_autofree char *tools = exporter_list();

  return g_strdup_printf("%s for another tool: %s", what, tools);
}

gboolean exports_check(char *const *exports, GError **error)
{
  for (int i = 0; exports && exports[i]; i++)
    if (!tool_of(exports[i])) {
      g_autofree char *tools = exporter_list();
      g_auto(GStrv) names = g_strsplit(tools, ", ", -1), parts = g_strsplit(exports[i], "=", 2);
      gboolean known = parts[0] && exporter_find(parts[0]);
      g_autofree char *meant = known ? g_strdup_printf("; did you mean %s=FILE?", parts[0])
                                     : names_meant((const char *const *)names, parts[0] ? parts[0] : "");
      return input_error(error, "--export: %s: expected TOOL=FILE with a tool of %s%s", exports[i], tools, meant);
    }
  return TRUE;
}

gboolean exports_check_paths(char *const *exports, GError **error)
{
  for (int i = 0; exports && exports[i]; i++)
    if (!files_check_write(file_of(exports[i]), error))
      return FALSE;
  return TRUE;
}

const char *exports_file(char *const *exports, const Exporter *tool)
{
  for (int i = 0; exports && exports[i]; i++)
    if (tool_of(exports[i]) == tool && !g_str_equal(file_of(exports[i]), "-"))
      return file_of(exports[i]);
  return NULL;
}

gboolean exports_write(const char *request, gboolean lossy, const Model *model, const Cluster *cluster,
                       const Plan *plan, GError **error)
{
  return export_write(tool_of(request), model, cluster, plan, file_of(request), lossy, error);
}

gboolean exports_write_plan(const Plan *plan, const char *path, GError **error)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  plan_write(plan, &w, NULL);
  g_string_append_c(text, '\n');
  return files_write(path, text->str, text->len, error);
}
