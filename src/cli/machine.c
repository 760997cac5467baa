#include "cli/machine.h"

#include "base/error.h"
#include "calibrate/measure.h"
#include "exec/exec.h"
#include "exec/launch.h"

#include <unistd.h>

#define ROUNDS 40
#define COPIES 5

static Backend *open_backend(const char *name, const Launch *launch, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "no such backend in this program";
  BackendOptions options = { .rank = launch->rank, .size = launch->size, .local_rank = launch->local_rank,
                             .dtype = EXEC_F32 };
  Backend *backend = NULL;

  for (const BackendKind *kind = backends; kind->name && !backend; kind++)
    if (!name || g_str_equal(name, kind->name)) {
      backend = kind->open(&options, message);
      break;
    }
  if (!backend)
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "--backend: %s: %s", name ? name : "", message);
  return backend;
}

static double host_bytes(void)
{
  return (double)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static void describe(const Backend *backend, const MachineOptions *options, MachineHead *head)
{
  *head = (MachineHead) { .ranks = backend->size, .memory_bytes = host_bytes() / backend->size };
  g_strlcpy(head->device, backend->device, sizeof head->device);
  g_strlcpy(head->date, options->date, sizeof head->date);
  if (backend->rank == 0)
    head->host_bytes_per_s = calibrate_host_copy(calibrate_copy_bytes(), (int)g_get_num_processors(), COPIES, NULL,
                                                 NULL)
                                 .bytes_per_s;
}

gboolean machine_measure(const MachineOptions *options, MachineHead *head, GArray **points, GError **error)
{
  MeasureOptions measure = { .rounds = ROUNDS, .budget_s = options->budget_s, .progress = options->progress,
                             .data = options->data };
  g_autoptr(GArray) all = NULL;
  Launch launch;
  gboolean done;

  *points = NULL;
  if (!launch_detect(&launch, error))
    return FALSE;
  Backend *backend = open_backend(options->backend, &launch, error);
  if (!backend)
    return FALSE;
  describe(backend, options, head);
  all = points_design(backend->size);
  done = measure_points(backend, &measure, all, error);
  if (done && backend->rank == 0)
    *points = g_steal_pointer(&all);
  backend->free(backend);
  return done;
}
