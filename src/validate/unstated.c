#include "validate/unstated.h"

#include "base/files.h"

#include <stdlib.h>
#include <string.h>

#define MONTHS_UNKNOWN (2025 * 12) /* of a file that names no year: the software as it stands */

/* A name as FAMILY, FAMILY-YEAR[-MONTH] or FAMILY-YEAR[-MONTH]-VARIANT; containers write YY.MM[.PATCH]. */
typedef struct {
  gsize length; /* of the family */
  int months;
  const char *variant;
} Name;

static gboolean is_number(const char *text, int digits)
{
  for (int i = 0; i < digits; i++)
    if (!g_ascii_isdigit(text[i]))
      return FALSE;
  return !g_ascii_isdigit(text[digits]);
}

/* "25.09", "26.04.01": 2025-09, 2026-04. */
static gboolean read_container(const char *text, Name *name)
{
  if (!g_ascii_isdigit(text[0]) || !g_ascii_isdigit(text[1]) || text[2] != '.' || !is_number(text + 3, 2))
    return FALSE;
  name->months = (2000 + atoi(text)) * 12 + atoi(text + 3);
  name->variant = text + 5 + (text[5] == '.' ? 1 + strspn(text + 6, "0123456789") : 0);
  return TRUE;
}

static Name read_name(const char *text)
{
  for (const char *at = strchr(text, '-'); at; at = strchr(at + 1, '-')) {
    Name name = { .length = at - text };
    if (read_container(at + 1, &name))
      return name;
    if (!is_number(at + 1, 4))
      continue;
    gboolean month = at[5] == '-' && is_number(at + 6, 2);
    return (Name) { at - text, atoi(at + 1) * 12 + (month ? atoi(at + 6) : 0), at + (month ? 8 : 5) };
  }
  return (Name) { strlen(text), MONTHS_UNKNOWN, "" };
}

/* How far a file's variant is from that of a run: none of the same, little of one that the run's begins with. */
static int variants_apart(const char *wanted, const char *found)
{
  return g_str_has_prefix(wanted, found) ? strlen(wanted) - strlen(found) : 1000;
}

/* Of the files of a family that nearest in time, the same variant before others. NULL = it has no files. */
static const char *nearest(char *const *names, const char *family, const char *generation)
{
  gsize length = read_name(family).length;
  Name wanted = read_name(generation);
  int least = G_MAXINT;
  const char *found = NULL;

  for (int i = 0; length > 0 && names[i]; i++) {
    const char *text = names[i];
    Name name = read_name(text);
    int apart = ABS(name.months - wanted.months) + variants_apart(wanted.variant, name.variant) * 1000 * 12;
    if (name.length != length || strncmp(text, family, length) != 0 || apart >= least)
      continue;
    least = apart;
    found = text;
  }
  return found;
}

/* What the file names for generations that have none. */
static const char *instead(char *const *names, const char *found, const char *generation)
{
  Habits habits;
  gboolean read = habits_read(found, &habits, NULL);
  const char *other = read && habits.family ? nearest(names, habits.family, generation) : NULL;

  habits_clear(&habits);
  return other ? other : found;
}

/* "MaxText (JAX)": maxtext. NULL if the note names none. */
static char *noted_software(const char *note)
{
  const char *end = strstr(note, " (JAX)"), *start = end;

  while (start && start > note && g_ascii_isalnum(start[-1]))
    start--;
  return start && start < end ? g_ascii_strdown(start, end - start) : NULL;
}

static char *find_generation(const char *generation, const char *framework, const char *note)
{
  const char *families[] = { generation, framework, FRAMEWORK_USUAL };
  g_autofree char *software = noted_software(note);
  g_auto(GStrv) names = files_names("plans/frameworks");
  const char *found = software ? nearest(names, software, generation) : NULL;

  if (!found && *generation && framework_exists(generation))
    return g_strdup(generation);
  for (gsize i = 0; !found && i < G_N_ELEMENTS(families); i++)
    found = nearest(names, families[i], generation);
  return g_strdup(found ? instead(names, found, generation) : generation);
}

char *unstated_generation(const char *generation, const char *framework, const char *note)
{
  g_autofree char *found = find_generation(generation, framework, note);
  g_autofree char *eager = g_strconcat(found, "-eager", NULL);
  gboolean is_eager = strstr(note, "torch.compile off") || strstr(note, "loss compiled");

  return is_eager && framework_exists(eager) ? g_steal_pointer(&eager) : g_steal_pointer(&found);
}

gboolean unstated_is_named(const char *generation, const char *found)
{
  Name a = read_name(generation), b = read_name(found);

  return g_str_equal(generation, found) ||
         (a.months != MONTHS_UNKNOWN && a.months == b.months && a.length == b.length &&
          strncmp(generation, found, a.length) == 0 && g_str_equal(a.variant, b.variant));
}

