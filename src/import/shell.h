/*
 * A launch script of bash, read without running anything: which commands it would start, word by word, and where in the
 * file each word comes from.
 *
 * Followed are assignments, arrays, quotes, expansions (${X:-default}, ${X[@]}, $((arithmetic))), here-documents,
 * functions, arguments (shift, set --), if, case, for (its first turn), eval, bash -c, and files that it sources and
 * that lie beside it. What only running could tell is left open: a variable that the script does not set stands as
 * "$NAME", what a command would print as "$(...)", an expression of whole numbers without a value as it stands, files
 * that are asked for are there, commands succeed, loops of while are passed over and nothing exits. `unread` says so
 * where a line could not be followed. Nothing fails: a text that is no script gives no command.
 */
#ifndef TDP_IMPORT_SHELL_H
#define TDP_IMPORT_SHELL_H

#include "import/shell_text.h"

typedef struct {
  GPtrArray *words; /* ShellText * */
} ShellCommand;

typedef struct {
  GPtrArray *commands; /* ShellCommand *, in the order in which they would start */
  GHashTable *files;   /* char * to char *: here-documents by the name of the file that they are written to */
  GPtrArray *unread;   /* char *, "line 12: ..." */
  gboolean asks;       /* for an argument ($1) that is not given */
  GPtrArray *idle;     /* char *, of what is given: nothing asks for it */
} ShellScript;

/* `folder`: where files that it sources are looked for, NULL = nowhere. `given`: "NAME=VALUE", what the launcher sets,
 * "1=VALUE" and so on its arguments in their order, NULL-terminated; may be NULL. Where the script would set a name to
 * what a command prints it is what is given. */
ShellScript *shell_read(const char *text, const char *folder, const char *const *given);
void shell_free(ShellScript *script);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ShellScript, shell_free)

#endif
