/* nccl-tests text is read in every layout and refused when damaged; fits find
 * the constants that made the times; this host's memory is measured. */
#include "base/error.h"
#include "base/files.h"
#include "calibrate/calibrate.h"
#include "import/nccl_tests.h"
#include "main.h"

#include <glib/gstdio.h>
#include <math.h>

static void near(double found, double expected, double tolerance)
{
  ck_assert_msg(fabs(found / expected - 1) <= tolerance, "%.6g, expected %.6g within %g", found, expected, tolerance);
}

static NcclTests *parse(const char *text, Collective collective)
{
  GError *error = NULL;
  NcclTests *tests = nccl_tests_parse(text, "f.txt", collective, &error);
  ck_assert_msg(tests != NULL, "%s", error ? error->message : "");
  return tests;
}

static const NcclRun *run_at(const NcclTests *tests, guint i)
{
  ck_assert_uint_lt(i, tests->runs->len);
  return g_ptr_array_index(tests->runs, i);
}

static const NcclRow *row_at(const NcclRun *run, guint i)
{
  ck_assert_uint_lt(i, run->rows->len);
  return &g_array_index(run->rows, NcclRow, i);
}

/* ---- layouts ---- */

/* The sample files, and their first and last row. */
static const struct {
  const char *file;
  guint run, runs;
  const char *op;
  Collective collective;
  int ranks, nodes, node_ranks;
  const char *gpu;
  guint rows;
  double bytes, us, last_bytes, last_us;
  int strange, first_strange, empty;
} layouts[] = {
  {"v2.8-all-reduce", 0, 1, "all_reduce", COLLECTIVE_ALL_REDUCE, 4, 1, 4, "A100-SXM4-40GB", 10, 1024, 13.33, 268435456,
   1858, 0, 0, 0},
  {"v2.13-all-gather", 0, 1, "all_gather", COLLECTIVE_ALL_GATHER, 8, 1, 8, "NVIDIA H100 80GB HBM3", 11, 1024, 12.32,
   1073741824, 2770, 1, 1, 0},
  {"v2.17-debug-all-reduce", 0, 1, "all_reduce", COLLECTIVE_ALL_REDUCE, 16, 2, 8, "NVIDIA H100 80GB HBM3", 12,
   1024, 48.33, 4294967296, 23949, 4, 1, 0},
  {"v2.19-per-iteration", 0, 1, "reduce_scatter", COLLECTIVE_REDUCE_SCATTER, 8, 1, 8, "NVIDIA H200", 10, 4096, 11.65,
   1073741824, 2692, 0, 0, 0},
  {"alltoall-split", 0, 1, "alltoall", COLLECTIVE_ALL_TO_ALL, 8, 2, 8, "NVIDIA A100-SXM4-80GB", 10, 1024, 30.36,
   268435456, 10888, 0, 0, 0},
  {"two-runs", 0, 2, "sendrecv", COLLECTIVE_SEND, 2, 1, 2, "NVIDIA GeForce RTX 3090", 10, 1024, 12.34, 17179869184.0,
   17179869184.0 / 4.1e3, 3, 1, 1},
  {"two-runs", 1, 2, "reduce", COLLECTIVE_COUNT, 2, 1, 2, "NVIDIA GeForce RTX 3090", 9, 1024, 12.34, 67108864, 1722, 3,
   1, 1},
};

static char *sample(const char *name)
{
  g_autofree char *below = g_strdup_printf("tests/data/nccl-tests/%s.txt", name);
  return files_data_path(below);
}

START_TEST(layout)
{
  GError *error = NULL;
  g_autofree char *path = sample(layouts[_i].file);
  g_autoptr(NcclTests) tests = nccl_tests_load(path, COLLECTIVE_COUNT, &error);
  ck_assert_msg(tests != NULL, "%s", error ? error->message : "");
  ck_assert_uint_eq(tests->runs->len, layouts[_i].runs);
  const NcclRun *run = run_at(tests, layouts[_i].run);
  ck_assert_str_eq(run->op, layouts[_i].op);
  ck_assert_int_eq(run->collective, layouts[_i].collective);
  ck_assert_int_eq(run->ranks, layouts[_i].ranks);
  ck_assert_int_eq(run->nodes, layouts[_i].nodes);
  ck_assert_int_eq(run->node_ranks, layouts[_i].node_ranks);
  ck_assert_str_eq(run->gpu, layouts[_i].gpu);
  ck_assert_uint_eq(run->rows->len, layouts[_i].rows);
  const NcclRow *first = row_at(run, 0), *last = row_at(run, run->rows->len - 1);
  ck_assert_double_eq(first->bytes, layouts[_i].bytes);
  near(first->seconds, layouts[_i].us * 1e-6, 1e-9);
  ck_assert_double_eq(last->bytes, layouts[_i].last_bytes);
  near(last->seconds, layouts[_i].last_us * 1e-6, 1e-9);
  ck_assert_int_eq(tests->strange_lines, layouts[_i].strange);
  ck_assert_int_eq(tests->first_strange_line, layouts[_i].first_strange);
  ck_assert_int_eq(tests->empty_rows, layouts[_i].empty);
}
END_TEST

