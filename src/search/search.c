#include "search/search.h"

#include "search/candidates.h"
#include "search/fingerprint.h"
#include "search/journal.h"
#include "sim/simulate.h"

#include <math.h>

/* Plans simulated at once between updates of the incumbent; fixed, so that the
 * counts do not depend on threads. */
#define ROUND 8

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options;
  const Objective *objective;
  SearchResult *result;
  GArray *candidates; /* Candidate */
  GArray *over;       /* Candidate: legal, but too large */
  Candidates store;   /* what their plans are */
  PriceCache *prices;
  Journal *journal;
  GThreadPool *pool;
  Candidate picks[ROUND]; /* of a round */
  Found found[ROUND];
  GMutex mutex;
  GCond done;
  int left;
} Search;

const char *reject_name(int reason)
{
  return reason == REJECT_MEMORY ? "does not fit in memory" : plan_rule_names[reason];
}

const char *settled_name(int how)
{
  static const char *const names[] = { "bounded", "simulated", "open" };
  return how < REJECT_COUNT ? reject_name(how) : names[how - REJECT_COUNT];
}

static Plan plan_of(const Search *s, const Candidate *c)
{
  return candidate_plan(&s->store, c);
}

static void settled(const Search *s, const Plan *plan, int how, double value, gint64 plans)
{
  if (s->options->audit)
    s->options->audit(s->options->data, plan, how, value, plans);
}

static void reject(Search *s, const Plan *plan, int reason, double value, gint64 plans)
{
  if (s->result->rejected[reason] == 0)
    s->result->sample[reason] = *plan;
  s->result->rejected[reason] += plans;
  s->result->grouped += plans > 1 ? plans : 0;
  settled(s, plan, reason, value, plans);
}

static void reject_rule(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  reject(data, plan, rule, NAN, plans);
}

/* A plan that is too large, with what is known of its need. */
static void put_over(Search *s, Candidate candidate, const Plan *plan, double memory_bytes)
{
  candidate.memory_bytes = memory_bytes;
  reject(s, plan, REJECT_MEMORY, memory_bytes, 1);
  g_array_append_val(s->over, candidate);
}

static double value_of(const Search *s, const Objective *objective, const Plan *plan, double step_s,
                       double memory_bytes)
{
  return objective ? objective->value(plan, s->cluster, step_s, memory_bytes) : 0;
}

