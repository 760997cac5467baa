#include "calibrate/points.h"

#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/units.h"
#include "hardware/collective.h"

#include <math.h>
#include <stdlib.h>

const char *const point_kind_names[] = { "matmul", "attention", "memory", "collective", "transfer",
                                         "launch", "disk", "beside", "reference", "turn", "walk", NULL };

#define FORMS 3
static const char *const point_forms[FORMS] = { "nt", "nn", "tn" };

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

/* Shapes by kind of device. Widths of a core's are no powers of two, whose rows would
 * all meet in the same sets of a cache. */
#define TOKENS 3
#define WIDTHS 4
#define LENGTHS 12
#define SIZES 3
#define WALK_MEMORY_PART 8 /* a buffer takes at most such a part of a rank's memory */

typedef struct {
  int tokens[TOKENS], widths[WIDTHS], vocabulary;
  int lengths[LENGTHS][2]; /* head_dim, sequence */
  int rows, heads;         /* of attention: tokens at once, and heads of one sequence */
  int sizes[SIZES][2];     /* rows x width of kernels bound by memory */
  int layers;              /* so many times that for those that go through a layer's weights */
  double largest, beside;  /* bytes of collectives */
  int products;            /* beside one */
} Shapes;

static const Shapes shapes_of[2] = {
  { .tokens = { 64, 160, 448 }, .widths = { 64, 144, 272, 528 }, .vocabulary = 1520,
    .lengths = { { 16, 64 }, { 16, 256 }, { 32, 64 }, { 32, 128 }, { 32, 256 }, { 32, 512 },
                 { 64, 64 }, { 64, 128 }, { 64, 256 }, { 64, 512 }, { 128, 64 }, { 128, 256 } },
    .rows = 512, .heads = 0, .sizes = { { 128, 192 }, { 256, 448 }, { 512, 960 } }, .layers = 4,
    .largest = 1 << 24, .beside = 1 << 22, .products = 6 },
  { .tokens = { 1024, 4096, 8192 }, .widths = { 1024, 2048, 4096, 5120 }, .vocabulary = 32000,
    .lengths = { { 64, 512 }, { 64, 1024 }, { 64, 2048 }, { 64, 4096 }, { 64, 8192 }, { 96, 2048 },
                 { 128, 512 }, { 128, 1024 }, { 128, 2048 }, { 128, 4096 }, { 128, 8192 }, { 96, 8192 } },
    .rows = 8192, .heads = 16, .sizes = { { 1024, 2048 }, { 4096, 4096 }, { 8192, 8192 } }, .layers = 1,
    .largest = 1 << 28, .beside = 1 << 26, .products = 16 },
};

/* Of linear layers of several widths and of the output layer, as forward, input gradient and weight gradient call
 * them. All ranks at once make one of the three. */
static void design_matmul(GArray *points, const Shapes *of, int busy)
{
  int turn = 0;

  for (int t = 0; t < TOKENS; t++)
    for (int w = 0; w < WIDTHS; w++) {
      int h = of->widths[w], rows = of->tokens[t];
      int layers[][2] = { { 3 * h, h }, { h, h }, { 4 * h, h }, { h, 4 * h }, { of->vocabulary, h } }; /* out, in */
      for (gsize i = 0; i < G_N_ELEMENTS(layers); i++, turn++) {
        int out = layers[i][0], in = layers[i][1];
        int sides[][3] = { { rows, out, in }, { rows, in, out }, { out, in, rows } };
        for (int form = 0; form < FORMS; form++) {
          MachinePoint p = named(POINT_MATMUL, point_forms[form]);
          p.m = sides[form][0], p.n = sides[form][1], p.k = sides[form][2];
          add(points, form == turn % FORMS ? busy : 1, p);
        }
      }
    }
}

static void design_attention(GArray *points, const Shapes *of, int busy)
{
  for (int backward = 0; backward < 2; backward++)
    for (int i = 0; i < LENGTHS; i++) {
      MachinePoint p = named(POINT_ATTENTION, "attention");
      p.head_dim = of->lengths[i][0];
      p.n = of->lengths[i][1];
      p.m = of->heads ? MAX(1, of->rows / p.n) : 1;
      p.k = of->heads ? of->heads : MAX(1, of->rows / p.n);
      p.backward = backward;
      add(points, busy, p);
    }
}

