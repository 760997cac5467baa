/* What frameworks cannot do together, in a space. */
#include "main.h"
#include "search/excluded.h"
#include "search_instance.h"

static void check_same_plans(const GArray *a, const GArray *b)
{
  ck_assert_uint_eq(a->len, b->len);
  for (guint i = 0; i < a->len; i++)
    ck_assert_mem_eq(&g_array_index(a, Plan, i), &g_array_index(b, Plan, i), sizeof(Plan));
}

#define BIT(feature) (G_GUINT64_CONSTANT(1) << (feature))

/* Of what is made again: sets of modules are built with these, so that without them a space has other sets, not
 * more. */
#define OF_SETS (BIT(FEATURE_SELECTIVE) | BIT(FEATURE_OUTPUTS_AGAIN) | BIT(FEATURE_SHARED_AGAIN) |                        \
                 BIT(FEATURE_KEPT_NORMS) | BIT(FEATURE_KEPT_ACTIVATIONS) | BIT(FEATURE_KEPT_SCORES))

static GArray *exclusions_of_sets(const GArray *excludes)
{
  GArray *of = g_array_new(FALSE, FALSE, sizeof(Exclusion)); /* their text stays the framework's */

  for (guint i = 0; i < excludes->len; i++)
    if (g_array_index(excludes, Exclusion, i).features & OF_SETS)
      g_array_append_val(of, g_array_index(excludes, Exclusion, i));
  return of;
}

/* Plans of the space as if the framework had no exclusion but those of sets, without those that have all of one;
 * `left_out`: how many those are. */
static GArray *plans_filtered(Instance *in, int *left_out)
{
  GArray *excludes = in->framework->excludes;
  g_autoptr(GArray) of_sets = exclusions_of_sets(excludes);

  in->framework->excludes = of_sets;
  GArray *plans = instance_plans(in);
  in->framework->excludes = excludes;
  guint kept = 0;
  for (guint i = 0; i < plans->len; i++) {
    const Plan *plan = &g_array_index(plans, Plan, i);
    if (!plan_excluded(plan, in->model, in->cluster, in->framework))
      g_array_index(plans, Plan, kept++) = *plan;
  }
  *left_out = (int)(plans->len - kept);
  g_array_set_size(plans, kept);
  return plans;
}

/* A question about experts of which every plan is simulated in a moment. */
static void draw_small(Instance *in, GRand *rand, const char *framework)
{
  g_autoptr(GArray) small = NULL;

  do {
    instance_framework_init(in, rand, framework);
    in->base.graph = GRAPH_NONE;
    in->base.overlap.experts = FALSE;
    if (in->model->specs[in->model->layers[1]].ffn.experts > 1 && in->base.gpus > 2)
      small = instance_plans_within(in, INSTANCE_SMALL);
    if (!small)
      instance_clear(in);
  } while (!small);
}

/* What a framework cannot do together, of passes and of states, is left out, and nothing else, whatever is fixed but all
 * of it; what is left is searched as by brute force. */
START_TEST(passes_are_excluded_with_states)
{
  static const char *const fixed[] = { "overlap=0", "ep_overlap=1", "ep_overlap=1,graph=partial", "graph=partial,zero=2", "zero=3",
                                       "recompute=none" };
  GRand *rand = test_rand(5200 + _i);

  for (int left_out = 0, out; left_out == 0;) { /* some questions have nothing of the kind */
    Instance in;
    draw_small(&in, rand, _i % 2 ? "megatron-core-2026" : "nemo-2026-06");
    for (gsize i = 0; i < G_N_ELEMENTS(fixed); i++) {
      in.options.fixed = fixed_none();
      ck_assert(fixed_parse("--fix", fixed[i], &in.options.fixed, NULL));
      g_autoptr(GArray) plans = instance_plans(&in), filtered = plans_filtered(&in, &out);
      check_same_plans(plans, filtered);
      left_out += out;
    }
    ck_assert(fixed_parse("--fix", "pp=1,tp=1,overlap=1", &in.options.fixed, NULL));
    instance_check(&in);
    instance_clear(&in);
  }
  g_rand_free(rand);
}
END_TEST

