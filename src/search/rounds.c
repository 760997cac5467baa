#include "search/rounds.h"

#include "cost/sharded.h"
#include "search/bound.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

typedef struct {
  Simulation *simulation;
  PriceTable *prices;
} Job;

struct Rounds {
  const Model *model;
  const Cluster *cluster;
  PriceCache *prices;
  Journal *journal;
  const GArray *simulated;
  Stop *stop;
  GThreadPool *pool;
  GMutex mutex;
  GCond done;
  int left;
  gint halted; /* the stop was heard: simulations that have not begun are left out */
};

/* Collectives of a row's data lane that are one without overlap. */
typedef struct {
  double seconds, bytes; /* of the call under way */
  const Segment *segment;
  guint chunk, micro;
  double excess_s;       /* what finished ones take more than one call each */
} Calls;

static void end_call(Calls *c, const StateLayout *states, const Cluster *site)
{
  const Segment *s = c->segment;

  if (s)
    c->excess_s += fmax(0, c->seconds - sharded_cost(states, site, s->collective, c->bytes, &s->group, 1).seconds);
  c->seconds = c->bytes = 0;
}

static void add_piece(Calls *c, const StateLayout *states, const Cluster *site, const Span *span,
                      const Segment *segment)
{
  if (!c->segment || c->chunk != span->chunk || c->micro != span->micro)
    end_call(c, states, site);
  c->segment = segment;
  c->chunk = span->chunk;
  c->micro = span->micro;
  c->seconds += segment->seconds;
  c->bytes += segment->comm_bytes;
}

/* What a step gains at most by reducing gradients in whole chunks. */
static double gradient_gain(const Trace *trace, const Cluster *cluster, const Layout *l)
{
  g_autofree Calls (*rows)[2] = g_malloc0_n(trace->n_rows, sizeof *rows);
  double sum = 0, most = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *segment = &g_array_index(trace->segments, Segment, span->segment);
    if (span->kind == TASK_REDUCE) /* sums over copies of a part are calls of their own */
      add_piece(&rows[span->row][segment->collective == COLLECTIVE_ALL_REDUCE], &l->states[0],
                mesh_site(&l->mesh, cluster, span->row), span, segment);
  }
  for (int row = 0; row < trace->n_rows; row++) {
    double excess_s = 0;
    for (int across = 0; across < 2; across++) {
      end_call(&rows[row][across], &l->states[0], mesh_site(&l->mesh, cluster, row));
      excess_s += rows[row][across].excess_s;
    }
    sum += excess_s;
    most = MAX(most, excess_s);
  }
  return l->states[0].zero >= 2 ? sum : most;
}

/* What a step gains at most by gathering parameters at its end, in one call. */
static double parameter_gain(const Trace *trace, const Cluster *cluster, const Layout *l)
{
  g_autofree Calls *rows = g_new0(Calls, trace->n_rows);
  double longest = 0, shortest = INFINITY;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *segment = &g_array_index(trace->segments, Segment, span->segment);
    if (span->kind != TASK_GATHER)
      continue;
    rows[span->row].seconds += segment->seconds;
    rows[span->row].bytes += segment->comm_bytes;
    rows[span->row].segment = segment;
  }
  for (int row = 0; row < trace->n_rows; row++) {
    const Calls *r = &rows[row];
    longest = MAX(longest, r->seconds);
    const Cluster *site = mesh_site(&l->mesh, cluster, row);
    shortest = !r->segment ? 0 : fmin(shortest, sharded_cost(&l->states[0], site, r->segment->collective, r->bytes,
                                                             &r->segment->group, 1).seconds);
  }
  return MAX(0, longest - shortest);
}

/* Whether all is as sharding_options_default() has it. */
static gboolean shards_plainly(const ShardingOptions *o)
{
  gboolean quantized = o->quantized_weights || o->quantized_gradients;

  return o->bucket <= 0 && o->prefetch < 0 && o->live <= 0 && o->persistence <= 0 && !o->keeps_gathered &&
         !o->no_sync && o->secondary == 0 && !quantized && o->tiling <= 1 && !o->bucket_view;
}

