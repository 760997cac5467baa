/* A trace of the user's own run, as torch.profiler (Kineto) writes it: times by
 * kernel, each with what it is, of one step where the trace marks steps: then of kernels within these. */
#include "import/import.h"
#include "import/kernel_times.h"
#include "kineto/read.h"

typedef struct {
  KernelTimes *kernels;
  ImportNotes *notes;
} Found;

static void add_kernel(gpointer data, const char *name, double seconds)
{
  kernel_times_add(((Found *)data)->kernels, name, seconds, 1);
}

static void add_strange(gpointer data, const char *what)
{
  import_strange(((Found *)data)->notes, what);
}

static char *read_trace(const char *text, ImportNotes *notes, GError **error)
{
  g_autoptr(KernelTimes) kernels = kernel_times_new();
  Found found = { kernels, notes };
  KinetoSteps steps;

  if (!kineto_read(text, notes->file, &(KinetoReader) { add_kernel, add_strange, &found }, &steps, error))
    return NULL;
  if (kernel_times_size(kernels) == 0)
    return import_error(notes, error, "no kernel of a device: expected events with \"cat\": \"kernel\"");
  return kernel_times_text(kernels, &(KernelSteps) { steps.n, steps.seconds, steps.outside, steps.outside_s, steps.busy_s });
}

const Importer import_kineto = { "Kineto trace", kineto_recognises, read_trace };
