#include "cli/watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Microseconds between two lines of progress. */
#define SHOWN_EVERY 200000

/* And between two looks at signals while a space is walked. */
#define LOOKED_EVERY 5000

void watch_init(Watch *w, double limit_s, gboolean certificate)
{
  *w = (Watch) { .limit_s = limit_s, .began = g_get_monotonic_time(), .terminal = isatty(STDERR_FILENO),
                  .searches = -1 };
  w->shown = w->began;
  if (certificate)
    w->certificate = g_string_new("tp,pp,vpp,split_rank,dp,cp,ep,etp,mbs,schedule,order,types,zero,shard,hpz,offload,optimizer,sp,"
                                  "recompute,overlap,plans,settled,value\n");
  sigemptyset(&w->signals);
  sigaddset(&w->signals, SIGTERM);
  sigaddset(&w->signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &w->signals, &w->before);
}

void watch_init_row(Watch *w)
{
  *w = (Watch) { .began = g_get_monotonic_time(), .terminal = isatty(STDERR_FILENO) };
  w->shown = w->began;
  sigemptyset(&w->signals);
  pthread_sigmask(SIG_BLOCK, &w->signals, &w->before);
}

static gboolean signalled(void)
{
  sigset_t pending;

  return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

void watch_clear(Watch *w)
{
  const struct timespec none = { 0 };

  while (sigtimedwait(&w->signals, NULL, &none) > 0)
    ;
  pthread_sigmask(SIG_SETMASK, &w->before, NULL);
  if (w->terminal && w->shown > w->began)
    fprintf(stderr, "\r\033[K");
  if (w->certificate)
    g_string_free(w->certificate, TRUE);
}

static void show(Watch *w, const SearchProgress *at, gint64 time)
{
  if (!w->terminal || time - w->shown < SHOWN_EVERY)
    return;
  w->shown = time;
  fprintf(stderr, "\r\033[K");
  if (w->searches > 0)
    fprintf(stderr, "search %d: ", w->searches);
  if (at->walking) {
    fprintf(stderr, "%" G_GINT64_FORMAT " plans to look at", at->candidates);
    return;
  }
  fprintf(stderr, "%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " plans settled, %" G_GINT64_FORMAT " simulated",
          at->settled, at->candidates, at->simulated);
  if (at->best)
    fprintf(stderr, ", best %.4g s, at most %.1f %% better left", at->best->metrics.iteration_s, 100 * at->gap);
}

static gboolean watch_search(gpointer data, const SearchProgress *at)
{
  Watch *w = data;
  gint64 time = g_get_monotonic_time();

  if (at->walking && time - w->looked < LOOKED_EVERY)
    return w->stopped != NULL;
  w->looked = time;
  w->searches += w->searches >= 0 && !at->walking && at->settled == 0 && at->simulated == 0;
  show(w, at, time);
  gboolean late = w->limit_s > 0 && time - w->began >= 1e6 * w->limit_s;
  if (signalled())
    w->stopped = "a signal";
  else if (late && at->simulated > 0)
    w->stopped = "--time-limit";
  return w->stopped || (late && at->walking);
}

/* Node types along the pipeline, of a mixed cluster. */
static void write_types(GString *s, const Plan *p)
{
  for (int i = 0; i < NODE_TYPES_MAX && p->types[i]; i++)
    g_string_append_printf(s, "%s%s", i ? "+" : "", p->types[i]);
  g_string_append_c(s, ',');
}

/* A list as one cell: commas divide columns. */
static char *one_cell(const char *list)
{
  g_auto(GStrv) parts = g_strsplit(list, ", ", -1);
  return g_strjoinv("+", parts);
}

/* Its name, and formats of states that are not as usual. */
static char *optimizer_cell(const Optimizer *o)
{
  g_autoptr(GString) s = g_string_new(o->name == OPTIMIZER_ADAM ? ", adam" : NULL);

  optimizer_label(o, s);
  return one_cell(s->str + strlen(", "));
}

/* Choices of a plan; of several that are settled at once, those that they share. */
static void write_choices(GString *s, const Plan *p, int how, gint64 plans)
{
  const Overlap *on = &p->overlap;
  g_autofree char *offload = offload_label(&p->offload);
  g_autofree char *stored = one_cell(offload ? offload : "none"), *optimizer = optimizer_cell(&p->optimizer);
  g_autofree char *overlaps = g_strconcat(on->gradients ? "g" : "", on->parameters ? "p" : "", on->pipeline ? "s" : "",
                                          on->tensor ? "t" : "", NULL);

  if (plans > 1 && how < REJECT_MEMORY) {
    g_string_append(s, "any,any,any,any,any,any,any,any,");
    return;
  }
  g_string_append_printf(s, "%d,%d,%d,%s,%s,%d,%s", p->zero, p->shard_group, p->sharding.secondary,
                         stored, optimizer, p->sequence_parallel, recompute_names[p->recompute]);
  if (recompute_counts(&p->scope))
    g_string_append_printf(s, ":%d", p->scope.layers);
  g_string_append_printf(s, ",%s,", plans > 1 ? "any" : *overlaps ? overlaps : "none");
}

static void write_settled(gpointer data, const Plan *p, int how, double value, gint64 plans)
{
  GString *s = ((Watch *)data)->certificate;
  char number[G_ASCII_DTOSTR_BUF_SIZE] = "";

  if (!isnan(value))
    g_ascii_dtostr(number, sizeof number, value);
  g_string_append_printf(s, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,%s,", p->tp, p->pp, p->vpp, p->split_rank, p->dp, p->cp,
                         p->ep, plan_expert_tensor(p), p->micro_batch, p->schedule->name,
                         fixed_orders[p->pipeline_inner]);
  write_types(s, p);
  write_choices(s, p, how, plans);
  g_string_append_printf(s, "%" G_GINT64_FORMAT ",%s,%s\n", plans, settled_name(how), number);
}

void watch_join(Watch *w, SearchOptions *o)
{
  o->watch = watch_search;
  o->audit = w->certificate ? write_settled : NULL;
  o->data = w;
}
