/*
 * A backend's kernels against the CPU's in fp64, on fresh random inputs
 * and poisoned outputs: relative error by norm, for each operation and format; those
 * that may run on any stream also on one that does not compute.
 * Prints a table; exit 1 if an error is above 1e-5 in fp32 or 1e-2 in 16 bits, 77
 * where there is no device. The backend is the first that is built in (CUDA), or
 * BACKEND; the CPU's own has fp32 alone. --time prints times instead (time.h).
 *
 *   gpu-kernels [--backend BACKEND] [SEED [SHAPES]]
 *   gpu-kernels [--backend BACKEND] --time FORMAT [--only OPERATION] [--small]
 *
 * SHAPES (20): how many are drawn for each kind of operation, besides the fixed ones.
 */
#include "exec/cpu/cpu.h"
#include "drawn.h"
#include "time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  Backend *cpu, *gpu;
  BackendStream *cpu_stream, *gpu_stream, *beside; /* beside: does not compute */
} Device;

/* ---- tensors to a device and back ---- */

static ExecType type_of(const Backend *b, const Tensor *t)
{
  const ExecType types[] = {
    [NARROW] = b->dtype, [WIDE] = exec_wide(b->dtype), [DOUBLE] = EXEC_F64, [TOKENS] = EXEC_I32,
  };

  return types[t->format];
}

/* bf16 is the upper half of a float, rounded to nearest even; fp16 by the compiler. */
static uint16_t to_half(float x, ExecType type)
{
  uint32_t bits;
  uint16_t half;

  if (type == EXEC_BF16) {
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  _Float16 h = x;
  memcpy(&half, &h, sizeof half);
  return half;
}

static float from_half(uint16_t half, ExecType type)
{
  uint32_t bits = (uint32_t)half << 16;
  _Float16 h;
  float x;

  if (type == EXEC_BF16) {
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  memcpy(&h, &half, sizeof h);
  return h;
}

static void pack(ExecType type, size_t n, const double *values, void *out)
{
  for (size_t i = 0; i < n; i++)
    switch (type) {
    case EXEC_F64:
      ((double *)out)[i] = values[i];
      break;
    case EXEC_I32:
      ((int32_t *)out)[i] = (int32_t)values[i];
      break;
    case EXEC_F32:
      ((float *)out)[i] = (float)values[i];
      break;
    default:
      ((uint16_t *)out)[i] = to_half((float)values[i], type);
    }
}

static void unpack(ExecType type, size_t n, const void *in, double *values)
{
  for (size_t i = 0; i < n; i++)
    switch (type) {
    case EXEC_F64:
      values[i] = ((const double *)in)[i];
      break;
    case EXEC_I32:
      values[i] = ((const int32_t *)in)[i];
      break;
    case EXEC_F32:
      values[i] = ((const float *)in)[i];
      break;
    default:
      values[i] = from_half(((const uint16_t *)in)[i], type);
    }
}

/* Runs a kernel on a backend; inputs from `values`, results into it. */
static void run_on(Backend *b, BackendStream *s, const Kernel *k, double *values[TENSORS])
{
  void *device[TENSORS] = { NULL };

  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    const Tensor *t = &k->tensors[i];
    size_t bytes = t->n * exec_type_bytes(type_of(b, t));
    void *host = malloc(bytes);
    memset(host, 0xff, bytes); /* a NaN in every format */
    if (t->role == IN || t->role == BOTH)
      pack(type_of(b, t), t->n, values[i], host);
    device[i] = b->alloc(b, s, bytes);
    b->upload(b, s, device[i], host, bytes);
    b->sync(b, s);
    free(host);
  }
  if (k->run_at)
    k->run_at(k->shape, b, s, device);
  else
    k->run(b, s, device);
  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    const Tensor *t = &k->tensors[i];
    size_t bytes = t->n * exec_type_bytes(type_of(b, t));
    void *host = malloc(bytes);
    b->download(b, s, host, device[i], bytes);
    if (t->role == OUT || t->role == BOTH)
      unpack(type_of(b, t), t->n, host, values[i]);
    free(host);
    b->dealloc(b, s, device[i], bytes);
  }
}

