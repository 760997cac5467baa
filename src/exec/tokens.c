#include "exec/tokens.h"

#include "base/error.h"
#include "exec/random.h"

enum { STREAM_TOKENS = 0x746f6b, STREAM_NEXT = 0x6e6578 };
#define FOLLOWS 0.8 /* share of tokens that their predecessor decides */

static gsize file_tokens(const Tokens *t)
{
  return g_mapped_file_get_length(t->file) / 2;
}

static gint32 file_token(const Tokens *t, gsize i)
{
  const guint8 *bytes = (const guint8 *)g_mapped_file_get_contents(t->file) + 2 * i;
  return bytes[0] | bytes[1] << 8;
}

static gboolean check_file(const Tokens *t, const char *path, GError **error)
{
  if (file_tokens(t) <= (gsize)t->seq)
    return input_error(error, "%s: %" G_GSIZE_FORMAT " tokens: expected more than seq_length %d", path, file_tokens(t),
                       t->seq);
  for (gsize i = 0; i < file_tokens(t); i++)
    if (file_token(t, i) >= t->vocab)
      return input_error(error, "%s: token %" G_GSIZE_FORMAT ": %d: expected below the vocabulary of %d", path, i,
                         file_token(t, i), t->vocab);
  return TRUE;
}

gboolean tokens_init(Tokens *t, const char *path, guint64 seed, int vocab, int seq, GError **error)
{
  g_autoptr(GError) found = NULL;

  *t = (Tokens) { .seed = seed, .vocab = vocab, .seq = seq };
  if (!path)
    return TRUE;
  t->file = g_mapped_file_new(path, FALSE, &found);
  if (!t->file)
    return input_error(error, "%s: %s: expected a file of 16-bit tokens", path, found->message);
  return check_file(t, path, error);
}

void tokens_clear(Tokens *t)
{
  g_clear_pointer(&t->file, g_mapped_file_unref);
}

static void make_sequence(const Tokens *t, guint64 index, gint32 *inputs, gint32 *labels)
{
  gint32 token = random_at(t->seed, STREAM_TOKENS, index) % t->vocab;

  for (int i = 0; i < t->seq; i++) {
    guint64 bits = random_at(t->seed, STREAM_TOKENS + index + 1, i);
    inputs[i] = token;
    gboolean follows = random_unit(bits) < FOLLOWS;
    token = (follows ? random_at(t->seed, STREAM_NEXT, token) : random_mix(bits)) % t->vocab;
    labels[i] = token;
  }
}

void tokens_sequence(const Tokens *t, guint64 index, gint32 *inputs, gint32 *labels)
{
  if (!t->file) {
    make_sequence(t, index, inputs, labels);
    return;
  }
  gsize first = index % ((file_tokens(t) - 1) / t->seq) * t->seq;
  for (int i = 0; i < t->seq; i++) {
    inputs[i] = file_token(t, first + i);
    labels[i] = file_token(t, first + i + 1);
  }
}
