#include "exec/backend.h"

void exec_gemm_apart(Backend *b, BackendStream *s, const ExecGemm *g)
{
  size_t n = (size_t)g->m * g->n;
  ExecGemm plain = *g;

  plain.added = plain.bias = NULL;
  plain.inner = plain.sums = NULL;
  plain.behind = EXEC_AS_IT_IS;
  if (g->behind == EXEC_GELU)
    plain.c = g->inner;
  if (g->added)
    b->copy(b, s, plain.c, g->added, n * exec_type_bytes(b->dtype));
  b->gemm(b, s, &plain);
  if (g->bias)
    b->bias_forward(b, s, g->m, g->n, plain.c, g->bias);
  if (g->behind == EXEC_GELU)
    b->gelu_forward(b, s, n, g->inner, g->c);
  if (g->behind == EXEC_GELU_BACKWARD)
    b->gelu_backward(b, s, n, g->inner, g->c, g->c);
  if (g->sums)
    b->bias_backward(b, s, g->k, g->m, g->a, g->sums);
}
