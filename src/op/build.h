/*
 * What layer builders share: they describe a layer forward, step by step, and
 * each step adds its own backward; the backward list comes out reversed.
 */
#ifndef TDP_OP_BUILD_H
#define TDP_OP_BUILD_H

#include "op/op.h"

typedef struct {
  double in, out;
} MatrixShape;

typedef struct {
  LayerWork *work;
  const Model *model;
  const LayerSpec *spec;
  const PassLayout *passes;
  GroupShape tensor, context; /* the tensor- and the context-parallel group */
  GroupShape context_inner, context_outer; /* of it, ranks that change heads for rows, and one of each such group */
  GroupShape expert, expert_tensor, expert_block; /* of experts that are apart: mesh.h */
  int network_tier; /* the lowest between nodes; -1: none */
  double tp;
  const Attention *attention; /* of the block, or its cross attention */
  AttentionKernel kernel;     /* of its core on this device */
  double seq, keys;  /* tokens of a sequence: of its queries, of what they attend to */
  double tokens;     /* of a micro-batch, on a context-parallel rank */
  double rows;       /* tokens that norms and residuals see: tokens / tp under sequence parallel */
  double bytes;      /* of an activation element */
  double hidden;
  double routed;     /* width of the rows that experts read and make */
  gboolean one_layout; /* of what is cast (fp8_one_layout) */
  gboolean reused;   /* weights that are used are those of an earlier block, which holds them */
  gboolean frozen;   /* weights that are added are: no gradients of them are made */
  gboolean experts;  /* weights that are added are those of experts that are apart */
  guint part;        /* modules of partial CUDA graphs: ops that are added are recorded with any of them */
  gboolean visits;   /* ops that are added work on rows that came to experts: Op.spare */
  double filling;    /* of these rows, the share that only fills up experts' */
  gboolean counted;  /* the next forward op is Op.counted */
  MatrixShape shapes[16]; /* that have a placeholder */
  int n_shapes;
  guint redone, dropped; /* of the forward ops that are added: modules, as Op's */
  double scores_bytes; /* of gradients of scores that separate kernels make, at the worst moment of a core */
  guint scores_end;    /* forward ops up to this core */
} Build;

#define LINEAR_PARTS 4

typedef struct {
  const char *name;
  double in, out;  /* widths on this device */
  double batch;    /* independent products in one kernel (experts); 1 otherwise */
  double rows;     /* of each product */
  gboolean bias;
  double saved;    /* bytes of input kept for the weight gradient */
  LinearSplit split;
  gboolean no_reduce; /* a row-parallel output whose sum comes later */
  gboolean no_gather; /* a column-parallel input that is gathered already */
  gboolean kept;      /* its input is kept for another product; a copy in 8 bits is its own */
  gboolean leaf;      /* its input needs no gradient */
  gboolean apart;     /* its input is cast by a kernel of its own, whatever made it */
  gboolean cast_before;  /* its input comes in the format, cast by the product before it */
  gboolean cast_behind;  /* so does its output's gradient, by the product behind it */
  gboolean unmade;    /* its input is kept in 16 bits by what made it, which no fused cast follows */
  gboolean original;  /* its input in 16 bits, which something else keeps, may be what its weights' gradients read */
  gboolean narrow;    /* it runs in 8 or 4 bits where products do, though every tensor-parallel rank has all of it */
  gboolean stays;     /* its input is kept whether or not its weights need it: by what made it */
  AdapterMatrix matrix; /* that targets of adapters may name */
  double parts[LINEAR_PARTS]; /* widths in `out` of the matrices that it is made of, of which files may pack, and Muon
                                 takes, each for itself; none: it is one */
} Linear;

/* The module that records the feed-forward of the block as a whole; those that record parts of it before experts. */
static inline guint build_feeding_part(const Build *b)
{
  return 1u << (b->spec->ffn.experts ? RECORDED_MOE : RECORDED_MLP);
}

#define RECORDS_ROUTER (1u << RECORDED_MOE | 1u << RECORDED_MOE_ROUTER)
#define RECORDS_PREPROCESS (1u << RECORDED_MOE | 1u << RECORDED_MOE_PREPROCESS)

