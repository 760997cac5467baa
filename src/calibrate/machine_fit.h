/*
 * Fits a cluster to the points of a machine: kernels of its device, crowding of
 * a node's devices, and the link that joins them (GSL, by fit/fit.h). What is
 * written is a cluster file with everything inline, each number with its source
 * and the fit's errors; hardware/README.md lists the keys.
 *
 * Errors are TDP_ERROR_INPUT: points without a kind that a cluster needs.
 */
#ifndef TDP_CALIBRATE_MACHINE_FIT_H
#define TDP_CALIBRATE_MACHINE_FIT_H

#include "calibrate/points.h"
#include "fit/fit.h"

typedef struct {
  MachineHead head;
  double peak_flops_per_s; /* a little above the fastest product */
  double rate_spread;      /* of Device */
  double copy_bytes_per_s; /* read and written together, a device alone */
  double host_bytes_per_s; /* the slower of upload and download */
  double disk_read_bytes_per_s, disk_write_bytes_per_s; /* 0 = not measured */
  Kernels kernels;
  FitResult matmul, attention;
  FitErrors memory;
  gboolean linked;         /* more than one rank */
  Link link;
  FitErrors link_errors;
} MachineFit;

gboolean machine_fit(const MachineHead *head, const GArray *points, MachineFit *out, GError **error);
void machine_fit_clear(MachineFit *fit);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(MachineFit, machine_fit_clear)

/* A file of hardware/, and a table for people; newly allocated. */
char *machine_fit_json(const MachineFit *fit, const char *name);
char *machine_fit_text(const MachineFit *fit, const GArray *points);

#endif
