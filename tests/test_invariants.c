/*
 * What holds of every step that is predicted: 40 random plans of the space of each framework file, for small models
 * with and without experts on small clusters. CASES=N draws N times as many.
 */
#include "main.h"
#include "search_instance.h"

#include "program/program.h"
#include "sim/simulate.h"

#include <math.h>
#include <stdio.h>

enum { QUESTIONS = 8, PLANS = 5 };

static const char *plan_line(const Instance *in, const Plan *plan)
{
  static char line[512];
  g_autofree char *label = plan_label(plan);

  g_snprintf(line, sizeof line, "%s: %s", in->framework->name, label);
  return line;
}

/* ---- one step ---- */

/* Seconds in which lanes of all rows were busy, and the longest that none was. */
static void busy_time(const Trace *trace, double *busy, double *gap)
{
  double end = 0;

  *busy = *gap = 0;
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    *busy += s->end - s->start;
    end = MAX(end, s->end);
  }
  *gap = trace->end_s - trace->step_s - end;
}

/* Parts of computation add up to it; a device of mean speed waits for none that is slower, and no time is hidden that the
 * step does not have. */
static void check_parts(const Instance *in, const Plan *plan, const Trace *trace, const Metrics *m)
{
  double sum = 0, tiny = 1e-9 * m->iteration_s;
  StepParts p;

  ck_assert_msg(trace_parts(trace, m->critical_row, &p), "%s: parts are not known", plan_line(in, plan));
  for (int i = 0; i < COMPUTE_COUNT; i++) {
    sum += p.compute_s[i];
    ck_assert_msg(p.compute_s[i] >= -tiny, "%s: part %d takes %g s", plan_line(in, plan), i, p.compute_s[i]);
  }
  ck_assert_msg(fabs(sum - m->compute_s) <= tiny, "%s: parts of %.17g s of %.17g s", plan_line(in, plan), sum,
                m->compute_s);
  const Device *device = &in->cluster->device;
  if (device->rate_spread == 0 && device->rate_passing == 0 && device->rate_jitter == 0)
    ck_assert_msg(fabs(p.compute_s[COMPUTE_SLOWEST]) <= tiny, "%s: %g s for the slowest", plan_line(in, plan),
                  p.compute_s[COMPUTE_SLOWEST]);
  for (gsize i = 0; i < G_N_ELEMENTS(p.peak_s); i++)
    ck_assert_msg(p.peak_s[i] <= p.compute_s[i] + tiny, "%s: %g s at the peak of %g s", plan_line(in, plan), p.peak_s[i],
                  p.compute_s[i]);
  for (int i = 0; i < HIDDEN_COUNT; i++)
    ck_assert_msg(p.hidden_s[i] >= 0 && p.hidden_s[i] <= 2 * m->iteration_s, "%s: %g s of kind %d are hidden",
                  plan_line(in, plan), p.hidden_s[i], i);
}

static void check_step(const Instance *in, const Plan *plan, const Program *program, const Trace *trace)
{
  const double slack = 1 + 1e-9;
  double busy, gap;
  Metrics m;

  trace_metrics(trace, &m);
  double parts = m.compute_s + m.tensor_comm_s + m.context_comm_s + m.expert_comm_s + m.pipeline_comm_s +
                 m.data_comm_s + m.offload_s + m.optimizer_s + m.idle_s;
  double bytes = 0, states = 0;
  for (int i = 0; i < PART_COUNT; i++) {
    bytes += m.memory[i];
    states += trace->rows[m.peak_row].static_bytes[i];
  }
  busy_time(trace, &busy, &gap);
  ck_assert_msg(isfinite(m.iteration_s) && m.iteration_s > 0, "%s: %g s", plan_line(in, plan), m.iteration_s);
  ck_assert_msg(fabs(parts - m.iteration_s) <= 1e-9 * m.iteration_s, "%s: parts of %.17g s of %.17g s",
                plan_line(in, plan), parts, m.iteration_s);
  ck_assert_msg(fabs(bytes - m.peak_memory_bytes) <= 1e-9 * bytes, "%s: parts of %.17g bytes of %.17g",
                plan_line(in, plan), bytes, m.peak_memory_bytes);
  ck_assert_msg(m.peak_memory_bytes * slack >= states, "%s: a peak of %.17g bytes, states of %.17g",
                plan_line(in, plan), m.peak_memory_bytes, states);
  ck_assert_msg(m.bubble_fraction >= -1e-9 && m.bubble_fraction <= 1, "%s: bubble %g", plan_line(in, plan),
                m.bubble_fraction);
  ck_assert_msg(fabs(gap) <= 1e-9 * m.iteration_s, "%s: %g s behind the last span", plan_line(in, plan), gap);
  ck_assert_msg(program->opportunistic || longest_path(program, NULL) <= m.iteration_s * slack, "%s: a path of %.17g s",
                plan_line(in, plan), longest_path(program, NULL));
  ck_assert_msg(m.iteration_s <= (busy + trace->step_s) * slack, "%s: a step of %.17g s, all tasks in a row %.17g s",
                plan_line(in, plan), m.iteration_s, busy + trace->step_s);
  check_parts(in, plan, trace, &m);
}

