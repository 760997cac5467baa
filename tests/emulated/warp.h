/*
 * What the lanes of a warp give each other. A lane that reads another waits only
 * until that one has come to the same call, which is all that CUDA promises:
 * shuffles order no memory. Votes and __syncwarp wait for all lanes of the mask.
 * All lanes of a mask must make the same calls, the same number of times.
 */
#ifndef EMULATED_WARP_H
#define EMULATED_WARP_H

#include <stdint.h>
#include <string.h>

#include <memory>
#include <vector>

namespace emulated {

enum { WARP = 32 };

/* Of kernel.cpp: the running thread waits until another makes it ready. */
void thread_wait(const char *what, unsigned mask);
void thread_ready(int thread);

class Warp {
  enum { CALLS = 64 }; /* by which lanes may be apart */
  struct Call {
    uint64_t number; /* from 1, above the block's number; others are old */
    const char *what;
    unsigned came, left, waits_for_all, waits_for_room, awaited; /* awaited: lanes for which others wait */
    uint64_t value[WARP];
    unsigned waits_for[WARP]; /* lanes that wait for each lane of `awaited` */
  };
  struct Channel {
    unsigned mask, all; /* all: of the lanes that the block has */
    uint64_t calls[WARP];
    Call ring[CALLS];
  };
  std::vector<std::unique_ptr<Channel>> channels; /* by mask; kept from block to block */
  size_t used;
  int first;        /* thread */
  unsigned present; /* lanes that the block has */
  uint64_t before;  /* what numbers of the block's calls come behind */

  Channel &new_channel(unsigned mask);
  void wait_for_room(Channel &c, Call &call, const char *what, unsigned bit, uint64_t number);
  void wake(unsigned lanes);
  [[noreturn]] void fail_call(const Channel &c, const Call &call, const char *what, int lane);
  [[noreturn]] void fail_lanes(const char *what, unsigned mask, int lane, int from);

  /* A mask's channel begins with the first call that names it. */
  Channel &channel(unsigned mask)
  {
    for (size_t i = 0; i < used; i++)
      if (channels[i]->mask == mask)
        return *channels[i];
    return new_channel(mask);
  }

  Call &enter(Channel &c, const char *what, int lane, uint64_t value)
  {
    unsigned bit = 1u << lane;
    uint64_t number = ++c.calls[lane];
    Call &call = c.ring[number % CALLS];

    if (call.number > before && call.number != number && call.left != c.all)
      wait_for_room(c, call, what, bit, number);
    if (call.number != number) {
      call.number = number;
      call.what = what;
      call.came = call.left = call.waits_for_all = call.waits_for_room = call.awaited = 0;
    } else if (call.what != what && strcmp(call.what, what) != 0) {
      fail_call(c, call, what, lane);
    }
    call.value[lane] = value;
    call.came |= bit;
    if (call.awaited & bit)
      wake(call.waits_for[lane]);
    if (call.came == c.all && call.waits_for_all)
      wake(call.waits_for_all);
    return call;
  }

  void leave(Channel &c, Call &call, int lane)
  {
    call.left |= 1u << lane;
    if (call.left == c.all && call.waits_for_room) {
      unsigned lanes = call.waits_for_room;
      call.waits_for_room = 0;
      wake(lanes);
    }
  }

public:
  void begin(int first_thread, unsigned lanes, uint64_t block);
  void end(void); /* all lanes have made the same calls */

  uint64_t exchange(const char *what, unsigned mask, int lane, uint64_t value, int from)
  {
    if (!(mask >> lane & 1) || !(mask & present & 1u << from))
      fail_lanes(what, mask, lane, from);
    Channel &c = channel(mask);
    Call &call = enter(c, what, lane, value);
    if (!(call.came >> from & 1)) {
      call.waits_for[from] = (call.awaited >> from & 1 ? call.waits_for[from] : 0) | 1u << lane;
      call.awaited |= 1u << from;
      thread_wait(what, mask);
    }
    value = call.value[from];
    leave(c, call, lane);
    return value;
  }

  unsigned vote(const char *what, unsigned mask, int lane, bool value);
};

} // namespace emulated

#endif
