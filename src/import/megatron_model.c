/* Megatron-LM's arguments of a model. */
#include "import/megatron_launch.h"

#include "base/files.h"
#include "base/json.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

/* ---- arguments ---- */

int reading_int(Reading *r, const char *name, int usual)
{
  int value = usual;

  r->to.failed = !argument_int(r->from->arguments, r->to.file, name, &value, r->to.failed ? NULL : r->to.error) ||
                 r->to.failed;
  return value;
}

double reading_real(Reading *r, const char *name, double usual)
{
  double value = usual;

  r->to.failed = !argument_real(r->from->arguments, r->to.file, name, &value, r->to.failed ? NULL : r->to.error) ||
                 r->to.failed;
  return value;
}

gboolean reading_flag(Reading *r, const char *name)
{
  return argument_find(r->from->arguments, name) != NULL;
}

const char *reading_text(Reading *r, const char *name)
{
  const Argument *a = argument_find(r->from->arguments, name);
  g_autofree char *text = a ? argument_text(a) : g_strdup("");

  return g_intern_string(text);
}

gboolean reading_deepspeed(Reading *r)
{
  gboolean named = reading_flag(r, "deepspeed"), configured = reading_flag(r, "deepspeed_config");
  return named || configured || r->settings || *reading_text(r, "moe_expert_parallel_size");
}

/* ---- parts of a model ---- */

int megatron_layers(Reading *r)
{
  int encoder = reading_int(r, "encoder_num_layers", 0), decoder = reading_int(r, "decoder_num_layers", 0);
  int layers = reading_int(r, "num_layers", 0), lettered = pattern_layers(pattern_text(r));

  return lettered ? lettered : layers ? layers : encoder + decoder;
}

/* Tokens of tokenizers that scripts name by their kind alone. */
static const struct {
  const char *tokenizer;
  int vocab;
} tokenizers[] = {
  { "GPT2BPETokenizer", 50257 }, { "BertWordPieceLowerCase", 30522 }, { "BertWordPieceCase", 28996 },
  { "Llama2Tokenizer", 32000 }, { "Qwen2Tokenizer", 151643 }, { "Qwen3Tokenizer", 151643 },
};

#define MULTIPLE_USUAL 128 /* Megatron-LM's default of --make-vocab-size-divisible-by; our frameworks' vocab_multiple */
#define VOCAB_USUAL 50257 /* of Megatron-LM's GPT examples, and of a script that names no tokenizer */

char *megatron_hub_model(const char *hub)
{
  g_autofree char *base = g_path_get_basename(hub), *lower = g_ascii_strdown(base, -1);
  static const char around[] = "^(meta|nvidia)-|(-(base|instruct|chat|it|hf|bf16|fp8|v0\\.\\d))+$";
  g_autoptr(GRegex) variants = g_regex_new(around, G_REGEX_RAW, 0, NULL);
  g_autofree char *plain = g_regex_replace_literal(variants, lower, -1, 0, "", 0, NULL);
  const char *size = g_str_has_prefix(plain, "llama-3-") ? plain + strlen("llama-3-") : NULL; /* of the same blocks */
  g_autofree char *name = size ? g_strconcat("llama-3.1-", size, NULL) : g_strdup(plain);
  g_autofree char *below = g_strdup_printf("models/%s.json", name), *path = files_data_path(below);

  return path && g_file_test(path, G_FILE_TEST_IS_REGULAR) ? g_steal_pointer(&path) : NULL;
}

/* Of the model of ours whose tokenizer this is; 0 = none. */
static int vocab_of_named(Reading *r, const char *tokenizer)
{
  g_autofree char *path = megatron_hub_model(tokenizer);
  g_autoptr(Model) model = path ? model_load(path, NULL) : NULL;

  if (!model)
    return 0;
  launch_assume(&r->to, "vocabulary: %d tokens: those of %s, which --tokenizer-model names", model->vocab, model->name);
  return model->vocab;
}

