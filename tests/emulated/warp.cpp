#include "warp.h"

#include "device.h"

namespace emulated {

void Warp::begin(int first_thread, unsigned lanes)
{
  first = first_thread;
  present = lanes;
  used = 0;
}

/* A mask's channel begins with the first call that names it. */
inline Warp::Channel &Warp::channel(unsigned mask)
{
  for (size_t i = 0; i < used; i++)
    if (channels[i]->mask == mask)
      return *channels[i];
  return new_channel(mask);
}

Warp::Channel &Warp::new_channel(unsigned mask)
{
  if (used == channels.size())
    channels.push_back(std::make_unique<Channel>());
  Channel &c = *channels[used++];
  c.mask = mask;
  c.all = mask & present;
  memset(c.calls, 0, sizeof c.calls);
  for (Call &call : c.ring)
    call.number = 0;
  return c;
}

inline void Warp::wake(unsigned lanes)
{
  for (; lanes; lanes &= lanes - 1)
    thread_ready(first + __builtin_ctz(lanes));
}

inline Warp::Call &Warp::enter(Channel &c, const char *what, int lane, uint64_t value)
{
  unsigned bit = 1u << lane;
  uint64_t number = ++c.calls[lane];
  Call &call = c.ring[number % CALLS];

  while (call.number && call.number != number && call.left != c.all) {
    call.waits_for_room |= bit;
    thread_wait(what, c.mask);
  }
  if (call.number != number) {
    call.number = number;
    call.what = what;
    call.came = call.left = call.waits_for_all = call.waits_for_room = 0;
    memset(call.waits_for, 0, sizeof call.waits_for);
  } else if (call.what != what && strcmp(call.what, what) != 0) {
    fail("lane %d calls %s where another lane of mask %08x calls %s", lane, what, c.mask, call.what);
  }
  call.value[lane] = value;
  call.came |= bit;
  wake(call.waits_for[lane]);
  if (call.came == c.all)
    wake(call.waits_for_all);
  return call;
}

inline void Warp::leave(Channel &c, Call &call, int lane)
{
  call.left |= 1u << lane;
  if (call.left == c.all && call.waits_for_room) {
    unsigned lanes = call.waits_for_room;
    call.waits_for_room = 0;
    wake(lanes);
  }
}

uint64_t Warp::exchange(const char *what, unsigned mask, int lane, uint64_t value, int from)
{
  if (!(mask >> lane & 1) || !(mask & present & 1u << from))
    fail("%s: lane %d of mask %08x reads lane %d, and one of them takes no part", what, lane, mask, from);
  Channel &c = channel(mask);
  Call &call = enter(c, what, lane, value);
  if (!(call.came >> from & 1)) {
    call.waits_for[from] |= 1u << lane;
    thread_wait(what, mask);
  }
  value = call.value[from];
  leave(c, call, lane);
  return value;
}

unsigned Warp::vote(const char *what, unsigned mask, int lane, bool value)
{
  if (!(mask >> lane & 1))
    fail("%s: lane %d is not in mask %08x", what, lane, mask);
  Channel &c = channel(mask);
  Call &call = enter(c, what, lane, value);
  if (call.came != c.all) {
    call.waits_for_all |= 1u << lane;
    thread_wait(what, mask);
  }
  unsigned votes = 0;
  for (unsigned lanes = mask & present; lanes; lanes &= lanes - 1)
    votes |= (unsigned)call.value[__builtin_ctz(lanes)] << __builtin_ctz(lanes);
  leave(c, call, lane);
  return votes;
}

/* A lane that has left early has made no call at all with the others. */
void Warp::end(void)
{
  for (size_t i = 0; i < used; i++)
    for (unsigned lanes = channels[i]->mask & present; lanes; lanes &= lanes - 1) {
      int lane = __builtin_ctz(lanes), other = __builtin_ctz(channels[i]->mask & present);
      if (channels[i]->calls[lane] != channels[i]->calls[other])
        fail("lane %d has made %llu calls with mask %08x, lane %d %llu", lane,
             (unsigned long long)channels[i]->calls[lane], channels[i]->mask, other,
             (unsigned long long)channels[i]->calls[other]);
    }
}

} // namespace emulated
