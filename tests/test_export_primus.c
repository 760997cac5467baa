/* Primus is told the flags of the exporter of Megatron-LM by their own names. tests/data/primus-flags.txt holds how the
 * Megatron-LM that it pins parses each of them: tests/interop/of_primus.py prints it. */
#include "export/target.h"
#include "test_export.h"

#define FLAGS "tests/data/primus-flags.txt"

/* Flags of launchers, of newer cores for a whole step recorded and for YaRN, which are lost, and of scripts that Primus has
 * not. */
static const char *const elsewhere[] = {
  "--exclusive", "--gpus-per-node", "--kill-on-bad-exit", "--nnodes", "--nodes", "--nproc-per-node",
  "--ntasks-per-node", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--standalone",
  "--moe-expert-rank-capacity-factor", "--moe-paged-stash", "--use-transformer-engine-op-fuser",
  "--yarn-original-max-position-embeddings", "--yarn-beta-fast", "--yarn-beta-slow",
  "--no-yarn-correction-range-round-to-int", "--bert-no-binary-head", "--data-path", NULL,
};

static char *text_of(const char *file)
{
  g_autofree char *path = files_data_path(file);
  char *text = NULL;

  ck_assert_msg(g_file_get_contents(path, &text, NULL, NULL), "no %s", path);
  return text;
}

/* Its flag, key and kind. */
static GHashTable *recorded(void)
{
  g_autofree char *text = text_of(FLAGS);
  g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
  GHashTable *flags = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_strfreev);

  for (int i = 0; lines[i]; i++) {
    char **row = g_strsplit(lines[i], " ", -1);
    ck_assert_int_eq((int)g_strv_length(row), 3);
    g_hash_table_insert(flags, row[0], row);
  }
  return flags;
}

START_TEST(every_flag_is_recorded)
{
  static const char *const sources[] = { "src/export/megatron.c", "src/export/megatron_model.c",
                                         "src/export/recompute.c" };
  g_autoptr(GHashTable) flags = recorded();
  g_autoptr(GRegex) regex = g_regex_new("--[a-z][a-z0-9-]*", 0, 0, NULL);
  int found = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(sources); i++) {
    g_autofree char *text = text_of(sources[i]);
    g_autoptr(GMatchInfo) match = NULL;
    for (g_regex_match(regex, text, 0, &match); g_match_info_matches(match); g_match_info_next(match, NULL), found++) {
      g_autofree char *flag = g_match_info_fetch(match, 0);
      ck_assert_msg(g_hash_table_contains(flags, flag) || g_strv_contains(elsewhere, flag) ||
                    g_str_has_prefix(flag, "--megatron-fsdp-") || /* of a later Core than its own */
                    g_str_equal(flag, "--cuda-graph-modules"), "%s: not in " FLAGS ": make interop RECORD=1", flag);
    }
  }
  ck_assert_int_gt(found, 150);
}
END_TEST

static void spelled(const char *flag, const char *value, const char *expected)
{
  char *values[] = { (char *)value, NULL };
  g_autofree char *line = primus_override(flag, values, value ? 1 : 0);

  test_text(g_steal_pointer(&line), expected);
}

START_TEST(every_flag_is_spelled)
{
  static const struct {
    const char *kind, *value, *after;
  } kinds[] = { { "true", NULL, "true" }, { "false", NULL, "false" }, { "value", "7", "7" }, { "list", "7", "[7]" },
                { "tuple_type", "127,0", "[127, 0]" }, { "moe_freq_type", "([1]*2+[0]*1)*2", "[1,1,0,1,1,0]" } };
  g_autoptr(GHashTable) flags = recorded();
  GHashTableIter iter;
  gpointer flag, row;

  ck_assert_uint_gt(g_hash_table_size(flags), 130);
  for (g_hash_table_iter_init(&iter, flags); g_hash_table_iter_next(&iter, &flag, &row);) {
    gsize i = 0;
    g_autofree char *expected = NULL;
    if (g_strv_contains(elsewhere, flag))
      continue;
    while (i < G_N_ELEMENTS(kinds) && !g_str_equal(kinds[i].kind, ((char **)row)[2]))
      i++;
    ck_assert_msg(i < G_N_ELEMENTS(kinds), "%s: %s", (char *)flag, ((char **)row)[2]);
    expected = g_strdup_printf("%s: %s", ((char **)row)[1], kinds[i].after);
    spelled(flag, kinds[i].value, expected);
  }
}
END_TEST

