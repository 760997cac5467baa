#include "exec/control_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { OUT_MAX = 1 << 20 };

static const int on = 1;

void line_open(Line *line, int fd)
{
  *line = (Line) { .fd = fd, .out = g_byte_array_new() };
}

void line_close(Line *line)
{
  if (line->fd >= 0)
    close(line->fd);
  if (line->out)
    g_byte_array_unref(line->out);
  *line = (Line) { .fd = -1 };
}

/* What is broken is noticed by reading. */
void line_flush(Line *line)
{
  while (line->fd >= 0 && line->out->len > 0) {
    ssize_t n = send(line->fd, line->out->data, line->out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0)
      return;
    g_byte_array_remove_range(line->out, 0, n);
  }
}

void line_send(Line *line, const void *data, gsize n)
{
  if (line->fd < 0)
    return;
  if (line->out->len + n > OUT_MAX) {
    shutdown(line->fd, SHUT_RDWR);
    return;
  }
  g_byte_array_append(line->out, data, n);
  line_flush(line);
}

int line_receive(Line *line, gsize n)
{
  g_assert(n <= sizeof line->in && line->have < n);
  ssize_t got = recv(line->fd, line->in + line->have, n - line->have, MSG_DONTWAIT);

  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
    return -1;
  line->have += MAX(got, 0);
  if (line->have < n)
    return 0;
  line->have = 0;
  return 1;
}

int net_resolve(const char *text, struct sockaddr_in *out, char *why, gsize size)
{
  g_autofree char *host = g_strdup(text);
  char *port = strrchr(host, ':');
  struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found = NULL;
  int n = 0, status;

  g_assert(port);
  *port++ = 0;
  status = getaddrinfo(host, port, &hints, &found);
  if (status != 0)
    g_snprintf(why, size, "%s: %s", host, gai_strerror(status));
  for (struct addrinfo *a = status == 0 ? found : NULL; a && n < CONTROL_ADDRESSES; a = a->ai_next)
    out[n++] = *(struct sockaddr_in *)a->ai_addr;
  if (status == 0)
    freeaddrinfo(found);
  return n;
}

typedef struct {
  guint32 ip, mask;
} Interface;

/* Of interfaces that are up, without loopback. */
static GArray *interfaces(void)
{
  GArray *found = g_array_new(FALSE, FALSE, sizeof(Interface));
  struct ifaddrs *all = NULL;

  if (getifaddrs(&all) < 0)
    return found;
  for (struct ifaddrs *i = all; i; i = i->ifa_next)
    if (i->ifa_addr && i->ifa_netmask && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
        !(i->ifa_flags & IFF_LOOPBACK))
      g_array_append_vals(found, &(Interface) { ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr,
                                                ((struct sockaddr_in *)i->ifa_netmask)->sin_addr.s_addr }, 1);
  freeifaddrs(all);
  return found;
}

int net_own_ips(guint32 out[CONTROL_ADDRESSES])
{
  g_autoptr(GArray) own = interfaces();
  int n = MIN(own->len, CONTROL_ADDRESSES);

  for (int i = 0; i < n; i++)
    out[i] = g_array_index(own, Interface, i).ip;
  return n;
}

gboolean net_is_near(guint32 ip)
{
  g_autoptr(GArray) own = interfaces();
  gboolean near = FALSE;

  for (guint i = 0; i < own->len; i++) {
    const Interface *at = &g_array_index(own, Interface, i);
    near |= ((ip ^ at->ip) & at->mask) == 0;
    if (at->ip == ip)
      return FALSE;
  }
  return near;
}

char *net_text(const struct sockaddr_in *address)
{
  char host[INET_ADDRSTRLEN];

  return g_strdup_printf("%s:%d", inet_ntop(AF_INET, &address->sin_addr, host, sizeof host), ntohs(address->sin_port));
}

static int closed(int fd)
{
  int why = errno;

  if (fd >= 0)
    close(fd);
  errno = why;
  return -1;
}

int net_listen(struct sockaddr_in *address)
{
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t size = sizeof *address;

  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (const struct sockaddr *)address, size) < 0 || listen(fd, SOMAXCONN) < 0 ||
      getsockname(fd, (struct sockaddr *)address, &size) < 0)
    return closed(fd);
  return fd;
}

int net_accept(int listener, struct sockaddr_in *from)
{
  socklen_t size = sizeof *from;
  int fd = accept4(listener, (struct sockaddr *)from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

int net_connect(const struct sockaddr_in *address)
{
  struct timeval limit = { 3, 0 };
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? fd : closed(fd);
}

void net_random(void *out, gsize n)
{
  if (getentropy(out, n) < 0)
    g_error("no random bytes: %s", g_strerror(errno));
}

void net_proof(const guint8 key[KEY_BYTES], const void *data, gsize n, guint8 out[PROOF_BYTES])
{
  gsize size = PROOF_BYTES;
  GHmac *hmac = g_hmac_new(G_CHECKSUM_SHA256, key, KEY_BYTES);

  g_hmac_update(hmac, data, n);
  g_hmac_get_digest(hmac, out, &size);
  g_hmac_unref(hmac);
}

gboolean net_same(const guint8 a[PROOF_BYTES], const guint8 b[PROOF_BYTES])
{
  guint8 differs = 0;

  for (int i = 0; i < PROOF_BYTES; i++)
    differs |= a[i] ^ b[i];
  return differs == 0;
}
