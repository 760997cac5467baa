/* What this rank lacked of its processor. */
#include "exec/cpu/cpu.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Seconds of all processors that the hypervisor withheld; 0 where the system does not say. */
static double stolen_s(void)
{
  unsigned long long stolen = 0;
  FILE *f = fopen("/proc/stat", "r");

  if (!f)
    return 0;
  if (fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &stolen) != 1)
    stolen = 0;
  fclose(f);
  return (double)stolen / (double)sysconf(_SC_CLK_TCK);
}

/* The thread's clock stands still while it waits for a processor. */
static BackendWithheld withheld(Backend *b)
{
  BackendWithheld w = { .stolen_s = stolen_s() / (double)sysconf(_SC_NPROCESSORS_ONLN) };
  struct timespec own;

  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own) == 0)
    w.ready_s = b->now_s(b) - (own.tv_sec + 1e-9 * own.tv_nsec) - cpu_of(b)->napped_s;
  return w;
}

void cpu_fill_withheld(Backend *b)
{
  b->withheld = withheld;
}
