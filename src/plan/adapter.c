#include "plan/adapter.h"

#include "base/json.h"

#include <string.h>

#define RANK_MAX 65536
#define SCALE_VALUES 64.0       /* weights that share a scale */
#define SCALES_VALUES 256.0     /* scales that share one of 32 bits */
#define WIDE 4.0

const char *const adapter_kind_names[] = { "none", "lora", "qlora", NULL };

/* The first name is ours. */
static const struct {
  const char *names[3];
  const char *bridge;
} targets[TARGET_COUNT] = {
  [TARGET_Q] = { { "q_proj" }, "linear_q" },
  [TARGET_K] = { { "k_proj" }, "linear_k" },
  [TARGET_V] = { { "v_proj" }, "linear_v" },
  [TARGET_PROJ] = { { "o_proj", "proj" }, "linear_proj" },
  [TARGET_GATE] = { { "gate_proj" }, "linear_fc1_gate" },
  [TARGET_UP] = { { "up_proj" }, "linear_fc1_up" },
  [TARGET_FC2] = { { "down_proj", "fc2" }, "linear_fc2" },
  [TARGET_Q_A] = { { "q_a_proj" }, "linear_q_down_proj" },
  [TARGET_Q_B] = { { "q_b_proj" }, "linear_q_up_proj" },
  [TARGET_KV_A] = { { "kv_a_proj_with_mqa", "kv_a_proj" }, "linear_kv_down_proj" },
  [TARGET_KV_B] = { { "kv_b_proj" }, "linear_kv_up_proj" },
  [TARGET_IN] = { { "in_proj" }, NULL },
  [TARGET_OUT] = { { "out_proj" }, NULL },
  [TARGET_QKV] = { { "qkv" }, "linear_qkv" },
  [TARGET_FC1] = { { "fc1" }, "linear_fc1" },
};

const char *adapter_target_name(AdapterTarget target)
{
  return targets[target].names[0];
}

const char *adapter_bridge_name(AdapterTarget target)
{
  return targets[target].bridge;
}

/* ---- text ---- */

static int find_target(const char *name)
{
  for (int i = 0; i < TARGET_COUNT; i++) {
    for (gsize k = 0; k < G_N_ELEMENTS(targets[i].names) && targets[i].names[k]; k++)
      if (g_str_equal(name, targets[i].names[k]))
        return i;
    if (targets[i].bridge && g_str_equal(name, targets[i].bridge))
      return i;
  }
  return -1;
}

static char *expected_targets(const char *name)
{
  g_autoptr(GString) list = g_string_new(NULL);

  for (int i = 0; i < TARGET_COUNT; i++)
    g_string_append_printf(list, ", %s", targets[i].names[0]);
  return g_strdup_printf("targets of all-linear%s, not \"%s\"", list->str, name);
}

static char *add_target(const char *name, guint *mask)
{
  int target = find_target(name);

  if (g_str_equal(name, "all-linear"))
    *mask |= TARGETS_LINEAR;
  else if (target < 0)
    return expected_targets(name);
  else
    *mask |= 1u << target;
  return NULL;
}

/* Of matrices that are one, or each its own. */
static char *check_targets(guint mask)
{
  guint queries = 1u << TARGET_Q | 1u << TARGET_K | 1u << TARGET_V, ups = 1u << TARGET_GATE | 1u << TARGET_UP;

  if (mask >> TARGET_QKV & 1 && mask & queries)
    return g_strdup("targets with qkv as one matrix, or of q_proj, k_proj and v_proj");
  if (mask >> TARGET_FC1 & 1 && mask & ups)
    return g_strdup("targets with fc1 as one matrix, or of gate_proj and up_proj");
  return NULL;
}

static gboolean read_rank(const char *text, int *out)
{
  gint64 rank = 0;
  gboolean ok = g_ascii_string_to_signed(text, 10, 1, RANK_MAX, &rank, NULL);

  *out = (int)rank;
  return ok;
}

