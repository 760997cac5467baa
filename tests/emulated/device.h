/*
 * An emulated CUDA device: what the .cu files of src/exec/cuda call, run by the
 * host, so that the backend's arithmetic, its streams and its memory are tested
 * where there is no GPU. One process is one rank with one device.
 *
 *   kernel.cpp    launches: threads are fibers; barriers, warps and shared memory are checked
 *   memory.cpp    allocations with poison and red zones, copies
 *   streams.cpp   streams as queues, events, the order in which queues are executed
 *   blas.cpp      cuBLASLt by OpenBLAS     nccl.cpp, net.cpp   NCCL by sockets
 *
 * Nothing runs when it is called for: it is put into its stream and executed when
 * somebody waits, in an order that a policy decides. What the backend does wrong
 * ends the process with one line, "emulated: <kernel>: <what>"; what CUDA reports
 * by a status is reported so.
 *
 * Variables: EMULATED_ORDER: in-order (as enqueued, at once), random, lazy (only
 * what a wait needs) or others-first (the stream that is waited for comes last);
 * EMULATED_SEED of random orders; EMULATED_DELAY_MS that each kernel takes longer;
 * EMULATED_MEMORY_MB of the device (4096); EMULATED_TIMEOUT_S (60) without progress
 * after which a wait is a deadlock; EMULATED_GUARD=1: the host's own loads and
 * stores to the device's memory fault.
 */
#ifndef EMULATED_DEVICE_H
#define EMULATED_DEVICE_H

#include <cuda_runtime.h>

#include <deque>
#include <functional>
#include <memory>

namespace emulated {

/* Ends the process; names what runs. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes a status that cudaGetLastError returns too. */
cudaError_t noted(cudaError_t status);

/* Each function of the interface holds one: the watchdog's thread calls too. */
struct Api {
  Api();
  ~Api();
};

long setting(const char *name, long otherwise); /* a number of the environment */
uint64_t draw(uint64_t below);                  /* random, by EMULATED_SEED */
double now_s(void);

/* ---- streams ---- */

/* When an event was recorded. */
struct Marker {
  cudaStream_t stream;
  bool done;
  double s;
};

struct Operation {
  const char *name;
  std::function<bool()> step;    /* true: done; false: it waits, and is called again */
  std::shared_ptr<Marker> needs; /* of a wait */
  uint64_t number;
};

void enqueue(cudaStream_t s, const char *name, const std::function<bool()> &step);
void enqueue_done(cudaStream_t s, const char *name, const std::function<void()> &step); /* never waits */
/* Executes until `done`; what is waited for is stream `s`, or all if NULL. */
void execute_until(cudaStream_t s, const std::function<bool()> &done);
void synchronize(cudaStream_t s); /* NULL: all */
bool idle(void);                  /* no stream has work */
bool eager(void);                 /* kernels are loaded at start: CUDA_MODULE_LOADING at the first call */
const char *running(void);        /* name of the operation under way */

/* ---- memory ---- */

/* Fails unless the bytes are the device's, allocated as far as the order of streams has come. */
void check_range(const void *p, size_t bytes, const char *what);
bool on_device(const void *p);
void check_red_zones(void);    /* behind each operation */
void synchronized(cudaStream_t s); /* what it has freed may go to other streams; NULL: all */
void guard(bool closed);       /* the device's memory against the host */
void poison(void *p, size_t bytes);

/* Host waits for the network: true if something has come. Bounded by the caller. */
bool network_poll(int ms);

} // namespace emulated

#endif
