/*
 * What the lanes of a warp give each other. A lane that reads another waits only
 * until that one has come to the same call, which is all that CUDA promises:
 * shuffles order no memory. Votes and __syncwarp wait for all lanes of the mask.
 * All lanes of a mask must make the same calls, the same number of times.
 */
#ifndef EMULATED_WARP_H
#define EMULATED_WARP_H

#include <stdint.h>

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
    uint64_t number; /* from 1; other numbers' is old */
    const char *what;
    unsigned came, left, waits_for_all, waits_for_room;
    unsigned waits_for[WARP]; /* lanes that wait for each lane */
    uint64_t value[WARP];
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

  Channel &channel(unsigned mask);
  Channel &new_channel(unsigned mask);
  Call &enter(Channel &c, const char *what, int lane, uint64_t value);
  void leave(Channel &c, Call &call, int lane);
  void wake(unsigned lanes);

public:
  void begin(int first_thread, unsigned lanes);
  uint64_t exchange(const char *what, unsigned mask, int lane, uint64_t value, int from);
  unsigned vote(const char *what, unsigned mask, int lane, bool value);
  void end(void); /* all lanes have made the same calls */
};

} // namespace emulated

#endif
