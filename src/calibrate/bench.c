#include "calibrate/bench.h"

#include "hardware/collective.h"

#include "base/json.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <unistd.h>

#define POOL_BYTES(large) ((gsize)1 << ((large) ? 30 : 25)) /* room for the largest message and copy */
#define LIKE 32 /* weights, or saved activations, of the kind in a model: so many come before the same one again */
#define PLACES 2 /* of what was just written: a call does not find it as the call before has left it */
#define VOCAB 512
#define WALK_BLOCK 16384 /* bytes: half of the nearest cache of most cores */
#define REFERENCE_SIDE(large) ((large) ? 2048 : 192)

/* ---- operands ---- */

static gsize element_bytes(const Bench *h)
{
  return exec_type_bytes(h->b->dtype);
}

static gsize wide_bytes(const Bench *h)
{
  return exec_type_bytes(exec_wide(h->b->dtype));
}

static gsize rounded(gsize bytes)
{
  return (bytes + 63) / 64 * 64;
}

/* The next so many bytes of what is walked through. */
static void *take(Bench *h, int pool, gsize bytes, gsize walked)
{
  gsize taken = rounded(bytes);

  g_assert(taken <= h->pool_bytes);
  if (h->next[pool] + taken > MIN(walked, h->pool_bytes))
    h->next[pool] = 0;
  h->next[pool] += taken;
  return h->pool[pool] + h->next[pool] - taken;
}

void *bench_take(Bench *h, int pool, gsize bytes)
{
  return take(h, pool, bytes, pool == ZEROS || h->b->units > 1 ? h->pool_bytes : LIKE * rounded(bytes));
}

static void *take_elements(Bench *h, int pool, double n)
{
  return bench_take(h, pool, (gsize)n * element_bytes(h));
}

static void *take_wide(Bench *h, int pool, double n)
{
  return bench_take(h, pool, (gsize)n * wide_bytes(h));
}

/* What the operator before has just written: it is in a cache if it fits. */
static void *written(Bench *h, int pool, double n)
{
  gsize bytes = (gsize)n * element_bytes(h);

  return take(h, pool, bytes, PLACES * rounded(bytes));
}

/* As activations are before a nonlinearity: about normal, deviation 0.3. Functions
 * take other paths for other sizes, and branches learn what repeats. */
static float next_number(guint64 *state)
{
  double sum = -2;

  for (int i = 0; i < 4; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(*state >> 40) / (1 << 24);
  }
  return (float)(0.3 / sqrt(1.0 / 3) * sum);
}

/* The host's block of numbers over and over, in the backend's format; by way of the
 * pool of zeros, which is cleared last. */
static void fill_pool(Bench *h, int pool)
{
  Backend *b = h->b;
  gsize n = h->host_bytes / sizeof(float), bytes = n * element_bytes(h);
  float *host = h->host;
  guint64 state = pool;

  for (gsize i = 0; i < n; i++)
    host[i] = next_number(&state);
  b->upload(b, h->s, h->pool[ZEROS], host, h->host_bytes);
  for (gsize at = 0; at + bytes <= h->pool_bytes; at += bytes)
    b->cast(b, h->s, n, h->pool[ZEROS], EXEC_F32, h->pool[pool] + at, b->dtype);
  b->sync(b, h->s);
}

gboolean bench_init(Bench *h, Backend *b)
{
  *h = (Bench) { .b = b, .s = b->stream_new(b, TRUE), .beside = b->stream_new(b, FALSE), .joined = b->event_new(b),
                 .pool_bytes = POOL_BYTES(b->units > 1), .host_bytes = POINTS_COPY_BYTES(b->units > 1) };
  h->host = b->host_alloc(b, h->host_bytes);
  for (int i = 0; i < BENCH_POOLS; i++) {
    h->pool[i] = b->alloc(b, h->s, h->pool_bytes);
    if (!h->host || !h->pool[i])
      return FALSE;
  }
  for (int i = 0; i < ZEROS; i++)
    fill_pool(h, i);
  b->zero(b, h->s, h->pool[ZEROS], h->pool_bytes);
  b->sync(b, h->s);
  return TRUE;
}

gboolean bench_walk_room(Bench *h, gsize bytes)
{
  h->walk = h->b->alloc(h->b, h->s, bytes);
  if (!h->walk)
    return FALSE;
  h->walk_bytes = bytes;
  h->b->zero(h->b, h->s, h->walk, bytes);
  h->b->sync(h->b, h->s);
  return TRUE;
}

