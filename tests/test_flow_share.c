/* What holds of any flows on shared links, on networks drawn at random. */
#include "flow_graph.h"
#include "main.h"
#include "sim/flow.h"

#include <math.h>

#define EPSILON 1e-11
#define USES_MAX 12

typedef struct {
  FlowUse uses[USES_MAX];
  FlowSpec spec;
  int flow;
  double start, moved;
} Live;

typedef struct {
  GRand *rand;
  FlowNet *net;
  int n_resources, n_live, live_max, uses_max;
  double capacity[64];
  Live live[128];
  double now;
} World;

static void world_init(World *w, guint32 seed)
{
  static const int sizes[] = { 1, 2, 4, 16, 64 };

  memset(w, 0, sizeof *w);
  w->rand = g_rand_new_with_seed(seed);
  w->net = flow_net_new();
  w->n_resources = sizes[seed % G_N_ELEMENTS(sizes)];
  w->live_max = seed % 3 == 0 ? 128 : 12;
  w->uses_max = seed % 4 == 0 ? USES_MAX : 3;
  for (int i = 0; i < w->n_resources; i++) {
    w->capacity[i] = seed % 2 ? 50e9 : g_rand_double_range(w->rand, 1e9, 100e9);
    flow_net_add_resource(w->net, w->capacity[i]);
  }
}

static void world_clear(World *w)
{
  g_rand_free(w->rand);
  flow_net_free(w->net);
}

static void start_one(World *w, int tag)
{
  static const double weights[] = { 1, 1, 1.75, 0.25, 4 };
  Live *live = &w->live[w->n_live++];
  int n = g_rand_int_range(w->rand, 0, MIN(w->uses_max, w->n_resources) + 1);
  int stride = g_rand_int_range(w->rand, 0, w->n_resources);

  /* Different resources: steps of an odd number around a power of two. */
  for (int i = 0; i < n; i++)
    live->uses[i] = (FlowUse) { (stride + (2 * stride + 1) * i) % w->n_resources,
                                weights[g_rand_int_range(w->rand, 0, G_N_ELEMENTS(weights))] };
  live->spec = (FlowSpec) { g_rand_boolean(w->rand) ? 0 : g_rand_double_range(w->rand, 0, 1e-3),
                            g_rand_int_range(w->rand, 0, 8) * 1e6,
                            n == 0 || g_rand_int_range(w->rand, 0, 3) == 0 ? g_rand_double_range(w->rand, 1e8, 20e9)
                                                                           : INFINITY,
                            live->uses, n, tag };
  live->start = w->now;
  live->moved = 0;
  live->flow = flow_start(w->net, w->now, &live->spec);
}

/* No resource is overfull, and what limits each flow is its cap or a full
 * resource on which none is faster. */
static void check_fair(World *w)
{
  double load[64] = { 0 }, fastest[64] = { 0 };

  for (int i = 0; i < w->n_live; i++)
    for (int u = 0; u < w->live[i].spec.n_uses; u++) {
      double rate = flow_rate(w->net, w->live[i].flow);
      int r = w->live[i].uses[u].resource;
      load[r] += w->live[i].uses[u].weight * rate;
      fastest[r] = MAX(fastest[r], rate);
    }
  for (int r = 0; r < w->n_resources; r++)
    if (load[r] > w->capacity[r] * (1 + EPSILON) || fabs(load[r] - flow_net_load(w->net, r)) > EPSILON * w->capacity[r])
      ck_abort_msg("resource %d carries %g of its capacity", r, load[r] / w->capacity[r]);
  for (int i = 0; i < w->n_live; i++) {
    const Live *live = &w->live[i];
    double rate = flow_rate(w->net, live->flow);
    gboolean limited = rate == live->spec.cap;
    if (rate == 0) /* in its latency, or due at this instant */
      limited = w->now <= live->start + live->spec.latency_s;
    for (int u = 0; u < live->spec.n_uses && !limited; u++) {
      int r = live->uses[u].resource;
      limited = load[r] >= w->capacity[r] * (1 - EPSILON) && rate >= fastest[r] * (1 - EPSILON);
    }
    if (!limited || rate > live->spec.cap)
      ck_abort_msg("nothing holds flow %d at %g", live->spec.tag, rate);
  }
}

