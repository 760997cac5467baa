#include "search/fingerprint.h"

#include "search/space.h"

#include <string.h>

static void add_text(GChecksum *sum, const char *text)
{
  g_checksum_update(sum, (const guchar *)text, strlen(text) + 1);
}

static void add_bytes(GChecksum *sum, gconstpointer bytes, gsize n)
{
  g_checksum_update(sum, bytes, n);
}

/* The rules by which plans are priced and simulated: all of the program, where the system shows it. */
static void add_program(GChecksum *sum)
{
  g_autofree char *bytes = NULL;
  gsize n = 0;

  add_text(sum, TDP_VERSION);
  if (g_file_get_contents("/proc/self/exe", &bytes, &n, NULL))
    add_bytes(sum, bytes, n);
}

/* What programs change of a cluster once it is loaded. */
static void add_cluster(GChecksum *sum, const Cluster *c)
{
  add_text(sum, c->digest);
  add_bytes(sum, &c->devices, sizeof c->devices);
  add_bytes(sum, &c->device.memory_bytes, sizeof c->device.memory_bytes);
  add_bytes(sum, &c->memory_margin, sizeof c->memory_margin);
  add_bytes(sum, &c->usd_per_device_hour, sizeof c->usd_per_device_hour);
}

static void add_question(GChecksum *sum, const SearchOptions *o)
{
  g_autoptr(GString) text = g_string_new(NULL);
  const Plan plan = space_base(o);
  Fixed fixed = o->fixed;
  JsonWriter w;

  fixed.value[KEY_OPTIMIZER] = -1; /* the plan has it */
  json_writer_init(&w, text);
  plan_write_all(&plan, &w, NULL);
  fixed_write(&fixed, text);
  g_string_append_printf(text, "space %u of %s and %s", o->space, o->objective ? o->objective->name : "time",
                         o->second ? o->second->name : "nothing");
  add_text(sum, text->str);
}

char *search_fingerprint(const Model *model, const Cluster *cluster, const SearchOptions *o, const GArray *parts)
{
  g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);

  add_program(sum);
  add_text(sum, model->digest);
  add_text(sum, o->base->framework->digest);
  add_cluster(sum, cluster);
  add_question(sum, o);
  for (guint i = 0; i < parts->len; i++) {
    const SpacePart *part = &g_array_index(parts, SpacePart, i);
    const double bounds[] = { (double)part->index, part->bound_s, part->memory_bytes };
    add_bytes(sum, bounds, sizeof bounds);
  }
  return g_strdup(g_checksum_get_string(sum));
}
