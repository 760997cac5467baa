#include "report/ranks.h"

#include "base/table.h"
#include "base/units.h"

static int rank_of(const RankRun *run, const Layout *layout, int slot)
{
  return mesh_rank_at(&layout->mesh, slot / run->replicas, slot % run->replicas);
}

/* Of a stage's ranks: places of those with the least and the most time in passes, and the mean time. */
typedef struct {
  int least, most;
  double mean_s;
} StagePasses;

static StagePasses passes_of(const RankRun *run, int row)
{
  int first = row * run->replicas;
  StagePasses p = { first, first, 0 };

  for (int rank = first; rank < first + run->replicas; rank++) {
    p.least = run->pass_s[rank] < run->pass_s[p.least] ? rank : p.least;
    p.most = run->pass_s[rank] > run->pass_s[p.most] ? rank : p.most;
    p.mean_s += run->pass_s[rank];
  }
  p.mean_s /= run->replicas;
  return p;
}

static void add_stage(Table *t, const RankRun *run, const Layout *layout, int row)
{
  StagePasses p = passes_of(run, row);

  table_add(t, "%d", row);
  table_take(t, mesh_stage_text(&layout->mesh, row));
  table_take(t, format_seconds(run->pass_s[p.least]));
  table_take(t, format_seconds(p.mean_s));
  table_take(t, format_seconds(run->pass_s[p.most]));
  table_add(t, "%d", rank_of(run, layout, p.most));
}

void report_ranks_write(const RankRun *run, const Layout *layout, const Straggler *stragglers, int n_stragglers,
                        JsonWriter *w)
{
  json_open(w, "ranks", '{');
  json_put_int(w, "simulated", run->n_rows * run->replicas);
  json_put_int(w, "slowest_rank", rank_of(run, layout, run->slowest));
  json_open(w, "stragglers", '[');
  for (int i = 0; i < n_stragglers; i++) {
    json_open(w, NULL, '{');
    json_put_int(w, "rank", stragglers[i].rank);
    json_put_real(w, "factor", stragglers[i].factor);
    json_close(w, '}');
  }
  json_close(w, ']');
  json_open(w, "stages", '[');
  for (int row = 0; row < run->n_rows; row++) {
    StagePasses p = passes_of(run, row);
    g_autofree char *ranks = mesh_stage_text(&layout->mesh, row);
    json_open(w, NULL, '{');
    json_put_int(w, "stage", row);
    json_put_string(w, "ranks", ranks);
    json_put_real(w, "least_pass_s", run->pass_s[p.least]);
    json_put_real(w, "mean_pass_s", p.mean_s);
    json_put_real(w, "most_pass_s", run->pass_s[p.most]);
    json_put_int(w, "slowest_rank", rank_of(run, layout, p.most));
    json_close(w, '}');
  }
  json_close(w, ']');
  json_close(w, '}');
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
