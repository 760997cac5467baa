/* GSL's errors in programs. A file of its own: tdp-run, which calls none of it, is kept free of GSL. */
#ifndef TDP_CLI_NUMBERS_H
#define TDP_CLI_NUMBERS_H

/* Where GSL finds no memory the program ends, as where GLib finds none; other errors are those of the caller, by what a
 * function returns. Call it before anything else. */
void cli_numbers(void);

#endif
