/*
 * What a search knows of the parts of its space that holds in like ones, which have the same parts and other numbers of the
 * cluster: no part is looked into again of which that is too slow.
 */
#ifndef TDP_SEARCH_FLOORS_H
#define TDP_SEARCH_FLOORS_H

#include "plan/plan.h"

/* Of the plans of some degrees and a micro-batch: seconds that those that fit take at least, those that fit any memory,
 * what they need at least, and those of them that do not make whole blocks again, and how many there are; 0 = nothing
 * is known. */
typedef struct {
  double bound_s, any_s, memory_bytes, kept_bytes;
  gint64 plans;
} PartFloor;

/* Of a choice of passes of a group, in parts that were looked into: seconds that those of its plans that fit take at
 * least, infinite where none fits; what any of them needs at least. Where layers are split by what they take, both hold
 * for any split; `split_s` and what it is of: the same seconds with the splits that they had there; 0 = not known. */
typedef struct {
  gint64 index; /* SpacePart.index */
  double bound_s, memory_bytes;
  double split_s;
  guint64 split; /* SpacePart.split */
} ChoiceFloor;

typedef struct {
  GArray *parts;   /* PartFloor, in the order of the space */
  GArray *choices; /* ChoiceFloor, by rising index */
  GHashTable *orders; /* Plan to double: seconds that it takes at least by its order of passes, whatever memory there is */
} Floors;

Floors *floors_new(void);
void floors_free(Floors *floors);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Floors, floors_free)

/* Where what is known is to hold: devices with the memory that it was found for, on which nothing takes less than some
 * share of its time there; with any memory, nothing less than that share; with that memory, at any rates; with any memory
 * at any rates. Rates change neither which plans fit nor, with even stages, what they are (search_raise_bounds). */
typedef enum { FLOORS_AT_SHARE, FLOORS_AT_SHARE_ANY_MEMORY, FLOORS_ANY_RATES, FLOORS_ANYWHERE } FloorsHold;

/* Has floors know what others say that holds so; `scale`: the share. */
void floors_raise(Floors *floors, const Floors *others, FloorsHold hold, double scale);

/* Choices as they were met: sorts them. */
void floors_sort(Floors *floors);

/* Of a part, by its place among all of degrees and a micro-batch, and of a choice, with infinite seconds where it needs
 * more than a device has; 0 = nothing is known. A hair less than is known. `floors` may be NULL. */
PartFloor floors_of_part(const Floors *floors, guint batch, double device_bytes);
ChoiceFloor floors_of_choice(const Floors *floors, gint64 index, double device_bytes);

/* The same of a plan with its split and overlaps. */
void floors_add_order(Floors *floors, const Plan *plan, double order_s);
double floors_of_order(const Floors *floors, const Plan *plan);

#endif
