#include "cli/machine.h"

#include "base/error.h"
#include "calibrate/measure.h"
#include "exec/control.h"
#include "exec/exec.h"

#include <unistd.h>

#define ROUNDS 40
#define LIMIT_S 160 /* of three minutes in all */
#define COPIES 5

static ExecType type_of(DType precision)
{
  return precision == DTYPE_BF16 ? EXEC_BF16 : precision == DTYPE_FP16 ? EXEC_F16 : EXEC_F32;
}

static Backend *open_backend(const MachineOptions *o, const Launch *launch, Control *control, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "no such backend in this program";
  BackendOptions options = { .rank = launch->rank, .size = launch->size, .local_rank = launch->local_rank,
                             .dtype = type_of(o->precision), .share = control_share_in_place, .share_data = control };
  Backend *backend = NULL;

  for (const BackendKind *kind = backends; kind->name && !backend; kind++)
    if (!o->backend || g_str_equal(o->backend, kind->name)) {
      backend = kind->open(&options, message);
      break;
    }
  if (!backend)
    input_error(error, "--backend: %s: %s", o->backend ? o->backend : "", message);
  return backend;
}

static double host_bytes(void)
{
  return (double)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* Ranks of a GPU have each their own processor. */
static int processors_of(const Backend *backend, const Launch *launch)
{
  return g_str_equal(backend->name, "cpu") ? MIN((int)g_get_num_processors(), launch->local_size) : launch->local_size;
}

static void describe(const Backend *backend, const Launch *launch, const MachineOptions *options, MachineHead *head)
{
  *head = (MachineHead) { .ranks = backend->size, .node_ranks = launch->local_size,
                          .processors = processors_of(backend, launch), .host_memory_bytes = host_bytes(),
                          .units = MAX(backend->units, 1), .cache_bytes = backend->cache_bytes,
                          .precision = options->precision };
  head->memory_bytes = backend->memory_bytes ? backend->memory_bytes : head->host_memory_bytes / launch->local_size;
  g_strlcpy(head->device, backend->device, sizeof head->device);
  g_strlcpy(head->date, options->date, sizeof head->date);
  if (backend->rank == 0)
    head->host_bytes_per_s = calibrate_host_copy(calibrate_copy_bytes(), (int)g_get_num_processors(), COPIES, NULL,
                                                 NULL)
                                 .bytes_per_s;
}

static gboolean measure(const MachineOptions *options, const Launch *launch, Control *control, MachineHead *head,
                        GArray **points, GError **error)
{
  MeasureOptions how = { .rounds = ROUNDS, .budget_s = options->budget_s, .limit_s = MAX(LIMIT_S, options->budget_s),
                         .progress = options->progress, .data = options->data };
  Backend *backend = open_backend(options, launch, control, error);
  MeasureCounts counts = { 0 };
  g_autoptr(GArray) all = NULL;
  gboolean done;

  if (!backend)
    return FALSE;
  describe(backend, launch, options, head);
  how.processors = head->processors;
  all = points_design(head);
  done = measure_points(backend, &how, all, &counts, error);
  head->samples = counts.taken;
  head->discarded = counts.discarded;
  if (done && backend->rank == 0)
    *points = g_steal_pointer(&all);
  backend->free(backend);
  return done;
}

gboolean machine_measure(const MachineOptions *options, MachineHead *head, GArray **points, GError **error)
{
  Launch launch;

  *points = NULL;
  if (!launch_detect(&launch, error))
    return FALSE;
  if (launch.local_size == 0)
    launch.local_size = launch.size;
  ControlOptions watched = control_options_default(&launch);
  Control *control = control_open(&watched);
  if (!measure(options, &launch, control, head, points, error))
    control_fail(control, tdp_error_exit_code(*error), (*error)->message);
  control_close(control);
  return TRUE;
}
