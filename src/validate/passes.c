#include "validate/passes.h"

#include <string.h>

/* The numbers of "KEY [a b c ...]" in seconds; NULL unless there are as many as stages. */
static double *read_list(const char *note, const char *key, int stages)
{
  const char *at = strstr(note, key);
  g_autofree double *seconds = g_new(double, stages);
  char *end;

  if (!at || !(at = strchr(at, '[')))
    return NULL;
  at++;
  for (int i = 0; i < stages; i++, at = end) {
    seconds[i] = g_ascii_strtod(at, &end) * 1e-6;
    if (end == at || !(seconds[i] > 0))
      return NULL;
  }
  return *at == ']' ? g_steal_pointer(&seconds) : NULL;
}

gboolean timed_passes_init(TimedPasses *p, const char *note, int stages)
{
  p->forward_s = read_list(note, "fwd us per stage", stages);
  p->backward_s = read_list(note, "bwd us per stage", stages);
  if (p->forward_s && p->backward_s)
    return TRUE;
  timed_passes_clear(p);
  return FALSE;
}

void timed_passes_clear(TimedPasses *p)
{
  g_clear_pointer(&p->forward_s, g_free);
  g_clear_pointer(&p->backward_s, g_free);
}
