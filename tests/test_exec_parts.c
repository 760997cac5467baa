/* The executor's parts that need no other process. */
#include "exec/cpu/blas.h"
#include "exec/cpu/cpu.h"
#include "exec/exec.h"
#include "exec/launch.h"
#include "exec/random.h"
#include "exec/shards.h"
#include "exec/tokens.h"
#include "fixture.h"
#include "main.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const variables[] = {
  "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
  "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_ID",
  "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT", "PMIX_RANK",
  "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID",
};

static Launch launch_with(const char *first, ...)
{
  GError *error = NULL;
  Launch launch;
  va_list args;

  for (gsize i = 0; i < G_N_ELEMENTS(variables); i++)
    g_unsetenv(variables[i]);
  va_start(args, first);
  for (const char *name = first; name; name = va_arg(args, const char *))
    g_setenv(name, va_arg(args, const char *), TRUE);
  va_end(args);
  ck_assert(launch_detect(&launch, &error));
  return launch;
}

START_TEST(launchers_are_told_apart)
{
  Launch l = launch_with(NULL);
  ck_assert_int_eq(l.size, 1);
  ck_assert_str_eq(l.launcher, "none");
  l = launch_with("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "1", NULL);
  ck_assert_str_eq(l.launcher, "mpirun");
  ck_assert_int_eq(l.rank, 3);
  ck_assert_int_eq(l.local_rank, 1);
  /* torchrun inside srun: the inner one counts */
  l = launch_with("RANK", "1", "WORLD_SIZE", "2", "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", "SLURM_STEP_ID",
                  "0", NULL);
  ck_assert_str_eq(l.launcher, "torchrun");
  ck_assert_int_eq(l.rank, 1);
  /* the shell of a batch script has no step */
  l = launch_with("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "4", NULL);
  ck_assert_int_eq(l.size, 1);
}
END_TEST

START_TEST(ranks_know_where_to_meet)
{
  static const char *const lists[][2] = { { "n[07-09,12],m1", "n07:20017" }, { "login", "login:20017" },
                                          { "a,b[1-2]", "a:20017" }, { "gpu[3]", "gpu3:20017" } };
  Launch l = launch_with("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2", NULL);

  ck_assert_str_eq(l.address, "");
  l = launch_with("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "host", "MASTER_PORT", "1234", NULL);
  ck_assert_str_eq(l.address, "host:1235");
  l = launch_with("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "host", NULL);
  ck_assert_str_eq(l.address, "host:29501");
  ck_assert(!l.mpi);
  ck_assert_int_eq(l.local_size, 0); /* not said: there may be other hosts */
  for (gsize i = 0; i < G_N_ELEMENTS(lists); i++) {
    l = launch_with("SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "7", "SLURM_STEP_ID", "0", "SLURM_JOB_ID", "40017",
                    "SLURM_STEP_TASKS_PER_NODE", "2(x3),1", "SLURM_STEP_NODELIST", lists[i][0], NULL);
    ck_assert_str_eq(l.address, lists[i][1]);
    ck_assert_int_eq(l.local_size, 2);
    ck_assert_str_eq(l.job, "40017 0 ");
    ck_assert(!l.mpi);
  }
}
END_TEST

/* Of a build with MPI. */
START_TEST(ranks_of_mpi_meet_by_it)
{
  Launch l = launch_with("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2", "MASTER_ADDR", "host", NULL);

  ck_assert_str_eq(l.address, "host:29501"); /* where the user says so */
  if (!l.mpi)
    return;
  l = launch_with("SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_ID", "0", "PMIX_RANK", "1",
                  "SLURM_STEP_NODELIST", "a,b", NULL);
  ck_assert(l.mpi);
  ck_assert_str_eq(l.address, "");
  ck_assert(launch_with("PMI_RANK", "0", "PMI_SIZE", "2", NULL).mpi);
  ck_assert(!launch_with("PMI_RANK", "0", "PMI_SIZE", "2", "MASTER_ADDR", "host", NULL).mpi);
  /* torchrun within a rank of MPI */
  ck_assert(!launch_with("RANK", "0", "WORLD_SIZE", "2", "PMIX_RANK", "0", "OMPI_COMM_WORLD_RANK", "0",
                         "OMPI_COMM_WORLD_SIZE", "1", NULL).mpi);
}
END_TEST

START_TEST(bad_ranks_are_refused)
{
  GError *error = NULL;
  Launch l;

  launch_with(NULL);
  g_setenv("RANK", "2", TRUE);
  g_setenv("WORLD_SIZE", "2", TRUE);
  ck_assert(!launch_detect(&l, &error));
  test_error(&error, 2, "RANK: 2: expected below WORLD_SIZE, which is 2");
  g_setenv("RANK", "one", TRUE);
  ck_assert(!launch_detect(&l, &error));
  test_error(&error, 2, "RANK: one: expected a whole number");
}
END_TEST

START_TEST(random_numbers_are_normal)
{
  double sum = 0, squares = 0;
  enum { N = 100000 };

  for (int i = 0; i < N; i++) {
    double x = random_normal(1, 2, i);
    sum += x;
    squares += x * x;
  }
  ck_assert_double_lt(fabs(sum / N), 0.01);
  ck_assert_double_lt(fabs(squares / N - 1), 0.02);
  ck_assert(random_normal(1, 2, 3) != random_normal(1, 3, 2));
}
END_TEST

START_TEST(series_are_exact)
{
  const double edges[] = { 0x1p-53, 1, 0.5, 0.25, 0.75, 0.125, 0.625, 0x1.6a09e667f3bcdp-1, 1 - 0x1p-53 };

  for (guint i = 0; i < 200000; i++) {
    double x = i < G_N_ELEMENTS(edges) ? edges[i] : random_unit(random_at(3, 4, i));
    ck_assert_double_le(fabs(random_log(x) - log(x)), 4e-16 * fabs(log(x)));
    ck_assert_double_le(fabs(random_cos_turns(x) - (double)cosl(2 * acosl(-1) * x)), 3e-16);
  }
}
END_TEST

/* Of rows 3 to 9 and columns 2 to 6 of a matrix with 11 columns, in which rows from 8 on are zeros. */
START_TEST(parts_of_weights_are_those_of_the_whole)
{
  enum { ROWS = 7, COLS = 5, N = ROWS * COLS };
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F64 }, message);
  BackendStream *s = b->stream_new(b, TRUE);
  ExecFill f = { .seed = 5, .stream = 6, .first_row = 3, .first_col = 2, .end_row = 8, .cols = COLS, .all_cols = 11,
                 .mean = 1, .deviation = 0.5, .n = N };
  double whole[N], part[N];

  b->fill(b, s, &f, whole, EXEC_F64);
  for (int i = 0; i < N; i++) {
    int row = 3 + i / COLS, column = 2 + i % COLS;
    ck_assert_double_eq(whole[i], row < 8 ? 1 + 0.5 * random_normal(5, 6, row * 11 + column) : 0);
  }
  for (f.from = 0; f.from < N; f.from++)
    for (f.n = 0; f.from + f.n <= N; f.n++) {
      b->fill(b, s, &f, part, EXEC_F64);
      ck_assert_mem_eq(part, whole + f.from, f.n * sizeof *part);
    }
  b->stream_free(b, s);
  b->free(b);
}
END_TEST

START_TEST(labels_follow_inputs)
{
  gint32 inputs[16], labels[16], again[16];
  Tokens t;

  ck_assert(tokens_init(&t, NULL, 5, 31, 16, NULL));
  tokens_sequence(&t, 7, inputs, labels);
  for (int i = 0; i < 15; i++)
    ck_assert_int_eq(labels[i], inputs[i + 1]);
  for (int i = 0; i < 16; i++)
    ck_assert(inputs[i] >= 0 && inputs[i] < 31);
  tokens_sequence(&t, 8, again, labels);
  ck_assert(memcmp(inputs, again, sizeof inputs) != 0);
  tokens_clear(&t);
}
END_TEST

START_TEST(files_of_tokens_are_cut)
{
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "tokens", NULL);
  const guint8 bytes[] = { 1, 0, 2, 0, 3, 0, 4, 0, 5, 0 };
  GError *error = NULL;
  gint32 inputs[2], labels[2];
  Tokens t;

  ck_assert(g_file_set_contents(path, (const char *)bytes, sizeof bytes, NULL));
  ck_assert(tokens_init(&t, path, 1, 6, 2, NULL));
  tokens_sequence(&t, 1, inputs, labels);
  ck_assert_int_eq(inputs[0], 3);
  ck_assert_int_eq(labels[1], 5);
  tokens_sequence(&t, 2, inputs, labels); /* from the start again */
  ck_assert_int_eq(inputs[0], 1);
  tokens_clear(&t);
  ck_assert(!tokens_init(&t, path, 1, 5, 2, &error));
  g_autofree char *message = g_strdup_printf("%s: token 4: 5: expected below the vocabulary of 5", path);
  test_error(&error, 2, message);
  tokens_clear(&t);
}
END_TEST

START_TEST(memory_is_counted_by_part)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *s = b->stream_new(b, TRUE);
  Memory m;

  memory_init(&m, b, 0);
  void *x = memory_alloc(&m, s, PART_ACTIVATIONS, 100), *y = memory_alloc(&m, s, PART_BUFFERS, 50);
  memory_retag(&m, y, PART_ACTIVATIONS);
  memory_release(&m, s, x);
  ck_assert_double_eq(m.held[PART_ACTIVATIONS], 50);
  ck_assert_double_eq(m.held[PART_BUFFERS], 0);
  ck_assert_double_eq(m.peak_activations + m.peak_buffers, 150);
  memory_mark(&m);
  ck_assert_double_eq(m.peak_activations, 50);
  memory_clear(&m);
  b->stream_free(b, s);
  b->free(b);
}
END_TEST

