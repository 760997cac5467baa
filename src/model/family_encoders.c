/* Families whose tokens, or some of them, see all others: encoders, and encoder-decoders. */
#include "model/family_rows.h"

static void derive_t5(Recipe *r)
{
  if (r->ffn_projection && g_str_has_prefix(r->ffn_projection, "gated"))
    r->mlp = MLP_SWIGLU;
  r->encoder_layers = r->layers;
  if (r->layers && r->decoder_layers)
    r->layers = r->decoder_layers;
}

/* Gated unless its file says otherwise. */
static void derive_umt5(Recipe *r)
{
  if (!r->ffn_projection)
    r->mlp = MLP_SWIGLU;
  derive_t5(r);
}

static void derive_vit(Recipe *r)
{
  r->vocab = 0;
  r->tied = FALSE;
}

/* RMSNorm, distances in buckets; gated or not by its configuration. */
#define T5                                                                                                       \
  .norm = NORM_RMSNORM, .mlp = MLP_GELU, .norms = 2, .final_norm = TRUE, .head_dim = 64, .buckets = 32,            \
  .position_kind = POSITIONS_RELATIVE, .positions = 512, .tied = TRUE, .dropout = 0.1
/* LayerNorm and biases everywhere, all tokens see all. */
#define BERT                                                                                         \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .bias = TRUE,              \
  .position_kind = POSITIONS_LEARNED, .positions = 512, .tied = TRUE, .head_bias = TRUE,             \
  .bidirectional = TRUE, .token_types = 2, .mlm_head = TRUE, .mlm_probability = 0.15, .dropout = 0.1,     \
  .norm_epsilon = 1e-12

static const Family rows[] = {
  {"bert", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"megatron-bert", {BERT, .final_norm = TRUE}},
  {"roberta", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"ernie", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"data2vec-text", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"roberta-prelayernorm", {BERT, .embedding_norm = TRUE, .final_norm = TRUE}},
  {"camembert", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xlm-roberta", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xlm-roberta-xl", {BERT, .final_norm = TRUE}},
  {"t5", {T5}, derive_t5},
  {"mt5", {T5}, derive_t5},
  {"umt5", {T5, .buckets_each = TRUE}, derive_umt5},
  {"vit",
   {GPT, .position_kind = POSITIONS_LEARNED, .image = 224, .patch = 16, .channels = 3,
    .classes = 1000, .norm_epsilon = 1e-12, .qkv_bias = TRUE, .out_bias = TRUE, .ffn_bias = TRUE, .head_bias = TRUE,
    .bidirectional = TRUE},
   derive_vit},
};

const FamilyRows family_encoders = {rows, G_N_ELEMENTS(rows)};
