/*
 * Experts of a block and where their copies of tokens go; private to experts.c and
 * the files of its paths, experts_*.c.
 *
 * A path says which rows' copies are laid out on this rank, and how they reach
 * their experts:
 *   whole       every rank has a part of each expert and the copies of all its
 *               tokens; what experts put out, and the gradients of the router's
 *               weights, are parts of sums over the tensor-parallel ranks
 *   all-to-all  each rank routes its own rows, sends copies to the ranks of their
 *               experts, which share an expert's matrices as the plan's expert
 *               tensor parallelism says and gather what each of them received, and
 *               gets them back
 *   gather      all ranks that hold one copy of the experts gather each other's
 *               rows, of which each has those that visit its experts; results are
 *               summed over these ranks
 * Under the last two nothing is left to sum over the tensor-parallel ranks.
 *
 * To add a path: a file with a const ExpertPath, a line in experts.c.
 */
#ifndef TDP_EXEC_EXPERTS_H
#define TDP_EXEC_EXPERTS_H

#include "exec/block.h"

/* Copies on this rank, on the host: of its rows, and at its experts, where expert e's
 * are from first[e] to first[e + 1]. The rest is the path's: `sent` and `received` by
 * rank, `from` by source and expert, `arrived` by rank that shares the experts' matrices. */
typedef struct Visits {
  int32_t *first, *from;
  gsize *sent, *received, *arrived;
  int own, copies;
} Visits;

void visits_free(Visits *visits);

typedef struct ExpertPath ExpertPath;

/* Sizes on this rank. */
typedef struct {
  const ExpertPath *path; /* NULL = whole */
  int experts, top, rows; /* rows routed here */
  int capacity;           /* most copies of an expert of them, 0 = any number */
  int ep, local;          /* ranks that share the experts; of these, here */
  int etp, etp_rank;      /* ranks that share an expert's matrices where they are apart */
  int first_expert;       /* of those here */
  int ffn, up, shared, shared_up; /* widths */
  LinearSize up_size, down_size;  /* of an expert's products, but for rows, which are each expert's own */
} Experts;

typedef void *MoveCopies(const LayerRun *r, const Experts *w, const Visits *v, void *copies, MemoryPart part);

struct ExpertPath {
  /* Tells ranks what will come, in slot VISITS of a forward's state. `v` has what the router decided of the rows routed
   * here, and gets the rest. */
  void (*agree)(const LayerRun *r, LayerState *state, const Experts *w, Visits *v);
  /* Copies of rows to their experts, and back, in blocks counted to a part, taking the
   * buffer over; NULL where nothing moves. */
  MoveCopies *send, *back;
  /* The route of the rows that are laid out here, and those of all ranks for one's own
   * and the sums back, taking `all` over; NULL where these are the rows routed here. */
  ExecRoute (*seen)(const LayerRun *r, const LayerState *state, const Experts *w);
  void *(*gather)(const LayerRun *r, const Experts *w, const void *x, int width);
  void *(*sum)(const LayerRun *r, const Experts *w, void *all, int width, ExecType type);
};

extern const ExpertPath expert_path_all_to_all, expert_path_gather;

/* What the router decided of the rows routed here; a route in a block of so many bytes. */
ExecRoute route_of(const LayerRun *r, const LayerState *state, const Experts *w);
ExecRoute route_in(const LayerRun *r, const Experts *w, void *block, int rows, int experts);
gsize route_bytes(const LayerRun *r, const Experts *w, int rows, int experts);

/* A device's integers, for the caller to free. */
int32_t *experts_download(const LayerRun *r, const void *from, gsize n);

#endif
