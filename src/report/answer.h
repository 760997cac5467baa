/*
 * An answer to a question: sentences, and a table that people read as text and
 * programs as an array of objects. Columns outlive the answer or are
 * its own; texts are copied.
 */
#ifndef TDP_REPORT_ANSWER_H
#define TDP_REPORT_ANSWER_H

#include "base/json.h"
#include "base/table.h"

typedef enum { CELL_TEXT, CELL_INT, CELL_SECONDS, CELL_BYTES, CELL_PERCENT, CELL_SHARE, CELL_REAL } CellKind;

typedef struct {
  const char *key;   /* in JSON, with the unit; percents (of a change, with its sign; of a share) are given there as
                        shares; NULL = not in it */
  const char *title; /* for people; "<" first = to the left; NULL = not for them */
  CellKind kind;
  double unit; /* what JSON has for 1, where people see another unit than the key's; 0 = likewise 1 */
} AnswerColumn;

typedef struct {
  const AnswerColumn *columns;
  int n_columns;
  AnswerColumn *owned; /* columns made for this answer, else NULL */
  struct {
    int series, x, y; /* columns; series: rows of one text belong together, -1 = all do */
  } drawn;            /* what a picture of the answer shows; y 0 = there is none. The last column is a text then */
  GArray *cells; /* private */
  GString *says;
} Answer;

Answer *answer_new(const AnswerColumn *columns, int n_columns);
void answer_free(Answer *answer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Answer, answer_free)

/* Cells fill rows from the left. A value that is not finite is shown as "-". */
void answer_add(Answer *answer, double value);
void answer_add_text(Answer *answer, const char *text);
void answer_draw(Answer *answer, int series, int x, int y);
void answer_hide(Answer *answer, const char *key); /* people do not see that column */
int answer_rows(const Answer *answer);
double answer_value(const Answer *answer, int row, int column); /* of a number */
const char *answer_label(const Answer *answer, int row, int column); /* of a text */
const char *answer_series(const Answer *answer, int row); /* of what is drawn, "" = it has one alone */

/* A number as people see those of a column; newly allocated. */
char *answer_shown(const Answer *answer, int column, double value);

/* Whether it has no rows, or each stands for a step ("iteration_s") that was not found. */
gboolean answer_is_empty(const Answer *answer);

/* Newly allocated: what people see of the rows; with the sentences before them. */
Table *answer_table(const Answer *answer);
char *answer_text(const Answer *answer);
void answer_write(const Answer *answer, JsonWriter *writer, const char *key);

/* The picture of an answer (answer_draw): points on two axes, logarithmic where values differ much, or bars beside names.
 * NULL where it draws nothing. No line has more columns than that, if these are at least 40. */
char *report_answer_drawn(const Answer *answer, int columns, gboolean colored);

#endif
