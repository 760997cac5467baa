/*
 * Whether passes run what the program says that they run: plans run a step, what each pass of this rank asked of the
 * backend is noted, and must be the ops of its layers that were priced, in that order: products by their sizes,
 * attention by heads and by how many keys are seen, collectives by kind, bytes and ranks. Kernels bound by memory that
 * have a function of their own must be as many. What differs and is meant to is in `differences`: each must still
 * occur with so many ranks.
 *
 *   mpirun -np N build/tests/mpi/pass_ops [DRAWN]
 *
 * runs the plans of N ranks in `cases`, and DRAWN (40) more that are drawn at random.
 */
#include "exec/exec.h"
#include "../fixture.h"
#include "backend.h"
#include "recorder.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { GPT, LLAMA, MOE, SHARED, MODELS };
enum { LAYERS = 4, MICRO_BATCHES = 2, EXPERTS = 4, TOP = 2, DRAWN = 40 };

/* What the executor does otherwise. Neither takes another time of products or another volume. */
enum { WEIGHTS_LAST, WEIGHTS_ANYWHERE, TRANSPOSED, ONE_BY_ONE, COLLECTIVES_TOGETHER, BLOCKS_TOGETHER, UNEVEN_ROWS,
       ROUTES_TOLD, HEADS_KEPT, SHARES,
       LABELS_APART, DIFFERENCES };
static struct {
  const char *what;
  int ranks;    /* with which it occurs */
  int times;    /* that it did */
} differences[DIFFERENCES] = {
  [WEIGHTS_LAST] = { "a layer's weight gradients are made behind all of its input gradients", 1 },
  [WEIGHTS_ANYWHERE] = { "beside sums of input gradients those weight gradients are made that need no other", 2 },
  [TRANSPOSED] = { "weight gradients are laid out as weights are, out x in", 1 },
  [ONE_BY_ONE] = { "experts' products are made one after another", 1 },
  [COLLECTIVES_TOGETHER] = { "several values go in one message: the loss's sum and label; or in one each", 2 },
  [BLOCKS_TOGETHER] = { "attention over gathered keys is made block by block, not as one kernel", 2 },
  [UNEVEN_ROWS] = { "uneven rows are gathered by broadcasts and summed by an all-to-all", 2 },
  [ROUTES_TOLD] = { "ranks tell each other how many rows go where, and with which weights", 2 },
  [SHARES] = { "rows of a spread vocabulary are looked up where they are exchanged, its loss is made in halves", 2 },
  [LABELS_APART] = { "with one barrier a spread vocabulary also sums its rows of the labels over tensor ranks", 2 },
  [HEADS_KEPT] = { "what goes into attention is kept as an all-to-all laid it out, which is not made again", 2 },
};

typedef struct {
  int ranks, model, tp, cp, pp, ep, etp;
  gboolean sp, overlap;
  ContextExchange context;
  ExpertDispatch dispatch;
  int zero;
  Recompute recompute;
  const char *schedule;
} Case;

