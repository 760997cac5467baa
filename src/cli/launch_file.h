/*
 * Files that say how a model is trained, ours or another tool's (import/launch.h): what programs take for a plan, and
 * for a model where the same file tells it.
 */
#ifndef TDP_CLI_LAUNCH_FILE_H
#define TDP_CLI_LAUNCH_FILE_H

#include "import/launch.h"
#include "plan/plan.h"

/* The launch in a file found in the way of `folder`: NULL if the file is JSON that is none. FALSE and the error if the
 * file is neither, or says what cannot be read. */
gboolean launch_file(const char *name, const char *folder, const LaunchOptions *options, Launch **out, GError **error);

/* Its model; NULL and the error, also where it tells none. */
Model *launch_model(const Launch *launch, const char *name, GError **error);

/* A file that is given as a plan, read once, with the model that it tells unless another is given beside it. */
typedef struct {
  char *path;     /* of it, "stdin" where it is "-" */
  char *text;
  gsize length;
  Launch *launch; /* NULL: a plan file of ours */
  Model *model;   /* that it is read with */
} TrainingFile;

/* `model`: instead of the file's, whose owner the file is from then on, also after an error; NULL = the file's, and an
 * error where it tells none. Of `asked` (import/launch.h) the model's width is filled in here; a plan file of ours takes
 * none of it, and a file that is no script no words of a command line: TDP_ERROR_INPUT, and what is to be cleared. */
gboolean training_file_read(TrainingFile *file, const char *name, Model *model, const LaunchOptions *asked,
                            GError **error);
void training_file_clear(TrainingFile *file);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(TrainingFile, training_file_clear)

/* Its plan of the model that it was read with; as plan_parse(). */
gboolean training_file_plan(const TrainingFile *file, const Model *model, Plan *plan, Framework **framework,
                            GError **error);

/* What is told beside a file is what its plan then has; files that say it themselves may say something else:
 * TDP_ERROR_INPUT. */
gboolean training_file_told(const TrainingFile *file, const LaunchOptions *asked, const Plan *plan, GError **error);

/* The same checked, on a cluster that takes its size. `adapter`: text of one that the plan takes instead of its own, or
 * NULL. To `notes` (char *) goes a line on each thing that another tool's file leaves open, with the option of `has`
 * (NULL = the program has none) that tells it, and on what of it is not simulated. */
gboolean training_file_load(const TrainingFile *file, const Model *model, const char *adapter, Cluster *cluster,
                            Plan *plan, Framework **framework, const char *const *has, GPtrArray *notes,
                            GError **error);

#endif
