/* What the executor does not run, said before anything starts. */
#include "exec/exec.h"

#include "base/error.h"
#include "plan/keys.h"

/* Something that is not executed: whether it is there, its key with the value, what is expected in its place. */
typedef struct {
  gboolean there;
  const char *what, *expected;
} Refused;

/* Refuses the first of n that is there. */
static gboolean check_none(const char *whose, const Refused *all, gsize n, GError **error)
{
  for (gsize i = 0; i < n; i++)
    if (all[i].there)
      return input_error(error, "%s: %s: expected %s", whose, all[i].what, all[i].expected);
  return TRUE;
}

static gboolean check_block(const char *whose, const Model *m, const LayerSpec *spec, GError **error)
{
  static const char in_each[] = "attention and a feed-forward in each to execute";
  static const char own_keys[] = "keys and values of each layer's own to execute";
  static const char plain[] = "plain or grouped-query attention to execute";
  static const char experts[] = "experts without it to execute", without[] = "attention without it to execute";
  const Attention *a = &spec->attention;
  const FeedForward *f = &spec->ffn;
  gboolean routed = f->experts > 0;
  g_autofree char *head_dim = g_strdup_printf("head_dim: %d", a->head_dim);
  g_autofree char *norms = g_strdup_printf("norms: %d%s", spec->norms, spec->parallel ? " of a parallel block" : "");
  const Refused all[] = {
    { spec->linear.heads > 0, "linear attention", in_each },
    { a->heads == 0, "a block without attention", in_each },
    { f->width == 0, "a block without feed-forward", in_each },
    { routed && f->shared_gate, "shared_gate", experts },
    { routed && f->router_bias, "router_bias", experts },
    { routed && f->router_correction, "router_correction", experts },
    { routed && f->bias, "bias of experts", experts },
    { routed && f->latent > 0, "expert_latent", experts },
    { f->kind == MLP_RELU2, "mlp: relu2", "gelu or swiglu to execute" },
    { f->kind == MLP_XIELU, "mlp: xielu", "gelu or swiglu to execute" },
    { a->inner_norm || f->inner_norm, "inner_norms: true", "false to execute" },
    { a->keyless, "num_kv_shared_layers", own_keys },
    { a->key_is_value, "attention_k_eq_v", own_keys },
    { a->gated, a->gate_of_head ? "head_gate" : "attention_gate", without },
    { a->chunked, "chunked", without },
    { !a->kv_lora_rank && a->v_head_dim != a->head_dim, "v_head_dim", without },
    { a->kv_lora_rank > 0, "attention: kv_lora_rank", plain },
    { a->qk_norm, "attention: qk_norm", plain },
    { a->extra_params > 0, "attention: extra parameters", plain },
    { a->head_dim % 2 && m->positions == POSITIONS_ROPE, head_dim, "an even width for rotary positions" },
    { spec->parallel || spec->norms != 2, norms, "two in turn with attention and feed-forward to execute" },
  };

  return check_none(whose, all, G_N_ELEMENTS(all), error);
}

static gboolean check_model(const Model *m, GError **error)
{
  static const char decoder[] = "a decoder without it to execute";
  static const char embedding[] = "an embedding of hidden width without norm to execute";
  const char *own = model_own_mechanism(m);
  gboolean positions = m->positions == POSITIONS_LEARNED || m->positions == POSITIONS_ROPE ||
                       m->positions == POSITIONS_NONE;
  g_autofree char *whose = g_strdup_printf("model %s", m->name);
  g_autofree char *mtp = g_strdup_printf("mtp_num_layers: %d", m->mtp);
  const Refused all[] = {
    { m->dropout, "dropout: true", "false to execute" },
    { m->mtp > 0, mtp, "0 to execute" },
    { !positions, "positions", "learned, rope or none to execute" },
    { m->embedding_norm, "embedding_norm", embedding },
    { m->embed_dim && m->embed_dim != m->hidden, "embed_dim", embedding },
    /* another computation than the executor's */
    { m->sparse != NULL, "sparse_attention", decoder },
    { m->post_norm, "norm_position: post", decoder },
    { m->token_types > 0, "type_vocab_size", decoder },
    { m->mlm_head, "mlm_head", decoder },
    { m->encoder_blocks > 0, "encoder", decoder },
    { m->patch > 0, "patch_size", decoder },
    { m->bare_norms, "bare_norms", decoder },
    { m->side > 0, "hidden_size_per_layer_input", decoder },
    { own != NULL, own, decoder },
    { m->head_bias, "bias of the head", decoder },
  };

  if (!check_none(whose, all, G_N_ELEMENTS(all), error))
    return FALSE;
  for (int i = 0; i < m->n_layers; i++)
    if (model_layer(m, i)->kind == LAYER_BLOCK && !check_block(whose, m, model_layer(m, i), error))
      return FALSE;
  return TRUE;
}

