/*
 * The answers to questions as users ask them, and whether any other choice beats them. bench/questions [FIRST [EVERY]]
 *
 * Prints the table of docs/questions.md, and on stderr what is faster: for each of the models on each of the clusters
 * below what tdp-plan recommends, how long it takes, how sure that is, and how many of its five best tie. Each answer
 * is then attacked as --why-not does: every key that --fix takes gets each of its values in turn, and the search is asked for anything faster than the fastest
 * plan (SearchOptions.known). All else is free where the space has less than FREE plans; in larger ones the fastest
 * plan's degrees, micro-batch and ZeRO stage are kept, but for the data-parallel degree and, where that is tried, one
 * degree after the other that it depends on. What --fix opens beyond the default space and the answer's last table
 * says it holds fixed is left out: schedules that the framework does not run, counts of recomputed layers, another
 * optimizer, anything on the host, CUDA graphs. Exit 1 where something is faster. With arguments only each EVERY-th question from
 * FIRST on, for a quick look.
 */
#include "accuracy/accuracy.h"
#include "base/files.h"
#include "base/units.h"
#include "cli/cli.h"
#include "report/report.h"
#include "search/search.h"
#include "search/space.h"

#include <stdio.h>
#include <stdlib.h>

#define LONGEST 8192    /* tokens of a sequence, where the model takes more */
#define USUAL_BATCH 512 /* sequences of a step, where the model names none */
#define FREE 3000000    /* plans */

static const struct {
  const char *name;
  int gpus;
} models[] = {
  { "llama-3.1-8b", 16 },     { "qwen3-30b-a3b", 16 }, { "gemma-2-27b", 32 },       { "qwen2.5-32b", 32 },
  { "mixtral-8x7b", 64 },     { "llama-3.1-70b", 64 }, { "gpt-oss-120b", 64 },      { "gpt3", 128 },
  { "qwen3-235b-a22b", 256 }, { "llama-3.1-405b", 1024 }, { "megatron-530b", 560 }, { "palm-540b", 1024 },
  { "deepseek-v3", 1024 },
};

/* The last one is as large as it is. */
static const char *const clusters[] = { "dgx-a100-80gb", "dgx-h100",           "hgx-b200",
                                        "gb200-nvl72",   "jean-zay-v100-32gb", "a100-v100-mixed" };

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan base;
  SearchOptions options;
} Question;

static void fail(GError *error)
{
  fprintf(stderr, "questions: %s\n", error->message);
  exit(2);
}

static Question question_new(const char *model, const char *cluster, int gpus, const Accuracy *accuracy)
{
  Question q = { 0 };
  GError *error = NULL;

  if (!(q.model = cli_load_model(model, &error)) || !(q.cluster = cli_load_cluster(cluster, &error)) ||
      (q.cluster->n_types == 0 && !cluster_resize(q.cluster, gpus, &error)) ||
      !(q.framework = framework_load(FRAMEWORK_USUAL, &error)))
    fail(error);
  AttentionKernel kernel;
  q.base = plan_default(q.model, q.framework);
  plan_set_format(&q.base, cli_best_precision(q.cluster));
  if (framework_attention_on(q.framework, q.base.attention, q.cluster, &kernel))
    q.base.attention = kernel;
  q.base.gpus = q.cluster->devices;
  q.base.global_batch = q.model->global_batch_size ? q.model->global_batch_size : USUAL_BATCH;
  q.base.seq = MIN(q.base.seq, LONGEST);
  cluster_keep_free(q.cluster, accuracy_margin(accuracy, q.framework->engine));
  q.options = (SearchOptions) { .fixed = fixed_none(), .top = 5, .threads = 1, .refine = TRUE, .least = TRUE,
                                .tie = TIE_SHARE, .accuracy = accuracy };
  return q;
}

static void question_clear(Question *q)
{
  model_free(q->model);
  cluster_free(q->cluster);
  framework_free(q->framework);
}

/* ---- what else there is ---- */

