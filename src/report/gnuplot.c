#include "report/gnuplot.h"

#include "base/error.h"
#include "base/files.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GNUPLOT_MOST_S 120
#define TALK "talk.txt" /* what gnuplot complains of */

static const char *const files[] = { "svg", "png", NULL }, *const sixels[] = { "six", NULL };

gboolean picture_init(Picture *p, const char *script, const char *name, GError **error)
{
  g_autoptr(GError) cause = NULL;

  *p = (Picture) { .script = script, .name = name, .folder = g_dir_make_tmp("tdp-plot-XXXXXX", &cause),
                   .variables = g_string_new(NULL) };
  picture_set_text(p, "name", name);
  return p->folder || runtime_error(error, "plots: temporary folder: %s", cause->message);
}

static void remove_folder(const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  const char *name;

  while (dir && (name = g_dir_read_name(dir))) {
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_remove(path);
  }
  g_rmdir(folder);
}

void picture_clear(Picture *p)
{
  if (p->folder)
    remove_folder(p->folder);
  g_clear_pointer(&p->folder, g_free);
  if (p->variables)
    g_string_free(g_steal_pointer(&p->variables), TRUE);
}

/* ---- variables ---- */

/* In single quotes nothing has a meaning but the quote itself, which stands in double ones. */
static void put_quoted(GString *text, const char *value)
{
  g_string_append_c(text, '\'');
  for (const char *c = value; *c; c++)
    if (*c == '\'')
      g_string_append(text, "'.\"'\".'");
    else
      g_string_append_c(text, (guchar)*c < 0x20 ? ' ' : *c);
  g_string_append_c(text, '\'');
}

void picture_set_real(Picture *p, const char *variable, double value)
{
  g_autofree char *number = format_real(value);
  g_string_append_printf(p->variables, "%s = %s\n", variable, number);
}

void picture_set_text(Picture *p, const char *variable, const char *value)
{
  g_string_append_printf(p->variables, "%s = ", variable);
  put_quoted(p->variables, value);
  g_string_append_c(p->variables, '\n');
}

void picture_set_texts(Picture *p, const char *variable, char *const *values, int n)
{
  g_string_append_printf(p->variables, "array %s[%d]\n", variable, n);
  for (int i = 0; i < n; i++) {
    g_autofree char *element = g_strdup_printf("%s[%d]", variable, i + 1);
    picture_set_text(p, element, values[i]);
  }
}

void picture_set_reals(Picture *p, const char *variable, const double *values, int n)
{
  g_string_append_printf(p->variables, "array %s[%d]\n", variable, n);
  for (int i = 0; i < n; i++) {
    g_autofree char *element = g_strdup_printf("%s[%d]", variable, i + 1);
    picture_set_real(p, element, values[i]);
  }
}

gboolean picture_write(Picture *p, const char *file, const GString *data, GError **error)
{
  g_autofree char *path = g_build_filename(p->folder, file, NULL);
  return files_write(path, data->str, data->len, error);
}

/* ---- running ---- */

/* gnuplot repeats the command and points at the fault; the last line says what it is. */
static char *last_line(char *text)
{
  char *line = strrchr(text, '\n');
  return line ? line + 1 : text;
}

/* In gnuplot's process: an alarm ends it that nobody waits for. What it says goes to a file, as a pipe would stay open
 * for as long as a process that it left behind. */
static void enter_gnuplot(gpointer data)
{
  dup2(*(int *)data, STDERR_FILENO);
  signal(SIGALRM, SIG_DFL);
  alarm(GNUPLOT_MOST_S);
}

static char *failure_of(const Picture *p, int status)
{
  g_autofree char *path = g_build_filename(p->folder, TALK, NULL), *talk = NULL;

  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return g_strdup_printf("took more than %d s", GNUPLOT_MOST_S);
  if (WIFSIGNALED(status))
    return g_strdup_printf("ended by signal %d", WTERMSIG(status));
  if (g_file_get_contents(path, &talk, NULL, NULL) && *g_strchomp(talk))
    return g_utf8_make_valid(last_line(talk), -1);
  return g_strdup_printf("ended with status %d", WEXITSTATUS(status));
}

static gboolean run(const Picture *p, const char *script, GError **error)
{
  char *words[] = { "gnuplot", "-d", "variables.gp", (char *)script, NULL };
  g_autofree char *path = g_build_filename(p->folder, TALK, NULL);
  g_autoptr(GError) cause = NULL;
  int status = 0, talk = g_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (talk < 0)
    return runtime_error(error, "plots: %s: cannot write: %s", path, g_strerror(errno));
  gboolean ran = g_spawn_sync(p->folder, words, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL, enter_gnuplot,
                              &talk, NULL, NULL, &status, &cause);

  close(talk);
  if (!ran) {
    gboolean missing = g_error_matches(cause, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT);
    return runtime_error(error, "plots: %s",
                         missing ? "gnuplot is not installed (Debian: gnuplot-nox)" : cause->message);
  }
  if (!g_spawn_check_wait_status(status, NULL)) {
    g_autofree char *failure = failure_of(p, status);
    return runtime_error(error, "plots: gnuplot failed: %s", failure);
  }
  return TRUE;
}

static gboolean move_picture(const Picture *p, const char *format, const char *folder, GError **error)
{
  g_autofree char *file = g_strdup_printf("%s.%s", p->name, format);
  g_autofree char *from = g_build_filename(p->folder, file, NULL), *to = g_build_filename(folder, file, NULL);
  g_autofree char *content = NULL;
  g_autoptr(GError) cause = NULL;
  gsize length;

  if (g_file_get_contents(from, &content, &length, &cause) && length > 0)
    return files_write(to, content, length, error);
  return runtime_error(error, "plots: gnuplot drew no %s", file);
}

gboolean picture_draw(Picture *p, const PicturesTo *to, GError **error)
{
  const char *const *formats = to->pixels > 0 ? sixels : files;
  g_autofree char *words = g_strjoinv(" ", (char **)formats);

  g_autofree char *below = g_strdup_printf("plots/%s.gp", p->script);
  g_autofree char *path = files_data_path(below), *script = g_canonicalize_filename(path, NULL);

  if (!g_file_test(script, G_FILE_TEST_IS_REGULAR))
    return runtime_error(error, "plots: %s: expected gnuplot's script", script);
  picture_set_text(p, "formats", words);
  picture_set_real(p, "pixels", to->pixels);
  if (!picture_write(p, "variables.gp", p->variables, error) || !run(p, script, error))
    return FALSE;
  for (int i = 0; formats[i]; i++)
    if (!move_picture(p, formats[i], to->folder, error))
      return FALSE;
  return TRUE;
}