/* Of a micro-batch's hidden values on a context-parallel rank. */
static inline double build_activation_bytes(const Build *b)
{
  return b->tokens * b->hidden * b->bytes;
}

/* What a pass of tdp-run holds for a while, in place of all that was noted of it; behind all else of a layer
 * (scratch.c). */
void build_scratch(Build *b);

/* What stands for the weight gradient of a product, of `batch` matrices of this device. */
void build_placeholder(Build *b, double in, double out, double batch);

/* The same of the head, which is the framework's own product: beside the gradient of its logits, which has taken the
 * place of what the loss kept, the gradient of its input and, under sequence parallelism, that input gathered. */
void build_head_placeholder(Build *b, double in, double vocab, double loss_bytes);

/* A product with weights, with the collectives that its split asks for, and with its adapters. */
void build_linear(Build *b, const Linear *linear);

/* Of a product with frozen weights (adapter.c): whether it has adapters; what of its input is kept; its weights made of
 * 4 bits, before it; the adapters' products, behind it. */
gboolean build_adapts(const Build *b, AdapterMatrix matrix);
double build_frozen_saved(const Build *b, const Linear *linear);
void build_unpacked(Build *b, const Linear *linear);
void build_adapters(Build *b, const Linear *linear);

/* Products of the block's own beside `copies` matrices, each through a bottleneck of `rank` (nothing if that is 0),
 * from what these read, which is kept for them, to `out` values on this rank, which are added to theirs. */
void build_low_rank(Build *b, double rank, double copies, double out);

/* A product of two activations; both its gradients are input gradients. */
void build_product(Build *b, const char *name, double m, double n, double k, double batch);

typedef struct {
  const char *name;
  double forward_bytes, backward_bytes; /* read and written */
  double forward_kernels, backward_kernels;
  double forward_operations, backward_operations; /* of the host; 0 = kernels */
  double saved;
  double block; /* Op's */
  gboolean weights; /* the backward is a weight gradient */
  const char *kernel; /* Op's */
} Stream;

/* The same of blocks: `blocks` of them of side `side` are computed (of scores), or stand in the left factor; `inner`
 * is the other factor's width, `dense_bytes` what the dense matrices of one pass hold. */
typedef struct {
  const char *name;
  double blocks, side, inner, dense_bytes;
  gboolean scores;
} BlockProduct;

void build_block_product(Build *b, const BlockProduct *product);

/* A kernel bound by memory. */
void build_stream(Build *b, const Stream *stream);

/* A short convolution over time of so many values a token; the backward makes its output again. */
void build_convolution(Build *b, double values);

/* What replaying what is recorded of the block takes, where anything is: before what mixes tokens, or before the
 * feed-forward. */
void build_replay(Build *b, gboolean mixes);

/* Rows, on average, that only fill up the `rows` of an expert: half of what lies between two multiples, or what is
 * missing of the first. The multiples are of 16 or 32 in 8 bits, 128 in 4, 256 of grouped kernels (Megatron Core 0.18,
 * get_align_size_for_quantization() of moe_utils.py, fp8_utils.py, fp4_utils.py). 0 where products take any number, or
 * each expert gets its capacity. */
double build_filling_rows(const Build *b, double rows);

/* Each expert's rows to where they are filled up, with what they weigh where experts do that; or back. Nothing where
 * HybridEP's kernel lays them out so. */
void build_padding(Build *b, const char *name, double rows, gboolean weights);

/* Turns so many elements of queries and keys by their positions. */
void build_turned_pairs(Build *b, double elements);

/* Ops that are built between belong to a module: it makes them again, and drops
 * what they keep. */
void build_enter(Build *b, RecomputeModule module);
void build_leave(Build *b, RecomputeModule module);

/* Collectives over the tensor-parallel group; nothing if it is one rank. */
void build_forward_collective(Build *b, const char *name, Collective what, double bytes);
void build_backward_collective(Build *b, const char *name, Collective what, double bytes, Pass pass, gboolean overlaps);

