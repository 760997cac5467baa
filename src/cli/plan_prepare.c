/* What a request to plan asks for, read and loaded. */
#include "cli/planning.h"

#include "ask/explain.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/drawn.h"
#include "plan/excludes.h"

#include <string.h>

#define SEQ_USUAL 8192 /* tokens, up to which the longest sequence of a model is taken without a word */

static gboolean read_objective(const char *option, const char *name, const Objective **out, GError **error)
{
  *out = objective_find(name);
  if (*out)
    return TRUE;
  g_autofree char *list = objective_list(), *meant = objective_meant(name);
  return input_error(error, "%s: %s: expected %s%s", option, name, list, meant);
}

static gboolean read_pareto(Planning *p, const char *text, GError **error)
{
  g_auto(GStrv) names = g_strsplit(text, ",", -1);

  if (g_strv_length(names) != 2 || g_str_equal(names[0], names[1]))
    return input_error(error, "--pareto: %s: expected two objectives, as in time,memory", text);
  return read_objective("--pareto", names[0], &p->objective, error) &&
         read_objective("--pareto", names[1], &p->second, error);
}

static gboolean check_spares(const PlanOptions *o, GError **error)
{
  if (o->spares == CLI_ABSENT || (o->spares >= 0 && o->spares <= SPARES_MAX))
    return TRUE;
  return input_error(error, "--spares: %d: expected 0 to %d nodes", o->spares, SPARES_MAX);
}

static gboolean check_question(Planning *p, const char *name, const char *tokens, GError **error)
{
  p->question = question_find(name);
  if (p->question && p->question->tokens && !tokens)
    return input_error(error, "--question: %s: expected --tokens, as in --tokens 15e12", name);
  if (p->question)
    return TRUE;
  g_autofree char *list = question_list(), *meant = question_meant(name);
  return input_error(error, "--question: %s: expected %s%s", name, list, meant);
}

/* What is asked beside the best plan; known before anything is loaded. */
static gboolean read_wishes(Planning *p, const PlanOptions *o, GError **error)
{
  p->objective = &objectives[0];
  if ((!!o->pareto + !!o->question + !!o->why_not) > 1)
    return input_error(error, "expected one of --pareto, --question and --why-not");
  return (!o->objective || read_objective("--objective", o->objective, &p->objective, error)) &&
         (!o->pareto || read_pareto(p, o->pareto, error)) &&
         (!o->question || check_question(p, o->question, o->tokens, error)) &&
         check_spares(o, error) && cli_share("--memory-margin", o->memory_margin, &p->memory_margin, error) &&
         cli_tokens("--tokens", o->tokens, &p->tokens, error) &&
         cli_positive("--price", o->price, &p->price, error) &&
         cli_positive("--power-limit", o->power_limit, &p->power_limit_w, error) &&
         cli_positive("--deadline", o->deadline, &p->deadline_days, error) &&
         cli_positive("--time-limit", o->time_limit, &p->time_limit_s, error);
}

/* A front of days and dollars has dollars. */
static gboolean check_priced(const Planning *p, const PlanOptions *o, GError **error)
{
  if (!p->question || !o->plots || drawn_asked(o->plots) || p->cluster->usd_per_device_hour > 0)
    return TRUE;
  return input_error(error, "--plots: expected --price with it, as %s has no price", p->cluster->name);
}

static gboolean check_alike(const Planning *p, GError **error)
{
  if (!p->question || !p->question->alike || p->cluster->n_types == 0)
    return TRUE;
  return input_error(error, "--question: %s: expected a cluster of alike nodes, %s has %d types", p->question->name,
                     p->cluster->name, p->cluster->n_types);
}

static gboolean check_deepened(const Planning *p, GError **error)
{
  if (!p->question || !p->question->deepens || !model_shares_weights(p->model))
    return TRUE;
  return input_error(error, "--question: %s: expected a model whose layers hold weights of their "
                     "own, layers of model %s share them", p->question->name, p->model->name);
}

