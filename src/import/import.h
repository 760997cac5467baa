/*
 * Other tools' output, read: what a machine is made of, what a run took.
 *
 * The kind of a text is told by its content. Each importer writes what it found
 * (a server of hardware/, a row of a case file, a table of kernels) and says
 * what it did not recognise, which is passed over. Foreign text never fails for
 * what it holds besides; TDP_ERROR_INPUT where nothing is left.
 *
 * To add a tool: a file with an Importer, and a line of the table in import.c.
 * (nccl-tests, whose times are fitted, is read by nccl_tests.h.)
 */
#ifndef TDP_IMPORT_IMPORT_H
#define TDP_IMPORT_IMPORT_H

#include "base/error.h"

typedef struct {
  const char *file; /* for messages */
  const char *gpu;  /* name of hardware/gpus/ for servers whose text tells none; may be NULL */
  int strange;      /* lines or parts that were not recognised */
  char *first_strange; /* one of them; newly allocated */
  char *untold;        /* what the text does not say and a user fills in, "a, b"; newly allocated; NULL = nothing */
  char *no_column;     /* what it says and what is written has no place for, likewise */
} ImportNotes;

typedef struct {
  const char *name; /* "Megatron log" */
  gboolean (*recognises)(const char *text);
  /* Newly allocated; NULL and an error if nothing of use is in it. */
  char *(*read)(const char *text, ImportNotes *notes, GError **error);
} Importer;

/* Counts a part that was not recognised; `text` is cut to a line. */
void import_strange(ImportNotes *notes, const char *text);

/* Takes escape sequences of terminals out of a text of UTF-8. */
void import_drop_colours(char *text);

void import_notes_clear(ImportNotes *notes);

/* Sets TDP_ERROR_INPUT "FILE: ..." and returns NULL. */
#define import_error(notes, error, format, ...) \
  (input_error(error, "%s: " format, (notes)->file, ##__VA_ARGS__), (char *)NULL)

/* The importer of a text, NULL if none knows it. */
const Importer *importer_of(const char *text);

/* Reads a file ("-" = stdin), also one that gzip made; of a database of nsys
 * export its kernels, as CSV. */
char *import_load(const char *path, GError **error);

extern const Importer import_megatron_log, import_torchtitan_log, import_topology_matrix, import_nccl_topology,
                      import_kineto, import_nsys;

/* The file of hardware/gpus/ for a device's name as its driver says it, "NVIDIA H100 80GB HBM3"; NULL if none is known. */
const char *import_gpu_of(const char *driver_name);

/* What topologies tell of a server. */
typedef struct {
  int gpus;
  int island;               /* GPUs that NVLinks join, where these are not all; 0 = all, or none */
  int links_min, links_max; /* NVLinks of a pair of GPUs; 0 = joined by PCIe */
  int gpu_links;            /* NVLinks of a GPU in all; 0 = not told */
  gboolean switched;        /* through NVSwitches */
  int sm;                   /* compute capability, 90 for Hopper; 0 = not told */
  int nics;
  double nic_bits_per_s;    /* 0 = not told */
} FoundServer;

/* The file of hardware/links/ for NICs of this rate in bits/s: the InfiniBand of the slowest ports that have it. */
const char *found_server_link(double nic_bits_per_s);

/* A file of hardware/servers/, whose link is of its NICs' rate; where that is not told, of the GPU's DGX. Newly allocated. */
char *found_server_json(const FoundServer *server, ImportNotes *notes, GError **error);

#endif