static const Case cases[] = {
  { 1, GPT },
  { 1, LLAMA },
  { 1, MOE },
  { 1, SHARED },
  { 1, GPT, .recompute = RECOMPUTE_FULL },
  { 1, LLAMA, .recompute = RECOMPUTE_SELECTIVE },
  { 1, SHARED, .recompute = RECOMPUTE_FULL },
  { 2, GPT, .tp = 2 },
  { 2, GPT, .tp = 2, .sp = TRUE },
  { 2, LLAMA, .tp = 2, .sp = TRUE, .recompute = RECOMPUTE_FULL },
  { 2, GPT, .tp = 2, .overlap = TRUE },
  { 2, LLAMA, .tp = 2, .sp = TRUE, .overlap = TRUE },
  { 2, LLAMA, .cp = 2, .context = CONTEXT_RING },
  { 2, LLAMA, .cp = 2, .context = CONTEXT_GATHER },
  { 2, GPT, .cp = 2, .context = CONTEXT_ALL_TO_ALL },
  { 2, GPT, .cp = 2, .context = CONTEXT_RING, .recompute = RECOMPUTE_SELECTIVE },
  { 2, GPT, .cp = 2, .context = CONTEXT_GATHER, .recompute = RECOMPUTE_SELECTIVE },
  { 2, GPT, .cp = 2, .context = CONTEXT_ALL_TO_ALL, .recompute = RECOMPUTE_SELECTIVE },
  { 2, LLAMA, .cp = 2, .context = CONTEXT_ALL_TO_ALL, .recompute = RECOMPUTE_FULL },
  { 2, MOE, .ep = 2, .etp = 1 },
  { 2, SHARED, .ep = 2, .etp = 1, .dispatch = DISPATCH_GATHER },
  { 2, SHARED, .tp = 2, .sp = TRUE, .ep = 2, .etp = 1 },
  { 2, MOE, .ep = 1, .etp = 2 },
  { 2, MOE, .tp = 2, .sp = TRUE, .ep = 1, .etp = 1 },
  { 2, MOE, .tp = 2, .sp = TRUE, .ep = 1, .etp = 2 },
  { 2, SHARED, .tp = 2, .sp = TRUE, .ep = 1, .etp = 2, .dispatch = DISPATCH_GATHER },
  { 2, GPT, .zero = 3 },
  { 2, LLAMA, .zero = 3, .recompute = RECOMPUTE_FULL },
  { 2, GPT, .pp = 2, .schedule = "interleaved" },
  { 2, LLAMA, .pp = 2, .schedule = "zb-h1" },
  { 2, GPT, .pp = 2, .schedule = "zb-v" },
  { 2, GPT, .pp = 2, .schedule = "varuna", .recompute = RECOMPUTE_FULL },
  { 2, SHARED, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_SELECTIVE },
  { 4, LLAMA, .tp = 2, .pp = 2, .sp = TRUE, .schedule = "zb-h1" },
  { 4, GPT, .tp = 2, .pp = 2, .schedule = "interleaved", .recompute = RECOMPUTE_FULL },
  { 4, LLAMA, .tp = 2, .sp = TRUE, .zero = 3, .recompute = RECOMPUTE_SELECTIVE },
  { 4, LLAMA, .tp = 4, .sp = TRUE, .overlap = TRUE },
  { 4, GPT, .tp = 2, .cp = 2, .sp = TRUE, .context = CONTEXT_RING },
  { 4, LLAMA, .cp = 4, .context = CONTEXT_RING },
  { 4, LLAMA, .cp = 4, .context = CONTEXT_RING, .recompute = RECOMPUTE_SELECTIVE },
  { 4, LLAMA, .cp = 4, .context = CONTEXT_GATHER, .recompute = RECOMPUTE_FULL },
  { 4, LLAMA, .tp = 2, .cp = 2, .context = CONTEXT_ALL_TO_ALL, .recompute = RECOMPUTE_SELECTIVE },
  { 4, MOE, .cp = 2, .ep = 2, .etp = 1, .context = CONTEXT_RING, .recompute = RECOMPUTE_FULL },
  { 4, SHARED, .tp = 2, .sp = TRUE, .ep = 2, .etp = 2 },
  { 4, SHARED, .tp = 2, .sp = TRUE, .ep = 2, .etp = 2, .dispatch = DISPATCH_GATHER },
  { 4, MOE, .tp = 2, .pp = 2, .sp = TRUE, .ep = 2, .etp = 1, .schedule = "zb-h1" },
  { 4, SHARED, .ep = 4, .etp = 1, .zero = 3, .recompute = RECOMPUTE_FULL },
  { 2, GPT, .pp = 2, .schedule = "vocab-1" },
  { 2, GPT, .tp = 2, .schedule = "vocab-2" },
  { 2, LLAMA, .pp = 2, .schedule = "vocab-2" },
  { 4, LLAMA, .pp = 2, .tp = 2, .sp = TRUE, .schedule = "vocab-2" },
  { 2, GPT, .pp = 2, .schedule = "dualpipe" },
  { 2, LLAMA, .pp = 2, .schedule = "chimera" },
  { 4, GPT, .tp = 2, .pp = 2, .schedule = "hanayo" },
  { 4, GPT, .tp = 2, .pp = 2, .sp = TRUE, .schedule = "varuna", .recompute = RECOMPUTE_FULL },
  { 4, LLAMA, .pp = 4, .schedule = "zb-2p" },
};