/* ---- comparison ---- */

static uint64_t state;

static double uniform(double low, double high)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * ((state >> 11) * 0x1p-53);
}

/* Values that the format under test holds exactly, so that both start alike. */
static void draw(const Tensor *t, ExecType dtype, double *values)
{
  for (size_t i = 0; i < t->n; i++) {
    double x = uniform(t->low, t->high);
    if (t->format == TOKENS)
      x = floor(x);
    else if (t->format == NARROW && exec_type_bytes(dtype) == 2)
      x = from_half(to_half((float)x, dtype), dtype);
    else if (t->format != DOUBLE)
      x = (float)x;
    values[i] = x;
  }
}

static double distance(size_t n, const double *got, const double *expected)
{
  double difference = 0, norm = 0;

  for (size_t i = 0; i < n; i++) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return sqrt(difference / (norm > 0 ? norm : 1));
}

/* A NaN is larger than all else. */
static double larger(double a, double b)
{
  return isnan(a) || a > b ? a : b;
}

static double kernel_error(const Kernel *k, Backend *cpu, BackendStream *cpu_stream, Backend *gpu,
                           BackendStream *gpu_stream)
{
  double *expected[TENSORS] = { NULL }, *got[TENSORS] = { NULL }, worst = 0;

  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    expected[i] = calloc(k->tensors[i].n, sizeof(double));
    got[i] = calloc(k->tensors[i].n, sizeof(double));
    draw(&k->tensors[i], gpu->dtype, expected[i]);
    memcpy(got[i], expected[i], k->tensors[i].n * sizeof(double));
  }
  run_on(cpu, cpu_stream, k, expected);
  run_on(gpu, gpu_stream, k, got);
  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    if (k->tensors[i].role == OUT || k->tensors[i].role == BOTH)
      worst = larger(worst, distance(k->tensors[i].n, got[i], expected[i]));
    free(expected[i]);
    free(got[i]);
  }
  return worst;
}

/* On a stream that computes, and where it may run there on one that does not. */
static double worse_error(const Kernel *k, const Device *d)
{
  double error = kernel_error(k, d->cpu, d->cpu_stream, d->gpu, d->gpu_stream);

  if (!gpu_kernel_runs_anywhere(k))
    return error;
  return larger(error, kernel_error(k, d->cpu, d->cpu_stream, d->gpu, d->beside));
}

typedef struct {
  const char *name;
  ExecType dtype;
  double tolerance;
} Tested;

static const Tested formats[] = { { "fp32", EXEC_F32, 1e-5 }, { "fp16", EXEC_F16, 1e-2 }, { "bf16", EXEC_BF16, 1e-2 } };
enum { FORMATS = sizeof formats / sizeof *formats };

/* The worst of each kind; how many shapes are wrong. */
static int test_drawn(const Device *d, const Tested *format, int shapes)
{
  int wrong = 0;

  for (int kind = 0; kind < gpu_drawn_count; kind++) {
    double worst = 0;
    for (int i = 0; i < shapes; i++) {
      Shape shape;
      Kernel k = gpu_drawn(kind, uniform, &shape);
      double error = worse_error(&k, d);
      wrong += !(error < format->tolerance);
      worst = larger(worst, error);
    }
    printf("%s %s at %d shapes drawn: %.1e\n", format->name, gpu_drawn_name(kind), shapes, worst);
  }
  return wrong;
}

