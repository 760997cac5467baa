/*
 * Whether every way to divide a step gives the step of one rank: plans drawn so
 * that all pairs of settings occur run for some steps, and loss and gradient norm
 * must be those of a single rank. Also checked of each plan: that tasks ran in the
 * program's order on each lane and behind what they wait for, what was held, and that
 * each task of its own moved between ranks, and each pass made again, what the program
 * says (exec_step). Over all plans passes must compute beside three of four sums of gradients
 * beside which they are predicted to begin: on cores these sums last until their rank has
 * computed (long_sums.h), and where sums are waited for it does not. On other backends, whose
 * sums end when they do, beside a fiftieth. What is held is the same behind every step. Activations,
 * buffers and the peak are compared for every plan and summed up for those of framework
 * tdp-run, which says what this executor keeps and which must be within held_tolerances;
 * others describe other software.
 *
 *   mpirun -np N build/tests/mpi/parity [PLANS [PART [BACKEND [STEPS [SEQUENCES LAYERS]]]]]
 *
 * runs the plans of N ranks and prints the table, plain data parallelism first; at most PLANS of them unless
 * that is "all", those first that add most pairs; "cover": as few as have each setting once, schedules with a
 * pipeline. PART: a schedule whose plans
 * alone are drawn, or I/M, every M-th plan from the I-th on. BACKEND (cpu) runs
 * them, for STEPS (10) steps of SEQUENCES (16) through LAYERS (8); the single rank's is always cpu's.
 */
#include "exec/rank.h"
#include "sim/simulate.h"
#include "../fixture.h"
#include "backend.h"
#include "held.h"
#include "long_sums.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODELS = 3, MOE = 2, STEPS = 10, POOL = 20000, SEQUENCES = 16, LAYERS = 8 };
#define TOLERANCE 1e-5

/* The settings, and how many values each has. */
enum { MODEL, TENSOR, SEQUENCE, CONTEXT, EXPERT, DISPATCH, DROP, PIPELINE, SCHEDULE, ZERO, OFFLOAD, RECOMPUTE, MICRO,
       SOFTWARE, ORDER, CASE, FACTORS };
/* What no setting alone brings about, where each is drawn once: ranks send a part each
 * of what they hold alike; parts of a sequence with learned positions, not its first, on
 * a tensor-parallel rank; a backward in two parts whose gradients are divided. */
enum { CASE_NONE, CASE_SCATTERED, CASE_PARTS, CASE_SPLIT };
static const char *const schedule_list[] = {
  "1f1b", "gpipe", "naive", "interleaved", "interleaved-rounds", "looped-bfs", "zb-h1", "zb-h2", "zb-1p", "zb-2p",
  "zb-v", "v-half", "v-min", "hanayo", "chimera", "dualpipe", "dualpipev", "varuna", "vocab-1", "vocab-2",
  "vocab-interlaced",
};
static const char *const software_list[] = { "megatron-core", "deepspeed", "fsdp", "tdp-run" };
enum { CONTEXTS = 1 + 2 * CONTEXT_BOTH }; /* none, then each exchange over 2 and over 4 ranks */
static const struct { int ep, etp; } expert_list[] = { /* 0: as tensor */
  { 1, 0 }, { 1, 1 }, { 2, 1 }, { 4, 1 }, { 1, 2 }, { 2, 2 },
};
static const ExpertDispatch dispatch_list[] = { DISPATCH_ALL_TO_ALL, DISPATCH_GATHER };
static const struct { double capacity; ExpertDrop drop; gboolean padded; } drop_list[] = {
  { 0 }, { 1, DROP_PROBS, FALSE }, { 1.25, DROP_POSITION, FALSE }, { 1, DROP_PROBS, TRUE },
};
static const char *const drop_labels[] = { "", ", capacity 1", ", capacity 1.25 by position", ", capacity 1 padded" };
enum { DROPS = G_N_ELEMENTS(drop_list), GROUPS = 2 };
static const int values[FACTORS] = {
  MODELS, 3, 2, CONTEXTS, G_N_ELEMENTS(expert_list), G_N_ELEMENTS(dispatch_list), DROPS, 3, G_N_ELEMENTS(schedule_list),
  4, 2, 3, 2, G_N_ELEMENTS(software_list), 2, 1,
};