static void drop_disk_file(Bench *h)
{
  if (h->disk_path)
    g_unlink(h->disk_path);
  g_clear_pointer(&h->disk_path, g_free);
}

void bench_clear(Bench *h)
{
  drop_disk_file(h);
  if (!h->s)
    return;
  if (h->walk)
    h->b->dealloc(h->b, h->s, h->walk, h->walk_bytes);
  for (int i = 0; i < BENCH_POOLS; i++)
    if (h->pool[i])
      h->b->dealloc(h->b, h->s, h->pool[i], h->pool_bytes);
  h->b->sync(h->b, h->s);
  h->b->stream_free(h->b, h->s);
  h->b->stream_free(h->b, h->beside);
  h->b->event_free(h->b, h->joined);
  if (h->host)
    h->b->host_free(h->b, h->host);
}

/* ---- kernels bound by memory ---- */

static ExecNormArgs norm_args(Bench *h, const MachinePoint *p, void *x)
{
  void *stats = take_wide(h, 4, 2.0 * p->m);

  return (ExecNormArgs) { .kind = EXEC_LAYERNORM, .rows = p->m, .width = p->n, .epsilon = 1e-5,
                          .x = x, .weight = take_elements(h, 1, p->n),
                          .bias = take_elements(h, 1, p->n), .mean = stats,
                          .rstd = (char *)stats + p->m * wide_bytes(h) };
}

static void run_norm(Bench *h, const MachinePoint *p)
{
  ExecNormArgs a = norm_args(h, p, written(h, 0, (double)p->m * p->n));

  h->b->norm_forward(h->b, h->s, &a, take_elements(h, 2, (double)p->m * p->n));
}

static void run_norm_backward(Bench *h, const MachinePoint *p)
{
  double n = (double)p->m * p->n;
  ExecNormArgs a = norm_args(h, p, take_elements(h, 0, n));
  void *dy = written(h, 1, n), *dx = take_elements(h, 2, n);

  h->b->copy(h->b, h->s, dx, dy, n * element_bytes(h));
  h->b->norm_backward(h->b, h->s, &a, dy, dx, TRUE, take_wide(h, 3, p->n), take_wide(h, 3, p->n));
}

static void run_residual(Bench *h, const MachinePoint *p)
{
  gsize n = (gsize)p->m * p->n;
  h->b->add(h->b, h->s, n, take_elements(h, 0, n), written(h, 2, n));
}

static void run_bias(Bench *h, const MachinePoint *p)
{
  h->b->bias_forward(h->b, h->s, p->m, p->n, written(h, 2, (double)p->m * p->n), take_elements(h, 1, p->n));
}

static void run_bias_gradient(Bench *h, const MachinePoint *p)
{
  h->b->bias_backward(h->b, h->s, p->m, p->n, written(h, 0, (double)p->m * p->n), take_wide(h, 3, p->n));
}

static void run_gelu(Bench *h, const MachinePoint *p)
{
  gsize n = (gsize)p->m * p->n;
  h->b->gelu_forward(h->b, h->s, n, written(h, 0, n), take_elements(h, 2, n));
}

static void run_gelu_backward(Bench *h, const MachinePoint *p)
{
  gsize n = (gsize)p->m * p->n;
  h->b->gelu_backward(h->b, h->s, n, take_elements(h, 0, n), written(h, 1, n), take_elements(h, 2, n));
}

static void run_swiglu(Bench *h, const MachinePoint *p)
{
  double n = (double)p->m * p->n;
  h->b->swiglu_forward(h->b, h->s, p->m, p->n, written(h, 0, 2 * n), take_elements(h, 2, n));
}

static void run_swiglu_backward(Bench *h, const MachinePoint *p)
{
  double n = (double)p->m * p->n;
  h->b->swiglu_backward(h->b, h->s, p->m, p->n, take_elements(h, 0, 2 * n), written(h, 1, n),
                        take_elements(h, 2, 2 * n));
}

/* Queries and keys of heads of 64. */
static void run_rope(Bench *h, const MachinePoint *p)
{
  h->b->rope(h->b, h->s, p->m, exec_places_whole(p->m), p->n / 64, 64, p->n, written(h, 2, (double)p->m * p->n), 1e4,
             p->backward ? -1 : 1);
}

static int32_t *take_tokens(Bench *h, int n)
{
  int32_t *tokens = bench_take(h, 4, (gsize)n * sizeof *tokens);
  int32_t *host = g_new(int32_t, n);

  for (int i = 0; i < n; i++)
    host[i] = (int32_t)((guint)i * 2654435761u % VOCAB);
  h->b->upload(h->b, h->s, tokens, host, (gsize)n * sizeof *host);
  g_free(host);
  return tokens;
}

