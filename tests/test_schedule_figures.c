/* What schedules cost with equal stages and free transfers: published and independently
 * replayed figures, and closed forms of the idle time over many shapes. */
#include "main.h"
#include "schedule/schedule.h"

#include <math.h>

#define NONE -1

typedef struct {
  const char *name;
  int p, m, v;
  double pair;              /* time of an overlapped pair over that of its passes */
  double makespan, idle, span_idle;
  double peak[8];           /* of each rank, in micro-batches of its whole share; NONE = not given */
} Golden;

/* F = I = W = 1 */
static const Golden equal[] = {
  { "naive", 4, 8, 1, 1, 96, 72, NONE, { 1, 1, 1, 1 } },
  { "gpipe", 4, 8, 1, 1, 33, 9, 9, { 8, 8, 8, 8 } },
  { "1f1b", 4, 8, 1, 1, 33, 9, 9, { 4, 3, 2, 1 } },
  { "interleaved", 4, 8, 2, 1, 28.5, 4.5, 4.5, { 5.5, 4.5, 3.5, 2.5 } },
  { "interleaved", 4, 8, 4, 1, 26.25, 2.25, 2.25, { 4.75, 4.25, 3.75, 3.25 } },
  { "interleaved-rounds", 4, 8, 2, 1, 28.5, 4.5, 4.5, { 5.5, 4.5, 3.5, 2.5 } },
  { "looped-bfs", 4, 8, 2, 1, 28.5, 4.5, 4.5, { 8, 8, 8, 8 } },
  { "zb-h1", 4, 8, 1, 1, 27, 3, 3, { 4, 4, 4, 4 } },
  { "zb-h2", 4, 8, 1, 1, 27, 3, 0, { 7, 7, 7, 7 } },
  { "zb-1p", 4, 8, 1, 1, 27, 3, 3, { 4, 4, 4, 4 } },
  { "zb-2p", 4, 8, 1, 1, 27, 3, 0, { 8, 8, 8, 8 } },
  { "zb-v", 4, 8, 2, 1, 25.5, 1.5, 0, { 4, 4, 4, 4 } },
  { "dualpipev", 4, 8, 2, 1, 27, 3, 3, { 4.5, 4.5, 4.5, 4.5 } },
  { "dualpipev", 4, 8, 2, 0.8, 24, 1.5, 1.5, { 4.5, 4.5, 4.5, 4.5 } },
  { "dualpipe", 4, 8, 2, 1, 26, 2, 2, { 5, 5, 5, 5 } },
  { "dualpipe", 4, 8, 2, 0.8, 23.6, 1.4, 1.4, { 5, 5, 5, 5 } },
  { "v-half", 4, 8, 2, 1, 30, 6, 6, { 3, 3, 3, 3 } },
  { "v-min", 4, 8, 2, 1, 29.5, 5.5, 5.5, { 2, 2, 2, 2 } },
  { "chimera", 4, 4, 2, 1, 16, 4, 4, { 3, 4, 4, 3 } },
  { "hanayo", 4, 4, 2, 1, 18, 6, 6, { 2.5, 3, 3.5, 4 } },
  { "hanayo", 4, 4, 4, 1, 15, 3, 3, { 3.25, 3.5, 3.75, 4 } },
  { "gpipe", 8, 16, 1, 1, 69, 21, 21, { 16, 16, 16, 16, 16, 16, 16, 16 } },
  { "1f1b", 8, 16, 1, 1, 69, 21, 21, { 8, 7, 6, 5, 4, 3, 2, 1 } },
  { "interleaved", 8, 16, 2, 1, 58.5, 10.5, 10.5, { 11.5, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5 } },
  { "interleaved", 8, 16, 4, 1, 53.25, 5.25, 5.25, { 9.75, 9.25, 8.75, 8.25, 7.75, 7.25, 6.75, 6.25 } },
  { "zb-h1", 8, 16, 1, 1, 55, 7, 7, { 8, 8, 8, 8, 8, 8, 8, 8 } },
  { "zb-h2", 8, 16, 1, 1, 55, 7, 0, { 15, 15, 15, 15, 15, 15, 15, 15 } },
  { "zb-v", 8, 16, 2, 1, 51.5, 3.5, 0, { 8, 8, 8, 8, 8, 8, 8, 8 } },
  { "dualpipev", 8, 16, 2, 1, 55, 7, 7, { 8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5 } },
  { "dualpipev", 8, 16, 2, 0.8, 48.4, 3.1, 3.1, { 8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5 } },
  { "dualpipe", 8, 16, 2, 1, 54, 6, 6, { 9, 9, 9, 9, 9, 9, 9, 9 } },
  { "dualpipe", 8, 16, 2, 0.8, 48, 3, 3, { 9, 9, 9, 9, 9, 9, 9, 9 } },
  { "v-half", 8, 16, 2, 1, 61, 13, 13, { 5, 5, 5, 5, 5, 5, 5, 5 } },
  { "v-min", 8, 16, 2, 1, 61.5, 13.5, 13.5, { 3, 4, 4, 3, 4, 4, 3, 4 } },
  { "chimera", 8, 8, 2, 1, 36, 12, 12, { 5, 6, 7, 8, 8, 7, 6, 5 } },
};

