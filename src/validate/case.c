#include "validate/case.h"

#include "base/error.h"
#include "base/files.h"
#include "validate/case_experts.h"
#include "validate/case_model.h"
#include "validate/family.h"
#include "validate/unstated.h"

#include <string.h>

/* Columns without which there is nothing to simulate, or to compare with. */
static const char *find_blank(const Csv *csv, int row)
{
  static const char *const needed[] = { "gpus", "global_batch", "cluster", "layers", "hidden", "heads", "seq", NULL };
  gboolean described = *case_model_file(csv, row) != '\0';

  for (int i = 0; needed[i] && !(described && g_str_equal(needed[i], "layers")); i++)
    if (!*csv_cell(csv, row, needed[i]))
      return needed[i];
  gboolean known = *csv_cell(csv, row, "iteration_s") || *cells_optional(csv, row, "tokens_per_s_per_gpu") ||
                   *csv_cell(csv, row, "memory_gib") || *cells_optional(csv, row, "outcome");
  return known ? NULL : "iteration_s";
}

/* The schedule of a cell; 1F1B with layers moved between stages is 1F1B, the split says which. */
static const Schedule *find_schedule(const char *name)
{
  return schedule_find(g_str_equal(name, "1f1b-redistributed") ? "1f1b" : name);
}

/* What later work brings, by the cell that asks for it. */
static char *find_unplanned(const Csv *csv, int row)
{
  const char *schedule = csv_cell(csv, row, "schedule");

  return *schedule && !find_schedule(schedule) ? g_strdup_printf("schedule %s", schedule) : NULL;
}

void case_say_default(Case *c, const char *column)
{
  g_ptr_array_add(c->defaulted, (gpointer)column);
}

gboolean case_has_default(const Case *c, const char *column)
{
  for (guint i = 0; i < c->defaulted->len; i++)
    if (g_str_equal(g_ptr_array_index(c->defaulted, i), column))
      return TRUE;
  return FALSE;
}

static void take_default(Case *c, int *value, const char *column, int otherwise)
{
  if (*value >= 0)
    return;
  *value = otherwise;
  case_say_default(c, column);
}

/* Ranks that hold a model: what data and context parallelism leave, tensor parallelism in a node first (Narayanan et
 * al. 2021, takeaway 1). One division after another: a product of degrees of a wrong row may be any number. */
static void fill_degrees(Case *c, CaseNumbers *n)
{
  gint64 ranks = n->dp > 0 ? MAX(1, n->gpus / n->dp / n->cp) : (gint64)MAX(1, n->tp) * MAX(1, n->pp);

  take_default(c, &n->tp, "tp", n->pp > 0 ? (int)MAX(1, ranks / n->pp) : (int)MIN(ranks, c->cluster->devices_per_node));
  take_default(c, &n->pp, "pp", (int)MAX(1, ranks / n->tp));
  if (n->dp < 0)
    n->dp = MAX(1, n->gpus / n->tp / n->pp / n->cp);
}

/* Sizes that stay unknown are as of a model file without their keys. */
static void fill_architecture(Case *c, const Csv *csv, int row, CaseNumbers *n)
{
  if (!*csv_cell(csv, row, "mlp"))
    case_say_default(c, "mlp");
  take_default(c, &n->vocab, "vocab", c->family->vocab ? c->family->vocab : c->unstated.vocab);
  if (n->ffn_hidden < 0)
    case_say_default(c, "ffn_hidden");
  if (n->kv_heads < 0)
    case_say_default(c, "kv_heads");
}

/* DeepEP and HybridEP divide experts: where the ranks are not said, over those of a node at first, then doubled. */
static void fill_experts(Case *c, const Csv *csv, int row, int doublings, CaseNumbers *n)
{
  const char *cell = cells_optional(csv, row, "moe_dispatcher");

  if (n->ep >= 0 || !g_str_has_suffix(cell, "ep"))
    return;
  take_default(c, &n->ep, "ep", MIN(c->cluster->devices_per_node, n->gpus) << (c->doubles ? 0 : MIN(doublings, 20)));
  c->doubles = TRUE;
}

