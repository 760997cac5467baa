/*
 * The control channel: what a stranger says to rank 0 before and after it is taken for a rank, and what rank 0 says to
 * others. The input's first byte says as whom (bit 0: rank 0 listens to a caller, else another rank to rank 0) and
 * whether the caller knows the key (bit 1), which no fuzzer guesses; the rest is what comes out of the connection.
 *
 * The channel ends the process from deep inside, so its source stands here and `end` jumps out instead.
 */
#include "fuzz.h"

#include "../../src/exec/control.c"
#include "../../src/exec/control_meet.c"

#include <setjmp.h>
#include <sys/socket.h>

enum { RANKS = 3 };

static jmp_buf ended;

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
  return "detect_leaks=0"; /* what ends the process frees nothing */
}

static void check_words(void *data, gboolean reports, const char *message)
{
  (void)data, (void)reports;
  g_assert(message[0] && !strchr(message, '\n'));
}

static void jump(void *data, int code)
{
  (void)data;
  g_assert(code > 0 && code <= G_MAXINT8);
  longjmp(ended, 1);
}

static void note_phase(void *data, char *text, gsize size)
{
  (void)data;
  g_strlcpy(text, "fuzzed", size);
}

/* The input begins with what a caller says that it is; one that knows the key proves it. */
static void call(Control *c, int ends[2], const uint8_t *data, size_t size, gboolean knows)
{
  Caller caller = { .since_us = 0 };
  const guint8 nonce[NONCE_BYTES] = { 0 };
  Hello hello = { 0 };
  gsize first = knows ? sizeof hello : MIN(size, sizeof hello);

  memcpy(&hello, data, MIN(size, sizeof hello));
  if (knows) {
    hello.magic = magic;
    prove(c, "rank", nonce, hello.nonce, hello.rank, hello.size, hello.proof);
  }
  line_open(&caller.line, ends[0]);
  g_array_append_val(c->meeting.callers, caller);
  c->meeting.strangers = STRANGERS_TOLD;
  g_assert(send(ends[1], &hello, first, MSG_NOSIGNAL) == (gssize)first);
  meet_advance(c, 1);
  if (size > sizeof hello)
    send(ends[1], data + sizeof hello, size - sizeof hello, MSG_NOSIGNAL); /* a caller that was dropped is not there */
}

static void clear(Control *c)
{
  GBytes *bytes;

  meet_clear(c);
  g_array_unref(c->meeting.callers);
  for (int i = 0; i < c->n_peers; i++)
    line_close(&c->peers[i].line);
  while ((bytes = g_queue_pop_head(&c->shared)))
    g_bytes_unref(bytes);
  g_byte_array_unref(c->incoming);
  g_mutex_clear(&c->lock);
  g_cond_clear(&c->changed);
  g_free(c->peers);
  g_free(c);
}

/* What comes from the other end; the first byte says who that is. */
static void feed(Control *c, int ends[2], const uint8_t *data, size_t size)
{
  if (data[0] & 1) {
    call(c, ends, data + 1, size - 1, (data[0] & 2) != 0);
  } else {
    come(&c->peers[0], ends[0], 1);
    g_assert(send(ends[1], data + 1, size - 1, MSG_NOSIGNAL) > 0);
  }
  for (int i = 0; i < c->n_peers; i++)
    read_peer(c, &c->peers[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  Launch launch = { .rank = size > 0 && data[0] & 1 ? 0 : 1, .size = RANKS, .local_size = RANKS };
  ControlOptions options = control_options_default(&launch);
  int ends[2];

  if (size < 2 || size > 4096)
    return 0;
  options.last_words = check_words;
  options.end = jump;
  options.phase = note_phase;
  g_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Control *volatile c = control_new(&options);
  if (setjmp(ended) == 0)
    feed(c, ends, data, size);
  clear(c);
  close(ends[1]);
  return 0;
}
