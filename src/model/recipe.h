/*
 * What both forms of a model file are read into, and what the list of layers
 * is built from. Private to model/.
 *
 * A number of 0 means "not given" unless said otherwise: recipe_settle fills
 * it or names the key that is missing. Facts of a family that stand in no file
 * are fields like the others, set from the family's defaults.
 */
#ifndef TDP_MODEL_RECIPE_H
#define TDP_MODEL_RECIPE_H

#include "base/json.h"
#include "model/model.h"

/* Bounds of inputs: no product of sizes of one layer leaves gint64, and none of
 * heads with a head's width leaves int. */
#define MAX_HIDDEN 1048576
#define MAX_LAYERS 100000
#define MAX_HEADS 16384
#define MAX_HEAD_DIM 16384
#define MAX_FFN 16777216
#define MIN_VOCAB 2 /* of one token nothing is predicted */
#define MAX_VOCAB 100000000
#define MAX_SEQ 1000000000
#define MAX_EXPERTS 65536
#define MAX_IMAGE 32768
#define MAX_CHANNELS 4096
#define MAX_CONV 4096

/* What a layer is made of, as bits. */
typedef enum {
  PART_ATTENTION = 1,
  PART_LINEAR = 2,  /* linear attention */
  PART_DENSE = 4,
  PART_EXPERTS = 8,
  PART_FEED = 16,   /* one of the last two, by the numbers of dense and sparse layers */
} LayerPart;

/* Where a layer has the keys from that are chosen for its queries. */
typedef enum { INDEX_NONE, INDEX_OWN, INDEX_SHARED } IndexKind;

/* One time that tokens go through a layer; the fields as of LayerSpec. */
typedef struct {
  int layer;
  gboolean reused, detached, joined;
  int norms; /* more than its parts have */
} BlockUse;

/* How a family's tokens go through layers again. */
typedef enum {
  LOOPS_NONE,
  LOOPS_SECTION, /* through the layers between the first and the last ones (Dory) */
  LOOPS_CYCLES,  /* through two stacks in turn (HRM, Wang et al. 2025, arXiv 2506.21734) */
} LoopKind;

#define PART_MIXERS (PART_ATTENTION | PART_LINEAR)
#define PART_FEEDS (PART_DENSE | PART_EXPERTS | PART_FEED)