static gboolean load_cluster(Planning *p, const PlanOptions *o, GError **error)
{
  if (!p->cluster)
    p->cluster = cli_load_cluster(o->cluster, error);
  if (!p->cluster)
    return FALSE;
  if (o->gpus > 0 && !cluster_resize(p->cluster, o->gpus, error)) {
    g_prefix_error(error, "--gpus: ");
    return FALSE;
  }
  if (p->price > 0)
    p->cluster->usd_per_device_hour = p->price;
  if (o->gpus_from > p->cluster->devices)
    return input_error(error, "--gpus-from: %d: expected at most the %d GPUs of --gpus", o->gpus_from,
                       p->cluster->devices);
  return cli_limit_power(p->cluster, p->power_limit_w, error) && check_priced(p, o, error) && check_alike(p, error) &&
         check_deepened(p, error) && objective_check(p->objective, p->cluster, error) &&
         (!p->second || objective_check(p->second, p->cluster, error));
}

/* What the question looks for is not held. */
static gboolean check_fixed(const Planning *p, GError **error)
{
  PlanKeyId sets = p->question ? p->question->sets : KEY_OTHER;

  if (sets == KEY_OTHER || p->fixed.value[sets] < 0)
    return TRUE;
  const char *key = plan_key_of(sets)->shorter;
  return input_error(error, "--fix: %s: %d: expected no %s with --question %s, which looks for the largest",
                     key, p->fixed.value[sets], key, p->question->name);
}

static gboolean read_space(Planning *p, const PlanOptions *o, GError **error)
{
  if ((o->fix && !fixed_parse("--fix", o->fix, &p->fixed, error)) || !check_fixed(p, error))
    return FALSE;
  g_autofree char *lacking = explain_lacking(p->model, &p->fixed);
  if (lacking)
    return infeasible_error(error, "--fix leaves no plan: %s", lacking);
  p->why_not = p->fixed;
  return (!o->space || space_parse("--space", o->space, &p->space, error)) &&
         (!o->why_not || fixed_parse("--why-not", o->why_not, &p->why_not, error));
}

/* Whether a name stands for its software: it has no date, or is the last one where all have. Other names follow it, of
 * which those with words behind their date are variants. */
static gboolean stands_for_all(char *const *name)
{
  const char *dated = strstr(*name, "-20");
  g_autofree char *undated = dated ? g_strndup(*name, dated - *name) : NULL;

  if (!dated)
    return TRUE;
  if (strlen(dated) > strlen("-2026-04") || g_str_has_suffix(undated, "-dev") || framework_exists(undated))
    return FALSE;
  while (name[1] && g_str_has_prefix(name[1], name[0]))
    name++;
  return !(name[1] && g_str_has_prefix(name[1], undated));
}

/* "; such are trained by deepspeed, fsdp": the frameworks of the data that train an adapter. */
static char *adapted_by(const Adapter *adapter)
{
  g_auto(GStrv) names = files_names("plans/frameworks");
  GString *s = g_string_new(NULL);

  for (int i = 0; names[i]; i++) {
    g_autoptr(Framework) f = stands_for_all(&names[i]) ? framework_load(names[i], NULL) : NULL;
    if (f && !framework_adapts_only(f, adapter))
      g_string_append_printf(s, "%s%s", s->len ? ", " : "; such are trained by ", f->name);
  }
  return g_string_free(s, FALSE);
}

static gboolean read_adapter(Planning *p, const PlanOptions *o, GError **error)
{
  if (!cli_adapter(o->adapter, p->model, &p->base.adapter, error))
    return FALSE;
  const char *only = framework_adapts_only(p->framework, &p->base.adapter);
  if (only) {
    g_autofree char *others = adapted_by(&p->base.adapter);
    input_error(error, "--adapter: %s: expected %s with --framework %s%s", o->adapter, only, p->framework->name, others);
  }
  return !only;
}

static gboolean read_precision(Planning *p, const PlanOptions *o, GError **error)
{
  DType format = cli_best_precision(p->cluster);

  if (o->precision && !cli_precision(o->precision, &format, &p->base.fp8_recipe, error))
    return FALSE;
  plan_set_format(&p->base, format);
  if (!o->precision)
    return TRUE;
  g_autofree char *only = framework_narrows_only(p->framework, format, p->base.fp8_recipe);
  g_autofree char *expected = only ? NULL : plan_devices_expect(&p->base, p->cluster);
  if (only || expected)
    return input_error(error, "--precision: %s: expected %s", o->precision, only ? only : expected);
  return TRUE;
}

