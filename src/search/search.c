#include "search/search.h"

#include "search/space.h"
#include "sim/simulate.h"

/* Plans simulated at once between updates of the incumbent; fixed, so that the
 * counts do not depend on threads. */
#define ROUND 8

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options;
  SearchResult *result;
  GArray *candidates; /* Candidate */
  GArray *over;       /* Candidate: legal, but too large */
  PriceCache *prices;
  GThreadPool *pool;
  Candidate picks[ROUND]; /* of a round */
  Found found[ROUND];
  GMutex mutex;
  GCond done;
  int left;
} Search;

static const PriceSums *sums_of(Search *s, const Plan *plan)
{
  return price_cache_sums(s->prices, plan);
}

/* Bounds of every legal plan; those that cannot fit are counted and put aside. */
static void bound_all(Search *s)
{
  guint kept = 0;

  for (guint i = 0; i < s->candidates->len; i++) {
    Candidate c = g_array_index(s->candidates, Candidate, i);
    const PriceSums *sums = sums_of(s, &c.plan);
    c.memory_bytes = bound_memory(s->model, &c.plan, sums);
    if (c.memory_bytes > s->cluster->device.memory_bytes) {
      s->result->rejected[REJECT_MEMORY]++;
      g_array_append_val(s->over, c);
      continue;
    }
    c.bound_s = bound_time(s->model, &c.plan, s->cluster, sums);
    g_array_index(s->candidates, Candidate, kept++) = c;
  }
  g_array_set_size(s->candidates, kept);
}

static int by_memory(gconstpointer a, gconstpointer b)
{
  const Candidate *x = a, *y = b;

  if (x->memory_bytes != y->memory_bytes)
    return x->memory_bytes < y->memory_bytes ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int by_bound(gconstpointer a, gconstpointer b)
{
  const Candidate *x = a, *y = b;

  if (x->bound_s != y->bound_s)
    return x->bound_s < y->bound_s ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static Found evaluate(const Search *s, const Candidate *c)
{
  Found found = { .plan = c->plan, .bound_s = c->bound_s };
  g_autoptr(Trace) trace = simulate_plan(s->model, s->cluster, &c->plan);

  trace_metrics(trace, &found.metrics);
  return found;
}

static void evaluate_job(gpointer data, gpointer user_data)
{
  Search *s = user_data;
  int i = GPOINTER_TO_INT(data) - 1;
  Found found = evaluate(s, &s->picks[i]);

  g_mutex_lock(&s->mutex);
  s->found[i] = found;
  if (--s->left == 0)
    g_cond_signal(&s->done);
  g_mutex_unlock(&s->mutex);
}

static void run_round(Search *s, int n)
{
  s->left = n;
  for (int i = 0; i < n; i++)
    g_thread_pool_push(s->pool, GINT_TO_POINTER(i + 1), NULL);
  g_mutex_lock(&s->mutex);
  while (s->left > 0)
    g_cond_wait(&s->done, &s->mutex);
  g_mutex_unlock(&s->mutex);
}

/* Keeps the list sorted by time; earlier ones stay first among equals. */
static void keep(SearchResult *r, const Found *found, int top)
{
  guint at = r->best->len;

  while (at > 0 && g_array_index(r->best, Found, at - 1).metrics.iteration_s > found->metrics.iteration_s)
    at--;
  if (at < (guint)top)
    g_array_insert_val(r->best, at, *found);
  if (r->best->len > (guint)top)
    g_array_set_size(r->best, top);
}

static double limit_of(const SearchResult *r, int top)
{
  return r->best->len < (guint)top ? G_MAXDOUBLE : g_array_index(r->best, Found, top - 1).metrics.iteration_s;
}

/* A plan that turned out too large, with what is known of its need. */
static void put_over(Search *s, Candidate candidate, double memory_bytes)
{
  candidate.memory_bytes = memory_bytes;
  s->result->rejected[REJECT_MEMORY]++;
  g_array_append_val(s->over, candidate);
}

/* Picks the next plans whose bound beats the limit and whose order of passes
 * fits; returns how many. */
static int pick_round(Search *s, guint *next, double limit)
{
  int n = 0;

  for (; n < ROUND && *next < s->candidates->len; (*next)++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, *next);
    if (c->bound_s >= limit)
      break;
    double memory = bound_memory_by_order(s->model, &c->plan, sums_of(s, &c->plan));
    if (memory > s->cluster->device.memory_bytes)
      put_over(s, *c, memory);
    else
      s->picks[n++] = *c;
  }
  return n;
}

static void run_rounds(Search *s)
{
  SearchResult *r = s->result;
  int top = s->options->top, n;
  guint next = 0;

  while ((n = pick_round(s, &next, limit_of(r, top))) > 0) {
    run_round(s, n);
    for (int i = 0; i < n; i++) {
      if (s->found[i].metrics.peak_memory_bytes > s->cluster->device.memory_bytes) {
        put_over(s, s->picks[i], s->found[i].metrics.peak_memory_bytes);
        continue;
      }
      r->simulated++;
      keep(r, &s->found[i], top);
    }
  }
  r->bounded = s->candidates->len - next;
}

/* The least memory that would buy a faster plan: of the plans whose bound is
 * clearly below the best time, a few are tried in order of need. */
#define OVER_TRIES 6
#define OVER_GAIN 0.995

static void note_over(Search *s)
{
  SearchResult *r = s->result;

  g_array_sort(s->over, by_memory);
  if (r->best->len == 0) {
    r->has_least = s->over->len > 0;
    if (r->has_least)
      r->least = evaluate(s, &g_array_index(s->over, Candidate, 0));
    return;
  }
  double best = g_array_index(r->best, Found, 0).metrics.iteration_s;
  for (guint i = s->options->over ? 0 : s->over->len, tries = 0; i < s->over->len && !r->has_over && tries < OVER_TRIES; i++) {
    Candidate *c = &g_array_index(s->over, Candidate, i);
    c->bound_s = bound_time(s->model, &c->plan, s->cluster, sums_of(s, &c->plan));
    if (c->bound_s >= OVER_GAIN * best)
      continue;
    tries++;
    r->over = evaluate(s, c);
    r->has_over = r->over.metrics.iteration_s < best;
  }
}

SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  SearchResult *r = g_new0(SearchResult, 1);
  int threads = options->threads > 0 ? options->threads : (int)g_get_num_processors();
  Search s = { .model = model, .cluster = cluster, .options = options, .result = r };

  r->best = g_array_new(FALSE, FALSE, sizeof(Found));
  s.candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s.over = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s.prices = price_cache_new(model, cluster);
  s.pool = g_thread_pool_new(evaluate_job, &s, threads, TRUE, NULL);
  g_mutex_init(&s.mutex);
  g_cond_init(&s.done);

  space_walk(model, cluster, options, s.prices, r, s.candidates);
  bound_all(&s);
  g_array_sort(s.candidates, by_bound);
  run_rounds(&s);
  note_over(&s);

  g_thread_pool_free(s.pool, FALSE, TRUE);
  price_cache_free(s.prices);
  g_array_unref(s.candidates);
  g_array_unref(s.over);
  g_mutex_clear(&s.mutex);
  g_cond_clear(&s.done);
  return r;
}

void search_result_free(SearchResult *r)
{
  if (!r)
    return;
  g_array_unref(r->best);
  g_free(r);
}
