#include "model/family_rows.h"

#include <string.h>

static const FamilyRows *const tables[] = {&family_decoders, &family_hybrids, &family_encoders};

/* The families of all tables, one after the other; NULL behind the last one. */
static const Family *family_at(gsize i)
{
  for (gsize table = 0; table < G_N_ELEMENTS(tables); i -= tables[table++]->n)
    if (i < tables[table]->n)
      return &tables[table]->rows[i];
  return NULL;
}

const Family *family_find(const char *model_type)
{
  const Family *family;

  for (gsize i = 0; (family = family_at(i)); i++)
    if (strcmp(family->model_type, model_type) == 0)
      return family;
  return NULL;
}

#define SHARED "blocks that several layers share, which have no cost here"
#define RECURRENT "recurrent layers, which have no cost here"
#define LAYER_EMBEDDINGS "embeddings for each layer, which have no cost here"
#define TOWERS "parts for images or sound that a decoder of text lacks"

/* Families of another kind, and what they have that is not simulated. */
static const struct {
  const char *model_type, *reason;
} others[] = {
  {"zamba", SHARED}, {"zamba2", SHARED},
  {"xlstm", RECURRENT}, {"recurrent_gemma", RECURRENT}, {"rwkv", RECURRENT},
  {"longcat_flash", "two attentions in a layer and experts that do nothing, which have no cost here"},
  {"deepseek_v4", "compressed attention, which has no cost here"},
  {"gemma3n", LAYER_EMBEDDINGS},
  {"gemma3n_text", LAYER_EMBEDDINGS},
  {"whisper", TOWERS}, {"wav2vec2", TOWERS}, {"hubert", TOWERS}, {"clip", TOWERS}, {"siglip", TOWERS},
  {"mllama", TOWERS}, {"blip-2", TOWERS}, {"idefics", TOWERS},
};

const char *family_reason(const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
    if (strcmp(others[i].model_type, model_type) == 0)
      return others[i].reason;
  return NULL;
}

const char *family_near(const char *model_type)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  const Family *family;

  for (gsize i = 0; (family = family_at(i)); i++)
    g_ptr_array_add(names, (char *)family->model_type);
  g_ptr_array_add(names, NULL);
  const char *nearest = names_nearest((const char *const *)names->pdata, model_type);
  return names_near(nearest, model_type) ? nearest : NULL;
}

char *family_list(void)
{
  GString *text = g_string_new(NULL);
  const Family *family;

  for (gsize i = 0; (family = family_at(i)); i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", family->model_type);
  return g_string_free(text, FALSE);
}
