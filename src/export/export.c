#include "export/nearest.h"

#include "base/error.h"
#include "base/files.h"

#include <stdarg.h>
#include <string.h>

const Exporter *const exporters[] = {
  &exporter_megatron, &exporter_deepspeed,  &exporter_torchtitan, &exporter_bridge,
  &exporter_accelerate, &exporter_nanotron, NULL,
};

const Exporter *exporter_find(const char *name)
{
  for (int i = 0; exporters[i]; i++)
    if (g_str_equal(exporters[i]->name, name))
      return exporters[i];
  return g_str_equal(exporter_torch_schedule.name, name) ? &exporter_torch_schedule : NULL;
}

char *exporter_list(void)
{
  GString *text = g_string_new(NULL);

  for (int i = 0; exporters[i]; i++)
    g_string_append_printf(text, "%s, ", exporters[i]->name);
  return g_string_free(g_string_append(text, exporter_torch_schedule.name), FALSE);
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
  const Plan *p = e->plan;

  for (const ScheduleName *row = table; row->ours; row++)
    if (g_str_equal(row->ours, p->schedule->name))
      return row;
  if (p->vpp > 1)
    export_lose(e, "pipeline_schedule: %s with %d chunks a rank: not in %s, written as %s without chunks",
                p->schedule->name, p->vpp, e->exporter->target, table->ours);
  else if (p->pp > 1)
    export_lose(e, "pipeline_schedule: %s: not in %s, written as %s", p->schedule->name, e->exporter->target,
                table->ours);
  return table;
}

int export_chunk_blocks(const Export *e, const ScheduleName *row)
{
  return e->model->blocks / (e->plan->pp * (row->chunks ? e->plan->vpp : 1));
}

char *export_layout(const Plan *p, int mtp)
{
  GString *text = g_string_new("E");

  for (int stage = 0; stage < p->split.stages; stage++) {
    if (p->split.layers[stage] > 0)
      g_string_append_printf(text, "t*%d", p->split.layers[stage]);
    for (int i = 0; i < mtp && stage == p->split.stages - 1; i++)
      g_string_append_c(text, 'm');
    g_string_append_c(text, stage < p->split.stages - 1 ? '|' : 'L');
  }
  return g_string_free(text, FALSE);
}

const LayerSpec *export_block(const Model *m, gboolean experts)
{
  for (int i = 0; i < m->n_layers; i++) {
    const LayerSpec *spec = model_layer(m, i);
    if (spec->kind == LAYER_BLOCK && (spec->ffn.experts > 0) == experts)
      return spec;
  }
  return NULL;
}

int export_copies(Export *e)
{
  const Plan *p = e->plan;
  int copies = plan_replicas(p) / plan_shards(p);

  if (p->dp % copies == 0)
    return copies;
  export_lose(e, "shard_group_size: %d: expected a multiple of context_parallel_size %d, left out", p->shard_group,
              p->cp);
  return 1;
}

void export_lose_unsaid(Export *e, const Plan *said)
{
  nearest_lose(e, e->plan, said, NULL);
}

Plan export_plainest(const Export *e)
{
  Plan usual = plan_default(e->model, e->plan->framework), p = *e->plan;

  plan_set_schedule(&usual, p.schedule, p.vpp);
  p.overlap = usual.overlap;
  p.strategies.n = 0;
  p.products = plan_narrow(&p) ? PRODUCTS_PLAIN : p.products;
  p.fp8_recipe = FP8_NONE;
  p.attention = usual.attention;
  p.sharding = usual.sharding;
  p.dispatch = usual.dispatch;
  p.expert_capacity = 0;
  p.expert_drop = DROP_PROBS;
  p.expert_padded = FALSE;
  p.graph = GRAPH_NONE;
  p.optimizer.remainders = FALSE;
  memset(p.optimizer.formats, 0, sizeof p.optimizer.formats);
  p.decoder_seq = p.split_rank = p.micro_group = 0;
  p.pipeline_inner = p.partition_activations = FALSE;
  return p;
}

