#include "search/search.h"

#include "base/error.h"

Fixed fixed_none(void)
{
  return (Fixed) { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, NULL };
}

typedef struct {
  const char *key;
  gsize offset;
  int min, max;
} FixedKey;

static const FixedKey fixed_keys[] = {
  { "tp", G_STRUCT_OFFSET(Fixed, tp), 1, 1 << 24 },
  { "pp", G_STRUCT_OFFSET(Fixed, pp), 1, 1 << 24 },
  { "vpp", G_STRUCT_OFFSET(Fixed, vpp), 1, 1 << 24 },
  { "split_rank", G_STRUCT_OFFSET(Fixed, split_rank), 0, 1 << 24 },
  { "dp", G_STRUCT_OFFSET(Fixed, dp), 1, 1 << 24 },
  { "cp", G_STRUCT_OFFSET(Fixed, cp), 1, 1 << 24 },
  { "ep", G_STRUCT_OFFSET(Fixed, ep), 1, 1 << 24 },
  { "etp", G_STRUCT_OFFSET(Fixed, etp), 1, 1 << 24 },
  { "mbs", G_STRUCT_OFFSET(Fixed, micro_batch), 1, 1 << 24 },
  { "zero", G_STRUCT_OFFSET(Fixed, zero), 0, 3 },
  { "shard", G_STRUCT_OFFSET(Fixed, shard_group), 0, 1 << 24 },
  { "overlap", G_STRUCT_OFFSET(Fixed, overlap), 0, 1 },
  { "sp", G_STRUCT_OFFSET(Fixed, sequence_parallel), 0, 1 },
};

static gboolean bad_fix(GError **error, const char *key, const char *value, const char *expected)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %s: expected %s", key, value, expected);
  return FALSE;
}

static gboolean fix_number(const FixedKey *key, const char *value, Fixed *out, GError **error)
{
  gint64 number;

  if (!g_ascii_string_to_signed(value, 10, key->min, key->max, &number, NULL)) {
    g_autofree char *expected = g_strdup_printf("an integer from %d to %d", key->min, key->max);
    return bad_fix(error, key->key, value, expected);
  }
  if (G_STRUCT_MEMBER(int, out, key->offset) >= 0)
    return bad_fix(error, key->key, value, "each key once");
  G_STRUCT_MEMBER(int, out, key->offset) = (int)number;
  return TRUE;
}

/* A granularity; "full:4" are 4 layers of each stage, "full:any" some. */
static gboolean fix_recompute(const char *value, Fixed *out, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(value, ":", 2);
  gint64 layers = 0;

  out->recompute = parts[0] ? names_find(recompute_names, parts[0]) : -1;
  if (out->recompute < 0 || (parts[1] && out->recompute != RECOMPUTE_FULL) ||
      (parts[1] && !g_str_equal(parts[1], "any") &&
       !g_ascii_string_to_signed(parts[1], 10, 1, SPLIT_LAYERS_MAX, &layers, NULL)))
    return bad_fix(error, "recompute", value, "none, selective, full, full:N (layers of a stage) or full:any");
  out->recompute_layers = parts[1] ? (int)layers : -1;
  return TRUE;
}

const char *const fixed_orders[] = { "tp-dp-pp", "tp-pp-dp", NULL };

/* Nothing, the optimizer, it and weights, both on NVMe. */
static const char *const fixed_offloads[] = { "none", "optimizer", "parameters", "nvme", NULL };

/* By name, or 0 and 1 for the first two. */
static gboolean fix_offload(const char *value, Fixed *out, GError **error)
{
  int named = names_find(fixed_offloads, value);

  out->offload = named >= 0 ? named : g_str_equal(value, "0") ? 0 : g_str_equal(value, "1") ? 1 : -1;
  return out->offload >= 0 || bad_fix(error, "offload", value,
                                     "none, optimizer, parameters (and optimizer) or nvme (both)");
}

