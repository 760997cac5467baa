/* Token and position embedding, divided by vocabulary over the tensor-parallel ranks unless each has it whole. */
#include "op/build.h"

/* A table of `rows` rows that is looked up and added. */
static void add_table(Build *b, const char *name, double rows)
{
  double bytes = b->rows * b->hidden * b->bytes;

  if (rows > 0)
    build_stream(b, &(Stream) { .name = name, .forward_bytes = 3 * bytes, .forward_kernels = 2,
                                .backward_bytes = 2 * bytes, .backward_kernels = 1, .weights = TRUE });
}

static void build_dropout(Build *b)
{
  double rows = b->rows * b->hidden * b->bytes;

  if (b->model->dropout)
    build_stream(b, &(Stream) { .name = "embedding dropout", .forward_bytes = 2 * rows + rows / b->bytes,
                                .forward_kernels = 1, .backward_bytes = 2 * rows + rows / b->bytes,
                                .backward_kernels = 1, .saved = rows / b->bytes });
}

/* Patches of an image as rows of their pixels, projected on every tensor-parallel rank (Dosovitskiy et al. 2020,
 * arXiv 2010.11929); the class token goes before them. */
static void build_patches(Build *b)
{
  const Model *m = b->model;
  double pixels = (double)m->patch * m->patch * m->channels, patches = b->tokens - b->passes->micro_batch;

  build_linear(b, &(Linear) { .name = "patches", .in = pixels, .out = b->hidden, .batch = 1, .rows = patches,
                              .bias = TRUE,
                              .saved = b->bytes * patches * pixels, .split = LINEAR_REPLICATED, .leaf = TRUE });
  add_table(b, "positions", m->position_rows);
  build_dropout(b);
  b->work->deferred_bytes += b->rows * b->hidden * b->bytes;
  build_params(b, (m->position_rows + 1.0) * b->hidden);
}

/* Among which tables of tokens are divided. */
static double table_parts(const Build *b)
{
  return b->passes->framework->whole_vocabulary ? 1 : b->tp;
}

void build_look_up(Build *b, double gathered)
{
  build_stream(b, &(Stream) { .name = "lookup", .forward_bytes = 2 * gathered, .forward_kernels = b->tp > 1 ? 4 : 1,
                              .backward_bytes = 3 * gathered, .backward_kernels = 2, .weights = TRUE });
  if (!b->passes->framework->whole_vocabulary)
    build_forward_sum(b, "sum embeddings", gathered);
  if (b->passes->sequence_parallel)
    build_backward_collective(b, "gather embedding gradient", COLLECTIVE_ALL_GATHER, gathered, PASS_WEIGHT, FALSE);
}

/* Autograd makes it whole for each micro-batch: zeros, into which rows are summed, and which are then added to what
 * earlier micro-batches left, or to what tied logits give. Of a vocabulary that is spread it is not counted. */
static void make_table_gradient(Build *b, double rows, double columns)
{
  const PassLayout *p = b->passes;
  gboolean accumulates = p->framework->accumulation != ACCUMULATE_NONE, meets = b->model->tied_embeddings && p->ends_meet;
  double added = accumulates ? b->bytes + 2 * p->gradient_bytes : meets ? 3 * b->bytes : 0;

  if (!p->framework->table_gradients || b->frozen || p->spread_vocabulary)
    return;
  if (accumulates)
    b->work->table_bytes = rows * columns * b->bytes;
  build_stream(b, &(Stream) { .name = "table gradient", .backward_bytes = rows * columns * (b->bytes + added),
                              .backward_kernels = added > 0 ? 2 : 1, .weights = TRUE });
}

/* Of the stack. */
static void add_positions(Build *b, double rows)
{
  add_table(b, "positions", rows);
  if (rows > 0)
    build_table(b, rows, b->hidden);
}

/* What is added to tokens' rows, at the width of these. */
static void add_to_tokens(Build *b)
{
  const Model *m = b->model;
  double hidden = b->hidden;

  if (m->narrow_embedding)
    b->hidden = m->embed_dim;
  add_positions(b, m->position_rows);
  add_table(b, "token types", m->token_types);
  build_dropout(b);
  if (m->embedding_norm)
    build_norm(b, "embedding norm");
  if (m->token_types)
    build_table(b, m->token_types, b->hidden);
  b->hidden = hidden;
}

/* The table of tokens is its own or the first layer's, of which a copy is counted where stages are known
 * (pipeline_entry_copies). */
