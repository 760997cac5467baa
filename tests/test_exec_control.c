/* The control channel between processes on one host, and what strangers do to it. */
#include "exec/control_state.h"
#include "main.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 4, SILENT = 80, SHARED = 1000 };

typedef void (*Job)(Control *c, int rank);

typedef struct {
  pid_t pid;
  int said; /* descriptor */
  char text[4096];
  int status;
} Rank;

typedef struct {
  int size, port;
  double meet_s, silence_s, report_s;
  int *reported; /* by all processes: set behind the last words of a rank that takes its time for them; NULL: none does */
  Job job;
  Rank ranks[RANKS_MAX];
} World;

/* A port that was free a moment ago. */
static World world_of(int size, Job job)
{
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  int fd = net_listen(&at);

  ck_assert_int_ge(fd, 0);
  close(fd);
  g_unsetenv("TDP_RUN_SECRET");
  g_unsetenv("TDP_RUN_SECRET_FILE");
  return (World) { .size = size, .port = ntohs(at.sin_port), .meet_s = 20, .silence_s = 1, .report_s = 60, .job = job };
}

static gboolean has(const guint32 *ips, int n, guint32 ip)
{
  while (n > 0 && ips[n - 1] != ip)
    n--;
  return n > 0;
}

/* Of each interface but loopback the own address is listened at and is not near; its neighbour's is near, if the network
 * has room for one. */
START_TEST(hosts_of_one_network_are_near)
{
  guint32 own[CONTROL_ADDRESSES];
  int n = net_own_ips(own);
  struct ifaddrs *all;

  ck_assert_int_eq(getifaddrs(&all), 0);
  ck_assert(!has(own, n, htonl(INADDR_LOOPBACK)) && !net_is_near(htonl(INADDR_LOOPBACK + 1)));
  ck_assert(!net_is_near(htonl(0xf0000001))); /* of a reserved network */
  for (struct ifaddrs *i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK)
      continue;
    guint32 ip = ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr, neighbour = ip ^ htonl(2);
    guint32 mask = ((struct sockaddr_in *)i->ifa_netmask)->sin_addr.s_addr;
    ck_assert(has(own, n, ip) || n == CONTROL_ADDRESSES);
    ck_assert(!net_is_near(ip));
    ck_assert(mask & htonl(2) || has(own, n, neighbour) || net_is_near(neighbour));
  }
  freeifaddrs(all);
}
END_TEST

static void report_slowly(void *data, gboolean reports, const char *message)
{
  int *reported = data;

  fprintf(stderr, "tdp-run: %s\n", message);
  if (reports)
    g_usleep(700000);
  if (reports)
    g_atomic_int_set(reported, TRUE);
}

static void end_behind_report(void *data, int code)
{
  int *reported = data;

  _exit(g_atomic_int_get(reported) ? code : 99);
}

static void run_rank(const World *w, int rank, int size)
{
  Launch launch = { .launcher = "torchrun", .rank = rank, .size = size, .local_rank = rank, .local_size = size };

  g_snprintf(launch.address, sizeof launch.address, "127.0.0.1:%d", w->port);
  g_set_prgname("tdp-run");
  control_catch_signals();
  ControlOptions options = control_options_default(&launch);
  options.meet_s = w->meet_s;
  options.silence_s = w->silence_s;
  options.report_s = w->report_s;
  options.data = w->reported;
  if (w->reported) {
    options.last_words = report_slowly;
    options.end = end_behind_report;
  }
  Control *c = control_open(&options);
  w->job(c, rank);
  control_close(c);
  _exit(0);
}

static void start_as(World *w, int rank, int size)
{
  Rank *r = &w->ranks[rank];
  int ends[2];

  ck_assert_int_eq(pipe(ends), 0);
  r->said = ends[0];
  r->pid = fork();
  if (r->pid == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    run_rank(w, rank, size);
  }
  close(ends[1]);
}

static void start(World *w, int from, int until)
{
  for (int i = from; i < until; i++)
    start_as(w, i, w->size);
}

/* What it said and how it ended; within seconds, or the test's limit ends the test. */
static void finish(World *w, int rank)
{
  Rank *r = &w->ranks[rank];
  gsize n = strlen(r->text);
  ssize_t got;

  while ((got = read(r->said, r->text + n, sizeof r->text - 1 - n)) > 0)
    n += got;
  close(r->said);
  waitpid(r->pid, &r->status, 0);
}