/* Whether the note says that its source gives no interleaving, or takes the plan from another that gives none. */
static gboolean notes_no_chunks(const char *note)
{
  return strstr(note, "interleave not given") || strstr(note, "not stated for this plot");
}

/* Whether the note says that layers are Transformer Engine's ("TE + DeepEP"), and names no kernel of another's:
 * attention is then by the generation's own, whatever the cell calls flash. */
static gboolean notes_engine_layers(const char *note)
{
  return strstr(note, "TE + ") && !strstr(note, "SDPA");
}

/* Interleaving that is not stated, of software whose runs were tuned for it: none at first, then as many as asked. */
static void fill_chunks(Case *c, const Csv *csv, int row, int chunks, CaseNumbers *n)
{
  gboolean open = c->unstated.chunks_tuned && n->pp > 1 && !*csv_cell(csv, row, "schedule");

  if (open && n->vpp == 1 && notes_no_chunks(csv_cell(csv, row, "note")))
    n->vpp = -1;
  open &= n->vpp < 0;
  if (n->pp == 1 && n->vpp < 0)
    n->vpp = 1; /* which is all that a run without a pipeline may have: nothing is left open */
  take_default(c, &n->vpp, "vpp", open ? MAX(1, chunks) : 1);
  c->chunks_open = open;
}

static int most_chunks(const Case *c, int stages)
{
  int blocks = c->model->blocks;

  return c->chunks_open && !model_has_experts(c->model) && blocks % stages == 0 ? blocks / stages : 1;
}

/* Empty cells of which the framework or the family knows a default. */
static void fill_blanks(Case *c, const Csv *csv, int row, OpenChoice choice, CaseNumbers *n)
{
  int doublings = choice.doublings;

  if (!*case_model_file(csv, row))
    fill_architecture(c, csv, row, n);
  fill_chunks(c, csv, row, choice.chunks, n);
  take_default(c, &n->cp, "cp", 1);
  fill_degrees(c, n);
  if (n->tp == 1)
    n->sp = 0;
  take_default(c, &n->sp, "sp", c->unstated.sequence_parallel);
  c->doubles = n->micro_batch < 0 && c->unstated.micro_batch > 0;
  take_default(c, &n->micro_batch, "micro_batch",
               c->doubles ? c->unstated.micro_batch << MIN(doublings, 20) : MAX(1, n->global_batch / n->dp / n->pp));
  fill_experts(c, csv, row, doublings, n);
}

/* A cell that is one of `names`; an empty one leaves `out`, the default. */
static gboolean read_choice(Case *c, const Csv *csv, int row, const char *column, const char *const *names, int *out,
                            GError **error)
{
  const char *cell = csv_cell(csv, row, column);

  if (!*cell) {
    case_say_default(c, column);
    return TRUE;
  }
  *out = names_find(names, cell);
  return *out >= 0 || cells_not_one_of(csv, row, column, names, error);
}

/* "FSDP=128" of a note: the ranks that share states in software that shards by meshes. */
static int noted_shards(const Case *c, const char *note)
{
  const char *at = c->unstated.node_shards ? strstr(note, "FSDP=") : NULL;

  return at ? (int)CLAMP(g_ascii_strtoll(at + strlen("FSDP="), NULL, 10), 0, G_MAXINT) : 0;
}

/* A number of ranks, or "gpus_per_node": what is empty is as the note says, the generation's, or all, or under hybrid
 * sharding a node. */
static gboolean read_shard_group(Case *c, const Csv *csv, int row, gboolean hybrid, GError **error)
{
  const char *cell = cells_optional(csv, row, "shard_group");
  int group = 0, node = MAX(1, c->cluster->devices_per_node / c->plan.tp);
  int noted = noted_shards(c, csv_cell(csv, row, "note"));

  if (!*cell && c->unstated.node_shards) {
    group = noted > 0 ? noted : node;
    if (!noted && node < plan_replicas(&c->plan))
      case_say_default(c, "shard_group");
  } else if (g_str_equal(cell, "gpus_per_node") || (hybrid && !*cell))
    group = node;
  else if (*cell && !csv_int(csv, row, "shard_group", &group, error))
    return FALSE;
  if (group < 0)
    return csv_refuse(csv, row, "shard_group", "a number of ranks, gpus_per_node or nothing", error);
  c->plan.shard_group = group >= plan_replicas(&c->plan) ? 0 : group;
  return TRUE;
}

