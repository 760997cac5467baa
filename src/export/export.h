/*
 * A plan written for the tools that run it: launch scripts and configurations
 * of Megatron-LM, DeepSpeed, torchtitan and others.
 *
 * An exporter is made for one version of its tool, which the first lines of the
 * file name. What the tool cannot do is a loss: the file then holds the nearest
 * plan that it can, and each loss is one line, "KEY: VALUE: what is done
 * instead", with the plan's key. What a tool can do is said once, in the file of
 * its framework, which bounds the planner too: what the planner proposes for a
 * framework, its own exporter writes. What remains are losses of models that a
 * tool does not have. Notes, which stand in the file only, say where the tool
 * takes another time than was predicted, not another plan. Formats
 * with comments carry losses and notes at their top; JSON carries neither.
 * What no plan decides (data, tokenizer, learning rate) is filled so that the
 * file runs, and is marked as such.
 *
 * Errors: a plan that plan_check refuses (TDP_ERROR_INPUT), a model that the
 * tool cannot train at all and losses that were not allowed
 * (TDP_ERROR_INFEASIBLE), a file that cannot be written (TDP_ERROR_RUNTIME).
 *
 * To add a tool: one file with a const Exporter, one line in the table of
 * export.c and in target.h.
 */
#ifndef TDP_EXPORT_EXPORT_H
#define TDP_EXPORT_EXPORT_H

#include "layout/layout.h"

typedef struct Export Export; /* target.h */

typedef struct Exporter {
  const char *name;       /* as the command line spells it: "megatron" */
  const char *target;     /* "Megatron-LM core 0.20" */
  const char *extension;  /* of its files: "sh" */
  const char *first_line; /* NULL if there is none */
  gboolean comments;      /* "#" starts a comment */
  gboolean tells_tf32;    /* its file says whether products of fp32 are in tf32; else that is PyTorch's, for the caller */
  gboolean adapters;      /* it writes the adapter, or nothing that has to do with weights; else that is lost */
  const struct Exporter *adapting; /* another for plans with an adapter, of the same engine; NULL: itself or none */
  const char *const *unwritten; /* schedules that the tool runs, of which its file says nothing; NULL: none */
  const char *framework;  /* of plans/frameworks/: what the tool runs; NULL: the exporter says itself what it loses */
  const struct Exporter *later; /* for a later version of the tool, whose files have another form: renders its
                                 * settings by this one's names, by which a user's file is changed; it writes no file
                                 * of its own. NULL: none */

  /* Appends the file behind its header; FALSE if there is nothing to write. */
  gboolean (*render)(Export *subject, GString *text, GError **error);

  /* Appends the command that starts the exported file, or does the same. */
  void (*launch)(Export *subject, const char *file, GString *line);
} Exporter;

/* All exporters of whole plans, ending with NULL. */
extern const Exporter *const exporters[];

/* "torch-schedule": the orders of passes of a plan and nothing else of it, so without losses; nothing launches it. */
extern const Exporter exporter_torch_schedule;

/* Either kind; NULL if there is none of this name. */
const Exporter *exporter_find(const char *name);

/* The one for plans that an engine trains, by its name; NULL if there is none that says what the plan trains. */
const Exporter *exporter_of_engine(const char *engine, const Plan *plan);

/* The names of all, separated by commas; newly allocated. */
char *exporter_list(void);
const Exporter *exporter_at(int i); /* in that order; NULL behind the last */

/* The file's text, newly allocated; NULL on error. Losses are appended to
 * `losses` (may be NULL) as newly allocated strings. */
char *export_plan(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                  GPtrArray *losses, GError **error);

/* Writes the file ("-" is stdout); with losses only if `allow_lossy`, else the
 * error counts them and names the first. */
gboolean export_write(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                      const char *path, gboolean allow_lossy, GError **error);

/* One line for the terminal, newly allocated: the command that launches the
 * plan. `file` is the exported file, NULL for a name made up. For Megatron-LM
 * it holds the plan's flags, not those of model and data; train.py stands for
 * the user's script. The plan must be one that plan_check accepts. */
char *launch_line(const Exporter *exporter, const Model *model, const Cluster *cluster, const Plan *plan,
                  const char *file);

#endif
