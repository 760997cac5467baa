#include "cli/plan_options.h"

#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/drawn.h"
#include "ask/question.h"
#include "cli/exports.h"
#include "report/page.h"

#include <string.h>

void plan_options_init(PlanOptions *o)
{
  *o = (PlanOptions) { .gpus = CLI_ABSENT, .gpus_from = CLI_ABSENT, .global_batch = CLI_ABSENT, .seq = CLI_ABSENT,
                       .top = CLI_ABSENT, .threads = CLI_ABSENT };
}

void plan_options_clear(PlanOptions *o)
{
  char *const strings[] = { o->model, o->cluster, o->fix, o->space, o->output, o->plots, o->report, o->framework,
                            o->precision, o->objective, o->pareto, o->question, o->why_not, o->state, o->certificate,
                            o->tokens, o->price, o->time_limit, o->memory_margin, o->operations, o->improve, o->list,
                            o->deadline };

  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
  for (gsize i = 0; i < COUNT_OPTIONS; i++)
    g_free(o->counts[i]);
  g_strfreev(o->exports);
  g_strfreev(o->vary);
}

/* What only some questions read. */
static gboolean check_questions(const PlanOptions *o, GError **error)
{
  const Question *question = o->question ? question_find(o->question) : NULL;
  gboolean unknown = o->question && !question; /* is refused elsewhere */
  gboolean training = unknown || (question && question->tokens), counts = training && o->gpus_from != CLI_ABSENT;
  const struct { const char *option; gboolean misplaced; const char *with; } some[] = {
    { "--operations", o->operations && !o->improve && !unknown && !(question && question->operations),
      "--question training or jitter" },
    { "--vary", o->vary && !training, "--question training" },
    { "--deadline", o->deadline && !counts, "--question training and --gpus-from" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(some); i++)
    if (some[i].misplaced) {
      g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected %s with it", some[i].option, some[i].with);
      return FALSE;
    }
  return TRUE;
}

/* Whether what is asked goes with the rest: other answers than the best plan take few options. */
static gboolean check_together(const PlanOptions *o, GError **error)
{
  const char *asked = o->improve ? "--improve" : o->question ? "--question" : o->pareto ? "--pareto" :
                      o->why_not ? "--why-not" :
                      o->gpus_from != CLI_ABSENT ? "--gpus-from" : NULL;
  gboolean counts = o->gpus_from != CLI_ABSENT && !o->question && !o->why_not;
  const Question *question = o->question ? question_find(o->question) : NULL;
  gboolean training = o->question && (!question || question->tokens); /* one that there is not is refused elsewhere */
  gboolean tokens = (counts && !o->pareto) || training, trainings = training && o->gpus_from != CLI_ABSENT && !o->vary;
  const struct { const char *option; gboolean given; } others[] = {
    { "--output", o->output && !o->improve }, { "--export", o->exports && !o->improve },
    { "--plots", o->plots && !o->pareto && !trainings }, { "--question", o->question && o->improve },
    { "--pareto", o->pareto && o->improve }, { "--why-not", o->why_not && o->improve },
    { "--fix", o->fix && o->improve }, { "--space", o->space && o->improve },
    { "--objective", o->objective && o->improve }, { "--precision", o->precision && o->improve },
    { "--global-batch", o->improve && o->global_batch != CLI_ABSENT },
    { "--seq", o->improve && o->seq != CLI_ABSENT }, { "--report", o->report && (o->improve || o->why_not) },
    { "--price", o->improve && o->price },
    { "--operations", o->improve && o->operations },
    { "--explain", o->explain }, { "--refine", o->refine }, { "--layerwise", o->layerwise },
    { "--certificate", o->certificate != NULL },
    { "--state", o->state != NULL }, { "--top", o->top != CLI_ABSENT }, { "--tokens", o->tokens && !tokens },
    { "--gpus-from", o->gpus_from != CLI_ABSENT && !counts && !trainings },
  };

  for (gsize i = 0; asked && i < G_N_ELEMENTS(others); i++)
    if (others[i].given) {
      g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected without %s, which answers something else",
                  others[i].option, asked);
      return FALSE;
    }
  return TRUE;
}

gboolean plan_options_check_paths(const PlanOptions *o, GError **error)
{
  const char *const files[] = { o->output, o->certificate, o->state };

  for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
    if (files[i] && !files_check_write(files[i], error))
      return FALSE;
  return exports_check_paths(o->exports, error) && drawn_check(o->plots, o->json, error) &&
         (!o->plots || (drawn_asked(o->plots) && !o->pareto) || files_check_folder(o->plots, error)) &&
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
  if (o->layerwise && o->json) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "--layerwise: expected no --json with it");
    return FALSE;
  }
  if (o->refine && o->objective && g_str_equal(o->objective, "memory")) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
                "--refine: expected another objective than memory: it shortens steps");
    return FALSE;
  }
  if (!read_counts(o, error) || !check_questions(o, error) || !check_together(o, error))
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
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected no further argument", (*argv)[1]);
  return *argc <= 1;
}