/* Words behind the colon, of which names of targets may be several. */
static char *read_words(char **words, Adapter *out)
{
  gboolean naming = FALSE;

  for (; *words; words++) {
    const char *name = *words, *value = strchr(name, '=');
    if (g_str_has_prefix(name, "targets=")) {
      naming = TRUE;
      name = value + 1;
      value = NULL;
    }
    if (naming && !value) {
      char *expected = add_target(name, &out->targets);
      if (expected)
        return expected;
      continue;
    }
    if (!g_str_has_prefix(name, "r=") || out->rank || !read_rank(value + 1, &out->rank))
      return g_strdup_printf("r=N once, N from 1 to %d, and targets=NAME,NAME, not \"%s\"", RANK_MAX, name);
    naming = FALSE;
  }
  return NULL;
}

char *adapter_parse(const char *text, Adapter *out)
{
  g_auto(GStrv) parts = g_strsplit(text, ":", 2);
  int kind = parts[0] ? names_find(adapter_kind_names, parts[0]) : -1;

  *out = (Adapter) { 0 };
  if (kind == ADAPTER_NONE && !parts[1])
    return NULL;
  if (kind <= ADAPTER_NONE || !parts[1])
    return g_strdup("none, lora:r=N or qlora:r=N, with targets=NAME,NAME or for all-linear");
  g_auto(GStrv) words = g_strsplit(parts[1], ",", -1);
  Adapter read = { .kind = kind };
  char *expected = read_words(words, &read);
  if (!expected && !read.rank)
    expected = g_strdup_printf("r=N, the rank, N from 1 to %d", RANK_MAX);
  read.targets = read.targets ? read.targets : TARGETS_LINEAR;
  expected = expected ? expected : check_targets(read.targets);
  if (!expected)
    *out = read;
  return expected;
}

char *adapter_text(const Adapter *a)
{
  g_autoptr(GString) text = g_string_new(adapter_kind_names[a->kind]);
  const char *before = ",targets=";

  if (!adapter_freezes(a))
    return g_strdup(text->str);
  g_string_append_printf(text, ":r=%d", a->rank);
  for (int i = 0; i < TARGET_COUNT && a->targets != TARGETS_LINEAR; i++)
    if (a->targets >> i & 1) {
      g_string_append_printf(text, "%s%s", before, targets[i].names[0]);
      before = ",";
    }
  return g_strdup(text->str);
}

/* ---- what targets name ---- */

typedef struct {
  AdaptedPart *parts;
  int n;
} Parts;

static void add_part(Parts *p, AdapterTarget target, AdapterMatrix matrix, gint64 in, gint64 out, gint64 of)
{
  g_assert(p->n < ADAPTED_MAX);
  if (out > 0)
    p->parts[p->n++] = (AdaptedPart) { target, matrix, in, out, of };
}

static void add_whole(Parts *p, AdapterTarget target, AdapterMatrix matrix, gint64 in, gint64 out)
{
  add_part(p, target, matrix, in, out, out);
}

static void add_latent(Parts *p, const Attention *a, gint64 hidden)
{
  gint64 queries = (gint64)a->heads * a->head_dim, nope = a->head_dim - a->rope_head_dim;

  if (a->q_lora_rank) {
    add_whole(p, TARGET_Q_A, MATRIX_Q_A, hidden, a->q_lora_rank);
    add_whole(p, TARGET_Q_B, MATRIX_Q_B, a->q_lora_rank, queries);
  } else {
    add_whole(p, TARGET_Q, MATRIX_Q_B, hidden, queries);
  }
  add_whole(p, TARGET_KV_A, MATRIX_KV_A, hidden, a->kv_lora_rank + a->rope_head_dim);
  add_whole(p, TARGET_KV_B, MATRIX_KV_B, a->kv_lora_rank, a->heads * (nope + a->v_head_dim));
}

