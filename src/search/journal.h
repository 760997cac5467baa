/*
 * What a search has simulated, on disk, so that one that was stopped or killed
 * goes on where it was. A text file: the first line names the search by a
 * fingerprint of all that it reads, each further line is one plan,
 * appended when its round is done: its place in the space, step time, peak, and what
 * bounds its variants.
 * A last line that was cut off is dropped, the first one too; one that no search writes is an error, and the file stays
 * as it is. Devices and pipes are refused.
 * As a simulation always gives the same, a search that reads its journal ends in the same bytes as one that had none.
 */
#ifndef TDP_SEARCH_JOURNAL_H
#define TDP_SEARCH_JOURNAL_H

#include <glib.h>

typedef struct {
  gint64 index; /* of the plan in the space */
  double step_s, memory_bytes, slack_s, gradients_s, parameters_s; /* as of Simulation */
} JournalEntry;

typedef struct Journal Journal;

/* Plans that the search may simulate, n of them in a row, with a bound of their time. */
typedef struct {
  gint64 first, n;
  double bound_s;
} JournalPlan;

/* Opens or starts the file; `plans`: JournalPlan, in rising order, none twice. TDP_ERROR_INPUT if it belongs to another
 * search, cannot be read (files_read()) or one of its lines cannot be, TDP_ERROR_RUNTIME if it cannot be written. */
Journal *journal_open(const char *path, const char *fingerprint, const GArray *plans, GError **error);

/* NULL is allowed: FALSE and nothing done. */
gboolean journal_find(const Journal *journal, gint64 index, JournalEntry *out);
void journal_add(Journal *journal, const JournalEntry *entry);
void journal_flush(Journal *journal);

/* FALSE if something could not be written (TDP_ERROR_RUNTIME). */
gboolean journal_close(Journal *journal, GError **error);

#endif
