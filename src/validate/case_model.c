#include "validate/case_model.h"

#include "base/files.h"
#include "base/json.h"

#include <string.h>

const char *case_mlp(const Csv *csv, int row)
{
  const char *mlp = csv_cell(csv, row, "mlp");
  return *mlp ? mlp : "gelu";
}

const char *case_model_file(const Csv *csv, int row)
{
  const char *file = cells_optional(csv, row, "model_file");
  const CaseFamily *family = case_family(csv_cell(csv, row, "model"), case_mlp(csv, row));

  return *file ? file : family->file ? family->file : "";
}

static Model *model_of_columns(const Csv *csv, int row, const CaseFamily *family, const CaseNumbers *n, GError **error)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", csv_cell(csv, row, "id"));
  json_put_int(&w, "layers", n->layers);
  json_put_int(&w, "hidden", n->hidden);
  json_put_int(&w, "heads", n->heads);
  if (n->kv_heads >= 0)
    json_put_int(&w, "kv_heads", n->kv_heads);
  if (n->ffn_hidden >= 0)
    json_put_int(&w, "ffn_hidden", n->ffn_hidden);
  json_put_int(&w, "vocab", n->vocab);
  json_put_int(&w, "seq", n->seq);
  json_put_string(&w, "mlp", case_mlp(csv, row));
  json_put_string(&w, "norm", family->norm);
  json_put_string(&w, "positions", family->positions);
  json_put_bool(&w, "bias", family->bias);
  json_put_bool(&w, "tied_embeddings", family->tied);
  json_close(&w, '}');
  return model_parse(text->str, text->len, csv->name, error);
}

/* What a row says of the model in its file; keys that the file lacks (a Hugging Face one) stay as they are. */
static Model *model_cut(const char *text, gsize length, const char *path, const CaseNumbers *n, GError **error)
{
  const struct {
    const char *key;
    int value;
  } cells[] = { { "layers", n->layers }, { "vocab", n->vocab } };
  g_autoptr(JsonDoc) doc = json_parse(text, length, path, error);

  if (!doc)
    return NULL;
  cJSON *object = cJSON_Duplicate(json_root(doc), TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS(cells); i++) {
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, cells[i].key);
    if (item && cells[i].value > 0)
      cJSON_SetNumberValue(item, cells[i].value);
  }
  char *cut = cJSON_PrintUnformatted(object);
  Model *model = model_parse(cut, strlen(cut), path, error);
  cJSON_free(cut);
  cJSON_Delete(object);
  return model;
}

static Model *model_of_file(const Csv *csv, int row, const char *name, const CaseNumbers *n, GError **error)
{
  gsize length;
  g_autofree char *path = files_find(name, "models", error), *text = path ? files_read(path, &length, error) : NULL;
  gboolean named = *cells_optional(csv, row, "model_file") != '\0';
  g_autoptr(Model) model = !text ? NULL : named ? model_load(path, error) : model_cut(text, length, path, n, error);

  if (!model || n->layers < 0 || n->layers == model->blocks)
    return g_steal_pointer(&model);
  g_autofree char *expected = g_strdup_printf("%d, as model %s has, or nothing", model->blocks, name);
  csv_refuse(csv, row, "layers", expected, error);
  return NULL;
}

Model *case_model(const Csv *csv, int row, const CaseFamily *family, gboolean mtp, const CaseNumbers *n, GError **error)
{
  const char *file = case_model_file(csv, row);

  if (mtp && family->mtp_file && file == family->file)
    file = family->mtp_file;
  return *file ? model_of_file(csv, row, file, n, error) : model_of_columns(csv, row, family, n, error);
}
