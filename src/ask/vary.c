/* Numbers of a cluster and of its operations, set to other values. */
#include "ask/vary.h"

#include "base/error.h"
#include "base/units.h"

#include <math.h>

typedef struct VaryKey {
  const char *name, *unit;
  void (*set)(Cluster *cluster, double value);              /* of these two one is NULL */
  void (*set_operations)(Operations *operations, double value);
  gboolean (*can)(const Cluster *cluster, double value);    /* NULL = always */
  gboolean zero;                                            /* it may be 0 */
  const char *expected;                                     /* where it cannot; NULL = that the cluster has it */
} VaryKey;

static void set_memory(Cluster *c, double gib)
{
  c->device.memory_bytes = gib * GIB * (1 - c->memory_margin);
}

static void set_memory_rate(Cluster *c, double gb_per_s)
{
  c->device.memory_bytes_per_s = gb_per_s * 1e9;
}

static void set_peak(Cluster *c, double tflops)
{
  cluster_scale_peak(c, tflops * 1e12 / c->device.peak_flops_per_s[DTYPE_BF16]);
}

static void set_nvlink(Cluster *c, double gb_per_s)
{
  cluster_scale_tier(c, 0, gb_per_s * 1e9 / c->tiers[0].bytes_per_s);
}

static void set_network(Cluster *c, double gbit_per_s)
{
  double factor = gbit_per_s / 8 * 1e9 / c->tiers[c->network_tier].bytes_per_s;

  for (int t = c->network_tier; t < c->n_tiers; t++)
    cluster_scale_tier(c, t, factor);
}

static void set_domain(Cluster *c, double gpus)
{
  c->tiers[0].devices = (int)gpus;
  c->tiers[0].devices_whole = 0;
  cluster_resize(c, c->devices, NULL);
}

static gboolean has_peak(const Cluster *c, double value)
{
  (void)value;
  return c->device.peak_flops_per_s[DTYPE_BF16] > 0;
}

static gboolean has_nvlink(const Cluster *c, double value)
{
  (void)value;
  return cluster_has_fast_node(c);
}

static gboolean has_network(const Cluster *c, double gbit_per_s)
{
  return c->network_tier >= 0 && gbit_per_s / 8 * 1e9 <= device_slot_bytes_per_s(&c->device);
}

/* Domains of whole nodes. */
static gboolean can_join(const Cluster *c, double gpus)
{
  return cluster_has_fast_node(c) && c->network_tier == 1 && gpus == floor(gpus) && fmod(gpus, c->devices_per_node) == 0;
}

static gboolean can_limit(const Cluster *c, double watts)
{
  return cluster_can_limit_power(c, watts);
}

static gboolean whole(const Cluster *c, double value)
{
  (void)c;
  return value == floor(value) && value <= SPARES_MAX;
}

static void set_failures(Operations *o, double hours)
{
  o->failure_device_s = o->failure_device_low_s = o->failure_device_high_s = hours * HOUR;
}

static void set_restart(Operations *o, double minutes)
{
  o->detect_s = 0;
  o->restart_s = minutes * MINUTE;
}

static void set_slow(Operations *o, double share)
{
  o->slow_share = o->slow_share_low = o->slow_share_high = share;
}

static void set_storage(Operations *o, double gb_per_s)
{
  o->storage_bytes_per_s = gb_per_s * 1e9;
}

static void set_neighbour(Operations *o, double on)
{
  o->neighbour_checkpoints = on > 0;
}

static void set_repair(Operations *o, double hours)
{
  o->node_repair_s = hours * HOUR;
}

static void set_spares(Operations *o, double nodes)
{
  o->spares = (int)nodes;
}

