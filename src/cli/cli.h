/*
 * What the programs' mains share: common options, loading the three files,
 * printing an error once.
 */
#ifndef TDP_CLI_CLI_H
#define TDP_CLI_CLI_H

#include "report/report.h"

/* For programs that simulate many plans: each takes the arrays that the one before it freed, up to 256 MiB of them. */
void cli_keep_memory(void);

/* Adds --version to a context with this summary and parses; exits by returning
 * FALSE with an error. With --version prints it and exits 0. From here on a program ends where JSON finds no memory. */
gboolean cli_parse(int *argc, char ***argv, const GOptionEntry *entries, const char *summary, GError **error);

/* A model file, or another tool's file that tells a model (import/launch.h). */
Model *cli_load_model(const char *name, GError **error);

Cluster *cli_load_cluster(const char *name, GError **error);

/* As --power-limit says; 0 W change nothing. */
gboolean cli_limit_power(Cluster *cluster, double watts, GError **error);

/* Says on stderr that a file in this folder is taken for one of ours of that name, if there is one. */
void cli_note_shadow(const char *name, const char *folder);

/* What a program is given that takes no more of a training. */
typedef struct {
  const char *model, *cluster, *plan; /* model: NULL = that of another tool's file */
} TrainingNames;

/* Loads all three, checked; the cluster takes the plan's size. `path`, of the plan's file, newly allocated; it and what
 * else was loaded is the caller's, also after an error. To `notes` (char *) goes a line on each thing that another tool's
 * file leaves open, and on what of it is not simulated. */
gboolean cli_load_training(const TrainingNames *names, Model **model, Cluster **cluster, Plan *plan,
                           Framework **framework, char **path, GPtrArray *notes, GError **error);

/* Such lines on stderr, as notes of the program; `name` (may be NULL) stands before each. */
void cli_say_notes(const char *name, const GPtrArray *notes);

/* The last part of it, for a plan that was read: the cluster takes its size, the plan is balanced and checked; `name`
 * stands for it in messages. */
gboolean cli_fit_plan(const char *name, const Model *model, Cluster *cluster, Plan *plan, GError **error);

/* Counts start as CLI_ABSENT; this makes an absent one 0 and refuses others below 1. */
#define CLI_ABSENT G_MININT
gboolean cli_check_count(const char *option, int *value, GError **error);

/* Reads a count, which may end in k, M, G or T: powers of `kilo`, and what was understood is said on stderr. NULL
 * leaves `out`. */
gboolean cli_read_count(const char *option, const char *text, int kilo, int *out, GError **error);

/* Reads a number above 0, which may end so with powers of a thousand (B too, for billions); NULL leaves 0. */
gboolean cli_positive(const char *option, const char *text, double *out, GError **error);

/* Tokens to train on, read likewise; more than all text there is are refused. */
#define CLI_TOKENS_MAX 1e16
gboolean cli_tokens(const char *option, const char *text, double *out, GError **error);

/* bf16 where all devices have it, else fp16, else fp32. */
DType cli_best_precision(const Cluster *cluster);

/* Reads fp32, tf32, fp16, bf16, fp8 or fp4; fp8 may have a recipe behind, as fp8:mxfp8, else FP8_NONE. */
gboolean cli_precision(const char *text, DType *out, Fp8Recipe *recipe, GError **error);

/* Reads an adapter of the model (plan/adapter.h); NULL leaves `out`. */
gboolean cli_adapter(const char *text, const Model *model, Adapter *out, GError **error);

/* Reads a share from 0 to below 1; NULL leaves -1. */
gboolean cli_share(const char *option, const char *text, double *out, GError **error);

/* Prints the error on stderr as one line and returns the exit status. */
int cli_fail(const char *program, GError *error);

/* Flushes stdout; 0, or 1 with a message if not everything could be written. */
int cli_finish(const char *program);

#endif