static void add_attention(Parts *p, const Attention *a, gint64 hidden)
{
  gint64 q = (gint64)a->heads * a->head_dim + (a->gate_of_head ? 0 : attention_gate(a));
  gint64 k = a->keyless ? 0 : (gint64)a->kv_heads * a->head_dim, v = attention_made_keys(a) - k;

  if (a->kv_lora_rank) {
    add_latent(p, a, hidden);
  } else {
    add_whole(p, TARGET_QKV, MATRIX_QKV, hidden, q + k + v);
    add_part(p, TARGET_Q, MATRIX_QKV, hidden, q, q + k + v);
    add_part(p, TARGET_K, MATRIX_QKV, hidden, k, q + k + v);
    add_part(p, TARGET_V, MATRIX_QKV, hidden, v, q + k + v);
  }
  add_whole(p, TARGET_PROJ, MATRIX_PROJ, (gint64)a->heads * a->v_head_dim, hidden);
}

static void add_cross(Parts *p, const Attention *a, gint64 hidden)
{
  gint64 k = (gint64)a->kv_heads * a->head_dim, v = (gint64)a->kv_heads * a->v_head_dim;

  add_whole(p, TARGET_Q, MATRIX_CROSS_Q, hidden, (gint64)a->heads * a->head_dim);
  add_part(p, TARGET_K, MATRIX_CROSS_KV, hidden, k, k + v);
  add_part(p, TARGET_V, MATRIX_CROSS_KV, hidden, v, k + v);
  add_whole(p, TARGET_PROJ, MATRIX_CROSS_PROJ, (gint64)a->heads * a->v_head_dim, hidden);
}

static void add_feed_forward(Parts *p, const FeedForward *f, gint64 hidden)
{
  gint64 gate = f->kind == MLP_SWIGLU ? f->width : 0, of = gate + f->width;

  add_whole(p, TARGET_FC1, MATRIX_FC1, hidden, of);
  add_part(p, TARGET_GATE, MATRIX_FC1, hidden, gate, of);
  add_part(p, TARGET_UP, MATRIX_FC1, hidden, f->width, of);
  add_whole(p, TARGET_FC2, MATRIX_FC2, f->width, hidden);
}

int adapter_parts(const LayerSpec *spec, int hidden, AdaptedPart parts[ADAPTED_MAX])
{
  Parts p = { parts, 0 };

  if (spec->kind != LAYER_BLOCK && spec->kind != LAYER_MTP)
    return 0;
  if (spec->linear.heads) {
    add_whole(&p, TARGET_IN, MATRIX_IN, hidden, linear_projected(&spec->linear));
    add_whole(&p, TARGET_OUT, MATRIX_OUT, linear_values(&spec->linear), hidden);
  }
  if (spec->attention.heads)
    add_attention(&p, &spec->attention, hidden);
  if (spec->cross.heads)
    add_cross(&p, &spec->cross, hidden);
  if (spec->ffn.width > 0 && !spec->ffn.experts)
    add_feed_forward(&p, &spec->ffn, hidden);
  return p.n;
}

guint adapter_named(const Model *m)
{
  AdaptedPart parts[ADAPTED_MAX];
  guint named = 0;

  for (int i = 0; i < m->n_specs; i++)
    for (int k = adapter_parts(&m->specs[i], m->hidden, parts); k > 0; k--)
      named |= 1u << parts[k - 1].target;
  return named;
}

#define TARGETS_MLP (1u << TARGET_GATE | 1u << TARGET_UP | 1u << TARGET_FC1 | 1u << TARGET_FC2)

char *adapter_refusal(const Adapter *a, const Model *m)
{
  guint named = adapter_named(m), missing = a->targets == TARGETS_LINEAR ? 0 : a->targets & ~named;

  if (!adapter_freezes(a))
    return NULL;
  if (m->patch)
    return g_strdup_printf("a model of text, %s has classes to train", m->name);
  if (model_has_experts(m) && a->targets & TARGETS_MLP)
    return g_strdup_printf("targets of attention alone, as in targets=q_proj,k_proj,v_proj,o_proj: %s has experts, "
                           "adapters of which are not modelled", m->name);
  if (model_attending(m) && model_attending(m)->attention.gate_of_head)
    return g_strdup_printf("a model without gates of heads, adapters of which are not modelled: %s has them", m->name);
  if (m->side)
    return g_strdup_printf("a model without embeddings for each layer, adapters of which are not modelled: %s has them",
                           m->name);
  if (model_own_mechanism(m))
    return g_strdup_printf("a model without %s, adapters of which are not modelled: %s has it", model_own_mechanism(m),
                           m->name);
  for (int i = 0; i < m->n_specs; i++)
    if (linear_inner_params(&m->specs[i].linear, m->hidden) > 0)
      return g_strdup_printf("a model without products inside of linear attention, adapters of which are not modelled: "
                             "%s has them", m->name);
  for (int i = 0; i < TARGET_COUNT; i++)
    if (missing >> i & 1)
      return g_strdup_printf("targets that %s has, not %s", m->name, targets[i].names[0]);
  return a->targets & named ? NULL : g_strdup("a model with such matrices");
}