typedef struct {
  char *name;        /* owned */
  const char *family; /* static */
  int hidden, layers; /* layers of the decoder, or of the only stack */
  int encoder_layers, encoder_heads, encoder_ffn; /* the last two 0 = as the decoder's */
  int heads, kv_heads, head_dim;
  int ffn, vocab, classes;
  int embed_dim;      /* width of the embedding if projected */
  gboolean narrow_embedding;
  int head_width;     /* of what logits are made of, if another than the embedding's */
  gboolean rotary_table; /* files hold sines for rotary positions */
  int seq;            /* sequence length asked for by the file */
  gboolean seq_longest; /* it asks for none, so that it is the most positions */
  int positions;      /* the most positions */
  int longest;        /* of Kimi Linear's kin; of others what a tokenizer takes */
  int extra_rows;     /* of the position table, beyond positions */
  int first_position; /* row of `positions` that a sequence's first token has (RoBERTa: behind its padding) */
  int entry_positions; /* of the decoder, if others than of the encoder */
  int global_tokens;  /* as of model.h, of the encoder's blocks */
  gboolean global_projections; /* likewise */
  gboolean has_beside; /* a family with tables beside tokens, as of model.h: */
  TokenTable beside[2];
  gboolean beside_joined;
  int beside_read;
  int segments;       /* between which, and inside of which by buckets, attention has biases, of a family with */
  int prompts, prompt_rows; /* as of model.h; the second by kinds of them, times the first */
  int adapter_reduction; /* of hidden to the width of an adapter; 0 = none */
  int languages;      /* of model.h */
  int global_batch_size;

  int q_lora_rank, kv_lora_rank, nope_dim, rope_dim, v_head_dim; /* MLA */

  int index_heads, index_dim, index_top; /* of an indexer */
  int index_block, index_blocks; /* of keys, and how many of them it chooses, of families that choose blocks */
  const char *index_type; /* layers that their file calls so have one, others none; NULL = all have */
  gboolean index_sharing; /* a family whose layers may share one */
  guint8 *indexing;       /* IndexKind of each layer; owned, NULL = all have their own */
  gboolean latent_windows; /* a family whose layers with a window have sizes of latent attention of their own: */
  struct {
    int heads, kv_heads, head_dim, q_lora_rank, kv_lora_rank, nope_dim, rope_dim, v_head_dim;
  } of_window;
  gboolean rope_key_norm; /* a norm of the part of keys that positions turn */
  int streams;            /* of hidden states; 0 = one */
  StreamKind stream_kind;
  int rel_dim, rel_extent, conv; /* as of model.h; layers with a window have as many distances */
  int laurel;             /* as of model.h */
  guint8 *sparse_gates;   /* per layer; owned, NULL = none */
  gboolean listed_ffn;    /* a family whose file may list a width for each layer, which are the same */

  int experts, experts_per_token, expert_ffn;
  int groups, groups_per_token; /* of experts */
  int shared_ffn, shared_experts; /* width in total, or experts of expert_ffn each */
  int idle;           /* experts that do nothing */
  gboolean doubled;   /* a family each of whose layers is two blocks, the first with experts beside its feed-forward */
  int first_dense;    /* leading dense layers */
  int sparse_step;    /* layer i is sparse if (i + 1) % step = 0 */
  int sparse_freq;    /* layer i is sparse if i % freq = 0 */
  guint8 *dense;      /* per layer, TRUE = never sparse; owned, NULL = none is */
  gboolean needs_experts; /* a family that is never dense throughout */

  LoopKind loops;
  BlockUse *uses;     /* blocks in the order of running; owned, NULL = each layer once */
  int n_uses;
  gboolean branched;  /* a family some of whose layers have a branch, which so many blocks stand for in turn: */
  int branches;
  int branch_rank;    /* of products of a layer's own beside a branch's, of queries, keys and values too: */
  gboolean branch_qkv;
  gboolean unit_sphere; /* a family whose states all have length 1, with the weights that scale them (nGPT) */

  int latent;         /* width that experts read and make; 0 = hidden */

  guint8 *parts;      /* LayerParts of each layer of the only stack; owned, NULL = attention and feed-forward in all */
  gboolean single;    /* a family whose layers are one part each */
  int attention_every; /* every n-th layer has attention, the others linear attention */
  gboolean has_linear; /* a family whose files may have linear attention */
  LinearAttention linear;
  int linear_expand;  /* width of its values over hidden, where its heads are not given */
  double key_factor, value_factor; /* widths of keys and values over hidden (xLSTM) */
  int shift_mixes;    /* as of model.h */
  gboolean gated_output;
  gboolean linear_normed; /* of a family whose state spaces may have no norm */
  int attention_offset, expert_every, expert_offset; /* remainders of layers that have them, and in how many */
  int linear_width;   /* of all its values */
  gboolean ffn_adjusted; /* two thirds of the feed-forward's width, in multiples of ffn_multiple (LFM2) */
  int ffn_multiple;
  double ffn_multiplier;

  int mtp;            /* multi-token prediction modules */
  guint mtp_parts;    /* of each; 0 = as the last layer */

  int window;         /* tokens */
  int window_kv_heads; /* key-value heads of layers with it, if others than of all */
  int full_head_dim, full_kv_heads; /* of layers without it, likewise */
  int global_kv_heads; /* the latter where one projection makes keys and values */
  gboolean full_key_is_value;
  int keyless;        /* last layers that make no keys and values of their own */
  gboolean keyless_wide; /* feed-forwards of these are twice as wide */
  int side, side_vocab; /* of model.h */
  int window_from;    /* first layer with the window */
  int window_pattern; /* every n-th layer sees all, 0 = none does */
  gboolean use_window, chunked; /* the window is that of chunks */
  guint8 *sliding;    /* per layer; owned, NULL = by the numbers above */

  SparseAttention *sparse; /* owned; NULL = dense */

  int buckets;        /* of relative positions; one table a stack, in its first block, */
  gboolean buckets_each; /* or one in each */
  int image, patch, channels;

  MlpKind mlp;
  NormKind norm;
  PositionKind position_kind;
  gboolean norm_bias, final_norm, embedding_norm, head_bias;
  int norms;          /* per block; cross-attention adds one */
  gboolean qkv_bias, out_bias, ffn_bias; /* each also set by those that cover it: */
  gboolean attention_bias, bias;         /* all of attention; all */
  gboolean attention_gate; /* what attention gives is gated by as many values of its input */
  gboolean gate_of_head;   /* or by one a head */
  gboolean gate_bias, gate_of_latent;
  gboolean differential;
  int conv_each, conv_heads; /* as of model.h; families with these have the rest of ZAYA's, */
  int router_width;        /* and so wide bottlenecks of routers */
  gboolean attention_experts; /* a family whose attention has as many experts as its feed-forward */
  int mask_keep;           /* of a family whose masks depend on values */
  gboolean norm_gates;     /* of a family whose norms before attention and experts are gated, */
  int norm_rank;           /* through a bottleneck */
  int residual_scales;     /* as of model.h */
  gboolean bare_norms, inner_norms; /* as of model.h */
  gboolean qk_norm_bias;
  gboolean window_sinks;   /* layers with a window alone have sinks */
  gboolean norm_of_experts; /* one norm more behind experts */
  gboolean qk_norm, qk_norm_whole, output_norms, sinks, shared_gate, router_bias, router_correction, clamped;
  gboolean parallel, tied, bidirectional;
  int nope_interval;
  int causal;         /* of native files */
  int token_types;
  gboolean bare_mlm;  /* the dense layer before the logits has no bias */
  gboolean last_out_bias;  /* of the last block's attention alone */
  gboolean first_unnormed; /* the first block's attention reads the embedding's norm */
  int encoder_window, local_radius; /* tokens that a query of the encoder sees; of blocks of half as many and one */
  gboolean post_norm, mlm_head, pooler, bare_pooler, sparse_prediction;
  double mlm_probability; /* tokens that masked training predicts */
  double dropout;     /* rate */
  double rope_theta, rotary_share, norm_epsilon, balance_loss, routed_scale; /* of model.h */
  gboolean balance_each; /* likewise */
  RopeScaling rope_scaling;

  /* Read for the family's hook. */
  int ffn_ratio;      /* of the feed-forward's width to hidden */
  int ffn_dense;      /* width of dense layers where `ffn` is that of experts */
  gboolean nested_parts; /* of a family whose files have objects for attention and feed-forward (DBRX) */
  gboolean own_tables; /* of a family whose stacks may have tables of tokens of their own: */
  int encoder_vocab;   /* rows of the encoder's */
  gboolean both_ways;  /* the encoder's windows reach as far behind a query as before it */
  gboolean two_stacks; /* of a family whose files say the sizes of an encoder and a decoder */
  int decoder_layers, decoder_heads, decoder_ffn;
  gboolean sparse_by_stack;           /* these many of each stack have experts, as far apart as they fit */
  int sparse_encoder, sparse_decoder;
  gboolean norms_behind; /* also of what attention and feed-forward give */
  gboolean multi_query, new_decoder, alibi, norm_before, remove_final_norm;
  int parallel_norms;
  int sparse_block, random_blocks; /* of BigBird */
  char *ffn_projection, *topk_method, *position_type, *attention_type; /* owned */
} Recipe;

