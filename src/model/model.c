#include "base/files.h"
#include "model/recipe.h"

#include <string.h>

/* What Python's json module writes for numbers that JSON has not: length of the word at `at`, 0 if there is none. */
static gsize python_number(const char *at)
{
  static const char *const words[] = { "Infinity", "-Infinity", "NaN" };

  for (gsize i = 0; i < G_N_ELEMENTS(words); i++)
    if (g_str_has_prefix(at, words[i]))
      return strlen(words[i]);
  return 0;
}

/* The text with null for each of these outside of strings; newly allocated. */
static char *without_python_numbers(const char *text)
{
  GString *out = g_string_new(NULL);
  gboolean quoted = FALSE;

  while (*text) {
    gsize word = quoted ? 0 : python_number(text), escaped = quoted && text[0] == '\\' && text[1] ? 1 : 0;
    if (*text == '"')
      quoted = !quoted;
    if (word)
      g_string_append(out, "null");
    else
      g_string_append_len(out, text, (gssize)(1 + escaped));
    text += word ? word : 1 + escaped;
  }
  return g_string_free(out, FALSE);
}

/* Ours are JSON to the letter; a configuration of Hugging Face is what Python wrote. */
static JsonDoc *parse(const char *text, gsize length, const char *name, GError **error)
{
  gboolean theirs = strlen(text) == length && (strstr(text, "\"model_type\"") || strstr(text, "\"architectures\""));
  g_autofree char *plain = theirs ? without_python_numbers(text) : NULL;

  return json_parse(plain ? plain : text, plain ? strlen(plain) : length, name, error);
}

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
  gsize length;
  g_autofree char *text = files_read(file, &length, error);
  g_autoptr(JsonDoc) doc = text ? parse(text, length, strcmp(file, "-") == 0 ? "stdin" : file, error) : NULL;
  return doc ? model_read(doc, error) : NULL;
}

Model *model_parse(const char *text, gsize length, const char *name, GError **error)
{
  g_autofree char *ended = g_strndup(text, length);
  g_autoptr(JsonDoc) doc = parse(ended, length, name, error);
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
