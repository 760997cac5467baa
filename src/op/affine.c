/* Residual sums with scales and biases in wide numbers, and states that routers hand on (ZAYA), as transformers'
 * classes run them; on rows of each rank. */
#include "op/build.h"

/* Four vectors; the sum is kept wide and cast for the norm that reads it. */
void build_affine_residual(Build *b)
{
  double elements = b->rows * b->hidden, e = b->bytes;

  build_stream(b, &(Stream) { .name = "affine residual", .forward_bytes = (6 * e + 7 * WIDE) * elements,
                              .forward_kernels = 6, .backward_bytes = (8 * e + 11 * WIDE) * elements,
                              .backward_kernels = 11, .saved = (e + WIDE) * elements });
  build_params(b, 4 * b->hidden);
}

void build_affine_embedding(Build *b)
{
  double elements = b->rows * b->hidden, e = b->bytes;

  if (!b->model->affine_residuals)
    return;
  build_stream(b, &(Stream) { .name = "affine embedding", .forward_bytes = (5 * e + WIDE) * elements,
                              .forward_kernels = 3, .backward_bytes = (7 * e + WIDE) * elements, .backward_kernels = 5,
                              .saved = e * elements });
  build_params(b, 2 * b->hidden);
}

static void layer(Build *b, const char *name, double rows)
{
  double width = b->spec->ffn.router_width, bytes = b->bytes * rows * width;

  build_linear(b, &(Linear) { .name = name, .in = width, .out = width, .batch = 1, .rows = rows, .bias = TRUE,
                              .saved = bytes, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "router activation", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 3 * bytes, .backward_kernels = 1, .saved = bytes });
}

/* Of the input, and of what the layer before made; all of it on every tensor-parallel rank that has the rows. */
void build_router_state(Build *b, double rows)
{
  const FeedForward *f = &b->spec->ffn;
  double bytes = b->bytes * rows * f->router_width;

  build_linear(b, &(Linear) { .name = "router down", .in = b->hidden, .out = f->router_width, .batch = 1, .rows = rows,
                              .bias = TRUE, .saved = b->bytes * b->rows * b->hidden, .split = LINEAR_REPLICATED });
  if (f->router_carries) {
    build_scales(b, "carried state", bytes, f->router_width, 1);
    build_stream(b, &(Stream) { .name = "add state", .forward_bytes = 3 * bytes, .forward_kernels = 1,
                                .backward_bytes = 3 * bytes, .backward_kernels = 1 });
  }
  build_stream(b, &(Stream) { .name = "router norm", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 4 * bytes, .backward_kernels = 2, .saved = bytes });
  build_params(b, f->router_width);
  layer(b, "router layer 1", rows);
  layer(b, "router layer 2", rows);
}
