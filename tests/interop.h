/*
 * Plans drawn at random for what is exported, and what each means in the words that a target's own parser is asked for.
 * tests/bench/bench_interop.c hands them to `make interop`; tests/test_interop.c holds exports against what parsers
 * answered then (tests/data/interop.json).
 */
#ifndef TDP_TESTS_INTEROP_H
#define TDP_TESTS_INTEROP_H

#include "export/export.h"
#include "plan/plan.h"

/* A legal plan, with what it is for; all but `model_name` and `targets` owned. */
typedef struct {
  const char *model_name;
  const char *const *targets; /* names of exporters that write plans of its framework, NULL-terminated */
  char *text;                 /* of the plan file */
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
} Drawn;

/* One of a legal plan, of tools of PyTorch or of JAX; draws until it has one. */
Drawn interop_draw(GRand *rand, gboolean jax);

/* The plan of a text, for a model of models/. The text must be legal. */
Drawn interop_take(const char *model_name, const char *text);
void interop_clear(Drawn *drawn);

/* What the plan means, one key each, as one JSON object: the writer is in an object. */
void interop_meaning(const Drawn *drawn, JsonWriter *w);

/* A file without the lines that are comments alone, whose words may change without a change of meaning. */
char *interop_body(const Exporter *exporter, const char *text);

#endif
