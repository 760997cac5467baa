/* One run as a row of a case file, of what a log told. Private to this folder. */
#ifndef TDP_IMPORT_CASE_ROW_H
#define TDP_IMPORT_CASE_ROW_H

#include "import/import.h"

/* Header and row of cells by column (char * to char *, absent = empty): those that all rows have, then others.
 * A row with the column model_file needs that and no architecture. What a run cannot be simulated without and
 * the cells lack goes into the notes as not told. Newly allocated. */
char *case_row_text(GHashTable *cells, ImportNotes *notes);

/* Sets a cell. */
void case_row_set(GHashTable *cells, const char *column, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Of numbers, which it sorts: of an even count the mean of the middle two; there is one at least. */
double case_row_median(GArray *values);

/* The number behind a label of a line, above 0, thousands parted by commas; FALSE if it is not there. */
gboolean case_row_number(const char *line, const char *label, double *out);

#endif
