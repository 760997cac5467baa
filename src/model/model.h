/*
 * What is trained: a model as a list of layers, each a kind and its sizes.
 *
 * The list starts with the embedding and ends with the head, which are layers
 * like any other; alike layers share one LayerSpec, so that work on a layer is
 * derived once per distinct spec. Sizes are of the whole, unsharded model.
 *
 * A file is either ours (native) or a Hugging Face config.json, told apart by
 * content: `model_type` or `architectures` means Hugging Face. Unknown keys
 * are errors in ours and passed over in theirs; an unknown model_type is
 * refused. Parameter counts are exact and include biases and norms. README.md
 * beside this file lists the keys.
 *
 * To add a family: a row in a table of family_rows.h. To add a layer kind: its
 * parameter count in params.c and its work in op/.
 */
#ifndef TDP_MODEL_MODEL_H
#define TDP_MODEL_MODEL_H

#include "model/sparse.h"

typedef enum {
  LAYER_EMBEDDING, /* token (or patch) embedding, positions */
  LAYER_BLOCK,     /* a mixer of tokens (attention or linear attention) and a feed-forward, or one of both */
  LAYER_HEAD,      /* final norm, projection to the vocabulary (or classes), loss */
  LAYER_MTP,       /* of a multi-token prediction module: the next tokens' embedding beside the blocks' output,
                      projected to the hidden width, and a block; a head of shared weights follows */
} LayerKind;

typedef enum { NORM_LAYERNORM, NORM_RMSNORM } NormKind;
typedef enum { MLP_GELU, MLP_SWIGLU, MLP_RELU2, MLP_XIELU } MlpKind; /* 2, 3, 2, 2 matrices */
typedef enum {
  POSITIONS_NONE,
  POSITIONS_LEARNED,
  POSITIONS_ROPE,
  POSITIONS_ALIBI,
  POSITIONS_RELATIVE, /* a table of biases by distance (T5) */
} PositionKind;

/* heads = 0 means that the block has none (a block without cross-attention). */
typedef struct {
  int heads, kv_heads; /* queries; keys and values (= heads without grouping) */
  int head_dim;        /* of queries and keys; under MLA nope + rope parts */
  int v_head_dim;      /* of values */
  int q_lora_rank;     /* MLA: rank of the compressed query, 0 = not compressed */
  int kv_lora_rank;    /* MLA: rank of the compressed keys and values, 0 = no MLA */
  int rope_head_dim;   /* MLA: the part of head_dim shared by all heads in keys */
  int window;          /* tokens that a query sees, 0 = all */
  gboolean chunked;    /* those are of its own stretch of `window` tokens, not the last ones before it */
  int index_heads, index_dim, index_top; /* of an indexer that scores all keys and chooses index_top of them for a query
                                            (DeepSeek-V3.2); 0 = none */
  gboolean index_shared; /* it takes the keys that the indexer of an earlier layer chose, and has none (hy_v4) */
  int index_block;     /* the indexer scores keys for each of its heads, of which blocks of so many are chosen by their
                          best (MiniMax-M3, without MLA); 0 = it sums its heads' scores of single keys (under MLA) */
  const SparseAttention *sparse; /* blocks that are computed, NULL = all; the model's */
  int extra_params;    /* sinks, relative-position tables */
  int whole_params;    /* others, of which each tensor-parallel rank has all */
  gboolean differential; /* what half of the heads give is taken from what the others give: each attends to both halves
                            of the values, and what is left is normed without weights (DiffLlama) */
  gboolean masked;     /* a number of each key, made of its values, is added to its scores; of all, the mask_keep
                          largest are seen (Doge) */
  int mask_keep;
  gboolean qkv_bias, out_bias;
  gboolean qk_norm;    /* norm on each head's query and key, head_dim weights each */
  gboolean gated;      /* its output is multiplied by a sigmoid of as many values more that the projection makes */
  gboolean gate_of_head; /* by one value more for each head */
  gboolean gate_of_latent; /* MLA: one product of the queries' latent, normed and as it was, makes queries and gate */
  gboolean gate_bias;    /* a number of each head is added to its gate */
  gboolean qk_norm_whole; /* one norm over the queries of all heads instead, one over all keys */
  int qk_norm_vectors; /* that each of these norms has as weights: scale and bias; 0 = none */
  gboolean global_projections; /* as many matrices more as queries, keys and values have, which tokens that see all, and
                                  that all see, go through (LED); no token is such a one here */
  int rel_dim, rel_extent; /* width of what each head makes of a query for biases by distance, and distances that have
                              one (Inkling); 0 = none */
  int experts, experts_per_token; /* each makes queries for all heads of keys, and hidden values of what these give; a
                                     token visits so many, as many times kv_heads are its heads (JetMoE, Shen et al.
                                     2024, arXiv 2404.07413); 0 = none */
  int conv_each, conv_heads; /* tokens that convolutions of queries and keys see, by values and then by heads; half of a
                                token's values are made of the token before it, and weights of each head multiply normed
                                keys (Figliolia et al. 2025, arXiv 2510.04476); 0 = there are none */
  int conv;            /* tokens that a convolution of keys and of values sees, 0 = there is none */
  gboolean inner_norm; /* a norm of what the heads give, before the projection */
  gboolean unit_scales; /* weights for each value of all heads multiply queries and gates, and that norm has none (nGPT,
                           Loshchilov et al. 2024, arXiv 2410.01131) */
  gboolean keyless;    /* keys and values are those that an earlier layer made */
  gboolean key_is_value; /* one projection makes both */
  gboolean causal;
} Attention;

