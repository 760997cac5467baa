/*
 * Training runs as other tools are told them, read: Megatron-LM's scripts, command lines, and the arguments that its
 * logs begin with; nanotron's YAML, torchtitan's TOML and Python, Megatron-Bridge's recipes, DeepSpeed's JSON,
 * accelerate's, OLMo's, litgpt's, Primus's and NeMo 1's YAML, KempnerForge's TOML; as a model and a plan of ours in
 * the JSON of their files.
 *
 * Every argument is read, or named: those that change neither time nor memory by what they are about, those that do and
 * that are not simulated, and those that are not known. What the text leaves open is taken as its tool takes it, and
 * said where the tool would not know either.
 *
 * launch_change() gives a text back with some arguments changed, and all else as it was to the byte.
 *
 * To add a tool whose runs are told by a file of settings: a ConfigTool of its own (config_launch.h).
 */
#ifndef TDP_IMPORT_LAUNCH_H
#define TDP_IMPORT_LAUNCH_H

#include <glib.h>

typedef struct {
  const char *tool;   /* whose arguments: the name of its exporter */
  const char *title;  /* "Megatron-LM script" */
  gboolean editable;  /* launch_change() changes it: it is no log */
  gboolean whole;     /* its change is between whole files, not between command lines */
  gboolean later;     /* it is of a version beyond that of the exporter's files: Exporter.later tells its changes */
  gboolean named;     /* LaunchOptions.given names the one of the file's that it is, or fills in its variables */
  char *model;        /* a model file; NULL = not told */
  char *unknown_model; /* what names one that we have no file of; NULL = nothing does */
  char *plan;         /* a plan file */
  int gpus;           /* of the plan */
  gboolean gpus_open; /* nobody says how many: as many as its degrees come to */
  double measured_s;  /* a step, where a log tells it; 0 = not */
  double measured_bytes; /* allocated at the peak, likewise */
  GPtrArray *ignored; /* char *: "data: --data-path, --split" of what is no matter to time and memory */
  GPtrArray *not_simulated; /* char *: the same of what may matter to them, and is not simulated */
  GPtrArray *unknown; /* char *: arguments that no table has */
  GPtrArray *assumed; /* char *: what is taken for granted, a line each */
  GPtrArray *options; /* char *: the option that tells LaunchOptions what a line of `assumed` takes, as in "--gpus", for
                         programs that have it; NULL = none does; as many as lines */
} Launch;

/* Whether a text is such a run, rather than a file of ours. */
gboolean launch_recognises(const char *text);

/* What a text does not say. */
typedef struct {
  int gpus;                 /* 0 = as the text says */
  const char *framework;    /* NULL = the generation that the arguments are of */
  const char *const *given; /* what a script is started with: "NAME=VALUE", its arguments as "1=VALUE" (launch_given());
                               NULL = nothing */
  int seq;                  /* tokens of a sequence; 0 = the model's. Only of tools whose files name none */
  int hidden;               /* the model's width, by which Hugging Face's trainer fills in buckets; 0 = not known */
  int batch;                /* sequences of a step; 0 = one of each rank. Only of files that name none */
} LaunchOptions;

/* `name` is the file's, for messages and for files that it sources. TDP_ERROR_INPUT. */
Launch *launch_read(const char *text, const char *name, const LaunchOptions *options, GError **error);
void launch_free(Launch *launch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Launch, launch_free)

/* LaunchOptions.given of the words behind which a shell would start a script, variables first: "SIZE=8B 4 1e-5". The
 * caller frees it with g_strfreev(). TDP_ERROR_INPUT where quotes are left open. */
char **launch_given(const char *words, GError **error);

/*
 * The text with what tells two command lines of its tool apart, or two files where the launch is `whole`: arguments of
 * `after` that `before` has not, or otherwise, and without those that `before` alone has; newly allocated. A value is
 * changed where it stands if that changes nothing else, else where it is used; other spellings of what is changed go.
 * Each change is proved by reading the new text again: of those that could not be made, and of what changes beside, a line
 * is appended to `notes`. `given` is that of LaunchOptions.
 */
char *launch_change(const char *text, const char *name, const char *const *given, const char *before,
                    const char *after, GPtrArray *notes);

#endif