gboolean adapter_adapts(const Adapter *a, const LayerSpec *spec, int hidden, AdapterMatrix matrix)
{
  AdaptedPart parts[ADAPTED_MAX];
  int n = adapter_freezes(a) ? adapter_parts(spec, hidden, parts) : 0;

  for (int i = 0; i < n; i++)
    if (parts[i].matrix == matrix && a->targets >> parts[i].target & 1)
      return TRUE;
  return FALSE;
}

/* ---- counts ---- */

static gint64 params_of(const Adapter *a, const LayerSpec *spec, int hidden)
{
  AdaptedPart parts[ADAPTED_MAX];
  gint64 params = 0;

  for (int k = adapter_parts(spec, hidden, parts); k > 0; k--)
    params += a->targets >> parts[k - 1].target & 1 ? a->rank * (parts[k - 1].in + parts[k - 1].out) : 0;
  return params;
}

gint64 adapter_params(const Adapter *a, const Model *model)
{
  gint64 params = 0;

  for (int i = 0; i < model->n_layers && adapter_freezes(a); i++)
    params += params_of(a, model_layer(model, i), model->hidden);
  return params;
}

gint64 adapter_layer_trained(const Adapter *a, const LayerSpec *spec, int hidden)
{
  return adapter_freezes(a) ? params_of(a, spec, hidden) : spec->params;
}

gint64 adapter_trained(const Adapter *a, const Model *m)
{
  return adapter_freezes(a) ? adapter_params(a, m) : m->params;
}

/* Gradients of frozen weights are not made; adapters are trained. */
static double flops_more(const Adapter *a, const Model *m, int seq, int decoder_seq)
{
  if (!adapter_freezes(a))
    return 0;
  return 6.0 * (double)adapter_params(a, m) * decoder_seq - model_matrix_flops(m, seq, decoder_seq) / 3;
}

double adapter_model_flops(const Adapter *a, const Model *m, int seq, int decoder_seq)
{
  return model_flops_of_both(m, seq, decoder_seq) + flops_more(a, m, seq, decoder_seq);
}

double adapter_flops_unmasked(const Adapter *a, const Model *m, int seq, int decoder_seq)
{
  return model_flops_unmasked(m, seq, decoder_seq) + flops_more(a, m, seq, decoder_seq);
}

double adapter_frozen_bytes(const Adapter *a, DType precision, gboolean matrix)
{
  double bits = 4 + (8 + 32 / SCALES_VALUES) / SCALE_VALUES;

  return a->kind == ADAPTER_QLORA && matrix ? bits / 8 : dtype_bytes[precision];
}

double adapter_layer_frozen_bytes(const Adapter *a, const LayerSpec *spec, DType precision)
{
  gboolean block = spec->kind == LAYER_BLOCK || spec->kind == LAYER_MTP;

  return adapter_freezes(a) ? spec->params * adapter_frozen_bytes(a, precision, block) : 0;
}

double adapter_frozen_model_bytes(const Adapter *a, const Model *m, DType precision)
{
  double bytes = 0;

  for (int i = 0; i < m->n_layers; i++)
    bytes += adapter_layer_frozen_bytes(a, model_layer(m, i), precision);
  return bytes;
}

double adapter_unpack_bytes(const Adapter *a, DType precision)
{
  double scales = 4 * WIDE / SCALE_VALUES; /* written, added to and read in 32 bits */

  return a->kind == ADAPTER_QLORA ? adapter_frozen_bytes(a, precision, TRUE) + scales + dtype_bytes[precision] : 0;
}
