#include "ask/explain.h"

#include "ask/largest.h"
#include "ask/near_batch.h"
#include "ask/notes.h"
#include "ask/question.h"
#include "base/units.h"
#include "report/ranking.h"

#include <math.h>

char *explain_counts(const SearchResult *f)
{
  GString *s = g_string_new(NULL);

  g_string_append_printf(s, "Search: %" G_GINT64_FORMAT " plans in the space. %" G_GINT64_FORMAT
                         " %s simulated; %" G_GINT64_FORMAT " %s skipped, because a lower bound shows that %s no better than "
                         "those found\n",
                         f->space, f->simulated, f->simulated == 1 ? "was" : "were", f->bounded,
                         f->bounded == 1 ? "was" : "were", f->bounded == 1 ? "it is" : "they are");
  if (f->refined > 0)
    g_string_append_printf(s, "  %8" G_GINT64_FORMAT " %s beyond the space, with some layers of each stage recomputed or ZeRO "
                           "over fewer ranks\n",
                           f->refined, f->refined == 1 ? "plan is better" : "plans are better");
  if (f->cut)
    g_string_append_printf(s, "  %8" G_GINT64_FORMAT " open, and all plans that were not met: the search was stopped "
                           "while it walked the space\n",
                           f->open);
  else if (f->open > 0)
    g_string_append_printf(s, "  %8" G_GINT64_FORMAT " open: the search was stopped; the best of them is better by "
                           "at most %.1f %%\n",
                           f->open, 100 * f->gap);
  for (int i = 0; i < REJECT_COUNT; i++)
    if (f->rejected[i])
      g_string_append_printf(s, "  %8" G_GINT64_FORMAT " rejected: %s\n", f->rejected[i], reject_text(i));
  return g_string_free(s, FALSE);
}

void explain_write_counts(const SearchResult *found, JsonWriter *w)
{
  json_put_int(w, "space", found->space);
  json_open(w, "rejected", '{');
  for (int i = 0; i < REJECT_COUNT; i++)
    if (found->rejected[i])
      json_put_int(w, reject_name(i), found->rejected[i]);
  json_close(w, '}');
  json_put_int(w, "grouped", found->grouped);
  json_put_int(w, "bounded", found->bounded);
  json_put_int(w, "simulated", found->simulated);
  json_put_bool(w, "complete", found->open == 0 && !found->cut);
  if (found->open > 0) {
    json_put_int(w, "open", found->open);
    json_put_real(w, "gap", found->gap);
  }
  if (found->halted)
    json_put_bool(w, "stopped", TRUE);
  if (isfinite(found->least_bound))
    json_put_real(w, "least_bound", found->least_bound);
}

/* What the next step up would need: the faster plan that memory forbids. */
static void say_limit(GString *s, const SearchResult *f, const Result *best)
{
  double capacity = best->metrics.capacity_bytes;
  g_autofree char *free_text = format_bytes(capacity - best->metrics.peak_memory_bytes), *all = format_bytes(capacity);

  if (!f->has_over && f->halted) {
    g_string_append(s, "Whether memory is the limit was not looked for, as the search was stopped.\n");
    return;
  }
  if (!f->has_over) {
    g_string_append_printf(s, "Memory is not the limit: no larger plan that was tried is faster. %s of the usable %s are "
                              "free.\n", free_text, all);
    return;
  }
  g_autofree char *label = plan_label(&f->over.plan), *need = format_bytes(f->over.metrics.peak_memory_bytes);
  g_autofree char *step = format_seconds(f->over.metrics.iteration_s);
  g_string_append_printf(s, "Memory is the limit: %s would take %s (%.1f %% less), but needs %s a GPU; %s are usable.\n",
                         label, step,
                         100 * (1 - f->over.metrics.iteration_s / best->metrics.iteration_s), need, all);
}

void explain_write_limit(const SearchResult *f, const Result *best, JsonWriter *w)
{
  json_open(w, "limit", '{');
  json_put_string(w, "by", f->has_over ? "memory" : f->halted ? "not looked for" : "none");
  if (f->has_over) {
    g_autofree char *label = plan_label(&f->over.plan);
    json_put_string(w, "plan", label);
    json_put_real(w, "iteration_s", f->over.metrics.iteration_s);
    json_put_real(w, "peak_memory_bytes", f->over.metrics.peak_memory_bytes);
    json_put_real(w, "usable_bytes", best->metrics.capacity_bytes);
  }
  json_close(w, '}');
}

