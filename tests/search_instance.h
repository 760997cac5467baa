/*
 * Searches small enough for every plan of the space to be simulated: what the
 * tests of search share.
 */
#ifndef TDP_TESTS_SEARCH_INSTANCE_H
#define TDP_TESTS_SEARCH_INSTANCE_H

#include "ask/knobs.h"
#include "fixture.h"
#include "search/floors.h"
#include "search/price_cache.h"
#include "search/search.h"

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan base;
  SearchOptions options;
} Instance;

/* A small model on a few devices with little memory, drawn from the seed. */
void instance_init(Instance *in, GRand *rand);

/* Few devices and layers, so that every plan is simulated in a moment. */
void instance_small_init(Instance *in, GRand *rand);

/* A question to a framework of plans/frameworks/ by name: a small model, of experts where they go to other ranks, on a
 * few devices in small nodes; the host may take states. Nothing is fixed yet. */
void instance_framework_init(Instance *in, GRand *rand, const char *framework);

/* A question to megatron-core-2026 about a small model with every module that may be made again. */
void instance_latent_init(Instance *in, GRand *rand);

/* Fixes keys at random in place of those that were fixed, and opens parts of the space that are shut by default. */
void instance_fix(Instance *in, GRand *rand);

/* A small model on so many devices in nodes of 2; the links of tier `slow` carry 2 GB/s, all others 100. */
void instance_odd_links(Instance *in, const char *framework, int devices, int slow);

/* Links that carry no more than so much and whose processors add, those of vectors beyond 0.3 MB far slower. */
void instance_add_far(Instance *in, double bytes_per_s);

void instance_clear(Instance *in);

/* Every legal plan of the space (Plan): plan_check accepts each. */
GArray *instance_plans(const Instance *in);

/* The same; NULL if they are more than so many. */
GArray *instance_plans_within(const Instance *in, guint most);

/* So many can be simulated in a moment. What is drawn larger may be drawn again. */
#define INSTANCE_SMALL 45000u

/* A plan simulated; `known` remembers prices of layers, NULL = they are made for it alone. */
void instance_simulate(const Instance *in, const Plan *plan, PriceCache *known, Metrics *out);

/* Every legal plan simulated: bounds never exceed what comes out, and the best that fits is what
 * the search returns; every test_stride()-th plan, and the best of these no better. Returns how many plans there are. */
guint instance_check(Instance *in);

/* The same where these are known, from instance_plans(). */
void instance_check_all(Instance *in, const GArray *all);

/* Multiplies a number of the cluster, drawn, by the factor, and raises what is known there by bounds of a search before
 * it; returns which number it was. */
const Knob *instance_change(Cluster *cluster, GRand *rand, double factor, const Floors *bounds, Floors *known);

#endif