/* Functions of the backend's table that do what ops of a name are, backward too. */
static const struct {
  const char *op, *forward, *backward;
  gboolean others; /* the function also does what is no op of its own */
} alike[] = {
  { "attention norm", "norm_forward", "norm_backward" },
  { "feed-forward norm", "norm_forward", "norm_backward" },
  { "final norm", "norm_forward", "norm_backward" },
  { "rotary", "rope", "rope" },
  { "activation", "gelu_forward", "gelu_backward" },
  { "swiglu", "swiglu_forward", "swiglu_backward" },
  { "bias", "bias_forward", NULL },
  { "bias gradient", NULL, "bias_backward" },
  { "residual", "add", NULL, TRUE },
  { "lookup", "embedding_forward", "embedding_backward" },
  { "positions", "position_forward", "position_backward" },
  { "loss", "loss_rows", "loss_backward" },
  { "dispatch", "dispatch_forward", "dispatch_backward" },
  { "combine", "combine_forward", "combine_backward" },
};

typedef struct {
  Control *control;
  Backend *backend;
  Cluster *cluster;
  Framework *framework;
  Model *models[MODELS];
  int schedules;
  int plans, passes, calls, failed;
  const char *label; /* of the plan that runs */
} Suite;

static Plan plan_of(const Suite *s, const Case *c)
{
  Plan plan = plan_default(s->models[c->model], s->framework);
  const Schedule *schedule = schedule_find(c->schedule ? c->schedule : "1f1b");

  plan.gpus = c->ranks;
  plan.tp = MAX(c->tp, 1);
  plan.cp = MAX(c->cp, 1);
  plan.pp = MAX(c->pp, 1);
  plan.ep = MAX(c->ep, 1);
  plan.etp = c->etp == plan.tp ? 0 : c->etp;
  plan.dp = c->ranks / (plan.tp * plan.cp * plan.pp);
  plan.micro_batch = 2;
  plan.global_batch = plan.dp * plan.micro_batch * MAX(MICRO_BATCHES, 2 * plan.pp);
  plan.sequence_parallel = c->sp;
  plan.overlap.tensor = c->overlap;
  plan.context = c->context;
  plan.dispatch = c->dispatch;
  plan.zero = c->zero;
  plan.recompute = c->recompute;
  plan.precision = DTYPE_FP32;
  if (c->model >= MOE) { /* so that each expert gets as many rows */
    plan.expert_capacity = 1;
    plan.expert_padded = TRUE;
  }
  plan_set_schedule(&plan, schedule, schedule->min_chunks);
  return plan;
}

/* ---- lists of calls ---- */

static Call *call_at(const GArray *calls, guint i)
{
  return &g_array_index(calls, Call, i);
}

static gboolean joins(const Call *a, const Call *b)
{
  if (a->kind != b->kind)
    return FALSE;
  return a->kind == OP_ATTENTION ? a->m == b->m && a->n == b->n
                                 : a->kind == OP_COLLECTIVE && a->what == b->what && a->group == b->group;
}

/* Collectives of one kind that follow each other, and blocks of attention, as one. Returns how many went. */
static int join(GArray *calls, OpKind kind)
{
  int n = 0;

  for (guint i = 1; i < calls->len;) {
    Call *before = call_at(calls, i - 1), *call = call_at(calls, i);
    if (call->kind != kind || !joins(before, call)) {
      i++;
      continue;
    }
    before->bytes += call->bytes;
    before->k += call->k;
    g_array_remove_index(calls, i);
    n++;
  }
  return n;
}

static double compare_sizes(const Call *a, const Call *b)
{
  const double x[] = { a->kind, a->m, a->n, a->k, a->what, a->bytes, a->group };
  const double y[] = { b->kind, b->m, b->n, b->k, b->what, b->bytes, b->group };

  for (gsize i = 0; i < G_N_ELEMENTS(x); i++)
    if (fabs(x[i] - y[i]) > 1e-9 * fabs(x[i]))
      return x[i] - y[i];
  return 0;
}

static int by_size(gconstpointer a, gconstpointer b)
{
  double difference = compare_sizes(a, b);
  return (difference > 0) - (difference < 0);
}

static char *call_text(const Call *c)
{
  switch (c->kind) {
  case OP_MATMUL:
    return g_strdup_printf("%s %g x %g x %g", c->name, c->m, c->n, c->k);
  case OP_ATTENTION:
    return g_strdup_printf("%s %g heads of %g, %g pairs", c->name, c->m, c->n, c->k);
  case OP_COLLECTIVE:
    return g_strdup_printf("%s: %s of %g bytes over %d", c->name, collective_names[c->what], c->bytes, c->group);
  default:
    return g_strdup(c->name);
  }
}

/* ---- what the program says ---- */

