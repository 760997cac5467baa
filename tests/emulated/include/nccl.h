/*
 * The part of NCCL that the backend uses; bodies in ../nccl.cpp, over sockets of
 * this host. Ranks are processes.
 */
#ifndef EMULATED_NCCL_H
#define EMULATED_NCCL_H

#include <cuda_runtime.h>

#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))

enum ncclResult_t {
  ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = 2, ncclInternalError = 3, ncclInvalidArgument = 4,
  ncclInvalidUsage = 5, ncclRemoteError = 6, ncclInProgress = 7,
};
enum ncclDataType_t {
  ncclInt8 = 0, ncclUint8 = 1, ncclInt32 = 2, ncclUint32 = 3, ncclInt64 = 4, ncclUint64 = 5, ncclFloat16 = 6,
  ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9, ncclHalf = 6, ncclFloat = 7, ncclDouble = 8, ncclInt = 2,
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  size_t size;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare;
};
#define NCCL_CONFIG_UNDEF_INT (-2147483647 - 1)
#define NCCL_CONFIG_INITIALIZER                                                                                        \
  {                                                                                                                    \
    sizeof(ncclConfig_t), NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,  \
        NULL, NCCL_CONFIG_UNDEF_INT                                                                                    \
  }
typedef struct ncclComm *ncclComm_t;

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommCount(ncclComm_t comm, int *size);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *status);
const char *ncclGetErrorString(ncclResult_t status);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t s);
ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t s);
ncclResult_t ncclAllGather(const void *from, void *to, size_t n_each, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t s);
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n_each, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s);

#endif