/* Partial sums of the tensor-parallel ranks, added up: by an all-reduce, or scattered under sequence parallelism.
 * `bytes` are the activations'; a plan may choose another format for the wire, with casts before and behind
 * (`tensor_reduce_dtype`). */
void build_forward_sum(Build *b, const char *name, double bytes);
void build_backward_sum(Build *b, const char *name, double bytes, gboolean overlaps);

/* A collective over a group of the experts' grid; nothing over one rank. */
void build_forward_exchange(Build *b, const char *name, Collective what, double bytes, const GroupShape *group);

/* The same and, backward, its mirror image. */
void build_exchange(Build *b, const char *name, Collective what, double bytes, const GroupShape *group);

/* The context-parallel ranks' all-to-all and, backward, its like. */
void build_context_exchange(Build *b, const char *name, double bytes);

/* Where tensor-parallel ranks take up a latent that all need: gathered from their rows, or its gradient summed. */
void build_enter_latent(Build *b, double width);

/* Where tensor-parallel ranks enter a part together: under sequence parallelism
 * rows are gathered, and either way the input's gradient is summed. */
void build_entry(Build *b);

/* Where they leave it: rows are summed, or scattered and their gradient gathered. */
void build_exit(Build *b);

/* Files know norms of a block, whose gradient is added to the residual's, of queries and keys, and others, by what makes
 * their one kernel (Framework.compiled_norms). */
typedef enum { NORM_OF_BLOCK, NORM_OF_HEADS, NORM_INSIDE } NormPlace;

void build_norm(Build *b, const char *name);

/* Other norms of a kind, so many beside each other, of so many values in all: `norm` has what one kernel each reads and
 * writes, forward and backward, which more do that go step by step. */
void build_norms(Build *b, NormPlace place, int norms, double elements, Stream norm);

/* One without weights over values that the tensor-parallel ranks have a part of each, which sum a
 * number of each row. */
void build_inner_norm(Build *b, const char *name, double rows, double width);

/* Values of so many bytes times a vector of `params` weights, by `kernels` kernels of one vector each. */
void build_scales(Build *b, const char *name, double bytes, double params, int kernels);

/* Bias, dropout (if the model has it) and residual sum. */
void build_residual(Build *b);

/* Bytes of a number that kernels widen for themselves. */
#define WIDE dtype_bytes[DTYPE_FP32]

/* Rows so wide convolved over tokens in wide numbers, and added to what went in; nothing without taps. */
void build_wide_convolution(Build *b, const char *name, double rows, double width, int taps, int kernels);

/* Of a model with several streams of hidden states: made of the embedding, mixed for a part of a block (or the head, at
 * last), and given what the part makes, which of one stream is the residual sum. */
void build_fork_streams(Build *b);
void build_mix_streams(Build *b);
void build_join_streams(Build *b);
void build_residual_sum(Build *b);

/* The sum of both with scales and biases, in wide numbers; the embedding's rows by one of each, made wide. */
void build_affine_residual(Build *b);
void build_affine_embedding(Build *b);

/* Of streams that are updated in turn: before a block, behind it, and what its side gives to the others. */
void build_predict_streams(Build *b);
void build_correct_streams(Build *b);
void build_side_streams(Build *b);

/* Adds a vector of weights; a matrix outside of blocks. */
void build_params(Build *b, double params);
void build_table(Build *b, double rows, double columns);

/* Reads a row of a table of the vocabulary for each token, which ranks that divide it sum: so many bytes. */
void build_look_up(Build *b, double bytes);

/* Whether what all experts of a rank compute is one kernel a step, not one an expert: products, casts, and clamps with
 * the activation. */
gboolean build_groups(const Build *b);

static inline gboolean build_has_block(const Build *b)
{
  return b->spec->kind == LAYER_BLOCK || b->spec->kind == LAYER_MTP;
}

/* OP_CHECKPOINTED if norms of this layer are functions that are checkpointed by themselves
 * (Framework.checkpointed_norms); else 0. */
