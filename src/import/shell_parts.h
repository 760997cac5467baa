/* The parts of shell.h's reader: words and their expansion, arithmetic, conditions. Private to this folder. */
#ifndef TDP_IMPORT_SHELL_PARTS_H
#define TDP_IMPORT_SHELL_PARTS_H

#include "import/shell.h"

/* A variable: one value, or an array of them. */
typedef struct {
  GPtrArray *values; /* ShellText * */
  gboolean array;
} ShellVariable;

/* What a run of the script would know. */
typedef struct {
  GHashTable *variables; /* char * to ShellVariable * */
  ShellScript *script;
  const char *folder; /* of files that are sourced, NULL = none are */
  const char *file;   /* its text, for numbers of lines */
  const char *const *given; /* as of shell_read() */
  GPtrArray *arguments; /* ShellText *, of the script or the function that runs; NULL = not known */
  GHashTable *asked;    /* char *: names that were looked up */
  gboolean moved;       /* arguments were: $1 is another one than was given first */
  int calls;            /* of functions within functions */
  int depth;          /* of texts within texts */
  int runs;           /* of texts and functions, so far; with long lists of arguments more */
} ShellState;

/* A place in a text that is being read. */
typedef struct {
  const ShellText *in;
  gsize at;
} ShellCursor;

/* The byte `ahead` of the cursor, 0 at the end. */
static inline char shell_peek(const ShellCursor *c, gsize ahead)
{
  return c->at + ahead < c->in->text->len ? c->in->text->str[c->at + ahead] : '\0';
}

/* Place in the file of the cursor, -1 where it has none. */
int shell_place(const ShellCursor *c);

/* Past blanks, escaped line ends and comments; not past line ends. */
void shell_skip_blanks(ShellCursor *c);

/* Reads a word and appends what it expands to, none, one or more texts, to `words`. Without `live` nothing is looked
 * up. The cursor stands on neither a blank nor an operator. */
void shell_word(ShellState *s, ShellCursor *c, gboolean live, GPtrArray *words);

/* The same without splitting: what stands behind NAME=, in [[ ]] or in a here-document (`document`: quotes are text,
 * and it goes to the end). */
ShellText *shell_value(ShellState *s, ShellCursor *c, gboolean live, gboolean document);

/* NULL if it is not set. */
const ShellVariable *shell_variable(const ShellState *s, const char *name);

/* Takes the values; with `more` behind those that are there. */
void shell_assign(ShellState *s, const char *name, GPtrArray *values, gboolean array, gboolean more);

/* Copies of the words from `first` on. */
GPtrArray *shell_behind(const GPtrArray *words, guint first);

/* Takes the values for $1, $2 ..., $@, $* and $#; NULL, or more than 1,024 or 64 KiB of them: they are not
 * known. */
void shell_set_arguments(ShellState *s, GPtrArray *values);

/* Without the first ones, as the shell's command. */
void shell_shift(ShellState *s, guint by);

/* What `given` says of a name, NULL if nothing. */
const char *shell_given(const ShellState *s, const char *name);

/* Sets what is given; and notes what of it nobody asked for. */
void shell_take_given(ShellState *s);
void shell_name_idle(const ShellState *s);

/* Length of a variable's name at a text's start, 0 if there is none. */
gsize shell_name_length(const char *text);

/* The value of an expression of whole numbers, in which names are variables; FALSE if it has none. */
gboolean shell_arithmetic(const ShellState *s, const char *expression, gint64 *out);

/* Of the words between [ and ], texts with "(", "!", "-a", "&&" and so on among them. */
gboolean shell_condition(GPtrArray *words);

/* Whether a text stands for what only a run could tell. */
static inline gboolean shell_unknown(const char *text)
{
  return text[0] == '$';
}

#endif
