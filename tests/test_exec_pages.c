/* Pages in which what a rank holds on cores lies. */
#include "exec/cpu/cpu.h"
#include "fixture.h"
#include "main.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

/* Whether the kernel was asked for large pages where an address is: the flag hg of its mapping. */
static gboolean large_pages_at(const void *p)
{
  g_autofree char *maps = NULL;
  gboolean inside = FALSE, asked = FALSE;

  ck_assert(g_file_get_contents("/proc/self/smaps", &maps, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(maps, "\n", -1);
  for (char **line = lines; *line; line++) {
    guintptr first, end;
    if (sscanf(*line, "%" G_GINTPTR_MODIFIER "x-%" G_GINTPTR_MODIFIER "x ", &first, &end) == 2)
      inside = (guintptr)p >= first && (guintptr)p < end;
    else if (inside && g_str_has_prefix(*line, "VmFlags:"))
      asked = strstr(*line, " hg") != NULL;
  }
  return asked;
}

/* From the first byte to the last, whatever lies between. */
START_TEST(large_blocks_ask_for_large_pages)
{
  enum { LARGE = 9 << 20 };
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *stream = b->stream_new(b, TRUE);
  char *large = b->alloc(b, stream, LARGE);

  if (g_file_test("/sys/kernel/mm/transparent_hugepage", G_FILE_TEST_EXISTS)) {
    ck_assert(large_pages_at(large));
    ck_assert(large_pages_at(large + LARGE - 1));
  }
  b->dealloc(b, stream, large, LARGE);
  b->stream_free(b, stream);
  b->free(b);
}
END_TEST

/* Activations are smaller than a large page: the heap that holds them is asked for as it grows, and not once only. */
START_TEST(the_heap_of_small_blocks_asks_for_large_pages)
{
  enum { BLOCKS = 1024, SMALL = 100 << 10, TAKEN = 8 }; /* more than the heap grows by at once */
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *stream = b->stream_new(b, TRUE);
  void *blocks[BLOCKS];

  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = b->alloc(b, stream, SMALL);
#ifndef __SANITIZE_ADDRESS__ /* whose allocator has no heap */
  if (g_file_test("/sys/kernel/mm/transparent_hugepage", G_FILE_TEST_EXISTS))
    for (int i = BLOCKS - 1; i >= 0; i -= BLOCKS / TAKEN)
      ck_assert_msg(large_pages_at(blocks[i]), "block %d", i);
#endif
  for (int i = 0; i < BLOCKS; i++)
    b->dealloc(b, stream, blocks[i], SMALL);
  b->stream_free(b, stream);
  b->free(b);
}
END_TEST

/* A heap that gives its end back and grows to the same place is asked for anew: the system forgot. */
START_TEST(a_heap_that_shrank_asks_for_large_pages_again)
{
  /* the heap grows by 64 MiB more than is asked for: with a block free at its end it is above TRIM */
  enum { LARGE = 80 << 20, TRIM = 128 << 20, TURNS = 16 };
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *stream = b->stream_new(b, TRUE);
  gboolean there = g_file_test("/sys/kernel/mm/transparent_hugepage", G_FILE_TEST_EXISTS), in_heap = FALSE;
  int regrown = 0;
  char *last = NULL;

  mallopt(M_TRIM_THRESHOLD, TRIM);
  for (int turn = 0; turn < TURNS; turn++) {
    char *low = sbrk(0), *large = b->alloc(b, stream, LARGE), *end = sbrk(0);
    if (there)
      ck_assert_msg(large_pages_at(large + LARGE - 1), "turn %d", turn);
    in_heap = large < end;
    regrown += low < end && end == last;
    last = end;
    b->dealloc(b, stream, large, LARGE);
  }
  ck_assert(!in_heap || regrown > 0);
  b->stream_free(b, stream);
  b->free(b);
}
END_TEST

TEST_MAIN("exec: pages", large_blocks_ask_for_large_pages, the_heap_of_small_blocks_asks_for_large_pages,
          a_heap_that_shrank_asks_for_large_pages_again)
