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

/* Queries see their own block and one on each side. */
static void derive_longt5(Recipe *r)
{
  r->encoder_window = 3 * (r->local_radius + 1);
  derive_t5(r);
}

/* Gated unless its file says otherwise. */
static void derive_umt5(Recipe *r)
{
  if (!r->ffn_projection)
    r->mlp = MLP_SWIGLU;
  derive_t5(r);
}

/* Blocks of its window, two that all see and that see all, and some at random. */
static void read_blocks(Recipe *r)
{
  if (r->sparse || (r->attention_type && !g_str_equal(r->attention_type, "block_sparse")))
    return;
  r->sparse = g_new(SparseAttention, 1);
  *r->sparse = (SparseAttention){
    .mode = SPARSE_BIGBIRD, .block = r->sparse_block, .patterns = 1, .global = 2, .random = r->random_blocks,
    .sliding = 3, .horizontal = TRUE,
  };
}

/* Of its biases queries, keys and values alone have a key. */
static void derive_big_bird(Recipe *r)
{
  r->qkv_bias = r->bias;
  r->out_bias = r->ffn_bias = TRUE;
  r->bias = FALSE;
  read_blocks(r);
}

static void derive_xlm(Recipe *r)
{
  r->ffn = 4 * r->hidden;
}

/* The decoder's sizes stand under names of their own. */
static void derive_bart(Recipe *r)
{
  r->layers = r->decoder_layers;
  r->heads = r->decoder_heads;
  r->ffn = r->decoder_ffn;
}

/* Of its biases those of attention alone have a key. */
static void derive_bigbird_pegasus(Recipe *r)
{
  derive_bart(r);
  r->attention_bias = r->bias;
  r->ffn_bias = TRUE;
  r->bias = FALSE;
  read_blocks(r);
}

/* Queries see their own block, and tokens that go along with the sequence; these see all of it, which are as many pairs
 * again. Of biases attention has none. */
static void derive_pegasus_x(Recipe *r)
{
  derive_bart(r);
  r->ffn_bias = TRUE;
  r->encoder_window = r->sparse_block + 2 * r->global_tokens;
}

/* All tables are one where they are tied. */
static void derive_fsmt(Recipe *r)
{
  derive_bart(r);
  if (r->tied)
    r->encoder_vocab = 0;
}

/* Layer i of a stack is sparse if i leaves 1 over the step, or all are. */
static void derive_switch(Recipe *r)
{
  int encoder = MAX(r->layers, 1), decoder = r->decoder_layers ? r->decoder_layers : encoder;
  int most = MAX(encoder, decoder), step = recipe_sparse_step(encoder, r->sparse_encoder);

  derive_t5(r);
  g_free(r->dense);
  r->dense = g_new0(guint8, most);
  for (int i = 0; i < most; i++)
    r->dense[i] = step > 1 && i % step != 1;
  r->sparse_step = 1;
}

/* A bias for each pair of segments beside those by distance; tokens' segments have a table, prompts kinds. Its class
 * has a head apart, whatever its file says. */
