/*
 * A JSON file of hardware/kernels/ or hardware/links/ whose fitted numbers are
 * replaced; all else in it stays. Numbers that are not whole are rounded to four
 * digits, and below 1e-6 to 0.
 */
#ifndef TDP_FIT_PART_FILE_H
#define TDP_FIT_PART_FILE_H

#include <cjson/cJSON.h>
#include <glib.h>

#include "hardware/device.h"

typedef struct {
  char *path;
  cJSON *root;
} PartFile;

/* hardware/FOLDER/NAME.json. TDP_ERROR_INPUT. */
gboolean part_file_load(PartFile *file, const char *folder, const char *name, GError **error);
gboolean part_file_save(const PartFile *file, GError **error);
void part_file_clear(PartFile *file);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PartFile, part_file_clear)

/* The member, an empty object or array if it was not there. */
cJSON *part_file_member(cJSON *object, const char *key, gboolean array);

void part_file_number(cJSON *object, const char *key, double value);
void part_file_numbers(cJSON *object, const char *key, const double *values, int n);
void part_file_bool(cJSON *object, const char *key, gboolean value);
void part_file_string(cJSON *object, const char *key, const char *value);

/* The constants of a matrix product. */
void part_file_model(cJSON *object, const MatmulModel *model);

/* The source of one key; a source for all keys becomes that of the rest. */
void part_file_source(cJSON *object, const char *key, const char *source);

#endif