/* What ties count, in short (ties.h). */
#define MOST_ROBUST "the most robust of them (least beyond measured runs; then fewest mechanisms, such as tensor or " \
                    "pipeline parallelism, recomputation and offload; then most free memory)"

char *explain_tie(const SearchResult *found, const Result *results, int n, double tie)
{
  const Found *best = &g_array_index(found->best, Found, 0), *robust = &found->robust;

  if (tie <= 0 || robust->metrics.iteration_s <= best->metrics.iteration_s)
    return g_strdup("");
  gboolean shown = n > 1 && results[1].metrics.iteration_s == best->metrics.iteration_s;
  g_autofree char *label = plan_label(&best->plan), *step = format_seconds(best->metrics.iteration_s);
  g_autofree char *fastest = shown ? g_strdup("plan 2") : g_strdup_printf("%s (%s)", label, step);
  return g_strdup_printf("Plans within %.0f %% of the fastest tie: predictions cannot tell them apart. Plan 1 is " MOST_ROBUST
                         ".\nIt takes %.2f %% longer than the fastest, %s. --exact ranks by time alone.\n", 100 * tie,
                         100 * (robust->metrics.iteration_s / best->metrics.iteration_s - 1), fastest);
}

char *explain_choice(const SearchResult *found, const Result *results, int n)
{
  g_autofree char *losses = report_losses(results, n), *bottleneck = report_bottleneck(&results[0]);
  g_autofree char *largest = largest_text(&results[0]);
  GString *s = g_string_new(bottleneck);

  g_string_append(s, largest);
  say_limit(s, found, &results[0]);
  g_string_append_printf(s, "Where the other plans lose time, compared with plan 1\n%s", losses);
  return g_string_free(s, FALSE);
}

/* The rule that plans broke which kept most others: rules are checked in order. */
static int nearest_reason(const SearchResult *f)
{
  int nearest = 0;
  for (int i = 0; i < RULE_COUNT; i++)
    if (f->rejected[i])
      nearest = i;
  return nearest;
}

/* The rule but `other` that most plans broke first; -1 if none did. */
static int commonest_reason(const SearchResult *f, int other)
{
  int most = -1;
  for (int i = 0; i < RULE_COUNT; i++)
    if (i != other && f->rejected[i] && (most < 0 || f->rejected[i] > f->rejected[most]))
      most = i;
  return most;
}

/* What stands against a plan that a rule turned down, or what its framework excludes. */
static char *why_rejected(const SearchResult *f, int reason, const Model *model, const Cluster *cluster)
{
  const Plan *plan = &f->sample[reason];
  g_autoptr(GError) rule = NULL;

  if (plan_check(plan, model, cluster, &rule) != RULE_NONE)
    return explain_rule(rule->message);
  return reason == RULE_FRAMEWORK ? note_excluded(model, cluster, plan) : g_strdup(reject_name(reason));
}

/* What a plan that does not fit needs, beside what there is. */
static char *needs(const Found *f, const Cluster *cluster)
{
  const Mesh mesh = mesh_of(&f->plan);
  const Device *device = &mesh_site(&mesh, cluster, f->metrics.peak_row)->device;
  g_autofree char *need = format_bytes(f->metrics.peak_memory_bytes), *may = format_bytes(device->memory_bytes);
  g_autofree char *have = format_bytes(cluster_whole_bytes(cluster, device->memory_bytes));
  g_autofree char *left =
      cluster->memory_margin > 0 ? g_strdup_printf(", of which %s are usable with the margin (--memory-margin)", may) : NULL;

  return g_strdup_printf("needs %s a GPU and %s has %s%s", need, device->name, have, left ? left : "");
}

/* Why a plan that takes less is not recommended. */
static void say_faster(GString *s, const SearchResult *found, const Result *asked, const char *values)
{
  g_autofree char *excluded = note_excluded(asked->model, asked->cluster, asked->plan);

  if (asked->metrics.iteration_s >= g_array_index(found->best, Found, 0).metrics.iteration_s)
    g_string_append(s, "\nThe two tie: predictions cannot tell them apart. The recommended plan is " MOST_ROBUST
                       ".\n--exact ranks by time alone.\n");
  else if (excluded)
    g_string_append_printf(s, "\nA search without --why-not leaves it out; --fix %s takes it. %s\n", values, excluded);
  else
    g_string_append_printf(s, "\nA search without --why-not holds it at the default; --fix %s takes it.\n", values);
}

