/* Attention of a block: projections and core, grouped-query or latent (MLA). */
#include "op/build.h"

/* Whether the core is one fused kernel. */
static gboolean fused(const Build *b)
{
  return b->kernel != ATTENTION_UNFUSED;
}

/* Keys that an indexer chooses of a query's; 0 = all. */
static double chosen(const Build *b)
{
  return attention_chosen(b->attention, (int)b->seq);
}

static double keys_seen(const Build *b)
{
  const Attention *a = b->attention;
  int window = a->window;

  if (a->sparse)
    return sparse_keys_seen(a->sparse, a->heads, b->seq);
  if (chosen(b))
    return chosen(b);
  return window > 0 ? MIN(window, b->keys) : b->keys;
}

double build_scored_keys(const Build *b, double rows, double keys)
{
  const Attention *a = b->attention;

  return a->causal && !a->sparse && keys < rows ? keys * (1 - keys / (2 * rows)) : keys;
}

/* Stretches that a chunked window cuts a sequence into, each attended to alone. */
static double stretches(const Build *b)
{
  return b->attention->chunked ? b->seq / keys_seen(b) : 1;
}

static double local_heads(const Build *b)
{
  return b->attention->heads / b->tp;
}

static double local_kv_heads(const Build *b)
{
  const Attention *a = b->attention;
  return MAX(1, (a->kv_lora_rank ? a->heads : a->kv_heads) / b->tp);
}

static double query_width(const Build *b)
{
  return local_heads(b) * b->attention->head_dim;
}

static double key_width(const Build *b)
{
  return local_kv_heads(b) * b->attention->head_dim;
}

static double value_width(const Build *b)
{
  return local_kv_heads(b) * b->attention->v_head_dim;
}

static double gate_width(const Build *b)
{
  return attention_gate(b->attention) / b->tp;
}

/* What attention gave times a sigmoid of the gate, two kernels. */
static void apply_gate(Build *b)
{
  double gate = b->bytes * b->tokens * gate_width(b);
  double out = b->bytes * b->tokens * local_heads(b) * b->attention->v_head_dim;

  if (b->attention->unit_scales)
    build_scales(b, "gate scale", gate, gate_width(b), 1);
  if (b->attention->gated)
    build_stream(b, &(Stream) { .name = "attention gate", .forward_bytes = 3 * gate + 2 * out, .forward_kernels = 2,
                                .backward_bytes = 5 * gate + 3 * out, .backward_kernels = 3, .saved = gate + out });
}

/* Of this rank's part of the projection. */
static double qkv_width(const Build *b)
{
  const Attention *a = b->attention;
  return query_width(b) + local_heads(b) * a->rel_dim + gate_width(b) + attention_made_keys(a) / b->tp;
}

/* Of more ranks than key-value heads each makes a part of a head's queries, keys and values; all gather all of them and
 * take the heads that they need (Megatron Core's "QKV activation sub-sharding"). */
static void gather_divided(Build *b)
{
  const Attention *a = b->attention;
  double queries = b->bytes * b->tokens * b->tp * (query_width(b) + gate_width(b));
  double bytes = queries + b->bytes * b->tokens * attention_made_keys(a);

  if (a->kv_lora_rank || a->kv_heads >= b->tp)
    return;
  build_forward_collective(b, "gather qkv", COLLECTIVE_ALL_GATHER, bytes);
  build_backward_collective(b, "sum qkv gradient", COLLECTIVE_REDUCE_SCATTER, bytes, PASS_INPUT, FALSE);
  build_take_heads(b, bytes, queries);
}

/* Of one layer Megatron Core's Muon takes queries, their gate, keys and values apart, unless a rank has a part of a
 * head's (optimizer/__init__.py, qkv_split_shapes); elsewhere layers make each, and one of them queries with a gate of as
 * many values. */
static void part_qkv(const Build *b, Linear *l)
{
  const Attention *a = b->attention;
  gboolean one = b->passes->framework->fused_weights;
  double made = attention_made_keys(a) / b->tp, gate = gate_width(b), queries = l->out - gate - made;
  double keys = a->key_is_value ? made : made * a->head_dim / (a->head_dim + a->v_head_dim);
  double apart = one || a->gate_of_head ? gate : 0;
  const double parts[LINEAR_PARTS] = { queries + gate - apart, keys, made - keys, apart };

  for (int i = 0; i < LINEAR_PARTS && (!one || a->kv_heads >= b->tp); i++)
    l->parts[i] = parts[i];
}

