#include "cli/watch.h"

#include "base/units.h"
#include "cli/say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Microseconds between two lines of progress. */
#define SHOWN_EVERY 200000

/* And between two looks at signals and the clock. */
#define LOOKED_EVERY 5000

static GString *certificate_new(void)
{
  GString *s = g_string_new(NULL);

  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++)
    if (plan_key_of(id)->shorter)
      g_string_append_printf(s, "%s,", plan_key_of(id)->shorter);
  return g_string_append(s, "plans,memory_margin,settled,value\n");
}

/* The first signal asks for a stop, another one ends the program. */
static gboolean signalled(const Watch *w)
{
  const struct timespec none = { 0 };
  gboolean any = FALSE;

  while (!w->deaf && sigtimedwait(&w->signals, NULL, &none) > 0)
    any = TRUE;
  if (any)
    pthread_sigmask(SIG_SETMASK, &w->before, NULL);
  return any;
}

static gboolean asks(gpointer data)
{
  Watch *w = data;
  gint64 time = g_get_monotonic_time();

  if (time - w->looked < LOOKED_EVERY)
    return FALSE;
  w->looked = time;
  gboolean late = w->limit_s > 0 && time - w->began >= 1e6 * w->limit_s;
  w->stopped = signalled(w) ? "a signal" : late ? "--time-limit" : NULL;
  return w->stopped != NULL;
}

void watch_init_deaf(Watch *w, double limit_s)
{
  *w = (Watch) { .stop = { asks, w }, .limit_s = limit_s, .began = g_get_monotonic_time(), .searches = -1,
                 .deaf = TRUE };
  w->shown = w->began;
}

void watch_init(Watch *w, double limit_s)
{
  watch_init_deaf(w, limit_s);
  w->deaf = FALSE;
  w->columns = say_columns_of(STDERR_FILENO);
  sigemptyset(&w->signals);
  sigaddset(&w->signals, SIGTERM);
  sigaddset(&w->signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &w->signals, &w->before);
}

void watch_certify(Watch *w, double memory_margin)
{
  w->certificate = certificate_new();
  w->memory_margin = memory_margin;
}

void watch_row(Watch *w)
{
  w->searches = 0;
}

void watch_hide(Watch *w)
{
  if (w->columns > 0 && w->shown > w->began)
    fprintf(stderr, "\r\033[K");
  w->shown = w->began;
}

void watch_clear(Watch *w)
{
  const struct timespec none = { 0 };

  if (w->began == 0)
    return;
  while (!w->deaf && sigtimedwait(&w->signals, NULL, &none) > 0)
    ;
  if (!w->deaf)
    pthread_sigmask(SIG_SETMASK, &w->before, NULL);
  watch_hide(w);
  if (w->certificate)
    g_string_free(w->certificate, TRUE);
}

/* Seconds until all plans are settled, if those to come take as long as those before, or until the time limit. */
static double left_s(const Watch *w, const SearchProgress *at, gint64 time)
{
  double spent = (time - w->settling) / 1e6, left = INFINITY;

  if (at->settled > 0 && spent > 0)
    left = spent * (at->candidates - at->settled) / at->settled;
  return w->limit_s > 0 ? MIN(left, w->limit_s - (time - w->began) / 1e6) : left;
}

static void append_progress(const Watch *w, const SearchProgress *at, gint64 time, GString *line)
{
  double left = left_s(w, at, time);

  if (w->searches > 0)
    g_string_append_printf(line, "search %d: ", w->searches);
  if (at->walking) {
    g_string_append_printf(line, "%" G_GINT64_FORMAT " plans to look at", at->candidates);
    return;
  }
  if (isfinite(left) && left >= 1) {
    g_autofree char *duration = format_duration(left);
    g_string_append_printf(line, "about %s left, ", duration);
  }
  g_string_append_printf(line, "%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " plans settled, %" G_GINT64_FORMAT
                         " simulated", at->settled, at->candidates, at->simulated);
  if (at->best)
    g_string_append_printf(line, ", best %.4g s, at most %.1f %% better left", at->best->metrics.iteration_s,
                           100 * at->gap);
}

static void show(Watch *w, const SearchProgress *at)
{
  gint64 time = w->columns > 0 ? g_get_monotonic_time() : 0;

  if (w->columns <= 0 || time - w->shown < SHOWN_EVERY)
    return;
  g_autoptr(GString) line = g_string_new(NULL);
  w->shown = time;
  append_progress(w, at, time, line);
  fprintf(stderr, "\r\033[K%.*s", w->columns - 1, line->str);
}

/* Shows how far a search is; what ends it is asked for in another place. */
static gboolean watch_search(gpointer data, const SearchProgress *at)
{
  Watch *w = data;
  gboolean between = !at->walking && !at->entering; /* rounds */

  w->searches += w->searches >= 0 && between && at->settled == 0 && at->simulated == 0;
  if (w->columns > 0 && (at->walking || at->settled == 0))
    w->settling = g_get_monotonic_time();
  show(w, at);
  return FALSE;
}

/* ---- cells of a plan whose keys are no single number or name ---- */

static void add_expert_tensor(GString *s, const Plan *p)
{
  g_string_append_printf(s, "%d", plan_expert_tensor(p));
}

