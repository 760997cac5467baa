#include "cost/price.h"

#include "cost/algorithms.h"
#include "cost/chunks.h"
#include "cost/kernel.h"
#include "cost/offload.h"
#include "cost/orthogonal.h"
#include "cost/slowest.h"

#include <math.h>

/* Of the rate of products that the framework's libraries reach. */
static double product_share(const Device *device, const Framework *framework, const Matmul *matmul)
{
  const Kernels *kernels = &device->kernels;
  double unaligned = kernels->early_unaligned_share[matmul->dtype];

  if (framework->cuda_version >= kernels->early_cuda_version)
    return 1;
  return kernels->early_product_share *
         (unaligned > 0 && matmul->activations && matmul_alignment(matmul) != ALIGNED_FULLY ? unaligned : 1);
}

/* What takes a collective that long by the library, by kernels of its own. */
static double exchange_kernel_s(const Op *op, const Cluster *cluster, double library_s)
{
  const DispatchModel *model = &cluster->device.kernels.dispatch;
  double link_s = op->collective.sms > 0 ? dispatch_link_s(cluster, op->collective.bytes, &op->collective.group,
                                                           op->collective.hybrid, library_s) : library_s;

  if (op->collective.hybrid)
    return link_s * (1 + (model->hybrid_slowdown - 1) * op->collective.copied);
  link_s = fmax(link_s, dispatch_proxy_s(cluster, &op->collective.group, op->collective.chunks));
  return dispatch_quiet_s(cluster, &op->collective.group, op->collective.quiets) +
         fmax(link_s, dispatch_s(model, op->collective.rows, op->collective.row_bytes, op->collective.sms));
}

static AttentionWork attention_work(const Op *op, const PassLayout *passes)
{
  return (AttentionWork) {
    .batch = op->attention.batch, .heads = op->attention.heads,
    .q_len = op->attention.q_len, .kv_len = op->attention.kv_len,
    .whole_len = op->attention.whole_len,
    .head_dim = op->attention.head_dim, .v_head_dim = op->attention.v_head_dim,
    .causal = op->attention.causal, .dropout = op->attention.dropout, .backward = op->pass != PASS_FORWARD,
    .kernel = passes->attention, .dtype = op->attention.dtype,
  };
}

double op_least_s(const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  const Device *device = &cluster->device;

  if (op->kind == OP_MATMUL)
    return 2 * op->matmul.m * op->matmul.n * op->matmul.k * op->matmul.batch /
           matmul_peak_flops_per_s(device, op->matmul.dtype);
  if (op->kind != OP_ATTENTION)
    return 0;
  AttentionWork work = attention_work(op, passes);
  return attention_flops(&work) / attention_peak_flops_per_s(device, &work);
}

static double kernel_s(const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  const Device *device = &cluster->device;
  AttentionWork attention;
  Matmul matmul;

  switch (op->kind) {
  case OP_MATMUL:
    matmul = (Matmul) { op->matmul.m, op->matmul.n, op->matmul.k, op->matmul.batch, op->matmul.dtype,
                        op->matmul.activations, op->matmul.accumulate_bytes, op->matmul.block, op->matmul.bytes,
                        op->matmul.batch > 1 && !op->matmul.activations && op->matmul.loops == 0, op->matmul.loops,
                        op->matmul.promoted, op->pass == PASS_WEIGHT ? PRODUCT_WEIGHT_GRADIENT
                        : op->pass == PASS_INPUT ? PRODUCT_INPUT_GRADIENT : PRODUCT_FORWARD };
    return matmul_s(device, &matmul) / product_share(device, passes->framework, &matmul);
  case OP_ATTENTION:
    attention = attention_work(op, passes);
    return attention_s(device, &attention);
  case OP_MEMORY:
    return named_memory_s(device, op_kernel(op), op->pass != PASS_FORWARD, op->memory.bytes, op->memory.kernels,
                          op->flops);
  default:
    return exchange_kernel_s(op, cluster, collective_cost(cluster, op->collective.what, op->collective.bytes,
                                                         &op->collective.group).seconds) +
           (op->collective.group.size > 1 ? passes->framework->collective_s : 0);
  }
}

