#include "cli/import_machine.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "import/import.h"
#include "import/nccl_tests.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ERROR_MOST 0.3 /* of a fit, above which the nominal rate is another */
#define FULL_RATE 0.999
#define SLOWER_MOST 1.05 /* of large sizes, at the full rate */

/* Points of one link, and the files that they are of. */
typedef struct {
  GArray *points; /* LinkPoint */
  GString *files;
} Measured;

typedef struct {
  const char *gpu;           /* NULL: not known yet */
  char *topology, *text;     /* file and what it holds; NULL: none yet */
  const Importer *importer;  /* of the text */
  GPtrArray *tests;          /* NcclTests *, which own the points' names */
  Measured within, between;  /* a node, nodes */
  int nodes;                 /* most that were measured */
  int traces;
} Found;

static void found_init(Found *f, const char *gpu)
{
  *f = (Found) { .gpu = gpu, .nodes = 1 };
  f->tests = g_ptr_array_new_with_free_func((GDestroyNotify)nccl_tests_free);
  f->within = (Measured) { g_array_new(FALSE, FALSE, sizeof(LinkPoint)), g_string_new(NULL) };
  f->between = (Measured) { g_array_new(FALSE, FALSE, sizeof(LinkPoint)), g_string_new(NULL) };
}

static void found_clear(Found *f)
{
  g_free(f->topology);
  g_free(f->text);
  g_ptr_array_unref(f->tests);
  g_array_unref(f->within.points);
  g_array_unref(f->between.points);
  g_string_free(f->within.files, TRUE);
  g_string_free(f->between.files, TRUE);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Found, found_clear)

/* ---- files ---- */

/* Two files of one machine that name unlike GPUs are not of one machine. */
static gboolean take_gpu(Found *f, const char *file, const char *driver_name, GError **error)
{
  const char *gpu = import_gpu_of(driver_name);

  fprintf(stderr, "%s: of %s, %s\n", file, driver_name, gpu ? gpu : "not known here");
  if (gpu && f->gpu && !g_str_equal(gpu, f->gpu))
    return input_error(error, "%s: is of %s: expected %s, as said before", file, gpu, f->gpu);
  f->gpu = gpu ? gpu : f->gpu;
  return TRUE;
}

static gboolean take_topology(Found *f, const char *file, char *text, const Importer *importer, GError **error)
{
  fprintf(stderr, "%s: %s\n", file, importer->name);
  if (f->topology) {
    g_free(text);
    return input_error(error, "%s: a second topology: expected one, that of %s", file, f->topology);
  }
  f->topology = g_strdup(file);
  f->text = text;
  f->importer = importer;
  return TRUE;
}

/* Its kernels are of a model that nobody told, so that no constant follows from them. */
static gboolean take_trace(Found *f, const char *file, const char *text, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), file, error);
  const cJSON *devices = doc ? json_get(json_root(doc), "deviceProperties") : NULL;
  const cJSON *name = cJSON_IsArray(devices) && devices->child ? json_get(devices->child, "name") : NULL;

  if (!doc)
    return FALSE;
  f->traces++;
  fprintf(stderr, "%s: Kineto trace, whose kernels change nothing here: --import alone prints their times\n", file);
  return !cJSON_IsString(name) || take_gpu(f, file, name->valuestring, error);
}

static void add_points(Measured *to, const LinkPoint *point, const char *file)
{
  g_autofree char *base = g_path_get_basename(file);

  g_array_append_val(to->points, *point);
  if (!strstr(to->files->str, base))
    g_string_append_printf(to->files, "%s%s", to->files->len ? ", " : "", base);
}

static gboolean take_tests(Found *f, const char *file, const char *text, GError **error)
{
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(LinkPoint));
  g_autoptr(GError) why = NULL;
  NcclTests *tests = nccl_tests_parse(text, file, COLLECTIVE_COUNT, &why);

  if (!tests)
    return input_error(error, "%s: expected a topology, a Kineto trace or nccl-tests, as which it cannot be read: %s",
                       file, why->message);
  g_ptr_array_add(f->tests, tests);
  nccl_tests_points(tests, points);
  for (guint i = 0; i < points->len; i++) {
    const LinkPoint *point = &g_array_index(points, LinkPoint, i);
    add_points(point->nodes > 1 ? &f->between : &f->within, point, file);
    f->nodes = MAX(f->nodes, point->nodes);
  }
  fprintf(stderr, "%s: nccl-tests, %u times\n", file, points->len);
  const NcclRun *first = g_ptr_array_index(tests->runs, 0);
  return !first->gpu || take_gpu(f, file, first->gpu, error);
}

