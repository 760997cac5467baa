/*
 * Orders of a schedule CSV as PyTorch's pipelining reads and writes it
 * (torch.distributed.pipelining.schedules, _load_csv and _dump_csv): no header,
 * one row a rank, one action a cell, empty cells are idle steps.
 *
 *   0F3, 0B3            forward and backward of stage 0 for micro-batch 3
 *   0I3, 0W3            its backward in two passes
 *   (0F3;7B1)OVERLAP_F_B  two passes run as one
 *   0UNSHARD, 0RESHARD, 0REDUCE_GRAD, 0SEND_F3, 0RECV_F3, 0SEND_B3, 0RECV_B3
 *
 * Stages may lie on any rank, as many on each. What is communicated follows
 * from the order of passes here, so the actions of the last line are read over;
 * the writer leaves them out (the form that PyTorch calls compute_only).
 *
 * A table is a schedule of its own: `schedule` is its descriptor, named after
 * the file, and runs in shapes whose `table` it is and whose ranks, chunks and
 * micro-batches are the file's. The caller frees it after the last use of both.
 */
#ifndef TDP_SCHEDULE_TABLE_H
#define TDP_SCHEDULE_TABLE_H

#include "schedule/schedule.h"

struct ScheduleTable {
  Schedule schedule;
  char *name;            /* as loaded */
  int ranks, micro, chunks;
  int *stages;           /* of each chunk of each rank */
  Place *places;         /* of each stage */
  ScheduleOrder *order;  /* passes schedule_order_check */
};

/* NULL and TDP_ERROR_INPUT naming file, row and cell if an action cannot be
 * read, a stage is on two ranks, ranks hold unequal numbers of stages, or the
 * orders do not pass schedule_order_check. */
ScheduleTable *schedule_table_load(const char *path, GError **error);
ScheduleTable *schedule_table_parse(const char *text, const char *name, GError **error);
void schedule_table_free(ScheduleTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ScheduleTable, schedule_table_free)

/* The orders of any schedule as such a text. NULL and TDP_ERROR_INPUT if the
 * format has no words for it: two copies of the model, recompute slots,
 * vocabulary passes. */
char *schedule_table_text(const Schedule *schedule, const ScheduleShape *shape, GError **error);

#endif
