/* A machine that is made up is found again by the fit, and what is written can
 * be loaded; points keep their numbers in a file. */
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "calibrate/machine_parts.h"
#include "cost/price.h"
#include "cost/slowest.h"
#include "layout/layout.h"
#include "main.h"
#include "planned.h"

#include <math.h>
#include <unistd.h>

#define PEAK 50e9
#define COPY 8e9
#define LAUNCH 1e-6
#define SWITCH 150e-6
#define SWITCH_AFTER 400e-6

static const MachineHead head = { .device = "a, made up", .date = "2026-01-31", .ranks = 2, .node_ranks = 2, .processors = 2, .units = 1, .memory_bytes = 8e9,
                                  .host_memory_bytes = 16e9,
                                  .host_bytes_per_s = 16e9 };

/* Of forward, input gradient and weight gradient: time over that of the first. */
static const double slower[PRODUCT_COUNT] = { 1, 1.3, 0.8 };

static Product product_of(const MachinePoint *p)
{
  return g_str_equal(p->name, "nt") ? PRODUCT_FORWARD : g_str_equal(p->name, "nn") ? PRODUCT_INPUT_GRADIENT
                                                                                    : PRODUCT_WEIGHT_GRADIENT;
}

/* A byte that is added takes three times as long beyond what the cache holds of a vector. */
#define FAR 3
#define CACHE_BYTES 1048576.0

static double collective_s(const char *name, double bytes, int ranks)
{
  Collective collective = names_find(collective_names, name);
  double far = (FAR - 1) * MAX(0, 1 - CACHE_BYTES / bytes);
  double added = collective == COLLECTIVE_REDUCE_SCATTER ? 1 + far
                 : collective == COLLECTIVE_ALL_REDUCE   ? 1 + far / 2
                                                         : 1;

  return 20e-6 + bytes * collective_bus_factor(collective, ranks) * added / 2e9;
}

/* A walk stays in the cache up to WALK_CACHE; a byte beyond takes as much longer as BEYOND says, while both ranks walk
 * half as much again, and one that is written more than one that is only read. */
#define WALK_CACHE (90 * 1048576.0)
#define BEYOND 40e9

static double walk_s(const MachinePoint *p)
{
  double kind = g_str_equal(p->name, "update") ? 1.25 : 0.75;
  double beyond = p->bytes > WALK_CACHE ? kind * (p->busy > 1 ? 1.5 : 1) / BEYOND : 0;

  return p->bytes * (1 / 25e9 + beyond);
}

/* Seconds of a point on the made-up machine; with both ranks products take twice as long, the rest half again. */
static double made_up_s(const MachinePoint *p)
{
  double flops = 2.0 * p->m * p->n * p->k, pairs = (double)p->m * p->n * p->n * p->k * p->head_dim;

  switch (p->kind) {
  case POINT_MATMUL:
    return flops / PEAK * slower[product_of(p)] * (p->busy > 1 ? 2 : 1);
  case POINT_ATTENTION:
    return LAUNCH + (p->backward ? 5 : 2) * pairs / (0.1 * PEAK) * (p->busy > 1 ? 1.5 : 1);
  case POINT_MEMORY:
    return LAUNCH + p->bytes / (0.25 * COPY) * (p->busy > 1 ? 1.5 : 1);
  case POINT_COLLECTIVE:
    return collective_s(p->name, p->bytes, p->ranks);
  case POINT_BESIDE: /* a quarter of the collective is hidden, unless it comes first */
    return p->head_dim * flops / PEAK * 2 + (p->backward ? 1 : 0.75) * collective_s(p->name, p->bytes, p->ranks);
  case POINT_TURN: /* each but the first product loses SWITCH */
    return TURN_PAIRS * (flops / PEAK + LAUNCH + p->bytes / (0.25 * COPY)) +
           (p->backward ? 0 : TURN_PAIRS - 1) * SWITCH * MIN(1, (LAUNCH + p->bytes / (0.25 * COPY)) / SWITCH_AFTER);
  case POINT_WALK:
    return walk_s(p);
  case POINT_LAUNCH:
    return LAUNCH;
  default:
    return 2 * p->bytes / COPY;
  }
}

