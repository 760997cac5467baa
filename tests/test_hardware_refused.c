/* What is refused of clusters, servers, GPUs and links. */
#include "base/error.h"
#include "main.h"
#include "whole.h"

static void refuse(const char *from, const char *to, const char *message)
{
  g_autofree char *text = whole_replace(whole_text, from, to);
  g_autoptr(GError) error = NULL;
  Cluster *cluster = cluster_parse(text, strlen(text), "test.json", &error);
  ck_assert_msg(cluster == NULL, "accepted: %s", to);
  ck_assert_msg(error != NULL && error->domain == TDP_ERROR && error->code == TDP_ERROR_INPUT, "no error for %s", to);
  ck_assert_msg(g_str_has_prefix(error->message, "test.json: ") && strstr(error->message, message) != NULL,
                "%s\n  lacks %s", error->message, message);
  ck_assert_msg(strchr(error->message, '\n') == NULL, "%s", error->message);
}

static const struct {
  const char *from, *to, *message;
} bad[] = {
  /* sources */
  {"\"note\": \"n\", \"source\": \"datasheet: x\"", "\"note\": \"n\"", "nodes: 4: expected a source"},
  {"\"hop_us\": \"default: x\", \"*\": \"fitted: x\"", "\"hop_us\": \"default: x\"",
   "tiers[0].link.base_us: 5: expected a source"},
  {"\"hop_us\": \"default: x\"", "\"hopp_us\": \"datasheet: x\"", "\"hopp_us\" is not a number of this object"},
  {"\"hop_us\": \"default: x\"", "\"name\": \"datasheet: x\"", "\"name\" is not a number of this object"},
  {"\"source\": \"fitted: x\"", "\"source\": \"guess: x\"",
   "matmul.bf16.source: \"guess: x\": expected text that begins with"},
  {"\"source\": \"fitted: x\"", "\"source\": \"fitted:\"", "\"fitted:\": expected text"},
  {"\"source\": \"fitted: x\"", "\"source\": \"fitted: \"", "\"fitted: \": expected text"},
  {"\"source\": \"measured: x\"", "\"source\": 7", "peak_tflops.source: 7: expected text"},
  {"\"note\": \"n\"", "\"note\": 3", "note: 3: expected"},
  /* keys and types */
  {"\"memory_gib\": 40", "\"memory_gb\": 40", "memory_gb: unknown key"},
  {"\"memory_gib\": 40", "\"memory_gib\": \"40\"", "server.gpu.memory_gib: \"40\": expected a number"},
  {"\"memory_gib\": 40", "\"memory_gib\": 1e-300", "memory_gib: 1e-300: expected a number from 0.001 to 1000000"},
  {"\"memory_gib\": 40, ", "", "missing"},
  {"\"memory_gib\": \"measured: x\", ", "\"memory\": \"measured: x\", ", "\"memory\" is not a number"},
  {"\"bf16\": 300", "\"int4\": 300", "int4: unknown key"},
  {"\"bf16\": 300", "\"bf16\": -300", "bf16: -300: expected a number from 1e-05 to 1000000"},
  {"\"bf16\": 300, \"fp32\": 20, ", "", "expected the peak of at least one number format"},
  {"\"peak_tflops\": {", "\"peak_tflops\": {\"like\": \"dgx\", ", "like: unknown key"},
  {"\"sms\": 108", "\"sms\": 0", "sms: 0: expected an integer"},
  {"\"l2_mib\": 40,", "\"beyond_l2_gb_per_s\": 30,", "gpu.l2_mib: missing"},
  {"\"sms\": 108", "\"sms\": 108, \"beyond_l2_gb_per_s\": 0", "beyond_l2_gb_per_s: 0: expected a number from"},
  {"\"sms\": 108", "\"sms\": 108, \"l2_alone_mib\": 0", "l2_alone_mib: 0: expected a number above 0"},
  {"\"sms\": 108", "\"sms\": 108, \"l2_ramp\": 0.9", "l2_ramp: 0.9: expected a number from 1 to 100"},
  {"\"sms\": 108", "\"sms\": 108, \"beyond_l2_crowding\": 0.9", "beyond_l2_crowding: 0.9: expected a number from 1"},
  {"\"kind\": \"switch\"", "\"kind\": \"swich\"", "\"swich\": expected one of switch, mesh, pcie, network"},
  {"\"efficiency\": 0.75", "\"efficiency\": 0", "link.efficiency: 0: expected a number from 0.0001 to 1"},
  {"\"efficiency\": 0.75", "\"efficiency\": 1.2", "1.2: expected a number"},
  {"\"hop_us\": 1.5,", "\"hop_us\": 1.5, \"far_reduce_slowdown\": 0.5, \"reduce_cache_mib\": 1,",
   "link.far_reduce_slowdown: 0.5: expected a number from 1 to 1000, or 0 for none"},
  {"\"hop_us\": 1.5,", "\"hop_us\": 1.5, \"far_reduce_slowdown\": 4,", "link.reduce_cache_mib: missing"},
  {"\"hop_us\": 1.5,", "\"hop_us\": 1.5, \"far_reduce_slowdown\": 4, \"reduce_cache_mib\": 0,",
   "link.reduce_cache_mib: missing"},
  {"\"hop_us\": 1.5,", "\"hop_us\": 1.5, \"reduce_cache_mib\": 1,", "link.far_reduce_slowdown: missing"},
  {"\"in_switch_efficiency\": 1.1,", "", "in_switch_efficiency: missing"},
  {"\"in_switch_base_us\": 12,", "", "in_switch_base_us: missing"},
  {"\"hop_us\": 1.5", "\"hop_us\": -1.5", "hop_us: -1.5: expected a number"},
  /* names */
  {"\"link\": \"roce\"", "\"link\": \"rocee\"", "network.link: \"rocee\": expected the name of a link"},
  {"\"link\": \"roce\"", "\"link\": \"rocee\"", "did you mean \"roce\"?"},
  {"\"link\": \"roce\"", "\"link\": \"./roce.json\"", "there is no ./roce.json"},
  {"\"link\": \"roce\"", "\"link\": 3", "network.link: 3: expected the name of a link, or an object"},
  {"\"link\": \"roce\"", "\"link\": {\"like\": {}}", "network.link.like"},
  /* kernels */
  {"\"efficiency\": 0.8", "\"efficiency\": 1.1", "matmul.bf16.efficiency: 1.1"},
  {"\"overlap_power\": 2", "\"overlap_power\": 0.5", "overlap_power: 0.5: expected a number from 1 to 64"},
  {"\"matmul\": {\"bf16\"", "\"matmul\": {\"fp8\"", "constants for bf16 or fp16"},
  {"\"kernel\": \"flash\"", "\"kernel\": \"unfused\"", "\"unfused\": expected a fused kernel"},
  {"\"pass\": \"backward\"", "\"pass\": \"forward\"", "curves[1]"},
  {"[512, 1024]", "[512, 512]", "seq[1]: 512: expected a number above 512"},
  {"[512, 1024]", "[512]", "utilization: […]: expected 1 numbers"},
  {"[0.3, 0.4]", "[0.3, 1.4]", "utilization[1]: 1.4: expected a number above 0 and at most 1"},
  {"[512], \"utilization\": [0.2]", "[], \"utilization\": []", "at least one sequence length"},
  {"\"launch_us\": 3, ", "", "memory.launch_us: missing"},
  {"\"power_w\": 400", "\"power_w\": 400, \"kernels_provenance\": \"borrowed\"",
   "\"borrowed\": expected one of default"},
  {"\"power_w\": 400", "\"power_w\": -400", "power_w: -400"},
  /* tiers */
  {"\"gb_per_s\": 300", "\"gb_per_s\": 1e-300", "tiers[0].gb_per_s: 1e-300: expected a number from 0.001 to 1000000"},
  {"\"gb_per_s\": 300", "\"gb_per_s\": -300", "tiers[0].gb_per_s: -300: expected a number from 0.001 to 1000000"},
  {"\"gb_per_s\": 300", "\"gb_per_s\": 300, \"port_gb_per_s\": 200", "200: expected at least gb_per_s, 300"},
  {"\"gb_per_s\": 300", "\"gb_per_s\": 300, \"devices\": 3", "devices 3 to divide the 8 of a node"},
  {"\"gb_per_s\": 300", "\"gb_per_s\": 300, \"devices\": 12", "devices 12 to divide the 8 of a node, or be a multiple"},
  {"\"gb_per_s\": 300", "\"gb_per_s\": 300, \"devices\": 4", "a tier that joins all devices of a node"},
  {"\"devices_per_node\": 8", "\"devices_per_node\": 0", "devices_per_node: 0"},
  {"\"nodes\": 4", "\"nodes\": 0", "nodes: 0: expected an integer"},
  {"\"nodes\": 4", "\"nodes\": 1.5", "nodes: 1.5: expected an integer"},
  {"\"nodes\": 4", "\"nodez\": 4", "nodez: unknown key"},
  {"\"nodes\": 4", "\"nodes\": 4, \"gpu\": \"h100\"", "gpu: a key of servers: expected it in \"server\", as in \"server\": {"},
  {"\"nodes\": 4", "\"nodes\": [{\"server\": \"dgx-h100\"}]", "nodes: […]: expected a number; nodes of several types stand in"},
  {"\"nodes\": 4", "\"nodes\": 4, \"memory_gib\": 8", "memory_gib: a GPU is said in \"server\", as in \"gpu\": {"},
  {"\"nodes\": 4", "\"nodes\": 4, \"gpus\": 8", "gpus: a GPU is said in \"server\", as in"},
  {"\"devices_per_node\": 8", "\"devices_per_node\": 8, \"device\": {}", "server.device: a GPU is said in \"gpu\", as in"},
  {"\"nodes\": 4", "\"nodes\": 4, \"devices_per_node\": 8", "devices_per_node: a key of servers: expected it in \"server\""},
  {"\"devices\": 16", "\"devices\": 20", "fabric[0]: {…}: expected devices 20 to be a larger multiple of 8"},
  {"\"devices\": 16", "\"devices\": 8", "expected devices 8 to be a larger multiple of 8"},
  {"\"oversubscription\": 4", "\"oversubscription\": 0.5", "oversubscription: 0.5: expected a number from 1 to 1000"},
  {"\"nic_gbit_per_s\": 200", "\"nic_gbit_per_s\": 0",
   "network.nic_gbit_per_s: 0: expected a number from 0.01 to 1000000"},
  {"\"nics_per_node\": 4, ", "", "network.nics_per_node: missing"},
  /* library */
  {"\"nodes\": 4", "\"nodes\": 4, \"library\": \"ncll\"", "did you mean \"nccl\"?"},
  {"\"nodes\": 4", "\"nodes\": 4, \"library\": {\"name\": \"x\"}", "library.own_copy_rate: missing"},
  {"\"nodes\": 4", "\"nodes\": 4, \"library\": {\"like\": \"nccl\", \"peers_at_once\": 0}",
   "peers_at_once: 0: expected"},
};