/* Unless all of it is fixed. */
START_TEST(passes_are_asked_for_with_states)
{
  g_autoptr(Model) model = fixture_experts(2, 512, 8, 8, 1024, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");
  Plan base = plan_default(model, framework);

  base.gpus = 8;
  base.global_batch = 16;
  for (int zero = 1; zero <= 3; zero++) {
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
    ck_assert(fixed_parse("--fix", "pp=1,tp=1,ep=8,ep_overlap=1,graph=partial", &options.fixed, NULL));
    g_autoptr(SearchResult) open = search(model, cluster, &options, NULL);
    ck_assert_int_eq(g_array_index(open->best, Found, 0).plan.zero, 1);
    options.fixed.value[KEY_ZERO] = zero;
    g_autoptr(SearchResult) asked = search(model, cluster, &options, NULL);
    ck_assert_int_eq(asked->best->len, 1);
    const Plan *plan = &g_array_index(asked->best, Found, 0).plan;
    ck_assert_int_eq(plan_excluded(plan, model, cluster, framework) != 0, zero >= 2);
  }
}
END_TEST

/* Choices of passes that stand for others in a space may not be excluded with states alone. */
START_TEST(files_say_what_goes_with_states)
{
  static const struct {
    const char *key, *expected; /* NULL: it is read */
  } cases[] = {
    { "exchange_overlap with zero_3", NULL },
    { "zero_2 with recorded_layers with tensor", NULL },
    { "selective with zero_1", "no feature of passes beside one of states, but exchange_overlap and recorded_layers" },
    { "zero_1 with exchange_overlap with kept_norms", "no feature of passes beside one of states" },
    { "zero_1 with layers", "a key of features" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"excludes\":{\"%s\":\"why\"}}", cases[i].key);
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), "own", &error);
    g_autoptr(GArray) list = NULL;
    gboolean read = exclusions_read(doc, json_root(doc), &list, &error);
    ck_assert_int_eq(read, cases[i].expected == NULL);
    ck_assert(read || strstr(error->message, cases[i].expected));
  }
}
END_TEST

static gboolean change(GArray **list, const char *text, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), "own", error);
  return exclusions_read(doc, json_root(doc), list, error);
}

/* Reasons in their order. */
static char *reasons(const GArray *list)
{
  GString *s = g_string_new(NULL);

  for (guint i = 0; i < list->len; i++)
    g_string_append_printf(s, "%s%s", i ? ", " : "", g_array_index(list, Exclusion, i).reason);
  return g_string_free(s, FALSE);
}

/* What a file says is added to what it starts from, in place of the same features in any order, or takes it away. */
START_TEST(files_change_what_they_start_from)
{
  static const struct {
    const char *text, *expected; /* reasons, or of an error its text */
    gboolean fails;
  } steps[] = {
    { "{\"excludes\":{\"zero_1\":\"a\",\"zero_2 with tensor\":\"b\"}}", "a, b", FALSE },
    { "{}", "a, b", FALSE },
    { "{\"excludes_changes\":{\"zero_3\":\"c\"}}", "a, b, c", FALSE },
    { "{\"excludes_changes\":{\"tensor with zero_2\":\"d\",\"pipeline\":\"e\"}}", "a, d, c, e", FALSE },
    { "{\"excludes_changes\":{\"zero_1\":null,\"zero_1 with tensor\":\"f\"}}", "d, c, e, f", FALSE },
    { "{\"excludes\":{\"zero_3\":\"g\"},\"excludes_changes\":{\"zero_1\":\"h\"}}", "g, h", FALSE },
    { "{\"excludes\":{}}", "", FALSE },
    { "{\"excludes_changes\":{\"zero_1\":null}}", "zero_1: null: expected a string that says why: nothing", TRUE },
    { "{\"excludes_changes\":{\"zero_1\":1}}", "zero_1: 1: expected a string that says why", TRUE },
    { "{\"excludes\":{\"zero_1\":null}}", "zero_1: null: expected a string that says why", TRUE },
    { "{\"excludes_changes\":[]}", "excludes_changes", TRUE },
    { "{\"excludes\":7}", "excludes: 7: expected an object", TRUE },
    { "{\"excludes\":{\"zero_1 with tensor\":\"a\",\"tensor with zero_1\":\"b\"}}",
      "own: excludes[\"tensor with zero_1\"]: \"b\": expected the same features once", TRUE },
    { "{\"excludes\":{\"tensor\":\"a\"},\"excludes_changes\":{\"tensor\":null,\"zero_1 with tensor\":\"b\","
      "\"tensor with zero_1\":null}}", "excludes_changes[\"tensor with zero_1\"]: null: expected the same features once", TRUE },
    { "{\"excludes\":{\"tensor with tensor\":\"a\"}}", "[\"tensor with tensor\"]: \"a\": expected each feature once", TRUE },
  };
  g_autoptr(GArray) list = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert_int_eq(change(&list, steps[i].text, &error), !steps[i].fails);
    g_autofree char *own = error ? NULL : reasons(list);
    if (error)
      ck_assert_msg(strstr(error->message, steps[i].expected), "%s", error->message);
    else
      ck_assert_str_eq(own, steps[i].expected);
  }
}
END_TEST