static GArray *made_up(const MachineHead *machine)
{
  GArray *points = points_design(machine);

  for (guint i = 0; i < points->len; i++) {
    MachinePoint *p = &g_array_index(points, MachinePoint, i);
    double samples[] = { made_up_s(p), 0.9 * made_up_s(p), 1.1 * made_up_s(p) };
    point_set(p, samples, 3);
  }
  return points;
}

static void add_reference(GArray *points, const char *name, int samples, double seconds)
{
  MachinePoint p = { .kind = POINT_REFERENCE, .m = samples, .ranks = 2, .busy = 2, .rounds = 9, .seconds = seconds };

  g_strlcpy(p.name, name, sizeof p.name);
  g_array_append_val(points, p);
}

/* The slowest of two ranks is a tenth behind their mean. */
static void add_references(GArray *points)
{
  add_reference(points, "mean", 0, 1e-4);
  add_reference(points, "slowest", 0, 1.1e-4);
}

/* As ranks are whose rates differ by a lasting tenth, and at a moment by three, which lasts 64 ms. */
#define OF_TWO 0.5641895835477563 /* the larger of two normal values, on average: 1 / sqrt(pi) */
#define LASTING 0.1
#define PASSING 0.3
#define LASTS_S 0.064

static void add_drift(GArray *points)
{
  add_reference(points, "mean", 1, 1e-4);
  add_reference(points, "apart", 1, 5e-3);
  for (int m = 1; m <= 256; m *= 4) {
    double x = (m - 1) * 5e-3 / LASTS_S, left = m > 1 ? 2 / x * (1 - (1 - exp(-x)) / x) : 1;
    double behind = OF_TWO * sqrt(LASTING * LASTING + PASSING * PASSING * left);
    add_reference(points, "slowest", m, 1e-4 * (1 + behind));
  }
}

START_TEST(designed_set)
{
  g_autoptr(GArray) points = points_design(&head);
  int products = 0;

  for (guint i = 0; i < points->len; i++)
    products += g_array_index(points, MachinePoint, i).kind == POINT_MATMUL && g_array_index(points, MachinePoint, i).busy == 1;
  ck_assert_int_ge(products, 40 * PRODUCT_COUNT);
  ck_assert_int_le(products, 100 * PRODUCT_COUNT);
}
END_TEST

static Cluster *loaded(const MachineFit *fit)
{
  g_autofree char *json = machine_fit_json(fit, "found", "tdp-run");
  GError *error = NULL;
  Cluster *c = cluster_parse(json, strlen(json), "found", &error);

  ck_assert_msg(c != NULL, "%s", error ? error->message : "");
  return c;
}

/* What is timed of ZeRO-2 is what a plan of two ranks is priced with, by a kernel of its own and not by the copy. */
START_TEST(shard_copies_are_those_of_two_ranks)
{
  g_autoptr(GArray) points = made_up(&head);
  g_auto(MachineFit) fit = { 0 };
  Planned of = { 0 };
  PassLayout layout;
  int found = 0;

  planned_init(&of, fixture_model(4, 192, 4, 64, 1024), fixture_cluster("cpu", 2), "tdp-run");
  planned_divide(&of, 1, 1, 2);
  of.plan.zero = 2;
  pass_layout_init(&layout, &of.plan);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = &g_array_index(points, MachinePoint, i);
    if (!g_str_equal(p->name, "shard copies"))
      continue;
    ck_assert_double_eq_tol(p->bytes / p->m / p->n, layout.shard_bytes[0], 1e-12);
    ck_assert(p->backward);
    found++;
  }
  ck_assert_int_eq(found, 6);
  ck_assert(machine_fit(&head, points, &fit, NULL));
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_double_eq_tol(named_memory_s(&c->device, "shard copies", TRUE, 4e6, 1, 0),
                          LAUNCH + 4e6 / (0.25 * COPY), 2e-6);
  planned_clear(&of);
}
END_TEST

START_TEST(median_and_bounds)
{
  MachinePoint p = { 0 };
  double samples[] = { 9, 1, 8, 2, 7, 3, 6, 4, 5 };

  point_set(&p, samples, 9);
  ck_assert_double_eq(p.seconds, 5);
  ck_assert_double_eq(p.low_s, 2);
  ck_assert_double_eq(p.high_s, 8);
}
END_TEST

