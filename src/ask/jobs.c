/* Several trainings on one cluster at once: which nodes each gets. */
#include "ask/training_run.h"

#include "base/units.h"

#include <math.h>

#define BATCH_OFF 0.05 /* that a step may have fewer or more sequences, where devices do not divide them */

static const AnswerColumn columns[] = {
  { "job", "<job", CELL_TEXT }, { "gpus", "GPUs", CELL_INT },
  { "global_batch_size", "batch", CELL_INT }, { "days", "days", CELL_REAL },
  { "days_low", NULL, CELL_REAL }, { "days_high", NULL, CELL_REAL }, { "usd", "USD", CELL_INT },
  { "gpu_hours", "GPU-hours", CELL_INT }, { "days_alone", "alone, days", CELL_REAL }, { "plan", "<plan", CELL_TEXT },
};

/* A job's runs on more and more of the cluster, each sooner than the one before; and which of them it gets. */
typedef struct {
  Asked job;
  SearchOptions options; /* of the job */
  GPtrArray *curve; /* Run */
  guint at;
} Curve;

static const Run *run_at(const Curve *c, guint at)
{
  return c->curve->pdata[at];
}

static double end_s(const Curve *c)
{
  return run_at(c, c->at)->summary.mean.total_s;
}

static int devices_at(const Curve *c, guint at)
{
  return run_at(c, at)->result.layout.mesh.ranks;
}

/* 1, 2, 3, 4, 6, 8, 12 ... nodes, and all. */
static int next_devices(int devices, const Cluster *c)
{
  int node = c->devices_per_node, nodes = devices / node, power = 1;

  while (power * 2 <= nodes)
    power *= 2;
  return MIN(c->devices, node * (nodes == power && power > 1 ? power / 2 * 3 : power * 2));
}

/* The batch nearest to what is asked for that as many of the devices divide as may be. */
static int batch_on(int devices, int batch)
{
  for (int unit = devices; unit > 1; unit /= 2) {
    int near = MIN((int)round((double)batch / unit), G_MAXINT / unit) * unit;
    if (fabs((double)near / batch - 1) <= BATCH_OFF)
      return near;
    if (unit % 2)
      break;
  }
  return batch;
}

static Run *run_of_job(const Asked *job, int devices)
{
  Asked asked = *job;
  SearchOptions options = *job->options;
  Plan base = *options.base;

  base.global_batch = batch_on(devices, base.global_batch);
  options.base = &base;
  asked.options = &options;
  return run_on(&asked, job->cluster, devices);
}

/* A job's curve; jobs refer to their options, so it stays where it is. */
static void curve_find(Curve *c)
{
  const Asked *job = &c->job;

  c->curve = g_ptr_array_new_with_free_func(run_free);
  for (int devices = job->cluster->devices_per_node; !stop_asked(job->options->stop);
       devices = next_devices(devices, job->cluster)) {
    Run *r = run_of_job(job, devices);
    guint n = c->curve->len;
    if (r && (n == 0 || r->summary.mean.total_s < run_at(c, n - 1)->summary.mean.total_s))
      g_ptr_array_add(c->curve, r);
    else if (r)
      run_free(r);
    if (devices == job->cluster->devices)
      break;
  }
}

static Curve *last_of(Curve *curves, guint n)
{
  Curve *last = &curves[0];

  for (guint i = 1; i < n; i++)
    if (end_s(&curves[i]) > end_s(last))
      last = &curves[i];
  return last;
}

/* The last job to end gets more for as long as there is more: with curves that only fall no other division of the runs
 * that were looked at ends sooner. What is left; below 0 if there is not enough for the least that each needs. */
static int divide(Curve *curves, guint n, int devices)
{
  int left = devices;

  for (guint i = 0; i < n; i++)
    left -= devices_at(&curves[i], 0);
  while (left >= 0) {
    Curve *last = last_of(curves, n);
    if (last->at + 1 == last->curve->len)
      break;
    int more = devices_at(last, last->at + 1) - devices_at(last, last->at);
    if (more > left)
      break;
    last->at++;
    left -= more;
  }
  return left;
}

