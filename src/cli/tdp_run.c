/* tdp-run: executes one plan, one process a rank. */
#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "exec/exec.h"
#include "exec/launch.h"
#include "sim/simulate.h"

#include <stdio.h>

int main(int argc, char **argv)
{
  GError *error = NULL;
  Launch launch;
  Framework *framework = NULL;
  Plan plan;
  char message[EXEC_ERROR_SIZE] = "";
  Model *model = cli_load_model(argv[1], &error);
  Cluster *cluster = cli_load_cluster(argv[2], &error);
  (void)argc;
  if (!launch_detect(&launch, &error) || !plan_load(argv[3], model, &plan, &framework, &error) ||
      !cluster_resize(cluster, plan.gpus, &error) || plan_check(&plan, model, cluster, &error) != RULE_NONE)
    return cli_fail("tdp-run", error);
  PriceTable *prices = price_table_new(model, &plan, cluster);
  Program *program = program_new(model, &plan, cluster, prices);
  if (!exec_check(model, &plan, program, &error))
    return cli_fail("tdp-run", error);
  Backend *b = backends[0].open(&(BackendOptions) { .rank = launch.rank, .size = launch.size, .dtype = EXEC_F32 }, message);
  if (!b) { puts(message); return 1; }
  ExecOptions options = exec_options_default();
  Exec *x = exec_new(model, &plan, program, b, &options, &error);
  if (!x)
    return cli_fail("tdp-run", error);
  for (int i = 0; i < atoi(argv[4]); i++) {
    ExecStep step;
    exec_step(x, &step);
    if (b->rank == 0)
      printf("%d %.7g %.7g %.3g\n", i + 1, step.loss, step.grad_norm, step.step_s);
  }
  Trace *trace = exec_trace(x);
  Metrics m;
  trace_metrics(trace, &m);
  if (b->rank == 0)
    for (int p = 0; p < PART_COUNT; p++)
      printf("%s %.0f\n", memory_part_names[p], m.memory[p]);
  trace_free(trace);
  exec_free(x);
  b->free(b);
  return 0;
}
