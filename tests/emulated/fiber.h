/*
 * Fibers: calls on stacks of their own that leave and are entered again. The
 * switch is hand-written on x86-64, by ucontext elsewhere; sanitizers are told.
 */
#ifndef EMULATED_FIBER_H
#define EMULATED_FIBER_H

namespace emulated {

struct Fiber;

/* `run` never returns. Fibers live as long as the process. */
Fiber *fiber_new(void (*run)(void *), void *data);
void fiber_enter(Fiber *f); /* from outside, until it leaves */
void fiber_leave(Fiber *f); /* by itself */

} // namespace emulated

#endif
