/* Nsight Systems: CSV of nsys stats, reports cuda_gpu_kern_sum, cuda_gpu_mem_time_sum
 * and cuda_gpu_trace, also several in one text; columns are found by name. */
#include "base/csv.h"
#include "base/json.h"
#include "import/import.h"
#include "import/kernel_times.h"

#include <math.h>
#include <string.h>

#define HEADER_WITHIN 200 /* lines */

/* Where a report has what; -1 = not at all. */
typedef struct {
  int cells; /* 0 = no report has begun */
  int name, count, seconds, device;
  double unit;
} Columns;

static const struct {
  const char *name;
  double seconds;
} units[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "\302\265s", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } };

/* "Duration (ns)"; its unit, 0 where that is none we know. */
static int find_time(const char *const *cells, const char *name, double *unit)
{
  for (int i = 0; cells[i]; i++) {
    const char *behind = cells[i] + strlen(name);
    if (!g_str_has_prefix(cells[i], name) || !g_str_has_prefix(behind, " (") || !g_str_has_suffix(behind, ")"))
      continue;
    g_autofree char *text = g_strndup(behind + 2, strlen(behind) - 3);
    *unit = 0;
    for (gsize u = 0; u < G_N_ELEMENTS(units); u++)
      if (g_str_equal(text, units[u].name))
        *unit = units[u].seconds;
    return i;
  }
  return -1;
}

static int first_of(int a, int b)
{
  return a >= 0 ? a : b;
}

/* Whether the line heads a report of kernels. */
static gboolean read_header(const char *const *cells, Columns *out)
{
  Columns c = { .cells = (int)g_strv_length((char **)cells),
                .name = first_of(names_find(cells, "Name"), names_find(cells, "Operation")),
                .count = first_of(names_find(cells, "Instances"), names_find(cells, "Count")),
                .device = names_find(cells, "Device") };
  int total = find_time(cells, "Total Time", &c.unit), duration;

  if (total >= 0 && c.count >= 0 && c.name >= 0) {
    c.seconds = total;
    *out = c;
    return TRUE;
  }
  duration = find_time(cells, "Duration", &c.unit);
  if (duration < 0 || c.name < 0)
    return FALSE;
  c.seconds = duration;
  c.count = -1;
  *out = c;
  return TRUE;
}

/* The cells of a line, NULL if it is no CSV. */
static GPtrArray *cells_of(const char *line)
{
  g_autoptr(GPtrArray) rows = csv_parse_rows(line, "line", NULL);

  return rows && rows->len == 1 ? g_steal_pointer(&rows) : NULL;
}

static gboolean recognises(const char *text)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", HEADER_WITHIN);

  for (int i = 0; i < HEADER_WITHIN - 1 && lines[i]; i++) {
    Columns unused;
    if (!strstr(lines[i], "Name") && !strstr(lines[i], "Operation"))
      continue;
    g_autoptr(GPtrArray) rows = cells_of(g_strchomp(lines[i]));
    if (rows && read_header(g_ptr_array_index(rows, 0), &unused))
      return TRUE;
  }
  return FALSE;
}

static gboolean read_number(const char *cell, double *out)
{
  char *end;

  *out = g_ascii_strtod(cell, &end);
  return end != cell && !*end && isfinite(*out) && *out >= 0;
}

static gboolean read_row(const char *const *cells, const Columns *c, KernelTimes *kernels)
{
  double count = 1, seconds;

  if (c->cells == 0 || c->unit == 0 || (int)g_strv_length((char **)cells) != c->cells || !*cells[c->name] ||
      !read_number(cells[c->seconds], &seconds) ||
      (c->count >= 0 && (!read_number(cells[c->count], &count) || count < 1)))
    return FALSE;
  kernel_times_add(kernels, cells[c->name], seconds * c->unit, count);
  if (c->device >= 0)
    kernel_times_on(kernels, cells[c->device]);
  return TRUE;
}

static gboolean is_talk(const char *line)
{
  return !*line || g_str_has_prefix(line, "Processing [") || g_str_has_prefix(line, "Generating ") ||
         g_str_has_prefix(line, "** ") || g_str_has_prefix(line, "NOTICE:");
}

static void read_line(char *line, Columns *columns, KernelTimes *kernels, ImportNotes *notes)
{
  if (is_talk(g_strstrip(line)))
    return;
  g_autoptr(GPtrArray) rows = cells_of(line);
  const char *const *cells = rows ? g_ptr_array_index(rows, 0) : NULL;

  if (cells && read_header(cells, columns)) {
    if (columns->unit == 0)
      import_strange(notes, cells[columns->seconds]);
  } else if (!cells || !read_row(cells, columns, kernels))
    import_strange(notes, line);
}

static char *read_stats(const char *text, ImportNotes *notes, GError **error)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  g_autoptr(KernelTimes) kernels = kernel_times_new();
  Columns columns = { 0 };

  for (int i = 0; lines[i]; i++)
    read_line(lines[i], &columns, kernels, notes);
  if (kernel_times_size(kernels) == 0)
    return import_error(notes, error, "no kernel: expected rows below Name and Total Time or Duration in ns, us, ms "
                                      "or s");
  return kernel_times_text(kernels, &(KernelSteps) { 0 });
}

const Importer import_nsys = { "nsys report", recognises, read_stats };