static double step_of(const Instance *in, const Cluster *cluster, const Plan *plan, gboolean checked)
{
  const Layout layout = layout_of(plan);
  g_autoptr(PriceTable) prices = price_table_described(in->model, &layout, cluster);
  g_autoptr(Program) program = program_new(in->model, &layout, cluster, prices);
  g_autoptr(Trace) trace = simulate(program);

  if (checked)
    check_step(in, plan, program, trace);
  return trace->end_s;
}

/* ---- better hardware ---- */

static void faster_products(Cluster *c)
{
  for (int t = 0; t < DTYPE_COUNT; t++)
    c->device.peak_flops_per_s[t] *= 2;
}

static void faster_memory(Cluster *c)
{
  c->device.memory_bytes_per_s *= 2;
}

static void faster_links(Cluster *c)
{
  for (int t = 0; t < c->n_tiers; t++) {
    c->tiers[t].bytes_per_s *= 2;
    c->tiers[t].port_bytes_per_s *= 2;
    c->tiers[t].link.channel_bytes_per_s *= 2;
  }
}

static void shorter_latency(Cluster *c)
{
  for (int t = 0; t < c->n_tiers; t++) {
    Link *l = &c->tiers[t].link;
    l->base_s /= 2;
    l->hop_s /= 2;
    l->tree_hop_s /= 2;
    l->p2p_base_s /= 2;
    l->short_base_s /= 2;
    l->in_switch_base_s /= 2;
  }
}

static const struct {
  const char *name;
  void (*better)(Cluster *cluster);
} changes[] = {
  { "products twice as fast", faster_products },
  { "memory twice as fast", faster_memory },
  { "links twice as fast", faster_links },
  { "half the latency", shorter_latency },
};

/* No step is longer on better hardware. One exception: where the host sets the pace of a pass, what products hide of
 * communication is reckoned as if it did not; a shorter product hides less, though it was never waited for. */
static void check_monotone(const Instance *in, const Plan *plan, double step_s)
{
  const double slack = 1 + (in->framework->operation_s > 0 ? 0.01 : 1e-9);

  for (gsize i = 0; i < G_N_ELEMENTS(changes); i++) {
    Cluster better = *in->cluster;
    changes[i].better(&better);
    double found = step_of(in, &better, plan, FALSE);
    ck_assert_msg(found <= step_s * slack, "%s: %s: %.17g s instead of %.17g s", plan_line(in, plan), changes[i].name,
                  found, step_s);
  }
}

START_TEST(steps)
{
  g_autofree char *name = fixture_framework_name(_i);
  g_autoptr(GRand) rand = g_rand_new_with_seed(2300 + _i);
  gint64 tried = 0;

  for (int question = 0; question < QUESTIONS * fixture_cases(); question++) {
    Instance in;
    instance_framework_init(&in, rand, name);
    if (question % 2)
      in.cluster->device.rate_spread = in.cluster->device.rate_passing = in.cluster->device.rate_jitter = 0;
    g_autoptr(GArray) plans = instance_plans(&in);
    for (int k = 0; k < PLANS && plans->len > 0; k++) {
      const Plan *plan = &g_array_index(plans, Plan, g_rand_int_range(rand, 0, plans->len));
      check_monotone(&in, plan, step_of(&in, in.cluster, plan, TRUE));
      tried++;
    }
    instance_clear(&in);
  }
  ck_assert_msg(tried > 0, "%s: no legal plan was drawn", name);
  if (g_getenv("CASES"))
    fprintf(stderr, "%s: %" G_GINT64_FORMAT " plans\n", name, tried);
}
END_TEST

TEST_LOOPS("invariants", { steps, FIXTURE_FRAMEWORKS, TRUE })