typedef enum {
  LINEAR_MAMBA2,      /* state-space duality (Dao and Gu 2024, arXiv 2405.21060) */
  LINEAR_GATED_DELTA, /* gated delta network (Yang et al. 2024, arXiv 2412.06464) */
  LINEAR_LIGHTNING,   /* lightning attention (Qin et al. 2024, arXiv 2401.04658) */
  LINEAR_MAMBA1,      /* selective state spaces (Gu and Dao 2023, arXiv 2312.00752): a head is one channel */
  LINEAR_KIMI_DELTA,  /* Kimi delta attention (Kimi Team 2025, arXiv 2510.26692): a decay for each element of a key */
  LINEAR_SHORT_CONV,  /* a short convolution between two gates (LFM2, arXiv 2511.23404), by channels; no state */
  LINEAR_MLSTM,       /* matrix memory of xLSTM (Beck et al. 2024, arXiv 2405.04517) */
  LINEAR_RG_LRU,      /* real-gated linear recurrent unit (De et al. 2024, arXiv 2402.19427), by channels */
  LINEAR_WKV,         /* weighted sums of values of RWKV-4 (Peng et al. 2023, arXiv 2305.13048), by channels */
} LinearKind;

/*
 * A mixer of tokens whose memory has one size whatever the length: each head keeps a matrix of `state` x head_dim that
 * decays, takes in a key times a value, and answers a query. heads = 0 means that the block has none.
 *
 * One projection makes the gate (z), values (x), keys and queries (B and C), and numbers of each head (dt; of the
 * gated delta rule two); values, keys and queries go through a short convolution over time. Mamba-1 makes keys, queries
 * and steps of the convolved values, the steps through a bottleneck of `rank`; Kimi's makes decays and gates of its
 * input, through one of `rank` each or without. linear.c has the widths.
 */
typedef struct {
  LinearKind kind;
  int heads, head_dim; /* of values */
  int groups, state;   /* of keys and queries, each shared by heads / groups heads, and the width of one */
  int conv;            /* tokens that the convolution sees, 0 = there is none */
  int blocks;          /* of the products that make gates (RG-LRU), or steps, keys and queries (Zamba); 0 = one */
  int chunk;           /* tokens that its kernels take at once, by products */
  int rank;            /* of steps (Mamba-1), of decays and gates (Kimi's; 0 = the projection makes them) */
  gboolean bias, conv_bias;
  gboolean plain;      /* no gated norm before its last projection (Falcon-H1) */
  gboolean step_norms, bare_step_norms; /* norms of steps, keys and queries (Jamba), without weights (Falcon Mamba) */
} LinearAttention;

/* Whether each channel is a head of its own, with a state of its own or none. */
gboolean linear_by_channel(LinearKind kind);