static void wait_until_said(World *w, int rank, const char *text)
{
  Rank *r = &w->ranks[rank];

  while (!strstr(r->text, text)) {
    ssize_t got = read(r->said, r->text + strlen(r->text), sizeof r->text - 1 - strlen(r->text));
    ck_assert_msg(got > 0, "rank %d never said %s: %s", rank, text, r->text);
  }
}

static void expect(World *w, int rank, int code, const char *text)
{
  Rank *r = &w->ranks[rank];

  finish(w, rank);
  ck_assert_msg(WIFEXITED(r->status) && WEXITSTATUS(r->status) == code, "rank %d: status %x, said %s", rank, r->status,
                r->text);
  ck_assert_msg(g_str_equal(r->text, text), "rank %d said: %s", rank, r->text);
}

static void share(Control *c, int rank)
{
  guint8 own[SHARED] = { 0 };

  for (int i = 0; i < SHARED && rank == 0; i++)
    own[i] = i * 7;
  for (int round = 0; round < 3; round++) {
    control_share_in_place(c, own, SHARED);
    for (int i = 0; i < SHARED; i++)
      if (own[i] != (guint8)(i * 7))
        control_fail(c, 1, "another byte");
  }
}

START_TEST(ranks_meet_and_share)
{
  World w = world_of(4, share);

  start(&w, 1, 4);
  g_usleep(100000);
  start(&w, 0, 1);
  for (int i = 0; i < 4; i++)
    expect(&w, i, 0, "");
}
END_TEST

static int call_root(const World *w)
{
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(w->port) };
  int fd;

  while ((fd = net_connect(&at)) < 0)
    g_usleep(1000);
  return fd;
}

/* Garbage, frames that claim to be enormous, connections that say nothing and that hang up: the ranks meet all the
 * same, at once, and each is told up to a number. */
START_TEST(strangers_are_dropped)
{
  guint64 garbage[64];
  World w = world_of(2, share);
  int silent[SILENT];

  start(&w, 0, 1);
  for (gsize i = 0; i < G_N_ELEMENTS(garbage); i++)
    garbage[i] = G_MAXUINT64;
  int talker = call_root(&w);
  ck_assert_int_eq(send(talker, garbage, sizeof garbage, MSG_NOSIGNAL), sizeof garbage);
  wait_until_said(&w, 0, "it does not speak as a rank of this version does\n");
  close(call_root(&w));
  wait_until_said(&w, 0, "it hung up\n");
  for (int i = 0; i < SILENT; i++)
    silent[i] = call_root(&w);
  gint64 began = g_get_monotonic_time();
  start(&w, 1, 2);
  finish(&w, 0);
  expect(&w, 1, 0, "");
  ck_assert_int_eq(w.ranks[0].status, 0);
  ck_assert_int_lt(g_get_monotonic_time() - began, 2 * G_USEC_PER_SEC);
  ck_assert_ptr_nonnull(strstr(w.ranks[0].text, "too many others wait; more are not told\n"));
  for (int i = 0; i < SILENT; i++)
    close(silent[i]);
  close(talker);
}
END_TEST

START_TEST(silent_strangers_are_dropped)
{
  World w = world_of(2, share);

  start(&w, 0, 1);
  int silent = call_root(&w);
  wait_until_said(&w, 0, ": it has said nothing for three seconds\n");
  start(&w, 1, 2);
  expect(&w, 1, 0, "");
  finish(&w, 0);
  ck_assert_int_eq(w.ranks[0].status, 0);
  close(silent);
}
END_TEST

/* Rank 0 goes on waiting for the right one. */
START_TEST(another_secret_is_refused)
{
  World w = world_of(2, share);
  g_autofree char *line = g_strdup_printf("tdp-run: rank 1: start: rank 0 at 127.0.0.1:%d does not want it as rank 1 "
                                          "of 2: its secret is another\n", w.port);

  g_setenv("TDP_RUN_SECRET", "right", TRUE);
  start(&w, 0, 1);
  g_setenv("TDP_RUN_SECRET", "wrong", TRUE);
  start(&w, 1, 2);
  expect(&w, 1, 1, line);
  wait_until_said(&w, 0, ": it says that it is rank 1 of 2: its secret is another\n");
  g_autofree char *folder = test_directory(), *file = g_build_filename(folder, "secret", NULL);
  ck_assert(g_file_set_contents(file, "right\n", -1, NULL));
  g_unsetenv("TDP_RUN_SECRET");
  g_setenv("TDP_RUN_SECRET_FILE", file, TRUE);
  memset(&w.ranks[1], 0, sizeof w.ranks[1]);
  start(&w, 1, 2);
  expect(&w, 1, 0, "");
  finish(&w, 0);
  ck_assert_int_eq(w.ranks[0].status, 0);
  unlink(file);
  rmdir(folder);
}
END_TEST