static gboolean read_zero(Case *c, const Csv *csv, int row, GError **error)
{
  const char *zero = csv_cell(csv, row, "zero");
  gboolean hybrid = g_str_equal(zero, "hsdp");

  if (!read_shard_group(c, csv, row, hybrid, error))
    return FALSE;
  if (hybrid) {
    c->plan.zero = 3;
    return TRUE;
  }

  if (*zero && (strlen(zero) != 1 || !strchr("0123", *zero)))
    return csv_refuse(csv, row, "zero", "0 to 3 or hsdp", error);
  c->plan.zero = *zero ? *zero - '0' : c->unstated.zero;
  if (!*zero && plan_replicas(&c->plan) > 1)
    case_say_default(c, "zero");
  return TRUE;
}

/* An empty cell is the generation's: overlap is what generations differ in. */
static gboolean read_overlap(Case *c, const Csv *csv, int row, GError **error)
{
  const char *overlap = csv_cell(csv, row, "overlap");

  if (*overlap && !g_str_equal(overlap, "none") && !g_str_equal(overlap, "data"))
    return csv_refuse(csv, row, "overlap", "none, data or nothing", error);
  if (g_str_equal(overlap, "data"))
    c->plan.overlap.gradients = c->plan.overlap.parameters = TRUE;
  else if (*overlap)
    c->plan.overlap = (Overlap) { 0 };
  return TRUE;
}

/* "full:N": N layers of each stage are made again. */
static gboolean read_recompute(Case *c, const Csv *csv, int row, GError **error)
{
  const char *cell = csv_cell(csv, row, "recompute");
  gint64 layers;
  int recompute = c->unstated.recompute;

  if (g_str_has_prefix(cell, "full:")) {
    if (!g_ascii_string_to_signed(cell + strlen("full:"), 10, 1, SPLIT_LAYERS_MAX, &layers, NULL))
      return csv_refuse(csv, row, "recompute", "full:N with the layers of a stage", error);
    c->plan.recompute = RECOMPUTE_FULL;
    c->plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = (int)layers };
    return TRUE;
  }
  /* "other": the note says what, in words */
  if (g_str_equal(cell, "other")) {
    case_say_default(c, "recompute");
  } else if (!read_choice(c, csv, row, "recompute", recompute_names, &recompute, error)) {
    return FALSE;
  }
  c->plan.recompute = recompute;
  if (!*cell && recompute == RECOMPUTE_SELECTIVE)
    c->plan.scope.modules = c->unstated.recompute_modules;
  c->blocks_open = !*cell || g_str_equal(cell, "other");
  if (!c->blocks_open && recompute == RECOMPUTE_SELECTIVE && c->unstated.selective_blocks) {
    c->blocks_open = TRUE;
    case_say_default(c, "recompute");
  }
  return TRUE;
}

/* Columns that are named as keys of plans which take a name or a number or are switches. */
static gboolean read_keys(Case *c, const Csv *csv, int row, GError **error)
{
  static const char *const stated[] = { "attention", "precision", NULL };
  AttentionKernel usual = c->framework->attention;
  PlanFile file = plan_as_file(&c->plan);

  for (const PlanKey *key = plan_keys; key->field.key; key++)
    if (!key->object && (!key->matters || key->matters(&c->plan)) && !cells_read_key(csv, row, key, &file, error))
      return FALSE;
  c->plan = file.plan;
  plan_set_format(&c->plan, file.precision);
  for (int i = 0; stated[i]; i++)
    if (!*csv_cell(csv, row, stated[i]))
      case_say_default(c, stated[i]);
  if (c->plan.products != PRODUCTS_FP8)
    c->plan.fp8_recipe = FP8_NONE;
  /* A class of fused kernels is the generation's own where that is older */
  if (c->plan.attention == ATTENTION_FLASH && notes_engine_layers(csv_cell(csv, row, "note")))
    c->plan.attention = usual;
  else if (c->plan.attention != ATTENTION_UNFUSED)
    c->plan.attention = MIN(usual, c->plan.attention);
  return TRUE;
}

