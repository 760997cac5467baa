#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sort.h"

#define FILES_READ_MOST ((gsize)4 << 30)

/* ---- the data directory ---- */

static gboolean has_folder(const char *directory, const char *name)
{
  g_autofree char *path = g_build_filename(directory, name, NULL);
  return g_file_test(path, G_FILE_TEST_IS_DIR);
}

static gboolean has_data(const char *directory)
{
  return has_folder(directory, "models") && has_folder(directory, "hardware") &&
         has_folder(directory, "plots");
}

static char *home; /* NULL = the program */

void files_set_home(const char *path)
{
  g_free(home);
  home = g_canonicalize_filename(path, NULL);
}

/* The nearest directory above this program that has the data, or has them in share/tdp, or NULL. */
static char *find_above(void)
{
  g_autofree char *directory = home ? g_strdup(home) : g_file_read_link("/proc/self/exe", NULL);
  while (directory && strcmp(directory, "/") != 0) {
    char *parent = g_path_get_dirname(directory);
    g_free(directory);
    directory = parent;
    g_autofree char *installed = g_build_filename(directory, "share", "tdp", NULL);
    if (has_data(directory))
      return g_steal_pointer(&directory);
    if (has_data(installed))
      return g_steal_pointer(&installed);
  }
  return NULL;
}

static char *data_directory(void)
{
  const char *chosen = g_getenv("TDP_DATA");
  if (chosen && *chosen)
    return g_strdup(chosen);
  char *above = find_above();
  return above ? above : g_strdup(TDP_DATADIR);
}

char *files_data_path(const char *below)
{
  g_autofree char *directory = data_directory();
  return g_build_filename(directory, below, NULL);
}

/* ---- finding ---- */

static const char *kind_of(const char *folder)
{
  static const char *const kinds[][2] = {
    {"models", "model"}, {"hardware", "cluster"}, {"plans", "plan"}};
  for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (strcmp(kinds[i][0], folder) == 0)
      return kinds[i][1];
  return "file";
}

/* Behind an error, where all of them are named. */
static const char *listing_of(const char *folder)
{
  gboolean model = strcmp(folder, "models") == 0, cluster = strcmp(folder, "hardware") == 0;

  return model ? "; tdp-plan --list models names all" : cluster ? "; tdp-plan --list clusters names all" : "";
}

/* `path` or `path`.json if one is a regular file, else NULL. */
static char *find_with_suffix(const char *path)
{
  if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
    return g_strdup(path);
  g_autofree char *with_suffix = g_strconcat(path, ".json", NULL);
  return g_file_test(with_suffix, G_FILE_TEST_IS_REGULAR) ? g_steal_pointer(&with_suffix) : NULL;
}

/* Adds the names of the .json files of a directory, without the suffix. */
static void list_names(const char *directory, GPtrArray *names)
{
  g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir)))
    if (g_str_has_suffix(name, ".json") && g_utf8_validate(name, -1, NULL))
      g_ptr_array_add(names, g_strndup(name, strlen(name) - strlen(".json")));
}

char **files_names(const char *below)
{
  g_autofree char *directory = files_data_path(below);
  GPtrArray *names = g_ptr_array_new();

  list_names(directory, names);
  g_ptr_array_sort(names, sort_texts);
  g_ptr_array_add(names, NULL);
  return (char **)g_ptr_array_free(names, FALSE);
}

/* The name of a file in either directory, or of those beside, that may have been meant, or NULL. */
static char *suggestion(const char *name, const char *folder, const char *const *also)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  list_names(folder, names);
  list_names(".", names);
  for (int i = 0; also && also[i]; i++)
    g_ptr_array_add(names, g_strdup(also[i]));
  g_ptr_array_sort(names, sort_texts);
  g_ptr_array_add(names, NULL);
  gboolean suffixed = g_str_has_suffix(name, ".json");
  g_autofree char *stem = g_strndup(name, strlen(name) - (suffixed ? strlen(".json") : 0));
  const char *nearest = names_nearest((const char *const *)names->pdata, stem);
  if (!nearest || !names_near(nearest, stem))
    return NULL;
  return g_strconcat(nearest, suffixed ? ".json" : NULL, NULL);
}

