/*
 * A GPU (or any accelerator): what its data sheet says, and the constants of
 * its kernels' speed that were fitted to measurements.
 *
 * No C names a GPU: hardware/gpus/NAME.json does. It holds the data sheet and
 * names a file of hardware/kernels/ with the fitted constants; a GPU without
 * measurements names the nearest architecture's and its provenance is then
 * PROVENANCE_DEFAULT. Files use data-sheet units (TFLOP/s, GB/s decimal, GiB
 * for memory, us); here everything is in bytes, seconds and FLOP/s.
 *
 * Every number names its source: `source` is one string for all numbers of an
 * object, or an object from key to string ("*" for the rest). A source begins
 * with its provenance: "measured: ", "fitted: ", "datasheet: ", "derived: " or
 * "default: ". A number without one is refused in hardware/; in other files it
 * is PROVENANCE_YOURS.
 */
#ifndef TDP_HARDWARE_DEVICE_H
#define TDP_HARDWARE_DEVICE_H

#include "base/json.h"
#include "hardware/dtype.h"

#include <glib.h>

typedef enum {
  PROVENANCE_DEFAULT,   /* a guess, or another part's number */
  PROVENANCE_YOURS,     /* a number of a file outside of hardware/ that names no source */
  PROVENANCE_DATASHEET, /* what the maker says, or arithmetic on it */
  PROVENANCE_FITTED,    /* fitted on measurements of this part */
  PROVENANCE_MEASURED,
} Provenance;

extern const char *const provenance_names[];

/* What a product is to its linear layer: libraries of CPUs take other times for each of the three. */
typedef enum { PRODUCT_FORWARD, PRODUCT_INPUT_GRADIENT, PRODUCT_WEIGHT_GRADIENT, PRODUCT_COUNT } Product;

/*
 * Time of a matrix product by tiles and waves; formula and ranges in
 * src/cost/README.md. Constants per number format.
 */
typedef struct {
  double launch_s;           /* fixed time of a kernel on the device */
  double efficiency;         /* of peak inside a full tile */
  double tile_overhead_s;    /* prologue and epilogue of a tile */
  double bandwidth_fraction; /* of memory bandwidth; above 1 where caches reuse */
  double tile_exponent;      /* smaller tiles are slower by (area / 32768)^x */
  double overlap_power;      /* compute and memory combine as a p-norm */
  double split_s;            /* extra kernel when the inner dimension is split */
  double wave_weight;        /* share of the last, partly filled wave that counts */
  double tile;               /* side of the only tile; 0 = those that GPU libraries have */
  double first_bandwidth_fraction; /* of the first factor, which the operator before may have left in a cache; 0 = as
                                      bandwidth_fraction */
  double crowding;           /* how much longer while all devices of the node compute; >= 1 */
  double added_power;        /* overlap_power where the product is added to a matrix; 0 = as others */
  double experts_at_once;    /* of a rank's, whose products are a call of the library each; below 1 = 1 */
  double unaligned[2][2];    /* [rows start at any byte, not at words][no factor is a weight]: how much slower
                                arithmetic is than where they start at 16 bytes; below 1 = as these */
  Provenance provenance;
  gboolean known; /* FALSE: no constants for this format */
} MatmulModel;

/* Its numbers as files have them; ends with a NULL key. */
extern const JsonField matmul_fields[];

/* Separate kernels; memory-efficient attention (xformers' and PyTorch's, which runs on devices before FlashAttention's
 * first); Triton's (of FlashAttention-1's class, takes a bias such as ALiBi); FlashAttention 1, 2 and 3 and kernels of
 * their class. */
typedef enum {
  ATTENTION_UNFUSED, ATTENTION_EFFICIENT, ATTENTION_TRITON, ATTENTION_FLASH1, ATTENTION_FLASH, ATTENTION_FLASH3,
  ATTENTION_KERNEL_COUNT,
} AttentionKernel;
extern const char *const attention_kernel_names[];

#define ATTENTION_POINTS_MAX 12

/* Share of peak that a fused attention kernel reaches, by sequence length. */
typedef struct {
  AttentionKernel kernel;
  gboolean backward;
  gboolean causal;
  gboolean narrow; /* products in 8 bits */
  int head_dim;
  int n;
  double seq[ATTENTION_POINTS_MAX];         /* tokens, rising */
  double utilization[ATTENTION_POINTS_MAX]; /* of the dense peak of 16 bits, of narrow ones 8: full-work FLOPs
                                               (halved when causal) over time */
  Provenance provenance;
} AttentionCurve;

/* Whether two curves are of one kernel, pass, mask and format; their heads may differ. */
static inline gboolean attention_alike(const AttentionCurve *a, const AttentionCurve *b)
{
  return a->kernel == b->kernel && a->backward == b->backward && a->causal == b->causal && a->narrow == b->narrow;
}

/* A kernel bound by memory that does not reach the share of the others: on a
 * CPU, those whose arithmetic takes longer than their bytes. Short products
 * inside of it may take time besides. */
typedef struct {
  char *name;       /* of the op's kernel (op_kernel), or its last words: "norm" */
  gsize name_length; /* which whoever sets the name sets */
  gboolean backward;
  double fraction;  /* of memory bandwidth; above 1 where caches reuse */
  double sm_flops_per_s; /* of its products on a multiprocessor; 0 = they take no time of their own */
  double crowding;  /* as MatmulModel's */
  Provenance provenance;
} MemoryKernel;