typedef struct {
  int value[FACTORS];
} Choice;

typedef struct {
  Model *models[MODELS];
  Framework *software[G_N_ELEMENTS(software_list)];
  Cluster *cluster;
  Control *control;
  Backend *backend;
  int steps, sequences;
  const char *only; /* schedule, NULL = all */
  gboolean covers;  /* each setting once, not each pair of them */
  ExecStep reference[MODELS][DROPS][GROUPS][STEPS]; /* by drops, and by sequences that are routed together */
  gboolean made[MODELS][DROPS][GROUPS];
  double worst, worst_held[HELD_KINDS];
  int run, failed, ordered; /* plans */
  int beside[2];            /* sums of gradients beside which passes compute: measured, predicted */
  gboolean lasting;         /* sums last until their rank has computed */
} Suite;

static void set_drops(Plan *plan, int drop)
{
  plan->expert_capacity = drop_list[drop].capacity;
  plan->expert_drop = drop_list[drop].drop;
  plan->expert_padded = drop_list[drop].padded;
}

/* Sequences that a rank routes together, among which it drops; 0 = parts of some. */
static int group_of(const Plan *plan)
{
  if (plan->cp > 1)
    return 0;
  return plan->micro_batch / (plan_experts_apart(plan) && plan->sequence_parallel ? plan->tp : 1);
}

static Plan plan_of(const Suite *s, const Choice *c)
{
  const int *v = c->value;
  Plan plan = plan_default(s->models[v[MODEL]], s->software[v[SOFTWARE]]);
  const Schedule *schedule = schedule_find(schedule_list[v[SCHEDULE]]);

  plan.gpus = s->backend->size;
  plan.global_batch = s->sequences;
  plan.micro_batch = 1 << v[MICRO];
  plan.tp = 1 << v[TENSOR];
  plan.pp = 1 << v[PIPELINE];
  if (v[CONTEXT] > 0) {
    plan.cp = 2 << (v[CONTEXT] - 1) / CONTEXT_BOTH;
    plan.context = (v[CONTEXT] - 1) % CONTEXT_BOTH;
  }
  plan.ep = expert_list[v[EXPERT]].ep;
  plan.etp = expert_list[v[EXPERT]].etp == plan.tp ? 0 : expert_list[v[EXPERT]].etp;
  plan.dispatch = dispatch_list[v[DISPATCH]];
  set_drops(&plan, v[DROP]);
  plan.dp = MAX(1, plan.gpus / (plan.tp * plan.cp * plan.pp));
  plan.sequence_parallel = v[SEQUENCE];
  plan.pipeline_inner = v[ORDER];
  plan.zero = v[ZERO];
  plan.offload.optimizer = v[OFFLOAD] ? STORE_CPU : STORE_DEVICE;
  plan.recompute = v[RECOMPUTE];
  plan.precision = DTYPE_FP32;
  plan_set_schedule(&plan, schedule, schedule->min_chunks);
  return plan;
}

static gboolean legal(const Suite *s, const Choice *c)
{
  Plan plan = plan_of(s, c);
  const Model *model = s->models[c->value[MODEL]];

  if (s->only && !g_str_equal(s->only, schedule_list[c->value[SCHEDULE]]))
    return FALSE;
  if (s->covers && c->value[SCHEDULE] > 0 && plan.pp == 1)
    return FALSE;
  if (plan.zero > 0 && plan_replicas(&plan) == 1)
    return FALSE;
  if (c->value[DROP] > 0 && group_of(&plan) == 0)
    return FALSE;
  if (plan_check(&plan, model, s->cluster, NULL) != RULE_NONE)
    return FALSE;
  if (s->backend->concurrent && plan.schedule->vocabulary && model->tied_embeddings)
    return FALSE;
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), s->cluster);
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), s->cluster, prices);
  return exec_check(model, &plan, LAYOUT(&plan), program, NULL);
}