/* Where only one half was timed it is taken, and told. */
START_TEST(in_place_alone)
{
  GError *error = NULL;
  g_autofree char *path = sample("two-runs");
  g_autoptr(NcclTests) tests = nccl_tests_load(path, COLLECTIVE_COUNT, &error);
  ck_assert_ptr_nonnull(tests);
  const NcclRun *run = run_at(tests, 0);
  ck_assert(!row_at(run, 3)->in_place);
  ck_assert(row_at(run, 4)->in_place);
  near(row_at(run, 4)->seconds, 23.81e-6, 1e-9);
  near(row_at(run, 4)->bus_bytes_per_s, 11.01e9, 1e-9);
}
END_TEST

START_TEST(points_of_known_collectives)
{
  g_autofree char *path = sample("two-runs");
  g_autoptr(NcclTests) tests = nccl_tests_load(path, COLLECTIVE_COUNT, NULL);
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(LinkPoint));
  ck_assert_ptr_nonnull(tests);
  nccl_tests_points(tests, points);
  ck_assert_uint_eq(points->len, 10); /* not those of reduce */
  const LinkPoint *point = &g_array_index(points, LinkPoint, 0);
  ck_assert_int_eq(point->collective, COLLECTIVE_SEND);
  ck_assert_int_eq(point->node_ranks, 2);
  ck_assert_str_eq(point->file, path);
}
END_TEST

/* ---- which collective ---- */

#define DEVICES                                                         \
  "#  Rank  0 Group  0 Pid 11 on  a device  0 [0000:10:00] NVIDIA X1\n" \
  "#  Rank  1 Group  0 Pid 12 on  a device  1 [0000:11:00] NVIDIA X1\n" \
  "#  Rank  2 Group  0 Pid 13 on  a device  2 [0000:12:00] NVIDIA X1\n" \
  "#  Rank  3 Group  0 Pid 14 on  a device  3 [0000:13:00] NVIDIA X1\n"
#define HEADER                                                                                              \
  "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   " \
  "busbw #wrong\n"
#define ROW(count, redop, root, bus, wrong, wrong_in_place)                                             \
  "     1048576 " count " float " redop " " root " 100.0  10.49  " bus " " wrong " 100.0  10.49  " bus " " \
  wrong_in_place "\n"

START_TEST(collective_by_columns)
{
  static const struct { const char *row; Collective collective; const char *op; } cases[] = {
    {ROW("262144", "sum", "-1", "15.73", "0", "0"), COLLECTIVE_ALL_REDUCE, "all_reduce"},
    {ROW("65536", "sum", "-1", "7.86", "0", "0"), COLLECTIVE_REDUCE_SCATTER, "reduce_scatter"},
    {ROW("65536", "none", "-1", "7.86", "0", "0"), COLLECTIVE_ALL_GATHER, "all_gather"},
    {ROW("65536", "none", "-1", "7.86", "0", "N/A"), COLLECTIVE_ALL_TO_ALL, "alltoall"},
    {ROW("262144", "none", "-1", "10.49", "0", "0"), COLLECTIVE_SEND, "sendrecv"},
    {ROW("262144", "none", "0", "10.49", "0", "0"), COLLECTIVE_BROADCAST, "broadcast"},
    {ROW("262144", "sum", "0", "10.49", "0", "0"), COLLECTIVE_COUNT, "reduce"},
    {ROW("65536", "none", "0", "7.86", "0", "0"), COLLECTIVE_COUNT, "gather"},
  };
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strconcat(DEVICES HEADER, cases[i].row, NULL);
    g_autoptr(NcclTests) tests = parse(text, COLLECTIVE_COUNT);
    ck_assert_int_eq(run_at(tests, 0)->collective, cases[i].collective);
    ck_assert_str_eq(run_at(tests, 0)->op, cases[i].op);
  }
}
END_TEST

