/*
 * Errors that a user can cause, and the exit code each ends in.
 *
 * Three kinds of failure exist. A bug of ours stops at g_assert. No memory
 * makes GLib abort. Everything else is a GError of this domain, whose message
 * is one line that names the file, the key, the value and what was expected;
 * main prints it once and exits with the error's code.
 */
#ifndef TDP_BASE_ERROR_H
#define TDP_BASE_ERROR_H

#include <glib.h>

#define TDP_ERROR (tdp_error_quark())

/* The value of each code is the exit status of the program. */
typedef enum {
  TDP_ERROR_RUNTIME = 1,    /* a file that cannot be written, a child that failed */
  TDP_ERROR_INPUT = 2,      /* bad usage or bad input */
  TDP_ERROR_INFEASIBLE = 3, /* no feasible plan, or a lossy export refused */
  TDP_ERROR_TOLERANCE = 4,  /* outside the tolerance asked for */
} TdpError;

GQuark tdp_error_quark(void);

/* Sets an error of that code, and returns FALSE, as a function that fails does. Without an `error` it writes no text.
 * The three kinds that functions set have names; a prefix that all errors of a file share is a macro of its own. */
gboolean coded_error(GError **error, TdpError code, const char *format, ...) G_GNUC_PRINTF(3, 4);

#define runtime_error(error, ...) coded_error(error, TDP_ERROR_RUNTIME, __VA_ARGS__)
#define input_error(error, ...) coded_error(error, TDP_ERROR_INPUT, __VA_ARGS__)
#define infeasible_error(error, ...) coded_error(error, TDP_ERROR_INFEASIBLE, __VA_ARGS__)

/* Exit status for an error: its code if it is of our domain, else 1
 * (2 for GLib's option errors). */
int tdp_error_exit_code(const GError *error);

#endif
