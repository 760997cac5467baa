/* Plans beside each other: a ranking, and what the others lose to the first. */
#ifndef TDP_REPORT_RANKING_H
#define TDP_REPORT_RANKING_H

#include "report/report.h"

/* One line a plan: degrees, time, tokens/s, MFU, bubble, memory. */
char *report_ranking(const Result *results, int n);

/* Seconds that each of the others loses to the first, by cause. */
char *report_losses(const Result *results, int n);

/* A sentence: what the critical stage does with its time. */
char *report_bottleneck(const Result *result);

#endif