/* Behind the residual sums a norm's output is the next block's input, which stays. */
static void project_grouped(Build *b)
{
  double hidden = b->hidden;

  b->hidden *= b->spec->branch ? 2 : 1; /* the embedding beside it */
  b->dropped |= b->model->post_norm ? 0 : 1u << MODULE_LAYERNORM;
  Linear qkv = { .name = "qkv", .in = b->hidden, .out = qkv_width(b), .batch = 1, .rows = b->tokens,
                 .bias = b->attention->qkv_bias, .saved = b->bytes * b->rows * b->hidden, .split = LINEAR_COLUMN,
                 .matrix = MATRIX_QKV };
  part_qkv(b, &qkv);
  build_linear(b, &qkv);
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  build_low_rank(b, b->spec->qkv_rank, 3, 3 * query_width(b));
  b->hidden = hidden;
  gather_divided(b);
}

void build_enter_latent(Build *b, double width)
{
  gboolean sp = b->passes->sequence_parallel;
  double bytes = b->bytes * b->tokens * width;

  if (sp)
    build_forward_collective(b, "gather latent", COLLECTIVE_ALL_GATHER, bytes);
  build_backward_sum(b, "sum latent gradient", bytes, FALSE);
  if (sp)
    build_backward_collective(b, "gather latent again", COLLECTIVE_ALL_GATHER, bytes, PASS_WEIGHT, FALSE);
}

/* Down to a normed latent of `rank`, with `aside` that is not normed: weights on
 * every tensor-parallel rank whole, each on its own rows. Of a layer whose norm before it is made again that one's
 * output alone is dropped: the latent's norm is another. */
static void latent_down(Build *b, const char *name, double rank, double aside, gboolean kept, AdapterMatrix matrix)
{
  double elements = b->rows * rank, e = b->bytes;

  build_linear(b, &(Linear) { .name = name, .in = b->hidden, .out = rank + aside, .batch = 1, .rows = b->rows,
                              .bias = b->attention->qkv_bias, .saved = b->bytes * b->rows * b->hidden,
                              .split = LINEAR_REPLICATED, .kept = kept, .narrow = TRUE, .apart = TRUE,
                              .matrix = matrix });
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  build_norms(b, NORM_INSIDE, 1, elements, (Stream) {
    .name = "latent norm", .forward_bytes = 2 * e * elements, .forward_kernels = 1, .backward_bytes = 3 * e * elements,
    .backward_kernels = 2, .saved = e * elements });
  build_params(b, rank);
  build_enter_latent(b, rank + aside);
}

/* The queries' latent as it was beside the normed one (A.X K2), which ranks take up too. */
static void join_latents(Build *b)
{
  double bytes = b->bytes * b->rows * b->attention->q_lora_rank;

  build_enter_latent(b, b->attention->q_lora_rank);
  build_stream(b, &(Stream) { .name = "join latents", .forward_bytes = 4 * bytes, .forward_kernels = 1,
                              .backward_bytes = 5 * bytes, .backward_kernels = 2 });
}

/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries and
 * keys-values pass through low-rank bottlenecks. Products with the keys and values
 * of each head, as in training; absorbing them into the queries pays in decoding only. */
