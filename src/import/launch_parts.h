/* What readers of launches share. Private to this folder. */
#ifndef TDP_IMPORT_LAUNCH_PARTS_H
#define TDP_IMPORT_LAUNCH_PARTS_H

#include "import/arguments.h"
#include "import/launch.h"

/* Where a reading goes to, whatever the text is of. */
typedef struct {
  const char *file; /* for messages */
  Launch *out;
  GError **error;   /* the first */
  gboolean failed;
} LaunchReading;

/* FALSE, and the error "FILE: ..." unless there is one. */
gboolean launch_fail(LaunchReading *r, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Takes a line for granted: where no option says it, or where one does, which the line does not name. */
void launch_assume(LaunchReading *r, const char *format, ...) G_GNUC_PRINTF(2, 3);
void launch_assume_open(LaunchReading *r, const char *option, const char *format, ...) G_GNUC_PRINTF(3, 4);
void launch_assume_gpus(LaunchReading *r, int gpus); /* of a file that does not say how many */

Launch *launch_new(void);

/* The last value of a variable or argument of LaunchOptions.given; NULL if it is not given. */
const char *launch_variable(const char *const *given, const char *name);

/* Arguments or settings that neither model nor plan are read from, by what they are about. */
typedef struct {
  gboolean matters;         /* time or memory may feel them */
  const char *about;
  const char *patterns[80]; /* of fnmatch, ending with NULL, the first that fits counts; behind "!" what it has not */
} SettingGroup;

/* Appends "about: a, b" to out's ignored or not_simulated for each group, and what is of none to its unknown ones; of
 * names (char *) that nobody looked up. `spelled` returns one as it is shown, newly allocated; NULL = as it stands. The last
 * group is empty. */
void launch_name_groups(const SettingGroup *groups, const GPtrArray *names, char *(*spelled)(const char *name),
                        Launch *out);

/* The script as its scheduler would start it; `name` and `given` as in launch_read(). */
ShellScript *launch_script(const char *text, const char *name, const char *const *given);

/* The last of the commands with most of the arguments that tell a model or plan; NULL if none has. */
Arguments *launch_command(const ShellScript *script);

#endif
