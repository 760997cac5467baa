#include "report_run.h"

#include "fixture.h"
#include "sim/simulate.h"

Run run_new(Shape s)
{
  int devices = s.tp * s.pp * s.dp;
  Run r = { .model = fixture_model(8, 256, 4, 128, 1000), .framework = fixture_framework("megatron-core"),
            .cluster = s.real ? fixture_cluster("dgx", devices) : fixture_free_cluster(devices) };
  GError *error = NULL;

  r.framework->step_s = r.framework->context_bytes = r.framework->group_bytes = r.framework->fragmentation = 0;
  r.plan = plan_default(r.model, r.framework);
  r.plan.gpus = devices;
  r.plan.tp = s.tp;
  r.plan.pp = s.pp;
  r.plan.vpp = s.vpp;
  r.plan.dp = s.dp;
  r.plan.global_batch = s.dp * s.micro;
  r.plan.schedule = schedule_find(s.schedule ? s.schedule : s.vpp > 1 ? "interleaved" : "1f1b");
  if (r.plan.schedule->recompute)
    r.plan.recompute = RECOMPUTE_FULL;
  if (plan_check(&r.plan, r.model, r.cluster, &error) != RULE_NONE)
    g_error("%s", error->message);
  g_autoptr(PriceTable) prices =
      s.real ? price_table_described(r.model, LAYOUT(&r.plan), r.cluster)
             : fixture_prices(r.model, s.pp * s.vpp / 8.0, s.pp * s.vpp / 4.0, 10 * 0x1p30 * s.pp * s.vpp / 8.0);
  g_autoptr(Program) program = program_new(r.model, LAYOUT(&r.plan), r.cluster, prices);
  r.trace = simulate(program);
  r.kept = g_memdup2(&r.plan, sizeof r.plan);
  r.result = result_of(r.model, r.cluster, r.kept, r.trace);
  return r;
}

void run_clear(Run *r)
{
  g_free(r->kept);
  trace_free(r->trace);
  framework_free(r->framework);
  cluster_free(r->cluster);
  model_free(r->model);
}

void run_pair(Run *r)
{
  g_autofree Span **last = g_new0(Span *, r->trace->n_rows);

  for (guint i = 0; i < r->trace->spans->len; i++) {
    Span *s = &g_array_index(r->trace->spans, Span, i), *before;
    if (s->kind != TASK_PASS)
      continue;
    before = last[s->row];
    if (before && before->pass == PASS_FORWARD && s->pass == PASS_BACKWARD && s->start <= before->end)
      before->paired = TRUE;
    last[s->row] = s;
  }
}
