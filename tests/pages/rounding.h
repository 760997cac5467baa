/* What a sum of many ranks' numbers loses to the format in which it travels. */
#ifndef TDP_TESTS_PAGES_ROUNDING_H
#define TDP_TESTS_PAGES_ROUNDING_H

#include "plan/optimizer.h"

/* The nearest number of the format, ties to even; fp32, bf16 and fp16 in their normal range. */
double rounded(double value, StateFormat format);

/* Root mean square of the error over that of the sum, of `ranks` normal numbers added round a ring in which each
 * partial sum is rounded to the format, before the last rounding to bf16. Seeded: the same each time. */
double ring_sum_error(int ranks, StateFormat format);

#endif