static int read_tokens(Reading *r)
{
  int padded = reading_int(r, "pad_vocab_size_to", 0);
  int vocab = reading_int(r, "vocab_size", reading_int(r, "padded_vocab_size", padded));
  int extra = reading_int(r, "vocab_extra_ids", reading_int(r, "extra_vocab_size", 0));
  const char *patched = reading_text(r, "patch_tokenizer_type"); /* of Pai-Megatron-Patch, as extra_vocab_size */
  const char *tokenizer = *patched ? patched : reading_text(r, "tokenizer_type");
  const char *known = "GPT2BPETokenizer";

  if (r->from->program && strstr(r->from->program, "bert"))
    known = "BertWordPieceLowerCase";
  if (vocab)
    return vocab;
  for (gsize i = 0; i < G_N_ELEMENTS(tokenizers); i++)
    if (g_str_equal(tokenizers[i].tokenizer, *tokenizer ? tokenizer : known))
      return tokenizers[i].vocab + extra;
  vocab = vocab_of_named(r, reading_text(r, "tokenizer_model"));
  if (vocab)
    return vocab + extra;
  launch_assume(&r->to, "vocabulary: %d tokens: the file does not say how many %s has (--vocab-size)", VOCAB_USUAL,
                tokenizer);
  return VOCAB_USUAL;
}

static gint64 round_up(gint64 rows, gint64 multiple)
{
  return (rows + multiple - 1) / multiple * multiple;
}

/* Padding beyond what frameworks' `vocab_multiple` is for Megatron is in the model; less of it cannot be told there. */
static int read_vocab(Reading *r)
{
  int tokens = read_tokens(r), multiple = reading_int(r, "make_vocab_size_divisible_by", MULTIPLE_USUAL);
  gint64 tp = MAX(1, reading_int(r, "tensor_model_parallel_size", 1));
  gint64 usual = round_up(tokens, MULTIPLE_USUAL * tp), rows = round_up(tokens, MAX(1, multiple) * tp);

  if (rows == usual || reading_int(r, "pad_vocab_size_to", 0))
    return tokens;
  if (rows > usual && rows <= G_MAXINT)
    return (int)rows;
  launch_assume(&r->to, "vocabulary: padded to a multiple of %d and tensor parallelism, where "
                "--make-vocab-size-divisible-by says %d", MULTIPLE_USUAL, multiple);
  return tokens;
}

/* Gated feed-forwards are two thirds as wide, in 64s (Megatron-LM's validate_args). */
static int default_width(int hidden, gboolean gated)
{
  return gated ? (int)((gint64)hidden * 8 / 3 / 64 * 64) : (int)MIN((gint64)4 * hidden, G_MAXINT);
}

static void put_positive(JsonWriter *w, const char *key, double value, gboolean whole)
{
  if (value > 0 && whole)
    json_put_int(w, key, (gint64)value);
  else if (value > 0)
    json_put_real(w, key, value);
}

/* Shares that count alone, as Megatron-LM's defaults, are what Hugging Face's files leave out. */
static void put_yarn(Reading *r, JsonWriter *w)
{
  double share = reading_real(r, "mscale", 1), share_all = reading_real(r, "mscale_all_dim", 0);
  double factor = reading_real(r, "rotary_scaling_factor", 1);

  json_open_line(w, "rope_scaling", '{');
  json_put_string(w, "rope_type", "yarn");
  json_put_real(w, "factor", factor);
  json_put_int(w, "original_max_position_embeddings", reading_int(r, "yarn_original_max_position_embeddings", 4096));
  json_put_real(w, "beta_fast", reading_real(r, "yarn_beta_fast", 32));
  json_put_real(w, "beta_slow", reading_real(r, "yarn_beta_slow", 1));
  if (share > 0 && share_all > 0) {
    json_put_real(w, "mscale", share);
    json_put_real(w, "mscale_all_dim", share_all);
  } else if (share != 1 && factor > 1)
    json_put_real(w, "attention_factor", (0.1 * share * log(factor) + 1) / (0.1 * share_all * log(factor) + 1));
  if (reading_flag(r, "no_yarn_correction_range_round_to_int"))
    json_put_bool(w, "truncate", FALSE);
  json_close_line(w, '}');
}

