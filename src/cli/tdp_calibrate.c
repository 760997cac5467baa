/* tdp-calibrate: measures the machine it runs on and writes a cluster file, or
 * fits a link to times that nccl-tests measured. */
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "calibrate/machine_fit.h"
#include "cli/cli.h"
#include "cli/import_machine.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/say.h"
#include "import/import.h"
#include "import/nccl_tests.h"
#include "plan/framework.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COPIES 9
#define BUDGET_S 150
#define FRAMEWORK "tdp-run" /* whose kernels are measured */

typedef struct {
  char **nccl_tests, **more; /* more: what stands behind the options */
  char *like, *cluster, *collective, *output, *name, *date;
  char *points, *fit, *backend, *import, *gpu, *framework, *precision;
  double gb_per_s; /* NAN: not given */
  double budget_s;
} Options;

/* ---- options ---- */

/* YYYY-MM-DD, and a day that there is. */
static gboolean is_day(const char *text)
{
  int year, month, day, end = 0;

  for (gsize i = 0; i < strlen("0000-00-00"); i++)
    if (!(i == 4 || i == 7 ? text[i] == '-' : g_ascii_isdigit(text[i])))
      return FALSE;
  return sscanf(text, "%d-%d-%d%n", &year, &month, &day, &end) == 3 && !text[end] &&
         g_date_valid_dmy((GDateDay)day, (GDateMonth)month, (GDateYear)year);
}

/* An option that means nothing without files, NULL if there is none. */
static const char *lone_option(const Options *o)
{
  const char *rate = isnan(o->gb_per_s) || (o->import && o->more) ? NULL : "gb-per-s";

  return o->like ? "like" : o->cluster ? "cluster" : o->collective ? "collective" : rate;
}

/* Of a format that can be measured; else NULL. */
static const char *precision_of(const char *name)
{
  static const DType measured[] = { DTYPE_FP32, DTYPE_FP16, DTYPE_BF16 };

  for (gsize i = 0; i < G_N_ELEMENTS(measured); i++)
    if (g_str_equal(dtype_names[measured[i]], name))
      return dtype_names[measured[i]];
  return NULL;
}

