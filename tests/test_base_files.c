#include "main.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

/* Each test runs in a directory of its own below which data/ is $TDP_DATA. */
static char *enter_directory(void)
{
  char *directory = test_directory();
  ck_assert_int_eq(g_chdir(directory), 0);
  g_autofree char *data = g_build_filename(directory, "data", NULL);
  g_autofree char *models = g_build_filename(data, "models", NULL);
  ck_assert_int_eq(g_mkdir_with_parents(models, 0777), 0);
  g_setenv("TDP_DATA", data, TRUE);
  return directory;
}

static void leave_directory(const char *directory)
{
  ck_assert_int_eq(g_chdir("/"), 0);
  const char *argv[] = {"rm", "-rf", directory, NULL};
  g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL);
}

static void put(const char *path)
{
  ck_assert(g_file_set_contents(path, "x", -1, NULL));
}

static void finds(const char *name, const char *path)
{
  GError *error = NULL;
  char *found = files_find(name, "models", &error);
  ck_assert_msg(found != NULL, "%s", error ? error->message : "");
  test_text(found, path);
}

static void misses(const char *name, const char *folder, const char *format)
{
  GError *error = NULL;
  g_autofree char *directory = files_data_path(folder);
  GString *message = g_string_new(format);
  g_string_replace(message, "DIR", directory, 0);
  g_autofree char *wanted = g_string_free(message, FALSE);
  ck_assert_ptr_null(files_find(name, folder, &error));
  test_error(&error, TDP_ERROR_INPUT, wanted);
}

START_TEST(order_of_lookup)
{
  g_autofree char *directory = enter_directory();
  g_autofree char *models = files_data_path("models");
  g_autofree char *with_suffix = g_build_filename(models, "gpt.json", NULL);
  g_autofree char *exact = g_build_filename(models, "gpt", NULL);
  put(with_suffix);
  finds("gpt", with_suffix);
  finds("gpt.json", with_suffix);
  put(exact);
  finds("gpt", exact);
  put("gpt.json");
  finds("gpt", "gpt.json");
  finds("gpt.json", "gpt.json");
  put("gpt");
  finds("gpt", "gpt");
  leave_directory(directory);
}
END_TEST

START_TEST(paths_are_taken_as_they_stand)
{
  g_autofree char *directory = enter_directory();
  finds("-", "-");
  finds("./nowhere", "./nowhere");
  finds("a/b.json", "a/b.json");
  leave_directory(directory);
}
END_TEST

START_TEST(directories_do_not_count)
{
  g_autofree char *directory = enter_directory();
  g_autofree char *path = files_data_path("models/gpt.json");
  ck_assert_int_eq(g_mkdir("gpt", 0777), 0);
  ck_assert_int_eq(g_mkdir("gpt.json", 0777), 0);
  put(path);
  finds("gpt", path);
  leave_directory(directory);
}
END_TEST

START_TEST(missing_files)
{
  g_autofree char *directory = enter_directory();
  g_autofree char *path = files_data_path("models/gpt3.json");
  misses("gpt", "models", "gpt: no such model (looked in ., DIR); tdp-plan --list models names all");
  put(path);
  misses("gtp3", "models", "gtp3: no such model (looked in ., DIR); did you mean \"gpt3\"?");
  misses("gpt33.json", "models",
         "gpt33.json: no such model (looked in ., DIR); did you mean \"gpt3.json\"?");
  misses("mixtral", "models", "mixtral: no such model (looked in ., DIR); tdp-plan --list models names all");
  misses("", "models", "\"\": no such model (looked in ., DIR); tdp-plan --list models names all");
  misses("openai/GPT-3", "models",
         "openai/GPT-3: no such file, and none is fetched: expected a config.json of that model, or a name as \"gpt3\"");
  put("mixtral-8x7b.json");
  misses("mixtral", "models",
         "mixtral: no such model (looked in ., DIR); did you mean \"mixtral-8x7b\"?");
  misses("dgx", "hardware", "dgx: no such cluster (looked in ., DIR); tdp-plan --list clusters names all");
  misses("best", "plans", "best: no such plan (looked in ., DIR)");
  leave_directory(directory);
}
END_TEST