static int pair_index(int a, int va, int b, int vb)
{
  return ((a * 32 + va) * FACTORS + b) * 32 + vb;
}

/* Marks the pairs of a choice, or its settings alone, and returns how many were unmarked. */
static int new_pairs(const Suite *s, const Choice *c, guint8 *seen, gboolean mark)
{
  int n = 0;

  for (int a = 0; a < FACTORS; a++)
    for (int b = s->covers ? a : a + 1; b < (s->covers ? a + 1 : FACTORS); b++) {
      guint8 *at = &seen[pair_index(a, c->value[a], b, c->value[b])];
      n += !*at;
      *at |= mark;
    }
  return n;
}

static int case_of(const Plan *plan, const Model *model)
{
  if (plan->pp > 1 && LAYOUT(plan)->pipeline.scatters_sends)
    return CASE_SCATTERED;
  if (model->positions == POSITIONS_LEARNED && plan->sequence_parallel && plan->tp > plan->micro_batch)
    return CASE_PARTS;
  if (plan->zero >= 2 && plan->schedule->split && g_str_equal(plan->framework->name, "tdp-run"))
    return CASE_SPLIT;
  return CASE_NONE;
}

/* Settings without effect get their first value. */
static void settle(const Suite *s, Choice *c)
{
  if (c->value[MODEL] != MOE)
    c->value[EXPERT] = c->value[DROP] = 0;
  Plan plan = plan_of(s, c);
  if (!plan_experts_apart(&plan))
    c->value[DISPATCH] = 0;
  if (!MESH(&plan)->inner)
    c->value[ORDER] = 0;
}

static void take(const Suite *s, const Choice *c, guint8 *seen, GArray *drawn)
{
  new_pairs(s, c, seen, TRUE);
  g_array_append_val(drawn, *c);
}

/* Legal choices such that every pair that occurs in the pool occurs in one of them; ranks with the same weights, and
 * nothing else, in the first. */
static GArray *draw(const Suite *s)
{
  GArray *pool = g_array_new(FALSE, FALSE, sizeof(Choice)), *drawn = g_array_new(FALSE, FALSE, sizeof(Choice));
  g_autofree guint8 *seen = g_malloc0(FACTORS * 32 * FACTORS * 32);
  GRand *random = g_rand_new_with_seed(s->backend->size);

  for (int i = 0; i < POOL; i++) {
    Choice c;
    for (int f = 0; f < FACTORS; f++)
      c.value[f] = g_rand_int_range(random, 0, values[f]);
    settle(s, &c);
    if (!legal(s, &c))
      continue;
    const Plan plan = plan_of(s, &c);
    c.value[CASE] = s->covers ? case_of(&plan, s->models[c.value[MODEL]]) : CASE_NONE;
    g_array_append_val(pool, c);
  }
  const Choice plain = { .value[SOFTWARE] = G_N_ELEMENTS(software_list) - 1 };
  if (legal(s, &plain))
    take(s, &plain, seen, drawn);
  for (int gain = 1; gain > 0;) {
    int best = -1;
    gain = 0;
    for (guint i = 0; i < pool->len; i++) {
      int n = new_pairs(s, &g_array_index(pool, Choice, i), seen, FALSE);
      if (n > gain) {
        gain = n;
        best = i;
      }
    }
    if (best >= 0)
      take(s, &g_array_index(pool, Choice, best), seen, drawn);
  }
  g_rand_free(random);
  g_array_unref(pool);
  return drawn;
}

static void stop(void *data, const char *message)
{
  fprintf(stderr, "rank %d: %s\n", ((Suite *)data)->backend->rank, message);
  _exit(1);
}

/* Runs a plan; its steps and the last one's trace. */
static Trace *run(Suite *s, const Model *model, const Layout *layout, Backend *backend, const Program *program,
                  ExecStep steps[STEPS], double *host_bytes)
{
  ExecOptions options = exec_options_default();
  GError *error = NULL;

  options.fatal = stop;
  options.data = s;
  Exec *x = exec_new(model, layout, program, backend, &options, &error);
  if (!x)
    stop(s, error->message);
  for (int i = 0; i < s->steps; i++)
    exec_step(x, &steps[i]);
  Trace *trace = exec_trace(x);
  *host_bytes = x->memory.host_held;
  exec_free(x);
  return trace;
}