static void *alloc_none(Backend *b, BackendStream *s, size_t bytes)
{
  (void)b, (void)s, (void)bytes;
  return NULL;
}

static void leave(void *data, const char *message)
{
  (void)data;
  _exit(g_str_has_prefix(message, "out of memory: ") ? 7 : 8);
}

/* Makes the executor and runs a step; memory is out from the start (0), or when the step is to be told (1). */
static void run_out(int when)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  g_autoptr(Model) model = fixture_gpt_plain(2, 16, 4, 8, 13);
  Plan plan = plan_default(model, fixture_framework("tdp-run"));
  Cluster *cluster = fixture_cluster("cpu", 1);
  ExecOptions options = exec_options_default();
  ExecStep out;

  plan.precision = DTYPE_FP32;
  options.fatal = leave;
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
  if (when == 0)
    b->alloc = alloc_none;
  Exec *x = exec_new(model, LAYOUT(&plan), program, b, &options, NULL);
  exec_step(x, &out);
  b->alloc = alloc_none;
  exec_trace(x);
}

/* In a process of its own, which ends with the line instead of a signal. */
START_TEST(memory_that_is_out_is_said)
{
  for (int when = 0; when < 2; when++) {
    pid_t child = fork();
    int status = 0;
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      run_out(when);
      _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%d: status %#x", when, status);
  }
}
END_TEST

