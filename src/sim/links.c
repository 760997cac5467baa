#include "sim/links.h"

#include <math.h>

enum { WAY_OUT, WAY_IN, WAY_COUNT };

/* Devices of each row in a domain with links to the outside that rows share. */
typedef struct {
  int tier;    /* whose links lead out of the domain */
  int first_resource;
  int *devices; /* by row */
} Domain;

struct SimLinks {
  int n_rows, n_tiers;
  GArray *capacity; /* double, by resource */
  GArray *uses;     /* FlowUse */
  GArray *specs;    /* FlowSpec */
  GArray *first_use; /* int: of each spec */
  int *spec;        /* by task, -1 = none */
  GArray *domains;  /* Domain */
};

typedef struct {
  SimLinks *links;
  const Program *program;
  const Layout *layout;
  const Cluster *cluster;
  gboolean *used; /* [row][tier]: by a transfer */
  int *receiver;  /* task that takes what a task sends, -1 = none */
  int *known;     /* [segment][row]: spec + 1 */
} LinksBuild;

static int port(const SimLinks *l, int row, int tier, int way)
{
  return (row * l->n_tiers + tier) * WAY_COUNT + way;
}

static int add_resource(SimLinks *l, double capacity)
{
  g_array_append_val(l->capacity, capacity);
  return l->capacity->len - 1;
}

/* Ports hold more than a share if a device may send faster while others are silent. */
static double port_shares(const Tier *tier)
{
  return isfinite(tier->bytes_per_s) ? MAX(1, tier->port_bytes_per_s / tier->bytes_per_s) : 1;
}

static gboolean same_devices(const SimLinks *l, const Domain *a, const Domain *b)
{
  for (int row = 0; row < l->n_rows; row++)
    if (a->devices[row] != b->devices[row])
      return FALSE;
  return a->tier == b->tier;
}

/* Keeps the domain unless one like it is there. */
static void add_domain(SimLinks *l, Domain domain, int size)
{
  for (guint i = 0; i < l->domains->len; i++)
    if (same_devices(l, &g_array_index(l->domains, Domain, i), &domain)) {
      g_free(domain.devices);
      return;
    }
  domain.first_resource = add_resource(l, size);
  add_resource(l, size);
  g_array_append_val(l->domains, domain);
}

/* The domains below a tier whose ports hold more than a share. */
static void add_domains(LinksBuild *b, int tier)
{
  SimLinks *l = b->links;
  int size = b->cluster->tiers[tier - 1].devices;

  for (int first = 0; first < b->layout->mesh.ranks; first += size) {
    Domain domain = { .tier = tier, .devices = g_new0(int, l->n_rows) };
    for (int rank = first; rank < MIN(first + size, b->layout->mesh.ranks); rank++)
      domain.devices[rank / b->layout->mesh.dense[AXIS_PIPELINE].stride % l->n_rows]++;
    add_domain(l, domain, size);
  }
}

static void add_resources(LinksBuild *b)
{
  SimLinks *l = b->links;

  for (int row = 0; row < l->n_rows; row++)
    for (int tier = 0; tier < l->n_tiers; tier++)
      for (int way = 0; way < WAY_COUNT; way++)
        add_resource(l, port_shares(&b->cluster->tiers[tier]));
  for (int tier = 1; tier < l->n_tiers; tier++)
    if (port_shares(&b->cluster->tiers[tier]) > 1)
      add_domains(b, tier);
}

static void add_use(SimLinks *l, int resource, double weight)
{
  FlowUse use = { resource, weight };
  g_array_append_val(l->uses, use);
}

/* A row's devices send or receive a share of a tier. */
static void occupy(LinksBuild *b, int row, int tier, int way, double weight)
{
  SimLinks *l = b->links;

  add_use(l, port(l, row, tier, way), weight);
  b->used[row * l->n_tiers + tier] = TRUE;
  for (guint i = 0; i < l->domains->len; i++) {
    const Domain *d = &g_array_index(l->domains, Domain, i);
    if (d->tier == tier && d->devices[row] > 0)
      add_use(l, d->first_resource + way, weight * d->devices[row]);
  }
}

static int add_spec(SimLinks *l, guint first_use, double latency_s, double seconds)
{
  FlowSpec spec = { .latency_s = latency_s, .bytes = seconds, .cap = 1, .n_uses = l->uses->len - first_use };

  if (spec.n_uses == 0)
    return -1;
  g_array_append_val(l->specs, spec);
  g_array_append_val(l->first_use, first_use);
  return l->specs->len - 1;
}

/* Latency and transfer add up to the segment's seconds exactly: one of the two
 * differences is exact (Sterbenz). */
