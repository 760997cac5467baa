/*
 * The families of Hugging Face configs: what no file says of each, and what
 * stands for a key that is absent (the default of the configuration class).
 * Private to model/.
 *
 * To add one: a row in one of the tables that family_rows.h names; a new spelling
 * of a key: a row in huggingface.c.
 */
#ifndef TDP_MODEL_FAMILY_H
#define TDP_MODEL_FAMILY_H

#include "model/recipe.h"

typedef struct {
  const char *model_type;
  Recipe defaults;
  void (*derive)(Recipe *recipe); /* what follows from the keys read; may be NULL */
  const char *nested;             /* key of the object to read, NULL = the file's root */
} Family;

/* NULL if there is none of that model_type. */
const Family *family_find(const char *model_type);

/* Why a model_type that is known has no row, as "state-space layers, which have no cost here"; NULL if it is not. */
const char *family_reason(const char *model_type);

/* The model_type that one without a row may have meant; NULL if none is near. */
const char *family_near(const char *model_type);

#endif
