/* A trace from the times of tasks that were found otherwise than event by event. */
#ifndef TDP_SIM_RANK_TRACE_H
#define TDP_SIM_RANK_TRACE_H

#include "trace/trace.h"

/* Fills in causes, exposed communication and memory of a trace whose spans have
 * their times, by task of the program, and its end. At one moment rows give
 * memory back before they take more. */
void trace_complete(Trace *trace, const Program *program);

#endif