static void put_positions(Reading *r, JsonWriter *w)
{
  const char *kind = reading_text(r, "position_embedding_type");
  gboolean turned = g_str_equal(kind, "rope") || g_str_equal(kind, "yarn") || g_str_equal(kind, "mrope");
  gboolean rotary = reading_flag(r, "use_rotary_position_embeddings") || turned;
  gboolean none = reading_flag(r, "no_position_embedding") && !*kind;
  double theta = reading_real(r, "rotary_position_embeddings_theta", 10000); /* Megatron-DeepSpeed's */
  double base = reading_real(r, "rotary_base", theta), share = reading_real(r, "rotary_percent", 1);

  if (g_str_equal(kind, "alibi") || g_str_equal(kind, "none"))
    json_put_string(w, "positions", kind);
  else if (rotary || none)
    json_put_string(w, "positions", rotary ? "rope" : "none");
  else if (*kind && !g_str_equal(kind, "learned_absolute"))
    launch_assume(&r->to, "--position-embedding-type %s: taken as learned", kind);
  if (rotary) {
    json_put_real(w, "rope_theta", base);
    if (share < 1 && share > 0)
      json_put_real(w, "partial_rotary_factor", share);
    if (g_str_equal(kind, "yarn") && !reading_flag(r, "multi_latent_attention"))
      put_yarn(r, w);
  }
}

/* Keys that an indexer chooses. */
static void put_indexer(Reading *r, JsonWriter *w)
{
  if (!g_str_equal(reading_text(r, "experimental_attention_variant"), "dsa"))
    return;
  put_positive(w, "index_heads", reading_int(r, "dsa_indexer_n_heads", 0), TRUE);
  put_positive(w, "index_head_dim", reading_int(r, "dsa_indexer_head_dim", 0), TRUE);
  put_positive(w, "index_topk", reading_int(r, "dsa_indexer_topk", 0), TRUE);
}

static void put_latent(Reading *r, JsonWriter *w)
{
  put_positive(w, "kv_lora_rank", reading_int(r, "kv_lora_rank", 32), TRUE);
  put_positive(w, "q_lora_rank", reading_int(r, "q_lora_rank", 0), TRUE);
  put_positive(w, "qk_nope_head_dim", reading_int(r, "qk_head_dim", 128), TRUE);
  put_positive(w, "qk_rope_head_dim", reading_int(r, "qk_pos_emb_head_dim", 64), TRUE);
  put_positive(w, "v_head_dim", reading_int(r, "v_head_dim", 128), TRUE);
  put_indexer(r, w);
}

static void put_sinks(Reading *r, JsonWriter *w)
{
  const char *kind = reading_text(r, "softmax_type");

  if (g_str_equal(kind, "learnable"))
    json_put_bool(w, "sinks", TRUE);
  else if (*kind && !g_str_equal(kind, "vanilla"))
    launch_assume(&r->to, "--softmax-type %s: taken as vanilla", kind);
}

static void put_attention(Reading *r, JsonWriter *w)
{
  gboolean latent = reading_flag(r, "multi_latent_attention"), grouped = reading_flag(r, "group_query_attention");
  int groups = reading_int(r, "num_query_groups", grouped ? 1 : 0), width = reading_int(r, "kv_channels", 0);
  gboolean one = g_str_equal(reading_text(r, "attention_head_type"), "multiquery"); /* BigCode's */
  int wide = reading_int(r, "num_key_value_heads", one ? 1 : 0);
  gboolean norm = reading_flag(r, "qk_layernorm");
  const char *window = reading_text(r, "window_size"), *skip = reading_text(r, "window_attn_skip_freq");

  if (latent) {
    put_latent(r, w);
  } else {
    put_positive(w, "kv_heads", grouped ? groups : wide, TRUE);
    put_positive(w, "head_dim", width, TRUE);
    if (norm)
      json_put_bool(w, "qk_norm", TRUE);
  }
  if (reading_flag(r, "attention_output_gate"))
    json_put_bool(w, "attention_gate", TRUE);
  put_sinks(r, w);
  if (!*window)
    return;
  int every = *skip ? pattern_every(skip, megatron_layers(r)) : 0;
  if (every < 0)
    launch_fail(&r->to, "--window-attn-skip-freq: %s: expected a number above 0, or a list where every n-th layer is 0", skip);
  json_put_int(w, "window", g_ascii_strtoll(window + strspn(window, "([ "), NULL, 10) + 1);
  put_positive(w, "sliding_window_pattern", every, TRUE);
}

