/*
 * Products by cuBLASLt with fp32 accumulation (fp32 products in full fp32, not
 * TF32). Its matrices are column-major, so the row-major C = op(A) op(B) is asked
 * for as its transpose, op(B)^T op(A)^T, which needs no copies. The algorithm
 * that the library proposes for a shape is kept. What follows a product is an
 * epilogue of it where the library has one for the shape, else kernels of their own.
 */
#include "exec/cuda/elements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS_BYTES = 1 << 20, PRODUCT_BYTES = WORKSPACE_BYTES - SUMS_BYTES }; /* parts of the workspace */

struct GemmShape {
  int transpose_a, transpose_b, wide_c, m, n, k, batch, lda, ldb, ldc;
  uint32_t aligned_a, aligned_b, aligned_c, aligned_added; /* bytes */
  cublasLtEpilogue_t epilogue;
  size_t stride_a, stride_b, stride_c;
};

struct GemmPlan {
  GemmShape shape;
  uint64_t used; /* when last; 0 = the place is free */
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  bool refused; /* there is no such epilogue */
};

/* Experts get other numbers of rows each time: of the plans with a place in the same set the one unused for longest
 * gives way. */
enum { SETS = 256, WAYS = 4 };

struct GemmPlans {
  GemmPlan plans[SETS][WAYS];
  uint64_t uses;
};

static cudaDataType_t cuda_type(ExecType type)
{
  return type == EXEC_F16 ? CUDA_R_16F : type == EXEC_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t layout_new(cublasLtMatrixLayout_t *layout, cudaDataType_t type, int rows, int columns, int ld,
                                 int batch, size_t stride)
{
  int64_t offset = (int64_t)stride;
  cublasStatus_t status = cublasLtMatrixLayoutCreate(layout, type, rows, columns, ld);

  if (status == CUBLAS_STATUS_SUCCESS && batch > 1) {
    status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
                                                sizeof offset);
  }
  return status;
}

static cublasStatus_t plan_layouts(GemmPlan *p, ExecType dtype)
{
  const GemmShape *g = &p->shape;
  cublasOperation_t first = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  cudaDataType_t type = cuda_type(dtype), out = g->wide_c ? CUDA_R_32F : type;
  cublasStatus_t status = cublasLtMatmulDescCreate(&p->product, CUBLAS_COMPUTE_32F, CUDA_R_32F);

  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &g->epilogue,
                                            sizeof g->epilogue);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = layout_new(&p->b, type, g->transpose_b ? g->k : g->n, g->transpose_b ? g->n : g->k, g->ldb, g->batch,
                        g->stride_b);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = layout_new(&p->a, type, g->transpose_a ? g->m : g->k, g->transpose_a ? g->k : g->m, g->lda, g->batch,
                        g->stride_a);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = layout_new(&p->c, out, g->n, g->m, g->ldc, g->batch, g->stride_c);
  return status;
}

static cublasStatus_t set_pointer(GemmPlan *p, cublasLtMatmulDescAttributes_t attribute, const void *pointer)
{
  return cublasLtMatmulDescSetAttribute(p->product, attribute, &pointer, sizeof pointer);
}

/* Where the epilogue finds and leaves its vector and matrix. */
static cublasStatus_t plan_epilogue(GemmPlan *p, const ExecGemm *g, const void *sums)
{
  int64_t ld = p->shape.ldc;
  const int32_t wide = CUDA_R_32F;
  const void *vector = g->sums ? sums : g->bias;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

  if (vector)
    status = set_pointer(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (status == CUBLAS_STATUS_SUCCESS && g->sums)
    status = cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &wide, sizeof wide);
  if (status == CUBLAS_STATUS_SUCCESS && g->behind != EXEC_AS_IT_IS)
    status = set_pointer(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g->inner);
  if (status == CUBLAS_STATUS_SUCCESS && g->behind != EXEC_AS_IT_IS)
    status = cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
  return status;
}

static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, const GemmShape *g)
{
  const size_t workspace = PRODUCT_BYTES;
  const struct { cublasLtMatmulPreferenceAttributes_t attribute; uint32_t bytes; } alignments[] = {
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, g->aligned_b },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, g->aligned_a },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, g->aligned_added },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, g->aligned_c },
  };
  cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                               &workspace, sizeof workspace);

  for (const auto &x : alignments)
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulPreferenceSetAttribute(preference, x.attribute, &x.bytes, sizeof x.bytes);
  return status;
}

static cublasStatus_t plan_algorithm(CudaBackend *c, GemmPlan *p)
{
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found;
  int n = 0;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  status = set_preference(preference, &p->shape);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulAlgoGetHeuristic(c->blas, p->product, p->b, p->a, p->c, p->c, preference, 1, &found, &n);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS && n == 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  p->algorithm = found.algo;
  return status;
}

static void plan_clear(GemmPlan *p)
{
  if (p->product)
    cublasLtMatmulDescDestroy(p->product);
  cublasLtMatrixLayout_t layouts[] = { p->a, p->b, p->c };
  for (int i = 0; i < 3; i++)
    if (layouts[i])
      cublasLtMatrixLayoutDestroy(layouts[i]);
  memset(p, 0, sizeof *p);
}

/* FNV-1a, folded. */
static unsigned set_of(const GemmShape *shape)
{
  const unsigned char *bytes = (const unsigned char *)shape;
  uint64_t hash = 14695981039346656037u;

  for (size_t i = 0; i < sizeof *shape; i++)
    hash = (hash ^ bytes[i]) * 1099511628211u;
  return (hash ^ hash >> 32) % SETS;
}

