#include "calibrate/points.h"

#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "hardware/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const point_kind_names[] = { "matmul", "attention", "memory", "collective", "transfer",
                                         "launch", "disk", "beside", "reference", NULL };

enum { FP32 = 4 };

static void add(GArray *points, int most, MachinePoint point)
{
  for (int busy = 1; busy <= most; busy += MAX(1, most - 1)) {
    point.busy = busy;
    point.ranks = 1;
    g_array_append_val(points, point);
  }
}

static MachinePoint named(PointKind kind, const char *name)
{
  MachinePoint point = { .kind = kind };
  g_strlcpy(point.name, name, sizeof point.name);
  return point;
}

/* Of blocks of several widths and of the output layer, in the three forms that
 * forward, input gradient and weight gradient have. Widths are no powers of two,
 * whose rows would all meet in the same sets of a cache. */
static void design_matmul(GArray *points, int busy)
{
  static const char *const forms[] = { "nt", "nn", "tn" };
  static const int tokens[] = { 64, 160, 448 }, widths[] = { 64, 144, 272, 528 };
  int form = 0;

  for (gsize t = 0; t < G_N_ELEMENTS(tokens); t++)
    for (gsize w = 0; w < G_N_ELEMENTS(widths); w++) {
      int h = widths[w], shapes[][2] = { { 3 * h, h }, { h, h }, { 4 * h, h }, { h, 4 * h }, { 1520, h } };
      for (gsize i = 0; i < G_N_ELEMENTS(shapes); i++) {
        MachinePoint p = named(POINT_MATMUL, forms[form++ % 3]);
        p.m = tokens[t];
        p.n = shapes[i][0];
        p.k = shapes[i][1];
        add(points, busy, p);
      }
    }
}

static void design_attention(GArray *points, int busy)
{
  static const int sizes[][2] = { { 16, 64 },  { 16, 256 }, { 32, 64 },  { 32, 128 }, { 32, 256 }, { 32, 512 },
                                  { 64, 64 },  { 64, 128 }, { 64, 256 }, { 64, 512 }, { 128, 64 }, { 128, 256 } };

  for (int backward = 0; backward < 2; backward++)
    for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
      MachinePoint p = named(POINT_ATTENTION, "attention");
      p.head_dim = sizes[i][0];
      p.n = sizes[i][1];
      p.m = 1;
      p.k = MAX(1, 512 / p.n);
      p.backward = backward;
      add(points, busy, p);
    }
}

/* Bytes for an element as op/ counts them for the framework tdp-run. */
static void design_memory(GArray *points, int busy)
{
  static const struct { const char *name; gboolean backward; double bytes; } kinds[] = {
    { "norm", FALSE, 2 * FP32 },     { "norm", TRUE, 6 * FP32 },      { "residual", FALSE, 3 * FP32 },
    { "bias", FALSE, 2 * FP32 },     { "bias gradient", TRUE, FP32 }, { "activation", FALSE, 2 * FP32 },
    { "activation", TRUE, 3 * FP32 }, { "swiglu", FALSE, 3 * FP32 },  { "swiglu", TRUE, 5 * FP32 },
    { "rotary", FALSE, 2 * FP32 },   { "rotary", TRUE, 2 * FP32 },    { "lookup", FALSE, 2 * FP32 },
    { "lookup", TRUE, 3 * FP32 },    { "positions", FALSE, 3 * FP32 }, { "positions", TRUE, 2 * FP32 },
    { "loss", FALSE, 8 },            { "loss", TRUE, 8 },             { "optimizer", FALSE, 38 },
  };
  static const int sizes[][2] = { { 128, 192 }, { 256, 448 }, { 512, 960 } };

  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    for (gsize s = 0; s < G_N_ELEMENTS(sizes); s++) {
      MachinePoint p = named(POINT_MEMORY, kinds[i].name);
      p.backward = kinds[i].backward;
      p.m = sizes[s][0];
      p.n = sizes[s][1];
      p.bytes = kinds[i].bytes * p.m * p.n;
      add(points, busy, p);
    }
}

static void add_collectives(GArray *points, int group, gboolean messages)
{
  static const Collective kinds[] = { COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER,
                                      COLLECTIVE_SEND };

  for (gsize i = 0; i < G_N_ELEMENTS(kinds) - !messages; i++)
    for (double bytes = 1 << 12; bytes <= 1 << 24; bytes *= 4) {
      MachinePoint p = named(POINT_COLLECTIVE, collective_names[kinds[i]]);
      p.ranks = p.busy = group;
      p.bytes = bytes;
      g_array_append_val(points, p);
    }
}

