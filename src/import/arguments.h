/* Arguments of a command by name, from a command line or from the list that a log begins with. Private to this
 * folder. */
#ifndef TDP_IMPORT_ARGUMENTS_H
#define TDP_IMPORT_ARGUMENTS_H

#include "import/shell.h"

typedef struct {
  char *name;        /* without dashes, words joined by "_" */
  ShellText *word;   /* "--name" as it stands */
  ShellText *joined; /* the value of "--name=value", else NULL */
  GPtrArray *values; /* ShellText * */
  gboolean read;     /* somebody looked it up: what nobody does has to be explained */
} Argument;

typedef struct {
  GPtrArray *launcher;  /* Argument *, of what starts the program */
  GPtrArray *arguments; /* Argument *, of the program, in order */
  char *command;        /* the first word */
  char *program;        /* "pretrain_gpt.py"; NULL = not told */
  GPtrArray *open;      /* char *: "$NAME", words behind a value that nothing in the script sets: taken for none */
  gboolean listed;      /* from a log: all that the tool has, with their defaults */
} Arguments;

/* How to say what a script asks whoever starts it. */
#define ARGUMENTS_SAY "give --script-args"

Arguments *arguments_of_command(const ShellCommand *command);

/* Of a line of commands, those of the last. */
Arguments *arguments_of_line(const char *line);

/* From lines "  name ...... value" of a log; NULL if there are none. */
Arguments *arguments_of_log(const char *text);
void arguments_free(Arguments *arguments);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arguments, arguments_free)

/* The last one of the name, which counts as read; NULL where it is not there, or a log says None or False. */
const Argument *argument_find(const GPtrArray *arguments, const char *name);

/* "--seq-length" of the name seq_length, newly allocated. */
char *argument_flag(const char *name);

/* Its values with blanks between them, newly allocated. */
char *argument_text(const Argument *argument);

/* Numbers that are there: FALSE and TDP_ERROR_INPUT, "FILE: --name: TEXT: expected ...", where it is something else. */
gboolean argument_int(const GPtrArray *arguments, const char *file, const char *name, int *out, GError **error);
gboolean argument_real(const GPtrArray *arguments, const char *file, const char *name, double *out, GError **error);

#endif
