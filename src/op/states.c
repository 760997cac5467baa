/* Bytes of a parameter: weights, gradients, optimizer states, buckets. */
#include "op/op.h"

#include "op/fp8.h"

static double in_bf16(const StateLayout *s, double bytes)
{
  return s->formats.precision == DTYPE_BF16 ? bytes : 0;
}

/* All gradients at once are copied into 16 bits to be reduced. */
static gboolean casts_gradients(const StateLayout *s)
{
  return s->formats.precision == DTYPE_BF16 && s->framework->bf16_reduced_copy && s->reduce_bytes < s->gradient_bytes;
}

double op_reduce_cast_bytes(const StateLayout *s)
{
  double kept = s->gradient_bytes, sent = s->reduce_bytes;
  gboolean casts = s->optimizer.formats[STATE_GRAD_REDUCE] || casts_gradients(s);

  return casts && kept != sent ? 2 * (kept + sent) : 0;
}

double op_gradient_copy_bytes(const StateLayout *s)
{
  gboolean wider = s->formats.precision == DTYPE_BF16 && s->gradient_bytes > dtype_bytes[DTYPE_BF16];
  return wider || !s->optimizer.formats[STATE_MAIN_GRADS] ? in_bf16(s, s->framework->bf16_gradient_copy_bytes) : 0;
}

/* Gradients are unscaled in fp32, in place, and looked through for overflow. */
static double loss_scaling_traffic(const StateLayout *s)
{
  return s->formats.precision == DTYPE_FP16 ? 2 * dtype_bytes[DTYPE_FP32] : 0;
}

double op_step_traffic(const StateLayout *s)
{
  const OptimizerKind *kind = optimizer_kind(&s->optimizer);
  double states = optimizer_bytes_beyond(&s->optimizer, s->formats.precision);
  double gradient = s->gradient_bytes - s->usual_gradient_bytes;

  return s->framework->optimizer_bytes + loss_scaling_traffic(s) + 2 * states + 3 * gradient +
         kind->gradient_reads * s->gradient_bytes + kind->weight_reads * dtype_bytes[s->formats.precision];
}

double op_rest_traffic(const StateLayout *s)
{
  return s->framework->rest_gradient_bytes * (1.0 / s->gradient_parts - 1.0 / s->optimizer_parts);
}

double op_gradient_traffic(const StateLayout *s)
{
  return s->framework->gradient_passes * s->gradient_bytes / s->gradient_parts;
}

/* Whether weights of narrow products are kept in their format alone. */
static gboolean is_primary(const StateLayout *s)
{
  return s->gathers_narrow && s->framework->fp8_primary;
}

double op_kept_bytes(const StateLayout *s, double params, double narrow)
{
  double wide = dtype_bytes[s->formats.precision];

  if (!is_primary(s))
    return params * wide;
  const Fp8Work *w = fp8_work(&s->formats);
  double layout = w->held_bytes > 0 ? w->held_bytes / 2 : w->value_bytes;
  return params * wide + narrow * ((w->cast_behind && s->zero >= 3 ? w->held_bytes : layout) - wide);
}

double op_gathered_bytes(const StateLayout *s, double params, double narrow)
{
  const Fp8Work *w = s->gathers_narrow ? fp8_work(&s->formats) : NULL;
  double wide = dtype_bytes[s->formats.precision];

  if (!w || (w->cast_behind && s->zero < 3))
    return params * wide;
  return params * wide + narrow * (w->sent_bytes - wide); /* one layout */
}

/* Copies of a narrow weight in its format that stay beside it; of one kept in that, the other layout, which under ZeRO-3
 * leaves with what was gathered. */
static double copied_weights(const StateLayout *s, const Device *device)
{
  gboolean primary = is_primary(s), stay = s->zero < 3 || (s->framework->fp8_weight_cache && !primary);
  int layouts = (fp8_one_layout(&s->formats, device) ? 1 : 2) - primary;

  return formats_narrow(&s->formats) && stay ? fp8_work(&s->formats)->held_bytes / 2 * layouts : 0;
}

double op_weight_cast_bytes(const StateLayout *s, const Device *device)
{
  if (!formats_narrow(&s->formats) || fp8_work(&s->formats)->each_pass)
    return 0;
  const Fp8Work *w = fp8_work(&s->formats);
  return w->weight_bytes - (fp8_one_layout(&s->formats, device) ? w->held_bytes / 2 : 0);
}

/* Of a weight whose main copy is the only one that a device keeps, that copy; else 0. */
static double sole_main_bytes(const StateLayout *s)
{
  gboolean moved = s->offload.optimizer || s->offload.parameters;
  gboolean sole = s->framework->shards_main_params && s->zero == 3 && !moved;

  return sole ? optimizer_main_bytes(&s->optimizer, s->formats.precision) : 0;
}