static double difference(const ExecStep *found, const ExecStep *expected, int steps)
{
  double worst = 0;

  for (int i = 0; i < steps; i++) {
    worst = fmax(worst, fabs(found[i].loss / expected[i].loss - 1));
    worst = fmax(worst, fabs(found[i].grad_norm / expected[i].grad_norm - 1));
  }
  return isnan(worst) ? INFINITY : worst;
}

/* Tasks of a lane one after another, and behind those of the row they wait for. */
static gboolean in_order(const Trace *trace, const Program *p)
{
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
    for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++) {
      const Span *span = &g_array_index(trace->spans, Span, p->lane_tasks[i]);
      const Task *task = &g_array_index(p->tasks, Task, p->lane_tasks[i]);
      if (i > p->lane_first[lane] && span->start < g_array_index(trace->spans, Span, p->lane_tasks[i - 1]).end)
        return FALSE;
      for (int d = task->first_dep; d < task->first_dep + task->n_deps; d++) {
        const Span *before = &g_array_index(trace->spans, Span, p->deps[d]);
        if (before->row == span->row && span->start < before->end)
          return FALSE;
      }
    }
  return TRUE;
}

/* Weights, gradients and optimizer states are what the program says, but for
 * parts that pad a unit to the data-parallel ranks. */
static gboolean memory_exact(const Trace *trace, const Program *p)
{
  for (int row = 0; row < p->n_rows; row++)
    for (int part = PART_WEIGHTS; part <= PART_OPTIMIZER; part++)
      if (fabs(trace->rows[row].static_bytes[part] - p->rows[row].static_bytes[part]) > 0.5)
        return FALSE;
  return TRUE;
}

/* Where the optimizer is on the host, 16 bytes are there for each parameter that has 8
 * on the device where it is not. */
static gboolean host_exact(double host_bytes, const Suite *s, const Model *model, const Plan *plan)
{
  Plan whole = *plan;
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&whole), s->cluster);
  int at[AXIS_COUNT];

  whole.offload.optimizer = STORE_DEVICE;
  mesh_coordinates(MESH(&whole), s->backend->rank, at);
  g_autoptr(Program) p = program_new(model, LAYOUT(&whole), s->cluster, prices);
  double states = p->rows[at[AXIS_PIPELINE]].static_bytes[PART_OPTIMIZER];
  return fabs(host_bytes - (plan->offload.optimizer ? 2 * states : 0)) < 0.5;
}

/* Whether each task moved what the program says, and as many blocks were made again. */
static gboolean moved_exactly(const Suite *s, const ExecStep *step)
{
  gboolean exact = step->remade == step->remade_expected;

  for (int kind = 0; kind < TASK_KIND_COUNT; kind++) {
    const ExecMoved *m = &step->moved[kind];
    exact &= m->differing == 0;
    if (m->differing > 0)
      printf("rank %d: %d of %d tasks %s moved %g elements, expected %g\n", s->backend->rank, m->differing, m->tasks,
             task_kind_names[kind], m->elements, m->expected);
  }
  if (step->remade != step->remade_expected)
    printf("rank %d: %d blocks made again, expected %d\n", s->backend->rank, step->remade, step->remade_expected);
  return exact;
}

/* Whether a pass of the row begins while the sum is on its way, or one that has begun computes meanwhile. */
static gboolean is_beside(const Trace *trace, const Program *p, int row, const Span *sum, gboolean begins)
{
  const int *first = &p->lane_first[row * LANE_COUNT];

  for (int k = first[LANE_COMPUTE]; k < first[LANE_COMPUTE + 1]; k++) {
    const Span *pass = &g_array_index(trace->spans, Span, p->lane_tasks[k]);
    gboolean late = begins ? pass->start >= sum->start : pass->end > sum->start;
    if (pass->kind == TASK_PASS && pass->start < sum->end && late)
      return TRUE;
  }
  return FALSE;
}