static void derive_cpmant(Recipe *r)
{
  r->tied = FALSE;
  r->buckets += r->segments * r->segments;
  r->token_types = r->segments;
  r->prompt_rows *= r->prompts;
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
#define ENCODER_OF(kind, longest)                                                                    \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .bias = TRUE,              \
  .position_kind = POSITIONS_##kind, .positions = longest, .head_bias = TRUE, .bidirectional = TRUE, \
  .dropout = 0.1, .norm_epsilon = 1e-12
#define ENCODER(longest) ENCODER_OF(LEARNED, longest), .tied = TRUE
#define MASKED(types) .token_types = types, .mlm_head = TRUE, .mlm_probability = 0.15
#define BERT(longest, types) ENCODER(longest), MASKED(types)
/* Positions are counted from behind the padding's token. */
#define ROBERTA(longest, types) BERT(longest, types), .first_position = 2

/* LayerNorm and biases everywhere, in an encoder and a decoder. */
#define STACKS(width, longest)                                                                       \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2,                            \
  .two_stacks = TRUE, .encoder_layers = 12, .decoder_layers = 12, .encoder_heads = 16,                \
  .decoder_heads = 16, .encoder_ffn = width, .decoder_ffn = width, .positions = longest, .dropout = 0.1
#define BART(width, longest) STACKS(width, longest), .tied = TRUE, .bias = TRUE
/* Tables of positions, and norms behind the embedding. */
#define BART_LEARNED(width) \
  BART(width, 1024), .position_kind = POSITIONS_LEARNED, .extra_rows = 2, .embedding_norm = TRUE
/* Sines for positions. */
#define M2M BART(4096, 1024), .position_kind = POSITIONS_NONE, .final_norm = TRUE

static const Family rows[] = {
  {"bert", {BERT(512, 2), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"roc_bert",
   {BERT(512, 2), .embedding_norm = TRUE, .post_norm = TRUE, .has_beside = TRUE, .beside_joined = TRUE,
    .beside = {{24858, 512}, {910, 768}}}},
  {"cpmant", /* whose positions are bounded by no table: the distances that it tells apart */
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE, .bidirectional = TRUE, .head_dim = 128,
    .position_kind = POSITIONS_RELATIVE, .positions = 2048, .buckets = 512, .segments = 32, .prompts = 32,
    .prompt_rows = 32},
   derive_cpmant},
  {"encoder-decoder", /* of two BERTs, the first with a pooler */
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .bias = TRUE,
    .position_kind = POSITIONS_LEARNED, .positions = 512, .head_bias = TRUE, .dropout = 0.1, .norm_epsilon = 1e-12,
    .tied = TRUE, MASKED(2), .pooler = TRUE, .bare_pooler = TRUE, .embedding_norm = TRUE, .post_norm = TRUE,
    .two_stacks = TRUE, .own_tables = TRUE, .both_ways = TRUE, .encoder_layers = 12, .encoder_vocab = 30522},
   NULL, "decoder"},
  {"megatron-bert", {BERT(512, 2), .final_norm = TRUE}},
  {"roberta", {ROBERTA(512, 2), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"ernie", {BERT(512, 2), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"data2vec-text", {ROBERTA(512, 2), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"roberta-prelayernorm", {ROBERTA(512, 2), .embedding_norm = TRUE, .final_norm = TRUE}},
  {"camembert", {ROBERTA(512, 2), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xlm-roberta", {ROBERTA(512, 2), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xmod",
   {ROBERTA(512, 2), .embedding_norm = TRUE, .post_norm = TRUE, .adapter_reduction = 2, .languages = 1}},
  {"xlm-roberta-xl", {ROBERTA(514, 1), .final_norm = TRUE}},
  {"electra", {BERT(512, 2), .embedding_norm = TRUE, .post_norm = TRUE, .embed_dim = 128, .narrow_embedding = TRUE}},
  {"rembert",
   {ENCODER_OF(LEARNED, 512), MASKED(2), .embedding_norm = TRUE, .post_norm = TRUE, .embed_dim = 256,
    .narrow_embedding = TRUE, .head_width = 1664}},
  {"roformer",
   {ENCODER_OF(ROPE, 1536), MASKED(2), .tied = TRUE, .embedding_norm = TRUE, .post_norm = TRUE,
    .narrow_embedding = TRUE, .rotary_table = TRUE}},
  {"big_bird",
   {BERT(4096, 2), .embedding_norm = TRUE, .post_norm = TRUE, .pooler = TRUE, .bare_pooler = TRUE,
    .sparse_block = 64, .random_blocks = 3},
   derive_big_bird},
  {"bert-generation", {ENCODER(512), .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xlm", {ENCODER(512), .embedding_norm = TRUE, .post_norm = TRUE}, derive_xlm},
  {"bart", {BART_LEARNED(4096), .post_norm = TRUE}, derive_bart},
  {"mvp", {BART_LEARNED(4096), .post_norm = TRUE}, derive_bart},
  {"plbart", {BART_LEARNED(3072), .post_norm = TRUE}, derive_bart},
  {"mbart", {BART_LEARNED(4096), .final_norm = TRUE}, derive_bart},
  {"blenderbot", {BART(10240, 128), .position_kind = POSITIONS_LEARNED, .final_norm = TRUE}, derive_bart},
  {"blenderbot-small",
   {BART(2048, 512), .position_kind = POSITIONS_LEARNED, .embedding_norm = TRUE, .post_norm = TRUE}, derive_bart},
  /* sines for positions, in tables that files hold */
  {"pegasus", {BART(4096, 1024), .position_kind = POSITIONS_LEARNED, .final_norm = TRUE}, derive_bart},
  {"bigbird_pegasus",
   {STACKS(4096, 4096), .tied = TRUE, .position_kind = POSITIONS_LEARNED, .final_norm = TRUE, .sparse_block = 64,
    .random_blocks = 3},
   derive_bigbird_pegasus},
  {"marian", {BART(4096, 1024), .position_kind = POSITIONS_LEARNED, .post_norm = TRUE}, derive_bart},
  {"m2m_100", {M2M}, derive_bart},
  {"led",
   {BART(4096, 16384), .position_kind = POSITIONS_LEARNED, .embedding_norm = TRUE, .post_norm = TRUE,
    .entry_positions = 1024, .global_projections = TRUE, .encoder_window = 513},
   derive_bart},
  {"pegasus_x",
   {STACKS(4096, 16384), .tied = TRUE, .position_kind = POSITIONS_NONE, .final_norm = TRUE, .sparse_block = 512,
    .global_tokens = 32},
   derive_pegasus_x},
  {"fsmt", /* sines for positions, as Pegasus's */
   {STACKS(4096, 1024), .bias = TRUE, .position_kind = POSITIONS_LEARNED, .post_norm = TRUE, .extra_rows = 2,
    .own_tables = TRUE, .encoder_vocab = 42024, .vocab = 42024},
   derive_fsmt},
  {"nllb-moe",
   {M2M, .experts = 128, .experts_per_token = 2, .sparse_step = 4, .needs_experts = TRUE, .balance_loss = 0.001},
   derive_bart},
  {"switch_transformers",
   {T5, .experts = 8, .experts_per_token = 1, .needs_experts = TRUE, .balance_loss = 0.001, .sparse_by_stack = TRUE,
    .sparse_encoder = 3, .sparse_decoder = 3, .decoder_layers = 12},
   derive_switch},
  {"t5", {T5}, derive_t5},
  {"mt5", {T5}, derive_umt5},
  {"longt5", {T5, .local_radius = 127}, derive_longt5},
  {"umt5", {T5, .buckets_each = TRUE}, derive_umt5},
  {"t5gemma",
   {LLAMA, .norms = 4, .hidden = 2304, .ffn = 9216, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256,
    .vocab = 256000, .positions = 8192, .tied = TRUE, .use_window = TRUE, .window = 4096, .window_pattern = 2,
    .two_stacks = TRUE, .own_tables = TRUE, .encoder_layers = 26, .encoder_vocab = 256000, .both_ways = TRUE},
   NULL, "decoder"},
  {"vit",
   {GPT, .position_kind = POSITIONS_LEARNED, .image = 224, .patch = 16, .channels = 3,
    .classes = 1000, .norm_epsilon = 1e-12, .qkv_bias = TRUE, .out_bias = TRUE, .ffn_bias = TRUE, .head_bias = TRUE,
    .bidirectional = TRUE},
   derive_vit},
};

const FamilyRows family_encoders = {rows, G_N_ELEMENTS(rows)};
