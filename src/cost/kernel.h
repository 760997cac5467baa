/*
 * Time of one kernel on one device: matrix products, attention, and kernels
 * bound by memory. Formulas, sources and ranges of validity are in
 * src/cost/README.md; constants come from Device.kernels.
 */
#ifndef TDP_COST_KERNEL_H
#define TDP_COST_KERNEL_H

#include "hardware/device.h"

/* C[m,n] = A[m,k] B[k,n], `batch` independent products in one kernel. */
typedef struct {
  double m, n, k, batch;
  DType dtype;
  gboolean activations;    /* neither factor is a weight: many short products that do not hide their memory traffic */
  double accumulate_bytes; /* read and written besides, where the product is added to a wider matrix */
  double block;            /* 0, or the side of blocks of which one factor or the product is made: m, n and k count
                              those that are there alone */
  double bytes;            /* of such a product: read and written */
  gboolean grouped;        /* `batch` experts of a rank in one kernel */
  double calls;            /* of the library for them, if they are not; else 0 */
  gboolean promoted;       /* of 8 bits, and adds partial sums in 32 */
  Product product;         /* of a weight's gradient k counts rows of both factors: they start at multiples of m and n,
                              not of k */
} Matmul;

double matmul_s(const Device *device, const Matmul *matmul);

/* Where rows of both factors start: at multiples of what fast kernels load at once (16 bytes), of words, anywhere. */
typedef enum { ALIGNED_FULLY, ALIGNED_AT_WORDS, ALIGNED_AT_BYTES } Alignment;

Alignment matmul_alignment(const Matmul *matmul);

/* The same with explicit constants. `memory_bytes_per_s` and `sms` are what the
 * kernel has to itself (all, unless communication kernels take a part), `peak`
 * that of these sms. */
double matmul_model_s(const MatmulModel *model, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                      const Matmul *matmul);

/* One fused attention kernel: `batch` sequences of `heads` heads, queries of
 * q_len tokens on kv_len keys. FLOPs: 2 q_len kv_len (head_dim + v_head_dim)
 * per head forward, 2.5 times that backward; half if causal. Dropout draws its
 * random numbers inside the kernel. If a window hides keys behind a causal mask,
 * kv_len is what queries see in the mean, and whole_len what they would without
 * it (else 0): kernels of 8 bits skip none of them backward. */
typedef struct {
  double batch, heads, q_len, kv_len, whole_len;
  int head_dim, v_head_dim;
  gboolean causal, backward, dropout;
  AttentionKernel kernel; /* not ATTENTION_UNFUSED: that one is matmuls and softmax */
  DType dtype;
} AttentionWork;

/* FLOP/s that no product of this format exceeds, and not the kernel that runs this attention: the peak of the format,
 * or of the one that stands for it where the device lacks it; 16-bit for attention that is not measured in fewer. */
double matmul_peak_flops_per_s(const Device *device, DType dtype);
double attention_peak_flops_per_s(const Device *device, const AttentionWork *work);

/* Share of peak of a backward kernel over the forward's, where nobody measured the backward. */
#define ATTENTION_BACKWARD_SHARE 0.8

double attention_flops(const AttentionWork *work);
double attention_s(const Device *device, const AttentionWork *work);

/* The constants of the kernel of this name, or of its longest last words that one is called by; NULL where it is like the
 * others. */
const MemoryKernel *memory_kernel(const Kernels *kernels, const char *name, gboolean backward);

/* A kernel by name, with `flops` of products inside. */
double named_memory_s(const Device *device, const char *name, gboolean backward, double bytes, double kernels,
                      double flops);

/* Rows that DeepEP sends from one rank, its own included, or brings back, on `sms` multiprocessors; 0 where the
 * device's constants are not known. Links may take longer. */
double dispatch_s(const DispatchModel *model, double rows, double row_bytes, double sms);

/* Reads and writes `bytes` in `kernels` launches. */
double memory_s(const Device *device, double bytes, double kernels);

#endif