/* "meta-llama/Llama-3.1-8B": a name of a hub, where there is no such folder. */
static gboolean is_hub_name(const char *name)
{
  const char *slash = strchr(name, '/');
  g_autofree char *owner = slash ? g_strndup(name, slash - name) : NULL;

  return owner && g_ascii_isalnum(*owner) && slash[1] && !strchr(slash + 1, '/') && !g_str_has_suffix(name, ".json") &&
         !g_file_test(owner, G_FILE_TEST_EXISTS);
}

char *files_find_beside(const char *name, const char *folder, const char *const *also, GError **error)
{
  g_autofree char *directory = files_data_path(folder);

  if (strcmp(folder, "models") == 0 && is_hub_name(name)) {
    g_autofree char *near = suggestion(strchr(name, '/') + 1, directory, also);
    input_error(error, "%s: no such file, and none is fetched: expected a config.json of that model%s%s%s", name,
                near ? ", or a name as \"" : "", near ? near : "", near ? "\"" : "");
    return NULL;
  }
  if (strchr(name, '/') || strcmp(name, "-") == 0)
    return g_strdup(name);
  char *found = find_with_suffix(name);
  if (found)
    return found;
  g_autofree char *path = g_build_filename(directory, name, NULL);
  found = find_with_suffix(path);
  if (found)
    return found;
  g_autofree char *meant = suggestion(name, directory, also);
  input_error(error, "%s: no such %s (looked in ., %s)%s%s%s%s", *name ? name : "\"\"", kind_of(folder), directory,
              meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "",
              meant ? "" : listing_of(folder));
  return NULL;
}

char *files_find(const char *name, const char *folder, GError **error)
{
  return files_find_beside(name, folder, NULL, error);
}

