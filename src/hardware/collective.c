#include "hardware/collective.h"

#include <stddef.h>

const char *const collective_names[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                        "broadcast",  "send",       NULL};
