/* Clusters, servers, GPUs and links: what their files mean in base units, and clusters of other sizes. */
#include <math.h>

#include "base/error.h"
#include "cost/kernel.h"
#include "main.h"
#include "whole.h"

#define NEAR(a, b) ck_assert_double_eq_tol((a), (b), 1e-9 * fabs((double)(b)) + G_MINDOUBLE) /* 0 is near 0 */

/* ---- base units ---- */

START_TEST(one_file_in_base_units)
{
  g_autoptr(Cluster) c = whole_parse(whole_text);
  const Device *device = &c->device;
  NEAR(device->peak_flops_per_s[DTYPE_BF16], 300e12);
  NEAR(device->peak_flops_per_s[DTYPE_FP32], 20e12);
  ck_assert_double_eq(device->peak_flops_per_s[DTYPE_FP8], 0);
  NEAR(device->memory_bytes, 40 * 1073741824.0);
  NEAR(device->memory_bytes_per_s, 2e12);
  NEAR(device->l2_bytes, 40 * 1048576.0);
  NEAR(device->host_bytes_per_s, 25e9);
  ck_assert_int_eq(device->sms, 108);
  NEAR(c->host_memory_bytes, 512 * 1073741824.0);
  NEAR(c->host_memory_bytes_per_s, 400e9);
  NEAR(c->nvme_bytes, 30e12);
  NEAR(c->nvme_read_bytes_per_s, 50e9);
  NEAR(c->nvme_write_bytes_per_s, 25e9);
  NEAR(c->usd_per_device_hour, 1.5);

  ck_assert_int_eq(c->devices, 32);
  ck_assert_int_eq(c->n_tiers, 3);
  ck_assert_int_eq(c->network_tier, 1);
  ck_assert_int_eq(c->tiers[0].devices, 8);
  ck_assert_int_eq(c->tiers[1].devices, 16);
  NEAR(c->tiers[0].bytes_per_s, 300e9);
  NEAR(c->tiers[0].port_bytes_per_s, 300e9);
  NEAR(c->tiers[1].bytes_per_s, 4 * 25e9 / 8);
  NEAR(c->tiers[1].port_bytes_per_s, 25e9);
  NEAR(c->tiers[2].bytes_per_s, 4 * 25e9 / 8 / 4);
  NEAR(c->tiers[2].port_bytes_per_s, 25e9);
  ck_assert_str_eq(c->tiers[2].name, "spine");
  ck_assert_str_eq(c->tiers[2].link.name, "roce");
}
END_TEST

START_TEST(one_file_link_and_kernels)
{
  g_autoptr(Cluster) c = whole_parse(whole_text);
  const Link *link = &c->tiers[0].link;
  ck_assert_int_eq(link->kind, LINK_SWITCH);
  NEAR(link->base_s, 5e-6);
  NEAR(link->hop_s, 1.5e-6);
  NEAR(link->tree_hop_s, 3e-6);
  NEAR(link->sqrt_s_per_byte, 1e-8);
  NEAR(link->in_switch_base_s, 12e-6);
  NEAR(link->in_switch_efficiency, 1.1);
  ck_assert_double_eq(link->in_switch_sqrt_s_per_byte, 0);
  ck_assert_int_eq(link->provenance, PROVENANCE_FITTED);

  const Kernels *kernels = &c->device.kernels;
  NEAR(kernels->matmul[DTYPE_BF16].launch_s, 2e-6);
  NEAR(kernels->matmul[DTYPE_BF16].tile_overhead_s, 3e-6);
  NEAR(kernels->matmul[DTYPE_BF16].wave_weight, 0.5);
  NEAR(kernels->attention_launch_s, 7e-6);
  NEAR(kernels->memory_launch_s, 3e-6);
  ck_assert_int_eq(kernels->memory_provenance, PROVENANCE_MEASURED);
  ck_assert_int_eq(kernels->n_attention, 2);
  ck_assert_int_eq(kernels->attention[0].n, 2);
  ck_assert(!kernels->attention[0].backward && kernels->attention[1].backward);
  NEAR(kernels->attention[0].seq[1], 1024);
  NEAR(kernels->attention[0].utilization[1], 0.4);
}
END_TEST

