#include "exec/control_state.h"

#include "base/error.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 20, BEAT_MS = 250, LAST_WORDS_MS = 200, WAITING_US = 2 * G_USEC_PER_SEC, LATE_S = 1 };

/* A handler has no other place to note it. */
static volatile sig_atomic_t terminated;

static void note_signal(int signal)
{
  (void)signal;
  terminated = TRUE;
}

void control_catch_signals(void)
{
  sigaction(SIGTERM, &(struct sigaction) { .sa_handler = note_signal }, NULL);
}

static gboolean is_root(const Control *c)
{
  return c->rank == 0;
}

static void no_phase(void *data, char *text, gsize size)
{
  (void)data;
  g_strlcpy(text, "start", size);
}

static guint64 no_count(void *data)
{
  (void)data;
  return 0;
}

static void print_line(void *data, gboolean reports, const char *message)
{
  (void)data, (void)reports;
  fprintf(stderr, "%s: %s\n", g_get_prgname(), message);
}

ControlOptions control_options_default(const Launch *launch)
{
  return (ControlOptions) { .launch = *launch, .meet_s = 8, .silence_s = 4, .report_s = 60, .phase = no_phase,
                            .progress = no_count, .waits = no_count, .last_words = print_line };
}

void control_note(Control *c, const char *format, ...)
{
  G_GNUC_UNUSED g_autoptr(GMutexLocker) lock = g_mutex_locker_new(&c->lock);
  va_list args;

  va_start(args, format);
  g_vsnprintf(c->doing, sizeof c->doing, format, args);
  va_end(args);
}

static void send_all(Control *c, const Frame *frame)
{
  for (int i = 0; i < c->n_peers; i++)
    line_send(&c->peers[i].line, frame, sizeof *frame);
}

static void tell(Control *c, FrameKind kind, int code, const char *text)
{
  Frame f = { .kind = kind, .code = code };

  f.progress = c->options.progress(c->options.data);
  f.waits = c->options.waits(c->options.data);
  g_strlcpy(f.text, text, sizeof f.text);
  send_all(c, &f);
}

static gboolean all_sent(const Control *c)
{
  for (int i = 0; i < c->n_peers; i++)
    if (c->peers[i].line.fd >= 0 && c->peers[i].line.out->len > 0)
      return FALSE;
  return TRUE;
}

static void flush_all(Control *c)
{
  for (int i = 0; i < c->n_peers; i++)
    line_flush(&c->peers[i].line);
}

static void say_last(Control *c, gboolean reports, const char *message)
{
  g_autofree char *own = g_strdup_printf("rank %d: ", c->rank);
  gboolean names_it = reports || g_str_has_prefix(message, own);
  g_autofree char *text = names_it ? g_strdup(message) : g_strdup_printf("rank %d ends: %s", c->rank, message);

  for (char *at = text; *at; at++) /* one line, whatever a file or another rank said */
    if ((guchar)*at < 0x20)
      *at = ' ';
  c->options.last_words(c->options.data, reports, text);
}

G_NORETURN static void end(const Control *c, int code)
{
  if (c->options.end)
    c->options.end(c->options.data, code);
  _exit(code);
}

G_NORETURN static void leave(Control *c, gboolean reports, int code, const char *message)
{
  say_last(c, reports, message);
  end(c, code);
}

/* Ends the run from the watching thread. */
G_NORETURN static void end_run(Control *c, int code, const char *message)
{
  if (!is_root(c))
    leave(c, FALSE, code, message);
  tell(c, FRAME_ENDING, 0, "its report");
  flush_all(c);
  say_last(c, TRUE, message);
  gint64 until = g_get_monotonic_time() + LAST_WORDS_MS * 1000;
  tell(c, FRAME_END, code, message);
  for (; !all_sent(c) && g_get_monotonic_time() < until; flush_all(c))
    g_usleep(1000);
  end(c, code);
}

/* How long a rank may say nothing. */
static gint64 silence_us(const Control *c, const Peer *peer)
{
  return (gint64)((peer->ending ? c->options.report_s : c->options.silence_s) * G_USEC_PER_SEC);
}