/* Unchecked rows leave two collectives open; the caller, the command line or the banner settles it. */
START_TEST(collective_by_others)
{
  const char *row = ROW("65536", "none", "-1", "7.86", "N/A", "N/A");
  g_autofree char *bare = g_strconcat(DEVICES HEADER, row, NULL);
  g_autofree char *command = g_strconcat("$ ./alltoall_perf -c 0\n" DEVICES HEADER, row, NULL);
  g_autofree char *banner =
    g_strconcat("$ x_perf\n# Collective test starting: alltoall_perf\n" DEVICES HEADER, row, NULL);
  g_autoptr(NcclTests) a = parse(bare, COLLECTIVE_ALL_TO_ALL);
  g_autoptr(NcclTests) b = parse(command, COLLECTIVE_COUNT);
  g_autoptr(NcclTests) c = parse(banner, COLLECTIVE_COUNT);
  const NcclTests *const all[] = {a, b, c};
  for (guint i = 0; i < G_N_ELEMENTS(all); i++) {
    ck_assert_int_eq(run_at(all[i], 0)->collective, COLLECTIVE_ALL_TO_ALL);
    ck_assert_str_eq(run_at(all[i], 0)->op, "alltoall");
  }
}
END_TEST

START_TEST(labels_of_launchers)
{
  g_autofree char *plain = g_strconcat(DEVICES HEADER, ROW("262144", "sum", "-1", "15.73", "0", "0"), NULL);
  static const char *const labels[] = {"[1,0]<stdout>:", "0: ", " 0: ", ""};
  for (guint i = 0; i < G_N_ELEMENTS(labels); i++) {
    g_auto(GStrv) lines = g_strsplit(plain, "\n", -1);
    g_autoptr(GString) text = g_string_new(NULL);
    for (int l = 0; lines[l] && *lines[l]; l++)
      g_string_append_printf(text, "%s%s\r\n", labels[i], lines[l]);
    g_autoptr(NcclTests) tests = parse(text->str, COLLECTIVE_COUNT);
    ck_assert_int_eq(run_at(tests, 0)->ranks, 4);
    ck_assert_int_eq(tests->strange_lines, 0);
    near(row_at(run_at(tests, 0), 0)->seconds, 100e-6, 1e-12);
  }
}
END_TEST

/* ---- damage ---- */

#define GOOD DEVICES HEADER ROW("262144", "sum", "-1", "15.73", "0", "0") "# Out of bounds values : 0 OK\n"

/* `from` in the good text becomes `to`. */
static const struct {
  const char *from, *to, *message;
} damages[] = {
  {"sum -1 100.0", "sum -1 1x0.0", "f.txt:6: time: \"1x0.0\": expected a number"},
  {"sum -1 100.0", "sum -1 -100.0", "f.txt:6: time: \"-100.0\": expected a number"},
  {"sum -1 100.0", "sum -1 nan", "f.txt:6: time: \"nan\": expected a number"},
  {"sum -1 100.0", "sum -1 0.00", "f.txt:6: time: \"0.00\": expected more than 0 us"},
  {"sum -1 100.0", "sum -1 1e400", "f.txt:6: time: \"1e400\": expected a number"},
  {"sum -1 100.0", "sum -1 1.5e2147483648", "f.txt:6: time: \"1.5e2147483648\": expected a number"},
  {"sum -1 100.0", "sum -1 190.0", "f.txt:6: algbw: 10.49: expected 5.52, which 1048576 bytes in 190.00 us are"},
  {"sum -1 100.0 ", "sum -1 ", "f.txt:6: #wrong: 100.0: expected 0, from a run with right results"},
  {"15.73 0 100.0", "12.73 0 100.0", "f.txt:6: busbw: 12.73: expected 15.73, as all-reduce of 4 ranks has 1.5 times algbw"},
  {"15.73 0 100.0", "15.73 3 100.0", "f.txt:6: #wrong: 3: expected 0, from a run with right results"},
  {"15.73 0\n", "15.73 1e+06\n", "f.txt:6: #wrong: 1e+06: expected 0, from a run with right results"},
  {"10.49  15.73 0 100.0  10.49  15.73 0\n", "10.\n", "f.txt:6: 7 columns: expected at least 9, as the header has"},
  {"algbw   busbw #wrong     time   algbw   busbw #wrong", "algbw   busbw #wrong a b c d e f redop",
   "f.txt:6: 13 columns: expected at least 16, as the header has"},
  {" 10.49  15.73 0\n", " 10.4\n", "f.txt:6: 11 columns: expected 13, as the header has: the row is cut off"},
  {"0 OK", "4 FAILED", "f.txt:7: Out of bounds values : 4 FAILED: expected a run with right results"},
  {"root     time", "root  cputime", "f.txt:5: cputime: expected the time on the GPU, from a run without -C"},
  {"  algbw", "  albw", "f.txt:5: expected the columns size count type ... time algbw busbw #wrong"},
  {HEADER, "", "f.txt:5: a row without a header: expected the line of columns (size count type ...) above"},
  {DEVICES, "",
   "f.txt:2: no list of devices before this row: expected lines like \"#  Rank  0 ... on HOST\""},
  {"Pid 12 on  a", "Pid 12 on  b",
   "f.txt:6: 4 ranks, 4 of them in the first group, on 2 nodes: expected as many in each"},
  {"Pid 12 on", "Pid 12 no",
   "f.txt:2: expected a rank as in \"#  Rank  0 Group  0 Pid  1 on HOST device  0 [0000:00:00] GPU\""},
  {"Rank  1 Group  0", "Rank  1 Group  1",
   "f.txt:6: 4 ranks, 3 of them in the first group, on 1 node: expected as many in each"},
  {"262144 float sum", "65536 float none",
   "f.txt:6: busbw: 15.73: expected 7.87, as all-gather of 4 ranks has 0.75 times algbw"},
  {"262144 float sum", "99999 float sum",
   "f.txt:6: the columns leave open which collective this is: expected --collective, as in --collective all-gather"},
  {ROW("262144", "sum", "-1", "15.73", "0", "0"), "", "f.txt: no rows: expected the text that nccl-tests prints"},
  {GOOD, "", "f.txt: no rows: expected the text that nccl-tests prints"},
  {GOOD, "{\"version\": 2}\n", "f.txt: {…}: expected results, an array of nccl-tests -J"},
};

