/* Megatron-LM's arguments of recorded kernels. */
#include "import/megatron_launch.h"

#include "model/model.h"
#include "plan/recorded.h"

#include <string.h>

/* Core 0.19 still takes the switches of before. */
const char *megatron_graph_kind(Reading *r)
{
  gboolean local = reading_flag(r, "enable_cuda_graph"), external = reading_flag(r, "external_cuda_graph");
  const char *kind = reading_text(r, "cuda_graph_impl");

  if (external || local)
    return external ? "transformer_engine" : "local";
  return g_str_equal(kind, "none") ? "" : kind;
}

/* What layers of the model have that was read; all where none was, as one that is told beside the file says what it
 * has. */
static guint modules_of(Reading *r)
{
  const char *text = r->to.out->model;
  g_autoptr(Model) model = text ? model_parse(text, strlen(text), r->to.file, NULL) : NULL;

  return model ? recorded_modules_of(model) : text ? 0 : G_MAXUINT;
}

/* Of whole layers, where no module is named. Those of experts have such graphs where these are padded alone. */
static guint whole_layers(Reading *r)
{
  gboolean padded = reading_flag(r, "moe_pad_expert_input_to_capacity");

  return 1u << RECORDED_ATTN | 1u << RECORDED_MAMBA | 1u << RECORDED_MLP | (guint)padded << RECORDED_MOE;
}

/* A list of Python's or of a command line; 0 where it names none. */
static guint named_modules(Reading *r, char **names)
{
  guint modules = 0;

  for (int i = 0; names[i]; i++) {
    int module = names_find(recorded_module_names, names[i]);
    if (module >= 0)
      modules |= 1u << module;
    else if (*names[i] && !g_str_equal(names[i], "full"))
      launch_fail(&r->to, "cuda_graph_modules: %s: expected modules of layers", names[i]);
  }
  return modules;
}

/* The core's own graphs take routers with what lays tokens out (transformer_config.py), and stay where experts are made
 * again with their router, which no plan has. */
static guint as_local(Reading *r, guint modules)
{
  g_auto(GStrv) again = g_strsplit_set(reading_text(r, "recompute_modules"), " []',", -1);
  guint routers = modules & RECORDED_ROUTERS ? RECORDED_ROUTERS : 0;
  gboolean remade = g_str_equal(reading_text(r, "recompute_granularity"), "selective") &&
                    g_strv_contains((const char *const *)again, "moe");

  if (routers && remade)
    launch_assume(&r->to, "cuda_graph_modules: moe_router: simulated as left out, experts are made again with it");
  else if (routers)
    launch_assume(&r->to, "cuda_graph_impl: local: simulated as transformer_engine with moe_router and moe_preprocess: it "
                  "records what follows experts, too");
  return remade ? modules & ~routers : modules | routers;
}

/* Core 0.16 and 0.17 call modules the scope, which takes a whole step, too. Modules that no layer has record nothing. */
void megatron_graph_put(Reading *r, JsonWriter *w)
{
  const char *kind = megatron_graph_kind(r), *older = reading_text(r, "cuda_graph_scope");
  const char *newer = reading_text(r, "cuda_graph_modules");
  g_auto(GStrv) names = g_strsplit_set(*newer ? newer : older, " []',", -1);
  gboolean local = g_str_equal(kind, "local"), layers = local || g_str_equal(kind, "transformer_engine");
  guint named, modules, all;

  if (g_str_equal(kind, "full_iteration") || (layers && g_strv_contains((const char *const *)names, "full_iteration"))) {
    json_put_string(w, "cuda_graph", "full");
    return;
  }
  if (!layers)
    return;
  all = modules_of(r);
  named = named_modules(r, names);
  modules = (named ? local ? as_local(r, named) : named : whole_layers(r)) & all;
  if (!modules) {
    launch_assume(&r->to, "cuda_graph: none: no layer has a module that is recorded");
    return;
  }
  json_put_string(w, "cuda_graph", "partial");
  if (modules != (all & RECORDED_USUAL))
    json_put_set(w, "cuda_graph_modules", recorded_module_names, modules);
}
