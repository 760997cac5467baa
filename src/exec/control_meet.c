/* How ranks find rank 0 and prove to one another that they are of one run. */
#include "exec/control_state.h"

#include "base/error.h"
#include "base/files.h"

#ifdef TDP_MPI
#include <mpi.h>
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CALLERS_MAX = 64, STRANGERS_TOLD = 8, CALL_US = 3 * G_USEC_PER_SEC, RETRY_US = 100000 };

static const guint64 magic = G_GUINT64_CONSTANT(0x3169656d2d706474); /* "tdp-mei1" */

typedef enum { WELCOME, WRONG_KEY, WRONG_SIZE, WRONG_RANK, RANK_TAKEN, VERDICTS } Verdict;

static const char *const verdict_texts[] = {
  [WELCOME] = "", [WRONG_KEY] = "its secret is another", [WRONG_SIZE] = "the run has another number of ranks",
  [WRONG_RANK] = "there is no such rank", [RANK_TAKEN] = "that rank is there already",
};

/* On the wire, in this order: rank 0's, the other's, rank 0's. */
typedef struct {
  guint64 magic;
  guint8 nonce[NONCE_BYTES];
} Challenge;

typedef struct {
  guint64 magic;
  gint32 rank, size;
  guint8 nonce[NONCE_BYTES], proof[PROOF_BYTES];
} Hello;

typedef struct {
  guint64 magic;
  guint32 verdict;
  gint32 size;
  guint8 proof[PROOF_BYTES];
} Answer;

/* What rank 0 tells others over MPI. */
typedef struct {
  char address[sizeof((Launch *)0)->address]; /* empty: one of these */
  guint8 key[KEY_BYTES];
  guint32 ips[CONTROL_ADDRESSES], n, port;
} Word;

/* Proves both nonces, rank 0's and the other's, by whom, and as which rank of how many. */
static void prove(const Control *c, const char *who, const guint8 *root, const guint8 *other, gint32 rank, gint32 size,
                  guint8 out[PROOF_BYTES])
{
  struct {
    char who[8];
    guint8 root[NONCE_BYTES], other[NONCE_BYTES];
    gint32 rank, size;
  } said = { .rank = rank, .size = size };

  g_strlcpy(said.who, who, sizeof said.who);
  memcpy(said.root, root, sizeof said.root);
  memcpy(said.other, other, sizeof said.other);
  net_proof(c->meeting.key, &said, sizeof said, out);
}

/* ---- key and addresses ---- */

static char *read_secret(Control *c)
{
  const char *file = g_getenv("TDP_RUN_SECRET_FILE"), *text = g_getenv("TDP_RUN_SECRET");
  GError *error = NULL;
  gsize length;

  if (text || !file)
    return g_strdup(text);
  char *secret = files_read(file, &length, &error);
  if (!secret) {
    g_prefix_error(&error, "rank %d: TDP_RUN_SECRET_FILE: ", c->rank);
    control_fail(c, TDP_ERROR_INPUT, error->message);
  }
  return g_strchomp(secret);
}

/* FALSE where there is no secret. */
static gboolean find_key(Control *c)
{
  g_autofree char *secret = read_secret(c);
  g_autofree char *text = g_strconcat(secret ? "secret " : "job ", secret ? secret : c->options.launch.job, NULL);
  GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
  gsize size = KEY_BYTES;

  if (secret && !secret[0])
    control_fail(c, TDP_ERROR_INPUT, "TDP_RUN_SECRET: empty: expected some characters that nobody can guess");
  g_checksum_update(sum, (const guchar *)text, -1);
  g_checksum_get_digest(sum, c->meeting.key, &size);
  g_checksum_free(sum);
  return secret != NULL;
}

static gboolean on_one_host(const Control *c)
{
  return c->options.launch.local_size == c->size;
}

