/* Megatron-LM's arguments as a model and a plan. Private to this folder. */
#ifndef TDP_IMPORT_MEGATRON_LAUNCH_H
#define TDP_IMPORT_MEGATRON_LAUNCH_H

#include "base/json.h"
#include "import/launch_parts.h"

/* What is being read. */
typedef struct {
  const Arguments *from;
  const char *framework; /* asked for, NULL = by the arguments */
  int gpus;              /* asked for, or of the launcher; 0 = not told */
  gboolean asked;        /* the first of these */
  gboolean core_16;      /* Megatron Core is known to be 0.16 */
  const char *settings;  /* DeepSpeed's configuration that the script writes; NULL = none */
  LaunchReading to;
} Reading;

/* An argument's number, `usual` where it is absent. */
int reading_int(Reading *r, const char *name, int usual);
double reading_real(Reading *r, const char *name, double usual);

/* Whether a switch is there; its text, "" where it is absent, which lives as long as the launch. */
gboolean reading_flag(Reading *r, const char *name);
const char *reading_text(Reading *r, const char *name);

/* Whether the script is of Megatron-DeepSpeed: it has arguments that are its alone. */
gboolean reading_deepspeed(Reading *r);

/* Whether program and arguments train a language model alone; FALSE and the error. */
gboolean megatron_program(Reading *r);

/* The path of our file of a model as Hugging Face's hub names it, "deepseek-ai/DeepSeek-V3-Base"; newly allocated, NULL =
 * none. */
char *megatron_hub_model(const char *hub);

/* The command of a file of YAML that has Megatron-LM's arguments below MODEL_ARGS, "--num-layers: 48", as its
 * functional tests and NVIDIA's benchmarks of experts do: a switch is true or false, and variables stay for
 * --script-args. Newly allocated; NULL = it is none. */
char *megatron_yaml_script(const char *text);

/* Names what neither model nor plan are read from. */
void megatron_name_others(const Arguments *arguments, char *(*spelled)(const char *name), Launch *out);

/* Model files; newly allocated, NULL and the error. */
char *megatron_model(Reading *r);

/* Fills in the plan, its GPUs and the framework; FALSE and the error. `layers`: of the model. */
gboolean megatron_plan(Reading *r);

/* What records kernels, as --cuda-graph-impl names it; "" where nothing does. */
const char *megatron_graph_kind(Reading *r);

/* What it says of recorded kernels; the model is read before. */
void megatron_graph_put(Reading *r, JsonWriter *w);

/* Formats of weights, gradients and moments that are not the software's usual ones; framework: the plan's. */
void megatron_formats_put(Reading *r, const char *framework, JsonWriter *w);

/* Says that weights are divided further than over tensor-parallel ranks, where the argument asks for it (GTP, August
 * 2026). */
void megatron_shards_say(Reading *r, const char *name, int tensor);

/* Whether an argument is there that Megatron-FSDP has from Core 0.17 on. */
gboolean megatron_formats_of_fsdp(Reading *r);

/* Blocks of the model. */
int megatron_layers(Reading *r);

/* The pattern of a model's layers, "MEM-|*M-E/ME": a letter a layer, stages between bars, modules for multi-token
 * prediction behind slashes; "" where there is none. */
const char *pattern_text(Reading *r);

/* Its layers; its stages, with the layers of the first `most` of them. */
int pattern_layers(const char *pattern);

/* Of the layers that Python's "([0]*3+[1]*58)" or "[0,1,1]" says to have experts (1) or not: how many come before the
 * first that has, if all behind it have too; else -1, as where it does not say `layers`. */
int pattern_first_dense(const char *pattern, int layers);

/* Of layers that "4" (all but every fourth) or such a list marks by 1: the n where all but every n-th are, 0 where all are,
 * -1 where it says something else. */
int pattern_every(const char *text, int layers);
int pattern_stages(const char *pattern, int *layers, int most);

/* What it says of a model file, with the sizes of Mamba-2. */
void pattern_put(Reading *r, JsonWriter *w);

#endif