/* Widths of a linear attention: of all heads' values, of all that the projection makes, and of what is convolved. */
gint64 linear_values(const LinearAttention *linear);
gint64 linear_projected(const LinearAttention *linear);
gint64 linear_convolved(const LinearAttention *linear);

/* Weights of the products between its first projection and its last. */
gint64 linear_inner_params(const LinearAttention *linear, gint64 hidden);

/* Weights that are no matrix: of the convolution, of each head (decay, step, skip), of the gated norm. */
gint64 linear_small_params(const LinearAttention *linear);

/* Operations for a token of updating and asking the states, forward. */
double linear_state_flops(const LinearAttention *linear);

/* experts = 0 means dense, width = 0 that the block has no feed-forward. */
typedef struct {
  MlpKind kind;
  int width;             /* of the dense feed-forward, or of one expert */
  int latent;            /* width of what experts read and make, projected down before and up behind them; 0 = hidden */
  int experts;           /* routed experts */
  int experts_per_token; /* top-k, those of idle experts apart */
  int idle;              /* experts that hand on what they read, which a router knows and no weights stand for
                            (LongCat-Flash) */
  int groups;            /* of experts, of which a token visits groups_per_token only; 0 = no groups */
  int groups_per_token;
  int shared_width;      /* total width of the experts every token visits, 0 = none */
  gboolean shared_gate;  /* a hidden x 1 gate on the shared experts */
  gboolean bias;
  gboolean clamped;      /* gate and up are clamped before the activation (gpt-oss) */
  int rated;             /* shared experts that the router weighs too */
  gboolean scaled;       /* what it gives, or what the router does, is multiplied by a number that is a weight */
  gboolean sparse_gate;  /* gates below a bound that follows from their mean and deviation are zeros (Gemma 3n) */
  gboolean gated_output; /* what it gives is multiplied by a sigmoid of as many values of its input (RWKV) */
  int router_width;      /* of a bottleneck of three layers that routes (ZAYA), 0 = one product does; */
  gboolean router_carries; /* to what this reads its input in the layer before is added, times weights */
  gboolean router_skips; /* a router knows one choice more, whose weight is none */
  gboolean sum_bias;     /* a bias of what all experts give (JetMoE) */
  gboolean inner_norm;   /* a norm of what the last matrix reads */
  gboolean unit_scales;  /* weights for each value multiply gate and up, and that norm has none (nGPT) */
  gboolean router_bias;
  gboolean router_correction; /* a correction value per expert (no gradient) */
} FeedForward;

typedef struct {
  LayerKind kind;
  Attention attention, cross; /* LAYER_BLOCK */
  LinearAttention linear;     /* LAYER_BLOCK, in the place of attention */
  FeedForward ffn;            /* LAYER_BLOCK */
  int norms;                  /* of hidden width in the layer */
  gboolean branch;            /* before linear attention stand attention, which reads what enters the block beside the
                                 embedding of tokens, and a feed-forward, without residual sums; a product of what they
                                 give is added to what linear attention reads (Zamba, Glorioso et al. 2024,
                                 arXiv 2405.16712) */
  int qkv_rank, gate_rank;    /* of products of the block's own beside those of queries, keys and values, and of gate
                                 and up, which are another's (Zamba 2); 0 = none */
  int side;                   /* width of the layer's own embedding of the tokens, which is gated and added (Gemma 4);
                                 0 = none */
  int adapter;                /* width of a bottleneck behind the feed-forward, one of Model.languages for each sequence
                                 (X-MOD); 0 = none */
  int global_tokens;          /* that go along with each sequence, see all of it and are seen by all, behind a norm of
                                 their own (PEGASUS-X); 0 = none */
  int prompts;                /* of Model, in the embedding and blocks */
  int conv;                   /* tokens that a convolution of what attention gives, and of what the feed-forward gives,
                                 sees (Inkling); 0 = there is none */
  int laurel;                 /* rank of a product past attention that is normed and added to what it gives (Gemma 3n);
                                 0 = none */
  int gated_norms;            /* of the norms before attention and feed-forward, the first ones, which a sigmoid of a
                                 bottleneck of Model.norm_rank multiplies */
  int shift_mixes;            /* vectors of hidden width by which inputs of products are mixed with those of the token
                                 before (RWKV) */
  int residual_scales;        /* vectors of hidden width that residual sums multiply */
  gboolean doubled;           /* one of the two blocks that a layer of its class is; what experts of the first give is
                                 added behind the second there (LongCat-Flash) */
  gboolean parallel;          /* attention and feed-forward read the same input */
  gboolean reused;            /* its weights, of a branch those of attention and feed-forward alone, are those of an
                                 earlier block, which holds and counts them */
  gboolean detached;          /* it goes forward alone: no gradient passes it */
  gboolean joined;            /* what an earlier block gave is added to its input */
  gboolean again;             /* a head that shares the weights of the model's, but the norm */
  gboolean entry;             /* the decoder's first block, of an encoder-decoder: looks its tokens up in the first
                                 layer's table before it starts */
  gboolean encoder;           /* block or embedding of the encoder of an encoder-decoder */
  gint64 params;              /* exact, of one such layer, without tied_params */
  gint64 active_params;       /* those of params that one token uses */
  gint64 expert_params;       /* those of params in routed experts, all of them */
  gint64 matrix_params;       /* weights multiplied with each token, tied ones included */
  gint64 tied_params;         /* used here, held and counted by the first layer (of reused blocks by an earlier one): a
                                 device with this layer but not that one holds a copy */
} LayerSpec;