double op_s(const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  double seconds = kernel_s(op, passes, cluster);

  g_assert(seconds * (1 + 1e-9) >= op_least_s(op, passes, cluster)); /* files cannot say otherwise (kernels.c) */
  return seconds;
}

static double memory_crowding(const Kernels *kernels, const char *name, gboolean backward)
{
  const MemoryKernel *kernel = memory_kernel(kernels, name, backward);
  return kernel ? kernel->crowding : kernels->memory_crowding;
}

double op_crowding(const Op *op, const Cluster *cluster)
{
  const Kernels *kernels = &cluster->device.kernels;

  switch (op->kind) {
  case OP_MATMUL:
    return kernels->matmul[op->matmul.dtype].crowding;
  case OP_ATTENTION:
    return kernels->attention_crowding;
  case OP_MEMORY:
    return memory_crowding(kernels, op_kernel(op), op->pass != PASS_FORWARD);
  default:
    return 1;
  }
}

/* Ops in a row that the host issues one after the other, and the device runs as they are issued and in order. */
typedef struct {
  double host_s, device_s; /* of each, alone */
  double both_s;           /* until the device is done, where both begin together */
} Issued;

static void issue(Issued *run, double host_s, double device_s)
{
  run->host_s += host_s;
  run->both_s = MAX(run->both_s, run->host_s) + device_s;
  run->device_s += device_s;
}

/* Of the ops of `a` and then those of `b`. */
static double issued_both_s(const Issued *a, const Issued *b)
{
  return MAX(a->both_s + b->device_s, a->host_s + b->both_s);
}

enum { BEFORE, BETWEEN, BEHIND, STRETCHES }; /* of a layer's pass, about its two exchanges of rows */

/* Two lanes while a pass is laid out. */
typedef struct {
  PassPrice *price;
  double compute_end, tensor_end;
  double slowdown; /* of computation beside the last collective */
  Axis axis;       /* of that */
  const PassLayout *passes;
  Pass pass;
  Issued first, run; /* ops before the host first waits for the device; since it last did, or all */
  double waited_s;   /* between waits of the host */
  gboolean waits;
  double exchange_s[2]; /* of experts' ranks, that run beside passes of other micro-batches: the pass's first, second */
  double stretch_s[STRETCHES], weight_s[STRETCHES]; /* of computation; of it, weights' gradients */
  int stretch;
  double slowed_s; /* of computation, what it is slower beside these exchanges */
  double exchange_slowdown; /* of computation beside it */
  double slowest;    /* LayerTimes' */
  PassParts *parts;  /* NULL = nobody asks */
  const Cluster *cluster;
} Lanes;

double op_issue_s(const Op *op, const Framework *f, const Device *device)
{
  if (f->operation_s > 0)
    return op_operations(op, f) * f->operation_s * device->host_slowdown;
  return op->kind == OP_COLLECTIVE ? 0 : (op->kind == OP_MEMORY ? op->memory.kernels : 1) * f->issue_s;
}

/* Computation waits for the communication lane. */
static void join(Lanes *l)
{
  double waited = MAX(0, l->tensor_end - l->compute_end);

  l->compute_end += waited;
  l->price->context_s += l->axis == AXIS_CONTEXT ? waited : 0;
  l->price->expert_s += l->axis == AXIS_EXPERT ? waited : 0;
}

/* How long computation takes that needs `seconds` alone. */
static double beside_tensor_lane(const Lanes *l, double seconds)
{
  double busy = l->tensor_end - l->compute_end;

  if (busy <= 0)
    return seconds;
  return MIN(seconds * l->slowdown, seconds + busy * (1 - 1 / l->slowdown));
}