/* Layers of linear attention between those of attention; `dsa` stands with latent attention. */
static void put_linear(Reading *r, JsonWriter *w)
{
  const char *kind = reading_text(r, "experimental_attention_variant"), *freq = reading_text(r, "linear_attention_freq");

  if (!*kind || g_str_equal(kind, "dsa"))
    return;
  if (!g_str_equal(kind, "gdn") && !g_str_equal(kind, "gated_delta_net")) {
    launch_fail(&r->to, "--experimental-attention-variant: %s: expected dsa, gdn or gated_delta_net", kind);
    return;
  }
  int every = pattern_every(freq, megatron_layers(r));
  if (every < 1) {
    launch_fail(&r->to, "--linear-attention-freq: %s: expected a number above 0, or a list where every n-th layer is 0",
                *freq ? freq : "missing");
    return;
  }
  json_put_string(w, "linear_attention", "gated_delta_net");
  json_put_int(w, "full_attention_interval", every);
  json_put_int(w, "linear_heads", reading_int(r, "linear_num_value_heads", 32));
  json_put_int(w, "linear_head_dim", reading_int(r, "linear_value_head_dim", 128));
  json_put_int(w, "linear_groups", reading_int(r, "linear_num_key_heads", 16));
  json_put_int(w, "linear_state", reading_int(r, "linear_key_head_dim", 128));
  json_put_int(w, "linear_conv", reading_int(r, "linear_conv_kernel_dim", 4));
}

/* Groups of experts, of which a token visits some; until Megatron Core 0.11 a group was a rank. */
static void put_groups(Reading *r, JsonWriter *w)
{
  int devices = reading_int(r, "moe_router_topk_limited_devices", 0);
  int groups = reading_int(r, "moe_router_num_groups", devices ? reading_int(r, "expert_model_parallel_size", 1) : 0);
  int visited = reading_int(r, "moe_router_group_topk", devices);

  if (groups > 1 && visited > 0 && visited < groups) {
    json_put_int(w, "expert_groups", groups);
    json_put_int(w, "groups_per_token", visited);
  }
}

/* A switch of a command line, or what a log calls its contrary. */
static gboolean says_no(Reading *r, const char *no, const char *yes)
{
  gboolean off = reading_flag(r, no), on = reading_flag(r, yes);
  return off || (r->from->listed && !on);
}

static gboolean has_biases(Reading *r)
{
  return !says_no(r, "disable_bias_linear", "add_bias_linear");
}

/* What is small beside experts: a router has a bias where linear layers have one (TopKRouter), but for
 * Megatron-DeepSpeed's. */
static void put_router(Reading *r, JsonWriter *w, gboolean shared, double loss)
{
  const char *balance = reading_text(r, "moe_router_load_balancing_type");

  put_positive(w, "router_aux_loss_coef", loss, FALSE);
  if (loss > 0 && g_str_equal(balance, "seq_aux_loss"))
    json_put_bool(w, "seq_aux", TRUE);
  put_positive(w, "routed_scaling_factor", reading_real(r, "moe_router_topk_scaling_factor", 0), FALSE);
  if (has_biases(r) && !reading_deepspeed(r))
    json_put_bool(w, "router_bias", TRUE);
  if (reading_flag(r, "moe_router_enable_expert_bias")) {
    reading_text(r, "moe_router_score_function"); /* refused but as sigmoid */
    json_put_bool(w, "router_correction", TRUE);
  }
  if (shared && reading_flag(r, "moe_shared_expert_gate"))
    json_put_bool(w, "shared_gate", TRUE);
}