static void project_latent(Build *b)
{
  const Attention *a = b->attention;
  double nope = a->head_dim - a->rope_head_dim, e = b->bytes, t = b->tokens, input = e * b->rows * b->hidden;
  double queries_of = a->gate_of_latent ? 2 : 1; /* latents */
  gboolean queries_keep = !b->frozen || build_adapts(b, a->q_lora_rank ? MATRIX_Q_A : MATRIX_Q_B);

  b->dropped |= 1u << MODULE_LAYERNORM;
  if (a->q_lora_rank)
    latent_down(b, "q down", a->q_lora_rank, 0, FALSE, MATRIX_Q_A);
  b->redone |= 1u << MODULE_MLA_UP_PROJ;
  if (a->gate_of_latent)
    join_latents(b);
  build_linear(b, &(Linear) { .name = "q up", .in = a->q_lora_rank ? queries_of * a->q_lora_rank : b->hidden,
                              .out = query_width(b) + (a->gate_of_latent ? gate_width(b) : 0), .batch = 1, .rows = t,
                              .saved = a->q_lora_rank ? queries_of * e * b->rows * a->q_lora_rank : input,
                              .split = LINEAR_COLUMN, .no_gather = a->q_lora_rank > 0, .matrix = MATRIX_Q_B });
  build_leave(b, MODULE_LAYERNORM);
  b->redone &= ~(1u << MODULE_MLA_UP_PROJ);
  latent_down(b, "kv down", a->kv_lora_rank, a->rope_head_dim, queries_keep, MATRIX_KV_A);
  b->redone |= 1u << MODULE_MLA_UP_PROJ;
  build_linear(b, &(Linear) { .name = "kv up", .in = a->kv_lora_rank, .out = local_heads(b) * (nope + a->v_head_dim),
                              .batch = 1, .rows = t, .saved = e * b->rows * a->kv_lora_rank, .split = LINEAR_COLUMN,
                              .no_gather = TRUE, .matrix = MATRIX_KV_B });
  b->dropped |= 1u << MODULE_MLA_UP_PROJ;
  if (a->gated && !a->gate_of_latent)
    build_linear(b, &(Linear) { .name = "gate", .in = b->hidden, .out = gate_width(b), .batch = 1, .rows = t,
                                .split = LINEAR_COLUMN, .kept = TRUE });
}

/*
 * The indexer of DeepSeek-V3.2 (DeepSeek-AI 2025, section 2.1): few narrow heads score all keys for a query, weighted
 * and summed without being written one by one, and the best are taken. Each tensor-parallel rank makes all of it. A
 * causal mask leaves half of the scores.
 */
static void index_tokens(Build *b)
{
  const Attention *a = b->attention;

  build_linear(b, &(Linear) { .name = "index queries", .in = a->q_lora_rank,
                              .out = (double)a->index_heads * a->index_dim, .batch = 1, .rows = b->tokens,
                              .split = LINEAR_REPLICATED, .kept = TRUE });
  build_linear(b, &(Linear) { .name = "index keys", .in = b->hidden, .out = a->index_dim + a->index_heads, .batch = 1,
                              .rows = b->rows, .split = LINEAR_REPLICATED, .kept = TRUE,
                              .parts = { a->index_dim, a->index_heads } });
  build_params(b, 2.0 * a->index_dim);
  build_enter_latent(b, a->index_dim + a->index_heads);
}

/* MiniMax-M3's, of the input: both are normed, and each head scores keys of its own choice. */
static void index_blocks(Build *b)
{
  const Attention *a = b->attention;
  double width = (a->index_heads + 1.0) * a->index_dim, bytes = b->bytes * b->rows * width;

  build_linear(b, &(Linear) { .name = "index queries and keys", .in = b->hidden, .out = width, .batch = 1,
                              .rows = b->rows, .split = LINEAR_REPLICATED, .kept = TRUE });
  build_norms(b, NORM_INSIDE, 2, b->rows * width, (Stream) {
    .name = "index norm", .forward_bytes = 2 * bytes, .forward_kernels = 2, .backward_bytes = 4 * bytes,
    .backward_kernels = 2, .saved = bytes });
  build_params(b, 2.0 * a->index_dim);
  build_enter_latent(b, width);
}

/* Of blocks the best of each is written alone, for each head. */
static void choose_keys(Build *b)
{
  const Attention *a = b->attention;
  double width = (double)a->index_heads * a->index_dim, e = b->bytes, s = b->seq, wide = dtype_bytes[DTYPE_FP32];
  double lists = a->index_block ? a->index_heads : 1, block = MAX(a->index_block, 1), picked = a->index_top / block;
  double scores = lists * b->passes->micro_batch * s * s / 2 / block;

  if (a->index_block)
    index_blocks(b);
  else
    index_tokens(b);
  if (!chosen(b))
    return;
  build_product(b, "index scores", s, s / 2, width, b->passes->micro_batch);
  build_stream(b, &(Stream) { .name = "choose keys", .forward_bytes = 3 * wide * scores, .forward_kernels = 2,
                              .backward_bytes = 2 * wide * b->tokens * lists * picked, .backward_kernels = 2,
                              .saved = b->tokens * (e * (width + a->index_dim + (a->index_block ? 0 : a->index_heads)) +
                                                    wide * lists * picked) });
}

