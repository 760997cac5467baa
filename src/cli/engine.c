#include "cli/engine.h"

#include "base/error.h"
#include "cli/cli.h"
#include "hardware/operations.h"
#include "report/ranks.h"
#include "sim/ranks.h"

#define DRAWS_MAX 1000000

void engine_options_clear(EngineOptions *o)
{
  g_free(o->ranks);
  g_free(o->operations);
  g_strfreev(o->stragglers);
}

/* What goes with draws, and what they go with. */
static gboolean check_draws(const EngineOptions *o, GError **error)
{
  if (o->operations && o->draws == 0)
    return input_error(error, "--operations: expected --draws with it");
  if (o->draws > DRAWS_MAX)
    return input_error(error, "--draws: %d: expected at most %d", o->draws, DRAWS_MAX);
  if (o->draws > 0 && o->contention)
    return input_error(error, "--contention: expected no --draws with it");
  if (o->draws > 0 && o->receive_buffers > 0)
    return input_error(error, "--receive-buffers: expected no --draws with it");
  return TRUE;
}

gboolean engine_options_check(EngineOptions *o, GError **error)
{
  if (!cli_check_count("--receive-buffers", &o->receive_buffers, error) ||
      !cli_check_count("--draws", &o->draws, error))
    return FALSE;
  if (o->ranks && !g_str_equal(o->ranks, "all"))
    return input_error(error, "--ranks: \"%s\": expected all", o->ranks);
  if (o->stragglers && !o->ranks && o->draws == 0)
    return input_error(error, "--straggler: expected --ranks all or --draws with it");
  if (o->ranks && o->contention)
    return input_error(error, "--contention: expected no --ranks all with it");
  if (o->ranks && o->receive_buffers > 0)
    return input_error(error, "--receive-buffers: expected no --ranks all with it");
  return check_draws(o, error);
}

/* Reads "RANK=FACTOR". */
static gboolean parse_straggler(const char *text, int ranks, Straggler *out, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(text, "=", 2);
  gint64 rank;
  char *end = NULL;

  if (parts[0] && parts[1] && g_ascii_string_to_signed(parts[0], 10, 0, ranks - 1, &rank, NULL)) {
    double factor = g_ascii_strtod(parts[1], &end);
    if (end != parts[1] && *end == '\0' && factor > 0 && factor <= 1e6) {
      *out = (Straggler) { rank, factor };
      return TRUE;
    }
  }
  return input_error(error,
                     "--straggler: \"%s\": expected RANK=FACTOR, a rank from 0 to %d and a factor above 0, as in 3=1.2",
                     text, ranks - 1);
}

static GArray *parse_stragglers(const EngineOptions *o, int ranks, GError **error)
{
  g_autoptr(GArray) stragglers = g_array_new(FALSE, FALSE, sizeof(Straggler));

  for (char **text = o->stragglers; text && *text; text++) {
    Straggler straggler;
    if (!parse_straggler(*text, ranks, &straggler, error))
      return NULL;
    g_array_append_val(stragglers, straggler);
  }
  return g_steal_pointer(&stragglers);
}

static gboolean refuse_plan(GError **error, const char *option)
{
  return input_error(error, "%s: collectives of this plan that slow computation wait for one another across stages: "
                     "expected a plan whose gradients are not reduced beside computation", option);
}

static Trace *simulate_all(const EngineOptions *o, const Model *model, const Cluster *cluster, const Plan *plan,
                           RankRun **out, GError **error)
{
  const Layout layout = layout_of(plan);
  g_autoptr(GArray) stragglers = parse_stragglers(o, layout.mesh.ranks, error);
  g_autoptr(PriceTable) prices = stragglers ? price_table_described(model, &layout, cluster) : NULL;
  g_autoptr(Program) program = stragglers ? program_new(model, &layout, cluster, prices) : NULL;
  g_autoptr(RankRun) run = NULL;

  if (!stragglers)
    return NULL;
  run = simulate_ranks(program, &layout, cluster, (const Straggler *)stragglers->data, stragglers->len);
  if (!run) {
    refuse_plan(error, "--ranks all");
    return NULL;
  }
  Trace *trace = g_steal_pointer(&run->trace);
  *out = g_steal_pointer(&run);
  return trace;
}

void engine_write_ranks(const EngineOptions *o, const RankRun *run, const Layout *layout, JsonWriter *w)
{
  g_autoptr(GArray) stragglers = parse_stragglers(o, layout->mesh.ranks, NULL);

  report_ranks_write(run, layout, (const Straggler *)stragglers->data, (int)stragglers->len, w);
}

Trace *engine_simulate(const EngineOptions *o, const Model *model, const Cluster *cluster, const Plan *plan,
                       RankRun **run, GError **error)
{
  SimOptions options = { .share_links = o->contention, .receive_buffers = o->receive_buffers };

  *run = NULL;
  if (cluster->n_types > 0 && (o->ranks || o->contention || o->draws > 0)) {
    input_error(error, "%s: expected a cluster of alike nodes, %s has %d types",
                o->ranks ? "--ranks" : o->contention ? "--contention" : "--draws", cluster->name, cluster->n_types);
    return NULL;
  }
  if (o->ranks)
    return simulate_all(o, model, cluster, plan, run, error);
  return simulate_plan_with(model, cluster, plan, &options, error);
}

gboolean engine_draw(const EngineOptions *o, const Model *model, const Cluster *cluster, const Plan *plan, Draws *draws,
                     GError **error)
{
  Operations operations;

  *draws = (Draws) { 0 };
  if (o->draws == 0)
    return TRUE;
  const Layout layout = layout_of(plan);
  g_autoptr(GArray) stragglers = parse_stragglers(o, layout.mesh.ranks, error);
  if (!stragglers || !operations_load(o->operations ? o->operations : OPERATIONS_USUAL, &operations, error))
    return FALSE;
  const Jitter jitter = { .pass = operations.pass_spread, .link = operations.link_spread };
  g_autofree double *seconds = simulate_plan_draws(model, cluster, plan, &jitter, (const Straggler *)stragglers->data,
                                                   stragglers->len, o->draws);
  if (!seconds)
    return refuse_plan(error, "--draws");
  *draws = draws_of(seconds, o->draws);
  return TRUE;
}
