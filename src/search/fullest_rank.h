/*
 * What some rank of a pipeline holds at least, however blocks are split over its stages.
 *
 * At some moment a rank holds what k forwards leave of each of its chunks: n blocks on it take n (s + k a) bytes, s of
 * states and a of what a forward leaves of a block. Where no rank holds more than M, all ranks together have at most the
 * sum of M / (s + k a) blocks, each rounded down, as blocks are whole. No rate is in that: what does not fit by it fits
 * under no split that other rates make.
 */
#ifndef TDP_SEARCH_FULLEST_RANK_H
#define TDP_SEARCH_FULLEST_RANK_H

#include "cost/price.h"

/* Neighbouring ranks that hold, each at some moment, so many micro-batches of each of their chunks. */
typedef struct {
  int ranks, held;
} HeldRanks;

/* Those of schedules and shapes, which are remembered. */
typedef struct HeldTable HeldTable;
HeldTable *held_table_new(void);
void held_table_free(HeldTable *table);

/* HeldRanks of all ranks; NULL where what they hold depends on more than the order of passes. */
const GArray *held_ranks(HeldTable *table, const Layout *layout);

/* Blocks that hold the same; of more kinds than that the rest counts as none. */
#define BLOCK_KINDS 4
typedef struct {
  int blocks;
  double params, expert_params, narrow[2], saved_bytes;
  Frozen frozen[2];
} BlockKind;

typedef struct {
  int n;
  BlockKind kinds[BLOCK_KINDS];
} BlockKinds;

/* Of nodes that are alike. */
BlockKinds block_kinds(const Model *model, const PriceTable *prices);

gboolean block_kind_same_states(const BlockKind *a, const BlockKind *b);

/* Bytes of a block on a rank: its states, and what a forward leaves of it for a backward. */
typedef struct {
  double states, saved;
} BlockBytes;

/* Blocks of a model by kind, `overhead`: bytes that a rank holds beside them. */
typedef struct {
  int n, blocks[BLOCK_KINDS];
  BlockBytes each[BLOCK_KINDS];
  double overhead;
} HeldBlocks;

HeldBlocks held_blocks(const Layout *layout, const Device *device, const BlockKinds *kinds);

/* Lowers each number to that of the others, which are of the same blocks: FALSE where they are not. */
gboolean held_blocks_lower(HeldBlocks *all, const HeldBlocks *others);

/* fullest_rank_bytes() of such blocks. */
double held_blocks_bytes(const HeldBlocks *blocks, const GArray *held, double room_bytes);

/* Bytes of the fullest rank, at least; more than `room_bytes` where so many do not suffice. */
double fullest_rank_bytes(const Layout *layout, const Device *device, const GArray *held, const BlockKinds *kinds,
                          double room_bytes);

#endif
