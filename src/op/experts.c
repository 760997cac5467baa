/* Feed-forward of a block by experts behind a router. */
#include "op/build.h"

#include <math.h>

#define ROUTER_BYTES 4 /* of a logit: routers work in fp32 */

/* Host operations (op.h) of choosing experts and of the auxiliary loss, and of their backward; and of counting and
 * sorting rows for the exchange, where its kernels do not: counted in Megatron Core 0.17, moe/router.py, moe_utils.py
 * and token_dispatcher.py. Each is a kernel of the device, unless a compiler or the executor joins them. Other
 * generations take the same: their routers were not counted, and only those of Core from 2025 on have a time for an
 * operation (operation_us); for the others it is some 20 launches of a layer, which the device outlasts unless batches
 * are tiny. */
#define ROUTER_OPERATIONS 23
#define ROUTER_BACKWARD_OPERATIONS 20
#define SORT_BACKWARD_OPERATIONS 5
static const int sort_operations[DISPATCH_COUNT] = {
  [DISPATCH_ALL_TO_ALL] = 17, [DISPATCH_GATHER] = 17, [DISPATCH_FLEX] = 8, [DISPATCH_HYBRID] = 2
};

static void router(Build *b, double rows)
{
  const FeedForward *f = &b->spec->ffn;

  b->part = RECORDS_ROUTER;
  b->dropped |= 1u << MODULE_LAYERNORM;
  if (f->router_width)
    build_router_state(b, rows);
  build_linear(b, &(Linear) { .name = "router", .in = f->router_width ? f->router_width : b->hidden,
                              .out = (double)f->experts + f->idle + f->rated + f->router_skips, .batch = 1,
                              .rows = rows, .bias = f->router_bias,
                              .saved = f->router_width ? b->bytes * rows * f->router_width
                                                       : b->bytes * b->rows * b->hidden,
                              .split = LINEAR_REPLICATED });
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  build_enter(b, MODULE_MOE);
  build_params(b, (f->router_correction ? f->experts + f->idle : 0) + (f->sum_bias ? b->hidden : 0));
  b->part = RECORDS_PREPROCESS;
  if (f->latent) /* of the router's input, once a token */
    build_linear(b, &(Linear) { .name = "latent down", .in = b->hidden, .out = f->latent, .batch = 1, .rows = rows,
                                .bias = f->bias, .saved = b->bytes * rows * b->hidden, .split = LINEAR_REPLICATED,
                                .kept = TRUE, .narrow = TRUE, .apart = TRUE });
}

/* What experts gave, back to the hidden width. */
static void leave_latent(Build *b, double rows)
{
  const FeedForward *f = &b->spec->ffn;

  if (f->latent)
    build_linear(b, &(Linear) { .name = "latent up", .in = f->latent, .out = b->hidden, .batch = 1, .rows = rows,
                                .bias = f->bias, .saved = b->bytes * rows * f->latent, .split = LINEAR_REPLICATED,
                                .narrow = TRUE, .apart = TRUE });
}

/* Of `moved` bytes, each of a token's rows read and written, what is read but once. */
static double read_once(const Build *b, double moved)
{
  return moved / 2 * (1 + 1.0 / b->spec->ffn.experts_per_token);
}

/* Whether rows are laid out, and back, where their experts are, not where they came from. */
static gboolean lays_out_there(const Build *b)
{
  return !b->passes->experts_apart || b->passes->dispatch != DISPATCH_ALL_TO_ALL;
}

/* Rows of tokens to where their experts read them: by one kernel, or by index_select, whose gradient adds them up where
 * they came from. */
static void permute(Build *b, double moved)
{
  double bytes = read_once(b, moved);
  gboolean one = b->passes->framework->fused_permutation;

  b->visits = lays_out_there(b);
  if (moved > 0)
    build_stream(b, &(Stream) { .name = one ? "permute rows" : "take rows", .forward_bytes = bytes,
                                .forward_kernels = 1, .backward_bytes = bytes, .backward_kernels = one ? 1 : 2 });
  b->visits = FALSE;
}

/* Of rows of `row_bytes` in all, of which `kept` stay for the backward. In fp32 by steps: a cast, a product, a cast back;
 * backward a cast of the gradient, its product with the weights and a cast of that, its product with the rows and the sum
 * of it, which are kept as cast. */
