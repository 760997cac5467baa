/* Bounds of the search against simulations, for models of every kind that files of Hugging Face may name. */
#include "main.h"
#include "search_instance.h"

#include "base/files.h"
#include "model/model.h"

#include <string.h>

/* The next line of tests/data/hf/kinds.txt whose kind has not come yet, as its JSON; NULL at the end. */
static const char *next_kind(char **lines, int *at, GHashTable *seen)
{
  while (lines[*at]) {
    const char *json = strchr(lines[(*at)++], '{'), *kind = json ? strstr(json, "\"model_type\": \"") : NULL;
    if (!kind)
      continue;
    kind += strlen("\"model_type\": \"");
    if (g_hash_table_add(seen, g_strndup(kind, strcspn(kind, "\""))))
      return json;
  }
  return NULL;
}

/* A sixteenth of the kinds each time, on two devices. */
START_TEST(bounds_hold_for_every_kind)
{
  g_autofree char *path = files_data_path("tests/data/hf/kinds.txt"), *text = NULL;
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  GRand *rand = test_rand(7100 + _i);
  int at = 0, checked = 0;

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (int kind = 0;; kind++) {
    const char *json = next_kind(lines, &at, seen);
    Instance in;
    if (!json)
      break;
    if (kind % 16 != _i)
      continue;
    instance_framework_init(&in, rand, _i % 2 ? "torchtitan" : "megatron-core-2026");
    model_free(in.model);
    in.model = model_parse(json, strlen(json), "kind", NULL);
    ck_assert_ptr_nonnull(in.model);
    cluster_free(in.cluster);
    in.cluster = fixture_cluster("dgx", 2);
    in.base = plan_default(in.model, in.framework);
    in.base.gpus = 2;
    in.base.global_batch = 2;
    in.base.seq = MIN(in.base.seq, 64);
    g_autoptr(GArray) all = instance_plans_within(&in, INSTANCE_SMALL);
    if (all) {
      instance_check_all(&in, all);
      checked += all->len > 0;
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(checked, 0);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("search kinds", { bounds_hold_for_every_kind, 16, .drawn = TRUE })
