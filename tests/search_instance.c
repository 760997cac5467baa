#include "search_instance.h"

#include "search/excluded.h"
#include "search/space.h"
#include "sim/simulate.h"
#include "stride.h"

#include <math.h>
#include <string.h>

/* ---- files that thousands of draws begin with: read once in a process, then copied ---- */

static Framework *framework_again(const char *name)
{
  static GHashTable *known;

  if (!known)
    known = g_hash_table_new(g_str_hash, g_str_equal);
  Framework *read = g_hash_table_lookup(known, name);
  if (!read)
    g_hash_table_insert(known, g_strdup(name), read = fixture_framework(name));
  g_assert(!read->table);
  Framework *copy = g_memdup2(read, sizeof *read);
  copy->name = g_strdup(read->name);
  if (copy->excludes)
    g_array_ref(copy->excludes);
  return copy;
}

static void own_kernels(Kernels *k)
{
  k->name = g_strdup(k->name);
  k->attention = g_memdup2(k->attention, k->n_attention * sizeof *k->attention);
  k->memory_kernels = g_memdup2(k->memory_kernels, k->n_memory_kernels * sizeof *k->memory_kernels);
  for (int i = 0; i < k->n_memory_kernels; i++)
    k->memory_kernels[i].name = g_strdup(k->memory_kernels[i].name);
}

static Cluster *cluster_again(const char *name, int devices)
{
  static GHashTable *known;
  GError *error = NULL;

  if (!known)
    known = g_hash_table_new(g_str_hash, g_str_equal);
  const Cluster *read = g_hash_table_lookup(known, name);
  if (!read) {
    read = cluster_load(name, &error);
    g_assert_no_error(error);
    g_hash_table_insert(known, g_strdup(name), (gpointer)read);
  }
  g_assert_cmpint(read->n_types, ==, 0);
  Cluster *copy = g_memdup2(read, sizeof *read);
  copy->name = g_strdup(read->name);
  copy->framework = g_strdup(read->framework);
  copy->server = g_strdup(read->server);
  copy->device.name = g_strdup(read->device.name);
  copy->device.arch = g_strdup(read->device.arch);
  own_kernels(&copy->device.kernels);
  for (int t = 0; t < copy->n_tiers; t++) {
    copy->tiers[t].name = g_strdup(copy->tiers[t].name);
    copy->tiers[t].link.name = g_strdup(copy->tiers[t].link.name);
  }
  cluster_resize(copy, devices, &error);
  g_assert_no_error(error);
  return copy;
}

/* A cache that passes of some plans go beyond, on half of the devices; what else is drawn stays as it is. */
static void draw_cache(Device *device, const GRand *rand)
{
  GRand *own = g_rand_copy((GRand *)rand);

  if (g_rand_boolean(own)) {
    device->l2_bytes = pow(10, g_rand_double_range(own, 7, 9.3));
    device->beyond_l2_bytes_per_s = pow(10, g_rand_double_range(own, 10, 12));
    device->beyond_l2_crowding = g_rand_double_range(own, 1, 1.2);
    device->l2_alone_bytes = device->l2_bytes * g_rand_double_range(own, 1, 2);
    device->l2_ramp = g_rand_double_range(own, 1, 3);
  }
  g_rand_free(own);
}

void instance_init(Instance *in, GRand *rand)
{
  static const int devices[] = { 1, 2, 4, 8, 16, 24 };
  static const char *const frameworks[] = { "megatron-core", "torchtitan", "deepspeed" };
  int heads = 1 << g_rand_int_range(rand, 1, 4);

  in->model = fixture_model(g_rand_int_range(rand, 2, 14), heads * 64, heads, 128, 512);
  in->model->position_rows = 0;
  in->cluster = cluster_again("dgx", devices[g_rand_int_range(rand, 0, 6)]);
  in->cluster->device.memory_bytes = 2.0e9 + g_rand_double_range(rand, 0, 6e8);
  draw_cache(&in->cluster->device, rand);
  in->framework = framework_again(frameworks[g_rand_int_range(rand, 0, 3)]);
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = in->cluster->devices;
  in->base.global_batch = 8 * g_rand_int_range(rand, 1, 7);
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .top = 3, .threads = 2, .least = TRUE };
}