/* As YAML 1.1 reads them. */
START_TEST(values_keep_their_kinds)
{
  char *modules[] = { "attn", "moe_router", NULL };
  g_autofree char *scope = primus_override("--cuda-graph-modules", modules, 2);

  ck_assert_str_eq(scope, "cuda_graph_scope: [\"attn\", \"moe_router\"]");
  spelled("--norm-epsilon", "1e-05", "layernorm_epsilon: 1.0e-05");
  spelled("--norm-epsilon", "1.5e-05", "layernorm_epsilon: 1.5e-05");
  spelled("--lr", "6.0e-5", "lr: 6.0e-5");
  spelled("--hidden-dropout", "0", "hidden_dropout: 0");
  spelled("--position-embedding-type", "none", "position_embedding_type: \"none\"");
  spelled("--pipeline-model-parallel-layout", "Et*3|t*4L", "pipeline_model_parallel_layout: \"Et*3|t*4L\"");
  spelled("--attention-backend", "flash", "attention_backend: \"fused\"");
  spelled("--attention-backend", "unfused", "attention_backend: \"unfused\"");
}
END_TEST

/* Where a flag is left out, the presets of Primus would say something else than Megatron-LM. */
START_TEST(defaults_are_told)
{
  Case c = gpt3();
  has(&c, "primus", "      sequence_parallel: true\n");
  has(&c, "primus", "      add_bias_linear: true\n");
  has(&c, "primus", "      add_position_embedding: true\n");
  has(&c, "primus", "      swiglu: false\n");
  has(&c, "primus", "      untie_embeddings_and_output_weights: false\n");
  has(&c, "primus", "      lr_warmup_iters: 0\n");
  has_not(&c, "primus", "num_layers: null");
  c.plan.sequence_parallel = FALSE;
  c.plan.zero = 0;
  c.plan.precision = DTYPE_FP16;
  has(&c, "primus", "      sequence_parallel: false\n");
  has(&c, "primus", "      use_distributed_optimizer: false\n");
  has(&c, "primus", "      bf16: false\n");
  has(&c, "primus", "      fp16: true\n");
  case_clear(&c);
}
END_TEST

/* Primus has schedules of its own, which are not written; others it lacks. */
START_TEST(schedules_of_its_own)
{
  Case c = llama_70b();
  c.plan.pp = 4;
  c.plan.dp = c.plan.gpus / (c.plan.tp * c.plan.pp * c.plan.cp);
  plan_set_schedule(&c.plan, schedule_find("zb-v"), 2);
  test_text(lost(&c, "primus"), "pipeline_schedule: zb-v: not written for Primus v26.5.1, written as 1f1b\n"
                                "virtual_pipeline_model_parallel_size: 2: goes with zb-v, written as 1\n");
  plan_set_schedule(&c.plan, schedule_find("zb-h2"), 1);
  test_text(lost(&c, "primus"), "pipeline_schedule: zb-h2: not in Primus v26.5.1, written as 1f1b\n");
  case_clear(&c);
}
END_TEST

START_TEST(older_core)
{
  Case c = llama_70b();
  test_text(lost(&c, "primus"), "");
  c.framework.graphs = 1u << GRAPH_NONE | 1u << GRAPH_PARTIAL | 1u << GRAPH_FULL;
  c.plan.framework = &c.framework;
  c.plan.graph = GRAPH_PARTIAL;
  test_text(lost(&c, "primus"), "");
  has(&c, "primus", "      cuda_graph_impl: \"transformer_engine\"\n      cuda_graph_scope: [\"attn\"]\n");
  c.plan.graph = GRAPH_FULL;
  test_text(lost(&c, "primus"),
            "cuda_graph: full: its Megatron-LM does not see a whole step in words of a file, left out\n");
  has_not(&c, "primus", "cuda_graph_impl");
  c.plan.graph = GRAPH_NONE;
  c.plan.optimizer.name = OPTIMIZER_MUON;
  test_text(lost(&c, "primus"), "");
  has(&c, "primus", "      optimizer: \"dist_muon\"\n");
  has(&c, "primus", "      overlap_grad_reduce: true\n");
  c.plan.zero = 0;
  test_text(lost(&c, "primus"), "overlap: gradients: true: its muon overlaps nothing without ZeRO, written as false\n");
  has_not(&c, "primus", "overlap_grad_reduce");
  case_clear(&c);
}
END_TEST

