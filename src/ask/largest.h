/*
 * What costs a plan most of what another choice would change: of its critical
 * stage a part of computation that is no kernel at its own speed, or exposed
 * communication. Where the plan itself has a switch for it, the plan is
 * simulated with the switch turned: a number, no guess.
 */
#ifndef TDP_ASK_LARGEST_H
#define TDP_ASK_LARGEST_H

#include "report/report.h"

/* A sentence or two in a line; "" where parts are not known or all are below 1 % of the step. Newly allocated. */
char *largest_text(const Result *result);

/* The same as the object `largest`; nothing where there is none. */
void largest_write(const Result *result, JsonWriter *writer);

#endif
