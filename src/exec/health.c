#include "exec/health.h"

#include "base/error.h"
#include "exec/health_net.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 50, BEAT_MS = 250, LAST_WORDS_MS = 200, WAITING_US = 2 * G_USEC_PER_SEC };

typedef struct {
  int rank, fd;    /* fd -1 = gone or goodbye said */
  gint64 heard_us;
  int pid;         /* 0 = on another host */
  guint64 progress, waits;
  gint64 waited_us; /* when `waits` last grew */
  char phase[HEALTH_TEXT];
} Peer;

struct Health {
  HealthOptions options;
  Peer *peers; /* of rank 0: ranks 1 and up; of others: rank 0 */
  int n_peers;
  int wake;          /* descriptor */
  GThread *thread;
  GMutex lock;       /* of failure and leaving */
  char failure[HEALTH_TEXT];
  gboolean leaving;  /* asked to */
  gboolean said_bye;
  gint64 moved_us;   /* when any rank last moved */
  Peer own;          /* progress and waits of this rank */
  gint64 beat_us, signal_us; /* last beat; SIGTERM, 0 = none */
};

/* A handler has no other place to note it. */
static volatile sig_atomic_t terminated;

static void note_signal(int signal)
{
  (void)signal;
  terminated = TRUE;
}

static gboolean is_root(const Health *h)
{
  return h->options.rank == 0;
}

static void tell(Health *h, HealthKind kind, const char *text)
{
  HealthMessage m = { .kind = kind, .rank = h->options.rank, .pid = getpid() };

  m.progress = h->options.progress(h->options.data);
  m.waits = h->options.waits(h->options.data);
  g_strlcpy(m.text, text, sizeof m.text);
  for (int i = 0; i < h->n_peers; i++)
    if (h->peers[i].fd >= 0)
      health_send(h->peers[i].fd, &m);
}

G_NORETURN static void end_run(Health *h, gboolean speaks, const char *message)
{
  if (is_root(h))
    tell(h, HEALTH_END, message);
  h->options.end(h->options.data, speaks, message);
  _exit(1);
}

/* A rank other than 0 reports and is told to end; if not, it ends by itself. */
G_NORETURN static void end_self(Health *h, const char *message)
{
  gint64 until = g_get_monotonic_time() + G_USEC_PER_SEC;

  if (is_root(h))
    end_run(h, TRUE, message);
  tell(h, HEALTH_FAIL, message);
  while (g_get_monotonic_time() < until) {
    struct pollfd p = { h->peers[0].fd, POLLIN, 0 };
    HealthMessage m;
    if (poll(&p, 1, TICK_MS) > 0 && (health_receive(p.fd, &m) <= 0 || m.kind == HEALTH_END))
      break;
  }
  end_run(h, FALSE, message);
}

static void hang_up(Peer *peer)
{
  close(peer->fd);
  peer->fd = -1;
}

static void lost(Health *h, Peer *peer, const char *how)
{
  g_autofree char *message = g_strdup_printf("rank %d %s; last seen in %s", peer->rank, how, peer->phase);

  hang_up(peer);
  end_run(h, is_root(h) || h->options.rank == 1, message);
}

/* TRUE if it has moved. */
static gboolean note_progress(Peer *peer, guint64 progress, guint64 waits, gint64 now)
{
  gboolean moved = progress != peer->progress;

  if (waits != peer->waits)
    peer->waited_us = now;
  peer->progress = progress;
  peer->waits = waits;
  return moved;
}

static void hear(Health *h, Peer *peer, const HealthMessage *m)
{
  peer->heard_us = g_get_monotonic_time();
  peer->pid = h->options.one_host ? m->pid : 0;
  switch (m->kind) {
  case HEALTH_BEAT:
    g_strlcpy(peer->phase, m->text, sizeof peer->phase);
    if (note_progress(peer, m->progress, m->waits, peer->heard_us))
      h->moved_us = peer->heard_us;
    break;
  case HEALTH_FAIL:
    end_run(h, TRUE, m->text);
  case HEALTH_END:
    end_run(h, FALSE, m->text);
  case HEALTH_BYE:
    hang_up(peer);
    break;
  }
}

static void read_peer(Health *h, Peer *peer)
{
  HealthMessage m;
  int got = health_receive(peer->fd, &m);

  if (got > 0)
    hear(h, peer, &m);
  else if (got < 0 && !h->said_bye)
    lost(h, peer, "died");
  else if (got < 0)
    hang_up(peer);
}

static void check_silence(Health *h, gint64 now)
{
  for (int i = 0; i < h->n_peers; i++) {
    Peer *peer = &h->peers[i];
    if (peer->fd < 0 || now - peer->heard_us < h->options.silence_s * G_USEC_PER_SEC)
      continue;
    if (peer->pid > 0)
      kill(peer->pid, SIGKILL);
    lost(h, peer, "has stopped answering");
  }
}

/* Ranks that wait for others come after those that do nothing; then by progress. */
static gboolean is_behind(const Peer *a, const Peer *b, gint64 now)
{
  gboolean a_waits = now - a->waited_us < WAITING_US, b_waits = now - b->waited_us < WAITING_US;

  return a_waits != b_waits ? b_waits : a->progress < b->progress;
}

static void check_stall(Health *h, gint64 now)
{
  const Peer *worst = &h->own;

  if (note_progress(&h->own, h->options.progress(h->options.data), h->options.waits(h->options.data), now))
    h->moved_us = now;
  if (!is_root(h) || h->own.progress == 0 || h->leaving || now - h->moved_us < h->options.stall_s * G_USEC_PER_SEC)
    return;
  h->options.phase(h->options.data, h->own.phase, sizeof h->own.phase);
  for (int i = 0; i < h->n_peers; i++)
    if (h->peers[i].fd >= 0 && is_behind(&h->peers[i], worst, now))
      worst = &h->peers[i];
  g_autofree char *message = g_strdup_printf("rank %d hangs: nothing has moved for %.0f s; it is in %s", worst->rank,
                                             h->options.stall_s, worst->phase);
  end_run(h, TRUE, message);
}

