/* What the executor does not run is refused by name. */
#include "exec/exec.h"
#include "fixture.h"
#include "main.h"

static void refuses(Model *model, void (*change)(Plan *), const char *expected)
{
  g_autoptr(Model) owned = model;
  Framework *framework = fixture_framework("tdp-run");
  Cluster *cluster = fixture_cluster("cpu", 4);
  Plan plan = plan_default(model, framework);
  GError *error = NULL;

  plan.precision = DTYPE_FP32;
  change(&plan);
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
  ck_assert(!exec_check(model, &plan, LAYOUT(&plan), program, &error));
  test_error(&error, 2, expected);
  cluster_free(cluster);
  framework_free(framework);
}

static void unfused(Plan *plan) { plan->attention = ATTENTION_UNFUSED; }
static void fp8(Plan *plan) { plan_set_format(plan, DTYPE_FP8); }
static void no_sync(Plan *plan) { plan->sharding.no_sync = TRUE; }
static void nothing(Plan *plan) { (void)plan; }

static void expert_flex(Plan *plan)
{
  plan->ep = plan->dp = plan->gpus = plan->global_batch = 2;
  plan->dispatch = DISPATCH_FLEX;
}

static void shard_group(Plan *plan)
{
  plan->gpus = plan->dp = plan->global_batch = 4;
  plan->zero = 1;
  plan->shard_group = 2;
}

static void offload_activations(Plan *plan)
{
  plan->offload.activations = STORE_CPU;
  plan->recompute = RECOMPUTE_FULL;
}

static void offload_early(Plan *plan)
{
  plan->offload.optimizer = STORE_CPU;
  plan->overlap.offload = TRUE;
}

static void offload_late(Plan *plan)
{
  plan->offload.optimizer = STORE_CPU;
  plan->offload.delayed = TRUE;
}

