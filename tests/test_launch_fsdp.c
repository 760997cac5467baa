/* Plans of FSDP that a search proposes: exported, and read again. */
#include "main.h"

#include "export/export.h"
#include "import/launch.h"
#include "plan/excludes.h"
#include "plan/nearest.h"
#include "planned.h"
#include "search/space.h"

#include <string.h>

static const struct {
  const char *framework, *exporter;
  int each; /* one plan of so many goes round */
} tools[] = {
  { "torchtitan", "torchtitan", 200 },        { "torchtitan-2025-11", "torchtitan", 200 },
  { "automodel-2026-01", "torchtitan", 200 }, { "torchtitan-2024-compile", "torchtitan", 200 },
  { "kempnerforge-2026", "torchtitan", 40 },  { "fsdp", "accelerate", 10 }, /* micro-batches, rows: most loses something */
};

/* What comes of the plans that a space has of one tool. */
typedef struct {
  const Planned *in;
  const char *exporter;
  int each;
  GRand *rand;
  int read, kept, lost;
} Round;

static void differ(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  (void)reason;
  g_string_append_printf(data, " %s: %s -> %s", key, before ? before : "-", after ? after : "-");
}

/* Whether a file says of the plan all that its tool is told of it: else what it was written as is read. */
static gboolean says_all(const Plan *plan, const GPtrArray *losses)
{
  gboolean all = TRUE;

  for (guint i = 0; i < losses->len; i++)
    all &= g_str_has_prefix(losses->pdata[i], "framework: ");
  return all && (!g_str_equal(plan->framework->name, "fsdp") || (plan->pp == 1 && plan->zero == 3));
}

/* accelerate's programs, not its files, say what a micro-batch is. */
static void take_passes(Plan *read, const Plan *plan)
{
  if (g_str_equal(plan->framework->name, "fsdp"))
    read->micro_batch = plan->micro_batch;
}

static void go_round(Round *r, const Plan *plan)
{
  const LaunchOptions options = { .gpus = plan->gpus, .framework = plan->framework->name, .seq = plan->seq,
                                  .batch = plan->global_batch };
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GError) error = NULL;
  g_autoptr(Framework) framework = NULL;
  g_autoptr(GString) differences = g_string_new(NULL);
  g_autofree char *label = plan_label(plan);
  Plan read;

  g_autofree char *text = export_plan(exporter_find(r->exporter), r->in->model, r->in->cluster, plan, losses, &error);
  ck_assert_msg(text != NULL, "%s", error ? error->message : "");
  g_autoptr(Launch) l = launch_read(text, "x", &options, &error);
  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  ck_assert_msg(plan_parse(l->plan, strlen(l->plan), "x", r->in->model, &read, &framework, &error), "%s: %s", label,
                error ? error->message : "");
  r->read++;
  r->lost += !says_all(plan, losses);
  r->kept += plan->sharding.keeps_gathered;
  take_passes(&read, plan);
  plan_compare(plan, &read, NULL, &(PlanListener) { differ, differences });
  if (says_all(plan, losses))
    ck_assert_msg(differences->len == 0, "%s of %s:%s", label, plan->framework->name, differences->str);
}

static gboolean visit(gpointer data, const SpaceLeaf *leaf)
{
  Round *r = data;

  if (leaf->plan->zero == 2 && plan_has_replicas(leaf->plan))
    ck_abort_msg("%s has a plan of ZeRO-2", leaf->plan->framework->name);
  if (g_rand_int_range(r->rand, 0, r->each) == 0)
    go_round(r, leaf->plan);
  return TRUE;
}

static void pass_over(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

/* What a search proposes is read again as the plan that it was, with the gathered weights that it keeps. */
START_TEST(proposals_go_round)
{
  Planned p;

  planned_init(&p, fixture_known_model("llama-3.1-8b"), fixture_cluster("dgx-h100", 32), tools[_i].framework);
  g_autoptr(PriceCache) prices = price_cache_new(p.model, p.cluster);
  Round r = { &p, tools[_i].exporter, tools[_i].each, g_rand_new_with_seed(_i), 0, 0, 0 };
  const SpaceVisitor visitor = { visit, TRUE, pass_over, &r };
  p.plan.gpus = 32;
  p.plan.global_batch = 64;
  const SearchOptions options = { .base = &p.plan, .fixed = fixed_none(), .space = SPACE_OFFLOAD };
  space_walk(p.model, p.cluster, &options, prices, &visitor);
  ck_assert_int_gt(r.kept, 10);
  ck_assert_int_gt(r.read - r.lost, 10);
  g_rand_free(r.rand);
  planned_clear(&p);
}
END_TEST

TEST_LOOPS("launch fsdp", { proposals_go_round, G_N_ELEMENTS(tools) })
