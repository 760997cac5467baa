#include "cli/plan_options.h"

#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/drawn.h"
#include "ask/question.h"
#include "cli/exports.h"
#include "report/page.h"

void plan_options_init(PlanOptions *o)
{
  *o = (PlanOptions) { .gpus = CLI_ABSENT, .gpus_from = CLI_ABSENT, .global_batch = CLI_ABSENT, .seq = CLI_ABSENT,
                       .top = CLI_ABSENT, .threads = CLI_ABSENT, .spares = CLI_ABSENT };
}

void plan_options_clear(PlanOptions *o)
{
  char *const strings[] = { o->model, o->cluster, o->fix, o->space, o->output, o->plots, o->report, o->framework,
                            o->precision, o->adapter, o->objective, o->pareto, o->question, o->why_not, o->state,
                            o->certificate,
                            o->tokens, o->price, o->time_limit, o->memory_margin, o->operations, o->improve,
                            o->script_args, o->list, o->deadline, o->power_limit };

  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
  for (gsize i = 0; i < COUNT_OPTIONS; i++)
    g_free(o->counts[i]);
  g_strfreev(o->exports);
  g_strfreev(o->vary);
  g_strfreev(o->jobs);
}

/* What is asked; other answers than the best plan take few options. */
typedef enum {
  ASKED_PLAN = 1 << 0,
  ASKED_IMPROVE = 1 << 1,
  ASKED_QUESTION = 1 << 2,   /* one that is none of the following */
  ASKED_OPERATED = 1 << 3,   /* that reads --operations, but trains nothing */
  ASKED_TRAINING = 1 << 4,   /* of a cluster, or of one that varies */
  ASKED_TRAININGS = 1 << 5,  /* of several numbers of GPUs */
  ASKED_PARETO = 1 << 6,
  ASKED_WHY_NOT = 1 << 7,
  ASKED_COUNTS = 1 << 8,
  ASKED_UNKNOWN = 1 << 9,    /* a question that there is not */
} AskedKind;

#define ASKED_ALL (ASKED_UNKNOWN - 1)

static AskedKind question_kind(const PlanOptions *o)
{
  const Question *question = o->question ? question_find(o->question) : NULL;

  if (!question)
    return ASKED_UNKNOWN;
  if (question->tokens)
    return o->gpus_from != CLI_ABSENT && !o->vary ? ASKED_TRAININGS : ASKED_TRAINING;
  return question->operations ? ASKED_OPERATED : ASKED_QUESTION;
}

