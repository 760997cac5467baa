/*
 * Arithmetic of claim files: + - * /, parentheses, min(a, b), max(a, b),
 * numbers, and names (letters, digits, "_" and ".") that the caller looks up.
 */
#ifndef TDP_TESTS_PAGES_EXPRESSION_H
#define TDP_TESTS_PAGES_EXPRESSION_H

#include <glib.h>

/* The value of a name; FALSE if it is not known. */
typedef gboolean (*ExpressionLookup)(gpointer data, const char *name, double *out);

/* TDP_ERROR_INPUT with the text and the place. */
gboolean expression_value(const char *text, ExpressionLookup lookup, gpointer data, double *out, GError **error);

#endif
