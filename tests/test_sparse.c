/* Layouts of block-sparse attention, marked cell by cell as their definitions say, against the counts. */
#include "cost/kernel.h"
#include "fixture.h"
#include "test_model.h"

#include <math.h>

typedef struct {
  int n, heads;
  guint8 *cell; /* heads x n x n */
} Cells;

static void mark(Cells *c, int head, int row, int end_row, int column, int end_column)
{
  for (int r = MAX(row, 0); r < MIN(end_row, c->n); r++)
    for (int k = MAX(column, 0); k < MIN(end_column, c->n); k++)
      c->cell[((gsize)head * c->n + r) * c->n + k] = 1;
}

static void cut(Cells *c, gboolean unidirectional)
{
  for (int h = 0; unidirectional && h < c->heads; h++)
    for (int r = 0; r < c->n; r++)
      for (int k = r + 1; k < c->n; k++)
        c->cell[((gsize)h * c->n + r) * c->n + k] = 0;
}

static double marked(const Cells *c)
{
  double sum = 0;
  for (gsize i = 0; i < (gsize)c->heads * c->n * c->n; i++)
    sum += c->cell[i];
  return sum;
}

static void mark_window(Cells *c, int head, int first, int end, gboolean unidirectional)
{
  for (int r = first; r < MIN(end, c->n); r++)
    mark(c, head, r, r + 1, first, unidirectional ? r + 1 : MIN(end, c->n));
}

static void mark_fixed(Cells *c, const SparseAttention *a)
{
  for (int h = 0; h < c->heads; h++) {
    int offset = a->local - (1 + h % a->patterns) * a->global, end = c->n - c->n % a->local;
    for (int i = 0; i < c->n; i += a->local)
      mark_window(c, h, i, i + a->local, a->unidirectional);
    for (int i = offset; i < end; i += a->local) {
      mark(c, h, a->unidirectional ? i : 0, c->n, i, i + a->global);
      mark(c, h, i, a->horizontal ? i + a->global : 0, 0, c->n);
    }
    int start = MIN(end + offset, c->n - a->global);
    if (end < c->n) {
      mark(c, h, a->unidirectional ? start : 0, c->n, start, start + a->global);
      mark(c, h, start, a->horizontal ? start + a->global : 0, 0, c->n);
    }
  }
}

static void mark_variable(Cells *c, const SparseAttention *a)
{
  for (int h = 0; h < c->heads; h++) {
    for (int i = 0, at = 0; at < c->n; i++) {
      int size = a->windows[MIN(i, a->n_windows - 1)];
      mark_window(c, h, at, at + size, a->unidirectional);
      at += size;
    }
    for (int i = 0; i < a->n_ranges; i++) {
      mark(c, h, a->unidirectional ? a->first[i] : 0, c->n, a->first[i], a->end[i]);
      mark(c, h, a->first[i], a->horizontal ? a->end[i] : 0, 0, c->n);
    }
  }
}

static void mark_sliding(Cells *c, const SparseAttention *a)
{
  for (int h = 0; h < c->heads; h++) {
    for (int r = 0; r < c->n; r++)
      mark(c, h, r, r + 1, r - a->sliding / 2, r + a->sliding / 2 + 1);
    for (int i = 0; i < a->n_ranges; i++) {
      mark(c, h, 0, c->n, a->first[i], a->end[i]);
      mark(c, h, a->first[i], a->end[i], 0, c->n);
    }
    if (a->mode == SPARSE_BIGBIRD) {
      mark(c, h, 0, c->n, 0, a->global);
      mark(c, h, 0, a->global, 0, c->n);
    }
  }
  cut(c, a->unidirectional);
}

static void mark_all(Cells *c, const SparseAttention *a)
{
  (void)a;
  for (int h = 0; h < c->heads; h++)
    mark(c, h, 0, c->n, 0, c->n);
}

static void (*const markers[SPARSE_MODE_COUNT])(Cells *, const SparseAttention *) = {
  [SPARSE_DENSE] = mark_all, [SPARSE_FIXED] = mark_fixed, [SPARSE_VARIABLE] = mark_variable,
  [SPARSE_BIGBIRD] = mark_sliding, [SPARSE_BSLONGFORMER] = mark_sliding, [SPARSE_LOCAL] = mark_sliding,
};

static SparseAttention *sparse_of(const char *keys, gboolean causal)
{
  g_autofree char *text = g_strdup_printf("{%s}", keys);
  GError *error = NULL;
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), "f", &error);
  SparseAttention *a = doc ? sparse_read(doc, json_root(doc), causal, &error) : NULL;
  ck_assert_msg(a != NULL, "%s: %s", keys, error ? error->message : "");
  return a;
}