START_TEST(formats_stand_for_each_other)
{
  g_autoptr(Cluster) c = whole_parse(whole_text);
  const MatmulModel *matmul = c->device.kernels.matmul;
  ck_assert_int_eq(matmul[DTYPE_BF16].provenance, PROVENANCE_FITTED);
  ck_assert_int_eq(matmul[DTYPE_FP16].provenance, PROVENANCE_FITTED);
  ck_assert_int_eq(matmul[DTYPE_FP32].provenance, PROVENANCE_DEFAULT);
  ck_assert_int_eq(matmul[DTYPE_FP8].provenance, PROVENANCE_DEFAULT);
  NEAR(matmul[DTYPE_FP4].efficiency, 0.8);

  g_autofree char *text = whole_replace(whole_text, "\"power_w\": 400",
                                        "\"power_w\": 400, \"kernels_provenance\": \"default\"");
  g_autoptr(Cluster) borrowed = whole_parse(text);
  const Kernels *kernels = &borrowed->device.kernels;
  ck_assert_int_eq(kernels->matmul[DTYPE_BF16].provenance, PROVENANCE_DEFAULT);
  ck_assert_int_eq(kernels->attention[0].provenance, PROVENANCE_DEFAULT);
  ck_assert_int_eq(kernels->memory_provenance, PROVENANCE_DEFAULT);
}
END_TEST

START_TEST(known_clusters)
{
  g_autoptr(Cluster) dgx = whole_load("dgx");
  ck_assert_int_eq(dgx->devices, 128);
  ck_assert_str_eq(dgx->device.name, "a100-sxm4-80gb");
  NEAR(dgx->device.peak_flops_per_s[DTYPE_BF16], 312e12);
  NEAR(dgx->tiers[0].bytes_per_s, 300e9);
  NEAR(dgx->tiers[1].bytes_per_s, 25e9);

  g_autoptr(Cluster) bloom = whole_load("jean-zay-a100");
  ck_assert_int_eq(bloom->devices, 384);
  NEAR(bloom->tiers[1].bytes_per_s, 6.25e9);
  NEAR(bloom->tiers[1].port_bytes_per_s, 12.5e9);
  NEAR(8 * bloom->tiers[1].bytes_per_s * bloom->tiers[1].link.efficiency, 5.05e9);

  g_autoptr(Cluster) nvl72 = whole_load("gb200-nvl72");
  ck_assert_int_eq(nvl72->devices_per_node, 4);
  ck_assert_int_eq(nvl72->tiers[0].devices, 72);
  static const struct { int job, segment; } jobs[] = { { 144, 72 }, { 256, 64 }, { 72, 72 }, { 64, 72 }, { 480, 60 },
                                                       { 76, 72 }, { 576, 72 } };
  for (gsize i = 0; i < G_N_ELEMENTS(jobs); i++) {
    ck_assert(cluster_resize(nvl72, jobs[i].job, NULL));
    ck_assert_int_eq(nvl72->tiers[0].devices, jobs[i].segment);
    ck_assert_int_eq(nvl72->tiers[0].devices_whole, 72);
  }
  static const char racks[] = "{ \"name\": \"racks\", \"nodes\": 64, \"server\": \"gb200-nvl72\","
                              " \"source\": \"default: a job of 256\" }";
  g_autoptr(Cluster) loaded = cluster_parse(racks, sizeof racks - 1, "racks.json", NULL);
  ck_assert_int_eq(loaded->tiers[0].devices, 64);
  ck_assert(nvl72->tiers[0].link.in_switch);
  NEAR(nvl72->tiers[1].bytes_per_s, 50e9);

  g_autoptr(Cluster) pods = whole_load("llama3-h100-24k");
  ck_assert_int_eq(pods->devices, 24576);
  ck_assert_int_eq(pods->tiers[1].devices, 3072);
  NEAR(pods->tiers[2].bytes_per_s, 50e9 / 7);

  g_autoptr(Cluster) pair = whole_load("titan-rtx-pair");
  ck_assert_int_eq(pair->network_tier, -1);
  ck_assert_int_eq(pair->tiers[0].link.kind, LINK_MESH);

  g_autoptr(Cluster) cube = whole_load("aws-p3-16xlarge");
  ck_assert_int_eq(cube->tiers[0].link.kind, LINK_MESH);
  NEAR(cube->tiers[1].bytes_per_s, 25e9 / 8 / 8);
}
END_TEST

