#include "base/hash.h"
#include "base/memory.h"
#include "main.h"

#include <malloc.h>

enum { BYTES = 48 << 20 };

/* Whether the heap holds an array of BYTES that was filled and freed. */
static gboolean kept(void)
{
  char *array = g_malloc(BYTES);

  memset(array, 1, BYTES);
  g_free(array);
  return mallinfo2().arena >= BYTES;
}

/* The sanitizers' allocator keeps in ways of its own. */
START_TEST(freed_memory_is_kept)
{
  ck_assert(!kept());
  memory_keep(2 * BYTES, 0);
#ifndef __SANITIZE_ADDRESS__
  ck_assert(kept());
#endif
  memory_keep(BYTES / 2, 0);
  ck_assert(!kept());
}
END_TEST

/* Of keys of an odd and of an even number of words, each word counts, and where it stands. */
START_TEST(every_word_of_a_key_counts)
{
  enum { WORDS = 7 };

  for (gsize n = 1; n <= WORDS; n++) {
    guint64 words[WORDS] = { 0 };
    g_autoptr(GHashTable) hashes = g_hash_table_new(NULL, NULL);
    g_hash_table_add(hashes, GUINT_TO_POINTER(hash_words(words, n * sizeof *words)));
    for (gsize i = 0; i < n; i++) {
      words[i] = 1;
      g_hash_table_add(hashes, GUINT_TO_POINTER(hash_words(words, n * sizeof *words)));
      words[i] = 0;
    }
    ck_assert_uint_eq(g_hash_table_size(hashes), n + 1);
  }
}
END_TEST

TEST_MAIN("memory", freed_memory_is_kept, every_word_of_a_key_counts)
