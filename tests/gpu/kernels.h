/*
 * The operations of a backend that the comparison of backends runs, with the tensors of each. To add one: its call
 * and a line of the table in kernels.c.
 */
#ifndef TDP_TESTS_GPU_KERNELS_H
#define TDP_TESTS_GPU_KERNELS_H

#include "exec/backend.h"

enum { TENSORS = 12 };
typedef enum { NONE, IN, OUT, BOTH } Role;
typedef enum { NARROW, WIDE, TOKENS, DOUBLE } Format;

/* Values are uniform between low and high. */
typedef struct {
  Role role;
  Format format;
  size_t n;
  double low, high;
} Tensor;

typedef struct Shape Shape; /* drawn.h */

typedef struct {
  const char *name;
  const char *operations; /* of backend.h */
  void (*run)(Backend *b, BackendStream *s, void **p);
  Tensor tensors[TENSORS];
  void (*run_at)(const Shape *shape, Backend *b, BackendStream *s, void **p); /* instead of `run` */
  const Shape *shape;
} Kernel;

extern const Kernel gpu_kernels[];
extern const int gpu_kernel_count;

/* Whether all of a kernel's operations may run on streams that do not compute. */
int gpu_kernel_runs_anywhere(const Kernel *kernel);

/* Checks beside the table, of an fp32 backend, printed: how many of them fail. */
enum { GPU_CHECKS = 3 };
int gpu_checks(Backend *gpu);

#endif