/* Whether tokens travel beside a pass of another micro-batch; what recomputation exchanges again does not: no forward
 * of its own is in flight. */
static gboolean is_beside(const Lanes *l, const Op *op)
{
  return l->passes->overlap_exchange && op->kind == OP_COLLECTIVE && op->collective.axis == AXIS_EXPERT &&
         (op->pass == PASS_FORWARD) == (l->pass == PASS_FORWARD);
}

/* The host waits until the device has done all that was issued. */
static void drain(Lanes *l)
{
  if (l->waits)
    l->waited_s += l->run.both_s;
  else
    l->first = l->run;
  l->waits = TRUE;
  l->run = (Issued) { 0 };
}

/* Of an op that takes so long alone, and that long beside the rest. */
static void note_computed(const Lanes *l, const Op *op, double share, double alone_s, double taken_s)
{
  static const ComputePart kinds[] = { [OP_MATMUL] = COMPUTE_PRODUCTS, [OP_ATTENTION] = COMPUTE_ATTENTION,
                                       [OP_MEMORY] = COMPUTE_MEMORY };
  gboolean again = op->pass == PASS_FORWARD && l->pass != PASS_FORWARD;
  ComputePart kind = again ? COMPUTE_AGAIN : kinds[op->kind];
  double mean_s = alone_s / l->slowest, spare = again ? 0 : op->spare;
  PassParts *p = l->parts;

  p->seconds[COMPUTE_SLOWED] += taken_s - alone_s;
  p->seconds[COMPUTE_SLOWEST] += alone_s - mean_s;
  p->seconds[kind] += (1 - spare) * mean_s;
  p->seconds[COMPUTE_UNEVEN] += spare * mean_s;
  if (kind < (int)G_N_ELEMENTS(p->peak_s))
    p->peak_s[kind] += (1 - spare) * share * op_least_s(op, l->passes, l->cluster);
}

static void note_exchanged(PassParts *parts, Axis axis, double seconds)
{
  parts->context_s += axis == AXIS_CONTEXT ? seconds : 0;
  parts->expert_s += axis == AXIS_EXPERT ? seconds : 0;
}

/* Of a ScheduleNode of Megatron Core's schedule of two passes, without what it calls, in times of a torch.nn.Linear
 * (tests/bench/pytorch_host_operations.py): the same from Core 0.14 to 0.17, and of no other engine. */
#define NODE_OPERATIONS 1.5
#define NODE_BACKWARD_OPERATIONS 2.5

/* An exchange beside another pass is such a node, and so is what computes behind it. */
static double nodes_issue_s(const Lanes *l, const Op *op)
{
  double each = op->pass == PASS_FORWARD ? NODE_OPERATIONS : NODE_BACKWARD_OPERATIONS;
  gboolean runs = op->collective.way != WAY_NONE && !op_is_recorded(op, l->passes);

  return runs ? 2 * each * l->passes->framework->operation_s * l->cluster->device.host_slowdown : 0;
}

