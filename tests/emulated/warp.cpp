#include "warp.h"

#include "device.h"

namespace emulated {

void Warp::begin(int first_thread, unsigned lanes, uint64_t block)
{
  first = first_thread;
  present = lanes;
  used = 0;
  before = block << 32;
}

Warp::Channel &Warp::new_channel(unsigned mask)
{
  if (used == channels.size())
    channels.push_back(std::make_unique<Channel>());
  Channel &c = *channels[used++];
  c.mask = mask;
  c.all = mask & present;
  for (uint64_t &n : c.calls)
    n = before;
  return c;
}

void Warp::wake(unsigned lanes)
{
  for (; lanes; lanes &= lanes - 1)
    thread_ready(first + __builtin_ctz(lanes));
}

void Warp::wait_for_room(Channel &c, Call &call, const char *what, unsigned bit, uint64_t number)
{
  while (call.number != number && call.left != c.all) {
    call.waits_for_room |= bit;
    thread_wait(what, c.mask);
  }
}

void Warp::fail_call(const Channel &c, const Call &call, const char *what, int lane)
{
  fail("lane %d calls %s where another lane of mask %08x calls %s", lane, what, c.mask, call.what);
}

void Warp::fail_lanes(const char *what, unsigned mask, int lane, int from)
{
  fail("%s: lane %d of mask %08x reads lane %d, and one of them takes no part", what, lane, mask, from);
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
             (unsigned long long)(channels[i]->calls[lane] - before), channels[i]->mask, other,
             (unsigned long long)(channels[i]->calls[other] - before));
    }
}

} // namespace emulated