START_TEST(data_directory)
{
  g_setenv("TDP_DATA", "/some/where", TRUE);
  test_text(files_data_path("plots/x.gp"), "/some/where/plots/x.gp");
  g_setenv("TDP_DATA", "", TRUE);
  g_autofree char *header = files_data_path("src/base/files.h");
  ck_assert_msg(g_file_test(header, G_FILE_TEST_IS_REGULAR), "%s", header);
  g_unsetenv("TDP_DATA");
  test_text(files_data_path("src/base/files.h"), header);
}
END_TEST

/* What a copy of this program in DIRECTORY/bin says of its data. */
static char *said_by_copy(const char *directory)
{
  g_autofree char *program = g_file_read_link("/proc/self/exe", NULL), *bytes = NULL;
  g_autofree char *copy = g_build_filename(directory, "bin", "copy", NULL);
  const char *argv[] = {copy, "--data", NULL};
  char *out = NULL;
  gsize length;
  ck_assert(g_mkdir_with_parents("bin", 0777) == 0);
  ck_assert(g_file_get_contents(program, &bytes, &length, NULL));
  ck_assert(g_file_set_contents_full(copy, bytes, length, G_FILE_SET_CONTENTS_NONE, 0777, NULL));
  ck_assert(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &out, NULL, NULL, NULL));
  return out;
}

/* A copy of the program outside of the source tree finds data beside its folder, else those of the build. */
START_TEST(data_directory_of_an_installed_program)
{
  g_autofree char *directory = enter_directory(), *real = g_canonicalize_filename(".", NULL);
  g_autofree char *beside = g_build_filename(real, "share", "tdp", "models\n", NULL);
  g_unsetenv("TDP_DATA");
  test_text(said_by_copy(real), TDP_DATADIR "/models\n");
  ck_assert(g_mkdir_with_parents("share/tdp/models", 0777) == 0);
  ck_assert(g_mkdir_with_parents("share/tdp/hardware", 0777) == 0);
  test_text(said_by_copy(real), TDP_DATADIR "/models\n"); /* not whole */
  ck_assert(g_mkdir_with_parents("share/tdp/plots", 0777) == 0);
  test_text(said_by_copy(real), beside);
  leave_directory(directory);
}
END_TEST

START_TEST(reading)
{
  g_autofree char *directory = enter_directory();
  GError *error = NULL;
  gsize length = 0;
  ck_assert(g_file_set_contents("f", "a\0b", 3, NULL));
  g_autofree char *text = files_read("f", &length, &error);
  ck_assert_ptr_nonnull(text);
  ck_assert_int_eq(length, 3);
  ck_assert_mem_eq(text, "a\0b", 4);
  ck_assert_ptr_null(files_read("gone", &length, &error));
  test_error(&error, TDP_ERROR_INPUT, "gone: No such file or directory");
  ck_assert_ptr_null(files_read(".", &length, &error));
  test_error(&error, TDP_ERROR_INPUT, ".: Is a directory");
  ck_assert_ptr_nonnull(freopen("f", "r", stdin));
  g_autofree char *piped = files_read("-", &length, &error);
  ck_assert_mem_eq(piped, "a\0b", 4);
  leave_directory(directory);
}
END_TEST

static void holds(const char *path, const char *expected)
{
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  ck_assert_str_eq(text, expected);
}

static int count_entries(const char *directory)
{
  g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);
  int count = 0;
  while (g_dir_read_name(dir))
    count++;
  return count;
}

START_TEST(writing)
{
  g_autofree char *directory = enter_directory();
  GError *error = NULL;
  struct stat status;
  umask(022);
  ck_assert(files_write("out", "first", 5, &error));
  holds("out", "first");
  ck_assert_int_eq(stat("out", &status), 0);
  ck_assert_int_eq(status.st_mode & 0777, 0644);
  ck_assert(files_write("out", "2nd and more", 3, &error));
  holds("out", "2nd");
  ck_assert(files_write("empty", "", 0, &error));
  holds("empty", "");
  ck_assert_int_eq(count_entries("."), 3);
  leave_directory(directory);
}
END_TEST