START_TEST(made_up_machine_is_found)
{
  g_autoptr(GArray) points = made_up(&head);
  g_auto(MachineFit) fit = { 0 };
  GError *error = NULL;

  add_references(points);
  ck_assert(machine_fit(&head, points, &fit, &error));
  for (Product product = 0; product < PRODUCT_COUNT; product++) {
    ck_assert_double_lt(fit.matmul[product].fit.mean, 0.02);
    ck_assert_double_lt(fit.matmul[product].check.mean, 0.02);
  }
  ck_assert_double_lt(fit.memory.max, 1e-9);
  ck_assert_double_lt(fit.attention.fit.max, 1e-9);
  ck_assert_double_lt(fit.link_errors.mean, 0.15);
  ck_assert_double_eq_tol(fit.kernels.matmul[DTYPE_FP32].crowding, 2, 1e-9);
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_int_eq(c->devices_per_node, 2);
  ck_assert_double_eq_tol(named_memory_s(&c->device, "attention norm", FALSE, 2e6, 1, 0), LAUNCH + 1e-3, 2e-6);
  ck_assert_double_eq_tol(slowest_device(&c->device, 2), 1.1, 1e-4);
  ck_assert_double_eq_tol(c->tiers[0].link.compute_slowdown, 4, 1e-2);
  ck_assert_double_eq_tol(c->tiers[0].link.far_reduce_slowdown / c->tiers[0].link.reduce_slowdown, FAR, 0.2 * FAR);
  const GroupShape pair = { .size = 2, .per_domain = { 2 } };
  for (double bytes = CACHE_BYTES / 4; bytes <= 64 * CACHE_BYTES; bytes *= 4)
    ck_assert_double_eq_tol(collective_cost(c, COLLECTIVE_REDUCE_SCATTER, bytes, &pair).seconds /
                            collective_s("reduce-scatter", bytes, 2), 1, 0.05);
  ck_assert_double_eq_tol(c->device.switch_s, SWITCH, 5e-6);
  ck_assert_double_eq_tol(c->device.switch_after_s, SWITCH_AFTER, 40e-6);
  ck_assert_str_eq(c->framework, "tdp-run");
  Op op = { .name = "activation", .kind = OP_MEMORY, .pass = PASS_INPUT };
  ck_assert_double_eq_tol(op_crowding(&op, c), 1.5, 0.01);
  op = (Op) { .name = "qkv", .kind = OP_MATMUL, .matmul = { 320, 448, 192, 1, DTYPE_FP32, 0 } };
  ck_assert_double_eq_tol(op_crowding(&op, c), 2, 1e-3);
  for (Product product = 0; product < PRODUCT_COUNT; product++) {
    double found = matmul_s(&c->device, &(Matmul) { 320, 448, 192, 1, DTYPE_FP32, .product = product });
    ck_assert_double_eq_tol(found / (2.0 * 320 * 448 * 192 / PEAK), slower[product], 0.03);
  }
}
END_TEST

/* As people read it; samples are within a tenth of their median. */
static void says(const MachineFit *fit, const GArray *points, const char *expected)
{
  g_autofree char *text = machine_fit_text(fit, points);

  ck_assert_msg(strstr(text, expected) != NULL, "%s\nexpected: %s", text, expected);
}

START_TEST(text_tells_what_ranks_cost)
{
  MachineHead withheld = head;
  g_autoptr(GArray) points = made_up(&head);
  g_auto(MachineFit) fit = { 0 };

  withheld.samples = 40, withheld.discarded = 10;
  add_references(points);
  ck_assert(machine_fit(&withheld, points, &fit, NULL));
  says(&fit, points, "\n2 ranks at once: products take 2.00, attention 1.50, copies 1.00 times as long\n"
                     "the slowest of them takes 1.10 of their mean over 10 ms, 1.10 over 1 s; ");
  says(&fit, points, "\na product loses up to 150 us to other kernels before it, that much after ");
  says(&fit, points, "\na rank has 78 MiB of the last-level cache, alone 78 (ramp 1.22); bytes beyond take longer, at "
                     "40.0 GB/s, with all ranks at once 1.50 times that\n");
  says(&fit, points, "\n10 of 40 samples were discarded, in which processors were withheld (25.0 %)\n"
                     "95 % interval of a median: +-10.0 % (in the middle)\n");
}
END_TEST

