/* The strategies of a plan's layers, and where pipeline ranks run under each. */
#include "program/build.h"

static Site site_under(const Plan *view, const Cluster *whole, int rank)
{
  const Cluster *site = mesh_site(view, whole, rank);

  return (Site) { mesh_node_type(view, whole, rank), site,
                  { mesh_shards(view, site), mesh_expert_shards(view, site) },
                  { mesh_shard_copies(view, site), mesh_expert_shard_copies(view, site) },
                  { mesh_secondary(view, site), mesh_expert_secondary(view, site) } };
}

static Site *sites_new(const ProgramBuild *b)
{
  int ranks = b->plan->pp;
  Site *sites = g_new(Site, (gsize)b->n_strategies * ranks);

  for (int i = 0; i < b->n_strategies; i++)
    for (int rank = 0; rank < ranks; rank++) {
      const Plan *view = view_of(b, i, FALSE);
      Site *site = &sites[i * ranks + rank];
      gboolean known = rank > 0 && mesh_site(view, b->cluster, rank) == site[-1].cluster;
      *site = known ? site[-1] : site_under(view, b->cluster, rank);
    }
  return sites;
}

/* Index of a strategy, which is added if it is not there. */
static int find_strategy(ProgramBuild *b, const StrategyRun *run)
{
  for (int i = 0; i < b->n_strategies; i++) {
    StrategyRun known = plan_run(view_of(b, i, FALSE));
    if (!strategies_differ(&known, run))
      return i;
  }
  Plan view = plan_of_run(b->plan, run), experts = plan_of_experts(&view);
  b->strategies[b->n_strategies] = (Strategy) { { view, experts }, plan_has_replicas(&view),
                                                plan_fetches_weights(&view) || plan_fetches_weights(&experts) };
  return b->n_strategies++;
}

void strategies_init(ProgramBuild *b)
{
  StrategyRun own = plan_run(b->plan);

  b->strategies = g_new(Strategy, 1 + b->plan->strategies.n);
  b->strategy = g_new0(int, b->model->n_layers);
  find_strategy(b, &own);
  for (int block = 0; block < b->model->blocks && b->plan->strategies.n > 0; block++)
    b->strategy[1 + block] = find_strategy(b, strategies_find(&b->plan->strategies, block));
  b->sites = sites_new(b);
}

void strategies_clear(ProgramBuild *b)
{
  g_free(b->strategies);
  g_free(b->strategy);
  g_free(b->sites);
}
