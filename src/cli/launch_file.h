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

/* The same in the text of a file already read, whose name is for messages. */
gboolean launch_text(const char *text, gsize length, const char *path, const LaunchOptions *options, Launch **out,
                     GError **error);

/* Its model; NULL and the error, also where it tells none. */
Model *launch_model(const Launch *launch, const char *name, GError **error);

/* Its plan, or where there is no launch that of a plan file; as plan_load(). */
gboolean launch_plan(const Launch *launch, const char *path, const Model *model, Plan *plan, Framework **framework,
                     GError **error);

#endif