/* Of the part of keys that is the same for all heads. */
static void norm_rotated(Build *b)
{
  double elements = b->tokens * b->attention->rope_head_dim, bytes = b->bytes * elements;

  if (b->attention->kv_lora_rank && b->attention->whole_params)
    build_norms(b, NORM_INSIDE, 1, elements, (Stream) {
      .name = "rotated key norm", .forward_bytes = 2 * bytes, .forward_kernels = 1, .backward_bytes = 4 * bytes,
      .backward_kernels = 2, .saved = bytes });
}

/* Of latent attention only a part of each query turns, and one of keys that all heads share: alone, unless one kernel
 * turns and joins them. */
static void turn(Build *b, double elements)
{
  const Attention *a = b->attention;
  const Framework *f = b->passes->framework;
  double joined = 2 * b->bytes * elements;

  if (!a->kv_lora_rank || (f->fused_rope && !f->complex_rope && !f->latent_rope_apart)) {
    build_turned_pairs(b, elements);
    return;
  }
  build_turned_pairs(b, b->tokens * (local_heads(b) + 1.0) * a->rope_head_dim);
  build_stream(b, &(Stream) { .name = "join turned", .forward_bytes = joined, .forward_kernels = 2,
                              .backward_bytes = joined, .backward_kernels = 2 });
}

static void rotate(Build *b)
{
  const Attention *a = b->attention;
  double elements = b->tokens * (query_width(b) + (a->keyless ? 0 : key_width(b)));

  if (a->qk_norm) {
    build_norms(b, NORM_OF_HEADS, 2, elements, (Stream) {
      .name = "qk norm", .forward_bytes = 2 * b->bytes * elements, .forward_kernels = 2,
      .backward_bytes = 4 * b->bytes * elements, .backward_kernels = 2, .saved = b->bytes * elements });
    build_params(b, attention_norm_params(a) / (a->qk_norm_whole ? b->tp : 1));
  }
  if (a->conv_each)
    build_scales(b, "key scales", b->bytes * b->tokens * key_width(b), local_kv_heads(b), 1);
  if (a->unit_scales)
    build_scales(b, "query scale", b->bytes * b->tokens * query_width(b), query_width(b), 1);
  if (b->model->positions == POSITIONS_ROPE)
    turn(b, elements);
}

/* A bias for each head, query and distance by a bank that all heads share (transformers' InklingRelativeLogits), which
 * the core reads as it scores. */
static void make_biases(Build *b)
{
  const Attention *a = b->attention;
  double rows = b->tokens * local_heads(b), biases = b->bytes * rows * a->rel_extent;

  if (!a->rel_dim)
    return;
  build_linear(b, &(Linear) { .name = "distance biases", .in = a->rel_dim, .out = a->rel_extent, .batch = 1,
                              .rows = rows, .saved = b->bytes * rows * a->rel_dim, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "read biases", .forward_bytes = biases, .forward_kernels = 1,
                              .backward_bytes = 2 * biases, .backward_kernels = 1, .saved = biases });
}

/* Heads back beside each other. */
static void gather_heads(Build *b)
{
  double moved = 2 * b->bytes * b->tokens * local_heads(b) * b->attention->v_head_dim;

  build_stream(b, &(Stream) { .name = "transpose", .forward_bytes = moved, .forward_kernels = 1,
                              .backward_bytes = b->passes->framework->qkv_joined ? 0 : moved, .backward_kernels = 1 });
}

/* The same of the layout's blocks alone, as DeepSpeed's kernels do: the softmax works in place, in both passes, and
 * there is no dropout of its output (sparse_self_attention.py). */
