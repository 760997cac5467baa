#include "interop.h"

#include "fixture.h"

#include <string.h>

#define SPLITS 16

/* A key and values that it may have; one with `odds` is left out but once in so many times. */
typedef struct {
  const char *key;
  int odds;
  const char *values[12];
} Key;

static const Key keys[] = {
  { "micro_batch_size", 2, { "1", "2", "4" } },
  { "seq_length", 3, { "1024", "2048", "8192" } },
  { "sequence_parallel", 3, { "true", "false" } },
  { "context_parallel_size", 4, { "2", "4" } },
  { "cp_comm_type", 4, { "\"p2p\"", "\"a2a\"", "\"all_gather\"" } },
  { "expert_model_parallel_size", 2, { "2", "4", "8" } },
  { "expert_tensor_parallel_size", 4, { "1", "2" } },
  { "moe_token_dispatcher_type", 4, { "\"alltoall\"", "\"allgather\"", "\"hybridep\"", "\"flex\"" } },
  { "moe_expert_capacity_factor", 8, { "1.25", "2" } },
  { "zero_stage", 1, { "0", "1", "1", "2", "3" } },
  { "zero_optimization", 6, { "{\"reshard_after_forward\": false}" } },
  { "precision", 2, { "\"fp16\"", "\"fp32\"", "\"fp8\"", "\"fp8\"", "\"bf16\"" } },
  { "fp8_recipe", 3, { "\"delayed\"", "\"current\"", "\"blockwise\"", "\"rowwise\"", "\"tensorwise\"" } },
  { "num_layers_at_start_in_bf16", 12, { "1" } },
  { "num_layers_at_end_in_bf16", 12, { "1", "2" } },
  { "optimizer", 3, { "\"adamw\"", "\"sgd\"", "\"muon\"", "\"adam\"" } },
  { "sgd_momentum", 3, { "0", "0.95" } },
  { "overlap", 2, { "{\"gradients\": true, \"parameters\": true}", "{\"gradients\": false, \"parameters\": false}",
                    "{\"gradients\": true, \"parameters\": false}", "{\"pipeline\": false}" } },
  { "offload", 12, { "\"optimizer\"" } },
};

static const char *const recomputes[] = {
  "\"recompute_granularity\": \"none\"",
  "\"recompute_granularity\": \"full\"",
  "\"recompute_granularity\": \"full\", \"recompute_method\": \"block\", \"recompute_num_layers\": 2",
  "\"recompute_granularity\": \"full\", \"recompute_method\": \"uniform\", \"recompute_num_layers\": 2",
  "\"recompute_granularity\": \"selective\"",
  "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"core_attn\", \"layernorm\"]",
  "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"mlp\"]",
};

/* Half of what is drawn for JAX's tools, which make norms again always. */
static const char *const remats[] = {
  "\"recompute_granularity\": \"full\"",
  "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"layernorm\"]",
  "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"core_attn\", \"layernorm\"]",
  "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"layernorm\", \"mlp\"]",
  "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"layernorm\", \"moe\"]",
};

static const char *const megatron[] = { "megatron", "primus", "bridge", "accelerate", "torch-schedule", NULL };
static const char *const deepspeed[] = { "deepspeed", NULL };
static const char *const torchtitan[] = { "torchtitan", "accelerate", "torch-schedule", NULL };
static const char *const nanotron[] = { "nanotron", NULL };
static const char *const maxtext[] = { "maxtext", NULL };