static void run_lookup(Bench *h, const MachinePoint *p)
{
  h->b->embedding_forward(h->b, h->s, p->m, p->n, 0, VOCAB, take_tokens(h, p->m),
                          take_elements(h, 0, (double)VOCAB * p->n), take_elements(h, 2, (double)p->m * p->n));
}

static void run_lookup_backward(Bench *h, const MachinePoint *p)
{
  h->b->embedding_backward(h->b, h->s, p->m, p->n, 0, VOCAB, take_tokens(h, p->m),
                           take_elements(h, 0, (double)p->m * p->n), take_wide(h, 3, (double)VOCAB * p->n));
}

static void run_positions(Bench *h, const MachinePoint *p)
{
  h->b->position_forward(h->b, h->s, p->m, p->n, exec_places_whole(p->m), 0,
                         take_elements(h, 0, (double)p->m * p->n), take_elements(h, 2, (double)p->m * p->n));
}

static void run_positions_backward(Bench *h, const MachinePoint *p)
{
  h->b->position_backward(h->b, h->s, p->m, p->n, exec_places_whole(p->m), 0,
                          take_elements(h, 0, (double)p->m * p->n), take_wide(h, 3, (double)p->m * p->n));
}

static ExecLoss loss_args(Bench *h, const MachinePoint *p)
{
  return (ExecLoss) { .rows = p->m, .width = p->n, .vocab = p->n, .logits = take_elements(h, 2, (double)p->m * p->n),
                      .labels = take_tokens(h, p->m), .max = take_wide(h, 1, p->m), .sum = take_wide(h, 1, p->m),
                      .target = take_wide(h, 1, p->m) };
}

static void run_loss(Bench *h, const MachinePoint *p)
{
  ExecLoss l = loss_args(h, p);

  h->b->loss_rows(h->b, h->s, &l, EXEC_LOSS_BOTH);
  h->b->loss_value(h->b, h->s, &l, 1e-6, bench_take(h, 4, sizeof(double)));
}

static void run_loss_backward(Bench *h, const MachinePoint *p)
{
  ExecLoss l = loss_args(h, p);
  h->b->loss_backward(h->b, h->s, &l, 1e-3);
}

static void run_optimizer(Bench *h, const MachinePoint *p)
{
  gsize n = (gsize)p->m * p->n, bytes = n * wide_bytes(h);
  void *gradient = take_wide(h, ZEROS, n);
  double *norm = bench_take(h, 4, sizeof(double));

  h->b->zero(h->b, h->s, norm, sizeof *norm);
  h->b->sum_squares(h->b, h->s, n, take_wide(h, ZEROS, n), norm); /* behind all gradients, before all updates */
  h->b->adam(h->b, h->s, &(ExecAdam) { .n = n, .weight = take_elements(h, ZEROS, n), .gradient = gradient,
                                       .m = take_wide(h, ZEROS, n), .v = take_wide(h, ZEROS, n), .rate = 1e-6, .beta1 = 0.9,
                                       .beta2 = 0.95, .epsilon = 1e-8, .step = 10, .loss_scale = 1, .norm_sq = norm,
                                       .max_norm = 1 });
  h->b->zero(h->b, h->s, gradient, bytes);
}

/* Whole gradients are cleared, and the half that one of two ranks owns is added to its own (exec/shards.c). */
static void run_shard_copies(Bench *h, const MachinePoint *p)
{
  gsize n = (gsize)p->m * p->n;
  void *whole = take_wide(h, 3, n);

  h->b->zero(h->b, h->s, whole, n * wide_bytes(h));
  h->b->add_wide(h->b, h->s, n / 2, whole, take_wide(h, ZEROS, n / 2));
}

static const struct {
  const char *name;
  void (*run[2])(Bench *h, const MachinePoint *p); /* forward, backward */
} memory_kinds[] = {
  { "norm", { run_norm, run_norm_backward } },
  { "residual", { run_residual } },
  { "bias", { run_bias } },
  { "bias gradient", { NULL, run_bias_gradient } },
  { "activation", { run_gelu, run_gelu_backward } },
  { "swiglu", { run_swiglu, run_swiglu_backward } },
  { "rotary", { run_rope, run_rope } },
  { "lookup", { run_lookup, run_lookup_backward } },
  { "positions", { run_positions, run_positions_backward } },
  { "loss", { run_loss, run_loss_backward } },
  { "optimizer", { run_optimizer } },
  { "shard copies", { NULL, run_shard_copies } },
};