START_TEST(writing_through_a_link_keeps_it)
{
  g_autofree char *directory = enter_directory();
  put("target");
  ck_assert_int_eq(symlink("target", "link"), 0);
  ck_assert(files_write("link", "new", 3, NULL));
  holds("target", "new");
  ck_assert(g_file_test("link", G_FILE_TEST_IS_SYMLINK));
  leave_directory(directory);
}
END_TEST

START_TEST(writing_fails_cleanly)
{
  g_autofree char *directory = enter_directory();
  GError *error = NULL;
  ck_assert(!files_write("no/where", "x", 1, &error));
  test_error(&error, TDP_ERROR_RUNTIME, "no/where: cannot write: No such file or directory");
  ck_assert_int_eq(g_mkdir("folder", 0777), 0);
  ck_assert(!files_write("folder", "x", 1, &error));
  test_error(&error, TDP_ERROR_RUNTIME, "folder: cannot write: Is a directory");
  ck_assert_int_eq(count_entries("."), 2);
  ck_assert(!files_write("/dev/full", "x", 1, &error));
  test_error(&error, TDP_ERROR_RUNTIME, "/dev/full: cannot write: No space left on device");
  leave_directory(directory);
}
END_TEST

/* A rename onto /dev/null, as root, would replace it for the whole machine. */
START_TEST(devices_stay_devices)
{
  g_autofree char *directory = enter_directory();
  struct stat before, after;
  ck_assert_int_eq(mkfifo("fifo", 0666), 0);
  int reader = g_open("fifo", O_RDWR, 0);
  char got[4] = "";
  ck_assert(files_write("fifo", "abc", 3, NULL));
  ck_assert_int_eq(read(reader, got, 3), 3);
  ck_assert_str_eq(got, "abc");
  ck_assert_int_eq(stat("fifo", &before), 0);
  ck_assert(S_ISFIFO(before.st_mode));
  ck_assert_int_eq(stat("/dev/null", &before), 0);
  ck_assert(files_write("/dev/null", "x", 1, NULL));
  ck_assert_int_eq(stat("/dev/null", &after), 0);
  ck_assert(S_ISCHR(after.st_mode) && before.st_ino == after.st_ino);
  close(reader);
  leave_directory(directory);
}
END_TEST

/* Told by its size, before a byte of it is read. */
START_TEST(files_have_a_largest_size)
{
  g_autofree char *directory = enter_directory();
  GError *error = NULL;
  gsize length;

  ck_assert(files_write("enormous", "x", 1, NULL));
  ck_assert_int_eq(truncate("enormous", ((off_t)4 << 30) + 1), 0);
  ck_assert_ptr_null(files_read("enormous", &length, &error));
  test_error(&error, TDP_ERROR_INPUT, "enormous: expected at most 4 GiB");
  leave_directory(directory);
}
END_TEST

START_TEST(standard_output)
{
  g_autofree char *directory = enter_directory();
  GError *error = NULL;
  int own = dup(STDOUT_FILENO); /* on which the results of the file's tests are told */
  ck_assert_ptr_nonnull(freopen("captured", "w", stdout));
  ck_assert(files_write("-", "text\n", 5, &error));
  holds("captured", "text\n");
  ck_assert_ptr_nonnull(freopen("/dev/full", "w", stdout));
  ck_assert(!files_write("-", "text\n", 5, &error));
  test_error(&error, TDP_ERROR_RUNTIME, "stdout: cannot write: No space left on device");
  ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
  ck_assert_int_eq(dup2(own, STDOUT_FILENO), STDOUT_FILENO);
  close(own);
  leave_directory(directory);
}
END_TEST

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "--data") == 0) {
    g_autofree char *path = files_data_path("models");
    puts(path);
    return EXIT_SUCCESS;
  }
  const TestLoop tests[] = {{ order_of_lookup, 0 },
                            { paths_are_taken_as_they_stand, 0 },
                            { directories_do_not_count, 0 },
                            { missing_files, 0 },
                            { data_directory, 0 },
                            { data_directory_of_an_installed_program, 0 },
                            { reading, 0 },
                            { writing, 0 },
                            { writing_through_a_link_keeps_it, 0 },
                            { writing_fails_cleanly, 0 },
                            { devices_stay_devices, 0 },
                            { files_have_a_largest_size, 0 },
                            { standard_output, 0 }};
  return test_main("files", tests, G_N_ELEMENTS(tests));
}
