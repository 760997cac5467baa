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

/* Set an error of that code, and return FALSE, as a function that fails does. Without an `error` they write no text. */
gboolean runtime_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
gboolean input_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
gboolean infeasible_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Exit status for an error: its code if it is of our domain, else 1
 * (2 for GLib's option errors). */
int tdp_error_exit_code(const GError *error);

#endif
