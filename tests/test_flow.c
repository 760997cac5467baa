/* Flows on shared links: cases computed by hand. */
#include "flow_graph.h"
#include "main.h"

#include <math.h>

/* Ends of a graph's flows against those expected, to 1e-12. */
static void check_ends(const FlowGraph *graph, const double *expected)
{
  g_autofree double *end = g_new(double, graph->flows->len);

  flow_graph_run(graph, end);
  for (guint i = 0; i < graph->flows->len; i++)
    ck_assert_msg(fabs(end[i] - expected[i]) <= 1e-12 * expected[i], "flow %u ends at %.17g, expected %.17g", i, end[i],
                  expected[i]);
}

/* A transfer that meets nobody takes latency + bytes / rate to the last bit, whatever else runs elsewhere. */
START_TEST(alone_is_exact)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed(7);

  for (int i = 0; i < 1000; i++) {
    g_autoptr(FlowNet) net = flow_net_new();
    const int *done;
    double now = g_rand_double(rand), rate = INFINITY;
    FlowUse uses[3];
    for (int r = 0; r < 3; r++) {
      double capacity = g_rand_double_range(rand, 1e9, 1e12);
      uses[r] = (FlowUse) { flow_net_add_resource(net, capacity), g_rand_double_range(rand, 0.1, 10) };
      rate = MIN(rate, capacity / uses[r].weight);
    }
    FlowUse other = { flow_net_add_resource(net, 1e9), 1 };
    FlowSpec spec = { g_rand_double_range(rand, 0, 1e-4), g_rand_double_range(rand, 1, 1e9),
                      i % 2 ? INFINITY : g_rand_double_range(rand, 1e9, 1e11), uses, 3, 17 };
    double expected = now + (spec.latency_s + spec.bytes / MIN(spec.cap, rate));
    flow_start(net, now, &spec);
    for (int k = 0; k < 3; k++)
      flow_start(net, now, &(FlowSpec) { 1e-7 * k, 1e3, INFINITY, &other, 1, k });
    for (int n = 0; n == 0 || done[0] != 17;) {
      now = flow_next_event(net);
      n = flow_advance(net, now, &done);
    }
    ck_assert(now == expected);
  }
}
END_TEST

START_TEST(two_share_a_link)
{
  g_autoptr(FlowGraph) graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 10);
  flow_graph_add_flow(graph, -1, 0, 10, INFINITY); /* 5/s to 2 */
  flow_graph_cross(graph, 0, 1);
  flow_graph_add_flow(graph, -1, 0, 30, INFINITY); /* 5/s to 2, then 10/s for 20 */
  flow_graph_cross(graph, 0, 1);
  check_ends(graph, (double[]) { 2, 4 });
}
END_TEST

/* The long flow crosses both links: 4/s each on the first leave 16/s to the short one on the second. */
START_TEST(three_on_two_links)
{
  g_autoptr(FlowGraph) graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 8);
  flow_graph_add_resources(graph, 1, 20);
  flow_graph_add_flow(graph, -1, 0, 40, INFINITY); /* both: 4/s to 1, 4/s to 2, then 8/s for 32 */
  flow_graph_cross(graph, 0, 1);
  flow_graph_cross(graph, 1, 1);
  flow_graph_add_flow(graph, -1, 0, 8, INFINITY); /* first: 4/s */
  flow_graph_cross(graph, 0, 1);
  flow_graph_add_flow(graph, -1, 0, 16, INFINITY); /* second: 16/s */
  flow_graph_cross(graph, 1, 1);
  check_ends(graph, (double[]) { 6, 2, 1 });
}
END_TEST

START_TEST(caps_leave_room)
{
  g_autoptr(FlowGraph) graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 12);
  flow_graph_add_flow(graph, -1, 0, 8, 2); /* 2/s */
  flow_graph_cross(graph, 0, 1);
  for (int i = 0; i < 2; i++) { /* 5/s each */
    flow_graph_add_flow(graph, -1, 0, 10, INFINITY);
    flow_graph_cross(graph, 0, 1);
  }
  flow_graph_add_flow(graph, -1, 0, 6, 3); /* crosses nothing */
  check_ends(graph, (double[]) { 4, 2, 2, 2 });
}
END_TEST

/* Equal rates r: 1.75 r + r + 0.25 r = 12; the weight counts in the use, not in the share. */
START_TEST(weights_count_in_the_use)
{
  g_autoptr(FlowGraph) graph = flow_graph_new();
  static const double weights[] = { 1.75, 1, 0.25 };

  flow_graph_add_resources(graph, 1, 12);
  for (int i = 0; i < 3; i++) {
    flow_graph_add_flow(graph, -1, 0, 4 << i, INFINITY);
    flow_graph_cross(graph, 0, weights[i]);
  }
  /* 4/s each to 1; then 12 / 1.25 = 9.6/s; then 48/s */
  check_ends(graph, (double[]) { 1, 1 + 4 / 9.6, 1 + 4 / 9.6 + 8.0 / 48 });
}
END_TEST

