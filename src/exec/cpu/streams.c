/* Memory, streams and events. */
#include "exec/cpu/cpu.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ARGS_SIZE = 64, NAP_US = 50, LARGE_PAGE = 2 << 20 };

#define SPIN_S 5e-4 /* without a nap, whose end the system delays */

typedef struct {
  enum { COMMAND_WAIT, COMMAND_RECORD, COMMAND_RUN, COMMAND_MESSAGE } kind;
  gboolean begun; /* of a message */
  BackendEvent *event;
  guint64 generation;
  CpuWork work;
  CpuMessage message;
  char args[ARGS_SIZE];
} Command;

void cpu_fail(CpuBackend *b, const char *format, ...)
{
  va_list args;

  if (b->error[0])
    return;
  va_start(args, format);
  vsnprintf(b->error, sizeof b->error, format, args);
  va_end(args);
}

static const char *failed(Backend *b)
{
  return cpu_of(b)->error[0] ? cpu_of(b)->error : NULL;
}

static double now_s(Backend *b)
{
  struct timespec t;

  (void)b;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void reach(Backend *b, BackendEvent *e, guint64 generation)
{
  e->done = generation;
  e->seconds = now_s(b);
}

static gboolean message_ends(CpuBackend *b, Command *c)
{
  if (!c->begun) {
    b->driver->begin(b, &c->message);
    c->begun = TRUE;
  }
  if (!b->driver->test(b, &c->message))
    return FALSE;
  g_free(c->message.counts);
  return TRUE;
}

/* Whether the command has ended. */
static gboolean advance(CpuBackend *b, Command *c)
{
  switch (c->kind) {
  case COMMAND_WAIT:
    return c->event->done >= c->generation;
  case COMMAND_RECORD:
    reach(&b->base, c->event, c->generation);
    return TRUE;
  case COMMAND_RUN:
    c->work(c->args);
    return TRUE;
  default:
    return message_ends(b, c);
  }
}

gboolean cpu_poll(CpuBackend *b)
{
  gboolean moved = FALSE;

  for (guint i = 0; i < b->streams->len && !b->error[0]; i++) {
    BackendStream *s = g_ptr_array_index(b->streams, i);
    for (Command *c; (c = g_queue_peek_head(&s->commands)) && advance(b, c); moved = TRUE)
      g_free(g_queue_pop_head(&s->commands));
  }
  return moved;
}

static void nap(CpuBackend *b)
{
  double start = now_s(&b->base);

  usleep(NAP_US);
  b->napped_s += now_s(&b->base) - start;
}

/* Polls until done(data), giving the processor away where nothing moves. */
static void wait_until(CpuBackend *b, gboolean (*done)(CpuBackend *b, void *data), void *data)
{
  double since = now_s(&b->base);

  while (!b->error[0] && !done(b, data)) {
    if (cpu_poll(b))
      since = now_s(&b->base);
    else if (now_s(&b->base) > since + SPIN_S)
      nap(b);
    else
      sched_yield(); /* to a rank that shares this core */
    if (b->base.poll)
      b->base.poll(b->base.poll_data);
  }
}

static Command *enqueue(BackendStream *s, int kind)
{
  Command *c = g_new0(Command, 1);

  c->kind = kind;
  g_queue_push_tail(&s->commands, c);
  return c;
}

void cpu_run(Backend *b, BackendStream *s, CpuWork work, const void *args, size_t size)
{
  g_assert(size <= ARGS_SIZE);
  if (s->computes) {
    char copy[ARGS_SIZE];
    memcpy(copy, args, size);
    cpu_poll(cpu_of(b));
    work(copy);
    return;
  }
  Command *c = enqueue(s, COMMAND_RUN);
  c->work = work;
  memcpy(c->args, args, size);
}

static gboolean message_done(CpuBackend *b, void *message)
{
  return b->driver->test(b, message);
}

void cpu_send(Backend *b, BackendStream *s, const CpuMessage *message)
{
  CpuMessage own = *message;

  if (!s->computes) {
    enqueue(s, COMMAND_MESSAGE)->message = own;
    cpu_poll(cpu_of(b));
    return;
  }
  cpu_of(b)->driver->begin(cpu_of(b), &own);
  wait_until(cpu_of(b), message_done, &own);
  g_free(own.counts);
}

/* Of the heap all at once, as soon as it has grown: a page of it that is touched before stays small, and pages of the
 * usual size cost products of activations a tenth. A block elsewhere asks for itself. The system may have none. */
static void ask_large_pages(CpuBackend *b, const char *p, size_t bytes)
{
  const char *heap_end = sbrk(0), *end = p < heap_end ? heap_end : p + bytes;
  const char *from = p < heap_end && b->heap_asked ? MIN(p, b->heap_asked) : p;

  if (p < heap_end ? end == b->heap_asked : bytes < LARGE_PAGE)
    return;
  uintptr_t first = (uintptr_t)from / LARGE_PAGE, last = ((uintptr_t)end - 1) / LARGE_PAGE;
  madvise((void *)(first * LARGE_PAGE), (last + 1 - first) * LARGE_PAGE, MADV_HUGEPAGE);
  if (p < heap_end)
    b->heap_asked = end;
}

static void *alloc(Backend *b, BackendStream *s, size_t bytes)
{
  CpuBackend *cpu = cpu_of(b);
  const char *heap_end = sbrk(0);
  void *p = NULL;

  (void)s;
  cpu->heap_asked = MIN(cpu->heap_asked, heap_end); /* what the heap gave back is forgotten */
  if (posix_memalign(&p, 64, MAX(bytes, 1)) != 0)
    return NULL;
  ask_large_pages(cpu, p, bytes);
  return p;
}

static void run_free(void *args)
{
  free(*(void **)args);
}

static void dealloc(Backend *b, BackendStream *s, void *p, size_t bytes)
{
  (void)bytes;
  cpu_run(b, s, run_free, &p, sizeof p);
}

static void *host_alloc(Backend *b, size_t bytes)
{
  return alloc(b, NULL, bytes);
}

static void host_free(Backend *b, void *p)
{
  (void)b;
  free(p);
}

typedef struct { ExecRows to, from; size_t bytes, n; } Copy;

static void run_copy(void *args)
{
  Copy *c = args;

  for (size_t i = 0; i < c->n; i++)
    memcpy((char *)c->to.first + i * c->to.pitch, (const char *)c->from.first + i * c->from.pitch, c->bytes);
}

static void copy_rows(Backend *b, BackendStream *s, ExecRows to, ExecRows from, size_t bytes, size_t n)
{
  Copy c = { to, from, bytes, n };
  cpu_run(b, s, run_copy, &c, sizeof c);
}

static void copy(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  copy_rows(b, s, (ExecRows) { to, bytes }, (ExecRows) { (void *)from, bytes }, bytes, 1);
}

static void run_zero(void *args)
{
  Copy *c = args;

  memset(c->to.first, 0, c->bytes);
}

static void zero(Backend *b, BackendStream *s, void *p, size_t bytes)
{
  Copy c = { .to.first = p, .bytes = bytes };
  cpu_run(b, s, run_zero, &c, sizeof c);
}

static gboolean queue_empty(CpuBackend *b, void *s)
{
  (void)b;
  return g_queue_is_empty(&((BackendStream *)s)->commands);
}

static void sync_stream(Backend *b, BackendStream *s)
{
  wait_until(cpu_of(b), queue_empty, s);
}

static void download(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  sync_stream(b, s);
  memcpy(to, from, bytes);
}

static void run_upload(void *args)
{
  run_copy(args);
  g_free((void *)((Copy *)args)->from.first);
}

static void upload(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  Copy c = { { to, bytes }, { s->computes ? (void *)from : g_memdup2(from, bytes), bytes }, bytes, 1 };
  cpu_run(b, s, s->computes ? run_copy : run_upload, &c, sizeof c);
}

static BackendStream *stream_new(Backend *b, int computes)
{
  BackendStream *s = g_new0(BackendStream, 1);

  s->computes = computes;
  g_queue_init(&s->commands);
  g_ptr_array_add(cpu_of(b)->streams, s);
  return s;
}

static void stream_free(Backend *b, BackendStream *s)
{
  g_ptr_array_remove(cpu_of(b)->streams, s);
  g_queue_clear_full(&s->commands, g_free);
  g_free(s);
}

static BackendEvent *event_new(Backend *b)
{
  (void)b;
  return g_new0(BackendEvent, 1);
}

static void event_free(Backend *b, BackendEvent *e)
{
  (void)b;
  g_free(e);
}

static void event_record(Backend *b, BackendEvent *e, BackendStream *s)
{
  guint64 generation = ++e->recorded;

  if (s->computes) {
    reach(b, e, generation);
    return;
  }
  Command *c = enqueue(s, COMMAND_RECORD);
  c->event = e;
  c->generation = generation;
  cpu_poll(cpu_of(b));
}

static int event_done(Backend *b, BackendEvent *e)
{
  (void)b;
  return e->done == e->recorded;
}

static gboolean event_reached(CpuBackend *b, void *e)
{
  return event_done(&b->base, e);
}

static void event_wait(Backend *b, BackendEvent *e, BackendStream *s)
{
  if (s->computes) {
    wait_until(cpu_of(b), event_reached, e);
    return;
  }
  Command *c = enqueue(s, COMMAND_WAIT);
  c->event = e;
  c->generation = e->recorded;
}

static double event_s(Backend *b, BackendEvent *e)
{
  (void)b;
  return e->seconds;
}

void cpu_fill_streams(Backend *b)
{
  b->failed = failed;
  b->alloc = alloc;
  b->dealloc = dealloc;
  b->upload = upload;
  b->download = download;
  b->copy = copy;
  b->copy_rows = copy_rows;
  b->host_alloc = host_alloc;
  b->host_free = host_free;
  b->host_down = b->host_up = copy;
  b->zero = zero;
  b->stream_new = stream_new;
  b->stream_free = stream_free;
  b->event_new = event_new;
  b->event_free = event_free;
  b->event_record = event_record;
  b->event_wait = event_wait;
  b->event_done = event_done;
  b->event_s = event_s;
  b->now_s = now_s;
  b->sync = sync_stream;
}