static void walk_like(GArray *points, double (*seconds)(const MachinePoint *p))
{
  for (guint i = 0; i < points->len; i++) {
    MachinePoint *p = &g_array_index(points, MachinePoint, i);
    p->seconds = p->kind == POINT_WALK ? seconds(p) : p->seconds;
  }
}

static double always_near(const MachinePoint *p)
{
  return p->bytes * (p->busy > 1 ? 1.05 : 1) / 25e9;
}

/* Beyond a cache that is smaller than the pools of other points. */
static double soon_far(const MachinePoint *p)
{
  return p->bytes / (p->bytes > 12e6 ? 10e9 : 25e9);
}

static double far_together(const MachinePoint *p)
{
  return p->busy > 1 ? walk_s(p) : p->bytes / 25e9;
}

START_TEST(cache_is_found)
{
  g_autoptr(GArray) points = made_up(&head);
  g_auto(MachineFit) fit = { 0 };

  ck_assert(machine_fit(&head, points, &fit, NULL));
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_double_eq_tol(c->device.l2_bytes, 78.4 * 1048576, 1048576); /* half way from 64 to 96 MiB */
  ck_assert_double_eq_tol(c->device.l2_alone_bytes, c->device.l2_bytes, 1);
  ck_assert_double_eq_tol(c->device.l2_ramp, sqrt(1.5), 1e-3); /* from a quarter to three of that way */
  ck_assert_double_eq_tol(c->device.beyond_l2_bytes_per_s, BEYOND, 1e-3 * BEYOND);
  ck_assert_double_eq_tol(c->device.beyond_l2_crowding, 1.5, 1e-3);
}
END_TEST

/* Walks come to be far bit by bit, from half of a capacity to twice that; one rank alone has twice as much of it. */
static double far_bit_by_bit(const MachinePoint *p)
{
  double mib = p->bytes / 1048576 / (p->busy > 1 ? 1 : 2), share = CLAMP(0.5 + log2(mib / 48) / 2, 0, 1);

  return p->bytes * (1 / 25e9 + share / BEYOND);
}

START_TEST(cache_is_left_bit_by_bit)
{
  g_autoptr(GArray) points = made_up(&head);
  g_auto(MachineFit) fit = { 0 };

  walk_like(points, far_bit_by_bit);
  ck_assert(machine_fit(&head, points, &fit, NULL));
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_double_eq_tol(c->device.l2_bytes, 48 * 1048576, 48 * 1048576 * 1e-3);
  ck_assert_double_eq_tol(c->device.l2_alone_bytes, 96 * 1048576, 96 * 1048576 * 1e-3);
  ck_assert_double_eq_tol(c->device.l2_ramp, 2, 0.05);
}
END_TEST

static double cache_bytes;

static double as_long(const MachinePoint *p)
{
  return p->bytes / (p->bytes > cache_bytes ? 12e9 : 25e9);
}

/* Wherever a core's part of the cache ends, as on shared hosts, what is found is less than a quarter from it. Walks alone
 * tell it: what all other points tell is the same wherever it ends, and takes long to fit. */
START_TEST(cache_is_found_to_a_quarter)
{
  g_autoptr(GArray) points = made_up(&head);

  for (int mib = 33; mib < 128; mib++) {
    g_auto(MachineFit) fit = { 0 };
    cache_bytes = mib * 1048576.0;
    walk_like(points, as_long);
    machine_fit_walks(points, &fit);
    ck_assert_double_eq_tol(fit.cache_bytes, cache_bytes, 0.25 * cache_bytes);
  }
}
END_TEST

/* Neither a cache larger than all walks, nor one that kernels' constants exceed; together is enough. */
START_TEST(cache_is_told_where_walks_leave_it)
{
  double (*const walks[])(const MachinePoint *p) = { always_near, soon_far, far_together };

  for (int i = 0; i < 3; i++) {
    g_autoptr(GArray) points = made_up(&head);
    g_auto(MachineFit) fit = { 0 };
    walk_like(points, walks[i]);
    ck_assert(machine_fit(&head, points, &fit, NULL));
    g_autoptr(Cluster) c = loaded(&fit);
    ck_assert_int_eq(c->device.beyond_l2_bytes_per_s > 0, i == 2);
    ck_assert_int_eq(c->device.l2_bytes > 0, i == 2);
    ck_assert(i < 2 || c->device.beyond_l2_crowding == 1);
    ck_assert(i < 2 || fabs(c->device.beyond_l2_bytes_per_s / BEYOND * 1.5 - 1) < 1e-3);
  }
}
END_TEST

