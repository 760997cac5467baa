/*
 * Text tables for the terminal: columns as wide as their widest cell, numbers
 * to the right, text to the left. UTF-8 widths are respected. No line ends in
 * spaces, and without any title there is no title line.
 */
#ifndef TDP_BASE_TABLE_H
#define TDP_BASE_TABLE_H

#include <glib.h>

typedef struct Table Table;

/* `columns`: titles separated by '|'; a title that starts with '<' is aligned
 * to the left, others to the right. */
Table *table_new(const char *columns);
void table_free(Table *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Table, table_free)

/* Appends cells, which bars of the format divide; rows fill from the left and wrap at the last column. */
void table_add(Table *table, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Appends one cell, a newly allocated text, which it frees. */
void table_take(Table *table, char *cell);

/* Rows behind the titles, and what stands in one of them; row -1 are the titles. A cell that was never added is empty.
 * `left` tells whether a column is aligned to the left. */
int table_rows(const Table *table);
int table_columns(const Table *table);
gboolean table_left(const Table *table, int column);
const char *table_cell(const Table *table, int row, int column);

/* The table as text, each line ending in a newline, `indent` spaces first. */
char *table_text(const Table *table, int indent);

#endif
