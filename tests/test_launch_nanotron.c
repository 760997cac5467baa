/* nanotron's YAML. */
#include "main.h"

#include "import/launch.h"
#include "model/model.h"

#include <string.h>

/* nanotron's modes: what it refuses is said, and overlaps only divided rows. */
START_TEST(nanotron_modes)
{
  static const struct {
    const char *mode, *async;
    gboolean rows, said;
  } cases[] = { { "REDUCE_SCATTER", "true", TRUE, FALSE }, { "REDUCE_SCATTER", "false", TRUE, FALSE },
                { "ALL_REDUCE", "true", FALSE, TRUE }, { "ALL_REDUCE", "false", FALSE, FALSE } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf(
        "model:\n  model_config:\n    is_llama_config: true\n    hidden_size: 64\n    num_hidden_layers: 2\n"
        "    num_attention_heads: 4\n    intermediate_size: 128\n    vocab_size: 128\nparallelism:\n  dp: 1\n  tp: 2\n"
        "  pp: 1\n  tp_mode: %s\n  tp_linear_async_communication: %s\ntokens:\n  sequence_length: 64\n",
        cases[i].mode, cases[i].async);
    g_autofree char *tensor = g_strdup_printf("\"tensor\": %s", cases[i].async);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.yaml", &(LaunchOptions) { 0 }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_int_eq(strstr(l->plan, tensor) != NULL, cases[i].rows);
    ck_assert_int_eq(strstr(l->plan, "\"sequence_parallel\": true") != NULL, cases[i].rows);
    ck_assert_uint_eq(l->assumed->len, cases[i].said);
    if (cases[i].said)
      ck_assert(g_str_has_prefix(l->assumed->pdata[0], "parallelism.tp_linear_async_communication: true: nanotron "
                                 "refuses it"));
  }
}
END_TEST

/* A window is the model's, of Qwen alone, and layers without rotation have none. */
START_TEST(nanotron_windows)
{
  static const struct {
    const char *keys, *kind, *says, *not;
  } cases[] = {
    { "    sliding_window_size: 32\n", "qwen2", "\"window\": 32", "sliding_window_pattern" },
    { "    sliding_window_size: 32\n    no_rope_layer: 4\n", "qwen2", "\"sliding_window_pattern\": 4", NULL },
    { "    sliding_window_size: null\n    no_rope_layer: 4\n", "qwen2", "\"heads\": 4", "window" },
    { "    no_rope_layer: 4\n", "qwen2", "\"heads\": 4", "window" },
    { "    sliding_window_size: 32\n", "llama", "\"heads\": 4", "window" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf(
        "model:\n  model_config:\n    is_%s_config: true\n    hidden_size: 64\n    num_hidden_layers: 4\n"
        "    num_attention_heads: 4\n    intermediate_size: 128\n    vocab_size: 128\n%sparallelism:\n  dp: 1\n  tp: 1\n"
        "  pp: 1\ntokens:\n  sequence_length: 64\n", cases[i].kind, cases[i].keys);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.yaml", &(LaunchOptions) { 0 }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(l->model, cases[i].says) && !(cases[i].not && strstr(l->model, cases[i].not)), "%s", l->model);
    ck_assert_int_eq(l->not_simulated->len > 0, g_str_equal(cases[i].kind, "llama"));
    g_autoptr(Model) model = model_parse(l->model, strlen(l->model), "x.yaml", &error);
    ck_assert_msg(model != NULL, "%s", error ? error->message : "");
  }
}
END_TEST

TEST_MAIN("launch-nanotron", nanotron_modes, nanotron_windows)
