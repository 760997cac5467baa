/*
 * The CUDA backend's kernels against the CPU's in fp64, on fresh random inputs
 * and poisoned outputs: relative error by norm, for each operation and format; those
 * that may run on any stream also on one that does not compute.
 * Prints a table; exit 1 if an error is above 1e-5 in fp32 or 1e-2 in 16 bits, 77
 * where there is no device.
 *
 *   gpu-kernels [SEED [SHAPES]]
 *
 * SHAPES (20): how many are drawn for each kind of operation, besides the fixed ones.
 */
#include "exec/cpu/cpu.h"
#include "exec/cuda/cuda.h"
#include "drawn.h"

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
    if (k->tensors[i].role == OUT || k->tensors[i].role == BOTH) {
      double error = distance(k->tensors[i].n, got[i], expected[i]);
      worst = error <= worst ? worst : error; /* a NaN stays */
    }
    free(expected[i]);
    free(got[i]);
  }
  return worst;
}

/* On a stream that computes, and where it may run there on one that does not. */
static double worse_error(const Kernel *k, const Device *d)
{
  double error = kernel_error(k, d->cpu, d->cpu_stream, d->gpu, d->gpu_stream), there = 0;

  if (gpu_kernel_runs_anywhere(k))
    there = kernel_error(k, d->cpu, d->cpu_stream, d->gpu, d->beside);
  return there <= error ? error : there;
}

/* The worst of each kind; how many shapes are wrong. */
static int test_drawn(const Device *d, const char *name, double tolerance, int shapes)
{
  int wrong = 0;

  for (int kind = 0; kind < gpu_drawn_count; kind++) {
    double worst = 0;
    for (int i = 0; i < shapes; i++) {
      Shape shape;
      Kernel k = gpu_drawn(kind, uniform, &shape);
      double error = worse_error(&k, d);
      wrong += !(error < tolerance);
      worst = error <= worst ? worst : error;
    }
    printf("%s %s at %d shapes drawn: %.1e\n", name, gpu_drawn_name(kind), shapes, worst);
  }
  return wrong;
}

static int test_format(ExecType dtype, const char *name, double tolerance, int shapes, double *errors)
{
  char error[EXEC_ERROR_SIZE] = "";
  BackendOptions options = { .size = 1, .dtype = EXEC_F64 };
  Backend *cpu = cpu_open(&options, error);
  options.dtype = dtype;
  Backend *gpu = cpu ? cuda_open(&options, error) : NULL;
  int wrong = 0;

  if (!gpu) {
    printf("skipped: %s\n", error);
    exit(77);
  }
  Device d = { cpu, gpu, cpu->stream_new(cpu, 1), gpu->stream_new(gpu, 1), gpu->stream_new(gpu, 0) };
  for (int i = 0; i < gpu_kernel_count; i++) {
    errors[i] = worse_error(&gpu_kernels[i], &d);
    wrong += !(errors[i] < tolerance);
  }
  wrong += test_drawn(&d, name, tolerance, shapes);
  if (dtype == EXEC_F32)
    wrong += gpu_checks(gpu);
  if (gpu->failed(gpu)) {
    printf("%s: %s\n", name, gpu->failed(gpu));
    wrong++;
  }
  gpu->stream_free(gpu, d.beside);
  gpu->stream_free(gpu, d.gpu_stream);
  cpu->stream_free(cpu, d.cpu_stream);
  if (dtype == EXEC_BF16)
    printf("device: %s\n", gpu->device);
  gpu->free(gpu);
  cpu->free(cpu);
  return wrong;
}

int main(int argc, char **argv)
{
  double *errors[3];
  int wrong = 0, shapes = argc > 2 ? atoi(argv[2]) : 20;

  for (int format = 0; format < 3; format++)
    errors[format] = calloc(gpu_kernel_count, sizeof *errors[format]);
  state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  wrong += test_format(EXEC_F32, "fp32", 1e-5, shapes, errors[0]);
  wrong += test_format(EXEC_F16, "fp16", 1e-2, shapes, errors[1]);
  wrong += test_format(EXEC_BF16, "bf16", 1e-2, shapes, errors[2]);
  printf("relative error by norm against the CPU in fp64; allowed 1e-5, 1e-2, 1e-2\n");
  printf("%-30s %9s %9s %9s\n", "operation", "fp32", "fp16", "bf16");
  for (int i = 0; i < gpu_kernel_count; i++)
    printf("%-30s %9.1e %9.1e %9.1e\n", gpu_kernels[i].name, errors[0][i], errors[1][i], errors[2][i]);
  printf("%d passed, %d failed\n", 3 * (gpu_kernel_count + shapes * gpu_drawn_count) + 2 - wrong, wrong);
  for (int format = 0; format < 3; format++)
    free(errors[format]);
  return wrong > 0;
}
