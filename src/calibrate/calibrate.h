/*
 * Measures a machine, and turns measurements into numbers for hardware/.
 *
 * Two parts so far. A link's constants are fitted to times of collectives that
 * nccl-tests measured (LinkPoint; import/nccl_tests.h reads its output). The
 * memory of this host is measured by copying. Bytes, seconds and bytes per
 * second throughout; files are written in the units of hardware/README.md.
 *
 * Only constants that the points tell are fitted: one whose change moves no
 * time keeps the value of the link that the fit starts from, and one that is
 * only kept from being less, or more, is as near to it as the times allow.
 *
 * Errors are TDP_ERROR_INPUT: points that do not fit the machine, or too few.
 */
#ifndef TDP_CALIBRATE_CALIBRATE_H
#define TDP_CALIBRATE_CALIBRATE_H

#include "fit/fit.h"

/* ---- links ---- */

/* One measured collective; bytes as cost/collective.h counts them. */
typedef struct {
  Collective collective;
  int ranks, nodes; /* of the group; COLLECTIVE_SEND: of the ring of neighbours that send */
  int node_ranks;   /* ranks at work on a node, of all groups */
  double bytes, seconds;
  const char *file; /* for messages */
} LinkPoint;

/* What the points were measured on: a cluster, or a link and its nominal rate. */
typedef struct {
  const char *cluster; /* file or name of hardware/; NULL: one tier made of `like` */
  const char *like;    /* file or name of the link that the fit starts from; NULL: that of the cluster */
  double bytes_per_s;  /* of a device, each way; 0: that of the cluster, or of all servers with such a link */
} LinkSetup;

typedef struct {
  Link link;
  char *like;         /* file or name of the link that it started from and whose other constants it keeps */
  double bytes_per_s; /* nominal rate of a device that the efficiencies refer to */
  int fitted;         /* FIT_LINK_ bits */
  FitErrors errors;   /* of all points */
  FitErrors held_out; /* of a third of them, from a fit of the others; n is 0 if there are too few */
  int n;
  double *fitted_s;        /* of each point */
  const char **algorithms; /* of each point */
} LinkCalibration;

/* All points must meet in the same tier. On error there is nothing to clear. */
gboolean calibrate_link(const LinkPoint *points, int n, const LinkSetup *setup, LinkCalibration *out, GError **error);
void link_calibration_clear(LinkCalibration *calibration);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(LinkCalibration, link_calibration_clear)

/* A file of hardware/links/: what was fitted, the rest by `like`. `files` are
 * names for its source. Newly allocated. */
char *link_calibration_json(const LinkCalibration *calibration, const char *name, const char *files);

/* Measured beside fitted, the constants, the errors; newly allocated. */
char *link_calibration_text(const LinkCalibration *calibration, const LinkPoint *points);

/* ---- this host ---- */

typedef struct {
  int threads;
  double copy_bytes;          /* copied at a time, by all threads together */
  int repeats;
  double bytes_per_s;         /* read and written together; the median */
} HostCopy;

/* Called after each copy; may be NULL. */
typedef void (*CalibrateProgress)(int done, int of, gpointer data);

HostCopy calibrate_host_copy(gsize copy_bytes, int threads, int repeats, CalibrateProgress progress, gpointer data);

/* Bytes to copy: well beyond the caches, within free memory. */
gsize calibrate_copy_bytes(void);

/* Median seconds of reading the clock. */
double calibrate_timer_s(void);

/* {"host_memory_gb_per_s", "source"}, keys of a server; newly allocated. */
char *host_copy_json(const HostCopy *copy, const char *date);

#endif
