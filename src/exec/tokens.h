/*
 * What is trained on: sequences by their place in the run, the same whatever the
 * plan. Either made from a seed, so that each token mostly follows from the one
 * before and there is something to learn, or cut from a file of 16-bit
 * little-endian tokens, one sequence after another and from the start again.
 */
#ifndef TDP_EXEC_TOKENS_H
#define TDP_EXEC_TOKENS_H

#include <glib.h>

typedef struct {
  guint64 seed;
  int vocab, seq;
  GMappedFile *file; /* NULL = made */
} Tokens;

/* `path` may be NULL. Errors: TDP_ERROR_INPUT. */
gboolean tokens_init(Tokens *tokens, const char *path, guint64 seed, int vocab, int seq, GError **error);
void tokens_clear(Tokens *tokens);

/* Input tokens and the ones to predict of sequence `index`: seq each. */
void tokens_sequence(const Tokens *tokens, guint64 index, gint32 *inputs, gint32 *labels);

#endif
