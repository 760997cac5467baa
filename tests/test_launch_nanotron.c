/* nanotron's YAML. */
#include "main.h"

#include "import/launch.h"

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

TEST_MAIN("launch-nanotron", nanotron_modes)
