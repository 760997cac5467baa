/* What the exporters share. Private to src/export. */
#ifndef TDP_EXPORT_TARGET_H
#define TDP_EXPORT_TARGET_H

#include "export/export.h"
#include "plan/nearest.h"

/* One export: what is written, and what was found that cannot be. What the plan means, and the values of its keys, are
 * read from its layout. */
struct Export {
  const Exporter *exporter;
  const Model *model;
  const Cluster *cluster;
  const Plan *plan;
  Plan *taken; /* the plan, where it is the export's own */
  Layout layout;
  const Framework *own; /* what the tool runs; NULL where the exporter says itself what it loses */
  int nodes, node_gpus;
  GPtrArray *losses, *notes; /* NULL while nobody asks */
};

extern const Exporter exporter_megatron, exporter_deepspeed, exporter_torchtitan, exporter_bridge, exporter_accelerate,
    exporter_nanotron, exporter_maxtext, exporter_primus;

/* Placeholders, alike in all formats. */
#define EXPORT_STEPS 10
#define EXPORT_LR "6.0e-5"
#define EXPORT_MIN_LR "6.0e-6"

void export_lose(Export *e, const char *format, ...) G_GNUC_PRINTF(2, 3);
void export_note(Export *e, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* How a tool names a schedule of ours, and whether it gives ranks chunks. A
 * table ends with an empty row; its first row stands in for all that it lacks,
 * and has no chunks. */
typedef struct {
  const char *ours, *theirs;
  gboolean chunks;
} ScheduleName;

/* The row of the plan's schedule; a loss if the table has none and there are stages. */
const ScheduleName *export_schedule(Export *e, const ScheduleName *table);

/* Blocks in each chunk under that row. */
int export_chunk_blocks(const Export *e, const ScheduleName *row);

/* The stages as Megatron's layout says them, "Et*8|t*9|t*9|t*8L", with an m for each module that
 * predicts further tokens; newly allocated. */
char *export_stages(const Export *e);

/* Has the export write another plan, which it takes; what that changes is lost for the reason. */
void export_take_less(Export *e, Plan *plan, const char *reason);

/* Loses each key that a file does not say: `told` names those that it does. */
void export_lose_untold(Export *e, const ToldKey *told);

/* At the end of such an array: keys that every target is told, and that end it. */
#define TOLD_ALWAYS \
  { "gpus" }, { "global_batch_size" }, { "micro_batch_size" }, { "seq_length" }, { "tensor_model_parallel_size" }, \
  { "sequence_parallel" }, { "pipeline_model_parallel_size" }, { "virtual_pipeline_model_parallel_size" }, \
  { "pipeline_schedule" }, { "layer_split" }, { "hetero_device_types" }, { "data_parallel_size" }, \
  { "context_parallel_size" }, { "cp_comm_type" }, { "expert_model_parallel_size" }, \
  { "expert_tensor_parallel_size" }, { "moe_load_imbalance" }, { "zero_stage" }, { "shard_group_size" }, \
  { "recompute_granularity" }, { "recompute_method" }, { "recompute_num_layers" }, { "recompute_modules" }, \
  { "precision" }, { "optimizer" }, { "sgd_momentum" }, { "optimizer_block_size" }, { "muon_num_ns_steps" }, \
  { "muon_tp_mode" }, { "offload" }, { "framework" }, { NULL }

/* Megatron Core's name of the way in which tokens reach experts. */
const char *export_dispatcher(const Export *e);

/* What runs beside computation otherwise than the tool runs it by itself: a note, or a loss of a format without
 * comments. `written`: bits of those that the file says. */
void export_say_overlaps(Export *e, guint written);

/* The optimizer's name in a table of the target's own, its AdamW for those that it lacks. */
const char *export_optimizer(Export *e, const char *const names[OPTIMIZER_COUNT]);

/* Copies of what ZeRO divides over data-parallel ranks (HSDP); 1 and a loss where context-parallel ranks are split. */
int export_copies(Export *e);

/* The first block with experts, or without; NULL if there is none. */
const LayerSpec *export_block(const Model *model, gboolean experts);

/* Appends words behind a space, or at the start of a line. */
void export_words(GString *text, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Ends the line, unless it is empty. */
void export_end_line(GString *text);

/* A string in quotes, as JSON, TOML and YAML read it. */
void export_quoted(GString *text, const char *value);

/* A word of a shell command, quoted if it must be. */
void export_shell(GString *text, const char *word);

/* torchrun with its options and what it runs, for a terminal on each node; `file` behind it, unless it is NULL. */
void export_torchrun(const Export *e, GString *line, const char *program, const char *file);

/* "true" or "false". */
static inline const char *export_truth(gboolean value)
{
  return value ? "true" : "false";
}

/* Whether MaxText has such blocks; FALSE and an error where it has not. The keys of the model in its YAML. */
gboolean maxtext_trains(const Export *e, GError **error);
void maxtext_put_model(Export *e, GString *text);

/* What Megatron Core is told to recompute, as flags and as lines of "model:". */
void export_recompute_flags(Export *e, GString *flags);
void export_recompute_yaml(Export *e, GString *text);

/* Whether states are as only Megatron's distributed optimizer keeps them: divided, in formats of their own, or on the
 * host, on one rank too (optimizer_config.py). */
static inline gboolean megatron_divides_states(const StateLayout *s)
{
  return s->zero > 0 || s->offload.optimizer || optimizer_has_formats(&s->optimizer);
}

/* Whether Megatron's optimizer is its distributed one. Muon divides by itself, and is refused beside it. */
static inline gboolean megatron_distributed(const StateLayout *s)
{
  return s->optimizer.name != OPTIMIZER_MUON && megatron_divides_states(s);
}

/* Whether Megatron-FSDP runs the plan: it divides gradients, or parameters too, and always overlaps what it divides. */
static inline gboolean megatron_fsdp(const Export *e)
{
  return e->layout.states[0].zero >= 2;
}

/* What Megatron-FSDP is told of its formats from Core 0.17 on (distributed_data_parallel_config.py): names of formats,
 * or NULL where its default is the plan's. It accumulates in the model's own format unless it is told otherwise, sends
 * what it accumulates, and keeps main weights in fp32. */
typedef struct {
  const char *main_params, *main_grads, *grad_comm;
} FsdpFormats;

FsdpFormats megatron_fsdp_formats(const Export *e);

/* "CUDA_DEVICE_MAX_CONNECTIONS=1", or what an exchange of tokens beside passes asks for instead; NULL: unset, as
 * Megatron-FSDP refuses what tensor parallelism asks for. */
const char *megatron_connections(const Export *e);

/* What Megatron Core overlaps of gradients and parameters, as bits. */
static inline guint megatron_overlaps(const Export *e)
{
  const StateLayout *s = &e->layout.states[0];

  return (s->overlap_gradients || megatron_fsdp(e) ? OVERLAP_GRADIENTS : 0) |
         (s->gathers_ahead || s->zero == 3 ? OVERLAP_PARAMETERS : 0);
}

/* FALSE and an error where a model is no decoder of text with dense attention, which most targets alone train. */
gboolean export_decoders_only(const Export *e, GError **error);

/* A key by which layers differ, or read what others made, as no target has them; NULL if there is none. */
const char *export_unlike(const Model *model);

/* Llama's blocks: RMSNorm, gated feed-forward, rotary positions. */
gboolean export_llama_like(const Model *model);

/* The script of Megatron-LM that trains a model's family: pretrain_gpt.py, examples/bert/pretrain_bert.py (core 0.20
 * at 2008891), examples/t5/pretrain_t5.py (at 061309e, which refuses a pipeline and builds both stacks as deep),
 * pretrain_hybrid.py (at d98e8a6). */
typedef struct {
  const char *script;
  const char *data;  /* flags of its data and tokenizer, NULL: mock data, which only decoders have */
  gboolean pipeline; /* it runs with stages */
  gboolean context;  /* it divides sequences over context-parallel ranks */
} MegatronTrainer;

/* NULL if none trains the model, with the error. */
const MegatronTrainer *megatron_trainer(const Export *e, GError **error);

/* Whether Megatron-LM builds the model from a pattern of layers: stages are told in it. */
gboolean megatron_hybrid(const Model *model);

/* Modules of layers that are recorded under cuda_graph partial, joined by `between`; g_free it. */
char *megatron_graph_modules(const Export *e, const char *between);

/* Of rows a rank's experts get room for so many times the mean while a whole step is recorded; 0 = none are counted on
 * the device. At least 1.5, as Megatron-Bridge's recipes have. */
double megatron_rank_capacity(const Export *e);

/* The environment without which Megatron Core (0.19 and later, moe/experts.py, _is_fused_impl_supported) refuses to fuse
 * gated experts, as it must where rows are counted on the device. */
#define MEGATRON_FUSES_EXPERTS "NVTE_CUTEDSL_FUSED_GROUPED_MLP=1"

/* Such a pattern with its stages, "MEM*|EM-E": a letter a part, a module for multi-token prediction behind each
 * slash; newly allocated. */
char *megatron_pattern(const Export *e);

/* The script's flags for the model, a group a line. */
void megatron_model_flags(Export *e, GString *flags);

/* All flags of the script, in lines: of the model, of the plan, and placeholders for the rest; one string may take all.
 * NULL and the error where none trains the model. */
const MegatronTrainer *megatron_flags(Export *e, GString *model, GString *plan, GString *other, GError **error);

/* "key: value" as Primus reads a flag of Megatron-LM ("--key") with its n values; newly allocated. */
char *primus_override(const char *flag, char **values, int n);

/* Whether rotary positions are stretched with the wavelengths of Llama 3.1, by whatever factor. */
static inline gboolean export_rope_is_llama(const RopeScaling *s)
{
  return g_strcmp0(s->kind, "llama3") == 0 && s->low == 1 && s->high == 4 && s->tokens == 8192;
}

#endif
