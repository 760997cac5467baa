/*
 * The rules of thumb by which people choose a strategy, beside what the
 * simulation says of them.
 *
 * A rule is a line of the table in strategy.c: the situation that it is for and
 * the recipes that it names, and whether it ranks them. The situations are
 * those of Hugging Face's guide on training with several GPUs ("Parallelism
 * methods": one GPU, one node, several nodes; whether the model, or its largest
 * layer, fits; whether links are fast) and of DeepSpeed's page on 3D parallelism.
 * Where the guide has no number, this module's are:
 *   fits a GPU    a step of one sequence with full recomputation does
 *   fits a node   some plan of one sequence a GPU does
 *   fast network  at least 12.5 GB/s (100 Gb/s) a GPU; NVLink in a node is fast, PCIe is not
 *   agrees        the best plan by the rule is within 5 % of the best of all, less than
 *                 the simulator's own error (docs/accuracy.md); so are those "on par"
 * Each recipe is searched like the answer itself, with degrees fixed, and of plans
 * that tie (options.tie) the most robust is taken: it is the best plan with this
 * strategy. To add a rule: a line of the table.
 */
#ifndef TDP_ASK_STRATEGY_H
#define TDP_ASK_STRATEGY_H

#include "ask/question.h"

/* What the rule for this model and cluster says, its recipes simulated, and
 * whether `best`, the first plan of the answer, agrees. Newly allocated. */
char *strategy_text(const Asked *asked, const Found *best);

/* The same as an object: `rule`, whether the model fits, `agrees`, and each of `recipes` with its best plan, or why it has
 * `none`. */
void strategy_write(const Asked *asked, const Found *best, JsonWriter *writer, const char *key);

#endif