START_TEST(like_overrides)
{
  g_autoptr(Cluster) c = whole_parse(
    "{\"like\": \"dgx\", \"nodes\": 2, \"network\": {\"nic_gbit_per_s\": 240, \"source\": \"default: x\"},"
    " \"server\": {\"like\": \"dgx-a100-80gb\", \"usd_per_device_hour\": 2,"
    "   \"gpu\": {\"like\": \"a100-sxm4-80gb\", \"memory_gib\": 60,"
    "     \"peak_tflops\": {\"bf16\": 300, \"source\": \"default: x\"},"
    "     \"source\": \"default: x\"}, \"source\": \"default: x\"},"
    " \"source\": \"default: x\"}");
  ck_assert_str_eq(c->name, "dgx");
  ck_assert_int_eq(c->devices, 16);
  NEAR(c->usd_per_device_hour, 2);
  NEAR(c->device.memory_bytes, 60 * 1073741824.0);
  NEAR(c->device.peak_flops_per_s[DTYPE_BF16], 300e12);
  NEAR(c->device.peak_flops_per_s[DTYPE_FP16], 312e12);
  ck_assert_str_eq(c->device.kernels.name, "a100");
  NEAR(c->tiers[1].bytes_per_s, 30e9);
  ck_assert_str_eq(c->tiers[1].link.name, "infiniband-hdr");
}
END_TEST

/* A price is of the GPU that the server was sold with. */
START_TEST(price_stays_with_its_gpu)
{
  static const struct {
    const char *keys;
    double usd;
  } servers[] = {
    {"\"devices_per_node\": 4", 6.88},
    {"\"gpu\": \"h100-sxm5-80gb\"", 6.88},
    {"\"gpu\": {\"like\": \"h100-sxm5-80gb\", \"memory_gib\": 70, \"source\": \"default: x\"}", 6.88},
    {"\"gpu\": {\"like\": \"h100-sxm5-80gb\", \"name\": \"mine\"}", 0},
    {"\"gpu\": \"h200-sxm5-141gb\"", 0},
    {"\"gpu\": \"h200-sxm5-141gb\", \"usd_per_device_hour\": 8", 8},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
    g_autofree char *text = g_strdup_printf(
      "{\"name\": \"c\", \"nodes\": 1, \"server\": {\"like\": \"aws-p5-48xlarge\", \"name\": \"s\", %s,"
      " \"source\": \"default: x\"}, \"source\": \"default: x\"}", servers[i].keys);
    g_autoptr(Cluster) c = whole_parse(text);
    ck_assert_double_eq_tol(c->usd_per_device_hour, servers[i].usd, 1e-9);
  }
}
END_TEST

/* A link that a file says no size of joins a node, of whatever size that has where another server is like it; one with a
 * size keeps it. */
START_TEST(links_join_the_node_that_is_said)
{
  static const struct {
    const char *like;
    int node, joined;
  } nodes[] = { { "dgx-h200", 4, 4 }, { "dgx-h200", 16, 16 }, { "gb200-nvl72", 2, 72 } };

  for (gsize i = 0; i < G_N_ELEMENTS(nodes); i++) {
    g_autofree char *text = g_strdup_printf(
      "{\"name\": \"c\", \"nodes\": 72, \"server\": {\"like\": \"%s\", \"name\": \"s\", \"devices_per_node\": %d,"
      " \"source\": \"default: x\"}, \"source\": \"default: x\"}", nodes[i].like, nodes[i].node);
    g_autoptr(Cluster) c = whole_parse(text);
    ck_assert_int_eq(c->devices_per_node, nodes[i].node);
    ck_assert_int_eq(MAX(c->tiers[0].devices_whole, c->tiers[0].devices), nodes[i].joined);
  }
}
END_TEST