/* What runs in an order found at run time, pairs that stretch each other, weights that
 * are summed over two kinds of groups, and what goes to the host follow no such rule; nor do passes beyond a cache, as
 * with an overlap off a rank may hold less, and all of it be in the cache. */
static gboolean ruled(const Layout *l)
{
  return !l->pipeline.schedule->opportunistic && !l->passes.experts_apart && !offload_any(&l->states[0].offload) &&
         !l->passes.framework->single_process && !l->states[0].stages_hold && shards_plainly(&l->states[0].sharding);
}

static double find_slack(const Program *program, const Trace *trace, const Layout *layout)
{
  gboolean slowed = FALSE;

  if (!ruled(layout))
    return INFINITY;
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *segment = &g_array_index(trace->segments, Segment, span->segment);
    if (span->paired || segment->beyond_s > 0)
      return INFINITY;
    slowed |= span->kind == TASK_PASS && span->end - span->start > (1 + 1e-10) * segment->seconds;
  }
  return slowed ? fmax(0, trace->end_s - longest_path(program, NULL)) : 0;
}

void simulation_complete(const Model *model, const Cluster *cluster, const PriceTable *prices, Simulation *s)
{
  const Layout layout = layout_of(&s->plan);
  const StateLayout *states = &layout.states[0];
  g_autoptr(Program) program = program_new(model, &layout, cluster, prices);
  g_autoptr(Trace) trace = simulate(program);

  trace_metrics(trace, &s->metrics);
  s->slack_s = find_slack(program, trace, &layout);
  s->gradients_s = states->overlap_gradients ? gradient_gain(trace, cluster, &layout) : 0;
  s->parameters_s = states->gathers_ahead && states->zero < 3 ? parameter_gain(trace, cluster, &layout) : 0;
  s->trace = s->keeps ? g_steal_pointer(&trace) : NULL;
  s->done = TRUE;
}

static void simulate_job(gpointer data, gpointer user_data)
{
  Rounds *r = user_data;
  const Job *job = data;

  if (!g_atomic_int_get(&r->halted))
    simulation_complete(r->model, r->cluster, job->prices, job->simulation);
  g_mutex_lock(&r->mutex);
  if (--r->left == 0)
    g_cond_signal(&r->done);
  g_mutex_unlock(&r->mutex);
}

/* NULL where the caller's own thread is enough, or the system grants no other. It grows by one at a time: GLib 2.90
 * does not survive a pool of which some threads begin and a later one cannot. */
static GThreadPool *pool_new(Rounds *r, int threads)
{
  int wanted = MIN(threads > 0 ? threads : (int)g_get_num_processors(), ROUND);
  GThreadPool *pool = wanted > 1 ? g_thread_pool_new(simulate_job, r, 1, TRUE, NULL) : NULL;

  for (int n = 2; pool && n <= wanted; n++)
    if (!g_thread_pool_set_max_threads(pool, n, NULL)) {
      g_thread_pool_set_max_threads(pool, n - 1, NULL);
      break;
    }
  if (pool && g_thread_pool_get_num_threads(pool) == 0)
    g_thread_pool_free(g_steal_pointer(&pool), TRUE, FALSE);
  return pool;
}

Rounds *rounds_new(const Model *model, const Cluster *cluster, PriceCache *prices, Journal *journal, const GArray *simulated,
                   Stop *stop, int threads)
{
  Rounds *r = g_new0(Rounds, 1);

  r->model = model;
  r->cluster = cluster;
  r->prices = prices;
  r->journal = journal;
  r->simulated = simulated;
  r->stop = stop;
  g_mutex_init(&r->mutex);
  g_cond_init(&r->done);
  r->pool = pool_new(r, threads);
  return r;
}

void rounds_free(Rounds *r)
{
  if (!r)
    return;
  if (r->pool)
    g_thread_pool_free(r->pool, FALSE, TRUE);
  g_mutex_clear(&r->mutex);
  g_cond_clear(&r->done);
  g_free(r);
}

