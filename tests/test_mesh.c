/* Ranks, their groups and how these lie on nodes, against an enumeration that goes by the definition. */
#include "fixture.h"
#include "main.h"

/* Coordinates of all ranks, written down by four loops in the order of Megatron's rank generator. */
static void enumerate(const Plan *p, int (*at)[AXIS_COUNT])
{
  int rank = 0, outer = p->pipeline_inner ? p->dp : p->pp, inner = p->pipeline_inner ? p->pp : p->dp;

  for (int o = 0; o < outer; o++)
    for (int i = 0; i < inner; i++)
      for (int c = 0; c < p->cp; c++)
        for (int t = 0; t < p->tp; t++, rank++) {
          at[rank][AXIS_TENSOR] = t;
          at[rank][AXIS_CONTEXT] = c;
          at[rank][AXIS_DATA] = p->pipeline_inner ? o : i;
          at[rank][AXIS_PIPELINE] = p->pipeline_inner ? i : o;
        }
}

/* Numbers a rank's group and its index in it, from its coordinates and its place. */
typedef int Member(const Plan *p, const int at[AXIS_COUNT], int place, int *index);

static int of_tensor(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  (void)place;
  *index = at[AXIS_TENSOR];
  return at[AXIS_CONTEXT] + p->cp * (at[AXIS_DATA] + p->dp * at[AXIS_PIPELINE]);
}

static int of_context(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  (void)place;
  *index = at[AXIS_CONTEXT];
  return at[AXIS_TENSOR] + p->tp * (at[AXIS_DATA] + p->dp * at[AXIS_PIPELINE]);
}

static int of_data(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  (void)place;
  *index = at[AXIS_DATA];
  return at[AXIS_TENSOR] + p->tp * (at[AXIS_CONTEXT] + p->cp * at[AXIS_PIPELINE]);
}

static int of_pipeline(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  (void)place;
  *index = at[AXIS_PIPELINE];
  return at[AXIS_TENSOR] + p->tp * (at[AXIS_CONTEXT] + p->cp * at[AXIS_DATA]);
}

static int replica(const Plan *p, const int at[AXIS_COUNT])
{
  return at[AXIS_CONTEXT] + p->cp * at[AXIS_DATA];
}

static int of_replicas(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  (void)place;
  *index = replica(p, at);
  return at[AXIS_TENSOR] + p->tp * at[AXIS_PIPELINE];
}

static int of_shards(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  int group = of_replicas(p, at, place, index), shards = plan_shards(p), whole = *index;

  *index = whole % shards;
  return group * plan_replicas(p) + whole / shards;
}

static int of_shard_copies(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  int group = of_replicas(p, at, place, index), shards = plan_shards(p), whole = *index;

  *index = whole / shards;
  return group * plan_replicas(p) + whole % shards;
}

static int of_experts(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  *index = place / plan_expert_tensor(p) % p->ep;
  return (place % plan_expert_tensor(p) + place / plan_expert_tensor(p) / p->ep * plan_expert_tensor(p)) * p->pp +
         at[AXIS_PIPELINE];
}

static int of_expert_copies(const Plan *p, const int at[AXIS_COUNT], int place, int *index)
{
  *index = place / (plan_expert_tensor(p) * p->ep);
  return place % (plan_expert_tensor(p) * p->ep) * p->pp + at[AXIS_PIPELINE];
}

/* The fewest members that any domain has of any group that it meets. */
static void check_shape(const Plan *p, const Cluster *cluster, int (*at)[AXIS_COUNT], Member *member, GroupShape shape)
{
  for (int t = 0; t < cluster->n_tiers; t++) {
    int domain = MIN(cluster->tiers[t].devices, p->gpus), domains = (p->gpus + domain - 1) / domain, fewest = p->gpus;
    g_autofree int *met = g_new0(int, (gsize)p->gpus * domains);
    for (int rank = 0; rank < p->gpus; rank++) {
      int place = at[rank][AXIS_TENSOR] + p->tp * replica(p, at[rank]), index;
      int group = member(p, at[rank], place, &index);
      ck_assert_int_lt(index, shape.size);
      met[group * domains + rank / domain]++;
    }
    for (int i = 0; i < p->gpus * domains; i++)
      fewest = met[i] > 0 ? MIN(fewest, met[i]) : fewest;
    ck_assert_int_eq(shape.per_domain[t], t == cluster->n_tiers - 1 ? shape.size : fewest);
  }
}

