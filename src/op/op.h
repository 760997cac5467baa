/*
 * The work of one layer on one device for one micro-batch: what, not how long.
 *
 * A layer becomes a list of forward ops and a list of backward ops in the
 * order in which they run. Each op states its sizes as this device sees them
 * (already divided by tensor parallelism), the bytes that it keeps for the
 * backward pass, and its FLOPs; communication carries its group's shape, so
 * that cost never sees a rank. Backward ops are marked as input gradient or
 * weight gradient, so that a split backward takes its part of the same list.
 *
 * Between a split backward's passes stay the inputs of products with weights
 * and the gradients of their outputs: 32 s b h of a GPT block's 34 s b h (Qi et
 * al. 2023, arXiv 2401.10241, table 1).
 *
 * Saved bytes reproduce Korthikanti et al. 2022 (arXiv 2205.05198) for GPT and
 * the derivation in docs/memory.md for LLaMA-like blocks.
 *
 * Under context parallelism a device has seq/cp of each sequence's tokens, two
 * chunks of it as far from the middle, so that a causal mask leaves every rank
 * the same work (context.c: what ranks exchange, and when).
 *
 * Experts on other ranks: a layer's tokens leave for them and come back, as
 * experts.c says; how many the busiest rank sees is PassLayout.expert_tokens, and what a
 * rank sends expert_copies.
 *
 * To add a layer kind: a file with a LayerWork builder and a line in the table
 * of op.c.
 */
#ifndef TDP_OP_OP_H
#define TDP_OP_OP_H

#include "hardware/collective.h"
#include "layout/layout.h"

#define OP_CHECKPOINTED (1u << MODULE_COUNT)

typedef enum { OP_MATMUL, OP_ATTENTION, OP_MEMORY, OP_COLLECTIVE, OP_KIND_COUNT } OpKind;

/* Where an exchange takes tokens' rows; other collectives none. */
typedef enum { WAY_NONE, WAY_THERE, WAY_BACK } Way;

typedef struct {
  const char *name; /* static: "qkv", "attention", "norm" */
  OpKind kind;
  Pass pass;        /* PASS_FORWARD, PASS_INPUT or PASS_WEIGHT */
  guint redone, dropped; /* bits of modules that make it again under selective recompute; that drop what it keeps. The
                            first bit of `redone` behind them, OP_CHECKPOINTED, is set in functions that layers which
                            keep the rest checkpoint by themselves: Framework.checkpointed_norms */
  gboolean async;   /* a collective that later ops of the pass need not wait for */
  gboolean overlaps; /* likewise under a plan that overlaps tensor-parallel communication: op_is_async() */
  gboolean joins;   /* waits for the asynchronous collectives before it */
  guint part;       /* modules of partial CUDA graphs that record it, any of them: op_is_recorded() */
  gboolean counted;  /* issued when the host has read back from the device how many rows it works on */
  union {
    struct {
      double m, n, k, batch;
      DType dtype;
      gboolean activations;
      double accumulate_bytes;
      gboolean promoted;   /* of 8 bits, and partial sums are added in 32 (op/fp8.h) */
      double loops;        /* calls of the library for the experts of a rank, where they are not one kernel */
      double block, bytes; /* of block-sparse products: cost/kernel.h */
    } matmul;
    struct {
      double batch, heads, q_len, kv_len;
      double whole_len; /* keys with those that a window hides; 0 = it hides none (cost/kernel.h) */
      int head_dim, v_head_dim;
      gboolean causal, dropout;
      DType dtype;
    } attention;
    struct {
      double bytes, kernels, operations; /* operations: of the host */
      const char *kernel;                /* that files know the rate of; NULL = the op's name */
    } memory;
    struct {
      Collective what;
      double bytes;
      GroupShape group;
      Axis axis;
      Way way;
      double rows;         /* that kernels of DeepEP on `sms` multiprocessors send; 0 of other collectives */
      double row_bytes, sms;
      gboolean hybrid;     /* by HybridEP */
      double chunks;       /* messages of several rows that DeepEP's first version sends to other nodes */
      double quiets;       /* times that its kernels ask the thread that posts for them whether all is done */
      double copied;       /* of its calls: rows that they copy beside what the kernels send, as a share of `bytes` */
    } collective;
  };
  double spare;       /* share of its rows beyond what the busiest rank's experts would have of an even share, or unpadded */
  double flops;       /* of matrix units */
  double saved_bytes; /* kept from this forward op for the backward pass, */
  double block_bytes; /* of this the largest tensor, where it is several; else 0 */
} Op;

