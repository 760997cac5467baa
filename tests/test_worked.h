/* What test files of the work of small models share. */
#ifndef TDP_TESTS_TEST_WORKED_H
#define TDP_TESTS_TEST_WORKED_H

#include "layouts.h"
#include "planned.h"
#include "test_model.h"

/* A plan that trains the model of a text, one sequence of 128 tokens a step, on so many devices that divide it. */
static inline void setup(Planned *f, const char *text, int devices)
{
  g_autoptr(Model) m = parsed(text);
  gboolean sparse = m->sparse != NULL;

  planned_init(f, g_steal_pointer(&m), fixture_cluster("dgx-h100", devices), sparse ? "deepspeed"
                                                                                    : "megatron-core");
  if (sparse)
    f->plan.attention = ATTENTION_UNFUSED;
  f->plan.gpus = f->plan.tp = devices;
  f->plan.dp = f->plan.global_batch = 1;
  f->plan.seq = f->plan.decoder_seq = 128;
  f->plan.recompute = RECOMPUTE_NONE;
  if (!f->model->encoder_blocks)
    f->plan.decoder_seq = 0;
  planned_build(f);
}

/* Bytes that an op of this name moves. */
static inline double moved(const Planned *f, int layer, const char *name, gboolean backward)
{
  LayerWork work;
  double bytes = 0;

  layer_work_init(&work, f->model, model_layer(f->model, layer), PASSES(&f->plan), f->cluster);
  const GArray *ops = backward ? work.backward : work.forward;
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name))
      bytes += g_array_index(ops, Op, i).memory.bytes;
  layer_work_clear(&work);
  return bytes;
}

/* Bytes that an op of this name keeps of its forward pass. */
static inline double saved_by(const Planned *f, int layer, const char *name)
{
  LayerWork work;
  double bytes = 0;

  layer_work_init(&work, f->model, model_layer(f->model, layer), PASSES(&f->plan), f->cluster);
  for (guint i = 0; i < work.forward->len; i++)
    if (g_str_equal(g_array_index(work.forward, Op, i).name, name))
      bytes += g_array_index(work.forward, Op, i).saved_bytes;
  layer_work_clear(&work);
  return bytes;
}

/* Ops of this name in the layer's forward pass, and their operations. */
static inline int counted_ops(const Planned *f, int layer, const char *name, double *flops)
{
  LayerWork work;
  int n = 0;

  layer_work_init(&work, f->model, model_layer(f->model, layer), PASSES(&f->plan), f->cluster);
  for (guint i = 0; i < work.forward->len; i++)
    if (g_str_equal(g_array_index(work.forward, Op, i).name, name)) {
      *flops += g_array_index(work.forward, Op, i).flops;
      n++;
    }
  layer_work_clear(&work);
  return n;
}

#endif
