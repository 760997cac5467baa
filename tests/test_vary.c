/* Which numbers of which clusters --vary sets. */
#include "ask/vary.h"
#include "base/error.h"
#include "main.h"
#include "whole.h"

#define ONE_A_NODE(link)                                                                                               \
  "{\"name\": \"one\", \"nodes\": 4, \"source\": \"default: x\", \"server\": {\"name\": \"s\", \"gpu\": \"t4\","           \
  " \"devices_per_node\": 1, \"network\": {\"nics_per_node\": 1, \"nic_gbit_per_s\": 100, \"link\": \"" link "\","        \
  " \"source\": \"default: x\"}, \"source\": \"default: x\"}}"

/* The lowest links decide: NVLink, xGMI, PCIe, NVLink pairs below PCIe, none but the network. */
static const struct {
  const char *cluster;
  gboolean nvlink, domain, network;
} clusters[] = {
  { "{\"like\": \"dgx\"}", TRUE, TRUE, TRUE },
  { "{\"name\": \"c\", \"nodes\": 2, \"server\": \"azure-nd96isr-mi300x-v5\", \"source\": \"default: x\"}", TRUE, TRUE, TRUE },
  { "{\"like\": \"gb200-nvl72\"}", TRUE, TRUE, TRUE },
  { "{\"name\": \"c\", \"nodes\": 2, \"server\": \"pcie-8x-l40s\", \"source\": \"default: x\"}", FALSE, FALSE, TRUE },
  { "{\"name\": \"c\", \"nodes\": 2, \"server\": \"azure-nc96ads-a100-v4\", \"source\": \"default: x\"}", TRUE, FALSE, TRUE },
  { "{\"like\": \"titan-rtx-pair\"}", TRUE, FALSE, FALSE },
  { ONE_A_NODE("roce"), FALSE, FALSE, TRUE },
  { ONE_A_NODE("nvlink5-switch"), FALSE, FALSE, TRUE },
};

static void check(const Cluster *c, const char *list, gboolean can, const char *expected)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GArray) values = vary_parse((char *[]) { (char *)list, NULL }, c, &error);

  ck_assert_msg((values != NULL) == can, "%s: %s", c->name, error ? error->message : list);
  if (can)
    return;
  g_autofree char *said = g_strdup_printf("--vary: %s: expected %s", list, expected);
  ck_assert_int_eq(error->code, TDP_ERROR_INPUT);
  ck_assert_msg(g_str_has_prefix(error->message, said), "%s\n  lacks %s", error->message, said);
}

START_TEST(links_that_are_there)
{
  for (gsize i = 0; i < G_N_ELEMENTS(clusters); i++) {
    g_autoptr(Cluster) c = whole_parse(clusters[i].cluster);
    g_autofree char *domain = g_strdup_printf("nvlink_domain=%d", 2 * c->devices_per_node);
    check(c, "nvlink=100", clusters[i].nvlink, "a cluster whose lowest links are NVLink or like it");
    check(c, domain, clusters[i].domain, "a multiple of the node's GPUs, on a cluster of nodes with NVLink");
    check(c, "network=100", clusters[i].network, "a cluster that has it");
  }
}
END_TEST

/* The number of the link that it names changes, and no other. */
START_TEST(only_what_is_named_changes)
{
  for (gsize i = 0; i < G_N_ELEMENTS(clusters); i++)
    for (int network = 0; network < 2; network++) {
      g_autoptr(Cluster) c = whole_parse(clusters[i].cluster), is = whole_parse(clusters[i].cluster);
      if (!(network ? clusters[i].network : clusters[i].nvlink))
        continue;
      char *list = network ? "network=80" : "nvlink=20"; /* GB/s of a GPU: 10, 20 */
      g_autoptr(GArray) values = vary_parse((char *[]) { list, NULL }, c, NULL);
      varied_set(&g_array_index(values, Varied, 0), c, NULL);
      for (int t = 0; t < c->n_tiers; t++) {
        gboolean named = network ? t >= is->network_tier : t == 0;
        if (t == (network ? is->network_tier : 0))
          ck_assert_double_eq_tol(c->tiers[t].bytes_per_s, network ? 10e9 : 20e9, 1);
        else if (!named)
          ck_assert_double_eq(c->tiers[t].bytes_per_s, is->tiers[t].bytes_per_s);
      }
    }
}
END_TEST

/* No network gives a device more than its slot lets through, PCIe 4.0 of A100, also one that sends alone. */
START_TEST(slots_bound_networks)
{
  g_autoptr(Cluster) c = whole_parse("{\"like\": \"dgx\"}"), l40s = whole_parse(
    "{\"name\": \"c\", \"nodes\": 2, \"server\": \"pcie-8x-l40s\", \"source\": \"default: x\"}");
  char *list[] = { (char *)"network=200", NULL };
  g_autoptr(GArray) values = vary_parse(list, l40s, NULL);

  check(c, "network=250", TRUE, NULL);
  check(c, "network=260", FALSE, "a cluster that has it, and no more than the slot of a GPU");
  varied_set(&g_array_index(values, Varied, 0), l40s, NULL);
  ck_assert_double_eq_tol(l40s->tiers[l40s->network_tier].bytes_per_s, 25e9, 1);
  ck_assert_double_eq_tol(l40s->tiers[l40s->network_tier].port_bytes_per_s, l40s->device.host_bytes_per_s / 0.83, 1);
}
END_TEST

TEST_MAIN("vary", links_that_are_there, only_what_is_named_changes, slots_bound_networks)