static Call call_of(const Op *op)
{
  switch (op->kind) {
  case OP_MATMUL:
    return (Call) { op->kind, op->name, op->matmul.m, op->matmul.n, op->matmul.k };
  case OP_ATTENTION:
    return (Call) { op->kind, op->name, op->attention.batch * op->attention.heads, op->attention.head_dim,
                    op->attention.q_len * op->attention.kv_len / (op->attention.causal ? 2 : 1) };
  case OP_COLLECTIVE:
    return (Call) { op->kind, op->name, .what = op->collective.what, .bytes = op->collective.bytes,
                    .group = op->collective.group.size };
  default:
    return (Call) { op->kind, op->name };
  }
}

static void add_op(GArray *calls, const Op *op)
{
  Call call = call_of(op);
  double times = op->kind == OP_MATMUL ? op->matmul.batch : 1;

  if (op->kind == OP_COLLECTIVE && call.group < 2)
    return;
  if (op->kind == OP_MATMUL && op->pass == PASS_WEIGHT) {
    differences[TRANSPOSED].times++;
    call.m = op->matmul.n;
    call.n = op->matmul.m;
  }
  differences[ONE_BY_ONE].times += times > 1;
  for (int i = 0; i < times; i++)
    g_array_append_val(calls, call);
}

/* Whether the exchange before attention is among what a layer makes again. */
static gboolean is_kept(const Op *op, Pass pass, Recompute recompute)
{
  return recompute == RECOMPUTE_SELECTIVE && op->pass == PASS_FORWARD && pass != PASS_FORWARD &&
         op->kind == OP_COLLECTIVE && g_str_equal(op->name, "heads for rows");
}

/* Of a pass of a layer: what is no weight gradient first. */
static void add_layer(GArray *calls, const LayerPass *pass, Recompute recompute)
{
  gboolean weights = FALSE;

  for (int last = 0; last < 2; last++)
    for (guint i = 0; i < pass->ops->len; i++) {
      const PassOp *op = &g_array_index(pass->ops, PassOp, i);
      gboolean weight = op->op.pass == PASS_WEIGHT && pass->pass == PASS_BACKWARD;
      weights |= weight;
      differences[WEIGHTS_LAST].times += last == 0 && weights && !weight;
      if (op->op.kind == OP_MEMORY || weight != last)
        continue;
      if (is_kept(&op->op, pass->pass, recompute))
        differences[HEADS_KEPT].times++;
      else
        add_op(calls, &op->op);
    }
}

static GArray *said(const Segment *s, Recompute recompute)
{
  GArray *calls = g_array_new(FALSE, FALSE, sizeof(Call));

  for (guint i = 0; s->passes && i < s->passes->len; i++)
    add_layer(calls, &g_array_index(s->passes, LayerPass, i), recompute);
  return calls;
}

/* ---- what was done ---- */

/* As the program calls it; FALSE = it does not. */
static gboolean recognise(const Exec *x, Call *call)
{
  double weights = (double)x->shape.rows * TOP * exec_type_bytes(EXEC_F32);

  if (call->kind != OP_COLLECTIVE)
    return call->kind != OP_MEMORY;
  if (call->group < 2)
    return FALSE;
  if (call->type == EXEC_I32 ||
      (call->comm == x->run.groups[GROUP_EXPERT_BLOCK] && call->bytes == weights * call->group)) {
    differences[ROUTES_TOLD].times++;
    return FALSE;
  }
  if (call->comm == x->run.groups[GROUP_EXPERT_TENSOR]) {
    differences[UNEVEN_ROWS].times++;
    call->what = call->what == COLLECTIVE_BROADCAST ? COLLECTIVE_ALL_GATHER : COLLECTIVE_REDUCE_SCATTER;
  }
  return TRUE;
}

/* Whether a call is behind the look-up of the labels' rows in S. */
static gboolean sums_labels(const Exec *x, int task, guint i)
{
  const GArray *calls = recorder.calls[task];

  return exec_segment(x, task)->pass == PASS_LOGITS && i > 0 && call_at(calls, i)->kind == OP_COLLECTIVE &&
         g_str_equal(call_at(calls, i - 1)->name, "embedding_forward");
}

static GArray *done(const Exec *x, int task)
{
  GArray *calls = g_array_new(FALSE, FALSE, sizeof(Call));

  for (guint i = 0; recorder.calls[task] && i < recorder.calls[task]->len; i++) {
    Call call = *call_at(recorder.calls[task], i);
    if (sums_labels(x, task, i))
      differences[LABELS_APART].times++;
    else if (recognise(x, &call))
      g_array_append_val(calls, call);
  }
  return calls;
}