START_TEST(models)
{
  Case bert = case_new("bert-large", "dgx", 8), hybrid = case_new("nemotron-h-8b", "dgx-h100", 8),
       windows = case_new("gpt-oss-20b", "dgx-h100", 8);

  cannot(&bert, "primus", "primus: model bert-large: expected a decoder, which is what Primus v26.5.1 trains");
  has(&hybrid, "primus", "      model_type: mamba\n      spec: [\"megatron.core.models.mamba.mamba_layer_specs\", "
                         "\"mamba_stack_spec\"]\n");
  has(&hybrid, "primus", "      num_layers: null\n");
  has(&windows, "primus", "      model_type: gpt\n      num_layers: 24\n");
  has(&windows, "primus", "      window_size: [127, 0]\n      window_attn_skip_freq: [1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,"
                          "1,0,1,0,1,0,1,0]\n");
  windows.framework.experts = EXPERTS_FOLDED;
  windows.framework.dispatch = 1u << DISPATCH_FLEX;
  windows.plan.framework = &windows.framework;
  windows.plan.ep = 8;
  windows.plan.dispatch = DISPATCH_FLEX;
  has(&windows, "primus", "# - moe_token_dispatcher_type: flex: Megatron-LM's, which needs deep_ep; Primus-Turbo's is "
                          "use_turbo_deepep\n");
  has(&windows, "primus", "      moe_token_dispatcher_type: \"flex\"\n");
  case_clear(&bert);
  case_clear(&hybrid);
  case_clear(&windows);
}
END_TEST

START_TEST(launches)
{
  Case c = llama_70b();
  g_autofree char *many = launch_line(exporter_find("primus"), c.model, c.cluster, &c.plan, "a b.yaml");
  ck_assert_str_eq(many, "GPUS_PER_NODE=8 ./primus-cli slurm srun -N 32 -- train pretrain --config 'a b.yaml'");
  case_clear(&c);
  c = case_new("llama-3.2-1b", "dgx-h100", 4);
  g_autofree char *one = launch_line(exporter_find("primus"), c.model, c.cluster, &c.plan, NULL);
  ck_assert_str_eq(one, "GPUS_PER_NODE=4 ./primus-cli direct -- train pretrain --config primus.yaml");
  has(&c, "primus", "# - Start it in a checkout of Primus: GPUS_PER_NODE=4 ./primus-cli direct -- train pretrain "
                    "--config FILE\n");
  case_clear(&c);
}
END_TEST

/* Its launcher sets one connection, with which no exchange runs beside a pass, but for Megatron-FSDP. */
START_TEST(connections)
{
  Case c = case_new("mixtral-8x7b", "dgx-h100", 16);
  g_autoptr(Framework) own = framework_load("megatron-core-2026", NULL);

  c.plan.framework = own;
  c.plan.dp = 16;
  c.plan.ep = 8;
  c.plan.zero = 1;
  has_not(&c, "primus", "MAX_CONNECTIONS");
  c.plan.overlap.exchange = TRUE;
  has(&c, "primus", "GPUS_PER_NODE=8 ./primus-cli slurm srun -N 2 -- container --env CUDA_DEVICE_MAX_CONNECTIONS=32 -- train "
                    "pretrain --config FILE\n");
  case_clear(&c);
  c = case_new("mixtral-8x7b", "dgx-h100", 8);
  c.plan.framework = own;
  c.plan.ep = c.plan.dp = 8;
  c.plan.zero = 1;
  c.plan.overlap.exchange = TRUE;
  has(&c, "primus", "./primus-cli direct --env CUDA_DEVICE_MAX_CONNECTIONS=32 -- train pretrain --config FILE\n");
  c.plan.zero = 2;
  has_not(&c, "primus", "MAX_CONNECTIONS");
  case_clear(&c);
}
END_TEST

TEST_MAIN("export primus", every_flag_is_recorded, every_flag_is_spelled, values_keep_their_kinds, defaults_are_told,
          schedules_of_its_own, older_core, models, launches, connections)