/* What a cluster says of its network holds for a server that a file like it names. */
START_TEST(networks_outlast_servers)
{
  static const struct {
    const char *text;
    double gb_per_s;
    const char *link;
  } files[] = {
    { "\"like\": \"a100-80gb-roce400\"", 6.25, "roce" },
    { "\"like\": \"a100-80gb-roce400\", \"server\": \"dgx-a100-80gb\"", 6.25, "roce" },
    { "\"like\": \"a100-80gb-roce400\", \"server\": \"dgx-a100-80gb\", \"network\": {\"nics_per_node\": 8, "
      "\"source\": \"default: x\"}", 12.5, "roce" },
    { "\"like\": \"h100-80gb-ib800\", \"server\": {\"like\": \"dgx-h100\", \"name\": \"s\", \"devices_per_node\": 4, "
      "\"source\": \"default: x\"}", 25, "infiniband-ndr" },
    { "\"nodes\": 2, \"server\": \"dgx-h100\"", 50, "infiniband-ndr" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *text = g_strdup_printf("{%s, \"name\": \"c\", \"source\": \"default: x\"}", files[i].text);
    g_autoptr(Cluster) c = whole_parse(text);
    NEAR(c->tiers[c->network_tier].bytes_per_s, files[i].gb_per_s * 1e9);
    ck_assert_str_eq(c->tiers[c->network_tier].link.name, files[i].link);
  }
}
END_TEST

/* What NICs would give a device does not pass its slot: of half a node that keeps eight NICs, of PCIe 4.0. */
START_TEST(slots_bound_the_network)
{
  static const char *const servers[] = {
    "\"like\": \"dgx-h200\", \"devices_per_node\": 4", "\"like\": \"pcie-8x-l40s\", \"network\": {\"nics_per_node\": 8, "
    "\"nic_gbit_per_s\": 400, \"source\": \"default: x\"}" };

  for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
    g_autofree char *text = g_strdup_printf("{\"name\": \"c\", \"nodes\": 2, \"server\": {\"name\": \"s\", %s, \"source\": "
                                            "\"default: x\"}, \"source\": \"default: x\"}", servers[i]);
    g_autoptr(Cluster) c = whole_parse(text);
    const Tier *network = &c->tiers[c->network_tier];
    NEAR(network->bytes_per_s, c->device.host_bytes_per_s / 0.83);
    NEAR(network->port_bytes_per_s, network->bytes_per_s);
  }
}
END_TEST

/* Lists take the place of those of the part that it is like. */
START_TEST(like_overrides_kernels)
{
  g_autoptr(Cluster) c = whole_parse(
    "{\"like\": \"dgx\", \"server\": {\"like\": \"dgx-a100-80gb\", \"gpu\": {\"like\": \"a100-sxm4-80gb\","
    " \"kernels\": {\"like\": \"a100\", \"memory\": {\"fraction\": 0.5, \"launch_us\": 2, \"source\": \"default: x\","
    "   \"kernels\": [{\"name\": \"mine\", \"pass\": \"forward\", \"fraction\": 0.25,"
    "                  \"source\": \"default: x\"}]}}}}}");
  const Kernels *kernels = &c->device.kernels;
  ck_assert_str_eq(kernels->name, "a100");
  NEAR(kernels->memory_fraction, 0.5);
  ck_assert_int_eq(kernels->n_memory_kernels, 1);
  ck_assert_str_eq(kernels->memory_kernels[0].name, "mine");
  NEAR(kernels->memory_kernels[0].fraction, 0.25);
  ck_assert_int_gt(kernels->n_attention, 1);
}
END_TEST

/* An H100 whose kernels are like h100's, but for some sections. */
static Cluster *with_sections(const char *sections)
{
  g_autofree char *text = g_strdup_printf(
    "{\"like\": \"dgx\", \"server\": {\"like\": \"dgx-h100\", \"gpu\": {\"like\": \"h100-sxm5-80gb\","
    " \"kernels\": {\"like\": \"h100\", %s}}}}", sections);
  return whole_parse(text);
}