/* Where a recipe was read from, so that messages name the file's own keys.
 * Several fields may share an offset: spellings of one key. */
typedef struct {
  const JsonDoc *doc;
  const cJSON *object;
  const JsonField *fields;
  gsize n_fields;
} RecipeSource;

#define RECIPE_INT(key, field, low, high) {key, JSON_INT, offsetof(Recipe, field), FALSE, low, high}
#define RECIPE_BOOL(key, field) {key, JSON_BOOL, offsetof(Recipe, field)}
#define RECIPE_REAL(key, field, low, high) {key, JSON_REAL, offsetof(Recipe, field), FALSE, low, high}
#define RECIPE_STRING(key, field) {key, JSON_STRING, offsetof(Recipe, field)}

/* The member for the field at `offset` under the first spelling that stands in
 * the file, NULL if none does. */
const cJSON *source_item(const RecipeSource *source, gsize offset);

/* How the file spells the field at `offset`, else its first spelling. */
const char *source_key(const RecipeSource *source, gsize offset);

/* Sets an error at that key, "missing" if it is not there, and returns FALSE. */
gboolean source_error(const RecipeSource *source, gsize offset, GError **error,
                      const char *expected, ...) G_GNUC_PRINTF(4, 5);

/* The model's name if the file gives none: the file's, or its folder's if that
 * is config.json; newly allocated. */
