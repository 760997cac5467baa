/* What the test files of model/ share. */
#ifndef TDP_TESTS_TEST_MODEL_H
#define TDP_TESTS_TEST_MODEL_H

#include "base/error.h"
#include "base/files.h"
#include "main.h"
#include "model/model.h"

/* The model of a text that must be accepted. */
static inline Model *parsed(const char *text)
{
  GError *error = NULL;
  Model *m = model_parse(text, strlen(text), "f", &error);
  ck_assert_msg(m != NULL, "%s", error ? error->message : "");
  return m;
}

/* The model of a file below the data directory. */
static inline Model *loaded(const char *folder, const char *name)
{
  g_autofree char *below = g_strdup_printf("%s/%s.json", folder, name);
  g_autofree char *path = files_data_path(below);
  GError *error = NULL;
  Model *m = model_load(path, &error);
  ck_assert_msg(m != NULL, "%s", error ? error->message : "");
  return m;
}

static inline void refused(const char *text, const char *message)
{
  GError *error = NULL;
  ck_assert_msg(model_parse(text, strlen(text), "f", &error) == NULL, "accepted %s", text);
  test_error(&error, TDP_ERROR_INPUT, message);
}

/* The spec of transformer block i of the only stack. */
static inline const LayerSpec *block(const Model *m, int i)
{
  return model_layer(m, i + 1);
}

#endif