static gboolean check_passes(const Layout *l, GError **error)
{
  const PassLayout *p = &l->passes;
  const RecomputeLayout *r = &p->recompute;
  g_autofree char *precision = g_strdup_printf("precision: %s", dtype_names[formats_product(&p->formats)]);
  const Refused all[] = {
    { p->attention == ATTENTION_UNFUSED, "attention: unfused", "flash to execute" },
    { p->overlap_experts, "overlap.experts: true", "false to execute" },
    { p->overlap_exchange, "overlap.exchange: true", "false to execute" },
    { p->graph != GRAPH_NONE, "cuda_graph", "none to execute" },
    { p->formats.products != 0, precision, "bf16, fp16 or fp32 to execute" },
    { recompute_counts(&r->scope), "recompute_num_layers", "1 layer uniformly to execute" },
    { recompute_modules(&r->scope) != 1u << MODULE_CORE_ATTN, "recompute_modules", "core_attn alone to execute" },
  };

  if (p->cp > 1 && p->context == CONTEXT_BOTH)
    return input_error(error, "plan: cp_comm_type: %s: expected %s, %s or %s to execute",
                       context_exchange_names[CONTEXT_BOTH], context_exchange_names[CONTEXT_RING],
                       context_exchange_names[CONTEXT_GATHER], context_exchange_names[CONTEXT_ALL_TO_ALL]);
  if (adapter_freezes(&p->adapter)) {
    g_autofree char *adapter = adapter_text(&p->adapter);
    return input_error(error, "plan: adapter: %s: expected none to execute: all weights are trained", adapter);
  }
  if (r->granularity == RECOMPUTE_SELECTIVE && p->framework->selective_products)
    return input_error(error, "plan: recompute_granularity: selective: expected none or full to execute as %s does",
                       p->framework->name);
  if (p->experts_apart && dispatch_by_kernels(p->dispatch))
    return input_error(error, "plan: moe_token_dispatcher_type: %s: expected %s or %s to execute",
                       expert_dispatch_names[p->dispatch], expert_dispatch_names[DISPATCH_ALL_TO_ALL],
                       expert_dispatch_names[DISPATCH_GATHER]);
  if (l->expert_capacity > 0 && !l->expert_padded && p->framework->capacity == CAPACITY_PAD)
    return input_error(error, "plan: moe_expert_capacity_factor: %g: expected moe_pad_expert_input_to_capacity to "
                       "execute as %s does", l->expert_capacity, p->framework->name);
  return check_none("plan", all, G_N_ELEMENTS(all), error);
}

static gboolean check_optimizer(const Optimizer *o, GError **error)
{
  if (o->name != OPTIMIZER_ADAM && o->name != OPTIMIZER_ADAMW)
    return input_error(error, "plan: optimizer: %s: expected adam or adamw to execute", optimizer_names[o->name]);
  for (int i = 0; i < STATE_COUNT; i++)
    if (o->formats[i])
      return input_error(error, "plan: %s: %s: expected nothing to execute", optimizer_state_names[i],
                         state_format_names[o->formats[i]]);
  return TRUE;
}

static gboolean check_states(const StateLayout *s, const Schedule *schedule, GError **error)
{
  if (schedule->vocabulary && s->zero > 1 && s->sums)
    return input_error(error, "plan: zero_stage: %d: expected 0 or 1 to execute pipeline_schedule %s", s->zero,
                       schedule->name);
  if (s->offload.optimizer == STORE_NVME || s->offload.parameters || offload_keeps(&s->offload)) {
    g_autofree char *offloaded = offload_label(&s->offload);
    return input_error(error, "plan: offload: %s: expected none, or the optimizer on the host, to execute", offloaded);
  }
  if (s->shards < s->replicas)
    return input_error(error, "plan: shard_group_size: %d: expected all %d ranks that hold the same weights to execute",
                       s->shards, s->replicas);
  return check_optimizer(&s->optimizer, error);
}