static gboolean read_choices(Case *c, const Csv *csv, int row, GError **error)
{
  int memory = c->unstated.memory;

  if (!read_zero(c, csv, row, error) || !read_overlap(c, csv, row, error) || !read_recompute(c, csv, row, error) ||
      !read_keys(c, csv, row, error) || !case_read_modules(c, csv, row, error))
    return FALSE;
  case_fill_graph(c, csv, row);
  if (!*csv_cell(csv, row, "memory_gib"))
    return TRUE;
  if (!read_choice(c, csv, row, "memory_kind", memory_count_names, &memory, error))
    return FALSE;
  c->memory = memory;
  return TRUE;
}

/* The last stage holds `text` layers, a number, the others alike; what is left over goes
 * to those before the last. */
static gboolean split_before(int layers, int stages, const char *text, LayerSplit *out)
{
  gint64 last;

  if (stages < 2 || stages > SPLIT_STAGES_MAX || !g_ascii_string_to_signed(text, 10, 0, SPLIT_LAYERS_MAX, &last, NULL))
    return FALSE;
  int each = (layers - (int)last) / (stages - 1), left = layers - (int)last - each * (stages - 1);
  if (each < 1 || each + 1 > SPLIT_LAYERS_MAX)
    return FALSE;
  out->stages = stages;
  for (int i = 0; i < stages - 1; i++)
    out->layers[i] = each + (i >= stages - 1 - left);
  out->layers[stages - 1] = last;
  return TRUE;
}

/* Where layers do not divide and the cell says nothing: frameworks that count layers fill stages up; of others that
 * hold any number, the embedding and the head count as layers if it divides then, else the last stages hold a layer
 * more (ColossalAI's and InternEvo's partition_uniform). */
static void split_unstated(Case *c, int layers, int stages)
{
  LayerSplit *split = &c->plan.split;

  if (c->framework->splits == SPLITS_FILL) {
    split_fill(layers, stages, 0, split);
    return;
  }
  if (c->framework->splits != SPLITS_ANY)
    return;
  /* a module for multi-token prediction counts on the last stage (Megatron-Bridge's layouts of DeepSeek-V3) */
  if (c->model->mtp && split_fill(layers, stages, 0, split)) {
    case_say_default(c, "layer_split");
    return;
  }
  if ((layers + 2) % stages != 0 || !split_fill(layers, stages, 1, split)) {
    split->stages = MIN(stages, SPLIT_STAGES_MAX);
    for (int i = 0; i < split->stages; i++)
      split->layers[i] = layers / stages + (i >= stages - layers % stages);
  }
  case_say_default(c, "layer_split");
}

/* "[3,4,4,3]": the layers of each stage. */
static gboolean split_listed(const char *cell, int layers, int stages, LayerSplit *out)
{
  g_autoptr(JsonDoc) doc = json_parse(cell, strlen(cell), "layer_split", NULL);

  return doc && split_is_list(json_root(doc)) && split_read(doc, json_root(doc), out, NULL) &&
         out->stages == stages && split_layers(out) == layers;
}

/* "first-1,last-1": the embedding and the head count as a layer each. "last=N":
 * that many on the last stage. */
static gboolean read_split(Case *c, const Csv *csv, int row, GError **error)
{
  const char *cell = csv_cell(csv, row, "layer_split");
  int stages = plan_stages(&c->plan), layers = c->model->blocks;
  LayerSplit by_cost;
  gboolean ok = TRUE;

  if (stages < 1) /* of a schedule that does not go with so few ranks: plan_check says so */
    return TRUE;
  if (g_str_equal(cell, "first-1,last-1"))
    ok = (layers + 2) % stages == 0 && split_fill(layers, stages, 1, &c->plan.split);
  else if (g_str_has_prefix(cell, "last="))
    ok = split_before(layers, stages, cell + strlen("last="), &c->plan.split);
  else if (*cell == '[')
    ok = split_listed(cell, layers, stages, &c->plan.split);
  else if (!*cell && case_noted_layout(csv_cell(csv, row, "note"), layers, stages, &c->plan.split))
    ok = TRUE;
  else if (!*cell && c->framework->splits == SPLITS_COSTS && split_by_cost(c->model, stages, &by_cost))
    c->plan.split = by_cost;
  else if (!*cell && layers % stages != 0)
    split_unstated(c, layers, stages);
  else
    ok = !*cell;
  return ok ||
         csv_refuse(csv, row, "layer_split", "first-1,last-1, last=N or a list that fits layers and stages, or nothing",
                   error);
}

