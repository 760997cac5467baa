#include "base/files.h"
#include "main.h"
#include "search/candidates.h"
#include "search/fingerprint.h"
#include "search_instance.h"

#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A state on disk belongs to one question: whatever a simulation may read of the files of framework, cluster and model
 * is changed value by value, and its lines are spoilt.
 */

/* ---- changed files ---- */

/* Changes the n-th value below an item, counted from 0; what is left of n, -1 once it is done. */
static int change(cJSON *item, int n)
{
  if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
    for (cJSON *child = item->child; child && n >= 0; child = child->next)
      n = change(child, n);
    return n;
  }
  if (n > 0)
    return n - 1;
  if (cJSON_IsNumber(item)) {
    cJSON_SetNumberValue(item, item->valuedouble == 0 ? 1 : item->valuedouble == 1 ? 2 : item->valuedouble * 0.96875);
  } else if (cJSON_IsBool(item) || cJSON_IsNull(item)) {
    item->type = cJSON_IsTrue(item) ? cJSON_False : cJSON_True;
  } else if (cJSON_IsString(item)) {
    g_autofree char *other = g_strconcat(item->valuestring, "x", NULL);
    cJSON_SetValuestring(item, other);
  }
  return -1;
}

/* A file anew: to take an old one's place, GLib waits for the disk, thousands of times. */
static void write_file(const char *path, const cJSON *root)
{
  char *text = cJSON_Print(root);

  remove(path);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  cJSON_free(text);
}

static cJSON *read_json(const char *path)
{
  g_autofree char *text = NULL;

  ck_assert_msg(g_file_get_contents(path, &text, NULL, NULL), "%s", path);
  cJSON *root = cJSON_Parse(text);
  ck_assert_ptr_nonnull(root);
  return root;
}

/* Turns the keys of every object round: the same file in another order. */
static void turn_keys(cJSON *item)
{
  g_autoptr(GPtrArray) children = g_ptr_array_new();

  for (cJSON *child = item->child; child; child = child->next)
    turn_keys(child);
  while (cJSON_IsObject(item) && item->child)
    g_ptr_array_add(children, cJSON_DetachItemViaPointer(item, item->child));
  for (guint i = children->len; i-- > 0;) {
    cJSON *child = children->pdata[i];
    cJSON_AddItemToObject(item, child->string, child);
  }
}

/* What one loads by the name; digest[0] is 0 where the file is refused. */
typedef void (*Digest)(const char *name, char digest[JSON_DIGEST_CHARS]);

/* Each value of the file in turn: refused when it is loaded, or told apart. Returns how many were told apart. */
static int check_file(const char *path, const char *name, Digest digest_of)
{
  cJSON *root = read_json(path);
  char usual[JSON_DIGEST_CHARS], turned[JSON_DIGEST_CHARS], other[JSON_DIGEST_CHARS];
  int told = 0, left = -1;

  digest_of(name, usual);
  ck_assert_msg(usual[0], "%s is not loaded", name);
  for (int n = 0; left < 0; n += test_stride()) {
    cJSON *changed = cJSON_Duplicate(root, TRUE);
    left = change(changed, n);
    if (left < 0) {
      write_file(path, changed);
      digest_of(name, other);
      told += other[0] != 0;
      ck_assert_msg(strcmp(usual, other) != 0, "%s: value %d was changed, and is not told apart", path, n);
    }
    cJSON_Delete(changed);
  }
  turn_keys(root);
  write_file(path, root);
  digest_of(name, turned);
  ck_assert_str_eq(usual, turned);
  cJSON_Delete(root);
  return told;
}

static void digest_of_framework(const char *name, char digest[JSON_DIGEST_CHARS])
{
  g_autoptr(Framework) framework = framework_load(name, NULL);
  g_strlcpy(digest, framework ? framework->digest : "", JSON_DIGEST_CHARS);
}

static void digest_of_cluster(const char *name, char digest[JSON_DIGEST_CHARS])
{
  g_autoptr(Cluster) cluster = cluster_load(name, NULL);
  g_strlcpy(digest, cluster ? cluster->digest : "", JSON_DIGEST_CHARS);
}

static void digest_of_model(const char *name, char digest[JSON_DIGEST_CHARS])
{
  g_autoptr(Model) model = model_load(name, NULL);
  g_strlcpy(digest, model ? model->digest : "", JSON_DIGEST_CHARS);
}