/* What files call the kernel of an op that memory bounds. */
static inline const char *op_kernel(const Op *op)
{
  return op->memory.kernel ? op->memory.kernel : op->name;
}

/* Whether the host launches it with others as one graph: works are the same whatever is made again. */
static inline gboolean op_is_recorded(const Op *op, const PassLayout *passes)
{
  return passes->graph == GRAPH_FULL || (passes->recorded && op->part & pass_recorded(passes));
}

/* Works are the same whether or not tensor-parallel communication overlaps. */
static inline gboolean op_is_async(const Op *op, const PassLayout *passes)
{
  return op->async || (op->overlaps && passes->overlap_tensor);
}

/* How a weight matrix is divided over the tensor-parallel ranks. */
typedef enum { LINEAR_COLUMN, LINEAR_ROW, LINEAR_REPLICATED } LinearSplit;

/* Equal matrices of a layer as this device holds them: inputs x outputs. */
typedef struct {
  double rows, columns, count;
  LinearSplit split;
  gboolean experts; /* that are apart */
} OpMatrix;

/* Weights that a device keeps and nobody trains: what an adapter leaves. */
typedef struct {
  double params, bytes; /* bytes: as they are kept, and as ranks gather them */
} Frozen;

static inline Frozen frozen_sum(Frozen a, Frozen b)
{
  return (Frozen) { a.params + b.params, a.bytes + b.bytes };
}

typedef struct {
  GArray *forward;  /* Op */
  GArray *backward; /* Op, in order; without recomputation */
  double params;    /* weights on this device that are trained, but expert_params */
  double expert_params; /* those of experts that are apart (PassLayout.experts_apart): other ranks hold the same */
  double narrow[2]; /* [experts]: of them, those of products in 8 or 4 bits */
  Frozen frozen[2]; /* [experts]: beside them, weights that are not */
  double state_bytes[2]; /* [experts]: of the optimizer, beyond optimizer_param_bytes of each parameter */
  GArray *matrices; /* OpMatrix: that Muon orthogonalises; NULL under another optimizer */
  double largest;   /* of them, in the largest tensor */
  double whole;     /* of them, in tensors below the plan's persistence threshold */
  double saved_bytes;      /* kept for backward under the plan's recompute */
  double block_bytes;      /* of that, the largest tensor, taken to be all that one op keeps; 0 where no step copies
                              gradients one by one */
  double recomputed_bytes; /* alive only while the layer's backward runs */
  double deferred_bytes;   /* kept from an input-gradient pass for the weight-gradient pass */
  double gradient_bytes;   /* of gradients of what its products make */
  double transient_bytes;  /* other scratch at the worst moment of the layer */
  double split_bytes;      /* beyond it where a pass makes input gradients alone, and keeps what weights' gradients read */
  double table_bytes;      /* of a table's whole gradient beside the accumulated one, when the rest of its pass is gone */
  double placeholder_bytes; /* of gradients (Framework.placeholders), one of each shape, which the device keeps */
  double forward_bytes;    /* of tdp-run, whose transient_bytes are a backward's: a forward's; else 0 */
  int recompute_end;        /* forward ops from here on are not made again where recomputation stops early */
  Recompute recompute;      /* the plan's for blocks, none for other layers */
} LayerWork;

/*
 * Operations that the host issues for an op in PyTorch, of about the cost of a torch.nn.Linear: a kernel bound by
 * memory is one; a product of a framework's layers as many as that says, in 8 or 4 bits with the casts of its operands,
 * which are none of their own; a grouped product one for each expert besides (a cuBLAS call each, with its
 * tensors: cublaslt_gemm.cu's nvte_multi_tensor_gemm), and what op/narrow.h says of the casts of its experts; fused
 * attention 10 and a collective 4, counted in Megatron Core 0.17 (dot_product_attention.py, mappings.py); the router and
 * what prepares the exchange as op/experts.c says.
 */
