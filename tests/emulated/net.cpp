#include "net.h"

#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace emulated {

namespace {

sockaddr_in local(int port)
{
  sockaddr_in a = {};
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

void pause_ms(long ms)
{
  timespec t = { 0, ms * 1000000 };
  nanosleep(&t, NULL);
}

int join(int port)
{
  const double until_s = now_s() + setting("EMULATED_TIMEOUT_S", 60);
  sockaddr_in a = local(port);

  for (;;) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (sockaddr *)&a, sizeof a) == 0)
      return fd;
    close(fd);
    if (now_s() > until_s)
      fail("no rank listens at port %d", port);
    pause_ms(10);
  }
}

int welcome(int listener)
{
  pollfd p = { listener, POLLIN, 0 };

  if (::poll(&p, 1, (int)setting("EMULATED_TIMEOUT_S", 60) * 1000) <= 0)
    fail("not all ranks have come");
  return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

void put(int fd, const void *p, size_t bytes)
{
  if (write(fd, p, bytes) != (ssize_t)bytes)
    fail("a rank has gone while ranks meet");
}

void get(int fd, void *p, size_t bytes)
{
  if (recv(fd, p, bytes, MSG_WAITALL) != (ssize_t)bytes)
    fail("a rank has gone while ranks meet");
}

} // namespace

int net_listen(int *port)
{
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  sockaddr_in a = local(*port);
  socklen_t bytes = sizeof a;

  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, (sockaddr *)&a, sizeof a) != 0 || listen(fd, 64) != 0)
    fail("port %d: %s", *port, strerror(errno));
  getsockname(fd, (sockaddr *)&a, &bytes);
  *port = ntohs(a.sin_port);
  return fd;
}

/* Rank 0 tells all where each listens; then the higher of each two joins the lower. */
Net::Net(int rank, int size, int port, int listener) : peers(size), rank(rank), size(size)
{
  std::vector<int> ports(size);
  int own = rank == 0 ? port : 0;

  if (listener < 0)
    listener = net_listen(&own);
  ports[rank] = own;
  if (rank > 0) {
    peers[0].fd = join(port);
    int hello[] = { rank, own };
    put(peers[0].fd, hello, sizeof hello);
    get(peers[0].fd, ports.data(), size * sizeof(int));
  }
  for (int i = 1; i < rank; i++) {
    peers[i].fd = join(ports[i]);
    int hello[] = { rank, own };
    put(peers[i].fd, hello, sizeof hello);
  }
  for (int i = rank + 1; i < size; i++) {
    int fd = welcome(listener), hello[2];
    get(fd, hello, sizeof hello);
    if (hello[0] <= rank || hello[0] >= size || peers[hello[0]].fd >= 0)
      fail("rank %d joins rank %d of %d twice or wrongly", hello[0], rank, size);
    peers[hello[0]].fd = fd;
    ports[hello[0]] = hello[1];
  }
  for (int i = 1; i < size && rank == 0; i++)
    put(peers[i].fd, ports.data(), size * sizeof(int));
  close(listener);
  for (Peer &p : peers)
    if (p.fd >= 0) {
      int yes = 1;
      setsockopt(p.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      fcntl(p.fd, F_SETFL, O_NONBLOCK);
    }
}

Net::~Net()
{
  for (Peer &p : peers)
    if (p.fd >= 0)
      close(p.fd);
}

void Net::send(int to, const Header &header, const void *data)
{
  Peer &p = peers[to];

  p.out.append((const char *)&header, sizeof header);
  p.out.append((const char *)data, header.bytes);
  flush(p);
}

bool Net::flush(Peer &p)
{
  ssize_t n = p.gone || p.out.empty() ? 0 : ::send(p.fd, p.out.data() + p.sent, p.out.size() - p.sent, MSG_NOSIGNAL);

  if (n > 0)
    p.sent += n;
  if (p.sent == p.out.size()) {
    p.out.clear();
    p.sent = 0;
  }
  return n > 0;
}

bool Net::sent(void) const
{
  for (const Peer &p : peers)
    if (!p.gone && !p.out.empty())
      return false;
  return true;
}

void Net::sort_out(int rank)
{
  std::string &in = peers[rank].in;
  size_t at = 0;
  Header h;

  while (in.size() - at >= sizeof h) {
    memcpy(&h, in.data() + at, sizeof h);
    if (in.size() - at < sizeof h + h.bytes)
      break;
    from(h.comm, rank, (MessageClass)h.of).push_back({ h, in.substr(at + sizeof h, h.bytes) });
    at += sizeof h + h.bytes;
  }
  in.erase(0, at);
}

bool Net::receive(int rank)
{
  Peer &p = peers[rank];
  char buffer[1 << 16];
  bool any = false;
  ssize_t n;

  while ((n = recv(p.fd, buffer, sizeof buffer, 0)) > 0) {
    p.in.append(buffer, n);
    any = true;
  }
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
    p.gone = true;
  sort_out(rank);
  return any || p.gone;
}

bool Net::poll(int ms)
{
  std::vector<pollfd> fds;
  std::vector<int> ranks;
  bool any = false;

  for (int i = 0; i < size; i++)
    if (i != rank && !peers[i].gone) {
      fds.push_back({ peers[i].fd, (short)(POLLIN | (peers[i].out.empty() ? 0 : POLLOUT)), 0 });
      ranks.push_back(i);
    }
  if (fds.empty()) {
    pause_ms(ms);
    return false;
  }
  if (::poll(fds.data(), fds.size(), ms) <= 0)
    return false;
  for (size_t i = 0; i < fds.size(); i++) {
    if (fds[i].revents & POLLOUT)
      any |= flush(peers[ranks[i]]);
    if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
      any |= receive(ranks[i]);
  }
  return any;
}

} // namespace emulated
