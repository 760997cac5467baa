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
  double rate_spread, rate_jitter, rate_jitter_s; /* of Device */
  double switch_s, switch_after_s; /* of Device */
  double cache_bytes, cache_alone_bytes, cache_ramp;   /* of Device: l2_bytes and what is beside; 0 = walks do not */
  double beyond_cache_bytes_per_s, beyond_cache_crowding; /* tell them */
  double drift_error;      /* of how far ranks drift apart, over all intervals */
  double copy_bytes_per_s; /* read and written together, a device alone */
  double host_bytes_per_s; /* the slower of upload and download */
  double disk_read_bytes_per_s, disk_write_bytes_per_s; /* 0 = not measured */
  Kernels kernels;
  FitResult matmul[PRODUCT_COUNT]; /* of GPUs the first alone, of all products */
  FitResult attention;
  FitErrors memory;
  CollectiveLibrary library;
  Link link;               /* of a node's ranks */
  FitErrors link_errors;   /* n is 0 where a node has one rank */
  Link network;
  double network_bytes_per_s; /* of a node, each way; 0 = one node */
  FitErrors network_errors;
} MachineFit;

gboolean machine_fit(const MachineHead *head, const GArray *points, MachineFit *out, GError **error);
void machine_fit_clear(MachineFit *fit);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(MachineFit, machine_fit_clear)

/* A file of hardware/, for plans of a framework unless they name another, and a table for people; newly allocated. */
char *machine_fit_json(const MachineFit *fit, const char *name, const char *framework);
char *machine_fit_text(const MachineFit *fit, const GArray *points);

#endif