static gboolean more_sequence(Case *c)
{
  gboolean can = case_has_default(c, "sp") && c->plan.tp > 1 && !c->plan.sequence_parallel;

  if (can)
    c->plan.sequence_parallel = TRUE;
  return can;
}

static gboolean more_zero(Case *c)
{
  gboolean can = case_has_default(c, "zero") && c->plan.zero == 0 && plan_replicas(&c->plan) > 1 &&
                 framework_zero_max(c->framework, c->plan.pp) > 0;

  if (can)
    c->plan.zero = 1;
  return can;
}

static gboolean more_shards(Case *c)
{
  Plan *p = &c->plan;
  gboolean can = case_has_default(c, "shard_group") && p->shard_group > 0;

  if (can)
    p->shard_group = 2 * p->shard_group < plan_replicas(p) ? 2 * p->shard_group : 0;
  return can;
}

static gboolean to_selective(Case *c)
{
  gboolean can = case_has_default(c, "recompute") && c->plan.recompute == RECOMPUTE_NONE;

  if (can)
    c->plan.recompute = RECOMPUTE_SELECTIVE;
  return can;
}

/* Keys and values of latent attention again, which is little work for much memory: Megatron-Bridge 0.2's recipes of
 * DeepSeek-V3 recompute mla_up_proj (scripts/performance/configs/deepseek/workload_base_configs.py). */
static gboolean to_latent(Case *c)
{
  const Framework *f = c->framework;
  guint modules = 0;

  for (int i = 0; i < f->n_recompute_modules; i++)
    modules |= 1u << f->recompute_modules[i];
  modules &= recompute_modules_of(c->model) & 1u << MODULE_MLA_UP_PROJ;
  if (!modules || !case_has_default(c, "recompute"))
    return FALSE;
  if (c->plan.recompute != RECOMPUTE_SELECTIVE || c->plan.scope.modules)
    return FALSE;
  c->plan.scope.modules = modules;
  return TRUE;
}

/* The next module of software that keeps by name. */
static gboolean more_modules(Case *c)
{
  const Framework *f = c->framework;
  guint had = c->plan.scope.modules, has = recompute_modules_of(c->model);

  if (!c->unstated.recompute_modules || !case_has_default(c, "recompute") || c->plan.recompute != RECOMPUTE_SELECTIVE)
    return FALSE;
  for (int i = 0; i < f->n_recompute_modules && c->plan.scope.modules == had; i++)
    c->plan.scope.modules |= has & 1u << f->recompute_modules[i];
  return c->plan.scope.modules != had;
}

/* Shares of a stage's blocks, one after the other; all where the software knows no share. */
static gboolean more_blocks(Case *c)
{
  static const double shares[] = { 1.0 / 8, 1.0 / 4, 1.0 / 3, 1.0 / 2, 2.0 / 3, 3.0 / 4, 1 };
  int blocks = (c->model->blocks + plan_stages(&c->plan) - 1) / plan_stages(&c->plan);

  if (!c->blocks_open || c->plan.recompute == RECOMPUTE_NONE ||
      (c->plan.recompute == RECOMPUTE_FULL && !c->plan.scope.layers))
    return FALSE;
  for (gsize i = c->framework->recompute_alike ? G_N_ELEMENTS(shares) - 1 : 0; i < G_N_ELEMENTS(shares); i++) {
    int layers = MIN((int)(shares[i] * blocks + 0.5), SPLIT_LAYERS_MAX);
    if (layers <= c->plan.scope.layers)
      continue;
    c->plan.recompute = RECOMPUTE_FULL;
    c->plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = i + 1 < G_N_ELEMENTS(shares) ? layers : 0 };
    if (case_has_default(c, "cuda_graph") && c->plan.graph == GRAPH_PARTIAL)
      plan_set_graph(&c->plan, GRAPH_NONE);
    return TRUE;
  }
  return FALSE;
}

static gboolean smaller_micro_batch(Case *c)
{
  gboolean can = case_has_default(c, "micro_batch") && c->plan.micro_batch % 2 == 0;

  if (can)
    c->plan.micro_batch /= 2;
  return can;
}

gboolean unstated_lighten(Case *c, int steps)
{
  static gboolean (*const kinds[])(Case *) = { more_sequence, more_zero, more_shards, to_selective, to_latent,
                                               more_modules, more_blocks, smaller_micro_batch };
  gsize kind = 0;

  while (steps > 0 && kind < G_N_ELEMENTS(kinds))
    if (kinds[kind](c))
      steps--;
    else
      kind++;
  return steps == 0;
}
