#include "exec/health_net.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { START_MS = 30000 };

static int failed(int fd, const char *what, GError **error)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "health channel: %s: %s", what, g_strerror(errno));
  if (fd >= 0)
    close(fd);
  return -1;
}

/* The first interface that is up and no loopback, else the loopback. */
static gint32 own_ip(gboolean one_host)
{
  gint32 ip = htonl(INADDR_LOOPBACK);
  struct ifaddrs *all = NULL;

  if (one_host || getifaddrs(&all) < 0)
    return ip;
  for (struct ifaddrs *i = all; i; i = i->ifa_next)
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK)) {
      ip = ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr;
      break;
    }
  freeifaddrs(all);
  return ip;
}

int health_listen(HealthAddress *address, gboolean one_host, GError **error)
{
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY) };
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, SOMAXCONN) < 0 ||
      getsockname(fd, (struct sockaddr *)&at, &size) < 0)
    return failed(fd, "cannot listen", error);
  *address = (HealthAddress) { own_ip(one_host), ntohs(at.sin_port) };
  return fd;
}

void health_share(HealthAddress *address, Backend *b, BackendComm *world)
{
  BackendStream *s = b->stream_new(b, TRUE);
  void *device = b->alloc(b, s, sizeof *address);

  b->upload(b, s, device, address, sizeof *address);
  b->all_reduce(b, world, s, device, 2, EXEC_I32, EXEC_SUM);
  b->download(b, s, address, device, sizeof *address);
  b->dealloc(b, s, device, sizeof *address);
  b->sync(b, s);
  b->stream_free(b, s);
}

static void set_options(int fd)
{
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int health_connect(const HealthAddress *address, int rank, GError **error)
{
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = address->ip, .sin_port = htons(address->port) };
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  gint32 own = rank;

  if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
      send(fd, &own, sizeof own, MSG_NOSIGNAL) != sizeof own)
    return failed(fd, "cannot reach rank 0", error);
  set_options(fd);
  return fd;
}

int health_accept(int listener, int *rank, GError **error)
{
  struct pollfd wait = { listener, POLLIN, 0 };
  gint32 found = -1;

  errno = ETIMEDOUT;
  if (poll(&wait, 1, START_MS) <= 0)
    return failed(-1, "not all ranks connected", error);
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0 || recv(fd, &found, sizeof found, MSG_WAITALL) != sizeof found)
    return failed(fd, "cannot accept", error);
  set_options(fd);
  *rank = found;
  return fd;
}

void health_send(int fd, const HealthMessage *message)
{
  if (send(fd, message, sizeof *message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    return;
}

int health_receive(int fd, HealthMessage *message)
{
  ssize_t seen = recv(fd, message, sizeof *message, MSG_PEEK | MSG_DONTWAIT);

  if (seen == 0 || (seen < 0 && errno != EAGAIN && errno != EINTR))
    return -1;
  if (seen < (ssize_t)sizeof *message)
    return 0;
  return recv(fd, message, sizeof *message, MSG_WAITALL) == sizeof *message ? 1 : -1;
}
