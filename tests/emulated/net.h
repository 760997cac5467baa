/*
 * Messages between the ranks of this host, each pair joined by a TCP connection:
 * sending never waits, what arrives is kept by communicator, sender and class.
 */
#ifndef EMULATED_NET_H
#define EMULATED_NET_H

#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace emulated {

enum MessageClass : uint32_t { COLLECTIVE, POINT, TAKEN, CONTROL };

struct Header {
  uint64_t comm, bytes, n;
  uint32_t of, kind; /* class; and which call */
  int32_t type, op, root;
  uint32_t call; /* number among the communicator's */
};

struct Message {
  Header header;
  std::string data;
};

class Net {
  struct Peer {
    int fd = -1;
    std::string out, in;
    size_t sent = 0; /* bytes of `out` */
    bool gone = false;
  };
  std::vector<Peer> peers;
  std::map<std::tuple<uint64_t, int, uint32_t>, std::deque<Message>> inbox;

  bool receive(int rank);
  bool flush(Peer &p);
  void sort_out(int rank);

public:
  const int rank, size;

  /* Meets the others: rank 0 listens at `port` of this host, on `listener` if that is no -1. Ends the process if they
   * do not come. */
  Net(int rank, int size, int port, int listener);
  ~Net();
  void send(int to, const Header &header, const void *data);
  std::deque<Message> &from(uint64_t comm, int rank, MessageClass of) { return inbox[{ comm, rank, of }]; }
  bool gone(int rank) const { return peers[rank].gone; }
  bool sent(void) const; /* all that was given away */
  bool poll(int ms);     /* true: something moved */
};

int net_listen(int *port); /* at `port`, or where it is free if 0; ends the process if it cannot */

} // namespace emulated

#endif
