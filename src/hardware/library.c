#include "hardware/cluster.h"
#include "hardware/part.h"

#define COUNT_OF(member, required) JSON_INT, G_STRUCT_OFFSET(CollectiveLibrary, member), required, 1, 1e6

static const JsonField library_fields[] = {
  {"name", JSON_ANY, .required = TRUE},
  {"own_copy_rate", JSON_REAL, G_STRUCT_OFFSET(CollectiveLibrary, own_copy_rate), TRUE, G_MINDOUBLE, 1000},
  {"own_copy_memory_rate", JSON_REAL, G_STRUCT_OFFSET(CollectiveLibrary, own_copy_memory_rate), FALSE, G_MINDOUBLE, 1},
  {"ports_at_once", COUNT_OF(ports_at_once, TRUE)},
  {"peers_at_once", COUNT_OF(peers_at_once, TRUE)},
  {"ring_copies", COUNT_OF(ring_copies, FALSE)},
  {"send_channels", COUNT_OF(send_channels, FALSE)},
  {"in_switch_ranks", COUNT_OF(in_switch_ranks, TRUE)},
};

static gboolean read_library(const PartSource *source, gpointer out, GError **error)
{
  return part_fields(source, library_fields, G_N_ELEMENTS(library_fields), out, NULL, error);
}

const PartKind library_part = {"libraries", "collective library", read_library, NULL};

gboolean library_load(const char *name, CollectiveLibrary *out, GError **error)
{
  *out = (CollectiveLibrary){0};
  return part_load(&library_part, name, out, error);
}
