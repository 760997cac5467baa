#include "cost/kernel.h"

double dispatch_s(const DispatchModel *model, double rows, double row_bytes, double sms)
{
  if (model->s_per_byte <= 0 || sms <= 0)
    return 0;
  return model->base_s + rows * (model->row_s + row_bytes * model->s_per_byte) / sms;
}
