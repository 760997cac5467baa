/*
 * The loss scale: a factor on the loss, and so on every gradient, that keeps the gradients of a 16-bit backward pass
 * above what fp16 rounds to zero (2^-25); the optimizer divides by it (Micikevicius et al. 2018, arXiv 1710.03740). A
 * step whose gradients are not finite is skipped: weights and optimizer states stay as they are.
 *
 * A dynamic scale is Megatron Core's DynamicGradScaler (core/optimizer/grad_scaler.py): after `hysteresis` overflows it
 * backs off with each further one, after `interval` steps without any it grows and forgives them. What it starts with
 * differs between frameworks:
 *
 *   engine         initial  growth  back-off  interval  hysteresis  least
 *   Megatron-LM    2^32     2       1/2       1000      2           1
 *   DeepSpeed      2^16     2       1/2       1000      2           1
 *   torch.amp      2^16     2       1/2       2000      1           0
 *
 * Here DeepSpeed's: an interval and a hysteresis on which two agree, and an initial scale on which two do. From 2^32 a
 * run of ten steps would skip most of them. Where the least scale overflows too, a run cannot go on (DeepSpeed's
 * raise_error_at_min_scale). All factors are powers of two, so that scaling rounds nothing.
 */
#ifndef TDP_EXEC_LOSS_SCALER_H
#define TDP_EXEC_LOSS_SCALER_H

#include <glib.h>

typedef struct {
  double scale;            /* of the next step; 0 = the loss is not scaled, and an overflow is an error */
  double growth, back_off; /* factors */
  double least;            /* scale */
  int interval;            /* steps; 0 = the scale is fixed */
  int hysteresis;          /* overflows */
  int clean, overflows;    /* steps since it changed or an overflow; overflows since it grew */
} LossScaler;

LossScaler loss_scaler_dynamic(void);
LossScaler loss_scaler_fixed(double scale);

/* Notes a step. FALSE if it ends the run: its gradients were not finite, and there is no smaller scale to try. */
gboolean loss_scaler_update(LossScaler *scaler, gboolean overflow);

#endif
