/*
 * libtdp: plans and predicts the training of transformers on GPU clusters.
 *
 * Questions and answers are JSON in UTF-8. An answer is a document of the form
 * that its `schema` names (docs/schema/tdp.json), the one that the programs print
 * with --json. Functions may be called from several threads; the first call sets
 * GSL's error handler off for the whole process. Link with -ltdp (tdp.pc).
 *
 *   tdp_answer *a = tdp_plan("{\"model\": \"gpt3\", \"cluster\": \"dgx-h100\", \"gpus\": 512}");
 *   if (tdp_status(a) == 0)
 *     puts(tdp_json(a));
 *   else
 *     fprintf(stderr, "%s\n", tdp_error(a));
 *   tdp_free(a);
 */
#ifndef TDP_H
#define TDP_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TDP_API __attribute__((visibility("default")))
#else
#define TDP_API
#endif

/* What callers are compiled against. Functions are added, not changed, within one number. */
#define TDP_ABI 1

/* The number that the library was built with, and its version. */
TDP_API int tdp_abi(void);
TDP_API const char *tdp_version(void);

typedef struct tdp_answer tdp_answer;

/*
 * The best plans, as tdp-plan finds them: tdp-plan-1. Keys of the question, those without a default first:
 *   model, cluster     a name of models/ or hardware/, a path, or an object as such a file holds
 *   gpus, global_batch_size, seq_length, gpus_from, top, threads, spares     integers
 *   framework, precision, adapter, objective, fix, space, operations         texts, as the options of tdp-plan
 *   memory_margin, price, tokens, time_limit, power_limit, deadline          numbers
 *   exact, explain                                                           true or false
 * With one of `question`, `pareto`, `why_not` or with `gpus_from` the answer is to that instead: tdp-plan-answer-1,
 * tdp-plan-why-not-1.
 */
TDP_API tdp_answer *tdp_plan(const char *question);

/* One plan, simulated: tdp-sim-1. Keys: model, cluster as above; plan, a name of plans/, a path, or an object; adapter,
 * a text in place of the plan's own; power_limit, W of a GPU. */
TDP_API tdp_answer *tdp_simulate(const char *question);

/* 0: answered. Else as the exit status of the programs: 1 something failed, 2 the question makes no sense, 3 there is no
 * plan. Never NULL is passed in; a NULL answer has status 1. */
TDP_API int tdp_status(const tdp_answer *answer);

/* The document, NULL unless the status is 0; what was wrong in one line, NULL if nothing was. They belong to the answer. */
TDP_API const char *tdp_json(const tdp_answer *answer);
TDP_API const char *tdp_error(const tdp_answer *answer);

TDP_API void tdp_free(tdp_answer *answer);

#ifdef __cplusplus
}
#endif

#endif