static inline guint build_checkpoints_norms(const Build *b)
{
  return build_has_block(b) && !b->spec->detached && b->passes->framework->checkpointed_norms ? OP_CHECKPOINTED : 0;
}

/* Layer builders. */
void build_embedding(Build *b);
void build_block(Build *b);
void build_head(Build *b);
void build_mtp(Build *b);

/* Values of a token that go into a layer's core on this rank, and come out of it. */
typedef struct {
  double queries, keys, values, context;
  gboolean fused; /* the core is one kernel */
} CoreRows;

/* What ranks do about parts of heads that they have gathered, `bytes` of which `queries` are queries with their gate: each
 * takes the heads that its core wants. */
void build_take_heads(Build *b, double bytes, double queries);

/* Copies before the core, and behind it. */
void build_core_entry(Build *b, const CoreRows *r);

/* Keys and values that the core reads, and ranks exchange: repeated where software does so before it. */
double build_core_keys_bytes(const Build *b, const CoreRows *r);
void build_core_exit(Build *b, const CoreRows *r);

/* Parts of a block. */
void build_convolved_queries(Build *b); /* queries, keys and values made of several tokens' */
void build_expert_queries(Build *b); /* of attention by experts: before the core, and behind it */
void build_expert_outputs(Build *b);
void build_branch(Build *b);
void build_linear_norm(Build *b);
void build_attention(Build *b);
void build_linear_attention(Build *b);
void build_channels(Build *b); /* of kinds whose heads are channels */
void build_cross_attention(Build *b);
void build_entry_embedding(Build *b);
void build_feed_forward(Build *b);

/* Of `places` that hold as many experts each, those that a token's are expected on: taken at random, of the groups that
 * the token may visit, or in turn (places.c). */
double build_places_reached(const Build *b, double places);

/* Ranks that hold a copy of the experts and are in one node. */
int build_ranks_of_place(const Build *b);

/* Nodes that a token's experts are expected on, or ranks where all are in one. */
double build_places_of_token(const Build *b);

#define DEEPEP_SMS 20 /* multiprocessors that it takes: moe_deepep_num_sms of Megatron Core (transformer_config.py) */

/* Nodes to which DeepEP's first version sends messages: 0 with other dispatchers. */
double build_other_nodes(const Build *b);

/* Messages to other nodes of one exchange by DeepEP's first version: each channel, two of its multiprocessors, sends
 * rows to each node in chunks of so many by default (deep_ep/buffer.py at 567632d, get_dispatch_config(),
 * get_combine_config()). */
double build_chunks_sent(const Build *b, double sent, gboolean combined);

typedef struct {
  const char *up, *down;
  double outer;  /* width of its input and output */
  double width;  /* on this device */
  double batch;  /* experts on this device, 1 if dense */
  double rows;   /* tokens of each */
  double saved;  /* bytes of input */
  RecomputeModule module; /* that it is; of routed experts, that of their activation */
  gboolean kept; /* as of Linear */
  gboolean inside; /* what goes around it gathers and sums over the tensor-parallel ranks */
} Mlp;

void build_mlp(Build *b, const Mlp *mlp);
void build_mlp_up(Build *b, const Mlp *mlp);   /* its two parts: up to the activation, */
void build_mlp_down(Build *b, const Mlp *mlp); /* and the last product */
void build_experts(Build *b);
void build_router_state(Build *b, double rows); /* of routers that have one: what they choose by, of so many rows */

/* Keys that fused kernels compute for each of `rows` queries, of which one sees `keys` at most: behind a causal mask the
 * first ones see fewer, w - w^2 / (2 rows) in the mean. All `keys` where each query sees as many, or where the kernel
 * is told the mask (`keys` = `rows`). */
double build_scored_keys(const Build *b, double rows, double keys);

/* Keys of `rows` queries with those that a window of `keys` hides from them, where it slides; 0 where none hides any. */
double build_whole_keys(const Build *b, double rows, double keys);

/* The core of attention, `heads` of them on this device, where a sequence is
 * divided over the context-parallel ranks; `keys_bytes` of keys and values are
 * this rank's. */
void build_context_core(Build *b, double heads, double keys_bytes);

#endif
