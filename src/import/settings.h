/*
 * Files of settings, TOML, YAML, JSON and Python's calls, as a flat list of names with their values, each of which knows where in the
 * file it stands. Of YAML and TOML the part is read that training tools write: nested keys, scalars, lists on one line
 * or as items; no anchors, no text over several lines. What is not understood is passed over. Private to this folder.
 */
#ifndef TDP_IMPORT_SETTINGS_H
#define TDP_IMPORT_SETTINGS_H

#include <glib.h>

typedef struct {
  char *path;       /* "parallelism.tensor_parallel_degree"; items of lists as "data_stages.0.name" */
  char *told;       /* the path as it stands, where settings_rename() gave it another; else NULL */
  char *value;      /* without quotes; of a list as it stands */
  int first, end;   /* place of the value as it stands */
  gboolean read;    /* somebody looked it up */
  gboolean bare;    /* of Python: no text in quotes, but a number, a name or what is computed */
} Setting;

typedef struct {
  GPtrArray *list; /* Setting * */
} Settings;

/* Of functions that return settings: paths begin with the function's name. What is computed is as it stands. */
Settings *settings_python(const char *text);

/* Behind the name of a function, paths of what it does that is not read, a setting each with the statement's first word:
 * that it returns under a condition, too; what it calls in statements of their own; and names that it assigns under a
 * condition or from what they were ("a.b *= 2"). What the functions of the file that it starts from do so is there too. */
#define SETTINGS_RETURNS ":returns"
#define SETTINGS_CALLS ":calls"
#define SETTINGS_PASSED ":passed"

/* Where the body of a function stands, and its `return` (-1 = none). */
typedef struct {
  int first, end, returned;
} SettingsBody;

/* The same settings; fills in `body` if there is such a function. */
Settings *settings_python_body(const char *text, const char *function, SettingsBody *body);

/* Behind the whole of a value: of a call a setting has the name alone. */
int settings_python_behind(const char *text, const Setting *one);

/* Where a changed setting of a Python function may stand. */
typedef enum {
  PYTHON_IN_PLACE, /* where it stands in that function, else as what is assigned before it returns */
  PYTHON_LATE,     /* as what is assigned before it returns */
  PYTHON_IN_CALL,  /* where it stands in that function, else as an argument behind the first one of its call */
} SettingsPythonPlace;

/*
 * The text with one setting of a function as it shall be, newly allocated. `path` is without the function's name; `raw`
 * is as Python writes it, `value` what is read of that. NULL where no way changes this of it alone; what other functions
 * take from it may change with it.
 */
char *settings_python_set(const char *text, const char *function, const char *path, const char *raw, const char *value,
                          SettingsPythonPlace place);

Settings *settings_new(void);

/* Adds one that stands there, and takes its value. */
void settings_add(Settings *settings, const char *path, char *value, int first, int end);

/* The same of one that stands where another does, and is as bare. */
void settings_add_as(Settings *settings, const char *path, char *value, const Setting *other);

/*
 * Gives a setting the path of another release of its tool, unless a setting has that path already. Whether there was
 * one to rename.
 */
gboolean settings_rename(Settings *settings, const char *told, const char *path);

/* Where the line begins that `at` is in, and where it ends. */
int settings_line_start(const char *text, int at);
int settings_line_end(const char *text, int at);

Settings *settings_toml(const char *text);
Settings *settings_yaml(const char *text);
Settings *settings_json(const char *text);
void settings_free(Settings *settings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Settings, settings_free)

/* NULL if it is not there, or null. */
const Setting *settings_find(const Settings *settings, const char *path);

/* The last of this path, whatever it says; it does not count as read. NULL if there is none. */
const Setting *settings_last(const Settings *settings, const char *path);

/* Its value, "" where it is not there. */
const char *settings_text(const Settings *settings, const char *path);
gboolean settings_true(const Settings *settings, const char *path, gboolean usual);

/* FALSE and TDP_ERROR_INPUT, "FILE: PATH: TEXT: expected a whole number", with the path as it stands in the file. */
gboolean settings_int(const Settings *settings, const char *file, const char *path, int *out, GError **error);

/* Likewise "expected a number"; what is not finite is none. */
gboolean settings_real(const Settings *settings, const char *file, const char *path, double *out, GError **error);

#endif
