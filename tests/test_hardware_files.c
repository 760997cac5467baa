/* The files of hardware/, and files of one's own beside each other. */
#include <limits.h>
#include <math.h>

#include "base/files.h"
#include "cost/collective.h"
#include "main.h"
#include "whole.h"

/* ---- every file ---- */

typedef void (*FileCheck)(const char *name);

static int each_file(const char *below, FileCheck check)
{
  g_autofree char *folder = files_data_path(below);
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  ck_assert_ptr_nonnull(dir);
  int n = 0;
  for (const char *file; (file = g_dir_read_name(dir)); n += g_str_has_suffix(file, ".json"))
    if (g_str_has_suffix(file, ".json")) {
      g_autofree char *name = g_strndup(file, strlen(file) - strlen(".json"));
      check(name);
    }
  return n;
}

static void check_device(const Device *device)
{
  if (device->sms == 1) { /* a core of a processor */
    ck_assert_double_gt(device->peak_flops_per_s[DTYPE_FP32], 1e9);
    ck_assert_double_lt(device->peak_flops_per_s[DTYPE_FP32], 1e12);
    return;
  }
  ck_assert_double_gt(fmax(device->peak_flops_per_s[DTYPE_BF16], device->peak_flops_per_s[DTYPE_FP16]), 1e12);
  ck_assert_double_gt(device->peak_flops_per_s[DTYPE_FP32], 1e12);
  ck_assert_double_gt(device->memory_bytes, 1e10);
  ck_assert_double_lt(device->memory_bytes, 4e11);
  ck_assert_double_gt(device->memory_bytes_per_s, 1e11);
  ck_assert_double_gt(device->host_bytes_per_s, 1e10);
  ck_assert_double_gt(device->power_w, 50);
  ck_assert_double_gt(device->kernels.memory_fraction, 0.5);
  for (int d = 0; d < DTYPE_COUNT; d++)
    ck_assert(device->kernels.matmul[d].known);
}

static void check_cluster(const Cluster *cluster)
{
  check_device(&cluster->device);
  ck_assert_int_eq(cluster->devices, cluster->nodes * cluster->devices_per_node);
  ck_assert_int_ge(cluster->n_tiers, 1);
  ck_assert_int_eq(cluster->tiers[cluster->n_tiers - 1].devices, INT_MAX);
  for (int t = 0; t < cluster->n_tiers; t++) {
    const Tier *tier = &cluster->tiers[t];
    ck_assert_double_gt(tier->bytes_per_s, 1e8);
    ck_assert_double_ge(tier->port_bytes_per_s, tier->bytes_per_s);
    ck_assert_double_gt(tier->link.efficiency, 0);
    ck_assert_ptr_nonnull(tier->name);
    ck_assert_ptr_nonnull(tier->link.name);
    ck_assert_int_eq(tier->link.kind == LINK_NETWORK, cluster->network_tier >= 0 && t >= cluster->network_tier);
  }
}

static void load_cluster(const char *name)
{
  GError *error = NULL;
  g_autoptr(Cluster) cluster = cluster_load(name, &error);
  ck_assert_msg(cluster != NULL, "%s", error ? error->message : name);
  ck_assert_str_eq(cluster->name, name);
  check_cluster(cluster);
}

static void load_server(const char *name)
{
  g_autofree char *text =
    g_strdup_printf("{\"name\": \"c\", \"nodes\": 1, \"server\": \"%s\", \"source\": \"default: x\"}", name);
  g_autoptr(Cluster) cluster = whole_parse(text);
  ck_assert_str_eq(cluster->server, name);
  check_cluster(cluster);
}

static void load_device(const char *name)
{
  GError *error = NULL;
  Device device;
  ck_assert_msg(device_load(name, &device, &error), "%s", error ? error->message : name);
  ck_assert_str_eq(device.name, name);
  check_device(&device);
  device_clear(&device);
}

static void load_kernels(const char *name)
{
  g_autofree char *gpu = g_strdup_printf("\"gpu\": {\"like\": \"v100-sxm2-16gb\", \"kernels\": \"%s\"}", name);
  const char *from = strstr(whole_text, "\"gpu\""), *to = strstr(whole_text, "\"tiers\"");
  g_autofree char *text = g_strdup_printf("%.*s%s,\n%s", (int)(from - whole_text), whole_text, gpu, to);
  g_autoptr(Cluster) cluster = whole_parse(text);
  ck_assert_str_eq(cluster->device.kernels.name, name);
}