/* Sums of gradients beside which a pass is predicted to begin: beside how many one was measured, and all. */
static void count_beside(Suite *s, const Trace *trace, const Trace *predicted, const Program *p)
{
  for (int row = 0; row < p->n_rows; row++) {
    const int *first = &p->lane_first[row * LANE_COUNT + LANE_DATA];
    for (int i = first[0]; i < first[1]; i++) {
      int task = p->lane_tasks[i];
      const Span *expected = &g_array_index(predicted->spans, Span, task);
      if (expected->kind != TASK_REDUCE || !is_beside(predicted, p, row, expected, TRUE))
        continue;
      s->beside[0] += is_beside(trace, p, row, &g_array_index(trace->spans, Span, task), FALSE);
      s->beside[1]++;
    }
  }
}

static void make_reference(Suite *s, int which, int drop, int group)
{
  char message[EXEC_ERROR_SIZE] = "";
  Backend *alone = backend_open("cpu", &(BackendOptions) { .size = 1, .dtype = s->backend->dtype }, message);
  Cluster *one = fixture_cluster("cpu", 1);
  Plan plan = plan_default(s->models[which], s->software[0]);

  plan.global_batch = s->sequences;
  plan.micro_batch = group;
  plan.precision = DTYPE_FP32;
  set_drops(&plan, drop);
  const Layout *layout = LAYOUT(&plan);
  g_autoptr(PriceTable) prices = price_table_new(s->models[which], layout, one);
  g_autoptr(Program) program = program_new(s->models[which], layout, one, prices);
  double host_bytes;
  trace_free(run(s, s->models[which], layout, alone, program, s->reference[which][drop][group - 1], &host_bytes));
  alone->free(alone);
  cluster_free(one);
}

/* One rank's steps with the same drops; without drops it is no matter what is routed together. */
static const ExecStep *reference_of(Suite *s, const Choice *c, const Plan *plan)
{
  int which = c->value[MODEL], drop = c->value[DROP], group = drop > 0 ? group_of(plan) : 1;

  if (!s->made[which][drop][group - 1])
    make_reference(s, which, drop, group);
  s->made[which][drop][group - 1] = TRUE;
  return s->reference[which][drop][group - 1];
}

static const char *dispatch_label(const Plan *plan)
{
  return plan_experts_apart(plan) && plan->dispatch == DISPATCH_GATHER ? ", tokens gathered" : "";
}

static void print_found(const Suite *s, double worst, gboolean ordered, gboolean exact, gboolean moved,
                        const double errors[HELD_KINDS])
{
  if (s->backend->rank > 0) /* a failure of its own */
    printf("rank %d: ", s->backend->rank);
  printf("%.1e%s%s%s activations %+.1f, buffers %+.1f, peak %+.1f %%\n", worst, ordered ? "" : " OUT OF ORDER",
         exact ? "" : " MEMORY", moved ? "" : " MOVED", 100 * errors[HELD_ACTIVATIONS], 100 * errors[HELD_BUFFERS],
         100 * errors[HELD_ALL]);
}

static void check_plan(Suite *s, const Choice *c)
{
  const Model *model = s->models[c->value[MODEL]];
  Plan plan = plan_of(s, c);
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), s->cluster);
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), s->cluster, prices);
  ExecStep steps[STEPS];
  double host_bytes;
  g_autofree char *label = plan_label(&plan);

  if (s->backend->rank == 0)
    printf("%-6s %-13s %s%s%s, ", model->name, plan.framework->name, label, dispatch_label(&plan),
           drop_labels[c->value[DROP]]);
  fflush(stdout); /* names the plan that hangs */
  g_autoptr(Trace) trace = run(s, model, LAYOUT(&plan), s->backend, program, steps, &host_bytes);
  g_autoptr(Trace) predicted = simulate(program);
  double worst = difference(steps, reference_of(s, c, &plan), s->steps);
  gboolean moved = moved_exactly(s, &steps[s->steps - 1]);
  double errors[HELD_KINDS];

  held_errors(s->cluster, model, &plan, program, trace, errors);
  count_beside(s, trace, predicted, program);
  gboolean ordered = in_order(trace, program) && (program->opportunistic || in_order(predicted, program));
  gboolean exact = memory_exact(trace, program) && steps[s->steps - 1].held_bytes == steps[0].held_bytes &&
                   host_exact(host_bytes, s, model, &plan);

  s->worst = fmax(s->worst, worst);
  for (int kind = 0; kind < HELD_KINDS && g_str_equal(plan.framework->name, "tdp-run"); kind++)
    if (fabs(errors[kind]) > fabs(s->worst_held[kind]))
      s->worst_held[kind] = errors[kind];
  gboolean bad = worst > TOLERANCE || !ordered || !exact || !moved || far_from_predicted(&plan, errors);
  s->run++;
  s->failed += bad;
  s->ordered += ordered;
  if (s->backend->rank == 0 || bad)
    print_found(s, worst, ordered, exact, moved, errors);
  fflush(stdout);
}