char *files_shadowed(const char *name, const char *folder)
{
  g_autofree char *own = strchr(name, '/') || g_str_has_suffix(name, ".json") ? NULL : find_with_suffix(name);
  g_autofree char *path = files_data_path(folder), *below = own ? g_build_filename(path, name, NULL) : NULL;
  g_autofree char *ours = below ? find_with_suffix(below) : NULL;
  struct stat a, b;

  if (!ours || stat(own, &a) != 0 || stat(ours, &b) != 0 || (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
    return NULL;
  return g_steal_pointer(&ours);
}

/* ---- reading and writing ---- */

/* Pipes are read, for process substitution, but a file is never waited for that nobody writes. */
static int open_to_read(const char *path)
{
  struct stat info;
  int file = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

  if (file < 0 || fstat(file, &info) != 0)
    return file;
  gboolean readable = S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) ||
                      (S_ISCHR(info.st_mode) && (isatty(file) || info.st_rdev == makedev(1, 3))); /* /dev/null */
  gboolean large = S_ISREG(info.st_mode) && (guint64)info.st_size > FILES_READ_MOST;
  if (readable && !large)
    return file;
  close(file);
  errno = large ? EFBIG : S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  return -1;
}

/* 0, or the errno of what failed: EFBIG beyond FILES_READ_MOST. */
static int read_all(int file, GString *text)
{
  char buffer[1 << 16];

  while (text->len <= FILES_READ_MOST) {
    gssize n = read(file, buffer, sizeof buffer);
    struct pollfd wait = { .fd = file, .events = POLLIN };
    if (n == 0)
      return 0;
    if (n > 0)
      g_string_append_len(text, buffer, n);
    else if (errno == EAGAIN)
      poll(&wait, 1, -1);
    else if (errno != EINTR)
      return errno;
  }
  return EFBIG;
}

static const char *read_failure(int failure)
{
  return failure == EINVAL  ? "expected a file or a pipe, not a device"
         : failure == EFBIG ? "expected at most 4 GiB"
                            : g_strerror(failure);
}

char *files_read(const char *path, gsize *length, GError **error)
{
  GString *text = g_string_new(NULL);
  int file = open_to_read(path), failure = file < 0 ? errno : read_all(file, text);

  if (file >= 0)
    close(file);
  if (failure) {
    input_error(error, "%s: %s", strcmp(path, "-") == 0 ? "stdin" : path, read_failure(failure));
    g_string_free(text, TRUE);
    return NULL;
  }
  *length = text->len;
  return g_string_free(text, FALSE);
}

static gboolean fail_write(const char *path, const char *reason, GError **error)
{
  return runtime_error(error, "%s: cannot write: %s", path, reason);
}

/* Writes to an open stream and flushes it; 0 or the errno of what failed. */
static int write_all(FILE *file, const char *text, gsize length)
{
  errno = 0;
  if (fwrite(text, 1, length, file) != length || fflush(file) != 0 || ferror(file))
    return errno ? errno : EIO;
  return 0;
}

/* Devices and pipes: a rename would replace them by a file. */
static gboolean write_in_place(const char *path, const char *text, gsize length, GError **error)
{
  FILE *file = g_fopen(path, "wbe");
  if (!file)
    return fail_write(path, g_strerror(errno), error);
  int failure = write_all(file, text, length);
  if (fclose(file) != 0 && !failure)
    failure = errno;
  return failure ? fail_write(path, g_strerror(failure), error) : TRUE;
}

/* GLib's message names the temporary file; its last part is the reason. */
static const char *reason_of(const GError *error)
{
  const char *colon = g_strrstr(error->message, ": ");
  return colon ? colon + 2 : error->message;
}

static gboolean write_renamed(const char *path, const char *text, gsize length, GError **error)
{
  char *target = realpath(path, NULL);
  g_autoptr(GError) cause = NULL;
  gboolean written = g_file_set_contents_full(target ? target : path, text, (gssize)length,
                                              G_FILE_SET_CONTENTS_CONSISTENT, 0666, &cause);
  free(target);
  return written ? TRUE : fail_write(path, reason_of(cause), error);
}

gboolean files_write(const char *path, const char *text, gsize length, GError **error)
{
  if (strcmp(path, "-") == 0) {
    int failure = write_all(stdout, text, length);
    return failure ? fail_write("stdout", g_strerror(failure), error) : TRUE;
  }
  gboolean special = g_file_test(path, G_FILE_TEST_EXISTS) &&
                     !g_file_test(path, G_FILE_TEST_IS_REGULAR | G_FILE_TEST_IS_DIR);
  if (special)
    return write_in_place(path, text, length, error);
  return write_renamed(path, text, length, error);
}

/* ---- before writing ---- */

static gboolean may_write(const char *path, const char *shown, GError **error)
{
  return g_access(path, W_OK) == 0 || fail_write(shown, g_strerror(errno), error);
}

gboolean files_check_write(const char *path, GError **error)
{
  g_autofree char *folder = g_path_get_dirname(path);

  if (strcmp(path, "-") == 0)
    return TRUE;
  if (g_file_test(path, G_FILE_TEST_IS_DIR))
    return fail_write(path, g_strerror(EISDIR), error);
  if (!g_file_test(folder, G_FILE_TEST_IS_DIR))
    return fail_write(path, g_strerror(g_file_test(folder, G_FILE_TEST_EXISTS) ? ENOTDIR : ENOENT), error);
  if (g_file_test(path, G_FILE_TEST_EXISTS) && !may_write(path, path, error))
    return FALSE;
  return g_file_test(path, G_FILE_TEST_EXISTS) || may_write(folder, path, error);
}

gboolean files_check_folder(const char *path, GError **error)
{
  g_autofree char *above = g_strdup(path);

  while (!g_file_test(above, G_FILE_TEST_EXISTS)) {
    char *next = g_path_get_dirname(above);
    g_free(above);
    above = next;
  }
  if (!g_file_test(above, G_FILE_TEST_IS_DIR))
    return fail_write(path, g_strerror(ENOTDIR), error);
  return may_write(above, path, error);
}