/* Where kernels have a section of gradients, products of that kind alone take its numbers. */
START_TEST(gradients_have_products_of_their_own)
{
  static const char *const sections[PRODUCT_COUNT] = { NULL, "input_gradient", "weight_gradient" };
  Device base;

  ck_assert(device_load("h100-sxm5-80gb", &base, NULL));
  for (Product own = PRODUCT_INPUT_GRADIENT; own < PRODUCT_COUNT; own++) {
    g_autofree char *text = g_strdup_printf(
      "\"%s\": {\"bf16\": {\"launch_us\": 0, \"efficiency\": 0.01, \"tile_overhead_us\": 0, \"bandwidth_fraction\": 1,"
      " \"tile_exponent\": 0, \"overlap_power\": 64, \"split_us\": 0, \"wave_weight\": 0, \"tile\": 16,"
      " \"first_bandwidth_fraction\": 0.001, \"source\": \"default: made up\"}}", sections[own]);
    g_autoptr(Cluster) c = with_sections(text);
    for (Product product = 0; product < PRODUCT_COUNT; product++) {
      Matmul matmul = { 4096, 4096, 4096, 1, DTYPE_BF16, .product = product };
      double rate = 0.01 * c->device.peak_flops_per_s[DTYPE_BF16] * c->device.sustained_fraction;
      double before = matmul_s(&base, &matmul);
      NEAR(matmul_s(&c->device, &matmul), product == own ? 2 * pow(4096, 3) / rate : before);
      matmul.n = 1; /* the first factor's bytes count a thousandfold */
      if (product == own)
        NEAR(matmul_s(&c->device, &matmul), 2 * (1000 * 4096 + 1) * 4096. / c->device.memory_bytes_per_s);
      matmul.n = 4096, matmul.activations = TRUE; /* of two activations neither is a gradient of a layer */
      ck_assert_double_lt(matmul_s(&c->device, &matmul), 2 * pow(4096, 3) / rate / 2);
    }
  }
  device_clear(&base);
}
END_TEST

/* Each key of a section alone takes the place of its number, and all others stay. */
START_TEST(like_overrides_keys_of_sections)
{
  Device base;
  ck_assert(device_load("h100-sxm5-80gb", &base, NULL));
  const struct {
    const char *section, *key;
    gsize offset; /* in Kernels */
    double unit;
  } keys[] = {
#define OF(section, key, member, unit) {section, key, G_STRUCT_OFFSET(Kernels, member), unit}
    OF("memory", "fraction", memory_fraction, 1),
    OF("memory", "launch_us", memory_launch_s, 1e-6),
    OF("memory", "crowding", memory_crowding, 1),
    OF("attention", "launch_us", attention_launch_s, 1e-6),
    OF("attention", "sustained_fraction", attention_sustained, 1),
    OF("unaligned", "words", unaligned[0][0], 1),
    OF("unaligned", "words_of_activations", unaligned[0][1], 1),
    OF("unaligned", "bytes", unaligned[1][0], 1),
    OF("unaligned", "bytes_of_activations", unaligned[1][1], 1),
    OF("library", "added_power", added_power, 1),
    OF("library", "experts_at_once", experts_at_once, 1),
    OF("early", "cuda_version", early_cuda_version, 1),
    OF("early", "product_share", early_product_share, 1),
    OF("promoted", "efficiency_share", promoted_share, 1),
    OF("promoted", "tile_overhead_us", promoted_overhead_s, 1e-6),
    OF("dispatch", "base_us", dispatch.base_s, 1e-6),
    OF("dispatch", "row_us", dispatch.row_s, 1e-6),
    OF("dispatch", "ns_per_byte", dispatch.s_per_byte, 1e-9),
    OF("dispatch", "hybrid_gb_per_s", dispatch.hybrid_bytes_per_s, 1e9),
    OF("dispatch", "hybrid_slowdown", dispatch.hybrid_slowdown, 1),
#undef OF
  };
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    double value = g_str_has_suffix(keys[i].key, "fraction") || g_str_has_suffix(keys[i].key, "share") ? 0.5 : 3;
    g_autofree char *text = g_strdup_printf("\"%s\": {\"%s\": %g, \"source\": \"default: x\"}", keys[i].section,
                                            keys[i].key, value);
    g_autoptr(Cluster) c = with_sections(text);
    const Kernels *kernels = &c->device.kernels;
    for (gsize k = 0; k < G_N_ELEMENTS(keys); k++)
      NEAR(G_STRUCT_MEMBER(double, kernels, keys[k].offset),
           k == i ? value * keys[k].unit : G_STRUCT_MEMBER(double, &base.kernels, keys[k].offset));
    ck_assert_int_eq(kernels->n_attention, base.kernels.n_attention);
    ck_assert_int_eq(kernels->n_memory_kernels, base.kernels.n_memory_kernels);
    NEAR(kernels->matmul[DTYPE_BF16].unaligned[1][0], kernels->unaligned[1][0]);
    NEAR(kernels->matmul[DTYPE_BF16].added_power, kernels->added_power);
    ck_assert_double_eq(kernels->matmul[DTYPE_FP8].added_power, 0);
    NEAR(kernels->matmul[DTYPE_BF16].experts_at_once, kernels->experts_at_once);
    ck_assert_double_eq(kernels->grouped[DTYPE_BF16].added_power, 0); /* measured of calls alone */
  }
  device_clear(&base);
}
END_TEST

