/* The strategies of a layout's layers, and where pipeline ranks run under each. */
#include "program/build.h"

static Site site_under(const Layout *l, const Cluster *whole, int rank)
{
  Site site = { .type = mesh_node_type(&l->mesh, whole, rank), .cluster = mesh_site(&l->mesh, whole, rank) };

  for (int experts = 0; experts < 2; experts++) {
    site.data[experts] = state_group(l, site.cluster, experts, RANKS_SHARDS);
    site.sums[experts] = state_group(l, site.cluster, experts, RANKS_SUMS);
    site.copies[experts] = state_group(l, site.cluster, experts, RANKS_COPIES);
    site.secondary[experts] = state_group(l, site.cluster, experts, RANKS_SECONDARY);
  }
  return site;
}

static Site *sites_new(const ProgramBuild *b)
{
  int ranks = b->shape.ranks;
  Site *sites = g_new(Site, (gsize)b->n_strategies * ranks);

  for (int i = 0; i < b->n_strategies; i++)
    for (int rank = 0; rank < ranks; rank++) {
      const Layout *l = &b->strategies[i];
      Site *site = &sites[i * ranks + rank];
      gboolean known = rank > 0 && mesh_site(&l->mesh, b->cluster, rank) == site[-1].cluster;
      *site = known ? site[-1] : site_under(l, b->cluster, rank);
    }
  return sites;
}

/* Index of a run's strategy, which is added if it is not there. */
static int find_strategy(ProgramBuild *b, int run)
{
  StrategyRun strategy = layout_run(b->layout, run);

  for (int i = 0; i < b->n_strategies; i++) {
    StrategyRun known = layout_run(&b->strategies[i], -1);
    if (!strategies_differ(&known, &strategy))
      return i;
  }
  b->strategies[b->n_strategies] = layout_of_run(b->layout, run);
  return b->n_strategies++;
}

void strategies_init(ProgramBuild *b)
{
  b->strategies = g_new(Layout, 1 + b->layout->n_runs);
  b->strategy = g_new0(int, b->model->n_layers);
  find_strategy(b, -1);
  for (int block = 0; block < b->model->blocks && b->layout->n_runs > 0; block++)
    b->strategy[1 + block] = find_strategy(b, layout_run_of_layer(b->layout, 1 + block));
  b->sites = sites_new(b);
}

void strategies_clear(ProgramBuild *b)
{
  g_free(b->strategies);
  g_free(b->strategy);
  g_free(b->sites);
}