/* GPT-OSS's activation. */
static void put_clamp(Reading *r, JsonWriter *w)
{
  if (!reading_flag(r, "quick_geglu") || reading_real(r, "activation_func_clamp_value", 0) <= 0)
    return;
  reading_real(r, "glu_linear_offset", 0);
  json_put_bool(w, "clamped", TRUE);
}

/* Megatron-DeepSpeed has experts in every other layer where nothing says how often, and sends a token to one. */
static void put_experts(Reading *r, JsonWriter *w, int width)
{
  gboolean deepspeed = reading_deepspeed(r);
  int experts = reading_int(r, "num_experts", 0), each = reading_int(r, "moe_ffn_hidden_size", 0);
  int topk = reading_int(r, "moe_router_topk", reading_int(r, "topk", deepspeed ? 1 : 2));
  int patched = reading_flag(r, "enable_shared_expert") ? reading_int(r, "shared_moe_ffn_hidden_size", 0) : 0;
  int shared = reading_int(r, "moe_shared_expert_intermediate_size", patched), layers = megatron_layers(r);
  double loss = reading_real(r, "moe_aux_loss_coeff", reading_real(r, "moe_loss_coeff", deepspeed ? 0.1 : 0));
  int interval = reading_int(r, "expert_interval", deepspeed ? 2 : 1);
  const char *freq = reading_text(r, "moe_layer_freq");
  gboolean none = g_str_equal(reading_text(r, "first_k_dense_replace"), "-1"); /* of MindSpeed-LLM, as a freq of -1 */
  gboolean listed = *freq && !g_str_equal(freq, "1") && !g_str_equal(freq, "-1");
  int dense = listed ? pattern_first_dense(freq, layers) : none ? 0 : reading_int(r, "first_k_dense_replace", 0);

  if (experts < 2)
    return;
  json_put_int(w, "experts", experts);
  json_put_int(w, "experts_per_token", MIN(topk, experts));
  put_groups(r, w);
  json_put_int(w, "expert_ffn_hidden", each ? each : width);
  put_positive(w, "expert_latent", reading_int(r, "moe_latent_size", 0), TRUE);
  put_positive(w, "shared_ffn_hidden", shared, TRUE);
  put_router(r, w, shared > 0, loss);
  put_clamp(r, w);
  if (interval > 1)
    json_put_int(w, "moe_every", interval);
  if (g_str_equal(reading_text(r, "mlp_type"), "residual"))
    launch_fail(&r->to, "--mlp-type: residual: expected standard: a block beside the experts is not simulated");
  if (dense > 0)
    json_put_int(w, "first_dense_layers", dense);
  else if (dense < 0)
    launch_fail(&r->to, "--moe-layer-freq: %s: expected 1, or leading dense layers as in ([0]*3+[1]*58)", freq);
}

static void put_feed_forward(Reading *r, JsonWriter *w)
{
  gboolean gated = reading_flag(r, "swiglu") || reading_flag(r, "quick_geglu");
  int hidden = reading_int(r, "hidden_size", 1), width = reading_int(r, "ffn_hidden_size", 0);

  if (!width)
    width = default_width(hidden, gated);
  json_put_string(w, "mlp", gated ? "swiglu" : reading_flag(r, "squared_relu") ? "relu2" : "gelu");
  json_put_int(w, "ffn_hidden", width);
  put_experts(r, w, width);
}

/* Both rates are 0.1 unless said (megatron/training/arguments.py). */
static void put_dropout(Reading *r, JsonWriter *w)
{
  gboolean said = *reading_text(r, "attention_dropout") || *reading_text(r, "hidden_dropout");
  double inside = reading_real(r, "attention_dropout", 0.1), behind = reading_real(r, "hidden_dropout", 0.1);

  json_put_bool(w, "dropout", inside + behind > 0);
  if ((inside > 0) != (behind > 0))
    launch_assume(&r->to, "dropout: %g in attention and %g behind it: simulated in both%s", inside, behind,
                  inside > 0 ? "" : ": attention takes longer with it");
  if (!said)
    launch_assume(&r->to, "dropout: 0.1, as nothing says --attention-dropout or --hidden-dropout: attention takes "
                          "longer with it");
}