static int transfer_spec(LinksBuild *b, const Segment *s, int row, int to)
{
  guint first_use = b->links->uses->len;
  const PortUse *use = &s->cost.use;
  double latency_s = s->seconds - use->transfer_s;

  for (int tier = 0; tier < b->links->n_tiers; tier++) {
    double weight = use->transfer_s > 0 ? MIN(1, use->port_s[tier] / use->transfer_s) : 0;
    if (!(weight > 0))
      continue;
    occupy(b, row, tier, WAY_OUT, weight);
    occupy(b, to, tier, WAY_IN, weight);
  }
  return add_spec(b->links, first_use, latency_s, s->seconds - latency_s);
}

/* Communication inside a pass, where the row's transfers use the same links; both groups share a tier as one use. */
static int pass_spec(LinksBuild *b, const Segment *s, int row)
{
  Layout room;
  const PassLayout *passes = &layout_of_layer(b->layout, s->first_layer, &room)->passes;
  const GroupShape groups[] = { pass_group(passes, b->cluster, RANKS_TENSOR),
                                pass_group(passes, b->cluster, RANKS_EXPERT_BLOCK) };
  const double exposed_s[] = { s->seconds - s->compute_s - s->expert_s - s->data_s, s->expert_s };
  guint first_use = b->links->uses->len;
  double weights[G_N_ELEMENTS(groups)] = { 0 };
  int tiers[G_N_ELEMENTS(groups)];

  for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
    double weight = s->seconds > 0 ? exposed_s[i] / s->seconds : 0;
    tiers[i] = group_tier(b->cluster, &groups[i]);
    if (groups[i].size > 1 && weight > 0 && b->used[row * b->links->n_tiers + tiers[i]])
      weights[i > 0 && tiers[i] == tiers[0] ? 0 : i] += weight;
  }
  for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
    if (!(weights[i] > 0))
      continue;
    occupy(b, row, tiers[i], WAY_OUT, weights[i]);
    occupy(b, row, tiers[i], WAY_IN, weights[i]);
  }
  return add_spec(b->links, first_use, 0, s->seconds);
}

static void add_specs(LinksBuild *b, gboolean passes)
{
  const Program *p = b->program;

  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = &g_array_index(p->tasks, Task, i);
    const Segment *s = &g_array_index(p->segments, Segment, t->segment);
    int to = b->receiver[i] < 0 ? t->row : g_array_index(p->tasks, Task, b->receiver[i]).row;
    int *known = &b->known[t->segment * p->n_rows + t->row];
    if (t->kind == TASK_OPTIMIZER || (t->kind == TASK_PASS) != passes)
      continue;
    if (*known == 0)
      *known = 1 + (passes ? pass_spec(b, s, t->row) : transfer_spec(b, s, t->row, to));
    b->links->spec[i] = *known - 1;
  }
}

SimLinks *sim_links_new(const Program *program, const Layout *layout, const Cluster *cluster)
{
  SimLinks *l = g_new0(SimLinks, 1);
  int n = MAX(program->tasks->len, 1);
  g_autofree gboolean *used = g_new0(gboolean, program->n_rows * MAX(cluster->n_tiers, 1));
  g_autofree int *receiver = program_receivers(program);
  g_autofree int *known = g_new0(int, MAX(program->segments->len, 1) * program->n_rows);
  LinksBuild b = { l, program, layout, cluster, used, receiver, known };

  l->n_rows = program->n_rows;
  l->n_tiers = cluster->n_tiers;
  l->capacity = g_array_new(FALSE, FALSE, sizeof(double));
  l->uses = g_array_new(FALSE, FALSE, sizeof(FlowUse));
  l->specs = g_array_new(FALSE, FALSE, sizeof(FlowSpec));
  l->first_use = g_array_new(FALSE, FALSE, sizeof(int));
  l->domains = g_array_new(FALSE, FALSE, sizeof(Domain));
  l->spec = indices_new(n);
  add_resources(&b);
  add_specs(&b, FALSE);
  add_specs(&b, TRUE);
  for (guint i = 0; i < l->specs->len; i++)
    g_array_index(l->specs, FlowSpec, i).uses = &g_array_index(l->uses, FlowUse, g_array_index(l->first_use, int, i));
  return l;
}

void sim_links_free(SimLinks *l)
{
  if (!l)
    return;
  for (guint i = 0; i < l->domains->len; i++)
    g_free(g_array_index(l->domains, Domain, i).devices);
  g_array_unref(l->domains);
  g_array_unref(l->capacity);
  g_array_unref(l->uses);
  g_array_unref(l->specs);
  g_array_unref(l->first_use);
  g_free(l->spec);
  g_free(l);
}

const FlowSpec *sim_links_flow(const SimLinks *l, int task)
{
  return l->spec[task] < 0 ? NULL : &g_array_index(l->specs, FlowSpec, l->spec[task]);
}

FlowNet *sim_links_net_new(const SimLinks *l)
{
  FlowNet *net = flow_net_new();

  for (guint i = 0; i < l->capacity->len; i++)
    flow_net_add_resource(net, g_array_index(l->capacity, double, i));
  return net;
}
