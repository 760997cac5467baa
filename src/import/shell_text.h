/*
 * Text of a script of which every byte knows where it comes from, so that what a program was told can be changed where
 * the script says it. Private to this folder.
 */
#ifndef TDP_IMPORT_SHELL_TEXT_H
#define TDP_IMPORT_SHELL_TEXT_H

#include <glib.h>

#define SHELL_WORD_MAX (1 << 20) /* bytes: what doubles itself ends there */

/* Where a byte stands in the file: itself, and the innermost expansion ("$TP_SIZE") that put it where it is read.
 * Offsets in bytes; at is -1 of bytes that were computed or come from elsewhere, from is -1 without an expansion. */
typedef struct {
  int at;
  int from, end;
} ShellOrigin;

typedef struct {
  GString *text;
  GArray *origins; /* ShellOrigin of each byte */
} ShellText;

ShellText *shell_text_new(void);

/* A file's text; with `elsewhere` that of another file than the one that may be changed. */
ShellText *shell_text_of(const char *text, gboolean elsewhere);
ShellText *shell_text_copy(const ShellText *text);
void shell_text_free(ShellText *text);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ShellText, shell_text_free)

/* Bytes first .. end - 1 of a text, and one that stands nowhere. */
ShellText *shell_text_part(const ShellText *text, gsize first, gsize end);
ShellText *shell_text_made(const char *made);

/* Appends bytes first .. end - 1 of another text. */
void shell_text_add(ShellText *text, const ShellText *other, gsize first, gsize end);
void shell_text_add_all(ShellText *text, const ShellText *other);

/* Appends text that stands nowhere. */
void shell_text_add_made(ShellText *text, const char *made);

/* Bytes from `first` on were put there by what stands at from .. end - 1, unless an inner expansion did. */
void shell_text_expanded(ShellText *text, gsize first, int from, int end);

/* Where all bytes of a text stand in one piece: FALSE where they do not. */
gboolean shell_text_span(const ShellText *text, int *first, int *end);

/* The expansion that all bytes come from: FALSE where there is none, or several. */
gboolean shell_text_use(const ShellText *text, int *first, int *end);

/* What bash's expansions make of a value, newly allocated. Patterns are those of file names.
 *
 * Without what matches the pattern at its start ("#", the longest: "##") or end ("%", "%%"); one of over 4,096 bytes stays
 * as it is. */
ShellText *shell_text_trimmed(const ShellText *value, const char *operation, const char *pattern);

/* From a byte on, counted from the end where it is negative, so many bytes, or to so many before the end. */
ShellText *shell_text_cut(const ShellText *value, gint64 first, gint64 length);

/* With another text in place of what matches first, each time ('/'), only at the start ('#') or at the end ('%'); the
 * longest match at a place. Patterns are looked for in values of up to 256 bytes, plain words in any; none behind
 * SHELL_WORD_MAX bytes. */
ShellText *shell_text_replaced(const ShellText *value, char where, const char *pattern, const ShellText *other);

/* An empty list of texts, which it owns; the i-th of one as it stands, "" behind its end. */
GPtrArray *shell_texts(void);
GPtrArray *shell_texts_of(ShellText *text); /* of one, which it takes */
const char *shell_text_at(const GPtrArray *texts, guint i);

#endif