static void weigh(Build *b, double row_bytes, double kept)
{
  double wide = row_bytes / b->bytes * WIDE, cast = row_bytes + wide;
  Stream stream = { .name = "weigh rows", .forward_bytes = 2 * row_bytes, .forward_kernels = 2,
                    .backward_bytes = 2 * row_bytes + kept, .backward_kernels = 2, .saved = kept };

  if (b->passes->framework->weighs_wide && b->passes->dispatch != DISPATCH_HYBRID)
    stream = (Stream) { .name = "weigh rows", .forward_bytes = 2 * cast + 2 * wide, .forward_kernels = 3,
                        .backward_bytes = 2 * cast + (2 + 3 + 1) * wide, .backward_kernels = 5, .saved = wide };
  build_stream(b, &stream);
}

/* The way back: by one kernel, or weighed, unless experts did that, and added up by scatter_add. The gradient reads
 * again what is weighed. */
static void unpermute(Build *b, double moved)
{
  double bytes = read_once(b, moved), kept = b->passes->framework->weighs_inside ? 0 : moved / 2;
  gboolean one = b->passes->framework->fused_permutation;

  b->visits = lays_out_there(b);
  if (one) {
    build_stream(b, &(Stream) { .name = "combine", .forward_bytes = bytes, .forward_kernels = 2,
                                .backward_bytes = bytes + kept, .backward_kernels = 2, .saved = kept });
  } else {
    if (!b->passes->framework->weighs_inside)
      weigh(b, moved / 2, kept);
    build_stream(b, &(Stream) { .name = "add rows", .forward_bytes = bytes, .forward_kernels = 2,
                                .backward_bytes = bytes, .backward_kernels = 1 });
  }
  b->visits = FALSE;
}

/* What stays of the choice until the gradient has passed: logits; or weight, expert and place of each copy with where
 * experts begin (exec/experts.c, route_bytes), and what ranks told each other (exec/experts_exchange.c and experts_gather.c,
 * agree). */
static double route_saved(const Build *b, double rows)
{
  const PassLayout *p = b->passes;
  const FeedForward *f = &b->spec->ffn;
  double copy = dtype_bytes[DTYPE_FP32] + 2 * sizeof(gint32), row = copy * f->experts_per_token;
  double own = rows * row + (f->experts + 1) * sizeof(gint32);

  if (!p->framework->executor_memory)
    return ROUTER_BYTES * rows * f->experts;
  if (!p->experts_apart)
    return own;
  if (p->dispatch != DISPATCH_GATHER)
    return own + p->etp * f->experts * sizeof(gint32);
  return own + rows * b->expert_block.size * row + (f->experts / p->ep + 1) * sizeof(gint32);
}

/* Choosing experts and sorting rows for them, of which one may be recorded without the other: the choice is the router's,
 * wherever rows are sorted (Megatron Core's route()). */
static void choose_and_sort(Build *b, const Stream *choice, const Stream *sorting)
{
  guint part = b->part, recorded = b->passes->recorded;
  gboolean apart = recorded & RECORDS_ROUTER && !(recorded & part);
  Stream both = *choice;

  if (apart) {
    b->part = RECORDS_ROUTER;
    build_stream(b, choice);
    b->part = part;
    build_stream(b, sorting);
    return;
  }
  both.forward_bytes += sorting->forward_bytes;
  both.backward_bytes += sorting->backward_bytes;
  both.forward_kernels += sorting->forward_kernels;
  both.backward_kernels += sorting->backward_kernels;
  both.forward_operations += sorting->forward_operations;
  both.backward_operations += sorting->backward_operations;
  build_stream(b, &both);
}

/* Top-k of `rows` tokens, and `moved` bytes to the places from which their experts read them. How many rows each expert
 * gets the host reads back before it issues what works on them, unless each gets its capacity: splits of exchanges and
 * of grouped products are lists of the host (Megatron Core 0.17, token_dispatcher.py, experts.py; HybridEP's blocking
 * dispatch drains the stream for the same reason, NVIDIA-NeMo/Automodel#3931). */
