/* One call of each kind of point on a backend. For this folder and the tests' timings (tests/gpu/time.c). */
#ifndef TDP_CALIBRATE_BENCH_H
#define TDP_CALIBRATE_BENCH_H

#include "calibrate/points.h"
#include "exec/backend.h"

enum { ZEROS = 5, BENCH_POOLS }; /* sums of zeros stay in range however often they are taken */

typedef struct {
  Backend *b;
  BackendStream *s;
  BackendStream *beside;   /* for communication beside s */
  BackendEvent *joined;
  char *pool[BENCH_POOLS]; /* walked through by the calls */
  gsize pool_bytes, host_bytes;
  gsize next[BENCH_POOLS];
  char *walk;              /* of walk_bytes, which POINT_WALK goes through; NULL until bench_walk_room() */
  gsize walk_bytes;
  void *host;              /* for copies */
  char *disk_path;         /* what was written and not yet read; NULL */
  const char *failure;     /* of the disk; NULL */
} Bench;

/* FALSE if memory is out; clear it either way. */
gboolean bench_init(Bench *bench, Backend *backend);
void bench_clear(Bench *bench);

/* Room for walks through so many bytes; FALSE if memory is out. */
gboolean bench_walk_room(Bench *bench, gsize bytes);

/* The next so many bytes of a pool, at most pool_bytes. */
void *bench_take(Bench *bench, int pool, gsize bytes);

void bench_run(Bench *bench, const MachinePoint *point);
/* Times of its kind that a call holds: a message goes there and back. */
int bench_parts(const MachinePoint *point);

/* The product that tells the speed of the moment: of the next operands, or `again` of those of the last call, if no
 * other call was in between. Only the second is to be timed: on every occasion it finds its operands in the caches,
 * whatever ran before, and the clock where products have it. */
void bench_reference(Bench *bench, gboolean again);

/* A point that communicates: of kind COLLECTIVE or BESIDE. */
void bench_collective(Bench *bench, const MachinePoint *point, BackendComm *comm);

#endif
