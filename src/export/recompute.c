/* Recomputation as Megatron Core is told it. */
#include "export/target.h"

/* Layers of each stage or of a group; stages that differ take the largest number. */
static int layers_of(Export *e)
{
  const RecomputeScope *s = &e->layout.passes.recompute.scope;
  int most = 0;

  for (int i = 0; i < s->stages.stages; i++)
    most = MAX(most, s->stages.layers[i]);
  if (s->stages.stages)
    export_lose(e, "recompute_num_layers: a number for each stage: Megatron has one for all, written as %d", most);
  return s->stages.stages ? most : MAX(1, s->layers);
}

void export_recompute_flags(Export *e, GString *flags)
{
  const RecomputeLayout *r = &e->layout.passes.recompute;
  g_autofree char *modules = names_joined(recompute_module_names, recompute_modules(&r->scope), " ");

  if (r->granularity == RECOMPUTE_SELECTIVE)
    export_words(flags, "--recompute-granularity selective --recompute-modules %s", modules);
  if (r->granularity == RECOMPUTE_FULL)
    export_words(flags, "--recompute-granularity full --recompute-method %s --recompute-num-layers %d",
                 recompute_method_names[r->scope.method], layers_of(e));
}

void export_recompute_yaml(Export *e, GString *text)
{
  const RecomputeLayout *r = &e->layout.passes.recompute;
  g_autofree char *modules = names_joined(recompute_module_names, recompute_modules(&r->scope), ", ");

  if (r->granularity == RECOMPUTE_NONE)
    g_string_append(text, "  recompute_granularity: null\n");
  if (r->granularity != RECOMPUTE_FULL) /* a recipe's own are refused beside others */
    g_string_append(text, "  recompute_method: null\n  recompute_num_layers: null\n");
  if (r->granularity == RECOMPUTE_SELECTIVE)
    g_string_append_printf(text, "  recompute_granularity: selective\n  recompute_modules: [%s]\n", modules);
  if (r->granularity == RECOMPUTE_FULL)
    g_string_append_printf(text, "  recompute_granularity: full\n  recompute_method: %s\n  recompute_num_layers: %d\n",
                           recompute_method_names[r->scope.method], layers_of(e));
}
