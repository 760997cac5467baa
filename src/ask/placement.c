#include "ask/placement.h"

#include "base/table.h"
#include "base/units.h"
#include "program/balance.h"
#include "sim/simulate.h"

typedef struct {
  const Result *best;
  Table *table;
} Orders;

static void add_step(const Orders *o, const char *what, const char *split, const Metrics *m)
{
  double best = o->best->metrics.iteration_s;
  g_autofree char *step = m ? format_seconds(m->iteration_s) : g_strdup("-");

  table_add(o->table, "%s", what);
  table_add(o->table, "%s", split);
  table_add(o->table, "%s", step);
  if (m)
    table_add(o->table, "%+.1f %%", 100 * (m->iteration_s / best - 1));
  else
    table_add(o->table, "-");
  table_add(o->table, "%s", !m ? "no plan" : m->peak_memory_bytes <= m->capacity_bytes ? "yes" : "no");
}

static void try_plan(const Orders *o, const Plan *plan, const char *split)
{
  const Result *r = o->best;
  g_autofree char *order = plan_types_text(plan);
  Metrics m;

  if (plan_check(plan, r->model, r->cluster, NULL) != RULE_NONE) {
    add_step(o, order, split, NULL);
    return;
  }
  g_autoptr(Trace) trace = simulate_plan(r->model, r->cluster, plan);
  trace_metrics(trace, &m);
  add_step(o, order, split, &m);
}

/* The plan with its types in this order. */
static void try_order(const Orders *o, Plan plan)
{
  const Result *r = o->best;
  const Layout given = layout_of(&plan);
  g_autoptr(PriceTable) prices = price_table_new(r->model, &given, r->cluster);

  plan.split.stages = 0;
  const Layout equal = layout_of(&plan);
  try_plan(o, &plan, "equal");
  if (balance_by_room(r->model, r->cluster, &equal, prices, &plan.split))
    try_plan(o, &plan, "balanced");
}

/* All orders of the types from the k-th on. */
static void try_orders(const Orders *o, Plan *plan, int k)
{
  int n = o->best->cluster->n_types;

  if (k == n)
    try_order(o, *plan);
  for (int i = k; i < n; i++) {
    const char *first = plan->types[k];
    plan->types[k] = plan->types[i];
    plan->types[i] = first;
    try_orders(o, plan, k + 1);
    plan->types[i] = plan->types[k];
    plan->types[k] = first;
  }
}

static void try_alone(const Orders *o, const Cluster *type, const SearchOptions *options)
{
  Plan base = *options->base;
  SearchOptions alone = *options;
  g_autofree char *what = g_strdup_printf("the best plan on the %d of %s alone", type->devices, type->name);

  base.gpus = type->devices;
  alone.base = &base;
  alone.top = 1;
  alone.brief = TRUE;
  alone.state = NULL;
  alone.watch = NULL;
  alone.audit = NULL;
  g_autoptr(SearchResult) found = search(o->best->model, type, &alone, NULL);
  add_step(o, what, "its own", found->best->len ? &g_array_index(found->best, Found, 0).metrics : NULL);
}

char *explain_placement(const Result *best, const SearchOptions *options)
{
  g_autoptr(Table) table = table_new("<stages on|<split|step|against the best|<fits");
  Orders o = { best, table };
  Plan plan = *best->plan;

  try_orders(&o, &plan, 0);
  for (int i = 0; i < best->cluster->n_types; i++)
    try_alone(&o, best->cluster->types[i], options);
  g_autofree char *rows = table_text(table, 2);
  return g_strconcat("Where stages run\n", rows, NULL);
}
