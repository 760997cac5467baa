/* cuBLASLt by OpenBLAS: operands are brought to dense fp32, multiplied, finished and rounded. */
#include "device.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cblas.h>

#include <algorithm>
#include <vector>

struct cublasLtContext {
  int unused;
};

struct cublasLtMatmulDescOpaque {
  int32_t compute, scale, pointer_mode, trans_a, trans_b, bias_type, aux_type;
  uint32_t epilogue;
  void *bias, *aux;
  int64_t bias_stride, aux_ld, aux_stride;
};

struct cublasLtMatrixLayoutOpaque {
  uint32_t type;
  int32_t order, batch;
  uint64_t rows, columns;
  int64_t ld, stride;
  uint32_t mode;
};

struct cublasLtMatmulPreferenceOpaque {
  uint32_t search;
  uint64_t workspace;
  uint32_t alignment[4]; /* of A, B, C, D */
};

using namespace emulated;

namespace {

enum : uint32_t { STRICT = 16, DEFAULT_ALIGNMENT = 256 };
enum : uint32_t { BIAS = 4, DBIAS = 16, GELU = 32, DGELU = 64, AUX = 128 };

struct Field {
  int attribute;
  size_t offset, bytes;
};

cublasStatus_t set_field(const Field *fields, size_t n, void *object, int attribute, const void *value, size_t bytes)
{
  for (size_t i = 0; i < n; i++)
    if (fields[i].attribute == attribute && fields[i].bytes == bytes) {
      memcpy((char *)object + fields[i].offset, value, bytes);
      return CUBLAS_STATUS_SUCCESS;
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

#define FIELD(attribute, type, member) { attribute, offsetof(type, member), sizeof(type::member) }

const Field product_fields[] = {
  FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, cublasLtMatmulDescOpaque, compute),
  FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, cublasLtMatmulDescOpaque, scale),
  FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, cublasLtMatmulDescOpaque, pointer_mode),
  FIELD(CUBLASLT_MATMUL_DESC_TRANSA, cublasLtMatmulDescOpaque, trans_a),
  FIELD(CUBLASLT_MATMUL_DESC_TRANSB, cublasLtMatmulDescOpaque, trans_b),
  FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, cublasLtMatmulDescOpaque, epilogue),
  FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, cublasLtMatmulDescOpaque, bias),
  FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, cublasLtMatmulDescOpaque, bias_stride),
  FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, cublasLtMatmulDescOpaque, aux),
  FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, cublasLtMatmulDescOpaque, aux_ld),
  FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, cublasLtMatmulDescOpaque, aux_stride),
  FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cublasLtMatmulDescOpaque, aux_type),
  FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cublasLtMatmulDescOpaque, bias_type),
};

const Field layout_fields[] = {
  FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, cublasLtMatrixLayoutOpaque, type),
  FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, cublasLtMatrixLayoutOpaque, order),
  FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, cublasLtMatrixLayoutOpaque, rows),
  FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, cublasLtMatrixLayoutOpaque, columns),
  FIELD(CUBLASLT_MATRIX_LAYOUT_LD, cublasLtMatrixLayoutOpaque, ld),
  FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, cublasLtMatrixLayoutOpaque, batch),
  FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, cublasLtMatrixLayoutOpaque, stride),
  FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, cublasLtMatrixLayoutOpaque, mode),
};

const Field preference_fields[] = {
  FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, cublasLtMatmulPreferenceOpaque, search),
  FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, cublasLtMatmulPreferenceOpaque, workspace),
  FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, cublasLtMatmulPreferenceOpaque, alignment[0]),
  FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, cublasLtMatmulPreferenceOpaque, alignment[1]),
  FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, cublasLtMatmulPreferenceOpaque, alignment[2]),
  FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, cublasLtMatmulPreferenceOpaque, alignment[3]),
};

size_t bytes_of(uint32_t type)
{
  return type == CUDA_R_32F ? 4 : 2;
}

