/* Megatron-LM's arguments of recorded kernels. */
#include "import/megatron_launch.h"

#include "plan/recorded.h"

#include <string.h>

/* What layers have. */
static guint modules_of(Reading *r)
{
  const char *pattern = pattern_text(r);
  gboolean experts = *pattern ? strchr(pattern, 'E') != NULL : reading_int(r, "num_experts", 0) > 1;
  gboolean dense = *pattern ? strchr(pattern, '-') != NULL : !experts;
  guint modules = !*pattern || strchr(pattern, '*') ? 1u << RECORDED_ATTN : 0;

  modules |= strchr(pattern, 'M') ? 1u << RECORDED_MAMBA : 0;
  modules |= dense ? 1u << RECORDED_MLP : 0;
  return modules | (experts ? 1u << RECORDED_MOE | 1u << RECORDED_MOE_ROUTER | 1u << RECORDED_MOE_PREPROCESS : 0);
}

/* Of whole layers, where no module is named. Those of experts have such graphs where these are padded alone. */
static guint whole_layers(Reading *r)
{
  gboolean padded = reading_flag(r, "moe_pad_expert_input_to_capacity");

  return modules_of(r) & (1u << RECORDED_ATTN | 1u << RECORDED_MAMBA | 1u << RECORDED_MLP | (guint)padded << RECORDED_MOE);
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

/* Core 0.16 and 0.17 call modules the scope, which takes a whole step, too. The core's own graphs are of the same modules
 * as Transformer Engine's. */
void megatron_graph_put(Reading *r, JsonWriter *w)
{
  const char *kind = reading_text(r, "cuda_graph_impl"), *older = reading_text(r, "cuda_graph_scope");
  const char *newer = reading_text(r, "cuda_graph_modules");
  g_auto(GStrv) names = g_strsplit_set(*newer ? newer : older, " []',", -1);
  guint modules;

  if (g_str_equal(kind, "full_iteration") || g_strv_contains((const char *const *)names, "full_iteration")) {
    json_put_string(w, "cuda_graph", "full");
    return;
  }
  if (!g_str_equal(kind, "transformer_engine") && !g_str_equal(kind, "local"))
    return;
  json_put_string(w, "cuda_graph", "partial");
  modules = named_modules(r, names);
  modules = modules ? modules : whole_layers(r);
  if (!modules || modules == (modules_of(r) & RECORDED_USUAL))
    return;
  json_open_line(w, "cuda_graph_modules", '[');
  for (int i = 0; recorded_module_names[i]; i++)
    if (modules >> i & 1)
      json_put_string(w, NULL, recorded_module_names[i]);
  json_close_line(w, ']');
}
