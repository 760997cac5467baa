#include "exec/launch.h"

#include "base/error.h"

typedef struct {
  const char *launcher, *rank, *size, *local_rank, *local_size;
  const char *needs; /* a variable that must be set too, or NULL */
} Variables;

static const Variables known[] = {
  { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL },
  { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    NULL },
  { "pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL },
  { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_ID" },
};

/* An unset variable takes `otherwise`. */
static gboolean read_number(const char *name, int otherwise, int *out, GError **error)
{
  const char *text = g_getenv(name);
  guint64 value = otherwise;

  if (text && !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT, &value, NULL)) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %s: expected a whole number", name, text);
    return FALSE;
  }
  *out = value;
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
      return TRUE;
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %d: expected below %s, which is %d", v->rank, l->rank, v->size,
                l->size);
    return FALSE;
  }
  return TRUE;
}