double op_operations(const Op *op, const Framework *framework);

/* Share of a forward op's work that a backward does again. */
double op_recompute_share(const Op *op, const LayerWork *work, const PassLayout *passes);

/* Each op that a pass of the layer runs, in order, with the share of it that runs: of backward passes, what is made
 * again comes first (but for that of weight gradients alone). */
void layer_work_pass(const LayerWork *work, const PassLayout *passes, Pass pass,
                     void (*run)(gpointer data, const Op *op, double share), gpointer data);

/* The work of a layer of this spec. Cannot fail after plan_check. */
void layer_work_init(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes,
                     const Cluster *cluster);
void layer_work_clear(LayerWork *work);

/* The same in the room of a work of any layer and layout, which is given up. */
void layer_work_renew(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes,
                      const Cluster *cluster);

/* Makes it the work under another layout, one that differs from its own in recomputation only. */
void layer_work_recompute(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes);

/* Tokens of a micro-batch on a device, before sequence parallelism; of an encoder-decoder, the decoder's. */
double op_tokens(const PassLayout *passes);

/* Traffic for a gradient that is reduced in another format than it is kept in: there and back. */
double op_reduce_cast_bytes(const StateLayout *states);

/* Bytes of so many weights, `narrow` of them of products in 8 or 4 bits, as they are kept, and when ranks gather them;
 * traffic for a narrow one when a step ends, the optimizer's aside. */
double op_kept_bytes(const StateLayout *states, double params, double narrow);
double op_gathered_bytes(const StateLayout *states, double params, double narrow);
double op_weight_cast_bytes(const StateLayout *states, const Device *device);

/* Of a parameter in a checkpoint: its weight and what the optimizer keeps, each once; where a main copy is the only
 * weight that devices keep (FSDP), that. */
double op_checkpoint_bytes(const StateLayout *states);

/* Traffic for a parameter of the optimizer's step: the framework's of Adam, with each byte of state more or less
 * read and written once, and each of the accumulated gradient read by the norm and the step and cleared; in fp16
 * gradients are unscaled and looked through for overflow besides. */
double op_step_traffic(const StateLayout *states);

/* Beside it, for each parameter of the rank's layers: gradients that are cleared and not the rank's own. */
double op_rest_traffic(const StateLayout *states);

/* Beside it, for a parameter that the rank accumulates gradients of: what looks through and scales all of them
 * before they are reduced. */
double op_gradient_traffic(const StateLayout *states);

/* Bytes for a parameter of 16-bit gradients that a backward leaves until they
 * are added to the accumulated ones. */
double op_gradient_copy_bytes(const StateLayout *states);

/* Of these, what is gone once they are added, before the next forward (`bf16_gradient_copy_dropped`): it is no part of
 * op_states, but of what a backward holds when it ends. DeepSpeed's BF16_Optimizer drops them as the next backward
 * begins (clear_lp_grads), so forwards have them beside them. */
double op_dropped_copy_bytes(const StateLayout *states);

/* Bytes that a device keeps for a parameter of its layers, as ZeRO divides
 * them and offloading takes them away. Tensors below the plan's
 * persistence threshold keep whole weights instead. A weight of products in 8 or 4 bits holds op_narrow_states more:
 * its copies in these, less what it does not keep in 16. */
typedef struct {
  double weights, gradients, optimizer;
} StateBytes;

StateBytes op_states(const StateLayout *states);
double op_narrow_states(const StateLayout *states, const Device *device);

/* What a device holds from a step's start to its end of so many parameters that are trained, `narrow` of them of products
 * in 8 or 4 bits, and of those that are frozen: their states, what the optimizer keeps
 * beyond optimizer_param_bytes of each (`extra_bytes`, LayerWork.state_bytes, divided as its states are), and buckets
 * of their gradients. The one model of it, of which programs, bounds of memory and splits of layers are made. */
typedef struct {
  StateBytes states;
  double bucket_bytes;
} HeldBytes;

HeldBytes op_held(const StateLayout *states, const Device *device, double params, double narrow, Frozen frozen,
                  double extra_bytes);
double held_state_bytes(const HeldBytes *held); /* all but the buckets */

