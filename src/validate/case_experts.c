#include "validate/case_experts.h"

#include <stdlib.h>
#include <string.h>

const char *const case_dispatcher_names[] = { "alltoall", "allgather", "deepep", "hybridep", NULL };

/* A container without DeepEP ran NCCL's all-to-all, whatever its recipe asked for. */
static ExpertDispatch dispatch_noted(ExpertDispatch dispatch, const char *note)
{
  return dispatch == DISPATCH_FLEX && strstr(note, "DeepEP not supported") ? DISPATCH_ALL_TO_ALL : dispatch;
}

static gboolean read_dispatcher(Case *c, const Csv *csv, int row, GError **error)
{
  const char *cell = cells_optional(csv, row, "moe_dispatcher");

  if (!*cell) {
    if (c->unstated.hybrid_device && g_str_has_prefix(c->cluster->device.name, c->unstated.hybrid_device))
      c->plan.dispatch = DISPATCH_HYBRID;
    if (plan_experts_apart(&c->plan))
      case_say_default(c, "moe_dispatcher");
    return TRUE;
  }
  int dispatch = names_find(case_dispatcher_names, cell);
  if (dispatch < 0)
    return csv_refuse(csv, row, "moe_dispatcher", "alltoall, allgather, deepep, hybridep or nothing", error);
  c->plan.dispatch = dispatch_noted(dispatch, csv_cell(csv, row, "note"));
  return TRUE;
}

static gboolean read_load(Case *c, const Csv *csv, int row, GError **error)
{
  double load = 1;

  if (!*cells_optional(csv, row, "moe_load"))
    case_say_default(c, "moe_load");
  else if (!csv_real(csv, row, "moe_load", &load, error))
    return FALSE;
  c->plan.expert_load = load;
  return load >= 1 && load <= 1e6 ? TRUE : csv_refuse(csv, row, "moe_load", "a number from 1", error);
}

/* Tensor parallelism of experts that is not stated is the layers' own where ranks suffice, else none. */
static void fill_expert_tensor(Case *c, int etp)
{
  Plan *p = &c->plan;
  gboolean room = ((gint64)plan_replicas(p) * p->tp) % ((gint64)p->ep * p->tp) == 0;

  if (etp < 0 && p->ep > 1 && p->tp > 1)
    case_say_default(c, "etp");
  etp = etp > 0 ? etp : room ? p->tp : 1;
  p->etp = etp == p->tp ? 0 : etp;
}

/* "1": tokens of one micro-batch travel beside the other pass of another. */
static gboolean read_exchange(Case *c, const Csv *csv, int row, GError **error)
{
  const char *cell = cells_optional(csv, row, "moe_a2a_overlap");
  gboolean usual = !*cell && c->unstated.graph_overlaps && c->plan.graph == GRAPH_FULL;

  if (*cell && !g_str_equal(cell, "0") && !g_str_equal(cell, "1"))
    return csv_refuse(csv, row, "moe_a2a_overlap", "0, 1 or nothing", error);
  c->plan.overlap.exchange = (usual || g_str_equal(cell, "1")) && plan_experts_apart(&c->plan) &&
                             c->framework->exchange_overlap && (c->plan.pp == 1 || c->plan.vpp > 1);
  if (usual && c->plan.overlap.exchange)
    case_say_default(c, "moe_a2a_overlap");
  return TRUE;
}

gboolean case_noted_capacity(const char *note, double *factor)
{
  static const char *const keys[] = { "capacity_factor ", "capacity factor " };
  char *end;

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    const char *at = strstr(note, keys[i]);
    *factor = at ? g_ascii_strtod(at + strlen(keys[i]), &end) : 0;
    if (*factor > 0 && g_str_has_prefix(end, " padded"))
      return TRUE;
  }
  *factor = 1;
  return strstr(note, "token drop") != NULL;
}

static void fill_capacity(Case *c, const Csv *csv, int row)
{
  double factor;

  if (!case_noted_capacity(csv_cell(csv, row, "note"), &factor) || c->framework->capacity == CAPACITY_NONE)
    return;
  c->plan.expert_capacity = factor;
  c->plan.expert_padded = TRUE;
}

