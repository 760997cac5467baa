/*
 * Graphs of cuDNN's backend API, built operation by operation; C++ only, where
 * cudnn.h is found when building (TDP_CUDNN). The library is looked for when the
 * program runs, so that one built with cuDNN starts without it.
 *
 * cudnn_graph_open, tensors and operations, cudnn_graph_plan, then any number of
 * cudnn_graph_run. The first call that cuDNN refuses leaves its status in the
 * graph, and later ones do nothing. Tensors have four dimensions: batch, heads,
 * rows, columns. Computation is fp32.
 */
#ifndef TDP_EXEC_CUDA_CUDNN_GRAPH_H
#define TDP_EXEC_CUDA_CUDNN_GRAPH_H

#include <cudnn.h>

enum { CUDNN_PARTS = 160, CUDNN_OPERATIONS = 40 };

typedef cudnnBackendDescriptor_t CudnnPart;

struct CudnnShape {
  int64_t dim[4], stride[4];
};

/* What is called of the library. */
struct CudnnLibrary {
  void *library; /* NULL: not loaded */
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

/* Loads libcudnn.so.9; NULL, or why it cannot be used, and then nothing is loaded. */
const char *cudnn_library_open(CudnnLibrary *l);
void cudnn_library_close(CudnnLibrary *l);

struct CudnnGraph {
  const CudnnLibrary *cudnn;
  cudnnHandle_t handle;
  cudnnStatus_t status; /* first that is no success */
  CudnnPart parts[CUDNN_PARTS], operations[CUDNN_OPERATIONS], plan;
  int n_parts, n_operations;
  int64_t n_virtual;
  int64_t workspace_bytes;
};

void cudnn_graph_open(CudnnGraph *g, const CudnnLibrary *cudnn, cudnnHandle_t handle);
void cudnn_graph_close(CudnnGraph *g);

/* Given at each run under its number (from 1), on the device or, `value`, a float on
 * the host; or between operations. */
CudnnPart cudnn_bound(CudnnGraph *g, int64_t number, cudnnDataType_t type, const CudnnShape *shape);
CudnnPart cudnn_value(CudnnGraph *g, int64_t number);
CudnnPart cudnn_between(CudnnGraph *g, cudnnDataType_t type, const CudnnShape *shape);

/* Rows behind each other. */
CudnnShape cudnn_dense(int64_t batch, int64_t heads, int64_t rows, int64_t columns);
CudnnShape cudnn_transposed(const CudnnShape *shape);

/* y = x op b, b NULL for one operand; y = t ? x : b; y = index of x along an axis. */
void cudnn_pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, CudnnPart x, CudnnPart b, CudnnPart y);
void cudnn_select(CudnnGraph *g, CudnnPart x, CudnnPart b, CudnnPart t, CudnnPart y);
void cudnn_compare(CudnnGraph *g, cudnnPointwiseMode_t mode, CudnnPart x, CudnnPart b, CudnnPart y);
void cudnn_index(CudnnGraph *g, int64_t axis, CudnnPart x, CudnnPart y);
void cudnn_matmul(CudnnGraph *g, CudnnPart a, CudnnPart b, CudnnPart c);
void cudnn_reduce(CudnnGraph *g, cudnnReduceTensorOp_t how, CudnnPart x, CudnnPart y);
void cudnn_reshape(CudnnGraph *g, CudnnPart x, CudnnPart y);

/* Takes the first engine that cuDNN proposes and can build. */
void cudnn_graph_plan(CudnnGraph *g);
cudnnStatus_t cudnn_graph_run(const CudnnGraph *g, int64_t n, const int64_t *numbers, void *const *tensors,
                              void *workspace);

#endif