static void design_collectives(GArray *points, const MachineHead *head)
{
  int node = head->node_ranks, nodes = head->ranks / node;

  for (int group = 2; group <= node; group = group < node ? MIN(2 * group, node) : node + 1)
    add_collectives(points, group, group == 2);
  for (int n = 2; n <= nodes; n = n < nodes ? MIN(2 * n, nodes) : nodes + 1)
    add_collectives(points, n * node, n == 2);
}

/* Products that last longer than the collective, so that it could hide behind them. */
static void design_beside(GArray *points, int most)
{
  MachinePoint p = named(POINT_BESIDE, collective_names[COLLECTIVE_ALL_REDUCE]);
  int ranks = 1;

  while (2 * ranks <= most)
    ranks *= 2;
  p.m = 160;
  p.n = 528;
  p.k = 528;
  p.head_dim = 16;
  p.bytes = 1 << 22;
  p.ranks = p.busy = ranks;
  if (ranks > 1)
    g_array_append_val(points, p);
}

GArray *points_design(const MachineHead *head)
{
  int busy = head->processors;
  GArray *points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));
  static const char *const transfers[] = { "copy", "upload", "download" }, *const disk[] = { "write", "read" };

  add(points, busy, named(POINT_LAUNCH, "launch"));
  for (gsize i = 0; i < G_N_ELEMENTS(transfers); i++) {
    MachinePoint p = named(POINT_TRANSFER, transfers[i]);
    p.bytes = 1 << 25;
    add(points, busy, p);
  }
  design_matmul(points, busy);
  design_attention(points, busy);
  design_memory(points, busy);
  design_collectives(points, head);
  design_beside(points, busy);
  for (gsize i = 0; i < G_N_ELEMENTS(disk); i++) {
    MachinePoint p = named(POINT_DISK, disk[i]);
    p.ranks = p.busy = 1;
    p.bytes = 1 << 25;
    g_array_append_val(points, p);
  }
  return points;
}

static gboolean same(const MachinePoint *a, const MachinePoint *b)
{
  return a->kind == b->kind && g_str_equal(a->name, b->name) && !a->backward == !b->backward && a->m == b->m &&
         a->n == b->n && a->k == b->k && a->head_dim == b->head_dim && a->ranks == b->ranks && a->busy == b->busy &&
         a->bytes == b->bytes;
}

static void add_run(MachinePoint *to, const MachinePoint *from)
{
  double share = from->rounds / MAX(1.0, (double)to->rounds + from->rounds);

  to->seconds += share * (from->seconds - to->seconds);
  to->low_s += share * (from->low_s - to->low_s);
  to->high_s += share * (from->high_s - to->high_s);
  to->rounds += from->rounds;
}

void points_merge(GArray *points, const GArray *more)
{
  guint n = points->len;

  for (guint i = 0; i < more->len; i++) {
    const MachinePoint *p = &g_array_index(more, MachinePoint, i);
    guint j = 0;
    while (j < n && !same(&g_array_index(points, MachinePoint, j), p))
      j++;
    if (j < n)
      add_run(&g_array_index(points, MachinePoint, j), p);
    else
      g_array_append_val(points, *p);
  }
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median's bounds are the order statistics n/2 -+ 0.98 sqrt(n), from the normal
 * form of the binomial (Conover, Practical Nonparametric Statistics, 3.2). */
void point_set(MachinePoint *point, double *samples, int n)
{
  int reach = (int)ceil(0.98 * sqrt(n));

  g_assert(n > 0);
  qsort(samples, n, sizeof *samples, compare);
  point->rounds = n;
  point->seconds = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
  point->low_s = samples[MAX(0, n / 2 - reach)];
  point->high_s = samples[MIN(n - 1, (n - 1) / 2 + reach)];
}

/* ---- file ---- */

#define HEADER "kind,name,pass,m,n,k,head_dim,ranks,busy,bytes,rounds,seconds,low_s,high_s"

/* The first row is the machine: device and date in `name` and `pass`, processors and ranks of a node in `m` and `n`. */
char *points_csv(const MachineHead *head, const GArray *points)
{
  GString *text = g_string_new(HEADER "\nmachine,");

  csv_put(text, head->device, FALSE);
  g_string_append_printf(text, "%s,%d,%d,,,%d,,%.17g,,%.17g,,\n", head->date, head->processors, head->node_ranks,
                         head->ranks, head->memory_bytes, head->host_bytes_per_s);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = &g_array_index(points, MachinePoint, i);
    g_string_append_printf(text, "%s,%s,%s,%d,%d,%d,%d,%d,%d,%.17g,%d,%.6g,%.6g,%.6g\n", point_kind_names[p->kind],
                           p->name, p->backward ? "backward" : "forward", p->m, p->n, p->k, p->head_dim, p->ranks,
                           p->busy, p->bytes, p->rounds, p->seconds, p->low_s, p->high_s);
  }
  return g_string_free(text, FALSE);
}