/* How blocks read several streams of hidden states, and write them. */
typedef enum {
  STREAMS_HYPER, /* each half of a block reads a mixture, and all take what it gives (arXiv 2409.19606) */
  STREAMS_ALTUP, /* all are predicted from each other, one goes through the block, and the others are corrected by what
                    it became (alternating updates, Baykal et al. 2023, arXiv 2301.13310) */
} StreamKind;

/* A table of what is looked up beside tokens: their sounds, their shapes (RoCBERT, Su et al. 2022). */
typedef struct {
  int rows, width;
} TokenTable;

/* How rotary positions are stretched for texts longer than a model was first trained on. Costs nothing but what frameworks
 * do otherwise where cosines are scaled. */
typedef struct {
  const char *kind; /* as Hugging Face files name it: "llama3", "yarn"; interned, NULL = they are not */
  double factor;    /* of the longest wavelengths; 0 = not said, as below */
  double low, high; /* "llama3": shares of `tokens` beyond and below which wavelengths get all and nothing of it */
  double tokens;    /* of a text before */
  double fast, slow; /* "yarn": turns within `tokens` from which on wavelengths get nothing, up to which all */
  double mscale, mscale_all; /* "yarn": shares of the logarithm of `factor` by which cosines and scores are scaled */
  double attention; /* "yarn": what cosines are scaled by; 0 = from the others */
  gboolean exact;   /* "yarn": wavelengths' bounds are not rounded to whole ones */
} RopeScaling;

/* What cosines and sines of rotary positions are scaled by (YaRN, arXiv 2309.00071, section 3.4, as transformers'
 * _compute_yarn_parameters has it); else 1. */
double rope_scale(const RopeScaling *scaling);