/* Bounds of a legal plan; one that cannot fit is put aside. */
static void bound_leaf(gpointer data, const SpaceLeaf *leaf)
{
  Search *s = data;
  Candidate c = candidates_add(&s->store, leaf);

  c.memory_bytes = bound_memory(leaf->plan, leaf->ranks);
  if (c.memory_bytes > s->cluster->device.memory_bytes) {
    put_over(s, c, leaf->plan, c.memory_bytes);
    return;
  }
  c.bound_s = bound_time(s->model, leaf->plan, s->cluster, leaf->sums, leaf->ends);
  c.value = value_of(s, s->objective, leaf->plan, c.bound_s, c.memory_bytes);
  g_array_append_val(s->candidates, c);
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

  if (x->value != y->value)
    return x->value < y->value ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static double need_of(const Search *s, const Metrics *m)
{
  return memory_in_room(s->cluster, m->peak_memory_bytes, m->capacity_bytes);
}

/* Simulates the plan that is there. */
static void complete(const Search *s, Found *found)
{
  g_autoptr(Trace) trace = simulate_plan(s->model, s->cluster, &found->plan);
  const Metrics *m = &found->metrics;

  trace_metrics(trace, &found->metrics);
  found->value = value_of(s, s->objective, &found->plan, m->iteration_s, need_of(s, m));
  found->second = value_of(s, s->options->second, &found->plan, m->iteration_s, need_of(s, m));
}

static Found evaluate(const Search *s, const Candidate *c)
{
  Found found = { .plan = plan_of(s, c), .bound_s = c->bound_s, .index = c->index };

  complete(s, &found);
  return found;
}

/* What the journal knows of a plan, all but the parts of its time and memory. */
static gboolean recall(const Search *s, const Candidate *c, Found *out)
{
  JournalEntry e;

  if (!journal_find(s->journal, c->index, &e))
    return FALSE;
  *out = (Found) { .plan = plan_of(s, c), .bound_s = c->bound_s, .index = c->index,
                   .metrics = { .iteration_s = e.step_s, .peak_memory_bytes = e.memory_bytes,
                                .capacity_bytes = s->cluster->device.memory_bytes, .critical_row = -1 } };
  out->value = value_of(s, s->objective, &out->plan, e.step_s, e.memory_bytes);
  out->second = value_of(s, s->options->second, &out->plan, e.step_s, e.memory_bytes);
  return TRUE;
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

/* The journal answers for what it knows; the rest is simulated side by side. */
static void run_round(Search *s, int n)
{
  gboolean known[ROUND];

  s->left = 0;
  for (int i = 0; i < n; i++) {
    known[i] = recall(s, &s->picks[i], &s->found[i]);
    s->left += !known[i];
  }
  for (int i = 0; i < n; i++)
    if (!known[i])
      g_thread_pool_push(s->pool, GINT_TO_POINTER(i + 1), NULL);
  g_mutex_lock(&s->mutex);
  while (s->left > 0)
    g_cond_wait(&s->done, &s->mutex);
  g_mutex_unlock(&s->mutex);
  for (int i = 0; i < n; i++) {
    const Metrics *m = &s->found[i].metrics;
    journal_add(s->journal, &(JournalEntry) { s->found[i].index, m->iteration_s, need_of(s, m) });
  }
  journal_flush(s->journal);
}

static gboolean beats(const Found *a, const Found *b)
{
  return a->value <= b->value && a->second <= b->second;
}

/* Keeps the list sorted by value; earlier ones stay first among equals. On a
 * front, whatever is beaten leaves. */
static void keep(const Search *s, const Found *found)
{
  GArray *best = s->result->best;
  gboolean front = s->options->second != NULL;
  guint at = best->len;

  for (guint i = best->len; front && i-- > 0;) {
    const Found *other = &g_array_index(best, Found, i);
    if (beats(other, found))
      return;
    if (beats(found, other))
      g_array_remove_index(best, i);
  }
  for (at = best->len; at > 0 && g_array_index(best, Found, at - 1).value > found->value; at--)
    ;
  if (front || at < (guint)s->options->top)
    g_array_insert_val(best, at, *found);
  if (!front && best->len > (guint)s->options->top)
    g_array_set_size(best, s->options->top);
}

/* Whether plans with these bounds may still be among the best. */
static gboolean promises(const Search *s, double value, double second)
{
  const GArray *best = s->result->best;
  const Found bound = { .value = value, .second = second };

  if (!s->options->second)
    return best->len < (guint)s->options->top || value < g_array_index(best, Found, s->options->top - 1).value;
  for (guint i = 0; i < best->len; i++)
    if (beats(&g_array_index(best, Found, i), &bound))
      return FALSE;
  return TRUE;
}

static void skip(Search *s, const Candidate *c, double value, gboolean stopped)
{
  SearchResult *r = s->result;

  *(stopped ? &r->open : &r->bounded) += 1;
  r->least_bound = MIN(r->least_bound, value);
  if (s->options->audit) {
    Plan plan = plan_of(s, c);
    settled(s, &plan, stopped ? SETTLED_OPEN : SETTLED_BOUNDED, value, 1);
  }
}

static double second_bound(const Search *s, const Plan *plan, const Candidate *c, double memory_bytes)
{
  return value_of(s, s->options->second, plan, c->bound_s, memory_bytes);
}

/* Picks the next plans whose bounds promise something and whose order of passes
 * fits; returns how many. */
static int pick_round(Search *s, guint *next)
{
  int n = 0;

  for (; n < ROUND && *next < s->candidates->len; (*next)++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, *next);
    Plan plan = plan_of(s, c);
    if (!promises(s, c->value, second_bound(s, &plan, c, c->memory_bytes))) {
      skip(s, c, c->value, FALSE);
      continue;
    }
    double memory = bound_memory_by_order(s->model, &plan, price_cache_sums(s->prices, &plan));
    double value = value_of(s, s->objective, &plan, c->bound_s, memory);
    if (memory > s->cluster->device.memory_bytes)
      put_over(s, *c, &plan, memory);
    else if (!promises(s, value, second_bound(s, &plan, c, memory)))
      skip(s, c, value, FALSE);
    else
      s->picks[n++] = *c;
  }
  return n;
}

static void settle_round(Search *s, int n)
{
  SearchResult *r = s->result;

  for (int i = 0; i < n; i++) {
    const Found *f = &s->found[i];
    if (f->metrics.peak_memory_bytes > f->metrics.capacity_bytes) {
      put_over(s, s->picks[i], &f->plan, need_of(s, &f->metrics));
      continue;
    }
    r->simulated++;
    settled(s, &f->plan, SETTLED_SIMULATED, f->value, 1);
    keep(s, f);
  }
}

/* Share by which a plan not yet settled could be better than the best found. */
static double gap_at(const Search *s, guint next)
{
  const GArray *best = s->result->best;

  if (next >= s->candidates->len)
    return 0;
  if (best->len == 0)
    return 1;
  return MAX(0, 1 - g_array_index(s->candidates, Candidate, next).value / g_array_index(best, Found, 0).value);
}

static gboolean stops(const Search *s, guint next)
{
  const SearchResult *r = s->result;
  SearchProgress at = { .candidates = s->candidates->len, .settled = next, .simulated = r->simulated,
                        .best = r->best->len ? &g_array_index(r->best, Found, 0) : NULL, .gap = gap_at(s, next) };

  return s->options->watch && s->options->watch(s->options->data, &at);
}

static void run_rounds(Search *s)
{
  guint next = 0;
  int n;

  while (!stops(s, next) && (n = pick_round(s, &next)) > 0) {
    run_round(s, n);
    settle_round(s, n);
  }
  s->result->gap = gap_at(s, next);
  for (; next < s->candidates->len; next++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, next);
    skip(s, c, c->value, TRUE);
  }
}