static void use_bf16_states(Optimizer *o)
{
  o->formats[STATE_MAIN_PARAMS] = o->formats[STATE_EXP_AVG] = o->formats[STATE_EXP_AVG_SQ] = FORMAT_BF16;
}

/* Moments in bf16 beside weights in fp32, as a precision-aware optimizer keeps them. */
static gboolean notes_bf16_moments(const char *note)
{
  return strstr(note, "BF16 optimizer moments") != NULL;
}

/* The kernel of Transformer Engine, where the software has another by default. */
static void note_loss(Framework *f, const char *note)
{
  if (strstr(note, "cross_entropy_fusion_impl te"))
    f->fused_loss = f->loss_in_place = TRUE;
}

static gboolean make_plan(Case *c, const Csv *csv, int row, const CaseNumbers *n, GError **error)
{
  const char *schedule = csv_cell(csv, row, "schedule");
  const Schedule *kind;
  Plan *p = &c->plan;

  note_loss(c->framework, csv_cell(csv, row, "note"));
  *p = plan_default(c->model, c->framework);
  p->gpus = n->gpus;
  p->tp = n->tp;
  p->pp = n->pp;
  p->vpp = n->pp > 1 ? n->vpp : 1; /* tables give chunks for runs without a pipeline, too */
  p->cp = n->cp;
  p->dp = n->dp;
  p->micro_batch = n->micro_batch;
  p->global_batch = n->global_batch;
  if (n->seq > 0)
    p->seq = n->seq;
  else
    case_say_default(c, "seq");
  p->sequence_parallel = n->sp && n->tp > 1;
  kind = find_schedule(*schedule ? schedule : p->vpp > 1 ? "interleaved" : "1f1b");
  /* of a schedule by name that needs chunks a 1 says nothing */
  plan_set_schedule(p, kind, p->vpp == 1 ? kind->min_chunks : p->vpp);
  if (!read_choices(c, csv, row, error) || !case_read_experts(c, csv, row, n, error))
    return FALSE;
  if (p->zero == 3 && p->pp > 1 && c->unstated.pipeline_gathered)
    p->sharding.keeps_gathered = TRUE;
  if (p->zero >= 2 && c->unstated.sums_once && plan_micro_batches(p) > 1)
    p->sharding.no_sync = TRUE;
  if (p->precision == DTYPE_BF16 && c->unstated.bf16_states)
    use_bf16_states(&p->optimizer);
  if (notes_bf16_moments(csv_cell(csv, row, "note")))
    p->optimizer.formats[STATE_EXP_AVG] = p->optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_BF16;
  return read_split(c, csv, row, error);
}

/* Errors of other files are told with the line that led to them. */
static gboolean of_line(const Csv *csv, int row, gconstpointer loaded, GError **error)
{
  if (!loaded)
    g_prefix_error(error, "%s: line %d: ", csv->name, g_array_index(csv->lines, int, row));
  return loaded != NULL;
}

/* A name that hardware/ does not hold may be a server's: a cluster of these, joined by the NICs it is sold with. */
static Cluster *find_cluster(Case *c, const char *name, GError **error)
{
  g_autoptr(GError) missing = NULL;
  g_auto(GStrv) servers = files_names("hardware/servers");
  g_autofree char *path = files_find_beside(name, "hardware", (const char *const *)servers, &missing);
  if (path)
    return cluster_load(path, error);
  g_autofree char *server = files_find(name, "hardware/servers", NULL);
  Cluster *cluster = server ? cluster_of_server(name, 1, error) : NULL;
  if (cluster)
    case_say_default(c, "cluster");
  else if (!server)
    g_propagate_error(error, g_steal_pointer(&missing));
  return cluster;
}