/* What divide() left, between two runs of the last job, goes to that one as far as it ends sooner. */
static void use_left(Curve *curves, guint n, int left)
{
  Curve *last = last_of(curves, n);
  const Asked *job = &last->job;
  int node = job->cluster->devices_per_node;

  for (int more = left / node * node; more >= node; more = more / 2 / node * node) {
    Run *r = run_of_job(job, devices_at(last, last->at) + more);
    if (r && r->summary.mean.total_s < end_s(last)) {
      g_ptr_array_insert(last->curve, (int)++last->at, r);
      return;
    }
    g_clear_pointer(&r, run_free);
  }
}

static void add(Answer *a, const Curve *c)
{
  const Run *r = run_at(c, c->at);
  g_autofree char *label = plan_label(r->result.plan);

  answer_add_text(a, r->model->name);
  answer_add(a, devices_at(c, c->at));
  answer_add(a, r->result.plan->global_batch);
  answer_add(a, r->summary.mean.total_s / DAY);
  answer_add(a, r->summary.total_low_s / DAY);
  answer_add(a, r->summary.total_high_s / DAY);
  answer_add(a, run_usd(r) > 0 ? round(run_usd(r)) : NAN);
  answer_add(a, round(run_gpu_hours(r)));
  answer_add(a, run_at(c, c->curve->len - 1)->summary.mean.total_s / DAY);
  answer_add_text(a, label);
}

static void say(GString *says, const Asked *q, const Curve *curves, guint n)
{
  double end = 0, alone = 0;
  int used = 0;

  for (guint i = 0; i < n; i++) {
    end = MAX(end, end_s(&curves[i]));
    alone += run_at(&curves[i], curves[i].curve->len - 1)->summary.mean.total_s;
    used += devices_at(&curves[i], curves[i].at);
  }
  g_autofree char *together = format_seconds(end), *in_turn = format_seconds(alone);
  g_string_append_printf(says, "%u trainings on %d GPUs of %s at once: the last ends after %s, one after "
                               "another on the whole cluster after %s. %d GPUs are left.", n, q->cluster->devices,
                         q->cluster->name, together, in_turn, q->cluster->devices - used);
}

static void answer(Answer *a, const Asked *q, Curve *curves, guint n)
{
  for (guint i = 0; i < n; i++)
    if (curves[i].curve->len == 0) {
      if (!stop_heard(q->options->stop))
        g_string_append_printf(a->says, "%s fits on no part of the cluster, or does not end.",
                               curves[i].job.model->name);
      return;
    }
  int left = divide(curves, n, q->cluster->devices);
  if (left < 0) {
    g_string_append(a->says, "The cluster has too few GPUs for all of them at once.");
    return;
  }
  use_left(curves, n, left);
  say(a->says, q, curves, n);
  for (guint i = 0; i < n; i++)
    add(a, &curves[i]);
}

Answer *answer_training_jobs(const Asked *q)
{
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));
  guint n = q->jobs->len + 1;
  g_autofree Curve *curves = g_new0(Curve, n);

  for (guint i = 0; i < n; i++) {
    const Job *job = i > 0 ? &g_array_index(q->jobs, Job, i - 1) : NULL;
    curves[i] = (Curve) { .job = *q, .options = *q->options };
    curves[i].job.options = &curves[i].options;
    if (job) {
      curves[i].options.base = &job->base;
      curves[i].job.model = job->model;
      curves[i].job.tokens = job->tokens;
    }
    curve_find(&curves[i]);
  }
  answer(a, q, curves, n);
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  for (guint i = 0; i < n; i++)
    g_ptr_array_unref(curves[i].curve);
  return a;
}
