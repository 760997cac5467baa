/* How values stand in order, for sorting arrays of them, and the one in the middle. */
#ifndef TDP_BASE_SORT_H
#define TDP_BASE_SORT_H

#include <glib.h>

int sort_reals(gconstpointer a, gconstpointer b); /* double, or structs that begin with one */
int sort_texts(gconstpointer a, gconstpointer b); /* char *, by bytes */

/* Sorts n > 0 numbers; the middle one, of an even number the mean of both. */
double sort_median(double *values, int n);

#endif
