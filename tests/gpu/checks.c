/* What no single operation shows: that initial weights are the host's to the bit, products of more shapes than a
 * backend keeps plans for, and that what a device has finished counts as a sign of life. */
#include "exec/cpu/cpu.h"
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Backend *cpu_single(void)
{
  char error[EXEC_ERROR_SIZE] = "";
  BackendOptions options = { .size = 1, .dtype = EXEC_F32 };

  return cpu_open(&options, error);
}

/* Runs `make` on a backend; n floats, to be freed. */
static float *floats_of(Backend *b, size_t n, void (*make)(Backend *b, BackendStream *s, float *y))
{
  BackendStream *s = b->stream_new(b, 1);
  float *device = b->alloc(b, s, n * sizeof *device), *host = malloc(n * sizeof *host);

  make(b, s, device);
  b->download(b, s, host, device, n * sizeof *host);
  b->dealloc(b, s, device, n * sizeof *device);
  b->sync(b, s);
  b->stream_free(b, s);
  return host;
}

enum { WEIGHTS = 100003 };

static void weights(Backend *b, BackendStream *s, float *y)
{
  ExecFill f = { .seed = 3, .stream = 14, .first_row = 15, .first_col = 9, .cols = 26, .all_cols = 53,
                 .deviation = 0.02, .n = WEIGHTS };
  b->fill(b, s, &f, y, EXEC_F32);
}

/* Ones times ones of 1 to 1500 rows, each shape twice with all others between, scaled by its rows: the last row's. */
enum { SHAPES = 1500, WIDTH = 8 };

static void products(Backend *b, BackendStream *s, float *y)
{
  ExecFill ones = { .cols = WIDTH, .all_cols = WIDTH, .mean = 1, .n = (size_t)SHAPES * WIDTH };
  float *x = b->alloc(b, s, ones.n * sizeof *x), *z = b->alloc(b, s, ones.n * sizeof *z);

  b->fill(b, s, &ones, x, EXEC_F32);
  for (int i = 0; i < 2 * SHAPES; i++) {
    int rows = i * 7 % SHAPES + 1;
    ExecGemm g = { .transpose_b = 1, .m = rows, .n = WIDTH, .k = WIDTH, .batch = 1, .alpha = rows, .a = x, .b = x,
                   .c = z, .lda = WIDTH, .ldb = WIDTH, .ldc = WIDTH };
    b->zero(b, s, z, ones.n * sizeof *z);
    b->gemm(b, s, &g);
    b->copy(b, s, y + i % SHAPES, z + (size_t)(rows - 1) * WIDTH, sizeof *y);
  }
  b->dealloc(b, s, x, ones.n * sizeof *x);
  b->dealloc(b, s, z, ones.n * sizeof *z);
}

/* Each product counts when it starts; on a device every second one again when it has ended, but for the last ones,
 * which nobody waits for. */
static int counts_ends(Backend *gpu)
{
  uint64_t before = gpu->activity;

  free(floats_of(gpu, SHAPES, products));
  uint64_t counted = gpu->activity - before, expected = gpu->concurrent ? 5 * SHAPES / 2 : 2 * SHAPES;
  printf("signs of life of %d products: %llu, at least %llu expected\n", 2 * SHAPES, (unsigned long long)counted,
         (unsigned long long)expected);
  return counted >= expected;
}

int gpu_checks(Backend *gpu)
{
  static const struct {
    const char *name;
    size_t n;
    void (*make)(Backend *b, BackendStream *s, float *y);
  } checks[] = { { "initial weights", WEIGHTS, weights }, { "products of 1500 shapes", SHAPES, products } };
  Backend *cpu = cpu_single();
  int wrong = 0;

  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
    float *expected = floats_of(cpu, checks[i].n, checks[i].make), *got = floats_of(gpu, checks[i].n, checks[i].make);
    int same = !memcmp(got, expected, checks[i].n * sizeof *got);
    printf("%s: %s\n", checks[i].name, same ? "the host's, to the bit" : "DIFFERENT from the host's");
    wrong += !same;
    free(expected);
    free(got);
  }
  cpu->free(cpu);
  wrong += !counts_ends(gpu);
  return wrong;
}
