/* The constants of a Link as its file spells them. Private to this folder. */
#ifndef TDP_CALIBRATE_LINK_H
#define TDP_CALIBRATE_LINK_H

#include "calibrate/calibrate.h"

typedef struct {
  const char *key;
  int mask;           /* the FIT_LINK_ bit that frees it */
  double probe;       /* a change that times would show ... */
  double probe_share; /* ... and more by so much of the value; both 0: told with the others of its bit */
} LinkConstant;

extern const LinkConstant link_constants[]; /* ends with a NULL key */

double link_constant_get(const Link *link, const LinkConstant *constant);

#endif