static void check_pairs(const Plan *p, const Cluster *cluster, int (*at)[AXIS_COUNT])
{
  for (int from = 0; from < p->pp; from++)
    for (int to = 0; to < p->pp; to++) {
      gboolean share = TRUE;
      for (int a = 0; a < p->gpus; a++)
        for (int b = 0; b < p->gpus; b++)
          if (at[a][AXIS_PIPELINE] == from && at[b][AXIS_PIPELINE] == to && replica(p, at[a]) == replica(p, at[b]) &&
              at[a][AXIS_TENSOR] == at[b][AXIS_TENSOR])
            share &= a / cluster->tiers[0].devices == b / cluster->tiers[0].devices;
      ck_assert_int_eq(mesh_pair(MESH(p), cluster, from, to).per_domain[0], share || cluster->n_tiers == 1 ? 2 : 1);
    }
}

static void check_numbers(const Plan *p, int (*at)[AXIS_COUNT])
{
  int own[AXIS_COUNT], experts[EXPERT_AXIS_COUNT];

  for (int rank = 0; rank < p->gpus; rank++) {
    int place = at[rank][AXIS_TENSOR] + p->tp * replica(p, at[rank]);
    mesh_coordinates(MESH(p), rank, own);
    ck_assert_mem_eq(own, at[rank], sizeof own);
    ck_assert_int_eq(mesh_rank(MESH(p), own), rank);
    ck_assert_int_eq(mesh_place(MESH(p), rank), place);
    ck_assert_int_eq(mesh_rank_at(MESH(p), at[rank][AXIS_PIPELINE], place), rank);
    mesh_expert_coordinates(MESH(p), rank, experts);
    ck_assert_int_eq(experts[EXPERT_PARALLEL], place / plan_expert_tensor(p) % p->ep);
  }
}

/* On the node of its ranks where the sum over all ranks is most. */
static void check_sharers(const Plan *p, const Cluster *cluster, int (*at)[AXIS_COUNT])
{
  static const double needs[] = { 3, 1, 1, 2, 0, 5 };
  int node = cluster->tiers[0].devices;

  for (int stage = 0; stage < p->pp; stage++) {
    double most = 1;
    for (int rank = 0; rank < p->gpus && needs[stage] > 0; rank++) {
      double sum = 0;
      for (int other = 0; other < p->gpus; other++)
        if (other / node == rank / node)
          sum += MIN(needs[at[other][AXIS_PIPELINE]], needs[stage]) / needs[stage];
      if (at[rank][AXIS_PIPELINE] == stage)
        most = MAX(most, sum);
    }
    ck_assert_double_eq_tol(mesh_node_sharers(MESH(p), cluster, stage, needs), most, 1e-12);
  }
}

static void check_mesh(const Plan *p, const Cluster *cluster)
{
  g_autofree int (*at)[AXIS_COUNT] = g_malloc_n(p->gpus, sizeof *at);

  enumerate(p, at);
  check_numbers(p, at);
  check_pairs(p, cluster, at);
  check_sharers(p, cluster, at);
  check_shape(p, cluster, at, of_tensor, mesh_group(MESH(p), cluster, AXIS_TENSOR));
  check_shape(p, cluster, at, of_context, mesh_group(MESH(p), cluster, AXIS_CONTEXT));
  check_shape(p, cluster, at, of_data, mesh_group(MESH(p), cluster, AXIS_DATA));
  check_shape(p, cluster, at, of_pipeline, mesh_group(MESH(p), cluster, AXIS_PIPELINE));
  check_shape(p, cluster, at, of_replicas, state_group(LAYOUT(p), cluster, FALSE, RANKS_REPLICAS));
  check_shape(p, cluster, at, of_shards, state_group(LAYOUT(p), cluster, FALSE, RANKS_SHARDS));
  check_shape(p, cluster, at, of_shard_copies, state_group(LAYOUT(p), cluster, FALSE, RANKS_COPIES));
  check_shape(p, cluster, at, of_experts, pass_group(PASSES(p), cluster, RANKS_EXPERT));
  check_shape(p, cluster, at, of_expert_copies, state_group(LAYOUT(p), cluster, TRUE, RANKS_REPLICAS));
}

