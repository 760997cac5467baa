#include "exec/cuda/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* An elapsed time is a float of milliseconds: within this span of a clock event
 * it resolves a microsecond. */
#define CLOCK_SPAN_S 10

static void too_many(Backend *b)
{
  char why[96];

  snprintf(why, sizeof why, "more than %d at once: CUDA_DEVICE_MAX_CONNECTIONS allows no more", cuda_of(b)->queues);
  cuda_fail(b, "streams", why);
}

static BackendStream *stream_new(Backend *b, int computes)
{
  CudaBackend *c = cuda_of(b);
  BackendStream *s = (BackendStream *)calloc(1, sizeof *s);

  if (c->n_streams >= c->queues)
    too_many(b);
  if (c->n_streams < STREAMS_MAX)
    c->streams[c->n_streams++] = s;
  cuda_check(b, "stream", cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
  if (computes)
    cuda_check(b, "workspace", cudaMalloc(&s->workspace, WORKSPACE_BYTES));
  cuda_check(b, "workspace", cudaMalloc(&s->partials, PARTIALS * sizeof *s->partials));
  cuda_check(b, "event", cudaEventCreateWithFlags(&s->reached, cudaEventDisableTiming));
  for (int i = 0; i < MARKS; i++)
    cuda_check(b, "event", cudaEventCreateWithFlags(&s->marks[i], cudaEventDisableTiming));
  return s;
}

static void stream_free(Backend *b, BackendStream *s)
{
  CudaBackend *c = cuda_of(b);

  if (!s)
    return;
  for (int i = 0; i < c->n_streams; i++)
    if (c->streams[i] == s)
      c->streams[i--] = c->streams[--c->n_streams];
  for (int i = 0; i < MARKS; i++)
    cuda_check(b, "event", cudaEventDestroy(s->marks[i]));
  cuda_check(b, "event", cudaEventDestroy(s->reached));
  cuda_check(b, "stream", cudaStreamDestroy(s->stream));
  cudaFree(s->workspace);
  cudaFree(s->partials);
  free(s);
}

static BackendEvent *event_new(Backend *b)
{
  BackendEvent *e = (BackendEvent *)calloc(1, sizeof *e);

  cuda_check(b, "event", cudaEventCreate(&e->event));
  return e;
}

static void event_free(Backend *b, BackendEvent *e)
{
  if (!e)
    return;
  cuda_check(b, "event", cudaEventDestroy(e->event));
  free(e);
}

/* A clock event whose host time follows from the one before; the first is read
 * on an idle device. */
static void add_clock(Backend *b, cudaStream_t stream)
{
  CudaBackend *c = cuda_of(b);
  float ms = 0;
  int i = c->n_clocks;

  if (i == CLOCKS_MAX)
    return;
  cuda_check(b, "clock", cudaEventCreate(&c->clocks[i].event));
  cuda_check(b, "clock", cudaEventRecord(c->clocks[i].event, stream));
  cuda_check(b, "clock", cudaEventSynchronize(c->clocks[i].event));
  if (i == 0)
    c->clocks[i].host_s = cuda_host_s();
  else {
    cuda_check(b, "clock", cudaEventElapsedTime(&ms, c->clocks[i - 1].event, c->clocks[i].event));
    c->clocks[i].host_s = c->clocks[i - 1].host_s + ms * 1e-3;
  }
  c->n_clocks++;
}

static void event_record(Backend *b, BackendEvent *e, BackendStream *s)
{
  CudaBackend *c = cuda_of(b);

  if (c->n_clocks == 0)
    add_clock(b, s->stream);
  e->clock = c->n_clocks - 1;
  cuda_check(b, "event", cudaEventRecord(e->event, s->stream));
  if (!s->workspace) /* one that computes has marks behind its products */
    cuda_mark(b, s);
}

static void event_wait(Backend *b, BackendEvent *e, BackendStream *s)
{
  cuda_check(b, "event", cudaStreamWaitEvent(s->stream, e->event, 0));
}

static int event_done(Backend *b, BackendEvent *e)
{
  cudaError_t status = cudaEventQuery(e->event);

  if (cuda_ahead(status))
    return 0;
  cuda_check(b, "event", status);
  return 1;
}

static double event_s(Backend *b, BackendEvent *e)
{
  CudaBackend *c = cuda_of(b);
  float ms = 0;

  cuda_check(b, "event", cudaEventElapsedTime(&ms, c->clocks[e->clock].event, e->event));
  return c->clocks[e->clock].host_s + ms * 1e-3;
}

static double now_s(Backend *b)
{
  (void)b;
  return cuda_host_s();
}

/* Between steps, when nothing runs, the clock is set again. */
static void sync(Backend *b, BackendStream *s)
{
  CudaBackend *c = cuda_of(b);

  cuda_wait_stream(b, "sync", s);
  if (c->n_clocks > 0 && cuda_host_s() - c->clocks[c->n_clocks - 1].host_s > CLOCK_SPAN_S)
    add_clock(b, s->stream);
}

void cuda_fill_streams(Backend *b)
{
  b->stream_new = stream_new;
  b->stream_free = stream_free;
  b->event_new = event_new;
  b->event_free = event_free;
  b->event_record = event_record;
  b->event_wait = event_wait;
  b->event_done = event_done;
  b->event_s = event_s;
  b->now_s = now_s;
  b->sync = sync;
}