/* F = 1, I = 1.2, W = 0.8 */
static const Golden unequal[] = {
  { "gpipe", 4, 8, 1, 1, 33, 9, 9, { NONE } },
  { "1f1b", 4, 8, 1, 1, 33, 9, 9, { NONE } },
  { "interleaved", 4, 8, 2, 1, 28.5, 4.5, 4.5, { NONE } },
  { "interleaved", 4, 8, 4, 1, 26.25, 2.25, 2.25, { NONE } },
  { "looped-bfs", 4, 8, 2, 1, 28.5, 4.5, 4.5, { NONE } },
  { "zb-h1", 4, 8, 1, 1, 28.2, 4.2, 4.2, { 4, 4, 4, 4 } },
  { "zb-h2", 4, 8, 1, 1, 27, 3, 1.8, { 7, 7, 7, 7 } },
  { "zb-v", 4, 8, 2, 1, 25.8, 1.8, 1.2, { 4, 4, 4, 4 } },
  { "dualpipev", 4, 8, 2, 1, 27.6, 3.6, 3.6, { NONE } },
  { "dualpipev", 4, 8, 2, 0.8, 24.6, 2.1, 2.1, { NONE } },
  { "dualpipe", 4, 8, 2, 1, 26.4, 2.4, 2.4, { NONE } },
  { "dualpipe", 4, 8, 2, 0.8, 24, 1.8, 1.8, { NONE } },
  { "v-half", 4, 8, 2, 1, 31.1, 7.1, 7.1, { 3, 3, 3, 3 } },
  { "v-min", 4, 8, 2, 1, 34.4, 10.4, 10.4, { 2, 2, 2, 2 } },
  { "chimera", 4, 4, 2, 1, 16, 4, 4, { NONE } },
  { "zb-h1", 8, 16, 1, 1, 57.8, 9.8, 9.8, { NONE } },
  { "zb-h2", 8, 16, 1, 1, 55, 7, 4.2, { NONE } },
  { "zb-v", 8, 16, 2, 1, 52.2, 4.2, 2.8, { NONE } },
};

static Replay *replay(const char *name, const ScheduleShape *shape, double f, double i, double w, double pair)
{
  const double times[PASS_COUNT] = { f, i + w, i, w, f, 0.5, 0.5 };
  const Schedule *schedule = schedule_find(name);
  ScheduleShape timed = *shape;

  timed.forward = f;
  timed.input = i;
  timed.weight = w;
  ck_assert(schedule_check(schedule, &timed, NULL));
  Replay *r = schedule_replay(schedule, &timed, times, pair);
  ck_assert_ptr_nonnull(r);
  return r;
}

static void check_golden(const Golden *g, double i, double w)
{
  ScheduleShape shape = { .ranks = g->p, .micro = g->m, .chunks = g->v };
  g_autoptr(Replay) r = replay(g->name, &shape, 1, i, w, g->pair);
  double whole = (double)g->v / schedule_copies(schedule_find(g->name));

  ck_assert_double_eq_tol(r->makespan, g->makespan, 1e-9);
  ck_assert_double_eq_tol(r->makespan - r->busy, g->idle, 1e-9);
  if (g->span_idle != NONE)
    ck_assert_double_eq_tol(r->span_idle, g->span_idle, 1e-9);
  for (int rank = 0; rank < g->p && g->peak[0] != NONE; rank++)
    ck_assert_double_eq(r->peak[rank] / whole, g->peak[rank]);
}

START_TEST(golden_equal)
{
  check_golden(&equal[_i], 1, 1);
}
END_TEST

START_TEST(golden_unequal)
{
  check_golden(&unequal[_i], 1.2, 0.8);
}
END_TEST

typedef struct {
  double p, m, v, f, i, w;
} Terms;

/* Closed forms of the idle time, of the busiest rank or within a rank's span. */
static double idle_fill(const Terms *t) { return (t->p - 1) * (t->f + t->i + t->w); }
static double idle_chunks(const Terms *t) { return idle_fill(t) / t->v; }
static double idle_naive(const Terms *t) { return (t->p - 1) * t->m * (t->f + t->i + t->w); }
static double idle_h1(const Terms *t) { return (t->p - 1) * (t->f + t->i - t->w); }
static double span_h2(const Terms *t) { return (t->p - 1) * (t->f + t->i - 2 * t->w); }
static double idle_dualpipe(const Terms *t) { return (t->p / 2 - 1) * (t->f + 2 * (t->i + t->w) - 3 * t->w); }
static double idle_dualpipev(const Terms *t) { return (t->p - 1) * (t->f + 2 * (t->i + t->w) - 3 * t->w) / 2; }
static double units(const Terms *t) { return t->i + t->w + (t->m / t->p - 1) * (t->i + t->w - t->f); }
static double idle_chimera(const Terms *t) { return (t->p - 2) * units(t); }
static double idle_hanayo(const Terms *t) { return (t->p - 1) * units(t) / (t->v / 2); }
static double idle_vocab_2(const Terms *t) { return idle_fill(t) - 0.5; } /* less one T of 0.5 */

