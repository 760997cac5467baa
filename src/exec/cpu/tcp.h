/*
 * Messages between processes over TCP, for launchers that bring no MPI. Private
 * to src/exec/cpu.
 *
 * Every pair of ranks has one connection. A frame is a head (communicator, bytes)
 * and its bytes; frames from one rank on one communicator match receives in order,
 * and what comes before it is asked for waits in memory. Nothing blocks after the
 * start: tcp_progress moves what the sockets take and give.
 *
 * A connection that closes is a failure only to those who still wait for it, and
 * only after a second, in which the health channel says which rank died and why.
 */
#ifndef TDP_EXEC_CPU_TCP_H
#define TDP_EXEC_CPU_TCP_H

#include "exec/cpu/cpu.h"

#include <poll.h>

typedef struct {
  guint32 comm, magic;
  guint64 bytes;
} TcpHead;

/* What one rank sends another; `data` stays until it is done. */
typedef struct {
  TcpHead head;
  const char *data;
  gsize sent; /* of head and data */
  int rank;
  gboolean done;
} TcpOut;

typedef struct {
  guint32 comm;
  char *data;
  gsize bytes, got;
  int rank;
  gboolean early; /* came before it was asked for: owns its data */
  gboolean done;
} TcpIn;

typedef struct {
  int fd;          /* -1 = this rank, or gone */
  GQueue out;      /* TcpOut */
  GQueue in;       /* TcpIn, early or asked for, in order */
  TcpHead head;
  gsize head_got;
  TcpIn *current;  /* whose bytes come next; NULL = a head does */
  gint64 closed_us; /* 0 = open */
} TcpPeer;

typedef struct {
  TcpPeer *peers; /* of each rank */
  int rank, size;
  guint32 next_comm;
  struct pollfd *polls;
} Tcp;

/* A communicator: ranks of the world in its order. */
typedef struct {
  guint32 id;
  int *ranks;
} TcpComm;

static inline Tcp *tcp_of(CpuBackend *b)
{
  return b->driver_data;
}

/* Meets the others at options->address, "host:port", within a minute. Returns
 * descriptors of the connections to each rank, -1 for this one, for the caller to
 * free; or NULL and a line in `error`. */
int *tcp_meet(const BackendOptions *options, char *error);

void tcp_send(CpuBackend *b, TcpOut *out, guint32 comm, int rank, const void *data, gsize bytes);
void tcp_recv(CpuBackend *b, TcpIn *in, guint32 comm, int rank, void *data, gsize bytes);
void tcp_progress(CpuBackend *b);

/* Notes a failure where the other end has been closed for a second. */
void tcp_check(CpuBackend *b, int rank);

/* A message as steps of frames (tcp_ring.c). */
void tcp_begin(CpuBackend *b, CpuMessage *m);
gboolean tcp_test(CpuBackend *b, CpuMessage *m);

#endif
