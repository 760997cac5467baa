#include "main.h"
#include "planned.h"

#include <string.h>

static void setup(Planned *f, const char *framework)
{
  planned_init(f, fixture_llama(8, 512, 8, 8, 256, 1024), fixture_cluster("dgx", 2), framework);
  f->plan.gpus = f->plan.pp = 2;
  f->plan.global_batch = 4;
}

static gboolean parse(Planned *f, const char *keys, Plan *out, GError **error)
{
  g_autofree char *text = g_strdup_printf("{\"pipeline_model_parallel_size\": 2, %s}", keys);
  Framework *framework = NULL;
  gboolean ok = plan_parse(text, strlen(text), "p.json", f->model, out, &framework, error);

  framework_free(framework);
  return ok;
}

START_TEST(keys_are_read)
{
  Planned f;
  Plan p;

  setup(&f, "megatron-core");
  ck_assert(parse(&f, "\"recompute_granularity\": \"full\", \"recompute_method\": \"block\", "
                      "\"recompute_num_layers\": 3", &p, NULL));
  ck_assert_int_eq(p.scope.layers, 3);
  ck_assert_int_eq(p.scope.method, RECOMPUTE_BLOCK);
  ck_assert(parse(&f, "\"recompute_granularity\": \"full\", \"recompute_method\": \"block\", "
                      "\"recompute_num_layers\": [4, 1]", &p, NULL));
  ck_assert_int_eq(recompute_of_stage(&p.scope, 0, 4), 4);
  ck_assert_int_eq(recompute_of_stage(&p.scope, 1, 4), 1);
  ck_assert(parse(&f, "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"mlp\", \"layernorm\"]", &p,
                  NULL));
  ck_assert_uint_eq(p.scope.modules, 1u << MODULE_MLP | 1u << MODULE_LAYERNORM);
  planned_clear(&f);
}
END_TEST

static const struct {
  const char *keys, *message;
} wrong[] = {
  { "\"recompute_method\": \"blok\"", "p.json: recompute_method: \"blok\": expected one of uniform, block" },
  { "\"recompute_method\": \"block\"", "p.json: recompute_method: \"block\": expected recompute_num_layers beside it" },
  { "\"recompute_num_layers\": 0", "p.json: recompute_num_layers: 0: expected an integer from 1 to 255, or a list of "
                                   "one a stage" },
  { "\"recompute_num_layers\": [1, 2]", "p.json: recompute_num_layers: […]: expected one number, or recompute_method "
                                        "block" },
  { "\"recompute_modules\": [\"mlpp\"]", "p.json: recompute_modules[0]: \"mlpp\": expected each once, of core_attn, "
                                         "layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts" },
};

START_TEST(wrong_keys_are_refused)
{
  GError *error = NULL;
  Planned f;
  Plan p;

  setup(&f, "megatron-core");
  ck_assert(!parse(&f, wrong[_i].keys, &p, &error));
  ck_assert_str_eq(error->message, wrong[_i].message);
  g_error_free(error);
  planned_clear(&f);
}
END_TEST

START_TEST(rules)
{
  Planned f;

  setup(&f, "megatron-core");
  f.plan.scope.layers = 2;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_RECOMPUTE);
  f.plan.recompute = RECOMPUTE_FULL;
  planned_accept(&f);
  f.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .stages = { .stages = 3 } };
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_RECOMPUTE);
  f.plan.scope = (RecomputeScope) { .modules = 1u << MODULE_MOE };
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_RECOMPUTE); /* dense */
  f.plan.scope.modules = 1u << MODULE_MLP;
  planned_accept(&f);
  f.framework->recompute_alike = TRUE;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_RECOMPUTE);
  f.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = 2 };
  f.plan.recompute = RECOMPUTE_FULL;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_RECOMPUTE);
  planned_clear(&f);
}
END_TEST

static double saved_of(const Planned *f, int layer)
{
  g_autoptr(PriceTable) table = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  return price_of_layer(table, f->model, 0, layer)->saved_bytes;
}

static double backward_of(const Planned *f)
{
  g_autoptr(PriceTable) table = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  double s = 0;

  for (int i = 1; i <= f->model->blocks; i++)
    s += price_of_layer(table, f->model, 0, i)->pass[PASS_BACKWARD].seconds;
  return s;
}

/* Of 4 layers a stage the first one keeps its input, s b h in 16 bits, the others
 * everything; backwards grow by one forward for each layer made again. */