static char *replaced(const char *text, const char *from, const char *to)
{
  const char *at = strstr(text, from);
  ck_assert_msg(at != NULL, "%s", from);
  return g_strdup_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

START_TEST(damaged_text)
{
  GError *error = NULL;
  g_autofree char *text = replaced(GOOD, damages[_i].from, damages[_i].to);
  ck_assert_ptr_null(nccl_tests_parse(text, "f.txt", COLLECTIVE_COUNT, &error));
  test_error(&error, TDP_ERROR_INPUT, damages[_i].message);
}
END_TEST

START_TEST(other_collective_than_told)
{
  GError *error = NULL;
  ck_assert_ptr_null(nccl_tests_parse(GOOD, "f.txt", COLLECTIVE_ALL_GATHER, &error));
  test_error(&error, TDP_ERROR_INPUT, "f.txt:6: --collective: all-gather: expected all_reduce, which this run is");
}
END_TEST

START_TEST(file_with_a_nul)
{
  GError *error = NULL;
  g_autofree char *directory = test_directory(), *path = g_build_filename(directory, "f.txt", NULL);
  g_autofree char *expected =
    g_strdup_printf("%s: expected the text that nccl-tests prints, but it holds a NUL", path);
  ck_assert(g_file_set_contents(path, "# nThread\0", 10, NULL));
  ck_assert_ptr_null(nccl_tests_load(path, COLLECTIVE_COUNT, &error));
  test_error(&error, TDP_ERROR_INPUT, expected);
  g_unlink(path);
  g_rmdir(directory);
}
END_TEST

/* Whatever becomes of a file, it is read or refused in one line that names it. */
START_TEST(mutated_files)
{
  static const char bytes[] = "0123456789.#-eE \n\t/NArank[]\xff";
  g_autofree char *path = sample(layouts[_i].file);
  gsize length;
  g_autofree char *good = files_read(path, &length, NULL);
  guint32 state = 12345u + (guint32)_i;
  ck_assert_ptr_nonnull(good);
  for (int round = 0; round < 2000; round++) {
    g_autofree char *text = g_strdup(good);
    for (int change = 0; change < 1 + round % 5; change++) {
      state = state * 1664525u + 1013904223u;
      gsize at = (state >> 8) % length;
      state = state * 1664525u + 1013904223u;
      text[at] = bytes[(state >> 16) % (sizeof bytes - 1)];
      if (round % 7 == 6)
        text[at] = '\0'; /* cut */
    }
    GError *error = NULL;
    NcclTests *tests = nccl_tests_parse(text, "f.txt", COLLECTIVE_COUNT, &error);
    ck_assert((tests != NULL) == (error == NULL));
    if (error) {
      ck_assert(g_str_has_prefix(error->message, "f.txt:"));
      ck_assert_ptr_null(strchr(error->message, '\n'));
      ck_assert_int_eq(error->code, TDP_ERROR_INPUT);
    }
    for (guint r = 0; tests && r < tests->runs->len; r++)
      for (guint i = 0; i < run_at(tests, r)->rows->len; i++)
        ck_assert(row_at(run_at(tests, r), i)->seconds > 0 && row_at(run_at(tests, r), i)->bytes > 0);
    nccl_tests_free(tests);
    g_clear_error(&error);
  }
}
END_TEST

/* ---- fits ---- */

static const Link truth = {.base_s = 9e-6, .hop_s = 0.7e-6, .tree_hop_s = 3e-6, .efficiency = 0.78,
                           .sqrt_s_per_byte = 8e-9, .p2p_base_s = 14e-6, .p2p_efficiency = 0.7};

/* The text of a run on one node, whose times the formulas make; up to `part` of noise. */
static void add_run(GString *text, const char *op, Collective collective, int ranks, double part)
{
  Cluster cluster = {.devices_per_node = 8, .nodes = 1, .devices = 8, .n_tiers = 1, .network_tier = -1};
  cluster.tiers[0] = (Tier){.devices = 8, .bytes_per_s = 300e9, .port_bytes_per_s = 300e9, .link = truth};
  ck_assert(library_load(LIBRARY_USUAL, &cluster.library, NULL));
  GroupShape group = group_shape(&cluster, ranks, 1);
  guint32 state = (guint32)ranks;
  g_string_append_printf(text, "# nThread 1 nGpus %d minBytes 1024\n# Collective test starting: %s_perf\n", ranks, op);
  for (int i = 0; i < ranks; i++)
    g_string_append_printf(text, "#  Rank %2d Group  0 Pid %6d on node-1 device %2d [0000:%02x:00] NVIDIA X1\n", i,
                           100 + i, i, 16 + i);
  g_string_append(text, HEADER);
  for (gint64 bytes = 1024; bytes <= G_GINT64_CONSTANT(4) << 30; bytes *= 4) {
    state = state * 1664525u + 1013904223u;
    double noise = 1 + part * (2.0 * state / G_MAXUINT32 - 1);
    double us = collective_cost(&cluster, collective, (double)bytes, &group).seconds * 1e6 * noise;
    double alg = (double)bytes / us / 1e3, bus = alg * collective_bus_factor(collective, ranks);
    g_string_append_printf(text, "%12" G_GINT64_FORMAT " %12d float none -1 %8.2f %6.2f %6.2f 0 %8.2f %6.2f %6.2f 0\n",
                           bytes, 0, us, alg, bus, us, alg, bus);
  }
  g_string_append(text, "# Out of bounds values : 0 OK\n#\n");
}

static GArray *points_of(const NcclTests *tests)
{
  GArray *points = g_array_new(FALSE, FALSE, sizeof(LinkPoint));
  nccl_tests_points(tests, points);
  return points;
}

static NcclTests *synthetic(double part)
{
  g_autoptr(GString) text = g_string_new(NULL);
  for (int ranks = 2; ranks <= 8; ranks *= 2) {
    add_run(text, "all_reduce", COLLECTIVE_ALL_REDUCE, ranks, part);
    add_run(text, "all_gather", COLLECTIVE_ALL_GATHER, ranks, part);
    add_run(text, "alltoall", COLLECTIVE_ALL_TO_ALL, ranks, part);
  }
  return parse(text->str, COLLECTIVE_COUNT);
}

START_TEST(constants_are_found)
{
  const double part = _i ? 0.04 : 0, loose = _i ? 4 : 1;
  const LinkSetup setup = {.like = "nvlink3-switch"};
  GError *error = NULL;
  g_autoptr(NcclTests) tests = synthetic(part);
  g_autoptr(GArray) points = points_of(tests);
  g_auto(LinkCalibration) found = {0};
  ck_assert_msg(calibrate_link((LinkPoint *)(gpointer)points->data, (int)points->len, &setup, &found, &error), "%s",
                error ? error->message : "");
  ck_assert_int_eq(found.fitted, FIT_LINK_BASE | FIT_LINK_HOP | FIT_LINK_RATE | FIT_LINK_P2P);
  ck_assert_double_eq(found.bytes_per_s, 300e9);
  near(found.link.base_s, truth.base_s, 0.03 * loose);
  near(found.link.hop_s, truth.hop_s, 0.03 * loose);
  near(found.link.efficiency, truth.efficiency, 0.01 * loose);
  near(found.link.sqrt_s_per_byte, truth.sqrt_s_per_byte, 0.06 * loose);
  near(found.link.p2p_base_s, truth.p2p_base_s, 0.03 * loose);
  near(found.link.p2p_efficiency, truth.p2p_efficiency, 0.01 * loose);
  ck_assert_int_eq(found.errors.n, points->len);
  ck_assert_int_gt(found.held_out.n, 10);
  ck_assert_double_lt(found.errors.mean, 0.002 + part);
  ck_assert_double_lt(found.held_out.mean, 0.004 + part);
}
END_TEST

/* Of all-reduces among as many ranks always, neither hops nor sends are told. */
START_TEST(untold_constants_are_kept)
{
  const LinkSetup setup = {.like = "nvlink3-switch", .bytes_per_s = 300e9};
  g_autoptr(GString) text = g_string_new(NULL);
  add_run(text, "all_reduce", COLLECTIVE_ALL_REDUCE, 8, 0);
  g_autoptr(NcclTests) tests = parse(text->str, COLLECTIVE_COUNT);
  g_autoptr(GArray) points = points_of(tests);
  const LinkPoint *first = (const LinkPoint *)(gpointer)points->data;
  g_auto(LinkCalibration) found = {0};
  GError *error = NULL;
  ck_assert_msg(calibrate_link(first, (int)points->len, &setup, &found, &error), "%s", error ? error->message : "");
  ck_assert_int_eq(found.fitted, FIT_LINK_BASE | FIT_LINK_RATE);
  near(found.link.efficiency, truth.efficiency, 0.01);
  near(found.link.base_s + 14 * found.link.hop_s, truth.base_s + 14 * truth.hop_s, 0.03);
  ck_assert_double_eq(found.link.tree_hop_s, 2.7e-6); /* of nvlink3-switch */

  g_auto(LinkCalibration) small = {0}; /* the four least sizes */
  ck_assert(calibrate_link(first, 4, &setup, &small, &error));
  ck_assert_int_eq(small.fitted, FIT_LINK_BASE);
  ck_assert_int_eq(small.held_out.n, 0);

  ck_assert(!calibrate_link(first, 2, &setup, &small, &error));
  test_error(&error, TDP_ERROR_INPUT,
             "f.txt: 2 points tell no constant of the link: expected sizes from a few bytes to hundreds of MB");
}
END_TEST

/* A single rank of each node has all NICs; fourfold more than its share here. */
START_TEST(lone_ranks_have_the_port)
{
  const LinkSetup setup = {.cluster = "h100-80gb-ib800"};
  LinkPoint points[12];
  for (int i = 0; i < 12; i++) {
    double bytes = 1024 * pow(4, i);
    points[i] = (LinkPoint){COLLECTIVE_SEND, 2, 2, 1, bytes, 20e-6 + bytes / (0.8 * 50e9), "f.txt"};
  }
  g_auto(LinkCalibration) found = {0};
  GError *error = NULL;
  ck_assert_msg(calibrate_link(points, 12, &setup, &found, &error), "%s", error ? error->message : "");
  ck_assert_int_eq(found.fitted, FIT_LINK_P2P);
  ck_assert_double_eq(found.bytes_per_s, 50e9);
  near(found.link.p2p_base_s, 20e-6, 0.01);
  near(found.link.p2p_efficiency, 0.8, 0.01);
  ck_assert_str_eq(found.like, "infiniband-ndr");
}
END_TEST

/* ---- what does not fit the machine ---- */

static const struct {
  LinkSetup setup;
  LinkPoint point;
  const char *message;
} misfits[] = {
  {{.bytes_per_s = 1e9}, {COLLECTIVE_SEND, 2, 1, 2},
   "--like: missing: expected the link that was measured, as in --like nvlink3-switch, or its cluster by --cluster"},
  {{.like = "infiniband-ndr", .cluster = "dgx-h100", .bytes_per_s = 1e9}, {COLLECTIVE_SEND, 2, 1, 2},
   "--gb-per-s: expected no --cluster beside it, which has the rate"},
  {{.like = "xgmi"}, {COLLECTIVE_SEND, 2, 1, 2},
   "--like: xgmi: servers with this link differ in its rate: expected the rate too, by --cluster or --gb-per-s"},
  {{.like = "pcie3"}, {COLLECTIVE_SEND, 2, 1, 2},
   "--like: pcie3: no server has this link: expected the rate too, by --cluster or --gb-per-s"},
  {{.like = "nvlink3-switch"}, {COLLECTIVE_ALL_REDUCE, 1, 1, 1},
   "f.txt: 1 rank: expected at least 2, for one sends nothing"},
  {{.like = "nvlink3-switch"}, {COLLECTIVE_ALL_REDUCE, 3, 2, 2}, "f.txt: 3 ranks on 2 nodes: expected as many on each"},
  {{.like = "nvlink3-switch"}, {COLLECTIVE_ALL_REDUCE, 16, 2, 8},
   "f.txt: 16 ranks on 2 nodes: expected --cluster, for nvlink3-switch alone joins ranks of one node"},
  {{.like = "infiniband-ndr", .bytes_per_s = 50e9}, {COLLECTIVE_ALL_REDUCE, 8, 1, 8},
   "f.txt: 8 ranks on 1 node: expected --cluster, for infiniband-ndr alone joins single ranks of several nodes"},
  {{.cluster = "dgx-h100"}, {COLLECTIVE_SEND, 16, 2, 8},
   "f.txt: sends among 16 ranks on 2 nodes: expected one rank a node, for else some stay inside"},
  {{.cluster = "dgx-h100"}, {COLLECTIVE_ALL_REDUCE, 16, 1, 16},
   "f.txt: 16 ranks on a node: expected at most 8, the devices of a node of dgx-h100"},
};

START_TEST(points_that_do_not_fit)
{
  LinkPoint point = misfits[_i].point;
  g_auto(LinkCalibration) found = {0};
  GError *error = NULL;
  point.bytes = 1e6;
  point.seconds = 1e-3;
  point.file = "f.txt";
  ck_assert(!calibrate_link(&point, 1, &misfits[_i].setup, &found, &error));
  test_error(&error, TDP_ERROR_INPUT, misfits[_i].message);
}
END_TEST

START_TEST(points_of_two_tiers)
{
  const LinkSetup setup = {.cluster = "dgx-h100"};
  const LinkPoint points[] = {{COLLECTIVE_ALL_REDUCE, 8, 1, 8, 1e6, 1e-3, "a.txt"},
                              {COLLECTIVE_ALL_REDUCE, 16, 2, 8, 1e6, 1e-3, "b.txt"}};
  g_auto(LinkCalibration) found = {0};
  GError *error = NULL;
  ck_assert(!calibrate_link(points, 2, &setup, &found, &error));
  test_error(&error, TDP_ERROR_INPUT,
             "b.txt: ranks meet in tier \"network\", those of a.txt in \"nvlink\": expected files of one link");
}
END_TEST

/* ---- files ---- */

static Cluster *cluster_of_link(const char *link)
{
  GError *error = NULL;
  g_autofree char *text = g_strdup_printf(
    "{\"name\": \"c\", \"nodes\": 1, \"server\": {\"like\": \"dgx-a100-80gb\", \"tiers\": [{\"name\": \"t\", "
    "\"link\": \"%s\", \"gb_per_s\": 300, \"source\": \"derived: x\"}]}, \"source\": \"default: x\"}", link);
  Cluster *cluster = cluster_parse(text, strlen(text), "c", &error);
  ck_assert_msg(cluster != NULL, "%s", error ? error->message : "");
  return cluster;
}

/* A cluster of the link that was written loads; what was not fitted is that of the other link. */
START_TEST(link_file)
{
  g_autofree char *directory = test_directory(), *path = g_build_filename(directory, "x.json", NULL);
  LinkCalibration found = {.link = {.base_s = 9.00049e-6, .efficiency = 0.7, .p2p_efficiency = 0.5},
                           .like = "nvlink3-switch", .bytes_per_s = 3e11, .fitted = FIT_LINK_BASE | FIT_LINK_RATE,
                           .errors = {.n = 20, .mean = 0.0312}, .held_out = {.n = 7, .mean = 0.04}, .n = 20};
  g_autofree char *json = link_calibration_json(&found, "x", "a.txt, b.txt");
  ck_assert_str_eq(json, "{\n  \"name\": \"x\",\n  \"like\": \"nvlink3-switch\",\n"
                         "  \"base_us\": 9,\n  \"efficiency\": 0.7,\n  \"sqrt_us_per_sqrt_byte\": 0,\n"
                         "  \"note\": \"efficiencies are shares of 300 GB/s, a device each way\",\n"
                         "  \"source\": \"fitted: a.txt, b.txt, 20 points, mean error 3.1 %, 4.0 % on 7 left out\"\n"
                         "}\n");
  ck_assert(g_file_set_contents(path, json, -1, NULL));
  g_autoptr(Cluster) cluster = cluster_of_link(path), other = cluster_of_link("nvlink3-switch");
  const Link *link = &cluster->tiers[0].link;
  ck_assert_str_eq(link->name, "x");
  ck_assert_int_eq(link->provenance, PROVENANCE_FITTED);
  near(link->base_s, 9e-6, 1e-9);
  near(link->efficiency, 0.7, 1e-9);
  ck_assert_double_eq(link->hop_s, other->tiers[0].link.hop_s);
  ck_assert_double_eq(link->p2p_efficiency, other->tiers[0].link.p2p_efficiency);
  g_unlink(path);
  g_rmdir(directory);
}
END_TEST

START_TEST(table_of_points)
{
  double fitted_s[] = {11e-6, 2.97e-3};
  const char *algorithms[] = {"ring", "pairwise"};
  const LinkPoint points[] = {{COLLECTIVE_ALL_REDUCE, 8, 1, 8, 1024, 10e-6, "f"},
                              {COLLECTIVE_ALL_TO_ALL, 16, 2, 8, 1 << 26, 3e-3, "f"}};
  LinkCalibration found = {.link = {.base_s = 9e-6, .efficiency = 0.7}, .like = "y", .bytes_per_s = 3e11,
                           .fitted = FIT_LINK_BASE, .errors = {2, 0.055, 0.055, 0.09, 0.1}, .n = 2,
                           .fitted_s = fitted_s, .algorithms = algorithms};
  test_text(link_calibration_text(&found, points),
            "collective  nodes  ranks     bytes  measured us  fitted us  error %  algorithm\n"
            "all-reduce      1      8      1024        10.00      11.00    +10.0  ring\n"
            "all-to-all      2     16  67108864      3000.00    2970.00     -1.0  pairwise\n"
            "\n"
            "constant               value\n"
            "base_us                    9  fitted\n"
            "hop_us                     0  as y\n"
            "tree_hop_us                0  as y\n"
            "efficiency               0.7  as y\n"
            "sqrt_us_per_sqrt_byte      0  as y\n"
            "p2p_base_us                0  as y\n"
            "p2p_efficiency             0  as y\n"
            "\n"
            "nominal rate: 300 GB/s, a device each way\n"
            "2 points: mean error 5.5 %, median 5.5 %, 90 % below 9.0 %, largest 10.0 %\n");
}
END_TEST

/* ---- this host ---- */

static void count_calls(int done, int of, gpointer data)
{
  ck_assert_int_eq(done, ++*(int *)data);
  ck_assert_int_eq(of, 3);
}

START_TEST(host_memory)
{
  for (int threads = 1; threads <= 3; threads++) {
    int calls = 0;
    HostCopy copy = calibrate_host_copy(1 << 20, threads, 3, count_calls, &calls);
    ck_assert_int_eq(calls, 3);
    ck_assert_int_eq(copy.threads, threads);
    ck_assert_double_le(copy.copy_bytes, 1 << 20);
    ck_assert_double_gt(copy.copy_bytes, (1 << 20) - threads);
    ck_assert(copy.bytes_per_s > 1e6 && copy.bytes_per_s < 1e14);
  }
  ck_assert_uint_ge(calibrate_copy_bytes(), 1 << 20);
  ck_assert_uint_le(calibrate_copy_bytes(), 1 << 30);
  ck_assert(calibrate_timer_s() > 1e-10 && calibrate_timer_s() < 1e-3);
}
END_TEST

START_TEST(host_file)
{
  HostCopy copy = {.threads = 2, .copy_bytes = 1 << 28, .repeats = 9, .bytes_per_s = 20.12345e9};
  test_text(host_copy_json(&copy, "2026-01-31"),
            "{\n  \"host_memory_gb_per_s\": 20.12,\n  \"source\": \"measured: copy of 256 MiB by 2 threads, read and "
            "write together, median of 9, on 2026-01-31\"\n}\n");
}
END_TEST

TEST_LOOPS("calibrate", {layout, G_N_ELEMENTS(layouts)}, {in_place_alone}, {points_of_known_collectives},
           {collective_by_columns}, {collective_by_others}, {labels_of_launchers},
           {damaged_text, G_N_ELEMENTS(damages)}, {other_collective_than_told}, {file_with_a_nul},
           {mutated_files, G_N_ELEMENTS(layouts)}, {constants_are_found, 2}, {untold_constants_are_kept},
           {lone_ranks_have_the_port}, {points_that_do_not_fit, G_N_ELEMENTS(misfits)}, {points_of_two_tiers},
           {link_file}, {table_of_points}, {host_memory}, {host_file})
