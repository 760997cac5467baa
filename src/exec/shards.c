#include "exec/shards.h"

#include "exec/random.h"

/* `open`: units that take more params, by kind: index, -1 = none does. */
static void close_units(int open[2])
{
  open[FALSE] = open[TRUE] = -1;
}

static void add_unit(Shards *s, int layer, gboolean apart, int open[2])
{
  Unit unit = { .first_layer = layer, .apart = apart, .states = &s->shape->layout->states[apart],
                .number = s->numbers[apart], .params = g_array_new(FALSE, FALSE, sizeof(Param)),
                .layers = g_array_new(FALSE, FALSE, sizeof(int)), .gathered = g_queue_new() };

  open[apart] = s->units->len;
  g_array_append_val(s->units, unit);
}

static void add_param(Shards *s, Param p, int layer, int open[2])
{
  if (open[p.apart] < 0)
    add_unit(s, layer, p.apart, open);
  Unit *unit = &g_array_index(s->units, Unit, open[p.apart]);
  p.offset = unit->n;
  p.early_offset = unit->n_early;
  unit->n += param_size(&p);
  unit->n_early += p.early ? param_size(&p) : 0;
  unit->end_layer = layer + 1;
  g_array_append_val(unit->params, p);
  g_array_append_val(unit->layers, layer);
}

static void add_layer(Shards *s, int layer, int open[2])
{
  g_autoptr(GArray) params = g_array_new(FALSE, FALSE, sizeof(Param));

  layer_params(s->shape, model_layer(s->shape->model, layer), layer, params);
  for (guint i = 0; i < params->len; i++) {
    const Param *p = &g_array_index(params, Param, i);
    if (p->copy && s->share_table)
      continue;
    if (p->tied)
      close_units(open);
    add_param(s, *p, layer, open);
    if (p->tied)
      close_units(open);
  }
}

void shards_init(Shards *s, const LayerShape *shape, Memory *memory, const int numbers[2], const gboolean *present,
                 const gboolean *cuts)
{
  int n = shape->model->n_layers;
  int open[2];

  *s = (Shards) { .shape = shape, .memory = memory, .bytes = exec_type_bytes(memory->backend->dtype),
                  .wide_bytes = exec_type_bytes(exec_wide(memory->backend->dtype)),
                  .numbers = { numbers[0], numbers[1] },
                  .host = shape->layout->states[0].offload.optimizer == STORE_CPU,
                  .units = g_array_new(FALSE, FALSE, sizeof(Unit)) };
  s->share_table = shape->model->tied_embeddings && present[0] && present[n - 1];
  close_units(open);
  for (int layer = 0; layer < n; layer++) {
    if (cuts[layer] || (layer > 0 && !present[layer - 1]))
      close_units(open);
    if (present[layer])
      add_layer(s, layer, open);
  }
  for (guint i = 0; i < s->units->len; i++) {
    Unit *u = &g_array_index(s->units, Unit, i);
    u->part = (u->n + u->states->optimizer_parts - 1) / u->states->optimizer_parts;
  }
}

void shards_clear(Shards *s)
{
  for (guint i = 0; i < s->units->len; i++) {
    Unit *u = &g_array_index(s->units, Unit, i);
    g_array_unref(u->params);
    g_array_unref(u->layers);
    g_queue_free(u->gathered);
  }
  g_array_unref(s->units);
}

/* Elements of a unit, and where they go. */
typedef struct {
  gsize first, n;
  char *out;
  ExecType type;
} Range;

/* Of a param's values, those in the range. */
static void fill_param(Backend *b, BackendStream *stream, guint64 seed, const Param *p, const Range *r)
{
  gsize at = p->offset;

  for (int part = 0; part < p->n_rows * MAX(p->experts, 1); part++) {
    const ParamRows *rows = &p->rows[part % p->n_rows];
    gsize end = at + (gsize)rows->rows * p->cols, low = MAX(at, r->first), high = MIN(end, r->first + r->n);
    guint64 expert = p->first_expert + part / p->n_rows;
    if (high > low)
      b->fill(b, stream, &(ExecFill) { .seed = seed, .stream = p->id, .end_row = p->end_row,
                                       .first_row = expert * p->expert_rows + rows->first, .first_col = p->first_col,
                                       .cols = p->cols, .all_cols = p->all_cols, .mean = p->mean,
                                       .deviation = p->deviation, .from = low - at, .n = high - low },
              r->out + (low - r->first) * exec_type_bytes(r->type), r->type);
    at = end;
  }
}

static void fill_range(Backend *b, BackendStream *stream, guint64 seed, const Unit *u, const Range *r)
{
  b->zero(b, stream, r->out, r->n * exec_type_bytes(r->type)); /* what pads the last part */
  for (guint i = 0; i < u->params->len; i++)
    fill_param(b, stream, seed, &g_array_index(u->params, Param, i), r);
}

/* The optimizer's wide copy of the rank's part. */
static void fill_master(Shards *s, Unit *u, BackendStream *stream, guint64 seed)
{
  Backend *b = s->memory->backend;
  gsize bytes = u->part * s->wide_bytes;
  char *device = s->host ? memory_alloc(s->memory, stream, PART_BUFFERS, bytes) : u->master;

  fill_range(b, stream, seed, u, &(Range) { unit_own(u), u->part, device, exec_wide(b->dtype) });
  if (!s->host)
    return;
  b->host_down(b, stream, u->master, device, bytes);
  memory_release(s->memory, stream, device);
}

