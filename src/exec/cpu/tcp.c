#include "exec/cpu/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAGIC = 0x74647032, GRACE_US = G_USEC_PER_SEC };

static void close_peer(TcpPeer *peer)
{
  if (peer->fd >= 0)
    close(peer->fd);
  peer->fd = -1;
  if (!peer->closed_us)
    peer->closed_us = g_get_monotonic_time();
}

static gboolean would_block(void)
{
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void write_peer(TcpPeer *peer)
{
  for (TcpOut *out; peer->fd >= 0 && (out = g_queue_peek_head(&peer->out));) {
    gsize head = sizeof out->head, skip = MIN(out->sent, head), past = out->sent - skip;
    struct iovec parts[] = { { (char *)&out->head + skip, head - skip },
                             { (char *)out->data + past, out->head.bytes - past } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t n = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && !would_block())
      close_peer(peer);
    if (n < 0)
      return;
    out->sent += n;
    if (out->sent < head + out->head.bytes)
      return;
    out->done = TRUE;
    g_queue_pop_head(&peer->out);
  }
}

/* The first of a communicator that is `early` or not. */
static TcpIn *find_in(TcpPeer *peer, guint32 comm, gboolean early)
{
  for (GList *l = peer->in.head; l; l = l->next) {
    TcpIn *in = l->data;
    if (in->comm == comm && in->early == early && in != peer->current)
      return in;
  }
  return NULL;
}

static TcpIn *new_early(CpuBackend *b, TcpPeer *peer)
{
  TcpIn *in = g_new0(TcpIn, 1);

  *in = (TcpIn) { .comm = peer->head.comm, .bytes = peer->head.bytes, .early = TRUE,
                  .data = malloc(peer->head.bytes + 1) };
  if (!in->data)
    cpu_fail(b, "out of memory: %zu bytes that came early", in->bytes);
  g_queue_push_tail(&peer->in, in);
  return in;
}

static void end_in(TcpPeer *peer, TcpIn *in)
{
  in->done = TRUE;
  if (!in->early)
    g_queue_remove(&peer->in, in);
}

static void accept_head(CpuBackend *b, TcpPeer *peer)
{
  TcpIn *in = find_in(peer, peer->head.comm, FALSE);

  peer->head_got = 0;
  if (peer->head.magic != MAGIC || (in && in->bytes != peer->head.bytes)) {
    cpu_fail(b, "TCP: a message of %" G_GUINT64_FORMAT " bytes where %zu were expected", peer->head.bytes,
             in ? in->bytes : 0);
    return;
  }
  peer->current = in ? in : new_early(b, peer);
}

/* Bytes of a frame; FALSE when there are no more now. */
static gboolean read_some(TcpPeer *peer, void *to, gsize *got, gsize bytes)
{
  ssize_t n = recv(peer->fd, (char *)to + *got, bytes - *got, MSG_DONTWAIT);

  if (n == 0 || (n < 0 && !would_block()))
    close_peer(peer);
  if (n <= 0)
    return FALSE;
  *got += n;
  return *got == bytes;
}

static void read_peer(CpuBackend *b, TcpPeer *peer)
{
  while (!b->error[0]) {
    if (!peer->current) {
      if (!read_some(peer, &peer->head, &peer->head_got, sizeof peer->head))
        return;
      accept_head(b, peer);
      continue;
    }
    TcpIn *in = peer->current;
    if (in->got < in->bytes && !read_some(peer, in->data, &in->got, in->bytes))
      return;
    peer->current = NULL;
    end_in(peer, in);
  }
}

void tcp_progress(CpuBackend *b)
{
  Tcp *t = tcp_of(b);

  for (int i = 0; i < t->size; i++)
    t->polls[i] = (struct pollfd) { t->peers[i].fd, POLLIN | (g_queue_is_empty(&t->peers[i].out) ? 0 : POLLOUT), 0 };
  if (poll(t->polls, t->size, 0) <= 0)
    return;
  for (int i = 0; i < t->size && !b->error[0]; i++) {
    if (t->polls[i].revents & POLLOUT)
      write_peer(&t->peers[i]);
    if (t->polls[i].revents & ~POLLOUT)
      read_peer(b, &t->peers[i]);
  }
}

void tcp_check(CpuBackend *b, int rank)
{
  TcpPeer *peer = &tcp_of(b)->peers[rank];

  if (peer->closed_us && g_get_monotonic_time() - peer->closed_us > GRACE_US)
    cpu_fail(b, "TCP: rank %d has closed its connection", rank);
}

void tcp_send(CpuBackend *b, TcpOut *out, guint32 comm, int rank, const void *data, gsize bytes)
{
  TcpPeer *peer = &tcp_of(b)->peers[rank];

  *out = (TcpOut) { .head = { comm, MAGIC, bytes }, .data = data, .rank = rank };
  g_queue_push_tail(&peer->out, out);
  write_peer(peer);
}

/* Takes over what came early; of a frame whose bytes still come, the rest goes to
 * where it is wanted. */
static void take_early(CpuBackend *b, TcpPeer *peer, TcpIn *early, TcpIn *in)
{
  if (early->bytes != in->bytes)
    cpu_fail(b, "TCP: a message of %zu bytes where %zu were expected", early->bytes, in->bytes);
  else
    memcpy(in->data, early->data, early->got);
  in->got = early->got;
  in->done = early->done;
  g_queue_remove(&peer->in, early);
  free(early->data);
  g_free(early);
}

void tcp_recv(CpuBackend *b, TcpIn *in, guint32 comm, int rank, void *data, gsize bytes)
{
  TcpPeer *peer = &tcp_of(b)->peers[rank];
  TcpIn *early, *coming = peer->current;

  *in = (TcpIn) { .comm = comm, .data = data, .bytes = bytes, .rank = rank };
  early = find_in(peer, comm, TRUE);
  if (early) {
    take_early(b, peer, early, in);
    return;
  }
  if (coming && coming->early && coming->comm == comm) {
    peer->current = in;
    take_early(b, peer, coming, in);
  }
  g_queue_push_tail(&peer->in, in);
}

static int by_key(gconstpointer a, gconstpointer b, gpointer keys)
{
  const gint32 *k = keys;
  int i = *(const int *)a, j = *(const int *)b;

  return k[2 * i + 1] != k[2 * j + 1] ? (k[2 * i + 1] > k[2 * j + 1]) - (k[2 * i + 1] < k[2 * j + 1]) : i - j;
}

static BackendComm *group_of(Tcp *t, gint32 *asked, gint32 color)
{
  BackendComm *c = g_new0(BackendComm, 1);
  TcpComm *own = g_new0(TcpComm, 1);

  own->id = t->next_comm;
  own->ranks = g_new0(int, t->size);
  for (int i = 0; i < t->size; i++)
    if (asked[2 * i] == color)
      own->ranks[c->size++] = i;
  g_qsort_with_data(own->ranks, c->size, sizeof(int), by_key, asked);
  while (own->ranks[c->rank] != t->rank)
    c->rank++;
  c->handle = own;
  return c;
}

static gboolean message_done(CpuBackend *b, void *message)
{
  return tcp_test(b, message);
}

static void comm_free(BackendComm *c)
{
  TcpComm *own = c->handle;

  g_free(own->ranks);
  g_free(own);
}

/* All ranks tell all others color and key. */
static BackendComm *comm_new(CpuBackend *b, int color, int key, char *error)
{
  Tcp *t = tcp_of(b);
  g_autofree gint32 *asked = g_new0(gint32, 2 * t->size), *everyone = g_new0(gint32, 2 * t->size);
  BackendComm *world = group_of(t, everyone, 0);
  CpuMessage m = { .kind = COMM_ALL_GATHER, .comm = world, .x = asked + 2 * t->rank, .y = asked, .n = 2,
                   .type = EXEC_I32 };

  asked[2 * t->rank] = color;
  asked[2 * t->rank + 1] = key;
  tcp_begin(b, &m);
  cpu_wait(b, message_done, &m);
  comm_free(world);
  g_free(world);
  t->next_comm++;
  if (b->error[0])
    g_strlcpy(error, b->error, EXEC_ERROR_SIZE);
  return color < 0 || b->error[0] ? NULL : group_of(t, asked, color);
}

static void free_early(gpointer data)
{
  TcpIn *in = data;

  if (in->early) {
    free(in->data);
    g_free(in);
  }
}

static void close_tcp(CpuBackend *b)
{
  Tcp *t = tcp_of(b);

  for (int i = 0; i < t->size; i++) {
    close_peer(&t->peers[i]);
    g_queue_clear(&t->peers[i].out);
    g_queue_clear_full(&t->peers[i].in, free_early);
  }
  g_free(t->peers);
  g_free(t->polls);
  g_free(t);
}

static const CpuDriver tcp_driver = {
  .comm_new = comm_new, .comm_free = comm_free, .begin = tcp_begin, .test = tcp_test, .close = close_tcp,
};

Backend *cpu_tcp_open(const BackendOptions *options, char *error)
{
  g_autofree int *fds = tcp_meet(options, error);
  CpuBackend *b;
  Tcp *t;

  if (!fds)
    return NULL;
  b = cpu_of(cpu_new(options, &tcp_driver));
  t = g_new0(Tcp, 1);
  t->rank = options->rank;
  t->size = options->size;
  t->peers = g_new0(TcpPeer, t->size);
  t->polls = g_new0(struct pollfd, t->size);
  for (int i = 0; i < t->size; i++)
    t->peers[i].fd = fds[i];
  b->driver_data = t;
  return &b->base;
}