static const char *const layouts[] = {
  "\"mode\":\"dense\"",
  "\"mode\":\"fixed\"",
  "\"mode\":\"fixed\",\"num_local_blocks\":6,\"num_global_blocks\":2",
  "\"mode\":\"fixed\",\"different_layout_per_head\":true,\"num_different_global_patterns\":4",
  "\"mode\":\"fixed\",\"num_local_blocks\":8,\"num_global_blocks\":2,\"different_layout_per_head\":true,"
  "\"num_different_global_patterns\":3",
  "\"mode\":\"variable\"",
  "\"mode\":\"variable\",\"local_window_blocks\":[1,5,3],\"global_block_indices\":[0,7,2]",
  "\"mode\":\"variable\",\"local_window_blocks\":[2],\"global_block_indices\":[3,1],\"global_block_end_indices\":[6,3]",
  "\"mode\":\"bigbird\",\"num_random_blocks\":0",
  "\"mode\":\"bigbird\",\"num_random_blocks\":0,\"num_sliding_window_blocks\":5,\"num_global_blocks\":3",
  "\"mode\":\"bslongformer\"",
  "\"mode\":\"bslongformer\",\"num_sliding_window_blocks\":7,\"global_block_indices\":[4,0],"
  "\"global_block_end_indices\":[6,2]",
  "\"mode\":\"local\",\"num_sliding_window_blocks\":4",
};

static void compare(const char *keys, gboolean causal, const char *more)
{
  g_autofree char *all = g_strconcat(keys, more, NULL);
  g_autoptr(SparseAttention) a = sparse_of(all, causal);

  for (int n = 8; n <= 33; n++) {
    Cells c = { .n = n, .heads = 5, .cell = g_new0(guint8, 5 * n * n) };
    markers[a->mode](&c, a);
    double blocks = sparse_blocks(a, 5, n * a->block);
    ck_assert_msg(fabs(blocks - marked(&c)) < 1e-6, "%s: %d: %g of %g", all, n, blocks, marked(&c));
    ck_assert_double_eq_tol(sparse_keys_seen(a, 5, n * a->block), marked(&c) * a->block / (5.0 * n), 1e-6);
    g_free(c.cell);
  }
}

START_TEST(blocks_are_counted)
{
  compare(layouts[_i], FALSE, "");
  compare(layouts[_i], TRUE, "");
  if (strstr(layouts[_i], "fixed") || strstr(layouts[_i], "variable"))
    compare(layouts[_i], FALSE, ",\"horizontal_global_attention\":true");
}
END_TEST

/* A row has a window of 3 and the first column; of 16 columns a random one falls on neither 12 times in 16. */
START_TEST(random_blocks_are_expected)
{
  g_autoptr(SparseAttention) none = sparse_of("\"mode\":\"bigbird\",\"num_random_blocks\":0", FALSE);
  g_autoptr(SparseAttention) one = sparse_of("\"mode\":\"bigbird\"", FALSE);
  double rows = 0;

  for (int row = 1; row < 16; row++)
    rows += 1 - (row == 1 || row == 15 ? 3 : 4) / 16.0;
  ck_assert_double_eq_tol(sparse_blocks(one, 1, 256) - sparse_blocks(none, 1, 256), rows, 1e-9);
}
END_TEST

/* 25 % of the blocks are the fourth of each window; beside them stand three of the own window. */
START_TEST(fixed_is_a_quarter)
{
  g_autoptr(SparseAttention) a = sparse_of("\"mode\":\"fixed\"", FALSE);
  ck_assert_double_eq(sparse_blocks(a, 16, 16 * 256), 16.0 * 256 * (256 / 4 + 3));
}
END_TEST

START_TEST(layouts_are_given)
{
  g_autoptr(SparseAttention) a = sparse_of("\"mode\":\"layout\",\"block\":8,\"layout\":[\"100\",\"110\",\"101\"]",
                                           TRUE);
  ck_assert_double_eq(sparse_blocks(a, 4, 24), 20);
  ck_assert_double_eq(sparse_blocks(a, 4, 16), 12);
  g_autofree char *longer = sparse_refusal(a, 32), *odd = sparse_refusal(a, 20);
  ck_assert_str_eq(longer, "at most the 3 blocks of 8 tokens of sparse_attention.layout");
  ck_assert_str_eq(odd, "a multiple of sparse_attention.block 8");
}
END_TEST

#define TINY "\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":512,\"seq\":256"

