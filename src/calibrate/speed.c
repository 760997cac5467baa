#include "calibrate/speed.h"

#include "calibrate/bench.h"

#define PRODUCTS 12

struct Speed {
  Bench bench;
  BackendComm *world;
  double *shared; /* on the device */
};

Speed *speed_new(Backend *b, BackendComm *world)
{
  Speed *speed = g_new0(Speed, 1);

  speed->world = world;
  if (bench_init(&speed->bench, b))
    speed->shared = b->alloc(b, speed->bench.s, sizeof *speed->shared);
  if (speed->shared)
    return speed;
  speed_free(speed);
  return NULL;
}

void speed_free(Speed *speed)
{
  if (!speed)
    return;
  if (speed->shared)
    speed->bench.b->dealloc(speed->bench.b, speed->bench.s, speed->shared, sizeof *speed->shared);
  bench_clear(&speed->bench);
  g_free(speed);
}

/* Behind a barrier, as calibration times it. */
static double product_s(Speed *speed)
{
  Bench *bench = &speed->bench;
  Backend *b = bench->b;

  b->barrier(b, speed->world, bench->s);
  bench_reference(bench, FALSE);
  b->sync(b, bench->s);
  double start = b->now_s(b);
  bench_reference(bench, TRUE);
  b->sync(b, bench->s);
  return b->now_s(b) - start;
}

double speed_reference_s(Speed *speed)
{
  Bench *bench = &speed->bench;
  Backend *b = bench->b;
  double seconds = 0;

  for (int i = 0; i < PRODUCTS; i++)
    seconds += product_s(speed) / PRODUCTS / b->size;
  b->upload(b, bench->s, speed->shared, &seconds, sizeof seconds);
  b->all_reduce(b, speed->world, bench->s, speed->shared, 1, EXEC_F64, EXEC_SUM);
  b->download(b, bench->s, &seconds, speed->shared, sizeof seconds);
  return seconds;
}
