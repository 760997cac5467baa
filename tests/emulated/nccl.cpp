/*
 * NCCL: a call runs when its stream reaches it and it is the communicator's turn,
 * and ends when all ranks have come to the same call: kind, length, type, operation
 * and root are compared. A send ends when it is received. The first message between two
 * ranks of a communicator holds the host until the other is there.
 */
#include "device.h"
#include "net.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <set>

struct ncclComm {
  std::shared_ptr<emulated::Net> net;
  uint64_t id;
  std::vector<int> ranks; /* of the world, by rank here */
  int rank;
  unsigned splits, calls;
  uint64_t issued, turn; /* operations */
  std::set<int> connected; /* ranks with which point-to-point messages were exchanged */
  ncclResult_t status;
};

using namespace emulated;

namespace {

enum Kind : uint32_t { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV, SPLIT };
const char *const kind_names[] = { "all-reduce", "reduce",  "broadcast", "all-gather",
                                   "reduce-scatter", "send", "receive",   "split" };

struct Call {
  Kind kind;
  const void *from;
  void *to;
  size_t n;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root; /* or the peer */
  ncclComm_t comm;
  cudaStream_t stream;
  bool done;
  Header header;
  std::string own; /* what this rank gives to itself */
};

struct Group {
  int depth;
  std::vector<Call> calls;
};

Group group;
std::vector<std::weak_ptr<Net>> nets;
std::map<int, int> listeners; /* of unique ids that this process made, by port */

size_t type_bytes(int type)
{
  static const size_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
  return bytes[type];
}

int size_of(const ncclComm *c)
{
  return (int)c->ranks.size();
}

template <typename T, typename Wide> T combine(T x, T y, int op)
{
  Wide u = (Wide)x, v = (Wide)y;
  return (T)(op == ncclMax ? std::max(u, v) : op == ncclMin ? std::min(u, v) : op == ncclProd ? u * v : u + v);
}

/* As rings do: rounded after each addition. */
template <typename T, typename Wide> void reduce_as(std::string &sum, const std::string &x, int op, int average)
{
  for (size_t i = 0; i + sizeof(T) <= sum.size(); i += sizeof(T)) {
    T a, b;
    memcpy(&a, &sum[i], sizeof a);
    memcpy(&b, &x[i], sizeof b);
    a = average ? (T)((Wide)a / (Wide)average) : combine<T, Wide>(a, b, op);
    memcpy(&sum[i], &a, sizeof a);
  }
}

void reduce_into(std::string &sum, const std::string &x, int type, int op, int average)
{
  switch (type) {
  case ncclFloat16:
    return reduce_as<__half, float>(sum, x, op, average);
  case ncclBfloat16:
    return reduce_as<__nv_bfloat16, float>(sum, x, op, average);
  case ncclFloat32:
    return reduce_as<float, float>(sum, x, op, average);
  case ncclFloat64:
    return reduce_as<double, double>(sum, x, op, average);
  case ncclInt32:
    return reduce_as<int32_t, int32_t>(sum, x, op, average);
  case ncclInt64:
    return reduce_as<int64_t, int64_t>(sum, x, op, average);
  default:
    fail("reduction of elements of type %d is not emulated", type);
  }
}

std::string told(const Header &h)
{
  char line[160];
  snprintf(line, sizeof line, "%s of %llu elements of type %d, operation %d, root or peer %d, as call %u",
           kind_names[h.kind], (unsigned long long)h.n, h.type, h.op, h.root, h.call);
  return line;
}

[[noreturn]] void mismatch(const Call &c, int rank, const Header &theirs)
{
  fail("ranks disagree in communicator %llx: rank %d calls %s; rank %d calls %s", (unsigned long long)c.comm->id,
       c.comm->rank, told(c.header).c_str(), rank, told(theirs).c_str());
}

bool collective(const Call &c)
{
  return c.kind != SEND && c.kind != RECV;
}

std::deque<Message> &box(const Call &c, int rank, MessageClass of)
{
  return c.comm->net->from(c.comm->id, c.comm->ranks[rank], of);
}

/* What `rank` gets of this rank's data. */
std::string part_for(const Call &c, int rank)
{
  size_t bytes = c.n * type_bytes(c.type);
  const char *from = (const char *)c.from;

  if ((c.kind == BROADCAST && c.comm->rank != c.root) || (c.kind == REDUCE && rank != c.root))
    return "";
  return std::string(c.kind == REDUCE_SCATTER ? from + rank * bytes : from, bytes);
}

bool receives(const Call &c)
{
  return c.kind != SEND && (c.kind != REDUCE || c.comm->rank == c.root);
}

void start(Call &c)
{
  size_t bytes = c.n * type_bytes(c.type), all = bytes * size_of(c.comm);
  bool gives = c.kind != RECV && (c.kind != BROADCAST || c.comm->rank == c.root);

  if (gives)
    check_range(c.from, c.kind == REDUCE_SCATTER ? all : bytes, "given to a collective");
  if (receives(c))
    check_range(c.to, c.kind == ALL_GATHER ? all : bytes, "written by a collective");
  c.header = { c.comm->id, 0, c.n, collective(c) ? COLLECTIVE : POINT, c.kind, c.type, c.op, c.root, c.comm->calls++ };
  if (collective(c) || c.root == c.comm->rank)
    c.own = c.kind == RECV ? "" : part_for(c, c.comm->rank);
  for (int i = 0; i < size_of(c.comm); i++) {
    if (i == c.comm->rank || c.kind == RECV || (c.kind == SEND && i != c.root))
      continue;
    std::string part = part_for(c, i);
    Header h = c.header;
    h.bytes = part.size();
    c.comm->net->send(c.comm->ranks[i], h, part.data());
  }
}

/* A rank that is gone leaves the communicator with an error, as NCCL does; the call is given up. */
bool lost(Call &c, int rank)
{
  if (!c.comm->net->gone(c.comm->ranks[rank]))
    return false;
  c.comm->status = ncclRemoteError;
  return c.done = true;
}

bool all_here(Call &c)
{
  for (int i = 0; i < size_of(c.comm); i++) {
    if (i == c.comm->rank || !box(c, i, COLLECTIVE).empty())
      continue;
    if (!box(c, i, POINT).empty())
      mismatch(c, i, box(c, i, POINT).front().header);
    lost(c, i);
    return false;
  }
  return true;
}

void finish_collective(Call &c)
{
  size_t bytes = c.n * type_bytes(c.type);
  bool reduces = c.kind == ALL_REDUCE || c.kind == REDUCE || c.kind == REDUCE_SCATTER;
  std::string sum;

  for (int i = 0; i < size_of(c.comm); i++) {
    Message m;
    if (i != c.comm->rank) {
      m = std::move(box(c, i, COLLECTIVE).front());
      box(c, i, COLLECTIVE).pop_front();
      const Header &h = m.header, &o = c.header;
      if (h.kind != o.kind || h.n != o.n || h.type != o.type || h.op != o.op || h.root != o.root)
        mismatch(c, i, h);
    }
    const std::string &part = i == c.comm->rank ? c.own : m.data;
    if (c.kind == ALL_GATHER)
      memcpy((char *)c.to + i * bytes, part.data(), bytes);
    else if (c.kind == BROADCAST && i == c.root)
      memcpy(c.to, part.data(), bytes);
    else if (reduces && i == 0)
      sum = part;
    else if (reduces && receives(c))
      reduce_into(sum, part, c.type, c.op, 0);
  }
  if (reduces && receives(c)) {
    if (c.op == ncclAvg)
      reduce_into(sum, sum, c.type, c.op, size_of(c.comm));
    memcpy(c.to, sum.data(), bytes);
  }
}

void take(Call &c, const Header &h, const std::string &data)
{
  if (h.n != c.n || h.type != c.type)
    mismatch(c, c.root, h);
  memcpy(c.to, data.data(), data.size());
}

/* To itself: of the same group. */
bool take_own(Call &c, std::vector<Call> &all)
{
  for (Call &s : all)
    if (s.kind == SEND && s.comm == c.comm && s.root == s.comm->rank && !s.done) {
      take(c, s.header, s.own);
      return s.done = true;
    }
  fail("receives from its own rank what it does not send in the same group");
}

bool attempt(Call &c, std::vector<Call> &all)
{
  if (collective(c)) {
    if (!all_here(c))
      return c.done;
    finish_collective(c);
    return true;
  }
  if (c.root == c.comm->rank)
    return c.kind == SEND ? c.done : take_own(c, all);
  std::deque<Message> &in = box(c, c.root, c.kind == SEND ? TAKEN : POINT);
  if (in.empty()) {
    if (!box(c, c.root, COLLECTIVE).empty())
      mismatch(c, c.root, box(c, c.root, COLLECTIVE).front().header);
    return lost(c, c.root);
  }
  if (c.kind == RECV) {
    Header taken = c.header;
    take(c, in.front().header, in.front().data);
    taken.of = TAKEN;
    c.comm->net->send(c.comm->ranks[c.root], taken, "");
  }
  in.pop_front();
  return true;
}

/* The calls of a group on one stream: all start, all end. */
struct Running {
  std::vector<Call> calls;
  std::map<ncclComm_t, uint64_t> turns;
  bool started;

