#include "base/units.h"
#include "hardware/cluster.h"
#include "hardware/part.h"

const char *const link_kind_names[] = {"switch", "mesh", "pcie", "network", NULL};

#define ANY_US .max = 1e9, .scale = US
#define SHARE_UP_TO(most) .min = 1e-4, .max = (most)

static const JsonField link_fields[] = {
  {"name", JSON_STRING, G_STRUCT_OFFSET(Link, name), TRUE},
  {"kind", JSON_ENUM, G_STRUCT_OFFSET(Link, kind), TRUE, .names = link_kind_names},
  {"base_us", JSON_REAL, G_STRUCT_OFFSET(Link, base_s), TRUE, ANY_US},
  {"hop_us", JSON_REAL, G_STRUCT_OFFSET(Link, hop_s), TRUE, ANY_US},
  {"tree_hop_us", JSON_REAL, G_STRUCT_OFFSET(Link, tree_hop_s), ANY_US},
  {"efficiency", JSON_REAL, G_STRUCT_OFFSET(Link, efficiency), TRUE, SHARE_UP_TO(1)},
  {"sqrt_us_per_sqrt_byte", JSON_REAL, G_STRUCT_OFFSET(Link, sqrt_s_per_byte), ANY_US},
  {"p2p_base_us", JSON_REAL, G_STRUCT_OFFSET(Link, p2p_base_s), TRUE, ANY_US},
  {"p2p_efficiency", JSON_REAL, G_STRUCT_OFFSET(Link, p2p_efficiency), TRUE, SHARE_UP_TO(1)},
  {"p2p_spread", JSON_REAL, G_STRUCT_OFFSET(Link, p2p_spread), .max = 0.99},
  {"p2p_sqrt_us_per_sqrt_byte", JSON_REAL, G_STRUCT_OFFSET(Link, p2p_sqrt_s_per_byte), ANY_US},
  {"kernel_efficiency", JSON_REAL, G_STRUCT_OFFSET(Link, kernel_efficiency), SHARE_UP_TO(1)},
  {"proxy_post_us", JSON_REAL, G_STRUCT_OFFSET(Link, proxy_post_s), ANY_US},
  {"short_base_us", JSON_REAL, G_STRUCT_OFFSET(Link, short_base_s), ANY_US},
  {"short_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Link, short_bytes_per_s), .max = 1e6, .scale = GB},
  {"channel_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Link, channel_bytes_per_s), .max = 1e6, .scale = GB},
  {"tree_channel_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Link, tree_channel_bytes_per_s[0]), .max = 1e6, .scale = GB},
  {"tree_channel_many_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Link, tree_channel_bytes_per_s[1]), .max = 1e6,
   .scale = GB},
  {"compute_slowdown", JSON_REAL, G_STRUCT_OFFSET(Link, compute_slowdown), FALSE, 1, 10},
  {"reduce_slowdown", JSON_REAL, G_STRUCT_OFFSET(Link, reduce_slowdown), FALSE, 1, 100},
  {"far_reduce_slowdown", JSON_REAL, G_STRUCT_OFFSET(Link, far_reduce_slowdown), FALSE, 0, 1000},
  {"reduce_cache_mib", JSON_REAL, G_STRUCT_OFFSET(Link, reduce_cache_bytes), FALSE, 0, 1e6, 1048576},
  {"in_switch", JSON_BOOL, G_STRUCT_OFFSET(Link, in_switch)},
  {"in_switch_base_us", JSON_REAL, G_STRUCT_OFFSET(Link, in_switch_base_s), ANY_US},
  {"in_switch_efficiency", JSON_REAL, G_STRUCT_OFFSET(Link, in_switch_efficiency), SHARE_UP_TO(2)},
  {"in_switch_sqrt_us_per_sqrt_byte", JSON_REAL, G_STRUCT_OFFSET(Link, in_switch_sqrt_s_per_byte), ANY_US},
};

const JsonField *link_field(const char *key)
{
  const JsonField *field = link_fields, *end = link_fields + G_N_ELEMENTS(link_fields);

  while (field < end && !g_str_equal(field->key, key))
    field++;
  g_assert(field < end);
  return field;
}

static gboolean read_link(const PartSource *source, gpointer out, GError **error)
{
  Link *link = out;
  if (!source->partial) {
    link->tree_hop_s = -1;
    link->in_switch_base_s = -1;
  }
  if (!part_fields(source, link_fields, G_N_ELEMENTS(link_fields), link, NULL, error))
    return FALSE;
  part_provenance(source, "efficiency", &link->provenance);
  const cJSON *far = json_get(source->object, "far_reduce_slowdown");
  if (far && far->valuedouble > 0 && far->valuedouble < 1)
    return json_error(source->doc, far, error, "a number from 1 to 1000, or 0 for none");
  return TRUE;
}

static gboolean finish_link(const PartSource *source, gpointer out, GError **error)
{
  Link *link = out;
  if (link->in_switch && link->in_switch_efficiency == 0)
    return part_missing(source, "in_switch_efficiency", error, "a number, as in_switch is true");
  if (link->in_switch && link->in_switch_base_s < 0)
    return part_missing(source, "in_switch_base_us", error, "a number, as in_switch is true");
  if (link->far_reduce_slowdown > 0 && link->reduce_cache_bytes == 0)
    return part_missing(source, "reduce_cache_mib", error, "a number above 0, as far_reduce_slowdown is given");
  if (link->reduce_cache_bytes > 0 && link->far_reduce_slowdown == 0)
    return part_missing(source, "far_reduce_slowdown", error, "a number from 1, as reduce_cache_mib is given");
  if (link->tree_hop_s < 0)
    link->tree_hop_s = 2 * link->hop_s;
  link->in_switch_base_s = MAX(link->in_switch_base_s, 0);
  link->reduce_slowdown = MAX(link->reduce_slowdown, 1);
  link->compute_slowdown = MAX(link->compute_slowdown, 1);
  return TRUE;
}

const PartKind link_part = {"links", "link", read_link, finish_link};

gboolean link_load(const char *name, Link *out, GError **error)
{
  *out = (Link){0};
  return part_load(&link_part, name, out, error);
}