/* A copy of the folders that files name each other in, which files are looked for in from now on. */
static char *copy_data(void)
{
  static const char *const folders[] = { "hardware", "plans/frameworks", "models" };
  char *data = test_directory();

  for (gsize i = 0; i < G_N_ELEMENTS(folders); i++) {
    g_autofree char *from = files_data_path(folders[i]), *to = g_build_filename(data, folders[i], NULL);
    g_autofree char *parent = g_path_get_dirname(to);
    g_autofree char *command = g_strdup_printf("mkdir -p '%s' && cp -R '%s' '%s'", parent, from, to);
    ck_assert_int_eq(system(command), 0);
  }
  ck_assert(g_setenv("TDP_DATA", data, TRUE));
  return data;
}

static void remove_data(char *data)
{
  g_autofree char *command = g_strdup_printf("rm -r '%s'", data);

  ck_assert_int_eq(system(command), 0);
  g_unsetenv("TDP_DATA");
  g_free(data);
}

START_TEST(framework_files_are_told_apart)
{
  char *data = copy_data();
  g_autofree char *folder = g_build_filename(data, "plans/frameworks", NULL);
  GDir *dir = g_dir_open(folder, 0, NULL);
  int told = 0, files = 0, asked = 0;

  for (const char *file = g_dir_read_name(dir); file; file = g_dir_read_name(dir), files++) {
    if (files % test_stride() > 0)
      continue;
    g_autofree char *path = g_build_filename(folder, file, NULL);
    asked++;
    told += check_file(path, path, digest_of_framework);
  }
  g_dir_close(dir);
  ck_assert_int_ge(files, 30);
  ck_assert_int_gt(told, 20 / test_stride() * asked); /* a few files may be short ones */
  g_autofree char *base = g_build_filename(folder, "megatron-core.json", NULL);
  ck_assert_int_gt(check_file(base, "megatron-core-2026", digest_of_framework), 90 / test_stride()); /* which starts from it */
  remove_data(data);
}
END_TEST

START_TEST(hardware_files_are_told_apart)
{
  static const char *const files[] = { "dgx-h100.json", "servers/dgx-h100.json", "gpus/h100-sxm5-80gb.json",
                                       "kernels/h100.json", "links/nvlink4-switch.json", "links/infiniband-ndr.json",
                                       "libraries/nccl.json" };
  char *data = copy_data();

  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *path = g_build_filename(data, "hardware", files[i], NULL);
    if (g_file_test(path, G_FILE_TEST_EXISTS))
      ck_assert_int_gt(check_file(path, "dgx-h100", digest_of_cluster), 0);
    else
      ck_abort_msg("no %s", path);
  }
  g_autofree char *type = g_build_filename(data, "hardware/gpus/v100-sxm2-32gb.json", NULL);
  ck_assert_int_gt(check_file(type, "a100-v100-mixed", digest_of_cluster), 0);
  remove_data(data);
}
END_TEST

START_TEST(model_files_are_told_apart)
{
  char *data = copy_data();
  g_autofree char *native = g_build_filename(data, "models/gpt3.json", NULL);
  g_autofree char *theirs = g_build_filename(data, "models/llama-3.1-8b.json", NULL);

  ck_assert_int_gt(check_file(native, native, digest_of_model), 4 / test_stride());
  ck_assert_int_gt(check_file(theirs, theirs, digest_of_model), 4 / test_stride());
  remove_data(data);
}
END_TEST

/* ---- questions ---- */

static char *fingerprint_of(const Instance *in)
{
  g_autoptr(GArray) none = g_array_new(FALSE, FALSE, sizeof(Candidate));
  return search_fingerprint(in->model, in->cluster, &in->options, none);
}

static void check_other(const Instance *in, const char *usual, const char *what)
{
  g_autofree char *other = fingerprint_of(in);
  ck_assert_msg(strcmp(usual, other) != 0, "%s is not told apart", what);
}

/* Keys that --fix takes, as its own message lists them. */
static GStrv fixable(void)
{
  static const char begin[] = "expected one of the keys ";
  g_autoptr(GError) error = NULL;
  Fixed f = fixed_none();

  ck_assert(!fixed_parse("--fix", "no such=1", &f, &error));
  const char *list = strstr(error->message, begin);
  ck_assert_ptr_nonnull(list);
  return g_strsplit(list + strlen(begin), ", ", -1);
}

static void fix_any(const char *key, Fixed *out)
{
  static const char *const values[] = { "1", "2", "full:any", "full", "allgather", "tp-pp-dp", "muon", "gpipe", "a2a", NULL };

  for (int i = 0; values[i]; i++) {
    g_autofree char *text = g_strdup_printf("%s=%s", key, values[i]);
    *out = fixed_none();
    if (fixed_parse("--fix", text, out, NULL))
      return;
  }
  ck_abort_msg("no value for %s", key);
}