static void run_memory(Bench *h, const MachinePoint *p)
{
  for (gsize i = 0; i < G_N_ELEMENTS(memory_kinds); i++)
    if (g_str_equal(memory_kinds[i].name, p->name))
      memory_kinds[i].run[p->backward](h, p);
}

/* ---- products, attention, copies ---- */

static void run_matmul(Bench *h, const MachinePoint *p)
{
  gboolean ta = p->name[0] == 't', tb = p->name[1] == 't';
  double m = p->m, n = p->n, k = p->k;

  h->b->gemm(h->b, h->s, &(ExecGemm) {
    .transpose_a = ta, .transpose_b = tb, .wide_c = ta, .m = p->m, .n = p->n, .k = p->k, .batch = 1, .alpha = 1e-3,
    .beta = ta, .a = written(h, 0, m * k), .b = take_elements(h, ta ? 2 : 1, n * k),
    .c = ta ? take_wide(h, 3, m * n) : take_elements(h, 2, m * n), .lda = ta ? p->m : p->k,
    .ldb = tb ? p->k : p->n, .ldc = p->n });
}

static void run_attention(Bench *h, const MachinePoint *p)
{
  int width = p->k * p->head_dim;
  double rows = (double)p->m * p->n;
  char *qkv = p->backward ? take_elements(h, 0, 3 * rows * width) : written(h, 0, 3 * rows * width);
  char *dqkv = take_elements(h, 2, 3 * rows * width);
  gsize part = width * element_bytes(h);
  ExecAttention a = { .batch = p->m, .q_len = p->n, .kv_len = p->n, .q_rows = p->n, .kv_rows = p->n, .heads = p->k,
                      .kv_heads = p->k, .head_dim = p->head_dim, .ld_q = 3 * width, .ld_kv = 3 * width, .causal = 1,
                      .scale = 1 / sqrt(p->head_dim), .q = qkv, .k = qkv + part, .v = qkv + 2 * part,
                      .context = take_elements(h, 4, rows * width), .lse = take_wide(h, 4, rows * p->k),
                      .dcontext = written(h, 1, rows * width), .dq = dqkv, .dk = dqkv + part,
                      .dv = dqkv + 2 * part };

  if (p->backward)
    h->b->attention_backward(h->b, h->s, &a);
  else
    h->b->attention_forward(h->b, h->s, &a);
}

static void run_transfer(Bench *h, const MachinePoint *p)
{
  gsize bytes = p->bytes;

  if (p->name[0] == 'u')
    h->b->host_up(h->b, h->s, h->pool[0], h->host, bytes);
  else if (p->name[0] == 'd')
    h->b->host_down(h->b, h->s, h->host, h->pool[0], bytes);
  else
    h->b->copy(h->b, h->s, h->pool[0], h->pool[1], bytes);
}

static void run_turn(Bench *h, const MachinePoint *p)
{
  MachinePoint product = { .name = "nt", .m = p->m, .n = p->n, .k = p->k };
  MachinePoint between = { .m = 1, .n = (int)(p->bytes / (2 * element_bytes(h))) };

  for (int i = 0; i < TURN_PAIRS; i++) {
    run_matmul(h, &product);
    if (!p->backward)
      run_gelu(h, &between);
  }
  for (int i = 0; i < TURN_PAIRS && p->backward; i++)
    run_gelu(h, &between);
}

/* Added to a block that stays in the nearest cache, or that is added to it: zeros. */
static void run_walk(Bench *h, const MachinePoint *p)
{
  gboolean writes = p->name[0] == 'u';
  gsize n = WALK_BLOCK / element_bytes(h);
  char *block = h->pool[ZEROS];

  for (gsize at = 0; at + WALK_BLOCK <= (gsize)p->bytes; at += WALK_BLOCK)
    h->b->add(h->b, h->s, n, writes ? block : h->walk + at, writes ? h->walk + at : block);
}

/* With memory for its result, as the executor asks for it. */
static void run_launch(Bench *h, const MachinePoint *p)
{
  void *y = h->b->alloc(h->b, h->s, sizeof(double));

  (void)p;
  h->b->zero(h->b, h->s, y, sizeof(double));
  h->b->bias_forward(h->b, h->s, 1, 1, y, h->pool[1]);
  h->b->dealloc(h->b, h->s, y, sizeof(double));
}