static void dispatch(Build *b, double rows, double moved)
{
  double map = rows * b->spec->ffn.experts, logits = ROUTER_BYTES * map; /* who goes where: a byte of each */
  int permutes = moved > 0 && b->passes->framework->fused_permutation; /* one of the operations */
  int sorts = sort_operations[b->passes->experts_apart ? b->passes->dispatch : DISPATCH_ALL_TO_ALL];
  int sorts_back = moved > 0 ? SORT_BACKWARD_OPERATIONS : 0;
  gboolean steps = !b->passes->framework->compiled_norms && !b->passes->framework->executor_memory;

  choose_and_sort(b, &(Stream) { .name = "dispatch", .forward_bytes = 2 * logits - map,
                                 .forward_kernels = steps ? ROUTER_OPERATIONS : 3,
                                 .backward_bytes = 2 * logits - map,
                                 .backward_kernels = steps ? ROUTER_BACKWARD_OPERATIONS : 2 - permutes,
                                 .saved = route_saved(b, rows), .forward_operations = ROUTER_OPERATIONS,
                                 .backward_operations = ROUTER_BACKWARD_OPERATIONS },
                  &(Stream) { .name = "sort choices", .forward_bytes = map,
                              .forward_kernels = (steps ? sorts : 1) - permutes,
                              .backward_bytes = map, .backward_kernels = steps ? sorts_back - permutes : 0,
                              .forward_operations = sorts - permutes,
                              .backward_operations = sorts_back - permutes });
  permute(b, moved);
  b->part = 1u << RECORDED_MOE;
  b->counted = !b->passes->expert_rows_known;
}

/* Their input is the router's. */
static Mlp shared_mlp(const Build *b, gboolean inside)
{
  double rows = inside ? b->tokens : b->rows;

  return (Mlp) { .up = "shared up", .down = "shared down", .outer = b->hidden,
                 .width = b->spec->ffn.shared_width / b->tp, .batch = 1, .rows = b->tokens,
                 .saved = b->bytes * rows * b->hidden, .module = MODULE_SHARED_EXPERTS,
                 .kept = TRUE, .inside = inside };
}

/* Whether they are built between the other ops. */
static gboolean shared_beside(const Build *b)
{
  return b->passes->overlap_experts && b->spec->ffn.shared_width > 0;
}

static void shared(Build *b, gboolean inside)
{
  const FeedForward *f = &b->spec->ffn;
  Mlp mlp = shared_mlp(b, inside);

  b->part = RECORDS_ROUTER;
  if (f->shared_width && !shared_beside(b))
    build_mlp(b, &mlp);
  b->part = 1u << RECORDED_MOE;
  build_params(b, f->shared_gate ? b->hidden : 0);
}

/* The products of `local` experts, of their part of each, on `rows` in all and what fills them up. */
static void expert_mlp(Build *b, double rows, int local, double width)
{
  double all = rows + local * build_filling_rows(b, rows / local);

  b->filling = 1 - rows / all;
  build_mlp(b, &(Mlp) { .up = "experts up", .down = "experts down", .outer = b->routed, .width = width, .batch = local,
                        .rows = all / local, .saved = b->bytes * all * b->routed, .module = MODULE_MOE_ACT,
                        .inside = TRUE });
  b->filling = 0;
}

/* Every device holds 1/tp of each expert and all of the tokens: none is busier, and experts drop rows alike. */
static void experts_whole(Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  double routed = b->tokens * f->experts_per_token * pass_expert_rows(b->passes), row_bytes = b->bytes * b->routed;

  build_entry(b);
  router(b, b->tokens);
  dispatch(b, b->tokens, 2 * routed * row_bytes);
  b->visits = TRUE;
  build_padding(b, "pad rows", routed, TRUE);
  expert_mlp(b, routed, f->experts, f->width / b->tp);
  build_padding(b, "unpad rows", routed, FALSE);
  b->visits = FALSE;
  unpermute(b, 2 * routed * row_bytes);
  leave_latent(b, b->tokens);
  shared(b, TRUE);
  build_exit(b);
  if (b->passes->sequence_parallel) /* of the rows that are kept, for the router's weights and the shared experts' */
    build_backward_collective(b, "gather rows again", COLLECTIVE_ALL_GATHER, b->tokens * b->bytes * b->hidden,
                              PASS_WEIGHT, FALSE);
}

