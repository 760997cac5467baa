#include "validate/case.h"

#include "base/error.h"
#include "base/files.h"

#include <stdlib.h>
#include <string.h>

/* The numbers of a row; -1 where the cell is empty. */
typedef struct {
  int layers, hidden, ffn_hidden, heads, kv_heads, seq, vocab;
  int gpus, tp, sp, pp, vpp, dp, cp, micro_batch, global_batch;
} Numbers;

typedef struct {
  const char *column;
  gsize offset;
  int min, max;
} NumberColumn;

#define SIZE_MAX_ROW 100000000
#define COLUMN(name) { #name, G_STRUCT_OFFSET(Numbers, name), 1, SIZE_MAX_ROW }

static const NumberColumn number_columns[] = {
  COLUMN(layers), COLUMN(hidden), COLUMN(ffn_hidden), COLUMN(heads), COLUMN(kv_heads), COLUMN(seq), COLUMN(vocab),
  COLUMN(gpus), COLUMN(tp), { "sp", G_STRUCT_OFFSET(Numbers, sp), 0, 1 }, COLUMN(pp), COLUMN(vpp), COLUMN(dp), COLUMN(cp), COLUMN(micro_batch),
  COLUMN(global_batch),
};

static gboolean bad_cell(const Csv *csv, int row, const char *column, const char *expected, GError **error)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: line %d: %s: \"%s\": expected %s", csv->name,
              g_array_index(csv->lines, int, row), column, csv_cell(csv, row, column), expected);
  return FALSE;
}

static gboolean read_numbers(const Csv *csv, int row, Numbers *n, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(number_columns); i++) {
    int *out = &G_STRUCT_MEMBER(int, n, number_columns[i].offset);
    *out = -1;
    if (!csv_int(csv, row, number_columns[i].column, out, error))
      return FALSE;
    if (*csv_cell(csv, row, number_columns[i].column) && (*out < number_columns[i].min || *out > number_columns[i].max)) {
      g_autofree char *expected = g_strdup_printf("an integer from %d to %d", number_columns[i].min, number_columns[i].max);
      return bad_cell(csv, row, number_columns[i].column, expected, error);
    }
  }
  return TRUE;
}

/* Columns without which there is nothing to simulate. */
static const char *find_blank(const Csv *csv, int row)
{
  static const char *const needed[] = { "layers", "hidden", "heads", "seq", "vocab", "gpus", "tp", "pp", "micro_batch",
                                        "global_batch", "iteration_s", "cluster", "generation", "recompute", NULL };

  for (int i = 0; needed[i]; i++)
    if (!*csv_cell(csv, row, needed[i]))
      return needed[i];
  return NULL;
}

/* The schedule of a cell; 1F1B with layers moved between stages is 1F1B, the split says which. */
static const Schedule *find_schedule(const char *name)
{
  return schedule_find(g_str_equal(name, "1f1b-redistributed") ? "1f1b" : name);
}

/* What later work brings, by the cell that asks for it. */
static char *find_unplanned(const Csv *csv, int row, const Numbers *n)
{
  const char *schedule = csv_cell(csv, row, "schedule"), *zero = csv_cell(csv, row, "zero");
  const char *recompute = csv_cell(csv, row, "recompute");

  if (n->cp > 1)
    return g_strdup("context parallel");
  if (g_str_equal(csv_cell(csv, row, "precision"), "fp8"))
    return g_strdup("fp8");
  if (g_str_equal(zero, "hsdp"))
    return g_strdup("HSDP");
  if (*csv_cell(csv, row, "shard_group"))
    return g_strdup("optimizer states sharded over a part of the data-parallel ranks");
  if (*schedule && !find_schedule(schedule))
    return g_strdup_printf("schedule %s", schedule);
  if (g_str_equal(recompute, "other") || g_str_has_prefix(recompute, "full:"))
    return g_strdup_printf("recompute %s", recompute);
  return NULL;
}

static gboolean is_mpt(const Csv *csv, int row)
{
  return g_str_has_prefix(csv_cell(csv, row, "generation"), "fsdp-2023");
}

/* Family habits that the columns do not say: GPT has biases, learned positions
 * and tied embeddings; gated and squared-ReLU models have none of these; MPT
 * (the FSDP tables) has neither biases nor position weights. */
