#include "report/compare.h"

#include "base/table.h"
#include "base/units.h"

/* Communication that nothing hides. */
static double exposed_s(const Metrics *m)
{
  return m->tensor_comm_s + m->context_comm_s + m->expert_comm_s + m->pipeline_comm_s + m->data_comm_s;
}

char *report_compare(const Compared *plans, int n)
{
  g_autoptr(Table) t =
      table_new("<plan|GPUs|<step (80 % between)|ratio|tokens/s/GPU|MFU|bubble|peak memory|fits|exposed comm|<");
  g_autoptr(Table) what = table_new("<|<");

  for (int i = 0; i < n; i++) {
    const Result *r = plans[i].result;
    const Metrics *m = &r->metrics;
    table_add(t, "%s|%d", plans[i].name, r->layout.mesh.ranks);
    table_take(t, result_step_text(r));
    table_add(t, "%.3f|%.0f|%.1f %%|%.1f %%", m->iteration_s / plans[0].result->metrics.iteration_s,
              r->tokens_per_s_per_gpu, 100 * r->mfu, 100 * m->bubble_fraction);
    table_take(t, format_bytes(m->peak_memory_bytes));
    if (r->accuracy)
      table_add(t, "%.0f %%%s", 100 * r->estimate.fit_probability, r->fits ? "" : ", too much");
    else
      table_add(t, "%s", r->fits ? "yes" : "too much");
    table_take(t, format_seconds(exposed_s(m)));
    table_add(t, "%.1f %%", 100 * exposed_s(m) / m->iteration_s);
    table_add(what, "%s", plans[i].name);
    table_take(what, plan_label(r->plan));
  }
  g_autofree char *numbers = table_text(t, 0), *labels = table_text(what, 0);
  return g_strconcat(numbers, "\n", labels, NULL);
}
