#include "program/balance.h"

/* Running sum over the layers, n_layers + 1 entries, on the devices of each node type. */
static double *layer_seconds(const Model *model, const PriceTable *prices)
{
  double *sums = g_new0(double, prices->n_types * (model->n_layers + 1));

  for (int type = 0; type < prices->n_types; type++) {
    double *sum = sums + type * (model->n_layers + 1);
    for (int i = 0; i < model->n_layers; i++) {
      const PassPrice *pass = price_of_layer(prices, model, type, i)->pass;
      sum[i + 1] = sum[i] + pass[PASS_FORWARD].seconds + pass[PASS_BACKWARD].seconds;
    }
  }
  return sums;
}

/* Node type of each stage, of the first copy; NULL where nodes are alike. */
static guint8 *stage_types(const Layout *l, const Cluster *cluster)
{
  int stages = l->pipeline.cut.stages;
  guint8 *types = cluster->n_types > 0 ? g_new(guint8, stages) : NULL;

  for (int stage = 0; types && stage < stages; stage++)
    types[stage] = mesh_node_type(&l->mesh, cluster, pipeline_rank(&l->pipeline, stage, 0));
  return types;
}

/* What a stage sends for a micro-batch while it does not compute, both ways. */
static double *send_seconds(const Model *model, const Layout *l, const Cluster *cluster)
{
  int stages = l->pipeline.cut.stages;
  double bytes = op_boundary_bytes(model, &l->passes), *seconds = g_new0(double, stages);

  if (l->pipeline.scatters_sends)
    bytes /= l->passes.tp;
  for (int stage = 0; !l->pipeline.overlaps_sends && stage < stages - 1; stage++) {
    GroupShape pair;
    int from = pipeline_rank(&l->pipeline, stage, 0), to = pipeline_rank(&l->pipeline, stage + 1, 0);
    const Cluster *between = mesh_pair_site(&l->mesh, cluster, from, to, &pair);
    double send = from == to ? 0 : collective_cost(between, COLLECTIVE_SEND, bytes, &pair).seconds;
    seconds[stage] += send;
    seconds[stage + 1] += send;
  }
  return seconds;
}

static SplitProblem problem_of(const Model *model, const PassLayout *passes, int stages, const double *seconds)
{
  return (SplitProblem) { .seconds = seconds, .n_layers = model->n_layers, .blocks = model->blocks,
                          .stages = stages,
                          .least_at_ends = passes->spread_vocabulary ? 1 : 0 };
}

gboolean balance_by_time(const Model *model, const PassLayout *passes, int stages, const PriceTable *prices,
                         LayerSplit *out)
{
  g_autofree double *seconds = layer_seconds(model, prices);
  SplitProblem problem = problem_of(model, passes, stages, seconds);

  return split_balance(&problem, passes->framework->splits, out);
}

/* Of the layers before one. */
typedef struct {
  double params, states, saved;
} Held;

typedef struct {
  const Model *model;
  const Layout *layout;
  const PriceTable *prices;
  int chunks;
  Held *before;  /* [node type][layer], n_layers + 1 of a type */
  guint8 *types; /* of each stage's nodes; NULL = all alike */
  double *micro; /* of each stage: micro-batches that it holds at once */
  double *room;  /* bytes that it may take on its devices */
} Room;

static void room_clear(Room *r)
{
  g_free(r->before);
  g_free(r->types);
  g_free(r->micro);
  g_free(r->room);
}

/* Of the layers before each on nodes of a type. */
static void add_held(const Room *r, const Device *device, int type)
{
  const Layout *l = r->layout;
  Held *held = r->before + type * (r->model->n_layers + 1);

  for (int i = 0; i < r->model->n_layers; i++, held++) {
    const LayerPrice *price = price_of_layer(r->prices, r->model, type, i);
    HeldBytes dense = op_held(&l->states[0], device, price->params, price->narrow[0], price->frozen[0],
                              price->optimizer[0].state_bytes);
    HeldBytes apart = op_held(&l->states[1], device, price->expert_params, price->narrow[1], price->frozen[1],
                              price->optimizer[1].state_bytes);
    held[1] = held[0];
    held[1].params += price->params + price->expert_params;
    held[1].states += held_state_bytes(&dense) + held_state_bytes(&apart);
    held[1].saved += price->saved_bytes;
  }
}

