/*
 * Reading CSV (RFC 4180: quoted cells, doubled quotes, CRLF) with a header
 * line. Cells are addressed by column name. Empty lines are passed over, and
 * so is a byte order mark.
 */
#ifndef TDP_BASE_CSV_H
#define TDP_BASE_CSV_H

#include <glib.h>

typedef struct {
  char *name;          /* file, for messages */
  GPtrArray *columns;  /* char *, the header's cells */
  GPtrArray *rows;     /* char **, each as long as the header */
  GArray *lines;       /* int, first line of each row in the file, from 1 */
} Csv;

/* NULL and TDP_ERROR_INPUT that names file and line if it cannot be read, a row
 * has another number of cells than the header, a column stands twice, a quote
 * is misplaced or the text is not UTF-8. */
Csv *csv_load(const char *path, GError **error);
Csv *csv_parse(const char *text, const char *name, GError **error);
void csv_free(Csv *csv);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Csv, csv_free)

/* The rows (char **) of a text without a header, each of any length; errors as above. */
GPtrArray *csv_parse_rows(const char *text, const char *name, GError **error);

int csv_column(const Csv *csv, const char *column);                  /* -1 if absent */
const char *csv_cell(const Csv *csv, int row, const char *column);   /* "" if absent */

/* A numeric cell: TRUE and `out` set if it is there, `out` left alone if it is
 * empty, FALSE and an error naming file, line and column if not a number. */
gboolean csv_real(const Csv *csv, int row, const char *column, double *out, GError **error);
gboolean csv_int(const Csv *csv, int row, const char *column, int *out, GError **error);

/* Sets "FILE: line LINE: COLUMN: "CELL": expected EXPECTED" and returns FALSE. */
gboolean csv_refuse(const Csv *csv, int row, const char *column, const char *expected, GError **error);

/* Appends a cell, quoted if it must be; `last` ends the line. */
void csv_put(GString *text, const char *cell, gboolean last);

#endif
