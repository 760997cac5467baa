/* What the executor does not run, said before anything starts. */
#include "exec/exec.h"

#include "base/error.h"
#include "plan/keys.h"

static gboolean check_experts(const Model *m, const FeedForward *f, GError **error)
{
  const struct { const char *name; gboolean has; } parts[] = {
    { "shared_gate", f->shared_gate }, { "router_bias", f->router_bias }, { "router_correction", f->router_correction },
    { "bias of experts", f->bias },
    { "expert_latent", f->latent > 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (parts[i].has)
      return input_error(error, "model %s: %s: expected experts without it to execute", m->name, parts[i].name);
  return TRUE;
}

static gboolean check_block(const Model *m, const LayerSpec *spec, GError **error)
{
  const Attention *a = &spec->attention;

  if (!a->heads || !spec->ffn.width || spec->linear.heads)
    return input_error(error, "model %s: %s: expected attention and a feed-forward in each to execute", m->name,
                       spec->linear.heads ? "linear attention" : a->heads ? "a block without feed-forward"
                                                                          : "a block without attention");
  if (spec->ffn.experts > 0 && !check_experts(m, &spec->ffn, error))
    return FALSE;
  if (spec->ffn.kind == MLP_RELU2 || spec->ffn.kind == MLP_XIELU)
    return input_error(error, "model %s: mlp: %s: expected gelu or swiglu to execute", m->name,
                       spec->ffn.kind == MLP_RELU2 ? "relu2" : "xielu");
  if (a->inner_norm || spec->ffn.inner_norm)
    return input_error(error, "model %s: inner_norms: true: expected false to execute", m->name);
  if (a->keyless || a->key_is_value)
    return input_error(error, "model %s: %s: expected keys and values of each layer's own to execute", m->name,
                       a->keyless ? "num_kv_shared_layers" : "attention_k_eq_v");
  if (a->gated || a->chunked || (!a->kv_lora_rank && a->v_head_dim != a->head_dim))
    return input_error(error, "model %s: %s: expected attention without it to execute", m->name,
                       a->gate_of_head ? "head_gate" : a->gated ? "attention_gate" : a->chunked ? "chunked" :
                       "v_head_dim");
  if (a->kv_lora_rank || a->qk_norm || a->extra_params)
    return input_error(error, "model %s: attention: %s: expected plain or grouped-query attention to execute", m->name,
                       a->kv_lora_rank ? "kv_lora_rank" : a->qk_norm ? "qk_norm" : "extra parameters");
  if (a->head_dim % 2 && m->positions == POSITIONS_ROPE)
    return input_error(error, "model %s: head_dim: %d: expected an even width for rotary positions", m->name,
                       a->head_dim);
  if (spec->parallel || spec->norms != 2)
    return input_error(error, "model %s: norms: %d%s: expected two in turn with attention and feed-forward to execute",
                       m->name, spec->norms, spec->parallel ? " of a parallel block" : "");
  return TRUE;
}

/* Keys of model files that mean another computation than the executor's. */
static gboolean check_family(const Model *m, GError **error)
{
  const struct { const char *name; gboolean has; } parts[] = {
    { "sparse_attention", m->sparse != NULL }, { "norm_position: post", m->post_norm },
    { "type_vocab_size", m->token_types > 0 }, { "mlm_head", m->mlm_head }, { "encoder", m->encoder_blocks > 0 },
    { "patch_size", m->patch > 0 }, { "bare_norms", m->bare_norms },
    { "hidden_size_per_layer_input", m->side > 0 }, { model_own_mechanism(m), model_own_mechanism(m) != NULL },
    { "bias of the head", m->head_bias },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (parts[i].has)
      return input_error(error, "model %s: %s: expected a decoder without it to execute", m->name, parts[i].name);
  return TRUE;
}

static gboolean check_model(const Model *m, GError **error)
{
  if (m->dropout)
    return input_error(error, "model %s: dropout: true: expected false to execute", m->name);
  if (m->mtp > 0)
    return input_error(error, "model %s: mtp_num_layers: %d: expected 0 to execute", m->name, m->mtp);
  if (m->positions != POSITIONS_LEARNED && m->positions != POSITIONS_ROPE && m->positions != POSITIONS_NONE)
    return input_error(error, "model %s: positions: expected learned, rope or none to execute", m->name);
  if (m->embedding_norm || (m->embed_dim && m->embed_dim != m->hidden))
    return input_error(error, "model %s: %s: expected an embedding of hidden width without norm to execute", m->name,
                       m->embedding_norm ? "embedding_norm" : "embed_dim");
  if (!check_family(m, error))
    return FALSE;
  for (int i = 0; i < m->n_layers; i++)
    if (model_layer(m, i)->kind == LAYER_BLOCK && !check_block(m, model_layer(m, i), error))
      return FALSE;
  return TRUE;
}

static gboolean check_recompute(const PassLayout *p, GError **error)
{
  const RecomputeLayout *r = &p->recompute;

  if (r->granularity == RECOMPUTE_SELECTIVE && p->framework->selective_products)
    return input_error(error, "plan: recompute_granularity: selective: expected none or full to execute as %s does",
                       p->framework->name);
  if (recompute_counts(&r->scope))
    return input_error(error, "plan: recompute_num_layers: expected 1 layer uniformly to execute");
  if (recompute_modules(&r->scope) != 1u << MODULE_CORE_ATTN)
    return input_error(error, "plan: recompute_modules: expected core_attn alone to execute");
  return TRUE;
}

static gboolean check_optimizer(const Optimizer *o, GError **error)
{
  if (o->name != OPTIMIZER_ADAM && o->name != OPTIMIZER_ADAMW)
    return input_error(error, "plan: optimizer: %s: expected adam or adamw to execute", optimizer_names[o->name]);
  if (o->remainders)
    return input_error(error, "plan: store_param_remainders: true: expected false to execute");
  for (int i = 0; i < STATE_COUNT; i++)
    if (o->formats[i])
      return input_error(error, "plan: %s: %s: expected nothing to execute", optimizer_state_names[i],
                         state_format_names[o->formats[i]]);
  return TRUE;
}

static gboolean check_experts_apart(const Layout *l, GError **error)
{
  const PassLayout *p = &l->passes;

  if (p->experts_apart && p->dispatch >= DISPATCH_FLEX)
    return input_error(error, "plan: moe_token_dispatcher_type: %s: expected %s or %s to execute",
                       expert_dispatch_names[p->dispatch], expert_dispatch_names[DISPATCH_ALL_TO_ALL],
                       expert_dispatch_names[DISPATCH_GATHER]);
  if (l->expert_capacity > 0 && !l->expert_padded && p->framework->capacity == CAPACITY_PAD)
    return input_error(error, "plan: moe_expert_capacity_factor: %g: expected moe_pad_expert_input_to_capacity to "
                       "execute as %s does", l->expert_capacity, p->framework->name);
  return TRUE;
}

static gboolean check_passes(const PassLayout *p, GError **error)
{
  if (p->cp > 1 && p->context == CONTEXT_BOTH)
    return input_error(error, "plan: cp_comm_type: %s: expected %s, %s or %s to execute",
                       context_exchange_names[CONTEXT_BOTH], context_exchange_names[CONTEXT_RING],
                       context_exchange_names[CONTEXT_GATHER], context_exchange_names[CONTEXT_ALL_TO_ALL]);
  if (adapter_freezes(&p->adapter)) {
    g_autofree char *adapter = adapter_text(&p->adapter);
    return input_error(error, "plan: adapter: %s: expected none to execute: all weights are trained", adapter);
  }
  if (p->attention == ATTENTION_UNFUSED)
    return input_error(error, "plan: attention: unfused: expected flash to execute");
  if (p->overlap_experts)
    return input_error(error, "plan: overlap.experts: true: expected false to execute");
  if (p->overlap_exchange)
    return input_error(error, "plan: overlap.exchange: true: expected false to execute");
  if (p->graph)
    return input_error(error, "plan: cuda_graph: expected none to execute");
  if (p->formats.products)
    return input_error(error, "plan: precision: %s: expected bf16, fp16 or fp32 to execute",
                       dtype_names[formats_product(&p->formats)]);
  return check_recompute(p, error);
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
  if (s->stores_gradients)
    return input_error(error, "plan: overlap.offload: true: expected false to execute");
  if (s->shards < s->replicas)
    return input_error(error, "plan: shard_group_size: %d: expected all %d ranks that hold the same weights to execute",
                       s->shards, s->replicas);
  return check_optimizer(&s->optimizer, error);
}

static gboolean check_plan(const Plan *plan, const Layout *l, GError **error)
{
  if (!check_passes(&l->passes, error) || !check_experts_apart(l, error) ||
      !check_states(&l->states[0], l->pipeline.schedule, error))
    return FALSE;
  if (l->n_runs > 0)
    return input_error(error, "plan: layer_strategies: expected none to execute: all layers run the plan's own "
                       "strategy");
  if (l->mesh.types[0])
    return input_error(error, "plan: hetero_device_types: expected none to execute: ranks are taken to be alike");
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