static void listen_at(Control *c, gboolean any)
{
  Meeting *m = &c->meeting;

  for (int i = 0; i < m->n_addresses && m->listener < 0 && !any; i++)
    m->listener = net_listen(&m->addresses[i]);
  if (any || (m->listener < 0 && errno == EADDRNOTAVAIL)) {
    m->addresses[0].sin_addr.s_addr = INADDR_ANY;
    m->listener = net_listen(&m->addresses[0]);
  }
  if (m->listener >= 0)
    return;
  int why = errno;
  g_autofree char *at = net_text(&m->addresses[0]);
  g_autofree char *message = g_strdup_printf("rank 0: start: cannot listen at %s: %s", at, g_strerror(why));
  control_fail(c, TDP_ERROR_RUNTIME, message);
}

/* Names may not be known before rank 0's host is up. The loopback that its name stands for on its own host is no place
 * for others. */
static void meet_at(Control *c, const char *address)
{
  Meeting *m = &c->meeting;
  g_autofree char *host = g_strndup(address, strrchr(address, ':') - address);
  gboolean is_name = !g_hostname_is_ip_address(host) && !g_str_equal(host, "localhost");
  char why[CONTROL_TEXT];

  while ((m->n_addresses = net_resolve(address, m->addresses, why, sizeof why)) == 0) {
    control_note(c, "%s", why);
    g_usleep(RETRY_US);
  }
  if (c->rank == 0)
    listen_at(c, is_name && !on_one_host(c) && ntohl(m->addresses[0].sin_addr.s_addr) >> 24 == IN_LOOPBACKNET);
}

#ifdef TDP_MPI
static Word first_word(Control *c)
{
  Word w = { 0 };

  if (c->rank > 0)
    return w;
  g_strlcpy(w.address, c->options.launch.address, sizeof w.address);
  if (!find_key(c))
    net_random(c->meeting.key, KEY_BYTES);
  memcpy(w.key, c->meeting.key, KEY_BYTES);
  w.n = on_one_host(c) ? 0 : net_own_ips(w.ips);
  if (w.n == 0)
    w.ips[w.n++] = htonl(INADDR_LOOPBACK);
  return w;
}

/* Keeps the first address whose network all hosts are in; TRUE where there is none. A host with the same addresses is
 * rank 0's. */
static gboolean choose_ip(Word *w)
{
  guint32 own[CONTROL_ADDRESSES], near = 0;
  gboolean same;

  if (w->ips[0] == htonl(INADDR_LOOPBACK))
    return FALSE;
  same = net_own_ips(own) == (int)w->n && memcmp(own, w->ips, w->n * sizeof *own) == 0;
  for (guint32 i = 0; i < w->n; i++)
    near |= (guint32)(same || net_is_near(w->ips[i])) << i;
  MPI_Allreduce(MPI_IN_PLACE, &near, 1, MPI_UINT32_T, MPI_BAND, MPI_COMM_WORLD);
  if (near == 0)
    return TRUE;
  w->ips[0] = w->ips[g_bit_nth_lsf(near, -1)];
  w->n = 1;
  return FALSE;
}

static void start_mpi(Control *c)
{
  int rank, size;

  control_note(c, "MPI_Init has not returned: not all ranks have come to it");
  MPI_Init(NULL, NULL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == c->rank && size == c->size)
    return;
  g_autofree char *why = g_strdup_printf("MPI says that this is rank %d of %d, the launcher that it is rank %d of %d: "
                                         "expected a start by mpirun, or by srun --mpi=pmix", rank, size, c->rank,
                                         c->size);
  control_fail(c, TDP_ERROR_RUNTIME, why);
}

