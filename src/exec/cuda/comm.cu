/* Communication by NCCL. A run of one rank needs no network: its groups copy. */
#include "exec/cuda/internal.h"

#include <stdio.h>
#include <stdlib.h>

static void nccl_check(Backend *b, const char *what, ncclResult_t status)
{
  if (status != ncclSuccess && status != ncclInProgress)
    cuda_fail(b, what, ncclGetErrorString(status));
}

static ncclDataType_t nccl_type(ExecType type)
{
  switch (type) {
  case EXEC_F64:
    return ncclFloat64;
  case EXEC_F16:
    return ncclFloat16;
  case EXEC_BF16:
    return ncclBfloat16;
  case EXEC_I32:
    return ncclInt32;
  default:
    return ncclFloat32;
  }
}

int cuda_open_comm(CudaBackend *c, const BackendOptions *options, char *error)
{
  ncclUniqueId id;
  ncclResult_t status = ncclSuccess;

  if (options->size == 1)
    return 0;
  if (options->rank == 0)
    status = ncclGetUniqueId(&id);
  if (status == ncclSuccess) {
    options->share(options->share_data, &id, sizeof id);
    status = ncclCommInitRank(&c->world, options->size, id, options->rank);
  }
  if (status != ncclSuccess) {
    snprintf(error, EXEC_ERROR_SIZE, "cuda: NCCL: %s", ncclGetErrorString(status));
    return -1;
  }
  return 0;
}

void cuda_close_comm(CudaBackend *c)
{
  if (c->world)
    ncclCommDestroy(c->world);
}

static BackendComm *comm_new(Backend *b, int color, int key, char *error)
{
  CudaBackend *c = cuda_of(b);
  BackendComm *comm = (BackendComm *)calloc(1, sizeof *comm);

  if (c->world) {
    ncclResult_t status = ncclCommSplit(c->world, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &comm->comm, NULL);
    if (status != ncclSuccess) {
      snprintf(error, EXEC_ERROR_SIZE, "cuda: NCCL group: %s", ncclGetErrorString(status));
      free(comm);
      return NULL;
    }
  }
  if (color < 0) {
    free(comm);
    return NULL;
  }
  cuda_check(b, "barrier", cudaMalloc(&comm->token, sizeof *comm->token));
  for (int i = 0; i < COMMS_MAX && comm->comm; i++)
    if (!c->comms[i]) {
      c->comms[i] = comm;
      c->n_comms = i < c->n_comms ? c->n_comms : i + 1;
      break;
    }
  return comm;
}

static void comm_free(Backend *b, BackendComm *comm)
{
  CudaBackend *c = cuda_of(b);

  if (!comm)
    return;
  for (int i = 0; i < c->n_comms; i++)
    if (c->comms[i] == comm)
      c->comms[i] = NULL;
  if (comm->comm)
    nccl_check(b, "NCCL group", ncclCommDestroy(comm->comm));
  cudaFree(comm->token);
  free(comm);
}

/* What a group of one does: its part is all. */
static void keep(Backend *b, BackendStream *s, const void *x, void *y, size_t n, ExecType type)
{
  if (x != y)
    b->copy(b, s, y, x, n * exec_type_bytes(type));
}

static void all_reduce(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op)
{
  if (c->comm)
    nccl_check(b, "all-reduce", ncclAllReduce(x, x, n, nccl_type(type), op == EXEC_MAX ? ncclMax : ncclSum, c->comm,
                                              s->stream));
}

static void all_gather(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n_each,
                       ExecType type)
{
  if (c->comm)
    nccl_check(b, "all-gather", ncclAllGather(x, y, n_each, nccl_type(type), c->comm, s->stream));
  else
    keep(b, s, x, y, n_each, type);
}

static void reduce_scatter(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n_each,
                           ExecType type)
{
  if (c->comm)
    nccl_check(b, "reduce-scatter", ncclReduceScatter(x, y, n_each, nccl_type(type), ncclSum, c->comm, s->stream));
  else
    keep(b, s, x, y, n_each, type);
}

static void all_to_all(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, ExecCounts n,
                       ExecType type)
{
  const char *out = (const char *)x;
  char *in = (char *)y;
  int size = 0;

  if (!c->comm) {
    keep(b, s, x, y, n.to[0], type);
    return;
  }
  nccl_check(b, "all-to-all", ncclCommCount(c->comm, &size));
  nccl_check(b, "all-to-all", ncclGroupStart());
  for (int i = 0; i < size; i++) {
    if (n.to[i] > 0)
      nccl_check(b, "all-to-all", ncclSend(out, n.to[i], nccl_type(type), i, c->comm, s->stream));
    if (n.from[i] > 0)
      nccl_check(b, "all-to-all", ncclRecv(in, n.from[i], nccl_type(type), i, c->comm, s->stream));
    out += n.to[i] * exec_type_bytes(type);
    in += n.from[i] * exec_type_bytes(type);
  }
  nccl_check(b, "all-to-all", ncclGroupEnd());
}

static void send(Backend *b, BackendComm *c, BackendStream *s, const void *x, size_t n, ExecType type, int to)
{
  nccl_check(b, "send", ncclSend(x, n, nccl_type(type), to, c->comm, s->stream));
}

static void recv(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int from)
{
  nccl_check(b, "receive", ncclRecv(x, n, nccl_type(type), from, c->comm, s->stream));
}

static void broadcast(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int root)
{
  if (c->comm)
    nccl_check(b, "broadcast", ncclBroadcast(x, x, n, nccl_type(type), root, c->comm, s->stream));
}

static void barrier(Backend *b, BackendComm *c, BackendStream *s)
{
  if (!c->comm)
    return;
  b->zero(b, s, c->token, sizeof *c->token);
  all_reduce(b, c, s, c->token, 1, EXEC_F32, EXEC_SUM);
}

void cuda_fill_comm(Backend *b)
{
  b->comm_new = comm_new;
  b->comm_free = comm_free;
  b->all_reduce = all_reduce;
  b->all_gather = all_gather;
  b->reduce_scatter = reduce_scatter;
  b->all_to_all = all_to_all;
  b->send = send;
  b->recv = recv;
  b->broadcast = broadcast;
  b->barrier = barrier;
}