  bool step()
  {
    for (auto &t : turns)
      if (t.first->turn != t.second)
        return false;
    for (Call &c : calls)
      if (!started)
        start(c);
    started = true;
    bool all = true;
    for (Call &c : calls)
      all &= c.done = c.done || attempt(c, calls);
    for (auto &t : turns)
      all &= t.first->net->sent();
    for (auto &t : turns)
      t.first->turn += all;
    return all;
  }
};

void issue(const std::vector<Call> &calls)
{
  std::set<cudaStream_t> streams;

  for (const Call &c : calls)
    streams.insert(c.stream);
  for (cudaStream_t s : streams) {
    auto running = std::make_shared<Running>();
    for (const Call &c : calls)
      if (c.stream == s)
        running->calls.push_back(c);
    for (Call &c : running->calls)
      if (!running->turns.count(c.comm))
        running->turns[c.comm] = c.comm->issued++;
    enqueue(s, kind_names[running->calls[0].kind], [running] { return running->step(); });
  }
}

/* The first message between two ranks connects them: the host of each waits for the other to come to it. */
ncclResult_t connect_all(const std::vector<Call> &calls)
{
  std::vector<const Call *> fresh;

  for (const Call &c : calls)
    if (!collective(c) && c.root != c.comm->rank && c.comm->connected.insert(c.root).second) {
      c.comm->net->send(c.comm->ranks[c.root], { c.comm->id, 0, 0, CONTROL, c.kind, c.type, 0, c.root, 0 }, "");
      fresh.push_back(&c);
    }
  for (const Call *c : fresh) {
    std::deque<Message> &in = box(*c, c->root, CONTROL);
    execute_until(NULL, [&] { return !in.empty() || c->comm->net->gone(c->comm->ranks[c->root]); });
    if (in.empty())
      return c->comm->status = ncclRemoteError;
    in.pop_front();
  }
  return ncclSuccess;
}

ncclResult_t call(Kind kind, const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                  ncclComm_t comm, cudaStream_t s)
{
  Api api;

  if (!comm || type < 0 || type > ncclBfloat16 || root < 0 || root >= size_of(comm))
    return ncclInvalidArgument;
  if (comm->status != ncclSuccess)
    return comm->status;
  group.calls.push_back({ kind, from, to, n, type, op, root, comm, s, false, {}, "" });
  return group.depth > 0 ? ncclSuccess : (group.depth = 1, ncclGroupEnd());
}

int port_of(const ncclUniqueId &id)
{
  const char *colon = strrchr(id.internal, ':');
  return colon ? atoi(colon + 1) : 0;
}

ncclComm_t comm_new(const std::shared_ptr<Net> &net, uint64_t id, const std::vector<int> &ranks, int rank)
{
  return new ncclComm { net, id, ranks, rank, 0, 0, 0, 0, {}, ncclSuccess };
}

} // namespace

