#include "base/error.h"

G_DEFINE_QUARK(tdp-error-quark, tdp_error)

int tdp_error_exit_code(const GError *error)
{
  if (error->domain == TDP_ERROR)
    return error->code;
  return error->domain == G_OPTION_ERROR ? TDP_ERROR_INPUT : TDP_ERROR_RUNTIME;
}
