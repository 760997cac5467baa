#include "base/error.h"
#include "sim/graph.h"
#include "sim/simulate.h"

gboolean sim_options_check(const SimOptions *options, const Program *program, GError **error)
{
  g_autofree int *windows = sim_receive_windows(program, options->receive_buffers);
  g_autofree int *order = g_new(int, program->tasks->len);
  int tasks = program->tasks->len, left = tasks - program_order(program, windows, order);

  if (left > 0)
    input_error(error, "receive buffers: %d: the schedule deadlocks, %d of %d tasks never run: expected more",
                options->receive_buffers, left, tasks);
  return left == 0;
}

Trace *simulate_plan_with(const Model *model, const Cluster *cluster, const Plan *plan, const SimOptions *options,
                          GError **error)
{
  const Layout layout = layout_of(plan);
  g_autoptr(PriceTable) prices = price_table_described(model, &layout, cluster);
  g_autoptr(Program) program = program_new(model, &layout, cluster, prices);
  g_autoptr(SimLinks) links = options->share_links ? sim_links_new(program, &layout, cluster) : NULL;

  if (options->receive_buffers > 0 && !sim_options_check(options, program, error))
    return NULL;
  return simulate_on(program, links, options->receive_buffers);
}

Trace *simulate_plan(const Model *model, const Cluster *cluster, const Plan *plan)
{
  const SimOptions options = { .share_links = FALSE, .receive_buffers = 0 };

  return simulate_plan_with(model, cluster, plan, &options, NULL);
}
