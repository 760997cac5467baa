/*
 * The loss scale and skipped steps, for plans that divide weights, gradients and optimizer states in every way. Each
 * plan trains four times:
 *
 *   plain      not scaled
 *   scaled     by a fixed power of two, which rounds nothing in fp32: losses and norms must be the same to the bit
 *   overflows  by a scale with which every gradient overflows; after two skipped steps by one with which none does;
 *              three steps later by the first again, and so on. The very steps that should be skipped are, on all
 *              ranks; a skipped step leaves this rank's weights and optimizer states as they were to the bit, another
 *              one does not; and losses and norms are those of a single rank on cores that does the same in fp32
 *   struck     scaled, with an infinity among the gradients of the last rank alone in one step: all ranks skip that one
 *
 *   mpirun -np N build/tests/mpi/scaling [BACKEND FORMAT [TEXT]]
 *
 * prints a line a plan, of those with TEXT in their name; exit 1 if one fails. In fp16 plain and scaled are left out.
 */
#include "backend.h"
#include "exec/rank.h"
#include "../fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 8, SEQUENCES = 8 };
enum { GPT, LLAMA, MOE, MODELS };
enum { NEVER = -1, STRUCK_STEP = 2 };
enum { SCALED_STEPS = 4, STRUCK_STEPS = STRUCK_STEP + 2 }; /* of those training runs; of the others STEPS */

/* What a format needs: scales with which every gradient overflows and none does, and how far from the reference its
 * losses and norms may be: between plans in fp32 as in parity.c. */
typedef struct {
  const char *name;
  ExecType type;
  DType precision;
  double high, low, tolerance;
} Format;

static const Format formats[] = {
  { "fp32", EXEC_F32, DTYPE_FP32, 0x1p140, 0x1p100, 1e-5 },
  { "fp16", EXEC_F16, DTYPE_FP16, 0x1p40, 0x1p14, 1e-3 },
};

static const gboolean overflows_at[STEPS] = { [0] = TRUE, [1] = TRUE, [5] = TRUE, [6] = TRUE };

/* dp is what is left. A vocabulary over the pipeline is untied: two streams add to a tied share as they come. */
typedef struct {
  const char *name;
  int model, tp, cp, pp, ep, sp, zero, offload;
  const char *schedule;
} Case;

static const Case cases[] = {
  { "data", GPT, 1, 1, 1, 1, 0, 0, 0, "1f1b" },
  { "ZeRO-1", GPT, 1, 1, 1, 1, 0, 1, 0, "1f1b" },
  { "ZeRO-2", LLAMA, 1, 1, 1, 1, 0, 2, 0, "1f1b" },
  { "ZeRO-3", GPT, 1, 1, 1, 1, 0, 3, 0, "1f1b" },
  { "ZeRO-1, optimizer on the host", GPT, 1, 1, 1, 1, 0, 1, 1, "1f1b" },
  { "optimizer on the host", LLAMA, 2, 1, 1, 1, 0, 0, 1, "1f1b" },
  { "tensor", GPT, 2, 1, 1, 1, 0, 0, 0, "1f1b" },
  { "tensor and sequence", LLAMA, 2, 1, 1, 1, 1, 0, 0, "1f1b" },
  { "context", LLAMA, 1, 2, 1, 1, 0, 0, 0, "1f1b" },
  { "pipeline, tied table on two ranks", GPT, 1, 1, 2, 1, 0, 0, 0, "1f1b" },
  { "pipeline, weight gradients apart", LLAMA, 1, 1, 2, 1, 0, 0, 0, "zb-h1" },
  { "two copies of each stage", LLAMA, 1, 1, 2, 1, 0, 0, 0, "chimera" },
  { "vocabulary over the pipeline, early", LLAMA, 1, 1, 2, 1, 0, 0, 0, "vocab-1" },
  { "vocabulary over the pipeline, late", LLAMA, 1, 1, 2, 1, 0, 0, 0, "vocab-2" },
  { "experts", MOE, 1, 1, 1, 1, 0, 0, 0, "1f1b" },
  { "experts apart", MOE, 1, 1, 1, 2, 0, 0, 0, "1f1b" },
};

typedef struct {
  Model *models[MODELS];
  Framework *software;
  const Format *format;
  Control *control;
  Backend *backend;
} Suite;

typedef struct {
  ExecStep steps[STEPS];
  gboolean changed[STEPS]; /* this rank's weights or states */
} Outcome;