typedef struct {
  int asked, faster;
  double gain; /* of the fastest of them, a share of the step */
} Attack;

/* Whether a value belongs to the default space, or is what the answer says it holds fixed. */
static gboolean is_open(const Question *q, PlanKeyId id, int value)
{
  switch (id) {
  case KEY_SCHEDULE:
    return framework_runs(q->framework, schedules[value]);
  case KEY_CP:
    return space_has_context(&q->options, q->base.seq, MAX(value, 1));
  case KEY_OFFLOAD:
  case KEY_OFFLOAD_LAYERS:
    return value == 0;
  case KEY_GRAPH:
    return value == GRAPH_NONE || space_tries_graph(q->framework, q->model, value);
  case KEY_OPTIMIZER:
  case KEY_RECOMPUTE_LAYERS:
  case KEY_TYPES:
  case KEY_ORDER:
  case KEY_SECONDARY:
    return FALSE;
  default:
    return TRUE;
  }
}

/* Up to which number a key is tried. */
static int last_value(const Question *q, const PlanKey *key)
{
  int n = 0, largest = key->field.type == JSON_BOOL ? 1 : (int)MIN(key->field.max, q->base.gpus);

  if (key->id == KEY_SCHEDULE || key->field.names || key->choices) {
    const char *const *names = key->choices ? key->choices : key->field.names;
    while (key->id == KEY_SCHEDULE ? schedules[n] != NULL : names[n] != NULL)
      n++;
    return n - 1;
  }
  return key->id == KEY_MICRO_BATCH ? 32 : key->id == KEY_VPP ? 32 : MAX(largest, 1);
}

/* Numbers worth trying: small ones, powers of two and three times these. */
static gboolean is_usual(int n)
{
  while (n > 8 && n % 2 == 0)
    n /= 2;
  return n <= 8;
}

/* What else is kept while a key is tried, all but `free`. */
static Fixed kept(const Plan *p, PlanKeyId free)
{
  Fixed f = fixed_none();

  f.value[KEY_TP] = p->tp;
  f.value[KEY_PP] = p->pp;
  f.value[KEY_CP] = p->cp;
  f.value[KEY_EP] = p->ep;
  f.value[KEY_MICRO_BATCH] = p->micro_batch;
  f.value[KEY_ZERO] = p->zero;
  f.value[free] = -1;
  return f;
}

static void try_value(Question *q, const PlanKey *key, int value, Fixed fixed, const Found *fastest, Attack *attack)
{
  SearchOptions options = q->options;

  options.base = &q->base;
  options.fixed = fixed;
  options.fixed.value[key->id] = value;
  options.top = 1;
  options.tie = 0;
  options.refine = FALSE;
  options.known = fastest->metrics.iteration_s * (1 - 1e-9);
  g_autoptr(SearchResult) found = search(q->model, q->cluster, &options, NULL);
  attack->asked++;
  const Found *best = found->best->len ? &g_array_index(found->best, Found, 0) : NULL;
  if (!best || best->metrics.iteration_s >= options.known)
    return;
  g_autofree char *theirs = plan_label(&best->plan), *step = format_seconds(best->metrics.iteration_s);
  attack->faster++;
  attack->gain = MAX(attack->gain, 1 - best->metrics.iteration_s / fastest->metrics.iteration_s);
  fprintf(stderr,"%s on %s: %.3f %% faster by --fix %s=%d: %s, %s\n", q->model->name, q->cluster->name,
          100 * (1 - best->metrics.iteration_s / fastest->metrics.iteration_s), key->shorter, value, step, theirs);
}

/* A value with all else free, or the rest kept. */
static void try_around(Question *q, const PlanKey *key, int value, gboolean free, const Found *fastest, Attack *all)
{
  static const PlanKeyId degrees[] = { KEY_TP, KEY_PP, KEY_CP };

  if (free)
    try_value(q, key, value, fixed_none(), fastest, all);
  else if (key->id != KEY_DP)
    try_value(q, key, value, kept(&fastest->plan, key->id), fastest, all);
  for (int i = 0; i < 3 && !free && key->id == KEY_DP; i++)
    try_value(q, key, value, kept(&fastest->plan, degrees[i]), fastest, all);
}

