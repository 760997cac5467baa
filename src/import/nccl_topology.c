/* The XML that NCCL writes (NCCL_TOPO_DUMP_FILE) and reads. */
#include "base/json.h"
#include "import/import.h"

#include <string.h>

typedef struct {
  FoundServer server;
  ImportNotes *notes;
  int links; /* of the GPU that is open */
} Reader;

static gboolean recognises(const char *text)
{
  text += strspn(text, " \t\r\n");
  return g_str_has_prefix(text, "<system") || (g_str_has_prefix(text, "<?xml") && strstr(text, "<system"));
}

static const char *attribute(const char **names, const char **values, const char *name)
{
  int i = names_find(names, name);

  return i < 0 ? "" : values[i];
}

static int count(const char **names, const char **values, const char *name, int most)
{
  return (int)CLAMP(g_ascii_strtoll(attribute(names, values, name), NULL, 10), 0, most);
}

/* Links to a bridge of class 0x068000 are those to a switch. */
static void read_nvlink(Reader *r, const char **names, const char **values)
{
  int links = count(names, values, "count", 64);

  r->links += links;
  r->server.links_max = MAX(r->server.links_max, links);
  r->server.switched |= g_str_has_prefix(attribute(names, values, "tclass"), "0x0680");
}

/* Ports of an Ethernet card that hosts sign in by count too: the fastest are those that train. */
static void read_net(Reader *r, const char **names, const char **values)
{
  double rate = g_ascii_strtod(attribute(names, values, "speed"), NULL) * 1e6;

  if (!(rate > 0 && rate < 1e14)) {
    import_strange(r->notes, "<net> without a speed");
    return;
  }
  if (rate > r->server.nic_bits_per_s) {
    r->server.nic_bits_per_s = rate;
    r->server.nics = 0;
  }
  r->server.nics += rate == r->server.nic_bits_per_s;
}

static void start(GMarkupParseContext *context, const char *element, const char **names, const char **values,
                  gpointer data, GError **error)
{
  static const char *const passed[] = { "cpu", "pci", "nic", "c2c", "system", NULL };
  Reader *r = data;

  (void)context, (void)error;
  if (g_str_equal(element, "gpu")) {
    r->server.gpus++;
    r->links = 0;
    r->server.sm = MAX(r->server.sm, count(names, values, "sm", 1000));
  } else if (g_str_equal(element, "nvlink")) {
    read_nvlink(r, names, values);
  } else if (g_str_equal(element, "net")) {
    read_net(r, names, values);
  } else if (!g_strv_contains(passed, element)) {
    import_strange(r->notes, element);
  }
}

static void end(GMarkupParseContext *context, const char *element, gpointer data, GError **error)
{
  Reader *r = data;

  (void)context, (void)error;
  if (g_str_equal(element, "gpu"))
    r->server.gpu_links = MAX(r->server.gpu_links, r->links);
}

static char *read_xml(const char *text, ImportNotes *notes, GError **error)
{
  const GMarkupParser parser = { .start_element = start, .end_element = end };
  Reader r = { .notes = notes };
  g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new(&parser, G_MARKUP_PREFIX_ERROR_POSITION, &r,
                                                                      NULL);
  g_autoptr(GError) failure = NULL;

  if (!g_markup_parse_context_parse(context, text, (gssize)strlen(text), &failure) ||
      !g_markup_parse_context_end_parse(context, &failure))
    return import_error(notes, error, "XML: %s", failure->message);
  if (r.server.gpus == 0)
    return import_error(notes, error, "no GPU: expected a dump of a running job (NCCL_TOPO_DUMP_FILE), not a template");
  return found_server_json(&r.server, notes, error);
}

const Importer import_nccl_topology = { "NCCL topology", recognises, read_xml };
