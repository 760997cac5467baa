/*
 * The columns of runs with experts that are no keys of plans by name: `ep`, `etp`, `moe_dispatcher`, `moe_load`,
 * `moe_a2a_overlap`, `recompute_modules`. A load that is not stated is taken as balanced, and a dispatcher as the
 * generation's own; both are named as defaults of models that have experts. So is the overlap of exchanges that a
 * generation has in steps that are one graph.
 */
#ifndef TDP_VALIDATE_CASE_EXPERTS_H
#define TDP_VALIDATE_CASE_EXPERTS_H

#include "validate/case.h"
#include "validate/cells.h"

extern const char *const case_dispatcher_names[]; /* as case files spell them, by ExpertDispatch */

/* Notes say what a recipe chose against its generation: "fake balanced gate" (AutoModel's benchmarks), "no
 * moe_permute_fusion" (Megatron Core's default, which recipes of NeMo's Mixtral and Grok leave, as tests of
 * Megatron-Bridge do: moe/moe_utils.py of Core 0.17 then permutes by index_select and adds up by scatter_add). */
gboolean case_read_experts(Case *c, const Csv *csv, int row, const CaseNumbers *n, GError **error);
gboolean case_read_modules(Case *c, const Csv *csv, int row, GError **error);

/* The generation's graphs, for models with experts, where the row says none. */
void case_fill_graph(Case *c, const Csv *csv, int row);

/* Whether the note says that each expert gets its capacity, which tokens beyond it do without: "capacity factor 1.25
 * padded", or "token drop" without a figure, 1 by the defaults of NeMo's and Megatron-Bridge's MegatronTokenDropCallback
 * and apply_moe_token_drop(). Sets the factor. */
gboolean case_noted_capacity(const char *note, double *factor);

/* Layers of each stage from the note's "pipeline layout ", as Megatron Core writes it: stages between bars, of them E
 * (embedding), t (a block), m (a module for multi-token prediction) and L (loss), each or a group in parentheses with
 * xN for N times. FALSE if the note has none that fits the blocks and stages. */
gboolean case_noted_layout(const char *note, int blocks, int stages, LayerSplit *out);

#endif