/* Options that do not go together; NULL if they do. */
static const char *discord(const Options *o)
{
  gboolean reads = o->import || o->nccl_tests, files = o->nccl_tests || o->points;
  gboolean others = files || o->backend || o->date;
  const struct { gboolean has; const char *says; } discords[] = {
    { o->import && (o->fit || others), "--import: expected nothing but --gpu, --name and --output beside it" },
    { o->fit && others, "--fit: expected no --nccl-tests, --points, --backend or --date beside it" },
    { o->precision && (reads || o->fit),
      "--precision: expected no --import, --nccl-tests or --fit beside it, which measure nothing" },
    { o->framework && (reads || o->points),
      "--framework: expected no --import, --nccl-tests or --points beside it, which write no cluster" },
    { o->nccl_tests && o->date, "--date: expected no --nccl-tests beside it, whose link has no date" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(discords); i++)
    if (discords[i].has)
      return discords[i].says;
  return NULL;
}

/* A value that its option does not take, said with what was expected; NULL if there is none. Newly allocated. */
static char *bad_value(const Options *o)
{
  if (!(o->budget_s >= 1 && o->budget_s <= 3600))
    return g_strdup_printf("--seconds: %g: expected from 1 to 3600", o->budget_s);
  if (o->precision && !precision_of(o->precision))
    return g_strdup_printf("--precision: %s: expected fp32, fp16 or bf16, in which tdp-run computes", o->precision);
  if (o->collective && names_find(collective_names, o->collective) < 0) {
    g_autofree char *hint = names_hint(collective_names, o->collective);
    return g_strdup_printf("--collective: %s: expected a collective, %s", o->collective, hint);
  }
  if (!isnan(o->gb_per_s) && !(o->gb_per_s > 0 && isfinite(o->gb_per_s)))
    return g_strdup_printf("--gb-per-s: %g: expected a number above 0", o->gb_per_s);
  if (o->date && !is_day(o->date))
    return g_strdup_printf("--date: %s: expected a day, as in 2026-12-31", o->date);
  return o->name && !*o->name ? g_strdup("--name: expected a name, not an empty one") : NULL;
}

/* What means nothing without files of nccl-tests or points, said so; NULL if there is none. Newly allocated. */
static char *alone(const Options *o)
{
  if (o->gpu && !o->import)
    return g_strdup("--gpu: expected --import FILE beside it");
  if (!o->nccl_tests && !o->fit && !o->import && o->more)
    return g_strdup_printf("%s: expected no argument without --nccl-tests, --import or --fit", o->more[0]);
  if (!o->nccl_tests && lone_option(o))
    return g_strdup_printf("--%s: expected --nccl-tests FILE beside it", lone_option(o));
  return NULL;
}

static gboolean check_options(const Options *o, GError **error)
{
  g_autofree char *wrong = g_strdup(discord(o));

  if (!wrong)
    wrong = bad_value(o);
  if (!wrong)
    wrong = alone(o);
  if (wrong)
    input_error(error, "%s", wrong);
  return wrong == NULL;
}

static gboolean check_framework(const Options *o, GError **error)
{
  Framework *framework = o->framework ? framework_load(o->framework, error) : NULL;

  if (framework)
    framework_free(framework);
  else if (o->framework)
    g_prefix_error(error, "--framework: ");
  return framework || !o->framework;
}

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  const GOptionEntry entries[] = {
    { "nccl-tests", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o->nccl_tests,
      "Fit a link to text that nccl-tests printed; more files may follow", "FILE" },
    { "like", 0, 0, G_OPTION_ARG_FILENAME, &o->like,
      "The link to start from: a name of hardware/links/ or a path", "LINK" },
    { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, &o->cluster,
      "Cluster that was measured: a file or a name of hardware/", "C" },
    { "gb-per-s", 0, 0, G_OPTION_ARG_DOUBLE, &o->gb_per_s,
      "Nominal rate of a device, each way (default: of the servers that have the link)", "R" },
    { "collective", 0, 0, G_OPTION_ARG_STRING, &o->collective,
      "What files hold that do not say it: all-reduce, all-gather ...", "NAME" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &o->output, "Write the link, or the host's numbers, to a file", "FILE" },
    { "name", 0, 0, G_OPTION_ARG_STRING, &o->name,
      "Name of the link that is written (default: that of its file)", "NAME" },
    { "points", 0, 0, G_OPTION_ARG_FILENAME, &o->points,
      "Write what was measured to a CSV file, and fit nothing", "FILE" },
    { "fit", 0, 0, G_OPTION_ARG_FILENAME, &o->fit,
      "Fit a cluster to points that --points wrote; files of more runs may follow", "FILE" },
    { "import", 0, 0, G_OPTION_ARG_FILENAME, &o->import,
      "Read another tool's output: nvidia-smi topo -m, NCCL topology, Kineto trace, nsys report, log of Megatron "
      "or torchtitan; with more files (nccl-tests, a trace) behind a topology, write their cluster", "FILE" },
    { "gpu", 0, 0, G_OPTION_ARG_STRING, &o->gpu, "GPU of an imported topology: a name of hardware/gpus/", "G" },
    { "backend", 0, 0, G_OPTION_ARG_STRING, &o->backend,
      "What to measure: cpu or cuda (the first that is built in)", "B" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &o->budget_s,
      "Measure no longer than about this (150), but at least three rounds", "S" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &o->precision,
      "Format of weights and activations that is measured: fp32, or on a GPU fp16 or bf16 (fp32)", "P" },
    { "framework", 0, 0, G_OPTION_ARG_STRING, &o->framework,
      "Framework that plans for the machine are made for: a name of plans/frameworks/ (tdp-run)", "F" },
    { "date", 0, 0, G_OPTION_ARG_STRING, &o->date, "Day of the measurement (default: today)", "YYYY-MM-DD" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o->more, NULL, NULL },
    G_OPTION_ENTRY_NULL,
  };

  return cli_parse(argc, argv, entries,
                   "Measures this machine and writes a cluster file; or fits a link to times from nccl-tests.",
                   error) &&
         check_options(o, error) && check_framework(o, error);
}