typedef struct {
  char *name;
  char *family; /* "gpt" for native files, else the model_type */
  int hidden;
  int blocks;   /* transformer blocks, all streams */
  int vocab;    /* rows of the embedding as published, not padded; 0 = none (ViT) */
  int encoder_vocab; /* rows of the encoder's embedding where the decoder has one of its own, of `vocab` rows, in its
                        first block, which the head may share; 0 = both look up in one */
  int classes;  /* outputs of the head if not the vocabulary */
  int embed_dim; /* width of the embedding, = hidden unless projected */
  gboolean narrow_embedding; /* positions, types and norm of the embedding are as narrow, and what is before the logits
                                (ELECTRA); its projection has a bias */
  int head_width; /* of what logits are made of, = embed_dim but for RemBERT */
  int seq;      /* default sequence length: the file's seq, else the most positions */
  gboolean seq_longest; /* which is the most positions, as the file says no other */
  int position_rows; /* rows of the learned position table, 0 = none */
  int entry_rows;      /* of the decoder's own, if others than of the encoder's */
  int global_rows;     /* of a table of tokens that go along with each sequence */
  TokenTable beside[2]; /* rows = 0: there is none */
  gboolean beside_joined; /* rows of these are not added to tokens' but joined, and projected to hidden, of which */
  int beside_read;        /* so many values are read: tables may be held that are not */
  int prompts;         /* learned tokens before each sequence, which all see, in all blocks but not in the head
                          (CPM-Ant) */
  int prompt_rows;     /* of their table */
  int position_offset; /* of these, before that of a sequence's first token (OPT, BART, RoBERTa) */
  int streams;     /* of hidden states that go from block to block */
  StreamKind stream_kind;
  int rotary_rows; /* of a table of sines as wide as a head, for rotary positions (RoFormer); 0 = none */
  int patch, channels; /* ViT */
  int global_batch_size; /* default batch in sequences, 0 = not given */
  NormKind norm;
  gboolean norm_bias;
  gboolean bare_norms; /* norms have no weights (OLMo) */
  int norm_rank;       /* of gated norms, 0 = none is */
  PositionKind positions;
  gboolean tied_embeddings;
  gboolean embedding_norm; /* a norm behind the embedding (BLOOM) */
  gboolean dropout;        /* trained with dropout: masks are kept */
  gboolean head_bias;
  gboolean logit_scales;   /* weights for each token multiply the logits (nGPT) */
  gboolean affine_residuals; /* what goes past a half of a block, and what that gives, have scales and biases each; the
                                former is in wide numbers (ZAYA) */
  int router_state;        /* width of what routers hand on from block to block */
  gboolean initial_state;  /* a vector of hidden width from which layers that come again start (HRM) */
  gboolean output_norms;   /* norms of what attention and feed-forward give, not of what they read (OLMo 2) */
  int nope_interval;       /* every n-th block turns no positions, 0 = all do */
  gboolean post_norm;      /* norms behind the residual sums (BERT), not before attention and feed-forward */
  int languages;           /* that have adapters in each layer, one for each sequence */
  int token_types;         /* rows of the table of token types, 0 = none */
  int side, side_vocab;    /* width of each layer's own embedding of the tokens, 0 = none, and rows of their table */
  gboolean mlm_head;       /* a dense layer, its activation and a norm before the logits (BERT) */
  gboolean mlm_bias;       /* that layer has a bias */
  gboolean pooler;         /* a dense layer and two classes on the first token of a sequence (BERT's next sentence) */
  gboolean bare_pooler;    /* without the classes (BigBird) */
  double rope_theta;       /* base of the rotary positions' wavelengths, 0 = not said */
  RopeScaling rope_scaling;
  double rotary_share;     /* of a head's width, that positions turn; 1 = all */
  double norm_epsilon;     /* added to variances, 0 = not said */
  double balance_loss;     /* coefficient of the routers' balancing loss, 0 = none or not said */
  gboolean balance_each;   /* that loss is of each sequence, not of all tokens */
  double routed_scale;     /* by which weights of a token's experts are multiplied, 0 = not said */
  double predicted;        /* share of tokens for which the head makes logits */
  SparseAttention *sparse; /* of the blocks' attention to their own stream, beside a decoder of the encoder's; owned,
                              NULL = dense */
  LayerSpec *specs;   /* distinct layers */
  int n_specs;
  int *layers;        /* index into specs for each layer, embedding first, head last */
  int mtp;            /* multi-token prediction modules (DeepSeek-V3, arXiv 2412.19437, section 2.2) */
  int encoder_blocks; /* of the blocks, the first ones: those of an encoder-decoder's encoder */
  int n_layers;       /* blocks + 2; + 2 for each such module, before the head */
  gint64 params;        /* exact total, tied weights once */
  gint64 active_params; /* used by one token; = params but for MoE */
  char digest[JSON_DIGEST_CHARS]; /* of its file */
} Model;

/* The kinds of Hugging Face's models that are read, as `model_type` names them; owned by the caller (g_strfreev). */
char **model_kinds(void);

/* Reads a native or Hugging Face file, or the config.json of a directory
 * ("-" = stdin). Infinity and NaN, which Python writes, count as null in
 * theirs. Errors: TDP_ERROR_INPUT. */
Model *model_load(const char *path, GError **error);

/* As model_load, from text; `name` stands for the file in messages. */
Model *model_parse(const char *text, gsize length, const char *name, GError **error);
void model_free(Model *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Model, model_free)