/* Parameters of a bucket of gradients, at least. */
double op_bucket_params(const StateLayout *states);

/* Context, libraries, communicators and recorded graphs of a device; communication buckets of
 * a device with that many parameters. */
double op_overhead_bytes(const Layout *layout);
int op_layer_groups(const Layout *layout); /* communicators of a device but the pipeline's */
double op_bucket_bytes(const StateLayout *states, double params);

/*
 * What the allocator keeps for the temporaries of a step, of a device with that
 * many parameters, `largest` of them in one tensor: `step_bytes` for a parameter
 * of its partition, or the copies that a step in fp16 makes under ZeRO
 * (`fp16_step_copies`). They are larger than the blocks that passes leave free,
 * so their memory comes from the driver and stays with the allocator. In
 * DeepSpeed's stage_1_and_2.py (v0.5 to 0.7) these are, one after the other: an
 * fp32 copy of each gradient of the partition to look for overflow, an fp64
 * copy for its norm, the flattened partition, and that in fp32.
 */
double op_step_bytes(const StateLayout *states, double params, double largest);

/*
 * What the step of a device with that many parameters, [experts], holds at its worst moment beyond states and buckets:
 * copies of gradients (`step_gradients`) that are there when no pass runs. Megatron-LM's are 4 bytes for a parameter of
 * the partition. DeepSpeed without ZeRO lists fp32 copies of a group and flattens them, 4 + 4; ZeRO flattens what it
 * keeps of the partition and copies that, of ZeRO-3 a sub-group at a time, one group after the other; buckets of
 * gradients are free by then, and so are gradients that ZeRO-1 leaves to other ranks. Nothing where op_step_bytes
 * has the copies of a step in fp16.
 */
double op_step_copies(const StateLayout states[2], const double params[2]);

/*
 * Of the copies that a step makes tensor by tensor, what the driver must give: those of so many parameters [experts],
 * each larger than any block that a layer's passes leave free, but for `left` bytes of larger blocks. The allocator
 * keeps them, so they stand beside all that passes hold, until memory runs out. Where ranks divide the optimizer, copies
 * are pieces of buckets and find room; so it may be of the experts, or of all but these.
 */
double op_step_taken(const StateLayout states[2], const double params[2], double left);

/*
 * What stands beside updated weights of so many bytes while ranks gather them (`updated_lists`), where the optimizer is
 * divided: the rank's part as one flat tensor, a flat tensor of each rank's part, which torch.distributed.all_gather
 * takes as a list, and one of all ranks' parts, into which PyTorch gathers (ProcessGroupNCCL.cpp, newLikeFlat). And what
 * of it the driver must give beside all that passes hold: the one of all ranks' parts is no block of a pass; the others
 * find room where a part is at most `block`, the largest tensor that forwards keep. `left` bytes of larger blocks hold
 * the rest.
 */
double op_updated_copies(const StateLayout *states, double bytes);
double op_updated_taken(const StateLayout *states, double bytes, double block, double left);

/* Rows of the embedding after padding, whole model (Megatron pads to a multiple
 * of vocab_multiple x tp). */
int op_vocab(const Model *model, const PassLayout *passes);

/* The same of the first layer's table, which may be that of an encoder alone. */
int op_embedding_rows(const Model *model, const PassLayout *passes);

/* Gradients of a tensor-parallel rank's part of the embedding's table, on the wire: all that it holds of them behind
 * their reduction, so only its shard where ZeRO-2 leaves no more. */
double op_tied_bytes(const Model *model, const Layout *layout);

/* Bytes that a device sends to the next stage for one micro-batch; of an encoder-decoder the least, the encoder's
 * output. */
double op_boundary_bytes(const Model *model, const PassLayout *passes);

/* The same before a layer: between encoder stages tokens that go along with sequences travel, too; between decoder
 * stages the encoder's output with the decoder's, and back its gradient so far (Megatron-LM's T5). */
double op_boundary_bytes_at(const Model *model, const PassLayout *passes, int layer);

/* The encoder's output for one micro-batch, which stages behind the decoder's first one receive and keep; 0 without
 * one. */
double op_encoder_bytes(const Model *model, const PassLayout *passes);

#endif