/* ---- comparison ---- */

static void fail(Suite *s, const Exec *x, int task, const char *format, ...) G_GNUC_PRINTF(4, 5);

static void fail(Suite *s, const Exec *x, int task, const char *format, ...)
{
  va_list args;
  const Task *t = exec_task(x, task);

  va_start(args, format);
  g_autofree char *message = g_strdup_vprintf(format, args);
  va_end(args);
  printf("rank %d: %s, %s, %s of chunk %d: %s\n", s->backend->rank, x->model->name, s->label, pass_names[t->pass],
         t->chunk, message);
  s->failed++;
}

static int count_calls(const GArray *calls, const char *name)
{
  int n = 0;

  for (guint i = 0; name && calls && i < calls->len; i++)
    n += g_str_equal(call_at(calls, i)->name, name);
  return n;
}

/* How many ops that a function does a segment has. */
static int count_ops(const Segment *s, const char *function)
{
  int n = 0;

  for (guint pass = 0; s->passes && pass < s->passes->len; pass++) {
    const GArray *ops = g_array_index(s->passes, LayerPass, pass).ops;
    for (guint i = 0; i < ops->len; i++) {
      const Op *op = &g_array_index(ops, PassOp, i).op;
      for (gsize a = 0; op->kind == OP_MEMORY && a < G_N_ELEMENTS(alike); a++)
        n += g_str_equal(op->name, alike[a].op) &&
             g_strcmp0(op->pass == PASS_FORWARD ? alike[a].forward : alike[a].backward, function) == 0;
    }
  }
  return n;
}

static gboolean is_spread(const Exec *x, const char *function)
{
  return x->shape.spread && (g_str_has_prefix(function, "embedding_") || g_str_has_prefix(function, "loss_"));
}

static void check_memory(Suite *s, const Exec *x, int task)
{
  for (gsize i = 0; i < G_N_ELEMENTS(alike); i++) {
    const char *functions[] = { alike[i].forward, alike[i].backward };
    for (int backward = 0; backward < 2; backward++) {
      const char *function = functions[backward];
      int ops = function ? count_ops(exec_segment(x, task), function) : 0;
      int calls = count_calls(recorder.calls[task], function);
      if (calls != ops && is_spread(x, function))
        differences[SHARES].times++;
      else if (alike[i].others ? calls < ops : calls != ops)
        fail(s, x, task, "%d calls of %s, expected %d (%s)", calls, function, ops, alike[i].op);
    }
  }
}

static void print_lists(const GArray *found, const GArray *expected)
{
  for (guint i = 0; i < MAX(found->len, expected->len); i++) {
    g_autofree char *a = i < found->len ? call_text(call_at(found, i)) : g_strdup("-");
    g_autofree char *b = i < expected->len ? call_text(call_at(expected, i)) : g_strdup("-");
    gboolean same = i < found->len && i < expected->len && compare_sizes(call_at(found, i), call_at(expected, i)) == 0;
    printf("  %c %-60s  %s\n", same ? ' ' : '*', a, b);
  }
}

static void check_task(Suite *s, const Exec *x, int task)
{
  g_autoptr(GArray) found = done(x, task);
  g_autoptr(GArray) expected = said(exec_segment(x, task), x->layout->passes.recompute.granularity);
  gboolean same;

  differences[COLLECTIVES_TOGETHER].times += join(found, OP_COLLECTIVE) != join(expected, OP_COLLECTIVE);
  differences[BLOCKS_TOGETHER].times += join(found, OP_ATTENTION) != join(expected, OP_ATTENTION);
  if (x->layout->passes.overlap_tensor && exec_segment(x, task)->pass == PASS_BACKWARD) {
    differences[WEIGHTS_ANYWHERE].times++;
    g_array_sort(found, by_size);
    g_array_sort(expected, by_size);
  }
  same = found->len == expected->len;
  for (guint i = 0; same && i < found->len; i++)
    same = compare_sizes(call_at(found, i), call_at(expected, i)) == 0;
  s->passes++;
  s->calls += found->len;
  if (!same) {
    fail(s, x, task, "%u calls, expected %u:", found->len, expected->len);
    print_lists(found, expected);
  }
  check_memory(s, x, task);
}

/* ---- runs ---- */