/* A number that stays is as trustworthy as before, and one that is replaced counts no more. */
START_TEST(like_keeps_provenance_of_what_stays)
{
  Device base;
  ck_assert(device_load("h100-sxm5-80gb", &base, NULL));
  ck_assert_int_eq(base.kernels.memory_provenance, PROVENANCE_DEFAULT);
  ck_assert_int_eq(base.kernels.matmul[DTYPE_BF16].provenance, PROVENANCE_FITTED);

  g_autoptr(Cluster) one = with_sections("\"memory\": {\"fraction\": 0.5, \"source\": \"measured: x\"}");
  ck_assert_int_eq(one->device.kernels.memory_provenance, PROVENANCE_DEFAULT);
  g_autoptr(Cluster) both =
    with_sections("\"memory\": {\"fraction\": 0.5, \"launch_us\": 2, \"source\": \"measured: x\"}");
  ck_assert_int_eq(both->device.kernels.memory_provenance, PROVENANCE_MEASURED);

  g_autoptr(Cluster) worse = with_sections("\"matmul\": {\"bf16\": {\"launch_us\": 3, \"source\": \"default: x\"}}");
  ck_assert_int_eq(worse->device.kernels.matmul[DTYPE_BF16].provenance, PROVENANCE_DEFAULT);
  g_autoptr(Cluster) better = with_sections("\"matmul\": {\"bf16\": {\"launch_us\": 3, \"source\": \"measured: x\"}}");
  ck_assert_int_eq(better->device.kernels.matmul[DTYPE_BF16].provenance, PROVENANCE_FITTED);
  g_autoptr(Cluster) whole = with_sections(
    "\"matmul\": {\"bf16\": {\"launch_us\": 3, \"efficiency\": 0.5, \"tile_overhead_us\": 1, \"bandwidth_fraction\": 1,"
    " \"tile_exponent\": 0, \"overlap_power\": 2, \"split_us\": 1, \"wave_weight\": 0, \"source\": \"measured: x\"}}");
  ck_assert_int_eq(whole->device.kernels.matmul[DTYPE_BF16].provenance, PROVENANCE_MEASURED);

  g_autoptr(Cluster) rows = with_sections("\"dispatch\": {\"base_us\": 3, \"source\": \"measured: x\"}");
  ck_assert_int_eq(rows->device.kernels.dispatch.provenance, base.kernels.dispatch.provenance);
  g_autoptr(Cluster) guess = with_sections("\"dispatch\": {\"base_us\": 3, \"source\": \"default: x\"}");
  ck_assert_int_eq(guess->device.kernels.dispatch.provenance, PROVENANCE_DEFAULT);
  device_clear(&base);
}
END_TEST

