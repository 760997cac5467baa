/*
 * What the files of hardware/ have in common: a part stands as a name, a path
 * or an object; it may start from another by `like`; each number has a source.
 * Private to this folder. Formats: hardware/README.md.
 */
#ifndef TDP_HARDWARE_PART_H
#define TDP_HARDWARE_PART_H

#include "base/json.h"
#include "hardware/device.h"

/* An object that is being read. */
typedef struct {
  const JsonDoc *doc;
  const cJSON *object;
  gboolean is_part; /* and not an object inside one: it may have `like` */
  gboolean partial; /* `like` gave the rest: no key is required */
  int depth;        /* files and objects above this one */
  GChecksum *digest; /* of all files that are read; NULL = nobody asks */
} PartSource;

/* A kind of part. */
typedef struct {
  const char *folder; /* below hardware/, "" for clusters */
  const char *what;   /* for messages */
  /* Fills `out` from one object; what other keys set before stays. */
  gboolean (*read)(const PartSource *source, gpointer out, GError **error);
  /* Checks the part once all of it is read; may be NULL. `source` is for messages. */
  gboolean (*finish)(const PartSource *source, gpointer out, GError **error);
} PartKind;

extern const PartKind link_part;    /* Link */
extern const PartKind library_part; /* CollectiveLibrary */
extern const PartKind kernels_part; /* Kernels */
extern const PartKind device_part;  /* Device */
extern const PartKind server_part;  /* Server */

/* Frees the memory kernels that were read and leaves none. */
void memory_kernels_clear(Kernels *kernels);

/* Reads the part that `item` names or holds; `above` is the object it stands in. */
gboolean part_read(const PartKind *kind, const PartSource *above, const cJSON *item, gpointer out,
                   GError **error);

/* Reads a whole document, and a file by bare name or path; `digest` (may be NULL): it and what it names. */
gboolean part_read_doc(const PartKind *kind, const JsonDoc *doc, GChecksum *digest, gpointer out, GError **error);
gboolean part_load(const PartKind *kind, const char *name, gpointer out, GError **error);

/* Reads the object's own keys by the table (and `note` and `source`, which every
 * object may have), checks that each number has a source, and lowers `weakest`
 * (may be NULL) to the weakest of them. */
gboolean part_fields(const PartSource *source, const JsonField *fields, gsize n_fields,
                     gpointer out, Provenance *weakest, GError **error);

/* Sets `out` to where the number `key` comes from; FALSE if the object has no such number. */
gboolean part_provenance(const PartSource *source, const char *key, Provenance *out);

/* An object inside the part that is read; an error if `item` is none. */
gboolean part_inside(const PartSource *above, const cJSON *item, PartSource *inside, GError **error);

/* "FILE: PATH: missing: expected EXPECTED" for a key of the object. */
gboolean part_missing(const PartSource *source, const char *key, GError **error, const char *expected);

#endif
