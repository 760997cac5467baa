/*
 * Plans written for other tools, as programs' option --export TOOL=FILE asks for them.
 */
#ifndef TDP_CLI_EXPORTS_H
#define TDP_CLI_EXPORTS_H

#include "export/export.h"
#include "plan/plan.h"

/* What the option's help says: `what` and the names of all tools; newly allocated. */
char *exports_help(const char *what);

/* FALSE and TDP_ERROR_INPUT where a request names no known tool or no file; `exports` ends with NULL, or is NULL. */
gboolean exports_check(char *const *exports, GError **error);

/* FALSE where a file could not be written (files_check_write). */
gboolean exports_check_paths(char *const *exports, GError **error);

/* The file that checked requests have the tool write, the first of several; NULL where none does, or it is stdout. */
const char *exports_file(char *const *exports, const Exporter *tool);

/* Writes the file of one checked request; errors are export_write's. */
gboolean exports_write(const char *request, gboolean lossy, const Model *model, const Cluster *cluster,
                       const Plan *plan, GError **error);

/* Writes the plan as a file of ours. */
gboolean exports_write_plan(const Plan *plan, const char *path, GError **error);

#endif
