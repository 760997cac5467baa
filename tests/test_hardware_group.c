/* Shapes of groups against counting ranks one by one. */
#include <limits.h>

#include "hardware/group.h"
#include "main.h"

static Cluster cluster_of(int devices, int n_tiers, const int *domains)
{
  Cluster cluster = {.name = "c", .devices_per_node = domains[0], .devices = devices, .n_tiers = n_tiers};
  for (int t = 0; t < n_tiers; t++)
    cluster.tiers[t].devices = t < n_tiers - 1 ? domains[t] : INT_MAX;
  return cluster;
}

/* Fewest ranks in a domain it meets, of the group that begins at `base`. */
static int count_group(int base, int size, int stride, int domain)
{
  int fewest = size, here = 0, at = -1;
  for (int i = 0; i <= size; i++) {
    int place = i < size ? (base + i * stride) / domain : -1;
    if (place != at && here > 0)
      fewest = MIN(fewest, here);
    here = place == at ? here + 1 : 1;
    at = place;
  }
  return fewest;
}

static int count_all(int devices, int size, int stride, int domain)
{
  int fewest = size, block = size * stride;
  for (int start = 0; start + block <= devices; start += block)
    for (int i = 0; i < stride; i++)
      fewest = MIN(fewest, count_group(start + i, size, stride, domain));
  return fewest;
}

static void compare_all(int devices, int n_tiers, const int *domains)
{
  Cluster cluster = cluster_of(devices, n_tiers, domains);
  for (int size = 1; size <= devices; size++)
    for (int stride = 1; size * stride <= devices; stride++) {
      GroupShape shape = group_shape(&cluster, size, stride);
      int tier = -1;
      ck_assert_int_eq(shape.size, size);
      for (int t = 0; t < n_tiers; t++) {
        int want = count_all(devices, size, stride, cluster.tiers[t].devices);
        ck_assert_msg(shape.per_domain[t] == want, "%d ranks %d apart of %d, domain %d: %d, counted %d", size, stride,
                      devices, cluster.tiers[t].devices, shape.per_domain[t], want);
        if (tier < 0 && want == size)
          tier = t;
      }
      ck_assert_int_eq(shape.per_domain[TIER_MAX - 1], size);
      ck_assert_int_eq(group_tier(&cluster, &shape), tier);
    }
}

START_TEST(shapes_as_counted)
{
  for (int nodes = 1; nodes <= 12; nodes++)
    for (int node = 1; node <= 9; node++)
      compare_all(nodes * node, 2, (int[]){node, 0});
  compare_all(6, 2, (int[]){8, 0});
  compare_all(96, 2, (int[]){16, 0});
  compare_all(128, 3, (int[]){8, 32, 0});
  compare_all(48, 3, (int[]){2, 4, 0});
  compare_all(144, 2, (int[]){72, 0});
  compare_all(100, 2, (int[]){72, 0});
  compare_all(96, 4, (int[]){2, 4, 24, 0});
  compare_all(20, 1, (int[]){0});
}
END_TEST

static void expect(int devices, int node, int size, int stride, int per_node)
{
  Cluster cluster = cluster_of(devices, 2, (int[]){node, 0});
  ck_assert_int_eq(group_shape(&cluster, size, stride).per_domain[0], per_node);
}

START_TEST(usual_shapes)
{
  expect(128, 8, 8, 1, 8);       /* tensor parallel in a node */
  expect(128, 8, 16, 8, 1);      /* one rank of each node */
  expect(128, 8, 64, 2, 4);
  expect(128, 8, 16, 1, 8);
  expect(24, 8, 3, 1, 1);        /* ranks 6 7 | 8 */
  expect(24, 8, 12, 1, 4);
  expect(24, 8, 6, 4, 2);
  expect(24, 8, 2, 12, 1);
  expect(4, 8, 4, 1, 4);         /* a part of a node */
  expect(16384, 8, 16384, 1, 8);
}
END_TEST

START_TEST(no_tiers)
{
  Cluster cluster = {.name = "one", .devices_per_node = 1, .devices = 1};
  GroupShape shape = group_shape(&cluster, 1, 1);
  ck_assert_int_eq(shape.per_domain[0], 1);
  ck_assert_int_eq(group_tier(&cluster, &shape), 0);
}
END_TEST

/* The two steps of a group are groups of their own: of neighbours, and of ranks so far apart. */
START_TEST(steps_of_groups)
{
  Cluster cluster = cluster_of(256, 3, (const int[]) { 8, 64 });
  for (int size = 8; size <= 256; size *= 2)
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
      GroupShape all = group_shape(&cluster, size, 1);
      GroupShape within = group_within(&all, ranks), near = group_shape(&cluster, ranks, 1);
      GroupShape across = group_across(&all, ranks), far = group_shape(&cluster, size / ranks, ranks);
      ck_assert_int_eq(within.size, near.size);
      ck_assert_int_eq(across.size, far.size);
      for (int t = 0; t < TIER_MAX; t++) {
        ck_assert_int_eq(within.per_domain[t], near.per_domain[t]);
        ck_assert_int_eq(across.per_domain[t], far.per_domain[t]);
      }
    }
}
END_TEST

TEST_MAIN("hardware_group", shapes_as_counted, usual_shapes, no_tiers, steps_of_groups)
