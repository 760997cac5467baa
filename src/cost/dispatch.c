#include "cost/algorithms.h"
#include "cost/kernel.h"

double dispatch_s(const DispatchModel *model, double rows, double row_bytes, double sms)
{
  if (model->s_per_byte <= 0 || sms <= 0)
    return 0;
  return model->base_s + rows * (model->row_s + row_bytes * model->s_per_byte) / sms;
}

double dispatch_link_s(const Cluster *cluster, double bytes, const GroupShape *group, gboolean hybrid, double pairs_s)
{
  int top = group_tier(cluster, group);
  const Link *link = &cluster->tiers[top].link;
  double passed = cluster->device.kernels.dispatch.hybrid_bytes_per_s;

  if (link->kernel_efficiency <= 0 || (top == 0 && !hybrid))
    return pairs_s;
  double longest_s = hybrid && top > 0 && passed > 0 ? bytes / passed : 0;
  for (int t = MIN(top, 1); t <= top; t++) {
    double rate = cluster->tiers[t].link.kernel_efficiency * rank_rate(cluster, group, t);
    double beyond = bytes * (1 - (double)ranks_below(group, t) / group->size);
    longest_s = rate > 0 ? MAX(longest_s, beyond / rate) : longest_s;
  }
  return link->p2p_base_s + longest_s;
}

/* 0 where kernels post themselves. */
static double post_s(const Cluster *cluster, const GroupShape *group)
{
  int top = group_tier(cluster, group);

  return top > 0 ? cluster->tiers[top].link.proxy_post_s : 0;
}

#define POSTS_A_CHUNK 5

double dispatch_proxy_s(const Cluster *cluster, const GroupShape *group, double chunks)
{
  double each_s = post_s(cluster, group), base_s = cluster->tiers[group_tier(cluster, group)].link.p2p_base_s;

  return each_s > 0 && chunks > 0 ? base_s + chunks * POSTS_A_CHUNK * each_s : 0;
}

double dispatch_quiet_s(const Cluster *cluster, const GroupShape *group, double quiets)
{
  return quiets * post_s(cluster, group);
}
