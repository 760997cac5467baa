/*
 * A cluster out of what several tools printed on one machine: a topology, which makes the server; files of nccl-tests,
 * to which the links of a node and of the network are fitted; a trace of torch's profiler, which like nccl-tests names
 * the GPU. Which file is which, its content tells.
 */
#ifndef TDP_CLI_IMPORT_MACHINE_H
#define TDP_CLI_IMPORT_MACHINE_H

#include <glib.h>

/* What the files do not tell. */
typedef struct {
  const char *name;   /* of the cluster */
  const char *gpu;    /* of hardware/gpus/; NULL where the files tell it */
  double bytes_per_s; /* of the network, a device each way; 0 where the topology tells it */
} MachineSaid;

/* A file of hardware/, newly allocated. What was read, what was measured and what was not goes to stderr. NULL and
 * TDP_ERROR_INPUT where there is no topology or two of them, a file is none of these, files are of unlike GPUs, or times
 * do not fit the machine. */
char *import_machine(char *const *files, const MachineSaid *said, GError **error);

#endif
