/* Feed-forward of a block: dense, or experts (experts.c). */
#include "op/build.h"

/* Of gate and up, each by a kernel of its own, and joined by a third, whose result is kept besides (Megatron Core 0.15
 * to 0.17, fused_bias_geglu.py, weighted_bias_quick_geglu_impl()). Backward what was clamped is compared with its
 * bounds, one of gate and two of up, into a byte each; up's two are joined, a zero is made and chosen in each half's
 * gradient where a bound held, and the halves are joined again (traced, PyTorch 2.15). To the host these are three
 * operations, as forward: the clamps' backward takes 1.6 times a torch.nn.Linear's there. Grouped kernels clamp as they
 * go. */
static void clamp(Build *b, double elements)
{
  double e = b->bytes;

  if (b->spec->ffn.clamped && !build_groups(b))
    build_stream(b, &(Stream) { .name = "clamp", .forward_bytes = 8 * e * elements, .forward_kernels = 3,
                                .backward_bytes = (11 * e + 8) * elements, .backward_kernels = 9,
                                .saved = 2 * e * elements, .backward_operations = 3 });
}

/* xIELU is a kernel of its own (nickjbrowning/XIELU); step by step, of transformers' XIELUActivation, a dozen: squares,
 * exponentials, their slopes and the choice by sign. Backward its slopes' gradients are summed over all elements. */
static void xielu(Build *b, double elements)
{
  gboolean one = b->passes->framework->fused_activation;
  double e = b->bytes;

  build_stream(b, &(Stream) {
    .name = "xielu", .forward_bytes = (one ? 2 : 28) * e * elements, .forward_kernels = one ? 1 : 12,
    .backward_bytes = (one ? 3 : 34) * e * elements, .backward_kernels = one ? 2 : 16,
    .saved = (one ? e : 4 * e + 1) * elements,
  });
  build_params(b, mlp_activation_params(b->spec->ffn.kind));
}

/* Grouped kernels: the product before the activation weighs, activates and casts what it makes, and the gradient's
 * product behind it does so backward (Transformer Engine 2.15, ops/fused/forward_grouped_mlp.py and backward: cuDNN's
 * grouped_gemm_glu and grouped_gemm_dglu, which write both layouts). Gate and up are kept. */
static gboolean activates_inside(const Build *b, const Mlp *m)
{
  return m->module == MODULE_MOE_ACT && b->spec->ffn.kind == MLP_SWIGLU && build_groups(b);
}

static void activation(Build *b, double elements, gboolean inside)
{
  gboolean one = b->passes->framework->fused_activation;
  double e = b->bytes;

  if (inside)
    build_stream(b, &(Stream) { .name = "swiglu", .saved = 2 * e * elements });
  else if (b->spec->ffn.kind == MLP_XIELU)
    xielu(b, elements);
  else if (b->spec->ffn.kind == MLP_SWIGLU)
    build_stream(b, &(Stream) {
      .name = "swiglu", .forward_bytes = (one ? 3 : 5) * e * elements, .forward_kernels = one ? 1 : 2,
      .backward_bytes = (one ? 5 : 8) * e * elements, .backward_kernels = one ? 1 : 3,
      .saved = (one ? 2 : 3) * e * elements, /* gate and up; apart, also the activated gate */
      .block = (b->passes->framework->fused_weights ? 2 : 1) * e * elements,
    });
  else
    build_stream(b, &(Stream) {
      .name = "activation", .forward_bytes = (one ? 2 : 4) * e * elements, .forward_kernels = one ? 1 : 2,
      .backward_bytes = 3 * e * elements, .backward_kernels = 1, .saved = e * elements,
    });
}

/* Experts' activations by what their rows weigh, where no kernel does both (Megatron Core 0.14 to 0.17, moe/experts.py,
 * bias_act_func()): a zero is added to up before (glu_linear_offset). Backward a product is of the gradient with the
 * weights, another with the rows, which is summed to the weights' gradient; and gradients of gate and up are joined
 * (traced, PyTorch 2.15). Rows and up are kept. DeepEP and HybridEP send weights in fp32 (token_dispatcher.py): then
 * the product is of operands of both types, and is cast back; backward the gradient is cast up and its product cast
 * down, and that with the rows is of both types again. Else they are as the router's logits, 16 bits where
 * moe_router_dtype is not set (Qwen3's recipes). With gate and up's own product all takes the host 3 and 5 times as
 * long as a small torch.nn.Linear. */
static void weigh_activations(Build *b, double elements)
{
  const PassLayout *p = b->passes;
  gboolean both = p->experts_apart && dispatch_by_kernels(p->dispatch);
  double e = b->bytes * elements, wide = both ? WIDE * elements : 0;
  int gated = b->spec->ffn.kind == MLP_SWIGLU;

  if (!p->framework->weighs_inside || p->framework->fused_activation || build_groups(b))
    return;
  if (both)
    build_stream(b, &(Stream) { .name = "weigh activations in fp32", .kernel = "mixed types",
                                .forward_bytes = e + wide, .forward_kernels = 1, .forward_operations = 0.5,
                                .backward_bytes = 2 * e + 3 * wide, .backward_kernels = 2, .backward_operations = 1 });
  build_stream(b, &(Stream) { .name = "weigh activations",
                              .forward_bytes = ((both ? 1 : 2) + 2 * gated) * e + wide, .forward_kernels = 1 + gated,
                              .forward_operations = both ? 0.5 : 1,
                              .backward_bytes = ((both ? 1 : 6) + 4 * gated) * e + 4 * wide,
                              .backward_kernels = 3 + gated, .backward_operations = both ? 1 : 2,
                              .saved = (1 + gated) * e });
}