/* Whether any plan fits when one thing is changed. */
static gboolean fits_with(const Model *model, const Cluster *cluster, const SearchOptions *options, int batch, int seq)
{
  Plan base = *options->base, likely = { 0 };
  SearchOptions changed = *options;

  base.global_batch = batch;
  base.seq = seq;
  changed.base = &base;
  changed.state = NULL;
  changed.watch = NULL; /* but its stop is heard */
  changed.audit = NULL;
  return ask_fits(model, cluster, &changed, cluster->devices, TRY_LEAN, &likely);
}

/* "a plan fits in batches of 2000 sequences (2048 divide over no more than 8 of the 1000 GPUs)"; NULL if none near does. */
static char *other_batch(const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  const int near = near_batch(cluster->devices, options->base->global_batch);

  return near > 0 && fits_with(model, cluster, options, near, options->base->seq)
             ? g_strdup_printf("a plan fits in batches of %d sequences (%d divide over no more than %d of the %d GPUs)", near,
                               options->base->global_batch,
                               batch_replicas(cluster->devices, options->base->global_batch), cluster->devices)
             : NULL;
}

char *explain_why_not(const SearchResult *found, const SearchResult *asked, const Result pair[2], gboolean fits,
                      const SearchOptions *options, const char *values)
{
  SearchOptions near = *options;
  g_autofree char *best = plan_label(pair[0].plan);
  g_autofree char *lacking = explain_lacking(pair[0].model, &options->fixed);
  GString *s = g_string_new(NULL);

  near.base = pair[0].plan;
  if (asked->space == 0 || lacking) {
    g_autofree char *why = explain_empty(pair[0].model, pair[0].cluster, &near);
    g_string_append_printf(s, "No plan has %s: %s.\n", values, why);
  } else if (!fits) {
    g_autofree char *why = NULL;
    int reason = nearest_reason(asked);
    if (asked->has_least)
      g_string_append_printf(s, "No plan with %s fits in memory: the smallest %s.\n", values,
                             (why = needs(&asked->least, pair[0].cluster)));
    else {
      g_autofree char *batch = other_batch(pair[0].model, pair[0].cluster, &near);
      g_string_append_printf(s, "No plan with %s is legal. The nearest plan breaks a rule: %s%s%s\n", values,
                             (why = why_rejected(asked, reason, pair[0].model, pair[0].cluster)),
                             batch ? "; with these values " : "", batch ? batch : "");
    }
  } else {
    double lost = pair[1].metrics.iteration_s - pair[0].metrics.iteration_s;
    g_autofree char *label = plan_label(pair[1].plan), *own = plan_label(pair[0].plan);
    g_autofree char *losses = report_losses(pair, 2);
    if (lost == 0 && g_str_equal(label, own))
      g_string_append_printf(s, "The recommended plan has %s: %s.\n", values, label);
    else if (lost == 0)
      g_string_append_printf(s, "The best plan with %s is as fast as what is recommended.\n%s", values, losses);
    else
      g_string_append_printf(s, "The best plan with %s is %s. It takes %.3f s (%.1f %%) %s than the recommended plan, "
                                "%s:\n%s", values, label, fabs(lost), 100 * fabs(lost) / pair[0].metrics.iteration_s,
                             lost > 0 ? "more" : "less", best, losses);
    if (lost < 0)
      say_faster(s, found, &pair[1], values);
  }
  return g_string_free(s, FALSE);
}

/* `factor` times the GPUs, or the next whole nodes, or one: what is more than `larger` has, which becomes that. */
static gboolean enlarge(const Cluster *cluster, int factor, Cluster *larger)
{
  const gint64 asked = (gint64)cluster->devices * factor, node = cluster->devices_per_node;
  const gint64 sizes[] = { asked, (asked + node - 1) / node * node, node };

  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
    if (sizes[i] > larger->devices && sizes[i] <= G_MAXINT && cluster_resize(larger, (int)sizes[i], NULL))
      return TRUE;
  return FALSE;
}

/* That more GPUs do, which then are `larger`, or shorter sequences; NULL: neither does. */
static char *resized(const Model *model, const Cluster *cluster, const SearchOptions *options, Cluster *larger)
{
  const Plan *base = options->base;

  for (int factor = 2; factor <= 64; factor *= 2) {
    const gint64 batch = (gint64)base->global_batch * factor; /* few sequences leave many GPUs no work */
    gboolean more = enlarge(cluster, factor, larger), doubled = larger->devices == cluster->devices * factor;
    if (more && fits_with(model, larger, options, base->global_batch, base->seq))
      return g_strdup_printf("a plan fits on %d GPUs%s (--question fewest-gpus finds the least)", larger->devices,
                             doubled ? ", the first doubling that does" : "");
    if (more && batch <= G_MAXINT && fits_with(model, larger, options, (int)batch, base->seq))
      return g_strdup_printf("a plan fits on %d GPUs in batches of %d sequences", larger->devices, (int)batch);
    if (base->seq / factor >= 1 && fits_with(model, cluster, options, base->global_batch, base->seq / factor))
      return g_strdup_printf("a plan fits with sequences of %d tokens", base->seq / factor);
  }
  return NULL;
}

