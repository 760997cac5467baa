#include "exec/cuda/cudnn_graph.h"

#include <string.h>

enum { VIRTUAL_FIRST = 1000, ALIGNMENT = 16, CONFIGS = 8 };

static void note(CudnnGraph *g, cudnnStatus_t status)
{
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = status;
}

void cudnn_graph_open(CudnnGraph *g, const CudnnLibrary *cudnn, cudnnHandle_t handle)
{
  memset(g, 0, sizeof *g);
  g->cudnn = cudnn;
  g->handle = handle;
}

void cudnn_graph_close(CudnnGraph *g)
{
  for (int i = g->n_parts - 1; i >= 0; i--)
    g->cudnn->destroy_descriptor(g->parts[i]);
  g->n_parts = 0;
}

static CudnnPart part_new(CudnnGraph *g, cudnnBackendDescriptorType_t type)
{
  CudnnPart part = NULL;

  if (g->n_parts == CUDNN_PARTS)
    note(g, CUDNN_STATUS_INTERNAL_ERROR);
  if (g->status != CUDNN_STATUS_SUCCESS)
    return NULL;
  note(g, g->cudnn->create_descriptor(type, &part));
  if (part)
    g->parts[g->n_parts++] = part;
  return part;
}

static void set(CudnnGraph *g, CudnnPart part, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t n, const void *values)
{
  if (g->status == CUDNN_STATUS_SUCCESS)
    note(g, g->cudnn->set_attribute(part, name, type, n, values));
}