void instance_add_far(Instance *in, double bytes_per_s)
{
  for (int t = 0; t < in->cluster->n_tiers; t++) {
    Tier *tier = &in->cluster->tiers[t];
    tier->bytes_per_s = tier->port_bytes_per_s = MIN(tier->bytes_per_s, bytes_per_s);
    tier->link.reduce_slowdown = 1.8;
    tier->link.far_reduce_slowdown = 40;
    tier->link.reduce_cache_bytes = 3e5;
  }
}

void instance_odd_links(Instance *in, const char *framework, int devices, int slow)
{
  in->model = fixture_llama(6, 512, 8, 8, 128, 512);
  in->cluster = cluster_again("dgx", devices);
  in->framework = framework_again(framework);
  for (int t = 0; t < in->cluster->n_tiers; t++)
    in->cluster->tiers[t].bytes_per_s = in->cluster->tiers[t].port_bytes_per_s = t == slow ? 2e9 : 1e11;
  in->cluster->tiers[0].devices = in->cluster->devices_per_node = 2;
  in->cluster->nodes = devices / 2;
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = devices;
}

void instance_clear(Instance *in)
{
  model_free(in->model);
  cluster_free(in->cluster);
  framework_free(in->framework);
}

/* In one of three draws sums leave caches; what is drawn behind it is as without. */
static void draw_far(Instance *in, const GRand *rand)
{
  GRand *own = g_rand_copy((GRand *)rand);

  if (g_rand_int_range(own, 0, 3) == 0)
    instance_add_far(in, 5e9);
  g_rand_free(own);
}

void instance_small_init(Instance *in, GRand *rand)
{
  static const int devices[] = { 1, 2, 2, 2, 4, 4, 6 };
  static const char *const frameworks[] = { "megatron-core", "torchtitan", "deepspeed", "fsdp" };
  int heads = 1 << g_rand_int_range(rand, 0, 3);

  in->model = fixture_model(g_rand_int_range(rand, 1, 5), heads * 64, heads, 64, 256);
  in->cluster = cluster_again("dgx", g_rand_int_range(rand, 0, 16) ? devices[g_rand_int_range(rand, 0, 7)] : 8);
  in->cluster->device.memory_bytes = 1.9e9 + g_rand_double_range(rand, 0, 2e8);
  draw_cache(&in->cluster->device, rand);
  in->framework = framework_again(frameworks[g_rand_int_range(rand, 0, 4)]);
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = in->cluster->devices;
  in->base.global_batch = g_rand_int_range(rand, 1, 7);
  draw_far(in, rand);
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .top = 1, .threads = 1, .least = TRUE };
}

/* Devices in nodes of 2 or 4, so that groups lie on several. */
static Cluster *small_nodes(GRand *rand, const Framework *framework)
{
  static const int devices[] = { 2, 4, 4, 8, 8 };
  Cluster *cluster = cluster_again("dgx", devices[g_rand_int_range(rand, 0, 5)]);
  int node = framework->single_process ? cluster->devices : MIN(2 << g_rand_int_range(rand, 0, 2), cluster->devices);

  cluster->tiers[0].devices = cluster->devices_per_node = node;
  cluster->nodes = cluster->devices / node;
  cluster->host_memory_bytes = 1e12;
  cluster->host_memory_bytes_per_s = 2e11;
  cluster->device.host_bytes_per_s = 2.5e10;
  cluster->device.memory_bytes = 2.2e9 + g_rand_double_range(rand, 0, 1.5e9);
  draw_cache(&cluster->device, rand);
  return cluster;
}