/* The same where states may go to the host. */
static char *hosted(const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  SearchOptions wider = *options;
  Cluster larger = *cluster;

  if (options->space & SPACE_OFFLOAD || options->fixed.value[KEY_OFFLOAD] >= 0 ||
      !space_can(options->base->framework, SPACE_OFFLOAD))
    return NULL;
  wider.space |= SPACE_OFFLOAD;
  g_autofree char *change = resized(model, cluster, &wider, &larger);
  return change ? g_strdup_printf("with states on the host %s", change) : NULL;
}

static char *relaxation(const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  const Plan *base = options->base;
  SearchOptions free_options = *options;
  Cluster larger = *cluster;

  if (cluster->memory_margin > 0 && cluster->n_types == 0) {
    larger.device.memory_bytes = cluster_whole_bytes(cluster, cluster->device.memory_bytes);
    larger.memory_margin = 0;
    if (fits_with(model, &larger, options, base->global_batch, base->seq))
      return g_strdup("with --memory-margin 0 a plan fits");
    larger = *cluster;
  }
  char *near = other_batch(model, cluster, options);
  if (near)
    return near;
  free_options.fixed = fixed_none();
  if (fits_with(model, cluster, &free_options, base->global_batch, base->seq))
    return g_strdup("without --fix a plan fits");
  char *change = resized(model, cluster, options, &larger);
  change = change ? change : hosted(model, cluster, options);
  if (change)
    return change;
  if (stop_heard(options->stop))
    return g_strdup("stopped before a change was found that does");
  if (larger.devices == cluster->devices)
    return g_strdup_printf("1/64 of the sequence was not found to do, and %s can have no more GPUs%s", cluster->name,
                           cluster->n_types ? "" : ", as it has no network");
  if (larger.devices < 64 * (gint64)cluster->devices)
    return g_strdup_printf("neither %d GPUs, the most that %s can have, nor 1/64 of the sequence was found to do",
                           larger.devices, cluster->name);
  return g_strdup("neither 64 times the GPUs nor 1/64 of the sequence was found to do");
}

/* What stands in the way of most plans, and of most others. */
static char *explain_illegal(const SearchResult *f, const Model *model, const Cluster *cluster,
                             const SearchOptions *options)
{
  const int reason = commonest_reason(f, -1), next = commonest_reason(f, reason);

  if (f->space == 0) {
    g_autofree char *empty = explain_empty(model, cluster, options);
    return g_strdup_printf("--fix leaves no plan: %s", empty);
  }
  GString *s = g_string_new(NULL);
  g_autofree char *why = why_rejected(f, reason, model, cluster), *batch = other_batch(model, cluster, options);
  g_string_append_printf(s, "no legal plan of %" G_GINT64_FORMAT "; %" G_GINT64_FORMAT " break a rule: %s", f->space,
                         f->rejected[reason], why);
  if (next >= 0) {
    g_autofree char *another = why_rejected(f, next, model, cluster);
    g_string_append_printf(s, "; %" G_GINT64_FORMAT " another: %s", f->rejected[next], another);
  }
  if (batch)
    g_string_append_printf(s, "; %s", batch);
  return g_string_free(s, FALSE);
}

/* Why the smallest plan does not take one sequence at a time, where that is not memory; "" if it does. */
static char *why_not_lighter(const Plan *least, const Model *model, const Cluster *cluster)
{
  Plan lighter = *least;
  g_autoptr(GError) why = NULL;

  lighter.micro_batch = 1;
  if (least->micro_batch == 1 || plan_check(&lighter, model, cluster, &why) == RULE_NONE)
    return g_strdup("");
  return g_strdup_printf("; with micro-batch 1, %s", why->message);
}

char *explain_nothing(const SearchResult *f, const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  if (!f->has_least)
    return explain_illegal(f, model, cluster, options);
  g_autofree char *change = relaxation(model, cluster, options);
  g_autofree char *label = plan_label(&f->least.plan), *lacks = needs(&f->least, cluster);
  g_autofree char *lighter = why_not_lighter(&f->least.plan, model, cluster);
  return g_strdup_printf("no plan fits: the smallest (%s) %s%s; %s", label, lacks, lighter, change);
}
