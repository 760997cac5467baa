#include "search/space.h"

typedef struct {
  const Cluster *cluster;
  const SearchOptions *options;
  gboolean fit;
} States;

static void ignore_rule(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data;
  (void)plan;
  (void)rule;
  (void)plans;
}

/* What is met within a part, whose states nobody has looked at, has none that are too large. */
static void meet_part(gpointer data, const SpacePart *part)
{
  States *s = data;

  s->fit |= part->state_bytes <= s->cluster->device.memory_bytes;
}

static gboolean ends_walk(gpointer data)
{
  States *s = data;

  s->fit |= stop_asked(s->options->stop);
  return s->fit;
}

gboolean search_states_fit(const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  States states = { cluster, options, FALSE };
  const SpaceVisitor visitor = { .rejected = ignore_rule, .data = &states, .stops = ends_walk, .part = meet_part,
                                 .timed_bytes = -1 };
  g_autoptr(PriceCache) prices = price_cache_new(model, cluster);
  g_autoptr(SpaceWalk) walk = space_walk_new(model, cluster, options, prices, &visitor);

  space_walk_all(walk);
  return states.fit;
}