/* Another value of each key of one number or name of the plan that all start from. */
static void check_base(Instance *in, const char *usual)
{
  const Plan base = in->base;

  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    gpointer slot = G_STRUCT_MEMBER_P(&in->base, key->field.offset);
    if (key->field.type == JSON_ANY || key->field.offset >= sizeof(Plan))
      continue;
    if (key->field.type == JSON_REAL)
      *(double *)slot += 1;
    else if (key->field.type == JSON_INT)
      *(int *)slot += 1;
    else
      *(int *)slot = !*(int *)slot;
    check_other(in, usual, key->field.key);
    in->base = base;
  }
}

START_TEST(questions_are_told_apart)
{
  GRand *rand = g_rand_new_with_seed(1);
  g_auto(GStrv) keys = fixable();
  Instance in;

  instance_small_init(&in, rand);
  g_autofree char *usual = fingerprint_of(&in), *again = fingerprint_of(&in);
  ck_assert_str_eq(usual, again);
  for (int i = 0; keys[i]; i++) {
    fix_any(keys[i], &in.options.fixed);
    check_other(&in, usual, keys[i]);
  }
  ck_assert_uint_ge(g_strv_length(keys), 19);
  in.options.fixed = fixed_none();
  check_base(&in, usual);
  in.options.fixed = fixed_none();
  in.options.space = SPACE_STATES;
  check_other(&in, usual, "space");
  in.options.space = 0;
  in.options.objective = &objectives[1];
  check_other(&in, usual, "objective");
  in.options.objective = NULL;
  in.model->digest[0] ^= 1;
  check_other(&in, usual, "model");
  in.model->digest[0] ^= 1;
  in.framework->digest[0] ^= 1;
  check_other(&in, usual, "framework");
  in.framework->digest[0] ^= 1;
  in.cluster->digest[0] ^= 1;
  check_other(&in, usual, "cluster");
  in.cluster->digest[0] ^= 1;
  in.cluster->usd_per_device_hour += 1;
  check_other(&in, usual, "price");
  in.cluster->usd_per_device_hour -= 1;
  in.cluster->memory_margin = 0.05;
  check_other(&in, usual, "margin");
  in.cluster->memory_margin = 0;
  in.base.global_batch *= 2;
  check_other(&in, usual, "batch");
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* ---- lines ---- */

static void check_refused(Instance *in, const char *path, const char *text, const char *expected)
{
  GError *error = NULL;
  g_autofree char *left = NULL, *message = g_strdup_printf("--state: %s: %s", path, expected);

  ck_assert(g_file_set_contents(path, text, -1, NULL));
  ck_assert_ptr_null(search(in->model, in->cluster, &in->options, &error));
  test_error(&error, 2, message);
  ck_assert(g_file_get_contents(path, &left, NULL, NULL));
  ck_assert_str_eq(left, text);
}

/* The same state with another third line. */
static char *with_line(const char *text, const char *line)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

  ck_assert_uint_gt(g_strv_length(lines), 4);
  g_free(lines[2]);
  lines[2] = g_strdup(line);
  return g_strjoinv("\n", lines);
}

