/* Servers from what topologies tell. */
#include "main.h"

#include "hardware/cluster.h"
#include "import/import.h"

#include <string.h>

static void check(const char *gpu, double told_bits_per_s, double gbit_per_s, const char *link)
{
  const FoundServer found = { .gpus = 4, .links_min = 4, .links_max = 4, .nics = 2, .nic_bits_per_s = told_bits_per_s };
  ImportNotes notes = { .file = "f", .gpu = gpu };
  GError *error = NULL;
  g_autofree char *server = found_server_json(&found, &notes, &error);

  ck_assert_msg(server != NULL, "%s", error ? error->message : "");
  g_autofree char *text = g_strdup_printf("{\"name\": \"c\", \"nodes\": 2, \"server\": %s, \"source\": \"default: a test\"}",
                                          server);
  g_autoptr(Cluster) c = cluster_parse(text, strlen(text), "c", &error);
  ck_assert_msg(c != NULL, "%s", error ? error->message : "");
  ck_assert_str_eq(c->tiers[c->network_tier].link.name, link);
  ck_assert_double_eq_tol(c->tiers[c->network_tier].port_bytes_per_s, gbit_per_s * 1e9 / 8, 1);
  g_autofree char *taken = g_strdup_printf("network.nic_gbit_per_s (%g taken, %s", gbit_per_s,
                                           strstr(gpu, "mi300") ? "a guess, " : "as the DGX of ");
  ck_assert(told_bits_per_s > 0 ? !notes.untold : g_str_has_prefix(notes.untold, taken));
  import_notes_clear(&notes);
}

/* Rate and link are of one generation: of the rate that is told, else of the GPU's. */
START_TEST(links_have_their_rate)
{
  check("v100-sxm2-32gb", 0, 100, "infiniband-edr");
  check("a100-sxm4-80gb", 0, 200, "infiniband-hdr");
  check("h100-sxm5-80gb", 0, 400, "infiniband-ndr");
  check("b200-sxm-180gb", 0, 400, "infiniband-ndr");
  check("gb300-288gb", 0, 800, "infiniband-xdr");
  check("mi300x", 0, 200, "infiniband-hdr");
  check("h100-sxm5-80gb", 200e9, 200, "infiniband-hdr");
  check("a100-sxm4-80gb", 25e9, 25, "infiniband-edr");
  check("gb300-288gb", 800e9, 800, "infiniband-xdr");
  ck_assert_str_eq(found_server_link(201e9), "infiniband-ndr");
  ck_assert_str_eq(found_server_link(1600e9), "infiniband-xdr");
}
END_TEST

TEST_MAIN("import_server", links_have_their_rate)
