#include "report/ranks.h"

#include "base/table.h"
#include "base/units.h"

static int rank_of(const RankRun *run, const Layout *layout, int slot)
{
  return mesh_rank_at(&layout->mesh, slot / run->replicas, slot % run->replicas);
}

static void add_stage(Table *t, const RankRun *run, const Layout *layout, int row)
{
  int first = row * run->replicas, least = first, most = first;
  double sum = 0;

  for (int rank = first; rank < first + run->replicas; rank++) {
    least = run->pass_s[rank] < run->pass_s[least] ? rank : least;
    most = run->pass_s[rank] > run->pass_s[most] ? rank : most;
    sum += run->pass_s[rank];
  }
  table_add(t, "%d", row);
  table_take(t, mesh_stage_text(&layout->mesh, row));
  table_take(t, format_seconds(run->pass_s[least]));
  table_take(t, format_seconds(sum / run->replicas));
  table_take(t, format_seconds(run->pass_s[most]));
  table_add(t, "%d", rank_of(run, layout, most));
}

char *report_ranks(const RankRun *run, const Layout *layout)
{
  g_autoptr(Table) t = table_new("stage|ranks|least|mean|most|slowest rank");
  g_autofree char *table = NULL;

  for (int row = 0; row < run->n_rows; row++)
    add_stage(t, run, layout, row);
  table = table_text(t, 2);
  return g_strdup_printf("time in passes of %d ranks; everything else is of the ranks in rank %d's place\n%s",
                         run->n_rows * run->replicas, rank_of(run, layout, run->slowest), table);
}