static gboolean check_plan(const Plan *plan, const Layout *l, GError **error)
{
  const StateLayout *s = &l->states[0];
  const Refused all[] = {
    { s->optimizer.remainders, "store_param_remainders: true", "false to execute" },
    { s->stores_gradients, "overlap.offload: true", "false to execute" },
    { l->n_runs > 0, "layer_strategies", "none to execute: all layers run the plan's own strategy" },
    { l->mesh.types[0] != NULL, "hetero_device_types", "none to execute: ranks are taken to be alike" },
  };

  if (!check_passes(l, error) || !check_states(s, l->pipeline.schedule, error) ||
      !check_none("plan", all, G_N_ELEMENTS(all), error))
    return FALSE;
  for (int choice = CHOICE_NONE + 1; choice < CHOICE_COUNT; choice++)
    if (choice != CHOICE_BUCKET && choice != CHOICE_OFFLOAD_OPTIMIZER && plan_takes(plan, choice))
      return input_error(error, "plan: %s: expected nothing to execute", plan_choice_name(choice));
  return TRUE;
}

/* Dependencies on other rows that a rank can wait for. */
static gboolean check_program(const Program *program, GError **error)
{
  for (guint i = 0; i < program->tasks->len; i++) {
    const Task *t = &g_array_index(program->tasks, Task, i);
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
      const Task *dep = &g_array_index(program->tasks, Task, program->deps[d]);
      gboolean joint = t->kind == TASK_TIED || t->kind == TASK_COPIES || t->kind == TASK_NORM ||
                       t->kind == TASK_VOCAB || dep->kind == TASK_NORM || dep->kind == TASK_VOCAB;
      if (dep->row != t->row && !joint && !(dep->kind == TASK_SEND && t->kind == TASK_PASS))
        return input_error(error, "plan: a %s of stage %d waits for a %s of stage %d, which is not executed",
                           task_kind_names[t->kind], t->row, task_kind_names[dep->kind], dep->row);
    }
  }
  return TRUE;
}

/* Gradients of a tied table come from the embedding and from the head: where one
 * rank has both, the table may be reduced only when neither adds any more. */
static gboolean check_shared_table(const Model *model, const Layout *layout, const Program *program, GError **error)
{
  int last[2] = { -1, -1 }; /* place on a lane of the last weight gradient of the head, of the embedding */

  if (!model->tied_embeddings || !layout->passes.ends_meet || !layout->states[0].sums)
    return TRUE;
  for (int row = 0; row < program->n_rows; row++) {
    int lane = row * LANE_COUNT + LANE_COMPUTE;
    last[0] = last[1] = -1;
    for (int i = program->lane_first[lane]; i < program->lane_first[lane + 1]; i++) {
      const Task *t = &g_array_index(program->tasks, Task, program->lane_tasks[i]);
      const Segment *s = &g_array_index(program->segments, Segment, t->segment);
      if (t->kind != TASK_PASS || (t->pass != PASS_BACKWARD && t->pass != PASS_WEIGHT))
        continue;
      if (s->first_layer + s->n_layers == model->n_layers)
        last[0] = i;
      if (s->first_layer == 0)
        last[1] = i;
    }
    if (last[0] > last[1] && last[1] >= 0)
      return input_error(error,
                         "plan: pipeline_schedule: %s: expected untied embeddings to execute with %d ranks of equal "
                         "weights: the head adds to the shared table after the embedding's gradient is reduced",
                         layout->pipeline.schedule->name, layout->states[0].replicas);
  }
  return TRUE;
}

gboolean exec_check(const Model *model, const Plan *plan, const Layout *layout, const Program *program, GError **error)
{
  return check_model(model, error) && check_plan(plan, layout, error) && check_program(program, error) &&
         check_shared_table(model, layout, program, error);
}
