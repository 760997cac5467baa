#include "cost/collective.h"
#include "fixture.h"
#include "main.h"

#include <math.h>

/* Groups of a DGX A100 cluster: inside a node, one rank a node, whole nodes. */
typedef struct {
  int size, stride;
} Group;

static const Group groups[] = { { 2, 1 }, { 8, 1 }, { 4, 8 }, { 16, 1 }, { 64, 1 }, { 16, 4 } };

static CollectiveCost cost_of(const Cluster *cluster, Collective what, double bytes, Group group)
{
  GroupShape shape = group_shape(cluster, group.size, group.stride);
  return collective_cost(cluster, what, bytes, &shape);
}

/* Bytes move for a part of the time, ports are busy for a part of that; of a
 * long transfer nearly all, but for a rank's own part, which is copied in its
 * memory (of two ranks' half the buffer). */
START_TEST(parts_of_the_time)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 64);

  for (int what = 0; what < COLLECTIVE_COUNT; what++)
    for (gsize g = 0; g < G_N_ELEMENTS(groups); g++)
      for (double bytes = 1; bytes < 1e12; bytes *= 8) {
        CollectiveCost c = cost_of(cluster, what, bytes, what == COLLECTIVE_SEND ? (Group) { 2, 8 } : groups[g]);
        double busiest = 0;
        ck_assert_double_gt(c.use.transfer_s, 0);
        ck_assert_double_le(c.use.transfer_s, c.seconds);
        for (int t = 0; t < TIER_MAX; t++)
          busiest = MAX(busiest, c.use.port_s[t]);
        ck_assert_double_le(busiest, c.use.transfer_s * (1 + 1e-12));
        if (bytes > 1e11) {
          ck_assert_double_gt(c.use.transfer_s, 0.7 * c.seconds);
          ck_assert_double_gt(busiest, 0.9 * c.use.transfer_s);
        }
      }
}
END_TEST

/* Bytes through a device's port by the book: a ring's rank sends (n-1)/n of a
 * gathered buffer in the node; of 8 rings' NICs each carries an eighth. */
START_TEST(bytes_by_the_book)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 64);
  const Tier *node = &cluster->tiers[0], *network = &cluster->tiers[1];
  double bytes = 1e9;
  PortUse inside = cost_of(cluster, COLLECTIVE_ALL_GATHER, bytes, (Group) { 8, 1 }).use;
  PortUse across = cost_of(cluster, COLLECTIVE_ALL_GATHER, bytes, (Group) { 64, 1 }).use;
  PortUse send = cost_of(cluster, COLLECTIVE_SEND, bytes, (Group) { 2, 8 }).use;

  ck_assert_double_eq_tol(inside.port_s[0] * node->link.efficiency * node->bytes_per_s, bytes * 7 / 8, 1);
  ck_assert_double_eq(inside.port_s[1], 0);
  ck_assert_double_eq_tol(across.port_s[1] * network->link.efficiency * network->bytes_per_s, bytes * 63 / 64 / 8, 1);
  ck_assert_double_eq_tol(send.port_s[1] * network->link.p2p_efficiency * network->bytes_per_s, bytes, 1);
  ck_assert_double_eq(send.port_s[0], 0);
}
END_TEST

/* Eight in turn ask eight times as much of links, whatever passes between them; nothing stays nothing. */
START_TEST(again_and_again)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 64);

  for (gsize g = 0; g < G_N_ELEMENTS(groups); g++)
    for (double gap_s = 0; gap_s < 1; gap_s += 0.4) {
      CollectiveCost once = cost_of(cluster, COLLECTIVE_ALL_GATHER, 1e8, groups[g]);
      CollectiveCost all = collective_repeated(once, 8, gap_s);
      ck_assert_double_eq_tol(all.seconds, 8 * once.seconds + 8 * gap_s, 1e-12);
      ck_assert_double_eq_tol(all.bus_bytes_per_s * all.seconds, 8 * once.bus_bytes_per_s * once.seconds, 1);
      ck_assert_double_eq_tol(all.runner_up_s, once.runner_up ? 8 * once.runner_up_s + 8 * gap_s : 0, 1e-12);
      ck_assert_double_eq_tol(all.use.transfer_s, 8 * once.use.transfer_s, 1e-12);
      for (int t = 0; t < TIER_MAX; t++)
        ck_assert_double_eq_tol(all.use.port_s[t], 8 * once.use.port_s[t], 1e-12);
    }
  ck_assert_double_eq(collective_repeated(cost_of(cluster, COLLECTIVE_ALL_GATHER, 1e8, (Group) { 1, 1 }), 8, 1).seconds, 0);
}
END_TEST

/* One behind another asks of links what both ask; beside nothing each stays what it is. */
START_TEST(one_behind_another)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 64);
  const CollectiveCost none = cost_of(cluster, COLLECTIVE_ALL_GATHER, 1e8, (Group) { 1, 1 });

  for (gsize g = 0; g < G_N_ELEMENTS(groups); g++) {
    CollectiveCost first = cost_of(cluster, COLLECTIVE_ALL_GATHER, 1e8, groups[g]);
    CollectiveCost other = cost_of(cluster, COLLECTIVE_ALL_TO_ALL, 3e7, groups[0]), both = collective_and(first, other);
    ck_assert_double_eq_tol(both.seconds, first.seconds + other.seconds, 1e-12);
    ck_assert_double_eq_tol(both.use.transfer_s, first.use.transfer_s + other.use.transfer_s, 1e-12);
    ck_assert_double_eq_tol(both.runner_up_s, first.runner_up ? first.runner_up_s + other.seconds : 0, 1e-12);
    ck_assert_str_eq(both.algorithm, first.algorithm);
    for (int t = 0; t < TIER_MAX; t++)
      ck_assert_double_eq_tol(both.use.port_s[t], first.use.port_s[t] + other.use.port_s[t], 1e-12);
    ck_assert_double_eq(collective_and(first, none).use.transfer_s, first.use.transfer_s);
    ck_assert_str_eq(collective_and(none, first).algorithm, first.algorithm);
    ck_assert_double_eq(collective_and(none, first).use.transfer_s, first.use.transfer_s);
  }
}
END_TEST

TEST_MAIN("collective_ports", parts_of_the_time, bytes_by_the_book, again_and_again, one_behind_another)