/* The shape's plan, or the place for it, cleared. */
static GemmPlan *plan_place(GemmPlans *all, const GemmShape *shape)
{
  GemmPlan *set = all->plans[set_of(shape)], *place = &set[0];

  for (int i = 0; i < WAYS; i++) {
    if (set[i].used && !memcmp(&set[i].shape, shape, sizeof *shape))
      return &set[i];
    if (set[i].used < place->used)
      place = &set[i];
  }
  plan_clear(place);
  return place;
}

static GemmPlan *plan_find(CudaBackend *c, const GemmShape *shape, const ExecGemm *gemm, const void *sums)
{
  GemmPlan *p = plan_place(c->gemms, shape);
  bool known = p->used > 0;

  p->used = ++c->gemms->uses;
  if (known)
    return p;
  p->shape = *shape;
  cublasStatus_t status = plan_layouts(p, c->base.dtype);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = plan_epilogue(p, gemm, sums);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = plan_algorithm(c, p);
  p->refused = status != CUBLAS_STATUS_SUCCESS;
  if (!p->refused || shape->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    return p;
  char what[96];
  snprintf(what, sizeof what, "product %d x %d x %d", shape->m, shape->n, shape->k);
  cuda_fail(&c->base, what, cublasLtGetStatusString(status));
  plan_clear(p);
  return NULL;
}

static cublasLtEpilogue_t epilogue_of(const ExecGemm *g)
{
  if (g->sums)
    return CUBLASLT_EPILOGUE_BGRADB; /* B is our A */
  if (g->behind == EXEC_GELU)
    return g->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (g->behind == EXEC_GELU_BACKWARD)
    return CUBLASLT_EPILOGUE_DGELU;
  return g->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* What epilogues ask for: one of a kind, matrices at multiples of 16 bytes, rows of whole 8 elements. */
static bool may_follow(const ExecGemm *g)
{
  const int kinds = (g->behind == EXEC_GELU_BACKWARD) + (g->sums != NULL) + (g->bias || g->behind == EXEC_GELU);

  if (exec_gemm_plain(g) || kinds == 0)
    return true;
  return kinds == 1 && g->n % 8 == 0 && g->m * sizeof(float) <= SUMS_BYTES &&
         aligned({ g->a, g->b, g->c, g->added, g->bias, g->inner });
}

/* 256 bytes, 16, or fewer: more plans would be alike. */
static uint32_t alignment_of(const void *p)
{
  const size_t bits = (size_t)p | 256, lowest = bits & (~bits + 1);

  return lowest < 16 || lowest == 256 ? lowest : 16;
}

static GemmShape shape_of(const ExecGemm *g)
{
  GemmShape shape;

  memset(&shape, 0, sizeof shape); /* padding is compared too */
  shape.transpose_a = g->transpose_a;
  shape.transpose_b = g->transpose_b;
  shape.wide_c = g->wide_c;
  shape.m = g->m;
  shape.n = g->n;
  shape.k = g->k;
  shape.batch = g->batch > 1 ? g->batch : 1;
  shape.lda = g->lda;
  shape.ldb = g->ldb;
  shape.ldc = g->ldc;
  shape.aligned_a = alignment_of(g->a);
  shape.aligned_b = alignment_of(g->b);
  shape.aligned_c = alignment_of(g->c);
  shape.aligned_added = alignment_of(g->added ? g->added : g->c);
  shape.epilogue = epilogue_of(g);
  if (shape.batch > 1) {
    shape.stride_a = g->stride_a;
    shape.stride_b = g->stride_b;
    shape.stride_c = g->stride_c;
  }
  return shape;
}

static void gemm(Backend *b, BackendStream *s, const ExecGemm *g)
{
  CudaBackend *c = cuda_of(b);
  float alpha = (float)g->alpha, beta = (float)g->beta, *sums = (float *)((char *)s->workspace + PRODUCT_BYTES);
  GemmShape shape = shape_of(g);
  GemmPlan *p = may_follow(g) ? plan_find(c, &shape, g, sums) : NULL;

  if ((!p || p->refused) && !exec_gemm_plain(g)) {
    exec_gemm_apart(b, s, g);
    return;
  }
  if (!p)
    return;
  cublasStatus_t status = plan_epilogue(p, g, sums);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmul(c->blas, p->product, &alpha, g->b, p->b, g->a, p->a, &beta,
                            g->added ? g->added : g->c, p->c, g->c, p->c, &p->algorithm, s->workspace, PRODUCT_BYTES,
                            s->stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    cuda_fail(b, "product", cublasLtGetStatusString(status));
  if (g->sums)
    b->add_wide(b, s, g->m, sums, g->sums);
  cuda_pace(b, s);
}

int cuda_fill_gemm(Backend *b, char *error)
{
  CudaBackend *c = cuda_of(b);
  cublasStatus_t status = cublasLtCreate(&c->blas);

  b->gemm = gemm;
  if (status != CUBLAS_STATUS_SUCCESS) {
    snprintf(error, EXEC_ERROR_SIZE, "cuda: cuBLASLt: %s", cublasLtGetStatusString(status));
    return -1;
  }
  c->gemms = (GemmPlans *)calloc(1, sizeof *c->gemms);
  return 0;
}

void cuda_free_gemm(CudaBackend *c)
{
  if (c->gemms) {
    for (int i = 0; i < SETS * WAYS; i++)
      plan_clear(&c->gemms->plans[i / WAYS][i % WAYS]);
    free(c->gemms);
  }
  if (c->blas)
    cublasLtDestroy(c->blas);
}
