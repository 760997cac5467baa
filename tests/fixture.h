/* Small models, free clusters and frameworks for tests of the layers above plan. */
#ifndef TDP_TESTS_FIXTURE_H
#define TDP_TESTS_FIXTURE_H

#include "cost/price.h"
#include "layouts.h"

/* A GPT of equal blocks: hidden 64 * heads' width, tied embeddings, dropout. */
Model *fixture_model(int layers, int hidden, int heads, int seq, int vocab);

/* The same without dropout. */
Model *fixture_gpt_plain(int layers, int hidden, int heads, int seq, int vocab);

/* LLaMA-like: grouped queries, SwiGLU, RMSNorm, untied. */
Model *fixture_llama(int layers, int hidden, int heads, int kv_heads, int seq, int vocab);
/* LLaMA-like with experts of hidden width in each block; `shared`: width of the shared one, 0 = none. */
Model *fixture_moe(int layers, int hidden, int heads, int seq, int vocab, int experts, int top, int shared);

/* The same with that many experts, two a token, behind a dense first layer where there are several. */
Model *fixture_experts(int layers, int hidden, int heads, int experts, int seq, int vocab);

Model *fixture_known_model(const char *name); /* of models/ */
Cluster *fixture_cluster(const char *name, int devices);

/* Communication that takes no time. */
Cluster *fixture_free_cluster(int devices);

Framework *fixture_framework(const char *name);

/* Files of plans/frameworks, and the i-th of them by name without its suffix; newly allocated. */
#define FIXTURE_FRAMEWORKS 57
char *fixture_framework_name(int i);

/* How often what is drawn is drawn again: CASES of the environment, else 1. */
int fixture_cases(void);

/* Every block takes `forward` and `backward` seconds, half of these for either
 * gradient, other layers nothing; each block keeps `saved` bytes, half of them for
 * the weight gradient. */
PriceTable *fixture_prices(const Model *model, double forward, double backward, double saved);

/* Draws a plan at random; FALSE if it is not legal for the model. */
gboolean fixture_draw_plan(GRand *rand, const Model *model, Cluster *cluster, const Framework *framework, Plan *plan);

#endif
