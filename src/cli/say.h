/*
 * What programs say to people, as wide as they can read it.
 *
 * Where stdout is a terminal no line is wider than it (but for single words that are): columns of a table that do
 * not fit stand below, behind the first one again, and sentences go on in the next line, under what they belong to.
 * Anywhere else text stays as it is. JSON, scripts and what else machines read is printed, not said.
 */
#ifndef TDP_CLI_SAY_H
#define TDP_CLI_SAY_H

#include <glib.h>

void say(const char *format, ...) G_GNUC_PRINTF(1, 2);
void say_or_print(gboolean print, const char *text);

/* Columns of a terminal: $COLUMNS, else what it tells, else 80. 0 where the descriptor is of none. */
int say_columns_of(int descriptor);

/* Those of stdout, `usual` where it is none. */
int say_columns(int usual);

/* Whether colours may be used: stdout is a terminal that is not "dumb", and $NO_COLOR is not set or empty. */
gboolean say_colored(void);

/* Text in lines of at most so many columns; newly allocated. Columns of a table are what two blanks in all of its lines
 * divide, a table is lines that stand together, all of them indented or none. */
char *say_folded(const char *text, int columns);

#endif
