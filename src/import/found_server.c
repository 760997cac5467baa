/* A server from what a topology tells of it. */
#include "base/json.h"
#include "hardware/device.h"
#include "import/import.h"

#include <string.h>

/* NVLinks of a GPU, by generation: GB/s of a link each way, and the link's files. */
static const struct {
  int links, sm;
  double bytes_per_s;
  const char *link, *mesh;
} generations[] = {
  { 6, 70, 25e9, "nvlink2-switch", "nvlink2-mesh" },
  { 12, 80, 25e9, "nvlink3-switch", "nvlink3-mesh" },
  { 18, 90, 25e9, "nvlink4-switch", "nvlink4-bridge" },
  { 18, 100, 50e9, "nvlink5-switch", "nvlink5-switch" },
};

/* By compute capability; else by the most links that a pair has. */
static int generation_of(const FoundServer *s)
{
  int last = (int)G_N_ELEMENTS(generations) - 1;

  for (int i = last; s->sm && i >= 0; i--)
    if (s->sm >= generations[i].sm)
      return i;
  for (int i = 0; i <= last; i++)
    if (s->links_max <= generations[i].links)
      return i;
  return last;
}

static void put_nvlink(const FoundServer *s, JsonWriter *w)
{
  int g = generation_of(s), joined = s->island ? s->island : s->gpus;
  int links = s->gpu_links ? s->gpu_links : s->switched ? s->links_max : s->links_max * (joined - 1);

  json_open(w, NULL, '{');
  json_put_string(w, "name", "nvlink");
  json_put_string(w, "link", s->switched ? generations[g].link : generations[g].mesh);
  json_put_real(w, "gb_per_s", MIN(links, generations[g].links) * generations[g].bytes_per_s / 1e9);
  if (s->island)
    json_put_int(w, "devices", s->island);
  json_put_string(w, "source", "derived: NVLinks of the topology times the rate of one");
  json_close(w, '}');
}

static void put_pcie(JsonWriter *w)
{
  json_open(w, NULL, '{');
  json_put_string(w, "name", "pcie");
  json_put_string(w, "link", "pcie4");
  json_put_real(w, "gb_per_s", 25);
  json_put_string(w, "source", "default: PCIe 4.0 of 16 lanes");
  json_close(w, '}');
}

static void put_tiers(const FoundServer *s, JsonWriter *w)
{
  json_open(w, "tiers", '[');
  if (s->links_max > 0)
    put_nvlink(s, w);
  if (s->links_max == 0 || s->island)
    put_pcie(w);
  json_close(w, ']');
}

/* Generations of InfiniBand by the rate of a port of four lanes. */
static const struct {
  double bits_per_s;
  const char *link;
} infiniband[] = { { 100e9, "infiniband-edr" }, { 200e9, "infiniband-hdr" }, { 400e9, "infiniband-ndr" },
                   { 800e9, "infiniband-xdr" } };

const char *found_server_link(double nic_bits_per_s)
{
  gsize i = 0;

  while (i + 1 < G_N_ELEMENTS(infiniband) && infiniband[i].bits_per_s < nic_bits_per_s)
    i++;
  return infiniband[i].link;
}

/* NICs of the DGX of an architecture (hardware/servers/). */
static const struct {
  const char *arch;
  double bits_per_s;
} of_dgx[] = { { "volta", 100e9 }, { "ampere", 200e9 }, { "hopper", 400e9 }, { "blackwell", 400e9 },
               { "blackwell-ultra", 800e9 } };

#define NIC_USUAL 200e9 /* of others */

/* Of NICs whose rate is not told; `why` is then to be freed. */
static double usual_bits_per_s(const char *arch, char **why)
{
  for (gsize i = 0; i < G_N_ELEMENTS(of_dgx); i++)
    if (strcmp(of_dgx[i].arch, arch) == 0) {
      *why = g_strdup_printf("as the DGX of %s has them", arch);
      return of_dgx[i].bits_per_s;
    }
  *why = g_strdup_printf("a guess, as no DGX is of %s", arch);
  return NIC_USUAL;
}

static void put_network(const FoundServer *s, const char *arch, ImportNotes *notes, JsonWriter *w)
{
  gboolean told = s->nic_bits_per_s > 0;
  g_autofree char *why = NULL;
  double bits_per_s = told ? s->nic_bits_per_s : usual_bits_per_s(arch, &why);

  json_open(w, "network", '{');
  json_put_int(w, "nics_per_node", s->nics);
  json_put_real(w, "nic_gbit_per_s", bits_per_s / 1e9);
  json_put_string(w, "link", found_server_link(bits_per_s));
  json_put_string(w, "source", told ? "derived: the topology's NICs; their link is a default"
                                    : "default: the topology tells the number of NICs only");
  json_close(w, '}');
  if (!told)
    notes->untold = g_strdup_printf("network.nic_gbit_per_s (%g taken, %s)", bits_per_s / 1e9, why);
}

char *found_server_json(const FoundServer *s, ImportNotes *notes, GError **error)
{
  GString *text;
  JsonWriter w;
  Device device;

  if (s->gpus < 1 || s->gpus > 1024)
    return import_error(notes, error, "%d GPUs: expected a topology with 1 to 1024", s->gpus);
  if (!notes->gpu)
    return import_error(notes, error,
                        "tells no GPU: expected --gpu, a name of hardware/gpus, as in --gpu h100-sxm5-80gb");
  if (!device_load(notes->gpu, &device, error)) {
    g_prefix_error(error, "--gpu: ");
    return NULL;
  }
  g_autofree char *arch = g_strdup(device.arch);
  device_clear(&device);
  text = g_string_new(NULL);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", "imported");
  json_put_string(&w, "gpu", notes->gpu);
  json_put_int(&w, "devices_per_node", s->gpus);
  if (s->gpus > 1)
    put_tiers(s, &w);
  if (s->nics > 0)
    put_network(s, arch, notes, &w);
  json_put_string(&w, "source", "derived: an imported topology");
  json_close(&w, '}');
  return g_string_free(text, FALSE);
}