static void lay_op(Lanes *l, const Op *op, const OpTime *time, double share)
{
  PassPrice *p = l->price;
  double seconds = share * time->seconds, host_s = op_is_recorded(op, l->passes) ? 0 : share * time->issue_s;
  double before_s = l->compute_end, first_s = 0;
  gboolean beside = is_beside(l, op), waited = op->kind == OP_COLLECTIVE && !beside && !op_is_async(op, l->passes);

  /* an exchange whose kernels ask whether all is done before they count rows, which is what the host waits for */
  if (waited && op->counted)
    first_s = share * dispatch_quiet_s(l->cluster, &op->collective.group, op->collective.quiets);
  host_s += beside ? share * nodes_issue_s(l, op) : 0;
  p->host_s += host_s;
  issue(&l->run, 0, first_s);
  if (op->counted)
    drain(l);
  if (op->joins)
    join(l);
  if (beside) {
    gboolean second = (op->collective.way == WAY_BACK) == (l->pass == PASS_FORWARD);
    l->exchange_s[second] += seconds;
    l->exchange_slowdown = time->slowdown;
    l->stretch = op->collective.way == WAY_NONE ? l->stretch : second ? BEHIND : BETWEEN;
    p->tensor_s += seconds;
  } else if (op->kind == OP_COLLECTIVE) {
    l->slowdown = time->slowdown;
    l->tensor_end = MAX(l->tensor_end, l->compute_end) + seconds;
    l->axis = op->collective.axis;
    p->tensor_s += seconds;
    if (waited) {
      l->tensor_end -= share * chunks_hidden_s(time, op->collective.group.size);
      join(l);
    }
  } else {
    double alone_s = seconds;
    seconds = beside_tensor_lane(l, seconds);
    if (l->parts)
      note_computed(l, op, share, alone_s, seconds);
    l->compute_end += seconds;
    p->compute_s += seconds;
    p->crowded_s += seconds * (time->crowding - 1);
  }
  if (l->parts && op->kind == OP_COLLECTIVE)
    note_exchanged(l->parts, op->collective.axis, seconds);
  l->stretch_s[l->stretch] += l->compute_end - before_s;
  l->weight_s[l->stretch] += op->pass == PASS_WEIGHT ? l->compute_end - before_s : 0;
  issue(&l->run, host_s, l->compute_end - before_s - first_s);
  p->flops += share * op->flops;
}

/* The pass ends, but for its wait for what travels beside others. */
static void settle(Lanes *l)
{
  double before_s = l->compute_end, exchange_s = l->exchange_s[0] + l->exchange_s[1];

  join(l);
  l->stretch_s[l->stretch] += l->compute_end - before_s;
  issue(&l->run, 0, l->compute_end - before_s);

  double slowed = MIN(exchange_s, l->compute_end) * (1 - 1 / l->exchange_slowdown);
  double slower = l->compute_end > 0 ? 1 + slowed / l->compute_end : 1;
  for (int i = 0; i < STRETCHES; i++) {
    l->stretch_s[i] *= slower;
    l->weight_s[i] *= slower;
  }
  l->slowed_s = slowed;
  l->compute_end += slowed;
  l->price->compute_s += slowed;
  if (l->parts)
    l->parts->seconds[COMPUTE_SLOWED] += slowed;
}

/* A backward's gradients of inputs and then of weights, and a forward's computation, on one lane; on the other, what
 * the forward needs and then what the next backward does, which has its rows once the gradients of inputs are there. */
static double two_exchanges_s(double inputs_s, double weights_s, double forward_s, double first_s, double second_s)
{
  return MAX(MAX(inputs_s + weights_s, first_s) + forward_s, MAX(inputs_s, first_s) + second_s);
}

/* What a forward and the backward of another micro-batch wait for exchanges, layer by layer in the order of Megatron
 * Core's TransformerLayerSchedulePlan.run(): rows go to the experts beside the experts' backward, their gradients come
 * from there beside the experts' forward; rows come back beside what the backward has before the experts, their
 * gradients go beside what the forward has. */
static double exposed_s(const Lanes *f, const Lanes *b)
{
  double behind_s = b->weight_s[BEHIND], between_s = b->weight_s[BETWEEN];
  double inner_s = two_exchanges_s(b->stretch_s[BETWEEN] - between_s, between_s, f->stretch_s[BETWEEN],
                                   f->exchange_s[0], b->exchange_s[1]);
  double outer_s = two_exchanges_s(b->stretch_s[BEHIND] - behind_s + b->stretch_s[BEFORE], behind_s,
                                   f->stretch_s[BEFORE] + f->stretch_s[BEHIND], f->exchange_s[1], b->exchange_s[0]);
  double computed_s = f->compute_end + b->compute_end, exposed = inner_s + outer_s - computed_s;
  return exposed > 1e-12 * computed_s ? exposed : 0; /* less is rounding, of the same sums in another order */
}

