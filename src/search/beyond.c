#include "search/search_parts.h"

#include "search/recompute_counts.h"

/* The least memory that would buy a faster plan: of the plans whose bound is
 * clearly below the best time, a few are tried in order of need. */
#define OVER_TRIES 6
#define OVER_GAIN 0.995

void search_note_over(Search *s)
{
  SearchResult *r = s->result;

  g_array_sort(s->over, candidate_by_memory);
  if (r->best->len == 0) {
    r->has_least = s->over->len > 0;
    if (r->has_least)
      r->least = search_evaluate(s, &g_array_index(s->over, Candidate, 0));
    return;
  }
  double best = g_array_index(r->best, Found, 0).metrics.iteration_s;
  for (guint i = s->options->over ? 0 : s->over->len, tries = 0; i < s->over->len && !r->has_over && tries < OVER_TRIES;
       i++) {
    Candidate *c = &g_array_index(s->over, Candidate, i);
    Plan plan = search_plan(s, c);
    const Layout layout = layout_of(&plan);
    const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
    c->bound_s = bound_time(s->model, &layout, s->cluster, sums, NULL);
    if (c->bound_s >= OVER_GAIN * best)
      continue;
    tries++;
    r->over = search_evaluate(s, c);
    r->has_over = r->over.metrics.iteration_s < best;
  }
}

/* Plans without recomputation that memory forbade: how many are bounded, those
 * nearest to fitting first, and how many of these are tried, fastest first. */
#define REFINE_BOUNDED 16
#define REFINE_TRIES 4

static GArray *nearly_fitting(Search *s)
{
  GArray *near = g_array_new(FALSE, FALSE, sizeof(Candidate));

  for (guint i = 0; i < s->over->len; i++) {
    const Candidate *c = &g_array_index(s->over, Candidate, i);
    guint at = near->len;
    if (c->pass.recompute != RECOMPUTE_NONE)
      continue;
    while (at > 0 && candidate_by_memory(&g_array_index(near, Candidate, at - 1), c) > 0)
      at--;
    if (at < REFINE_BOUNDED)
      g_array_insert_val(near, at, *c);
    g_array_set_size(near, MIN(near->len, REFINE_BOUNDED));
  }
  for (guint i = 0; i < near->len; i++) {
    Candidate *c = &g_array_index(near, Candidate, i);
    Plan plan = search_plan(s, c);
    const Layout layout = layout_of(&plan);
    c->value = bound_time(s->model, &layout, s->cluster, price_cache_sums(s->prices, &layout.passes), NULL);
  }
  g_array_sort(near, candidate_by_bound);
  return near;
}

static gboolean refine(Search *s, const Plan *plan, gint64 index, gint64 family, double step_s, Found *out)
{
  Refine r = { s->model, s->cluster, s->prices, step_s };

  if (!refine_recompute(&r, plan, out))
    return FALSE;
  out->index = index;
  out->family = family;
  const Layout layout = layout_of(plan);
  out->value = search_value(s, s->objective, &layout, out->metrics.iteration_s, search_need(s, &out->metrics));
  return TRUE;
}

/* Counts of recomputed layers for what was found and for what nearly fits (recompute_counts.h). */
void search_refine(Search *s)
{
  GArray *best = s->result->best;
  g_autoptr(GArray) near = best->len ? nearly_fitting(s) : NULL;
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(Found));
  Found better;

  for (guint i = 0; i < best->len; i++) {
    Found *f = &g_array_index(best, Found, i);
    if (f->plan.recompute == RECOMPUTE_FULL &&
        refine(s, &f->plan, f->index, f->family, f->metrics.iteration_s, &better) && better.value < f->value) {
      g_array_remove_index(best, i--);
      g_array_append_val(found, better);
    }
  }
  for (guint i = 0; near && i < near->len && i < REFINE_TRIES; i++) {
    const Candidate *c = &g_array_index(near, Candidate, i);
    const Found *last = best->len ? &g_array_index(best, Found, 0) : &g_array_index(found, Found, 0);
    Plan plan = search_plan(s, c);
    if (c->value < last->metrics.iteration_s &&
        refine(s, &plan, c->index, c->family, last->metrics.iteration_s, &better))
      g_array_append_val(found, better);
  }
  for (guint i = 0; i < found->len; i++)
    search_keep(s, &g_array_index(found, Found, i));
  s->result->refined = found->len;
}