static int test_format(const BackendKind *kind, const Tested *format, int shapes, double *errors)
{
  char error[EXEC_ERROR_SIZE] = "";
  BackendOptions options = { .size = 1, .dtype = EXEC_F64 };
  Backend *cpu = cpu_open(&options, error);
  options.dtype = format->dtype;
  Backend *gpu = cpu ? kind->open(&options, error) : NULL;
  int wrong = 0;

  if (!gpu) {
    printf("skipped: %s\n", error);
    exit(77);
  }
  Device d = { cpu, gpu, cpu->stream_new(cpu, 1), gpu->stream_new(gpu, 1), gpu->stream_new(gpu, 0) };
  for (int i = 0; i < gpu_kernel_count; i++) {
    errors[i] = worse_error(&gpu_kernels[i], &d);
    wrong += !(errors[i] < format->tolerance);
  }
  wrong += test_drawn(&d, format, shapes);
  if (format == formats)
    wrong += gpu_checks(gpu);
  if (gpu->failed(gpu)) {
    printf("%s: %s\n", format->name, gpu->failed(gpu));
    wrong++;
  }
  gpu->stream_free(gpu, d.beside);
  gpu->stream_free(gpu, d.gpu_stream);
  cpu->stream_free(cpu, d.cpu_stream);
  if (format == formats)
    printf("device: %s\n", gpu->device);
  gpu->free(gpu);
  cpu->free(cpu);
  return wrong;
}

/* ---- */

static const BackendKind *find_backend(const char *name)
{
  for (const BackendKind *kind = backends; kind->name; kind++)
    if (!name || strcmp(kind->name, name) == 0)
      return kind;
  return NULL;
}

static const Tested *find_format(const char *name)
{
  for (int i = 0; i < FORMATS; i++)
    if (strcmp(formats[i].name, name) == 0)
      return &formats[i];
  return NULL;
}

static int compare(const BackendKind *kind, int shapes)
{
  int wrong = 0, count = strcmp(kind->name, "cpu") == 0 ? 1 : FORMATS;
  double *errors[FORMATS];

  for (int f = 0; f < count; f++) {
    errors[f] = calloc(gpu_kernel_count, sizeof *errors[f]);
    wrong += test_format(kind, &formats[f], shapes, errors[f]);
  }
  printf("relative error by norm against the CPU in fp64; allowed 1e-5 in fp32, 1e-2 in 16 bits\n%-30s", "operation");
  for (int f = 0; f < count; f++)
    printf(" %9s", formats[f].name);
  for (int i = 0; i < gpu_kernel_count; i++) {
    printf("\n%-30s", gpu_kernels[i].name);
    for (int f = 0; f < count; f++)
      printf(" %9.1e", errors[f][i]);
  }
  printf("\n%d passed, %d failed\n", count * (gpu_kernel_count + shapes * gpu_drawn_count) + GPU_CHECKS - wrong, wrong);
  for (int f = 0; f < count; f++)
    free(errors[f]);
  return wrong > 0;
}

int main(int argc, char **argv)
{
  const char *backend = NULL, *format = NULL, *only = "";
  int small = 0, numbers[] = { 1, 20 }, n = 0; /* seed, shapes */

  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--backend") == 0 && argv[i + 1])
      backend = argv[++i];
    else if (strcmp(argv[i], "--time") == 0 && argv[i + 1])
      format = argv[++i];
    else if (strcmp(argv[i], "--only") == 0 && argv[i + 1])
      only = argv[++i];
    else if (strcmp(argv[i], "--small") == 0)
      small = 1;
    else if (n < 2)
      numbers[n++] = atoi(argv[i]);
  const BackendKind *kind = find_backend(backend);
  const Tested *timed = format ? find_format(format) : NULL;
  if (!kind || (format && !timed)) {
    fprintf(stderr, "gpu-kernels: %s: expected a backend of this program and fp32, fp16 or bf16\n",
            kind ? format : backend);
    return 2;
  }
  state = numbers[0];
  return timed ? time_operations(kind, timed->dtype, timed->name, only, small) : compare(kind, numbers[1]);
}