/* What a pass takes that the host issues, in a row of its like: host or device, whichever takes longer; where the
 * host waits for the device, the device stands still behind that until the host has issued more. */
static double issued_s(const Lanes *l)
{
  return l->waits ? l->waited_s + issued_both_s(&l->run, &l->first) : l->run.host_s;
}

/* Behind settle(): the pass waits for so long a part of exposed_s(). */
static void finish(Lanes *l, double waited_s)
{
  PassPrice *p = l->price;

  p->expert_s += waited_s;
  p->seconds = l->compute_end + waited_s;
  p->idle_s = fmax(0, issued_s(l) - p->seconds);
  p->slack_s = l->waits ? 0 : p->idle_s;
  p->compute_s += p->idle_s;
  if (l->parts)
    l->parts->seconds[COMPUTE_HOST] += p->idle_s;
  p->seconds += p->idle_s;
  double alone_s = l->compute_end - l->slowed_s + l->exchange_s[0] + l->exchange_s[1];
  p->alone_s = MAX(0, MAX(alone_s, issued_s(l)) - p->seconds);
}

/* Of what a pass and its partner wait together. */
static double share_of_wait(const Lanes *l, const Lanes *partner)
{
  double own_s = l->exchange_s[0] + l->exchange_s[1], other_s = partner->exchange_s[0] + partner->exchange_s[1];
  gboolean forward = l->pass == PASS_FORWARD;

  return own_s > 0 ? own_s / (own_s + other_s) * exposed_s(forward ? l : partner, forward ? partner : l) : 0;
}

typedef struct {
  const LayerWork *work;
  const PassLayout *passes;
  const Cluster *cluster;
  const LayerTimes *times;
  Lanes lanes; /* of the pass that is priced */
  GArray *ops;   /* PassOp of it, NULL = not wanted */
} Priced;

static void describe_op(const Priced *w, const Op *op, double op_seconds, double share)
{
  PassOp described = { .op = *op, .share = share, .seconds = share * op_seconds };

  described.op.async = op_is_async(op, w->passes);
  if (op->kind == OP_COLLECTIVE)
    described.cost = collective_cost(w->cluster, op->collective.what, op->collective.bytes, &op->collective.group);
  g_array_append_val(w->ops, described);
}

static void price_op(gpointer data, const Op *op, double share)
{
  Priced *w = data;
  gboolean forward = op->pass == PASS_FORWARD;
  const GArray *ops = forward ? w->work->forward : w->work->backward;
  const OpTime *times = forward ? w->times->forward : w->times->backward;
  const OpTime *time = &times[op - (const Op *)ops->data];

  lay_op(&w->lanes, op, time, share);
  if (w->ops)
    describe_op(w, op, time->seconds, share);
}

static void price_pass(Priced *w, Pass pass, PassPrice *price, PassParts *parts)
{
  w->lanes = (Lanes) { .price = price, .slowdown = 1, .passes = w->passes, .pass = pass, .exchange_slowdown = 1,
                       .slowest = w->times->slowest, .parts = parts, .cluster = w->cluster };
  layer_work_pass(w->work, w->passes, pass, price_op, w);
  settle(&w->lanes);
}

static OpTime *price_ops(const GArray *ops, const PassLayout *passes, const Cluster *cluster, OpTimes *known)
{
  OpTime *times = g_new(OpTime, ops->len);

  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    times[i] = (OpTime) {
      .seconds = op_times_s(known, op, passes, cluster),
      .crowding = op_crowding(op, cluster),
      .slowdown = op->kind == OP_COLLECTIVE ? overlap_slowdown(cluster, &op->collective.group) : 1,
      .issue_s = op_issue_s(op, passes->framework, &cluster->device),
    };
  }
  return times;
}

static gboolean meets(const Op *op)
{
  return op->kind == OP_COLLECTIVE && op->collective.group.size > 1;
}

