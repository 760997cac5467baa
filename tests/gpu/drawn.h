/*
 * Operations at shapes that are drawn: sides that are no multiple of anything, rows
 * of one element, leading dimensions with gaps, no rows at all, experts without
 * copies. To add one: its call, its tensors and a line of the table in drawn.c.
 */
#ifndef TDP_TESTS_GPU_DRAWN_H
#define TDP_TESTS_GPU_DRAWN_H

#include "kernels.h"

struct Shape {
  int rows, width, flags; /* flags: bits that a kind reads as it likes */
  int m, n, k, batch, gap; /* gap: elements between rows */
  int heads, kv_heads, dim, len, kv_len, room, window; /* room: tokens behind those that take part */
  int vocab, first;
  int experts, top, capacity;
};

extern const int gpu_drawn_count;

/* Name of a kind, and a kernel of it at a shape drawn by `uniform`, which both stay the caller's. */
const char *gpu_drawn_name(int kind);
Kernel gpu_drawn(int kind, double (*uniform)(double low, double high), Shape *shape);

#endif