/* What the journal knows of a plan, all but the parts of its time and memory. */
static gboolean recall(const Rounds *r, Simulation *s)
{
  JournalEntry e;

  if (!journal_find(r->journal, s->index, &e))
    return FALSE;
  s->metrics = (Metrics) { .iteration_s = e.step_s, .peak_memory_bytes = e.memory_bytes,
                            .capacity_bytes = r->cluster->device.memory_bytes, .critical_row = -1 };
  s->slack_s = e.slack_s;
  s->gradients_s = e.gradients_s;
  s->parameters_s = e.parameters_s;
  s->done = TRUE;
  return TRUE;
}

/* NULL: none. */
static const Simulation *find_simulated(const GArray *simulated, const Plan *plan)
{
  for (guint i = 0; simulated && i < simulated->len; i++) {
    const Simulation *s = &g_array_index(simulated, Simulation, i);
    if (memcmp(&s->plan, plan, sizeof *plan) == 0)
      return s;
  }
  return NULL;
}

const Metrics *simulation_among(GArray *simulated, const Model *model, const Cluster *cluster, const Plan *plan)
{
  const Simulation *known = find_simulated(simulated, plan);

  if (!known) {
    const Layout layout = layout_of(plan);
    g_autoptr(PriceTable) prices = price_table_new(model, &layout, cluster);
    Simulation own = { 0 };
    memcpy(&own.plan, plan, sizeof *plan);
    simulation_complete(model, cluster, prices, &own);
    g_array_append_val(simulated, own);
    known = &g_array_index(simulated, Simulation, simulated->len - 1);
  }
  return &known->metrics;
}

/* What is known of a plan that was simulated before. */
static gboolean repeat(const Rounds *r, Simulation *s)
{
  const Simulation *known = s->keeps ? NULL : find_simulated(r->simulated, &s->plan);

  if (!known)
    return FALSE;
  s->metrics = known->metrics;
  s->slack_s = known->slack_s;
  s->gradients_s = known->gradients_s;
  s->parameters_s = known->parameters_s;
  s->done = TRUE;
  return TRUE;
}

static void listen(Rounds *r)
{
  g_atomic_int_set(&r->halted, stop_asked(r->stop));
}

/* Microseconds between two looks at the stop while others simulate. */
#define LISTENED_EVERY 20000

static void run_jobs(Rounds *r, Job *jobs, int n)
{
  r->left = n;
  for (int i = 0; i < n; i++) {
    listen(r);
    if (r->pool)
      g_thread_pool_push(r->pool, &jobs[i], NULL);
    else
      simulate_job(&jobs[i], r);
  }
  g_mutex_lock(&r->mutex);
  while (r->left > 0)
    if (!g_cond_wait_until(&r->done, &r->mutex, g_get_monotonic_time() + LISTENED_EVERY))
      listen(r);
  g_mutex_unlock(&r->mutex);
}

void rounds_run(Rounds *r, Simulation *simulations, int n)
{
  Job jobs[ROUND];
  int left = 0;

  for (int i = 0; i < n; i++)
    if (!recall(r, &simulations[i]) && !repeat(r, &simulations[i]) && !stop_asked(r->stop))
      jobs[left++] = (Job) { &simulations[i], price_cache_own(r->prices, &simulations[i].plan) };
  run_jobs(r, jobs, left);
  for (int i = 0; i < left; i++)
    price_table_free(jobs[i].prices);
  for (int i = 0; i < n; i++) {
    const Simulation *s = &simulations[i];
    if (!s->done)
      continue;
    double bytes = memory_in_room(r->cluster, s->metrics.peak_memory_bytes, s->metrics.capacity_bytes);
    journal_add(r->journal, &(JournalEntry) { s->index, s->metrics.iteration_s, bytes, s->slack_s, s->gradients_s,
                                              s->parameters_s });
  }
  journal_flush(r->journal);
}

int ranked_by_bound(gconstpointer a, gconstpointer b)
{
  const Ranked *x = a, *y = b;

  if (x->bound_s != y->bound_s)
    return x->bound_s < y->bound_s ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}
