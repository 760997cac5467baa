/* Rows of experts in multiples of what products in 8 and 4 bits take. */
#include "op/build.h"

#include <math.h>

/* Not those of a capacity. */
static gboolean fills(const Build *b)
{
  const PassLayout *p = b->passes;

  return p->framework->pads_rows && formats_narrow(&p->formats) && !p->expert_rows_known;
}

double build_filling_rows(const Build *b, double rows)
{
  Fp8Recipe recipe = b->passes->formats.recipe;
  int multiple = build_groups(b) ? 256 : recipe == FP8_NVFP4 ? 128 : recipe == FP8_MXFP8 ? 32 : 16;

  return fills(b) ? fmax((multiple - 1) / 2.0, multiple - rows) : 0;
}

void build_padding(Build *b, const char *name, double rows, gboolean weights)
{
  double bytes = 2 * b->bytes * rows * b->routed;
  double kernels = weights && b->passes->framework->weighs_inside ? 2 : 1;

  if (fills(b) && !(b->passes->experts_apart && b->passes->dispatch == DISPATCH_HYBRID))
    build_stream(b, &(Stream) { .name = name, .forward_bytes = bytes, .forward_kernels = kernels,
                                .backward_bytes = bytes, .backward_kernels = kernels });
}
