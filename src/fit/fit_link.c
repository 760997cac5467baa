#include "fit/fit.h"

#include "base/units.h"

#include <math.h>

typedef struct {
  const char *key; /* of a link's file */
  int mask;
  double unit;
  double start, min, max, step; /* in units */
} LinkParameter;

#define SHORTEST_SHARE 1.25 /* of the shortest time of a kind, which noise may have made shorter: its fixed time at most */

#define PULL 1e-3 /* of the loss for an e-fold: less than what one row of many says, so that it decides only where none does */

static const LinkParameter parameters[] = {
  {"base_us", FIT_LINK_BASE, US, 10, 0, 1000, 5},
  {"hop_us", FIT_LINK_HOP, US, 1, 0, 100, 0.5},
  {"efficiency", FIT_LINK_RATE, 1, 0.85, 0.02, 1, -0.05},
  {"sqrt_us_per_sqrt_byte", FIT_LINK_RATE, US, 0.005, 0, 1, 0.003},
  {"tree_hop_us", FIT_LINK_TREE, US, 40, 0, 1000, 10},
  {"p2p_base_us", FIT_LINK_P2P, US, 10, 0, 1000, 4},
  {"p2p_efficiency", FIT_LINK_P2P, 1, 0.8, 0.02, 1, -0.05},
  {"p2p_efficiency", FIT_LINK_SPREAD, 1, 0.8, 0.02, 1, -0.05},
  {"p2p_spread", FIT_LINK_SPREAD, 1, 0.1, 0, 0.9, 0.1},
  {"p2p_base_us", FIT_LINK_SHORT, US, 12, 0, 1000, 4},
  {"p2p_efficiency", FIT_LINK_SHORT, 1, 0.75, 0.02, 1, -0.05},
  {"p2p_sqrt_us_per_sqrt_byte", FIT_LINK_SHORT, US, 0.005, 0, 1, 0.003},
  {"short_base_us", FIT_LINK_SHORT, US, 7, 0, 100, 2},
  {"short_gb_per_s", FIT_LINK_SHORT, GB, 6, 0.1, 1000, 2},
  {"p2p_base_us", FIT_LINK_FILL, US, 25, 0, 1000, 10},
  {"p2p_efficiency", FIT_LINK_FILL, 1, 0.87, 0.02, 1, -0.05},
  {"p2p_sqrt_us_per_sqrt_byte", FIT_LINK_FILL, US, 0.005, 0, 1, 0.003},
  {"reduce_slowdown", FIT_LINK_REDUCE, 1, 1.5, 1, 20, 0.5},
  {"far_reduce_slowdown", FIT_LINK_REDUCE, 1, 3, 1, 100, 1},
  {"reduce_cache_mib", FIT_LINK_REDUCE, MIB, 0.5, 0.01, 16, 0.3},
  {"in_switch_base_us", FIT_LINK_IN_SWITCH, US, 20, 0, 30, 5},
  {"in_switch_efficiency", FIT_LINK_IN_SWITCH, 1, 1.1, 0.02, 2, -0.05},
  {"in_switch_sqrt_us_per_sqrt_byte", FIT_LINK_IN_SWITCH, US, 0.005, 0, 1, 0.003},
};

typedef struct {
  CollectiveRow *rows;
  int n, tier;
  Link *link;
  int n_free;
  const LinkParameter *free[G_N_ELEMENTS(parameters)];
  double near[G_N_ELEMENTS(parameters)]; /* in units, of each that is free; NAN = wherever it fits */
} Data;

static double *field(Link *link, const LinkParameter *parameter)
{
  return &G_STRUCT_MEMBER(double, link, link_field(parameter->key)->offset);
}

const char *fit_link_key(int mask, int i)
{
  for (gsize k = 0; k < G_N_ELEMENTS(parameters); k++)
    if ((parameters[k].mask & mask) && i-- == 0)
      return parameters[k].key;
  return NULL;
}

void fit_link_set(CollectiveRow *rows, int n, int tier, const Link *link)
{
  for (int i = 0; i < n; i++) {
    Link *out = &rows[i].cluster->tiers[tier].link;
    char *name = out->name;
    *out = *link;
    out->name = name;
  }
}

static double row_ratio(const CollectiveRow *row)
{
  return collective_cost(row->cluster, row->collective, row->bytes, &row->group).seconds / row->seconds;
}

static void unpack(const double *x, const Data *data)
{
  for (int i = 0; i < data->n_free; i++)
    *field(data->link, data->free[i]) = x[i] * data->free[i]->unit;
  fit_link_set(data->rows, data->n, data->tier, data->link);
}

/* What is away from where it is to stay near. */
static double distance(const double *x, const Data *data)
{
  double sum = 0;

  for (int i = 0; i < data->n_free; i++) {
    double unit = fabs(data->free[i]->step);
    if (!isnan(data->near[i]))
      sum += fabs(log((x[i] + unit) / (data->near[i] + unit)));
  }
  return PULL * sum;
}

static double loss(const double *x, gpointer p)
{
  Data *data = p;
  unpack(x, data);
  double sum = 0, weights = 0;
  for (int i = 0; i < data->n; i++) {
    const CollectiveRow *row = &data->rows[i];
    if (row->check)
      continue;
    sum += row->weight * fabs(log(row_ratio(row)));
    weights += row->weight;
  }
  return (weights > 0 ? sum / weights : 0) + distance(x, data);
}

FitResult fit_link_errors(const CollectiveRow *rows, int n)
{
  FitSides sides;
  fit_sides_init(&sides, n);
  for (int i = 0; i < n; i++)
    fit_sides_add(&sides, rows[i].check, row_ratio(&rows[i]));
  return fit_sides_clear(&sides);
}

/* The switch's fixed time is not far above the shortest all-reduce. Where small ones go by the ring only the size tells
 * it from which on they no longer do, which a fill of the pipe explains as well: its bound in `parameters` holds there. */
static double fixed_s_most(const CollectiveRow *rows, int n)
{
  double shortest_s = INFINITY;

  for (int i = 0; i < n; i++)
    if (rows[i].collective == COLLECTIVE_ALL_REDUCE && !rows[i].check)
      shortest_s = MIN(shortest_s, rows[i].seconds);
  return isfinite(shortest_s) ? SHORTEST_SHARE * shortest_s : 0;
}

FitResult fit_link(CollectiveRow *rows, int n, int tier, int mask, Link *link)
{
  return fit_link_near(rows, n, tier, mask, 0, link);
}

FitResult fit_link_near(CollectiveRow *rows, int n, int tier, int mask, int near, Link *link)
{
  Data data = {.rows = rows, .n = n, .tier = tier, .link = link};
  FitParameter free[G_N_ELEMENTS(parameters)];
  for (guint i = 0; i < G_N_ELEMENTS(parameters); i++) {
    const LinkParameter *p = &parameters[i];
    if (!(p->mask & mask))
      continue;
    double start = p->mask & near && *field(link, p) > 0 ? *field(link, p) / p->unit : p->start;
    free[data.n_free] = (FitParameter){start, p->min, p->max, p->step};
    if (g_str_equal(p->key, "in_switch_base_us"))
      free[data.n_free].max = MAX(p->max, fixed_s_most(rows, n) / p->unit);
    data.near[data.n_free] = p->mask & near ? *field(link, p) / p->unit : NAN;
    data.free[data.n_free++] = p;
  }
  double x[G_N_ELEMENTS(parameters)];
  fit_minimize(free, data.n_free, loss, &data, x);
  unpack(x, &data);
  link->provenance = PROVENANCE_FITTED;
  return fit_link_errors(rows, n);
}
