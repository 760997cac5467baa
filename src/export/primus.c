/* Primus: an experiment of its Megatron backend, whose overrides are arguments of Megatron-LM by their own names. They
 * reach it as YAML has them, never parsed; what its Megatron-LM (core 0.16, third_party at d3528a2) does not know is
 * left out without a word (MegatronArgBuilder). */
#include "export/target.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

typedef enum { VALUE, OFF, LIST, PATTERN } Spelling;

/* Flags that are not "--key VALUE", "--key" (true) or "--no-key" (false). */
static const struct {
  const char *flag, *key;
  Spelling spelling;
} spellings[] = {
  { "--cp-comm-type", "cp_comm_type", LIST }, { "--cuda-graph-modules", "cuda_graph_scope", LIST },
  { "--disable-bias-linear", "add_bias_linear", OFF }, { "--fp4-format", "fp4", VALUE },
  { "--fp4-param-gather", "fp4_param", VALUE },
  { "--fp8-format", "fp8", VALUE },
  { "--hierarchical-context-parallel-sizes", "hierarchical_context_parallel_sizes", LIST },
  { "--microbatch-group-size-per-virtual-pipeline-stage", "microbatch_group_size_per_vp_stage", VALUE },
  { "--linear-attention-freq", "linear_attention_freq", PATTERN },
  { "--moe-layer-freq", "moe_layer_freq", PATTERN }, { "--no-overlap-p2p-communication", "overlap_p2p_comm", OFF },
  { "--no-rope-fusion", "apply_rope_fusion", OFF }, { "--norm-epsilon", "layernorm_epsilon", VALUE },
  { "--recompute-modules", "recompute_modules", LIST }, { "--spec", "spec", LIST },
  { "--window-attn-skip-freq", "window_attn_skip_freq", PATTERN }, { "--window-size", "window_size", LIST },
};

/* Words of core 0.20 and what they are here: core 0.16 has models of a pattern of layers elsewhere, and Transformer
 * Engine on AMD GPUs kernels like FlashAttention as its fused attention. */
static const char *const words[][2] = {
  { "megatron.core.models.hybrid.hybrid_layer_specs", "megatron.core.models.mamba.mamba_layer_specs" },
  { "hybrid_stack_spec", "mamba_stack_spec" }, { "flash", "fused" },
};

/* Megatron-LM's defaults where pre_trainer.yaml and language_model.yaml have others. */
static const char *const defaults[][2] = {
  { "add_bias_linear", "true" }, { "add_position_embedding", "true" }, { "bf16", "false" },
  { "cuda_graph_scope", "[]" }, { "fp8_amax_compute_algo", "most_recent" }, { "fp8_amax_history_len", "1" },
  { "lr_warmup_iters", "0" }, { "num_layers", "null" }, { "sequence_parallel", "false" },
  { "suggested_communication_unit_size", "null" }, { "swiglu", "false" },
  { "untie_embeddings_and_output_weights", "false" }, { "use_distributed_optimizer", "false" },
};

/* YAML 1.1 takes "1e-05" for a word. */
static void put_value(GString *text, const char *value)
{
  const char *exponent = strchr(value, 'e');

  for (gsize i = 0; i < G_N_ELEMENTS(words); i++)
    if (g_str_equal(value, words[i][0]))
      value = words[i][1];
  if (!g_ascii_isdigit(value[0]))
    export_quoted(text, value);
  else if (exponent && !strchr(value, '.'))
    g_string_append_printf(text, "%.*s.0%s", (int)(exponent - value), value, exponent);
  else
    g_string_append(text, value);
}

static void put_list(GString *text, char **values, int n)
{
  g_string_append_c(text, '[');
  for (int i = 0; i < n; i++) {
    g_auto(GStrv) parts = g_strsplit(values[i], ",", -1);
    for (int k = 0; parts[k]; k++) {
      g_string_append(text, i + k ? ", " : "");
      put_value(text, parts[k]);
    }
  }
  g_string_append_c(text, ']');
}

/* What "([1]*2+[0]*1)*8" is in Python. */
static void put_pattern(GString *text, const char *pattern)
{
  int rounds = atoi(strrchr(pattern, '*') + 1);

  for (int i = 0; i < rounds; i++)
    for (const char *run = strchr(pattern, '['); run; run = strchr(run + 1, '['))
      for (int left = atoi(strchr(run, '*') + 1); left > 0; left--)
        g_string_append_printf(text, "%c%c", text->str[text->len - 1] == ' ' ? '[' : ',', run[1]);
  g_string_append_c(text, ']');
}

char *primus_override(const char *flag, char **values, int n)
{
  Spelling spelling = n == 0 && g_str_has_prefix(flag, "--no-") ? OFF : VALUE;
  GString *text = g_string_new(flag + strlen(spelling == OFF ? "--no-" : "--"));

  g_string_replace(text, "-", "_", 0);
  for (gsize i = 0; i < G_N_ELEMENTS(spellings); i++)
    if (g_str_equal(flag, spellings[i].flag)) {
      g_string_assign(text, spellings[i].key);
      spelling = spellings[i].spelling;
    }
  g_string_append(text, ": ");
  if (n == 0)
    g_string_append(text, export_truth(spelling != OFF));
  else if (spelling == LIST)
    put_list(text, values, n);
  else
    (spelling == PATTERN ? put_pattern : put_value)(text, values[0]);
  return g_string_free(text, FALSE);
}

