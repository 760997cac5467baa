/*
 * Times of a backend's operations at the shapes of GPT-2, Llama and mixtures of
 * experts, and at sides that no model has but that show a device's corners. One
 * CSV line a row as soon as it is measured, so that what is killed leaves what it had:
 *
 *   operation,format,shape,m,n,k,batch,heads,kv_heads,head_dim,us,low_us,high_us,samples,tflops,gbps
 *
 * Blocks of calls are timed by events, after one that warms up, on operands of
 * random numbers that are walked through (calibrate/bench.h); us is the median, low
 * and high bound it with 95 % confidence. FLOPs count what the result needs (causal
 * attention half, its backward 2.5 times); bytes each operand once. Overheads are the
 * host's time of a call instead.
 *
 * To add one: its kind and a line of the table `timings` in time.c.
 */
#ifndef TDP_TESTS_GPU_TIME_H
#define TDP_TESTS_GPU_TIME_H

#include "exec/backend.h"

/* Prints the rows of a backend and format whose operation begins with `only`; `small` caps all sizes, for a
 * rehearsal. What does not fit the pools of a bench is left out. 0, 1 if the backend failed, 77 where it cannot be
 * opened. */
int time_operations(const BackendKind *kind, ExecType dtype, const char *format, const char *only, int small);

#endif