static Model *make_model(const Csv *csv, int row, const Numbers *n, GError **error)
{
  g_autoptr(GString) text = g_string_new(NULL);
  const char *mlp = csv_cell(csv, row, "mlp");
  gboolean gpt = g_str_equal(mlp, "gelu"), mpt = gpt && is_mpt(csv, row);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", csv_cell(csv, row, "id"));
  json_put_int(&w, "layers", n->layers);
  json_put_int(&w, "hidden", n->hidden);
  json_put_int(&w, "heads", n->heads);
  json_put_int(&w, "kv_heads", n->kv_heads > 0 ? n->kv_heads : n->heads);
  json_put_int(&w, "ffn_hidden", n->ffn_hidden > 0 ? n->ffn_hidden : 4 * n->hidden);
  json_put_int(&w, "vocab", n->vocab);
  json_put_int(&w, "seq", n->seq);
  json_put_string(&w, "mlp", *mlp ? mlp : "gelu");
  json_put_string(&w, "norm", gpt ? "layernorm" : "rmsnorm");
  json_put_string(&w, "positions", mpt ? "alibi" : gpt ? "learned" : "rope");
  json_put_bool(&w, "bias", gpt && !mpt);
  json_put_bool(&w, "tied_embeddings", gpt);
  json_close(&w, '}');
  return model_parse(text->str, text->len, csv->name, error);
}

static int or(int value, int otherwise)
{
  return value >= 0 ? value : otherwise;
}

static gboolean read_choices(Case *c, const Csv *csv, int row, GError **error)
{
  const char *zero = csv_cell(csv, row, "zero"), *recompute = csv_cell(csv, row, "recompute");
  const char *attention = csv_cell(csv, row, "attention"), *precision = csv_cell(csv, row, "precision");
  const char *overlap = csv_cell(csv, row, "overlap");
  int value;

  if (*zero && (strlen(zero) != 1 || !strchr("0123", *zero)))
    return bad_cell(csv, row, "zero", "0 to 3 or hsdp", error);
  c->plan.zero = *zero ? *zero - '0' : 0;
  if ((value = names_find(recompute_names, recompute)) < 0)
    return bad_cell(csv, row, "recompute", "none, selective, full, full:N or other", error);
  c->plan.recompute = value;
  if (*attention) {
    if ((value = names_find(attention_kernel_names, attention)) < 0)
      return bad_cell(csv, row, "attention", "unfused, flash or flash3", error);
    /* "flash" is the generation's own fused kernel where that is older */
    if (value != ATTENTION_FLASH || c->framework->attention >= ATTENTION_FLASH)
      c->plan.attention = value;
  }
  if (*precision) {
    if ((value = names_find(dtype_names, precision)) < 0)
      return bad_cell(csv, row, "precision", "fp32, fp16, bf16 or fp8", error);
    c->plan.precision = value;
  }
  if (*overlap && !g_str_equal(overlap, "none") && !g_str_equal(overlap, "data"))
    return bad_cell(csv, row, "overlap", "none, data or nothing", error);
  if (g_str_equal(overlap, "data"))
    c->plan.overlap.gradients = c->plan.overlap.parameters = TRUE;
  else if (*overlap)
    c->plan.overlap = (Overlap) { 0 };
  return TRUE;
}

/* The last stage holds `last` layers, the others alike; what is left over goes
 * to those before the last. */
static gboolean split_before(int layers, int stages, int last, LayerSplit *out)
{
  int each = stages > 1 ? (layers - last) / (stages - 1) : 0, left = layers - last - each * (stages - 1);

  if (stages < 2 || stages > SPLIT_STAGES_MAX || each < 1 || MAX(each + 1, last) > SPLIT_LAYERS_MAX)
    return FALSE;
  out->stages = stages;
  for (int i = 0; i < stages - 1; i++)
    out->layers[i] = each + (i >= stages - 1 - left);
  out->layers[stages - 1] = last;
  return TRUE;
}

/* "first-1,last-1": the embedding and the head count as a layer each. "last=N":
 * that many on the last stage. Where the cell is empty and layers do not divide,
 * frameworks that count layers fill stages up. */
static gboolean read_split(Case *c, const Csv *csv, int row, GError **error)
{
  const char *cell = csv_cell(csv, row, "layer_split");
  int stages = plan_stages(&c->plan), layers = c->model->blocks;
  gboolean ok = TRUE;

  if (g_str_equal(cell, "first-1,last-1"))
    ok = (layers + 2) % stages == 0 && split_fill(layers, stages, 1, &c->plan.split);
  else if (g_str_has_prefix(cell, "last="))
    ok = split_before(layers, stages, atoi(cell + strlen("last=")), &c->plan.split);
  else if (!*cell && layers % stages != 0 && c->framework->splits == SPLITS_FILL)
    split_fill(layers, stages, 0, &c->plan.split);
  else
    ok = !*cell;
  return ok || bad_cell(csv, row, "layer_split", "first-1,last-1 or last=N that fits layers and stages, or nothing", error);
}

