/* How ranks find each other: rank 0 listens where all know, the others where they
 * tell it, and it tells everybody where all are. */
#include "exec/cpu/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEET_MAGIC = 0x7464706d, MEET_MS = 60000, RETRY_US = 100000 };

/* On the wire as it stands: the hosts of a run are alike. */
typedef struct {
  guint32 magic;
  gint32 rank, size;
  guint32 ip; /* network order */
  gint32 port;
} Hello;

typedef struct {
  const BackendOptions *options;
  char *error;
  int listener, port;
  int *fds;
  Hello *hosts; /* of each rank */
} Meeting;

static gboolean fail(Meeting *m, const char *format, ...) G_GNUC_PRINTF(2, 3);

static gboolean fail(Meeting *m, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_vsnprintf(m->error, EXEC_ERROR_SIZE, format, args);
  va_end(args);
  return FALSE;
}

static gboolean listen_at(Meeting *m, int port)
{
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(port) };
  socklen_t size = sizeof at;
  int one = 1;

  m->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(m->listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(m->listener, SOMAXCONN) < 0 ||
      getsockname(m->listener, (struct sockaddr *)&at, &size) < 0)
    return fail(m, "TCP: cannot listen at port %d: %s", port, g_strerror(errno));
  m->port = ntohs(at.sin_port);
  return TRUE;
}

static void set_options(int fd)
{
  struct timeval limit = { MEET_MS / 1000, 0 };
  int one = 1;

  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static gboolean tell(const Meeting *m, int fd)
{
  Hello own = { .magic = MEET_MAGIC, .rank = m->options->rank, .size = m->options->size, .port = m->port };

  return send(fd, &own, sizeof own, MSG_NOSIGNAL) == sizeof own;
}

/* Tries for a minute: rank 0 may not listen yet. */
static gboolean reach(Meeting *m, int rank, const struct sockaddr_in *at)
{
  gint64 until = g_get_monotonic_time() + MEET_MS * 1000;

  for (;;) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 && tell(m, fd)) {
      set_options(fd);
      m->fds[rank] = fd;
      return TRUE;
    }
    int why = errno;
    close(fd);
    if (g_get_monotonic_time() > until)
      return fail(m, "TCP: cannot reach rank %d at %s:%d: %s", rank, inet_ntoa(at->sin_addr), ntohs(at->sin_port),
                  g_strerror(why));
    g_usleep(RETRY_US);
  }
}

/* The next process that says hello; strangers are hung up on. */
static gboolean receive_one(Meeting *m)
{
  struct pollfd wait = { m->listener, POLLIN, 0 };
  struct sockaddr_in at = { 0 };
  socklen_t size = sizeof at;
  Hello hello = { 0 };
  int fd;

  do {
    if (poll(&wait, 1, MEET_MS) <= 0)
      return fail(m, "TCP: not all of %d ranks came within %d s", m->options->size, MEET_MS / 1000);
    fd = accept4(m->listener, (struct sockaddr *)&at, &size, SOCK_CLOEXEC);
    if (fd >= 0)
      set_options(fd);
    if (fd >= 0 && (recv(fd, &hello, sizeof hello, MSG_WAITALL) != sizeof hello || hello.magic != MEET_MAGIC)) {
      close(fd);
      fd = -1;
    }
  } while (fd < 0);
  if (hello.size != m->options->size || hello.rank < 0 || hello.rank >= hello.size || hello.rank == m->options->rank ||
      m->fds[hello.rank] >= 0) {
    close(fd);
    return fail(m, "TCP: a process says that it is rank %d of %d, which %s", hello.rank, hello.size,
                hello.size == m->options->size ? "another is already" : "this run is not");
  }
  m->fds[hello.rank] = fd;
  hello.ip = at.sin_addr.s_addr;
  m->hosts[hello.rank] = hello;
  return TRUE;
}

static gboolean resolve(Meeting *m, struct sockaddr_in *at)
{
  g_autofree char *host = g_strdup(m->options->address);
  char *port = strrchr(host, ':');
  struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found = NULL;

  if (!port)
    return fail(m, "%s: expected host:port of rank 0", m->options->address);
  *port++ = 0;
  int status = getaddrinfo(host, port, &hints, &found);
  if (status != 0)
    return fail(m, "%s: %s", m->options->address, gai_strerror(status));
  *at = *(struct sockaddr_in *)found->ai_addr;
  freeaddrinfo(found);
  return TRUE;
}

static gboolean meet_as_first(Meeting *m, const struct sockaddr_in *at)
{
  gssize bytes = m->options->size * sizeof(Hello);

  if (!listen_at(m, ntohs(at->sin_port)))
    return FALSE;
  for (int i = 1; i < m->options->size; i++)
    if (!receive_one(m))
      return FALSE;
  for (int i = 1; i < m->options->size; i++)
    if (send(m->fds[i], m->hosts, bytes, MSG_NOSIGNAL) != bytes)
      return fail(m, "TCP: cannot tell rank %d where the others are: %s", i, g_strerror(errno));
  return TRUE;
}

/* Calls ranks below this one and is called by those above. */
static gboolean meet_as_other(Meeting *m, const struct sockaddr_in *first)
{
  gssize bytes = m->options->size * sizeof(Hello);

  if (!listen_at(m, 0) || !reach(m, 0, first))
    return FALSE;
  if (recv(m->fds[0], m->hosts, bytes, MSG_WAITALL) != bytes)
    return fail(m, "TCP: rank 0 did not say where the other ranks are");
  for (int i = 1; i < m->options->rank; i++) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = m->hosts[i].ip,
                              .sin_port = htons(m->hosts[i].port) };
    if (!reach(m, i, &at))
      return FALSE;
  }
  for (int i = m->options->rank + 1; i < m->options->size; i++)
    if (!receive_one(m))
      return FALSE;
  return TRUE;
}

int *tcp_meet(const BackendOptions *options, char *error)
{
  Meeting m = { .options = options, .error = error, .listener = -1 };
  struct sockaddr_in first;
  gboolean met;

  m.fds = g_new(int, options->size);
  m.hosts = g_new0(Hello, options->size);
  for (int i = 0; i < options->size; i++)
    m.fds[i] = -1;
  met = resolve(&m, &first) && (options->rank == 0 ? meet_as_first(&m, &first) : meet_as_other(&m, &first));
  if (m.listener >= 0)
    close(m.listener);
  for (int i = 0; !met && i < options->size; i++)
    if (m.fds[i] >= 0)
      close(m.fds[i]);
  if (!met)
    g_clear_pointer(&m.fds, g_free);
  g_free(m.hosts);
  return m.fds;
}