static gboolean bad_row(const Csv *csv, int row, const char *column, const char *expected, GError **error)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: line %d: %s: \"%s\": expected %s", csv->name,
              g_array_index(csv->lines, int, row), column, csv_cell(csv, row, column), expected);
  return FALSE;
}

static gboolean read_point(const Csv *csv, int row, MachinePoint *p, GError **error)
{
  static const char *const counts[] = { "m", "n", "k", "head_dim", "ranks", "busy", "rounds" };
  int *const out[] = { &p->m, &p->n, &p->k, &p->head_dim, &p->ranks, &p->busy, &p->rounds };
  static const char *const reals[] = { "bytes", "seconds", "low_s", "high_s" };
  double *const values[] = { &p->bytes, &p->seconds, &p->low_s, &p->high_s };
  int kind = names_find(point_kind_names, csv_cell(csv, row, "kind"));

  if (kind < 0)
    return bad_row(csv, row, "kind", "matmul, attention, memory, collective, transfer, launch, disk, beside or reference", error);
  *p = named(kind, csv_cell(csv, row, "name"));
  p->backward = g_str_equal(csv_cell(csv, row, "pass"), "backward");
  for (gsize i = 0; i < G_N_ELEMENTS(counts); i++) {
    if (!csv_int(csv, row, counts[i], out[i], error))
      return FALSE;
    if (*out[i] < 0 || *out[i] > 1 << 24)
      return bad_row(csv, row, counts[i], "a count", error);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(reals); i++) {
    if (!csv_real(csv, row, reals[i], values[i], error))
      return FALSE;
    if (!(*values[i] >= 0))
      return bad_row(csv, row, reals[i], "a number of at least 0", error);
  }
  if ((kind == POINT_COLLECTIVE || kind == POINT_BESIDE) && names_find(collective_names, p->name) < 0)
    return bad_row(csv, row, "name", "a collective", error);
  return p->seconds > 0 ? TRUE : bad_row(csv, row, "seconds", "a time above 0", error);
}

static gboolean read_head(const Csv *csv, MachineHead *head, GError **error)
{
  if (csv->rows->len == 0 || !g_str_equal(csv_cell(csv, 0, "kind"), "machine")) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
                "%s: expected points of tdp-calibrate --points, whose first row is the machine",
                csv->name);
    return FALSE;
  }
  *head = (MachineHead) { .ranks = 0 };
  g_strlcpy(head->device, csv_cell(csv, 0, "name"), sizeof head->device);
  g_strlcpy(head->date, csv_cell(csv, 0, "pass"), sizeof head->date);
  if (!csv_int(csv, 0, "ranks", &head->ranks, error) || !csv_real(csv, 0, "bytes", &head->memory_bytes, error) ||
      !csv_real(csv, 0, "seconds", &head->host_bytes_per_s, error))
    return FALSE;
  if (head->ranks < 1 || head->ranks > 4096)
    return bad_row(csv, 0, "ranks", "from 1 to 4096", error);
  head->node_ranks = head->processors = head->ranks;
  if (!csv_int(csv, 0, "n", &head->node_ranks, error) || !csv_int(csv, 0, "m", &head->processors, error))
    return FALSE;
  if (head->node_ranks < 1 || head->ranks % head->node_ranks)
    return bad_row(csv, 0, "n", "ranks of a node, which divide all", error);
  if (head->processors < 1 || head->processors > head->node_ranks)
    return bad_row(csv, 0, "m", "from 1 to the ranks of a node", error);
  if (!(head->memory_bytes > 0))
    return bad_row(csv, 0, "bytes", "a number above 0", error);
  return head->host_bytes_per_s > 0 ? TRUE : bad_row(csv, 0, "seconds", "a number above 0", error);
}

GArray *points_load(const char *path, MachineHead *head, GError **error)
{
  g_autoptr(Csv) csv = csv_load(path, error);
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));

  if (!csv || !read_head(csv, head, error))
    return NULL;
  for (guint row = 1; row < csv->rows->len; row++) {
    MachinePoint point;
    if (!read_point(csv, row, &point, error))
      return NULL;
    g_array_append_val(points, point);
  }
  return g_steal_pointer(&points);
}