static Model *small_model(GRand *rand, const Framework *framework)
{
  int layers = g_rand_int_range(rand, 1, 5), heads = 1 << g_rand_int_range(rand, 0, 3);
  int seq = g_rand_boolean(rand) ? 64 : 4096;
  int kind = g_rand_int_range(rand, 0, framework->experts == EXPERTS_WHOLE ? 2 : 5);

  if (kind == 4)
    return fixture_moe(layers, heads * 128, heads * 2, seq, 256, 4, 2, 128);
  return kind == 0   ? fixture_gpt_plain(layers, heads * 64, heads, seq, 256)
         : kind == 1 ? fixture_llama(layers, heads * 64, heads, heads, seq, 256)
                     : fixture_experts(layers, heads * 64, heads, 1 << g_rand_int_range(rand, 1, 3), seq, 256);
}

/* The number of a bit that is set; 0 where it is the only one that may be. */
static int one_of(GRand *rand, guint bits)
{
  int bit = 0;

  while (bits > 1 && !(bits >> (bit = g_rand_int_range(rand, 0, g_bit_storage(bits))) & 1))
    continue;
  return bit;
}

/* Graphs that the framework runs of models: with experts whole steps only where their rows may stay on the device, which
 * a search tries without being asked. */
static guint graphs_of(const Framework *framework, const Model *model)
{
  return framework->graphs & ~(model_has_experts(model) ? 1u << GRAPH_FULL : 0);
}

/* Blocks whose products stay in 16 bits, in one of two draws, by a recipe that knows such; what is drawn behind it is as
 * without. */
static void set_wide(Instance *in, const GRand *rand)
{
  GRand *own = g_rand_copy((GRand *)rand);

  if (g_rand_boolean(own)) {
    in->base.wide.start = g_rand_int_range(own, 0, in->model->blocks + 1);
    in->base.wide.end = g_rand_int_range(own, 0, in->model->blocks - in->base.wide.start + 1);
    in->base.fp8_recipe = in->framework->fp8 == FP8_DELAYED ? FP8_CURRENT : FP8_NONE;
  }
  g_rand_free(own);
}

/* In fp8, which the cluster's own devices do not have. */
static void set_narrow(Instance *in, const GRand *rand)
{
  Cluster *own = in->cluster, *narrow = cluster_again("dgx-h100", own->devices);

  narrow->tiers[0].devices = narrow->devices_per_node = own->devices_per_node;
  narrow->nodes = own->nodes;
  narrow->host_memory_bytes = own->host_memory_bytes;
  narrow->host_memory_bytes_per_s = own->host_memory_bytes_per_s;
  narrow->device.host_bytes_per_s = own->device.host_bytes_per_s;
  narrow->device.memory_bytes = own->device.memory_bytes;
  cluster_free(own);
  in->cluster = narrow;
  in->base.products = PRODUCTS_FP8;
  if (in->framework->choices >> CHOICE_WIDE_START & 1 && !in->model->encoder_blocks)
    set_wide(in, rand);
}

void instance_framework_init(Instance *in, GRand *rand, const char *framework)
{
  in->framework = framework_again(framework);
  in->framework->graph_bytes /= 40; /* devices hold 2 to 4 GB */
  in->framework->stage_graph_bytes /= 40;
  in->model = small_model(rand, in->framework);
  in->cluster = small_nodes(rand, in->framework);
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = in->cluster->devices;
  in->base.global_batch = 4 << g_rand_int_range(rand, 0, 3);
  in->base.expert_load = 1 + g_rand_int_range(rand, 0, 2);
  if (in->framework->fp8 && in->base.precision == DTYPE_BF16 && g_rand_int_range(rand, 0, 4) == 0)
    set_narrow(in, rand);
  in->base.overlap.experts = in->framework->shared_overlap && g_rand_int_range(rand, 0, 3) == 0;
  in->base.graph = one_of(rand, graphs_of(in->framework, in->model));
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .top = 1, .threads = 1, .least = TRUE };
}

