#include "kineto/read.h"

#include "base/error.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

gboolean kineto_recognises(const char *text)
{
  text += strspn(text, " \t\r\n");
  return (*text == '{' || *text == '[') && strstr(text, "\"traceEvents\"");
}

/* Seconds, from the trace's own zero. */
typedef struct {
  double start, end;
} Interval;

typedef struct {
  const KinetoReader *reader;
  KinetoSteps *steps;
  GArray *host, *device; /* Interval, of marked steps; the device's own are the better ones */
  GArray *busy;          /* Interval, of kernels */
} Reading;

/* Sorts them and joins those that touch; returns their sum. */
static double join(GArray *intervals)
{
  double sum = 0;
  guint n = 0;

  g_array_sort(intervals, sort_reals);
  for (guint i = 0; i < intervals->len; i++) {
    Interval next = g_array_index(intervals, Interval, i);
    Interval *last = n ? &g_array_index(intervals, Interval, n - 1) : NULL;
    if (last && next.start <= last->end)
      last->end = MAX(last->end, next.end);
    else
      g_array_index(intervals, Interval, n++) = next;
  }
  g_array_set_size(intervals, n);
  for (guint i = 0; i < n; i++)
    sum += g_array_index(intervals, Interval, i).end - g_array_index(intervals, Interval, i).start;
  return sum;
}

static gboolean is_within(const GArray *intervals, double start)
{
  for (guint i = 0; i < intervals->len; i++)
    if (start >= g_array_index(intervals, Interval, i).start && start < g_array_index(intervals, Interval, i).end)
      return TRUE;
  return FALSE;
}

/* Its "dur"; NULL if it has none that could be. */
static const cJSON *duration_of(const cJSON *event)
{
  const cJSON *dur = json_get(event, "dur");
  return cJSON_IsNumber(dur) && dur->valuedouble >= 0 && isfinite(dur->valuedouble) ? dur : NULL;
}

/* When an event ran; FALSE if it does not say. */
static gboolean interval_of(const cJSON *event, Interval *out)
{
  const cJSON *ts = json_get(event, "ts"), *dur = duration_of(event);

  if (!cJSON_IsNumber(ts) || !isfinite(ts->valuedouble) || !dur)
    return FALSE;
  *out = (Interval) { ts->valuedouble * US, (ts->valuedouble + dur->valuedouble) * US };
  return TRUE;
}

static void read_step(const cJSON *event, Reading *r)
{
  const char *cat = json_get_text(event, "cat"), *name = json_get_text(event, "name");
  gboolean device = cat && g_str_equal(cat, "gpu_user_annotation");
  const cJSON *dur = duration_of(event);
  Interval when;

  if (!name || !g_str_has_prefix(name, "ProfilerStep") || (!device && !(cat && g_str_equal(cat, "user_annotation"))))
    return;
  if (interval_of(event, &when))
    g_array_append_val(device ? r->device : r->host, when);
  if (device)
    return;
  if (!dur) {
    r->reader->strange(r->reader->data, name);
    return;
  }
  r->steps->n++;
  r->steps->seconds += dur->valuedouble * US;
}

static gboolean is_kernel(const cJSON *event)
{
  static const char *const gpu[] = { "kernel", "gpu_memcpy", "gpu_memset", NULL };
  const char *cat = json_get_text(event, "cat");

  return cat && g_strv_contains(gpu, cat);
}

/* `within`: of steps; NULL = wherever it is. */
static void read_kernel(const cJSON *event, const GArray *within, Reading *r)
{
  const char *name = json_get_text(event, "name");
  const cJSON *dur = duration_of(event);
  Interval when;

  if (!name || !dur) {
    r->reader->strange(r->reader->data, name ? name : "an event without name or duration");
    return;
  }
  gboolean told = interval_of(event, &when);
  if (told && within && !is_within(within, when.start)) {
    r->steps->outside++;
    r->steps->outside_s += dur->valuedouble * US;
    return;
  }
  if (told)
    g_array_append_val(r->busy, when);
  r->reader->kernel(r->reader->data, name, dur->valuedouble * US);
}

static gboolean any_within(const cJSON *events, const GArray *within)
{
  const cJSON *event;
  Interval when;

  cJSON_ArrayForEach(event, events)
    if (is_kernel(event) && interval_of(event, &when) && is_within(within, when.start))
      return TRUE;
  return FALSE;
}

static void read_events(const cJSON *events, Reading *r)
{
  const cJSON *event;

  cJSON_ArrayForEach(event, events)
    read_step(event, r);
  join(r->host);
  join(r->device);
  const GArray *within = r->device->len ? r->device : r->host;
  if (!any_within(events, within)) /* clocks that do not agree, or a trace without steps */
    within = NULL;
  cJSON_ArrayForEach(event, events)
    if (is_kernel(event))
      read_kernel(event, within, r);
  r->steps->busy_s = join(r->busy);
}

static GArray *intervals_new(void)
{
  return g_array_new(FALSE, FALSE, sizeof(Interval));
}

gboolean kineto_read(const char *text, const char *name, const KinetoReader *reader, KinetoSteps *steps,
                     GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), name, error);
  const cJSON *events;

  if (!doc)
    return FALSE;
  events = cJSON_IsArray(json_root(doc)) ? json_root(doc) : json_get(json_root(doc), "traceEvents");
  if (!cJSON_IsArray(events))
    return input_error(error, "%s: traceEvents: expected an array of events", name);
  *steps = (KinetoSteps) { 0 };
  g_autoptr(GArray) host = intervals_new();
  g_autoptr(GArray) device = intervals_new();
  g_autoptr(GArray) busy = intervals_new();
  read_events(events, &(Reading) { reader, steps, host, device, busy });
  return TRUE;
}
