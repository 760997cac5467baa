/*
 * Whether a program is right: every dependency exists; no deadlock through dependencies and lane orders; each send has
 * one receiver; each pass of each chunk and micro-batch runs once, with all of the chunk's layers, and on the side of
 * one copy only; the copies' gradients are summed; what is allocated is freed. Programs are so by construction.
 */
#ifndef TDP_TESTS_PROGRAM_CHECK_H
#define TDP_TESTS_PROGRAM_CHECK_H

#include "program/program.h"

/* FALSE and TDP_ERROR_RUNTIME, "program: ...", where it is not. */
gboolean program_check(const Program *program, GError **error);

#endif
