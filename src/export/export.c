#include "export/target.h"

#include "base/error.h"
#include "base/files.h"
#include "plan/describe.h"

#include <stdarg.h>
#include <string.h>

const Exporter *const exporters[] = {
  &exporter_megatron, &exporter_deepspeed,  &exporter_torchtitan, &exporter_bridge,
  &exporter_accelerate, &exporter_nanotron, &exporter_maxtext, &exporter_primus, NULL,
};

const Exporter *exporter_at(int i)
{
  const int last = G_N_ELEMENTS(exporters) - 1; /* NULL stands there */

  return i < last ? exporters[i] : i == last ? &exporter_torch_schedule : NULL;
}

const Exporter *exporter_find(const char *name)
{
  for (int i = 0; exporter_at(i); i++)
    if (g_str_equal(exporter_at(i)->name, name))
      return exporter_at(i);
  return NULL;
}

const Exporter *exporter_of_engine(const char *engine, const Plan *plan)
{
  const Exporter *usual = exporter_find(engine);
  const Layout layout = layout_of(plan);

  if (!usual || usual->adapters || !adapter_freezes(&layout.passes.adapter))
    return usual;
  return usual->adapting;
}

char *exporter_list(void)
{
  GString *text = g_string_new(NULL);

  for (int i = 0; exporter_at(i); i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", exporter_at(i)->name);
  return g_string_free(text, FALSE);
}

/* ---- losses and notes ---- */

static gboolean ends_line(gunichar c)
{
  GUnicodeType type = g_unichar_type(c);
  return type == G_UNICODE_LINE_SEPARATOR || type == G_UNICODE_PARAGRAPH_SEPARATOR || !g_unichar_isprint(c);
}

/* Names come from files: what would end a comment or a message becomes a space. */
static char *one_line(const char *text)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  GString *out = g_string_new(NULL);

  for (const char *c = valid; *c; c = g_utf8_next_char(c)) {
    gunichar character = g_utf8_get_char(c);
    g_string_append_unichar(out, ends_line(character) ? ' ' : character);
  }
  return g_string_free(out, FALSE);
}

static void remember(GPtrArray *lines, const char *format, va_list args)
{
  if (!lines)
    return;
  g_autofree char *text = g_strdup_vprintf(format, args);
  g_ptr_array_add(lines, one_line(text));
}

void export_lose(Export *e, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  remember(e->losses, format, args);
  va_end(args);
}

void export_note(Export *e, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  remember(e->notes, format, args);
  va_end(args);
}

/* ---- what several formats ask ---- */

const ScheduleName *export_schedule(Export *e, const ScheduleName *table)
{
  const PipelineLayout *p = &e->layout.pipeline;

  for (const ScheduleName *row = table; row->ours; row++)
    if (g_str_equal(row->ours, p->schedule->name))
      return row;
  if (p->shape.chunks > 1)
    export_lose(e, "pipeline_schedule: %s with %d chunks a rank: not in %s, written as %s without chunks",
                p->schedule->name, p->shape.chunks, e->exporter->target, table->ours);
  else if (p->shape.ranks > 1)
    export_lose(e, "pipeline_schedule: %s: not in %s, written as %s", p->schedule->name, e->exporter->target,
                table->ours);
  return table;
}

int export_chunk_blocks(const Export *e, const ScheduleName *row)
{
  const ScheduleShape *shape = &e->layout.pipeline.shape;

  return e->model->blocks / (shape->ranks * (row->chunks ? shape->chunks : 1));
}

char *export_stages(const Export *e)
{
  const LayerSplit *split = &e->layout.pipeline.cut.split;
  GString *text = g_string_new("E");

  for (int stage = 0; stage < split->stages; stage++) {
    if (split->layers[stage] > 0)
      g_string_append_printf(text, "t*%d", split->layers[stage]);
    for (int i = 0; i < e->model->mtp && stage == split->stages - 1; i++)
      g_string_append_c(text, 'm');
    g_string_append_c(text, stage < split->stages - 1 ? '|' : 'L');
  }
  return g_string_free(text, FALSE);
}

const LayerSpec *export_block(const Model *m, gboolean experts)
{
  for (int i = 0; i < m->n_layers; i++) {
    const LayerSpec *spec = model_layer(m, i);
    if (spec->kind == LAYER_BLOCK && spec->ffn.width > 0 && (spec->ffn.experts > 0) == experts)
      return spec;
  }
  return NULL;
}

