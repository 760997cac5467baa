/*
 * Whether what the planner proposes for a framework can be written for it: questions of one
 * table, asked of a framework, and the winner of each exported with the framework's exporter.
 * Used by tests/test_natives.c and, as a table, by tests/bench/bench_exports.c.
 */
#ifndef TDP_TESTS_NATIVES_H
#define TDP_TESTS_NATIVES_H

#include "export/export.h"

/* As tdp-plan is asked: names, sizes, --fix, --space, --refine, --precision. */
typedef struct {
  const char *model, *cluster;
  int gpus, global_batch, seq; /* seq 0 = the model's */
  const char *fix, *space;     /* NULL = nothing */
  gboolean refine;
  const char *precision; /* NULL = bf16, fp16 where there is no bf16 */
  const char *only;      /* the framework that it is asked of; NULL = all */
} NativeQuestion;

#define NATIVE_QUESTIONS 42
extern const NativeQuestion native_questions[NATIVE_QUESTIONS];

typedef enum { NATIVE_NOTHING, NATIVE_LOSSLESS, NATIVE_MODEL, NATIVE_LOSSY, NATIVE_REFUSED, NATIVE_COUNT } NativeKind;
extern const char *const native_names[];

/* What became of a winner. NATIVE_MODEL: what is lost, or the refusal, names the model. */
typedef struct {
  NativeKind kind;
  char *plan; /* its label */
  char *why;  /* losses, or the refusal, joined by "; " */
} Native;

/* The frameworks that an exporter writes for. */
extern const char *const native_frameworks[];
extern const int native_frameworks_n;

gboolean native_asked(const NativeQuestion *question, const char *framework);
Native native_ask(const NativeQuestion *question, const char *framework);
void native_clear(Native *native);

/* One line: "llama-3.1-8b on 32 of dgx-h100, 128 x 8192, cp=2". Newly allocated. */
char *native_text(const NativeQuestion *question);

#endif
