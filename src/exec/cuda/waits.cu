/* How the host waits for the device, and sees that it gets on. */
#include "exec/cuda/internal.h"

#include <sched.h>
#include <unistd.h>

enum { NAP_US = 20, PRODUCTS_A_MARK = 2 };

#define SPIN_S 2e-3 /* without a nap, whose end the system delays */

static void moved(Backend *b)
{
  __atomic_add_fetch(&b->activity, 1, __ATOMIC_RELAXED);
}

static void count_marks(Backend *b)
{
  CudaBackend *c = cuda_of(b);

  for (int i = 0; i < c->n_streams; i++) {
    BackendStream *s = c->streams[i];
    while (s->pending > 0 && !cuda_ahead(cudaEventQuery(s->marks[s->first]))) {
      s->first = (s->first + 1) % MARKS;
      s->pending--;
      moved(b);
    }
  }
}

void cuda_wait(Backend *b, const char *what, cudaEvent_t event)
{
  double since = cuda_host_s();
  cudaError_t status;

  while (cuda_ahead(status = cudaEventQuery(event)) && !b->failed(b)) {
    count_marks(b);
    if (b->poll)
      b->poll(b->poll_data);
    if (cuda_host_s() > since + SPIN_S)
      usleep(NAP_US);
    else
      sched_yield();
  }
  if (status != cudaErrorNotReady)
    cuda_check(b, what, status);
}

void cuda_wait_stream(Backend *b, const char *what, BackendStream *s)
{
  cuda_check(b, what, cudaEventRecord(s->reached, s->stream));
  cuda_wait(b, what, s->reached);
}

void cuda_mark(Backend *b, BackendStream *s)
{
  if (s->pending == MARKS)
    count_marks(b);
  if (s->pending == MARKS)
    return;
  cuda_check(b, "mark", cudaEventRecord(s->marks[(s->first + s->pending) % MARKS], s->stream));
  s->pending++;
}

void cuda_pace(Backend *b, BackendStream *s)
{
  moved(b);
  if (++s->products < PRODUCTS_A_MARK)
    return;
  s->products = 0;
  if (s->pending == MARKS)
    cuda_wait(b, "product", s->marks[s->first]);
  cuda_mark(b, s);
}