static const VaryKey keys[] = {
  { "memory", "GiB", set_memory },
  { "memory_rate", "GB/s", set_memory_rate },
  { "tflops", "bf16 TFLOP/s", set_peak, .can = has_peak },
  { "nvlink", "GB/s", set_nvlink, .can = has_nvlink,
    .expected = "a cluster whose lowest links are NVLink or like it, not PCIe or the network" },
  { "nvlink_domain", "GPUs", set_domain, .can = can_join,
    .expected = "a multiple of the node's GPUs, on a cluster of nodes with NVLink or the like and one network" },
  { "network", "Gbit/s a GPU", set_network, .can = has_network,
    .expected = "a cluster that has it, and no more than the slot of a GPU lets through (hardware/README.md)" },
  { "power_limit", "W a GPU", cluster_limit_power, .can = can_limit,
    .expected = "from half to all of the watts of a GPU, which the cluster says" },
  { "failure_hours", "GPU-hours between stops", .set_operations = set_failures },
  { "restart", "minutes", .set_operations = set_restart },
  { "slow_share", "of the step", .set_operations = set_slow, .zero = TRUE },
  { "storage", "GB/s a GPU", .set_operations = set_storage },
  { "neighbour_checkpoints", "", .set_operations = set_neighbour, .zero = TRUE },
  { "node_repair", "hours", .set_operations = set_repair },
  { "spares", "nodes", .set_operations = set_spares, .can = whole, .zero = TRUE, .expected = "whole nodes" },
};

static const VaryKey *key_find(const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (g_str_equal(keys[i].name, name))
      return &keys[i];
  return NULL;
}

/* Names, the last behind "or". */
static char *key_list(void)
{
  GString *s = g_string_new(NULL);

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    g_string_append_printf(s, "%s%s", i == 0 ? "" : i + 1 < G_N_ELEMENTS(keys) ? ", " : " or ", keys[i].name);
  return g_string_free(s, FALSE);
}

void varied_set(const Varied *v, Cluster *cluster, Operations *operations)
{
  if (v->key->set)
    v->key->set(cluster, v->value);
  else
    v->key->set_operations(operations, v->value);
}

char *varied_text(const Varied *v)
{
  return g_strdup_printf("%s %g%s%s", v->key->name, v->value, *v->key->unit ? " " : "", v->key->unit);
}

gboolean varied_plans(const Varied *v)
{
  return v->key->set != NULL;
}

static gboolean refuse(GError **error, const char *text, const char *expected)
{
  return input_error(error, "--vary: %s: expected %s", text, expected);
}

/* One list of values of a key. */
static gboolean parse_list(const char *list, const Cluster *cluster, GArray *out, GError **error)
{
  g_auto(GStrv) halves = g_strsplit(list, "=", 2);
  const VaryKey *key = halves[0] && halves[1] ? key_find(halves[0]) : NULL;

  if (!key) {
    g_autofree char *names = key_list();
    g_autofree char *expected = g_strconcat(names, " with values, as in memory=80,141", NULL);
    return refuse(error, list, expected);
  }
  g_auto(GStrv) values = g_strsplit(halves[1], ",", -1);
  for (char **text = values; *text; text++) {
    char *end;
    Varied v = { key, g_ascii_strtod(*text, &end) };
    if (end == *text || *end != '\0' || !(v.value > 0 || (key->zero && v.value == 0)) || v.value > 1e6)
      return refuse(error, list, key->zero ? "numbers from 0 to a million" : "numbers above 0 and up to a million");
    if (key->can && !key->can(cluster, v.value))
      return refuse(error, list, key->expected ? key->expected : "a cluster that has it");
    g_array_append_val(out, v);
  }
  return TRUE;
}

GArray *vary_parse(char **lists, const Cluster *cluster, GError **error)
{
  g_autoptr(GArray) out = g_array_new(FALSE, FALSE, sizeof(Varied));

  if (cluster->n_types > 0 || cluster->n_tiers == 0) {
    refuse(error, cluster->name, "a cluster of alike nodes with links");
    return NULL;
  }
  for (char **list = lists; *list; list++) {
    g_auto(GStrv) words = g_strsplit(*list, " ", -1);
    for (char **word = words; *word; word++)
      if (**word && !parse_list(*word, cluster, out, error))
        return NULL;
  }
  if (out->len == 0) {
    refuse(error, "\"\"", "values, as in memory=80,141");
    return NULL;
  }
  return g_steal_pointer(&out);
}
