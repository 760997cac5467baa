#include "fit/jobs.h"
#include "fit/part_file.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

static const struct {
  const char *name;
  int mask;
} masks[] = {
  {"base", FIT_LINK_BASE}, {"hop", FIT_LINK_HOP}, {"rate", FIT_LINK_RATE},
  {"tree", FIT_LINK_TREE}, {"p2p", FIT_LINK_P2P}, {"in-switch", FIT_LINK_IN_SWITCH}, {"spread", FIT_LINK_SPREAD},
  {"short", FIT_LINK_SHORT}, {"fill", FIT_LINK_FILL},
};

/* 0 and an error unless each word is one of them. */
static int mask_of(const FitJob *job, GError **error)
{
  g_auto(GStrv) words = g_strsplit(job->constants, " ", -1);
  guint known = 0;
  int mask = 0;
  for (guint i = 0; i < G_N_ELEMENTS(masks); i++)
    if (g_strv_contains((const char *const *)words, masks[i].name)) {
      mask |= masks[i].mask;
      known++;
    }
  if (mask && known == g_strv_length(words))
    return mask;
  input_error(error, "fits.csv: link %s: \"%s\": expected some of base, hop, rate, tree, p2p, in-switch, spread, short, "
              "fill", job->target, job->constants);
  return 0;
}

/* Words of `data` are sources, or SERVER:SOURCE where the server is another one. */
static GArray *read_rows(const FitData *data, const FitJob *job, GPtrArray *clusters, GError **error)
{
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(CollectiveRow));
  g_auto(GStrv) words = g_strsplit(job->data, " ", -1);
  for (int i = 0; words[i]; i++) {
    char *colon = strchr(words[i], ':');
    if (colon)
      *colon = '\0';
    const char *server = colon ? words[i] : job->hardware, *source = colon ? colon + 1 : words[i];
    if (!data_collectives(data->collectives, source, server, clusters, rows, error))
      return NULL;
  }
  return g_steal_pointer(&rows);
}

/* The tier of the target's link: the same in all clusters. */
static int tier_of(const GPtrArray *clusters, const FitJob *job, GError **error)
{
  const Cluster *first = g_ptr_array_index(clusters, 0);
  for (int t = 0; t < first->n_tiers; t++) {
    guint same = 0;
    for (guint i = 0; i < clusters->len; i++) {
      const Cluster *cluster = g_ptr_array_index(clusters, i);
      same += t < cluster->n_tiers && strcmp(cluster->tiers[t].link.name, job->target) == 0;
    }
    if (same == clusters->len)
      return t;
  }
  input_error(error, "fits.csv: link %s: expected servers joined by it", job->target);
  return -1;
}

static void keep_only(GArray *rows, Collective collective)
{
  for (guint i = rows->len; i > 0; i--)
    if (g_array_index(rows, CollectiveRow, i - 1).collective != collective)
      g_array_remove_index(rows, i - 1);
}

gboolean fit_link_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  g_autoptr(GPtrArray) clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free);
  int mask = mask_of(job, error);
  g_autoptr(GArray) rows = mask ? read_rows(data, job, clusters, error) : NULL;
  int tier = rows ? tier_of(clusters, job, error) : -1;
  if (tier < 0)
    return FALSE;
  if (mask & (FIT_LINK_SHORT | FIT_LINK_FILL))
    keep_only(rows, COLLECTIVE_ALL_TO_ALL);
  Link link = ((const Cluster *)g_ptr_array_index(clusters, 0))->tiers[tier].link;
  *result = fit_link((CollectiveRow *)(gpointer)rows->data, (int)rows->len, tier, mask, &link);
  g_autofree char *source = g_strdup_printf("fitted: %s (hardware/data/collectives.csv); mean error on others %.1f %%",
                                            job->data, 100 * result->check.mean);
  const char *key;
  for (int i = 0; (key = fit_link_key(mask, i)); i++) {
    part_file_number(target, key, json_field_real(link_field(key), &link));
    part_file_source(target, key, source);
  }
  return TRUE;
}

gboolean fit_link_check_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  (void)target;
  g_autoptr(GPtrArray) clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free);
  g_autoptr(GArray) rows = read_rows(data, job, clusters, error);
  if (!rows)
    return FALSE;
  int only = names_find(collective_names, job->constants);
  if (only >= 0)
    keep_only(rows, (Collective)only);
  for (guint i = 0; i < rows->len && only < 0; i++)
    g_array_index(rows, CollectiveRow, i).check = TRUE;
  *result = fit_link_errors((const CollectiveRow *)(gpointer)rows->data, (int)rows->len);
  return TRUE;
}