START_TEST(a_missing_secret_is_bad_input)
{
  World w = world_of(2, share);

  g_setenv("TDP_RUN_SECRET_FILE", "/nowhere/secret", TRUE);
  start(&w, 1, 2);
  expect(&w, 1, 2, "tdp-run: rank 1: TDP_RUN_SECRET_FILE: /nowhere/secret: No such file or directory\n");
  g_setenv("TDP_RUN_SECRET", "", TRUE);
  start(&w, 0, 1);
  expect(&w, 0, 2, "tdp-run: TDP_RUN_SECRET: empty: expected some characters that nobody can guess\n");
}
END_TEST

/* Of 4 ranks where there are 2, and rank 3 of these 2. */
START_TEST(ranks_of_no_such_number_are_refused)
{
  static const int sizes[] = { 4, 2 };
  static const char *const whys[] = { "the run has another number of ranks", "there is no such rank" };
  World w = world_of(2, share);
  g_autofree char *own = g_strdup_printf("as rank 3 of %d: %s\n", sizes[_i], whys[_i]);
  g_autofree char *line = g_strdup_printf(": it says that it is rank 3 of %d: %s\n", sizes[_i], whys[_i]);

  start(&w, 0, 1);
  start_as(&w, 3, sizes[_i]);
  wait_until_said(&w, 3, own);
  start(&w, 1, 2);
  finish(&w, 3);
  finish(&w, 0);
  expect(&w, 1, 0, "");
  ck_assert_int_eq(w.ranks[0].status, 0);
  ck_assert_ptr_nonnull(strstr(w.ranks[0].text, line));
}
END_TEST

START_TEST(a_rank_that_is_there_already_is_refused)
{
  World w = world_of(3, share);

  start(&w, 0, 2);
  g_usleep(200000);
  Rank first = w.ranks[1];
  memset(&w.ranks[1], 0, sizeof w.ranks[1]);
  start(&w, 1, 2);
  wait_until_said(&w, 1, "as rank 1 of 3: that rank is there already\n");
  finish(&w, 1);
  w.ranks[1] = first;
  start(&w, 2, 3);
  expect(&w, 1, 0, "");
  expect(&w, 2, 0, "");
  finish(&w, 0);
  ck_assert_int_eq(w.ranks[0].status, 0);
}
END_TEST

START_TEST(ranks_that_never_start_are_named)
{
  World w = world_of(4, share);
  g_autofree char *line = g_strdup_printf("tdp-run: rank 1: start: the ranks have not met within 1 s: cannot reach "
                                          "rank 0 at 127.0.0.1:%d: Connection refused\n", w.port);

  w.meet_s = 1;
  start(&w, 0, 2);
  expect(&w, 0, 1, "tdp-run: rank 0: start: the ranks have not met within 1 s: no word of rank 2 3\n");
  expect(&w, 1, 1, "tdp-run: rank 1 ends: rank 0: start: the ranks have not met within 1 s: no word of rank 2 3\n");
  memset(&w.ranks[1], 0, sizeof w.ranks[1]);
  start(&w, 1, 2);
  expect(&w, 1, 1, line);
}
END_TEST

static void wait_for_ever(Control *c, int rank)
{
  (void)c, (void)rank;
  fprintf(stderr, "met\n");
  for (;;)
    pause();
}

static void strike(World *w, int rank, int signal)
{
  for (int i = 0; i < w->size; i++)
    wait_until_said(w, i, "met\n");
  kill(w->ranks[rank].pid, signal);
}

