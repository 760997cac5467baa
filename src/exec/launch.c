#include "exec/launch.h"

#include "base/error.h"

#include <string.h>

typedef struct {
  const char *launcher, *rank, *size, *local_rank, *local_size;
  const char *needs; /* a variable that must be set too, or NULL */
} Variables;

static const Variables known[] = {
  { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL },
  { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE", NULL },
  { "pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL },
  { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID" },
};

enum { MASTER_PORT = 29500, SLURM_PORT = 20000, SLURM_PORTS = 20000 };

/* An unset variable takes `otherwise`; of "2(x3),1", a list of nodes, the first counts. */
static gboolean read_number(const char *name, int otherwise, int *out, GError **error)
{
  const char *whole = g_getenv(name);
  g_autofree char *text = whole ? g_strndup(whole, strcspn(whole, "(,")) : NULL;
  guint64 value = otherwise;

  if (text && !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT, &value, NULL)) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %s: expected a whole number", name, whole);
    return FALSE;
  }
  *out = value;
  return TRUE;
}

/* "n7" of "n[7-9,12],m1", and "login" of "login,n1". */
static char *first_host(const char *list)
{
  gsize stem = strcspn(list, "[,");

  if (list[stem] != '[')
    return g_strndup(list, stem);
  return g_strdup_printf("%.*s%.*s", (int)stem, list, (int)strcspn(list + stem + 1, "-,]"), list + stem + 1);
}

static gboolean find_address(Launch *l, GError **error)
{
  const char *master = g_getenv("MASTER_ADDR"), *nodes = g_getenv("SLURM_STEP_NODELIST");
  int number;

  if (master) {
    if (!read_number("MASTER_PORT", MASTER_PORT, &number, error))
      return FALSE;
    g_snprintf(l->address, sizeof l->address, "%s:%d", master, number + 1);
  } else if (nodes && g_str_equal(l->launcher, "srun")) {
    g_autofree char *host = first_host(nodes);
    if (!read_number("SLURM_JOB_ID", 0, &number, error))
      return FALSE;
    g_snprintf(l->address, sizeof l->address, "%s:%d", host, SLURM_PORT + number % SLURM_PORTS);
  }
  return TRUE;
}

gboolean launch_detect(Launch *l, GError **error)
{
  *l = (Launch) { .launcher = "none", .size = 1, .local_size = 1 };
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++) {
    const Variables *v = &known[i];
    if (!g_getenv(v->rank) || !g_getenv(v->size) || (v->needs && !g_getenv(v->needs)))
      continue;
    l->launcher = v->launcher;
    if (!read_number(v->rank, 0, &l->rank, error) || !read_number(v->size, 1, &l->size, error) ||
        !read_number(v->local_rank, l->rank, &l->local_rank, error) ||
        !read_number(v->local_size, l->size, &l->local_size, error))
      return FALSE;
    if (l->rank < l->size)
      return find_address(l, error);
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %d: expected below %s, which is %d", v->rank, l->rank, v->size,
                l->size);
    return FALSE;
  }
  return TRUE;
}
