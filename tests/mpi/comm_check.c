/*
 * Data of each communication call, in the manner of nccl-tests: inputs whose
 * sums are exact, on a stream beside computation and on one that computes, in and
 * out of place, for several sizes. Prints the number of wrong elements.
 *
 *   mpirun -np N build/tests/mpi/comm_check
 */
#include "exec/exec.h"
#include "exec/launch.h"

#include <stdio.h>

typedef struct {
  Backend *b;
  BackendComm *world;
  BackendStream *s;
  int rank, n_ranks, computes;
  gsize n;
  float *x, *y;
  gint64 wrong, checked;
} Check;

/* Whole numbers that stay exact in sums over ranks. */
static float value(int rank, gsize i)
{
  return (float)((rank + 1) * (int)(i % 1021));
}

static float total(int ranks, gsize i)
{
  return (float)(ranks * (ranks + 1) / 2 * (int)(i % 1021));
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

static void finish(Check *c)
{
  c->b->sync(c->b, c->s);
}

static void check_all_reduce(Check *c)
{
  fill(c, c->n);
  c->b->all_reduce(c->b, c->world, c->s, c->x, c->n, EXEC_F32, EXEC_SUM);
  finish(c);
  for (gsize i = 0; i < c->n; i++)
    expect(c, c->x[i], total(c->n_ranks, i));
  fill(c, c->n);
  c->b->all_reduce(c->b, c->world, c->s, c->x, c->n, EXEC_F32, EXEC_MAX);
  finish(c);
  for (gsize i = 0; i < c->n; i++)
    expect(c, c->x[i], value(c->n_ranks - 1, i));
}

static void check_broadcast(Check *c)
{
  for (int root = 0; root < c->n_ranks; root++) {
    fill(c, c->n);
    c->b->broadcast(c->b, c->world, c->s, c->x, c->n, EXEC_F32, root);
    finish(c);
    for (gsize i = 0; i < c->n; i++)
      expect(c, c->x[i], value(root, i));
  }
}

static void check_all_gather(Check *c, gboolean in_place)
{
  float *from = in_place ? c->y + c->rank * c->n : c->x;

  for (gsize i = 0; i < c->n; i++)
    from[i] = value(c->rank, i);
  c->b->all_gather(c->b, c->world, c->s, from, c->y, c->n, EXEC_F32);
  finish(c);
  for (int r = 0; r < c->n_ranks; r++)
    for (gsize i = 0; i < c->n; i++)
      expect(c, c->y[r * c->n + i], value(r, i));
}

static void check_reduce_scatter(Check *c, gboolean in_place)
{
  float *to = in_place ? c->x + c->rank * c->n : c->y;

  fill(c, c->n * c->n_ranks);
  c->b->reduce_scatter(c->b, c->world, c->s, c->x, to, c->n, EXEC_F32);
  finish(c);
  for (gsize i = 0; i < c->n; i++)
    expect(c, to[i], total(c->n_ranks, c->rank * c->n + i));
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
  c->b->all_to_all(c->b, c->world, c->s, c->x, out, c->y, in, EXEC_F32);
  finish(c);
  at = 0;
  for (int i = 0; i < c->n_ranks; i++)
    for (gsize k = 0; k < in[i]; k++, at++)
      expect(c, c->y[at], value(i + c->rank, k));
}

/* Around a ring, two messages each, in order. */
static void check_send(Check *c)
{
  BackendStream *back = c->b->stream_new(c->b, FALSE);
  int next = (c->rank + 1) % c->n_ranks, previous = (c->rank + c->n_ranks - 1) % c->n_ranks;

  fill(c, 2 * c->n);
  for (int i = 0; i < 2; i++) {
    c->b->recv(c->b, c->world, back, c->y + i * c->n, c->n, EXEC_F32, previous);
    c->b->send(c->b, c->world, c->s, c->x + i * c->n, c->n, EXEC_F32, next);
  }
  finish(c);
  c->b->sync(c->b, back);
  c->b->stream_free(c->b, back);
  for (gsize i = 0; i < 2 * c->n; i++)
    expect(c, c->y[i], value(previous, i));
}

static void check_doubles(Check *c)
{
  double d[2] = { c->rank + 0.5, 1 };

  c->b->all_reduce(c->b, c->world, c->s, d, 2, EXEC_F64, EXEC_SUM);
  finish(c);
  c->wrong += d[0] != c->n_ranks * c->n_ranks / 2.0 || d[1] != c->n_ranks;
  c->checked += 2;
}

static void check_size(Check *c, gsize n)
{
  c->n = n;
  c->x = g_new(float, 2 * n * c->n_ranks);
  c->y = g_new(float, 2 * n * c->n_ranks);
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
  g_free(c->x);
  g_free(c->y);
}

int main(void)
{
  static const gsize sizes[] = { 1, 3, 1000, 1024, 65537, 1 << 20 };
  char message[EXEC_ERROR_SIZE] = "";
  Launch launch;
  Check c = { 0 };

  if (launch_detect(&launch, NULL))
    c.b = backends[0].open(&(BackendOptions) { .rank = launch.rank, .size = launch.size, .dtype = EXEC_F32,
                                                        .address = launch.address[0] ? launch.address : NULL },
                                     message);
  if (!c.b)
    g_error("%s", message);
  c.rank = launch.rank;
  c.n_ranks = launch.size;
  c.world = c.b->comm_new(c.b, 0, c.rank, message);
  for (int computes = 0; computes < 2; computes++) {
    c.computes = computes;
    c.s = c.b->stream_new(c.b, computes);
    for (gsize i = 0; i < G_N_ELEMENTS(sizes) && !(computes && c.n_ranks == 1); i++)
      check_size(&c, sizes[i]);
    c.b->stream_free(c.b, c.s);
  }
  double wrong = c.wrong;
  c.s = c.b->stream_new(c.b, TRUE);
  c.b->all_reduce(c.b, c.world, c.s, &wrong, 1, EXEC_F64, EXEC_SUM);
  if (c.rank == 0)
    printf("%d ranks: %.0f wrong of %" G_GINT64_FORMAT " elements a rank\n", c.n_ranks, wrong, c.checked);
  c.b->stream_free(c.b, c.s);
  c.b->comm_free(c.b, c.world);
  c.b->free(c.b);
  return wrong > 0;
}