static void options_clear(Options *o)
{
  g_strfreev(o->nccl_tests);
  g_strfreev(o->more);
  g_free(o->like);
  g_free(o->cluster);
  g_free(o->collective);
  g_free(o->output);
  g_free(o->name);
  g_free(o->date);
  g_free(o->points);
  g_free(o->fit);
  g_free(o->backend);
  g_free(o->import);
  g_free(o->gpu);
  g_free(o->framework);
  g_free(o->precision);
}

/* ---- output ---- */

/* The table, and the JSON in the file or below it; where the file is stdout,
 * that gets the JSON alone. */
static gboolean put(const Options *o, const char *table, const char *json, GError **error)
{
  gboolean alone = o->output && g_str_equal(o->output, "-");

  if (alone)
    fputs(table, stderr);
  else
    say("%s", table);
  if (!o->output)
    printf("\n%s", json);
  return !o->output || files_write(o->output, json, strlen(json), error);
}

/* ---- links ---- */

static void say_what_was_read(gpointer read, gpointer data)
{
  const NcclTests *tests = read;

  (void)data;
  for (guint i = 0; i < tests->runs->len; i++) {
    const NcclRun *run = g_ptr_array_index(tests->runs, i);
    fprintf(stderr, "%s: %s of %d ranks on %d node%s of %s, %u rows%s\n", tests->name, run->op, run->ranks, run->nodes,
            run->nodes > 1 ? "s" : "", run->gpu, run->rows->len,
            run->collective == COLLECTIVE_COUNT ? ", passed over: no formula" : "");
  }
  if (tests->empty_rows)
    fprintf(stderr, "%s: rows without bytes or time, passed over: %d\n", tests->name, tests->empty_rows);
  if (tests->strange_lines)
    fprintf(stderr, "%s: lines not recognised: %d, the first is line %d\n", tests->name, tests->strange_lines,
            tests->first_strange_line);
}

/* Appends the file's points; the tests stay with `all`, which owns their names. */
static gboolean read_file(const Options *o, const char *path, GPtrArray *all, GArray *points, GString *names,
                          GError **error)
{
  Collective collective = o->collective ? (Collective)names_find(collective_names, o->collective) : COLLECTIVE_COUNT;
  NcclTests *tests = nccl_tests_load(path, collective, error);
  g_autofree char *base = g_path_get_basename(path);

  if (!tests)
    return FALSE;
  g_ptr_array_add(all, tests);
  nccl_tests_points(tests, points);
  g_string_append_printf(names, "%s%s", names->len ? ", " : "", g_str_equal(base, "-") ? "standard input" : base);
  return TRUE;
}

static gboolean read_files(const Options *o, GPtrArray *all, GArray *points, GString *names, GError **error)
{
  char **const lists[] = { o->nccl_tests, o->more };

  for (gsize l = 0; l < G_N_ELEMENTS(lists); l++)
    for (char **path = lists[l]; path && *path; path++)
      if (!read_file(o, *path, all, points, names, error))
        return FALSE;
  if (points->len == 0)
    input_error(error, "%s: no rows of a collective that has a formula", names->str);
  return points->len > 0;
}

/* As --name says, else the output file's name, else `otherwise`. */
static char *name_of(const Options *o, const char *otherwise)
{
  char *name;

  if (o->name)
    return g_strdup(o->name);
  if (!o->output || g_str_equal(o->output, "-"))
    return g_strdup(otherwise);
  name = g_path_get_basename(o->output);
  if (g_str_has_suffix(name, ".json"))
    name[strlen(name) - strlen(".json")] = '\0';
  return name;
}

