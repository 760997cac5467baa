/* A trace of the user's own run, as torch.profiler (Kineto) writes it: times by
 * kernel, each with what it is, of one step where the trace marks steps. */
#include "base/json.h"
#include "interop/import.h"
#include "interop/kernel_times.h"

#include <math.h>
#include <string.h>

static gboolean recognises(const char *text)
{
  text += strspn(text, " \t\r\n");
  return (*text == '{' || *text == '[') && strstr(text, "\"traceEvents\"");
}

typedef struct {
  KernelTimes *kernels;
  int steps;
  double step_s; /* of all steps */
} Reader;

static const char *string_of(const cJSON *event, const char *key)
{
  const cJSON *item = json_get(event, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static void read_event(Reader *r, const cJSON *event, ImportNotes *notes)
{
  static const char *const gpu[] = { "kernel", "gpu_memcpy", "gpu_memset", NULL };
  const char *cat = string_of(event, "cat"), *name = string_of(event, "name");
  const cJSON *dur = json_get(event, "dur");

  if (!cat || !(g_strv_contains(gpu, cat) || g_str_equal(cat, "user_annotation")))
    return;
  if (!name || !cJSON_IsNumber(dur) || !(dur->valuedouble >= 0) || !isfinite(dur->valuedouble)) {
    import_strange(notes, name ? name : "an event without name or duration");
  } else if (g_strv_contains(gpu, cat)) {
    kernel_times_add(r->kernels, name, dur->valuedouble * 1e-6, 1);
  } else if (g_str_has_prefix(name, "ProfilerStep")) {
    r->steps++;
    r->step_s += dur->valuedouble * 1e-6;
  }
}

static char *read_trace(const char *text, ImportNotes *notes, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), notes->file, error);
  const cJSON *events, *event;

  if (!doc)
    return NULL;
  events = cJSON_IsArray(json_root(doc)) ? json_root(doc) : json_get(json_root(doc), "traceEvents");
  if (!cJSON_IsArray(events))
    return import_error(notes, error, "traceEvents: expected an array of events");
  g_autoptr(KernelTimes) kernels = kernel_times_new();
  Reader r = { .kernels = kernels };
  cJSON_ArrayForEach(event, events)
    read_event(&r, event, notes);
  if (kernel_times_size(kernels) == 0)
    return import_error(notes, error, "no kernel of a device: expected events with \"cat\": \"kernel\"");
  return kernel_times_text(kernels, r.steps, r.step_s);
}

const Importer import_kineto = { "Kineto trace", recognises, read_trace };