START_TEST(spoilt_lines_are_refused)
{
  static const struct {
    const char *values, *expected; /* behind the plan's number */
  } spoilt[] = {
    { "-1 1e9 0 0 0", "line 3: expected values from 0 on" },
    { "nan 1e9 0 0 0", "line 3: expected values from 0 on" },
    { "inf 1e9 0 0 0", "line 3: expected finite times and bytes" },
    { "1 nan 0 0 0", "line 3: expected values from 0 on" },
    { "1 inf 0 0 0", "line 3: expected finite times and bytes" },
    { "1 1e9 -1 0 0", "line 3: expected values from 0 on" },
    { "1 1e9 nan 0 0", "line 3: expected values from 0 on" },
    { "1 1e9 0 -1 0", "line 3: expected values from 0 on" },
    { "1 1e9 0 inf 0", "line 3: expected finite times and bytes" },
    { "1 1e9 0 0 inf", "line 3: expected finite times and bytes" },
    { "1e-9 1e9 0 0 0", "line 3: expected a step that takes no less than its bound" },
    { "1 1e9 0 0", "line 3: expected a plan's number and five values" },
    { "1 1e9 0 0 0 0", "line 3: expected a plan's number and five values" },
    { "1 1e9 0 0 0x", "line 3: expected values from 0 on" },
    { "1 1e9  0 0", "line 3: expected values from 0 on" },
  };
  char *folder = test_directory();
  g_autofree char *path = g_build_filename(folder, "state", NULL), *text = NULL;
  GRand *rand = g_rand_new_with_seed(77);
  Instance in;

  instance_init(&in, rand);
  in.cluster->device.memory_bytes = 4e9;
  in.options.top = 20;
  in.options.state = path;
  g_autoptr(SearchResult) whole = search(in.model, in.cluster, &in.options, NULL);
  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  g_auto(GStrv) third = g_strsplit(lines[2], " ", 2);
  for (gsize i = 0; i < G_N_ELEMENTS(spoilt); i++) {
    g_autofree char *line = g_strdup_printf("%s %s", third[0], spoilt[i].values), *other = with_line(text, line);
    check_refused(&in, path, other, spoilt[i].expected);
  }
  g_autofree char *unknown = g_strdup_printf("%" G_GINT64_FORMAT " %s", whole->space, third[1]);
  g_autofree char *below = g_strdup_printf("-1 %s", third[1]);
  g_autofree char *other = with_line(text, unknown), *negative = with_line(text, below);
  g_autofree char *twice = with_line(text, lines[1]);
  check_refused(&in, path, other, "line 3: expected a plan that the search may simulate");
  check_refused(&in, path, negative, "line 3: expected a plan's number and five values");
  check_refused(&in, path, twice, "line 3: expected each plan once");
  check_refused(&in, path, "something else\n", "expected the state of this very search, or a file that is not there");
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  g_autoptr(SearchResult) again = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_mem_eq(again->best->data, whole->best->data, whole->best->len * sizeof(Found));
  g_remove(path);
  g_rmdir(folder);
  g_free(folder);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* What a full disk or a kill may leave of the first line is no state, and no other search's. */
START_TEST(a_title_may_be_cut)
{
  char *folder = test_directory();
  g_autofree char *path = g_build_filename(folder, "state", NULL), *text = NULL, *again = NULL;
  GRand *rand = g_rand_new_with_seed(78);
  Instance in;

  instance_init(&in, rand);
  in.options.state = path;
  g_autoptr(SearchResult) whole = search(in.model, in.cluster, &in.options, NULL);
  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  gsize title = strchr(text, '\n') - text, name = strlen("tdp-plan state 3 ");
  for (gsize n = 0; n <= title; n += n == 0 ? name : title - name) {
    ck_assert(g_file_set_contents(path, text, n, NULL));
    g_autoptr(SearchResult) resumed = search(in.model, in.cluster, &in.options, NULL);
    ck_assert_ptr_nonnull(resumed);
    ck_assert(g_file_get_contents(path, &again, NULL, NULL));
    ck_assert_str_eq(again, text);
    g_clear_pointer(&again, g_free);
  }
  check_refused(&in, path, "tdp", "expected the state of this very search, or a file that is not there");
  g_remove(path);
  g_rmdir(folder);
  g_free(folder);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Nothing is read without end, and nobody is waited for. */
START_TEST(a_state_is_a_file)
{
  char *folder = test_directory();
  g_autofree char *pipe = g_build_filename(folder, "pipe", NULL);
  const char *const paths[] = { "/dev/zero", "/dev/full", "/dev/null", folder, pipe };
  GRand *rand = g_rand_new_with_seed(79);
  Instance in;

  ck_assert_int_eq(mkfifo(pipe, 0600), 0);
  instance_init(&in, rand);
  for (gsize i = 0; i < G_N_ELEMENTS(paths); i++) {
    GError *error = NULL;
    g_autofree char *message =
        g_strdup_printf("--state: %s: expected a file, not a folder, a device or a pipe", paths[i]);
    in.options.state = paths[i];
    ck_assert_ptr_null(search(in.model, in.cluster, &in.options, &error));
    test_error(&error, 2, message);
  }
  GError *error = NULL;
  g_autofree char *enormous = g_build_filename(folder, "enormous", NULL);
  g_autofree char *message = g_strdup_printf("--state: %s: expected at most 4 GiB", enormous);
  ck_assert(files_write(enormous, "tdp", 3, NULL));
  ck_assert_int_eq(truncate(enormous, (off_t)5 << 30), 0);
  in.options.state = enormous;
  ck_assert_ptr_null(search(in.model, in.cluster, &in.options, &error));
  test_error(&error, 2, message);
  g_remove(enormous);
  g_remove(pipe);
  g_rmdir(folder);
  g_free(folder);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("search state", { framework_files_are_told_apart }, { hardware_files_are_told_apart },
           { model_files_are_told_apart }, { questions_are_told_apart }, { spoilt_lines_are_refused },
           { a_title_may_be_cut }, { a_state_is_a_file })