static void stop(void *data, const char *message)
{
  fprintf(stderr, "rank %d: %s\n", ((Suite *)data)->backend->rank, message);
  _exit(1);
}

/* FALSE: the plan is not legal, or not one that is executed. */
static gboolean run_case(Suite *s, const Case *c, GError **error)
{
  const Model *model = s->models[c->model];
  Plan plan = plan_of(s, c);
  g_autofree char *label = plan_label(&plan);
  ExecOptions options = exec_options_default();
  ExecStep step;

  options.fatal = stop;
  options.data = s;
  if (plan_check(&plan, model, s->cluster, error) != RULE_NONE)
    return FALSE;
  const Layout *layout = LAYOUT(&plan);
  s->label = label;
  g_autoptr(PriceTable) prices = price_table_described(model, layout, s->cluster);
  g_autoptr(Program) program = program_new(model, layout, s->cluster, prices);
  if (!exec_check(model, &plan, layout, program, error))
    return FALSE;
  Exec *x = exec_new(model, layout, program, s->backend, &options, error);
  if (!x)
    return FALSE;
  recorder_begin(x);
  exec_step(x, &step);
  for (guint i = 0; i < program->tasks->len; i++) {
    const Task *t = &g_array_index(program->tasks, Task, i);
    if (t->row == x->row && t->kind == TASK_PASS)
      check_task(s, x, i);
  }
  recorder_end();
  exec_free(x);
  s->plans++;
  return TRUE;
}

static void run_listed(Suite *s)
{
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    GError *error = NULL;
    if (cases[i].ranks == s->backend->size && !run_case(s, &cases[i], &error))
      stop(s, error->message);
  }
}

/* The same plans on all ranks. */
static void run_drawn(Suite *s, int n)
{
  GRand *random = g_rand_new_with_seed(s->backend->size);

  for (int i = s->plans + n; s->plans < i;)
    run_case(s, &(Case) {
      s->backend->size, g_rand_int_range(random, 0, MODELS), 1 << g_rand_int_range(random, 0, 3),
      1 << g_rand_int_range(random, 0, 3), 1 << g_rand_int_range(random, 0, 3), 1 << g_rand_int_range(random, 0, 3),
      1 << g_rand_int_range(random, 0, 2), g_rand_boolean(random), g_rand_boolean(random),
      g_rand_int_range(random, 0, CONTEXT_BOTH), g_rand_int_range(random, 0, DISPATCH_FLEX),
      g_rand_int_range(random, 0, 4), g_rand_int_range(random, 0, RECOMPUTE_COUNT),
      schedules[g_rand_int_range(random, 0, s->schedules)]->name,
    }, NULL);
  g_rand_free(random);
}

static void suite_init(Suite *s)
{
  *s = (Suite) { .framework = fixture_framework("tdp-run") };
  s->backend = backend_open_rank("cpu", EXEC_F32, &s->control);
  recorder_init(s->backend);
  while (schedules[s->schedules])
    s->schedules++;
  s->cluster = fixture_cluster("cpu", s->backend->size);
  s->models[GPT] = fixture_gpt_plain(LAYERS, 32, 8, 16, 61);
  s->models[LLAMA] = fixture_llama(LAYERS, 32, 8, 4, 16, 61);
  s->models[MOE] = fixture_moe(LAYERS, 32, 8, 16, 61, EXPERTS, TOP, 0);
  s->models[SHARED] = fixture_moe(LAYERS, 32, 8, 16, 61, EXPERTS, TOP, 24);
}

static void suite_clear(Suite *s)
{
  s->backend->free(s->backend);
  control_close(s->control);
  cluster_free(s->cluster);
  framework_free(s->framework);
  for (int i = 0; i < MODELS; i++)
    model_free(s->models[i]);
}

int main(int argc, char **argv)
{
  Suite s;

  suite_init(&s);
  run_listed(&s);
  run_drawn(&s, argc > 1 ? atoi(argv[1]) : DRAWN);
  for (int i = 0; i < DIFFERENCES; i++)
    if (differences[i].ranks <= s.backend->size && differences[i].times == 0) {
      printf("rank %d: no longer so: %s\n", s.backend->rank, differences[i].what);
      s.failed++;
    }
  if (s.backend->rank == 0)
    printf("%d ranks: %d plans, %d calls of %d passes, %d differ\n", s.backend->size, s.plans, s.calls, s.passes, s.failed);
  fflush(stdout);
  suite_clear(&s);
  return s.failed > 0;
}
