/*
 * Times of a device's kernels, gathered from a tool's trace and written as a
 * table: what each kernel is by its name, how often it ran, how long, its share.
 */
#ifndef TDP_IMPORT_KERNEL_TIMES_H
#define TDP_IMPORT_KERNEL_TIMES_H

#include <glib.h>

typedef struct KernelTimes KernelTimes;

KernelTimes *kernel_times_new(void);
void kernel_times_free(KernelTimes *times);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KernelTimes, kernel_times_free)

/* `count` runs of a kernel that took `seconds` together. */
void kernel_times_add(KernelTimes *times, const char *name, double seconds, double count);
guint kernel_times_size(const KernelTimes *times); /* different kernels */

/* Times are of this device too; text tells how many there are. */
void kernel_times_on(KernelTimes *times, const char *device);

/* What the trace says beside; zeros where it says nothing. */
typedef struct {
  int steps;        /* marked; 0 = none, and all is told of the whole file */
  double step_s;    /* of them together */
  int outside;      /* kernels in no step, which were not added */
  double outside_s;
  double busy_s;    /* while one kernel at least runs */
} KernelSteps;

/* Newly allocated. */
char *kernel_times_text(KernelTimes *times, const KernelSteps *steps);

#endif
