#include "hardware/dtype.h"

#include <stddef.h>

const char *const dtype_names[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "fp4", NULL};
const double dtype_bytes[DTYPE_COUNT] = {4, 4, 2, 2, 1, 0.5};