START_TEST(plans_that_are_not_executed_are_refused)
{
  static const struct { void (*change)(Plan *); const char *expected; } cases[] = {
    { unfused, "plan: attention: unfused: expected flash to execute" },
    { expert_flex, "plan: moe_token_dispatcher_type: flex: expected alltoall or allgather to execute" },
    { fp8, "plan: precision: fp8: expected bf16, fp16 or fp32 to execute" },
    { no_sync, "plan: no_sync: expected nothing to execute" },
    { shard_group, "plan: shard_group_size: 2: expected all 4 ranks that hold the same weights to execute" },
    { offload_activations, "plan: offload: activations: expected none, or the optimizer on the host, to execute" },
    { offload_early, "plan: overlap.offload: true: expected false to execute" },
    { offload_late, "plan: delayed_update: expected nothing to execute" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    refuses(fixture_moe(2, 16, 4, 8, 13, 4, 2, 0), cases[i].change, cases[i].expected);
}
END_TEST

static void dropout(Model *m) { m->dropout = TRUE; }
static void embedding_norm(Model *m) { m->embedding_norm = TRUE; }
static void alibi(Model *m) { m->positions = POSITIONS_ALIBI; }
static void relu2(Model *m) { m->specs[1].ffn.kind = MLP_RELU2; }
static void qk_norm(Model *m) { m->specs[1].attention.qk_norm = TRUE; }
static void parallel(Model *m) { m->specs[1].parallel = TRUE; }
static void norms(Model *m) { m->specs[1].norms = 4; }
static void shared_gate(Model *m) { m->specs[1].ffn.shared_gate = TRUE; }
static void router_bias(Model *m) { m->specs[1].ffn.router_bias = TRUE; }
static void router_correction(Model *m) { m->specs[1].ffn.router_correction = TRUE; }
static void expert_bias(Model *m) { m->specs[1].ffn.bias = TRUE; }
static void latent(Model *m) { m->specs[1].ffn.latent = 8; }
static void chunked(Model *m) { m->specs[1].attention.chunked = TRUE; }
static void gated(Model *m) { m->specs[1].attention.gated = TRUE; }
static void no_feed_forward(Model *m) { m->specs[1].ffn = (FeedForward) { 0 }; }
static void no_mixer(Model *m) { m->specs[1].attention = (Attention) { 0 }; }
static void bare_norms(Model *m) { m->bare_norms = TRUE; }
static void inner_norms(Model *m) { m->specs[1].attention.inner_norm = TRUE; }
static void xielu(Model *m) { m->specs[1].ffn.kind = MLP_XIELU; }
static void head_gate(Model *m) { m->specs[1].attention.gated = m->specs[1].attention.gate_of_head = TRUE; }
static void narrow_values(Model *m) { m->specs[1].attention.v_head_dim = 2; }
static void keyless(Model *m) { m->specs[1].attention.keyless = TRUE; }
static void key_is_value(Model *m) { m->specs[1].attention.key_is_value = TRUE; }
static void side(Model *m) { m->side = 8; }

static void linear(Model *m)
{
  m->specs[1].attention = (Attention) { 0 };
  m->specs[1].linear = (LinearAttention) { .heads = 2, .head_dim = 8, .groups = 1, .state = 8, .chunk = 8 };
}

static void both_mixers(Model *m)
{
  Attention attention = m->specs[1].attention;

  linear(m);
  m->specs[1].attention = attention;
}

START_TEST(models_that_are_not_executed_are_refused)
{
  static const struct { void (*change)(Model *); const char *expected; } cases[] = {
    { dropout, "model moe: dropout: true: expected false to execute" },
    { embedding_norm, "model moe: embedding_norm: expected an embedding of hidden width without norm to execute" },
    { alibi, "model moe: positions: expected learned, rope or none to execute" },
    { relu2, "model moe: mlp: relu2: expected gelu or swiglu to execute" },
    { qk_norm, "model moe: attention: qk_norm: expected plain or grouped-query attention to execute" },
    { parallel, "model moe: norms: 2 of a parallel block: expected two in turn with attention and feed-forward to "
                "execute" },
    { norms, "model moe: norms: 4: expected two in turn with attention and feed-forward to execute" },
    { shared_gate, "model moe: shared_gate: expected experts without it to execute" },
    { router_bias, "model moe: router_bias: expected experts without it to execute" },
    { router_correction, "model moe: router_correction: expected experts without it to execute" },
    { expert_bias, "model moe: bias of experts: expected experts without it to execute" },
    { latent, "model moe: expert_latent: expected experts without it to execute" },
    { chunked, "model moe: chunked: expected attention without it to execute" },
    { gated, "model moe: attention_gate: expected attention without it to execute" },
    { no_feed_forward, "model moe: a block without feed-forward: expected attention and a feed-forward in each to "
                       "execute" },
    { no_mixer, "model moe: a block without attention: expected attention and a feed-forward in each to execute" },
    { linear, "model moe: linear attention: expected attention and a feed-forward in each to execute" },
    { both_mixers, "model moe: linear attention: expected attention and a feed-forward in each to execute" },
    { bare_norms, "model moe: bare_norms: expected a decoder without it to execute" },
    { inner_norms, "model moe: inner_norms: true: expected false to execute" },
    { xielu, "model moe: mlp: xielu: expected gelu or swiglu to execute" },
    { head_gate, "model moe: head_gate: expected attention without it to execute" },
    { narrow_values, "model moe: v_head_dim: expected attention without it to execute" },
    { keyless, "model moe: num_kv_shared_layers: expected keys and values of each layer's own to execute" },
    { key_is_value, "model moe: attention_k_eq_v: expected keys and values of each layer's own to execute" },
    { side, "model moe: hidden_size_per_layer_input: expected a decoder without it to execute" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Model *model = fixture_moe(2, 16, 4, 8, 13, 4, 2, 8);
    cases[i].change(model);
    refuses(model, nothing, cases[i].expected);
  }
}
END_TEST

TEST_MAIN("exec-refusals", plans_that_are_not_executed_are_refused, models_that_are_not_executed_are_refused)
