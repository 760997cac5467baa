#include "op/narrow.h"

#include "op/fp8.h"

gboolean linear_narrow(const Build *b, const Linear *l)
{
  return formats_narrow(&b->passes->formats) && build_has_block(b) &&
         (l->narrow || l->split != LINEAR_REPLICATED);
}

gboolean linear_promotes(const Build *b)
{
  return fp8_work(&b->passes->formats)->promotes;
}

gboolean linear_travels_narrow(const Build *b, const Linear *l)
{
  const Fp8Work *w = linear_narrow(b, l) ? fp8_work(&b->passes->formats) : NULL;

  return w && !w->gathers_wide && w->value_bytes < b->bytes;
}

double linear_gathered_bytes(const Build *b, const Linear *l)
{
  gboolean narrow = linear_travels_narrow(b, l);

  return build_activation_bytes(b) * (narrow ? fp8_work(&b->passes->formats)->value_bytes / b->bytes : 1);
}

double linear_scattered_bytes(const Build *b, const Linear *l)
{
  return b->passes->comm_fp8 ? linear_gathered_bytes(b, l) : build_activation_bytes(b);
}

double linear_gathered_gradient_bytes(const Build *b, const Linear *l)
{
  gboolean twice = linear_travels_narrow(b, l) && fp8_work(&b->passes->formats)->block_scales;

  return linear_gathered_bytes(b, l) * (twice ? 2 : 1);
}

gboolean linear_gathers_input(const Build *b, const Linear *l)
{
  return l->split == LINEAR_COLUMN && b->passes->sequence_parallel && b->tp > 1 && !l->no_gather;
}

gboolean linear_gathers_gradient(const Build *b, const Linear *l)
{
  return l->split == LINEAR_ROW && b->passes->sequence_parallel && b->tp > 1 && !l->no_reduce;
}

int linear_input_sums(const Build *b, const Linear *l)
{
  int sums = 0;

  for (int i = 0; i < LINEAR_PARTS && b->passes->framework->column_sums_apart && !b->passes->sequence_parallel; i++)
    sums += l->parts[i] > 0;
  return MAX(sums, 1);
}

gboolean linear_transposes(const Build *b, const Linear *l)
{
  return linear_travels_narrow(b, l) && !fp8_work(&b->passes->formats)->block_scales && !b->one_layout;
}

/* Bytes of casting so many values, `each` a value: those that are gathered in the format are cast before, each rank's
 * own, and their columns are made behind it or come along. */
static double cast_bytes(const Build *b, const Linear *l, double each, double values, gboolean gathered)
{
  if (b->one_layout)
    each = MAX(0, each - fp8_work(&b->passes->formats)->value_bytes);
  if (!gathered || !linear_travels_narrow(b, l))
    return each * values;
  return MAX(0, each - (linear_transposes(b, l) ? 1 : 0)) * values / b->tp;
}

double linear_cast_bytes(const Build *b, const Linear *l)
{
  if (!linear_narrow(b, l))
    return 0;
  const Fp8Work *w = fp8_work(&b->passes->formats);
  double each = (l->unmade || l->apart ? w->cast_bytes : w->made_bytes) - w->column_bytes;
  double weights = w->each_pass ? w->weight_bytes * l->in * l->out : 0;
  double rows = l->cast_before ? 0 : cast_bytes(b, l, each, l->rows * l->in, linear_gathers_input(b, l));
  return (rows + weights) * l->batch;
}

gboolean linear_writes_rows(const Build *b, const Linear *l)
{
  gboolean made = linear_narrow(b, l) && !l->unmade && !l->apart && fp8_work(&b->passes->formats)->made_bytes == 0;

  return made && (b->one_layout || linear_gathers_input(b, l));
}

double linear_column_bytes(const Build *b, const Linear *l)
{
  return linear_narrow(b, l) ? fp8_work(&b->passes->formats)->column_bytes * l->rows * l->in * l->batch : 0;
}

double linear_cast_gradient_bytes(const Build *b, const Linear *l)
{
  const Fp8Work *w = fp8_work(&b->passes->formats);
  double bytes = l->cast_behind ? 0 : cast_bytes(b, l, w->cast_bytes, l->rows * l->out, linear_gathers_gradient(b, l));

  return (bytes + w->weight_backward_bytes * l->in * l->out) * l->batch;
}

double linear_rescale_bytes(const Build *b, const Linear *l)
{
  double each = linear_narrow(b, l) ? fp8_work(&b->passes->formats)->rescale_bytes : 0;

  return each * (l->rows * l->in + l->in * l->out) * l->batch;
}

gboolean linear_looped(const Build *b, const Linear *l)
{
  return l->batch > 1 && !(build_groups(b) && linear_narrow(b, l));
}

double linear_cast_kernels(const Build *b, const Linear *l)
{
  return linear_looped(b, l) ? MAX(1, l->batch * fp8_work(&b->passes->formats)->tensor_kernels) : 1;
}

double linear_cast_operations(const Build *b, const Linear *l, double kernels)
{
  const Framework *f = b->passes->framework;
  double tensors = linear_looped(b, l) ? MIN(l->batch, kernels) : 1;

  return f->operation_s > 0 ? tensors - 1 + (kernels - tensors) * f->issue_s / f->operation_s : 0;
}

double linear_layout_kernels(const Build *b, const Linear *l)
{
  gboolean apart = linear_narrow(b, l) && fp8_work(&b->passes->formats)->column_bytes > 0;

  return linear_cast_kernels(b, l) / (apart && linear_looped(b, l) ? 2 : 1);
}

gboolean linear_meets_for_scale(const Build *b, const Linear *l)
{
  const Fp8Work *w = linear_narrow(b, l) ? fp8_work(&b->passes->formats) : NULL;

  return w && w->shared_scale && !w->gathers_wide;
}

double linear_saved_weights(const Build *b, const Linear *l)
{
  gboolean casts = linear_narrow(b, l) && !b->frozen;

  return casts ? fp8_work(&b->passes->formats)->weight_kept_bytes * l->in * l->out * l->batch : 0;
}

double linear_saved(const Build *b, const Linear *l)
{
  if (b->frozen)
    return build_frozen_saved(b, l);
  if (!linear_narrow(b, l) || !fp8_work(&b->passes->formats)->keeps_narrow)
    return l->kept ? 0 : l->saved;
  double kept = l->unmade ? l->saved : 0;
  gboolean own = !l->original || !b->passes->framework->original_inputs || b->passes->formats.recipe == FP8_DELAYED;
  return kept + (own ? l->saved / b->bytes * fp8_work(&b->passes->formats)->value_bytes : 0);
}