START_TEST(a_rank_that_dies_is_named_by_all)
{
  World w = world_of(3, wait_for_ever);

  start(&w, 0, 3);
  strike(&w, 1, SIGKILL);
  expect(&w, 0, 1, "met\ntdp-run: rank 1 died; last seen in start\n");
  expect(&w, 2, 1, "met\ntdp-run: rank 2 ends: rank 1 died; last seen in start\n");
}
END_TEST

START_TEST(where_rank_0_dies_all_say_so)
{
  World w = world_of(3, wait_for_ever);

  start(&w, 0, 3);
  strike(&w, 0, SIGKILL);
  expect(&w, 1, 1, "met\ntdp-run: rank 0 died; last seen in start\n");
  expect(&w, 2, 1, "met\ntdp-run: rank 2 ends: rank 0 died; last seen in start\n");
}
END_TEST

/* It is left as it is, and ends by itself when it goes on. */
START_TEST(a_stopped_rank_ends_the_run)
{
  World w = world_of(3, wait_for_ever);
  int status;

  start(&w, 0, 3);
  strike(&w, 2, SIGSTOP);
  expect(&w, 0, 1, "met\ntdp-run: rank 2 has stopped answering; last seen in start\n");
  expect(&w, 1, 1, "met\ntdp-run: rank 1 ends: rank 2 has stopped answering; last seen in start\n");
  ck_assert_int_eq(waitpid(w.ranks[2].pid, &status, WNOHANG), 0);
  kill(w.ranks[2].pid, SIGCONT);
  expect(&w, 2, 1, "met\ntdp-run: rank 2 ends: rank 2 has stopped answering; last seen in start\n");
}
END_TEST

START_TEST(sigterm_ends_all)
{
  World w = world_of(2, wait_for_ever);

  start(&w, 0, 2);
  strike(&w, 0, SIGTERM);
  expect(&w, 0, 1, "met\ntdp-run: rank 0: start: ended by SIGTERM\n");
  expect(&w, 1, 1, "met\ntdp-run: rank 1 ends: rank 0: start: ended by SIGTERM\n");
}
END_TEST

static void fail_on_1(Control *c, int rank)
{
  if (rank == 1)
    control_fail(c, 2, "rank 1: a key: a value: expected another");
  for (;;)
    pause();
}

START_TEST(a_failure_ends_all_with_its_status)
{
  World w = world_of(3, fail_on_1);

  start(&w, 0, 3);
  expect(&w, 0, 2, "tdp-run: rank 1: a key: a value: expected another\n");
  expect(&w, 1, 2, "tdp-run: rank 1: a key: a value: expected another\n");
  expect(&w, 2, 2, "tdp-run: rank 2 ends: rank 1: a key: a value: expected another\n");
}
END_TEST

static void terminated(Control *c, int rank)
{
  if (rank == 0)
    g_usleep(300000); /* all have met */
  kill(getpid(), SIGTERM);
  wait_for_ever(c, rank);
}

/* A launcher ends all ranks once one has ended, so none does before rank 0 has reported, which may take longer than a
 * rank may be silent. */
START_TEST(none_ends_before_the_report)
{
  static const struct {
    Job job;
    int code;
    const char *line;
  } cases[] = { { terminated, 1, "start: ended by SIGTERM" },
                { fail_on_1, 2, "rank 1: a key: a value: expected another" } };
  World w = world_of(3, cases[_i % 2].job);
  int *reported = mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  ck_assert_ptr_ne(reported, MAP_FAILED);
  w.reported = reported;
  w.silence_s = _i / 2 ? 0.4 : 2;
  start(&w, 0, 3);
  for (int i = 0; i < 3; i++) {
    finish(&w, i);
    ck_assert_msg(strstr(w.ranks[i].text, cases[_i % 2].line) != NULL, "rank %d said: %s", i, w.ranks[i].text);
    ck_assert_msg(WIFEXITED(w.ranks[i].status) && WEXITSTATUS(w.ranks[i].status) == cases[_i % 2].code, "rank %d: status %x", i,
                  w.ranks[i].status);
  }
  munmap(reported, sizeof *reported);
}
END_TEST