namespace emulated {

bool network_poll(int ms)
{
  bool any = false, waited = false;

  for (auto &weak : nets)
    if (std::shared_ptr<Net> net = weak.lock()) {
      any |= net->poll(waited ? 0 : ms);
      waited = true;
    }
  return any;
}

} // namespace emulated

ncclResult_t ncclGetVersion(int *version)
{
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  Api api;
  const char *address = getenv("NCCL_COMM_ID");
  int port = 0;

  *id = {};
  if (address) {
    snprintf(id->internal, sizeof id->internal, "%s", address);
    return port_of(*id) > 0 ? ncclSuccess : ncclInvalidArgument;
  }
  int fd = net_listen(&port);
  listeners[port] = fd;
  snprintf(id->internal, sizeof id->internal, "127.0.0.1:%d", port);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
  Api api;
  int port = port_of(id), listener = rank == 0 && listeners.count(port) ? listeners[port] : -1;

  if (size < 1 || rank < 0 || rank >= size)
    return ncclInvalidArgument;
  auto net = std::make_shared<Net>(rank, size, port, listener);
  std::vector<int> ranks(size);
  for (int i = 0; i < size; i++)
    ranks[i] = i;
  nets.push_back(net);
  *comm = comm_new(net, (uint64_t)port, ranks, rank);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *)
{
  return ncclCommInitRank(comm, size, id, rank);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *)
{
  Api api;
  int own[2] = { color, key }, size = size_of(comm);
  std::vector<std::array<int, 3>> members; /* key, rank here, rank in the world */
  uint64_t id = (comm->id * 0x9e3779b97f4a7c15u + comm->splits++) * 0x9e3779b97f4a7c15u + (uint64_t)(color + 1);

  for (int i = 0; i < size; i++)
    if (i != comm->rank)
      comm->net->send(comm->ranks[i], { comm->id, sizeof own, 2, CONTROL, SPLIT, ncclInt32, 0, 0, comm->splits }, own);
  for (int i = 0; i < size; i++) {
    int theirs[2] = { color, key };
    if (i != comm->rank) {
      std::deque<Message> &in = comm->net->from(comm->id, comm->ranks[i], CONTROL);
      execute_until(NULL, [&] { return !in.empty() || comm->net->gone(comm->ranks[i]); });
      if (in.empty())
        return comm->status = ncclRemoteError;
      memcpy(theirs, in.front().data.data(), sizeof theirs);
      in.pop_front();
    }
    if (theirs[0] == color)
      members.push_back({ theirs[1], i, comm->ranks[i] });
  }
  *out = NULL;
  if (color == NCCL_SPLIT_NOCOLOR)
    return ncclSuccess;
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  int rank = 0;
  for (const auto &m : members) {
    rank = m[1] == comm->rank ? (int)ranks.size() : rank;
    ranks.push_back(m[2]);
  }
  *out = comm_new(comm->net, id, ranks, rank);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
  Api api;
  execute_until(NULL, [=] { return comm->turn == comm->issued; });
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  Api api;
  ncclCommFinalize(comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  Api api;
  comm->status = ncclInvalidUsage;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *size)
{
  *size = size_of(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *status)
{
  Api api;
  *status = comm->status;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t status)
{
  static const char *const texts[] = { "no error",         "unhandled cuda error",  "unhandled system error",
                                       "internal error",   "invalid argument",      "invalid usage",
                                       "remote process exited or there was a network error", "in progress" };
  return texts[status];
}

const char *ncclGetLastError(ncclComm_t comm)
{
  return comm ? ncclGetErrorString(comm->status) : "";
}

ncclResult_t ncclGroupStart(void)
{
  Api api;
  group.depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
  Api api;
  std::vector<Call> calls;

  if (group.depth == 0)
    return ncclInvalidUsage;
  if (--group.depth > 0)
    return ncclSuccess;
  calls.swap(group.calls);
  ncclResult_t status = connect_all(calls);
  if (status == ncclSuccess)
    issue(calls);
  return status;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t s)
{
  return call(ALL_REDUCE, from, to, n, type, op, 0, comm, s);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t s)
{
  return call(REDUCE, from, to, n, type, op, root, comm, s);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t s)
{
  return call(BROADCAST, from, to, n, type, ncclSum, root, comm, s);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n_each, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t s)
{
  return call(ALL_GATHER, from, to, n_each, type, ncclSum, 0, comm, s);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n_each, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t s)
{
  return call(REDUCE_SCATTER, from, to, n_each, type, op, 0, comm, s);
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s)
{
  return call(SEND, from, NULL, n, type, ncclSum, peer, comm, s);
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s)
{
  return call(RECV, NULL, to, n, type, ncclSum, peer, comm, s);
}