/* The spec of layer i. */
static inline const LayerSpec *model_layer(const Model *m, int i)
{
  return &m->specs[m->layers[i]];
}

/* Tokens of the longest sequence for which the model has a table of positions; 0 = it has none. */
static inline int model_positions(const Model *m)
{
  return m->position_rows ? m->position_rows - m->position_offset : m->rotary_rows;
}

/* Bytes of a token that go from block to block, where a value has `value_bytes` unless they are wide. */
static inline double model_stream_bytes(const Model *m, double value_bytes)
{
  double wide = MAX(sizeof(float), value_bytes);

  return (double)m->streams * m->hidden * (m->affine_residuals ? wide : value_bytes) +
         value_bytes * m->router_state;
}

/* Rows of the table of positions that the decoder of an encoder-decoder has. */
static inline int model_entry_rows(const Model *m)
{
  return m->entry_rows ? m->entry_rows : m->position_rows;
}

/* Matrices of a feed-forward: 2, or 3 if gated. */
int mlp_matrices(MlpKind kind);

/* Weights of an activation itself: the two slopes of xIELU (Huang and Schlag 2024, arXiv 2411.13010). */
static inline int mlp_activation_params(MlpKind kind)
{
  return kind == MLP_XIELU ? 2 : 0;
}

/* Vectors of weights of a norm: scale and bias. */
static inline int norm_vectors(const Model *m)
{
  return m->bare_norms ? 0 : m->norm_bias ? 2 : 1;
}

/* Values of keys and values that the projection makes. */
gint64 attention_made_keys(const Attention *attention);

/* Values that the projection makes for a gate; weights of the norms of queries and keys. */
gint64 attention_gate(const Attention *attention);
gint64 attention_norm_params(const Attention *attention);

/*
 * Model FLOPs of one sequence of `seq` tokens, forward and backward (backward
 * counts twice): 2 per multiply-add of every matrix and of attention over the
 * whole square (a causal mask is not deducted), as Narayanan et al. 2021
 * (arXiv 2104.04473, section 5.1): 72 L s h^2 (1 + s/6h + V/12hL) for GPT.
 * A sliding window limits the square. Recomputation is not counted.
 */
double model_flops(const Model *model, int seq);

/* The same of an encoder-decoder whose decoder has another length. */
double model_flops_of_both(const Model *model, int seq, int decoder_seq);

/* Of these, products with weights: a third of them each makes outputs, gradients of inputs and of weights. */
double model_matrix_flops(const Model *model, int seq, int decoder_seq);

/* That less the half of the square which a causal mask hides, in layers that have one and attend to all before or by
 * chunks, and of an indexer's scores: FLOPs that kernels cannot leave out. */
double model_flops_unmasked(const Model *model, int seq, int decoder_seq);

/* Whether any layer has experts; the linear attention of the first layer that has one, else NULL. */
gboolean model_has_experts(const Model *model);
const LinearAttention *model_linear(const Model *model);

/* Whether a block mixes tokens; one that does not has a feed-forward. */
static inline gboolean spec_mixes(const LayerSpec *spec)
{
  return spec->attention.heads > 0 || spec->linear.heads > 0;
}

/* Whether any block uses the weights of another one. */
gboolean model_shares_weights(const Model *model);

/* Whether any block is a mixer or a feed-forward alone. */
gboolean model_is_patterned(const Model *model);

/* Keys that an indexer leaves a query of a sequence; 0 = all, as there is none or it chooses all. */
static inline int attention_chosen(const Attention *a, int seq)
{
  return a->index_heads && a->index_top < seq ? a->index_top : 0;
}

/* Key of a mechanism that blocks of transformers' class of the family alone have, which no other framework is told of
 * and no adapter is counted for; NULL if there is none. */
const char *model_own_mechanism(const Model *m);

/* What a layer has that reads tokens of other parts of a sequence, beside keys and values of its attention and states
 * of its linear attention: no exchange of it is known where ranks have a part each. NULL if there is nothing. */
const char *spec_across_parts(const LayerSpec *spec);

/* The first block with attention, NULL if none has. */
const LayerSpec *model_attending(const Model *model);

#endif