static void core_of_blocks(Build *b)
{
  const Attention *a = b->attention;
  double side = a->sparse->block, e = b->bytes, each = e * b->tokens * local_heads(b);
  double blocks = b->passes->micro_batch * sparse_blocks(a->sparse, a->heads, b->seq) / b->tp;
  double scores = blocks * side * side;

  build_enter(b, MODULE_CORE_ATTN);
  build_block_product(b, &(BlockProduct) { .name = "scores", .blocks = blocks, .side = side, .inner = a->head_dim,
                                           .dense_bytes = 2 * each * a->head_dim, .scores = TRUE });
  build_stream(b, &(Stream) { .name = "softmax", .forward_bytes = 2 * e * scores, .forward_kernels = 1,
                              .backward_bytes = 3 * e * scores, .backward_kernels = 1, .saved = e * scores });
  build_block_product(b, &(BlockProduct) { .name = "context", .blocks = blocks, .side = side, .inner = a->v_head_dim,
                                           .dense_bytes = 2 * each * a->v_head_dim });
  build_leave(b, MODULE_CORE_ATTN);
  gather_heads(b);
  b->work->transient_bytes = MAX(b->work->transient_bytes, e * scores);
}

/* Gradients of a core's scores, which stand when what lies behind the core has been given back (op.c). */
static void note_scores(Build *b, double bytes)
{
  if (bytes < b->scores_bytes)
    return;
  b->scores_bytes = bytes;
  b->scores_end = b->work->forward->len;
}

/* Scores, softmax, dropout and context as separate kernels; the square of the
 * sequence is written and kept. Dropout keeps its mask and its output. A fused softmax writes its gradient over what it
 * reads (scaled_upper_triang_masked_softmax_cuda.cu: in place), torch.nn.functional's beside it. */
static void core_unfused(Build *b)
{
  const Attention *a = b->attention;
  double batch = b->passes->micro_batch * local_heads(b) * stretches(b);
  double s = b->seq / stretches(b), kv = keys_seen(b), e = b->bytes;
  double scores = batch * s * kv;
  gboolean one = b->passes->framework->fused_softmax;
  gboolean triangle = one && b->passes->framework->triangular_softmax && a->causal && kv == s;

  build_enter(b, MODULE_CORE_ATTN);
  build_product(b, "scores", s, kv, a->head_dim, batch);
  if (b->model->positions == POSITIONS_RELATIVE && a == &b->spec->attention)
    build_stream(b, &(Stream) { .name = "position bias", .forward_bytes = 3 * e * scores, .forward_kernels = 1,
                                .backward_bytes = e * scores, .backward_kernels = 1 });
  build_stream(b, &(Stream) {
    .name = "softmax",
    .forward_bytes = (triangle ? 1.5 : one ? 2 : 8) * e * scores, .forward_kernels = one ? 1 : 4,
    .backward_bytes = (triangle ? 2 : one ? 3 : 7) * e * scores, .backward_kernels = one ? 1 : 3,
    .saved = e * scores,
  });
  if (b->model->dropout)
    build_stream(b, &(Stream) {
      .name = "attention dropout",
      .forward_bytes = (2 * e + 1) * scores, .forward_kernels = 1,
      .backward_bytes = (2 * e + 1) * scores, .backward_kernels = 1,
      .saved = (e + 1) * scores,
    });
  build_product(b, "context", s, a->v_head_dim, kv, batch);
  note_scores(b, (one ? 1 : 2) * e * scores);
  build_leave(b, MODULE_CORE_ATTN);
  gather_heads(b);
}

