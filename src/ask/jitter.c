/* Which of the best plans is best where devices, passes and links vary: at the 95th percentile of drawn steps. */
#include "ask/question.h"

#include "report/draws.h"
#include "sim/ranks.h"

#include <math.h>

#define PLANS 10
#define DRAWS 400

static const AnswerColumn columns[] = {
  { "iteration_s", "step", CELL_SECONDS }, { "mean_s", "drawn", CELL_SECONDS },
  { "deviation_s", "deviation", CELL_SECONDS }, { "p95_s", "95 % within", CELL_SECONDS },
  { "p99_s", "99 % within", CELL_SECONDS }, { "plan", "<plan", CELL_TEXT },
};

typedef struct {
  const Found *found;
  Draws draws; /* count 0: they cannot be drawn */
} Drawn;

static int by_p95(gconstpointer a, gconstpointer b)
{
  const Drawn *x = a, *y = b;

  if (x->draws.count == 0 || y->draws.count == 0)
    return y->draws.count - x->draws.count;
  return (x->draws.p95_s > y->draws.p95_s) - (x->draws.p95_s < y->draws.p95_s);
}

static Drawn draw(const Asked *q, const Found *f)
{
  const Jitter jitter = { .pass = q->operations->pass_spread, .link = q->operations->link_spread };
  g_autofree double *seconds = simulate_plan_draws(q->model, q->cluster, &f->plan, &jitter, NULL, 0, DRAWS);

  return (Drawn) { f, seconds ? draws_of(seconds, DRAWS) : (Draws) { 0 } };
}

static void add(Answer *a, const Drawn *d)
{
  g_autofree char *label = plan_label(&d->found->plan);
  gboolean drawn = d->draws.count > 0;

  answer_add(a, d->found->metrics.iteration_s);
  answer_add(a, drawn ? d->draws.mean_s : NAN);
  answer_add(a, drawn ? d->draws.deviation_s : NAN);
  answer_add(a, drawn ? d->draws.p95_s : NAN);
  answer_add(a, drawn ? d->draws.p99_s : NAN);
  answer_add_text(a, label);
}

static void say(Answer *a, const Asked *q, const GArray *all)
{
  const Drawn *best = &g_array_index(all, Drawn, 0), *fastest = best;

  for (guint i = 1; i < all->len; i++) {
    const Drawn *d = &g_array_index(all, Drawn, i);
    if (d->draws.count > 0 && d->found->metrics.iteration_s < fastest->found->metrics.iteration_s)
      fastest = d;
  }
  g_string_printf(a->says, "The %u best plans, each drawn %d times: rates of devices vary by %.1f %%, those of passes "
                           "by %.1f %%, of links by %.1f %%. ", all->len, DRAWS,
                  100 * q->cluster->device.rate_spread, 100 * q->operations->pass_spread,
                  100 * q->operations->link_spread);
  if (model_has_experts(q->model))
    g_string_append(a->says, "Tokens fall on experts by chance. ");
  if (best->draws.count == 0)
    g_string_append(a->says, "None can be drawn: their collectives wait for one another's passes across stages.");
  else if (best == fastest)
    g_string_append(a->says, "The fastest one is the best of them at the 95th percentile too.");
  else
    g_string_append_printf(a->says, "At the 95th percentile the first one is %.1f %% faster than the one that is "
                                    "predicted the fastest.",
                           100 * (fastest->draws.p95_s / best->draws.p95_s - 1));
}

Answer *answer_jitter(const Asked *q)
{
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Drawn));
  SearchOptions o = *q->options;

  o.top = PLANS;
  g_autoptr(SearchResult) found = search(q->model, q->cluster, &o, NULL);
  for (guint i = 0; i < found->best->len && !stop_asked(o.stop); i++) {
    Drawn d = draw(q, &g_array_index(found->best, Found, i));
    g_array_append_val(all, d);
  }
  if (all->len == 0) {
    g_string_append(a->says, stop_heard(o.stop) ? "Stopped before any plan was drawn." : "No plan fits.");
    return a;
  }
  g_array_sort(all, by_p95);
  say(a, q, all);
  for (guint i = 0; i < all->len; i++)
    add(a, &g_array_index(all, Drawn, i));
  if (stop_heard(o.stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}