START_TEST(layouts_are_refused)
{
  refused("{" TINY ",\"sparse_attention\":{\"mode\":\"fixed\",\"attention\":\"bidirectional\"}}",
          "f: sparse_attention.attention: \"bidirectional\": expected unidirectional in a causal model");
  refused("{" TINY ",\"sparse_attention\":{\"mode\":\"bigbird\",\"num_local_blocks\":4}}",
          "f: sparse_attention.num_local_blocks: 4: expected this key only in other modes than bigbird");
  refused("{" TINY ",\"sparse_attention\":{\"mode\":\"layout\",\"layout\":[\"11\",\"01\"]}}",
          "f: sparse_attention.layout: […]: expected no 1 behind the diagonal in a causal model, row 0 has one");
  refused("{" TINY ",\"causal\":false,\"sparse_attention\":{\"num_different_global_patterns\":2}}",
          "f: sparse_attention.num_different_global_patterns: 2: expected 1, or different_layout_per_head true");
  refused("{" TINY ",\"window\":64,\"sparse_attention\":{}}",
          "f: sparse_attention: {}: expected none in a model with a window");
}
END_TEST

static double sum_of(const GArray *ops, const char *name, double *saved)
{
  double flops = 0;

  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name)) {
      flops += g_array_index(ops, Op, i).flops;
      *saved += g_array_index(ops, Op, i).saved_bytes;
    }
  return flops;
}

/* Scores and context of 16 heads of 64, each block 16 x 16; both passes; the softmax keeps 2 bytes of each. */
START_TEST(work_is_of_the_blocks)
{
  g_autoptr(Model) model = fixture_known_model("bert-large-sparse");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-2", 1);
  g_autoptr(Framework) framework = fixture_framework("deepspeed");
  Plan plan = plan_default(model, framework);
  double elements = 16.0 * 256 * (256 / 4 + 3) * 256 * 2, saved = 0;
  LayerWork work;

  ck_assert_int_eq(plan.attention, ATTENTION_UNFUSED);
  plan.micro_batch = 2;
  plan.precision = DTYPE_FP16;
  layer_work_init(&work, model, model_layer(model, 1), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(sum_of(work.forward, "scores", &saved), 2 * elements * 64, 1);
  ck_assert_double_eq_tol(sum_of(work.backward, "context", &saved), 4 * elements * 64, 1);
  ck_assert_double_eq(saved, 0);
  sum_of(work.forward, "softmax", &saved);
  ck_assert_double_eq(saved, 2 * elements);
  layer_work_clear(&work);
}
END_TEST

/* The same blocks take less time as they are larger: tiles are. */
START_TEST(larger_blocks_are_faster)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-2", 1);
  double last = INFINITY;

  for (double side = 16; side <= 128; side *= 2) {
    Matmul m = { .m = 1e9 / side, .n = side, .k = 64, .batch = 1, .dtype = DTYPE_FP16, .block = side, .bytes = 1e8 };
    double s = matmul_s(&cluster->device, &m);
    ck_assert(s < last);
    ck_assert_double_gt(s, 2 * 1e9 * 64 / cluster->device.peak_flops_per_s[DTYPE_FP16]);
    last = s;
  }
}
END_TEST

static void rule(const char *framework, AttentionKernel attention, int seq, PlanRule expected, const char *says)
{
  g_autoptr(Model) model = fixture_known_model("bert-large-sparse");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-2", 1);
  g_autoptr(Framework) f = fixture_framework(framework);
  Plan plan = plan_default(model, f);
  GError *error = NULL;

  plan.attention = attention;
  plan.seq = seq;
  plan.precision = DTYPE_FP16;
  ck_assert_int_eq(plan_check(&plan, model, cluster, &error), expected);
  if (says)
    test_error(&error, TDP_ERROR_INPUT, says);
}

START_TEST(engines_have_their_kernels)
{
  rule("deepspeed", ATTENTION_UNFUSED, 4096, RULE_NONE, NULL);
  rule("fsdp", ATTENTION_FLASH, 4096, RULE_NONE, NULL);
  rule("deepspeed", ATTENTION_FLASH, 4096, RULE_FAMILY,
       "plan: attention: \"flash\": expected unfused for the sparse_attention of model bert-large-sparse");
  rule("megatron-core", ATTENTION_FLASH, 4096, RULE_FAMILY,
       "plan: attention: \"flash\": expected a framework that runs block-sparse kernels for the sparse_attention of "
       "model bert-large-sparse");
  rule("deepspeed", ATTENTION_UNFUSED, 1000, RULE_SEQUENCE,
       "plan: seq_length: 1000: expected a multiple of sparse_attention.block 16");
}
END_TEST

TEST_LOOPS("sparse", { blocks_are_counted, G_N_ELEMENTS(layouts) },
           { random_blocks_are_expected },
           { fixed_is_a_quarter },
           { layouts_are_given },
           { layouts_are_refused },
           { work_is_of_the_blocks },
           { larger_blocks_are_faster },
           { engines_have_their_kernels })