int export_copies(Export *e)
{
  const StateLayout *s = &e->layout.states[0];

  if (e->layout.mesh.dense[AXIS_DATA].size % s->copies == 0)
    return s->copies;
  export_lose(e, "shard_group_size: %d: expected a multiple of context_parallel_size %d, left out", s->shards,
              e->layout.passes.cp);
  return 1;
}

static void lose_key(gpointer subject, const char *key, const char *before, const char *after, const char *reason)
{
  Export *e = subject;
  g_autofree char *instead = after ? g_strdup_printf("written as %s", after) : g_strdup("left out");
  gboolean unwritten = e->exporter->unwritten && g_str_equal(key, "pipeline_schedule") && before &&
                       g_strv_contains(e->exporter->unwritten, before);
  g_autofree char *missing = g_strdup_printf(unwritten ? "not written for %s" : "not in %s", e->exporter->target);

  export_lose(e, "%s%s%s: %s, %s", key, before ? ": " : "", before ? before : "", reason ? reason : missing, instead);
}

static PlanListener listener_of(Export *e)
{
  return (PlanListener) { lose_key, e };
}

void export_lose_untold(Export *e, const ToldKey *told)
{
  const PlanListener losses = listener_of(e);

  plan_compare_told(e->plan, e->model, told, &losses);
}

void export_say_overlaps(Export *e, guint written)
{
  const Overlap usual = framework_overlap(e->own);
  guint on = e->layout.overlaps, said = e->layout.overlaps_open & (on ^ overlap_bits(&usual)) & ~written;

  for (int i = 0; i < OVERLAP_BITS; i++)
    if (said >> i & 1)
      (e->exporter->comments ? export_note : export_lose)(e, "overlap: %s: %s: %s has no switch for it",
                                                          overlap_names[i], export_truth(on >> i & 1),
                                                          e->exporter->target);
}

const char *export_unlike(const Model *m)
{
  const LayerSpec *first = model_attending(m);

  if (m->mlm_head && first && first->attention.causal)
    return "mlm_head beside a causal mask";
  if (m->side)
    return "hidden_size_per_layer_input";
  if (model_own_mechanism(m))
    return model_own_mechanism(m);
  if (first && !first->attention.causal && !m->mlm_head && !m->encoder_blocks && !m->patch)
    return "attention to all tokens";
  for (int i = 0; first && i < m->n_specs; i++) {
    const LayerSpec *spec = &m->specs[i];
    const Attention *a = &spec->attention;
    if (spec->encoder != first->encoder && a->heads &&
        (a->heads != first->attention.heads || a->head_dim != first->attention.head_dim))
      return "attention of its own in each stack";
    if (a->keyless || a->key_is_value)
      return a->keyless ? "num_kv_shared_layers" : "attention_k_eq_v";
    if (a->heads && a->head_dim != first->attention.head_dim)
      return "global_head_dim";
    if (a->heads && a->kv_heads != first->attention.kv_heads)
      return "key-value heads of each layer's own number";
  }
  return NULL;
}

