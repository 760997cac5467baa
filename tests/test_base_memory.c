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

TEST_MAIN("memory", freed_memory_is_kept)