/* Moves on and checks that the flows that end have moved their bytes. */
static int advance(World *w, double now)
{
  const int *done;

  for (int i = 0; i < w->n_live; i++)
    w->live[i].moved += flow_rate(w->net, w->live[i].flow) * (now - w->now);
  w->now = now;
  int n = flow_advance(w->net, now, &done);
  for (int i = 0; i < n; i++) {
    int l = 0;
    while (l < w->n_live && w->live[l].spec.tag != done[i])
      l++;
    ck_assert_int_lt(l, w->n_live);
    double bytes = w->live[l].spec.bytes;
    ck_assert_msg(fabs(w->live[l].moved - bytes) <= 1e-9 * bytes, "moved %.17g of %.17g", w->live[l].moved, bytes);
    w->live[l] = w->live[--w->n_live];
    w->live[l].spec.uses = w->live[l].uses;
  }
  return n;
}

START_TEST(rates_are_fair_and_bytes_kept)
{
  World w;
  int n_done = 0, n_started = 0;

  world_init(&w, _i);
  while (n_done < 400) {
    double next = flow_next_event(w.net);
    if (w.n_live < w.live_max && n_started < 400 && (next == INFINITY || g_rand_int_range(w.rand, 0, 3) > 0)) {
      if (next < INFINITY && g_rand_boolean(w.rand)) /* between two events */
        n_done += advance(&w, w.now + g_rand_double(w.rand) * (next - w.now));
      start_one(&w, n_started++);
    } else {
      n_done += advance(&w, next);
    }
    check_fair(&w);
  }
  ck_assert_int_eq(w.n_live, 0);
  ck_assert(flow_next_event(w.net) == INFINITY);
  for (int r = 0; r < w.n_resources; r++)
    ck_assert(flow_net_load(w.net, r) == 0);
  world_clear(&w);
}
END_TEST

START_TEST(same_calls_same_bytes)
{
  g_autoptr(FlowGraph) graph = flow_graph_pod(4, 48, 20, _i);
  gsize size = graph->flows->len * sizeof(double);
  g_autofree double *a = g_malloc(size);
  g_autofree double *b = g_malloc(size);

  flow_graph_run(graph, a);
  flow_graph_run(graph, b);
  ck_assert(memcmp(a, b, size) == 0);
}
END_TEST

/* A chain that meets nobody ends at the sum of its parts, to the last bit. */
START_TEST(one_chain_is_the_sum)
{
  g_autoptr(FlowGraph) graph = flow_graph_pod(8, 1, 50, _i);
  g_autofree double *end = g_new(double, graph->flows->len);
  double now = 0;

  flow_graph_run(graph, end);
  for (guint i = 0; i < graph->flows->len; i++) {
    const GraphFlow *f = &g_array_index(graph->flows, GraphFlow, i);
    double rate = f->cap;
    for (int u = f->first_use; u < f->first_use + f->n_uses; u++) {
      FlowUse use = g_array_index(graph->uses, FlowUse, u);
      rate = MIN(rate, g_array_index(graph->capacities, double, use.resource) / use.weight);
    }
    now = now + (f->latency_s + f->bytes / rate);
    ck_assert(end[i] == now);
  }
}
END_TEST

START_TEST(more_bandwidth_is_never_slower_alone)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed(_i);

  for (int i = 0; i < 200; i++) {
    g_autoptr(FlowGraph) graph = flow_graph_new();
    double before, after;
    flow_graph_add_flow(graph, -1, g_rand_double(rand) * 1e-5, g_rand_double(rand) * 1e9,
                        g_rand_double_range(rand, 1e9, 1e12));
    for (int r = 0; r < 4; r++)
      flow_graph_cross(graph, flow_graph_add_resources(graph, 1, g_rand_double_range(rand, 1e9, 1e12)),
                       g_rand_double_range(rand, 0.1, 4));
    flow_graph_run(graph, &before);
    g_array_index(graph->capacities, double, g_rand_int_range(rand, 0, 4)) *= g_rand_double_range(rand, 1, 3);
    flow_graph_run(graph, &after);
    ck_assert(after <= before);
  }
}
END_TEST

TEST_LOOPS("flow_share", { rates_are_fair_and_bytes_kept, 60, TRUE }, { same_calls_same_bytes, 4 },
           { one_chain_is_the_sum, 4 },
           { more_bandwidth_is_never_slower_alone, 2 })