static void put_rest(Reading *r, JsonWriter *w)
{
  const char *norm = reading_text(r, "normalization");
  double epsilon = reading_real(r, "norm_epsilon", reading_real(r, "layernorm_epsilon", 1e-5));
  gboolean rms = g_ascii_strcasecmp(norm, "rmsnorm") == 0 || reading_flag(r, "RMSNorm");
  gboolean bias = has_biases(r), query = reading_flag(r, "add_qkv_bias");

  json_put_string(w, "norm", rms ? "rmsnorm" : "layernorm");
  json_put_real(w, "norm_epsilon", epsilon);
  json_put_bool(w, "bias", bias);
  json_put_bool(w, "qkv_bias", bias || query);
  json_put_bool(w, "tied_embeddings", !reading_flag(r, "untie_embeddings_and_output_weights"));
  if (reading_flag(r, "embed_layernorm"))
    json_put_bool(w, "embedding_norm", TRUE);
  put_dropout(r, w);
  if (*pattern_text(r))
    pattern_put(r, w);
  else
    put_positive(w, "mtp_num_layers", reading_int(r, "mtp_num_layers", 0), TRUE);
}

/* ---- families ---- */

/* What these have whatever their arguments say. */
static void pass_fixed(Reading *r)
{
  static const char *const fixed[] = { "position_embedding_type", "normalization", "norm_epsilon",
                                       "disable_bias_linear" };

  for (gsize i = 0; i < G_N_ELEMENTS(fixed); i++)
    reading_flag(r, fixed[i]);
}

static void put_bert(Reading *r, JsonWriter *w)
{
  pass_fixed(r);
  json_put_string(w, "model_type", "megatron-bert");
  json_put_int(w, "num_hidden_layers", megatron_layers(r));
  json_put_int(w, "hidden_size", reading_int(r, "hidden_size", 0));
  json_put_int(w, "num_attention_heads", reading_int(r, "num_attention_heads", 0));
  json_put_int(w, "intermediate_size", reading_int(r, "ffn_hidden_size", 4 * reading_int(r, "hidden_size", 0)));
  json_put_int(w, "max_position_embeddings", reading_int(r, "max_position_embeddings", 512));
  json_put_int(w, "seq", reading_int(r, "seq_length", 512));
  json_put_int(w, "vocab_size", read_vocab(r));
  if (!reading_flag(r, "bert_no_binary_head")) {
    json_open_line(w, "architectures", '[');
    json_put_string(w, NULL, "BertForPreTraining");
    json_close_line(w, ']');
  }
}

static void put_t5(Reading *r, JsonWriter *w)
{
  int hidden = reading_int(r, "hidden_size", 0), heads = reading_int(r, "num_attention_heads", 1);
  int encoder = reading_int(r, "encoder_num_layers", reading_int(r, "num_layers", 0));

  pass_fixed(r);
  json_put_string(w, "model_type", "t5");
  json_put_int(w, "d_model", hidden);
  json_put_int(w, "d_kv", reading_int(r, "kv_channels", heads > 0 ? hidden / heads : 0));
  json_put_int(w, "d_ff", reading_int(r, "ffn_hidden_size", 4 * hidden));
  json_put_int(w, "num_layers", encoder);
  json_put_int(w, "num_decoder_layers", reading_int(r, "decoder_num_layers", encoder));
  json_put_int(w, "num_heads", heads);
  json_put_int(w, "relative_attention_num_buckets", reading_int(r, "relative_attention_num_buckets", 32));
  json_put_int(w, "n_positions", reading_int(r, "encoder_seq_length", reading_int(r, "seq_length", 512)));
  json_put_int(w, "vocab_size", read_vocab(r));
}