/* A link that is like itself could not be read again. */
static gboolean check_output(const Options *o, const LinkCalibration *link, GError **error)
{
  gboolean suffixed = g_str_has_suffix(link->like, ".json");
  g_autofree char *below = g_strdup_printf("hardware/links/%s%s", link->like, suffixed ? "" : ".json");
  g_autofree char *like = strchr(link->like, '/') ? g_strdup(link->like) : files_data_path(below);
  GStatBuf a, b;

  if (!o->output || g_stat(o->output, &a) || g_stat(like, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
    return TRUE;
  return input_error(error, "--output: %s: expected another file than that of the link to start from", o->output);
}

static gboolean fit(const Options *o, GError **error)
{
  const LinkSetup setup = { .cluster = o->cluster, .like = o->like,
                            .bytes_per_s = isnan(o->gb_per_s) ? 0 : o->gb_per_s * 1e9 };
  g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func((GDestroyNotify)nccl_tests_free);
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(LinkPoint));
  g_autoptr(GString) names = g_string_new(NULL);
  g_auto(LinkCalibration) link = { 0 };
  const LinkPoint *first;

  if (!read_files(o, all, points, names, error))
    return FALSE;
  first = (const LinkPoint *)(gpointer)points->data;
  if (!calibrate_link(first, (int)points->len, &setup, &link, error) || !check_output(o, &link, error))
    return FALSE;
  g_ptr_array_foreach(all, say_what_was_read, NULL);
  g_autofree char *usual = g_strconcat(link.link.name, "-measured", NULL), *name = name_of(o, usual);
  g_autofree char *text = link_calibration_text(&link, first);
  g_autofree char *json = link_calibration_json(&link, name, names->str);
  return put(o, text, json, error);
}

/* ---- other tools ---- */

static char *not_known(const Options *o, const char *text, const ImportNotes *notes, GError **error)
{
  NcclTests *tests = nccl_tests_parse(text, o->import, COLLECTIVE_COUNT, NULL);

  if (!tests)
    return import_error(notes, error, "expected nvidia-smi topo -m, NCCL's topology XML, a Kineto trace (traceEvents), "
                        "a report of nsys stats --format csv, or a log of Megatron or torchtitan");
  nccl_tests_free(tests);
  return import_error(notes, error, "is of nccl-tests, whose times are fitted: expected --nccl-tests in place of --import");
}

static gboolean put_import(const Options *o, const char *text, GError **error)
{
  return o->output ? files_write(o->output, text, strlen(text), error) : fputs(text, stdout) >= 0;
}

static gboolean import_several(const Options *o, GError **error)
{
  g_autoptr(GPtrArray) files = g_ptr_array_new();
  g_autofree char *name = name_of(o, "imported");

  g_ptr_array_add(files, o->import);
  for (char **path = o->more; *path; path++)
    g_ptr_array_add(files, *path);
  g_ptr_array_add(files, NULL);
  MachineSaid said = { name, o->gpu, isnan(o->gb_per_s) ? 0 : o->gb_per_s * 1e9 };
  g_autofree char *text = import_machine((char *const *)files->pdata, &said, error);
  return text && put_import(o, text, error);
}

static gboolean import(const Options *o, GError **error)
{
  ImportNotes notes = { .file = o->import, .gpu = o->gpu };

  if (g_file_test(o->import, G_FILE_TEST_IS_DIR))
    return input_error(error, "%s: is a folder: expected a file; of a run's ranks the trace of one", o->import);
  g_autofree char *text = import_load(o->import, error), *out = NULL;
  const Importer *importer = text ? importer_of(text) : NULL;

  if (importer)
    out = importer->read(text, &notes, error);
  else if (text)
    not_known(o, text, &notes, error);
  if (out)
    fprintf(stderr, "%s: %s\n", o->import, importer->name);
  if (out && notes.strange)
    fprintf(stderr, "%s: parts not recognised: %d, the first is \"%s\"\n", o->import, notes.strange,
            notes.first_strange);
  if (out && notes.untold)
    fprintf(stderr, "%s: not told, to be filled in: %s\n", o->import, notes.untold);
  if (out && notes.no_column)
    fprintf(stderr, "%s: no column takes: %s\n", o->import, notes.no_column);
  import_notes_clear(&notes);
  return out && put_import(o, out, error);
}

/* ---- this machine ---- */

static gboolean fit_points(const Options *o, const MachineHead *head, const GArray *points, GError **error)
{
  g_auto(MachineFit) machine = { 0 };

  if (!machine_fit(head, points, &machine, error)) {
    g_prefix_error(error, "%s: ", o->fit ? o->fit : "points");
    return FALSE;
  }
  g_autofree char *name = name_of(o, "measured"), *text = machine_fit_text(&machine, points);
  g_autofree char *json = machine_fit_json(&machine, name, o->framework ? o->framework : FRAMEWORK);
  return put(o, text, json, error);
}

static gboolean fit_file(const Options *o, GError **error)
{
  MachineHead head, other;
  g_autoptr(GArray) points = points_load(o->fit, &head, error);

  for (char **path = o->more; points && path && *path; path++) {
    g_autoptr(GArray) more = points_load(*path, &other, error);
    if (!more)
      return FALSE;
    if (other.ranks != head.ranks || !g_str_equal(other.device, head.device))
      return input_error(error, "%s: %d ranks of %s: expected points of %d ranks of %s, as in %s", *path, other.ranks,
                         other.device, head.ranks, head.device, o->fit);
    points_merge(points, more);
    head.samples += other.samples;
    head.discarded += other.discarded;
  }
  return points && fit_points(o, &head, points, error);
}

static char *today(const Options *o)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_local();
  return o->date ? g_strdup(o->date) : g_date_time_format(now, "%Y-%m-%d");
}


