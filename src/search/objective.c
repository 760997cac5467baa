#include "search/objective.h"

#include "base/error.h"
#include "base/units.h"

static double time_of(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes)
{
  (void)layout, (void)cluster, (void)memory_bytes;
  return step_s;
}

static double memory_of(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes)
{
  (void)layout, (void)cluster, (void)step_s;
  return memory_bytes;
}

static double token_of(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes)
{
  (void)cluster, (void)memory_bytes;
  return step_s * layout->passes.ranks / ((double)layout->global_batch * layout->passes.seq);
}

static double hours_of(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes)
{
  (void)cluster, (void)memory_bytes;
  return step_s * layout->passes.ranks / 3600;
}

static double money_of(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes)
{
  return hours_of(layout, cluster, step_s, memory_bytes) * cluster->usd_per_device_hour;
}

static double energy_of(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes)
{
  (void)memory_bytes;
  return step_s * layout->passes.ranks * cluster_power_w(cluster);
}

const Objective objectives[] = {
  { "time", "days", "step_s", "step_s", "step, s", time_of, 1 },
  { "tokens-per-gpu", NULL, "tokens_per_s_per_gpu", "tokens_per_s_per_gpu", "tokens/s/GPU", token_of, -1 },
  { "memory", NULL, "peak_memory_bytes", "peak_memory_gib", "memory, GiB", memory_of, 1 / GIB, TRUE },
  { "gpu-hours", NULL, "gpu_hours_per_step", "gpu_hours_per_step", "GPU-hours/step", hours_of, 1 },
  { "money", "cost", "usd_per_step", "usd_per_step", "USD/step", money_of, 1 },
  { "energy", "carbon", "joules_per_step", "kwh_per_step", "kWh/step", energy_of, 1 / 3.6e6 },
  { .name = NULL },
};

const Objective *objective_find(const char *name)
{
  for (const Objective *o = objectives; o->name; o++)
    if (g_str_equal(o->name, name) || g_strcmp0(o->word, name) == 0)
      return o;
  return NULL;
}

char *objective_list(void)
{
  GString *s = g_string_new(NULL);

  for (const Objective *o = objectives; o->name; o++)
    g_string_append_printf(s, "%s%s%s%s", o == objectives ? "" : ", ", o->name, o->word ? " or " : "",
                           o->word ? o->word : "");
  return g_string_free(s, FALSE);
}

char *objective_meant(const char *name)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();

  for (const Objective *o = objectives; o->name; o++) {
    g_ptr_array_add(names, (gpointer)o->name);
    if (o->word)
      g_ptr_array_add(names, (gpointer)o->word);
  }
  g_ptr_array_add(names, NULL);
  return names_meant((const char *const *)names->pdata, name);
}

double objective_shown(const Objective *o, double value)
{
  return o->shown > 0 ? value * o->shown : -o->shown / value;
}

double objective_unit(const Objective *o)
{
  return o->shown > 0 ? 1 / o->shown : 1;
}

gboolean objective_check(const Objective *o, const Cluster *cluster, GError **error)
{
  if (o->value == money_of && cluster->usd_per_device_hour <= 0)
    return input_error(error, "%s: usd_per_device_hour: missing: expected the price of a GPU for an hour, here or by "
                       "--price", cluster->name);
  if (o->value == energy_of && cluster_power_w(cluster) <= 0)
    return input_error(error, "%s: power_w: missing: expected the power of a GPU", cluster->device.name);
  return TRUE;
}
