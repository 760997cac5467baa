/* The blocks of a layout, row by row. */
#include "model/sparse.h"

/* The layout of one head. */
typedef struct {
  const SparseAttention *a;
  int n;           /* rows and columns */
  int *seen_from;  /* row from which on all rows see a column, n = none does; rises over columns that are seen */
  int *seen_below; /* columns below this one that are seen by all from some row on; n + 1 entries */
} Layout;

static void see(Layout *l, int first, int end, int from_row)
{
  for (int c = first; c < MIN(end, l->n); c++)
    l->seen_from[c] = MIN(l->seen_from[c], from_row);
}

/* ---- columns that all see ---- */

/* The last blocks of each window, or those before them for further patterns; a short window at the end has its own. */
static void see_of_windows(Layout *l, int pattern)
{
  const SparseAttention *a = l->a;
  int offset = a->local - (1 + pattern) * a->global, whole = l->n - l->n % a->local;

  for (int i = offset; i < whole; i += a->local)
    see(l, i, i + a->global, a->unidirectional ? i : 0);
  if (whole < l->n) {
    int first = MIN(whole + offset, l->n - a->global);
    see(l, first, first + a->global, a->unidirectional ? first : 0);
  }
}

static void see_ranges(Layout *l, int pattern)
{
  const SparseAttention *a = l->a;

  (void)pattern;
  for (int i = 0; i < a->n_ranges; i++)
    if (a->first[i] < l->n)
      see(l, a->first[i], a->end[i], a->unidirectional && a->mode == SPARSE_VARIABLE ? a->first[i] : 0);
}

static void see_first(Layout *l, int pattern)
{
  (void)pattern;
  see(l, 0, l->a->global, 0);
}

/* ---- columns around a row ---- */

static void window_of_row(const Layout *l, int row, int *first, int *end)
{
  const SparseAttention *a = l->a;

  *first = row / a->local * a->local;
  *end = a->unidirectional ? row + 1 : MIN(*first + a->local, l->n);
}

static void listed_window(const Layout *l, int row, int *first, int *end)
{
  const SparseAttention *a = l->a;
  int at = 0, i = 0, last = a->windows[a->n_windows - 1];

  while (i < a->n_windows && at + a->windows[i] <= row)
    at += a->windows[i++];
  if (i == a->n_windows)
    at += (row - at) / last * last;
  *first = at;
  *end = a->unidirectional ? row + 1 : MIN(at + (i < a->n_windows ? a->windows[i] : last), l->n);
}

static void sliding_window(const Layout *l, int row, int *first, int *end)
{
  int half = l->a->sliding / 2;

  *first = MAX(0, row - half);
  *end = MIN(row + half + 1, l->n);
}

static void every_column(const Layout *l, int row, int *first, int *end)
{
  (void)row;
  *first = 0;
  *end = l->n;
}

/* What each kind is made of; one without a window is given cell by cell. */
static const struct {
  void (*see)(Layout *l, int pattern);
  void (*window)(const Layout *l, int row, int *first, int *end);
  gboolean cut; /* unidirectional: what lies behind the row's block is taken away at the end */
} kinds[SPARSE_MODE_COUNT] = {
  [SPARSE_DENSE] = { NULL, every_column, FALSE },
  [SPARSE_FIXED] = { see_of_windows, window_of_row, FALSE },
  [SPARSE_VARIABLE] = { see_ranges, listed_window, FALSE },
  [SPARSE_BIGBIRD] = { see_first, sliding_window, TRUE },
  [SPARSE_BSLONGFORMER] = { see_ranges, sliding_window, TRUE },
  [SPARSE_LOCAL] = { NULL, sliding_window, TRUE },
};