START_TEST(block_keeps_the_rest)
{
  Planned f;
  double all, none, backward[3];

  setup(&f, "megatron-core");
  none = saved_of(&f, 2);
  backward[0] = backward_of(&f);
  f.plan.recompute = RECOMPUTE_FULL;
  all = saved_of(&f, 2);
  backward[2] = backward_of(&f);
  ck_assert_double_eq_tol(all, 2.0 * 256 * 512, 1e-9);
  f.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = 1 };
  for (int layer = 1; layer <= 8; layer++)
    ck_assert_double_eq_tol(saved_of(&f, layer), layer % 4 == 1 ? all : none, 1e-9);
  backward[1] = backward_of(&f);
  ck_assert_double_eq_tol((backward[1] - backward[0]) * 4, backward[2] - backward[0], 1e-9);
  f.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .stages = { .stages = 2, .layers = { 4, 0 } } };
  ck_assert_double_eq_tol(saved_of(&f, 4), all, 1e-9);
  ck_assert_double_eq_tol(saved_of(&f, 5), none, 1e-9);
  planned_clear(&f);
}
END_TEST

/* Groups keep one input; what is made again at once is all of the group. */
START_TEST(groups_keep_one_input)
{
  Planned f;

  setup(&f, "megatron-core");
  f.plan.recompute = RECOMPUTE_FULL;
  f.plan.scope = (RecomputeScope) { .layers = 4 };
  g_autoptr(PriceTable) table = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
  f.plan.recompute = RECOMPUTE_NONE;
  f.plan.scope.layers = 0;
  double none = saved_of(&f, 1), input = 2.0 * 256 * 512;
  ck_assert_double_eq_tol(price_of_layer(table, f.model, 0, 1)->saved_bytes, input, 1e-9);
  ck_assert_double_eq_tol(price_of_layer(table, f.model, 0, 2)->saved_bytes, 0, 1e-9);
  ck_assert_double_eq_tol(price_of_layer(table, f.model, 0, 4)->recomputed_bytes + input, 4 * none, 1e-6);
  planned_clear(&f);
}
END_TEST

/* Bytes of an s x b x h tensor: layernorm drops two norms' outputs; mlp keeps its
 * input only, so gate, up and product of width f go. */
START_TEST(modules_drop_what_they_say)
{
  Planned f;
  double h = 2.0 * 256 * 512, width, none;

  setup(&f, "megatron-core");
  width = 2.0 * 256 * model_layer(f.model, 1)->ffn.width;
  none = saved_of(&f, 1);
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  f.plan.scope.modules = 1u << MODULE_LAYERNORM;
  ck_assert_double_eq_tol(none - saved_of(&f, 1), 2 * h, 1e-6);
  f.plan.scope.modules = 1u << MODULE_MLP;
  ck_assert_double_eq_tol(none - saved_of(&f, 1), 3 * width, 1e-6);
  f.plan.scope.modules |= 1u << MODULE_LAYERNORM;
  ck_assert_double_eq_tol(none - saved_of(&f, 1), 2 * h + 3 * width, 1e-6);
  planned_clear(&f);
}
END_TEST

/* Of latent attention it drops the two norms' outputs as well, not what a norm of the queries' latent works on. */
START_TEST(layernorm_leaves_latents)
{
  static const char *const models[] = { "deepseek-v3", "deepseek-v2-lite" }; /* with a latent of queries, and without */

  for (gsize i = 0; i < G_N_ELEMENTS(models); i++) {
    Planned f;
    planned_init(&f, fixture_known_model(models[i]), fixture_cluster("dgx", 8), "megatron-core");
    f.plan.gpus = f.plan.dp = f.plan.ep = 8;
    int last = f.model->blocks;
    double none = saved_of(&f, last);
    f.plan.recompute = RECOMPUTE_SELECTIVE;
    f.plan.scope.modules = 1u << MODULE_LAYERNORM;
    ck_assert_double_eq_tol(none - saved_of(&f, last), 2 * 2.0 * f.plan.seq * f.model->hidden, 1e-6);
    planned_clear(&f);
  }
}
END_TEST

