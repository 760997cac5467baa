#include "whole.h"

#include <string.h>

const char whole_text[] =
  "{\"name\": \"c\", \"nodes\": 4, \"server\": {\"name\": \"s\", \"devices_per_node\": 8,\n"
  "  \"gpu\": {\"name\": \"g\", \"arch\": \"a\",\n"
  "    \"peak_tflops\": {\"bf16\": 300, \"fp32\": 20, \"source\": \"measured: x\"},\n"
  "    \"memory_gib\": 40, \"memory_gb_per_s\": 2000, \"l2_mib\": 40, \"sms\": 108,\n"
  "    \"host_gb_per_s\": 25, \"power_w\": 400,\n"
  "    \"kernels\": {\"name\": \"k\", \"matmul\": {\"bf16\": {\"launch_us\": 2, \"efficiency\": 0.8,\n"
  "        \"tile_overhead_us\": 3,\n"
  "        \"bandwidth_fraction\": 1.2, \"tile_exponent\": 0.4, \"overlap_power\": 2,\n"
  "        \"split_us\": 1, \"wave_weight\": 0.5,\n"
  "        \"source\": \"fitted: x\"}},\n"
  "      \"attention\": {\"launch_us\": 7, \"source\": \"fitted: x\", \"curves\": [\n"
  "        {\"kernel\": \"flash\", \"pass\": \"forward\", \"causal\": true, \"head_dim\": 128,\n"
  "         \"seq\": [512, 1024], \"utilization\": [0.3, 0.4], \"source\": \"measured: x\"},\n"
  "        {\"kernel\": \"flash\", \"pass\": \"backward\", \"causal\": true, \"head_dim\": 128,\n"
  "         \"seq\": [512], \"utilization\": [0.2], \"source\": \"fitted: x\"}]},\n"
  "      \"memory\": {\"fraction\": 0.9, \"launch_us\": 3, \"source\": \"measured: x\"}},\n"
  "    \"source\": {\"memory_gib\": \"measured: x\", \"*\": \"datasheet: x\"}},\n"
  "  \"tiers\": [{\"name\": \"nvlink\", \"gb_per_s\": 300, \"source\": \"datasheet: x\",\n"
  "    \"link\": {\"name\": \"l\", \"kind\": \"switch\",\n"
  "    \"base_us\": 5, \"hop_us\": 1.5, \"efficiency\": 0.75, \"sqrt_us_per_sqrt_byte\": 0.01, \"p2p_base_us\": 9,\n"
  "    \"p2p_efficiency\": 0.9, \"in_switch\": true, \"in_switch_base_us\": 12, \"in_switch_efficiency\": 1.1,\n"
  "    \"source\": {\"hop_us\": \"default: x\", \"*\": \"fitted: x\"}}}],\n"
  "  \"host_memory_gib\": 512, \"host_memory_gb_per_s\": 400, \"nvme_tb\": 30, \"nvme_read_gb_per_s\": 50,\n"
  "  \"nvme_write_gb_per_s\": 25, \"usd_per_device_hour\": 1.5, \"source\": \"datasheet: x\"},\n"
  "\"network\": {\"nics_per_node\": 4, \"nic_gbit_per_s\": 200, \"link\": \"roce\", \"source\": \"datasheet: x\"},\n"
  "\"fabric\": [{\"name\": \"spine\", \"devices\": 16, \"oversubscription\": 4, \"source\": \"datasheet: x\"}],\n"
  "\"note\": \"n\", \"source\": \"datasheet: x\"}\n";

Cluster *whole_parse(const char *text)
{
  GError *error = NULL;
  Cluster *cluster = cluster_parse(text, strlen(text), "test.json", &error);

  g_assert_no_error(error);
  return cluster;
}

Cluster *whole_load(const char *name)
{
  GError *error = NULL;
  Cluster *cluster = cluster_load(name, &error);

  g_assert_no_error(error);
  return cluster;
}

char *whole_replace(const char *text, const char *from, const char *to)
{
  const char *at = strstr(text, from);

  if (!at)
    g_error("no %s in the text", from);
  return g_strdup_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}