static void layout_init(Layout *l, const SparseAttention *a, int n, int pattern)
{
  *l = (Layout) { .a = a, .n = n, .seen_from = g_new(int, n), .seen_below = g_new(int, n + 1) };
  for (int c = 0; c < n; c++)
    l->seen_from[c] = n;
  if (kinds[a->mode].see)
    kinds[a->mode].see(l, pattern);
  l->seen_below[0] = 0;
  for (int c = 0; c < n; c++)
    l->seen_below[c + 1] = l->seen_below[c] + (l->seen_from[c] < n);
}

static void layout_clear(Layout *l)
{
  g_free(l->seen_from);
  g_free(l->seen_below);
}

/* Blocks of a row; `reach` is behind the last column that it sees as all do. */
static double blocks_of_row(const Layout *l, int row, int reach)
{
  const SparseAttention *a = l->a;
  gboolean cut = a->unidirectional && kinds[a->mode].cut;
  int limit = cut ? row + 1 : l->n, first, end;

  if (a->horizontal && l->seen_from[row] < l->n)
    return limit;
  kinds[a->mode].window(l, row, &first, &end);
  first = MIN(first, limit);
  end = MIN(end, limit);
  reach = MIN(reach, limit);
  int seen = l->seen_below[reach] - l->seen_below[MIN(end, reach)] + l->seen_below[MIN(first, reach)];
  double kept = end - first + seen;
  return kept + MIN(a->random, limit) * (1 - kept / limit);
}

static double blocks_of_pattern(const SparseAttention *a, int n, int pattern)
{
  Layout l;
  double blocks = 0;

  layout_init(&l, a, n, pattern);
  for (int row = 0, reach = 0; row < n; row++) {
    while (reach < n && (l.seen_from[reach] <= row || l.seen_from[reach] == n))
      reach++;
    blocks += blocks_of_row(&l, row, reach);
  }
  layout_clear(&l);
  return blocks;
}

static double blocks_given(const SparseAttention *a, int n)
{
  double blocks = 0;

  for (int row = 0; row < n; row++)
    for (int c = 0; c < n; c++)
      blocks += a->cells[(gsize)row * a->rows + c];
  return blocks;
}

double sparse_blocks(const SparseAttention *a, int heads, int seq)
{
  int n = seq / a->block;
  double blocks = 0;

  if (a->mode == SPARSE_LAYOUT)
    return heads * blocks_given(a, n);
  for (int pattern = 0; pattern < MIN(a->patterns, heads); pattern++)
    blocks += (heads / a->patterns + (pattern < heads % a->patterns)) * blocks_of_pattern(a, n, pattern);
  return blocks;
}

double sparse_keys_seen(const SparseAttention *a, int heads, int seq)
{
  return sparse_blocks(a, heads, seq) * a->block * a->block / ((double)heads * seq);
}

char *sparse_refusal(const SparseAttention *a, int seq)
{
  int n = seq / a->block;
  const struct {
    int least;
    const char *of;
  } sizes[] = { { a->sliding, "num_sliding_window_blocks" }, { a->random, "num_random_blocks" },
                { a->mode == SPARSE_BIGBIRD || a->mode == SPARSE_FIXED ? a->global : 0, "num_global_blocks" } };

  if (seq % a->block != 0)
    return g_strdup_printf("a multiple of sparse_attention.block %d", a->block);
  if (a->mode == SPARSE_LAYOUT && n > a->rows)
    return g_strdup_printf("at most the %d blocks of %d tokens of sparse_attention.layout", a->rows, a->block);
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
    if (n < sizes[i].least)
      return g_strdup_printf("at least %d blocks of %d tokens, the sparse_attention.%s", sizes[i].least, a->block,
                             sizes[i].of);
  return NULL;
}

gboolean sparse_fits(const SparseAttention *a, int seq)
{
  g_autofree char *refusal = sparse_refusal(a, seq);
  return !refusal;
}

void sparse_free(SparseAttention *a)
{
  if (!a)
    return;
  g_free(a->windows);
  g_free(a->first);
  g_free(a->end);
  g_free(a->cells);
  g_free(a);
}