START_TEST(single_device_needs_no_tier)
{
  g_autoptr(Cluster) c =
    whole_parse("{\"name\": \"one\", \"nodes\": 1, \"source\": \"default: x\", \"server\":"
          " {\"name\": \"s\", \"gpu\": \"t4\", \"devices_per_node\": 1, \"source\": \"default: x\"}}");
  ck_assert_int_eq(c->n_tiers, 0);
  ck_assert_int_eq(c->devices, 1);
}
END_TEST

/* Of a server that is like a larger one, what joins its devices goes: alone, with a network, below a rack. */
START_TEST(single_devices_leave_tiers)
{
  static const struct {
    const char *server;
    int nodes, tiers, joined; /* by the first tier; 0: none */
  } cases[] = { { "tinybox-green", 1, 0, 0 }, { "dgx-h100", 4, 1, 4 }, { "gb200-nvl72", 72, 2, 72 }, { "dgx-1v", 2, 1, 2 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"name\": \"c\", \"nodes\": %d, \"source\": \"default: x\", \"server\": {\"like\": "
                                            "\"%s\", \"name\": \"s\", \"devices_per_node\": 1, \"source\": \"default: x\"}}",
                                            cases[i].nodes, cases[i].server);
    g_autoptr(Cluster) c = whole_parse(text);
    ck_assert_int_eq(c->devices, cases[i].nodes);
    ck_assert_int_eq(c->network_tier, cases[i].tiers - 1);
    ck_assert_int_eq(c->n_tiers, cases[i].tiers);
    ck_assert_int_eq(c->n_tiers > 0 ? MIN(c->tiers[0].devices, c->devices) : 0, cases[i].joined);
    for (int t = 0; t < c->n_tiers; t++)
      ck_assert_ptr_nonnull(c->tiers[t].link.name);
  }
}
END_TEST

/* ---- size ---- */

START_TEST(resize)
{
  g_autoptr(Cluster) c = whole_load("dgx");
  static const int legal[] = {8, 1, 5, 7, 16, 128, 4096};
  for (gsize i = 0; i < G_N_ELEMENTS(legal); i++) {
    ck_assert(cluster_resize(c, legal[i], NULL));
    ck_assert_int_eq(c->devices, legal[i]);
    ck_assert_int_eq(c->nodes, MAX(legal[i] / 8, 1));
  }
  static const int illegal[] = {0, -8, 9, 12, 100};
  for (gsize i = 0; i < G_N_ELEMENTS(illegal); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert(!cluster_resize(c, illegal[i], &error));
    ck_assert_int_eq(error->code, TDP_ERROR_INPUT);
    ck_assert_ptr_nonnull(strstr(error->message, "whole nodes of 8 devices"));
    ck_assert_int_eq(c->devices, 4096);
  }
  g_autoptr(Cluster) pair = whole_load("titan-rtx-pair");
  ck_assert(cluster_resize(pair, 1, NULL));
  ck_assert(cluster_resize(pair, 2, NULL));
  g_autoptr(GError) error = NULL;
  ck_assert(!cluster_resize(pair, 4, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "no network"));
}
END_TEST

/* ---- memory kept free ---- */

START_TEST(keep_free)
{
  g_autoptr(Cluster) c = whole_load("a100-v100-mixed");
  double all = c->device.memory_bytes, other = c->types[1]->device.memory_bytes;

  cluster_keep_free(c, 0.25);
  ck_assert_double_eq(c->device.memory_bytes, 0.75 * all);
  ck_assert_double_eq(c->types[1]->device.memory_bytes, 0.75 * other);
  ck_assert_double_eq_tol(cluster_whole_bytes(c, c->device.memory_bytes), all, 1);
  ck_assert_double_eq_tol(cluster_whole_bytes(c->types[1], c->types[1]->device.memory_bytes), other, 1);
}
END_TEST

TEST_MAIN("hardware", one_file_in_base_units, one_file_link_and_kernels, formats_stand_for_each_other, known_clusters,
          like_overrides, links_join_the_node_that_is_said, networks_outlast_servers, slots_bound_the_network,
          like_overrides_kernels, single_device_needs_no_tier, single_devices_leave_tiers, like_overrides_keys_of_sections,
          gradients_have_products_of_their_own,
          like_keeps_provenance_of_what_stays, price_stays_with_its_gpu,
          resize, keep_free)