static int draw(GRand *rand, const int *from, int n)
{
  return from[g_rand_int_range(rand, 0, n)];
}

/* Nodes of 1 to 12 devices, degrees that tile them and such that do not, ZeRO over some of the ranks, experts over a
 * stage's neighbours. */
START_TEST(groups_lie_where_their_ranks_do)
{
  static const int degrees[] = { 1, 2, 3, 4, 6 }, nodes[] = { 1, 2, 4, 6, 8, 12 };
  GRand *rand = g_rand_new_with_seed(90 + _i);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  int inner = 0;

  for (int i = 0; i < 200; i++) {
    Plan p = { .tp = draw(rand, degrees, 4), .cp = draw(rand, degrees, 4), .dp = draw(rand, degrees, 5),
               .pp = draw(rand, degrees, 5), .ep = 1, .zero = 1, .pipeline_inner = g_rand_boolean(rand),
               .micro_batch = 1, .vpp = 1, .schedule = schedule_find("1f1b"), .framework = framework };
    int node = draw(rand, nodes, 6);
    p.gpus = p.tp * p.cp * p.dp * p.pp;
    if (p.gpus % node != 0 || p.gpus > 200)
      continue;
    int part = g_rand_boolean(rand) ? p.cp * draw(rand, degrees, 5) : draw(rand, degrees, 5);
    if (part > 1 && plan_replicas(&p) % part == 0 && (p.cp % part == 0 || part % p.cp == 0))
      p.shard_group = part;
    if (g_rand_boolean(rand)) {
      p.ep = p.cp * p.tp;
      p.etp = p.tp > 1 ? 1 : 0;
    }
    g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
    cluster->devices = p.gpus;
    cluster->tiers[0].devices = cluster->devices_per_node = node;
    cluster->tiers[cluster->n_tiers - 1].devices = p.gpus;
    check_mesh(&p, cluster);
    inner += MESH(&p)->inner;
  }
  ck_assert_int_gt(inner, 20);
  g_rand_free(rand);
}
END_TEST

static void check_refused(const Plan *p, const Model *model, const Cluster *cluster, PlanRule rule, const char *message)
{
  GError *error = NULL;

  ck_assert_int_eq(plan_check(p, model, cluster, &error), rule);
  test_error(&error, 2, message);
}

START_TEST(what_cannot_be_placed_is_refused)
{
  g_autoptr(Model) model = fixture_experts(4, 256, 4, 8, 64, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 16);
  g_autoptr(Framework) framework = fixture_framework("megatron-core"), other = fixture_framework("torchtitan");
  Plan p = plan_default(model, framework);

  p.gpus = 16;
  p.tp = p.pp = 2;
  p.dp = 4;
  p.global_batch = 8;
  p.pipeline_inner = p.sequence_parallel = TRUE;
  ck_assert_int_eq(plan_check(&p, model, cluster, NULL), RULE_NONE);
  p.ep = 4;
  p.etp = 1;
  check_refused(&p, model, cluster, RULE_PLACEMENT,
                "plan: use_tp_pp_dp_mapping: true: expected expert tensor 1 x expert 4 "
                                                    "to be tensor 2 x context 1");
  p.ep = 2;
  ck_assert_int_eq(plan_check(&p, model, cluster, NULL), RULE_NONE);
  p.framework = other;
  check_refused(&p, model, cluster, RULE_PLACEMENT,
                "plan: use_tp_pp_dp_mapping: true: expected false, torchtitan counts data "
                                                    "before the pipeline");
}
END_TEST

TEST_LOOPS("mesh", { what_cannot_be_placed_is_refused }, { groups_lie_where_their_ranks_do, 4, TRUE })
