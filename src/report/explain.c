#include "report/explain.h"

#include "base/table.h"
#include "base/units.h"

/* Enough digits to tell neighbours apart. */
static char *precise_seconds(double s)
{
  return s >= 1 ? g_strdup_printf("%.3f s", s) : g_strdup_printf("%.3f ms", 1e3 * s);
}

char *report_ranking(const Result *results, int n)
{
  g_autoptr(Table) t = table_new("#|tp|sp|pp|chunks|dp|zero|micro|<recompute|<schedule|step|tokens/s/GPU|MFU|bubble|memory");

  for (int i = 0; i < n; i++) {
    const Result *r = &results[i];
    g_autofree char *step = precise_seconds(r->metrics.iteration_s), *memory = format_bytes(r->metrics.peak_memory_bytes);
    table_add(t, "%d", i + 1);
    table_add(t, "%d", r->plan.tp);
    table_add(t, "%s", r->plan.sequence_parallel ? "on" : "off");
    table_add(t, "%d", r->plan.pp);
    table_add(t, "%d", r->plan.vpp);
    table_add(t, "%d", r->plan.dp);
    table_add(t, "%d", r->plan.zero);
    table_add(t, "%d", r->plan.micro_batch);
    table_add(t, "%s", recompute_names[r->plan.recompute]);
    table_add(t, "%s", r->plan.schedule->name);
    table_add(t, "%s", step);
    table_add(t, "%.0f", r->tokens_per_s_per_gpu);
    table_add(t, "%.1f %%", 100 * r->mfu);
    table_add(t, "%.1f %%", 100 * r->metrics.bubble_fraction);
    table_add(t, "%s", memory);
  }
  return table_text(t, 2);
}

typedef struct {
  const char *title;
  double (*seconds)(const Metrics *);
} Cause;

static double compute(const Metrics *m) { return m->compute_s; }
static double tensor(const Metrics *m) { return m->tensor_comm_s; }
static double pipeline(const Metrics *m) { return m->pipeline_comm_s + m->idle_s; }
static double data(const Metrics *m) { return m->data_comm_s; }
static double optimizer(const Metrics *m) { return m->optimizer_s; }

static const Cause causes[] = {
  { "compute", compute }, { "tensor comm", tensor }, { "bubble and sends", pipeline },
  { "data comm", data }, { "optimizer", optimizer },
};

char *report_losses(const Result *results, int n)
{
  g_autoptr(Table) t = table_new("<plan|step|lost|compute|tensor comm|bubble, sends|data comm|optimizer");

  for (int i = 0; i < n; i++) {
    const Metrics *m = &results[i].metrics, *best = &results[0].metrics;
    g_autofree char *label = plan_label(&results[i].plan), *step = precise_seconds(m->iteration_s);
    table_add(t, "%d: %s", i + 1, label);
    table_add(t, "%s", step);
    table_add(t, "%+.3f s", m->iteration_s - best->iteration_s);
    for (gsize c = 0; c < G_N_ELEMENTS(causes); c++)
      table_add(t, "%+.3f s", causes[c].seconds(m) - causes[c].seconds(best));
  }
  return table_text(t, 2);
}