static const struct {
  const char *name;
  int chunks;
  int micro_min, micro_step; /* in pipeline ranks */
  gboolean span;
  double i, w;
  double (*idle)(const Terms *terms);
} forms[] = {
  { "naive", 1, 1, 1, FALSE, 1, 1, idle_naive },
  { "gpipe", 1, 1, 1, FALSE, 1.5, 0.5, idle_fill },
  { "1f1b", 1, 1, 1, FALSE, 1.5, 0.5, idle_fill },
  { "interleaved", 2, 1, 1, FALSE, 1, 1, idle_chunks },
  { "interleaved", 3, 1, 1, FALSE, 1, 1, idle_chunks },
  { "interleaved-rounds", 3, 1, 1, FALSE, 1, 1, idle_chunks },
  { "looped-bfs", 3, 1, 1, FALSE, 1, 1, idle_chunks },
  { "zb-h1", 1, 2, 1, FALSE, 1, 1, idle_h1 },
  { "zb-h1", 1, 2, 1, FALSE, 1.25, 0.75, idle_h1 },
  { "zb-h2", 1, 2, 1, TRUE, 1, 1, span_h2 },
  { "zb-h2", 1, 2, 1, TRUE, 1.25, 0.75, span_h2 },
  { "dualpipe", 2, 2, 2, FALSE, 1, 1, idle_dualpipe },
  { "dualpipev", 2, 2, 1, FALSE, 1, 1, idle_dualpipev },
  { "chimera", 2, 1, 1, FALSE, 0.5, 0.5, idle_chimera },
  { "chimera", 2, 1, 1, FALSE, 1, 1, idle_chimera },
  { "hanayo", 2, 1, 1, FALSE, 0.5, 0.5, idle_hanayo },
  { "hanayo", 4, 1, 1, FALSE, 0.5, 0.5, idle_hanayo },
  { "hanayo", 4, 1, 1, FALSE, 1, 1, idle_hanayo },
  { "hanayo", 8, 1, 1, FALSE, 1, 1, idle_hanayo },
  { "vocab-1", 1, 2, 1, FALSE, 1, 1, idle_fill },
  { "vocab-2", 1, 2, 1, FALSE, 1, 1, idle_vocab_2 },
  { "vocab-interlaced", 1, 2, 1, FALSE, 1, 1, idle_fill },
};

START_TEST(closed_forms)
{
  for (int p = 2; p <= 10; p += 2)
    for (int k = forms[_i].micro_min; k <= forms[_i].micro_min + 2 * forms[_i].micro_step; k += forms[_i].micro_step) {
      ScheduleShape shape = { .ranks = p, .micro = k * p, .chunks = forms[_i].chunks };
      Terms terms = { p, k * p, forms[_i].chunks, 1, forms[_i].i, forms[_i].w };
      g_autoptr(Replay) r = replay(forms[_i].name, &shape, 1, terms.i, terms.w, 1);
      double idle = forms[_i].span ? r->span_idle : r->makespan - r->busy;
      ck_assert_msg(fabs(idle - forms[_i].idle(&terms)) < 1e-9, "%s p=%d m=%d v=%d: idle %g, expected %g",
                    forms[_i].name, p, shape.micro, shape.chunks, idle, forms[_i].idle(&terms));
    }
}
END_TEST

/* The automatic schedules are no worse than the handmade ones under the same memory. */
START_TEST(automatic_matches_handmade)
{
  const double weights[] = { 0.5, 0.8, 1, 1.2 };

  for (int p = 2; p <= 8; p++)
    for (gsize k = 0; k < G_N_ELEMENTS(weights); k++) {
      ScheduleShape shape = { .ranks = p, .micro = 4 * p, .chunks = 1 };
      g_autoptr(Replay) h1 = replay("zb-h1", &shape, 1, 2 - weights[k], weights[k], 1);
      g_autoptr(Replay) p1 = replay("zb-1p", &shape, 1, 2 - weights[k], weights[k], 1);
      g_autoptr(Replay) h2 = replay("zb-h2", &shape, 1, 2 - weights[k], weights[k], 1);
      g_autoptr(Replay) p2 = replay("zb-2p", &shape, 1, 2 - weights[k], weights[k], 1);
      ck_assert_double_le(p1->span_idle, h1->span_idle + 1e-9);
      ck_assert_double_le(p2->span_idle, h2->span_idle + 1e-9);
    }
}
END_TEST

TEST_LOOPS("schedule figures",
           { golden_equal, G_N_ELEMENTS(equal) },
           { golden_unequal, G_N_ELEMENTS(unequal) },
           { closed_forms, G_N_ELEMENTS(forms) },
           { automatic_matches_handmade })