static void show_progress(int done, int of, gpointer data)
{
  if (*(const gboolean *)data)
    fprintf(stderr, "\rmeasuring %d %%%s", (int)(100.0 * done / of), done == of ? "\r\033[K" : "");
}

#ifdef TDP_EXEC

/* Only the first rank has points. */
static gboolean measure(const Options *o, GError **error)
{
  gboolean terminal = isatty(STDERR_FILENO);
  g_autofree char *date = today(o);
  const char *precision = o->precision ? o->precision : dtype_names[DTYPE_FP32];
  MachineOptions options = { .backend = o->backend, .precision = names_find(dtype_names, precision), .date = date,
                             .budget_s = o->budget_s, .progress = show_progress, .data = &terminal };
  g_autoptr(GArray) points = NULL;
  MachineHead head;

  if (!machine_measure(&options, &head, &points, error))
    return FALSE;
  if (!points)
    return TRUE;
  if (!o->points)
    return fit_points(o, &head, points, error);
  g_autofree char *text = points_csv(&head, points);
  return files_write(o->points, text, strlen(text), error);
}

#else /* without the executor: this host's memory alone */

static void add_copy(Table *table, const HostCopy *copy)
{
  g_autofree char *size = format_bytes(copy->copy_bytes);

  table_add(table, "copy of %s, read and write together|%d|%.2f GB/s", size, copy->threads, copy->bytes_per_s / 1e9);
}

static gboolean measure(const Options *o, GError **error)
{
  g_autofree char *date = today(o);
  gboolean terminal = isatty(STDERR_FILENO);
  gsize bytes = calibrate_copy_bytes();
  int threads = (int)g_get_num_processors();
  g_autoptr(Table) table = table_new("<host memory|threads|median");
  HostCopy all, one = calibrate_host_copy(bytes, 1, COPIES, show_progress, &terminal);

  all = threads > 1 ? calibrate_host_copy(bytes, threads, COPIES, show_progress, &terminal) : one;
  add_copy(table, &one);
  if (threads > 1)
    add_copy(table, &all);
  table_add(table, "read of the clock|1|%.1f ns", calibrate_timer_s() * 1e9);
  g_autofree char *text = table_text(table, 0);
  g_autofree char *json = host_copy_json(&all, date);
  return put(o, text, json, error);
}

#endif

static gboolean run(const Options *o, GError **error)
{
  if (o->import && o->more)
    return import_several(o, error);
  return o->import ? import(o, error) : o->nccl_tests ? fit(o, error) : o->fit ? fit_file(o, error) : measure(o, error);
}

int main(int argc, char **argv)
{
  Options o = { .gb_per_s = NAN, .budget_s = BUDGET_S };
  GError *error = NULL;
  gboolean done;

  cli_numbers();
  g_set_prgname("tdp-calibrate");
  done = read_options(&argc, &argv, &o, &error) && run(&o, &error);
  options_clear(&o);
  return done ? cli_finish("tdp-calibrate") : cli_fail("tdp-calibrate", error);
}
