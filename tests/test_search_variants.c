/* What the simulation of one variant says of those that overlap less. */
#include "main.h"
#include "search/space.h"
#include "search/variants.h"
#include "search_instance.h"

typedef struct {
  const Instance *in;
  PriceCache *prices;
  Candidates store;
  int left; /* leaves to pass over */
  gint64 bounds;
} Families;

/* Each variant's simulation against the bounds that those which overlap more give, each alone and all together. */
static void check_family(Families *f, const Candidate *base)
{
  Simulation all[VARIANTS_MAX];
  Variants together = { 0 };

  for (guint off = 0; off <= base->switches; off++) {
    if (off & ~base->switches)
      continue;
    all[off] = (Simulation) { .plan = candidate_plan(&f->store, base) };
    space_switch_off(&all[off].plan, off);
    g_autoptr(PriceTable) prices = price_cache_own(f->prices, &all[off].plan);
    simulation_complete(f->in->model, f->in->cluster, prices, &all[off]);
    if (off == 0)
      together = variants_of(f->prices, base, &all[0].plan);
    for (guint less = 0; less < off; less++) {
      Variants alone = together;
      if (less & ~off)
        continue;
      alone.simulated = 1u << less;
      f->bounds += variant_bound(&alone, off) > 0;
      if (variant_bound(&alone, off) > all[off].metrics.iteration_s) {
        g_autofree char *label = plan_label(&all[off].plan);
        ck_abort_msg("%s: bound %.9g from %u, simulated %.9g", label, variant_bound(&alone, off), less,
                     all[off].metrics.iteration_s);
      }
    }
    ck_assert_double_le(variant_bound(&together, off), all[off].metrics.iteration_s);
    variant_known(&together, off, &all[off]);
  }
}

static gboolean visit_family(gpointer data, const SpaceLeaf *leaf)
{
  Families *f = data;
  Candidate c = candidates_add(&f->store, leaf);

  if (!leaf->switches || f->left-- > 0)
    return TRUE;
  f->left = 8;
  check_family(f, &c);
  return TRUE;
}

static void pass_over(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

/* Of one family in nine, behind so many. Returns how many bounds they gave. */
static gint64 check_families(const Instance *in, int left)
{
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  Families f = { .in = in, .prices = prices, .left = left };
  const SpaceVisitor visitor = { visit_family, TRUE, pass_over, &f };
  const ModuleSets sets = space_module_sets(in->model, in->cluster, &in->base);

  candidates_init(&f.store, prices, &sets);
  space_walk(in->model, in->cluster, &in->options, prices, &visitor);
  candidates_clear(&f.store);
  return f.bounds;
}

START_TEST(variants_are_bounded)
{
  GRand *rand = test_rand(300 + _i);
  Instance in;

  instance_init(&in, rand);
  ck_assert(cluster_resize(in.cluster, 8, NULL));
  in.base.gpus = 8;
  in.base.global_batch = 8;
  gint64 bounds = check_families(&in, _i);
  ck_assert(bounds > 0 || in.cluster->device.beyond_l2_bytes_per_s > 0 || !test_usual_draws());
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Of ZeRO-3, which gathers weights before they are needed where that overlaps, on devices with caches of many sizes: with
 * some of them a variant that overlaps less has all of what it holds in the cache and another has not. */
START_TEST(caches_hold_what_overlaps_less)
{
  static const char *const frameworks[] = { "torchtitan", "deepspeed", "fsdp" };
  Instance in;

  instance_odd_links(&in, frameworks[_i], 8, 1);
  in.base.global_batch = 8;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 1, .threads = 1 };
  ck_assert(fixed_parse("--fix", "tp=1,pp=1,cp=1,zero=3,mbs=1,recompute=none", &in.options.fixed, NULL));
  in.cluster->device.beyond_l2_bytes_per_s = 1e10;
  in.cluster->device.beyond_l2_crowding = 1;
  in.cluster->device.l2_ramp = 1;
  for (double bytes = 1e7; bytes < 2e9; bytes *= 1.1) {
    in.cluster->device.l2_bytes = in.cluster->device.l2_alone_bytes = bytes;
    check_families(&in, 0);
  }
  instance_clear(&in);
}
END_TEST

TEST_LOOPS("search variants", { variants_are_bounded, 8, TRUE }, { caches_hold_what_overlaps_less, 3 })