static void load_link(const char *name)
{
  g_autofree char *link = g_strdup_printf("\"link\": \"%s\"", name);
  g_autofree char *text = whole_replace(whole_text, "\"link\": \"roce\"", link);
  g_autoptr(Cluster) cluster = whole_parse(text);
  ck_assert_str_eq(cluster->tiers[1].link.name, name);
}

static void load_library(const char *name)
{
  CollectiveLibrary library;
  GError *error = NULL;
  ck_assert_msg(library_load(name, &library, &error), "%s", error ? error->message : name);
}

START_TEST(every_file_loads)
{
  ck_assert_int_ge(each_file("hardware", load_cluster), 27);
  ck_assert_int_ge(each_file("hardware/servers", load_server), 44);
  ck_assert_int_ge(each_file("hardware/gpus", load_device), 26);
  ck_assert_int_ge(each_file("hardware/kernels", load_kernels), 2);
  ck_assert_int_ge(each_file("hardware/links", load_link), 16);
  ck_assert_int_ge(each_file("hardware/libraries", load_library), 1);
}
END_TEST

/* ---- files beside each other ---- */

static void write_file(const char *folder, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename(folder, name, NULL), *above = g_path_get_dirname(path);
  ck_assert_int_eq(g_mkdir_with_parents(above, 0777), 0);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
}

static void remove_folder(const char *folder)
{
  g_autofree char *remove = g_strdup_printf("rm -r '%s'", folder);
  ck_assert_int_eq(system(remove), 0);
}

START_TEST(paths_are_relative_to_the_file)
{
  g_autofree char *folder = test_directory();
  write_file(folder, "c.json", "{\"name\": \"c\", \"nodes\": 1, \"server\": \"./s.json\", \"source\": \"default: x\"}");
  write_file(folder, "s.json", "{\"like\": \"dgx-a100-80gb\", \"name\": \"mine\"}");
  write_file(folder, "loop.json", "{\"like\": \"./loop.json\", \"nodes\": 2, \"source\": \"default: x\"}");
  g_autofree char *path = g_build_filename(folder, "c.json", NULL);
  g_autoptr(Cluster) c = whole_load(path);
  ck_assert_str_eq(c->server, "mine");

  g_autofree char *loop = g_build_filename(folder, "loop.json", NULL);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_load(loop, &error));
  ck_assert_msg(strstr(error->message, "does not lead back to itself") != NULL, "%s", error->message);
  g_clear_error(&error);

  /* of a file that is none, who named it */
  write_file(folder, "text", "text");
  write_file(folder, "names.json", "{\"name\": \"c\", \"nodes\": 2, \"server\": \"./text\"}");
  g_autofree char *names = g_build_filename(folder, "names.json", NULL);
  g_autofree char *said = g_strdup_printf("%s: server: %s/./text:1:1: expected a value, found 'text'", names, folder);
  ck_assert_ptr_null(cluster_load(names, &error));
  ck_assert_str_eq(error->message, said);

  remove_folder(folder);
}
END_TEST

/* A server stands for one node of it, a GPU for its usual server. */
START_TEST(servers_are_clusters)
{
  g_autoptr(Cluster) server = whole_load("azure-nd96isr-h100-v5"), gpu = whole_load("h100");
  g_autoptr(Cluster) sxm = whole_load("a100-sxm4-40gb");

  ck_assert_int_eq(server->devices, 8);
  ck_assert(cluster_resize(server, 64, NULL));
  ck_assert_int_eq(server->nodes, 8);
  ck_assert_str_eq(server->name, "azure-nd96isr-h100-v5");
  ck_assert_str_eq(gpu->server, "dgx-h100");
  ck_assert_str_eq(sxm->device.name, "a100-sxm4-40gb");
  static const char *const refused[][2] = {
    { "t4", "t4: no server or cluster here has this GPU: expected a cluster file" },
    { "H20", "H20: no server or cluster here has the GPU h20-96gb: expected a cluster file" },
    { "h800", "h800: the GPU h800-sxm5-80gb has no usual server: expected a server or cluster with it, \"h800-80gb\"" },
    { "A100-PCIe-80GB", ": this GPU has no usual server: expected a server or cluster with it, \"azure-nc96ads-a100-v4\"" },
    { "h100-sxm5-96gb", " with it, \"grand-teton-h100-96gb\" or \"h100-95gb\"" },
    { "dgxh100", "; did you mean \"dgx-h100\"?" }, { "rtx4090", "; did you mean \"rtx-4090\"?" },
    { "h100x", "; did you mean \"h100\"?" }, { "b100", "; did you mean \"b200\"?" },
    { "l4", "; did you mean \"l40s\"?" }, /* not t4, which is in no server */
  };
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(cluster_load(refused[i][0], &error));
    ck_assert_msg(strstr(error->message, refused[i][1]) != NULL, "%s", error->message);
  }
}
END_TEST