/* Each expert's output bias, times the probability of the row: in fp32 one expert after another, joined and cast back
 * (Megatron Core's TEGroupedMLP._apply_bias, with probabilities in fp32). Backward the gradient is cast up and down,
 * both factors' gradients are a product and a sum, that of the bias is cast, and rows' and probabilities' gradients are
 * joined (traced, PyTorch 2.15). Both products with the bias, the sum and the cast up read another type than they
 * compute in, which PyTorch converts value by value (CUDALoops.cuh, gpu_kernel_impl()). Grouped kernels add it as they
 * go, and one kernel reads the gradient of all (Transformer Engine 2.15, ops/fused/forward_grouped_mlp.py; backward). */
static void output_bias(Build *b, double tokens, int local)
{
  double elements = tokens * b->routed, e = b->bytes, wide = dtype_bytes[DTYPE_FP32];

  if (build_groups(b)) {
    build_stream(b, &(Stream) { .name = "experts bias", .backward_bytes = e * elements, .backward_kernels = 1 });
    return;
  }
  build_stream(b, &(Stream) { .name = "experts bias in fp32", .kernel = "mixed types",
                              .forward_bytes = (3 * wide + e) * elements, .forward_kernels = 2 * local,
                              .backward_bytes = (3 * wide + e) * elements, .backward_kernels = local + 1 });
  build_stream(b, &(Stream) { .name = "experts bias", .forward_bytes = (3 * wide + e) * elements,
                              .forward_kernels = 2, .backward_bytes = (5 * wide + 3 * e) * elements,
                              .backward_kernels = 5 * local + 2, .forward_operations = 5,
                              .backward_operations = 4 * local });
}

/* This rank's experts on `tokens` of them in all, the weights counted as experts'. */
static void local_experts(Build *b, double tokens)
{
  const FeedForward *f = &b->spec->ffn;
  int local = f->experts / b->passes->ep;
  double before = b->work->params, whole = b->work->whole, states = b->work->state_bytes[0];
  double narrow = b->work->narrow[0];
  Frozen frozen = b->work->frozen[0];
  guint first = b->work->matrices ? b->work->matrices->len : 0;

  b->experts = b->visits = TRUE;
  build_padding(b, "pad rows", tokens, TRUE);
  expert_mlp(b, tokens, local, (double)f->width / b->passes->etp);
  if (f->bias)
    output_bias(b, tokens, local);
  build_padding(b, "unpad rows", tokens, FALSE);
  b->experts = b->visits = FALSE;
  b->work->expert_params += b->work->params - before;
  b->work->params = before;
  b->work->narrow[1] += b->work->narrow[0] - narrow;
  b->work->narrow[0] = narrow;
  b->work->frozen[1].params += b->work->frozen[0].params - frozen.params;
  b->work->frozen[1].bytes += b->work->frozen[0].bytes - frozen.bytes;
  b->work->frozen[0] = frozen;
  b->work->whole = whole;
  b->work->state_bytes[1] += b->work->state_bytes[0] - states;
  b->work->state_bytes[0] = states;
  for (guint i = first; b->work->matrices && i < b->work->matrices->len; i++)
    g_array_index(b->work->matrices, OpMatrix, i).experts = TRUE;
}

/* Tokens that arrived by rank, laid out by expert; the same kernel lays them back. `taken`: by indexing, where
 * PyTorch's does it. */
static void sort(Build *b, const char *name, double tokens, gboolean taken)
{
  double bytes = 2 * b->bytes * tokens * b->routed;
  gboolean indexed = taken && b->passes->framework->sorts_by_index;

  b->visits = TRUE;
  if (b->spec->ffn.experts > b->passes->ep && b->passes->dispatch != DISPATCH_HYBRID)
    build_stream(b, &(Stream) { .name = name, .kernel = indexed ? "take rows" : NULL, .forward_bytes = bytes,
                                .forward_kernels = indexed ? 2 : 1, .backward_bytes = bytes,
                                .backward_kernels = indexed ? 2 : 1 });
  b->visits = FALSE;
}