/* Of 1, 2, ... n, added to what is there. */
START_TEST(squares_are_summed_to_the_last)
{
  enum { MOST = 40 };
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *stream = b->stream_new(b, TRUE);
  float x[MOST];

  for (int n = 1; n <= MOST; n++) {
    double sum = 1;
    x[n - 1] = n;
    b->sum_squares(b, stream, n, x, &sum);
    ck_assert_double_eq(sum, 1 + n * (n + 1) * (2 * n + 1) / 6);
  }
  b->stream_free(b, stream);
  b->free(b);
}
END_TEST

/* What another stream frees is held until it comes to that. */
START_TEST(memory_is_held_until_it_is_freed)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *computes = b->stream_new(b, TRUE), *beside = b->stream_new(b, FALSE);
  BackendEvent *event = b->event_new(b);
  Memory m;

  memory_init(&m, b, 0);
  m.computes = computes;
  void *x = memory_alloc(&m, computes, PART_BUFFERS, 100), *y = memory_alloc(&m, computes, PART_BUFFERS, 30);
  event->recorded++; /* by something that is not there yet */
  b->event_wait(b, event, beside);
  memory_release(&m, beside, x);
  memory_release(&m, computes, y);
  ck_assert_double_eq(memory_held(&m, PART_BUFFERS), 100);
  void *z = memory_alloc(&m, computes, PART_BUFFERS, 50);
  ck_assert_double_eq(m.peak_buffers, 150);
  memory_release(&m, computes, z);
  memory_alloc(&m, computes, PART_ACTIVATIONS, 80); /* more in all, of buffers less */
  ck_assert_double_eq(m.peak_buffers, 100);
  ck_assert_double_eq(m.most_buffers, 150);
  event->done = event->recorded;
  b->sync(b, beside);
  memory_mark(&m);
  ck_assert_double_eq(m.peak_buffers, 0);
  ck_assert_double_eq(m.most_buffers, 0);
  b->event_free(b, event);
  b->stream_free(b, beside);
  memory_clear(&m);
  b->stream_free(b, computes);
  b->free(b);
}
END_TEST

