#include "model/family_rows.h"

#include <string.h>

static const FamilyRows *const tables[] = {&family_decoders, &family_attentions, &family_hybrids, &family_reusing,
                                           &family_encoders};

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

#define TOWERS "parts for images or sound that a decoder of text lacks"
#define TWO_CONFIGS "an encoder and a decoder with configurations of their own"
#define INKLING "inputs chosen of earlier blocks' outputs (n_layers_per_attn_res_block), which have no cost here"

/* Families of another kind, and what they have that is not simulated, with its key where there is one. */
static const struct {
  const char *model_type, *reason;
} others[] = {
  {"deepseek_v4", "compressed attention (compress_rates), which has no cost here"},
  {"inkling2_text", INKLING}, {"inkling2_loop_text", INKLING},
  {"blt", "patches of bytes (patcher_config), which have no cost here"},
  {"prophetnet", "streams of tokens to come (ngram), which have no cost here"},
  {"t5gemma2", TWO_CONFIGS},
  {"xlnet", "two streams of attention with positions of their own (attn_type), which have no cost here"},
  {"trocr", "attention to an encoder of images (cross_attention_hidden_size), which has no cost here"},
  {"whisper", TOWERS}, {"wav2vec2", TOWERS}, {"hubert", TOWERS}, {"clip", TOWERS}, {"siglip", TOWERS},
  {"mllama", TOWERS}, {"blip-2", TOWERS}, {"idefics", TOWERS}, {"git", TOWERS}, {"moshi", TOWERS},
  {"seamless_m4t", TOWERS}, {"seamless_m4t_v2", TOWERS},
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

char **model_kinds(void)
{
  GPtrArray *names = g_ptr_array_new();
  const Family *family;

  for (gsize i = 0; (family = family_at(i)); i++)
    g_ptr_array_add(names, g_strdup(family->model_type));
  g_ptr_array_add(names, NULL);
  return (char **)g_ptr_array_free(names, FALSE);
}
