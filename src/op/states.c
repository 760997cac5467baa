/* Bytes of a parameter: weights, gradients, optimizer states, buckets. */
#include "op/op.h"

#include "op/fp8.h"

static double no_narrower(const Plan *p, double bytes)
{
  return p->precision == DTYPE_FP32 ? MAX(bytes, dtype_bytes[DTYPE_FP32]) : bytes;
}

static double in_bf16(const Plan *p, double bytes)
{
  return p->precision == DTYPE_BF16 ? bytes : 0;
}

static double in_precision(const Plan *p, double bytes)
{
  return no_narrower(p, p->precision == DTYPE_BF16 ? MAX(bytes, p->framework->bf16_gradient_bytes) : bytes);
}

double op_gradient_bytes(const Plan *p)
{
  return state_format_bytes(&p->optimizer, STATE_MAIN_GRADS, in_precision(p, p->framework->gradient_bytes));
}

/* Gradients travel as they are accumulated, unless something else is chosen. */
double op_reduce_bytes(const Plan *p)
{
  double usual = in_precision(p, p->framework->reduce_bytes);

  return state_format_bytes(&p->optimizer, STATE_GRAD_REDUCE,
                            state_format_bytes(&p->optimizer, STATE_MAIN_GRADS, usual));
}

double op_reduce_cast_bytes(const Plan *p)
{
  double kept = op_gradient_bytes(p), sent = op_reduce_bytes(p);

  return p->optimizer.formats[STATE_GRAD_REDUCE] && kept != sent ? 2 * (kept + sent) : 0;
}

double op_gradient_copy_bytes(const Plan *p)
{
  gboolean wider = p->precision == DTYPE_BF16 && op_gradient_bytes(p) > dtype_bytes[DTYPE_BF16];
  return wider || !p->optimizer.formats[STATE_MAIN_GRADS] ? in_bf16(p, p->framework->bf16_gradient_copy_bytes) : 0;
}

/* Gradients are unscaled in fp32, in place, and looked through for overflow. */
static double loss_scaling_traffic(const Plan *p)
{
  return p->precision == DTYPE_FP16 ? 2 * dtype_bytes[DTYPE_FP32] : 0;
}

double op_step_traffic(const Plan *p)
{
  const OptimizerKind *kind = optimizer_kind(&p->optimizer);
  double states = optimizer_bytes_beyond(&p->optimizer, p->precision);
  double gradient = op_gradient_bytes(p) - in_precision(p, p->framework->gradient_bytes);

  return p->framework->optimizer_bytes + loss_scaling_traffic(p) + 2 * states + 3 * gradient +
         kind->gradient_reads * op_gradient_bytes(p) + kind->weight_reads * op_weight_bytes(p);
}

double op_weight_bytes(const Plan *p)
{
  return dtype_bytes[p->products == PRODUCTS_FP8 && p->framework->fp8_primary ? DTYPE_FP8 : p->precision];
}

double op_gathered_weight_bytes(const Plan *p)
{
  return plan_narrow(p) && p->zero >= 3 ? MIN(fp8_work(p)->gather_bytes, op_weight_bytes(p)) : op_weight_bytes(p);
}

/* Copies of weights in fp8 that stay beside them; of weights kept in fp8, the other layout. */
static double copied_weights(const Plan *p)
{
  gboolean primary = p->products == PRODUCTS_FP8 && p->framework->fp8_primary;

  return plan_narrow(p) && p->zero < 3 ? fp8_work(p)->held_bytes / (primary ? 2 : 1) : 0;
}

double op_weight_cast_bytes(const Plan *p)
{
  return plan_narrow(p) && !fp8_work(p)->each_pass ? fp8_work(p)->weight_bytes : 0;
}

/* Divided weights, unless the host has them, and the second copy for backwards (ZeRO++, section 3.2). */
static double kept_weights(const Plan *p)
{
  double bytes = op_weight_bytes(p);

  if (p->zero < 3)
    return bytes;
  return (p->offload.parameters ? 0 : bytes / plan_shards(p)) +
         (p->sharding.secondary ? bytes / p->sharding.secondary : 0);
}

static double kept_gradients(const Plan *p)
{
  double bytes = op_gradient_bytes(p) + op_gradient_copy_bytes(p);

  if (p->zero < 2 || p->sharding.no_sync)
    return bytes;
  return plan_stores_gradients(p) ? 0 : bytes / plan_shards(p);
}

/* States of the optimizer, unless the host has them; LayerWork.state_bytes come on top. */
static double kept_states(const Plan *p)
{
  double bytes = p->offload.optimizer ? 0 : optimizer_param_bytes(&p->optimizer, p->precision);

  return bytes / (p->zero >= 1 ? plan_shards(p) : 1);
}

StateBytes op_states(const Plan *p)
{
  return (StateBytes) {
    .weights = kept_weights(p) + copied_weights(p),
    .gradients = kept_gradients(p),
    .optimizer = kept_states(p),
  };
}

double op_state_bytes(const Plan *p)
{
  StateBytes s = op_states(p);
  return s.weights + s.gradients + s.optimizer;
}

double op_bucket_params(const Plan *p)
{
  const Framework *f = p->framework;

  return p->sharding.bucket > 0 ? p->sharding.bucket
                                : MAX(f->bucket_params, f->bucket_params_per_rank * plan_replicas(p));
}

double op_bucket_bytes(const Plan *p, double params)
{
  const Framework *f = p->framework;
  gboolean copies = f->copied_buckets && !p->sharding.bucket_view;

  double ddp = p->zero == 0 ? f->ddp_bucket_bytes * params : 0;

  if (plan_replicas(p) == 1)
    return ddp;
  double held = f->bucket_copies + (op_reduce_cast_bytes(p) > 0);
  return (held * MIN(params, op_bucket_params(p)) + (copies ? params : 0)) * op_reduce_bytes(p) + ddp;
}

double op_step_bytes(const Plan *p, double params, double largest)
{
  double partition = p->zero >= 1 ? params / plan_shards(p) : params, piece = MIN(largest, partition);
  double overflow = 4 * piece, norm = 8 * piece, flat = 2 * partition, step = 4 * partition;

  if (p->precision != DTYPE_FP16 || p->zero == 0 || !p->framework->fp16_step_copies)
    return p->framework->step_bytes * partition;
  /* a block is reused by the smallest later one that it holds */
  if (flat <= overflow && step <= norm)
    return overflow + norm;
  return overflow + norm + step + (flat <= norm ? 0 : flat);
}
