/*
 * Strict check of JSON text (RFC 8259) before cJSON sees it, since cJSON lets
 * through numbers like 01 and 1., raw control characters, \u0000 (which cuts
 * the string short) and infinity. Private to json.c.
 */
#ifndef TDP_BASE_JSON_SYNTAX_H
#define TDP_BASE_JSON_SYNTAX_H

#include <glib.h>

/* `text` ends in a NUL after `length` bytes. FALSE and "NAME:LINE:COLUMN: what
 * was expected" if it is not JSON, not UTF-8, holds a NUL or a number beyond
 * the range of double, or is nested too deep. */
gboolean json_syntax_check(const char *text, gsize length, const char *name, GError **error);

#endif