/* Frameworks, as often as they are drawn, and the models that their tools train. */
static const struct {
  const char *framework;
  const char *const *targets;
  const char *models[16];
} sources[] = {
  { "megatron-core", megatron, { "llama-3.1-8b", "llama-3.2-1b", "gpt2-xl", "qwen2.5-7b", "megatron-1.7b" } },
  { "megatron-core", megatron, { "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b", "tiny-moe" } },
  { "megatron-core", megatron, { "bert-large", "t5-large", "nemotron-h-8b", "gemma-2-9b", "gpt-neox-20b" } },
  { "megatron-core-2026", megatron, { "qwen3-30b-a3b", "glm-4.5-air", "deepseek-v3-4-layers", "llama-3.1-8b" } },
  { "deepspeed", deepspeed, { "llama-3.1-8b", "gpt2-xl", "bert-large", "mixtral-8x7b", "bloom-7b1" } },
  { "torchtitan", torchtitan, { "llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "deepseek-v2-lite" } },
  { "nanotron-2025", nanotron, { "llama-3.1-8b", "llama-3.2-1b", "llama-2-7b" } },
  { "maxtext-2026", maxtext, { "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "llama-3.2-1b", "llama-2-7b",
                               "llama-2-13b", "llama-2-70b", "gpt2-xl", "qwen2.5-7b", "qwen3-8b", "qwen3-14b",
                               "qwen3-32b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v2-lite" } },
};

/* The first so many are of PyTorch's tools; those of JAX's are drawn apart, so that plans of the others stay. */
#define TORCH_SOURCES (G_N_ELEMENTS(sources) - 1)

static int pick(GRand *rand, int n)
{
  return g_rand_int_range(rand, 0, n);
}

static const char *one_of(GRand *rand, const char *const *values)
{
  return values[pick(rand, (int)g_strv_length((char **)values))];
}

/* A cut of all blocks into unlike stages, or nothing. */
static void put_split(GRand *rand, int stages, int blocks, GString *text)
{
  int left = blocks;

  if (stages > SPLITS || blocks < 2 * stages || pick(rand, 3) > 0)
    return;
  g_string_append(text, ", \"layer_split\": [");
  for (int i = 0; i < stages; i++) {
    int even = left / (stages - i), here = i == stages - 1 ? left : MAX(1, even - pick(rand, 2));
    g_string_append_printf(text, "%s%d", i ? ", " : "", here);
    left -= here;
  }
  g_string_append(text, "]");
}

/* JAX's tools run all forwards first, and divide rows: plans that they run are drawn more often than others. */
static char *jax_plan_text(GRand *rand)
{
  GString *text = g_string_new("{ ");
  int tp = 1 << pick(rand, 3), pp = 1 << pick(rand, 3), dp = 1 << pick(rand, 5);
  const char *recompute = pick(rand, 2) ? remats[pick(rand, G_N_ELEMENTS(remats))]
                                        : recomputes[pick(rand, G_N_ELEMENTS(recomputes))];

  g_string_append_printf(text, "\"pipeline_model_parallel_size\": %d", pp);
  if (pp > 1 && pick(rand, 2))
    g_string_append(text, ", \"pipeline_schedule\": \"gpipe\"");
  else if (pp > 1 && pick(rand, 2))
    g_string_append(text, ", \"pipeline_schedule\": \"looped-bfs\", \"virtual_pipeline_model_parallel_size\": 2");
  g_string_append_printf(text, ", \"tensor_model_parallel_size\": %d, \"data_parallel_size\": %d", tp, dp);
  g_string_append_printf(text, ", \"global_batch_size\": %d, %s", dp << (2 + pick(rand, 4)), recompute);
  if (tp > 1 && pick(rand, 4))
    g_string_append(text, ", \"sequence_parallel\": true");
  if (pick(rand, 4) == 0)
    g_string_append(text, ", \"attention\": \"unfused\"");
  return g_string_free(text, FALSE);
}

static void put_pipeline(GRand *rand, const Model *model, int pp, GString *text)
{
  int chunks = pp > 1 && pick(rand, 3) == 0 ? 2 : 1;

  g_string_append_printf(text, "\"pipeline_model_parallel_size\": %d", pp);
  if (chunks > 1)
    g_string_append_printf(text, ", \"pipeline_schedule\": \"interleaved\", "
                                 "\"virtual_pipeline_model_parallel_size\": %d", chunks);
  else if (pp > 1 && pick(rand, 6) == 0)
    g_string_append(text, ", \"pipeline_schedule\": \"gpipe\"");
  if (pp > 1)
    put_split(rand, pp * chunks, model->blocks, text);
}

static char *torch_plan_text(GRand *rand, const Model *model)
{
  GString *text = g_string_new("{ ");
  int tp = 1 << pick(rand, 4), pp = 1 << pick(rand, 4), dp = 1 << pick(rand, 4);

  put_pipeline(rand, model, pp, text);
  g_string_append_printf(text, ", \"tensor_model_parallel_size\": %d, \"data_parallel_size\": %d", tp, dp);
  g_string_append_printf(text, ", \"global_batch_size\": %d, %s", dp << (2 + pick(rand, 4)),
                         recomputes[pick(rand, G_N_ELEMENTS(recomputes))]);
  return g_string_free(text, FALSE);
}

static char *plan_text(GRand *rand, const Model *model, const char *framework, gboolean jax)
{
  g_autofree char *start = jax ? jax_plan_text(rand) : torch_plan_text(rand, model);
  GString *text = g_string_new(start);

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (pick(rand, keys[i].odds) == 0 && !strstr(start, keys[i].key))
      g_string_append_printf(text, ", \"%s\": %s", keys[i].key, one_of(rand, keys[i].values));
  g_string_append_printf(text, ", \"framework\": \"%s\" }", framework);
  return g_string_free(text, FALSE);
}

void interop_clear(Drawn *d)
{
  g_clear_pointer(&d->text, g_free);
  g_clear_pointer(&d->framework, framework_free);
  g_clear_pointer(&d->cluster, cluster_free);
  g_clear_pointer(&d->model, model_free);
}

/* Takes text and model. FALSE, with nothing left, where the plan is not legal. */
static gboolean take(Drawn *d, char *text)
{
  d->text = text;
  if (plan_parse(text, strlen(text), "drawn", d->model, &d->plan, &d->framework, NULL)) {
    d->cluster = fixture_cluster("dgx-h100", 8);
    if (cluster_resize(d->cluster, d->plan.gpus, NULL) && plan_check(&d->plan, d->model, d->cluster, NULL) == RULE_NONE)
      return TRUE;
  }
  interop_clear(d);
  return FALSE;
}

Drawn interop_draw(GRand *rand, gboolean jax)
{
  int source = jax ? (int)TORCH_SOURCES : pick(rand, TORCH_SOURCES);

  for (;;) {
    Drawn d = { .model_name = one_of(rand, sources[source].models), .targets = sources[source].targets };
    d.model = fixture_known_model(d.model_name);
    if (take(&d, plan_text(rand, d.model, sources[source].framework, jax)))
      return d;
  }
}

Drawn interop_take(const char *model_name, const char *text)
{
  Drawn d = { .model_name = model_name, .model = fixture_known_model(model_name) };
  gboolean legal = take(&d, g_strdup(text));

  if (!legal)
    g_error("%s: no legal plan of %s", text, model_name);
  for (gsize i = 0; i < G_N_ELEMENTS(sources); i++)
    if (g_str_equal(sources[i].framework, d.framework->name))
      d.targets = sources[i].targets;
  return d;
}

/* ---- meaning ---- */

static void put_degrees(const Layout *l, JsonWriter *w)
{
  const PassLayout *p = &l->passes;
  const ScheduleShape *s = &l->pipeline.shape;

  json_put_int(w, "world", l->mesh.ranks);
  json_put_int(w, "tp", p->tp);
  json_put_int(w, "pp", s->ranks);
  json_put_int(w, "vpp", s->chunks);
  json_put_int(w, "cp", p->cp);
  json_put_int(w, "dp", l->mesh.dense[AXIS_DATA].size);
  json_put_int(w, "ep", p->ep);
  json_put_int(w, "etp", p->etp);
  json_put_int(w, "micro_batch", p->micro_batch);
  json_put_int(w, "global_batch", l->global_batch);
  json_put_int(w, "micro_batches", s->micro);
  json_put_int(w, "seq", p->seq);
  json_put_bool(w, "sequence_parallel", p->sequence_parallel);
  json_put_string(w, "cp_comm", p->cp > 1 ? context_exchange_names[p->context] : "none");
  json_put_string(w, "schedule", s->ranks > 1 ? l->pipeline.schedule->name : "none");
}

static void put_stages(const Layout *l, const Model *m, JsonWriter *w)
{
  const StageCut *cut = &l->pipeline.cut;

  json_open_line(w, "stages", '[');
  for (int i = 0; i < cut->stages; i++) {
    StageBlocks b = stage_blocks(cut, m, i);
    json_put_int(w, NULL, b.end - b.first);
  }
  json_close_line(w, ']');
}

static void put_recompute(const Layout *l, JsonWriter *w)
{
  const RecomputeLayout *r = &l->passes.recompute;
  gboolean full = r->granularity == RECOMPUTE_FULL, selective = r->granularity == RECOMPUTE_SELECTIVE;

  json_put_string(w, "recompute", recompute_names[r->granularity]);
  json_put_string(w, "recompute_method", full ? recompute_method_names[r->scope.method] : "none");
  json_put_int(w, "recompute_layers", full ? MAX(1, r->scope.layers) : 0);
  json_open_line(w, "recompute_modules", '[');
  for (int i = 0; i < MODULE_COUNT && selective; i++)
    if (recompute_modules(&r->scope) >> i & 1)
      json_put_string(w, NULL, recompute_module_names[i]);
  json_close_line(w, ']');
}

static void put_attention(const Drawn *d, const Layout *l, JsonWriter *w)
{
  const PassLayout *p = &l->passes;
  AttentionKernel kernel = framework_attention(p->framework, p->attention, &d->cluster->device);

  json_put_bool(w, "fused_attention", kernel != ATTENTION_UNFUSED);
  json_put_string(w, "products", dtype_names[formats_product(&p->formats)]);
}

static void put_states(const Layout *l, JsonWriter *w)
{
  const StateLayout *s = &l->states[0];
  const Optimizer *o = &s->optimizer;
  guint overlaps = l->overlaps & l->overlaps_open;
  int zero = l->has_replicas ? s->zero : 0; /* one rank has nothing to divide */

  json_put_int(w, "zero", zero);
  json_put_bool(w, "kept", zero == 3 && s->sharding.keeps_gathered);
  json_put_int(w, "copies", zero > 0 ? s->copies : 1);
  json_put_bool(w, "overlap_gradients", overlaps & OVERLAP_GRADIENTS);
  json_put_bool(w, "overlap_parameters", overlaps & OVERLAP_PARAMETERS);
  json_put_bool(w, "overlap_pipeline", overlaps & OVERLAP_PIPELINE);
  json_put_string(w, "precision", dtype_names[l->passes.formats.precision]);
  json_put_string(w, "fp8_recipe", fp8_recipe_names[l->passes.formats.recipe]);
  json_put_bool(w, "fp8_param_gather", l->states[0].gathers_narrow);
  json_put_int(w, "bf16_start", l->passes.wide.start);
  json_put_int(w, "bf16_end", l->passes.wide.end);
  json_put_string(w, "optimizer", optimizer_names[o->name]);
  json_put_real(w, "momentum", o->name == OPTIMIZER_SGD ? o->momentum : 0);
  json_put_bool(w, "offload_optimizer", s->offload.optimizer != STORE_DEVICE);
  json_put_bool(w, "gradients_fp32", s->gradient_bytes >= 4);
}

/* The first feed-forward with experts, or without; of width 0 where there is none. */
static FeedForward feed_forward(const Model *m, gboolean experts)
{
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].kind == LAYER_BLOCK && m->specs[i].ffn.width && (m->specs[i].ffn.experts > 0) == experts)
      return m->specs[i].ffn;
  return (FeedForward) { 0 };
}

