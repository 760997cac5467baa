/*
 * What reports say in tables, for those that show them otherwise than a terminal.
 * Each is newly allocated. report.h has them as text.
 */
#ifndef TDP_REPORT_TABLES_H
#define TDP_REPORT_TABLES_H

#include "base/table.h"
#include "report/report.h"

Table *inputs_table(const Result *result);  /* name and value */
Table *speed_table(const Result *result);   /* name and value */
Table *time_table(const Result *result);    /* of the critical stage: cause, time, share of the step, what is hidden */
Table *memory_table(const Result *result);  /* of the fullest stage at its peak: part, bytes, share of its device */
Table *stages_table(const Trace *trace);    /* peak memory of each stage by part */
Table *ranking_table(const Result *results, int n);

#endif