/* A key of decoders that targets of models like Llama have not; NULL if there is none. */
static const char *own_key(const Model *m)
{
  const LayerSpec *block = model_attending(m);
  const Attention *a = &block->attention;
  const struct { gboolean has; const char *key; } keys[] = {
    { a->gated, a->gate_of_head ? "head_gate" : "attention_gate" }, { m->sparse != NULL, "sparse_attention" },
    { m->bare_norms, "bare_norms" }, { a->inner_norm, "inner_norms" }, { block->ffn.kind == MLP_XIELU, "mlp: xielu" },
    { a->qk_norm && a->qk_norm_vectors != 1, a->qk_norm_vectors ? "qk_norm_bias" : "bare_norms" },
    { !a->kv_lora_rank && a->v_head_dim != a->head_dim, "v_head_dim" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (keys[i].has)
      return keys[i].key;
  return NULL;
}

/* What of a model is no decoder of text with dense attention; NULL if nothing is. */
static const char *stranger_of(const Model *m)
{
  const LayerSpec *block = model_layer(m, m->n_layers - 2);

  if (m->patch)
    return "patch_size";
  if (block->cross.heads)
    return "an encoder";
  if (m->mlm_head)
    return "mlm_head";
  if (model_linear(m) || model_is_patterned(m))
    return model_linear(m) ? "linear_attention" : "layer_pattern";
  return export_unlike(m) ? export_unlike(m) : own_key(m);
}

gboolean export_decoders_only(const Export *e, GError **error)
{
  const char *stranger = stranger_of(e->model);

  if (stranger)
    infeasible_error(error, "%s: model %s: %s: expected a decoder without it", e->exporter->name, e->model->name,
                     stranger);
  return !stranger;
}

gboolean export_llama_like(const Model *m)
{
  const LayerSpec *block = model_layer(m, 1);
  return m->norm == NORM_RMSNORM && m->positions == POSITIONS_ROPE && block->ffn.kind == MLP_SWIGLU &&
         block->norms == 2 && !block->parallel && !m->output_norms && !m->nope_interval &&
         !block->attention.qk_norm_whole;
}

/* ---- text ---- */

void export_words(GString *text, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  if (text->len > 0 && text->str[text->len - 1] != '\n')
    g_string_append_c(text, ' ');
  g_string_append_vprintf(text, format, args);
  va_end(args);
}

const char *export_dispatcher(const Export *e)
{
  ExpertDispatch dispatch = e->layout.passes.dispatch;
  return expert_dispatch_names[dispatch == DISPATCH_HYBRID ? DISPATCH_FLEX : dispatch];
}

const char *export_optimizer(Export *e, const char *const names[OPTIMIZER_COUNT])
{
  OptimizerName name = e->layout.states[0].optimizer.name;

  if (!names[name])
    export_lose(e, "optimizer: %s: not in %s, written as %s", optimizer_names[name], e->exporter->target,
                names[OPTIMIZER_ADAMW]);
  return names[names[name] ? name : OPTIMIZER_ADAMW];
}

void export_end_line(GString *text)
{
  if (text->len > 0 && text->str[text->len - 1] != '\n')
    g_string_append_c(text, '\n');
}

void export_quoted(GString *text, const char *value)
{
  JsonWriter w;
  json_writer_init(&w, text);
  json_put_string(&w, NULL, value);
}

void export_shell(GString *text, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:@%,";
  g_autofree char *quoted = g_shell_quote(word);
  g_string_append(text, word[0] && word[strspn(word, plain)] == '\0' ? word : quoted);
}

void export_torchrun(const Export *e, GString *line, const char *program, const char *file)
{
  if (e->nodes == 1)
    export_words(line, "torchrun --standalone --nproc-per-node %d", e->node_gpus);
  else
    export_words(line,
                 "torchrun --nnodes %d --nproc-per-node %d --rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\"",
                 e->nodes, e->node_gpus);
  export_words(line, "%s", program);
  if (file)
    export_shell(g_string_append_c(line, ' '), file);
}

/* ---- the file ---- */

static void set_plan(Export *e, const Plan *plan)
{
  e->plan = plan;
  e->layout = layout_of(plan);
}

static void take_plan(Export *e, Plan *plan)
{
  set_plan(e, plan);
  g_free(e->taken);
  e->taken = plan;
}

void export_take_less(Export *e, Plan *plan, const char *reason)
{
  const PlanListener losses = listener_of(e);

  plan_compare(e->plan, plan, reason, &losses);
  take_plan(e, plan);
}

static void export_clear(Export *e)
{
  g_free(e->taken);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Export, export_clear)

static Export export_of(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan)
{
  Export e = { .exporter = exporter, .model = model, .cluster = cluster };

  set_plan(&e, plan);
  e.node_gpus = MIN(cluster->devices_per_node, e.layout.mesh.ranks);
  e.nodes = e.layout.mesh.ranks / e.node_gpus;
  g_assert(e.nodes * e.node_gpus == e.layout.mesh.ranks);
  return e;
}

/* Of tools that are told nothing of what is trained, the plan with all of it. */
static void lose_adapter(Export *e)
{
  const Adapter *a = &e->layout.passes.adapter;
  g_autofree char *text = adapter_text(a);

  if (!adapter_freezes(a) || e->exporter->adapters)
    return;
  export_lose(e, "adapter: %s: not in %s, left out", text, e->exporter->target);
  take_plan(e, plan_without(e->plan, WITHOUT_ADAPTER));
}

/* Has the export write the nearest plan that its tool runs. */
static gboolean to_target(Export *e, GError **error)
{
  const PlanListener losses = listener_of(e);
  Plan *nearest = plan_nearest(e->plan, e->model, e->cluster, e->own, &losses, error);

  if (nearest)
    take_plan(e, nearest);
  else
    g_prefix_error(error, "%s: ", e->exporter->name);
  return nearest != NULL;
}

/* What a prediction takes for granted, and no tool is told. */
static void note_assumptions(Export *e)
{
  if (e->layout.passes.formats.products == PRODUCTS_TF32 && !e->exporter->tells_tf32)
    export_note(e, "precision: tf32: not in the file: what trains has to call "
                   "torch.set_float32_matmul_precision(\"high\")");
  if (e->layout.expert_load > 1)
    export_note(e, "moe_load_imbalance: %g: what the prediction takes experts' loads to be, no setting",
                e->layout.expert_load);
}

static void put_list(GString *text, const char *title, const GPtrArray *lines)
{
  if (lines->len > 0)
    g_string_append_printf(text, "# %s:\n", title);
  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf(text, "# - %s\n", (const char *)lines->pdata[i]);
}

static void put_header(GString *text, const Export *e)
{
  g_autofree char *what = g_strdup_printf("%s on %s, %d node%s x %d GPU%s", e->model->name, e->cluster->name, e->nodes,
                                          e->nodes == 1 ? "" : "s", e->node_gpus, e->node_gpus == 1 ? "" : "s");
  g_autofree char *subject = one_line(what);

  if (e->exporter->first_line)
    g_string_append_printf(text, "%s\n", e->exporter->first_line);
  if (!e->exporter->comments)
    return;
  g_string_append_printf(text, "# Written by tdp for %s: %s\n", e->exporter->target, subject);
  put_list(text, "Lost, because the target cannot say it", e->losses);
  put_list(text, "Notes", e->notes);
}

char *export_plan(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                  GPtrArray *losses, GError **error)
{
  if (!plan_is_legal(plan, model, cluster, error))
    return NULL;
  if (cluster->n_types > 0) {
    infeasible_error(error, "%s: expected a cluster of alike nodes, %s has %d types", exporter->name, cluster->name,
                     cluster->n_types);
    return NULL;
  }
  g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GString) body = g_string_new(NULL);
  g_autoptr(Framework) own = exporter->framework ? framework_load(exporter->framework, error) : NULL;
  g_auto(Export) e = export_of(exporter, model, cluster, plan);

  e.own = own;
  e.losses = found;
  e.notes = notes;
  lose_adapter(&e);
  if (exporter->framework && (!own || !to_target(&e, error)))
    return NULL;
  note_assumptions(&e);
  if (!exporter->render(&e, body, error))
    return NULL;
  GString *text = g_string_new(NULL);
  put_header(text, &e);
  g_string_append_len(text, body->str, body->len);
  for (guint i = 0; losses && i < found->len; i++)
    g_ptr_array_add(losses, g_strdup(found->pdata[i]));
  return g_string_free(text, FALSE);
}

gboolean export_write(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                      const char *path, gboolean allow_lossy, GError **error)
{
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *text = export_plan(exporter, model, cluster, plan, losses, error);

  if (!text)
    return FALSE;
  if (losses->len > 0 && !allow_lossy) {
    g_ptr_array_add(losses, NULL);
    g_autofree char *all = g_strjoinv("; ", (char **)losses->pdata);
    int n = (int)losses->len - 1;
    return infeasible_error(error,
                            "%s: %s cannot express %d setting%s of the plan (--allow-lossy writes the file all the "
                            "same): %s", path, exporter->name, n, n == 1 ? "" : "s", all);
  }
  return files_write(path, text, strlen(text), error);
}

char *launch_line(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                  const char *file)
{
  g_autofree char *usual = g_strdup_printf("%s.%s", exporter->name, exporter->extension);
  g_autoptr(Framework) own = exporter->framework ? framework_load(exporter->framework, NULL) : NULL;
  g_auto(Export) e = export_of(exporter, model, cluster, plan);
  GString *line = g_string_new(NULL);

  e.own = own;
  lose_adapter(&e);
  if (own)
    to_target(&e, NULL); /* what cannot be told is launched as it stands */
  exporter->launch(&e, file ? file : usual, line);
  return g_string_free(line, FALSE);
}
