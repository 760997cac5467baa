/* What frameworks copy between the projection of queries, keys and values and the core, and behind it. */
#include "op/build.h"

static double own_bytes(const Build *b, const CoreRows *r)
{
  return 2 * b->bytes * b->tokens * (r->queries + r->keys + r->values);
}

double build_core_keys_bytes(const Build *b, const CoreRows *r)
{
  double own = r->keys + r->values, all = r->queries + r->context;

  return b->bytes * b->tokens * (b->passes->framework->repeats_keys ? MAX(own, all) : own);
}

/* Kept as they are copied. */
static void repeat_keys(Build *b, const CoreRows *r)
{
  double own = b->bytes * b->tokens * (r->keys + r->values), all = build_core_keys_bytes(b, r);

  if (all > own)
    build_stream(b, &(Stream) { .name = "repeat keys", .forward_bytes = own + all, .forward_kernels = 2,
                                .backward_bytes = own + all, .backward_kernels = 2, .saved = all - own });
}

/* Parts that the core takes in place, and whose gradients come one by one; queries of cross attention are a tensor of
 * their own. */
static void join_gradients(Build *b, const CoreRows *r)
{
  double memory = 2 * b->bytes * b->tokens / b->seq * b->keys * (r->keys + r->values);

  if (b->passes->framework->qkv_joined)
    build_stream(b, &(Stream) { .name = "join qkv gradients", .backward_kernels = 1,
                                .backward_bytes = b->attention == &b->spec->attention ? own_bytes(b, r) : memory });
}

/* Queries that share keys lie in groups, and values beside keys that were turned have strides of their own: Transformer
 * Engine takes neither (get_qkv_layout), nor are the gradients one tensor then (SplitAlongDim). */
static void copy_split(Build *b, const CoreRows *r)
{
  const Attention *a = b->attention;
  gboolean turned = b->model->positions == POSITIONS_ROPE, shared = a->heads > a->kv_heads, own = a == &b->spec->attention;
  gboolean grouped = shared && r->keys > a->head_dim; /* one group is the heads as they are */
  double each = 2 * b->bytes * b->tokens;
  double copied = turned ? each * (r->values + (grouped ? r->queries : 0)) : own_bytes(b, r);
  double kernels = turned ? 1 + grouped : 3;

  if (b->passes->framework->copies_split_qkv && own && !a->kv_lora_rank && (turned || shared))
    build_stream(b, &(Stream) { .name = "copy split qkv", .forward_bytes = copied, .forward_kernels = kernels,
                                .backward_bytes = own_bytes(b, r), .backward_kernels = 1 });
}

/* Into the layout that the fused kernel wants. Gradients that are joined are read as they lie. */
static void copy_in(Build *b, const CoreRows *r)
{
  const Framework *f = b->passes->framework;

  if (f->attention_copies)
    build_stream(b, &(Stream) { .name = "copy qkv", .forward_bytes = own_bytes(b, r), .forward_kernels = 1,
                                .backward_bytes = f->qkv_joined ? 0 : own_bytes(b, r), .backward_kernels = 1 });
}

/* The gathered parts are joined by a copy; a key-value head with its queries, and of these the rank's own, are taken as
 * they lie. Backward both are copied into zeros, and what all ranks are to sum is parted by rank (Megatron Core 0.17,
 * attention.py and mappings.py; PyTorch 2.15: slice_backward). The host's operations are what this takes beyond as many
 * heads as ranks, in times of a torch.nn.Linear: 2.8 forward and 6.1 backward, the mean of four measurements without
 * collectives (tests/bench/pytorch_host_operations.py). Cores before 0.16 had no such copies. */
void build_take_heads(Build *b, double bytes, double queries)
{
  int heads = b->attention->kv_heads;
  double taken = bytes / heads, shared = queries / heads, own = queries / b->tp;

  build_stream(b, &(Stream) { .name = "take heads", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 3 * bytes + 2 * taken + shared + 2 * own, .backward_kernels = 5,
                              .forward_operations = 3, .backward_operations = 6 });
}

void build_core_entry(Build *b, const CoreRows *r)
{
  repeat_keys(b, r);
  join_gradients(b, r);
  if (!r->fused)
    return;
  copy_split(b, r);
  copy_in(b, r);
}

/* Of one sequence both layouts are the same. */
void build_core_exit(Build *b, const CoreRows *r)
{
  double bytes = 2 * b->bytes * b->tokens * r->context;

  if (r->fused && b->passes->framework->attention_copies && b->passes->micro_batch > 1)
    build_stream(b, &(Stream) { .name = "copy context", .forward_bytes = bytes, .forward_kernels = 1,
                                .backward_bytes = bytes, .backward_kernels = 1 });
}