static void core_fused(Build *b, const CoreRows *rows)
{
  const Attention *a = b->attention;
  double batch = b->passes->micro_batch * stretches(b), heads = local_heads(b), s = b->seq / stretches(b);
  double kv = keys_seen(b), computed = build_scored_keys(b, s, kv);
  int head_dim = a->head_dim, v_head_dim = a->v_head_dim;

  if (chosen(b) && a->kv_lora_rank) { /* heads share the latents of the keys that are fetched */
    head_dim = a->kv_lora_rank + a->rope_head_dim;
    v_head_dim = a->kv_lora_rank;
  }
  Op op = {
    .name = "attention", .kind = OP_ATTENTION, .pass = PASS_FORWARD, .redone = 1u << MODULE_CORE_ATTN,
    .dropped = 1u << MODULE_CORE_ATTN, .part = b->part,
    .attention = { .batch = batch, .heads = heads, .q_len = s, .kv_len = computed, .head_dim = head_dim,
                   .v_head_dim = v_head_dim, .causal = a->causal && !a->sparse && kv == s,
                   .whole_len = chosen(b) ? 0 : build_whole_keys(b, s, kv),
                   .dropout = b->model->dropout, .dtype = b->passes->attention_format },
    .flops = 2 * batch * heads * s * kv * (head_dim + v_head_dim),
    .saved_bytes = 4 * heads * b->tokens, /* log-sum-exp of each row */
  };

  if (b->passes->cp > 1) {
    build_context_core(b, heads, build_core_keys_bytes(b, rows));
  } else {
    g_array_append_val(b->work->forward, op);
    op.pass = PASS_INPUT;
    op.redone = op.dropped = 0;
    op.flops *= 2;
    op.saved_bytes = 0;
    g_array_append_val(b->work->backward, op);
  }
}

static void core(Build *b)
{
  const CoreRows rows = { .queries = query_width(b), .keys = key_width(b), .values = value_width(b),
                          .context = local_heads(b) * b->attention->v_head_dim, .fused = fused(b) };

  build_core_entry(b, &rows);
  if (rows.fused)
    core_fused(b, &rows);
  else if (b->attention->sparse)
    core_of_blocks(b);
  else
    core_unfused(b);
  build_core_exit(b, &rows);
}

/* What is added to scores (transformers' DogeAttention): a number of each head and key, which tensor-parallel ranks
 * sum, spread over queries, cut to the largest, and spread over the heads that share a key; kept. */
static void mask_keys(Build *b)
{
  const Attention *a = b->attention;
  double square = b->bytes * b->tokens * b->keys, made = b->bytes * b->tokens * a->kv_heads;
  double kv = square * local_kv_heads(b), all = square * local_heads(b);
  gboolean cut = b->seq > a->mask_keep;

  build_linear(b, &(Linear) { .name = "mask values", .in = value_width(b), .out = a->kv_heads, .batch = 1,
                              .rows = b->tokens, .bias = a->qkv_bias, .split = LINEAR_ROW, .no_reduce = TRUE,
                              .kept = TRUE });
  build_forward_collective(b, "sum mask", COLLECTIVE_ALL_REDUCE, made);
  build_backward_collective(b, "sum mask gradient", COLLECTIVE_ALL_REDUCE, made, PASS_INPUT, FALSE);
  build_params(b, a->kv_heads);
  build_stream(b, &(Stream) { .name = "mask", .forward_bytes = (cut ? 8 : 2) * kv + 2 * all,
                              .forward_kernels = cut ? 7 : 3, .backward_bytes = 2 * all + (cut ? 3 : 2) * kv,
                              .backward_kernels = 3, .saved = all });
  b->work->transient_bytes = MAX(b->work->transient_bytes, cut ? 2 * kv : kv);
}

/* A second core, of the other half of the values; both outputs beside each other, halves of heads taken from each
 * other, and a norm without weights (transformers' DiffLlamaAttention). */
static void take_difference(Build *b)
{
  double out = b->bytes * b->tokens * local_heads(b) * b->attention->v_head_dim;
  double values = b->bytes * b->tokens * value_width(b);

  core(b);
  build_stream(b, &(Stream) { .name = "difference", .forward_bytes = 4 * values + 11 * out, .forward_kernels = 7,
                              .backward_bytes = 4 * values + 13 * out, .backward_kernels = 8,
                              .saved = (fused(b) ? 5 : 3) * out });
}

/* The core and what makes its output hidden again; `kept_bytes` of queries, keys and values are kept by the core, and
 * by a fused one what it gives. */
