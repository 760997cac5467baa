#include "base/memory.h"

#include <malloc.h>

void memory_keep(int most, int pad)
{
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, most);
  mallopt(M_TOP_PAD, pad);
}