void bench_reference(Bench *h, gboolean again)
{
  int side = REFERENCE_SIDE(h->b->units > 1);

  for (int pool = 0; pool <= 2 && again; pool++)
    h->next[pool] -= rounded((gsize)side * side * element_bytes(h));
  run_matmul(h, &(MachinePoint) { .name = "nt", .m = side, .n = side, .k = side });
}

/* ---- disk ---- */

static gboolean move_all(int file, gboolean reading, char *bytes, gsize n)
{
  while (n > 0) {
    gssize moved = reading ? read(file, bytes, n) : write(file, bytes, n);
    if (moved <= 0)
      return FALSE;
    bytes += moved;
    n -= moved;
  }
  return TRUE;
}

/* A file of its own in the folder for temporary files, behind the system's cache: what is written is read later. */
static int open_disk_file(Bench *h, gboolean reading)
{
  if (reading)
    return h->disk_path ? g_open(h->disk_path, O_RDONLY | O_NOFOLLOW, 0) : -1;
  drop_disk_file(h);
  return g_file_open_tmp("tdp-calibrate-XXXXXX", &h->disk_path, NULL);
}

static void run_disk(Bench *h, const MachinePoint *p)
{
  gboolean reading = p->name[0] == 'r';
  int file = open_disk_file(h, reading);
  gboolean done = file >= 0;

  if (done && reading)
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  done = done && move_all(file, reading, h->host, p->bytes) && (reading || fsync(file) == 0);
  if (file >= 0)
    close(file);
  if (reading || !done)
    drop_disk_file(h);
  if (!done)
    h->failure = "a file for temporary data cannot be written and read";
}

/* ---- */

static void (*const kinds[POINT_KIND_COUNT])(Bench *h, const MachinePoint *p) = {
  [POINT_MATMUL] = run_matmul, [POINT_ATTENTION] = run_attention, [POINT_MEMORY] = run_memory,
  [POINT_TRANSFER] = run_transfer, [POINT_LAUNCH] = run_launch, [POINT_DISK] = run_disk, [POINT_TURN] = run_turn,
  [POINT_WALK] = run_walk,
};

void bench_run(Bench *h, const MachinePoint *p)
{
  kinds[p->kind](h, p);
}

int bench_parts(const MachinePoint *p)
{
  return point_like(p, POINT_COLLECTIVE, collective_names[COLLECTIVE_SEND], FALSE) ? 2 : 1;
}

/* There and back between the first two of the group: two sends. */
static void exchange(Bench *h, BackendComm *comm, void *x, gsize n)
{
  for (int from = 0; from < 2; from++)
    if (h->b->rank == from)
      h->b->send(h->b, comm, h->s, x, n, h->b->dtype, 1 - from);
    else if (h->b->rank == 1 - from)
      h->b->recv(h->b, comm, h->s, x, n, h->b->dtype, from);
}

/* The collective begins first; its stream moves while products run, if it can and is another. */
static void run_beside(Bench *h, const MachinePoint *p, BackendComm *comm)
{
  gsize n = p->bytes / element_bytes(h);
  MachinePoint product = { .name = "nt", .m = p->m, .n = p->n, .k = p->k };

  BackendStream *stream = p->backward ? h->s : h->beside;

  h->b->all_reduce(h->b, comm, stream, take_elements(h, ZEROS, n), n, h->b->dtype, EXEC_SUM);
  h->b->event_record(h->b, h->joined, stream);
  for (int i = 0; i < p->head_dim; i++)
    run_matmul(h, &product);
  h->b->event_wait(h->b, h->joined, h->s);
}

void bench_collective(Bench *h, const MachinePoint *p, BackendComm *comm)
{
  if (p->kind == POINT_BESIDE) {
    run_beside(h, p, comm);
    return;
  }
  gsize n = MAX(1, p->bytes / element_bytes(h)), each = MAX(1, n / p->ranks);
  void *x = take_elements(h, ZEROS, n), *y = take_elements(h, ZEROS, each * p->ranks);

  switch ((Collective)names_find(collective_names, p->name)) {
  case COLLECTIVE_ALL_REDUCE:
    h->b->all_reduce(h->b, comm, h->s, x, n, h->b->dtype, EXEC_SUM);
    break;
  case COLLECTIVE_ALL_GATHER:
    h->b->all_gather(h->b, comm, h->s, x, y, each, h->b->dtype);
    break;
  case COLLECTIVE_REDUCE_SCATTER:
    h->b->reduce_scatter(h->b, comm, h->s, x, y, each, h->b->dtype);
    break;
  default:
    exchange(h, comm, x, n);
  }
}
