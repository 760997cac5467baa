/* Kernels of a trace by name. */
#include "import/kernel_times.h"

#include "base/table.h"
#include "base/units.h"

#include <string.h>

#define NAME_SHOWN 60
#define KERNELS_SHOWN 40
#define OVERLAP_LEAST 1e-3 /* of their time */

typedef struct {
  char *name;
  const char *kind;
  double count, seconds;
} Kernel;

struct KernelTimes {
  GHashTable *by_name;
  GPtrArray *kernels; /* Kernel, owned */
  GHashTable *devices; /* char *, owned */
};

/* What a kernel's name says; the first that it holds counts. */
static const struct {
  const char *part, *kind;
} kinds[] = {
  { "nccl", "communication" }, { "MPI_", "communication" }, { "flash", "attention" },     { "fmha", "attention" },
  { "attention", "attention" },
  { "gemm", "product" },       { "cutlass", "product" },   { "cublas", "product" },       { "nvjet", "product" },
  { "CUDA graph", "graph" },
  { "Memcpy", "copy" },        { "Memset", "copy" },       { "multi_tensor", "optimizer" }, { "adam", "optimizer" },
  { "norm", "norm" },          { "softmax", "loss" },      { "cross_entropy", "loss" },
};

static const char *kind_of(const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (strcasestr(name, kinds[i].part))
      return kinds[i].kind;
  return "other";
}

static void kernel_free(gpointer data)
{
  Kernel *k = data;
  g_free(k->name);
  g_free(k);
}

KernelTimes *kernel_times_new(void)
{
  KernelTimes *times = g_new0(KernelTimes, 1);

  times->by_name = g_hash_table_new(g_str_hash, g_str_equal);
  times->devices = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  times->kernels = g_ptr_array_new_with_free_func(kernel_free);
  return times;
}

void kernel_times_free(KernelTimes *times)
{
  if (!times)
    return;
  g_hash_table_unref(times->by_name);
  g_hash_table_unref(times->devices);
  g_ptr_array_unref(times->kernels);
  g_free(times);
}

guint kernel_times_size(const KernelTimes *times)
{
  return times->kernels->len;
}

void kernel_times_add(KernelTimes *times, const char *name, double seconds, double count)
{
  Kernel *k = g_hash_table_lookup(times->by_name, name);

  if (!k) {
    k = g_new0(Kernel, 1);
    k->name = g_strdup(name);
    k->kind = kind_of(name);
    g_ptr_array_add(times->kernels, k);
    g_hash_table_insert(times->by_name, k->name, k);
  }
  k->count += count;
  k->seconds += seconds;
}

void kernel_times_on(KernelTimes *times, const char *device)
{
  if (!g_hash_table_contains(times->devices, device))
    g_hash_table_add(times->devices, g_strdup(device));
}

static int longer(gconstpointer a, gconstpointer b)
{
  const Kernel *x = *(Kernel *const *)a, *y = *(Kernel *const *)b;
  return x->seconds == y->seconds ? strcmp(x->name, y->name) : x->seconds < y->seconds ? 1 : -1;
}

static void add_row(Table *table, const Kernel *k, int steps, double all)
{
  g_autofree char *each = format_seconds(k->seconds / k->count), *step = format_seconds(k->seconds / steps);
  g_autofree char *cut = g_utf8_substring(k->name, 0, MIN(g_utf8_strlen(k->name, -1), NAME_SHOWN));

  table_add(table, "%s|%s|%.4g|%s|%s|%.1f %%", cut, k->kind, k->count / steps, each, step,
            all > 0 ? 100 * k->seconds / all : 0);
}

/* What the sums leave out, and what they count more than once. */
static void add_words(GString *text, const KernelTimes *times, const KernelSteps *s, double all, int steps)
{
  const char *each = s->steps ? " a step" : "";
  guint devices = g_hash_table_size(times->devices);

  if (s->busy_s > 0 && s->busy_s < all * (1 - OVERLAP_LEAST)) {
    g_autofree char *busy = format_seconds(s->busy_s / steps);
    g_string_append_printf(text, "busy    %s%s: kernels of several streams overlap, their times are added up\n", busy, each);
  }
  if (s->outside) {
    g_autofree char *outside = format_seconds(s->outside_s);
    g_string_append_printf(text, "outside %s of %d kernels in no step, left out\n", outside, s->outside);
  }
  if (devices > 1)
    g_string_append_printf(text, "devices %u, whose times are added up\n", devices);
}

char *kernel_times_text(KernelTimes *times, const KernelSteps *s)
{
  g_autoptr(Table) table = table_new(s->steps ? "<kernel|<kind|a step|each|in a step|share" : "<kernel|<kind|runs|each|in all|share");
  g_autoptr(GString) text = g_string_new(NULL);
  int steps = MAX(s->steps, 1);
  double all = 0;

  g_ptr_array_sort(times->kernels, longer);
  for (guint i = 0; i < times->kernels->len; i++)
    all += ((Kernel *)g_ptr_array_index(times->kernels, i))->seconds;
  for (guint i = 0; i < MIN(times->kernels->len, KERNELS_SHOWN); i++)
    add_row(table, g_ptr_array_index(times->kernels, i), steps, all);
  g_autofree char *rows = table_text(table, 0), *sum = format_seconds(all / steps);
  g_autofree char *step = s->steps ? format_seconds(s->step_s / s->steps) : g_strdup("not marked: all of the file");
  g_string_append_printf(text, "steps   %d\nstep    %s\nkernels %s%s, %u different\n", s->steps, step, sum,
                         s->steps ? " a step" : " in all", times->kernels->len);
  add_words(text, times, s, all, steps);
  g_string_append_printf(text, "\n%s", rows);
  return g_string_free(g_steal_pointer(&text), FALSE);
}
