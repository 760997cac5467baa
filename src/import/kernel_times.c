/* Kernels of a trace by name. */
#include "import/kernel_times.h"

#include "base/table.h"
#include "base/units.h"

#include <string.h>

#define NAME_SHOWN 60
#define KERNELS_SHOWN 40

typedef struct {
  char *name;
  const char *kind;
  double count, seconds;
} Kernel;

struct KernelTimes {
  GHashTable *by_name;
  GPtrArray *kernels; /* Kernel, owned */
};

/* What a kernel's name says; the first that it holds counts. */
static const struct {
  const char *part, *kind;
} kinds[] = {
  { "nccl", "communication" }, { "flash", "attention" },   { "fmha", "attention" },       { "attention", "attention" },
  { "gemm", "product" },       { "cutlass", "product" },   { "cublas", "product" },       { "nvjet", "product" },
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
  times->kernels = g_ptr_array_new_with_free_func(kernel_free);
  return times;
}

void kernel_times_free(KernelTimes *times)
{
  if (!times)
    return;
  g_hash_table_unref(times->by_name);
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

static int longer(gconstpointer a, gconstpointer b)
{
  const Kernel *x = *(Kernel *const *)a, *y = *(Kernel *const *)b;
  return x->seconds == y->seconds ? strcmp(x->name, y->name) : x->seconds < y->seconds ? 1 : -1;
}

static void add_row(Table *table, const Kernel *k, int steps, double all)
{
  g_autofree char *each = format_seconds(k->seconds / k->count), *step = format_seconds(k->seconds / steps);
  g_autofree char *cut = g_utf8_substring(k->name, 0, MIN(g_utf8_strlen(k->name, -1), NAME_SHOWN));

  table_add(table, "%s", cut);
  table_add(table, "%s", k->kind);
  table_add(table, "%.4g", k->count / steps);
  table_add(table, "%s", each);
  table_add(table, "%s", step);
  table_add(table, "%.1f %%", all > 0 ? 100 * k->seconds / all : 0);
}

char *kernel_times_text(KernelTimes *times, int marked, double step_s)
{
  g_autoptr(Table) table = table_new("<kernel|<kind|a step|each|in a step|share");
  int steps = MAX(marked, 1);
  double all = 0;

  g_ptr_array_sort(times->kernels, longer);
  for (guint i = 0; i < times->kernels->len; i++)
    all += ((Kernel *)g_ptr_array_index(times->kernels, i))->seconds;
  for (guint i = 0; i < MIN(times->kernels->len, KERNELS_SHOWN); i++)
    add_row(table, g_ptr_array_index(times->kernels, i), steps, all);
  g_autofree char *rows = table_text(table, 0), *busy = format_seconds(all / steps);
  g_autofree char *step = marked ? format_seconds(step_s / marked) : g_strdup("not marked");
  return g_strdup_printf("steps   %d\nstep    %s\nkernels %s a step, %u different\n\n%s", marked, step, busy,
                         times->kernels->len, rows);
}