/* Blocks in 16 bits that are held and that no plan of the format can have. */
static gboolean check_wide(const Planning *p, const char *precision, GError **error)
{
  const int *held = p->fixed.value;
  g_autoptr(GError) why = NULL;
  Plan with = p->base;

  with.wide = (WideBlocks) { MAX(held[KEY_WIDE_START], 0), MAX(held[KEY_WIDE_END], 0) };
  if (plan_check_wide(&with, p->model, p->cluster, &why))
    return TRUE;
  g_autofree char *rule = explain_rule(why->message);
  return input_error(error, "--fix%s%s: %s", precision ? " with --precision " : "", precision ? precision : "", rule);
}

/* What all plans of the search have in common. */
static gboolean set_base(Planning *p, const PlanOptions *o, GError **error)
{
  p->base = plan_default(p->model, p->framework);
  if (!read_precision(p, o, error) || !check_wide(p, o->precision, error) || !read_adapter(p, o, error))
    return FALSE;
  plan_settle_attention(&p->base, p->model, p->cluster);
  p->base.gpus = p->cluster->devices;
  if (!p->model->global_batch_size && o->global_batch <= 0)
    p->base.global_batch = p->base.gpus;
  if (o->global_batch > 0)
    p->base.global_batch = o->global_batch;
  if (o->seq > 0)
    p->base.seq = o->seq;
  else if (p->model->seq_longest && p->model->seq > SEQ_USUAL)
    planning_note(p, g_strdup_printf("model %s names no training length: its longest is taken, %d tokens; --seq tells "
                                     "another, as --seq 8k", p->model->name, p->model->seq));
  return TRUE;
}

static void job_clear(gpointer job)
{
  model_free(((Job *)job)->model);
}

/* MODEL:TOKENS[:BATCH], in the formats of the first. */
static gboolean read_job(Planning *p, const char *text, GError **error)
{
  g_auto(GStrv) words = g_strsplit(text, ":", 3);
  int n = (int)g_strv_length(words), batch = CLI_ABSENT;
  Job job = { .base = p->base };

  if (n < 2)
    return input_error(error, "--job: %s: expected MODEL:TOKENS or MODEL:TOKENS:BATCH", text);
  if (!cli_tokens("--job", words[1], &job.tokens, error) ||
      (n == 3 && (!cli_read_count("--job", words[2], 1000, &batch, error) || !cli_check_count("--job", &batch, error))))
    return FALSE;
  job.model = cli_load_model(words[0], error);
  if (!job.model)
    return FALSE;
  job.base = plan_default(job.model, p->framework);
  plan_set_format(&job.base, plan_format(&p->base));
  job.base.fp8_recipe = p->base.fp8_recipe;
  job.base.adapter = p->base.adapter;
  g_autofree char *expected = adapter_refusal(&job.base.adapter, job.model);
  if (expected) {
    input_error(error, "--job: %s: expected with --adapter %s", words[0], expected);
    job_clear(&job);
    return FALSE;
  }
  job.base.attention = p->base.attention;
  if (batch > 0 || !job.model->global_batch_size)
    job.base.global_batch = batch > 0 ? batch : p->cluster->devices;
  g_array_append_val(p->jobs, job);
  return TRUE;
}

static gboolean read_jobs(Planning *p, char **jobs, GError **error)
{
  p->jobs = g_array_new(FALSE, FALSE, sizeof(Job));
  g_array_set_clear_func(p->jobs, job_clear);
  for (; *jobs; jobs++)
    if (!read_job(p, *jobs, error))
      return FALSE;
  return TRUE;
}

gboolean planning_prepare(Planning *p, const PlanOptions *o, GError **error)
{
  if (!read_wishes(p, o, error))
    return FALSE;
  if (!p->model)
    p->model = cli_load_model(o->model, error);
  if (!p->model || !load_cluster(p, o, error))
    return FALSE;
  const char *usual = p->cluster->framework ? p->cluster->framework : FRAMEWORK_USUAL;
  p->framework = framework_load(o->framework ? o->framework : usual, error);
  p->accuracy = p->framework ? accuracy_load(error) : NULL;
  if (!p->accuracy || !operations_load(o->operations ? o->operations : OPERATIONS_USUAL, &p->operations, error))
    return FALSE;
  if (o->spares != CLI_ABSENT)
    p->operations.spares = o->spares;
  cluster_keep_free(p->cluster, p->memory_margin >= 0 ? p->memory_margin
                                                      : accuracy_margin(p->accuracy, p->framework->engine));
  if (o->vary && !(p->vary = vary_parse(o->vary, p->cluster, error)))
    return FALSE;
  return read_space(p, o, error) && set_base(p, o, error) && (!o->jobs || read_jobs(p, o->jobs, error));
}
