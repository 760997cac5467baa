/* Gradients of each layer kind against central differences, in double precision. */
#include "exec/cpu/cpu.h"
#include "exec/experts.h"
#include "exec/random.h"
#include "fixture.h"
#include "main.h"

#include <math.h>

#define STEP 1e-5
#define TOLERANCE 1e-7

typedef struct {
  Backend *b;
  Memory memory;
  Layout layout;
  Framework *framework;
  Model *model;
  const LayerSpec *spec;
  LayerRun run;
  LayerWeights w;
  gsize sizes[PARAM_SLOTS];
  gsize n; /* of x and y */
  double *x, *dy, loss;
  gint32 tokens[32];
} Case;

static double *values(gsize n, guint64 stream, double deviation)
{
  double *v = g_new(double, n);

  for (gsize i = 0; i < n; i++)
    v[i] = deviation * random_normal(7, stream, i);
  return v;
}

static void make_params(Case *c, int layer)
{
  g_autoptr(GArray) params = g_array_new(FALSE, FALSE, sizeof(Param));

  layer_params(&c->run.shape, c->spec, layer, params);
  for (guint i = 0; i < params->len; i++) {
    const Param *p = &g_array_index(params, Param, i);
    c->sizes[p->slot] = param_size(p);
    c->w.weight[p->slot] = values(param_size(p), 100 + p->slot, 0.3);
    c->w.gradient[p->slot] = g_new0(double, param_size(p));
  }
}

/* What a block's experts drop; bits, 0 = nothing. */
enum { DROPS = 1, BY_POSITION = 2, PADDED = 4 };

static void case_init(Case *c, Model *model, int layer, Recompute recompute, int drops)
{
  char message[EXEC_ERROR_SIZE];

  *c = (Case) { .model = model, .framework = fixture_framework("megatron-core"), .spec = model_layer(model, layer) };
  Plan plan = plan_default(model, c->framework);
  plan.micro_batch = 2;
  plan.precision = DTYPE_FP32;
  plan.recompute = recompute;
  plan.expert_capacity = drops & DROPS ? 0.9 : 0;
  plan.expert_drop = drops & BY_POSITION ? DROP_POSITION : DROP_PROBS;
  plan.expert_padded = (drops & PADDED) != 0;
  c->layout = layout_of(&plan);
  c->b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F64 }, message);
  memory_init(&c->memory, c->b, 0);
  c->run = (LayerRun) { .shape = layer_shape(model, &c->layout, 0), .b = c->b, .s = c->b->stream_new(c->b, TRUE),
                        .memory = &c->memory, .kept_as = PART_ACTIVATIONS, .bytes = 8, .wide_bytes = 8,
                        .token_share = 0.1, .loss_scale = 1, .loss = &c->loss };
  c->w.spec = c->spec;
  c->n = (gsize)c->run.shape.rows * c->run.shape.hidden;
  c->x = values(c->n, 1, 1);
  c->dy = values(c->n, 2, 1);
  for (int i = 0; i < 32; i++)
    c->tokens[i] = random_at(7, 3, i) % model->vocab;
  make_params(c, layer);
}

static void case_clear(Case *c)
{
  for (int slot = 0; slot < PARAM_SLOTS; slot++) {
    g_free(c->w.weight[slot]);
    g_free(c->w.gradient[slot]);
  }
  g_free(c->x);
  g_free(c->dy);
  memory_clear(&c->memory);
  c->b->stream_free(c->b, c->run.s);
  c->b->free(c->b);
  framework_free(c->framework);
  model_free(c->model);
}

static void *copy_of(Case *c, const double *from)
{
  void *p = memory_alloc(&c->memory, c->run.s, PART_ACTIVATIONS, c->n * sizeof *from);

  memcpy(p, from, c->n * sizeof *from);
  return p;
}

static void *forward(Case *c, LayerState *state)
{
  *state = (LayerState) { .tokens = c->tokens, .labels = c->tokens + 16 };
  c->loss = 0;
  return layer_forward(&c->run, &c->w, state, c->spec->kind == LAYER_EMBEDDING ? NULL : copy_of(c, c->x), FALSE);
}

/* The output against dy, or the head's loss. */
static double objective(Case *c)
{
  LayerState state;
  double *y = forward(c, &state), sum = c->loss;

  for (gsize i = 0; y && i < c->n; i++)
    sum += y[i] * c->dy[i];
  memory_release(&c->memory, c->run.s, y);
  state_drop(&c->run, &state, ~0u);
  g_clear_pointer(&state.visits, visits_free);
  return sum;
}

static void hold(Case *c, const char *what, double *value, gsize n, const double *gradient)
{
  gsize stride = MAX(n / 40, 1);

  for (gsize i = 0; i < n; i += stride) {
    double kept = value[i], high, low;
    value[i] = kept + STEP;
    high = objective(c);
    value[i] = kept - STEP;
    low = objective(c);
    value[i] = kept;
    double found = (high - low) / (2 * STEP);
    if (fabs(found - gradient[i]) > TOLERANCE * (1 + fabs(found)))
      ck_abort_msg("%s[%zu]: %.10g, differences give %.10g", what, i, gradient[i], found);
  }
}

