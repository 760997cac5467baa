/*
 * Fibers: calls on stacks of their own that hand on to one another. The
 * switch is hand-written on x86-64, by ucontext elsewhere; sanitizers are told.
 */
#ifndef EMULATED_FIBER_H
#define EMULATED_FIBER_H

#include <stddef.h>

#ifdef EMULATED_SANITIZED
#include <sanitizer/common_interface_defs.h>
#else
static inline void __sanitizer_start_switch_fiber(void **, const void *, size_t) {}
static inline void __sanitizer_finish_switch_fiber(void *, const void **, size_t *) {}
#endif

#if !defined(__x86_64__) || defined(EMULATED_UCONTEXT)
#define BY_UCONTEXT 1
#include <ucontext.h>
#endif

namespace emulated {

struct Fiber {
  void (*run)(Fiber *);
  const void *stack;
  size_t bytes;
  void *fake; /* what the address sanitizer keeps of a stack that does not run */
  Fiber *before; /* who handed on to it */
#ifdef BY_UCONTEXT
  ucontext_t context;
#else
  void *context; /* stack pointer */
#endif
};

/* `run` never returns. Fibers live as long as the process. */
Fiber *fiber_new(void (*run)(Fiber *));
Fiber *fiber_outside(void); /* the stack that is no fiber's */

/* Behind a switch: where the one before it ran is known now, if it is the outside. */
inline void fiber_arrive(Fiber *f)
{
  const void *stack = NULL;
  size_t bytes = 0;

  __sanitizer_finish_switch_fiber(f->fake, &stack, &bytes);
  if (!f->before->run) {
    f->before->stack = stack;
    f->before->bytes = bytes;
  }
}

#ifdef BY_UCONTEXT
inline void fiber_change(ucontext_t *from, ucontext_t *to)
{
  swapcontext(from, to);
}
#else
/* Pushes what a callee must keep, changes stacks, pops. */
extern "C" void emulated_change(void **from, void **to);
inline void fiber_change(void **from, void **to)
{
  emulated_change(from, to);
}
#endif

/* `from` is the one that runs. */
inline void fiber_switch(Fiber *from, Fiber *to)
{
  to->before = from;
  __sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
  fiber_change(&from->context, &to->context);
  fiber_arrive(from);
}

/* It is switched to soon: the end of its stack comes into the cache. */
inline void fiber_prefetch(Fiber *f)
{
#ifdef BY_UCONTEXT
  (void)f;
#else
  for (int i = 0; i < 6; i++)
    __builtin_prefetch((char *)f->context + 64 * i, 1);
#endif
}

} // namespace emulated

#endif
