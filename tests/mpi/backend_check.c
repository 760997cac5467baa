/*
 * What steps of a run do not show of a backend whose streams run by themselves: events and their times, rows of other
 * pitches, the most memory in use, memory that is out, barriers, and, on the emulated device, what is left when a rank
 * is gone. Prints the number of promises that were broken.
 *
 *   tests/ranks N build/emulated/tests/mpi/backend_check [BACKEND]
 */
#include "backend.h"

#include <stdio.h>
#include <string.h>

enum { VALUES = 64, LATE_US = 20000 };

#define CLOCK_S 0.5 /* between the host's clock and an event's: the host may have waited for its turn */

typedef struct {
  Backend *b;
  BackendComm *world;
  BackendStream *s;
  float *device, *host; /* VALUES of each; the host's are pinned */
  int wrong, checked;
} Check;

static void expect(Check *c, gboolean right, const char *what)
{
  c->checked++;
  c->wrong += !right;
  if (!right)
    printf("rank %d: %s\n", c->b->rank, what);
}

static void upload(Check *c)
{
  float x[VALUES];

  for (int i = 0; i < VALUES; i++) {
    x[i] = i + 1;
    c->host[i] = -1;
  }
  c->b->upload(c->b, c->s, c->device, x, sizeof x);
}

static gboolean arrived(const Check *c)
{
  for (int i = 0; i < VALUES; i++)
    if (c->host[i] != i + 1)
      return FALSE;
  return TRUE;
}

/* Copies one by one, so that many are ahead of the event; the run's first event is of a stream that has come to it. */
static void check_events(Check *c)
{
  Backend *b = c->b;
  BackendEvent *copied = b->event_new(b), *later = b->event_new(b);
  double began = b->now_s(b);

  b->event_record(b, later, c->s);
  b->sync(b, c->s);
  upload(c);
  for (int i = 0; i < VALUES; i++)
    b->host_down(b, c->s, c->host + i, c->device + i, sizeof *c->host);
  b->event_record(b, copied, c->s);
  while (!b->event_done(b, copied) && !b->failed(b))
    continue;
  expect(c, arrived(c), "an event is done before what it stands behind");
  b->event_record(b, later, c->s);
  b->sync(b, c->s);
  expect(c, b->event_s(b, copied) <= b->event_s(b, later), "of two events the second is the earlier");
  expect(c, b->event_s(b, copied) > began - CLOCK_S && b->event_s(b, later) < b->now_s(b) + CLOCK_S,
         "an event's time is not the host's");
  b->event_free(b, copied);
  b->event_free(b, later);
}

static void check_streams(Check *c)
{
  Backend *b = c->b;
  BackendStream *other = b->stream_new(b, FALSE);
  BackendEvent *written = b->event_new(b);

  b->zero(b, c->s, c->device, VALUES * sizeof *c->device);
  b->event_record(b, written, c->s);
  upload(c);
  b->event_record(b, written, c->s);
  b->event_wait(b, written, other);
  b->host_down(b, other, c->host, c->device, VALUES * sizeof *c->host);
  b->sync(b, other);
  expect(c, arrived(c), "a stream does not wait for an event's last record");
  b->stream_free(b, other);
  b->event_free(b, written);
}

/* Four rows of 3 values, from every 16th value on to every fifth. */
static void check_rows(Check *c)
{
  enum { ROWS = 4, WIDTH = 3, FROM = 16, TO = 5 };
  Backend *b = c->b;
  gsize size = sizeof(float), wrong = 0;
  float *packed = b->alloc(b, c->s, ROWS * TO * size);

  upload(c);
  b->zero(b, c->s, packed, ROWS * TO * size);
  b->copy_rows(b, c->s, (ExecRows) { packed, TO * size }, (ExecRows) { c->device, FROM * size }, WIDTH * size, ROWS);
  b->download(b, c->s, c->host, packed, ROWS * TO * size);
  for (int i = 0; i < ROWS * TO; i++)
    wrong += c->host[i] != (i % TO < WIDTH ? i / TO * FROM + i % TO + 1 : 0);
  expect(c, wrong == 0, "rows are not where they should be");
  b->dealloc(b, c->s, packed, ROWS * TO * size);
}

