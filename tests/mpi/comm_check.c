/*
 * Data of each communication call, in the manner of nccl-tests: inputs whose
 * sums are exact, on a stream beside computation and on one that computes, in and
 * out of place, for several sizes; and of uploads and downloads. Prints the number of wrong elements.
 *
 *   mpirun -np N build/tests/mpi/comm_check [BACKEND]
 */
#include "backend.h"
#include "exec/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  Backend *b;
  BackendComm *world;
  BackendStream *s;
  int rank, n_ranks, computes;
  gsize n;
  float *x, *y;   /* the host's */
  float *dx, *dy; /* the device's */
  gint64 wrong, checked;
} Check;

/* Whole numbers above 0 that stay exact in sums over ranks. */
static float value(int rank, gsize i)
{
  return (float)((rank + 1) * (int)(i % 1021 + 1));
}

static float total(int ranks, gsize i)
{
  return (float)(ranks * (ranks + 1) / 2 * (int)(i % 1021 + 1));
}

static void fill(Check *c, gsize n)
{
  for (gsize i = 0; i < n; i++)
    c->x[i] = value(c->rank, i);
}

static void expect(Check *c, float found, float expected)
{
  c->wrong += found != expected;
  c->checked++;
}

/* Of a buffer, in bytes; two doubles at least. */
static gsize room(const Check *c)
{
  return MAX(2 * c->n * c->n_ranks * sizeof(float), 2 * sizeof(double));
}

static void upload(Check *c, float *device, const float *host, gsize n)
{
  c->b->upload(c->b, c->s, device, host, n * sizeof *host);
}

/* What an earlier check left there would pass for the result. */
static void forget(Check *c)
{
  c->b->zero(c->b, c->s, c->dy, room(c));
}

static void download(Check *c, float *host, const float *device, gsize n)
{
  c->b->download(c->b, c->s, host, device, n * sizeof *host);
}

static void check_all_reduce(Check *c)
{
  fill(c, c->n);
  upload(c, c->dx, c->x, c->n);
  c->b->all_reduce(c->b, c->world, c->s, c->dx, c->n, EXEC_F32, EXEC_SUM);
  download(c, c->x, c->dx, c->n);
  for (gsize i = 0; i < c->n; i++)
    expect(c, c->x[i], total(c->n_ranks, i));
  fill(c, c->n);
  upload(c, c->dx, c->x, c->n);
  c->b->all_reduce(c->b, c->world, c->s, c->dx, c->n, EXEC_F32, EXEC_MAX);
  download(c, c->x, c->dx, c->n);
  for (gsize i = 0; i < c->n; i++)
    expect(c, c->x[i], value(c->n_ranks - 1, i));
}

static void check_broadcast(Check *c)
{
  for (int root = 0; root < c->n_ranks; root++) {
    fill(c, c->n);
    upload(c, c->dx, c->x, c->n);
    c->b->broadcast(c->b, c->world, c->s, c->dx, c->n, EXEC_F32, root);
    download(c, c->x, c->dx, c->n);
    for (gsize i = 0; i < c->n; i++)
      expect(c, c->x[i], value(root, i));
  }
}

static void check_all_gather(Check *c, gboolean in_place)
{
  float *from = in_place ? c->y + c->rank * c->n : c->x;
  float *device = in_place ? c->dy + c->rank * c->n : c->dx;

  for (gsize i = 0; i < c->n; i++)
    from[i] = value(c->rank, i);
  forget(c);
  upload(c, device, from, c->n);
  c->b->all_gather(c->b, c->world, c->s, device, c->dy, c->n, EXEC_F32);
  download(c, c->y, c->dy, c->n * c->n_ranks);
  for (int r = 0; r < c->n_ranks; r++)
    for (gsize i = 0; i < c->n; i++)
      expect(c, c->y[r * c->n + i], value(r, i));
}

static void check_reduce_scatter(Check *c, gboolean in_place)
{
  float *device = in_place ? c->dx + c->rank * c->n : c->dy;

  fill(c, c->n * c->n_ranks);
  forget(c);
  upload(c, c->dx, c->x, c->n * c->n_ranks);
  c->b->reduce_scatter(c->b, c->world, c->s, c->dx, device, c->n, EXEC_F32);
  download(c, c->y, device, c->n);
  for (gsize i = 0; i < c->n; i++)
    expect(c, c->y[i], total(c->n_ranks, c->rank * c->n + i));
}

