#include "cli/drawn.h"

#include "base/error.h"
#include "cli/say.h"

#include <stdio.h>

#define COLUMNS_USUAL 120 /* where stdout is no terminal */

gboolean drawn_asked(const char *plots)
{
  return plots && g_str_equal(plots, "-");
}

gboolean drawn_check(const char *plots, gboolean json, GError **error)
{
  if (!json || !drawn_asked(plots))
    return TRUE;
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "--plots: -: expected a folder beside --json");
  return FALSE;
}

void drawn_timeline(const Trace *trace)
{
  g_autofree char *text = report_timeline(trace, say_columns(COLUMNS_USUAL), say_colored());
  printf("%s", text);
}

void drawn_memory(const Result *r, const Trace *trace)
{
  g_autofree char *text = report_memory_drawn(r, trace, say_columns(COLUMNS_USUAL), say_colored());
  printf("\nmemory of stage %d over the step\n%s", r->metrics.peak_row, text);
}
