#include "cost/kernel.h"

#include <math.h>

/* Tiles that libraries have: rows, columns, and which of tile_areas. */
static const struct {
  guint8 m, n, area;
} tiles[] = {{3, 1, 0}, {1, 3, 0}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2},
             {3, 0, 2}, {0, 3, 2}, {1, 0, 3}, {0, 1, 3}, {0, 0, 4}};

#define N_TILES ((int)G_N_ELEMENTS(tiles))
#define N_SIDES 4
#define N_AREAS 5
static const double tile_sides[N_SIDES] = {64, 128, 192, 256};
static const double tile_areas[N_AREAS] = {1.0, 0.75, 0.5, 0.25, 0.125}; /* of 256 x 128 */

static const double splits[] = {1, 2, 4, 8, 16};

#define SPLIT_K_MIN 256.0      /* a split leaves at least this much of the inner dimension */
#define PARTIAL_SUM_BYTES 8.0  /* fp32, written by one split and read by the sum */
#define OUTPUT_BYTES_MIN 2.0   /* products of 8 and 4 bits are written in 16 */
#define ALIGNED_BYTES 16       /* rows that start elsewhere lose the fast loads */
#define ODD_BYTES 4            /* and those that do not start at a word, all wide ones */
#define WHOLE_TILE 32768.0     /* elements of the tile at which `efficiency` is reached */
#define BLOCK_TILE 128.0       /* side of the largest tile of block-sparse kernels */

/* The next wider format, tried where a device has none of the one asked for. */
static const DType wider_dtype[DTYPE_COUNT] = {
  [DTYPE_FP32] = DTYPE_FP32, [DTYPE_TF32] = DTYPE_FP32, [DTYPE_FP16] = DTYPE_FP32,
  [DTYPE_BF16] = DTYPE_FP16, [DTYPE_FP8] = DTYPE_BF16,  [DTYPE_FP4] = DTYPE_FP8,
};

/* What does not depend on the split. */
typedef struct {
  double tiles[N_TILES];   /* that cover the output, all products */
  double s_per_k[N_TILES]; /* of a tile, for each element of the inner dimension */
} Tiling;

/* libm's ceil, fmin and fmax are calls; this runs a million times a second. */
static double round_up(double x)
{
  double whole = (double)(gint64)x;
  return whole < x ? whole + 1 : whole;
}

static double p_norm(double a, double b, double power)
{
  double high = MAX(a, b), low = MIN(a, b);
  if (power == 1)
    return high + low;
  if (low < 1e-3 * high)
    return high;
  return high * pow(1 + pow(low / high, power), 1 / power);
}

/* Its lowest bit is that of the sides that rows start at. */
static gint64 row_bytes(const Matmul *matmul)
{
  double side = matmul->product == PRODUCT_WEIGHT_GRADIENT ? matmul->m : matmul->k;

  return (gint64)(side * dtype_bytes[matmul->dtype]) | (gint64)(matmul->n * dtype_bytes[matmul->dtype]);
}

Alignment matmul_alignment(const Matmul *matmul)
{
  gint64 bytes = row_bytes(matmul);

  return bytes % ALIGNED_BYTES == 0 ? ALIGNED_FULLY : bytes % ODD_BYTES == 0 ? ALIGNED_AT_WORDS : ALIGNED_AT_BYTES;
}

static double unaligned_slowdown(const MatmulModel *model, const Matmul *matmul)
{
  Alignment rows = matmul_alignment(matmul);

  return rows == ALIGNED_FULLY ? 1 : MAX(1, model->unaligned[rows == ALIGNED_AT_BYTES][!!matmul->activations]);
}

static void lay_tiles(const MatmulModel *model, double sm_flops_per_s, const Matmul *matmul, Tiling *out)
{
  double rows[N_SIDES], columns[N_SIDES], s_per_flop[N_AREAS];
  double rate = sm_flops_per_s * model->efficiency;
  if (model->tile > 0) {
    for (int i = 0; i < N_TILES; i++) {
      out->tiles[i] = round_up(matmul->m / model->tile) * round_up(matmul->n / model->tile) * matmul->batch;
      out->s_per_k[i] = 2 * model->tile * model->tile / rate;
    }
    return;
  }
  rate /= unaligned_slowdown(model, matmul);
  for (int i = 0; i < N_SIDES; i++) {
    rows[i] = round_up(matmul->m / tile_sides[i]) * matmul->batch;
    columns[i] = round_up(matmul->n / tile_sides[i]);
  }
  for (int i = 0; i < N_AREAS; i++)
    s_per_flop[i] = 1 / (model->tile_exponent > 0 ? rate * pow(tile_areas[i], model->tile_exponent) : rate);
  for (int i = 0; i < N_TILES; i++) {
    out->tiles[i] = rows[tiles[i].m] * columns[tiles[i].n];
    out->s_per_k[i] = 2 * tile_sides[tiles[i].m] * tile_sides[tiles[i].n] * s_per_flop[tiles[i].area];
  }
}