/* From rank i to rank j go n (i + 2 j) / 4 elements: another number each way, some none. */
static gsize part(const Check *c, int from, int to)
{
  return c->n * (from + 2 * to) / (4 * c->n_ranks);
}

static void check_all_to_all(Check *c)
{
  g_autofree gsize *out = g_new(gsize, c->n_ranks), *in = g_new(gsize, c->n_ranks);
  gsize at = 0;

  for (int i = 0; i < c->n_ranks; i++) {
    out[i] = part(c, c->rank, i);
    in[i] = part(c, i, c->rank);
    for (gsize k = 0; k < out[i]; k++, at++)
      c->x[at] = value(c->rank + i, k);
  }
  forget(c);
  upload(c, c->dx, c->x, at);
  c->b->all_to_all(c->b, c->world, c->s, c->dx, c->dy, (ExecCounts) { out, in }, EXEC_F32);
  at = 0;
  for (int i = 0; i < c->n_ranks; i++)
    at += in[i];
  download(c, c->y, c->dy, at);
  at = 0;
  for (int i = 0; i < c->n_ranks; i++)
    for (gsize k = 0; k < in[i]; k++, at++)
      expect(c, c->y[at], value(i + c->rank, k));
}

/* Around a ring, two messages each, in order. Where kernels of streams run at once a communicator serves one stream, in
 * which odd ranks receive first. */
static void check_send(Check *c)
{
  BackendStream *back = c->b->concurrent ? c->s : c->b->stream_new(c->b, FALSE);
  int next = (c->rank + 1) % c->n_ranks, previous = (c->rank + c->n_ranks - 1) % c->n_ranks;
  gboolean sends_first = c->b->concurrent && c->rank % 2 == 0;

  fill(c, 2 * c->n);
  forget(c);
  upload(c, c->dx, c->x, 2 * c->n);
  c->b->sync(c->b, c->s);
  for (int i = 0; i < 2; i++) {
    if (sends_first)
      c->b->send(c->b, c->world, c->s, c->dx + i * c->n, c->n, EXEC_F32, next);
    c->b->recv(c->b, c->world, back, c->dy + i * c->n, c->n, EXEC_F32, previous);
    if (!sends_first)
      c->b->send(c->b, c->world, c->s, c->dx + i * c->n, c->n, EXEC_F32, next);
  }
  c->b->sync(c->b, back);
  download(c, c->y, c->dy, 2 * c->n);
  if (back != c->s)
    c->b->stream_free(c->b, back);
  for (gsize i = 0; i < 2 * c->n; i++)
    expect(c, c->y[i], value(previous, i));
}

static void check_doubles(Check *c)
{
  double d[2] = { c->rank + 0.5, 1 };

  c->b->upload(c->b, c->s, c->dx, d, sizeof d);
  c->b->all_reduce(c->b, c->world, c->s, c->dx, 2, EXEC_F64, EXEC_SUM);
  c->b->download(c->b, c->s, d, c->dx, sizeof d);
  c->wrong += d[0] != c->n_ranks * c->n_ranks / 2.0 || d[1] != c->n_ranks;
  c->checked += 2;
}

/* Uploads in a row from memory that is written again behind each, and a download to memory that copies reach by
 * themselves: what was to be uploaded has been read, what was to be downloaded is there. */
static void check_copies(Check *c)
{
  enum { COPIES = 64 };
  gsize bytes = COPIES * sizeof(float);
  float *device = c->b->alloc(c->b, c->s, bytes), *host = c->b->host_alloc(c->b, bytes), x;

  for (int i = 0; i < COPIES; i++) {
    host[i] = -1;
    x = value(c->rank, i);
    c->b->upload(c->b, c->s, device + i, &x, sizeof x);
  }
  c->b->download(c->b, c->s, host, device, bytes);
  for (int i = 0; i < COPIES; i++)
    expect(c, host[i], value(c->rank, i));
  c->b->dealloc(c->b, c->s, device, bytes);
  c->b->sync(c->b, c->s);
  c->b->host_free(c->b, host);
}

