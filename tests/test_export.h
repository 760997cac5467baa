/* Plans to export, shared by the tests of export. */
#ifndef TDP_TESTS_TEST_EXPORT_H
#define TDP_TESTS_TEST_EXPORT_H

#include "main.h"

#include <glib/gstdio.h>
#include <stdio.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "export/export.h"
#include "plan/keys.h"
#include "plan/plan.h"

/* Plans do not come from files here, and frameworks change: its own one. */
static const Framework framework = {
  .name = "test",
  .engine = "megatron",
  .zero_max = 3,
  .zero_max_pipeline = 3,
  .tp_pp_dp = TRUE,
  .splits = SPLITS_ANY,
  .optimizers = (1u << OPTIMIZER_COUNT) - 1,
  .state_formats = (1u << STATE_COUNT) - 1,
  .fp8 = FP8_DELAYED,
  .fp8_recipes = (1u << FP8_COUNT) - 1,
  .param_gathers = (1u << FP8_COUNT) - 1,
  .fp8_primary = TRUE,
  .choices = 1u << CHOICE_WIDE_START | 1u << CHOICE_WIDE_END,
  .fused_softmax = TRUE,
  .fused_activation = TRUE,
  .fused_dropout_add = TRUE,
  .fused_rope = TRUE,
  .fused_permutation = TRUE,
  .scatter_gather = TRUE,
  .overlap_gradients = TRUE,
  .overlap_parameters = TRUE,
  .overlap_pipeline = TRUE,
  .overlap_tensor = TRUE,
  .attention = ATTENTION_FLASH,
  .gradient_bytes = 4,
  .reduce_bytes = 4,
  .vocab_multiple = 128,
  .bucket_params = 40e6,
};

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework framework;
  Plan plan;
} Case;

static inline Case case_new(const char *model, const char *cluster, int gpus)
{
  Case c = { .framework = framework };
  GError *error = NULL;
  g_autofree char *path = files_find(model, "models", &error);

  ck_assert_msg(path != NULL, "%s", error ? error->message : "");
  c.model = model_load(path, &error);
  ck_assert_msg(c.model != NULL, "%s", error ? error->message : "");
  c.cluster = cluster_load(cluster, &error);
  ck_assert_msg(c.cluster != NULL, "%s", error ? error->message : "");
  ck_assert(cluster_resize(c.cluster, gpus, NULL));
  c.plan = plan_default(c.model, &framework);
  c.plan.gpus = c.plan.dp = gpus;
  c.plan.global_batch = MAX(c.plan.global_batch, gpus);
  return c;
}

static inline void case_clear(Case *c)
{
  model_free(c->model);
  cluster_free(c->cluster);
}

static inline Case gpt3(void)
{
  Case c = case_new("gpt3", "dgx", 1024);
  Plan *p = &c.plan;

  p->tp = p->pp = 8;
  p->dp = 16;
  p->vpp = 2;
  p->sequence_parallel = TRUE;
  p->zero = 1;
  p->recompute = RECOMPUTE_SELECTIVE;
  p->schedule = schedule_find("interleaved");
  return c;
}

static inline Case llama_70b(void)
{
  Case c = case_new("llama-3.1-70b", "dgx-h100", 256);
  Plan *p = &c.plan;

  p->tp = 8;
  p->pp = 4;
  p->dp = 8;
  p->global_batch = 512;
  p->sequence_parallel = TRUE;
  p->zero = 1;
  return c;
}

static inline Case llama_8b_sharded(void)
{
  Case c = case_new("llama-3.1-8b", "dgx-h100", 64);

  c.plan.zero = 3;
  c.plan.global_batch = 128;
  c.plan.recompute = RECOMPUTE_FULL;
  return c;
}

static inline char *exported(const Case *c, const char *tool, GPtrArray *losses)
{
  GError *error = NULL;
  char *text = export_plan(exporter_find(tool), c->model, c->cluster, &c->plan, losses, &error);
  ck_assert_msg(text != NULL, "%s", error ? error->message : "");
  return text;
}

/* The losses, one a line. */
static inline char *lost(const Case *c, const char *tool)
{
  GPtrArray *losses = g_ptr_array_new_with_free_func(g_free);
  g_free(exported(c, tool, losses));
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < losses->len; i++)
    g_string_append_printf(text, "%s\n", (const char *)losses->pdata[i]);
  g_ptr_array_unref(losses);
  return g_string_free(text, FALSE);
}

/* TDP_GOLDEN=rewrite writes what is found; read the diff. */
static inline void golden(const char *name, char *found)
{
  g_autofree char *below = g_strdup_printf("tests/golden/export/%s", name);
  g_autofree char *path = files_data_path(below);
  g_autofree char *expected = NULL;

  if (g_strcmp0(g_getenv("TDP_GOLDEN"), "rewrite") == 0)
    ck_assert(g_file_set_contents(path, found, -1, NULL));
  ck_assert_msg(g_file_get_contents(path, &expected, NULL, NULL), "no %s", path);
  test_text(found, expected);
}

static inline void golden_export(const Case *c, const char *tool, const char *name)
{
  g_autofree char *file = g_strdup_printf("%s.%s", name, exporter_find(tool)->extension);
  golden(file, exported(c, tool, NULL));
}

static inline void has(const Case *c, const char *tool, const char *part)
{
  g_autofree char *text = exported(c, tool, NULL);
  ck_assert_msg(strstr(text, part) != NULL, "no %s in %s", part, text);
}

static inline void has_not(const Case *c, const char *tool, const char *part)
{
  g_autofree char *text = exported(c, tool, NULL);
  ck_assert_msg(strstr(text, part) == NULL, "%s in %s", part, text);
}

/* This plan has no export for the tool; `message` says why. */
static inline void cannot(const Case *c, const char *tool, const char *message)
{
  GError *error = NULL;

  ck_assert_ptr_null(export_plan(exporter_find(tool), c->model, c->cluster, &c->plan, NULL, &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, message);
}

#endif
