/*
 * What a published run did where its row says nothing.
 *
 * Its generation: a name that plans/frameworks/ does not hold is taken for the
 * file of the same family (the name up to its year) and, if there is one, variant
 * (what follows the date), or the longest variant that it begins with, that is
 * nearest in time; a family without files for one
 * of the `framework` column, and that for Megatron-Core. A file that is of a
 * single paper's experiments names the family to take in its place
 * (`family` of its `unstated`, habits.h).
 *
 * Its interleaving, where its software's runs were tuned for it (`virtual_pipeline_model_parallel_size` fastest):
 * of all numbers of chunks that cut a stage evenly the fastest, each with what else is open.
 *
 * Its micro-batch: published runs were tuned, so from the generation's default it
 * doubles as long as the run is predicted to become faster. Where the software
 * itself derives one (`micro_batch_size` 0), that. Likewise the ranks that experts are
 * divided over, from those of a node, where only their dispatcher is stated and the
 * micro-batch too.
 *
 * What saves memory: a run that was measured fitted its devices. Where the
 * defaults do not fit, the columns that took them are changed towards less
 * memory, in the order of what that costs in time: sequence parallelism on, ZeRO
 * stage 1, ZeRO over more ranks, recomputation selective, then of latent attention's keys and values, of software
 * whose habit names modules of the next ones that it has, then of the least share of whole blocks that fits, then
 * smaller micro-batches. Of software whose selective recomputation is that of a share of blocks (`selective_blocks`) the
 * share is open, too.
 * A run that fits with none of this is taken as light as it can be.
 */
#ifndef TDP_VALIDATE_UNSTATED_H
#define TDP_VALIDATE_UNSTATED_H

#include "validate/case.h"

/* A generation that plans/frameworks/ holds: that of the software which the note names as "MaxText (JAX)", else
 * `generation` itself; where the note says "torch.compile off", or "loss compiled" of the loss alone, and there is a
 * file of that name with "-eager", that. Newly allocated. */
char *unstated_generation(const char *generation, const char *framework, const char *note);

/* Whether the file found is of the generation itself: the same name, or the same family, month and variant, as a
 * container's "nemo-25.11" and "nemo-26.04.01" name nemo-2025-11 and nemo-2026-04. */
gboolean unstated_is_named(const char *generation, const char *found);

/* Makes a run that was just read so many steps lighter; FALSE if it has fewer, and is as light as it can be. */
gboolean unstated_lighten(Case *c, int steps);

#endif