#define LATENT                                                                                                     \
  "{\"model_type\":\"deepseek_v3\",\"vocab_size\":256,\"hidden_size\":256,\"intermediate_size\":512,"              \
  "\"moe_intermediate_size\":128,\"num_hidden_layers\":%d,\"num_attention_heads\":4,\"n_routed_experts\":4,"       \
  "\"n_shared_experts\":1,\"n_group\":1,\"topk_group\":1,\"num_experts_per_tok\":2,\"first_k_dense_replace\":1,"   \
  "\"moe_layer_freq\":1,\"q_lora_rank\":64,\"kv_lora_rank\":64,\"qk_nope_head_dim\":64,\"qk_rope_head_dim\":64,"   \
  "\"v_head_dim\":64,\"topk_method\":\"noaux_tc\",\"tie_word_embeddings\":false,\"seq\":%d}"

void instance_latent_init(Instance *in, GRand *rand)
{
  instance_framework_init(in, rand, "megatron-core-2026");
  model_free(in->model);
  g_autofree char *text = g_strdup_printf(LATENT, g_rand_int_range(rand, 2, 5), g_rand_boolean(rand) ? 64 : 4096);
  in->model = model_parse(text, strlen(text), "latent", NULL);
  g_assert(cluster_resize(in->cluster, g_rand_boolean(rand) ? 2 : 4, NULL));
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = in->cluster->devices;
  in->base.global_batch = 4 << g_rand_int_range(rand, 0, 2);
  in->options.fixed.value[KEY_CP] = 1;
}

/* Each degree of one way to divide the devices, in one of three draws. */
static void fix_degrees(Instance *in, GRand *rand)
{
  Fixed *f = &in->options.fixed;
  int *const fixed[] = { &f->value[KEY_TP], &f->value[KEY_CP], &f->value[KEY_DP], &f->value[KEY_PP] };
  int degrees[] = { 1, 1, 1, 1 }, alone = in->framework->single_process ? 2 : -1;

  for (int left = in->base.gpus; left > 1; left /= 2) {
    int at = g_rand_int_range(rand, 0, 4);
    degrees[alone >= 0 ? alone : at == 1 && !in->framework->context ? 2 : at] *= 2;
  }
  for (gsize i = 0; i < G_N_ELEMENTS(fixed); i++)
    if (g_rand_int_range(rand, 0, 3) == 0)
      *fixed[i] = degrees[i];
}

/* `value` in one of `odds` draws, else any. */
static int maybe(GRand *rand, int odds, int value)
{
  return g_rand_int_range(rand, 0, odds) == 0 ? value : -1;
}

void instance_fix(Instance *in, GRand *rand)
{
  Fixed *f = &in->options.fixed;
  int zero_max = in->framework->zero_max;

  *f = fixed_none();
  f->value[KEY_ZERO] = maybe(rand, 2, g_rand_boolean(rand) ? zero_max : g_rand_int_range(rand, 0, zero_max + 1));
  fix_degrees(in, rand);
  f->value[KEY_MICRO_BATCH] = maybe(rand, 3, 1);
  f->value[KEY_OVERLAP] = maybe(rand, 2, g_rand_int_range(rand, 0, 2));
  f->value[KEY_SEQUENCE_PARALLEL] = maybe(rand, 4, g_rand_int_range(rand, 0, 2));
  f->value[KEY_RECOMPUTE] = maybe(rand, 3, g_rand_int_range(rand, 0, RECOMPUTE_COUNT));
  if (g_rand_int_range(rand, 0, 4) == 0) {
    f->value[KEY_RECOMPUTE] = RECOMPUTE_FULL;
    f->value[KEY_RECOMPUTE_LAYERS] = 0; /* any count of layers */
  }
  f->value[KEY_CONTEXT] = in->framework->context ? maybe(rand, 3, one_of(rand, in->framework->context)) : -1;
  f->value[KEY_DISPATCH] = maybe(rand, 3, one_of(rand, in->framework->dispatch));
  in->options.space = g_rand_int_range(rand, 0, 16);
  gboolean persists = in->framework->choices >> CHOICE_PERSISTENCE & 1 && g_rand_boolean(rand);
  f->value[KEY_ZERO] = persists ? 3 : f->value[KEY_ZERO];
  in->base.sharding.persistence = persists ? 1000 : 0;
  if (g_rand_int_range(rand, 0, 8) == 0) /* one that no framework's default space has, too */
    f->value[KEY_SCHEDULE] = g_rand_int_range(rand, 0, 21);
}