/* More elements than MPI counts are refused before anything moves, from or to whatever rank most of them go. */
static void check_too_long(Check *c)
{
  gsize most = G_MAXINT, n = most / c->n_ranks + 1;
  g_autofree gsize *each = g_new(gsize, c->n_ranks), *few = g_new0(gsize, c->n_ranks);
  float *x = c->dx;

  for (int i = 0; i < c->n_ranks; i++)
    each[i] = n;
  for (int kind = 0; kind < 5; kind++) {
    if (kind == 0)
      c->b->all_reduce(c->b, c->world, c->s, x, most + 1, EXEC_F32, EXEC_SUM);
    else if (kind == 1)
      c->b->all_gather(c->b, c->world, c->s, x, x, most + 1, EXEC_F32);
    else if (kind == 2)
      c->b->reduce_scatter(c->b, c->world, c->s, x, x, n, EXEC_F32);
    else
      c->b->all_to_all(c->b, c->world, c->s, x, x, (ExecCounts) { kind == 3 ? each : few, kind == 3 ? few : each },
                       EXEC_F32);
    const char *said = c->b->failed(c->b);
    c->wrong += !said || !strstr(said, "elements is too long: expected 2147483647 at most");
    c->checked++;
    cpu_of(c->b)->error[0] = 0;
  }
}

static void check_size(Check *c, gsize n)
{
  c->n = n;
  c->x = g_malloc0(room(c));
  c->y = g_malloc0(room(c));
  c->dx = c->b->alloc(c->b, c->s, room(c));
  c->dy = c->b->alloc(c->b, c->s, room(c));
  check_all_reduce(c);
  check_broadcast(c);
  for (int in_place = 0; in_place < 2; in_place++) {
    check_all_gather(c, in_place);
    check_reduce_scatter(c, in_place);
  }
  check_all_to_all(c);
  if (c->n_ranks > 1 && !c->computes)
    check_send(c);
  c->b->barrier(c->b, c->world, c->s);
  check_doubles(c);
  if (c->n_ranks > 1 && c->computes && g_str_equal(c->b->name, "cpu"))
    check_too_long(c);
  c->b->dealloc(c->b, c->s, c->dx, room(c));
  c->b->dealloc(c->b, c->s, c->dy, room(c));
  c->b->sync(c->b, c->s);
  g_free(c->x);
  g_free(c->y);
}

int main(int argc, char **argv)
{
  static const gsize sizes[] = { 1, 3, 1000, 1024, 65537, 1 << 20 };
  char message[EXEC_ERROR_SIZE] = "";
  Control *control;
  Check c = { .b = backend_open_rank(argc > 1 ? argv[1] : "cpu", EXEC_F32, &control) };
  double wrong;

  c.rank = c.b->rank;
  c.n_ranks = c.b->size;
  c.world = c.b->comm_new(c.b, 0, c.rank, message);
  for (int computes = 0; computes < 2; computes++) {
    c.computes = computes;
    c.s = c.b->stream_new(c.b, computes);
    check_copies(&c);
    for (gsize i = 0; i < G_N_ELEMENTS(sizes) && !(computes && c.n_ranks == 1); i++)
      check_size(&c, sizes[i]);
    c.b->stream_free(c.b, c.s);
  }
  wrong = c.wrong;
  c.s = c.b->stream_new(c.b, TRUE);
  void *sum = c.b->alloc(c.b, c.s, sizeof wrong);
  c.b->upload(c.b, c.s, sum, &wrong, sizeof wrong);
  c.b->all_reduce(c.b, c.world, c.s, sum, 1, EXEC_F64, EXEC_SUM);
  c.b->download(c.b, c.s, &wrong, sum, sizeof wrong);
  c.b->dealloc(c.b, c.s, sum, sizeof wrong);
  if (c.rank == 0)
    printf("%d ranks: %.0f wrong of %" G_GINT64_FORMAT " elements a rank\n", c.n_ranks, wrong, c.checked);
  c.b->stream_free(c.b, c.s);
  c.b->comm_free(c.b, c.world);
  c.b->free(c.b);
  control_close(control);
  return wrong > 0;
}