/* An update reaches the last element, however many there are; with the first step's moments each weight goes against its
 * gradient by the rate, but for epsilon. */
START_TEST(updates_reach_the_last)
{
  enum { MOST = 37 };
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *s = b->stream_new(b, TRUE);
  double norm_sq = 1;

  for (int n = 1; n <= MOST; n++) {
    float weight[MOST], gradient[MOST], m[MOST] = { 0 }, v[MOST] = { 0 };
    for (int i = 0; i < MOST; i++) {
      weight[i] = 1;
      gradient[i] = i % 2 ? 2 : -3;
    }
    b->adam(b, s, &(ExecAdam) { .n = n, .weight = weight, .gradient = gradient, .m = m, .v = v, .rate = 0.25,
                                .beta1 = 0.5, .beta2 = 0.5, .epsilon = 1e-8, .step = 1, .loss_scale = 1,
                                .norm_sq = &norm_sq });
    for (int i = 0; i < MOST; i++) {
      float expected = i >= n ? 1 : i % 2 ? 0.75 : 1.25;
      ck_assert_float_eq_tol(weight[i], expected, 1e-6);
    }
  }
  b->stream_free(b, s);
  b->free(b);
}
END_TEST

/* A matrix's numbers are those of its places, one by one, wherever a part begins and ends. */
START_TEST(fill_goes_by_place)
{
  static const ExecFill parts[] = {
    { .seed = 3, .stream = 5, .first_row = 2, .first_col = 7, .cols = 37, .all_cols = 91, .mean = 1, .deviation = 0.5,
      .from = 11, .n = 1009 },
    { .seed = 3, .stream = 5, .first_row = 2, .end_row = 9, .cols = 64, .all_cols = 64, .deviation = 2, .n = 640 },
    { .seed = 3, .stream = 5, .cols = 1, .all_cols = 1, .mean = 1, .n = 5 },
    { .seed = 3, .stream = 5, .cols = 1, .all_cols = 3, .deviation = 1, .n = 5 },
  };
  char message[EXEC_ERROR_SIZE];

  for (int wide = 0; wide < 2; wide++) {
    ExecType type = wide ? EXEC_F64 : EXEC_F32;
    Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = type }, message);
    BackendStream *s = b->stream_new(b, TRUE);
    for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
      double y[1009];
      b->fill(b, s, &parts[i], y, type);
      for (size_t k = 0; k < parts[i].n; k++) {
        double expected = random_fill(&parts[i], parts[i].from + k);
        ck_assert(wide ? y[k] == expected : ((float *)y)[k] == (float)expected);
      }
    }
    b->stream_free(b, s);
    b->free(b);
  }
}
END_TEST

static char own_core[32]; /* OpenBLAS's choice when it was loaded */
static gboolean core_named;

__attribute__((constructor)) static void note_core(void)
{
  g_strlcpy(own_core, openblas_get_corename(), sizeof own_core);
  core_named = g_getenv("OPENBLAS_CORETYPE") != NULL;
}

extern void gotoblas_dynamic_init(void) __attribute__((weak));

/* OpenBLAS's choice stands, and what the variable names; but not the oldest core where it was chosen for a processor that
 * has vectors of eight, in a build for many. Products are right with what stands then. */