static Plan plan_of(const Suite *s, const Case *c, const Format *format, int gpus)
{
  Plan plan = plan_default(s->models[c->model], s->software);
  const Schedule *schedule = schedule_find(c->schedule);

  plan.gpus = gpus;
  plan.global_batch = SEQUENCES;
  plan.precision = format->precision;
  if (gpus == 1)
    return plan;
  plan.tp = c->tp;
  plan.cp = c->cp;
  plan.pp = c->pp;
  plan.ep = c->ep;
  plan.etp = c->model == MOE ? 1 : 0;
  plan.dp = gpus / (c->tp * c->cp * c->pp);
  plan.sequence_parallel = c->sp;
  plan.zero = plan_replicas(&plan) > 1 ? c->zero : 0;
  plan.offload.optimizer = c->offload ? STORE_CPU : STORE_DEVICE;
  plan_set_schedule(&plan, schedule, schedule->min_chunks);
  return plan;
}

static void add_state(Exec *x, GChecksum *sum, const void *p, gsize bytes, gboolean on_host)
{
  g_autofree guint8 *copy = on_host || !p ? NULL : g_malloc(bytes);

  if (copy)
    x->b->download(x->b, x->run.s, copy, p, bytes);
  if (p)
    g_checksum_update(sum, copy ? copy : p, bytes);
}

/* Of what this rank owns of weights, master copies and moments. */
static char *state_sum(Exec *x)
{
  GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);

  for (Unit *u = shards_next(&x->shards, NULL, 0, 0); u; u = shards_next(&x->shards, u, 0, 0)) {
    const void *states[] = { u->master, u->m, u->v };
    add_state(x, sum, u->own_weights, u->part * x->run.bytes, FALSE);
    for (gsize i = 0; i < G_N_ELEMENTS(states); i++)
      add_state(x, sum, states[i], u->part * x->run.wide_bytes, x->shards.host);
  }
  char *text = g_strdup(g_checksum_get_string(sum));
  g_checksum_free(sum);
  return text;
}

static void stop(void *data, const char *message)
{
  fprintf(stderr, "rank %d: %s\n", ((Suite *)data)->backend->rank, message);
  _exit(1);
}

/* The first value that this rank sums up. */
static void strike(Exec *x)
{
  const float infinity = INFINITY;

  x->b->upload(x->b, x->run.s, shards_next(&x->shards, NULL, 0, 0)->own_gradients, &infinity, sizeof infinity);
}

static Outcome train(Suite *s, const Case *c, const Format *format, Backend *backend, LossScaler scaler, int steps,
                     int struck)
{
  Cluster *cluster = fixture_cluster("cpu", backend->size);
  ExecOptions options = exec_options_default();
  Plan plan = plan_of(s, c, format, backend->size);
  const Layout *layout = LAYOUT(&plan);
  const Model *model = s->models[c->model];
  GError *error = NULL;
  Outcome out;

  cluster->host_memory_bytes = 0x1p34;
  cluster->host_memory_bytes_per_s = 1e10;
  g_autoptr(PriceTable) prices = price_table_new(model, layout, cluster);
  g_autoptr(Program) program = program_new(model, layout, cluster, prices);
  options.scaler = scaler;
  options.fatal = stop;
  options.data = s;
  Exec *x = NULL;
  if (exec_check(model, &plan, layout, program, &error))
    x = exec_new(model, layout, program, backend, &options, &error);
  if (!x)
    stop(s, error->message);
  g_autofree char *before = state_sum(x);
  for (int i = 0; i < steps; i++) {
    if (i == struck && backend->rank == backend->size - 1)
      strike(x);
    exec_step(x, &out.steps[i]);
    char *after = state_sum(x);
    out.changed[i] = !g_str_equal(before, after);
    g_free(before);
    before = after;
  }
  exec_free(x);
  cluster_free(cluster);
  return out;
}

static LossScaler overflowing(const Format *format)
{
  LossScaler scaler = loss_scaler_dynamic();

  scaler.scale = format->high;
  scaler.back_off = format->low / format->high;
  scaler.growth = format->high / format->low;
  scaler.interval = 3;
  return scaler;
}

static Backend *open_backend(const char *name, const BackendOptions *options)
{
  char message[EXEC_ERROR_SIZE] = "";
  Backend *b = backend_open(name, options, message);

  if (!b)
    g_error("%s: %s", name, message);
  return b;
}

static Outcome train_alone(Suite *s, const Case *c)
{
  Backend *alone = open_backend("cpu", &(BackendOptions) { .size = 1, .dtype = EXEC_F32 });
  Outcome out = train(s, c, &formats[0], alone, overflowing(&formats[0]), STEPS, NEVER);

  alone->free(alone);
  return out;
}

/* Steps in which a scale changes what it should not. */
static int count_scaled(Suite *s, const Case *c)
{
  Outcome plain = train(s, c, s->format, s->backend, (LossScaler) { 0 }, SCALED_STEPS, NEVER);
  Outcome scaled = train(s, c, s->format, s->backend, loss_scaler_fixed(0x1p20), SCALED_STEPS, NEVER);
  int wrong = 0;

  for (int i = 0; i < SCALED_STEPS; i++)
    wrong += plain.steps[i].loss != scaled.steps[i].loss || plain.steps[i].grad_norm != scaled.steps[i].grad_norm ||
             plain.steps[i].skipped || scaled.steps[i].skipped || !scaled.changed[i];
  return wrong;
}