static void put_decoder(Reading *r, JsonWriter *w)
{
  json_put_int(w, "layers", megatron_layers(r));
  json_put_int(w, "hidden", reading_int(r, "hidden_size", 0));
  json_put_int(w, "heads", reading_int(r, "num_attention_heads", 0));
  json_put_int(w, "seq", reading_int(r, "seq_length", 0));
  json_put_int(w, "vocab", read_vocab(r));
  put_feed_forward(r, w);
  put_attention(r, w);
  put_linear(r, w);
  put_positions(r, w);
  put_rest(r, w);
}

/* Arguments of what is not simulated at all. A log lists arguments that nobody gave. */
static gboolean check_arguments(Reading *r)
{
  static const char alone[] = "only the training of a language model alone is simulated";
  static const char *const arguments[][2] = {
    { "vision_model_type", alone }, { "language_model_type", alone }, { "task", alone },
    { "image_token_id", alone }, { "num_tokens_to_generate", alone }, { "prompts", alone },
    { "incoming_requests_per_sec", alone },
    { "perform_rl_step", "answers that a step first generates are not simulated" },
    { "heterogeneous_layers_config_path", "layers that another file tells one by one are not read" },
    { "heterogeneous_layers_config_encoded_json", "layers that are told one by one are not read" },
    { "enable_mhc_connections", "residual streams beside each other are not simulated" },
    { "yaml_cfg", "arguments in a file of their own are not read" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(arguments) && !r->from->listed; i++)
    if (reading_flag(r, arguments[i][0])) {
      const char *text = reading_text(r, arguments[i][0]);
      g_autofree char *flag = argument_flag(arguments[i][0]);
      return launch_fail(&r->to, "%s: %s%sexpected nothing, as %s", flag, text, *text ? ": " : "", arguments[i][1]);
    }
  return TRUE;
}

/* Programs of what trains no language model by itself. */
gboolean megatron_program(Reading *r)
{
  const char *program = r->from->program ? r->from->program : "";
  static const char *const programs[] = { "generation", "generate", "inference", "vlm", "vision", "retro", "ict",
                                          "merge", "preprocess", "rl", "grpo", "mimo", "convert", "converter",
                                          "mg", "hf2mcore", "analyze", "dataset" }; /* mg: hf_to_mg.py */
  g_auto(GStrv) words = g_strsplit_set(program, "_.-", -1);

  for (gsize i = 0; i < G_N_ELEMENTS(programs); i++)
    if (g_strv_contains((const char *const *)words, programs[i]))
      return launch_fail(&r->to, "%s: expected a program that trains a language model alone", program);
  return check_arguments(r);
}

/* What no model can do without, and what none has. */
static gboolean check(Reading *r, gboolean encoder)
{
  static const char *const needed[] = { "hidden_size", "num_attention_heads" };

  for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
    if (reading_int(r, needed[i], 0) < 1) {
      g_autofree char *flag = argument_flag(needed[i]);
      return launch_fail(&r->to, "%s: missing: expected the arguments of a whole model", flag);
    }
  if (megatron_layers(r) < 1 || (!encoder && reading_int(r, "seq_length", 0) < 1))
    return launch_fail(&r->to, "--%s: missing: expected the arguments of a whole model",
                       megatron_layers(r) < 1 ? "num-layers" : "seq-length");
  return !r->to.failed;
}

char *megatron_model(Reading *r)
{
  const char *program = r->from->program ? r->from->program : "";
  gboolean encoder = strstr(program, "t5") || reading_int(r, "encoder_num_layers", 0) > 0;
  g_autofree char *base = g_path_get_basename(r->to.file);
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  reading_text(r, "max_position_embeddings"); /* no matter but to tables of learned positions, which are seq long */
  if (!check(r, encoder))
    return NULL;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", base);
  if (strstr(program, "bert"))
    put_bert(r, &w);
  else if (encoder)
    put_t5(r, &w);
  else
    put_decoder(r, &w);
  json_close(&w, '}');
  return r->to.failed ? NULL : g_string_free(g_steal_pointer(&text), FALSE);
}
