#include "ask/near_batch.h"

#include "ask/question.h"

#define NEAR 16 /* part of the batch */

int batch_replicas(int devices, int batch)
{
  while (batch) {
    int rest = devices % batch;
    devices = batch;
    batch = rest;
  }
  return devices;
}

int near_batch(int devices, int batch)
{
  const int usual = batch_replicas(devices, batch);

  for (int replicas = devices; replicas > usual; replicas--) {
    if (devices % replicas != 0)
      continue;
    gint64 less = batch / replicas * replicas, more = less + replicas;
    gint64 near = less > 0 && batch - less <= more - batch ? less : more;
    if (near <= G_MAXINT && ABS(near - batch) * NEAR <= batch)
      return (int)near;
  }
  return 0;
}

gboolean near_batch_best(const Model *model, const Cluster *cluster, const SearchOptions *options, const Found *best,
                         Found *out)
{
  const int batch = options->base->global_batch, near = near_batch(cluster->devices, batch);
  const double most_s = best->metrics.iteration_s / batch * near * (1 - NEAR_BATCH_SHARE);
  Plan base = *options->base;
  SearchOptions other = *options;

  if (near == 0 || options->objective != &objectives[0] || stop_heard(options->stop))
    return FALSE;
  base.global_batch = near;
  other.base = &base;
  other.audit = NULL;
  other.state = NULL;
  other.refine = other.over = other.tight = other.least = FALSE;
  other.known = most_s;
  return ask_best(model, cluster, &other, cluster->devices, out) && out->metrics.iteration_s <= most_s;
}
