#include "kineto/read.h"

#include "base/error.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

gboolean kineto_recognises(const char *text)
{
  text += strspn(text, " \t\r\n");
  return (*text == '{' || *text == '[') && strstr(text, "\"traceEvents\"");
}

static const char *string_of(const cJSON *event, const char *key)
{
  const cJSON *item = json_get(event, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static void read_event(const cJSON *event, const KinetoReader *reader, KinetoSteps *steps)
{
  static const char *const gpu[] = { "kernel", "gpu_memcpy", "gpu_memset", NULL };
  const char *cat = string_of(event, "cat"), *name = string_of(event, "name");
  const cJSON *dur = json_get(event, "dur");

  if (!cat || !(g_strv_contains(gpu, cat) || g_str_equal(cat, "user_annotation")))
    return;
  if (!name || !cJSON_IsNumber(dur) || !(dur->valuedouble >= 0) || !isfinite(dur->valuedouble)) {
    reader->strange(reader->data, name ? name : "an event without name or duration");
  } else if (g_strv_contains(gpu, cat)) {
    reader->kernel(reader->data, name, dur->valuedouble * 1e-6);
  } else if (g_str_has_prefix(name, "ProfilerStep")) {
    steps->n++;
    steps->seconds += dur->valuedouble * 1e-6;
  }
}

gboolean kineto_read(const char *text, const char *name, const KinetoReader *reader, KinetoSteps *steps,
                     GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), name, error);
  const cJSON *events, *event;

  if (!doc)
    return FALSE;
  events = cJSON_IsArray(json_root(doc)) ? json_root(doc) : json_get(json_root(doc), "traceEvents");
  if (!cJSON_IsArray(events)) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: traceEvents: expected an array of events", name);
    return FALSE;
  }
  *steps = (KinetoSteps) { 0 };
  cJSON_ArrayForEach(event, events)
    read_event(event, reader, steps);
  return TRUE;
}
