/* Clusters to price measured points on. Private to this folder. */
#ifndef TDP_CALIBRATE_MACHINE_H
#define TDP_CALIBRATE_MACHINE_H

#include "calibrate/calibrate.h"

typedef struct {
  char *path, *text; /* cluster file; of a server or GPU the name alone; NULL: clusters have one tier, made of `link` */
  gsize length;
  char *like;          /* file or name of the link to start from; NULL: that of the cluster */
  Link link;           /* as `like` has it */
  double bytes_per_s;  /* of the one tier */
  int devices;         /* in it; 0: those at work */
  GPtrArray *clusters; /* Cluster *, one for each shape that was asked for */
  GArray *shapes;
} Machine;

gboolean machine_init(Machine *machine, const LinkSetup *setup, GError **error);
void machine_clear(Machine *machine);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Machine, machine_clear)

/* The cluster a point was measured on, which the machine owns, and the shape of its group. */
Cluster *machine_place(Machine *machine, const LinkPoint *point, GroupShape *group, GError **error);

/* Sets `like` and `link` where only the cluster tells: to the file of its link `own`. */
gboolean machine_start(Machine *machine, const Link *own, GError **error);

#endif
