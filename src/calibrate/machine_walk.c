/* What of the last-level cache a core has, and what bytes beyond it take. */
#include "calibrate/machine_parts.h"

#include <math.h>

#define TOLD 1.1   /* a byte at the far end takes at least so many times as long as at the near one */
#define WALKS_MAX 32

/* Seconds a byte by size, rising in size: the mean of walks that read and of those that write, too. */
typedef struct {
  int n;
  double bytes[WALKS_MAX], s_per_byte[WALKS_MAX];
} Walks;

typedef struct {
  double capacity_bytes;      /* 0 = walks do not tell it */
  double beyond_s_per_byte;   /* that a byte beyond takes more */
  double ramp;                /* bytes come to be beyond between capacity_bytes / this and capacity_bytes * this */
} WalkFit;

static const MachinePoint *walk_of(const GArray *points, const char *name, double bytes, gboolean alone)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (point_like(p, POINT_WALK, name, FALSE) && p->bytes == bytes && (p->busy == 1) == alone)
      return p;
  }
  return NULL;
}

static void add_walk(Walks *w, double bytes, double s_per_byte)
{
  int i = w->n++;

  for (; i > 0 && w->bytes[i - 1] > bytes; i--) {
    w->bytes[i] = w->bytes[i - 1];
    w->s_per_byte[i] = w->s_per_byte[i - 1];
  }
  w->bytes[i] = bytes;
  w->s_per_byte[i] = s_per_byte;
}

static Walks walks_of(const GArray *points, gboolean alone)
{
  Walks w = { 0 };

  for (guint i = 0; i < points->len && w.n < WALKS_MAX; i++) {
    const MachinePoint *p = point_at(points, i);
    if (!point_like(p, POINT_WALK, "read", FALSE) || (p->busy == 1) != (alone != 0))
      continue;
    const MachinePoint *update = walk_of(points, "update", p->bytes, alone);
    if (update && p->bytes > 0)
      add_walk(&w, p->bytes, (p->seconds + update->seconds) / 2 / p->bytes);
  }
  return w;
}

/* Where walks last take that share of the way from near to far, on a scale of logarithms; 0 = from the first on. */
static double crossing(const Walks *w, double near, double far, double share)
{
  double s_per_byte = near + share * (far - near);
  int i = w->n - 2;

  while (i >= 0 && w->s_per_byte[i] >= s_per_byte)
    i--;
  if (i < 0)
    return 0;
  double part = (s_per_byte - w->s_per_byte[i]) / (w->s_per_byte[i + 1] - w->s_per_byte[i]);
  return w->bytes[i] * pow(w->bytes[i + 1] / w->bytes[i], part);
}

/* Two levels: one of all walks that are shorter than the pools of other points, one of the longest walk. The capacity
 * is where walks take half way between them, the ramp from a quarter of it to three. What pools exceed is in kernels'
 * constants. */
static WalkFit fit_walks(const Walks *w)
{
  double near = 0, far = w->n > 0 ? w->s_per_byte[w->n - 1] : 0;
  int within = 0;

  while (within < w->n && w->bytes[within] < POINTS_COPY_BYTES(FALSE))
    near += w->s_per_byte[within++];
  near /= MAX(within, 1);
  if (within == 0 || within == w->n || far < TOLD * near)
    return (WalkFit) { 0 };
  double capacity = crossing(w, near, far, 0.5), quarter = crossing(w, near, far, 0.25);
  if (capacity < w->bytes[within - 1] || quarter == 0)
    return (WalkFit) { 0 };
  return (WalkFit) { capacity, far - near, crossing(w, near, far, 0.75) / quarter };
}

/* Ranks train at once: where walks of all at once tell a capacity, it is a rank's, and the other what it has alone. */
void machine_fit_walks(const GArray *points, MachineFit *fit)
{
  Walks one = walks_of(points, TRUE), all = walks_of(points, FALSE);
  WalkFit alone = fit_walks(&one), together = fit_walks(&all);
  const WalkFit *first = alone.capacity_bytes > 0 ? &alone : &together;

  if (first->capacity_bytes == 0)
    return;
  fit->cache_bytes = together.capacity_bytes > 0 ? together.capacity_bytes : alone.capacity_bytes;
  fit->cache_alone_bytes = MAX(alone.capacity_bytes, fit->cache_bytes);
  fit->cache_ramp = together.capacity_bytes > 0 ? sqrt(first->ramp * together.ramp) : alone.ramp;
  fit->beyond_cache_bytes_per_s = 1 / first->beyond_s_per_byte;
  fit->beyond_cache_crowding =
    together.capacity_bytes > 0 ? MAX(1, together.beyond_s_per_byte / first->beyond_s_per_byte) : 1;
}