static gboolean is_flag(const char *word)
{
  return g_str_has_prefix(word, "--") && g_ascii_islower(word[2]);
}

static void put_overrides(const char *flags, GString *text)
{
  g_auto(GStrv) told = NULL;
  int n = 0;
  gboolean split = g_shell_parse_argv(flags, &n, &told, NULL);

  g_assert(split);
  for (int i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && !is_flag(told[end]);)
      end++;
    g_autofree char *line = primus_override(told[i], told + i + 1, end - i - 1);
    g_string_append_printf(text, "      %s\n", line);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(defaults); i++) {
    g_autofree char *start = g_strdup_printf("\n      %s: ", defaults[i][0]);
    if (!strstr(text->str, start))
      g_string_append_printf(text, "%s%s\n", start + 1, defaults[i][1]);
  }
}

/* Primus sets 1 where nothing is set (runner/helpers/envs/base_env.sh) and 8 for FSDP (patches/env_patches.py); into its
 * containers it hands only variables that it knows (runner/primus-cli-container.sh), and those of --env. */
static void launch(Export *e, const char *file, GString *line)
{
  g_autofree char *mode = e->nodes > 1 ? g_strdup_printf("slurm srun -N %d", e->nodes) : g_strdup("direct");
  gboolean own = e->layout.passes.overlap_exchange && megatron_connections(e);

  export_words(line, "GPUS_PER_NODE=%d ./primus-cli %s", e->node_gpus, mode);
  if (own)
    export_words(line, "%s--env %s", e->nodes > 1 ? "-- container " : "", megatron_connections(e));
  export_words(line, "-- train pretrain --config ");
  export_shell(line, file);
}

/* What core 0.16 cannot do, or cannot be told as YAML. */
static void take_older_core(Export *e)
{
  const StateLayout *s = &e->layout.states[0];

  if (e->layout.passes.graph == GRAPH_FULL)
    export_take_less(e, plan_without(e->plan, WITHOUT_GRAPH),
                     "its Megatron-LM does not see a whole step in words of a file");
  if (s->gathers_narrow && s->formats.products == PRODUCTS_FP4)
    export_take_less(e, plan_without(e->plan, WITHOUT_NARROW_GATHERS),
                     "its distributed optimizer writes no weights in 4 bits");
  if (s->optimizer.name == OPTIMIZER_MUON && s->zero == 0 && s->overlap_gradients)
    export_take_less(e, plan_without(e->plan, WITHOUT_EARLY_GRADIENTS), "its muon overlaps nothing without ZeRO");
}

static void add_notes(Export *e)
{
  const PassLayout *p = &e->layout.passes;
  g_autoptr(GString) line = g_string_new(NULL);

  launch(e, "FILE", line);
  export_note(e, "Start it in a checkout of Primus: %s", line->str);
  if (p->experts_apart && dispatch_by_kernels(p->dispatch))
    export_note(e, "moe_token_dispatcher_type: %s: Megatron-LM's, which needs deep_ep; Primus-Turbo's is "
                   "use_turbo_deepep", expert_dispatch_names[p->dispatch]);
  if (p->formats.products == PRODUCTS_FP4)
    export_note(e, "precision: fp4: written as nvfp4, of NVIDIA's GPUs; AMD's have fp4_recipe mxfp4");
}

static gboolean render(Export *e, GString *text, GError **error)
{
  g_autoptr(GString) flags = g_string_new(NULL);
  g_autofree char *name = g_strcanon(g_strdup(e->model->name), G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS ".-", '_');

  take_older_core(e);
  const MegatronTrainer *trainer = megatron_flags(e, flags, flags, flags, error);
  if (!trainer)
    return FALSE;
  if (trainer->data)
    return infeasible_error(error, "primus: model %s: expected a decoder, which is what %s trains", e->model->name,
                            e->exporter->target);
  add_notes(e);
  g_string_append_printf(text, "work_group: tdp\nuser_name: tdp\nexp_name: \"%s\"\nworkspace: ./output\n\n", name);
  g_string_append_printf(text, "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
                               "    model: language_model.yaml\n    overrides:\n      model_type: %s\n",
                         megatron_hybrid(e->model) ? "mamba" : "gpt");
  put_overrides(flags->str, text);
  return TRUE;
}

/* Those of modules/megatron/primus_pipeline.yaml, under patch_primus_pipeline. */
static const char *const pipelines[] = { "zb-h1", "zb-v", "v-half", "v-min", NULL };

const Exporter exporter_primus = {
  .name = "primus",
  .target = "Primus v26.5.1",
  .extension = "yaml",
  .comments = TRUE,
  .unwritten = pipelines,
  .framework = "megatron-core",
  .render = render,
  .launch = launch,
};
