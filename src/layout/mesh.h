/*
 * Which rank does what: ranks count tensor coordinates fastest, then context,
 * then data, pipeline slowest (Megatron's default order tp-cp-ep-dp-pp), and a
 * cluster's devices are numbered so that neighbours share a node. With
 * pipeline_inner the pipeline comes before data (Megatron's order
 * tp-cp-ep-pp-dp, use_tp_pp_dp_mapping): stages stand closer together, and data
 * parallel ranks further apart.
 *
 * A place numbers the ranks of one stage, tensor coordinates fastest, then context,
 * then data, in either order. Ranks that hold the same weights are tensor x
 * context places apart where context is passed, so over context and data they
 * lie in two steps with the pipeline between (group_shape_nested).
 *
 * Experts divide the ranks of a pipeline stage on a grid of their own (folding,
 * Liu et al. 2025, arXiv 2504.14960): coordinates within an expert's matrices
 * fastest, then which experts, then copies of these (Megatron Core's order for
 * experts, etp-ep-edp-pp). The place r of a stage holds experts
 * [i E/ep, (i+1) E/ep) with i = r / etp % ep. With pipeline_inner both grids have
 * as many copies (plan_check), etp x ep = tp x cp.
 */
#ifndef TDP_LAYOUT_MESH_H
#define TDP_LAYOUT_MESH_H

#include "hardware/group.h"

typedef struct Plan Plan; /* plan/plan.h: read when a mesh is made, and nowhere else */

typedef enum { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT, AXIS_EXPERT = AXIS_COUNT } Axis;
/* AXIS_EXPERT is none of the grid: it names communication on the experts' own. */

typedef enum { EXPERT_TENSOR, EXPERT_PARALLEL, EXPERT_DATA, EXPERT_AXIS_COUNT } ExpertAxis;

typedef struct {
  int size;
  int stride; /* between neighbours along it */
} MeshAxis;

/* Values only: nothing to free. */
typedef struct {
  int ranks;                           /* of the job: the product of the sizes of `dense` */
  MeshAxis dense[AXIS_COUNT];          /* strides count ranks */
  MeshAxis experts[EXPERT_AXIS_COUNT]; /* of a stage; strides count places */
  int places;                          /* of a stage: the product of the sizes of `experts` */
  int block;                           /* places whose ranks are neighbours in either order: tensor x context */
  gboolean inner;                      /* the pipeline comes before data, and both are there */
  const char *types[NODE_TYPES_MAX];   /* of nodes along the pipeline, interned; [0] NULL: in the cluster's order */
} Mesh;

/* Of a plan that plan_check accepts, or of one whose degrees alone are legal. */
Mesh mesh_of(const Plan *plan);

int mesh_rank(const Mesh *mesh, const int coordinates[AXIS_COUNT]);
void mesh_coordinates(const Mesh *mesh, int rank, int coordinates[AXIS_COUNT]);
void mesh_expert_coordinates(const Mesh *mesh, int rank, int coordinates[EXPERT_AXIS_COUNT]);

/* A rank's place in its pipeline stage, and the rank at a place of a stage. */
int mesh_place(const Mesh *mesh, int rank);
int mesh_rank_at(const Mesh *mesh, int stage, int place);

/* Ranks of a stage, "4 to 7 of each 16" where the pipeline stands between them. Newly allocated. */
char *mesh_stage_text(const Mesh *mesh, int stage);

/* Shape of the groups along an axis. */
GroupShape mesh_group(const Mesh *mesh, const Cluster *cluster, Axis axis);

/* Shape of the groups of `size` places of each stage, `stride` places apart: they tile the stage in blocks of
 * size x stride places. */
GroupShape mesh_places(const Mesh *mesh, const Cluster *cluster, int size, int stride);

/* Shape of the pairs that two pipeline ranks form: apart wherever at least one
 * of their pairs is apart. */
GroupShape mesh_pair(const Mesh *mesh, const Cluster *cluster, int from, int to);

/*
 * Mixed clusters: pipeline ranks of one node type stand side by side, in the
 * mesh's order of the types, and each lies on alike devices (plan_check). The
 * type of a rank, and the cluster that prices what happens on it: the cluster
 * itself where nodes are alike.
 */
int mesh_node_type(const Mesh *mesh, const Cluster *cluster, int pipeline_rank);
const Cluster *mesh_site(const Mesh *mesh, const Cluster *cluster, int pipeline_rank);

/* Ranks of a node among which one of pipeline rank `rank` is, where all of them take what they need from what the node
 * has, alike and at once: those that need less than it, by `needs` of each pipeline rank, count for their part. On the
 * fullest of the nodes that it lies on. */
double mesh_node_sharers(const Mesh *mesh, const Cluster *cluster, int rank, const double *needs);

/* What prices transfers between two pipeline ranks, and the shape of their pairs on it. */
const Cluster *mesh_pair_site(const Mesh *mesh, const Cluster *cluster, int from, int to, GroupShape *shape);

#endif
