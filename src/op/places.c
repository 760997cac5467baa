/* Nodes and ranks that a token's experts are expected on, and what is sent there. */
#include "op/build.h"

#include <math.h>

/* Places of `held` experts each on which a token's are, where tokens take theirs in turn: the first one lies at each
 * multiple of the common divisor in its place alike. */
static double reached_in_turn(int held, int taken)
{
  return 1 + (taken - group_divisor(taken, held)) / (double)held;
}

static double choose(int n, int k)
{
  double ways = k >= 0 && k <= n;

  for (int i = 0; i < k; i++)
    ways *= (double)(n - i) / (i + 1);
  return ways;
}

/* Chance that none of so many different experts, taken at random of all, is one of those that are here. */
static double missed(double all, double here, int taken)
{
  double chance = 1;

  for (int i = 0; i < taken && i < all; i++)
    chance *= MAX(0, all - here - i) / (all - i);
  return chance;
}

/* The same of a place that holds so many whole groups: of the groups that the token may visit as many may be the
 * place's as hypergeometric draws give. */
static double missed_groups(const FeedForward *f, int held)
{
  double each = (double)f->experts / f->groups, chance = 0;

  for (int here = 0; here <= MIN(held, f->groups_per_token); here++)
    chance += choose(held, here) * choose(f->groups - held, f->groups_per_token - here) /
              choose(f->groups, f->groups_per_token) *
              missed(f->groups_per_token * each, here * each, f->experts_per_token);
  return chance;
}

double build_places_reached(const Build *b, double places)
{
  const FeedForward *f = &b->spec->ffn;
  double experts = f->experts;

  if (b->passes->framework->gate_in_turn && fmod(f->experts, places) == 0)
    return MIN(places, reached_in_turn(f->experts / (int)places, f->experts_per_token));
  if (f->groups && fmod(f->groups, places) == 0)
    return places * (1 - missed_groups(f, f->groups / (int)places));
  if (f->groups) {
    experts *= (double)f->groups_per_token / f->groups;
    places = MAX(1, places * f->groups_per_token / f->groups);
  }
  return places * (1 - missed(experts, experts / places, f->experts_per_token));
}

int build_ranks_of_place(const Build *b)
{
  return group_ranks_of_node(&b->expert, b->network_tier);
}

double build_places_of_token(const Build *b)
{
  int in_node = build_ranks_of_place(b);

  return build_places_reached(b, (double)b->expert.size / (in_node < b->expert.size ? in_node : 1));
}

double build_other_nodes(const Build *b)
{
  gboolean sends = b->passes->dispatch == DISPATCH_FLEX && b->passes->framework->flex_node > 0;

  return sends ? MAX(0, (double)b->expert.size / build_ranks_of_place(b) - 1) : 0;
}

double build_chunks_sent(const Build *b, double sent, gboolean combined)
{
  int size = b->expert.size;
  int rows = combined ? (size <= 16 ? 12 : 8) : size <= 16 ? 20 : size <= 64 ? 8 : 12, channels = DEEPEP_SMS / 2;
  double nodes = (double)size / build_ranks_of_place(b);

  return build_other_nodes(b) * channels * ceil(sent / nodes / channels / rows);
}
