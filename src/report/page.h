/*
 * A report as one document: a web page that needs no network and no other file,
 * or Markdown for an issue or a pull request. What is added becomes a section,
 * in order; each section is kept twice, as JSON that the page's script shows
 * (plots/report.html is its frame and names the style and the scripts) and as Markdown.
 *
 * To add a kind of section: a function here, its "kind" in plots/report.js.
 */
#ifndef TDP_REPORT_PAGE_H
#define TDP_REPORT_PAGE_H

#include "base/table.h"
#include "report/answer.h"
#include "report/measured.h"

typedef struct Page Page;

/* `title` names the report, `subtitle` says what it is of. Texts are copied. */
Page *page_new(const char *title, const char *subtitle);
void page_free(Page *page);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Page, page_free)

/* Sentences and aligned columns, as a terminal shows them; nothing if there are none. */
void page_text(Page *page, const char *heading, const char *text);

/* A command line to be copied; the page gives each of its options a line of its own. */
void page_command(Page *page, const char *heading, const char *command);

/* A table, and a sentence above it (NULL = none). Shares, as "12.3 %", get a bar behind them in the page. */
void page_table(Page *page, const char *heading, const char *says, const Table *table);

/* When each task of a trace ran: the page zooms from the whole step into one pass, down to the operators that it was
 * priced from, and shows which of them communicate. Of many stages some are shown, row `fullest` among them, and of more
 * tasks than a page can hold those of the step's beginning. */
void page_timeline(Page *page, const char *heading, const Trace *trace, int fullest);

/* The memory of the stages by part over the step, with each stage's peak. */
void page_memory(Page *page, const char *heading, const Result *result, const Trace *trace);

/* Points of measured values, predicted ones beside them, in seconds: both axes are logarithmic. */
typedef struct {
  const char *series, *name;
  double measured_s, predicted_s;
} PagePoint;

void page_points(Page *page, const char *heading, const char *says, const PagePoint *points, int n);

/* An answer: what it says, a picture of the columns that it draws (answer_draw), if there are any and several rows, and
 * its table. */
void page_asked(Page *page, const Answer *answer);

/* What reports of a plan have in common: speed, time and memory of a step in figures; the step in pictures with why it
 * takes what it takes; what the figures rest on. */
void page_answer(Page *page, const Result *result);
void page_step(Page *page, const Result *result, const Trace *trace);
void page_inputs(Page *page, const Result *result);

/* A measured step beside its prediction: speed, operations and memory, both steps as timelines. */
void page_measured(Page *page, const Side *predicted, const Side *measured);

/* Whether a path ends in .html or .md and may be written: TDP_ERROR_INPUT or TDP_ERROR_RUNTIME. */
gboolean page_check(const char *path, GError **error);

/* Writes a path that page_check() accepts. TDP_ERROR_RUNTIME if it cannot be written or the data folder lacks the
 * page's files. */
gboolean page_write(const Page *page, const char *path, GError **error);

#endif
