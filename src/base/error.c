#include "base/error.h"

G_DEFINE_QUARK(tdp-error-quark, tdp_error)

gboolean coded_error(GError **error, TdpError code, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  if (error) /* searches ask often, and only whether */
    g_propagate_error(error, g_error_new_valist(TDP_ERROR, code, format, args));
  va_end(args);
  return FALSE;
}

int tdp_error_exit_code(const GError *error)
{
  if (error->domain == TDP_ERROR)
    return error->code;
  return error->domain == G_OPTION_ERROR ? TDP_ERROR_INPUT : TDP_ERROR_RUNTIME;
}