static gboolean make_plan(Case *c, const Csv *csv, int row, const Numbers *n, GError **error)
{
  const char *schedule = csv_cell(csv, row, "schedule");
  Plan *p = &c->plan;

  *p = plan_default(c->model, c->framework);
  p->gpus = n->gpus;
  p->tp = n->tp;
  p->pp = n->pp;
  p->vpp = or(n->vpp, 1);
  p->cp = or(n->cp, 1);
  p->dp = or(n->dp, n->gpus / MAX(1, n->tp * n->pp * p->cp));
  p->micro_batch = n->micro_batch;
  p->global_batch = n->global_batch;
  p->sequence_parallel = or(n->sp, 0) && n->tp > 1;
  plan_set_schedule(p, find_schedule(*schedule ? schedule : p->vpp > 1 ? "interleaved" : "1f1b"), p->vpp);
  return read_choices(c, csv, row, error) && read_split(c, csv, row, error);
}

/* Errors of other files are told with the line that led to them. */
static gboolean of_line(const Csv *csv, int row, gconstpointer loaded, GError **error)
{
  if (!loaded)
    g_prefix_error(error, "%s: line %d: ", csv->name, g_array_index(csv->lines, int, row));
  return loaded != NULL;
}

static Cluster *find_cluster(const char *name, GError **error)
{
  g_autofree char *path = files_find(name, "hardware", error);
  return path ? cluster_load(path, error) : NULL;
}

static gboolean load_parts(Case *c, const Csv *csv, int row, const Numbers *n, char **skipped, GError **error)
{
  const char *generation = csv_cell(csv, row, "generation");

  c->model = make_model(csv, row, n, error);
  c->cluster = c->model ? find_cluster(csv_cell(csv, row, "cluster"), error) : NULL;
  if (!of_line(csv, row, c->cluster, error))
    return FALSE;
  if (!framework_exists(generation)) {
    *skipped = g_strdup_printf("generation %s", generation);
    return TRUE;
  }
  c->framework = framework_load(generation, error);
  if (!of_line(csv, row, c->framework, error))
    return FALSE;
  if (!make_plan(c, csv, row, n, error))
    return FALSE;
  /* GPT was trained with dropout while attention was separate kernels */
  c->model->dropout = c->plan.attention == ATTENTION_UNFUSED && !is_mpt(csv, row) &&
                      g_str_equal(csv_cell(csv, row, "mlp"), "gelu");
  return TRUE;
}

gboolean case_check_columns(const Csv *csv, GError **error)
{
  static const char *const columns[] = {
    "id", "sweep", "generation", "layers", "hidden", "ffn_hidden", "heads", "kv_heads", "seq", "vocab", "mlp", "attention",
    "cluster", "gpus", "tp", "sp", "pp", "vpp", "schedule", "dp", "cp", "zero", "micro_batch", "global_batch", "recompute",
    "precision", "iteration_s", "memory_gib", "memory_kind", NULL,
  };

  for (int i = 0; columns[i]; i++)
    if (csv_column(csv, columns[i]) < 0) {
      g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: line 1: %s: missing: expected a column of this name", csv->name,
                  columns[i]);
      return FALSE;
    }
  return TRUE;
}

gboolean case_init(Case *c, const Csv *csv, int row, char **skipped, GError **error)
{
  const char *blank = find_blank(csv, row);
  g_autoptr(GError) rule = NULL;
  Numbers n;

  *c = (Case) { 0 };
  *skipped = NULL;
  if (!read_numbers(csv, row, &n, error))
    return FALSE;
  if (blank)
    *skipped = g_strdup_printf("blank %s", blank);
  else
    *skipped = find_unplanned(csv, row, &n);
  if (*skipped)
    return TRUE;
  if (!load_parts(c, csv, row, &n, skipped, error))
    return FALSE;
  if (*skipped)
    return TRUE;
  if (!cluster_resize(c->cluster, c->plan.gpus, &rule) ||
      plan_check(&c->plan, c->model, c->cluster, &rule) != RULE_NONE)
    *skipped = g_strdup(rule->message);
  return TRUE;
}

void case_clear(Case *c)
{
  g_clear_pointer(&c->model, model_free);
  g_clear_pointer(&c->framework, framework_free);
  g_clear_pointer(&c->cluster, cluster_free);
}