static void check_dropping(Model *model, int layer, Recompute recompute, int drops)
{
  LayerState state;
  Case c;

  case_init(&c, model, layer, recompute, drops);
  memory_release(&c.memory, c.run.s, forward(&c, &state));
  double *dx = layer_backward_input(&c.run, &c.w, &state, c.spec->kind == LAYER_HEAD ? NULL : copy_of(&c, c.dy));
  layer_backward_weight(&c.run, &c.w, &state);
  if (dx)
    hold(&c, "input", c.x, c.n, dx);
  for (int slot = 0; slot < PARAM_SLOTS; slot++)
    if (c.w.weight[slot]) {
      g_autofree char *name = g_strdup_printf("parameter %d", slot);
      hold(&c, name, c.w.weight[slot], c.sizes[slot], c.w.gradient[slot]);
    }
  memory_release(&c.memory, c.run.s, dx);
  ck_assert_double_eq(c.memory.held[PART_ACTIVATIONS], 0);
  ck_assert_double_eq(c.memory.held[PART_BUFFERS], 0);
  case_clear(&c);
}

static void check_layer(Model *model, int layer, Recompute recompute)
{
  check_dropping(model, layer, recompute, 0);
}

static Model *gpt(void)
{
  return fixture_gpt_plain(2, 16, 4, 8, 13);
}

static Model *llama(void)
{
  return fixture_llama(2, 16, 4, 2, 8, 13);
}

static Model *moe(void)
{
  return fixture_moe(2, 16, 4, 8, 13, 5, 2, 12);
}

/* Bytes in fp32 that the program says a weight pass still reads. */
static double deferred_bytes(Case *c, int layer)
{
  Cluster *cluster = fixture_cluster("cpu", 1);

  c->framework->executor_memory = TRUE;
  g_autoptr(PriceTable) prices = price_table_new(c->model, &c->layout, cluster);
  double bytes = price_of_layer(prices, c->model, 0, layer)->deferred_bytes;
  cluster_free(cluster);
  return bytes;
}

/* Between a layer's two backward passes nothing else is kept: not what experts were chosen, nor what norms read. */
START_TEST(input_pass_leaves_what_is_read)
{
  static Model *(*const models[])(void) = { gpt, llama, moe };
  int layer = 1 + 2 * (_i % 2);
  LayerState state;
  Case c;

  case_init(&c, models[_i / 2](), layer, RECOMPUTE_NONE, 0);
  memory_release(&c.memory, c.run.s, forward(&c, &state));
  void *dx = layer_backward_input(&c.run, &c.w, &state, c.spec->kind == LAYER_HEAD ? NULL : copy_of(&c, c.dy));
  layer_defer(&c.run, &state);
  ck_assert_double_eq(c.memory.held[PART_ACTIVATIONS], 2 * deferred_bytes(&c, layer)); /* here in fp64 */
  layer_backward_weight(&c.run, &c.w, &state);
  memory_release(&c.memory, c.run.s, dx);
  case_clear(&c);
}
END_TEST

/* One rank's experts have all rows; a layer without experts has no load. */
START_TEST(load_is_of_the_block)
{
  static const struct {
    Model *(*model)(void);
    int layer;
  } cases[] = { { gpt, 0 }, { gpt, 1 }, { gpt, 3 }, { moe, 1 } };
  LayerState state;
  Case c;

  case_init(&c, cases[_i].model(), cases[_i].layer, RECOMPUTE_NONE, 0);
  memory_release(&c.memory, c.run.s, forward(&c, &state));
  ck_assert_double_eq(state.load.rows, _i == 3);
  ck_assert_double_eq(state.load.own, _i == 3);
  if (_i == 3) {
    memory_release(&c.memory, c.run.s, layer_backward_input(&c.run, &c.w, &state, copy_of(&c, c.dy)));
    layer_backward_weight(&c.run, &c.w, &state);
  }
  case_clear(&c);
}
END_TEST

START_TEST(embedding_gradients) { check_layer(gpt(), 0, RECOMPUTE_NONE); } END_TEST
START_TEST(gpt_block_gradients) { check_layer(gpt(), 1, _i); } END_TEST
START_TEST(llama_block_gradients) { check_layer(llama(), 1, _i); } END_TEST
START_TEST(expert_block_gradients) { check_layer(moe(), 1, _i); } END_TEST
START_TEST(dropping_block_gradients) { check_dropping(moe(), 1, RECOMPUTE_NONE, DROPS | 2 * _i); } END_TEST
START_TEST(gpt_head_gradients) { check_layer(gpt(), 3, RECOMPUTE_NONE); } END_TEST
START_TEST(llama_head_gradients) { check_layer(llama(), 3, RECOMPUTE_NONE); } END_TEST

TEST_LOOPS("exec layers", { embedding_gradients }, { gpt_block_gradients, RECOMPUTE_COUNT },
           { llama_block_gradients, RECOMPUTE_COUNT },
           { expert_block_gradients, RECOMPUTE_COUNT }, { dropping_block_gradients, 4 }, { gpt_head_gradients },
           { llama_head_gradients }, { input_pass_leaves_what_is_read, 6 }, { load_is_of_the_block, 4 })
