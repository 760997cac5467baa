#include "cost/kernel.h"

#include <math.h>

#define BLOCK_TOKENS 128.0          /* queries of one thread block */
#define BACKWARD_FLOPS 2.5          /* five products backward, two forward */
#define DROPOUT_FORWARD 0.8         /* of the rate without dropout */
#define DROPOUT_BACKWARD 0.65
#define UTILIZATION_UNKNOWN 0.35    /* a device without any curve */

double attention_flops(const AttentionWork *work)
{
  double flops = 2 * work->batch * work->heads * work->q_len * work->kv_len * (work->head_dim + work->v_head_dim);
  if (work->backward)
    flops *= BACKWARD_FLOPS;
  return work->causal ? flops / 2 : flops;
}

/* Interpolates in log2(seq), flat beyond both ends. */
static double curve_at(const AttentionCurve *curve, double seq)
{
  int i = 0;
  while (i < curve->n && curve->seq[i] < seq)
    i++;
  if (i == 0)
    return curve->utilization[0];
  if (i == curve->n)
    return curve->utilization[curve->n - 1];
  double part = log2(seq / curve->seq[i - 1]) / log2(curve->seq[i] / curve->seq[i - 1]);
  return curve->utilization[i - 1] + part * (curve->utilization[i] - curve->utilization[i - 1]);
}

/* Between the two curves of the kind with the nearest head sizes; 0 if there is none. */
static double kind_at(const Kernels *kernels, const AttentionCurve *kind, double head_dim, double seq)
{
  const AttentionCurve *nearest[2] = {NULL, NULL}; /* at most as large, at least as large */
  double gap[2] = {INFINITY, INFINITY};
  for (int i = 0; i < kernels->n_attention; i++) {
    const AttentionCurve *curve = &kernels->attention[i];
    double gaps[2] = {head_dim - curve->head_dim, curve->head_dim - head_dim};
    for (int side = 0; side < 2; side++)
      if (attention_alike(curve, kind) && curve->n > 0 && gaps[side] >= 0 && gaps[side] < gap[side]) {
        nearest[side] = curve;
        gap[side] = gaps[side];
      }
  }
  if (!nearest[0] || !nearest[1] || nearest[0] == nearest[1]) {
    const AttentionCurve *only = nearest[0] ? nearest[0] : nearest[1];
    return only ? curve_at(only, seq) : 0;
  }
  double part = gap[0] / (gap[0] + gap[1]);
  return (1 - part) * curve_at(nearest[0], seq) + part * curve_at(nearest[1], seq);
}

/* Share of peak: of the kernel asked for, else of another one; of the pass,
 * else by ratio from the forward; of the mask, else of the other mask. */
static double utilization(const Kernels *kernels, const AttentionWork *work, gboolean narrow)
{
  double head_dim = (work->head_dim + work->v_head_dim) / 2.0;
  double seq = sqrt(work->q_len * work->kv_len);
  const AttentionKernel kernels_by_choice[] = {work->kernel, ATTENTION_FLASH, ATTENTION_FLASH3, ATTENTION_EFFICIENT};
  for (guint i = 0; i < G_N_ELEMENTS(kernels_by_choice); i++) {
    for (int forward = !work->backward; forward <= 1; forward++) {
      double share = forward && work->backward ? ATTENTION_BACKWARD_SHARE : 1;
      for (int other_mask = 0; other_mask <= 1; other_mask++) {
        AttentionCurve kind = {.kernel = kernels_by_choice[i], .backward = !forward, .narrow = narrow,
                               .causal = other_mask ? !work->causal : !!work->causal};
        double found = kind_at(kernels, &kind, head_dim, seq);
        if (found > 0)
          return share * found;
      }
    }
  }
  return narrow ? 0 : UTILIZATION_UNKNOWN;
}

/* Whether it runs in 8 bits: where that is measured. */
static gboolean is_narrow(const Device *device, const AttentionWork *work)
{
  return work->dtype == DTYPE_FP8 && device->peak_flops_per_s[DTYPE_FP8] > 0 &&
         utilization(&device->kernels, work, TRUE) > 0;
}

/* Other curves are of 16 bits; wide formats reach their own peak at most. */
double attention_peak_flops_per_s(const Device *device, const AttentionWork *work)
{
  double most = fmax(device->peak_flops_per_s[DTYPE_BF16], device->peak_flops_per_s[DTYPE_FP16]);

  if (is_narrow(device, work))
    return device->peak_flops_per_s[DTYPE_FP8];
  return most > 0 && dtype_bytes[work->dtype] <= 2 ? most : device->peak_flops_per_s[work->dtype];
}

/* How much longer it takes than with as many blocks as one likes: at its end multiprocessors run out of blocks, of
 * which the longest has all keys, under a causal mask twice as many as the mean. */
static double tail(const Device *device, const AttentionWork *work)
{
  double tiles = ceil(work->q_len / BLOCK_TOKENS), longest = work->causal ? 2 * tiles / (tiles + 1) : 1;
  double waves = work->batch * work->heads * tiles / device->sms;

  return fmax(1 / waves, 1 + device->kernels.attention_tail * longest / waves);
}

/* Of the rate of a moment. */
static double sustained(const Device *device)
{
  double own = device->kernels.attention_sustained;

  return own > 0 ? own : device->sustained_fraction;
}

double attention_s(const Device *device, const AttentionWork *asked)
{
  AttentionWork work = *asked;

  if (work.backward && work.whole_len > 0 && is_narrow(device, &work)) {
    work.kv_len = work.whole_len;
    work.causal = TRUE;
  }
  double flops = attention_flops(&work);
  if (!(flops > 0))
    return 0;
  double rate = attention_peak_flops_per_s(device, &work) * sustained(device) *
                utilization(&device->kernels, &work, is_narrow(device, &work));
  if (work.dropout)
    rate *= work.backward ? DROPOUT_BACKWARD : DROPOUT_FORWARD;
  return device->kernels.attention_launch_s + flops / rate * tail(device, &work);
}
