/*
 * What a search knows of the parts of its space that holds in like ones, which have the same parts and other numbers of the
 * cluster: no part is looked into again of which that is too slow.
 */
#ifndef TDP_SEARCH_FLOORS_H
#define TDP_SEARCH_FLOORS_H

#include <glib.h>

/* Of the plans of some degrees and a micro-batch: seconds that those that fit take at least, those that fit any memory,
 * what they need at least, and how many there are; 0 = nothing is known. */
typedef struct {
  double bound_s, any_s, memory_bytes;
  gint64 plans;
} PartFloor;

/* Of a choice of passes of a group, in parts that were looked into: seconds that those of its plans that fit take at
 * least, infinite where none fits. */
typedef struct {
  gint64 index; /* SpacePart.index */
  double bound_s;
} ChoiceFloor;

typedef struct {
  GArray *parts;   /* PartFloor, in the order of the space */
  GArray *choices; /* ChoiceFloor, by rising index */
} Floors;

Floors *floors_new(void);
void floors_free(Floors *floors);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Floors, floors_free)

/* Has floors know what others say, so many times them; `any`: with any memory. */
void floors_raise(Floors *floors, const Floors *others, double scale, gboolean any);

/* Choices as they were met: sorts them. */
void floors_sort(Floors *floors);

/* Of a part, by its place among all of degrees and a micro-batch, with infinite seconds where it needs more than a device
 * has; of a choice, 0 = nothing is known. A hair less than is known. `floors` may be NULL. */
PartFloor floors_of_part(const Floors *floors, guint batch, double device_bytes);
double floors_of_choice(const Floors *floors, gint64 index);

#endif