static void add_types(GString *s, const Plan *p)
{
  for (int i = 0; i < NODE_TYPES_MAX && p->types[i]; i++)
    g_string_append_printf(s, "%s%s", i ? "+" : "", p->types[i]);
}

/* A list as one cell: commas divide columns. */
static void add_list(GString *s, const char *list)
{
  g_auto(GStrv) parts = g_strsplit(list, ", ", -1);
  g_autofree char *cell = g_strjoinv("+", parts);

  g_string_append(s, cell);
}

static void add_offload(GString *s, const Plan *p)
{
  g_autofree char *label = offload_label(&p->offload);

  add_list(s, label ? label : "none");
}

/* Its name, and formats of states that are not as usual. */
static void add_optimizer(GString *s, const Plan *p)
{
  g_autoptr(GString) label = g_string_new(p->optimizer.name == OPTIMIZER_ADAM ? ", adam" : NULL);

  optimizer_label(&p->optimizer, label);
  add_list(s, label->str + strlen(", "));
}

static void add_param_gather(GString *s, const Plan *p)
{
  g_string_append_printf(s, "%d", plan_gathers_narrow(p));
}

static void add_recompute(GString *s, const Plan *p)
{
  g_string_append(s, recompute_names[p->recompute]);
  recompute_short(&p->scope, s);
}

static void add_graph(GString *s, const Plan *p)
{
  g_autofree char *graph = recorded_text(p->graph, p->graph_modules);

  g_string_append(s, graph);
}

static void add_overlaps(GString *s, const Plan *p)
{
  const Overlap *on = &p->overlap;
  gboolean any = on->gradients || on->parameters || on->pipeline || on->tensor;

  g_string_append_printf(s, "%s%s%s%s%s", on->gradients ? "g" : "", on->parameters ? "p" : "", on->pipeline ? "s" : "",
                         on->tensor ? "t" : "", any ? "" : "none");
}

static void add_cell(GString *s, const PlanKey *key, const PlanFile *file)
{
  static void (*const own[KEY_COUNT])(GString *, const Plan *) = {
    [KEY_ETP] = add_expert_tensor, [KEY_TYPES] = add_types, [KEY_OFFLOAD] = add_offload,
    [KEY_OPTIMIZER] = add_optimizer, [KEY_GRAPH] = add_graph, [KEY_RECOMPUTE] = add_recompute,
    [KEY_PARAM_GATHER] = add_param_gather, [KEY_OVERLAP] = add_overlaps };

  if (own[key->id]) {
    own[key->id](s, &file->plan);
    return;
  }
  if (key->matters && !key->matters(&file->plan))
    return;
  const char *const *names = key->choices ? key->choices : key->field.names;
  gconstpointer slot = G_STRUCT_MEMBER_P(file, key->field.offset);
  if (key->field.type == JSON_STRING || names)
    g_string_append(s, key->field.type == JSON_STRING ? *(char *const *)slot : names[*(const int *)slot]);
  else
    g_string_append_printf(s, "%d", key->negated ? !*(const int *)slot : *(const int *)slot);
}

/* Whether plans that are settled at once may differ in a key; `open` as of SearchOptions.audit. */
static gboolean is_any(const PlanKey *key, int open)
{
  return key->id == KEY_OVERLAP || (int)key->part >= open ||
         (open == PLAN_SCHEDULE && (key->id == KEY_TYPES || key->id == KEY_DISPATCH));
}

static void write_settled(gpointer data, const Plan *p, int how, double value, gint64 plans, int open)
{
  GString *s = ((Watch *)data)->certificate;
  const PlanFile file = plan_as_file(p);
  char number[G_ASCII_DTOSTR_BUF_SIZE] = "";

  if (!isnan(value))
    g_ascii_dtostr(number, sizeof number, value);
  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const PlanKey *key = plan_key_of(id);
    if (!key->shorter)
      continue;
    if (plans > 1 && is_any(key, open))
      g_string_append(s, "any");
    else
      add_cell(s, key, &file);
    g_string_append_c(s, ',');
  }
  g_string_append_printf(s, "%" G_GINT64_FORMAT ",%g,%s,%s\n", plans, ((const Watch *)data)->memory_margin,
                         settled_name(how), number);
}

void watch_join(Watch *w, SearchOptions *o)
{
  o->stop = &w->stop;
  o->watch = watch_search;
  o->audit = w->certificate ? write_settled : NULL;
  o->data = w;
}

void watch_say(const Watch *w, const SearchResult *found)
{
  if (w->deaf)
    return;
  if (found->cut)
    g_printerr("tdp-plan: stopped by %s while the space was walked: %" G_GINT64_FORMAT " plans that were met are open, "
               "and the others\n", w->stopped, found->open);
  else if (found->open == 0 && found->best->len == 0)
    g_printerr("tdp-plan: stopped by %s: no plan of the space fits, and what lies beyond it was not looked at\n",
               w->stopped);
  else if (found->open == 0)
    g_printerr("tdp-plan: stopped by %s: no plan of the space is faster, but not all that tie with it, or that lie "
               "beyond the space, were looked at\n", w->stopped);
  else
    g_printerr("tdp-plan: stopped by %s: %" G_GINT64_FORMAT " plans are open, at most %.1f %% better than what was "
               "found\n",
               w->stopped, found->open, 100 * found->gap);
}