/* What is suggested can be typed: names of all GPUs, each mistyped in every place. */
START_TEST(suggestions_work)
{
  g_auto(GStrv) gpus = files_names("hardware/gpus");
  int heard = 0;

  for (int i = 0; gpus[i]; i++)
    for (gsize at = 0; at < strlen(gpus[i]); at++) {
      g_autofree char *wrong = g_strdup_printf("%.*sq%s", (int)at, gpus[i], gpus[i] + at + 1);
      g_autoptr(GError) error = NULL;
      ck_assert_ptr_null(cluster_load(wrong, &error));
      const char *meant = strstr(error->message, "did you mean \"");
      if (!meant)
        continue;
      meant += strlen("did you mean \"");
      g_autofree char *name = g_strndup(meant, strcspn(meant, "\""));
      g_autoptr(Cluster) c G_GNUC_UNUSED = whole_load(name);
      heard++;
    }
  ck_assert_int_gt(heard, 100);
}
END_TEST

/* What the manual shows for a GPU that is in no server. */
START_TEST(manual_puts_a_gpu_into_a_server)
{
  g_autofree char *path = files_data_path("hardware/README.md"), *text = NULL;
  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  const char *shown = strstr(text, "{ \"name\": \"t4-box\"");
  g_autofree char *line = g_strndup(shown, strcspn(shown, "\n")), *folder = test_directory();
  write_file(folder, "c.json", line);
  g_autofree char *file = g_build_filename(folder, "c.json", NULL);
  g_autoptr(Cluster) c = whole_load(file);

  ck_assert_str_eq(c->device.name, "t4");
  remove_folder(folder);
}
END_TEST

/* Each GPU's usual server has that GPU, and no short name stands twice. */
START_TEST(usual_servers)
{
  g_auto(GStrv) gpus = files_names("hardware/gpus");
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

  for (int i = 0; gpus[i]; i++) {
    g_autofree char *below = g_strdup_printf("hardware/gpus/%s.json", gpus[i]), *path = files_data_path(below);
    g_autoptr(JsonDoc) doc = json_load(path, NULL);
    const cJSON *server = json_get(json_root(doc), "usual_server"), *name = json_get(json_root(doc), "short_name");
    ck_assert_msg(!name || g_hash_table_add(seen, g_strdup(name->valuestring)), "%s", gpus[i]);
    if (!server)
      continue;
    g_autoptr(Cluster) c = whole_load(gpus[i]);
    ck_assert_str_eq(c->device.name, gpus[i]);
  }
}
END_TEST

/* Numbers of a user's own file need no source, and are said to be the user's. */
START_TEST(own_files_need_no_source)
{
  g_autofree char *folder = test_directory();
  write_file(folder, "c.json", "{\"name\": \"c\", \"nodes\": 2, \"server\": {\"like\": \"dgx-a100-80gb\", \"tiers\": "
                               "[{\"name\": \"nvlink\", \"gb_per_s\": 200, \"source\": \"seen on Tuesday\", \"link\": "
                               "{\"like\": \"nvlink3-switch\", \"efficiency\": 0.5}}]}}");
  g_autofree char *path = g_build_filename(folder, "c.json", NULL);
  g_autoptr(Cluster) c = whole_load(path);

  ck_assert_int_eq(c->nodes, 2);
  ck_assert_int_eq(c->tiers[0].link.provenance, PROVENANCE_YOURS);
  ck_assert_int_ne(c->tiers[1].link.provenance, PROVENANCE_YOURS);
  remove_folder(folder);
}
END_TEST

static void fails_to_load(const char *file, const char *message)
{
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_load(file, &error));
  ck_assert_msg(strstr(error->message, message) != NULL, "%s\n  lacks %s", error->message, message);
}

