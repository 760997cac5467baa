#include "fiber.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef EMULATED_SANITIZED
enum { STACK = 256 << 10 };
#else
enum { STACK = 64 << 10 };
#endif

namespace emulated {

static void begin(Fiber *f)
{
  fiber_arrive(f);
  f->run(f);
  abort();
}

#ifdef BY_UCONTEXT

static void begin_parts(unsigned high, unsigned low)
{
  begin((Fiber *)((uintptr_t)high << 32 | low));
}

static void prepare(Fiber *f)
{
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = (void *)f->stack;
  f->context.uc_stack.ss_size = f->bytes;
  f->context.uc_link = NULL;
  makecontext(&f->context, (void (*)(void))begin_parts, 2, (unsigned)((uintptr_t)f >> 32), (unsigned)(uintptr_t)f);
}

#else

/* A fresh stack returns into `first`. */
extern "C" void emulated_first(void);
__asm__(".text\n"
        ".globl emulated_change\n"
        "emulated_change:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq (%rsi), %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".globl emulated_first\n"
        "emulated_first:\n"
        "  movq %r12, %rdi\n"
        "  callq *%r13\n"
        "  ud2\n");

static void prepare(Fiber *f)
{
  void **top = (void **)((char *)f->stack + f->bytes);

  *--top = NULL;
  *--top = NULL; /* two words: the stack is aligned to 16 at the call */
  *--top = (void *)emulated_first;
  *--top = NULL;         /* rbp */
  *--top = NULL;         /* rbx */
  *--top = f;            /* r12 */
  *--top = (void *)begin; /* r13 */
  *--top = NULL;         /* r14 */
  *--top = NULL;         /* r15 */
  f->context = top;
}

#endif

Fiber *fiber_new(void (*run)(Fiber *))
{
  enum { PAGE = 4096 };
  char *memory =
      (char *)mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  static unsigned made;
  Fiber *f = new Fiber();

  if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0) {
    perror("emulated: stack of a thread");
    abort();
  }
  f->run = run;
  f->stack = memory + PAGE;
  f->bytes = STACK - made++ % 61 * 320; /* tops of stacks fall into different sets of the caches */
  prepare(f);
  return f;
}

Fiber *fiber_outside(void)
{
  return new Fiber();
}

} // namespace emulated