/* Where the lists of ops stood. */
typedef struct {
  guint forward, backward;
} Mark;

static Mark mark(const Build *b)
{
  return (Mark) { b->work->forward->len, b->work->backward->len };
}

static Op *forward_op(Build *b, guint i)
{
  return &g_array_index(b->work->forward, Op, i);
}

static Op *backward_op(Build *b, guint i)
{
  return &g_array_index(b->work->backward, Op, i);
}

/* Moves the op at `from` to `to`, a later place. */
static void move_op(GArray *ops, guint from, guint to)
{
  Op op = g_array_index(ops, Op, from);

  g_array_remove_index(ops, from);
  g_array_insert_val(ops, to, op);
}

/* In plans that want it, builds a part of the shared experts beside the exchanges since `before`. These start
 * first, each way, behind the part's own gathering of rows. Backward the op before them waits, forward the
 * one whose place is returned is to. */
static guint build_beside(Build *b, Mark before, void (*part)(Build *, const Mlp *))
{
  guint exchanges = b->work->forward->len - before.forward;
  guint start = b->work->forward->len, stop;
  Mlp mlp = shared_mlp(b, FALSE);

  if (!shared_beside(b))
    return start;
  for (guint i = 0; i < exchanges; i++)
    forward_op(b, before.forward + i)->async = backward_op(b, before.backward + i)->async = TRUE;
  backward_op(b, before.backward - 1)->joins = TRUE;
  part(b, &mlp);
  stop = b->work->backward->len;
  while (forward_op(b, start)->kind == OP_COLLECTIVE)
    start++;
  while (backward_op(b, stop - 1)->kind == OP_COLLECTIVE)
    stop--;
  for (guint i = 0; i < exchanges; i++) {
    move_op(b->work->forward, before.forward, start - 1);
    move_op(b->work->backward, before.backward, stop - 1);
  }
  return b->work->forward->len;
}

#define COUNT_BYTES 8       /* of a number of rows */
#define PROBABILITY_BYTES 4 /* of a row's, which comes of the router's logits */

/* What ranks tell each other before rows go: how many for each expert, unless all get their capacity. */
static void exchange_counts(Build *b)
{
  double experts = b->spec->ffn.experts;

  if (b->passes->framework->routes_apart && !b->passes->expert_rows_known)
    build_forward_exchange(b, "gather counts", COLLECTIVE_ALL_GATHER, COUNT_BYTES * experts * b->expert_block.size,
                           &b->expert_block);
}

/* And what the rows that were sent weigh. */
static void exchange_probabilities(Build *b, double received)
{
  double bytes = PROBABILITY_BYTES * received;

  if (!b->passes->framework->routes_apart)
    return;
  build_exchange(b, "dispatch probabilities", COLLECTIVE_ALL_TO_ALL, bytes, &b->expert);
  build_exchange(b, "gather probabilities", COLLECTIVE_ALL_GATHER, bytes * b->passes->etp, &b->expert_tensor);
}

/* Rows of tokens go to the experts' ranks, or come back. */
static void exchange_rows(Build *b, Way way, double bytes)
{
  build_exchange(b, way == WAY_THERE ? "dispatch tokens" : "return tokens", COLLECTIVE_ALL_TO_ALL, bytes, &b->expert);
  if (b->expert.size > 1)
    forward_op(b, b->work->forward->len - 1)->collective.way =
      backward_op(b, b->work->backward->len - 1)->collective.way = way;
}

/* Each rank sends the rows of its own tokens to the ranks of their experts, whose tensor-parallel group
 * gathers them. Shared experts' first products may run beside the way there, their second one beside the
 * way back, as Megatron Core does it (moe_shared_expert_overlap). */