static gboolean fix_one(const char *key, const char *value, Fixed *out, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(fixed_keys); i++)
    if (g_str_equal(fixed_keys[i].key, key))
      return fix_number(&fixed_keys[i], value, out, error);
  if (g_str_equal(key, "recompute"))
    return fix_recompute(value, out, error);
  if (g_str_equal(key, "offload"))
    return fix_offload(value, out, error);
  if (g_str_equal(key, "dispatcher")) {
    out->dispatch = names_find(expert_dispatch_names, value);
    return out->dispatch >= 0 || bad_fix(error, key, value, "alltoall, allgather, flex or hybridep");
  }
  if (g_str_equal(key, "order")) {
    out->order = names_find(fixed_orders, value);
    return out->order >= 0 || bad_fix(error, key, value, "tp-dp-pp or tp-pp-dp");
  }
  if (g_str_equal(key, "optimizer")) {
    out->optimizer = names_find(optimizer_names, value);
    return out->optimizer >= 0 || bad_fix(error, key, value, "adam, adamw, sgd, adafactor, adam8bit or muon");
  }
  if (g_str_equal(key, "schedule")) {
    out->schedule = schedule_find(value);
    return out->schedule || bad_fix(error, key, value, "the name of a schedule");
  }
  return bad_fix(error, key, value,
                 "one of the keys tp, pp, vpp, split_rank, dp, cp, ep, etp, mbs, zero, shard, offload, overlap, sp, "
                 "recompute, dispatcher, order, optimizer, schedule");
}

static gboolean parse_all(const char *text, Fixed *out, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);

  if (!parts[0])
    return bad_fix(error, "\"\"", "no value", "KEY=VALUE, as in tp=8,zero=1");
  for (int i = 0; parts[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(parts[i], "=", 2);
    if (g_strv_length(pair) != 2)
      return bad_fix(error, parts[i], "no value", "KEY=VALUE, as in tp=8,zero=1");
    if (!fix_one(g_strstrip(pair[0]), g_strstrip(pair[1]), out, error))
      return FALSE;
  }
  return TRUE;
}

void fixed_write(const Fixed *fixed, GString *text)
{
  static const FixedKey named[] = { { "recompute", G_STRUCT_OFFSET(Fixed, recompute) },
                                    { "recompute_layers", G_STRUCT_OFFSET(Fixed, recompute_layers) },
                                    { "offload", G_STRUCT_OFFSET(Fixed, offload) },
                                    { "dispatcher", G_STRUCT_OFFSET(Fixed, dispatch) },
                                    { "order", G_STRUCT_OFFSET(Fixed, order) },
                                    { "optimizer", G_STRUCT_OFFSET(Fixed, optimizer) } };

  G_STATIC_ASSERT((G_N_ELEMENTS(fixed_keys) + G_N_ELEMENTS(named)) * sizeof(int) ==
                  G_STRUCT_OFFSET(Fixed, recompute_layers) + sizeof(int));
  for (gsize i = 0; i < G_N_ELEMENTS(fixed_keys); i++)
    g_string_append_printf(text, "%s=%d ", fixed_keys[i].key, G_STRUCT_MEMBER(int, fixed, fixed_keys[i].offset));
  for (gsize i = 0; i < G_N_ELEMENTS(named); i++)
    g_string_append_printf(text, "%s=%d ", named[i].key, G_STRUCT_MEMBER(int, fixed, named[i].offset));
  g_string_append_printf(text, "schedule=%s ", fixed->schedule ? fixed->schedule->name : "");
}

gboolean fixed_parse(const char *option, const char *text, Fixed *fixed, GError **error)
{
  if (parse_all(text, fixed, error))
    return TRUE;
  g_prefix_error(error, "%s: ", option);
  return FALSE;
}

gboolean space_parse(const char *option, const char *text, guint *space, GError **error)
{
  static const char *const names[] = { "offload", "zero++", "states", "order", NULL };
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);

  for (int i = 0; parts[i]; i++) {
    int named = names_find(names, parts[i]);
    if (named < 0) {
      g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %s: expected some of offload, zero++, states, order", option,
                  parts[i]);
      return FALSE;
    }
    *space |= 1u << named;
  }
  return TRUE;
}
