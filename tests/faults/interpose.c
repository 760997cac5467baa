/*
 * What an operating system may do to a program, by LD_PRELOAD; each is off unless its variable is set.
 *
 * FAULT_MALLOC=N    the N-th allocation finds no memory
 * FAULT_COUNT=FILE  how many allocations there were is written there at the end
 * FAULT_THREAD=N    no thread can be made from the N-th on
 * FAULT_EINTR=1     each second read, write and poll is interrupted by a signal
 * FAULT_CLOCK=1     the clock goes back by an hour at each tenth look; the monotonic one does not
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long allocations, threads, calls, looks;
static long malloc_at = -1, thread_at = -1;
static int interrupts, turns_back;
static const char *count_file;

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
}

static int is_full(void)
{
  return atomic_fetch_add(&allocations, 1) + 1 == malloc_at && (errno = ENOMEM);
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