static AskedKind asked_kind(const PlanOptions *o, const char **option)
{
  const struct { AskedKind kind; gboolean given; const char *option; } asked[] = {
    { ASKED_IMPROVE, o->improve != NULL, "--improve" },
    { question_kind(o), o->question != NULL, "--question" },
    { ASKED_PARETO, o->pareto != NULL, "--pareto" },
    { ASKED_WHY_NOT, o->why_not != NULL, "--why-not" },
    { ASKED_COUNTS, o->gpus_from != CLI_ABSENT, "--gpus-from" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(asked); i++)
    if (asked[i].given) {
      *option = asked[i].option;
      return asked[i].kind;
    }
  return ASKED_PLAN;
}

static gboolean refuse_together(const char *option, const char *needs, const char *asked, GError **error)
{
  if (needs)
    input_error(error, "%s: expected %s with it", option, needs);
  else
    input_error(error, "%s: expected without %s, which answers something else", option, asked);
  return FALSE;
}

/* Whether options go with what is asked; those that only some questions read say which. */
static gboolean check_together(const PlanOptions *o, GError **error)
{
  const char *asked = NULL;
  AskedKind kind = asked_kind(o, &asked);
  const guint besides = ASKED_ALL & ~ASKED_IMPROVE, trainings = ASKED_TRAINING | ASKED_TRAININGS;
  const struct { const char *option; gboolean given; guint with; const char *needs; } options[] = {
    { "--operations", o->operations != NULL, ASKED_IMPROVE | ASKED_OPERATED | trainings,
      "--question training, jitter or lost-nodes" },
    { "--script-args", o->script_args != NULL, ASKED_IMPROVE, "--improve" },
    { "--vary", o->vary != NULL, trainings, "--question training" },
    { "--job", o->jobs != NULL, o->vary || o->gpus_from != CLI_ABSENT ? 0 : ASKED_TRAINING,
      "--question training, without --vary and --gpus-from," },
    { "--spares", o->spares != CLI_ABSENT, trainings, "--question training" },
    { "--deadline", o->deadline != NULL, o->gpus_from != CLI_ABSENT ? trainings : 0,
      "--question training and --gpus-from" },
    { "--output", o->output != NULL, ASKED_PLAN | ASKED_IMPROVE, NULL },
    { "--export", o->exports != NULL, ASKED_PLAN | ASKED_IMPROVE, NULL },
    { "--plots", o->plots != NULL && !drawn_asked(o->plots), ASKED_PLAN | ASKED_PARETO | ASKED_TRAININGS, NULL },
    { "--plots", drawn_asked(o->plots), besides & ~ASKED_WHY_NOT, NULL },
    { "--question", o->question != NULL, besides, NULL },
    { "--pareto", o->pareto != NULL, besides, NULL },
    { "--why-not", o->why_not != NULL, besides, NULL },
    { "--fix", o->fix != NULL, besides, NULL },
    { "--space", o->space != NULL, besides, NULL },
    { "--objective", o->objective != NULL, besides, NULL },
    { "--precision", o->precision != NULL, besides, NULL },
    { "--adapter", o->adapter != NULL, besides, NULL },
    { "--global-batch", o->global_batch != CLI_ABSENT, ASKED_ALL, NULL },
    { "--report", o->report != NULL, besides & ~ASKED_WHY_NOT, NULL },
    { "--price", o->price != NULL, besides, NULL },
    { "--power-limit", o->power_limit != NULL, besides, NULL },
    { "--operations", o->operations != NULL, besides, NULL },
    { "--explain", o->explain, ASKED_PLAN | ASKED_IMPROVE, NULL },
    { "--refine", o->refine, ASKED_PLAN, NULL },
    { "--layerwise", o->layerwise, ASKED_PLAN, NULL },
    { "--certificate", o->certificate != NULL, ASKED_PLAN, NULL },
    { "--state", o->state != NULL, ASKED_PLAN, NULL },
    { "--top", o->top != CLI_ABSENT, ASKED_PLAN, NULL },
    { "--tokens", o->tokens != NULL, ASKED_PLAN | ASKED_COUNTS | trainings, NULL },
    { "--gpus-from", o->gpus_from != CLI_ABSENT, ASKED_COUNTS | ASKED_PARETO | ASKED_TRAININGS, NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(options) && kind != ASKED_UNKNOWN; i++) /* which is refused elsewhere */
    if (options[i].given && !(options[i].with & kind))
      return refuse_together(options[i].option, options[i].needs, asked, error);
  return TRUE;
}

gboolean plan_options_check_paths(const PlanOptions *o, GError **error)
{
  const char *const files[] = { o->output, o->certificate, o->state };

  for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
    if (files[i] && !files_check_write(files[i], error))
      return FALSE;
  return exports_check_paths(o->exports, error) && drawn_check(o->plots, o->json, error) &&
         (!o->plots || drawn_asked(o->plots) || files_check_folder(o->plots, error)) &&
         (!o->report || page_check(o->report, error));
}

/* In the field 8k tokens of a sequence are 8192; all else is counted in thousands. */
static gboolean read_counts(PlanOptions *o, GError **error)
{
  return cli_read_count("--gpus", o->counts[COUNT_GPUS], 1000, &o->gpus, error) &&
         cli_read_count("--gpus-from", o->counts[COUNT_GPUS_FROM], 1000, &o->gpus_from, error) &&
         cli_read_count("--global-batch", o->counts[COUNT_BATCH], 1000, &o->global_batch, error) &&
         cli_read_count("--seq", o->counts[COUNT_SEQ], 1024, &o->seq, error);
}

/* What options ask for, alone and together. */
gboolean plan_options_check(PlanOptions *o, GError **error)
{
  if (o->layerwise && o->json)
    return input_error(error, "--layerwise: expected no --json with it");
  if (o->layerwise && o->adapter)
    return input_error(error, "--layerwise: expected no --adapter with it");
  if (o->refine && o->objective && g_str_equal(o->objective, "memory"))
    return input_error(error, "--refine: expected another objective than memory: it shortens steps");
  if (!read_counts(o, error) || !check_together(o, error))
    return FALSE;
  return cli_check_count("--gpus", &o->gpus, error) && cli_check_count("--gpus-from", &o->gpus_from, error) &&
         cli_check_count("--global-batch", &o->global_batch, error) &&
         cli_check_count("--seq", &o->seq, error) && cli_check_count("--top", &o->top, error) &&
         cli_check_count("--threads", &o->threads, error) &&
         exports_check(o->exports, error);
}

/* Options alone: no other argument is left. */
static gboolean parse(int *argc, char ***argv, const GOptionEntry *entries, GError **error)
{
  if (!cli_parse(argc, argv, entries, "Finds the fastest way to train a model on a cluster, and says why.", error))
    return FALSE;
  if (*argc > 1)
    input_error(error, "%s: expected no further argument", (*argv)[1]);
  return *argc <= 1;
}

#define EXPORT_SAYS "Write the best plan" /* and of which tools, when they are known */

/* Where an option goes: its place in PlanOptions, until plan_options_read() knows which. */
#define INTO(member) GSIZE_TO_POINTER(G_STRUCT_OFFSET(PlanOptions, member))

static const GOptionEntry options[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, INTO(model), "Model: a file or a name of models/", "M" },
  { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, INTO(cluster), "Cluster: a file or a name of hardware/", "C" },
  { "gpus", 'g', 0, G_OPTION_ARG_STRING, INTO(counts[COUNT_GPUS]),
    "Devices to use (default: all of the cluster)", "N" },
  { "global-batch", 'b', 0, G_OPTION_ARG_STRING, INTO(counts[COUNT_BATCH]),
    "Sequences in a step, as 1536 or 2k = 2000 (default: the model's)", "B" },
  { "seq", 's', 0, G_OPTION_ARG_STRING, INTO(counts[COUNT_SEQ]),
    "Tokens in a sequence, as 4096 or 8k = 8192 (default: the model's)", "S" },
  { "fix", 0, 0, G_OPTION_ARG_STRING, INTO(fix), "Values that plans must have, as in tp=8,zero=1", "LIST" },
  { "space", 0, 0, G_OPTION_ARG_STRING, INTO(space),
    "Also try states on the host, ZeRO++, narrow moments, other orders of ranks, fewer tokens on each: some of "
    "offload, zero++, states, order, context", "LIST" },
  { "framework", 0, 0, G_OPTION_ARG_STRING, INTO(framework),
    "Training software: a name of plans/frameworks/ (default: the cluster's, else " FRAMEWORK_USUAL ")", "NAME" },
  { "precision", 0, 0, G_OPTION_ARG_STRING, INTO(precision),
    "bf16, fp16, fp32, tf32, fp8 or fp4 (default: the first of bf16, fp16, fp32 that the device has); fp8:mxfp8 "
    "names a recipe", "FORMAT[:RECIPE]" },
  { "adapter", 0, 0, G_OPTION_ARG_STRING, INTO(adapter),
    "Freeze the weights and train matrices of rank N beside them; qlora: weights in 4 bits (default: none)",
    "lora:r=N[,targets=NAME,NAME]" },
  { "memory-margin", 0, 0, G_OPTION_ARG_STRING, INTO(memory_margin),
    "Share of each device's memory to keep free, as in 0.05 (default: with which nine of ten measured runs fit)",
    "SHARE" },
  { "objective", 0, 0, G_OPTION_ARG_STRING, INTO(objective),
    "Rank by time (default) or days, tokens-per-gpu, memory, gpu-hours, money or cost, energy or carbon", "NAME" },
  { "gpus-from", 0, 0, G_OPTION_ARG_STRING, INTO(counts[COUNT_GPUS_FROM]),
    "Compare N, 2N, 4N ... GPUs up to --gpus", "N" },
  { "pareto", 0, 0, G_OPTION_ARG_STRING, INTO(pareto),
    "The Pareto front: plans that no other beats in both objectives", "NAME,NAME" },
  { "question", 0, 0, G_OPTION_ARG_STRING, INTO(question),
    "Answer one of fewest-gpus, largest-model, largest-batch, largest-context, sensitivity, scaling, jitter, "
    "lost-nodes or training", "NAME" },
  { "why-not", 0, 0, G_OPTION_ARG_STRING, INTO(why_not),
    "Say why no plan with these values won, as in tp=4,pp=16", "LIST" },
  { "operations", 0, 0, G_OPTION_ARG_FILENAME, INTO(operations),
    "Failures, storage, power and jitter for questions: a file or a name of hardware/operations/", "O" },
  { "deadline", 0, 0, G_OPTION_ARG_STRING, INTO(deadline),
    "Find the cheapest training that ends within so many days", "DAYS" },
  { "spares", 0, 0, G_OPTION_ARG_INT, INTO(spares),
    "Nodes that stand by for the training (default: as many as fail)", "N" },
  { "job", 0, 0, G_OPTION_ARG_STRING_ARRAY, INTO(jobs), "Another training on the cluster at the same time",
    "MODEL:TOKENS[:BATCH]" },
  { "vary", 0, 0, G_OPTION_ARG_STRING_ARRAY, INTO(vary), "Change a number of the cluster, and answer again",
    "KEY=V,V" },
  { "improve", 0, 0, G_OPTION_ARG_FILENAME, INTO(improve),
    "Say what to change in a plan, or in a file of Megatron-LM, Megatron-Bridge, Primus, nanotron, torchtitan, "
    "DeepSpeed or accelerate (--export writes it), of OLMo, litgpt, NeMo 1 or KempnerForge",
    "FILE" },
  { "script-args", 0, 0, G_OPTION_ARG_STRING, INTO(script_args),
    "What the script of --improve is started with, as in \"SIZE=8B 4 1e-5\": variables, then arguments", "WORDS" },
  { "list", 0, 0, G_OPTION_ARG_STRING, INTO(list),
    "List what there is: models, kinds (of Hugging Face's models), clusters, servers, gpus, links, operations, plans, "
    "frameworks, schedules, exports or keys", "WHAT" },
  { "tokens", 0, 0, G_OPTION_ARG_STRING, INTO(tokens),
    "Time and cost of training so many tokens, as in 300e9 or 15T", "T" },
  { "price", 0, 0, G_OPTION_ARG_STRING, INTO(price), "USD for a GPU-hour (default: the cluster's)", "USD" },
  { "power-limit", 0, 0, G_OPTION_ARG_STRING, INTO(power_limit),
    "Watts of a GPU, which lower its clock (default: the device's own)", "W" },
  { "time-limit", 0, 0, G_OPTION_ARG_STRING, INTO(time_limit), "Stop with what is found after so many seconds", "S" },
  { "state", 0, 0, G_OPTION_ARG_FILENAME, INTO(state), "Keep what was simulated in a file, and go on from it", "FILE" },
  { "certificate", 0, 0, G_OPTION_ARG_FILENAME, INTO(certificate), "Write how each plan was settled, as CSV", "FILE" },
  { "top", 0, 0, G_OPTION_ARG_INT, INTO(top), "Plans to show (default: 5)", "K" },
  { "output", 'o', 0, G_OPTION_ARG_FILENAME, INTO(output), "Write the best plan to a file", "FILE" },
  { "export", 0, 0, G_OPTION_ARG_STRING_ARRAY, INTO(exports),
    EXPORT_SAYS, "TOOL=FILE" },
  { "allow-lossy", 0, 0, G_OPTION_ARG_NONE, INTO(lossy), "Export even what the tool cannot fully express", NULL },
  { "report", 0, 0, G_OPTION_ARG_FILENAME, INTO(report), "Write a web page or Markdown", "FILE.html|FILE.md" },
  { "plots", 0, 0, G_OPTION_ARG_FILENAME, INTO(plots),
    "Draw timeline and memory of the best plan; -: in the terminal", "DIR" },
  { "json", 0, 0, G_OPTION_ARG_NONE, INTO(json), "Print JSON", NULL },
  { "explain", 0, 0, G_OPTION_ARG_NONE, INTO(explain), "Say why the best plan won and what it communicates", NULL },
  { "exact", 0, 0, G_OPTION_ARG_NONE, INTO(exact),
    "Rank by seconds alone, also where predictions cannot tell plans apart", NULL },
  { "layerwise", 0, 0, G_OPTION_ARG_NONE, INTO(layerwise),
    "Give each layer of the best plan a strategy of its own, and simulate that", NULL },
  { "refine", 0, 0, G_OPTION_ARG_NONE, INTO(refine),
    "Change the best plan beyond the space, where simulation says that it gains", NULL },
  { "threads", 0, 0, G_OPTION_ARG_INT, INTO(threads),
    "Threads (default: one for each processor); the answer does not depend on it", "T" },
  { "verbose", 'v', 0, G_OPTION_ARG_NONE, INTO(verbose), "Print times of the search on stderr", NULL },
};

gboolean plan_options_read(PlanOptions *o, int *argc, char ***argv, GError **error)
{
  GOptionEntry entries[G_N_ELEMENTS(options) + 1] = { { 0 } };
  g_autofree char *tools = exports_help(EXPORT_SAYS);

  for (gsize i = 0; i < G_N_ELEMENTS(options); i++) {
    entries[i] = options[i];
    if (g_str_equal(entries[i].long_name, "export"))
      entries[i].description = tools;
    entries[i].arg_data = (char *)o + GPOINTER_TO_SIZE(options[i].arg_data);
  }
  return parse(argc, argv, entries, error) && plan_options_check(o, error);
}