START_TEST(products_take_the_newest_kernels)
{
  static const float a[] = { 1, 2, 3, 4 }, b[] = { 5, 6, 7, 8 };
  char message[EXEC_ERROR_SIZE];
  float c[4];

  Backend *cpu = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  cpu->free(cpu);
  const char *core = openblas_get_corename();
  gboolean chosen = g_str_equal(own_core, "Prescott") && !core_named && gotoblas_dynamic_init;
#ifdef __x86_64__
  __builtin_cpu_init();
  const char *able = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "SkylakeX" : "Haswell";
  ck_assert_str_eq(core, chosen && __builtin_cpu_supports("avx2") ? able : own_core);
#else
  ck_assert(!chosen);
  ck_assert_str_eq(core, own_core);
#endif
  blas_product_f32(FALSE, FALSE, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
  ck_assert(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
}
END_TEST

/* Whatever OpenBLAS has chosen for this processor: the oldest core alone gives way, to what the processor can run. */
START_TEST(the_oldest_kernels_give_way)
{
  const char *able = NULL;

#ifdef __x86_64__
  __builtin_cpu_init();
  able = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "SkylakeX"
         : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")       ? "Haswell"
                                                                                 : NULL;
#endif
  ck_assert_pstr_eq(cpu_better_core("Prescott", FALSE), able);
  ck_assert_ptr_null(cpu_better_core("Prescott", TRUE));
  ck_assert_ptr_null(cpu_better_core("Haswell", FALSE));
  ck_assert_ptr_null(cpu_better_core("SkylakeX", FALSE));
}
END_TEST

static const int lone[2] = { 0, 0 };

/* Each data-parallel rank's part of the weights, one after another, is the whole. */
START_TEST(shards_join_to_the_whole)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *s = b->stream_new(b, TRUE);
  g_autoptr(Model) model = fixture_gpt_plain(2, 16, 4, 8, 16);
  Framework *framework = fixture_framework("tdp-run");
  Plan plan = plan_default(model, framework);
  LayerShape shape = layer_shape(model, LAYOUT(&plan), 0);
  gboolean present[4] = { TRUE, TRUE, TRUE, TRUE }, cuts[5] = { TRUE, FALSE, TRUE };
  Memory m;
  Shards whole, part;

  memory_init(&m, b, 0);
  shards_init(&whole, &shape, &m, lone, present, cuts);
  shards_allocate(&whole, s, 3);
  plan.gpus = plan.dp = plan.global_batch = plan.zero = 3;
  LayerShape divided = layer_shape(model, LAYOUT(&plan), 0);
  gint64 params = 0;
  for (Unit *u = shards_next(&whole, NULL, 0, 0); u; u = shards_next(&whole, u, 0, 0))
    params += u->n;
  ck_assert_int_eq(params, model->params);
  for (int rank = 0; rank < 3; rank++) {
    shards_init(&part, &divided, &m, (const int[]) { rank, 0 }, present, cuts);
    shards_allocate(&part, s, 3);
    Unit *a = shards_next(&whole, NULL, 0, 0), *c = shards_next(&part, NULL, 0, 0);
    for (; a && c; a = shards_next(&whole, a, 0, 0), c = shards_next(&part, c, 0, 0)) {
      gsize first = c->part * rank, n = MIN(c->part, a->n - first);
      ck_assert_mem_eq(c->own_weights, a->weights + first * sizeof(float), n * sizeof(float));
    }
    ck_assert(!a && !c);
    shards_clear(&part);
  }
  shards_clear(&whole);
  memory_clear(&m);
  b->stream_free(b, s);
  b->free(b);
  framework_free(framework);
}
END_TEST

/* States of a part on the host: 16 bytes a parameter, none of the optimizer's on the device. */
START_TEST(offloaded_states_are_on_the_host)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendStream *s = b->stream_new(b, TRUE);
  g_autoptr(Model) model = fixture_gpt_plain(2, 16, 4, 8, 16);
  Framework *framework = fixture_framework("tdp-run");
  Plan plan = plan_default(model, framework);
  plan.offload.optimizer = STORE_CPU;
  LayerShape shape = layer_shape(model, LAYOUT(&plan), 0);
  gboolean present[4] = { TRUE, TRUE, TRUE, TRUE }, cuts[5] = { TRUE };
  Shards shards;
  Memory m;

  memory_init(&m, b, 0);
  shards_init(&shards, &shape, &m, lone, present, cuts);
  shards_allocate(&shards, s, 3);
  ck_assert_double_eq(m.host_held, 16.0 * model->params);
  ck_assert_double_eq(m.held[PART_OPTIMIZER], 0);
  Unit *u = shards_next(&shards, NULL, 0, 0);
  ck_assert_mem_eq(u->master, u->weights, u->n * sizeof(float));
  shards_clear(&shards);
  memory_clear(&m);
  b->stream_free(b, s);
  b->free(b);
  framework_free(framework);
}
END_TEST

TEST_MAIN("exec", launchers_are_told_apart, ranks_know_where_to_meet, ranks_of_mpi_meet_by_it, bad_ranks_are_refused,
          random_numbers_are_normal, series_are_exact, parts_of_weights_are_those_of_the_whole, labels_follow_inputs,
          files_of_tokens_are_cut, memory_is_counted_by_part, memory_that_is_out_is_said,
          squares_are_summed_to_the_last, memory_is_held_until_it_is_freed, products_take_the_newest_kernels,
          the_oldest_kernels_give_way, fill_goes_by_place, updates_reach_the_last, shards_join_to_the_whole,
          offloaded_states_are_on_the_host)