static gboolean take(Found *f, const char *file, GError **error)
{
  char *text = import_load(file, error);
  const Importer *importer = text ? importer_of(text) : NULL;

  if (!text)
    return FALSE;
  if (importer == &import_topology_matrix || importer == &import_nccl_topology)
    return take_topology(f, file, text, importer, error);
  gboolean taken = (importer == &import_kineto ? take_trace : take_tests)(f, file, text, error);
  g_free(text);
  return taken;
}

/* ---- the cluster ---- */

/* bytes_per_s: of the network, as it was said; 0 = nobody did. */
static char *server_json(const Found *f, double bytes_per_s, GError **error)
{
  ImportNotes notes = { .file = f->topology, .gpu = f->gpu };
  char *json = f->importer->read(f->text, &notes, error);

  if (notes.strange)
    fprintf(stderr, "%s: parts not recognised: %d, the first is \"%s\"\n", f->topology, notes.strange,
            notes.first_strange);
  if (json && notes.untold && bytes_per_s <= 0)
    fprintf(stderr, "%s: not told, to be filled in: %s\n", f->topology, notes.untold);
  import_notes_clear(&notes);
  return json;
}

static char *cluster_json(const cJSON *server, int nodes, const char *name)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", name);
  json_put_int(&w, "nodes", nodes);
  json_put_item(&w, "server", server);
  json_close(&w, '}');
  return g_string_free(g_string_append_c(text, '\n'), FALSE);
}

/* How much longer than measured the times of a collective are in sum, which is that of its largest sizes; of the one
 * where this is most. */
static double slower_most(const LinkCalibration *link, const LinkPoint *points)
{
  double fitted_s[COLLECTIVE_COUNT] = { 0 }, measured_s[COLLECTIVE_COUNT] = { 0 }, most = 0;

  for (int i = 0; i < link->n; i++) {
    fitted_s[points[i].collective] += link->fitted_s[i];
    measured_s[points[i].collective] += points[i].seconds;
  }
  for (int c = 0; c < COLLECTIVE_COUNT; c++)
    most = measured_s[c] > 0 ? MAX(most, fitted_s[c] / measured_s[c]) : most;
  return most;
}

/* The nominal rate is another where the fit is far off, or slow at its full rate, however well small sizes are met. */
static gboolean check_rate(const LinkCalibration *link, const LinkPoint *points, const char *of, const char *expected,
                           GError **error)
{
  gboolean full = ((link->fitted & FIT_LINK_RATE) && link->link.efficiency >= FULL_RATE) ||
                  ((link->fitted & FIT_LINK_P2P) && link->link.p2p_efficiency >= FULL_RATE);
  double slower = slower_most(link, points);

  if (link->errors.mean <= ERROR_MOST && !(full && slower > SLOWER_MOST))
    return TRUE;
  return input_error(error, "%s: %.4g GB/s a device fits its times with a mean error of %.0f %%, "
                     "large sizes with %+.0f %%: expected %s", of, link->bytes_per_s / 1e9, 100 * link->errors.mean,
                     100 * (slower - 1), expected);
}

/* Fits to the points, on the machine as it is known without them; the text of the link, NULL and the error. */
static char *fitted_json(const Measured *measured, const cJSON *server, const Found *f, const char *name,
                         GError **error)
{
  g_autofree char *cluster = cluster_json(server, f->nodes, "imported"), *path = NULL;
  int file = g_file_open_tmp("tdp-XXXXXX.json", &path, error);
  g_auto(LinkCalibration) link = { 0 };
  const LinkPoint *points = (const LinkPoint *)(gpointer)measured->points->data;

  if (file < 0)
    return NULL;
  close(file);
  gboolean done = files_write(path, cluster, strlen(cluster), error) &&
                  calibrate_link(points, (int)measured->points->len, &(LinkSetup) { .cluster = path }, &link, error);
  g_unlink(path);
  if (!done)
    return NULL;
  g_autofree char *of = g_strdup_printf("%s: %s", measured->files->str, name);
  if (!check_rate(&link, points, of, measured == &f->between ? "the rate of the network by --gb-per-s" :
                  "times of the machine that the topology is of", error))
    return NULL;
  fprintf(stderr, "%s: fitted to %s, %d times, mean error %.1f %%\n", name, measured->files->str, link.n,
          100 * link.errors.mean);
  return link_calibration_json(&link, name, measured->files->str);
}

