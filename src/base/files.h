/*
 * Finding and writing files.
 *
 * Bare names (no slash) are looked up in the working directory, then in
 * models/, hardware/, plans/ of the source tree or of the installed data
 * directory, with or without .json. The data directory is $TDP_DATA if set,
 * else the first directory above the program that holds models/, hardware/ and
 * plots/ (the source tree of a program in build/) or has a share/tdp that does
 * (the prefix of an installed bin/ or lib/, wherever it was moved), else
 * TDP_DATADIR, which is fixed when the program is built.
 * Only regular files are found; a name with a slash is taken as it stands.
 */
#ifndef TDP_BASE_FILES_H
#define TDP_BASE_FILES_H

#include <glib.h>

/* Path of `name` (newly allocated); `folder` is "models", "hardware" or
 * "plans". An error lists where was looked and, if there is one, the file with
 * the nearest name. "-" is returned as it is. */
char *files_find(const char *name, const char *folder, GError **error);

/* The file of ours that one in the working directory stands before under a bare name; newly allocated, NULL = none, or
 * they are one. */
char *files_shadowed(const char *name, const char *folder);

/* The same where names of no file are understood too (NULL-terminated), which may have been meant. */
char *files_find_beside(const char *name, const char *folder, const char *const *also, GError **error);

/* Data are looked for above this file from now on, not above the program: where the project is a library. */
void files_set_home(const char *path);

/* Path below the data directory, for example "plots/timeline.gp"; newly
 * allocated, whether or not it exists. */
char *files_data_path(const char *below);

/* Names of the .json files in a folder below the data directory, without the suffix, sorted; newly allocated. */
char **files_names(const char *below);

/* The whole of a file or pipe, with a NUL behind its `length` bytes; "-" is stdin.
 * NULL and TDP_ERROR_INPUT naming the path if it cannot be read, is a device
 * (but /dev/null and terminals) or holds more than 4 GiB. A pipe that nobody
 * has opened to write is empty. */
char *files_read(const char *path, gsize *length, GError **error);

/* Writes a whole file: to a temporary one beside it, then renamed. "-" is
 * stdout; devices and pipes are written in place. Nothing is left behind on
 * failure; the error (TDP_ERROR_RUNTIME) names the path. */
gboolean files_write(const char *path, const char *text, gsize length, GError **error);

/* Whether files_write() may write a file, or files be made in a folder that is there or can be made, as far as can be
 * told without doing it: for what takes long to find. The error is that of files_write(). */
gboolean files_check_write(const char *path, GError **error);
gboolean files_check_folder(const char *path, GError **error);

#endif
