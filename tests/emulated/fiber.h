/*
 * Fibers: calls on stacks of their own that hand on to one another. The
 * switch is hand-written on x86-64, by ucontext elsewhere; sanitizers are told.
 */
#ifndef EMULATED_FIBER_H
#define EMULATED_FIBER_H

namespace emulated {

struct Fiber;

/* `run` never returns. Fibers live as long as the process. */
Fiber *fiber_new(void (*run)(Fiber *));
Fiber *fiber_outside(void); /* the stack that is no fiber's */
void fiber_switch(Fiber *from, Fiber *to); /* `from` is the one that runs */

} // namespace emulated

#endif