/* Kernels that send rows to the ranks of their experts and bring them back, beside what the links take. */
typedef struct {
  double base_s;          /* fixed time of such a kernel */
  double row_s;           /* of a multiprocessor for a row, */
  double s_per_byte;      /* and for each byte of it (DeepEP); 0 = not known: no plan has such dispatchers */
  double hybrid_bytes_per_s; /* of HybridEP's kernels over nodes: rows for all of these, its own too; 0 = no limit */
  double hybrid_slowdown; /* of HybridEP's calls over its kernels, which the links bound; >= 1 */
  Provenance provenance;
} DispatchModel;

/* Constants of the kernels of one architecture: hardware/kernels/NAME.json. */
typedef struct {
  char *name;
  double unaligned[2][2]; /* as each MatmulModel has it */
  double added_power, experts_at_once; /* the same */
  MatmulModel matmul[DTYPE_COUNT];
  MatmulModel grouped[DTYPE_COUNT]; /* products of several experts at once; not known = as others */
  MatmulModel gradients[PRODUCT_COUNT][DTYPE_COUNT]; /* products of that kind; not known = as others
                                                        (PRODUCT_FORWARD never is) */
  AttentionCurve *attention;
  int n_attention;
  double attention_launch_s;
  double attention_tail; /* of the time of its longest block, for which other multiprocessors wait at its end */
  double attention_sustained; /* as the device's sustained_fraction, of attention; 0 = that one */
  double early_cuda_version;  /* products by libraries older than this, 0 = none known, */
  double early_product_share; /* run at this share of the rate that `matmul` gives, */
  double early_unaligned_share[DTYPE_COUNT]; /* those of activations whose rows are not aligned at this one of theirs;
                                                0 = as others */
  double promoted_share;      /* of `efficiency` that products of 8 bits keep which add partial sums in 32 bits */
  double promoted_overhead_s; /* (split accumulators), and what a tile of theirs takes besides; 0 = as others */
  double memory_fraction; /* of memory bandwidth that streaming kernels reach */
  double memory_launch_s; /* fixed time of a streaming kernel */
  double attention_crowding, memory_crowding; /* as MatmulModel's */
  MemoryKernel *memory_kernels; /* that differ from memory_fraction; of files the longest name first */
  int n_memory_kernels;
  Provenance memory_provenance;
  DispatchModel dispatch;
} Kernels;

/* What files may say of a rate_spread at most. */
#define RATE_SPREAD_MAX 0.5

typedef struct {
  char *name;
  char *arch;
  double peak_flops_per_s[DTYPE_COUNT]; /* dense; 0 = format not supported */
  double memory_bytes;                  /* usable */
  double memory_bytes_per_s;
  double l2_bytes;                      /* last-level cache; of a core, its part of one */
  double l2_alone_bytes;                /* what it has of it while no other device of the node computes; 0 = l2_bytes */
  double l2_ramp;                       /* from l2_bytes / this on passes come to have bytes from memory, from
                                           l2_bytes * this on all; 0, 1 = all from l2_bytes on */
  double beyond_l2_bytes_per_s;         /* of passes over more than that: what kernels take longer than in the cache;
                                           0 = not told */
  double beyond_l2_crowding;            /* as MatmulModel's, of these seconds; 0 where none are told */
  int sms;                              /* or compute units; 1 where the device is a core of a CPU */
  double host_bytes_per_s;              /* to host memory, per direction */
  gboolean host_coherent;               /* by a link between chips of one memory space (NVLink-C2C), not by PCIe */
  gboolean fp8_columns;                 /* products of 8 bits with a scale a tensor read either factor by rows or columns */
  double rated_power_w; /* its own, where power_w was lowered; 0 = it was not */
  double power_w;
  double host_slowdown;                 /* of its host's operations over a Xeon 8480C's; 1 unless known */
  double sustained_fraction;            /* of the rate of short benchmarks, held over long runs */
  double rate_spread;                   /* standard deviation of the rate between like devices */
  double rate_passing;                  /* and of each one's from one pass to the next, which evens out over a step */
  double rate_jitter, rate_jitter_s;    /* and of each one's over time, at a moment; it lasts so long. 0 = none */
  double switch_s, switch_after_s;      /* lost where a product follows other kernels, in full after so long; 0: none */
  Kernels kernels;
} Device;

/* Whether its matrix units scale blocks of 8-bit values, as mxfp8 has them: those that multiply in fp4. */
static inline gboolean device_scales_blocks(const Device *device)
{
  return device->peak_flops_per_s[DTYPE_FP4] > 0;
}

/* Whether it is a core of a CPU, between which MPI moves data and not NCCL. */
static inline gboolean device_is_core(const Device *device)
{
  return device->sms == 1;
}

/* The kernel that runs where `asked` is: itself, but on a device whose curves are of memory-efficient attention alone
 * (Volta, Turing: FlashAttention-2 needs compute capability 8.0) `otherwise`, and FlashAttention-2 for kernels of
 * FlashAttention-3's class where only the former has curves (Ampere). */
AttentionKernel device_attention(const Device *device, AttentionKernel asked, AttentionKernel otherwise);

/* Multiplies what each kernel takes to be launched, of all kinds. */
void device_scale_launches(Device *device, double factor);

/* Reads hardware/gpus/NAME.json (a bare name or a path) with its kernels. */
gboolean device_load(const char *name, Device *out, GError **error);
void device_clear(Device *device);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Device, device_clear)

#endif
