/*
 * What the compiler's checks of alignment and of bounds call, where no sanitizer's
 * library is linked: a device faults on an access that is not aligned.
 */
#include "device.h"

#ifndef EMULATED_SANITIZED

struct Location {
  const char *file;
  uint32_t line, column;
};

struct Access {
  Location at;
  const void *type;
  unsigned char log_alignment, kind;
};

extern "C" void __ubsan_handle_type_mismatch_v1_abort(Access *a, void *p)
{
  emulated::fail("misaligned access at %s:%u: %p is no multiple of %u", a->at.file, a->at.line, p,
                 1u << a->log_alignment);
}

extern "C" void __ubsan_handle_out_of_bounds_abort(Location *at, uintptr_t index)
{
  emulated::fail("index %zd is outside of an array at %s:%u", (ptrdiff_t)index, at->file, at->line);
}

#endif