/* Numbers of an element that op/ counts for the framework tdp-run, and bytes that do not go by the format. */
static void design_memory(GArray *points, const Shapes *of, double number_bytes, int busy)
{
  static const struct { const char *name; gboolean backward; double numbers, bytes; gboolean layer; } kinds[] = {
    { "norm", FALSE, 2, 0 },      { "norm", TRUE, 6, 0 },          { "residual", FALSE, 3, 0 },
    { "bias", FALSE, 2, 0 },      { "bias gradient", TRUE, 1, 0 }, { "activation", FALSE, 2, 0 },
    { "activation", TRUE, 3, 0 }, { "swiglu", FALSE, 3, 0 },       { "swiglu", TRUE, 5, 0 },
    { "rotary", FALSE, 2, 0 },    { "rotary", TRUE, 2, 0 },        { "lookup", FALSE, 2, 0 },
    { "lookup", TRUE, 3, 0 },     { "positions", FALSE, 3, 0 },    { "positions", TRUE, 2, 0 },
    { "loss", FALSE, 2, 0 },      { "loss", TRUE, 2, 0 },          { "optimizer", FALSE, 0, 38 },
    { "shard copies", TRUE, 0, 10, TRUE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    for (int s = 0; s < SIZES; s++) {
      MachinePoint p = named(POINT_MEMORY, kinds[i].name);
      p.backward = kinds[i].backward;
      p.m = of->sizes[s][0] * (kinds[i].layer ? of->layers : 1);
      p.n = of->sizes[s][1];
      p.bytes = (kinds[i].numbers * number_bytes + kinds[i].bytes) * p.m * p.n;
      add(points, busy, p);
    }
}

static void add_collectives(GArray *points, const Shapes *of, int group, gboolean messages)
{
  static const Collective kinds[] = { COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER,
                                      COLLECTIVE_SEND };

  for (gsize i = 0; i < G_N_ELEMENTS(kinds) - !messages; i++)
    for (double bytes = 1 << 12; bytes <= of->largest; bytes *= 4) {
      MachinePoint p = named(POINT_COLLECTIVE, collective_names[kinds[i]]);
      p.ranks = p.busy = group;
      p.bytes = bytes;
      g_array_append_val(points, p);
    }
}

static void design_collectives(GArray *points, const Shapes *of, const MachineHead *head)
{
  int node = head->node_ranks, nodes = head->ranks / node;

  for (int group = 2; group <= node; group = group < node ? MIN(2 * group, node) : node + 1)
    add_collectives(points, of, group, group == 2);
  for (int n = 2; n <= nodes; n = n < nodes ? MIN(2 * n, nodes) : nodes + 1)
    add_collectives(points, of, n * node, n == 2);
}

/* Products that last longer than the collective, so that it could hide behind them; and one after the other. */
static void design_beside(GArray *points, const Shapes *of, int most)
{
  MachinePoint p = named(POINT_BESIDE, collective_names[COLLECTIVE_ALL_REDUCE]);
  int ranks = 1;

  while (2 * ranks <= most)
    ranks *= 2;
  p.m = of->tokens[1];
  p.n = p.k = of->widths[WIDTHS - 1];
  p.head_dim = of->products;
  p.bytes = of->beside;
  p.ranks = p.busy = ranks;
  for (p.backward = FALSE; p.backward <= TRUE && ranks > 1; p.backward++)
    g_array_append_val(points, p);
}

/* Between what takes a core from tens of microseconds to some milliseconds. */
static void design_turns(GArray *points, const Shapes *of)
{
  for (double elements = 1 << 12; elements <= 1 << 18; elements *= 4)
    for (int apart = 0; apart < 2; apart++) {
      MachinePoint p = named(POINT_TURN, "activation");
      p.backward = apart;
      p.m = of->tokens[1];
      p.n = p.k = of->widths[1];
      p.ranks = p.busy = 1;
      p.bytes = 2 * dtype_bytes[DTYPE_FP32] * elements;
      g_array_append_val(points, p);
    }
}

/* From well within what a core has of its last-level cache to well beyond, as far as memory is; closer where most
 * cores' part ends. */
static const int walks_mib[] = { 8, 16, 32, 48, 64, 96, 128, 256 };

static void design_walks(GArray *points, const MachineHead *head)
{
  static const char *const names[] = { "read", "update" };

  for (gsize i = 0; i < 2 * G_N_ELEMENTS(walks_mib); i++) {
    MachinePoint p = named(POINT_WALK, names[i % 2]);
    p.bytes = walks_mib[i / 2] * MIB;
    if (p.bytes <= head->memory_bytes / WALK_MEMORY_PART)
      add(points, head->processors, p);
  }
}

GArray *points_design(const MachineHead *head)
{
  const Shapes *of = &shapes_of[head_is_large(head)];
  int busy = head->processors;
  GArray *points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));
  static const char *const transfers[] = { "copy", "upload", "download" }, *const disk[] = { "write", "read" };

  add(points, busy, named(POINT_LAUNCH, "launch"));
  for (gsize i = 0; i < G_N_ELEMENTS(transfers); i++) {
    MachinePoint p = named(POINT_TRANSFER, transfers[i]);
    p.bytes = POINTS_COPY_BYTES(head_is_large(head));
    add(points, busy, p);
  }
  design_matmul(points, of, busy);
  design_attention(points, of, busy);
  design_memory(points, of, dtype_bytes[head->precision], busy);
  design_collectives(points, of, head);
  design_beside(points, of, busy);
  if (!head_is_large(head)) {
    design_turns(points, of);
    design_walks(points, head);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(disk); i++) {
    MachinePoint p = named(POINT_DISK, disk[i]);
    p.ranks = p.busy = 1;
    p.bytes = POINTS_COPY_BYTES(FALSE);
    g_array_append_val(points, p);
  }
  return points;
}