/* Gates less a bound from their mean and deviation, and those below it zeros (transformers' Gemma3nTextMLP). Each rank
 * of tensor parallelism bounds its own. */
static void cut_gate(Build *b, double elements)
{
  double bytes = b->bytes * elements;

  if (b->spec->ffn.sparse_gate)
    build_stream(b, &(Stream) { .name = "cut gate", .forward_bytes = 6 * bytes, .forward_kernels = 4,
                                .backward_bytes = 6 * bytes, .backward_kernels = 4, .saved = 2 * bytes });
}

void build_mlp_up(Build *b, const Mlp *m)
{
  double gates = b->spec->ffn.kind == MLP_SWIGLU ? 2 : 1;
  double elements = m->rows * m->batch * m->width;
  double each = gates > 1 && !b->passes->framework->fused_weights ? m->width : 0;

  b->redone |= m->module == MODULE_MOE_ACT ? 0 : 1u << m->module;
  b->dropped |= m->module == MODULE_MOE_ACT || m->inside ? 0 : 1u << MODULE_LAYERNORM;
  build_linear(b, &(Linear) {
    .name = m->up, .in = m->outer, .out = gates * m->width, .batch = m->batch, .rows = m->rows,
    .bias = b->spec->ffn.bias, .saved = m->saved, .split = LINEAR_COLUMN, .no_gather = m->inside || b->spec->parallel,
    .kept = m->kept, .apart = m->module == MODULE_MOE_ACT, .cast_behind = activates_inside(b, m),
    .original = m->module == MODULE_SHARED_EXPERTS,
    .matrix = m->module == MODULE_MLP ? MATRIX_FC1 : MATRIX_OTHER, .parts = { each, each },
  });
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  build_low_rank(b, b->spec->gate_rank, 1, gates * m->width);
  b->dropped |= m->module == MODULE_MOE_ACT ? 0 : 1u << m->module;
  b->redone |= 1u << m->module;
  clamp(b, elements);
  cut_gate(b, elements);
  if (b->spec->ffn.unit_scales)
    build_scales(b, "gate and up scales", 2 * b->bytes * elements, 2 * m->width, 2);
  activation(b, elements, activates_inside(b, m));
  if (m->module == MODULE_MOE_ACT)
    weigh_activations(b, elements);
  if (b->spec->ffn.inner_norm)
    build_inner_norm(b, "feed-forward inner norm", m->rows * m->batch, m->width);
  build_params(b, b->spec->ffn.inner_norm && !b->spec->ffn.unit_scales ? m->width : 0);
  build_leave(b, m->module);
  b->work->transient_bytes = MAX(b->work->transient_bytes, (1 + gates) * b->bytes * elements);
}

void build_mlp_down(Build *b, const Mlp *m)
{
  b->redone |= m->module == MODULE_MOE_ACT ? 0 : 1u << m->module;
  b->dropped |= 1u << m->module;
  build_linear(b, &(Linear) {
    .name = m->down, .in = m->width, .out = m->outer, .batch = m->batch, .rows = m->rows,
    .bias = b->spec->ffn.bias, .saved = b->bytes * m->rows * m->batch * m->width, .split = LINEAR_ROW,
    .no_reduce = m->inside, .apart = TRUE, .cast_before = activates_inside(b, m),
    .matrix = m->module == MODULE_MLP ? MATRIX_FC2 : MATRIX_OTHER,
  });
  build_leave(b, m->module);
}

void build_mlp(Build *b, const Mlp *m)
{
  build_mlp_up(b, m);
  build_mlp_down(b, m);
}

/* What the feed-forward gives times a sigmoid of as many values of its input (RWKV), on rows of this rank. */
static void gate_output(Build *b)
{
  double rows = b->bytes * b->rows * b->hidden;

  build_linear(b, &(Linear) { .name = "receptance", .in = b->hidden, .out = b->hidden, .batch = 1, .rows = b->rows,
                              .saved = rows, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "receptance gate", .forward_bytes = 5 * rows, .forward_kernels = 2,
                              .backward_bytes = 8 * rows, .backward_kernels = 3, .saved = 2 * rows });
}

void build_feed_forward(Build *b)
{
  const FeedForward *f = &b->spec->ffn;

  if (f->experts > 0)
    build_experts(b);
  else
    build_mlp(b, &(Mlp) { .up = "feed-forward up", .down = "feed-forward down", .outer = b->hidden,
                          .width = f->width / b->tp, .batch = 1, .rows = b->tokens,
                          .saved = b->bytes * b->rows * b->hidden, .module = MODULE_MLP,
                          .kept = b->spec->parallel && b->spec->norms < 2 && /* attention reads the same */
                                  (!b->frozen || build_adapts(b, MATRIX_QKV)) });
  if (f->gated_output)
    gate_output(b);
  if (f->scaled)
    build_params(b, 1);
}
