#include "plan/strategies.h"

#include "plan/framework.h"

typedef struct {
  int layers, tp, zero, recompute;
  gboolean sequence_parallel;
} RunFile;

#define FIELD(name) G_STRUCT_OFFSET(RunFile, name)

static const JsonField fields[] = {
  { "layers", JSON_INT, FIELD(layers), TRUE, 1, SPLIT_LAYERS_MAX },
  { "tensor_model_parallel_size", JSON_INT, FIELD(tp), FALSE, 1, G_MAXUINT16 },
  { "sequence_parallel", JSON_BOOL, FIELD(sequence_parallel) },
  { "zero_stage", JSON_INT, FIELD(zero), FALSE, 0, 3 },
  { "recompute_granularity", JSON_ENUM, FIELD(recompute), .names = recompute_names },
};

gboolean strategies_differ(const StrategyRun *a, const StrategyRun *b)
{
  return a->tp != b->tp || a->sequence_parallel != b->sequence_parallel || a->zero != b->zero ||
         a->recompute != b->recompute;
}

gboolean strategies_append(LayerStrategies *s, StrategyRun run)
{
  StrategyRun *last = s->n > 0 ? &s->runs[s->n - 1] : NULL;

  if (last && !strategies_differ(last, &run) && last->layers + run.layers <= SPLIT_LAYERS_MAX) {
    last->layers += run.layers;
    return TRUE;
  }
  if (s->n == STRATEGY_RUNS_MAX)
    return FALSE;
  s->runs[s->n++] = run;
  return TRUE;
}

int strategies_layers(const LayerStrategies *s)
{
  int layers = 0;

  for (int i = 0; i < s->n; i++)
    layers += s->runs[i].layers;
  return layers;
}

static gboolean read_run(const JsonDoc *doc, const cJSON *item, const StrategyRun *plan, StrategyRun *out,
                         GError **error)
{
  RunFile run = { .tp = plan->tp, .zero = plan->zero, .recompute = plan->recompute,
                  .sequence_parallel = plan->sequence_parallel };

  if (!cJSON_IsObject(item))
    return json_error(doc, item, error, "an object with layers and what differs from the plan");
  if (!json_read(doc, item, fields, G_N_ELEMENTS(fields), &run, error))
    return FALSE;
  if (run.tp == 1 && !json_get(item, "sequence_parallel"))
    run.sequence_parallel = FALSE;
  *out = (StrategyRun) { run.tp, run.layers, run.sequence_parallel != FALSE, run.zero, run.recompute };
  return TRUE;
}

gboolean strategies_read(const JsonDoc *doc, const cJSON *list, StrategyRun plan, LayerStrategies *out, GError **error)
{
  const cJSON *item;
  StrategyRun run;

  *out = (LayerStrategies) { 0 };
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) == 0 || cJSON_GetArraySize(list) > STRATEGY_RUNS_MAX)
    return json_error(doc, list, error, "a list of 1 to %d objects", STRATEGY_RUNS_MAX);
  cJSON_ArrayForEach(item, list)
    if (!read_run(doc, item, &plan, &run, error) || !strategies_append(out, run))
      return FALSE;
  return TRUE;
}

void strategies_write(const LayerStrategies *s, JsonWriter *w, const char *key)
{
  if (s->n == 0)
    return;
  json_open(w, key, '[');
  for (int i = 0; i < s->n; i++) {
    const StrategyRun *run = &s->runs[i];
    json_open_line(w, NULL, '{');
    json_put_int(w, "layers", run->layers);
    json_put_int(w, "tensor_model_parallel_size", run->tp);
    json_put_bool(w, "sequence_parallel", run->sequence_parallel);
    json_put_int(w, "zero_stage", run->zero);
    json_put_string(w, "recompute_granularity", recompute_names[run->recompute]);
    json_close_line(w, '}');
  }
  json_close(w, ']');
}
