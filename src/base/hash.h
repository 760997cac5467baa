/* Hashes of keys that are compared as memory. */
#ifndef TDP_BASE_HASH_H
#define TDP_BASE_HASH_H

#include <glib.h>

#include <string.h>

static inline guint64 hash_mixed(guint64 hash, guint64 word)
{
  hash = (hash ^ word) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

/* Of so many bytes, a multiple of eight; two words are mixed side by side. Differs from one byte order to the other. */
static inline guint hash_words(gconstpointer key, gsize bytes)
{
  const gsize n = bytes / sizeof(guint64);
  const char *at = key;
  guint64 words[2] = { 0 }, even = 0, odd = 0;

  for (gsize i = 0; i + 1 < n; i += 2) {
    memcpy(words, at + i * sizeof *words, sizeof words);
    even = hash_mixed(even, words[0]);
    odd = hash_mixed(odd, words[1]);
  }
  if (n % 2) {
    memcpy(words, at + (n - 1) * sizeof *words, sizeof *words);
    even = hash_mixed(even, words[0]);
  }
  return (guint)hash_mixed(hash_mixed(even, n), odd); /* even once more: they do not stand for each other */
}

#endif
