/*
 * The CPU backend: one thread a rank, computation synchronous, communication by
 * MPI on streams that advance whenever a kernel starts or the rank waits.
 *
 * A stream that does not compute is a queue of commands; cpu_poll runs each queue
 * as far as it goes: waits whose event is done, records, small kernels, and
 * messages that have arrived. Private to src/exec/cpu.
 */
#ifndef TDP_EXEC_CPU_CPU_H
#define TDP_EXEC_CPU_CPU_H

#include "exec/backend.h"

#include <glib.h>

typedef struct CpuBackend CpuBackend;
typedef void (*CpuWork)(void *args);

struct BackendEvent {
  guint64 recorded, done; /* records enqueued, records reached */
  double seconds;         /* of the last one reached */
};

/* A communication from its call to its end. */
typedef struct {
  enum { COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL, COMM_SEND, COMM_RECV, COMM_BROADCAST,
         COMM_BARRIER } kind;
  BackendComm *comm;
  const void *x;
  void *y;
  size_t n;
  ExecType type;
  ExecReduce reduce;
  int peer; /* of a broadcast: who has the data */
  gsize *counts; /* of an all-to-all: elements to each rank, then from each; freed at its end */
  void *scratch; /* the driver's, freed at the end */
  union { void *p; int i; } request; /* the driver's */
} CpuMessage;

/* What moves messages between processes; none where there is one process. */
typedef struct {
  BackendComm *(*comm_new)(CpuBackend *b, int color, int key, char *error);
  void (*comm_free)(BackendComm *c);
  void (*begin)(CpuBackend *b, CpuMessage *m);
  gboolean (*test)(CpuBackend *b, CpuMessage *m); /* whether it has ended */
} CpuDriver;

struct BackendComm {
  int rank, size;
  void *handle; /* the driver's */
};

struct BackendStream {
  gboolean computes;
  GQueue commands; /* Command */
};

struct CpuBackend {
  Backend base;
  const CpuDriver *driver;
  GPtrArray *streams; /* BackendStream */
  double napped_s;    /* while nothing moved */
  const char *heap_asked; /* up to where large pages were asked for, NULL: none yet */
  char error[EXEC_ERROR_SIZE];
};

static inline CpuBackend *cpu_of(Backend *b)
{
  return (CpuBackend *)b;
}

/* Notes the first failure. */
void cpu_fail(CpuBackend *b, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Advances all queues; TRUE if something moved. */
gboolean cpu_poll(CpuBackend *b);

/* Runs work at once on a stream that computes, in turn on another. */
void cpu_run(Backend *b, BackendStream *s, CpuWork work, const void *args, size_t size);

/* Each sets a part of the backend's table of operations; those of communication are cpu_new's own. */
void cpu_fill_streams(Backend *b);
void cpu_fill_withheld(Backend *b);
void cpu_fill_kernels_f32(Backend *b);
void cpu_fill_kernels_f64(Backend *b);

/* Sends a message in turn on a stream. */
void cpu_send(Backend *b, BackendStream *s, const CpuMessage *message);

/* Called before the first product. Where OpenBLAS is older than the processor, and so has chosen the oldest kernels, it
 * takes the best that the processor can run. */
void cpu_choose_products(void);

/* The core by OpenBLAS's names whose kernels are to stand in place of those of `core`; NULL: these stay, as where they
 * are not the oldest, where the environment names them, or where the processor can run no better ones. */
const char *cpu_better_core(const char *core, gboolean named);

/* The backend of one process; of the processes of an MPI run, in which MPI has been started (mpi.c, where built). */
Backend *cpu_open(const BackendOptions *options, char *error);
Backend *cpu_mpi_open(const BackendOptions *options, char *error);
Backend *cpu_new(const BackendOptions *options, const CpuDriver *driver);

#endif
