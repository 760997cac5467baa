#include "deepspeed_memory.h"

#include <math.h>

/* Mixed precision: 16-bit weights; the same with fp32 gradients, master weights and two moments. */
#define WEIGHT_BYTES 2
#define HOST_STATE_BYTES 16
#define STATE_BYTES 18
#define FP32_BYTES 4

static DeepspeedMemory zero2(const DeepspeedSetup *s)
{
  double gpus = (double)s->nodes * s->node_gpus;

  if (s->offload_optimizer)
    return (DeepspeedMemory) { WEIGHT_BYTES * s->params,
                               s->params * MAX(FP32_BYTES * gpus, HOST_STATE_BYTES) * s->buffer_factor };
  return (DeepspeedMemory) { WEIGHT_BYTES * s->params + floor(STATE_BYTES * s->params / gpus),
                             FP32_BYTES * s->params * s->node_gpus * s->buffer_factor };
}

static double host_of_zero3(const DeepspeedSetup *s, double state_bytes)
{
  double share = state_bytes / s->nodes;

  return s->params * (s->zero_init ? share : MAX(FP32_BYTES * s->node_gpus, share)) * s->buffer_factor;
}

static DeepspeedMemory zero3(const DeepspeedSetup *s)
{
  double gpus = (double)s->nodes * s->node_gpus, gathered = 2 * WEIGHT_BYTES * s->largest_params;

  if (s->offload_optimizer && s->offload_params)
    return (DeepspeedMemory) { gathered, host_of_zero3(s, STATE_BYTES) };
  if (s->offload_optimizer)
    return (DeepspeedMemory) { gathered + floor(WEIGHT_BYTES * s->params / gpus), host_of_zero3(s, HOST_STATE_BYTES) };
  return (DeepspeedMemory) { gathered + floor(STATE_BYTES * s->params / gpus),
                             FP32_BYTES * (s->zero_init ? s->largest_params : s->params) * s->node_gpus *
                                 s->buffer_factor };
}

DeepspeedMemory deepspeed_memory(const DeepspeedSetup *s)
{
  DeepspeedMemory m = s->zero == 2 ? zero2(s) : zero3(s);

  return (DeepspeedMemory) { floor(m.gpu_bytes), floor(m.host_bytes) };
}

double deepspeed_largest_params(const Model *m)
{
  double largest = (double)MAX(m->vocab, m->position_rows) * (m->embed_dim ? m->embed_dim : m->hidden);

  for (int i = 0; i < m->n_specs; i++) {
    const FeedForward *f = &m->specs[i].ffn;
    const Attention *a = &m->specs[i].attention;
    double width = MAX(f->width, f->shared_width), heads = (double)a->heads * a->head_dim;
    largest = MAX(largest, width * (m->hidden + f->bias));
    largest = MAX(largest, heads * (m->hidden + a->qkv_bias));
  }
  return largest;
}
