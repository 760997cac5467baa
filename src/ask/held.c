#include "ask/held.h"

#include "search/space.h"

#include <math.h>

typedef struct {
  const SearchOptions *options;
  const Framework *framework;
  const Result *best;
} Held;

/* ---- whether it is held ---- */

static gboolean runs(const Held *h, PlanChoice choice)
{
  return framework_offers(h->framework, choice);
}

/* Whether the framework runs what the space has only on demand, and nobody asked for it. */
static gboolean shut(const Held *h, SpaceExtra extra)
{
  return !(h->options->space & extra) && space_can(h->framework, extra);
}

static gboolean has_shared_experts(const Model *m)
{
  gboolean any = FALSE;

  for (int i = 0; i < m->n_specs; i++)
    any |= m->specs[i].ffn.shared_width > 0;
  return any;
}

static gboolean any_fixed(const Held *h)
{
  gboolean any = FALSE;

  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++)
    any |= h->options->fixed.value[id] >= 0;
  return any;
}

static gboolean several(const Held *h)
{
  return h->best->cluster->devices > 1;
}

static gboolean host(const Held *h)
{
  return shut(h, SPACE_OFFLOAD) && h->options->fixed.value[KEY_OFFLOAD] < 0;
}

static gboolean narrow_states(const Held *h)
{
  return shut(h, SPACE_STATES);
}

static gboolean quantized(const Held *h)
{
  return several(h) && shut(h, SPACE_ZERO_PP);
}

static gboolean orders(const Held *h)
{
  return several(h) && shut(h, SPACE_ORDER) && h->best->cluster->n_types == 0 &&
         h->options->fixed.value[KEY_ORDER] < 0;
}

static gboolean context(const Held *h)
{
  const SearchOptions *o = h->options;

  return shut(h, SPACE_CONTEXT) && !space_has_context(o, o->base->seq, h->best->cluster->devices);
}

static gboolean counts(const Held *h)
{
  return h->options->fixed.value[KEY_RECOMPUTE] < 0 && !h->framework->recompute_alike;
}

static gboolean offers_graph(const Held *h, CudaGraph kind)
{
  return h->options->fixed.value[KEY_GRAPH] < 0 && h->options->base->graph != kind && h->framework->graphs >> kind & 1;
}

static gboolean graphs(const Held *h)
{
  return !model_has_experts(h->best->model) && h->options->base->graph == GRAPH_NONE &&
         (offers_graph(h, GRAPH_PARTIAL) || offers_graph(h, GRAPH_FULL));
}

/* Where the space has none and some are legal: of experts that are padded (check_experts.c). */
static gboolean whole_graphs(const Held *h)
{
  int by = h->options->fixed.value[KEY_DISPATCH];
  gboolean tried = space_tries_graph(h->framework, h->best->model, GRAPH_FULL) &&
                   (by < 0 || by == DISPATCH_HYBRID) && h->best->cluster->device.kernels.dispatch.s_per_byte > 0;
  return model_has_experts(h->best->model) && offers_graph(h, GRAPH_FULL) && !tried &&
         plan_pads_experts(h->options->base);
}

static gboolean shared_experts(const Held *h)
{
  return !h->options->base->overlap.experts && h->framework->shared_overlap && has_shared_experts(h->best->model);
}

static gboolean margin(const Held *h)
{
  return h->best->cluster->memory_margin > 0;
}

/* Where a node has more GPUs than some layer has heads of keys and values. */
static gboolean heads(const Held *h)
{
  const Model *m = h->best->model;
  gboolean few = FALSE;

  for (int i = 0; i < m->n_specs; i++)
    few |= m->specs[i].attention.kv_heads > 0 && m->specs[i].attention.kv_heads < h->best->cluster->devices_per_node;
  return few && !h->framework->kv_heads_divided;
}

static gboolean products(const Held *h)
{
  return several(h) && !runs(h, CHOICE_COMM_CHUNKS) && h->options->fixed.value[KEY_COMM_CHUNKS] < 0;
}

static gboolean strategies(const Held *h)
{
  return h->framework->strategies;
}

static gboolean schedules_left(const Held *h)
{
  return several(h) && fixed_schedule(&h->options->fixed) == NULL;
}

static gboolean zero_left(const Held *h)
{
  return several(h) && h->framework->zero_max_pipeline < 3 && h->options->fixed.value[KEY_ZERO] < 0;
}

static gboolean dispatchers_left(const Held *h)
{
  return model_has_experts(h->best->model) && h->options->fixed.value[KEY_DISPATCH] < 0 &&
         h->framework->dispatch != (1u << DISPATCH_COUNT) - 1;
}

/* ---- what of the best plan it may take ---- */

static double part(const Result *r, ComputePart part)
{
  return r->parts.known ? r->parts.compute_s[part] : NAN;
}

static double waits(const Result *r) { return r->metrics.data_comm_s + r->metrics.pipeline_comm_s + r->metrics.idle_s; }
static double tensor(const Result *r) { return r->metrics.tensor_comm_s; }
static double experts(const Result *r) { return r->metrics.expert_comm_s; }
static double data(const Result *r) { return r->metrics.data_comm_s; }
static double host_waits(const Result *r) { return part(r, COMPUTE_HOST); }
static double again(const Result *r) { return part(r, COMPUTE_AGAIN); }

typedef enum { GAIN_MEMORY, GAIN_COMMUNICATION, GAIN_CUTS, GAIN_ARITHMETIC } Gain;