static gboolean same(const MachinePoint *a, const MachinePoint *b)
{
  return point_like(a, b->kind, b->name, b->backward) && a->m == b->m && a->n == b->n && a->k == b->k &&
         a->head_dim == b->head_dim && a->ranks == b->ranks && a->busy == b->busy && a->bytes == b->bytes;
}

static void add_run(MachinePoint *to, const MachinePoint *from)
{
  double share = from->rounds / MAX(1.0, (double)to->rounds + from->rounds);

  to->seconds += share * (from->seconds - to->seconds);
  to->low_s += share * (from->low_s - to->low_s);
  to->high_s += share * (from->high_s - to->high_s);
  to->rounds += from->rounds;
}

/* Seconds of a run's mean reference, 1 if there is none. */
static double mean_reference_s(const GArray *points)
{
  for (guint i = 0; i < points->len; i++)
    if (point_like(&g_array_index(points, MachinePoint, i), POINT_REFERENCE, "mean", FALSE))
      return g_array_index(points, MachinePoint, i).seconds;
  return 1;
}

void points_merge(GArray *points, const GArray *more)
{
  double scale = mean_reference_s(points) / mean_reference_s(more);
  guint n = points->len;

  for (guint i = 0; i < more->len; i++) {
    MachinePoint p = g_array_index(more, MachinePoint, i);
    guint j = 0;
    if (point_like(&p, POINT_REFERENCE, "mean", FALSE) || point_like(&p, POINT_REFERENCE, "slowest", FALSE))
      p.seconds = p.low_s = p.high_s = p.seconds * scale;
    while (j < n && !same(&g_array_index(points, MachinePoint, j), &p))
      j++;
    if (j < n)
      add_run(&g_array_index(points, MachinePoint, j), &p);
    else
      g_array_append_val(points, p);
  }
}

/* The median's bounds are the order statistics n/2 -+ 0.98 sqrt(n), from the normal
 * form of the binomial (Conover, Practical Nonparametric Statistics, 3.2). */
void point_set(MachinePoint *point, double *samples, int n)
{
  int reach = (int)ceil(0.98 * sqrt(n));

  g_assert(n > 0);
  point->rounds = n;
  point->seconds = sort_median(samples, n);
  point->low_s = samples[MAX(0, n / 2 - reach)];
  point->high_s = samples[MIN(n - 1, (n - 1) / 2 + reach)];
}

/* ---- file ---- */

#define HEADER "kind,name,pass,m,n,k,head_dim,ranks,busy,bytes,rounds,seconds,low_s,high_s"

/* Bytes, bytes a second: cluster files take no less and no more. */
#define HEAD_LEAST 2e6
#define HEAD_MOST 1e14
#define HEAD_EXPECTED "a number from 2e6 to 1e14"
#define BYTES_MOST 1e14
/* Of seconds: from less than a core's cycle to days. */
#define TIME_LEAST 1e-11
#define TIME_MOST 1e6

/* The first row is the machine: device and date in `name` and `pass`, processors and ranks of a node in `m` and `n`,
 * samples and discarded ones in `k` and `head_dim`; the second a device: format in `name`, multiprocessors in `m`,
 * cache in `bytes`, the host's memory in `seconds`. */