/* A part of a user's own that says no name has its file's, unless it is like another one; what is no part (a tier), and
 * files of hardware/, must say one. */
START_TEST(own_files_name_their_parts)
{
  static const char server[] = "\"server\": {\"gpu\": {\"arch\": \"a\", \"peak_tflops\": {\"bf16\": 1}, \"memory_gib\": 1, "
                               "\"memory_gb_per_s\": 1, \"sms\": 1, \"host_gb_per_s\": 1, \"kernels\": \"h100\"}, "
                               "\"devices_per_node\": 1, \"network\": {\"nics_per_node\": 1, \"nic_gbit_per_s\": 1, "
                               "\"link\": \"./wire.v2\"}}";
  g_autofree char *folder = test_directory(), *mine = g_strdup_printf("{\"nodes\": 2, %s}", server);
  g_autofree char *mixed = g_strdup_printf("{\"node_types\": [{\"name\": \"a\", \"nodes\": 2, %s}, \"./mine.json\"]}", server);
  g_autofree char *twice = g_strdup_printf("{\"node_types\": [{\"nodes\": 2, %s}, {\"nodes\": 2, %s}]}", server, server);
  write_file(folder, "wire.v2", "{\"kind\": \"network\", \"base_us\": 1, \"hop_us\": 1, \"efficiency\": 1, \"p2p_base_us\": 1,"
                                " \"p2p_efficiency\": 1}");
  write_file(folder, "mine.json", mine);
  write_file(folder, "mixed.json", mixed);
  write_file(folder, "twice.json", twice);
  write_file(folder, "like.json", "{\"like\": \"dgx\", \"nodes\": 2}");
  write_file(folder, "tier.json", "{\"nodes\": 1, \"server\": {\"gpu\": \"t4\", \"devices_per_node\": 2, \"tiers\": [{\"gb_per_s\": 1,"
                                  " \"link\": \"pcie4\"}]}}");
  write_file(folder, ".json", mine);
  write_file(folder, "a\nb.json", mine);
  write_file(folder, "data/hardware/ours.json", "{\"nodes\": 1, \"server\": \"t4\", \"source\": \"default: x\"}");
#define AT(name) g_build_filename(folder, name, NULL)
  g_autofree char *mine_at = AT("mine.json"), *mixed_at = AT("mixed.json"), *like_at = AT("like.json");
  g_autofree char *twice_at = AT("twice.json"), *tier_at = AT("tier.json"), *dot_at = AT(".json"), *line_at = AT("a\nb.json");
  g_autofree char *ours_at = AT("data/hardware/ours.json"), *data_at = AT("data");
#undef AT

  g_autoptr(Cluster) own = whole_load(mine_at), types = whole_load(mixed_at), like = whole_load(like_at);
  ck_assert_str_eq(own->name, "mine");
  ck_assert_str_eq(own->server, "mine");
  ck_assert_str_eq(own->device.name, "mine");
  ck_assert_str_eq(own->tiers[0].link.name, "wire.v2");
  ck_assert_str_eq(types->name, "mixed");
  ck_assert_str_eq(types->types[1]->name, "mine");
  ck_assert_str_eq(like->name, "dgx");
  fails_to_load(twice_at, "a name of its own for each node type, \"twice\" stands twice");
  fails_to_load(tier_at, "tiers[0].name: missing");
  fails_to_load(dot_at, "name: missing");
  fails_to_load(line_at, "name: missing");
  g_autofree char *data = g_strdup(g_getenv("TDP_DATA"));
  g_setenv("TDP_DATA", data_at, TRUE);
  fails_to_load(ours_at, "name: missing");
  if (data)
    g_setenv("TDP_DATA", data, TRUE);
  else
    g_unsetenv("TDP_DATA");
  remove_folder(folder);
}
END_TEST

/* The usual library where none is named, keys over it where one is like it; a cluster has that of the one it
 * is like. */
