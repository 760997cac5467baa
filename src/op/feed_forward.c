/* Feed-forward of a block: dense, or experts behind a router. */
#include "op/build.h"

typedef struct {
  const char *up, *down;
  double width;  /* on this device */
  double batch;  /* experts on this device, 1 if dense */
  double rows;   /* tokens of each */
  double saved;  /* bytes of input */
  gboolean expert;
  RecomputeModule module; /* that it is, or lies in */
} Mlp;

static void activation(Build *b, double elements)
{
  gboolean one = b->plan->framework->fused_activation;
  double e = b->bytes;

  if (b->spec->ffn.kind == MLP_SWIGLU)
    build_stream(b, &(Stream) {
      .name = "swiglu", .forward_bytes = (one ? 3 : 5) * e * elements, .forward_kernels = one ? 1 : 2,
      .backward_bytes = (one ? 5 : 8) * e * elements, .backward_kernels = one ? 1 : 3,
      .saved = (one ? 2 : 3) * e * elements, /* gate and up; apart, also the activated gate */
    });
  else
    build_stream(b, &(Stream) {
      .name = "activation", .forward_bytes = (one ? 2 : 4) * e * elements, .forward_kernels = one ? 1 : 2,
      .backward_bytes = 3 * e * elements, .backward_kernels = 1, .saved = e * elements,
    });
}

static void mlp(Build *b, const Mlp *m)
{
  gboolean bias = b->spec->ffn.bias;
  double gates = b->spec->ffn.kind == MLP_SWIGLU ? 2 : 1;
  double elements = m->rows * m->batch * m->width;

  b->redone |= 1u << m->module;
  b->dropped |= m->expert ? 0 : 1u << MODULE_LAYERNORM;
  build_linear(b, &(Linear) {
    .name = m->up, .in = b->hidden, .out = gates * m->width, .batch = m->batch, .rows = m->rows, .bias = bias,
    .saved = m->saved, .split = LINEAR_COLUMN, .no_gather = m->expert || b->spec->parallel,
  });
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  b->dropped |= 1u << m->module;
  b->redone |= m->module == MODULE_MOE ? 1u << MODULE_MOE_ACT : 0;
  activation(b, elements);
  b->redone &= ~(1u << MODULE_MOE_ACT);
  b->dropped |= m->module == MODULE_MOE ? 1u << MODULE_MOE_ACT : 0;
  build_linear(b, &(Linear) {
    .name = m->down, .in = m->width, .out = b->hidden, .batch = m->batch, .rows = m->rows, .bias = bias,
    .saved = b->bytes * elements, .split = LINEAR_ROW, .no_reduce = m->expert,
  });
  build_leave(b, m->module);
  build_leave(b, MODULE_MOE_ACT);
  b->work->transient_bytes = MAX(b->work->transient_bytes, (1 + gates) * b->bytes * elements);
}

/* Router, permutation to experts and back. Every device holds 1/tp of each
 * expert; tokens are spread evenly and none is dropped. */
static void experts(Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  double routed = b->tokens * f->experts_per_token, e = b->bytes;
  double moved = 2 * e * routed * b->hidden;

  b->redone |= 1u << MODULE_MOE;
  b->dropped |= 1u << MODULE_LAYERNORM;
  build_entry(b);
  build_linear(b, &(Linear) { .name = "router", .in = b->hidden, .out = f->experts, .batch = 1, .rows = b->tokens,
                              .bias = f->router_bias, .saved = e * b->rows * b->hidden, .split = LINEAR_REPLICATED });
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  build_enter(b, MODULE_MOE);
  build_params(b, f->router_correction ? f->experts : 0);
  build_stream(b, &(Stream) { .name = "dispatch", .forward_bytes = moved + 8 * b->tokens * f->experts, .forward_kernels = 4,
                              .backward_bytes = moved, .backward_kernels = 2, .saved = 4 * b->tokens * f->experts });
  mlp(b, &(Mlp) { .up = "experts up", .down = "experts down", .width = f->width / b->tp, .batch = f->experts,
                  .rows = routed / f->experts, .saved = e * routed * b->hidden, .expert = TRUE, .module = MODULE_MOE });
  build_enter(b, MODULE_MOE);
  build_stream(b, &(Stream) { .name = "combine", .forward_bytes = moved, .forward_kernels = 2,
                              .backward_bytes = 1.5 * moved, .backward_kernels = 2, .saved = e * routed * b->hidden });
  if (f->shared_width)
    mlp(b, &(Mlp) { .up = "shared up", .down = "shared down", .width = f->shared_width / b->tp, .batch = 1,
                    .rows = b->tokens, .saved = e * b->tokens * b->hidden, .expert = TRUE,
                    .module = MODULE_SHARED_EXPERTS });
  build_params(b, f->shared_gate ? b->hidden : 0);
  build_exit(b);
  build_leave(b, MODULE_MOE);
}

void build_feed_forward(Build *b)
{
  const FeedForward *f = &b->spec->ffn;

  if (f->experts > 0)
    experts(b);
  else
    mlp(b, &(Mlp) { .up = "feed-forward up", .down = "feed-forward down", .width = f->width / b->tp, .batch = 1,
                    .rows = b->tokens, .saved = b->bytes * b->rows * b->hidden,
                    .module = MODULE_MLP });
}