static void by_all_to_all(Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  double etp = b->passes->etp, routed = b->rows * f->experts_per_token;
  double received = routed * b->passes->expert_tokens, row_bytes = b->bytes * b->routed;

  routed *= b->passes->expert_copies;
  router(b, b->rows);
  exchange_counts(b);
  dispatch(b, b->rows, 2 * routed * row_bytes);
  Mark there = mark(b);
  exchange_rows(b, WAY_THERE, received * row_bytes);
  build_exchange(b, "gather tokens", COLLECTIVE_ALL_GATHER, etp * received * row_bytes, &b->expert_tensor);
  exchange_probabilities(b, received);
  guint next = build_beside(b, there, build_mlp_up);
  sort(b, "sort tokens", etp * received, TRUE);
  local_experts(b, etp * received);
  forward_op(b, next)->joins = TRUE;
  sort(b, "sort back", etp * received, FALSE);
  Mark back = mark(b);
  build_exchange(b, "sum tokens", COLLECTIVE_REDUCE_SCATTER, etp * received * row_bytes, &b->expert_tensor);
  exchange_rows(b, WAY_BACK, received * row_bytes);
  next = build_beside(b, back, build_mlp_down);
  unpermute(b, 2 * routed * row_bytes);
  forward_op(b, next)->joins = TRUE;
  b->work->transient_bytes = MAX(b->work->transient_bytes, (routed + (1 + etp) * received) * row_bytes);
}

/* Rows that a rank's tokens are sent as: once to each place, once to each rank, and as they lie for experts. */
typedef struct {
  double sent, delivered, received;
} PlacedRows;

/* What HybridEP sends beside a row: a weight of every expert of the place, whether the token goes there or not (DeepEP,
 * branch hybrid-ep, hybrid_ep_backend.cuh: NUM_OF_EXPERTS_PER_RANK * NUM_OF_RANKS_PER_NODE floats). */
static double hybrid_weights_bytes(const Build *b)
{
  return ROUTER_BYTES * (double)b->spec->ffn.experts / b->expert.size * build_ranks_of_place(b);
}

/* Before HybridEP sends rows all ranks learn where each other's go, a byte for each token and expert, and a kernel
 * reads twice what concerns experts of the own place (executor.cu: allgather_routing_map; hybrid_ep_backend.cuh:
 * scan). Then the host asks for the counts. Gradients take the places that were found. */
static void gather_routes(Build *b)
{
  double all = b->rows * b->spec->ffn.experts * b->expert.size;
  gboolean counted = b->counted;

  if (b->passes->dispatch != DISPATCH_HYBRID || b->expert.size < 2)
    return;
  b->counted = FALSE;
  build_forward_exchange(b, "gather routes", COLLECTIVE_ALL_GATHER, all, &b->expert);
  build_stream(b, &(Stream) { .name = "scan routes", .forward_kernels = 1,
                              .forward_bytes = 2 * all * build_ranks_of_place(b) / b->expert.size });
  b->counted = counted;
}

/* An exchange by kernels that send each row once to a place: there with the routing weights, back to their own ranks
 * summed up. The backward pass goes the other way. */
static void exchange_by_place(Build *b, Way way, const PlacedRows *rows)
{
  gboolean weighed = way == WAY_THERE;
  double row_bytes = b->bytes * b->routed;
  gboolean hybrid = b->passes->dispatch == DISPATCH_HYBRID;
  double each = row_bytes + (hybrid && weighed ? hybrid_weights_bytes(b) : 0);
  Op *ops[2];

  exchange_rows(b, way, rows->sent * each);
  if (b->expert.size < 2)
    return;
  ops[0] = forward_op(b, b->work->forward->len - 1);
  ops[1] = backward_op(b, b->work->backward->len - 1);
  for (int i = 0; i < 2; i++) {
    ops[i]->collective.hybrid = hybrid;
    ops[i]->collective.rows = hybrid ? 0 : rows->delivered;
    ops[i]->collective.row_bytes = row_bytes;
    ops[i]->collective.sms = DEEPEP_SMS;
    ops[i]->collective.copied = row_bytes / each * (1 + rows->received / rows->delivered) / 2;
    ops[i]->collective.chunks = build_chunks_sent(b, rows->sent, weighed == (i == 1));
    ops[i]->collective.quiets = build_other_nodes(b) * b->passes->framework->flex_quiets;
  }
}

/* Calls of HybridEP sum a token's rows as they lay them out (combine_with_unpermute of Megatron Core's fused_a2a.py and
 * torchtitan's hybridep.py), unweighed: what experts do not weigh is weighed before, by torchtitan in 16 bits. */