/* Those that the journal knew only in brief. */
static void complete_best(Search *s)
{
  for (guint i = 0; i < s->result->best->len; i++) {
    Found *f = &g_array_index(s->result->best, Found, i);
    if (f->metrics.critical_row < 0)
      complete(s, f);
  }
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
  for (guint i = s->options->over ? 0 : s->over->len, tries = 0; i < s->over->len && !r->has_over && tries < OVER_TRIES;
       i++) {
    Candidate *c = &g_array_index(s->over, Candidate, i);
    Plan plan = plan_of(s, c);
    c->bound_s = bound_time(s->model, &plan, s->cluster, price_cache_sums(s->prices, &plan), NULL);
    if (c->bound_s >= OVER_GAIN * best)
      continue;
    tries++;
    r->over = evaluate(s, c);
    r->has_over = r->over.metrics.iteration_s < best;
  }
}

static gboolean open_journal(Search *s, GError **error)
{
  if (!s->options->state)
    return TRUE;
  g_autofree char *fingerprint = search_fingerprint(s->cluster, s->options, s->candidates);
  s->journal = journal_open(s->options->state, fingerprint, error);
  return s->journal != NULL;
}

static void search_init(Search *s)
{
  int threads = s->options->threads > 0 ? s->options->threads : (int)g_get_num_processors();

  s->objective = s->options->objective ? s->options->objective : &objectives[0];
  s->result = g_new0(SearchResult, 1);
  s->result->least_bound = INFINITY;
  s->result->best = g_array_new(FALSE, FALSE, sizeof(Found));
  s->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->over = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->prices = price_cache_new(s->model, s->cluster);
  candidates_init(&s->store, s->prices);
  s->pool = g_thread_pool_new(evaluate_job, s, threads, TRUE, NULL);
  g_mutex_init(&s->mutex);
  g_cond_init(&s->done);
}

static void search_clear(Search *s)
{
  g_thread_pool_free(s->pool, FALSE, TRUE);
  candidates_clear(&s->store);
  price_cache_free(s->prices);
  g_array_unref(s->candidates);
  g_array_unref(s->over);
  g_mutex_clear(&s->mutex);
  g_cond_clear(&s->done);
}

SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options, GError **error)
{
  Search s = { .model = model, .cluster = cluster, .options = options };

  const SpaceVisitor visitor = { bound_leaf, reject_rule, &s };

  search_init(&s);
  s.result->space = space_walk(model, cluster, options, s.prices, &visitor);
  g_array_sort(s.candidates, by_bound);
  if (open_journal(&s, error)) {
    run_rounds(&s);
    complete_best(&s);
    note_over(&s);
  }
  if (options->state && (!s.journal || !journal_close(s.journal, error)))
    g_clear_pointer(&s.result, search_result_free);
  search_clear(&s);
  return s.result;
}

void search_result_free(SearchResult *r)
{
  if (!r)
    return;
  g_array_unref(r->best);
  g_free(r);
}
