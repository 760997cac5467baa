/* A machine is measured by the backend, in the format and within the time that were asked for, and described as it is.
 * What measures is not run: that takes minutes. */
#include "base/error.h"
#include "calibrate/measure.h"
#include "cli/machine.h"
#include "main.h"

#include <sys/wait.h>
#include <unistd.h>

#define HOST_BYTES_PER_S 12e9
#define TIMED_S 0.25

/* What was asked for. */
static struct {
  MeasureOptions options;
  ExecType dtype;
  guint points;
  int copies;
  const char *failure;
} asked;

gboolean __wrap_measure_points(Backend *b, const MeasureOptions *options, GArray *points, MeasureCounts *counts,
                               GError **error);
HostCopy __wrap_calibrate_host_copy(gsize bytes, int threads, int repeats, CalibrateProgress progress, gpointer data);

gboolean __wrap_measure_points(Backend *b, const MeasureOptions *options, GArray *points, MeasureCounts *counts,
                               GError **error)
{
  asked.options = *options;
  asked.dtype = b->dtype;
  asked.points = points->len;
  if (asked.failure)
    return runtime_error(error, "%s", asked.failure);
  for (guint i = 0; i < points->len; i++)
    g_array_index(points, MachinePoint, i).seconds = TIMED_S;
  *counts = (MeasureCounts) { .taken = 50, .discarded = 3 };
  return TRUE;
}

HostCopy __wrap_calibrate_host_copy(gsize bytes, int threads, int repeats, CalibrateProgress progress, gpointer data)
{
  (void)progress, (void)data;
  asked.copies++;
  ck_assert_int_eq(threads, (int)g_get_num_processors());
  return (HostCopy) { threads, bytes, repeats, HOST_BYTES_PER_S };
}

static MachineOptions options_of(double budget_s)
{
  return (MachineOptions) { .precision = DTYPE_FP32, .date = "2026-01-31", .budget_s = budget_s };
}

START_TEST(one_rank_is_described)
{
  const MachineOptions options = options_of(20);
  g_autoptr(GArray) points = NULL;
  double host_bytes = (double)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  MachineHead head;

  memset(&asked, 0, sizeof asked);
  ck_assert(machine_measure(&options, &head, &points, NULL));
  ck_assert_int_eq(head.ranks, 1);
  ck_assert_int_eq(head.node_ranks, 1);
  ck_assert_int_eq(head.processors, 1);
  ck_assert_int_eq(head.units, 1);
  ck_assert_str_eq(head.date, options.date);
  ck_assert_int_gt(strlen(head.device), 0);
  ck_assert_double_eq(head.host_memory_bytes, host_bytes);
  ck_assert_double_eq(head.memory_bytes, host_bytes);
  ck_assert_double_eq(head.host_bytes_per_s, HOST_BYTES_PER_S);
  ck_assert_int_eq(head.samples, 50);
  ck_assert_int_eq(head.discarded, 3);
  ck_assert_int_eq(asked.copies, 1);
  ck_assert_int_eq(asked.dtype, EXEC_F32);
  ck_assert_int_eq(asked.options.processors, 1);
  ck_assert_double_eq(asked.options.budget_s, 20);
  ck_assert_double_gt(asked.options.limit_s, 20); /* in which the least number of rounds may end */
  g_autoptr(GArray) design = points_design(&head);
  ck_assert_uint_eq(points->len, design->len);
  ck_assert_uint_eq(asked.points, design->len);
  ck_assert_double_eq(g_array_index(points, MachinePoint, points->len - 1).seconds, TIMED_S);
}
END_TEST

/* Whoever gives more time than the limit has it. */
START_TEST(time_is_as_given)
{
  const MachineOptions options = options_of(3000);
  g_autoptr(GArray) points = NULL;
  MachineHead head;

  ck_assert(machine_measure(&options, &head, &points, NULL));
  ck_assert_double_eq(asked.options.budget_s, 3000);
  ck_assert_double_eq(asked.options.limit_s, 3000);
}
END_TEST

/* A launcher that contradicts itself is refused; no process waits for another. */
START_TEST(launchers_are_refused)
{
  const MachineOptions options = options_of(20);
  g_autoptr(GArray) points = NULL;
  GError *error = NULL;
  MachineHead head;

  memset(&asked, 0, sizeof asked);
  g_setenv("OMPI_COMM_WORLD_RANK", "5", TRUE);
  g_setenv("OMPI_COMM_WORLD_SIZE", "2", TRUE);
  ck_assert(!machine_measure(&options, &head, &points, &error));
  test_error(&error, TDP_ERROR_INPUT, "OMPI_COMM_WORLD_RANK: 5: expected below OMPI_COMM_WORLD_SIZE, which is 2");
  ck_assert_ptr_null(points);
  ck_assert_int_eq(asked.copies, 0);
  g_unsetenv("OMPI_COMM_WORLD_RANK");
  g_unsetenv("OMPI_COMM_WORLD_SIZE");
}
END_TEST

/* What goes wrong while measuring ends the process, with the code of the error. */
START_TEST(failures_end_the_process)
{
  const MachineOptions options = options_of(20);
  g_autoptr(GArray) points = NULL;
  GError *error = NULL;
  MachineHead head;
  int status = 0;
  pid_t child = fork();

  if (child == 0) {
    asked.failure = "backend cpu: the cable is cut";
    machine_measure(&options, &head, &points, &error);
    _exit(99);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  ck_assert_int_eq(WEXITSTATUS(status), TDP_ERROR_RUNTIME);
}
END_TEST

TEST_MAIN("exec: machine", one_rank_is_described, time_is_as_given, launchers_are_refused, failures_end_the_process)