gboolean plan_options_read(PlanOptions *o, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &o->model, "Model: a file or a name of models/", "M" },
    { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, &o->cluster, "Cluster: a file or a name of hardware/", "C" },
    { "gpus", 'g', 0, G_OPTION_ARG_STRING, &o->counts[COUNT_GPUS],
      "Devices to use (default: all of the cluster)", "N" },
    { "global-batch", 'b', 0, G_OPTION_ARG_STRING, &o->counts[COUNT_BATCH],
      "Sequences in a step, as 1536 or 2k = 2000 (default: the model's)", "B" },
    { "seq", 's', 0, G_OPTION_ARG_STRING, &o->counts[COUNT_SEQ],
      "Tokens in a sequence, as 4096 or 8k = 8192 (default: the model's)", "S" },
    { "fix", 0, 0, G_OPTION_ARG_STRING, &o->fix, "Values that plans must have, as in tp=8,zero=1", "LIST" },
    { "space", 0, 0, G_OPTION_ARG_STRING, &o->space,
      "Also try states on the host, ZeRO++, narrow moments, other orders of ranks: some of offload, zero++, states, "
      "order", "LIST" },
    { "framework", 0, 0, G_OPTION_ARG_STRING, &o->framework,
      "Training software: a name of plans/frameworks/ (default: the cluster's, else " FRAMEWORK_USUAL ")", "NAME" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &o->precision,
      "bf16, fp16, fp32, tf32, fp8 or fp4 (default: the first of bf16, fp16, fp32 that the device has)", "FORMAT" },
    { "memory-margin", 0, 0, G_OPTION_ARG_STRING, &o->memory_margin,
      "Share of each device's memory to keep free, as in 0.05 (default: with which nine of ten measured runs fit)",
      "SHARE" },
    { "objective", 0, 0, G_OPTION_ARG_STRING, &o->objective,
      "time (default), tokens-per-gpu, memory, gpu-hours, money or energy", "NAME" },
    { "gpus-from", 0, 0, G_OPTION_ARG_STRING, &o->counts[COUNT_GPUS_FROM],
      "Compare N, 2N, 4N ... GPUs up to --gpus", "N" },
    { "pareto", 0, 0, G_OPTION_ARG_STRING, &o->pareto, "Plans that no other beats in both objectives", "NAME,NAME" },
    { "question", 0, 0, G_OPTION_ARG_STRING, &o->question,
      "fewest-gpus, largest-model, largest-batch, largest-context, sensitivity, scaling, jitter or training", "NAME" },
    { "why-not", 0, 0, G_OPTION_ARG_STRING, &o->why_not,
      "Why no plan with these values won, as in tp=4,pp=16", "LIST" },
    { "operations", 0, 0, G_OPTION_ARG_FILENAME, &o->operations,
      "Failures, storage, power and jitter for questions: a file or a name of hardware/operations/", "O" },
    { "deadline", 0, 0, G_OPTION_ARG_STRING, &o->deadline, "Which training ends in time and is cheapest", "DAYS" },
    { "vary", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->vary, "Train on a cluster with other numbers", "KEY=V,V" },
    { "improve", 0, 0, G_OPTION_ARG_FILENAME, &o->improve,
      "What to change in a plan, or in a file of Megatron-LM, nanotron, torchtitan or DeepSpeed; --export writes it",
      "FILE" },
    { "list", 0, 0, G_OPTION_ARG_STRING, &o->list,
      "What there is: models, clusters, servers, frameworks, schedules or keys", "WHAT" },
    { "tokens", 0, 0, G_OPTION_ARG_STRING, &o->tokens,
      "Time and cost of training so many tokens, as in 300e9 or 15T", "T" },
    { "price", 0, 0, G_OPTION_ARG_STRING, &o->price, "USD for a GPU-hour (default: the cluster's)", "USD" },
    { "time-limit", 0, 0, G_OPTION_ARG_STRING, &o->time_limit, "Stop with what is found after so many seconds", "S" },
    { "state", 0, 0, G_OPTION_ARG_FILENAME, &o->state, "Keep what was simulated in a file, and go on from it", "FILE" },
    { "certificate", 0, 0, G_OPTION_ARG_FILENAME, &o->certificate, "Write how each plan was settled, as CSV", "FILE" },
    { "top", 0, 0, G_OPTION_ARG_INT, &o->top, "Plans to show (default: 5)", "K" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &o->output, "Write the best plan to a file", "FILE" },
    { "export", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->exports,
      "Write the best plan for megatron, deepspeed, torchtitan, bridge, accelerate or nanotron, or its torch-schedule",
      "TOOL=FILE" },
    { "allow-lossy", 0, 0, G_OPTION_ARG_NONE, &o->lossy, "Export even what the tool cannot fully express", NULL },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &o->report, "Write a web page or Markdown", "FILE.html|FILE.md" },
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &o->plots, "Draw timeline and memory of the best plan; -: here", "DIR" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "explain", 0, 0, G_OPTION_ARG_NONE, &o->explain, "Say why the best plan won and what it communicates", NULL },
    { "exact", 0, 0, G_OPTION_ARG_NONE, &o->exact,
      "Rank by seconds alone, also where predictions cannot tell plans apart", NULL },
    { "layerwise", 0, 0, G_OPTION_ARG_NONE, &o->layerwise,
      "Give each layer of the best plan a strategy of its own, and simulate that", NULL },
    { "refine", 0, 0, G_OPTION_ARG_NONE, &o->refine,
      "Change the best plan beyond the space, where simulation says that it gains", NULL },
    { "threads", 0, 0, G_OPTION_ARG_INT, &o->threads,
      "Threads (default: one for each processor); the answer does not depend on it", "T" },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &o->verbose, "Print times of the search on stderr", NULL },
    G_OPTION_ENTRY_NULL,
  };

  return parse(argc, argv, entries, error) && plan_options_check(o, error);
}
