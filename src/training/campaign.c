#include "training/campaign.h"

#include "base/sort.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>

#define SEED 20260101u
#define OUTER 1.2815515655446004 /* eight of ten normal values are within so many deviations */
#define FARTHEST 2.0             /* deviations: what is farther off was in no source */
#define EACH_END 0.1             /* of runs beyond an interval's end */

/* About a middle value, as a normal's logarithm with its own spread to each side. */
static double draw_around(gsl_rng *rng, double middle, double low, double high)
{
  double drawn = gsl_ran_gaussian(rng, 1), z = CLAMP(drawn, -FARTHEST, FARTHEST) / OUTER;

  if (isinf(middle) || !(low > 0) || !(high > 0))
    return middle;
  return middle * pow(z < 0 ? middle / low : high / middle, z);
}

/* How long it stands still after a failure: one that comes meanwhile starts it again. */
static double draw_restart(gsl_rng *rng, const Interruptions *i, CampaignRun *run)
{
  double stood = 0;

  for (;;) {
    double until = gsl_ran_exponential(rng, i->between_s);
    if (until >= i->restart_s || run->failures >= CAMPAIGN_FAILURES_MAX)
      return stood + i->restart_s;
    stood += until;
    run->failures++;
  }
}

/* Nodes in repair, by when they are back: each takes as long, so the first lost is the first back. */
typedef struct {
  double back_s[SPARES_MAX + 1];
  int first, count;
} Repair;

static double past_s(const CampaignRun *run)
{
  double sum = 0;

  for (int spent = 0; spent < SPENT_PLANNED; spent++)
    sum += run->spent_s[spent];
  return sum;
}

/* Nodes that so many failures take away now, and the wait where none is left to spare. */
static void lose_nodes(const Campaign *c, gsl_rng *rng, int failures, Repair *r, CampaignRun *run)
{
  double now = past_s(run);

  while (r->count > 0 && r->back_s[r->first] <= now) {
    r->first = (r->first + 1) % (SPARES_MAX + 1);
    r->count--;
  }
  for (int i = 0; i < failures; i++) {
    if (gsl_rng_uniform(rng) >= c->node_share)
      continue;
    r->back_s[(r->first + r->count++) % (SPARES_MAX + 1)] = now + c->repair_s;
    if (r->count <= c->spares)
      continue;
    run->spent_s[SPENT_WAITING] += r->back_s[r->first] - now;
    now = r->back_s[r->first];
    r->first = (r->first + 1) % (SPARES_MAX + 1);
    r->count--;
  }
}

/* Work until the next failure, of which what the last safe checkpoint holds lasts. */
static double run_until(const Campaign *c, const Interruptions *i, double up_s, double left_s, CampaignRun *run)
{
  double cycle = c->interval_s + i->copy_s, safe = up_s - i->safe_s;
  double cycles = safe > 0 ? floor(safe / cycle) : 0, lasting = MIN(cycles * c->interval_s, left_s);

  run->spent_s[SPENT_STEPS] += lasting;
  run->spent_s[SPENT_COPIES] += cycles * i->copy_s;
  run->spent_s[SPENT_LOST] += up_s - cycles * cycle;
  run->failures++;
  return lasting;
}

/* Its last stretch, without failure. */
static double last_s(const Campaign *c, const Interruptions *i, double left_s)
{
  double copies = isinf(c->interval_s) ? 0 : MAX(ceil(left_s / c->interval_s) - 1, 0);

  return left_s + copies * i->copy_s;
}

static gboolean draw(const Campaign *c, gsl_rng *rng, CampaignRun *run)
{
  Interruptions i = c->interruptions;
  double quiet = c->steps * draw_around(rng, c->step_s, c->step_low_s, c->step_high_s), left, slow, up;

  Repair repair = { .count = 0 };

  i.between_s = draw_around(rng, i.between_s, c->between_low_s, c->between_high_s);
  quiet *= draw_around(rng, 1, c->whole_low, c->whole_high);
  slow = quiet * draw_around(rng, c->slow_share, c->slow_share_low, c->slow_share_high);
  left = quiet + slow;
  *run = (CampaignRun) { .spent_s = { [SPENT_STEPS] = -slow, [SPENT_SLOW] = slow } };
  while ((up = isinf(i.between_s) ? INFINITY : gsl_ran_exponential(rng, i.between_s)) < last_s(c, &i, left)) {
    int before = run->failures;
    left -= run_until(c, &i, up, left, run);
    run->spent_s[SPENT_RESTARTS] += draw_restart(rng, &i, run);
    if (c->spares >= 0)
      lose_nodes(c, rng, run->failures - before, &repair, run);
    if (run->failures >= CAMPAIGN_FAILURES_MAX)
      return FALSE;
  }
  run->spent_s[SPENT_STEPS] += left;
  run->spent_s[SPENT_COPIES] += last_s(c, &i, left) - left;
  run->total_s = past_s(run);
  run->spent_s[SPENT_PLANNED] = run->total_s * c->planned_per_s * i.restart_s;
  run->total_s += run->spent_s[SPENT_PLANNED];
  return TRUE;
}

/* Draws a run; `run` counts from 0. FALSE if it would not end. */
static gboolean draw_run(const Campaign *c, int run, CampaignRun *out)
{
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);

  gsl_rng_set(rng, SEED + run);
  gboolean ended = draw(c, rng, out);
  gsl_rng_free(rng);
  return ended;
}

/* What eight of ten of n values have; sorts them. */
static void middle_of(double *values, int n, double *low, double *high)
{
  qsort(values, n, sizeof *values, sort_reals);
  *low = values[(int)(EACH_END * (n - 1))];
  *high = values[(int)ceil((1 - EACH_END) * (n - 1))];
}

gboolean campaign_summary(const Campaign *c, CampaignSummary *out)
{
  double total[CAMPAIGN_RUNS], failures[CAMPAIGN_RUNS];

  *out = (CampaignSummary) { 0 };
  for (int i = 0; i < CAMPAIGN_RUNS; i++) {
    CampaignRun run;
    if (!draw_run(c, i, &run))
      return FALSE;
    for (int spent = 0; spent < SPENT_COUNT; spent++)
      out->mean.spent_s[spent] += run.spent_s[spent] / CAMPAIGN_RUNS;
    out->mean.total_s += run.total_s / CAMPAIGN_RUNS;
    out->failures_mean += run.failures / (double)CAMPAIGN_RUNS;
    total[i] = run.total_s;
    failures[i] = run.failures;
  }
  middle_of(total, CAMPAIGN_RUNS, &out->total_low_s, &out->total_high_s);
  middle_of(failures, CAMPAIGN_RUNS, &out->failures_low, &out->failures_high);
  return TRUE;
}
