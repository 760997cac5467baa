/* The reader of shell.h's statements, in two files: what commands do (shell_run.c), and which there are (shell.c).
 * Private to this folder. */
#ifndef TDP_IMPORT_SHELL_READER_H
#define TDP_IMPORT_SHELL_READER_H

#include "import/shell_parts.h"

/* Of texts within texts and of calls: how deep, and how many. What calls itself ends there. */
#define SHELL_DEPTH_MAX 40
#define SHELL_RUNS_MAX 1000

typedef struct {
  char *ends;   /* the line behind the last one */
  char *target; /* file that it is written to; NULL = none */
  gboolean strip, expand, live;
  gboolean runs; /* it is what a shell or sbatch reads */
} Document;

/* Counted (g_rc_box): one that runs may be defined anew meanwhile. */
typedef struct {
  ShellText *in;
  gsize at; /* of its body */
} Function;

typedef struct {
  ShellState state;
  GPtrArray *documents;  /* Document *, whose text begins with the next line */
  GHashTable *functions; /* char * to Function * */
} Reader;

/* Commands up to what closes them, which the cursor is left on: whether the last one that ran succeeded. Those that do
 * not run (`live` FALSE) are stepped over. */
gboolean shell_list(Reader *r, ShellCursor *c, gboolean live);
gboolean shell_command(Reader *r, ShellCursor *c, gboolean live);

/* Notes what cannot be followed at the cursor. */
void shell_unread(Reader *r, const ShellCursor *c, const char *what);

/* Whether a word stands at the cursor; the second steps over it. */
gboolean shell_at(const ShellCursor *c, const char *word);
gboolean shell_take(ShellCursor *c, const char *word);

/* Past blanks, comments, line ends and single semicolons, and here-documents that begin there. */
void shell_skip_separators(Reader *r, ShellCursor *c);
void shell_document_free(gpointer document);
void shell_function_release(gpointer function);

/* Does what the words say, and takes them: whether that succeeds. */
gboolean shell_start(Reader *r, GPtrArray *words, const ShellCursor *c);
void shell_run_text(Reader *r, const ShellText *text);

#endif