char *recipe_default_name(const JsonDoc *doc);

/* LayerParts of a layer, without PART_FEED; the tokens that it sees, 0 = all. */
guint recipe_parts(const Recipe *recipe, int layer);
int recipe_window(const Recipe *recipe, int layer);

/* Reads which parts each layer has. A pattern has a letter for each layer: M linear attention, * attention, - a dense
 * feed-forward, E experts (Megatron-LM's hybrid_override_pattern). Of these or what the file lists, layers are counted
 * where it does not give their number. An item that is NULL is passed over. */
gboolean recipe_read_pattern(Recipe *recipe, const JsonDoc *doc, const cJSON *item, GError **error);
void recipe_read_interval(Recipe *recipe); /* the same of attention_every */
guint recipe_pattern_parts(const char *letters); /* of all letters together; 0 if one is none, or stands twice */

/* Checks and fills sizes of linear attention, if a layer has it. */
gboolean recipe_settle_linear(Recipe *recipe, const RecipeSource *source, GError **error);
gboolean recipe_has(const Recipe *recipe, guint parts); /* whether any layer has any of them */

/* Of the same: how many layers it has, and in which order tokens go through them, of families with loops. */
gboolean huggingface_count_loops(const RecipeSource *source, Recipe *recipe, GError **error);
gboolean huggingface_read_loops(const RecipeSource *source, Recipe *recipe, GError **error);

/* Of the same: tables of what stands beside tokens or before them. */
gboolean huggingface_read_tables(const RecipeSource *source, Recipe *recipe, GError **error);

/* Of the same: layers with branches. */
gboolean huggingface_read_branches(const RecipeSource *source, Recipe *recipe, GError **error);

/* Of the same: sizes that layers of one kind have of their own, and which have an indexer. */
gboolean huggingface_read_sizes(const RecipeSource *source, Recipe *recipe, GError **error);

/* Reads the key sparse_attention, which files of both forms may have. */
gboolean recipe_read_sparse(Recipe *recipe, const JsonDoc *doc, GError **error);

/* Reads how rotary positions are scaled, by json_read or json_read_foreign; the kind "default" is not at all. */
typedef gboolean RecipeRead(const JsonDoc *doc, const cJSON *object, const JsonField *fields, gsize n_fields, gpointer out,
                            GError **error);
gboolean recipe_read_rope_scaling(const JsonDoc *doc, const cJSON *object, RecipeRead *read, Recipe *recipe,
                                  GError **error);

/* Fills what follows from other fields and checks fields against each other. */
gboolean recipe_settle(Recipe *recipe, const RecipeSource *source, GError **error);
void recipe_clear(Recipe *recipe);

/* How far apart so many layers with experts of a stack stand (Recipe.sparse_by_stack); none of them: as the stack is
 * deep, where one still comes. */
static inline int recipe_sparse_step(int layers, int sparse)
{
  return layers / MAX(MIN(sparse, layers), 1);
}

/* The model of a settled recipe, counted; an error if the counts overflow. */
Model *model_build(Recipe *recipe, const RecipeSource *source, GError **error);

/* Sets the counts of every spec and of the model; FALSE on overflow. */
gboolean model_count(Model *model);

Model *native_read(const JsonDoc *doc, GError **error);
Model *huggingface_read(const JsonDoc *doc, GError **error);

/* Of a Hugging Face config whose sizes are read: whether it asks for nothing that is not counted, or that its class
 * refuses. */
gboolean huggingface_check(const RecipeSource *source, const Recipe *recipe, GError **error);

/* Of one whose family is derived: whether its layers agree with all that the file says of them. */
gboolean huggingface_check_layers(const RecipeSource *source, const Recipe *recipe, GError **error);

/* Whether a class of the file's model ends so. */
gboolean huggingface_names_class(const cJSON *object, const char *suffix);

/* Of a Hugging Face config whose sizes are read: which layers are sparse, have a window, attention or another mixer. */
gboolean huggingface_read_layers(const RecipeSource *source, Recipe *recipe, GError **error);

#endif
