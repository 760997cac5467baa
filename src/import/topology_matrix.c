/* The matrix that `nvidia-smi topo -m` prints. */
#include "import/import.h"

#include <string.h>

#define CELLS_MAX 1200

static gboolean recognises(const char *text)
{
  return strstr(text, "GPU0") && (strstr(text, "CPU Affinity") || strstr(text, "Legend:") || strstr(text, "\tX"));
}

/* "GPU12", not "GPU NUMA ID". */
static gboolean is_device(const char *cell, const char *kind)
{
  gsize n = strlen(kind);
  return g_str_has_prefix(cell, kind) && cell[n] && strspn(cell + n, "0123456789") == strlen(cell + n);
}

static gboolean is_path(const char *cell)
{
  static const char *const paths[] = { "SYS", "NODE", "PHB", "PXB", "PIX", "PXN", "C2C", NULL };
  return g_strv_contains(paths, cell);
}

static int columns_of(char **cells)
{
  int n = 0;
  while (cells[n] && (is_device(cells[n], "GPU") || is_device(cells[n], "NIC") || g_str_has_prefix(cells[n], "mlx")))
    n++;
  return n;
}

typedef struct {
  FoundServer server;
  char **header; /* devices, in columns */
  int columns;
  int rows;
  int *joined;   /* by GPU: the lowest that NVLinks lead to */
} Matrix;

static void add_pair(FoundServer *s, int links, gboolean first)
{
  s->links_min = first ? links : MIN(s->links_min, links);
  s->links_max = MAX(s->links_max, links);
}

/* Both GPUs, and all that hang on them, belong together. */
static void join(Matrix *m, int a, int b)
{
  int from = MAX(m->joined[a], m->joined[b]), to = MIN(m->joined[a], m->joined[b]);

  for (int i = 0; i < m->server.gpus; i++)
    if (m->joined[i] == from)
      m->joined[i] = to;
}

/* GPUs of an island, where there are several; 0 = one holds all; -1 = they are unlike, or not side by side. */
static int island_of(const Matrix *m)
{
  int size = 0, n = m->server.gpus;

  while (size < n && m->joined[size] == 0)
    size++;
  if (size == n)
    return 0;
  for (int i = 0; i < n; i++)
    if (n % size || m->joined[i] != i / size * size)
      return -1;
  return size;
}

/* NVLinks that only some GPUs share make a tier below PCIe. */
static void find_islands(Matrix *m, ImportNotes *notes)
{
  int size = m->server.links_max > 0 ? island_of(m) : 0;

  m->server.island = MAX(size, 0);
  if (size >= 0)
    return;
  import_strange(notes, "NVLinks of some GPUs only, not of equal numbers side by side: taken as PCIe");
  m->server.links_min = m->server.links_max = m->server.gpu_links = 0;
}

/* A row of a GPU: its links to the other GPUs. */
static void read_gpu(Matrix *m, char **cells, ImportNotes *notes)
{
  int links = 0, gpu = -1, n = (int)g_strv_length(cells);

  for (int c = 0; c < m->columns && c + 1 < n; c++) {
    const char *cell = cells[c + 1];
    gpu += is_device(m->header[c], "GPU");
    if (!is_device(m->header[c], "GPU") || g_str_equal(cell, "X"))
      continue;
    int here = g_str_has_prefix(cell, "NV") ? (int)CLAMP(g_ascii_strtoll(cell + 2, NULL, 10), 0, 64) : 0;
    if (!here && !is_path(cell))
      import_strange(notes, cell);
    add_pair(&m->server, here, m->server.links_max == 0 && m->server.links_min == 0 && m->rows == 0 && links == 0);
    links += here;
    if (here > 0 && m->rows < m->server.gpus)
      join(m, m->rows, gpu);
  }
  m->rows++;
  m->server.gpu_links = MAX(m->server.gpu_links, links);
}

/* Cells without those that are empty; a legend's lines have a "=". */
static char **cells_of(const char *line)
{
  g_auto(GStrv) raw = g_strsplit_set(line, "\t ", CELLS_MAX);
  GStrvBuilder *cells = g_strv_builder_new();

  for (int i = 0; raw[i]; i++)
    if (*g_strstrip(raw[i]))
      g_strv_builder_add(cells, raw[i]);
  char **all = g_strv_builder_end(cells);
  g_strv_builder_unref(cells);
  return all;
}

static void read_line(Matrix *m, const char *line, ImportNotes *notes)
{
  g_auto(GStrv) cells = cells_of(line);

  if (!cells[0])
    return;
  if (!m->header && is_device(cells[0], "GPU")) {
    m->columns = columns_of(cells);
    m->header = g_steal_pointer(&cells);
    for (int c = 0; c < m->columns; c++)
      m->server.gpus += is_device(m->header[c], "GPU");
    m->server.nics = m->columns - m->server.gpus;
    m->joined = g_new(int, m->server.gpus);
    for (int i = 0; i < m->server.gpus; i++)
      m->joined[i] = i;
  } else if (m->header && is_device(cells[0], "GPU")) {
    read_gpu(m, cells, notes);
  } else if (!strchr(line, '=') && !strchr(line, ':') && !is_device(cells[0], "NIC") &&
             !g_str_has_prefix(cells[0], "mlx")) {
    import_strange(notes, line);
  }
}

/* All pairs alike with every link of a GPU: through a switch. Else each pair has
 * links of its own. */
static char *read_matrix(const char *text, ImportNotes *notes, GError **error)
{
  g_autofree char *plain = g_utf8_make_valid(text, -1);
  Matrix m = { .header = NULL };

  import_drop_colours(plain);
  g_auto(GStrv) lines = g_strsplit(plain, "\n", -1);
  for (int i = 0; lines[i]; i++)
    read_line(&m, lines[i], notes);
  FoundServer *s = &m.server;
  gboolean whole = m.rows == s->gpus;
  if (whole)
    find_islands(&m, notes);
  g_strfreev(m.header);
  g_free(m.joined);
  if (!whole)
    return import_error(notes, error, "%d rows of %d GPUs: expected the whole matrix of nvidia-smi topo -m", m.rows,
                        s->gpus);
  s->switched = s->links_min == s->links_max && s->links_max >= 6 && s->gpus > 2;
  if (s->switched)
    s->gpu_links = s->links_max;
  return found_server_json(s, notes, error);
}

const Importer import_topology_matrix = { "nvidia-smi topo -m", recognises, read_matrix };
