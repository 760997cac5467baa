/* Batches that divide over more devices than the one that is asked for. */
#include "main.h"

#include "ask/explain.h"
#include "ask/near_batch.h"
#include "search_instance.h"

START_TEST(near_batches)
{
  static const struct {
    int devices, batch, replicas, near;
  } cases[] = {
    { 1000, 2048, 8, 2000 }, { 24, 500, 4, 504 },  { 96, 1024, 32, 1056 }, { 560, 2520, 280, 0 }, { 384, 2048, 128, 1920 },
    { 64, 512, 64, 0 },      { 1000, 8, 8, 0 },    { 7, 64, 1, 63 },       { 24, 1, 1, 0 },       { 1, 13, 1, 0 },
    { 24, 252, 12, 240 },    { 13, G_MAXINT, 1, 0 }, { 7, G_MAXINT, 1, 2147483646 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    ck_assert_int_eq(batch_replicas(cases[i].devices, cases[i].batch), cases[i].replicas);
    ck_assert_int_eq(near_batch(cases[i].devices, cases[i].batch), cases[i].near);
  }
}
END_TEST

/* It is near and divides over more, over as many as any that is near, and none that does is nearer. */
START_TEST(none_is_nearer)
{
  for (int devices = 1; devices <= 48; devices++)
    for (int batch = 1; batch <= 400; batch++) {
      int most = batch_replicas(devices, batch), nearest = 0;
      for (int off = 1; off * 16 <= batch; off++)
        for (int sign = -1; sign <= 1; sign += 2) {
          int replicas = batch_replicas(devices, batch + sign * off);
          nearest = replicas > most ? batch + sign * off : nearest;
          most = MAX(most, replicas);
        }
      ck_assert_int_eq(near_batch(devices, batch), nearest);
    }
}
END_TEST

static Instance question(const char *model, int gpus, int batch)
{
  Instance q = { fixture_known_model(model), fixture_cluster("dgx-h100", gpus), fixture_framework("megatron-core-2026") };

  q.base = plan_default(q.model, q.framework);
  q.base.gpus = gpus;
  q.base.global_batch = batch;
  q.options = (SearchOptions) { .fixed = fixed_none(), .top = 1, .least = TRUE, .objective = &objectives[0] };
  return q;
}

/* What is told is what a search with that batch finds, and worth telling. */
START_TEST(another_search_agrees)
{
  Instance q = question("llama-3.1-8b", 24, 500);
  Found near;
  q.options.base = &q.base;
  g_autoptr(SearchResult) r = search(q.model, q.cluster, &q.options, NULL);
  const Found *best = &g_array_index(r->best, Found, 0);

  ck_assert(near_batch_best(q.model, q.cluster, &q.options, best, &near));
  ck_assert_int_eq(near.plan.global_batch, 504);
  ck_assert_double_lt(near.metrics.iteration_s / 504, 0.97 * best->metrics.iteration_s / 500);
  q.base.global_batch = 504;
  g_autoptr(SearchResult) other = search(q.model, q.cluster, &q.options, NULL);
  ck_assert_double_eq(g_array_index(other->best, Found, 0).metrics.iteration_s, near.metrics.iteration_s);
  ck_assert(!near_batch_best(q.model, q.cluster, &q.options, &g_array_index(other->best, Found, 0), &near));
  q.base.global_batch = 500;
  q.options.objective = objective_find("memory");
  ck_assert(!near_batch_best(q.model, q.cluster, &q.options, best, &near));
  instance_clear(&q);
}
END_TEST

/* 80 layers, 64 heads and 2,048 sequences leave 125 of 1,000 GPUs to nobody. */
START_TEST(nothing_divides)
{
  Instance q = question("llama-3.1-70b", 1000, 2048);
  q.options.base = &q.base;
  g_autoptr(SearchResult) r = search(q.model, q.cluster, &q.options, NULL);

  ck_assert_uint_eq(r->best->len, 0);
  g_autofree char *why = explain_nothing(r, q.model, q.cluster, &q.options);
  ck_assert_msg(g_str_has_suffix(why, "; a plan fits in batches of 2000 sequences (2048 divide over no more than 8 of the "
                                      "1000 GPUs)"), "%s", why);
  instance_clear(&q);
}
END_TEST

TEST_MAIN("near batch", near_batches, none_is_nearer, another_search_agrees, nothing_divides)