/* Points of a GPU have no walks, and those of a rank with little memory no long ones. */
START_TEST(walks_are_as_long_as_memory_allows)
{
  MachineHead small = head, gpu = head;
  double longest[3] = { 0 };

  small.memory_bytes = 1e9;
  gpu.units = 100;
  const MachineHead *const heads[] = { &head, &small, &gpu };
  for (int h = 0; h < 3; h++) {
    g_autoptr(GArray) points = points_design(heads[h]);
    for (guint i = 0; i < points->len; i++)
      if (g_array_index(points, MachinePoint, i).kind == POINT_WALK)
        longest[h] = MAX(longest[h], g_array_index(points, MachinePoint, i).bytes);
  }
  ck_assert_double_eq(longest[0], 256 * 1048576.0);
  ck_assert_double_eq(longest[1], 96 * 1048576.0);
  ck_assert_double_eq(longest[2], 0);
}
END_TEST

/* The lasting and the passing part of the spread are told apart, and what waits more rarely waits less. */
START_TEST(drift_is_found)
{
  g_autoptr(GArray) points = made_up(&head);
  g_auto(MachineFit) fit = { 0 };

  add_drift(points);
  ck_assert(machine_fit(&head, points, &fit, NULL));
  ck_assert_double_eq_tol(fit.rate_spread, LASTING, 0.02);
  ck_assert_double_eq_tol(fit.rate_jitter, PASSING, 0.02);
  ck_assert_double_lt(fabs(log(fit.rate_jitter_s / LASTS_S)), 0.3);
  ck_assert_double_lt(fit.drift_error, 0.02);
  g_autoptr(Cluster) c = loaded(&fit);
  PassLayout passes = { .ranks = 2, .tp = 2, .cp = 1 };
  const Mesh replicas = { .ranks = 2, .block = 1, .dense = { { 1, 1 }, { 1, 1 }, { 2, 1 }, { 1, 2 } } };
  double at_once = OF_TWO * sqrt(LASTING * LASTING + PASSING * PASSING), rarely = OF_TWO * LASTING;
  ck_assert_double_eq_tol(slowest_inside(&c->device, &passes, 1e-6), 1 + at_once, 0.01);
  ck_assert_double_eq_tol(slowest_inside(&c->device, &passes, 1e3), 1 + rarely, 0.01);
  passes.tp = 1;
  ck_assert_double_eq_tol(slowest_inside(&c->device, &passes, 1e-6), 1 + rarely, 0.01);
  ck_assert_double_eq_tol(slowest_of_all(&c->device, &replicas, &(Meetings) { .replicas_s = 1e-6 }), 1 + at_once, 0.01);
}
END_TEST

/* Four ranks on two processors, then two such nodes. */
START_TEST(ranks_take_turns)
{
  MachineHead four = head;

  four.ranks = four.node_ranks = 4;
  g_autoptr(GArray) points = made_up(&four);
  g_auto(MachineFit) fit = { 0 };
  for (guint i = 0; i < points->len; i++) {
    MachinePoint *p = &g_array_index(points, MachinePoint, i);
    ck_assert(p->kind == POINT_COLLECTIVE || p->busy <= 2);
    p->seconds *= p->kind == POINT_COLLECTIVE && p->busy > 2 ? 2 : 1;
  }
  ck_assert(machine_fit(&four, points, &fit, NULL));
  ck_assert_double_lt(fit.link_errors.mean, 0.15);
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_int_eq(c->devices_per_node, 4);
  ck_assert_int_eq(c->processors, 2);
  says(&fit, points, "\n4 ranks of a node take turns on 2 processors\n2 ranks at once: ");
}
END_TEST