/* Megatron Core has one kernel for what DeepEP brought if it fuses permutations and experimental features are on. */
static void fill_permutation(Case *c, const char *note)
{
  gboolean apart = strstr(note, "no moe_permute_fusion") != NULL;

  c->framework->fused_permutation &= !apart;
  if (apart || strstr(note, "no enable_experimental"))
    c->framework->indexes_received = TRUE;
  else if (strstr(note, "enable_megatron_core_experimental"))
    c->framework->indexes_received = FALSE;
}

gboolean case_read_experts(Case *c, const Csv *csv, int row, const CaseNumbers *n, GError **error)
{
  if (!model_has_experts(c->model))
    return TRUE;
  c->plan.ep = MAX(n->ep, 1);
  c->framework->gate_in_turn = strstr(csv_cell(csv, row, "note"), "fake balanced gate") != NULL;
  fill_permutation(c, csv_cell(csv, row, "note"));
  fill_expert_tensor(c, n->etp);
  fill_capacity(c, csv, row);
  return read_dispatcher(c, csv, row, error) && read_load(c, csv, row, error) && read_exchange(c, csv, row, error);
}

void case_fill_graph(Case *c, const Csv *csv, int row)
{
  const char *arch = c->unstated.graph_arch;
  double factor;

  if (*cells_optional(csv, row, "cuda_graph") || !model_has_experts(c->model))
    return;
  gboolean usual = !arch || g_str_has_prefix(c->cluster->device.arch, arch);
  plan_set_graph(&c->plan, usual ? c->unstated.graph : GRAPH_NONE);
  /* whole layers are recorded where their experts' rows are known: Megatron-Bridge 0.1's recipes with token drop */
  if (c->plan.graph == GRAPH_PARTIAL && case_noted_capacity(csv_cell(csv, row, "note"), &factor))
    plan_set_graph(&c->plan, GRAPH_FULL);
  if (c->plan.graph == GRAPH_PARTIAL && c->plan.recompute == RECOMPUTE_FULL)
    plan_set_graph(&c->plan, GRAPH_NONE);
  if (c->framework->operation_s > 0)
    case_say_default(c, "cuda_graph");
}

gboolean case_read_modules(Case *c, const Csv *csv, int row, GError **error)
{
  g_auto(GStrv) names = g_strsplit(cells_optional(csv, row, "recompute_modules"), " ", -1);

  for (int i = 0; names[i]; i++) {
    int module = names_find(recompute_module_names, names[i]);
    if (*names[i] && module < 0)
      return cells_not_one_of(csv, row, "recompute_modules", recompute_module_names, error);
    c->plan.scope.modules |= *names[i] ? 1u << module : 0;
  }
  return TRUE;
}

/* A number behind an 'x', 1 without one. */
static int read_times(const char **at)
{
  char *end;
  long times = **at == 'x' ? strtol(*at + 1, &end, 10) : 1;

  *at = **at == 'x' ? end : *at;
  return (int)CLAMP(times, 0, SPLIT_LAYERS_MAX);
}

/* One run of letters and bars up to a parenthesis or the end. */
static gboolean lay_stages(const char **at, const char *end, LayerSplit *s)
{
  const char *text = *at;

  while (text < end && strchr("Etm|L", *text)) {
    char what = *text++;
    int times = read_times(&text);
    if (what == '|')
      s->stages += times;
    else if (what == 't')
      s->layers[s->stages] += times;
    if (s->stages >= SPLIT_STAGES_MAX)
      return FALSE;
  }
  *at = text;
  return TRUE;
}

static gboolean lay_layout(const char *at, const char *end, LayerSplit *s)
{
  while (at < end) {
    const char *start = at, *group;
    if (*at != '(') {
      if (!lay_stages(&at, end, s) || at == start)
        return FALSE;
      continue;
    }
    const char *close = memchr(at, ')', end - at);
    if (!close)
      return FALSE;
    start = close + 1;
    for (int times = read_times(&start); times > 0; times--) {
      group = at + 1;
      if (!lay_stages(&group, close, s) || group != close)
        return FALSE;
    }
    at = start;
  }
  return TRUE;
}

gboolean case_noted_layout(const char *note, int blocks, int stages, LayerSplit *out)
{
  static const char key[] = "pipeline layout ";
  const char *at = strstr(note, key);
  LayerSplit split = { 0 };

  if (!at)
    return FALSE;
  at += strlen(key);
  if (!lay_layout(at, at + strcspn(at, " ;,"), &split))
    return FALSE;
  split.stages++;
  if (split.stages != stages || split_layers(&split) != blocks)
    return FALSE;
  *out = split;
  return TRUE;
}