/* Recipes differ in it more than generations do. */
static gboolean read_dropout(Case *c, const Csv *csv, int row, GError **error)
{
  const char *cell = cells_optional(csv, row, "dropout");

  if (*cell && !g_str_equal(cell, "0") && !g_str_equal(cell, "1"))
    return csv_refuse(csv, row, "dropout", "0, 1 or nothing", error);
  c->model->dropout = *cell ? *cell == '1' : c->unstated.dropout && c->family->dropout;
  return TRUE;
}

static gboolean load_parts(Case *c, const Csv *csv, int row, OpenChoice choice, CaseNumbers *n, GError **error)
{
  const char *named = csv_cell(csv, row, "generation");
  g_autofree char *generation = unstated_generation(named, csv_cell(csv, row, "framework"), csv_cell(csv, row, "note"));

  c->cluster = find_cluster(c, csv_cell(csv, row, "cluster"), error);
  if (!of_line(csv, row, c->cluster, error))
    return FALSE;
  if (!unstated_is_named(named, generation))
    case_say_default(c, "generation");
  c->framework = framework_load(generation, error);
  if (!of_line(csv, row, c->framework, error) ||
      !of_line(csv, row, habits_read(generation, &c->unstated, error) ? c : NULL, error))
    return FALSE;
  c->family = case_family(csv_cell(csv, row, "model"), case_mlp(csv, row));
  fill_blanks(c, csv, row, choice, n);
  c->model = case_model(csv, row, c->family, c->framework->mtp, n, error);
  if (!of_line(csv, row, c->model, error) || !make_plan(c, csv, row, n, error))
    return FALSE;
  c->chunks_most = most_chunks(c, n->pp);
  return read_dropout(c, csv, row, error);
}

gboolean case_check_columns(const Csv *csv, GError **error)
{
  static const char *const columns[] = {
    "id", "sweep", "generation", "model", "layers", "hidden", "ffn_hidden", "heads", "kv_heads", "seq", "vocab", "mlp",
    "attention", "cluster", "gpus", "tp", "sp", "pp", "vpp", "schedule", "dp", "cp", "zero", "micro_batch",
    "global_batch", "recompute", "precision", "iteration_s", "memory_gib", "memory_kind", NULL,
  };

  for (int i = 0; columns[i]; i++)
    if (csv_column(csv, columns[i]) < 0)
      return input_error(error, "%s: line 1: %s: missing: expected a column of this name", csv->name, columns[i]);
  return TRUE;
}

gboolean case_init(Case *c, const Csv *csv, int row, OpenChoice choice, char **skipped, GError **error)
{
  const char *blank = find_blank(csv, row);
  g_autoptr(GError) rule = NULL;
  CaseNumbers n;

  *c = (Case) { .defaulted = g_ptr_array_new() };
  *skipped = NULL;
  if (!cells_read_numbers(csv, row, &n, error))
    return FALSE;
  if (blank)
    *skipped = g_strdup_printf("blank %s", blank);
  else
    *skipped = find_unplanned(csv, row);
  if (*skipped)
    return TRUE;
  if (!load_parts(c, csv, row, choice, &n, error))
    return FALSE;
  unstated_lighten(c, choice.steps);
  if (!cluster_resize(c->cluster, c->plan.gpus, &rule) ||
      plan_check(&c->plan, c->model, c->cluster, &rule) != RULE_NONE)
    *skipped = g_strdup(rule->message);
  return TRUE;
}

char *case_defaulted(const Case *c)
{
  GString *s = g_string_new(NULL);

  for (guint i = 0; i < c->defaulted->len; i++)
    g_string_append_printf(s, "%s%s", i ? " " : "", (const char *)g_ptr_array_index(c->defaulted, i));
  return g_string_free(s, FALSE);
}

void case_clear(Case *c)
{
  g_clear_pointer(&c->defaulted, g_ptr_array_unref);
  g_clear_pointer(&c->model, model_free);
  g_clear_pointer(&c->framework, framework_free);
  habits_clear(&c->unstated);
  g_clear_pointer(&c->cluster, cluster_free);
}
