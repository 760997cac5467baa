/* Links of a machine: among ranks of a node, and between its nodes. */
#include "base/json.h"
#include "calibrate/machine_parts.h"

#define SLOWDOWN_MAX 10 /* as the file's: next to nothing is hidden */

/* ---- beside products ---- */

static double seconds_of(const GArray *points, const MachinePoint *like_this)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (point_like(p, like_this->kind, like_this->name, like_this->backward) && p->busy == like_this->busy &&
        p->m == like_this->m && p->n == like_this->n && p->k == like_this->k && p->bytes == like_this->bytes)
      return p->seconds;
  }
  return 0;
}

/* How much longer products take beside a collective: of its time T, of their time C
 * and of both together B, C = T / slowdown + B - T; both one after the other take C + T. */
static double slowdown_of(const GArray *points, int processors)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (p->kind != POINT_BESIDE || p->backward)
      continue;
    MachinePoint in_turn = *p;
    in_turn.backward = TRUE;
    MachinePoint product = { .kind = POINT_MATMUL, .name = "nt", .busy = processors, .m = p->m, .n = p->n, .k = p->k };
    MachinePoint alone = { .kind = POINT_COLLECTIVE, .busy = p->busy, .bytes = p->bytes };
    g_strlcpy(alone.name, p->name, sizeof alone.name);
    double t = seconds_of(points, &alone), both = seconds_of(points, &in_turn);
    if (both == 0) /* files that lack it */
      both = t + p->head_dim * seconds_of(points, &product);
    if (t > 0 && both > t)
      return CLAMP(t / MAX(both - p->seconds, t / SLOWDOWN_MAX), 1, SLOWDOWN_MAX);
  }
  return 1;
}

/* ---- fits ---- */

/* The machine, as far as a link can tell, with so many ranks of a node at work beside its network; its tiers' links
 * are sought. */
static Cluster *machine_of(const MachineFit *fit, int at_work)
{
  int node = fit->head.node_ranks, nodes = fit->head.ranks / node;
  const double rates[] = { fit->copy_bytes_per_s, fit->network_bytes_per_s / at_work };
  const double ports[] = { fit->copy_bytes_per_s, fit->network_bytes_per_s };
  Cluster *c = g_new0(Cluster, 1);

  c->name = g_strdup("machine");
  c->devices_per_node = node;
  c->nodes = nodes;
  c->devices = fit->head.ranks;
  c->network_tier = nodes > 1 ? node > 1 : -1;
  c->library = fit->library;
  for (int t = node > 1 ? 0 : 1; t <= (nodes > 1); t++) {
    Tier *tier = &c->tiers[c->n_tiers++];
    *tier = (Tier) { .name = g_strdup(t ? "network" : "memory"), .link = t ? fit->network : fit->link,
                     .devices = t ? G_MAXINT : node, .bytes_per_s = rates[t], .port_bytes_per_s = ports[t] };
    tier->link.name = g_strdup(tier->name);
  }
  return c;
}

/* Ranks beyond a node's processors take turns: their collectives are those of as many processors, by turns. */
static double turns(const MachineFit *fit, const MachinePoint *p)
{
  return MAX(1, (double)MIN(p->ranks, fit->head.node_ranks) / fit->head.processors);
}

static GroupShape shape_of(const MachineFit *fit, const Cluster *c, const MachinePoint *p, gboolean message)
{
  int node = fit->head.node_ranks;
  gboolean apart = p->ranks > node;
  GroupShape shape = { .size = message ? 2 : p->ranks };

  for (int t = 0; t < TIER_MAX; t++)
    shape.per_domain[t] = c->tiers[t].devices == node && apart ? (message ? 1 : node) : shape.size;
  return shape;
}

/* Rows of groups within a node, or across nodes: messages of one rank of a node have its network alone. */
static GArray *rows_of(const GArray *points, const MachineFit *fit, Cluster *all, Cluster *alone, gboolean across)
{
  GArray *rows = g_array_new(FALSE, FALSE, sizeof(CollectiveRow));

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (p->kind != POINT_COLLECTIVE || (p->ranks > fit->head.node_ranks) != across)
      continue;
    CollectiveRow row = { .collective = names_find(collective_names, p->name), .bytes = p->bytes, .weight = 1 };
    gboolean message = row.collective == COLLECTIVE_SEND;
    row.seconds = p->seconds / (message ? 1 : turns(fit, p));
    row.cluster = message ? alone : all;
    row.group = shape_of(fit, all, p, message);
    g_array_append_val(rows, row);
  }
  return rows;
}

static FitErrors fit_tier(const GArray *points, const MachineFit *fit, gboolean across, gboolean hops, Link *link)
{
  g_autoptr(Cluster) all = machine_of(fit, fit->head.node_ranks);
  g_autoptr(Cluster) alone = machine_of(fit, 1);
  g_autoptr(GArray) rows = rows_of(points, fit, all, alone, across);

  if (rows->len == 0)
    return (FitErrors) { 0 };
  return fit_link((CollectiveRow *)(gpointer)rows->data, rows->len, across ? all->network_tier : 0,
                  FIT_LINK_BASE | FIT_LINK_RATE | FIT_LINK_P2P | FIT_LINK_REDUCE | (hops ? FIT_LINK_HOP : 0), link).fit;
}

/* The fastest message between two nodes. */
static double network_rate(const GArray *points, int node_ranks)
{
  double rate = 0;

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (point_like(p, POINT_COLLECTIVE, collective_names[COLLECTIVE_SEND], FALSE) && p->ranks > node_ranks)
      rate = MAX(rate, p->bytes / p->seconds);
  }
  return rate;
}

void machine_fit_links(const GArray *points, MachineFit *fit)
{
  int node = fit->head.node_ranks, nodes = fit->head.ranks / node;

  fit->link = (Link) { .kind = LINK_SWITCH, .compute_slowdown = slowdown_of(points, fit->head.processors),
                       .efficiency = 0.5, .p2p_efficiency = 0.5 };
  fit->network = (Link) { .kind = LINK_NETWORK, .compute_slowdown = 1, .efficiency = 0.5, .p2p_efficiency = 0.5 };
  if (nodes > 1)
    fit->network_bytes_per_s = network_rate(points, node);
  if (node > 1)
    fit->link_errors = fit_tier(points, fit, FALSE, node > 2, &fit->link);
  if (fit->network_bytes_per_s > 0)
    fit->network_errors = fit_tier(points, fit, TRUE, nodes > 2, &fit->network);
}
