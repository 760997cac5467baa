#include "exec/loss_scaler.h"

LossScaler loss_scaler_dynamic(void)
{
  return (LossScaler) { .scale = 0x1p16, .growth = 2, .back_off = 0.5, .least = 1, .interval = 1000, .hysteresis = 2 };
}

LossScaler loss_scaler_fixed(double scale)
{
  return (LossScaler) { .scale = scale };
}

static void grow(LossScaler *s)
{
  s->scale *= s->growth;
  s->clean = s->overflows = 0;
}

gboolean loss_scaler_update(LossScaler *s, gboolean overflow)
{
  if (s->scale == 0 || s->interval == 0)
    return s->scale > 0 || !overflow;
  if (!overflow) {
    if (++s->clean == s->interval)
      grow(s);
    return TRUE;
  }
  s->clean = 0;
  if (++s->overflows < s->hysteresis)
    return TRUE;
  if (s->scale <= s->least)
    return FALSE;
  s->scale = MAX(s->scale * s->back_off, s->least);
  return TRUE;
}