static void check_memory(Check *c)
{
  const gsize bytes = 8 << 20;
  Backend *b = c->b;

  b->device_memory(b, TRUE);
  BackendMemory before = b->device_memory(b, FALSE);
  void *p = b->alloc(b, c->s, bytes);
  b->dealloc(b, c->s, p, bytes);
  b->sync(b, c->s);
  BackendMemory most = b->device_memory(b, TRUE), after = b->device_memory(b, FALSE);
  expect(c, most.used_bytes >= before.used_bytes + bytes, "what was freed does not count among the most in use");
  expect(c, after.used_bytes == before.used_bytes, "the most in use does not begin anew");
  expect(c, most.reserved_bytes >= most.used_bytes && most.device_bytes >= most.used_bytes, "more is used than held");
  expect(c, !b->alloc(b, c->s, 2 * b->memory_bytes), "more memory is given than there is");
  expect(c, !b->failed(b), "memory that is out counts as a failure");
}

/* Each in turn is the last to come. */
static void check_barrier(Check *c)
{
  Backend *b = c->b;

  for (int last = 0; last < b->size; last++) {
    double came = 0, left;
    if (b->rank == last) {
      g_usleep(LATE_US);
      came = b->now_s(b);
    }
    b->barrier(b, c->world, c->s);
    b->sync(b, c->s);
    left = b->now_s(b);
    b->upload(b, c->s, c->device, &came, sizeof came);
    b->all_reduce(b, c->world, c->s, c->device, 1, EXEC_F64, EXEC_MAX);
    b->download(b, c->s, &came, c->device, sizeof came);
    expect(c, left >= came, "a barrier lets a rank go before all have come");
  }
}

/* Without the last rank: a sum comes to an end, the first failure is told, and nothing is read that did not come. */
static void check_gone(Check *c)
{
  Backend *b = c->b;
  int read = 0;

  upload(c);
  b->all_reduce(b, c->world, c->s, c->device, VALUES, EXEC_F32, EXEC_SUM);
  b->download(b, c->s, c->host, c->device, VALUES * sizeof *c->host);
  g_autofree char *said = g_strdup(b->failed(b));
  expect(c, said && strstr(said, "NCCL: remote process exited"), "nothing is said of a rank that is gone");
  for (int i = 0; i < VALUES; i++)
    read += c->host[i] != 0;
  expect(c, read == 0, "what is read where a rank is gone is not 0");
  b->comm_free(b, c->world);
  c->world = NULL;
  b->host_free(b, c->device);
  expect(c, g_strcmp0(b->failed(b), said) == 0, "a later failure takes the place of the first");
}

static void leave(Check *c)
{
  Backend *b = c->b;

  b->dealloc(b, c->s, c->device, VALUES * sizeof *c->device);
  b->sync(b, c->s);
  b->host_free(b, c->host);
  b->stream_free(b, c->s);
  b->comm_free(b, c->world);
  b->free(b);
}

int main(int argc, char **argv)
{
  char message[EXEC_ERROR_SIZE] = "";
  Control *control;
  Check c = { .b = backend_open_rank(argc > 1 ? argv[1] : "cuda", EXEC_F32, &control) };
  Backend *b = c.b;
  gboolean loses = b->size > 1 && g_str_equal(b->device, "emulated"), first = b->rank == 0;

  c.world = b->comm_new(b, 0, b->rank, message);
  c.s = b->stream_new(b, TRUE);
  c.device = b->alloc(b, c.s, VALUES * sizeof *c.device);
  c.host = b->host_alloc(b, VALUES * sizeof *c.host);
  check_events(&c);
  check_streams(&c);
  check_rows(&c);
  check_memory(&c);
  check_barrier(&c);
  if (b->failed(b))
    printf("rank %d: %s\n", b->rank, b->failed(b));
  c.wrong += b->failed(b) != NULL;
  if (loses && b->rank < b->size - 1)
    check_gone(&c);
  leave(&c);
  control_close(control);
  if (first)
    printf("%d of %d promises broken\n", c.wrong, c.checked);
  return c.wrong > 0;
}
