#include "fixture.h"

#include "base/files.h"

#include <math.h>

static Model *parse(char *text)
{
  g_autofree char *owned = text;
  GError *error = NULL;
  Model *model = model_parse(owned, strlen(owned), "fixture", &error);

  if (!model)
    g_error("%s", error->message);
  return model;
}

static Model *gpt(int layers, int hidden, int heads, int seq, int vocab, gboolean dropout)
{
  return parse(g_strdup_printf("{\"name\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"seq\":%d,\"vocab\":%d,"
                               "\"mlp\":\"gelu\",\"norm\":\"layernorm\",\"positions\":\"learned\",\"bias\":true,"
                               "\"dropout\":%s,\"tied_embeddings\":true}", layers, hidden, heads, seq, vocab,
                               dropout ? "true" : "false"));
}

Model *fixture_model(int layers, int hidden, int heads, int seq, int vocab)
{
  return gpt(layers, hidden, heads, seq, vocab, TRUE);
}

Model *fixture_gpt_plain(int layers, int hidden, int heads, int seq, int vocab)
{
  return gpt(layers, hidden, heads, seq, vocab, FALSE);
}

Model *fixture_llama(int layers, int hidden, int heads, int kv_heads, int seq, int vocab)
{
  return parse(g_strdup_printf("{\"name\":\"llama\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"kv_heads\":%d,"
                               "\"ffn_hidden\":%d,\"seq\":%d,\"vocab\":%d,\"mlp\":\"swiglu\",\"norm\":\"rmsnorm\","
                               "\"positions\":\"rope\",\"bias\":false,\"dropout\":false,\"tied_embeddings\":false}",
                               layers, hidden, heads, kv_heads, 3 * hidden, seq, vocab));
}

Model *fixture_moe(int layers, int hidden, int heads, int seq, int vocab, int experts, int top, int shared)
{
  g_autofree char *also = shared ? g_strdup_printf("\"shared_ffn_hidden\":%d,", shared) : g_strdup("");

  return parse(g_strdup_printf("{\"name\":\"moe\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"kv_heads\":%d,"
                               "\"experts\":%d,\"experts_per_token\":%d,\"expert_ffn_hidden\":%d,%s\"ffn_hidden\":%d,"
                               "\"seq\":%d,\"vocab\":%d,\"mlp\":\"swiglu\",\"norm\":\"rmsnorm\","
                               "\"positions\":\"rope\",\"bias\":false,\"dropout\":false,\"tied_embeddings\":false}",
                               layers, hidden, heads, heads / 2, experts, top, hidden, also, 2 * hidden, seq, vocab));
}

Model *fixture_experts(int layers, int hidden, int heads, int experts, int seq, int vocab)
{
  return parse(g_strdup_printf("{\"name\":\"experts\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"ffn_hidden\":%d,"
                               "\"experts\":%d,\"experts_per_token\":2,\"expert_ffn_hidden\":%d,"
                               "\"first_dense_layers\":%d,\"seq\":%d,\"vocab\":%d,\"mlp\":\"swiglu\","
                               "\"norm\":\"rmsnorm\",\"positions\":\"rope\",\"bias\":false,\"dropout\":false,"
                               "\"tied_embeddings\":false}",
                               layers, hidden, heads, 3 * hidden, experts, 2 * hidden, layers > 1, seq, vocab));
}

Model *fixture_known_model(const char *name)
{
  GError *error = NULL;
  g_autofree char *path = files_find(name, "models", &error);
  Model *model = path ? model_load(path, &error) : NULL;

  if (!model)
    g_error("%s", error->message);
  return model;
}

Cluster *fixture_cluster(const char *name, int devices)
{
  GError *error = NULL;
  Cluster *cluster = cluster_load(name, &error);

  if (!cluster || !cluster_resize(cluster, devices, &error))
    g_error("%s", error->message);
  return cluster;
}

Cluster *fixture_free_cluster(int devices)
{
  Cluster *cluster = fixture_cluster("dgx", devices);

  for (int t = 0; t < cluster->n_tiers; t++) {
    Tier *tier = &cluster->tiers[t];
    Link *l = &tier->link;
    tier->bytes_per_s = tier->port_bytes_per_s = INFINITY;
    l->base_s = l->hop_s = l->tree_hop_s = l->sqrt_s_per_byte = l->p2p_base_s = 0;
    l->p2p_sqrt_s_per_byte = l->short_base_s = 0;
    l->in_switch_base_s = l->in_switch_sqrt_s_per_byte = 0;
  }
  return cluster;
}

Framework *fixture_framework(const char *name)
{
  GError *error = NULL;
  Framework *framework = framework_load(name, &error);

  if (!framework)
    g_error("%s", error->message);
  return framework;
}

PriceTable *fixture_prices(const Model *model, double forward, double backward, double saved)
{
  PriceTable *table = g_new0(PriceTable, 1);

  table->n = model->n_specs;
  table->layers = g_new0(LayerPrice, table->n);
  for (int i = 0; i < table->n; i++) {
    LayerPrice *price = &table->layers[i];
    if (model->specs[i].kind != LAYER_BLOCK)
      continue;
    price->pass[PASS_FORWARD].seconds = price->pass[PASS_FORWARD].compute_s = forward;
    price->pass[PASS_BACKWARD].seconds = price->pass[PASS_BACKWARD].compute_s = backward;
    for (Pass half = PASS_INPUT; half <= PASS_WEIGHT; half++)
      price->pass[half].seconds = price->pass[half].compute_s = backward / 2;
    price->saved_bytes = saved;
    price->deferred_bytes = saved / 2;
  }
  return table;
}

gboolean fixture_draw_plan(GRand *rand, const Model *model, Cluster *cluster, const Framework *framework, Plan *plan)
{
  static const int sizes[] = { 1, 2, 4, 8 };

  *plan = plan_default(model, framework);
  plan->tp = sizes[g_rand_int_range(rand, 0, 4)];
  plan->pp = sizes[g_rand_int_range(rand, 0, 4)];
  plan->dp = sizes[g_rand_int_range(rand, 0, 4)];
  plan->gpus = plan->tp * plan->pp * plan->dp;
  plan->vpp = plan->pp > 1 ? g_rand_int_range(rand, 1, 3) : 1;
  plan->micro_batch = g_rand_int_range(rand, 1, 3);
  plan->global_batch = plan->dp * plan->micro_batch * sizes[g_rand_int_range(rand, 1, 4)];
  plan->zero = g_rand_int_range(rand, 0, 4);
  plan->recompute = g_rand_int_range(rand, 0, RECOMPUTE_COUNT);
  plan->sequence_parallel = plan->tp > 1 && g_rand_boolean(rand);
  plan->overlap = (Overlap) { g_rand_boolean(rand), g_rand_boolean(rand), g_rand_boolean(rand), g_rand_boolean(rand) };
  plan->schedule = schedules[g_rand_int_range(rand, 0, 4)];
  return cluster_resize(cluster, plan->gpus, NULL) && plan_check(plan, model, cluster, NULL) == RULE_NONE;
}

int fixture_cases(void)
{
  const char *text = g_getenv("CASES");
  return text ? MAX(1, atoi(text)) : 1;
}

char *fixture_framework_name(int i)
{
  g_auto(GStrv) names = files_names("plans/frameworks");

  g_assert_cmpuint(g_strv_length(names), ==, FIXTURE_FRAMEWORKS);
  return g_strdup(names[i]);
}