static void combine(Build *b, double row_bytes)
{
  if (b->passes->dispatch != DISPATCH_HYBRID) {
    unpermute(b, 2 * row_bytes);
  } else if (!b->passes->framework->weighs_inside) {
    b->visits = TRUE;
    weigh(b, row_bytes, row_bytes);
    b->visits = FALSE;
  }
}

/* Which experts rows of DeepEP are for, by masks whose sizes the host asks for (Megatron Core, _indices_to_multihot()). */
static void index_received(Build *b, double rows, double received)
{
  const FeedForward *f = &b->spec->ffn;
  double bytes = rows * (12.0 * f->experts_per_token + 21.0 * f->experts / b->passes->ep) + 160 * received;

  if (b->passes->dispatch != DISPATCH_FLEX || !b->passes->framework->indexes_received || b->expert.size < 2)
    return;
  b->counted = TRUE;
  build_stream(b, &(Stream) { .name = "index received rows", .forward_bytes = bytes, .backward_bytes = bytes / 2,
                              .forward_kernels = 19, .forward_operations = 12, .backward_kernels = 10,
                              .backward_operations = 6 });
  backward_op(b, b->work->backward->len - 1)->counted = TRUE;
}

/* As by_all_to_all, but each row goes to each place once; no copies are laid out before. */
static void by_place(Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  double etp = b->passes->etp, routed = b->rows * f->experts_per_token;
  double received = routed * b->passes->expert_tokens, row_bytes = b->bytes * b->routed;
  double tokens = b->rows * b->passes->expert_tokens;
  const PlacedRows rows = { .sent = tokens * build_places_of_token(b), .received = received,
                            .delivered = tokens * build_places_reached(b, b->expert.size) };

  router(b, b->rows);
  dispatch(b, b->rows, 0);
  gather_routes(b);
  exchange_by_place(b, WAY_THERE, &rows);
  index_received(b, rows.delivered, received);
  build_exchange(b, "gather tokens", COLLECTIVE_ALL_GATHER, etp * received * row_bytes, &b->expert_tensor);
  sort(b, "sort tokens", etp * received, TRUE);
  local_experts(b, etp * received);
  combine(b, etp * received * row_bytes);
  build_exchange(b, "sum tokens", COLLECTIVE_REDUCE_SCATTER, etp * received * row_bytes, &b->expert_tensor);
  exchange_by_place(b, WAY_BACK, &rows);
  b->work->transient_bytes = MAX(b->work->transient_bytes, (1 + etp) * received * row_bytes);
}

/* All ranks that hold one copy of the experts gather each other's tokens, take those of their own experts, and sum. */
static void by_gather(Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  double gathered = b->rows * b->expert_block.size, row_bytes = b->bytes * b->routed;
  double received = gathered * f->experts_per_token / b->passes->ep * b->passes->expert_tokens;

  router(b, b->rows);
  b->part = 1u << RECORDED_MOE;
  build_exchange(b, "gather tokens", COLLECTIVE_ALL_GATHER, gathered * row_bytes, &b->expert_block);
  dispatch(b, b->rows, 2 * received * row_bytes);
  local_experts(b, received);
  unpermute(b, 2 * received * row_bytes);
  build_exchange(b, "sum tokens", COLLECTIVE_REDUCE_SCATTER, gathered * row_bytes, &b->expert_block);
  b->work->transient_bytes = MAX(b->work->transient_bytes, (2 * gathered + received) * row_bytes);
}

static void (*const dispatchers[DISPATCH_COUNT])(Build *) = {
  [DISPATCH_ALL_TO_ALL] = by_all_to_all,
  [DISPATCH_GATHER] = by_gather,
  [DISPATCH_FLEX] = by_place,
  [DISPATCH_HYBRID] = by_place,
};

static void experts_apart(Build *b)
{
  dispatchers[b->passes->dispatch](b);
  leave_latent(b, b->rows);
  shared(b, FALSE);
}

void build_experts(Build *b)
{
  b->part = 1u << RECORDED_MOE;
  b->redone |= 1u << MODULE_MOE;
  if (b->passes->experts_apart)
    experts_apart(b);
  else
    experts_whole(b);
  build_leave(b, MODULE_MOE);
}