START_TEST(libraries)
{
  g_autofree char *folder = test_directory();
  write_file(folder, "own.json", "{\"like\": \"dgx\", \"library\": {\"like\": \"nccl\", \"ports_at_once\": 4,"
                                 " \"own_copy_rate\": 3, \"source\": \"default: x\"}}");
  write_file(folder, "as.json", "{\"like\": \"./own.json\"}");
  g_autofree char *path = g_build_filename(folder, "as.json", NULL);
  g_autoptr(Cluster) usual = whole_load("dgx"), own = whole_load(path);
  CollectiveLibrary nccl;
  ck_assert(library_load(LIBRARY_USUAL, &nccl, NULL));
  ck_assert_mem_eq(&usual->library, &nccl, sizeof nccl);
  nccl.ports_at_once = 4;
  nccl.own_copy_rate = 3;
  ck_assert_mem_eq(&own->library, &nccl, sizeof nccl);
  remove_folder(folder);
}
END_TEST

static double all_gather_bus(const Cluster *cluster, int size, int stride)
{
  GroupShape group = group_shape(cluster, size, stride);
  return collective_cost(cluster, COLLECTIVE_ALL_GATHER, 1e9, &group).bus_bytes_per_s;
}

/* Two dies of a package have four links of 50 GB/s, those of two packages one or two (Frontier User Guide). */
START_TEST(dies_of_a_package)
{
  g_autoptr(Cluster) c = whole_load("mi250x");
  double package = c->tiers[0].link.efficiency * 200e9, mesh = c->tiers[1].link.efficiency;

  ck_assert_int_eq(c->tiers[0].devices, 2);
  ck_assert_int_eq(c->tiers[1].devices, 8);
  ck_assert_double_gt(all_gather_bus(c, 2, 1), 0.7 * package); /* with the copy of the own part */
  ck_assert_double_le(all_gather_bus(c, 2, 1), package);
  ck_assert_double_gt(all_gather_bus(c, 2, 2), 0.7 * mesh * 50e9);
  ck_assert_double_lt(all_gather_bus(c, 2, 2), mesh * 100e9);
}
END_TEST

/* Products of CDNA run on matrix cores in fp32 too: 256 FLOPs a clock and compute unit, of bf16 so many times as many. */
START_TEST(fp32_of_matrix_cores)
{
  static const struct {
    const char *gpu;
    double bf16;
  } parts[] = { { "mi250x", 4 }, { "mi300x", 8 }, { "mi325x", 8 }, { "mi355x", 16 } };

  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    Device device;
    ck_assert(device_load(parts[i].gpu, &device, NULL));
    double fp32 = device.peak_flops_per_s[DTYPE_FP32];
    ck_assert_double_eq_tol(device.peak_flops_per_s[DTYPE_BF16] / fp32, parts[i].bf16, 0.01);
    device_clear(&device);
  }
}
END_TEST

/* Streaming kernels were measured on V100 and A100 with 40 GB (gpu-benches): scale and triad, GB/s. Parts that share their
 * kernels' files keep the default, and what else these kernels take does not change. */
START_TEST(memory_rates_as_measured)
{
  static const struct {
    const char *gpu, *unmeasured;
    double scale, triad;
  } parts[] = {
    { "v100-sxm2-16gb", "titan-rtx", 802, 814 },
    { "v100-sxm2-32gb", "t4", 802, 814 },
    { "a100-sxm4-40gb", "a100-sxm4-80gb", 1381, 1360 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    Device measured, other;
    ck_assert(device_load(parts[i].gpu, &measured, NULL));
    ck_assert(device_load(parts[i].unmeasured, &other, NULL));
    const Kernels *kernels = &measured.kernels;
    double rate = kernels->memory_fraction * measured.memory_bytes_per_s / 1e9;
    ck_assert_double_eq_tol(rate, (parts[i].scale + parts[i].triad) / 2, 0.005 * rate);
    ck_assert_double_gt(kernels->memory_fraction, other.kernels.memory_fraction + 0.02);
    ck_assert_double_eq(kernels->memory_launch_s, other.kernels.memory_launch_s);
    ck_assert_int_eq(kernels->n_memory_kernels, other.kernels.n_memory_kernels);
    ck_assert_double_eq(kernels->matmul[DTYPE_FP16].efficiency, other.kernels.matmul[DTYPE_FP16].efficiency);
    device_clear(&measured);
    device_clear(&other);
  }
}
END_TEST

TEST_MAIN("hardware_files", every_file_loads, paths_are_relative_to_the_file, servers_are_clusters, suggestions_work,
          manual_puts_a_gpu_into_a_server, usual_servers, own_files_need_no_source, own_files_name_their_parts, libraries,
          dies_of_a_package, fp32_of_matrix_cores, memory_rates_as_measured)
