/*
 * Cells of one row of a case file: its numbers, and what is wrong with a cell.
 * Columns that only newer files have (`ep`, `model_file`, ...) read as empty
 * where a file lacks them.
 */
#ifndef TDP_VALIDATE_CELLS_H
#define TDP_VALIDATE_CELLS_H

#include "base/csv.h"
#include "plan/keys.h"

/* The whole numbers of a row; -1 where the cell is empty. */
typedef struct {
  int layers, hidden, ffn_hidden, heads, kv_heads, seq, vocab;
  int gpus, tp, sp, pp, vpp, dp, cp, ep, etp, micro_batch, global_batch;
} CaseNumbers;

/* Errors: TDP_ERROR_INPUT, naming file, line, column and cell. */
gboolean cells_read_numbers(const Csv *csv, int row, CaseNumbers *n, GError **error);

/* The same of a cell that is none of a NULL-terminated list. */
gboolean cells_not_one_of(const Csv *csv, int row, const char *column, const char *const *names, GError **error);

/* A cell, "" where the file has no such column. */
const char *cells_optional(const Csv *csv, int row, const char *column);

/* Fills a key that takes a name or a whole number, or is a switch (0 or 1), from the column of that name; as it was
 * where the cell is empty or the key of another type. */
gboolean cells_read_key(const Csv *csv, int row, const PlanKey *key, PlanFile *out, GError **error);

#endif