/* Megatron-FSDP overlaps an exchange of tokens since Megatron-Core 0.18. */
START_TEST(fsdp_overlaps_no_exchange_before)
{
  static const struct {
    const char *framework;
    gboolean excluded;
  } cases[] = { { "nemo-2025-09", TRUE }, { "nemo-2026-04", TRUE }, { "nemo-2026-06", FALSE }, { "nemo-2026-08", FALSE },
                { "megatron-core-2026", FALSE }, { "megatron-core-dev-2026", FALSE } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Framework) framework = fixture_framework(cases[i].framework);
    gboolean excluded = FALSE;
    for (guint k = 0; k < framework->excludes->len; k++)
      excluded |= g_array_index(framework->excludes, Exclusion, k).features ==
                  (G_GUINT64_CONSTANT(1) << FEATURE_EXCHANGE_OVERLAP | G_GUINT64_CONSTANT(1) << FEATURE_ZERO_2_OR_3);
    ck_assert_int_eq(excluded, cases[i].excluded);
    ck_assert_int_gt(framework->excludes->len, 10); /* those of Megatron-Core beside */
  }
}
END_TEST

/* Megatron Core offloads layers in the schedule that runs them whole, not in the one that overlaps the exchange of tokens:
 * no space has both unless both are fixed, and a plan told to a program loses the overlap. */
START_TEST(layers_stay_beside_an_exchange)
{
  static const char *const fixed[] = { "ep_overlap=1", "offload_layers=1", "ep_overlap=1,offload_layers=1" };
  g_autoptr(Model) model = fixture_experts(2, 512, 8, 8, 1024, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("gb200-nvl72", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");
  Plan base = plan_default(model, framework);

  base.gpus = 8;
  base.global_batch = 16;
  for (int i = 0; i < 3; i++) {
    Instance in = { .model = model, .cluster = cluster, .framework = framework, .base = base };
    in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 1, .threads = 1 };
    int both = 0, one = 0;
    ck_assert(fixed_parse("--fix", "pp=1,tp=1,ep=8,mbs=1,graph=none", &in.options.fixed, NULL));
    ck_assert(fixed_parse("--fix", fixed[i], &in.options.fixed, NULL));
    g_autoptr(GArray) plans = instance_plans(&in);
    for (guint k = 0; k < plans->len; k++) {
      Plan *p = &g_array_index(plans, Plan, k);
      gboolean has = p->offload.layers > 0 && p->overlap.exchange;
      one += !has && (p->offload.layers > 0 || p->overlap.exchange);
      both += has;
      ck_assert_int_eq(has, plan_excluded(p, model, cluster, framework) != 0);
      if (has) {
        ck_assert(plan_drop(p, FEATURE_OFFLOADED_LAYERS));
        ck_assert(!p->offload.layers && !plan_excluded(p, model, cluster, framework));
      }
    }
    ck_assert_int_eq(both > 0, i == 2);
    ck_assert_int_eq(one > 0, i < 2);
  }
}
END_TEST

TEST_LOOPS("search excluded", { layers_stay_beside_an_exchange, 1 },
           { passes_are_excluded_with_states, 6, TRUE }, { passes_are_asked_for_with_states, 1 },
           { files_say_what_goes_with_states, 1 }, { files_change_what_they_start_from, 1 },
           { fsdp_overlaps_no_exchange_before, 1 })