bool known(uint32_t type)
{
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

float load(const void *p, uint32_t type, size_t i)
{
  if (type == CUDA_R_32F)
    return ((const float *)p)[i];
  uint16_t bits = ((const uint16_t *)p)[i];
  return type == CUDA_R_16F ? half_to_float(bits) : bfloat_to_float(bits);
}

void store(void *p, uint32_t type, size_t i, float x)
{
  if (type == CUDA_R_32F)
    ((float *)p)[i] = x;
  else
    ((uint16_t *)p)[i] = type == CUDA_R_16F ? float_to_half(x) : float_to_bfloat(x);
}

size_t at(const cublasLtMatrixLayoutOpaque &l, size_t row, size_t column)
{
  return l.order == CUBLASLT_ORDER_ROW ? row * l.ld + column : row + column * l.ld;
}

void check_matrix(const void *p, const cublasLtMatrixLayoutOpaque &l, const char *what)
{
  if (l.rows > 0 && l.columns > 0)
    check_range(p, (at(l, l.rows - 1, l.columns - 1) + 1) * bytes_of(l.type), what);
}

/* Dense, column-major. */
std::vector<float> dense(const void *p, const cublasLtMatrixLayoutOpaque &l)
{
  std::vector<float> x(l.rows * l.columns);

  check_matrix(p, l, "read by a product");
  for (size_t j = 0; j < l.columns; j++)
    for (size_t i = 0; i < l.rows; i++)
      x[j * l.rows + i] = load(p, l.type, at(l, i, j));
  return x;
}

struct Product {
  cublasLtMatmulDescOpaque d;
  cublasLtMatrixLayoutOpaque a, b, c, out;
  const void *pa, *pb, *pc;
  void *po;
  float alpha, beta;
};

const void *of_batch(const void *p, const cublasLtMatrixLayoutOpaque &l, int i)
{
  if (l.mode != CUBLASLT_BATCH_MODE_POINTER_ARRAY)
    return (const char *)p + i * l.stride * (int64_t)bytes_of(l.type);
  check_range(p, (i + 1) * sizeof(void *), "read as pointers of a batch");
  return ((const void *const *)p)[i];
}

float gelu(float x)
{
  return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

float gelu_slope(float x)
{
  float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

uint32_t bias_type(const Product &p)
{
  return p.d.bias_type < 0 ? p.out.type : (uint32_t)p.d.bias_type;
}

void *bias_of(const Product &p, int batch, size_t n, const char *what)
{
  char *bias = (char *)p.d.bias + batch * p.d.bias_stride * (int64_t)bytes_of(bias_type(p));
  check_range(bias, n * bytes_of(bias_type(p)), what);
  return bias;
}

/* Sums of op(A)'s rows or op(B)'s columns over k. */
void operand_sums(const Product &p, int batch, const std::vector<float> &x, const cublasLtMatrixLayoutOpaque &l,
                  bool over_columns)
{
  std::vector<float> sums(over_columns ? l.rows : l.columns);
  for (size_t j = 0; j < l.columns; j++)
    for (size_t i = 0; i < l.rows; i++)
      sums[over_columns ? i : j] += x[j * l.rows + i];
  void *bias = bias_of(p, batch, sums.size(), "written as bias gradient");
  for (size_t i = 0; i < sums.size(); i++)
    store(bias, bias_type(p), i, sums[i]);
}

/* Bias, GELU and their gradients, on dense columns of D. */
void finish(const Product &p, int batch, std::vector<float> &x)
{
  size_t rows = p.out.rows, columns = p.out.columns;
  uint32_t aux_type = p.d.aux_type < 0 ? p.out.type : (uint32_t)p.d.aux_type, e = p.d.epilogue;
  char *aux = (char *)p.d.aux + batch * p.d.aux_stride * (int64_t)bytes_of(aux_type);

  if (e & AUX)
    check_range(aux, ((columns - 1) * p.d.aux_ld + rows) * bytes_of(aux_type), "used as an epilogue's matrix");
  const void *bias = e & BIAS ? bias_of(p, batch, rows, "read as bias") : NULL;
  std::vector<float> sums(rows);
  for (size_t j = 0; j < columns; j++)
    for (size_t i = 0; i < rows; i++) {
      float &y = x[j * rows + i];
      y += bias ? load(bias, bias_type(p), i) : 0;
      if ((e & AUX) && (e & GELU))
        store(aux, aux_type, j * p.d.aux_ld + i, y);
      y = e & GELU ? gelu(y) : e & DGELU ? y * gelu_slope(load(aux, aux_type, j * p.d.aux_ld + i)) : y;
      sums[i] += y;
    }
  if (e & DBIAS) {
    void *to = bias_of(p, batch, rows, "written as bias gradient");
    for (size_t i = 0; i < rows; i++)
      store(to, bias_type(p), i, sums[i]);
  }
}

void multiply(const Product &p, int batch)
{
  bool ta = p.d.trans_a != CUBLAS_OP_N, tb = p.d.trans_b != CUBLAS_OP_N;
  std::vector<float> a = dense(of_batch(p.pa, p.a, batch), p.a), b = dense(of_batch(p.pb, p.b, batch), p.b);
  size_t m = p.out.rows, n = p.out.columns, k = ta ? p.a.rows : p.a.columns;
  std::vector<float> x(m * n);

  if (k > 0)
    cblas_sgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, p.alpha,
                a.data(), std::max<size_t>(p.a.rows, 1), b.data(), std::max<size_t>(p.b.rows, 1), 0, x.data(), m);
  if (p.beta != 0) {
    const void *c = of_batch(p.pc, p.c, batch);
    check_matrix(c, p.c, "read by a product");
    for (size_t j = 0; j < n; j++)
      for (size_t i = 0; i < m; i++)
        x[j * m + i] += p.beta * load(c, p.c.type, at(p.c, i, j));
  }
  if (p.d.epilogue == CUBLASLT_EPILOGUE_BGRADA)
    operand_sums(p, batch, a, p.a, !ta);
  else if (p.d.epilogue == CUBLASLT_EPILOGUE_BGRADB)
    operand_sums(p, batch, b, p.b, tb);
  else if (p.d.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    finish(p, batch, x);
  void *out = (void *)of_batch(p.po, p.out, batch);
  check_matrix(out, p.out, "written by a product");
  for (size_t j = 0; j < n; j++)
    for (size_t i = 0; i < m; i++)
      store(out, p.out.type, at(p.out, i, j), x[j * m + i]);
}

bool fits(const cublasLtMatrixLayoutOpaque &l)
{
  int64_t least = (int64_t)(l.order == CUBLASLT_ORDER_ROW ? l.columns : l.rows);
  return known(l.type) && l.ld >= least && l.rows > 0 && l.columns > 0 && l.batch > 0;
}

bool epilogue_complete(const cublasLtMatmulDescOpaque &d, const cublasLtMatrixLayoutOpaque &out)
{
  static const uint32_t all[] = { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU,
                                  CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,
                                  CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
                                  CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB };
  bool bias = d.epilogue & (BIAS | DBIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);

  if (std::find(std::begin(all), std::end(all), d.epilogue) == std::end(all) || (bias && !d.bias))
    return false;
  return !(d.epilogue & AUX) || (d.aux && d.aux_ld % 8 == 0 && d.aux_ld >= (int64_t)out.rows);
}

/* Whether the shapes are a product that the library has. */
cublasStatus_t check_product(const cublasLtMatmulDescOpaque &d, const cublasLtMatrixLayoutOpaque &a,
                             const cublasLtMatrixLayoutOpaque &b, const cublasLtMatrixLayoutOpaque &c,
                             const cublasLtMatrixLayoutOpaque &out)
{
  bool ta = d.trans_a != CUBLAS_OP_N, tb = d.trans_b != CUBLAS_OP_N;
  size_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, n = tb ? b.rows : b.columns;

  if (!fits(a) || !fits(b) || !fits(c) || !fits(out) || k != (tb ? b.columns : b.rows) || out.rows != m ||
      out.columns != n || c.rows != m || c.columns != n || a.batch != out.batch || b.batch != out.batch)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (d.scale != CUDA_R_32F || a.type != b.type || c.type != out.type || (out.type != a.type && out.type != CUDA_R_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.compute != CUBLAS_COMPUTE_32F && d.compute != CUBLAS_COMPUTE_32F_FAST_TF32)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return epilogue_complete(d, out) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

bool aligned(const void *p, const cublasLtMatrixLayoutOpaque &l, uint64_t to)
{
  return l.mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY || (uintptr_t)p % to == 0;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
  return status == CUBLAS_STATUS_SUCCESS           ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                   : "CUBLAS_STATUS_INTERNAL_ERROR";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
  return cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion(void)
{
  return 130000;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
  *d = new cublasLtMatmulDescOpaque();
  (*d)->compute = compute;
  (*d)->scale = scale;
  (*d)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  (*d)->bias_type = (*d)->aux_type = -1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
  return set_field(product_fields, sizeof product_fields / sizeof *product_fields, d, attribute, value, bytes);
}

enum { LAYOUTS_MAX = 4096 };
static int live_layouts;

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
  if (++live_layouts > LAYOUTS_MAX)
    fail("more than %d layouts alive: none is destroyed", LAYOUTS_MAX);
  *l = new cublasLtMatrixLayoutOpaque { (uint32_t)type, CUBLASLT_ORDER_COL, 1, rows, columns, ld, 0, 0 };
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
  live_layouts--;
  delete l;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
  return set_field(layout_fields, sizeof layout_fields / sizeof *layout_fields, l, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
  *p = new cublasLtMatmulPreferenceOpaque();
  std::fill((*p)->alignment, (*p)->alignment + 4, DEFAULT_ALIGNMENT);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
  return set_field(preference_fields, sizeof preference_fields / sizeof *preference_fields, p, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
  cublasStatus_t status = check_product(*d, *a, *b, *c, *out);

  *found = 0;
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  results[0].algo.data[0] = std::min<uint32_t>(STRICT, *std::min_element(p->alignment, p->alignment + 4));
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *out,
                              cublasLtMatrixLayout_t out_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
  Api api;
  cublasStatus_t status = check_product(*d, *a_layout, *b_layout, *c_layout, *out_layout);
  uint64_t to = algo ? algo->data[0] : (uint64_t)STRICT;

  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (d->pointer_mode != CUBLASLT_POINTER_MODE_HOST)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!aligned(a, *a_layout, to) || !aligned(b, *b_layout, to) || !aligned(c, *c_layout, to) ||
      !aligned(out, *out_layout, to) || (workspace_bytes > 0 && (!workspace || (uintptr_t)workspace % 16 != 0)))
    return CUBLAS_STATUS_INVALID_VALUE;
  Product p = { *d, *a_layout, *b_layout, *c_layout, *out_layout, a, b, c, out, *(const float *)alpha,
                *(const float *)beta };
  enqueue_done(stream, "product", [p] {
    for (int i = 0; i < p.out.batch; i++)
      multiply(p, i);
  });
  return CUBLAS_STATUS_SUCCESS;
}
