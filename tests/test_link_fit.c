/* What a fit makes of a link that its times tell only in part. */
#include "base/error.h"
#include "calibrate/calibrate.h"
#include "hardware/cluster.h"
#include "main.h"

#include <math.h>

#define SIZES 24 /* from 1 KiB, each twice the one before */
#define RATE 450e9

static const LinkSetup node = { .cluster = "dgx-h100" };

/* All-reduces of a node's 8 ranks at a share of RATE, each time off by up to `noise`, drawn from `seed`. */
static void all_reduces(LinkPoint *points, double latency_s, double rate, double noise, guint32 seed)
{
  g_autoptr(GRand) draw = g_rand_new_with_seed(seed);

  for (int i = 0; i < SIZES; i++) {
    double bytes = ldexp(1024, i), seconds = latency_s + 1.75 * bytes / (rate * RATE);
    points[i] = (LinkPoint) { COLLECTIVE_ALL_REDUCE, 8, 1, 8, bytes, seconds * (1 + g_rand_double_range(draw, -noise, noise)), "f.txt" };
  }
}

static double error_of(const LinkCalibration *found, const LinkPoint *points)
{
  double sum = 0;

  for (int i = 0; i < found->n; i++)
    sum += fabs(found->fitted_s[i] / points[i].seconds - 1);
  return sum / found->n;
}

/* All-gathers by a ring of the 8 ranks. */
static double ring_s(const Link *link, double bytes)
{
  double moved = 0.875 * bytes;
  return link->base_s + 7 * link->hop_s + moved / (link->efficiency * RATE) + link->sqrt_s_per_byte * sqrt(moved);
}

static const struct {
  double latency_us, rate; /* a share of RATE */
} switches[] = { { 12, 1 }, { 18, 1 }, { 22, 1 }, { 25, 1 }, { 28, 1 }, { 32, 1 }, { 40, 1 }, { 70, 1 },
                 { 12, 0.67 }, { 25, 0.67 }, { 40, 0.67 }, { 12, 0.8 }, { 25, 0.8 }, { 40, 0.8 }, { 25, 0.87 }, { 40, 0.93 } };

/* All-reduces in the switch say of a ring no more than that it is not faster. It is then one that may be: neither of the
 * thousand microseconds nor of the hundredth of a rate that would explain them as well. */
START_TEST(ring_behind_the_switch)
{
  double latency_s = switches[_i].latency_us * 1e-6, rate = switches[_i].rate;
  g_autoptr(Cluster) cluster = cluster_load("dgx-h100", NULL);
  const Link *shipped = &cluster->tiers[0].link;

  for (guint32 seed = 0; seed < 4; seed++) {
    LinkPoint points[SIZES];
    g_auto(LinkCalibration) found = { 0 };
    GError *error = NULL;
    all_reduces(points, latency_s, rate, seed ? 0.03 : 0, seed);
    ck_assert_msg(calibrate_link(points, SIZES, &node, &found, &error), "%s", error ? error->message : "");
    ck_assert_double_eq_tol(found.errors.mean, error_of(&found, points), 1e-12);
    ck_assert_double_lt(found.errors.mean, seed ? 0.025 : 0.002);
    for (double bytes = 1024; bytes <= 1 << 30; bytes *= 32) {
      double ratio = ring_s(&found.link, bytes) / (latency_s + 0.875 * bytes / (rate * RATE));
      ck_assert_double_gt(ratio, 0.4);
      ck_assert_double_lt(ratio, 1.6);
    }
    ck_assert_double_eq(found.link.hop_s, shipped->hop_s);
    ck_assert_double_eq(found.link.p2p_base_s, shipped->p2p_base_s);
  }
}
END_TEST

/* What stays at its start is not called fitted: a ring that is slower than a fast switch as it is. */
START_TEST(ring_as_shipped)
{
  LinkPoint points[SIZES];
  g_auto(LinkCalibration) found = { 0 };

  all_reduces(points, 12e-6, 1, 0, 0);
  ck_assert(calibrate_link(points, SIZES, &node, &found, NULL));
  ck_assert_int_eq(found.fitted, FIT_LINK_IN_SWITCH);
  ck_assert_double_eq_tol(found.link.in_switch_base_s / 12e-6, 1, 1e-3);
}
END_TEST

/* Beside all-gathers, which rings alone do, it is theirs. */
START_TEST(ring_beside_the_switch)
{
  LinkPoint points[2 * SIZES];
  g_auto(LinkCalibration) found = { 0 };

  all_reduces(points, 25e-6, 1, 0, 0);
  for (int i = 0; i < SIZES; i++) {
    double bytes = points[i].bytes;
    points[SIZES + i] = (LinkPoint) { COLLECTIVE_ALL_GATHER, 8, 1, 8, bytes, 24e-6 + 0.875 * bytes / RATE, "g.txt" };
  }
  ck_assert(calibrate_link(points, 2 * SIZES, &node, &found, NULL));
  ck_assert_int_eq(found.fitted & (FIT_LINK_BASE | FIT_LINK_RATE | FIT_LINK_IN_SWITCH),
                   FIT_LINK_BASE | FIT_LINK_RATE | FIT_LINK_IN_SWITCH);
  ck_assert_double_eq_tol((found.link.base_s + 7 * found.link.hop_s) / 24e-6, 1, 0.02);
  ck_assert_double_lt(found.errors.mean, 0.03);
}
END_TEST

/* A server, or a GPU with a usual one, stands for a cluster as for the other programs, of as many nodes as ran. */
START_TEST(servers_and_gpus_are_clusters)
{
  static const char *const names[] = { "azure-nd96isr-mi300x-v5", "mi300x", "MI300X" };

  for (gsize c = 0; c < G_N_ELEMENTS(names); c++)
    for (int nodes = 1; nodes <= 2; nodes++) {
      const LinkSetup setup = { .cluster = names[c] };
      LinkPoint points[12];
      for (int i = 0; i < 12; i++) {
        double bytes = 1024 * pow(4, i);
        points[i] = (LinkPoint) { COLLECTIVE_ALL_REDUCE, 8 * nodes, nodes, 8, bytes, 30e-6 + bytes / 100e9, "f.txt" };
      }
      g_auto(LinkCalibration) found = { 0 };
      GError *error = NULL;
      ck_assert_msg(calibrate_link(points, 12, &setup, &found, &error), "%s", error ? error->message : "");
      ck_assert_str_eq(found.like, nodes == 1 ? "xgmi" : "infiniband-ndr");
      ck_assert_double_eq(found.bytes_per_s, nodes == 1 ? 448e9 : 50e9);
    }

  const LinkPoint point = { COLLECTIVE_ALL_REDUCE, 2, 1, 2, 1e6, 1e-3, "f.txt" };
  g_auto(LinkCalibration) none = { 0 };
  GError *error = NULL;
  ck_assert(!calibrate_link(&point, 1, &(LinkSetup) { .cluster = "t4" }, &none, &error));
  test_error(&error, TDP_ERROR_INPUT, "t4: no server or cluster here has this GPU: expected a cluster file that puts it into "
                                      "a server (hardware/README.md)");
}
END_TEST

TEST_LOOPS("link fit", { ring_behind_the_switch, G_N_ELEMENTS(switches) }, { ring_as_shipped, 1 }, { ring_beside_the_switch, 1 },
           { servers_and_gpus_are_clusters, 1 })