typedef struct {
  const Instance *in;
  GArray *plans;
  guint most;
} Taken;

static gboolean take_plan(gpointer data, const SpaceLeaf *leaf)
{
  const Taken *t = data;

  for (guint off = 0; off < VARIANTS_MAX; off++) {
    Plan plan = *leaf->plan;
    g_autofree char *label = NULL;
    space_switch_off(&plan, off);
    if (off & ~leaf->switches)
      continue;
    g_array_append_val(t->plans, plan);
    if (plan_check(&plan, t->in->model, t->in->cluster, NULL) != RULE_NONE)
      g_error("%s is not legal", label = plan_label(&plan));
    if (plan_excluded(&plan, t->in->model, t->in->cluster, plan.framework) & ~excluded_asked(&t->in->options))
      g_error("%s is excluded", label = plan_label(&plan));
  }
  return TRUE;
}

static void take_none(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data;
  (void)plan;
  if (rule == RULE_NONE || plans <= 0)
    g_error("rule %d, %" G_GINT64_FORMAT " plans", rule, plans);
}

static gboolean too_many(gpointer data)
{
  const Taken *t = data;

  return t->plans->len > t->most;
}

GArray *instance_plans_within(const Instance *in, guint most)
{
  Taken taken = { in, g_array_new(FALSE, FALSE, sizeof(Plan)), most };
  const SpaceVisitor visitor = { take_plan, TRUE, take_none, &taken, .stops = too_many };
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);

  space_walk(in->model, in->cluster, &in->options, prices, &visitor);
  if (too_many(&taken))
    g_clear_pointer(&taken.plans, g_array_unref);
  return taken.plans;
}

GArray *instance_plans(const Instance *in)
{
  return instance_plans_within(in, G_MAXUINT);
}

void instance_simulate(const Instance *in, const Plan *plan, PriceCache *known, Metrics *out)
{
  g_autoptr(PriceTable) prices =
    known ? price_cache_own(known, plan) : price_table_new(in->model, LAYOUT(plan), in->cluster);
  g_autoptr(Program) program = program_new(in->model, LAYOUT(plan), in->cluster, prices);
  g_autoptr(Trace) trace = simulate(program);

  trace_metrics(trace, out);
}

static void check_bounds(const Instance *in, const Plan *plan, const PriceSums *sums, const Metrics *m)
{
  const BoundRanks ranks = bound_ranks(in->model, LAYOUT(plan), sums);
  double time = MAX(bound_time(in->model, LAYOUT(plan), in->cluster, sums, NULL),
                    bound_time_by_order(in->model, LAYOUT(plan), in->cluster, sums));
  double memory = bound_memory(LAYOUT(plan), &ranks), by_order = bound_memory_by_order(in->model, LAYOUT(plan), sums);
  g_autofree char *label = NULL;

  double peak = memory_in_room(in->cluster, m->peak_memory_bytes, m->capacity_bytes);
  if (time <= m->iteration_s && memory <= by_order * (1 + 1e-9) && by_order <= peak)
    return;
  label = plan_label(plan);
  g_error("%s: bounds %.9g s, %.0f and %.0f bytes, simulated %.9g s, %.0f bytes", label, time, memory, by_order,
          m->iteration_s, peak);
}

