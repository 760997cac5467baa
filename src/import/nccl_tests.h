/*
 * The text that nccl-tests (or rccl-tests) prints, or the JSON file that it
 * writes with -J, read into times of collectives.
 *
 * Columns are found by the names in the header line, so layouts of 2.4 to 2.19 are
 * read: with and without root, "error" or "#wrong", with per-iteration columns
 * and timestamps. A file may hold several runs. What a launcher or NCCL_DEBUG
 * prints in between is passed over and counted; prefixes of mpirun --tag-output
 * and srun --label are taken off. Ranks, nodes and the GPU come from the list
 * of devices. Which collective it was is told by the banner or the command line
 * in the file; else by the columns, as far as they can.
 *
 * Errors are TDP_ERROR_INPUT and name file and line: a row that is cut or
 * disagrees with itself (time, algbw and busbw are checked against each other),
 * a run with wrong results, one timed on the CPU (-C), one without list of
 * devices, a collective that cannot be told, and a file without rows.
 */
#ifndef TDP_IMPORT_NCCL_TESTS_H
#define TDP_IMPORT_NCCL_TESTS_H

#include "calibrate/calibrate.h"

typedef struct {
  int line;
  double bytes, seconds;                    /* out of place, unless only in place was timed */
  double alg_bytes_per_s, bus_bytes_per_s;
  gboolean in_place;
} NcclRow;

typedef struct {
  char *op;              /* "all_reduce" */
  Collective collective; /* COLLECTIVE_COUNT: one that the formulas lack */
  int ranks, nodes;      /* of a group */
  int node_ranks;        /* on a node, of all groups */
  char *gpu;             /* "NVIDIA H100 80GB HBM3" */
  int line;              /* of the header */
  GArray *rows;          /* NcclRow */
} NcclRun;

typedef struct {
  char *name;            /* file, for messages */
  GPtrArray *runs;       /* NcclRun *, each with a row at least */
  int strange_lines;     /* not recognised */
  int first_strange_line;
  int empty_rows;        /* of no bytes, or not timed */
} NcclTests;

/* `collective` is what runs are that do not say it themselves, COLLECTIVE_COUNT if
 * nobody knows; a run that says another is an error. "-" is stdin. */
NcclTests *nccl_tests_load(const char *path, Collective collective, GError **error);
NcclTests *nccl_tests_parse(const char *text, const char *name, Collective collective, GError **error);
void nccl_tests_free(NcclTests *tests);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NcclTests, nccl_tests_free)

/* Appends LinkPoints of the runs whose collective the formulas know; they
 * borrow the file's name. */
void nccl_tests_points(const NcclTests *tests, GArray *points);

#endif