void export_say_overlaps(Export *e, guint written)
{
  const Overlap usual = framework_overlap(e->own);
  guint on = overlap_bits(&e->plan->overlap), said = plan_overlaps(e->plan) & (on ^ overlap_bits(&usual)) & ~written;

  for (int i = 0; i < OVERLAP_BITS; i++)
    if (said >> i & 1)
      (e->exporter->comments ? export_note : export_lose)(e, "overlap: %s: %s: %s has no switch for it",
                                                          overlap_names[i], export_truth(on >> i & 1),
                                                          e->exporter->target);
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
  return m->sparse ? "sparse_attention" : NULL;
}

gboolean export_decoders_only(const Export *e, GError **error)
{
  const char *stranger = stranger_of(e->model);

  if (stranger)
    g_set_error(error, TDP_ERROR, TDP_ERROR_INFEASIBLE, "%s: model %s: %s: expected a decoder without it",
                e->exporter->name, e->model->name, stranger);
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

const char *export_dispatcher(const Plan *plan)
{
  return expert_dispatch_names[plan->dispatch == DISPATCH_HYBRID ? DISPATCH_FLEX : plan->dispatch];
}

const char *export_optimizer(Export *e, const char *const names[OPTIMIZER_COUNT])
{
  OptimizerName name = e->plan->optimizer.name;

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

void export_torchrun(const Export *e, GString *line)
{
  if (e->nodes == 1)
    export_words(line, "torchrun --standalone --nproc-per-node %d", e->node_gpus);
  else
    export_words(line,
                 "torchrun --nnodes %d --nproc-per-node %d --rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\"",
                 e->nodes, e->node_gpus);
}

/* ---- the file ---- */

static Export export_of(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan)
{
  int node_gpus = MIN(cluster->devices_per_node, plan->gpus);

  g_assert(plan->gpus % node_gpus == 0);
  return (Export) {
    .exporter = exporter,
    .model = model,
    .cluster = cluster,
    .plan = plan,
    .nodes = plan->gpus / node_gpus,
    .node_gpus = node_gpus,
  };
}

/* Has the export write the nearest plan that its tool runs. */
static gboolean to_target(Export *e, Plan *nearest, GError **error)
{
  *nearest = *e->plan;
  if (e->exporter->framework && (!e->own || !nearest_plan(e, e->own, nearest, error)))
    return FALSE;
  e->plan = nearest;
  return TRUE;
}

/* What a prediction takes for granted, and no tool is told. */
static void note_assumptions(Export *e)
{
  if (e->plan->products == PRODUCTS_TF32)
    export_note(e, "precision: tf32: the script sets torch.set_float32_matmul_precision(\"high\")");
  if (e->plan->expert_load > 1)
    export_note(e, "moe_load_imbalance: %g: what the prediction takes experts' loads to be, no setting",
                e->plan->expert_load);
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
  if (plan_check(plan, model, cluster, error) != RULE_NONE)
    return NULL;
  if (cluster->n_types > 0) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INFEASIBLE, "%s: expected a cluster of alike nodes, %s has %d types",
                exporter->name, cluster->name, cluster->n_types);
    return NULL;
  }
  g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GString) body = g_string_new(NULL);
  g_autoptr(Framework) own = exporter->framework ? framework_load(exporter->framework, error) : NULL;
  Plan nearest;
  Export e = export_of(exporter, model, cluster, plan);

  e.own = own;
  e.losses = found;
  e.notes = notes;
  if (!to_target(&e, &nearest, error))
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
    g_set_error(error, TDP_ERROR, TDP_ERROR_INFEASIBLE,
                "%s: %s cannot express all of the plan (%d loss%s; --allow-lossy writes the rest): %s", path,
                exporter->name, (int)losses->len, losses->len == 1 ? "" : "es", (const char *)losses->pdata[0]);
    return FALSE;
  }
  return files_write(path, text, strlen(text), error);
}

char *launch_line(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                  const char *file)
{
  g_autofree char *usual = g_strdup_printf("%s.%s", exporter->name, exporter->extension);
  Export e = export_of(exporter, model, cluster, plan);
  g_autoptr(Framework) own = exporter->framework ? framework_load(exporter->framework, NULL) : NULL;
  GString *line = g_string_new(NULL);
  Plan nearest;

  e.own = own;
  to_target(&e, &nearest, NULL); /* what cannot be told is launched as it stands */
  exporter->launch(&e, file ? file : usual, line);
  return g_string_free(line, FALSE);
}
