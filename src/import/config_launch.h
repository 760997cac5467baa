/* Runs told by files of settings: nanotron's, torchtitan's, DeepSpeed's, accelerate's, OLMo's, litgpt's, Primus's,
 * NeMo 1's, KempnerForge's. Private to this folder. */
#ifndef TDP_IMPORT_CONFIG_LAUNCH_H
#define TDP_IMPORT_CONFIG_LAUNCH_H

#include "base/json.h"
#include "import/launch_parts.h"
#include "import/settings.h"

typedef struct {
  const Settings *from;
  int gpus, seq, batch; /* asked for; 0 = not */
  int hidden;      /* as of LaunchOptions */
  const char *framework; /* asked for; NULL = the tool's usual one */
  const char *const *given; /* as of LaunchOptions */
  LaunchReading to;
} ConfigReading;

/* A number, `usual` where it is absent. */
int config_int(ConfigReading *r, const char *path, int usual);
double config_real(ConfigReading *r, const char *path, double usual);

/* Whether a word says true or false, those of YAML 1.1 too ("yes", "Off"); -1: neither. */
int config_word(const char *text);

/* A truth, `usual` where it is absent; what is neither, as what Python would have to compute, is said and taken as that. */
gboolean config_true(ConfigReading *r, const char *path, gboolean usual);

/* Of weights that ZeRO-3 divides and FSDP does not reshard behind forwards: the plan's words for it. */
void config_put_kept(JsonWriter *w);

/* Sets the GPUs: those asked for, else `told`, else as few as divide by `each`; FALSE where they do not. */
gboolean config_gpus(ConfigReading *r, gint64 told, gint64 each);

/* Of files of Python: the function that CONFIG of what is given names, or the only one that is such; NULL and the
 * error. */
const char *config_function(ConfigReading *r, gboolean (*is)(const Settings *settings, const Setting *one));

/* Its settings, by paths behind its name, with truths as TOML writes them, newly allocated; says what of it is not
 * read. */
Settings *config_function_settings(ConfigReading *r, const char *function);

/* Tools: what their files are told by, what they say, and what of it is not read. */
typedef struct {
  const char *tool, *title;
  Settings *(*parse)(const char *text);
  gboolean (*recognises)(const Settings *settings);
  Settings *(*chosen)(ConfigReading *reading); /* those that are meant, of a file of several; NULL = all. It returns NULL
                                                  where it fails */
  gboolean (*read)(ConfigReading *reading); /* fills in model (or its name) and plan */
  const SettingGroup *groups;               /* ends with an empty one */
  void (*change)(ConfigReading *reading, char **text, const char *before, const char *after,
                 GPtrArray *notes);         /* as config_change(), of a text that it frees; NULL = settings are changed by
                                               the names that the exporter has for them */
  gboolean (*implied)(const Settings *before, const Settings *after, const char *path); /* whether the tool's default of
                                               it may be another behind the change; NULL = of none */
  const char *line;                         /* a line of each such file begins with it; NULL = any may be one */
  gboolean later;                           /* as of Launch */
} ConfigTool;

extern const ConfigTool config_nanotron, config_torchtitan, config_torchtitan_python, config_deepspeed,
    config_bridge, config_accelerate, config_olmo, config_litgpt, config_primus, config_nemo,
    config_kempnerforge;

/* NULL if the text is of none of them. */
const ConfigTool *config_tool_of(const char *text);

Launch *config_read(const ConfigTool *tool, const char *text, const char *name, const LaunchOptions *options,
                    GError **error);

/* As launch_change(), of two whole files as the tool's exporter writes them. */
char *config_change(const ConfigTool *tool, const char *text, const char *name, const char *const *given,
                    const char *before, const char *after, GPtrArray *notes);

/* That a change has no place. */
void config_note(GPtrArray *notes, const char *change);

#endif