/* Of the optimizer for a weight. */
static double optimizer_bytes(const StateLayout *s)
{
  DType precision = s->formats.precision;
  gboolean copied = s->framework->main_params_copied && (s->zero == 1 || s->zero == 2) &&
                    optimizer_main_bytes(&s->optimizer, precision) == 0;

  return optimizer_param_bytes(&s->optimizer, precision) + (copied ? dtype_bytes[precision] : 0);
}

double op_checkpoint_bytes(const StateLayout *s)
{
  double main = sole_main_bytes(s);

  return (main > 0 ? 0 : dtype_bytes[s->formats.precision]) + optimizer_bytes(s);
}

/* Of a weight that is `bytes`: divided, unless the host has it, and the second copy for backwards (ZeRO++, section
 * 3.2). */
static double kept_weight(const StateLayout *s, double bytes)
{
  double main = sole_main_bytes(s);

  if (s->zero < 3)
    return bytes;
  return (s->offload.parameters ? 0 : (main > 0 ? main : bytes) / s->weight_parts) +
         (s->sharding.secondary ? bytes / s->sharding.secondary : 0);
}

static double kept_gradients(const StateLayout *s)
{
  double copy = s->framework->bf16_gradient_copy_dropped ? 0 : op_gradient_copy_bytes(s);
  double bytes = s->gradient_bytes + copy;

  return s->sums_each && s->stores_gradients ? 0 : bytes / s->gradient_parts;
}

/* States of the optimizer, unless the host has them; LayerWork.state_bytes come on top. */
static double kept_states(const StateLayout *s)
{
  double bytes = optimizer_bytes(s) - sole_main_bytes(s);

  return s->offload.optimizer ? 0 : bytes / s->optimizer_parts;
}

double op_dropped_copy_bytes(const StateLayout *s)
{
  return s->framework->bf16_gradient_copy_dropped ? op_gradient_copy_bytes(s) : 0;
}

StateBytes op_states(const StateLayout *s)
{
  return (StateBytes) {
    .weights = kept_weight(s, op_kept_bytes(s, 1, 0)),
    .gradients = kept_gradients(s),
    .optimizer = kept_states(s),
  };
}

double op_narrow_states(const StateLayout *s, const Device *device)
{
  return kept_weight(s, op_kept_bytes(s, 1, 1)) - kept_weight(s, op_kept_bytes(s, 1, 0)) + copied_weights(s, device);
}

double op_bucket_params(const StateLayout *s)
{
  const Framework *f = s->framework;

  return s->sharding.bucket > 0 ? s->sharding.bucket
                                : MAX(f->bucket_params, f->bucket_params_per_rank * s->replicas);
}

double op_bucket_bytes(const StateLayout *s, double params)
{
  const Framework *f = s->framework;
  gboolean copies = f->copied_buckets && !s->sharding.bucket_view;

  double ddp = s->zero == 0 ? f->ddp_bucket_bytes * params : 0;

  if (!s->sums)
    return ddp;
  if (casts_gradients(s)) /* the accumulated ones are flat already */
    return params * s->reduce_bytes + ddp;
  double held = f->bucket_copies + (op_reduce_cast_bytes(s) > 0);
  held += s->works_by_bucket ? 2 : 0; /* momentum as it is gathered, and by matrices */
  held *= f->collectives_queued ? params : MIN(params, op_bucket_params(s));
  return (held + (copies ? params : 0)) * s->reduce_bytes + ddp;
}

/* Of frozen weights that a device keeps, as ZeRO divides them and offloading takes them away. */
static double frozen_bytes(const StateLayout *s, Frozen frozen)
{
  return s->zero == 3 && s->offload.parameters ? 0 : frozen.bytes / s->weight_parts;
}

HeldBytes op_held(const StateLayout *s, const Device *device, double params, double narrow, Frozen frozen,
                  double extra_bytes)
{
  StateBytes each = op_states(s);
  double extra = extra_bytes / s->optimizer_parts;
  double weights = params * each.weights + narrow * op_narrow_states(s, device) + frozen_bytes(s, frozen);

  return (HeldBytes) { { weights, params * each.gradients, params * each.optimizer + extra },
                       op_bucket_bytes(s, params) };
}

double held_state_bytes(const HeldBytes *held)
{
  return held->states.weights + held->states.gradients + held->states.optimizer;
}

/* Of a step in fp16, which op_step_bytes counts. */
static gboolean keeps_step_copies(const StateLayout *s)
{
  return s->formats.precision == DTYPE_FP16 && s->zero > 0 && s->framework->fp16_step_copies;
}

