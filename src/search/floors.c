#include "search/floors.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

#define LESS (1 - 1e-9) /* what is known is of other numbers, and rounded */

G_STATIC_ASSERT(sizeof(Plan) % sizeof(guint64) == 0);

static guint plan_hash(gconstpointer plan)
{
  return hash_words(plan, sizeof(Plan));
}

static gboolean plan_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(Plan)) == 0;
}

Floors *floors_new(void)
{
  Floors *f = g_new(Floors, 1);

  f->parts = g_array_new(FALSE, TRUE, sizeof(PartFloor));
  f->choices = g_array_new(FALSE, FALSE, sizeof(ChoiceFloor));
  f->orders = g_hash_table_new_full(plan_hash, plan_equal, g_free, g_free);
  return f;
}

void floors_free(Floors *f)
{
  if (!f)
    return;
  g_array_unref(f->parts);
  g_array_unref(f->choices);
  g_hash_table_unref(f->orders);
  g_free(f);
}

static int by_index(gconstpointer a, gconstpointer b)
{
  gint64 x = ((const ChoiceFloor *)a)->index, y = ((const ChoiceFloor *)b)->index;
  return x < y ? -1 : x > y;
}

void floors_sort(Floors *f)
{
  g_array_sort(f->choices, by_index);
}

/* Of seconds that those that fit take, and those that fit any memory. */
static double held_s(double bound_s, double any_s, FloorsHold hold, double scale)
{
  switch (hold) {
  case FLOORS_AT_SHARE:
    return bound_s * scale;
  case FLOORS_AT_SHARE_ANY_MEMORY:
    return any_s * scale;
  case FLOORS_ANY_RATES:
    return isinf(bound_s) ? INFINITY : 0;
  case FLOORS_ANYWHERE:
    break;
  }
  return 0;
}

static void raise_parts(GArray *parts, const GArray *others, FloorsHold hold, double scale)
{
  g_array_set_size(parts, MAX(parts->len, others->len));
  for (guint i = 0; i < others->len; i++) {
    PartFloor *floor = &g_array_index(parts, PartFloor, i);
    const PartFloor *other = &g_array_index(others, PartFloor, i);
    floor->bound_s = MAX(floor->bound_s, held_s(other->bound_s, other->any_s, hold, scale));
    floor->memory_bytes = MAX(floor->memory_bytes, other->memory_bytes);
    floor->kept_bytes = MAX(floor->kept_bytes, other->kept_bytes);
    floor->plans = other->plans;
  }
}

/* What is known of a choice with some splits holds with these alone: of two that differ the first is kept. */
static void raise_split(ChoiceFloor *floor, const ChoiceFloor *other, FloorsHold hold, double scale)
{
  double split_s = held_s(other->split_s, 0, hold, scale);

  if (split_s == 0 || (floor->split_s > 0 && floor->split != other->split))
    return;
  floor->split_s = MAX(floor->split_s, split_s);
  floor->split = other->split;
}

/* Both in order. */
static GArray *raise_choices(const GArray *choices, const GArray *others, FloorsHold hold, double scale)
{
  GArray *all = g_array_sized_new(FALSE, FALSE, sizeof(ChoiceFloor), choices->len + others->len);
  guint i = 0, k = 0;

  while (i < choices->len || k < others->len) {
    const ChoiceFloor *own = i < choices->len ? &g_array_index(choices, ChoiceFloor, i) : NULL;
    const ChoiceFloor *other = k < others->len ? &g_array_index(others, ChoiceFloor, k) : NULL;
    gboolean first = own && (!other || own->index <= other->index), second = other && (!own || other->index <= own->index);
    ChoiceFloor floor = first ? *own : (ChoiceFloor) { .index = other->index };
    if (second) {
      floor.bound_s = MAX(floor.bound_s, held_s(other->bound_s, 0, hold, scale));
      floor.memory_bytes = MAX(floor.memory_bytes, other->memory_bytes);
      raise_split(&floor, other, hold, scale);
    }
    g_array_append_val(all, floor);
    i += first;
    k += second;
  }
  return all;
}

void floors_add_order(Floors *f, const Plan *plan, double order_s)
{
  double *known = g_hash_table_lookup(f->orders, plan);

  if (known)
    *known = MAX(*known, order_s);
  else
    g_hash_table_insert(f->orders, g_memdup2(plan, sizeof *plan), g_memdup2(&order_s, sizeof order_s));
}

static void raise_orders(Floors *f, GHashTable *others, double scale)
{
  GHashTableIter iter;
  gpointer plan, order_s;

  g_hash_table_iter_init(&iter, others);
  while (g_hash_table_iter_next(&iter, &plan, &order_s))
    floors_add_order(f, plan, *(double *)order_s * scale);
}

void floors_raise(Floors *f, const Floors *others, FloorsHold hold, double scale)
{
  raise_parts(f->parts, others->parts, hold, scale);
  if (hold == FLOORS_AT_SHARE || hold == FLOORS_AT_SHARE_ANY_MEMORY)
    raise_orders(f, others->orders, scale);
  GArray *choices = raise_choices(f->choices, others->choices, hold, scale);
  g_array_unref(f->choices);
  f->choices = choices;
}

PartFloor floors_of_part(const Floors *f, guint batch, double device_bytes)
{
  PartFloor floor = f && batch < f->parts->len ? g_array_index(f->parts, PartFloor, batch) : (PartFloor) { 0 };

  floor.bound_s = floor.memory_bytes > device_bytes ? INFINITY : floor.bound_s * LESS;
  return floor;
}

ChoiceFloor floors_of_choice(const Floors *f, gint64 index, double device_bytes)
{
  const ChoiceFloor key = { .index = index };
  guint at;

  if (!f || !g_array_binary_search(f->choices, &key, by_index, &at))
    return key;
  ChoiceFloor floor = g_array_index(f->choices, ChoiceFloor, at);
  floor.split_s *= LESS;
  floor.bound_s = floor.memory_bytes > device_bytes ? INFINITY : floor.bound_s * LESS;
  return floor;
}

double floors_of_order(const Floors *f, const Plan *plan)
{
  const double *known = f ? g_hash_table_lookup(f->orders, plan) : NULL;

  return known ? *known * LESS : 0;
}
