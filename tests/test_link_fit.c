/* What a fit makes of a link that its times tell only in part. */
#include "base/error.h"
#include "calibrate/calibrate.h"
#include "hardware/cluster.h"
#include "main.h"

#include <math.h>

#define SIZES 24 /* from 1 KiB, each twice the one before */
#define RATE 450e9

static const LinkSetup node = { .cluster = "dgx-h100" };

/* All-reduces of a node's 8 ranks, each time off by up to `noise`, drawn from `seed`. */
static void all_reduces(LinkPoint *points, double latency_s, double noise, guint32 seed)
{
  g_autoptr(GRand) draw = g_rand_new_with_seed(seed);

  for (int i = 0; i < SIZES; i++) {
    double bytes = ldexp(1024, i), seconds = latency_s + 1.75 * bytes / RATE;
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

static const struct {
  double latency_us;
  gboolean base; /* the ring's own time would be less at small sizes */
} latencies[] = { { 12, FALSE }, { 18, TRUE }, { 22, TRUE }, { 25, TRUE }, { 28, TRUE }, { 32, TRUE }, { 40, TRUE }, { 70, TRUE } };

/* All-reduces in the switch say of a ring's fixed time no more than that the ring is not faster: it is the least such. */
START_TEST(ring_behind_the_switch)
{
  double latency_s = latencies[_i].latency_us * 1e-6, least_s = 0;
  g_autoptr(Cluster) cluster = cluster_load("dgx-h100", NULL);
  const Link *shipped = &cluster->tiers[0].link;

  for (guint32 seed = 0; seed < 4; seed++) {
    LinkPoint points[SIZES];
    g_auto(LinkCalibration) found = { 0 };
    GError *error = NULL;
    all_reduces(points, latency_s, seed ? 0.03 : 0, seed);
    ck_assert_msg(calibrate_link(points, SIZES, &node, &found, &error), "%s", error ? error->message : "");
    ck_assert_int_eq(found.fitted, FIT_LINK_IN_SWITCH | (latencies[_i].base ? FIT_LINK_BASE : 0));
    ck_assert_double_eq_tol(found.link.in_switch_base_s / latency_s, 1, 0.04);
    ck_assert_double_eq_tol(found.errors.mean, error_of(&found, points), 1e-5);
    ck_assert_double_lt(found.errors.mean, seed ? 0.03 : 0.002);
    ck_assert_double_lt(found.link.base_s, latency_s);
    ck_assert_double_ge(found.link.base_s, shipped->base_s);
    least_s = seed ? least_s : found.link.base_s;
    ck_assert_double_eq_tol(found.link.base_s, least_s, 0.06 * latency_s);
    ck_assert_double_eq(found.link.hop_s, shipped->hop_s);
    ck_assert_double_eq(found.link.efficiency, shipped->efficiency);
  }
}
END_TEST

/* Beside all-gathers, which rings alone do, it is theirs. */
START_TEST(ring_beside_the_switch)
{
  LinkPoint points[2 * SIZES];
  g_auto(LinkCalibration) found = { 0 };

  all_reduces(points, 25e-6, 0, 0);
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

TEST_LOOPS("link fit", { ring_behind_the_switch, G_N_ELEMENTS(latencies) }, { ring_beside_the_switch, 1 })