/* A rank other than 0 reports and is told to end; if not, as where rank 0 has stopped, it ends by itself. */
G_NORETURN static void end_self(Control *c, int code, const char *message)
{
  gint64 now = g_get_monotonic_time(), until = now + (is_root(c) ? 0 : silence_us(c, &c->peers[0]));

  if (!is_root(c))
    tell(c, FRAME_FAIL, code, message);
  while (!is_root(c) && c->peers[0].line.fd >= 0 && g_get_monotonic_time() < until) {
    struct pollfd p = { c->peers[0].line.fd, POLLIN, 0 };
    Frame f;
    int got = poll(&p, 1, TICK_MS) > 0 ? line_receive(&c->peers[0].line, sizeof f) : 0;
    memcpy(&f, c->peers[0].line.in, sizeof f);
    if (got < 0 || (got > 0 && f.kind == FRAME_END))
      break;
    c->peers[0].ending |= got > 0 && f.kind == FRAME_ENDING;
    if (c->peers[0].ending)
      until = MAX(until, now + silence_us(c, &c->peers[0]));
  }
  end_run(c, code, message);
}

static void lost(Control *c, Peer *peer, const char *how)
{
  g_autofree char *message = g_strdup_printf("rank %d %s; last seen in %s", peer->rank, how, peer->phase);

  if (is_root(c))
    end_run(c, TDP_ERROR_RUNTIME, message);
  leave(c, c->rank == 1, TDP_ERROR_RUNTIME, message);
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

static void hear_start(Control *c)
{
  G_GNUC_UNUSED g_autoptr(GMutexLocker) lock = g_mutex_locker_new(&c->lock);

  c->met = TRUE;
  g_cond_broadcast(&c->changed);
}

static void hear_share(Control *c, Peer *peer, const Frame *f)
{
  if (is_root(c) || f->bytes > CONTROL_TEXT || f->total > CONTROL_SHARE_MAX || c->incoming->len + f->bytes > f->total)
    lost(c, peer, "says what no rank says");
  g_byte_array_append(c->incoming, (const guint8 *)f->text, f->bytes);
  if (c->incoming->len < f->total)
    return;
  g_mutex_lock(&c->lock);
  g_queue_push_tail(&c->shared, g_byte_array_free_to_bytes(c->incoming));
  g_cond_broadcast(&c->changed);
  g_mutex_unlock(&c->lock);
  c->incoming = g_byte_array_new();
}

static void hear(Control *c, Peer *peer, Frame *f)
{
  if (f->kind != FRAME_SHARE)
    f->text[CONTROL_TEXT - 1] = 0;
  switch (f->kind) {
  case FRAME_START:
    if (!is_root(c))
      hear_start(c);
    break;
  case FRAME_BEAT:
    g_strlcpy(peer->phase, f->text, sizeof peer->phase);
    if (note_progress(peer, f->progress, f->waits, peer->heard_us))
      c->moved_us = peer->heard_us;
    break;
  case FRAME_ENDING:
    if (is_root(c))
      lost(c, peer, "says what no rank says");
    g_strlcpy(peer->phase, f->text, sizeof peer->phase);
    peer->ending = TRUE;
    break;
  case FRAME_SHARE:
    hear_share(c, peer, f);
    break;
  case FRAME_FAIL:
  case FRAME_END:
    if (!f->text[0])
      lost(c, peer, "says what no rank says");
    end_run(c, CLAMP(f->code, TDP_ERROR_RUNTIME, G_MAXINT8), f->text);
  case FRAME_BYE:
    line_close(&peer->line);
    break;
  default:
    lost(c, peer, "says what no rank says");
  }
}

static void read_peer(Control *c, Peer *peer)
{
  Frame f;
  int got = 1;

  while (peer->line.fd >= 0 && got > 0) {
    got = line_receive(&peer->line, sizeof f);
    memcpy(&f, peer->line.in, sizeof f);
    if (got >= 0)
      peer->heard_us = g_get_monotonic_time();
    if (got > 0)
      hear(c, peer, &f);
    else if (got < 0 && !c->said_bye)
      lost(c, peer, "died");
    else if (got < 0)
      line_close(&peer->line);
  }
}

static void check_silence(Control *c, gint64 now)
{
  for (int i = 0; i < c->n_peers; i++)
    if (c->peers[i].line.fd >= 0 && now - c->peers[i].heard_us >= silence_us(c, &c->peers[i]))
      lost(c, &c->peers[i], "has stopped answering");
}

/* Ranks that wait for others come after those that do nothing; then by progress. */
static gboolean is_behind(const Peer *a, const Peer *b, gint64 now)
{
  gboolean a_waits = now - a->waited_us < WAITING_US, b_waits = now - b->waited_us < WAITING_US;

  return a_waits != b_waits ? b_waits : a->progress < b->progress;
}

static void check_stall(Control *c, double stall_s, gint64 now)
{
  const Peer *worst = &c->own;

  if (note_progress(&c->own, c->options.progress(c->options.data), c->options.waits(c->options.data), now))
    c->moved_us = now;
  if (!is_root(c) || c->own.progress == 0 || stall_s == 0 || now - c->moved_us < stall_s * G_USEC_PER_SEC)
    return;
  c->options.phase(c->options.data, c->own.phase, sizeof c->own.phase);
  for (int i = 0; i < c->n_peers; i++)
    if (c->peers[i].line.fd >= 0 && is_behind(&c->peers[i], worst, now))
      worst = &c->peers[i];
  g_autofree char *message = g_strdup_printf("rank %d hangs: nothing has moved for %.0f s; it is in %s", worst->rank,
                                             stall_s, worst->phase);
  end_run(c, TDP_ERROR_RUNTIME, message);
}

static void send_beat(Control *c, gint64 now)
{
  char phase[CONTROL_TEXT];

  if (now - c->beat_us < BEAT_MS * 1000)
    return;
  c->beat_us = now;
  c->options.phase(c->options.data, phase, sizeof phase);
  tell(c, FRAME_BEAT, 0, phase);
}

/* In frames, behind which the main thread may go on. */
static void send_share(Control *c, GBytes *bytes)
{
  gsize n;
  const char *data = g_bytes_get_data(bytes, &n);

  for (gsize at = 0; at < n; at += CONTROL_TEXT) {
    Frame f = { .kind = FRAME_SHARE, .total = n, .bytes = MIN(n - at, CONTROL_TEXT) };
    memcpy(f.text, data + at, f.bytes);
    send_all(c, &f);
  }
  g_bytes_unref(bytes);
}

static gboolean all_gone(const Control *c)
{
  for (int i = 0; i < c->n_peers; i++)
    if (c->peers[i].line.fd >= 0)
      return FALSE;
  return TRUE;
}

static void check_signal(Control *c, gint64 now)
{
  g_autofree char *message = NULL;

  if (terminated && !c->signal_us)
    c->signal_us = now;
  /* a launcher that kills all because one died: rather hear what happened */
  if (!c->signal_us || (!all_gone(c) && now - c->signal_us <= LAST_WORDS_MS * 1000 * (is_root(c) ? 1 : 3)))
    return;
  c->options.phase(c->options.data, c->own.phase, sizeof c->own.phase);
  message = g_strdup_printf("rank %d: %s: ended by SIGTERM", c->rank, c->own.phase);
  end_self(c, TDP_ERROR_RUNTIME, message);
}

/* What this process itself asks for, and what it may; TRUE once it may leave: rank 0 when all have
 * said goodbye, others when rank 0 has hung up on it. */
static gboolean check_self(Control *c, gint64 now)
{
  g_autofree char *failure = NULL;
  GBytes *outgoing = NULL;
  gboolean closing;
  double stall_s;
  int code;

  g_mutex_lock(&c->lock);
  failure = g_strdup(c->failure);
  outgoing = is_root(c) ? g_queue_pop_head(&c->shared) : NULL;
  code = c->code;
  closing = c->closing;
  stall_s = c->stall_s;
  g_mutex_unlock(&c->lock);
  if (failure)
    end_self(c, code, failure);
  if (outgoing)
    send_share(c, outgoing);
  check_signal(c, now);
  check_silence(c, now);
  check_stall(c, stall_s, now);
  if (closing && !is_root(c) && !c->said_bye) {
    tell(c, FRAME_BYE, 0, "");
    c->said_bye = TRUE;
  }
  return closing && all_gone(c);
}

static void check_deadline(Control *c, gint64 now, gboolean arranged)
{
  double limit_s = c->options.meet_s + (is_root(c) || all_gone(c) ? 0 : LATE_S);
  char doing[CONTROL_TEXT];

  if (now - c->began_us < limit_s * G_USEC_PER_SEC)
    return;
  g_mutex_lock(&c->lock);
  g_strlcpy(doing, c->doing, sizeof doing);
  g_mutex_unlock(&c->lock);
  g_autofree char *missing = is_root(c) && arranged ? meet_missing(c) : g_strdup(doing);
  g_autofree char *message = g_strdup_printf("rank %d: start: the ranks have not met within %g s: %s", c->rank, limit_s,
                                             missing);
  end_self(c, TDP_ERROR_RUNTIME, message);
}

static void go_on_meeting(Control *c, gint64 now)
{
  gboolean arranged, met;

  g_mutex_lock(&c->lock);
  arranged = c->arranged;
  met = c->met;
  g_mutex_unlock(&c->lock);
  if (!met && arranged && meet_advance(c, now)) {
    meet_clear(c);
    hear_start(c);
  } else if (!met)
    check_deadline(c, now, arranged);
}

static void wait_events(Control *c)
{
  g_autofree struct pollfd *fds = g_new0(struct pollfd, c->n_peers);

  for (int i = 0; i < c->n_peers; i++)
    fds[i] = (struct pollfd) { c->peers[i].line.fd, POLLIN, 0 };
  if (poll(fds, c->n_peers, TICK_MS) > 0)
    for (int i = 0; i < c->n_peers; i++)
      if (fds[i].revents)
        read_peer(c, &c->peers[i]);
  flush_all(c);
}

static gpointer watch(gpointer data)
{
  Control *c = data;

  for (gint64 now = g_get_monotonic_time(); !check_self(c, now); now = g_get_monotonic_time()) {
    go_on_meeting(c, now);
    if (!c->said_bye)
      send_beat(c, now);
    wait_events(c);
  }
  return NULL;
}

static Control *control_new(const ControlOptions *options)
{
  Control *c = g_new0(Control, 1);

  c->options = *options;
  c->rank = options->launch.rank;
  c->size = options->launch.size;
  c->met = c->size == 1;
  c->n_peers = is_root(c) ? c->size - 1 : 1;
  c->peers = g_new0(Peer, c->n_peers);
  for (int i = 0; i < c->n_peers; i++)
    c->peers[i] = (Peer) { .rank = is_root(c) ? i + 1 : 0, .line.fd = -1, .phase = "start" };
  c->own.rank = c->rank;
  c->meeting = (Meeting) { .listener = -1, .callers = g_array_new(FALSE, FALSE, sizeof(Caller)) };
  c->incoming = g_byte_array_new();
  c->began_us = c->moved_us = g_get_monotonic_time();
  g_mutex_init(&c->lock);
  g_cond_init(&c->changed);
  g_queue_init(&c->shared);
  return c;
}

Control *control_open(const ControlOptions *options)
{
  Control *c = control_new(options);

  c->thread = g_thread_try_new("control", watch, c, NULL);
  if (!c->thread)
    leave(c, TRUE, TDP_ERROR_RUNTIME, "start: out of memory: there is no room for a thread");
  if (c->size == 1)
    return c;
  meet_arrange(c);
  G_GNUC_UNUSED g_autoptr(GMutexLocker) lock = g_mutex_locker_new(&c->lock);
  c->arranged = TRUE;
  while (!c->met)
    g_cond_wait(&c->changed, &c->lock);
  return c;
}

GBytes *control_share(Control *c, const void *data, gsize n)
{
  GBytes *bytes = is_root(c) ? g_bytes_new(data, n) : NULL;

  g_assert(n <= CONTROL_SHARE_MAX && (n > 0) == is_root(c));
  G_GNUC_UNUSED g_autoptr(GMutexLocker) lock = g_mutex_locker_new(&c->lock);
  if (is_root(c))
    g_queue_push_tail(&c->shared, g_bytes_ref(bytes));
  while (!bytes && !(bytes = g_queue_pop_head(&c->shared)))
    g_cond_wait(&c->changed, &c->lock);
  return bytes;
}

void control_share_in_place(void *control, void *bytes, gsize n)
{
  Control *c = control;
  g_autoptr(GBytes) found = control_share(c, bytes, is_root(c) ? n : 0);

  if (g_bytes_get_size(found) != n)
    control_fail(c, TDP_ERROR_RUNTIME, "rank 0 has shared something else: expected the same program everywhere");
  memcpy(bytes, g_bytes_get_data(found, NULL), n);
}

void control_watch_stall(Control *c, double stall_s)
{
  G_GNUC_UNUSED g_autoptr(GMutexLocker) lock = g_mutex_locker_new(&c->lock);

  c->stall_s = stall_s;
}

void control_fail(Control *c, int code, const char *message)
{
  if (g_thread_self() == c->thread)
    end_self(c, code, message);
  g_mutex_lock(&c->lock);
  if (!c->failure)
    c->failure = g_strdup(message);
  c->code = code;
  g_mutex_unlock(&c->lock);
  for (;;)
    pause();
}

void control_close(Control *c)
{
  control_watch_stall(c, 0);
  meet_stop_mpi(c);
  g_mutex_lock(&c->lock);
  c->closing = TRUE;
  g_mutex_unlock(&c->lock);
  g_thread_join(c->thread);
  meet_clear(c);
  for (int i = 0; i < c->n_peers; i++)
    line_close(&c->peers[i].line);
  g_array_unref(c->meeting.callers);
  g_byte_array_unref(c->incoming);
  g_queue_clear_full(&c->shared, (GDestroyNotify)g_bytes_unref);
  g_mutex_clear(&c->lock);
  g_cond_clear(&c->changed);
  g_free(c->peers);
  g_free(c);
}