static void tell_all(void *data, int n)
{
  MPI_Bcast(data, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void arrange_by_mpi(Control *c)
{
  Meeting *m = &c->meeting;

  start_mpi(c);
  control_note(c, "rank 0 has not said over MPI where it listens");
  Word w = first_word(c);
  tell_all(&w, sizeof w);
  memcpy(m->key, w.key, KEY_BYTES);
  if (w.address[0]) {
    meet_at(c, w.address);
    return;
  }
  gboolean any = choose_ip(&w);
  m->n_addresses = w.n;
  for (guint32 i = 0; i < w.n; i++)
    m->addresses[i] = (struct sockaddr_in) { .sin_family = AF_INET, .sin_addr.s_addr = w.ips[i] };
  if (c->rank == 0)
    listen_at(c, any);
  w.port = m->addresses[0].sin_port;
  tell_all(&w.port, sizeof w.port);
  for (guint32 i = 0; i < w.n; i++)
    m->addresses[i].sin_port = w.port;
}
#endif

/* ---- rank 0, by the watching thread ---- */

G_GNUC_PRINTF(3, 4)
static void drop(Control *c, guint i, const char *format, ...)
{
  Meeting *m = &c->meeting;
  Caller *caller = &g_array_index(m->callers, Caller, i);
  g_autofree char *from = net_text(&caller->from);
  va_list args;

  va_start(args, format);
  g_autofree char *why = g_strdup_vprintf(format, args);
  va_end(args);
  if (m->strangers++ < STRANGERS_TOLD)
    fprintf(stderr, "tdp-run: rank 0: dropped a connection from %s: %s%s\n", from, why,
            m->strangers == STRANGERS_TOLD ? "; more are not told" : "");
  line_close(&caller->line);
  g_array_remove_index(m->callers, i);
}

static void accept_callers(Control *c, gint64 now)
{
  Meeting *m = &c->meeting;
  Caller caller = { .since_us = now };
  int fd;

  while ((fd = net_accept(m->listener, &caller.from)) >= 0) {
    Challenge challenge = { .magic = magic };
    if (m->callers->len == CALLERS_MAX)
      drop(c, 0, "too many others wait");
    line_open(&caller.line, fd);
    net_random(caller.nonce, NONCE_BYTES);
    memcpy(challenge.nonce, caller.nonce, NONCE_BYTES);
    line_send(&caller.line, &challenge, sizeof challenge);
    g_array_append_val(m->callers, caller);
  }
}

static Verdict judge(const Control *c, const Hello *hello, const guint8 *nonce)
{
  guint8 proof[PROOF_BYTES];

  prove(c, "rank", nonce, hello->nonce, hello->rank, hello->size, proof);
  if (!net_same(proof, hello->proof))
    return WRONG_KEY;
  if (hello->size != c->size)
    return WRONG_SIZE;
  if (hello->rank < 1 || hello->rank >= c->size)
    return WRONG_RANK;
  return c->peers[hello->rank - 1].came ? RANK_TAKEN : WELCOME;
}

static void come(Peer *peer, int fd, gint64 now)
{
  line_open(&peer->line, fd);
  peer->came = TRUE;
  peer->heard_us = now;
}

static void hear_caller(Control *c, guint i, gint64 now)
{
  Caller *caller = &g_array_index(c->meeting.callers, Caller, i);
  Hello hello;
  int got = line_receive(&caller->line, sizeof hello);

  if (got == 0 && now - caller->since_us < CALL_US)
    return;
  memcpy(&hello, caller->line.in, sizeof hello);
  if (got <= 0 || hello.magic != magic) {
    drop(c, i, "%s", got == 0 ? "it has said nothing for three seconds"
                   : got < 0  ? "it hung up"
                              : "it does not speak as a rank of this version does");
    return;
  }
  Answer answer = { .magic = magic, .verdict = judge(c, &hello, caller->nonce), .size = c->size };
  prove(c, "root", caller->nonce, hello.nonce, hello.rank, answer.size, answer.proof);
  line_send(&caller->line, &answer, sizeof answer);
  if (answer.verdict != WELCOME) {
    drop(c, i, "it says that it is rank %d of %d: %s", hello.rank, hello.size, verdict_texts[answer.verdict]);
    return;
  }
  come(&c->peers[hello.rank - 1], caller->line.fd, now);
  g_byte_array_unref(caller->line.out);
  g_array_remove_index(c->meeting.callers, i);
}

gboolean meet_advance(Control *c, gint64 now)
{
  Frame start = { .kind = FRAME_START };

  if (c->rank > 0) {
    if (!c->peers[0].came)
      come(&c->peers[0], c->meeting.root, now);
    return FALSE; /* FRAME_START says so */
  }
  accept_callers(c, now);
  for (guint i = c->meeting.callers->len; i > 0; i--)
    hear_caller(c, i - 1, now);
  for (int i = 0; i < c->n_peers; i++)
    if (!c->peers[i].came)
      return FALSE;
  for (int i = 0; i < c->n_peers; i++)
    line_send(&c->peers[i].line, &start, sizeof start);
  return TRUE;
}

char *meet_missing(const Control *c)
{
  g_autoptr(GString) text = g_string_new("no word of rank");

  for (int i = 0; i < c->n_peers && text->len < CONTROL_TEXT / 2; i++)
    if (!c->peers[i].came)
      g_string_append_printf(text, " %d", i + 1);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* ---- other ranks, by the main thread ---- */

static gboolean receive(int fd, void *out, gsize n)
{
  return recv(fd, out, n, MSG_WAITALL) == (gssize)n;
}

/* Whether rank 0 answers as it should; `verdict` is only then set. */
static gboolean introduce(const Control *c, int fd, guint32 *verdict)
{
  guint8 proof[PROOF_BYTES];
  Hello hello = { .magic = magic, .rank = c->rank, .size = c->size };
  Challenge challenge;
  Answer answer;

  if (!receive(fd, &challenge, sizeof challenge) || challenge.magic != magic)
    return FALSE;
  net_random(hello.nonce, NONCE_BYTES);
  prove(c, "rank", challenge.nonce, hello.nonce, c->rank, c->size, hello.proof);
  if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello || !receive(fd, &answer, sizeof answer) ||
      answer.magic != magic || answer.verdict >= VERDICTS)
    return FALSE;
  prove(c, "root", challenge.nonce, hello.nonce, c->rank, answer.size, proof);
  *verdict = answer.verdict == WELCOME && !net_same(proof, answer.proof) ? WRONG_KEY : answer.verdict;
  return TRUE;
}

/* Tries every address again and again, until the watching thread has had enough of it. */
static void call_root(Control *c)
{
  Meeting *m = &c->meeting;

  for (int try = 0;; try++) {
    const struct sockaddr_in *address = &m->addresses[try % m->n_addresses];
    g_autofree char *at = net_text(address);
    guint32 verdict;
    int fd = net_connect(address);
    if (fd < 0)
      control_note(c, "cannot reach rank 0 at %s: %s", at, g_strerror(errno));
    else if (!introduce(c, fd, &verdict))
      control_note(c, "what listens at %s does not answer as rank 0 of this version does", at);
    else if (verdict == WELCOME) {
      control_note(c, "rank 0 waits for others");
      c->meeting.root = fd;
      return;
    } else {
      g_autofree char *text = g_strdup_printf("rank %d: start: rank 0 at %s does not want it as rank %d of %d: %s",
                                              c->rank, at, c->rank, c->size, verdict_texts[verdict]);
      control_fail(c, TDP_ERROR_RUNTIME, text);
    }
    if (fd >= 0)
      close(fd);
    g_usleep(RETRY_US);
  }
}

void meet_arrange(Control *c)
{
  const Launch *l = &c->options.launch;

#ifdef TDP_MPI
  if (l->mpi)
    arrange_by_mpi(c);
#endif
  if (!l->mpi && !l->address[0])
    control_fail(c, TDP_ERROR_INPUT, "MASTER_ADDR: missing: expected the host of rank 0, as ranks do not meet by MPI");
  if (!l->mpi) {
    find_key(c);
    meet_at(c, l->address);
  }
  if (c->rank > 0)
    call_root(c);
}

void meet_stop_mpi(const Control *c)
{
#ifdef TDP_MPI
  if (c->size > 1 && c->options.launch.mpi)
    MPI_Finalize();
#endif
  (void)c;
}

void meet_clear(Control *c)
{
  Meeting *m = &c->meeting;

  if (m->listener >= 0)
    close(m->listener);
  m->listener = -1;
  for (guint i = 0; i < m->callers->len; i++)
    line_close(&g_array_index(m->callers, Caller, i).line);
  g_array_set_size(m->callers, 0);
}