START_TEST(nodes_have_a_network)
{
  MachineHead two = head;

  two.ranks = 4;
  g_autoptr(GArray) points = made_up(&two);
  g_auto(MachineFit) fit = { 0 };
  for (guint i = 0; i < points->len; i++) {
    MachinePoint *p = &g_array_index(points, MachinePoint, i);
    p->seconds *= p->kind == POINT_COLLECTIVE && p->ranks > 2 ? 10 : 1;
  }
  ck_assert(machine_fit(&two, points, &fit, NULL));
  ck_assert_double_lt(fit.network_errors.mean, 0.15);
  ck_assert_int_eq(fit.link_errors.n, 28);
  ck_assert_int_eq(fit.network_errors.n, 28);
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_int_eq(c->nodes, 2);
  ck_assert_int_eq(c->n_tiers, 2);
  says(&fit, points, "\ncollectives between nodes      28 ");
  GroupShape far = { .size = 2, .per_domain = { 1, 2, 2, 2 } };
  double alone_s = 10 * (20e-6 + (1 << 22) / 2e9); /* of one rank; both ranks of a node share its network */
  ck_assert_double_eq_tol(collective_cost(c, COLLECTIVE_SEND, 1 << 22, &far).seconds / alone_s, 2, 0.2);
}
END_TEST

START_TEST(one_rank_has_no_link)
{
  MachineHead one = head;

  one.ranks = one.node_ranks = one.processors = 1;
  g_autoptr(GArray) points = made_up(&one);
  g_auto(MachineFit) fit = { 0 };
  ck_assert(machine_fit(&one, points, &fit, NULL));
  ck_assert_int_eq(fit.link_errors.n, 0);
  g_autoptr(Cluster) c = loaded(&fit);
  ck_assert_int_eq(c->n_tiers, 0);
}
END_TEST

START_TEST(file_keeps_points)
{
  g_autoptr(GArray) points = made_up(&head);
  g_autofree char *text = points_csv(&head, points), *path = g_strdup("/tmp/tdp-points-XXXXXX");
  MachineHead found;
  int file = g_mkstemp(path);

  ck_assert_int_ge(file, 0);
  close(file);
  ck_assert(files_write(path, text, strlen(text), NULL));
  g_autoptr(GArray) again = points_load(path, &found, NULL);
  ck_assert_ptr_nonnull(again);
  ck_assert_str_eq(found.device, head.device);
  ck_assert_int_eq(found.ranks, 2);
  ck_assert_uint_eq(again->len, points->len);
  g_autofree char *second = points_csv(&found, again);
  ck_assert_str_eq(second, text);
  unlink(path);
}
END_TEST

START_TEST(runs_are_merged)
{
  g_autoptr(GArray) points = made_up(&head);
  g_autoptr(GArray) more = made_up(&head);
  guint n = points->len;
  MachinePoint *p = &g_array_index(points, MachinePoint, 7), *q = &g_array_index(more, MachinePoint, 7);
  double seconds = p->seconds;

  q->seconds = 3 * seconds;
  q->rounds = p->rounds;
  g_array_remove_index(points, 3);
  points_merge(points, more);
  ck_assert_uint_eq(points->len, n);
  ck_assert_double_eq_tol(g_array_index(points, MachinePoint, 6).seconds, 2 * seconds, 1e-12);
  ck_assert_int_eq(g_array_index(points, MachinePoint, 6).rounds, 2 * q->rounds);
}
END_TEST

/* A run on a slower machine does not look as if ranks were apart. */
START_TEST(slowest_is_relative_to_its_run)
{
  g_autoptr(GArray) points = made_up(&head);
  g_autoptr(GArray) more = made_up(&head);
  g_auto(MachineFit) fit = { 0 };

  add_references(points);
  add_reference(more, "mean", 0, 3e-4);
  add_reference(more, "slowest", 0, 3.3e-4);
  points_merge(points, more);
  ck_assert(machine_fit(&head, points, &fit, NULL));
  ck_assert_double_eq_tol(fit.rate_spread * OF_TWO, 0.1, 1e-6);
}
END_TEST

static void refused(const char *text, const char *part)
{
  g_autofree char *path = g_strdup("/tmp/tdp-points-XXXXXX");
  GError *error = NULL;
  MachineHead found;

  close(g_mkstemp(path));
  ck_assert(files_write(path, text, strlen(text), NULL));
  ck_assert_ptr_null(points_load(path, &found, &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, part) != NULL, "%s", error->message);
  g_error_free(error);
  unlink(path);
}