static void set_part(CudnnGraph *g, CudnnPart part, cudnnBackendAttributeName_t name, CudnnPart value)
{
  set(g, part, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(CudnnGraph *g, CudnnPart part)
{
  if (g->status == CUDNN_STATUS_SUCCESS)
    note(g, g->cudnn->finalize(part));
}

static CudnnPart tensor(CudnnGraph *g, int64_t number, cudnnDataType_t type, const CudnnShape *shape, bool between,
                        bool value)
{
  CudnnPart part = part_new(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t alignment = ALIGNMENT;

  set(g, part, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(g, part, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->dim);
  set(g, part, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
  set(g, part, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
  set(g, part, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set(g, part, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &between);
  set(g, part, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &value);
  finalize(g, part);
  return part;
}

CudnnPart cudnn_bound(CudnnGraph *g, int64_t number, cudnnDataType_t type, const CudnnShape *shape)
{
  return tensor(g, number, type, shape, false, false);
}

CudnnPart cudnn_value(CudnnGraph *g, int64_t number)
{
  CudnnShape one = cudnn_dense(1, 1, 1, 1);
  return tensor(g, number, CUDNN_DATA_FLOAT, &one, false, true);
}

CudnnPart cudnn_between(CudnnGraph *g, cudnnDataType_t type, const CudnnShape *shape)
{
  return tensor(g, VIRTUAL_FIRST + g->n_virtual++, type, shape, true, false);
}

CudnnShape cudnn_dense(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
  CudnnShape shape = { { batch, heads, rows, columns }, { heads * rows * columns, rows * columns, columns, 1 } };
  return shape;
}

CudnnShape cudnn_transposed(const CudnnShape *s)
{
  CudnnShape shape = { { s->dim[0], s->dim[1], s->dim[3], s->dim[2] },
                       { s->stride[0], s->stride[1], s->stride[3], s->stride[2] } };
  return shape;
}

static void add_operation(CudnnGraph *g, CudnnPart operation)
{
  finalize(g, operation);
  if (g->n_operations == CUDNN_OPERATIONS)
    note(g, CUDNN_STATUS_INTERNAL_ERROR);
  else
    g->operations[g->n_operations++] = operation;
}

static void pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, cudnnDataType_t math, int64_t axis, CudnnPart x,
                      CudnnPart b, CudnnPart t, CudnnPart y)
{
  CudnnPart how = part_new(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

  set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
  if (axis >= 0)
    set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  finalize(g, how);
  CudnnPart operation = part_new(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_part(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  set_part(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b)
    set_part(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  if (t)
    set_part(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
  set_part(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add_operation(g, operation);
}

void cudnn_pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, CudnnPart x, CudnnPart b, CudnnPart y)
{
  pointwise(g, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

void cudnn_select(CudnnGraph *g, CudnnPart x, CudnnPart b, CudnnPart t, CudnnPart y)
{
  pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, x, b, t, y);
}

void cudnn_compare(CudnnGraph *g, cudnnPointwiseMode_t mode, CudnnPart x, CudnnPart b, CudnnPart y)
{
  pointwise(g, mode, CUDNN_DATA_BOOLEAN, -1, x, b, NULL, y);
}

void cudnn_index(CudnnGraph *g, int64_t axis, CudnnPart x, CudnnPart y)
{
  pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, x, NULL, NULL, y);
}

void cudnn_matmul(CudnnGraph *g, CudnnPart a, CudnnPart b, CudnnPart c)
{
  CudnnPart how = part_new(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  cudnnDataType_t math = CUDNN_DATA_FLOAT;

  set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
  finalize(g, how);
  CudnnPart operation = part_new(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_part(g, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  set_part(g, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_part(g, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_part(g, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  add_operation(g, operation);
}

void cudnn_reduce(CudnnGraph *g, cudnnReduceTensorOp_t how_much, CudnnPart x, CudnnPart y)
{
  CudnnPart how = part_new(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  cudnnDataType_t math = CUDNN_DATA_FLOAT;

  set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_much);
  set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
  finalize(g, how);
  CudnnPart operation = part_new(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_part(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  set_part(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_part(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add_operation(g, operation);
}

void cudnn_reshape(CudnnGraph *g, CudnnPart x, CudnnPart y)
{
  CudnnPart operation = part_new(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

  set_part(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_part(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add_operation(g, operation);
}

static bool plan_with(CudnnGraph *g, CudnnPart config)
{
  CudnnPart plan = part_new(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  cudnnStatus_t status;

  set_part(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (g->status != CUDNN_STATUS_SUCCESS)
    return false;
  status = g->cudnn->finalize(plan);
  if (status == CUDNN_STATUS_SUCCESS)
    status = g->cudnn->get_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, NULL,
                                      &g->workspace_bytes);
  if (status == CUDNN_STATUS_SUCCESS)
    g->plan = plan;
  return g->plan != NULL;
}

static void plan_by(CudnnGraph *g, CudnnPart graph, cudnnBackendHeurMode_t mode)
{
  CudnnPart heuristic = part_new(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[CONFIGS];
  int64_t n = 0;

  for (int i = 0; i < CONFIGS; i++)
    configs[i] = part_new(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  set_part(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (g->status != CUDNN_STATUS_SUCCESS || g->cudnn->finalize(heuristic) != CUDNN_STATUS_SUCCESS)
    return;
  if (g->cudnn->get_attribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &n,
                               configs) != CUDNN_STATUS_SUCCESS)
    return;
  for (int64_t i = 0; i < n && i < CONFIGS && !plan_with(g, configs[i]); i++)
    continue;
}

void cudnn_graph_plan(CudnnGraph *g)
{
  CudnnPart graph = part_new(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

  set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_operations, g->operations);
  set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
  finalize(g, graph);
  plan_by(g, graph, CUDNN_HEUR_MODE_A);
  if (!g->plan)
    plan_by(g, graph, CUDNN_HEUR_MODE_FALLBACK);
  if (!g->plan)
    note(g, CUDNN_STATUS_NOT_SUPPORTED);
}

cudnnStatus_t cudnn_graph_run(const CudnnGraph *g, int64_t n, const int64_t *numbers, void *const *tensors,
                              void *workspace)
{
  CudnnGraph run;

  cudnn_graph_open(&run, g->cudnn, g->handle);
  CudnnPart pack = part_new(&run, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(&run, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, numbers);
  set(&run, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, tensors);
  set(&run, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finalize(&run, pack);
  if (run.status == CUDNN_STATUS_SUCCESS)
    note(&run, g->cudnn->execute(g->handle, g->plan, pack));
  cudnn_graph_close(&run);
  return run.status;
}
