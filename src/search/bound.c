#include "search/bound.h"

#include <math.h>
#include <string.h>

#define SUMS 19

/* Where the running sums of PriceSums lie. */
static const gsize sum_at[] = {
#define AT(sum) G_STRUCT_OFFSET(PriceSums, sum)
  AT(forward_s), AT(backward_s), AT(input_s), AT(weight_s), AT(either_s), AT(least_s), AT(least_input_s), AT(params),
  AT(expert_params), AT(narrow), AT(expert_narrow), AT(alone_s[PASS_FORWARD]), AT(alone_s[PASS_BACKWARD]),
  AT(alone_s[PASS_INPUT]), AT(frozen), AT(expert_frozen), AT(saved), AT(deferred),
  AT(remade_s),
#undef AT
};
G_STATIC_ASSERT(G_N_ELEMENTS(sum_at) == SUMS);

/* What a layer adds to each of them. */
static void layer_parts(double parts[SUMS], const LayerPrice *p)
{
  const PassPrice *pass = p->pass;
  double whole = pass[PASS_BACKWARD].compute_s, input = pass[PASS_INPUT].compute_s;
  double split_s = pass[PASS_INPUT].seconds + pass[PASS_WEIGHT].seconds;
  const double all[] = { pass[PASS_FORWARD].seconds, pass[PASS_BACKWARD].seconds,
                         MIN(pass[PASS_INPUT].seconds, pass[PASS_BACKWARD].seconds), pass[PASS_WEIGHT].seconds,
                         MIN(split_s, pass[PASS_BACKWARD].seconds),
                         pass[PASS_FORWARD].compute_s + MIN(whole, input + pass[PASS_WEIGHT].compute_s),
                         pass[PASS_FORWARD].compute_s + MIN(whole, input), p->params, p->expert_params,
                         p->narrow[0], p->narrow[1], pass[PASS_FORWARD].alone_s, pass[PASS_BACKWARD].alone_s,
                         pass[PASS_INPUT].alone_s, p->frozen[0].bytes, p->frozen[1].bytes, p->saved_bytes,
                         MIN(p->saved_bytes, p->deferred_bytes),
                         pass[PASS_BACKWARD].seconds - pass[PASS_BACKWARD].idle_s };

  G_STATIC_ASSERT(G_N_ELEMENTS(all) == SUMS);
  memcpy(parts, all, sizeof all);
}

static void add_layers(PriceSums *s, const Model *model, int type)
{
  const PriceTable *prices = s->prices;
  g_autofree double (*parts)[SUMS] = g_malloc_n(prices->n, sizeof *parts);
  int n = model->n_layers;

  for (int i = 0; i < prices->n; i++)
    layer_parts(parts[i], &prices->layers[type * prices->n + i]);
  for (int k = 0; k < SUMS; k++) {
    double *sum = G_STRUCT_MEMBER(double *, s, sum_at[k]) + type * (n + 1);
    for (int i = 0; i < n; i++)
      sum[i + 1] = sum[i] + parts[prices->by_layer ? i : model->layers[i]][k];
  }
}

PriceSums *price_sums_of(const Model *model, const PassLayout *passes, const Cluster *cluster, PriceTable *prices)
{
  int n = model->n_layers, entries = prices->n_types * (n + 1);
  PriceSums *s = g_malloc0(sizeof *s + SUMS * entries * sizeof(double)); /* in one piece: searches make many */
  double *block = (double *)(s + 1);

  s->cluster = cluster;
  s->prices = prices;
  for (int k = 0; k < SUMS; k++)
    G_STRUCT_MEMBER(double *, s, sum_at[k]) = block + k * entries;
  s->scratch[0] = s->scratch[1] = s->placeholder_bytes = INFINITY;
  s->alike = passes->recompute.scope.stages.stages == 0 && !wide_any(&passes->wide);
  for (int i = 2; i <= model->blocks; i++)
    s->alike &= model->layers[i] == model->layers[1];
  for (int type = 0; type < prices->n_types; type++) {
    add_layers(s, model, type);
    for (int i = 0; i < n; i++) {
      const LayerPrice *p = price_of_layer(prices, model, type, i);
      double *scratch = &s->scratch[i == n - 1];
      if (model_layer(model, i)->kind != LAYER_EMBEDDING)
        *scratch = MIN(*scratch, p->recomputed_bytes + p->transient_bytes);
      if (i >= 1 && i <= model->blocks)
        s->placeholder_bytes = MIN(s->placeholder_bytes, p->placeholder_bytes);
    }
  }
  return s;
}

PriceSums *price_sums_new(const Model *model, const Layout *layout, const Cluster *cluster)
{
  return price_sums_of(model, &layout->passes, cluster, price_table_new(model, layout, cluster));
}

void price_sums_free(PriceSums *s)
{
  if (!s)
    return;
  price_table_free(s->prices);
  g_free(s);
}

gsize price_sums_bytes(const Model *model, const PriceSums *s)
{
  return sizeof *s + SUMS * s->prices->n_types * (model->n_layers + 1) * sizeof(double);
}