/* Seconds of computation between two collectives of a layer's passes. */
static double apart_s(const LayerWork *work, const LayerTimes *t)
{
  const GArray *const passes[] = { work->forward, work->backward };
  const OpTime *const times[] = { t->forward, t->backward };
  double sum = 0;
  int n = 0;

  for (int p = 0; p < 2; p++)
    for (guint i = 0; i < passes[p]->len; i++) {
      const Op *op = &g_array_index(passes[p], Op, i);
      n += meets(op);
      sum += op->kind == OP_COLLECTIVE ? 0 : times[p][i].seconds;
    }
  return sum / MAX(n, 1);
}

/* A core that runs wide vectors at a lower clock takes a while to leave it and to come back: a product loses so much
 * by what lies between it and the product before, in a layer that follows its like. */
static void lose_by_switching(const GArray *ops, const Device *device, OpTime *times)
{
  double between_s = 0;

  for (guint pass = 0; pass < 2 && device->switch_s > 0; pass++) /* the first finds what ends the layer */
    for (guint i = 0; i < ops->len; i++) {
      gboolean product = g_array_index(ops, Op, i).kind == OP_MATMUL;
      double lost_s = device->switch_s * MIN(1, between_s / device->switch_after_s);
      between_s = product ? 0 : between_s + times[i].seconds;
      times[i].seconds += product && pass > 0 ? lost_s : 0;
    }
}

/* Of collectives, what computes beside them. */
static void wait_for_slowest(const GArray *ops, double slowest, OpTime *times)
{
  for (guint i = 0; i < ops->len; i++) {
    times[i].seconds *= g_array_index(ops, Op, i).kind == OP_COLLECTIVE ? 1 : slowest;
    times[i].chunks_s *= slowest;
    times[i].added_s *= slowest;
  }
}

LayerTimes layer_times(const LayerWork *work, const PassLayout *passes, const Cluster *cluster, OpTimes *known)
{
  LayerTimes t = { price_ops(work->forward, passes, cluster, known),
                   price_ops(work->backward, passes, cluster, known), 0, 1 };

  chunks_time(work->forward, passes, cluster, known, t.forward);
  chunks_time(work->backward, passes, cluster, known, t.backward);
  lose_by_switching(work->forward, &cluster->device, t.forward);
  lose_by_switching(work->backward, &cluster->device, t.backward);
  if (cluster->device.rate_jitter > 0)
    t.apart_s = apart_s(work, &t);
  t.slowest = slowest_inside(&cluster->device, passes, t.apart_s);
  wait_for_slowest(work->forward, t.slowest, t.forward);
  wait_for_slowest(work->backward, t.slowest, t.backward);
  return t;
}

void layer_times_clear(LayerTimes *times)
{
  g_clear_pointer(&times->forward, g_free);
  g_clear_pointer(&times->backward, g_free);
}

void pass_parts_add(PassParts *parts, const PassParts *more, double times)
{
  for (int i = 0; i < COMPUTE_COUNT; i++)
    parts->seconds[i] += times * more->seconds[i];
  for (gsize i = 0; i < G_N_ELEMENTS(parts->peak_s); i++)
    parts->peak_s[i] += times * more->peak_s[i];
  parts->context_s += times * more->context_s;
  parts->expert_s += times * more->expert_s;
}

void layer_ops_free(LayerOps *ops)
{
  for (int pass = 0; pass < PASS_COUNT; pass++)
    g_clear_pointer(&ops->pass[pass], g_array_unref);
  g_free(ops);
}

