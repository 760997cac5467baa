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

/* Of `steps` steps that took `step_s` together; 0 = the trace marks none. Newly allocated. */
char *kernel_times_text(KernelTimes *times, int steps, double step_s);

#endif