static void room_init(Room *r, const Model *model, const Cluster *cluster, const Layout *l, const PriceTable *prices)
{
  const ScheduleShape *shape = &l->pipeline.shape;
  int stages = l->pipeline.cut.stages;
  double overhead = op_overhead_bytes(l);

  *r = (Room) { model, l, prices, shape->chunks, g_new0(Held, prices->n_types * (model->n_layers + 1)),
                stage_types(l, cluster), g_new0(double, stages), g_new(double, stages) };
  for (int type = 0; type < prices->n_types; type++)
    add_held(r, &cluster_type(cluster, type)->device, type);
  for (int stage = 0; stage < stages; stage++) {
    int rank = pipeline_rank(&l->pipeline, stage, 0);
    r->micro[stage] = (double)schedule_peak(l->pipeline.schedule, shape, rank) / shape->chunks;
    r->room[stage] = (mesh_site(&l->mesh, cluster, rank)->device.memory_bytes - overhead) / shape->chunks;
  }
}

static gboolean stage_fits(gconstpointer data, int stage, int first, int end)
{
  const Room *r = data;
  int type = r->types ? r->types[stage] : 0;
  const Held *held = r->before + type * (r->model->n_layers + 1), *from = &held[first], *to = &held[end];
  double scratch = 0, placeholders = 0;

  for (int i = first; i < end; i++) {
    const LayerPrice *price = price_of_layer(r->prices, r->model, type, i);
    placeholders = placeholders_with(placeholders, price);
    scratch = MAX(scratch, price->transient_bytes + price->recomputed_bytes);
  }
  double buckets = op_bucket_bytes(&r->layout->states[0], (to->params - from->params) * r->chunks) / r->chunks;
  double lost = r->layout->passes.framework->fragmentation;
  double dynamic = (r->micro[stage] * (to->saved - from->saved) + scratch) * (1 + lost);
  return to->states - from->states + buckets + placeholders / r->chunks + dynamic <= r->room[stage];
}

/* Under what fits `room`; NULL = whatever they take. */
static gboolean balance_in(const Model *model, const Cluster *cluster, const Layout *l, const PriceTable *prices,
                           const Room *room, LayerSplit *out)
{
  g_autofree double *seconds = layer_seconds(model, prices);
  g_autofree guint8 *types = stage_types(l, cluster);
  g_autofree double *sends = types ? send_seconds(model, l, cluster) : NULL;
  SplitProblem problem = problem_of(model, &l->passes, l->pipeline.cut.stages, seconds);

  problem.types = types;
  problem.extra_s = sends;
  problem.repeats = types ? l->pipeline.shape.micro - 1 : 0;
  problem.fits = room ? stage_fits : NULL;
  problem.data = room;
  return split_balance(&problem, l->passes.framework->splits, out);
}

gboolean balance_freely(const Model *model, const Cluster *cluster, const Layout *l, const PriceTable *prices,
                        LayerSplit *out)
{
  return balance_in(model, cluster, l, prices, NULL, out);
}

gboolean balance_fits(const Model *model, const Cluster *cluster, const Layout *l, const PriceTable *prices,
                      const LayerSplit *split)
{
  gboolean fits = TRUE;
  Room room;

  room_init(&room, model, cluster, l, prices);
  for (int stage = 0, first = 0, end = 1; stage < split->stages && fits; stage++, first = end) {
    end = stage == split->stages - 1 ? model->n_layers : end + split->layers[stage];
    fits = stage_fits(&room, stage, first, end);
  }
  room_clear(&room);
  return fits;
}

gboolean balance_within(const Model *model, const Cluster *cluster, const Layout *l, const PriceTable *prices,
                        LayerSplit *out)
{
  Room room;

  room_init(&room, model, cluster, l, prices);
  gboolean fits = balance_in(model, cluster, l, prices, &room, out);
  room_clear(&room);
  return fits;
}

gboolean balance_by_room(const Model *model, const Cluster *cluster, const Layout *l, const PriceTable *prices,
                         LayerSplit *out)
{
  return balance_within(model, cluster, l, prices, out) || balance_freely(model, cluster, l, prices, out);
}