static void suite_init(Suite *s, const char *backend, int steps, int sequences, int layers)
{
  *s = (Suite) { .steps = CLAMP(steps, 1, STEPS), .sequences = sequences };
  s->backend = backend_open_rank(backend, EXEC_F32, &s->control);
  s->lasting = long_sums_start(s->backend);
  s->models[0] = fixture_gpt_plain(layers, 32, 8, 16, 61);
  s->models[1] = fixture_llama(layers, 32, 8, 4, 16, 61);
  for (gsize i = 0; i < G_N_ELEMENTS(software_list); i++) {
    s->software[i] = fixture_framework(software_list[i]);
    s->software[i]->main_params_copied = FALSE; /* this executor updates weights where they are */
  }
  s->models[MOE] = fixture_moe(layers, 32, 8, 16, 61, 4, 2, 16);
  s->cluster = fixture_cluster("cpu", s->backend->size);
  s->cluster->host_memory_bytes = 0x1p34; /* cores have no other */
  s->cluster->host_memory_bytes_per_s = 1e10;
}

static void suite_clear(Suite *s)
{
  s->backend->free(s->backend);
  if (s->lasting)
    long_sums_stop();
  control_close(s->control);
  cluster_free(s->cluster);
  for (gsize i = 0; i < G_N_ELEMENTS(software_list); i++)
    framework_free(s->software[i]);
  for (int i = 0; i < MODELS; i++)
    model_free(s->models[i]);
}

int main(int argc, char **argv)
{
  Suite s;
  guint part = 1, parts = 1;

  suite_init(&s, argc > 3 ? argv[3] : "cpu", argc > 4 ? atoi(argv[4]) : STEPS, argc > 5 ? atoi(argv[5]) : SEQUENCES,
             argc > 6 ? atoi(argv[6]) : LAYERS);
  if (argc > 2 && sscanf(argv[2], "%u/%u", &part, &parts) != 2)
    s.only = argv[2];
  s.covers = argc > 1 && g_str_equal(argv[1], "cover");
  GArray *plans = draw(&s);
  if (argc > 1 && !g_str_equal(argv[1], "all") && !s.covers)
    g_array_set_size(plans, MIN(plans->len, strtoul(argv[1], NULL, 10)));
  for (guint i = part - 1; i < plans->len; i += MAX(parts, 1))
    check_plan(&s, &g_array_index(plans, Choice, i));
  if (s.backend->rank == 0)
    printf("%d ranks: %d plans, %d failed, worst difference %.1e, %d in the simulator's order on every lane, "
           "passes beside %d of %d sums; of tdp-run's activations at most %+.1f, buffers %+.1f, peak %+.1f %% off\n",
           s.backend->size, s.run, s.failed, s.worst, s.ordered, s.beside[0], s.beside[1],
           100 * s.worst_held[HELD_ACTIVATIONS], 100 * s.worst_held[HELD_BUFFERS], 100 * s.worst_held[HELD_ALL]);
  g_array_unref(plans);
  suite_clear(&s);
  return s.failed > 0 || s.beside[0] < (s.lasting ? 0.75 : 0.02) * s.beside[1];
}