/* A report that never ends is waited for no longer than reports may take. */
START_TEST(an_endless_report_is_left)
{
  World w = world_of(2, fail_on_1);
  int *reported = mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  ck_assert_ptr_ne(reported, MAP_FAILED);
  w.reported = reported;
  w.silence_s = 0.2;
  w.report_s = 0.4;
  start(&w, 0, 2);
  finish(&w, 1);
  ck_assert(WIFEXITED(w.ranks[1].status) && WEXITSTATUS(w.ranks[1].status) == 99);
  finish(&w, 0);
  ck_assert_int_eq(WEXITSTATUS(w.ranks[0].status), 2);
  munmap(reported, sizeof *reported);
}
END_TEST

static Frame forged;
static int forger;

static void forge(Control *c, int rank)
{
  if (rank == forger)
    ck_assert_int_eq(send(c->peers[0].line.fd, &forged, sizeof forged, MSG_NOSIGNAL), sizeof forged);
  for (;;)
    pause();
}

/* Frames that no rank sends: of a kind that is none, of things that rank 0 alone shares, longer than they are, a failure
 * and an end without a word. */
START_TEST(forged_frames_end_the_run)
{
  static const Frame frames[] = {
    { .kind = 77 }, { .kind = FRAME_SHARE, .total = 1, .bytes = 1 },
    { .kind = FRAME_SHARE, .total = G_MAXUINT32, .bytes = 1 },
    { .kind = FRAME_SHARE, .total = CONTROL_TEXT + 8, .bytes = CONTROL_TEXT + 8 },
    { .kind = FRAME_SHARE, .total = 1, .bytes = 2 },
    { .kind = FRAME_FAIL, .code = 1 }, { .kind = FRAME_END, .code = 1 }, { .kind = FRAME_ENDING },
  };
  static const int forgers[] = { 1, 1, 0, 0, 0, 1, 0, 1 };
  World w = world_of(2, forge);
  g_autofree char *line = g_strdup_printf("tdp-run: rank %d says what no rank says; last seen in start\n", forgers[_i]);

  forged = frames[_i];
  forger = forgers[_i];
  start(&w, 0, 2);
  expect(&w, 1 - forger, 1, line);
  finish(&w, forger);
  ck_assert_int_eq(WEXITSTATUS(w.ranks[forger].status), 1);
}
END_TEST

/* It listens where rank 0 should, and knows how rank 0 speaks but not the key. */
START_TEST(another_rank_0_is_refused)
{
  World real = world_of(2, share), w = world_of(2, share);
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(w.port) }, from;
  guint8 challenge[8 + NONCE_BYTES], hello[8 + 8 + NONCE_BYTES + PROOF_BYTES], answer[8 + 8 + PROOF_BYTES] = { 0 };
  g_autofree char *line = g_strdup_printf("tdp-run: rank 1: start: rank 0 at 127.0.0.1:%d does not want it as rank 1 "
                                          "of 2: its secret is another\n", w.port);
  int listener = net_listen(&at), fd;

  start(&real, 0, 1);
  start(&w, 1, 2);
  int caller = call_root(&real);
  ck_assert_int_eq(recv(caller, challenge, sizeof challenge, MSG_WAITALL), sizeof challenge);
  while ((fd = net_accept(listener, &from)) < 0)
    g_usleep(1000);
  ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
  ck_assert_int_eq(send(fd, challenge, sizeof challenge, MSG_NOSIGNAL), sizeof challenge);
  ck_assert_int_eq(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
  memcpy(answer, hello, 8);
  answer[12] = 2; /* behind the verdict, which is welcome */
  ck_assert_int_eq(send(fd, answer, sizeof answer, MSG_NOSIGNAL), sizeof answer);
  expect(&w, 1, 1, line);
  kill(real.ranks[0].pid, SIGKILL);
  finish(&real, 0);
}
END_TEST

TEST_LOOPS("control", { ranks_meet_and_share }, { strangers_are_dropped }, { silent_strangers_are_dropped },
           { another_secret_is_refused }, { a_missing_secret_is_bad_input }, { ranks_of_no_such_number_are_refused, 2 },
           { a_rank_that_is_there_already_is_refused }, { hosts_of_one_network_are_near },
           { ranks_that_never_start_are_named },
           { a_rank_that_dies_is_named_by_all }, { where_rank_0_dies_all_say_so }, { a_stopped_rank_ends_the_run },
           { sigterm_ends_all }, { a_failure_ends_all_with_its_status }, { none_ends_before_the_report, 4 },
           { an_endless_report_is_left },
           { forged_frames_end_the_run, 8 }, { another_rank_0_is_refused })
