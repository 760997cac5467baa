/*
 * What an operating system may do to a program, by LD_PRELOAD; each is off unless its variable is set.
 *
 * FAULT_MALLOC=N    the N-th allocation finds no memory
 * FAULT_COUNT=FILE  how many allocations there were is written there at the end
 * FAULT_EACH=N      the first of each N allocations finds no memory in a process of its own, which goes on from there: its
 *                   standard output must be FAULT_RIGHT, whole, or its exit not 0, by no signal but an abort that GLib
 *                   says is for lack of memory. FAULT_TRIED gets a line for each that is not so, then how many there were
 * FAULT_THREAD=N    no thread can be made from the N-th on
 * FAULT_EINTR=1     each second read, write and poll is interrupted by a signal
 * FAULT_CLOCK=1     the clock goes back by an hour at each tenth look; the monotonic one does not
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long allocations, threads, calls, looks;
static long malloc_at = -1, thread_at = -1;
static int interrupts, turns_back;
static const char *count_file;
static struct {
  long each, n; /* `each` is 0 in the processes that are tried, and while one is made */
  const char *right;
  char out[4096], err[4096];
  FILE *report;
} tried;

static long number(const char *variable)
{
  const char *text = getenv(variable);
  return text ? atol(text) : -1;
}

__attribute__((constructor))
static void start(void)
{
  malloc_at = number("FAULT_MALLOC");
  thread_at = number("FAULT_THREAD");
  interrupts = getenv("FAULT_EINTR") != NULL;
  turns_back = getenv("FAULT_CLOCK") != NULL;
  count_file = getenv("FAULT_COUNT");
  if (number("FAULT_EACH") > 0) {
    const char *name = getenv("FAULT_TRIED");
    tried.right = getenv("FAULT_RIGHT");
    tried.report = fopen(name, "we");
    setlinebuf(tried.report); /* else its lines are each process's */
    snprintf(tried.out, sizeof tried.out, "%s.out", name);
    snprintf(tried.err, sizeof tried.err, "%s.err", name);
    tried.each = number("FAULT_EACH");
  }
  allocations = 0;
}

__attribute__((destructor))
static void end(void)
{
  long n = allocations;
  FILE *file = count_file ? fopen(count_file, "w") : NULL;

  if (file) {
    fprintf(file, "%ld\n", n);
    fclose(file);
  }
  if (tried.each > 0)
    fprintf(tried.report, "%ld\n", tried.n);
}

/* What is written to `as` goes to a new file, behind the bytes of `from` where that is one. */
static void redirect(int as, const char *name, const char *from)
{
  char bytes[65536];
  ssize_t n;
  int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600), before = from ? open(from, O_RDONLY) : -1;

  while (before >= 0 && (n = read(before, bytes, sizeof bytes)) > 0)
    if (write(file, bytes, n) != n)
      _exit(99);
  dup2(file, as);
  close(file);
  if (before >= 0)
    close(before);
}

/* What a file holds: bytes, as many as there is room for. */
static size_t contents(const char *name, char *to, size_t room)
{
  int file = open(name, O_RDONLY);
  ssize_t n = 0, more;

  while (file >= 0 && (more = read(file, to + n, room - n)) > 0)
    n += more;
  if (file >= 0)
    close(file);
  return n;
}

static const char *what_is_wrong(int status)
{
  static char one[1 << 20], other[1 << 20];

  if (WIFSIGNALED(status)) {
    one[contents(tried.err, one, sizeof one - 1)] = 0;
    return (WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGTRAP) && strstr(one, "failed to allocate")
               ? NULL : strsignal(WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != 0)
    return NULL;
  size_t n = contents(tried.out, one, sizeof one);
  return n < sizeof one && n == contents(tried.right, other, sizeof other) && memcmp(one, other, n) == 0
             ? NULL : "exit 0, another output";
}

/* TRUE in the process whose allocation fails; the one that made it waits for its end. */
static int fails_in_child(long n)
{
  long each = tried.each;
  pid_t child;
  int status;
  const char *why;

  tried.each = 0;
  if ((child = fork()) == 0) {
    count_file = NULL;
    redirect(STDOUT_FILENO, tried.out, "/proc/self/fd/1");
    redirect(STDERR_FILENO, tried.err, NULL);
    alarm(60);
    return 1;
  }
  if (child > 0 && waitpid(child, &status, 0) == child && (why = what_is_wrong(status)))
    fprintf(tried.report, "allocation %ld: %s\n", n, why);
  tried.n += child > 0;
  tried.each = each;
  return 0;
}

static int is_full(void)
{
  long n = atomic_fetch_add(&allocations, 1) + 1;

  if (tried.each > 0 && n % tried.each == 1 % tried.each && fails_in_child(n)) {
    errno = ENOMEM;
    return 1;
  }
  return n == malloc_at && (errno = ENOMEM);
}

void *malloc(size_t size)
{
  return is_full() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
  return is_full() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
  return is_full() ? NULL : __libc_realloc(old, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *data)
{
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");

  return thread_at > 0 && atomic_fetch_add(&threads, 1) + 1 >= thread_at ? EAGAIN : real(thread, attributes, run, data);
}

static int is_interrupted(void)
{
  return interrupts && atomic_fetch_add(&calls, 1) % 2 == 0 && (errno = EINTR);
}

ssize_t read(int file, void *to, size_t n)
{
  ssize_t (*real)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
  return is_interrupted() ? -1 : real(file, to, n);
}

ssize_t write(int file, const void *from, size_t n)
{
  ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
  return is_interrupted() ? -1 : real(file, from, n);
}

int poll(struct pollfd *files, nfds_t n, int timeout)
{
  int (*real)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
  return is_interrupted() ? -1 : real(files, n, timeout);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, time);

  if (turns_back && clock == CLOCK_REALTIME)
    time->tv_sec -= 3600 * (atomic_fetch_add(&looks, 1) / 10);
  return status;
}