static int count_skipped(const Outcome *found, const Format *format)
{
  int wrong = 0;

  for (int i = 0; i < STEPS; i++)
    wrong += found->steps[i].skipped != overflows_at[i] || found->changed[i] == overflows_at[i] ||
             found->steps[i].loss_scale != (overflows_at[i] ? format->high : format->low);
  return wrong;
}

static int count_struck(Suite *s, const Case *c)
{
  Outcome found = train(s, c, s->format, s->backend, loss_scaler_dynamic(), STRUCK_STEPS, STRUCK_STEP);
  int wrong = 0;

  for (int i = 0; i < STRUCK_STEPS; i++)
    wrong += found.steps[i].skipped != (i == STRUCK_STEP) || found.changed[i] == (i == STRUCK_STEP) ||
             (i == STRUCK_STEP) != !isfinite(found.steps[i].grad_norm);
  return wrong;
}

static double difference(const Outcome *found, const Outcome *expected)
{
  double worst = 0;

  for (int i = 0; i < STEPS; i++) {
    worst = fmax(worst, fabs(found->steps[i].loss / expected->steps[i].loss - 1));
    if (!overflows_at[i])
      worst = fmax(worst, fabs(found->steps[i].grad_norm / expected->steps[i].grad_norm - 1));
  }
  return isnan(worst) ? INFINITY : worst;
}

/* Wrong steps of all ranks. */
static double over_ranks(Suite *s, BackendComm *world, BackendStream *stream, double wrong)
{
  Backend *b = s->backend;
  double *sum = b->alloc(b, stream, sizeof *sum);

  b->upload(b, stream, sum, &wrong, sizeof wrong);
  b->all_reduce(b, world, stream, sum, 1, EXEC_F64, EXEC_SUM);
  b->download(b, stream, &wrong, sum, sizeof wrong);
  b->dealloc(b, stream, sum, sizeof *sum);
  return wrong;
}

static gboolean check(Suite *s, const Case *c, BackendComm *world, BackendStream *stream)
{
  const Format *format = s->format;
  Outcome found = train(s, c, format, s->backend, overflowing(format), STEPS, NEVER), expected = train_alone(s, c);
  double skips = count_skipped(&found, format) + count_skipped(&expected, &formats[0]) + count_struck(s, c);
  double bits = format->type == EXEC_F32 ? count_scaled(s, c) : 0, worst = difference(&found, &expected);

  skips = over_ranks(s, world, stream, skips);
  bits = over_ranks(s, world, stream, bits);
  gboolean good = bits == 0 && skips == 0 && worst < format->tolerance;
  if (s->backend->rank == 0)
    printf("%-36s %g steps changed by scaling, %g wrongly skipped, worst difference %.1e%s\n", c->name, bits, skips,
           worst, good ? "" : " WRONG");
  fflush(stdout);
  return good;
}

static void suite_init(Suite *s, const char *backend, const char *format)
{
  for (gsize i = 0; i < G_N_ELEMENTS(formats); i++)
    if (g_str_equal(formats[i].name, format))
      s->format = &formats[i];
  if (!s->format)
    g_error("%s: no such format", format);
  s->backend = backend_open_rank(backend, s->format->type, &s->control);
  s->models[GPT] = fixture_gpt_plain(4, 32, 8, 16, 61);
  s->models[LLAMA] = fixture_llama(4, 32, 8, 4, 16, 61);
  s->models[MOE] = fixture_moe(4, 32, 8, 16, 61, 4, 2, 16);
  s->software = fixture_framework("tdp-run");
}

int main(int argc, char **argv)
{
  char message[EXEC_ERROR_SIZE] = "";
  Suite s = { 0 };
  int failed = 0, run = 0;

  suite_init(&s, argc > 2 ? argv[1] : "cpu", argc > 2 ? argv[2] : "fp32");
  Backend *b = s.backend;
  BackendStream *stream = b->stream_new(b, TRUE);
  BackendComm *world = b->comm_new(b, 0, b->rank, message);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    if (argc <= 3 || strstr(cases[i].name, argv[3])) {
      failed += !check(&s, &cases[i], world, stream);
      run++;
    }
  if (b->rank == 0)
    printf("%d ranks: %d plans, %d failed\n", b->size, run, failed);
  b->comm_free(b, world);
  b->stream_free(b, stream);
  b->free(b);
  control_close(s.control);
  framework_free(s.software);
  for (int i = 0; i < MODELS; i++)
    model_free(s.models[i]);
  return failed > 0 || run == 0;
}