START_TEST(bad_input)
{
  for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
    refuse(bad[i].from, bad[i].to, bad[i].message);
}
END_TEST

static void refuse_text(const char *text, const char *message)
{
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_parse(text, strlen(text), "test.json", &error));
  ck_assert_msg(strstr(error->message, message) != NULL, "%s\n  lacks %s", error->message, message);
}

START_TEST(bad_whole)
{
  refuse_text("[]", "expected an object");
  refuse_text("{\"nodes\": 1, \"source\": \"default: x\"}", "name: missing");
  refuse_text("{\"name\": \"c\", \"nodes\": 1, \"server\": \"dgx-a10\", \"source\": \"default: x\"}",
              "server: \"dgx-a10\": expected the name of a server");
  refuse_text("{\"name\": \"c\", \"nodes\": 2, \"server\": \"tinybox-green\", \"source\": \"default: x\"}",
              "nodes: 2: expected 1, for neither the cluster nor its server has a network");
  refuse_text("{\"like\": \"titan-rtx-pair\", \"fabric\": [{\"name\": \"f\", \"devices\": 4, \"oversubscription\": 2,"
              " \"source\": \"default: x\"}]}",
              "network: missing");
  refuse_text("{\"like\": \"dgx\", \"server\": {\"like\": \"dgx-a100-80gb\", \"gpu\": {\"like\": \"a100-sxm4-80gb\","
              " \"kernels\": {\"like\": \"a100\", \"dispatch\": {\"base_us\": 3, \"source\": \"default: x\"}}}}}",
              "dispatch.row_us: missing");
  refuse_text("{\"like\": \"dgxx\"}", "like: \"dgxx\": expected the name of a cluster");
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_load("no-such-cluster", &error));
  ck_assert_int_eq(error->code, TDP_ERROR_INPUT);
  Device device;
  g_clear_error(&error);
  ck_assert(!device_load("a100-sxm4-81gb", &device, &error));
  ck_assert_msg(strstr(error->message, "did you mean \"a100-sxm4-80gb\"?") != NULL, "%s", error->message);
}
END_TEST

/* Of sums that leave caches both numbers may be given, or both be 0. */
START_TEST(sums_may_leave_caches)
{
  for (int given = 0; given < 2; given++) {
    g_autofree char *keys = g_strdup_printf(
      "\"hop_us\": 1.5, \"far_reduce_slowdown\": %d, \"reduce_cache_mib\": %d,", 4 * given, 2 * given);
    g_autofree char *text = whole_replace(whole_text, "\"hop_us\": 1.5,", keys);
    g_autoptr(Cluster) cluster = whole_parse(text);
    ck_assert_double_eq(cluster->tiers[0].link.far_reduce_slowdown, 4 * given);
    ck_assert_double_eq(cluster->tiers[0].link.reduce_cache_bytes, given * 2097152.0);
  }
}
END_TEST

TEST_MAIN("hardware_refused", bad_input, bad_whole, sums_may_leave_caches)