static const struct {
  const char *what, *how;
  gboolean (*held)(const Held *held);
  Gain gain;
  double (*of_plan)(const Result *best); /* seconds; NULL = it cannot be told */
} dimensions[] = {
  { "what --fix names", "without --fix", any_fixed, GAIN_ARITHMETIC, NULL },
  { "states and activations on the GPU", "--space offload", host, GAIN_MEMORY, NULL },
  { "optimizer moments in 32 bits", "--space states", narrow_states, GAIN_MEMORY, NULL },
  { "whole weights and gradients on the wire", "--space zero++", quantized, GAIN_COMMUNICATION, data },
  { "rank order: data-parallel ranks near, stages apart", "--space order", orders, GAIN_COMMUNICATION, waits },
  { "at least " G_STRINGIFY(CONTEXT_TOKENS_MIN) " tokens of a sequence on a rank under context parallelism", "--space context",
    context, GAIN_ARITHMETIC, NULL },
  { "one strategy for all layers", "--layerwise", strategies, GAIN_CUTS, NULL },
  { "recomputed layers of a stage: all, other numbers only near the best plans", "--fix recompute=full:any", counts,
    GAIN_MEMORY, again },
  { "even stages; default micro-batch groups and gradient buckets", "--refine", several, GAIN_CUTS, waits },
  { "schedules that the framework does not run", "--fix schedule=NAME", schedules_left, GAIN_CUTS, waits },
  { "ZeRO stages that the framework does not run", "--framework NAME", zero_left, GAIN_MEMORY, NULL },
  { "dispatchers that the framework does not run", "--framework NAME", dispatchers_left, GAIN_COMMUNICATION, experts },
  { "tensor-parallel sums behind products (tp_comm_overlap)", "--framework NAME", products, GAIN_COMMUNICATION,
    tensor },
  { "tokens of experts before shared experts", "overlap of a plan file", shared_experts, GAIN_COMMUNICATION, experts },
  { "the memory margin", "--memory-margin 0", margin, GAIN_MEMORY, NULL },
  { "as many tensor-parallel ranks as key-value heads", "--framework NAME", heads, GAIN_ARITHMETIC, NULL },
  { "kernels launched one by one", "--fix graph=NAME", graphs, GAIN_ARITHMETIC, host_waits },
  { "steps not recorded as one CUDA graph", "--fix graph=full", whole_graphs, GAIN_ARITHMETIC, host_waits },
};

/* Seconds that it cannot go below. */
static double floor_of(const SearchResult *found, const Result *best, Gain gain)
{
  switch (gain) {
  case GAIN_MEMORY:
    return found->floors.passes_s;
  case GAIN_COMMUNICATION:
    return found->floors.fitting_s;
  case GAIN_CUTS:
    return found->floors.compute_s;
  default:
    return best->mfu * best->metrics.iteration_s;
  }
}

typedef struct {
  gsize dimension;
  double gain, share; /* of any plan; of this one, NAN = not known */
} Line;

static gboolean gives_nothing(const Line *line)
{
  return line->share < 0.0005; /* 0.0 % */
}

/* What is of no use to this plan comes last. */
static int by_gain(gconstpointer a, gconstpointer b)
{
  const Line *x = a, *y = b;

  if (gives_nothing(x) != gives_nothing(y))
    return gives_nothing(x) ? 1 : -1;
  if (x->gain != y->gain)
    return x->gain > y->gain ? -1 : 1;
  return x->dimension < y->dimension ? -1 : x->dimension > y->dimension;
}

static void add_line(Answer *a, const Line *line)
{
  g_autofree char *most = g_strdup_printf("%.1f %%", 100 * line->gain);
  g_autofree char *own = !isnan(line->share) ? g_strdup_printf("%.1f %%", 100 * line->share) : g_strdup("-");

  answer_add_text(a, dimensions[line->dimension].what);
  answer_add_text(a, dimensions[line->dimension].how);
  answer_add(a, line->gain);
  answer_add(a, line->share);
  answer_add_text(a, most);
  answer_add_text(a, own);
}

Answer *held_answer(const SearchOptions *options, const SearchResult *found, const Result *best)
{
  static const AnswerColumn columns[] = {
    { "held", "<held fixed", CELL_TEXT }, { "freed_by", "<freed by", CELL_TEXT },
    { "gain_at_most", NULL, CELL_REAL }, { "gain_at_most_of_plan", NULL, CELL_REAL },
    { NULL, "any plan", CELL_TEXT }, { NULL, "this plan", CELL_TEXT },
  };
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));
  const Held h = { options, options->base->framework, best };
  g_autoptr(GArray) lines = g_array_new(FALSE, FALSE, sizeof(Line));
  double fastest_s = g_array_index(found->best, Found, 0).metrics.iteration_s;

  for (gsize i = 0; i < G_N_ELEMENTS(dimensions) && !found->cut; i++) {
    double (*of_plan)(const Result *) = dimensions[i].of_plan;
    Line line = { i, MAX(0, 1 - floor_of(found, best, dimensions[i].gain) / fastest_s),
                  of_plan ? of_plan(best) / best->metrics.iteration_s : NAN };
    if (dimensions[i].held(&h))
      g_array_append_val(lines, line);
  }
  g_array_sort(lines, by_gain);
  if (lines->len > 0)
    g_string_assign(a->says, "What the search held fixed, and by how much freeing it can shorten the step (bounds, not "
                             "promises; -: no closer bound)");
  for (guint i = 0; i < lines->len; i++)
    add_line(a, &g_array_index(lines, Line, i));
  return a;
}