char *points_csv(const MachineHead *head, const GArray *points)
{
  GString *text = g_string_new(HEADER "\nmachine,");

  csv_put(text, head->device, FALSE);
  g_string_append_printf(text, "%s,%d,%d,%d,%d,%d,,%.17g,,%.17g,,\n", head->date, head->processors,
                         head->node_ranks, head->samples, head->discarded, head->ranks, head->memory_bytes,
                         head->host_bytes_per_s);
  g_string_append_printf(text, "device,%s,,%d,,,,,,%.17g,,%.17g,,\n", dtype_names[head->precision], head->units,
                         head->cache_bytes, head->host_memory_bytes);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = &g_array_index(points, MachinePoint, i);
    g_string_append_printf(text, "%s,%s,%s,%d,%d,%d,%d,%d,%d,%.17g,%d,%.6g,%.6g,%.6g\n", point_kind_names[p->kind],
                           p->name, p->backward ? "backward" : "forward", p->m, p->n, p->k, p->head_dim, p->ranks,
                           p->busy, p->bytes, p->rounds, p->seconds, p->low_s, p->high_s);
  }
  return g_string_free(text, FALSE);
}

/* What is divided by is not 0. */
static gboolean check_point(const Csv *csv, int row, const MachinePoint *p, GError **error)
{
  gboolean product = p->kind == POINT_MATMUL || p->kind == POINT_BESIDE || p->kind == POINT_TURN;
  gboolean attention = p->kind == POINT_ATTENTION;
  gboolean moves = !attention && p->kind != POINT_MATMUL && p->kind != POINT_LAUNCH && p->kind != POINT_REFERENCE;
  const struct { gboolean wrong; const char *column, *expected; } rules[] = {
    { (product || attention) && p->m < 1, "m", "a size of at least 1" },
    { (product || attention) && p->n < 1, "n", "a size of at least 1" },
    { (product || attention) && p->k < 1, "k", "a size of at least 1" },
    { attention && p->head_dim < 1, "head_dim", "a size of at least 1" },
    { p->ranks < 1, "ranks", "at least 1" },
    { p->busy < 1, "busy", "at least 1" },
    { moves && !(p->bytes > 0), "bytes", "a number above 0" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
    if (rules[i].wrong)
      return csv_refuse(csv, row, rules[i].column, rules[i].expected, error);
  return TRUE;
}

static gboolean read_point(const Csv *csv, int row, MachinePoint *p, GError **error)
{
  static const char *const counts[] = { "m", "n", "k", "head_dim", "ranks", "busy", "rounds" };
  int *const out[] = { &p->m, &p->n, &p->k, &p->head_dim, &p->ranks, &p->busy, &p->rounds };
  static const char *const reals[] = { "bytes", "seconds", "low_s", "high_s" };
  double *const values[] = { &p->bytes, &p->seconds, &p->low_s, &p->high_s };
  int kind = names_find(point_kind_names, csv_cell(csv, row, "kind"));

  if (kind < 0)
    return csv_refuse(csv, row, "kind", "matmul, attention, memory, collective, transfer, launch, disk, beside, "
                                        "reference, turn or walk", error);
  *p = named(kind, csv_cell(csv, row, "name"));
  p->backward = g_str_equal(csv_cell(csv, row, "pass"), "backward");
  for (gsize i = 0; i < G_N_ELEMENTS(counts); i++) {
    if (!csv_int(csv, row, counts[i], out[i], error))
      return FALSE;
    if (*out[i] < 0 || *out[i] > 1 << 24)
      return csv_refuse(csv, row, counts[i], "a count", error);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(reals); i++) {
    if (!csv_real(csv, row, reals[i], values[i], error))
      return FALSE;
    double most = i == 0 ? BYTES_MOST : TIME_MOST;
    if (!(*values[i] >= 0 && *values[i] <= most))
      return csv_refuse(csv, row, reals[i], i == 0 ? "a number from 0 to 1e14" : "a number from 0 to 1e6", error);
  }
  if ((kind == POINT_COLLECTIVE || kind == POINT_BESIDE) && names_find(collective_names, p->name) < 0)
    return csv_refuse(csv, row, "name", "a collective", error);
  if (p->seconds < TIME_LEAST)
    return csv_refuse(csv, row, "seconds", "a time from 1e-11 to 1e6", error);
  return check_point(csv, row, p, error);
}

/* Files of cores may lack the row. */
static gboolean read_device(const Csv *csv, MachineHead *head, GError **error)
{
  head->units = 1;
  head->precision = DTYPE_FP32;
  head->host_memory_bytes = head->memory_bytes * head->node_ranks;
  if (csv->rows->len < 2 || !g_str_equal(csv_cell(csv, 1, "kind"), "device"))
    return TRUE;
  int precision = names_find(dtype_names, csv_cell(csv, 1, "name"));
  if (!csv_int(csv, 1, "m", &head->units, error) || !csv_real(csv, 1, "bytes", &head->cache_bytes, error) ||
      !csv_real(csv, 1, "seconds", &head->host_memory_bytes, error))
    return FALSE;
  if (precision < 0)
    return csv_refuse(csv, 1, "name", "a number format", error);
  head->precision = precision;
  if (head->units < 1)
    return csv_refuse(csv, 1, "m", "multiprocessors, at least 1", error);
  if (!(head->cache_bytes >= 0 && head->cache_bytes <= HEAD_MOST))
    return csv_refuse(csv, 1, "bytes", "a number from 0 to 1e14", error);
  if (!(head->host_memory_bytes >= HEAD_LEAST && head->host_memory_bytes <= HEAD_MOST))
    return csv_refuse(csv, 1, "seconds", HEAD_EXPECTED, error);
  return TRUE;
}

/* Whether what the machine's row says goes together. */
static gboolean check_head(const Csv *csv, const MachineHead *head, GError **error)
{
  const struct { gboolean ok; const char *column, *expected; } rules[] = {
    { head->samples >= 0 && head->discarded >= 0 && head->discarded <= head->samples,
      "head_dim", "discarded samples, at most those of k" },
    { head->node_ranks >= 1 && head->ranks % MAX(1, head->node_ranks) == 0, "n", "ranks of a node, which divide all" },
    { head->processors >= 1 && head->processors <= head->node_ranks, "m", "from 1 to the ranks of a node" },
    { head->memory_bytes >= HEAD_LEAST && head->memory_bytes <= HEAD_MOST, "bytes", HEAD_EXPECTED },
    { head->host_bytes_per_s >= HEAD_LEAST && head->host_bytes_per_s <= HEAD_MOST, "seconds", HEAD_EXPECTED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
    if (!rules[i].ok)
      return csv_refuse(csv, 0, rules[i].column, rules[i].expected, error);
  return TRUE;
}

static gboolean read_head(const Csv *csv, MachineHead *head, GError **error)
{
  if (csv->rows->len == 0 || !g_str_equal(csv_cell(csv, 0, "kind"), "machine"))
    return input_error(error, "%s: expected points of tdp-calibrate --points, whose first row is the machine",
                       csv->name);
  *head = (MachineHead) { .ranks = 0 };
  g_strlcpy(head->device, csv_cell(csv, 0, "name"), sizeof head->device);
  g_strlcpy(head->date, csv_cell(csv, 0, "pass"), sizeof head->date);
  if (!csv_int(csv, 0, "ranks", &head->ranks, error) || !csv_real(csv, 0, "bytes", &head->memory_bytes, error) ||
      !csv_real(csv, 0, "seconds", &head->host_bytes_per_s, error))
    return FALSE;
  if (head->ranks < 1 || head->ranks > 4096)
    return csv_refuse(csv, 0, "ranks", "from 1 to 4096", error);
  head->node_ranks = head->processors = head->ranks;
  if (!csv_int(csv, 0, "n", &head->node_ranks, error) || !csv_int(csv, 0, "m", &head->processors, error))
    return FALSE;
  if (!csv_int(csv, 0, "k", &head->samples, error) || !csv_int(csv, 0, "head_dim", &head->discarded, error))
    return FALSE;
  return check_head(csv, head, error) && read_device(csv, head, error);
}

GArray *points_load(const char *path, MachineHead *head, GError **error)
{
  g_autoptr(Csv) csv = csv_load(path, error);
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));

  if (!csv || !read_head(csv, head, error))
    return NULL;
  for (guint row = 1; row < csv->rows->len; row++) {
    if (row == 1 && g_str_equal(csv_cell(csv, row, "kind"), "device"))
      continue;
    MachinePoint point;
    if (!read_point(csv, row, &point, error))
      return NULL;
    g_array_append_val(points, point);
  }
  return g_steal_pointer(&points);
}