static void send_beat(Health *h, gint64 now)
{
  char phase[HEALTH_TEXT];

  if (now - h->beat_us < BEAT_MS * 1000)
    return;
  h->beat_us = now;
  h->options.phase(h->options.data, phase, sizeof phase);
  tell(h, HEALTH_BEAT, phase);
}

static gboolean all_gone(const Health *h)
{
  for (int i = 0; i < h->n_peers; i++)
    if (h->peers[i].fd >= 0)
      return FALSE;
  return TRUE;
}

/* What this process itself asks for. TRUE once it may leave: rank 0 when all have
 * said goodbye, others when rank 0 has hung up on it. */
static gboolean check_self(Health *h, gint64 now)
{
  char failure[HEALTH_TEXT];
  gboolean leaving;

  g_mutex_lock(&h->lock);
  g_strlcpy(failure, h->failure, sizeof failure);
  leaving = h->leaving;
  g_mutex_unlock(&h->lock);
  if (failure[0])
    end_self(h, failure);
  if (terminated && !h->signal_us)
    h->signal_us = now;
  /* a launcher that kills all because one died: rather hear what happened */
  if (h->signal_us && now - h->signal_us > LAST_WORDS_MS * 1000 * (is_root(h) ? 1 : 3))
    end_self(h, "ended by SIGTERM");
  if (leaving && !is_root(h) && !h->said_bye) {
    tell(h, HEALTH_BYE, "");
    h->said_bye = TRUE;
  }
  return leaving && all_gone(h);
}

static void wait_events(Health *h)
{
  g_autofree struct pollfd *fds = g_new0(struct pollfd, h->n_peers + 1);
  guint64 woken;

  for (int i = 0; i < h->n_peers; i++)
    fds[i] = (struct pollfd) { h->peers[i].fd, POLLIN, 0 };
  fds[h->n_peers] = (struct pollfd) { h->wake, POLLIN, 0 };
  if (poll(fds, h->n_peers + 1, TICK_MS) <= 0)
    return;
  if (fds[h->n_peers].revents && read(h->wake, &woken, sizeof woken) < 0)
    g_assert(errno == EAGAIN);
  for (int i = 0; i < h->n_peers; i++)
    if (fds[i].revents)
      read_peer(h, &h->peers[i]);
}

static gpointer watch(gpointer data)
{
  Health *h = data;

  for (gint64 now = g_get_monotonic_time(); !check_self(h, now); now = g_get_monotonic_time()) {
    if (!h->said_bye)
      send_beat(h, now);
    wait_events(h);
    now = g_get_monotonic_time();
    check_silence(h, now);
    check_stall(h, now);
  }
  return NULL;
}

void health_catch_signals(void)
{
  sigaction(SIGTERM, &(struct sigaction) { .sa_handler = note_signal }, NULL);
}

static void set_peer(Health *h, int i, int rank, int fd)
{
  h->peers[i] = (Peer) { .rank = rank, .fd = fd, .heard_us = g_get_monotonic_time(), .phase = "start" };
}

static gboolean connect_all(Health *h, Backend *backend, BackendComm *world, GError **error)
{
  HealthAddress address = { 0 };
  int listener = is_root(h) ? health_listen(&address, h->options.one_host, error) : -1;

  if (is_root(h) && listener < 0)
    return FALSE;
  health_share(&address, backend, world);
  if (!is_root(h)) {
    int fd = health_connect(&address, h->options.rank, error);
    if (fd >= 0)
      set_peer(h, 0, 0, fd);
    return fd >= 0;
  }
  for (int i = 0; i < h->n_peers; i++) {
    int rank, fd = health_accept(listener, &rank, error);
    if (fd < 0 || rank < 1 || rank > h->n_peers)
      return FALSE;
    set_peer(h, rank - 1, rank, fd);
  }
  close(listener);
  return TRUE;
}

Health *health_start(const HealthOptions *options, Backend *backend, BackendComm *world, GError **error)
{
  Health *h = g_new0(Health, 1);

  h->options = *options;
  h->n_peers = options->rank == 0 ? options->size - 1 : 1;
  h->peers = g_new0(Peer, MAX(h->n_peers, 1));
  h->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  h->moved_us = g_get_monotonic_time();
  g_mutex_init(&h->lock);
  if (!connect_all(h, backend, world, error)) {
    g_free(h->peers);
    g_free(h);
    return NULL;
  }
  h->thread = g_thread_new("health", watch, h);
  return h;
}

static void wake(Health *h)
{
  guint64 one = 1;

  if (write(h->wake, &one, sizeof one) < 0)
    g_assert(errno == EAGAIN);
}

void health_fail(Health *h, const char *message)
{
  g_mutex_lock(&h->lock);
  g_strlcpy(h->failure, message, sizeof h->failure);
  g_mutex_unlock(&h->lock);
  wake(h);
  for (;;)
    pause();
}

void health_stop(Health *h)
{
  g_mutex_lock(&h->lock);
  h->leaving = TRUE;
  g_mutex_unlock(&h->lock);
  wake(h);
  g_thread_join(h->thread);
  for (int i = 0; i < h->n_peers; i++)
    if (h->peers[i].fd >= 0)
      close(h->peers[i].fd);
  close(h->wake);
  g_mutex_clear(&h->lock);
  g_free(h->peers);
  g_free(h);
}
