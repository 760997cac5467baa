#include "cli/numbers.h"

#include <glib.h>
#include <gsl/gsl_errno.h>

static void meet(const char *reason, const char *file, int line, int error)
{
  if (error == GSL_ENOMEM)
    g_error("%s (%s:%d)", reason, file, line);
}

void cli_numbers(void)
{
  gsl_set_error_handler(meet);
}
