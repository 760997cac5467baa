/* Speed of this host's memory, by copying blocks larger than its caches. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/sort.h"
#include "base/units.h"
#include "calibrate/calibrate.h"

#define COPY_BYTES_MIN (256 * MIB)
#define COPY_BYTES_MAX (1024 * MIB)
#define CACHES 4           /* a block is so many times the last cache */
#define FREE_MEMORY_PART 8 /* and at most such a part of free memory */

#define CLOCK_READS 100000
#define CLOCK_REPEATS 9

static double now_s(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double calibrate_timer_s(void)
{
  double times[CLOCK_REPEATS];
  for (int i = 0; i < CLOCK_REPEATS; i++) {
    double start = now_s();
    for (int j = 0; j < CLOCK_READS; j++)
      now_s();
    times[i] = (now_s() - start) / (CLOCK_READS + 1);
  }
  return sort_median(times, CLOCK_REPEATS);
}

gsize calibrate_copy_bytes(void)
{
  double cache = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
  double memory = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  double bytes = CLAMP(CACHES * cache, COPY_BYTES_MIN, COPY_BYTES_MAX);
  return (gsize)MAX(MIN(bytes, memory / FREE_MEMORY_PART), MIB);
}

/* ---- copies ---- */

/* A thread's part of the copies. It makes its own blocks, so that their pages lie near it. */
typedef struct {
  gsize bytes;
  int copies;
  pthread_barrier_t *barrier;
  double *start_s, *end_s; /* of each copy */
  CalibrateProgress progress; /* NULL for all threads but one */
  gpointer data;
} Part;

static void copy_block(char *to, const char *from, gsize bytes)
{
  memcpy(to, from, bytes);
  __asm__ volatile("" : : "r"(to) : "memory"); /* the copy is not to be left out */
}

/* Not of the heap, which may keep what is freed: its pages, touched here, would stay small for whoever comes next. */
static char *map_block(gsize bytes)
{
  void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (block == MAP_FAILED)
    g_error("%" G_GSIZE_FORMAT " bytes to copy: out of memory", bytes);
  return block;
}

static gpointer run_part(gpointer data)
{
  const Part *part = data;
  char *from = map_block(part->bytes), *to = map_block(part->bytes);
  memset(from, 1, part->bytes);
  memset(to, 2, part->bytes);
  for (int i = 0; i < part->copies; i++) {
    pthread_barrier_wait(part->barrier);
    part->start_s[i] = now_s();
    copy_block(to, from, part->bytes);
    part->end_s[i] = now_s();
    if (part->progress && i > 0)
      part->progress(i, part->copies - 1, part->data);
  }
  munmap(from, part->bytes);
  munmap(to, part->bytes);
  return NULL;
}

/* From the first thread's start to the last one's end. */
static double copy_s(const Part *parts, int threads, int copy)
{
  double start = parts[0].start_s[copy], end = parts[0].end_s[copy];
  for (int i = 1; i < threads; i++) {
    start = MIN(start, parts[i].start_s[copy]);
    end = MAX(end, parts[i].end_s[copy]);
  }
  return end - start;
}

static void run_parts(Part *parts, int threads)
{
  GThread **workers = g_new(GThread *, (gsize)threads);
  for (int i = 1; i < threads; i++)
    workers[i] = g_thread_new("copy", run_part, &parts[i]);
  run_part(&parts[0]);
  for (int i = 1; i < threads; i++)
    g_thread_join(workers[i]);
  g_free(workers);
}

/* The first copy warms up and is not counted. */
HostCopy calibrate_host_copy(gsize copy_bytes, int threads, int repeats, CalibrateProgress progress, gpointer data)
{
  g_assert(threads > 0 && repeats > 0 && copy_bytes >= (gsize)threads);
  gsize copies = (gsize)repeats + 1;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (guint)threads);
  Part *parts = g_new(Part, (gsize)threads);
  double *times = g_new(double, 2 * copies * (gsize)threads), *took = g_new(double, (gsize)repeats);
  for (gsize i = 0; i < (gsize)threads; i++)
    parts[i] = (Part){.bytes = copy_bytes / (gsize)threads, .copies = (int)copies, .barrier = &barrier,
                      .start_s = times + 2 * i * copies, .end_s = times + (2 * i + 1) * copies};
  parts[0].progress = progress;
  parts[0].data = data;
  run_parts(parts, threads);
  for (int i = 0; i < repeats; i++)
    took[i] = copy_s(parts, threads, i + 1);
  double bytes = (double)parts[0].bytes * threads;
  HostCopy copy = {threads, bytes, repeats, 2 * bytes / sort_median(took, repeats)};
  g_free(took);
  g_free(times);
  g_free(parts);
  pthread_barrier_destroy(&barrier);
  return copy;
}

char *host_copy_json(const HostCopy *copy, const char *date)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;
  g_autofree char *size = format_bytes(copy->copy_bytes);
  g_autofree char *source =
    g_strdup_printf("measured: copy of %s by %d thread%s, read and write together, median of %d, on %s", size,
                    copy->threads, copy->threads > 1 ? "s" : "", copy->repeats, date);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_real(&w, "host_memory_gb_per_s", round_digits(copy->bytes_per_s / 1e9));
  json_put_string(&w, "source", source);
  json_close(&w, '}');
  return g_string_free(text, FALSE);
}
