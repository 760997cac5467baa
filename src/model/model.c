#include "model/recipe.h"

static Model *model_read(const JsonDoc *doc, GError **error)
{
  const cJSON *root = json_root(doc);
  gboolean theirs = json_get(root, "model_type") || json_get(root, "architectures");
  Model *model = theirs ? huggingface_read(doc, error) : native_read(doc, error);
  g_autoptr(GChecksum) digest = g_checksum_new(G_CHECKSUM_SHA256);
  json_digest(doc, digest);
  if (model)
    json_digest_text(digest, model->digest);
  return model;
}

Model *model_load(const char *path, GError **error)
{
  g_autofree char *file = g_file_test(path, G_FILE_TEST_IS_DIR)
                            ? g_build_filename(path, "config.json", NULL)
                            : g_strdup(path);
  g_autoptr(JsonDoc) doc = json_load(file, error);
  return doc ? model_read(doc, error) : NULL;
}

Model *model_parse(const char *text, gsize length, const char *name, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, length, name, error);
  return doc ? model_read(doc, error) : NULL;
}

void model_free(Model *m)
{
  if (!m)
    return;
  sparse_free(m->sparse);
  g_free(m->name);
  g_free(m->family);
  g_free(m->specs);
  g_free(m->layers);
  g_free(m);
}