/* Puts a fitted link in the place of the one that `holder` names; without times that stays. */
static gboolean fit_into(cJSON *holder, const Measured *measured, const cJSON *server, const Found *f, const char *name,
                         GError **error)
{
  const cJSON *link = holder ? json_get(holder, "link") : NULL, *own = holder ? json_get(holder, "name") : NULL;

  name = own ? own->valuestring : name;
  if (measured->points->len && !link)
    return input_error(error, "%s: times of a %s: %s has none", measured->files->str, name, f->topology);
  if (!measured->points->len) {
    if (link)
      fprintf(stderr, "%s: not measured: as %s\n", name, link->valuestring);
    return TRUE;
  }
  g_autofree char *json = fitted_json(measured, server, f, name, error);
  if (json)
    cJSON_ReplaceItemInObjectCaseSensitive(holder, "link", cJSON_Parse(json));
  return json != NULL;
}

/* The smallest tier in which the ranks of the points meet. */
static cJSON *tier_measured(const cJSON *server, const Measured *measured)
{
  cJSON *tier, *last = NULL;
  int ranks = 0;

  for (guint i = 0; i < measured->points->len; i++)
    ranks = MAX(ranks, g_array_index(measured->points, LinkPoint, i).ranks);
  cJSON_ArrayForEach(tier, json_get(server, "tiers")) {
    const cJSON *devices = json_get(tier, "devices");
    last = tier;
    if (devices && devices->valueint >= ranks)
      break;
  }
  return last;
}

static gboolean set_rate(cJSON *server, double bytes_per_s, GError **error)
{
  cJSON *network = cJSON_GetObjectItemCaseSensitive(server, "network");

  if (bytes_per_s <= 0)
    return TRUE;
  if (!network)
    return input_error(error, "--gb-per-s: expected a topology that has NICs");
  double nics = json_get(network, "nics_per_node")->valuedouble;
  double gbit_per_s = bytes_per_s * 8e-9 * json_get(server, "devices_per_node")->valuedouble / nics;
  cJSON_ReplaceItemInObjectCaseSensitive(network, "nic_gbit_per_s", cJSON_CreateNumber(gbit_per_s));
  cJSON_ReplaceItemInObjectCaseSensitive(network, "link", cJSON_CreateString(found_server_link(1e9 * gbit_per_s)));
  cJSON_ReplaceItemInObjectCaseSensitive(network, "source", cJSON_CreateString("the rate as it was said to be"));
  return TRUE;
}

char *import_machine(char *const *files, const MachineSaid *said, GError **error)
{
  g_auto(Found) f;

  found_init(&f, said->gpu);
  for (int i = 0; files[i]; i++)
    if (!take(&f, files[i], error))
      return NULL;
  if (!f.topology && f.traces > 1 && f.tests->len == 0) {
    input_error(error, "--import: %d traces: expected one: those of a run's ranks are read one by one", f.traces);
    return NULL;
  }
  if (!f.topology) {
    input_error(error, "--import: no topology: expected what nvidia-smi topo -m prints, or "
                "the XML of NCCL_TOPO_DUMP_FILE, among the files");
    return NULL;
  }
  g_autofree char *text = server_json(&f, said->bytes_per_s, error);
  cJSON *server = text ? cJSON_Parse(text) : NULL;
  cJSON *network = server ? cJSON_GetObjectItemCaseSensitive(server, "network") : NULL;
  gboolean fits = server && set_rate(server, said->bytes_per_s, error) &&
                  fit_into(tier_measured(server, &f.within), &f.within, server, &f, "node", error) &&
                  fit_into(network, &f.between, server, &f, "network", error);
  char *cluster = fits ? cluster_json(server, f.nodes, said->name) : NULL;
  cJSON_Delete(server);
  return cluster;
}