/* The best of all, which takes what it was said to take; where not all were simulated, no longer than the best of those.
 * Of plans of one value one stands for others that keep more layers' activations on the host. */
static void check_winner(const Instance *in, const Found *winner, double best, guint stride)
{
  Metrics m;

  instance_simulate(in, &winner->plan, NULL, &m);
  g_assert_cmpfloat(winner->metrics.iteration_s, ==, m.iteration_s);
  g_assert_cmpfloat(m.iteration_s, <=, best * (1 + VALUE_ROUNDING));
  g_assert(stride > 1 || m.iteration_s >= best);
}

/* Plans that answers list by their best alone have one of these: they differ in overlaps and in modules made again. */
static GBytes *family_of(const Plan *plan)
{
  Plan family = *plan;

  memset(&family.overlap, 0, sizeof family.overlap);
  family.scope = (RecomputeScope) { 0 };
  family.recompute = plan->recompute == RECOMPUTE_SELECTIVE ? RECOMPUTE_NONE : plan->recompute;
  return g_bytes_new(&family, sizeof family);
}

/* Prices of its own take a third of a plan's time: one in so many is simulated with them, too. */
enum { FRESH = 8 };

void instance_check_all(Instance *in, const GArray *all)
{
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  const guint stride = test_stride();
  g_autoptr(GHashTable) families = g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
  double best = INFINITY;
  gint64 fitting = 0;

  for (guint i = 0; i < all->len; i += stride) {
    const Plan *plan = &g_array_index(all, Plan, i);
    Metrics m;
    instance_simulate(in, plan, prices, &m);
    if (i / stride % FRESH == 0) {
      Metrics own;
      instance_simulate(in, plan, NULL, &own);
      g_assert_cmpfloat(m.iteration_s, ==, own.iteration_s);
      g_assert_cmpfloat(m.peak_memory_bytes, ==, own.peak_memory_bytes);
    }
    check_bounds(in, plan, price_cache_sums(prices, PASSES(plan)), &m);
    if (m.peak_memory_bytes <= m.capacity_bytes) {
      fitting++;
      g_hash_table_add(families, family_of(plan));
      best = MIN(best, m.iteration_s);
    }
  }
  g_autoptr(SearchResult) found = search(in->model, in->cluster, &in->options, NULL);
  gint64 settled = found->bounded + found->simulated;
  for (int i = 0; i < REJECT_COUNT; i++)
    settled += found->rejected[i];
  g_assert_cmpint(settled, ==, found->space);
  g_assert_cmpint(found->best->len, >=, MIN(g_hash_table_size(families), (guint)in->options.top));
  g_assert(stride > 1 || found->best->len <= MIN(fitting, in->options.top));
  if (found->best->len > 0)
    check_winner(in, &g_array_index(found->best, Found, 0), best, stride);
  else
    g_assert(found->has_least || all->len == 0);
}

guint instance_check(Instance *in)
{
  g_autoptr(GArray) all = instance_plans(in);

  instance_check_all(in, all);
  return all->len;
}

const Knob *instance_change(Cluster *cluster, GRand *rand, double factor, const Floors *bounds, Floors *known)
{
  int n = 0;

  while (knobs[n].title)
    n++;
  const Knob *knob = &knobs[g_rand_int_range(rand, 0, n)];
  int tier = knob->of_tier ? g_rand_int_range(rand, 0, cluster->n_tiers) : 0;
  knob->scale(cluster, tier, factor);
  floors_raise(known, bounds, knob->room && factor > 1 ? FLOORS_AT_SHARE_ANY_MEMORY : FLOORS_AT_SHARE,
               knob_floor_scale(cluster, knob, tier, factor));
  return knob;
}