START_TEST(bad_files)
{
#define COLUMNS "kind,name,pass,m,n,k,head_dim,ranks,busy,bytes,rounds,seconds,low_s,high_s\n"
#define MACHINE COLUMNS "machine,x,2026-01-31,,,,,2,,1e9,,1e9,,\n"
  refused(COLUMNS, "first row is the machine");
  refused(COLUMNS "machine,x,y,,,,,0,,1e9,,1e9,,\n", "ranks");
  refused(COLUMNS "machine,x,y,,3,,,4,,1e9,,1e9,,\n", "n: \"3\"");
  refused(COLUMNS "machine,x,y,5,4,,,4,,1e9,,1e9,,\n", "m: \"5\"");
  refused(COLUMNS "machine,x,y,2,2,3,4,2,,1e9,,1e9,,\n", "head_dim: \"4\": expected discarded samples");
  refused(COLUMNS "machine,x,y,,,,,2,,1e9,,1e300,,\n", "seconds: \"1e300\": expected a number from 2e6 to 1e14");
  refused(MACHINE "warp,a,forward,1,1,1,1,1,1,0,3,1,1,1\n", "kind: \"warp\"");
  refused(COLUMNS "machine,x,y,,,,,2,,1e-300,,1e9,,\n", "bytes: \"1e-300\": expected a number from 2e6 to 1e14");
  refused(MACHINE "device,fp32,,1,,,,,,1e300,,1e9,,\n", "bytes: \"1e300\": expected a number from 0 to 1e14");
  refused(MACHINE "device,fp32,,1,,,,,,0,,1e300,,\n", "seconds: \"1e300\": expected a number from 2e6 to 1e14");
  refused(MACHINE "matmul,nt,forward,1,1,1,1,1,1,0,3,0,1,1\n", "seconds");
  refused(MACHINE "matmul,nt,forward,1,1,1,1,1,1,0,3,1e-305,1,1\n", "seconds: \"1e-305\": expected a time from 1e-11");
  refused(MACHINE "matmul,nt,forward,1,1,1,1,1,1,0,3,1,1,1e300\n", "high_s: \"1e300\": expected a number from 0 to");
  refused(MACHINE "memory,norm,forward,1,1,1,1,1,1,0,3,1,1,1\n", "bytes: \"0\": expected a number above 0");
  refused(MACHINE "memory,norm,forward,1,1,1,1,1,,8,3,1,1,1\n", "busy: \"\": expected at least 1");
  refused(MACHINE "matmul,nt,forward,1,1,0,1,1,1,0,3,1,1,1\n", "k: \"0\": expected a size of at least 1");
  refused(MACHINE "attention,attention,forward,1,1,1,0,1,1,0,3,1,1,1\n", "head_dim: \"0\": expected a size of");
  refused(MACHINE "memory,norm,forward,1,1,1,1,1,1,1e300,3,1,1,1\n", "bytes: \"1e300\": expected a number from 0 to");
  refused(MACHINE "walks,read,forward,0,0,0,0,1,1,8e6,3,1,1,1\n", "reference, turn or walk");
  refused(MACHINE "matmul,nt,forward,-1,1,1,1,1,1,0,3,1,1,1\n", "m: \"-1\"");
  refused(MACHINE "collective,nt,forward,1,1,1,1,1,1,0,3,1,1,1\n", "a collective");
}
END_TEST

START_TEST(points_without_products)
{
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));
  g_auto(MachineFit) fit = { 0 };
  GError *error = NULL;

  ck_assert(!machine_fit(&head, points, &fit, &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  g_error_free(error);
}
END_TEST

TEST_MAIN("machine fit", designed_set, shard_copies_are_those_of_two_ranks, median_and_bounds,
          made_up_machine_is_found, text_tells_what_ranks_cost, cache_is_found, cache_is_left_bit_by_bit, cache_is_found_to_a_quarter,
          cache_is_told_where_walks_leave_it, walks_are_as_long_as_memory_allows, drift_is_found,
          ranks_take_turns, nodes_have_a_network, one_rank_has_no_link,
          file_keeps_points, runs_are_merged,
          slowest_is_relative_to_its_run, bad_files, points_without_products)
