/* The plan's objects "zero_optimization" and "offload": reading and writing. */
#include "plan/sharding.h"

const char *const store_names[] = { "none", "cpu", "nvme", NULL };

#define PARAMS_MAX 1e12

static const JsonField option_fields[] = {
  { "reduce_bucket_size", JSON_REAL, G_STRUCT_OFFSET(ShardingOptions, bucket), FALSE, 1, PARAMS_MAX },
  { "stage3_prefetch_bucket_size", JSON_REAL, G_STRUCT_OFFSET(ShardingOptions, prefetch), FALSE, 0, PARAMS_MAX },
  { "stage3_max_live_parameters", JSON_REAL, G_STRUCT_OFFSET(ShardingOptions, live), FALSE, 1, PARAMS_MAX },
  { "stage3_param_persistence_threshold", JSON_REAL, G_STRUCT_OFFSET(ShardingOptions, persistence), FALSE, 0,
    PARAMS_MAX },
  { "reshard_after_forward", JSON_BOOL, G_STRUCT_OFFSET(ShardingOptions, keeps_gathered) },
  { "no_sync", JSON_BOOL, G_STRUCT_OFFSET(ShardingOptions, no_sync) },
  { "zero_hpz_partition_size", JSON_INT, G_STRUCT_OFFSET(ShardingOptions, secondary), FALSE, 1, 1e7 },
  { "zero_quantized_weights", JSON_BOOL, G_STRUCT_OFFSET(ShardingOptions, quantized_weights) },
  { "zero_quantized_gradients", JSON_BOOL, G_STRUCT_OFFSET(ShardingOptions, quantized_gradients) },
  { "tiling_factor", JSON_INT, G_STRUCT_OFFSET(ShardingOptions, tiling), FALSE, 1, 1024 },
  { "gradient_as_bucket_view", JSON_BOOL, G_STRUCT_OFFSET(ShardingOptions, bucket_view) },
};

static const JsonField offload_fields[] = {
  { "optimizer", JSON_ENUM, G_STRUCT_OFFSET(Offload, optimizer), .names = store_names },
  { "parameters", JSON_ENUM, G_STRUCT_OFFSET(Offload, parameters), .names = store_names },
  { "activations", JSON_ENUM, G_STRUCT_OFFSET(Offload, activations), .names = store_names },
  { "delayed_update", JSON_BOOL, G_STRUCT_OFFSET(Offload, delayed) },
  { "sub_group_size", JSON_REAL, G_STRUCT_OFFSET(Offload, sub_group), FALSE, 1, PARAMS_MAX },
};

gboolean sharding_options_read(const JsonDoc *doc, const cJSON *plan, ShardingOptions *out, GError **error)
{
  const cJSON *object = json_get_object(doc, plan, "zero_optimization", FALSE, error);

  if (!object)
    return !json_get(plan, "zero_optimization");
  /* the file says what the struct negates */
  out->keeps_gathered = !out->keeps_gathered;
  if (!json_read(doc, object, option_fields, G_N_ELEMENTS(option_fields), out, error))
    return FALSE;
  out->keeps_gathered = !out->keeps_gathered;
  if (out->secondary == 1)
    out->secondary = 0; /* DeepSpeed's way to say none */
  return TRUE;
}

gboolean offload_read(const JsonDoc *doc, const cJSON *plan, Offload *out, GError **error)
{
  const cJSON *given = json_get(plan, "offload");
  gboolean optimizer = cJSON_IsString(given) && g_str_equal(given->valuestring, "optimizer");

  if (!given || (cJSON_IsString(given) && g_str_equal(given->valuestring, "none")))
    return TRUE;
  if (optimizer) {
    out->optimizer = STORE_CPU;
    return TRUE;
  }
  if (!cJSON_IsObject(given))
    return json_error(doc, given, error,
                      "none, optimizer, or an object of optimizer, parameters, activations (each none, cpu or nvme), "
                      "delayed_update and sub_group_size");
  return json_read(doc, given, offload_fields, G_N_ELEMENTS(offload_fields), out, error);
}

static void put_count(JsonWriter *w, const char *key, double value, double usual)
{
  if (value != usual)
    json_put_int(w, key, (gint64)value);
}

static void put_switch(JsonWriter *w, const char *key, gboolean on)
{
  if (on)
    json_put_bool(w, key, TRUE);
}

static gboolean sharding_options_any(const ShardingOptions *o)
{
  const ShardingOptions usual = sharding_options_default();

  return o->bucket != usual.bucket || o->prefetch != usual.prefetch || o->live != usual.live ||
         o->persistence != usual.persistence || o->keeps_gathered || o->no_sync || o->secondary ||
         o->quantized_weights || o->quantized_gradients || o->tiling != usual.tiling || o->bucket_view;
}

void sharding_options_write(const ShardingOptions *o, JsonWriter *w)
{
  const ShardingOptions usual = sharding_options_default();

  if (!sharding_options_any(o))
    return;
  json_open(w, "zero_optimization", '{');
  put_count(w, "reduce_bucket_size", o->bucket, usual.bucket);
  put_count(w, "stage3_prefetch_bucket_size", o->prefetch, usual.prefetch);
  put_count(w, "stage3_max_live_parameters", o->live, usual.live);
  put_count(w, "stage3_param_persistence_threshold", o->persistence, usual.persistence);
  if (o->keeps_gathered)
    json_put_bool(w, "reshard_after_forward", FALSE);
  put_switch(w, "no_sync", o->no_sync);
  put_count(w, "zero_hpz_partition_size", o->secondary, usual.secondary);
  put_switch(w, "zero_quantized_weights", o->quantized_weights);
  put_switch(w, "zero_quantized_gradients", o->quantized_gradients);
  put_count(w, "tiling_factor", o->tiling, usual.tiling);
  put_switch(w, "gradient_as_bucket_view", o->bucket_view);
  json_close(w, '}');
}

static void put_store(JsonWriter *w, const char *key, Store store)
{
  if (store)
    json_put_string(w, key, store_names[store]);
}

void offload_write(const Offload *o, JsonWriter *w)
{
  gboolean word = o->optimizer <= STORE_CPU && !o->parameters && !o->activations && !o->delayed && o->sub_group == 0;

  if (word) {
    json_put_string(w, "offload", o->optimizer ? "optimizer" : "none");
    return;
  }
  json_open(w, "offload", '{');
  put_store(w, "optimizer", o->optimizer);
  put_store(w, "parameters", o->parameters);
  put_store(w, "activations", o->activations);
  put_switch(w, "delayed_update", o->delayed);
  put_count(w, "sub_group_size", o->sub_group, 0);
  json_close(w, '}');
}

static void add_label(GString *s, const char *what, Store store)
{
  if (store)
    g_string_append_printf(s, "%s%s%s", s->len ? ", " : "", what, store == STORE_NVME ? " (nvme)" : "");
}

char *offload_label(const Offload *o)
{
  GString *s = g_string_new(NULL);

  add_label(s, "optimizer", o->optimizer);
  add_label(s, "parameters", o->parameters);
  add_label(s, "activations", o->activations);
  return g_string_free(s, s->len == 0);
}