/* Numbers of the model that tools have defaults for. */
static void put_model(const Model *m, JsonWriter *w)
{
  const LayerSpec *block = model_attending(m);
  FeedForward sparse = feed_forward(m, TRUE), dense = feed_forward(m, FALSE);

  json_put_int(w, "layers", m->blocks);
  json_put_int(w, "hidden", m->hidden);
  json_put_int(w, "heads", block->attention.heads);
  json_put_int(w, "kv_heads", block->attention.kv_heads);
  json_put_int(w, "ffn", dense.width);
  json_put_int(w, "expert_ffn", sparse.width);
  json_put_int(w, "experts", sparse.experts);
  json_put_int(w, "experts_per_token", sparse.experts_per_token);
  json_put_int(w, "expert_groups", sparse.groups);
  json_put_int(w, "groups_per_token", sparse.groups_per_token);
  json_put_int(w, "vocab", m->vocab);
  json_put_bool(w, "tied", m->tied_embeddings);
  json_put_real(w, "rotary_base", m->rope_theta);
  json_put_real(w, "norm_epsilon", m->norm_epsilon);
  json_put_real(w, "balance_loss", m->balance_loss);
  json_put_bool(w, "dropout", m->dropout);
  json_put_bool(w, "rmsnorm", m->norm == NORM_RMSNORM);
  json_put_int(w, "mtp", m->mtp);
}

void interop_meaning(const Drawn *d, JsonWriter *w)
{
  Layout l = layout_of(&d->plan);

  put_degrees(&l, w);
  put_stages(&l, d->model, w);
  put_recompute(&l, w);
  put_attention(d, &l, w);
  put_states(&l, w);
  put_model(d->model, w);
}

char *interop_body(const Exporter *exporter, const char *text)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  GString *body = g_string_new(NULL);

  for (int i = 0; lines[i]; i++)
    if (!exporter->comments || lines[i][0] != '#' || g_str_has_prefix(lines[i], "#SBATCH"))
      g_string_append_printf(body, "%s\n", lines[i]);
  return g_string_free(body, FALSE);
}
