/* Files of other tools, of tests/data/launch. */
#ifndef TDP_TESTS_LAUNCH_SAMPLE_H
#define TDP_TESTS_LAUNCH_SAMPLE_H

#include "base/files.h"
#include "import/launch.h"
#include "main.h"

/* The text of one; the caller frees it. */
static inline char *launch_sample(const char *name)
{
  g_autofree char *below = g_strdup_printf("tests/data/launch/%s", name), *path = files_data_path(below);
  char *text = NULL;

  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  return text;
}

/* One as it is read on so many GPUs; 0 = as it says. */
static inline Launch *launch_of_sample(const char *name, int gpus)
{
  g_autofree char *text = launch_sample(name);
  g_autoptr(GError) error = NULL;

  ck_assert(launch_recognises(text));
  Launch *l = launch_read(text, name, &(LaunchOptions) { gpus }, &error);
  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  return l;
}

/* A text is none that can be read on so many GPUs, for a reason that begins so behind the file's name. */
static inline void launch_is_refused(const char *text, const char *name, int gpus, const char *reason)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(text, name, &(LaunchOptions) { gpus }, &error);
  g_autofree char *expected = g_strconcat(name, ": ", reason, NULL);

  ck_assert_msg(l == NULL, "%s", text);
  ck_assert_msg(g_str_has_prefix(error->message, expected), "%s", error->message);
}

#endif
