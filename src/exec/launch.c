#include "exec/launch.h"

#include "base/error.h"

#include <string.h>

typedef struct {
  const char *launcher, *rank, *size, *local_rank, *local_size;
  const char *needs; /* a variable that must be set too, or NULL */
  const char *job[2];
} Variables;

static const Variables known[] = {
  { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, { "TORCHELASTIC_RUN_ID" } },
  { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, { "PMIX_NAMESPACE" } },
  { "pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, { NULL } },
  { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID",
    { "SLURM_JOB_ID", "SLURM_STEP_ID" } },
};

enum { MASTER_PORT = 29500, SLURM_PORT = 20000, SLURM_PORTS = 20000 };

/* An unset variable takes `otherwise`; of "2(x3),1", a list of nodes, the first counts. */
static gboolean read_number(const char *name, int otherwise, int *out, GError **error)
{
  const char *whole = g_getenv(name);
  g_autofree char *text = whole ? g_strndup(whole, strcspn(whole, "(,")) : NULL;
  guint64 value = otherwise;

  if (text && !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT, &value, NULL))
    return input_error(error, "%s: %s: expected a whole number", name, whole);
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

/* Of programs that were built with it. */
static gboolean starts_mpi(const char *launcher)
{
#ifdef TDP_MPI
  return g_str_equal(launcher, "mpirun") || (g_str_equal(launcher, "pmi") && !g_getenv("MASTER_ADDR")) ||
         (g_str_equal(launcher, "srun") && g_getenv("PMIX_RANK"));
#else
  (void)launcher;
  return FALSE;
#endif
}

static gboolean find_address(Launch *l, GError **error)
{
  const char *master = g_getenv("MASTER_ADDR"), *nodes = g_getenv("SLURM_STEP_NODELIST");
  int number;

  if (master) {
    if (!read_number("MASTER_PORT", MASTER_PORT, &number, error))
      return FALSE;
    g_snprintf(l->address, sizeof l->address, "%s:%d", master, number + 1);
  } else if (nodes && !l->mpi && g_str_equal(l->launcher, "srun")) {
    g_autofree char *host = first_host(nodes);
    if (!read_number("SLURM_JOB_ID", 0, &number, error))
      return FALSE;
    g_snprintf(l->address, sizeof l->address, "%s:%d", host, SLURM_PORT + number % SLURM_PORTS);
  }
  return TRUE;
}

static void find_job(Launch *l, const Variables *v)
{
  for (gsize i = 0; i < G_N_ELEMENTS(v->job) && v->job[i]; i++) {
    g_strlcat(l->job, g_getenv(v->job[i]) ? g_getenv(v->job[i]) : "", sizeof l->job);
    g_strlcat(l->job, " ", sizeof l->job);
  }
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
        !read_number(v->local_size, 0, &l->local_size, error))
      return FALSE;
    if (l->rank < l->size) {
      l->mpi = starts_mpi(l->launcher);
      find_job(l, v);
      return find_address(l, error);
    }
    return input_error(error, "%s: %d: expected below %s, which is %d", v->rank, l->rank, v->size, l->size);
  }
  return TRUE;
}