START_TEST(latency_keeps_the_link_free)
{
  g_autoptr(FlowGraph) graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 10);
  flow_graph_add_flow(graph, -1, 0, 40, INFINITY); /* 10/s to 3, 5/s to 5 */
  flow_graph_cross(graph, 0, 1);
  flow_graph_add_flow(graph, -1, 3, 20, INFINITY); /* 5/s from 3 to 5, 10/s to 6 */
  flow_graph_cross(graph, 0, 1);
  check_ends(graph, (double[]) { 5, 6 });
}
END_TEST

START_TEST(one_arrives_when_another_ends)
{
  g_autoptr(FlowGraph) graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 10);
  flow_graph_add_flow(graph, -1, 0, 10, INFINITY); /* 5/s to 2 */
  flow_graph_cross(graph, 0, 1);
  flow_graph_add_flow(graph, -1, 0, 20, INFINITY); /* 5/s all along, to 4 */
  flow_graph_cross(graph, 0, 1);
  flow_graph_add_flow(graph, 0, 0, 15, INFINITY); /* 5/s from 2 to 4, then 10/s */
  flow_graph_cross(graph, 0, 1);
  flow_graph_add_flow(graph, 2, 0.5, 0, INFINITY); /* nothing to move */
  flow_graph_cross(graph, 0, 1);
  check_ends(graph, (double[]) { 2, 4, 4.5, 5 });
}
END_TEST

/* Those that end together are told in the order in which they started, also
 * where slots have been used before. */
START_TEST(ties_in_order_of_start)
{
  g_autoptr(FlowNet) net = flow_net_new();
  FlowUse use = { flow_net_add_resource(net, 100), 1 };
  const int *done;

  for (int round = 0; round < 5; round++) {
    double now = 3 * round;
    for (int i = 0; i < 10; i++)
      flow_start(net, now, &(FlowSpec) { i % 2 ? 0 : 1, i % 2 ? 20 : 0, INFINITY, &use, 1, 100 * round + i });
    ck_assert_int_eq(flow_advance(net, now, &done), 0);
    ck_assert(flow_next_event(net) == now + 1);
    ck_assert_int_eq(flow_advance(net, now + 1, &done), 10);
    for (int i = 0; i < 10; i++)
      ck_assert_int_eq(done[i], 100 * round + i);
    ck_assert(flow_next_event(net) == INFINITY);
  }
}
END_TEST

START_TEST(advance_between_events)
{
  g_autoptr(FlowNet) net = flow_net_new();
  FlowUse use = { flow_net_add_resource(net, 10), 1 };
  const int *done;
  int first = flow_start(net, 0, &(FlowSpec) { 1, 30, INFINITY, &use, 1, 1 });

  ck_assert_int_eq(flow_advance(net, 0.5, &done), 0);
  ck_assert(flow_rate(net, first) == 0 && flow_net_load(net, use.resource) == 0);
  ck_assert_int_eq(flow_advance(net, 1, &done), 0);
  ck_assert(flow_rate(net, first) == 10);
  ck_assert_int_eq(flow_advance(net, 2, &done), 0); /* 20 left */
  int second = flow_start(net, 2, &(FlowSpec) { 0, 10, 2, &use, 1, 2 });
  ck_assert_int_eq(flow_advance(net, 2, &done), 0);
  ck_assert(flow_rate(net, first) == 8 && flow_rate(net, second) == 2 && flow_net_load(net, use.resource) == 10);
  ck_assert(flow_next_event(net) == 4.5);
}
END_TEST

#ifdef __SANITIZE_ADDRESS__
#define TRANSFERS 500000
#else
#define TRANSFERS 5000000
#endif

/* Two chains in turn on a link, two events a transfer: the end is that of the closed form. */
START_TEST(errors_do_not_grow)
{
  g_autoptr(FlowNet) net = flow_net_new();
  FlowUse use = { flow_net_add_resource(net, 3e9), 1 };
  FlowSpec specs[2] = { { 0, 7e5, INFINITY, &use, 1, 0 }, { 0, 7e5, INFINITY, &use, 1, 1 } };
  const int *done;
  double now = 0;
  int n_done = 0;

  for (int i = 0; i < 2; i++)
    flow_start(net, 0, &specs[i]);
  specs[0].bytes = specs[1].bytes = 1e6;
  specs[1].bytes += 2e6 / 3;
  for (int started = 2; n_done < TRANSFERS;) {
    now = flow_next_event(net);
    int n = flow_advance(net, now, &done);
    n_done += n;
    for (int i = 0; i < n && started < TRANSFERS; i++, started++)
      flow_start(net, now, &specs[started % 2]);
  }
  /* The link is never idle, so all bytes pass at its capacity. */
  double bytes = 2 * 7e5 + (TRANSFERS - 2.0) * (1e6 + 1e6 / 3);
  ck_assert_msg(fabs(now * 3e9 / bytes - 1) < 1e-10, "off by %g", now * 3e9 / bytes - 1);
}
END_TEST

TEST_MAIN("flow", alone_is_exact, two_share_a_link, three_on_two_links, caps_leave_room, weights_count_in_the_use,
          latency_keeps_the_link_free, one_arrives_when_another_ends, ties_in_order_of_start, advance_between_events,
          errors_do_not_grow)