/* Seconds of the best tile for one split, arithmetic alone. */
static double compute_s(const MatmulModel *model, const Tiling *tiling, int sms, double split, double k)
{
  double best = INFINITY, weight = model->wave_weight;
  for (int i = 0; i < N_TILES; i++) {
    double even = tiling->tiles[i] * split / sms;
    double waves = weight * round_up(even) + (1 - weight) * MAX(1, even);
    double seconds = waves * (tiling->s_per_k[i] * k + model->tile_overhead_s);
    best = MIN(best, seconds);
  }
  return best;
}

/* Where a product is added to a matrix, a tile reads and writes that after its arithmetic. */
static double overlap_power(const MatmulModel *model, const Matmul *matmul)
{
  double power = matmul->activations ? 1 : model->overlap_power;

  return matmul->accumulate_bytes > 0 && model->added_power > 0 ? MIN(power, model->added_power) : power;
}

static double kernel_s(const MatmulModel *model, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                       const Matmul *matmul)
{
  double bytes = dtype_bytes[matmul->dtype];
  double first = model->first_bandwidth_fraction > 0 ? model->bandwidth_fraction / model->first_bandwidth_fraction : 1;
  double in_bytes = (first * matmul->m * matmul->k + matmul->k * matmul->n) * bytes * matmul->batch;
  double out = matmul->m * matmul->n * matmul->batch;
  double s_per_byte = 1 / (memory_bytes_per_s * model->bandwidth_fraction);
  double power = overlap_power(model, matmul);
  Tiling tiling;
  lay_tiles(model, peak_flops_per_s / sms, matmul, &tiling);

  double best = INFINITY;
  for (guint i = 0; i < G_N_ELEMENTS(splits); i++) {
    double split = splits[i];
    if (split > 1 && matmul->k < split * SPLIT_K_MIN)
      break;
    double out_bytes = out * (MAX(bytes, OUTPUT_BYTES_MIN) + (split > 1 ? split * PARTIAL_SUM_BYTES : 0));
    double memory = (in_bytes + (model->tile > 0 ? 0 : out_bytes + matmul->accumulate_bytes)) * s_per_byte;
    double extra = split > 1 ? model->split_s : 0;
    double compute = compute_s(model, &tiling, sms, split, round_up(matmul->k / split));
    if (MAX(memory, compute) + extra >= best)
      continue;
    double seconds = p_norm(compute, memory, power) + extra;
    best = MIN(best, seconds);
  }
  return model->launch_s + best;
}

double matmul_model_s(const MatmulModel *model, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                      const Matmul *matmul)
{
  Matmul one = *matmul;
  double times = MAX(1, matmul->calls / MAX(1, model->experts_at_once));

  if (!(matmul->m > 0 && matmul->n > 0 && matmul->k > 0 && matmul->batch > 0))
    return 0;
  one.batch /= times;
  one.accumulate_bytes /= times;
  return times * kernel_s(model, peak_flops_per_s, memory_bytes_per_s, sms, &one);
}

/* One tile a block, or more where blocks are larger than tiles. */
static double block_model_s(const MatmulModel *model, double peak_flops_per_s, double memory_bytes_per_s,
                            const Matmul *matmul)
{
  double side = MIN(matmul->block, BLOCK_TILE), share = pow(side * side / WHOLE_TILE, model->tile_exponent);
  double flops = 2 * matmul->m * matmul->n * matmul->k * matmul->batch;
  double rate = peak_flops_per_s * model->efficiency * (model->tile > 0 ? 1 : share);

  return model->launch_s + flops / rate + matmul->bytes / (memory_bytes_per_s * model->bandwidth_fraction);
}

/* The format itself, or the next wider one that the device has. */
static DType run_format(const Device *device, DType dtype)
{
  while (dtype != wider_dtype[dtype] &&
         (device->peak_flops_per_s[dtype] <= 0 || !device->kernels.matmul[dtype].known))
    dtype = wider_dtype[dtype];
  return dtype;
}

double matmul_peak_flops_per_s(const Device *device, DType dtype)
{
  return device->peak_flops_per_s[run_format(device, dtype)];
}

static MatmulModel promoted_model(const Kernels *kernels, const MatmulModel *model)
{
  MatmulModel promoted = *model;

  promoted.efficiency *= kernels->promoted_share;
  promoted.tile_overhead_s += kernels->promoted_overhead_s;
  return promoted;
}

double matmul_s(const Device *device, const Matmul *matmul)
{
  DType dtype = run_format(device, matmul->dtype);

  if (matmul->block > 0)
    return block_model_s(&device->kernels.matmul[dtype], device->peak_flops_per_s[dtype] * device->sustained_fraction,
                         device->memory_bytes_per_s, matmul);
  const MatmulModel *model = &device->kernels.matmul[dtype], *grouped = &device->kernels.grouped[dtype];
  const MatmulModel *gradient = &device->kernels.gradients[matmul->product][dtype];
  MatmulModel promoted;

  if (gradient->known && !matmul->activations)
    model = gradient;
  if (matmul->grouped && grouped->known)
    model = grouped;
  if (matmul->promoted && dtype == DTYPE_FP8 && device->kernels.promoted_share > 0) {
    promoted = promoted_model(&device->kernels, model);
    model = &promoted;
  }
  return matmul_model_s(model, device->peak_flops_per_s[dtype] * device->sustained_fraction,
                        device->memory_bytes_per_s, device->sms, matmul);
}