/* Flat tensors into which updated weights are gathered, but for those that free blocks of the step hold. */
static double flat_updated(const StateLayout *s, double params, const double *blocks, int n_blocks)
{
  const Framework *f = s->framework;
  double weight = dtype_bytes[s->formats.precision], bucket = MIN(params, op_bucket_params(s)) * s->reduce_bytes;

  if (f->gather_params == 0 || !s->gathers_at_end)
    return 0;
  double pieces = MAX(1, floor(params / f->gather_params)), piece = weight * params / pieces, found = 0;
  if (piece <= (casts_gradients(s) ? params * s->reduce_bytes : bucket))
    return 0;
  for (int i = 0; i < n_blocks; i++)
    found += floor(blocks[i] / piece);
  return MAX(0, (f->collectives_queued ? pieces : 1) - found) * piece;
}

double op_step_bytes(const StateLayout *s, double params, double largest)
{
  double partition = params / s->optimizer_parts, piece = MIN(largest, partition);
  double overflow = 4 * piece, norm = 8 * piece, flat = 2 * partition, step = 4 * partition;

  if (!keeps_step_copies(s))
    return s->framework->step_bytes * partition + flat_updated(s, params, NULL, 0);
  /* a block is reused by the smallest later one that it holds */
  double taken = step <= norm && flat <= overflow ? 0 : step;
  double blocks[] = { overflow, norm, taken };
  double copies = overflow + norm + taken + (flat <= norm ? 0 : flat);
  return copies + flat_updated(s, params, blocks, G_N_ELEMENTS(blocks));
}

/* An fp32 copy of a gradient that is kept in less than the main weights. */
static double wide_copy(const StateLayout *s)
{
  gboolean narrow = s->optimizer.formats[STATE_MAIN_PARAMS] > FORMAT_FP32;

  return !narrow && s->gradient_bytes < dtype_bytes[DTYPE_FP32] ? dtype_bytes[DTYPE_FP32] : 0;
}

/* Megatron-LM's precision-aware optimizer, which formats of states ask for, reads gradients as they are kept. */
static double copied_gradients(const StateLayout states[2], const double params[2])
{
  double bytes = 0;

  for (int experts = 0; experts < 2; experts++)
    if (!optimizer_has_formats(&states[experts].optimizer))
      bytes += wide_copy(&states[experts]) * params[experts] / states[experts].optimizer_parts;
  return bytes;
}

/* Of a group under ZeRO; BF16_Optimizer steps on fp32 gradients that are flat already. */
static double flattened_part(const StateLayout *s, double params)
{
  double part = params / s->optimizer_parts, copy = wide_copy(s);

  if (s->zero == 1 && s->formats.precision == DTYPE_BF16 && s->gradient_bytes >= dtype_bytes[DTYPE_FP32])
    return 0;
  return (s->gradient_bytes + copy) * (s->zero == 3 ? MIN(part, SUB_GROUP_PARAMS) : part);
}

static double flattened_gradients(const StateLayout states[2], const double params[2])
{
  double most = 0, flat = 0, gone = 0;

  for (int experts = 0; experts < 2; experts++) {
    const StateLayout *s = &states[experts];
    double n = params[experts], copy = wide_copy(s) * n;
    most = MAX(most, s->zero > 0 ? flattened_part(s, n) : copy);
    flat += s->zero > 0 ? 0 : copy;
    gone += s->zero < 3 ? op_bucket_bytes(s, n) : 0;
    gone += s->zero == 1 ? s->gradient_bytes * (n - n / s->optimizer_parts) : 0;
  }
  return MAX(0, most + flat - gone);
}

double op_step_copies(const StateLayout states[2], const double params[2])
{
  const StateLayout *s = &states[0];

  if (s->offload.optimizer || keeps_step_copies(s))
    return 0;
  switch (s->framework->step_gradients) {
  case STEP_COPIED:
    return copied_gradients(states, params);
  case STEP_FLATTENED:
    return flattened_gradients(states, params);
  default:
    return 0;
  }
}

double op_step_taken(const StateLayout states[2], const double params[2], double left)
{
  double whole[2];

  if (states[0].framework->step_gradients != STEP_COPIED)
    return 0;
  for (int experts = 0; experts < 2; experts++)
    whole[experts] = states[experts].optimizer_parts > 1 ? 0 : params[experts];
  return MAX(0, op_step_copies(states, whole) - left);
}

double op_updated_copies(const StateLayout *s, double bytes)
{
  return s->framework->updated_lists ? (2 + 1.0 / s->optimizer_parts) * bytes : 0;
}

double op_updated_taken(const StateLayout *s, double bytes, double block, double left)
{
  double part = bytes / s->optimizer_parts;

  if (!s->framework->updated_lists || bytes == 0)
    return 0;
  return MAX(0, bytes + (part > block ? bytes + part : 0) - left);
}
