#include "search/fingerprint.h"

#include "search/candidates.h"

static void add_text(GChecksum *sum, const char *text)
{
  g_checksum_update(sum, (const guchar *)text, -1);
}

static void add_bytes(GChecksum *sum, gconstpointer bytes, gsize n)
{
  g_checksum_update(sum, bytes, n);
}

/* What bounds leave out and simulations read. */
static void add_cluster(GChecksum *sum, const Cluster *c)
{
  for (int i = 0; i < c->n_types; i++)
    add_cluster(sum, c->types[i]);
  add_text(sum, c->name);
  add_bytes(sum, &c->device.memory_bytes, sizeof c->device.memory_bytes);
  add_bytes(sum, &c->usd_per_device_hour, sizeof c->usd_per_device_hour);
  add_bytes(sum, &c->processors, sizeof c->processors);
  add_bytes(sum, &c->device.rate_jitter, sizeof c->device.rate_jitter);
  add_bytes(sum, &c->device.rate_jitter_s, sizeof c->device.rate_jitter_s);
  for (int t = 0; t < c->n_tiers; t++) {
    const Link *l = &c->tiers[t].link;
    const double numbers[] = { l->base_s, l->hop_s, l->tree_hop_s, l->efficiency, l->sqrt_s_per_byte, l->p2p_base_s,
                               l->p2p_efficiency, l->compute_slowdown, c->tiers[t].bytes_per_s };
    add_bytes(sum, numbers, sizeof numbers);
  }
}

char *search_fingerprint(const Cluster *cluster, const SearchOptions *o, const GArray *candidates)
{
  g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
  g_autoptr(GString) base = g_string_new(NULL);
  const Plan plan = space_base(o);
  JsonWriter w;

  json_writer_init(&w, base);
  plan_write(&plan, &w, NULL);
  add_text(sum, TDP_VERSION "\n");
  add_text(sum, base->str);
  add_text(sum, o->objective ? o->objective->name : "time");
  add_text(sum, o->second ? o->second->name : "");
  add_cluster(sum, cluster);
  for (guint i = 0; i < candidates->len; i++) {
    const Candidate *c = &g_array_index(candidates, Candidate, i);
    const double bounds[] = { (double)c->index, c->bound_s, c->memory_bytes };
    add_bytes(sum, bounds, sizeof bounds);
  }
  return g_strdup(g_checksum_get_string(sum));
}