void layer_price_at(LayerPrice *price, LayerOps *ops, const LayerWork *work, const LayerTimes *times,
                    const PassLayout *layout, const Cluster *cluster)
{
  static const Pass passes[] = { PASS_FORWARD, PASS_BACKWARD, PASS_INPUT, PASS_WEIGHT };
  Lanes lanes[G_N_ELEMENTS(passes)];
  Priced w = { work, layout, cluster, times };

  *price = (LayerPrice) {
    .ops = ops,
    .apart_s = times->apart_s,
    .params = work->params,
    .expert_params = work->expert_params,
    .narrow = { work->narrow[0], work->narrow[1] },
    .frozen = { work->frozen[0], work->frozen[1] },
    .largest = work->largest,
    .whole = work->whole,
    .optimizer = { optimizer_work(work, FALSE, layout, cluster), optimizer_work(work, TRUE, layout, cluster) },
    .saved_bytes = work->saved_bytes,
    .block_bytes = work->block_bytes,
    .deferred_bytes = work->deferred_bytes,
    .recomputed_bytes = work->recomputed_bytes,
    .transient_bytes = work->transient_bytes,
    .split_bytes = work->split_bytes,
    .table_bytes = work->table_bytes,
    .placeholder_bytes = work->placeholder_bytes,
    .forward_bytes = work->forward_bytes,
  };
  for (gsize i = 0; i < G_N_ELEMENTS(passes); i++) {
    if (ops)
      w.ops = ops->pass[passes[i]] = g_array_new(FALSE, FALSE, sizeof(PassOp));
    price_pass(&w, passes[i], &price->pass[passes[i]], ops ? &ops->parts[passes[i]] : NULL);
    lanes[i] = w.lanes;
  }
  for (gsize i = 0; i < G_N_ELEMENTS(passes); i++)
    finish(&lanes[i], share_of_wait(&lanes[i], &lanes[i > 0 ? 0 : 1]));
}

/* `summed`: of a job with several replicas, which scales gradients even where no other rank has the same experts. */
static OptimizerPrice step_price(const StateLayout *states, const Cluster *cluster, double params, double narrow,
                                 double sharers, gboolean summed)
{
  const Device *device = &cluster->device;
  double owned = params / states->optimizer_parts;
  double rest_s = memory_s(device, params * op_rest_traffic(states), 0);
  double whole = narrow * op_weight_cast_bytes(states, device) + (summed ? params * op_gradient_traffic(states) : 0);

  if (!states->offload.optimizer) {
    double bytes = owned * op_step_traffic(states) + whole;
    double seconds = named_memory_s(device, "optimizer", FALSE, bytes, 1, 0);
    return (OptimizerPrice) { .seconds = seconds + rest_s,
                              .crowded_s = seconds * (memory_crowding(&device->kernels, "optimizer", FALSE) - 1) };
  }
  HostStep host = host_step(states, cluster, owned, sharers);
  return (OptimizerPrice) { .seconds = host.copied_s + host.host_s + memory_s(device, whole, 1) + rest_s,
                            .offload_s = host.copied_s, .beside_s = host.beside_s };
}

OptimizerPrice optimizer_price(const StateLayout states[2], const Cluster *cluster, const double params[2],
                               const double narrow[2], const double sharers[2])
{
  double all = host_sharers(&states[0], cluster);
  gboolean summed = states[0].sums;
  OptimizerPrice price = step_price(&states[0], cluster, params[0], narrow[0], sharers ? sharers[0] : all, summed);

  if (params[1] > 0)
    optimizer_price_add(&price, step_price(&states[1], cluster, params[1], narrow[1], sharers ? sharers[1] : all, summed));
  return price;
}

void optimizer_price_add(OptimizerPrice *sum, OptimizerPrice more)
{
  sum->seconds += more.seconds;
  sum->offload_s += more.offload_s;
  sum->crowded_s += more.crowded_s;
  sum->beside_s += more.beside_s;
}

double overlap_slowdown(const Cluster *cluster, const GroupShape *group)
{
  if (group->size < 2)
    return 1;
  const Tier *node = &cluster->tiers[0];
  double in_node = node->link.efficiency * node->bytes_per_s;

  return 1 + (node->link.compute_slowdown - 1) * MIN(1, ring_bytes_per_s(cluster, group) / in_node);
}