static Attack attack(Question *q, const Found *fastest, gboolean free)
{
  Attack all = { 0 };

  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const PlanKey *key = plan_key_of(id);
    gboolean named = key->field.names || key->choices || id == KEY_SCHEDULE;
    for (int value = key->field.type == JSON_INT && key->fix == FIX_NUMBER ? (int)key->field.min : 0;
         key->fix != FIX_NONE && value <= last_value(q, key); value++)
      if (is_open(q, id, value) && (named || is_usual(value)))
        try_around(q, key, value, free, fastest, &all);
  }
  return all;
}

/* ---- the table ---- */

static void print_answer(const Question *q, const SearchResult *found, const Accuracy *accuracy, const Attack *tried)
{
  const Found *first = &found->robust, *fastest = &g_array_index(found->best, Found, 0);
  Result r = result_of_metrics(q->model, q->cluster, &first->plan, &first->metrics);
  int tie = 0;

  result_estimate(&r, accuracy);
  for (guint i = 0; i < found->best->len; i++)
    tie += g_array_index(found->best, Found, i).metrics.iteration_s <= (1 + TIE_SHARE) * fastest->metrics.iteration_s;
  g_autofree char *label = plan_label(&first->plan), *interval = result_interval_text(&r);
  g_autofree char *step = format_seconds(first->metrics.iteration_s);
  g_autofree char *gain = tried->faster ? g_strdup_printf(", by %.3f %%", 100 * tried->gain) : g_strdup("");
  printf("| %s | %s | %d | %d x %d | %s | %s | %s | %.1f GiB, %.0f %% | %.0f %% | %d, %+.2f %% | %d of %d%s |\n",
         q->model->name, q->cluster->name, q->base.gpus, q->base.global_batch, q->base.seq, label, step, interval,
         first->metrics.peak_memory_bytes / 0x1p30,
         100 * first->metrics.peak_memory_bytes / cluster_whole_bytes(q->cluster, first->metrics.capacity_bytes),
         100 * r.estimate.fit_probability, tie, 100 * (first->metrics.iteration_s / fastest->metrics.iteration_s - 1),
         tried->faster, tried->asked, gain);
}

static int answer(const char *model, const char *cluster, int gpus, const Accuracy *accuracy)
{
  Question q = question_new(model, cluster, gpus, accuracy);
  Attack tried = { 0 };

  q.options.base = &q.base;
  g_autoptr(SearchResult) found = search(q.model, q.cluster, &q.options, NULL);
  if (found->best->len > 0) {
    tried = attack(&q, &g_array_index(found->best, Found, 0), found->space < FREE);
    print_answer(&q, found, accuracy, &tried);
  } else {
    printf("| %s | %s | %d | %d x %d | nothing fits | | | | | | |\n", q.model->name, q.cluster->name, q.base.gpus,
           q.base.global_batch, q.base.seq);
  }
  fflush(stdout);
  question_clear(&q);
  return tried.faster;
}

int main(int argc, char **argv)
{
  int first = argc > 1 ? atoi(argv[1]) : 0, every = argc > 2 ? atoi(argv[2]) : 1, n = 0, faster = 0;
  GError *error = NULL;
  g_autoptr(Accuracy) accuracy = accuracy_load(&error);

  if (!accuracy)
    fail(error);
  printf("| model | cluster | GPUs | batch | plan | step | 80 %% between | memory | fits | ties, costs | faster |\n"
         "|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|\n");
  for (gsize c = 0; c < G_N_ELEMENTS(clusters); c++)
    for (gsize m = 0; m < G_N_ELEMENTS(models); m++, n++)
      if (n >= first && (n - first) % every == 0)
        faster += answer(models[m].name, clusters[c], models[m].gpus, accuracy);
  return faster > 0;
}