static void fill_unit(Shards *s, Unit *u, BackendStream *stream, guint64 seed)
{
  Backend *b = s->memory->backend;

  if (u->weights) {
    fill_range(b, stream, seed, u, &(Range) { 0, unit_size(u), u->weights, b->dtype });
    u->own_weights = u->weights + unit_own(u) * s->bytes;
  } else
    fill_range(b, stream, seed, u, &(Range) { unit_own(u), u->part, u->own_weights, b->dtype });
  if (u->master)
    fill_master(s, u, stream, seed);
}

static void allocate_unit(Shards *s, Unit *u, BackendStream *stream)
{
  gsize all = unit_size(u), wide = s->wide_bytes, bytes = s->bytes;

  if (u->states->weight_parts == 1)
    u->weights = memory_alloc(s->memory, stream, PART_WEIGHTS, all * bytes);
  else
    u->own_weights = memory_alloc(s->memory, stream, PART_WEIGHTS, u->part * bytes);
  if (u->states->gradient_parts == 1) {
    u->gradients = memory_alloc_zero(s->memory, stream, PART_GRADIENTS, all * wide);
    u->own_gradients = u->gradients + unit_own(u) * wide;
  } else
    u->own_gradients = memory_alloc_zero(s->memory, stream, PART_GRADIENTS, u->part * wide);
  if (s->host) {
    char **const states[] = { &u->master, &u->m, &u->v, &u->host_gradients };
    for (gsize i = 0; i < G_N_ELEMENTS(states); i++)
      *states[i] = memory_alloc_host(s->memory, u->part * wide);
    return;
  }
  u->m = memory_alloc_zero(s->memory, stream, PART_OPTIMIZER, u->part * wide);
  u->v = memory_alloc_zero(s->memory, stream, PART_OPTIMIZER, u->part * wide);
  if (bytes < wide)
    u->master = memory_alloc(s->memory, stream, PART_OPTIMIZER, u->part * wide);
}

void shards_allocate(Shards *s, BackendStream *stream, guint64 seed)
{
  for (guint i = 0; i < s->units->len; i++) {
    Unit *u = &g_array_index(s->units, Unit, i);
    allocate_unit(s, u, stream);
    fill_unit(s, u, stream, seed);
  }
  s->memory->backend->sync(s->memory->backend, stream);
}

void shards_open_early(Shards *s, Unit *u, BackendStream *stream)
{
  if (u->states->gradient_parts > 1 && u->n_early > 0 && !u->early)
    u->early = memory_alloc_zero(s->memory, stream, PART_BUFFERS, u->n_early * s->wide_bytes);
}

/* Early gradients take their place among the others. */
static void close_early(Shards *s, Unit *u, BackendStream *stream)
{
  Backend *b = s->memory->backend;
  gsize wide = s->wide_bytes;

  if (!u->early)
    return;
  for (guint i = 0; i < u->params->len; i++) {
    const Param *p = &g_array_index(u->params, Param, i);
    if (p->early)
      b->add_wide(b, stream, param_size(p), u->early + p->early_offset * wide, u->gradients + p->offset * wide);
  }
  memory_release(s->memory, stream, g_steal_pointer(&u->early));
}

void shards_open(Shards *s, Unit *u, BackendStream *stream)
{
  if (u->states->gradient_parts == 1)
    return;
  if (!u->gradients)
    u->gradients = memory_alloc_zero(s->memory, stream, PART_BUFFERS, unit_size(u) * s->wide_bytes);
  close_early(s, u, stream);
}

Unit *shards_next(const Shards *s, const Unit *previous, int first, int n)
{
  Unit *units = (Unit *)s->units->data;

  for (guint i = previous ? previous - units + 1 : 0; i < s->units->len; i++)
    if (n == 0 || (units[i].first_layer >= first && units[i].end_layer <= first + n))
      return &units[i];
  return NULL;
}

static char *whole_weights(const Unit *u)
{
  if (u->weights)
    return u->weights;
  return u->held ? u->held : g_queue_peek_head(u->gathered);
}

static void take_params(const Shards *s, const Unit *u, int layer, LayerWeights *out)
{
  gsize bytes = s->bytes, wide = s->wide_bytes;
  char *weights = whole_weights(u);

  for (guint i = 0; i < u->params->len; i++) {
    const Param *p = &g_array_index(u->params, Param, i);
    if (g_array_index(u->layers, int, i) != layer)
      continue;
    out->weight[p->slot] = weights ? weights + p->offset * bytes : NULL;
    out->gradient[p->slot] = u->gradients ? u->gradients + p->offset * wide : NULL;
    if (u->early && p->early)
      out->gradient[p->slot] = u->early + p->early_offset * wide;
  }
}

LayerWeights shards_weights(const Shards *s, int layer)
{
  LayerWeights w = { .spec = model_layer(s->shape->model, layer) }, table = { 0 };

  for (guint i = 0; i < s->units->len; i++) {
    const Unit *u = &g_array_index(s->units, Unit, i);
    if (layer >= u->first_layer && layer < u->end_layer)
      take_params(s, u, layer, &w);
    if (u->first_layer == 0)
      take_params(s, u, 0, &table);
  }
  if (s->share_table && w.spec->kind == LAYER_HEAD) {
    w.weight[HEAD_LOGITS] = table.weight[EMBEDDING_TABLE];
    w.gradient[HEAD_LOGITS] = table.gradient[EMBEDDING_TABLE];
  }
  return w;
}

gsize shards_own(const Unit *u, const Param *p, gsize *offset)
{
  gsize first = unit_own(u), end = first + u->part;
  gsize low = MAX(p->offset, first), high = MIN(p->offset + param_size(p), end);

  *offset = low > first ? low - first : 0;
  return high > low ? high - low : 0;
}