/* The last product's output is no input of a backward: where recomputation stops early it is not made again. */
START_TEST(modules_stop_early)
{
  static const char *const ends[] = { "feed-forward up", "feed-forward down" };
  Planned f;

  setup(&f, "megatron-core");
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  f.plan.scope.modules = 1u << MODULE_MLP;
  for (int early = 0; early < 2; early++) {
    f.framework->recompute_stops_early = early;
    const Layout layout = layout_of(&f.plan);
    LayerWork work;
    layer_work_init(&work, f.model, model_layer(f.model, 1), &layout.passes, f.cluster);
    for (guint i = 0; i < work.forward->len; i++) {
      const Op *op = &g_array_index(work.forward, Op, i);
      for (int end = 0; end < 2; end++)
        if (g_str_equal(op->name, ends[end]))
          ck_assert_double_eq(op_recompute_share(op, &work, &layout.passes), !(early && end == 1));
    }
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Forward ops of a layer that its backward makes again, in order. */
static char *made_again(const Planned *f, int layer)
{
  GString *names = g_string_new(NULL);
  LayerWork work;

  layer_work_init(&work, f->model, model_layer(f->model, layer), PASSES(&f->plan), f->cluster);
  for (guint i = 0; i < work.forward->len; i++)
    if (op_recompute_share(&g_array_index(work.forward, Op, i), &work, PASSES(&f->plan)) > 0)
      g_string_append_printf(names, "%s%s", names->len ? ", " : "", g_array_index(work.forward, Op, i).name);
  layer_work_clear(&work);
  return g_string_free(names, FALSE);
}

/* InternLM's norms are functions that are checkpointed where the block is not: casts, norms and the sum between the
 * halves run again, of which the 16-bit input of each stays and not its fp32 copy. The head's norm is none of them, nor
 * is anything else where whole blocks are made again; where the core alone is, they are. */
START_TEST(norms_checkpointed_by_themselves)
{
  double values = 1024.0 * 1024, kept[2][3];
  Planned f;

  planned_init(&f, fixture_model(2, 1024, 16, 1024, 2048), fixture_cluster("dgx", 8), "internevo-2023");
  planned_spread(&f, 1);
  plan_set_format(&f.plan, DTYPE_BF16);
  for (int own = 0; own < 2; own++)
    for (int again = 0; again < 3; again++) {
      f.framework->checkpointed_norms = own;
      f.plan.recompute = (Recompute[]) { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_SELECTIVE }[again];
      kept[own][again] = saved_of(&f, 1);
      g_autofree char *names = made_again(&f, 1), *head = made_again(&f, 3);
      if (again == 0)
        ck_assert_str_eq(names, own ? "norm input cast, attention norm, residual, norm input cast, feed-forward norm"
                                    : "");
      ck_assert_int_eq(strstr(names, "feed-forward norm") != NULL, own || again == 1);
      ck_assert_str_eq(head, "");
    }
  ck_assert_double_eq_tol(kept[0][0] - kept[1][0], 2 * (4 - 2) * values, 1);
  ck_assert_double_eq_tol(kept[0][2] - kept[1][2], 2 * (4 - 2) * values, 1);
  ck_assert_double_eq(kept[0][1], kept[1][1]);
  planned_clear(&f);
}
END_TEST

/* Ranks that trade heads for rows keep the core's output and a sum for each row and head inside the module. */
START_TEST(core_drops_its_output)
{
  Planned f;
  double tokens = 256 / 2, none;

  setup(&f, "megatron-core");
  f.plan.pp = 1;
  f.plan.cp = 2;
  f.plan.context = CONTEXT_ALL_TO_ALL;
  none = saved_of(&f, 1);
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  ck_assert_double_eq_tol(none - saved_of(&f, 1), tokens * (2 * 512 + 4 * 8), 1e-6);
  planned_clear(&f);
}
END_TEST

/* Memory of a step's passes falls and its time rises with the count. */
START_TEST(counts_trade_time_for_memory)
{
  Planned f;
  double last_s = 0, last_bytes = G_MAXDOUBLE;

  setup(&f, _i ? "deepspeed" : "megatron-core");
  f.cluster->device.memory_bytes = 80e9;
  f.framework->step_gradients = STEP_IN_PLACE;
  for (int n = 0; n <= 4; n++) {
    f.plan.recompute = n ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    f.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = n };
    Metrics m = planned_run(&f);
    ck_assert_double_gt(m.iteration_s, last_s);
    ck_assert_double_lt(m.peak_memory_bytes, last_bytes);
    last_s = m.iteration_s;
    last_bytes = n == 0 ? G_MAXDOUBLE : m.peak_memory_bytes; /* one layer's is alive while its backward runs */
  }
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("recompute", { keys_are_read }, { wrong_keys_are_refused, G_N_ELEMENTS(wrong) }, { rules },
           { block_keeps_the_rest }, { groups_keep_one_input }, { modules_drop_what_they_say },
           { layernorm_leaves_latents },
           { modules_stop_early }, { norms_checkpointed_by_themselves }, { core_drops_its_output },
           { counts_trade_time_for_memory, 2 })