void build_entry_embedding(Build *b)
{
  build_look_up(b, b->tokens * b->model->embed_dim * b->bytes);
  if (b->model->encoder_vocab)
    build_table(b, op_vocab(b->model, b->passes) / table_parts(b), b->hidden);
  add_positions(b, model_entry_rows(b->model));
  add_table(b, "token types", b->model->token_types);
  if (b->model->token_types)
    build_table(b, b->model->token_types, b->hidden);
  build_dropout(b);
  if (b->model->embedding_norm)
    build_norm(b, "embedding norm");
  b->work->deferred_bytes += b->rows * b->hidden * b->bytes;
}

/* What is looked up beside tokens, whole on every tensor-parallel rank: joined to their rows and projected with them,
 * or added. */
static void build_beside(Build *b)
{
  const Model *m = b->model;
  double joined = b->bytes * b->tokens * (b->hidden + m->beside_read);

  for (gsize i = 0; i < G_N_ELEMENTS(m->beside); i++) {
    double bytes = b->bytes * b->tokens * m->beside[i].width;
    if (m->beside[i].rows)
      build_table(b, m->beside[i].rows, m->beside[i].width);
    if (m->beside[i].rows && !m->beside_joined)
      add_table(b, "beside tokens", m->beside[i].rows);
    else if (m->beside[i].rows && m->beside_read)
      build_stream(b, &(Stream) { .name = "beside tokens", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                                  .backward_bytes = 3 * bytes, .backward_kernels = 2, .weights = TRUE });
  }
  if (!m->beside_joined)
    return;
  build_stream(b, &(Stream) { .name = "join tables", .forward_bytes = 2 * joined, .forward_kernels = 1,
                              .backward_bytes = 2 * joined, .backward_kernels = 1 });
  build_linear(b, &(Linear) { .name = "table projection", .in = b->hidden + m->beside_read, .out = b->hidden,
                              .batch = 1, .rows = b->tokens, .bias = TRUE, .saved = joined,
                              .split = LINEAR_REPLICATED });
}

/* All layers' own embeddings: looked up, and a projection of the tokens' embedding normed and added. */
static void build_sides(Build *b)
{
  const Model *m = b->model;
  double width = (double)m->blocks * m->side, bytes = b->bytes * b->tokens * width;

  if (!m->side)
    return;
  build_stream(b, &(Stream) { .name = "lookup", .forward_bytes = 2 * bytes, .forward_kernels = b->tp > 1 ? 4 : 1,
                              .backward_bytes = 3 * bytes, .backward_kernels = 2, .weights = TRUE });
  if (!b->passes->framework->whole_vocabulary)
    build_forward_collective(b, "sum embeddings", COLLECTIVE_ALL_REDUCE, bytes);
  build_table(b, m->side_vocab / table_parts(b), width);
  build_linear(b, &(Linear) { .name = "side projection", .in = b->hidden, .out = width, .batch = 1, .rows = b->tokens,
                              .saved = b->bytes * b->tokens * b->hidden, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "side norm", .forward_bytes = 5 * bytes, .forward_kernels = 2,
                              .backward_bytes = 6 * bytes, .backward_kernels = 3, .saved = bytes });
  build_params(b, m->side * norm_vectors(m));
}

void build_embedding(Build *b)
{
  const Model *m = b->model;

  if (m->patch) {
    build_patches(b);
    return;
  }
  double width = m->embed_dim ? m->embed_dim : m->hidden;
  double gathered = b->tokens * width * b->bytes, rows = b->rows * b->hidden * b->bytes;

  make_table_gradient(b, op_embedding_rows(m, b->passes) / table_parts(b), width);
  build_look_up(b, b->tokens * b->model->embed_dim * b->bytes);
  build_beside(b);
  add_to_tokens(b);
  b->work->deferred_bytes += rows;
  build_table(b, op_embedding_rows(m, b->passes) / table_parts(b), width);
  if (m->global_rows)
    build_table(b, m->global_rows, b->hidden);
  if (m->prompt_rows)
    build_table(b, m->prompt_rows, b->hidden);
  if (m->rotary_rows)
    build_params(b, (double)m->rotary_rows * model_attending(m)->attention.head_dim);
  build_params(b, m->initial_state ? m->hidden : 0);
  build_sides(b);
  if (width != b->hidden)
    build_linear(b, &(Linear) { .name = "embedding projection", .in = width, .out = b->hidden, .batch = 1,
                                .rows = b->tokens, .saved = gathered, .split = LINEAR_REPLICATED,
                                .bias = m->narrow_embedding });
  build_affine_embedding(b);
  build_fork_streams(b);
}
