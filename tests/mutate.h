/*
 * Structured changes of files, drawn from a seed: what a slip of the pen, a tool of another version or a broken disk
 * makes of JSON, of CSV and of other text. Each says which key it hit and whether a reader may still take the file.
 */
#ifndef TDP_TESTS_MUTATE_H
#define TDP_TESTS_MUTATE_H

#include <glib.h>

typedef enum {
  FORMAT_JSON,    /* of ours: unknown keys are refused */
  FORMAT_FOREIGN, /* JSON of others: keys that are not known are passed over */
  FORMAT_CSV,
  FORMAT_CELLS, /* CSV whose cells have no title */
  FORMAT_TEXT,
} MutateFormat;

typedef struct {
  GString *text;
  char *key;          /* the key or column that was hit, or the object's that it was in; NULL = none, or bytes that are
                       * no file of the format, whose place is told as LINE:COLUMN */
  char *misspelt;     /* what stands in the key's place, or NULL */
  const char *change; /* for people */
  gboolean refused;   /* no reader may take it */
} Mutation;

/* A change of `text`, which is a file of the format. */
void mutate(Mutation *out, const char *text, gsize length, MutateFormat format, GRand *rand);
void mutation_clear(Mutation *mutation);

#endif