static void attend(Build *b, const char *projection, double kept_bytes, AdapterMatrix matrix)
{
  const Attention *a = b->attention;
  double out_width = local_heads(b) * a->v_head_dim;

  g_array_index(b->work->forward, Op, b->work->forward->len - 1).saved_bytes += kept_bytes;
  if (a->masked)
    mask_keys(b);
  core(b);
  if (a->differential)
    take_difference(b);
  build_params(b, a->extra_params / b->tp + a->whole_params);
  if (a->global_projections)
    build_params(b, (b->hidden + 1) * (a->heads * a->head_dim + attention_made_keys(a)) / b->tp);
  if (a->experts) {
    build_expert_outputs(b);
    return;
  }
  apply_gate(b);
  if (a->gate_bias)
    build_params(b, local_heads(b));
  if (a->inner_norm)
    build_inner_norm(b, "heads norm", b->tokens, out_width);
  build_params(b, a->inner_norm && !a->unit_scales ? out_width : 0);
  build_linear(b, &(Linear) {
    .name = projection, .in = out_width, .out = b->hidden, .batch = 1, .rows = b->tokens, .bias = a->out_bias,
    .saved = b->bytes * b->tokens * out_width, .split = LINEAR_ROW, .no_reduce = b->spec->parallel, .unmade = TRUE,
    .original = TRUE, .stays = fused(b) && !a->gated && !a->inner_norm && !a->differential, .matrix = matrix,
  });
}

/* Keys and values that the layer keeps: of its own. */
static double kept_keys(const Build *b)
{
  return b->attention->keyless ? 0 : key_width(b) + value_width(b);
}

/* Of keys and values to those that other layers give to their maker. */
static void add_gradients(Build *b)
{
  double bytes = b->bytes * b->tokens * (key_width(b) + value_width(b));

  build_stream(b, &(Stream) { .name = "sum key gradient", .backward_bytes = 3 * bytes, .backward_kernels = 2 });
}

void build_attention(Build *b)
{
  if (b->attention->experts)
    build_expert_queries(b);
  else if (b->attention->kv_lora_rank)
    project_latent(b);
  else
    project_grouped(b);
  norm_rotated(b);
  build_convolved_queries(b);
  build_wide_convolution(b, "key convolution", b->tokens, key_width(b) + value_width(b), b->attention->conv, 8);
  make_biases(b);
  rotate(b);
  build_leave(b, MODULE_MLA_UP_PROJ);
  if (b->attention->index_heads && !b->attention->index_shared)
    choose_keys(b);
  if (b->attention->keyless)
    add_gradients(b);
  attend(b, "projection", b->bytes * b->tokens * (query_width(b) + kept_keys(b)), MATRIX_PROJ);
}

/* Keys and values of the encoder's output, which the decoder's first block keeps for all; its gradients add up. */
static double project_memory(Build *b)
{
  Build memory = *b;
  double width = key_width(b) + value_width(b), apart = b->passes->framework->fused_weights ? 0 : 1;

  memory.tokens = b->tokens / b->seq * b->keys;
  memory.rows = b->rows / b->seq * b->keys;
  double bytes = b->bytes * memory.rows * b->hidden;
  build_stream(&memory, &(Stream) { .name = "sum encoder gradient", .backward_bytes = 3 * bytes,
                                    .backward_kernels = 1 });
  build_linear(&memory, &(Linear) {
    .name = "cross kv", .in = b->hidden, .out = width, .batch = 1, .rows = memory.tokens,
            .bias = b->attention->qkv_bias,
    .saved = b->spec->entry ? bytes : 0, .split = LINEAR_COLUMN, .matrix = MATRIX_CROSS_KV,
    .parts = { apart * key_width(b), apart * value_width(b) },
  });
  b->work->transient_bytes += bytes;
  return b->bytes * memory.tokens * width;
}

void build_cross_attention(Build *b)
{
  const Attention *own = b->attention;
  double keys = b->keys;

  b->attention = &b->spec->cross;
  b->keys = b->passes->seq;
  double memory_bytes = project_memory(b);
  b->dropped |= 1u << MODULE_LAYERNORM;
  build_linear(b, &(Linear) {
    .name = "cross q", .in = b->hidden, .out = query_width(b), .batch = 1, .rows = b->tokens,
    .bias = b->attention->qkv_bias, .saved = b->bytes * b->rows * b->hidden, .split = LINEAR_COLUMN,
    .matrix = MATRIX_CROSS_Q,
  });
  build_leave(b, MODULE_LAYERNORM);
  attend(b, "cross projection", memory_bytes + b->bytes * b->tokens * query_width(b), MATRIX_CROSS_PROJ);
  b->attention = own;
  b->keys = keys;
}
