/* torch.distributed.pipelining: the order of passes alone, as PipelineScheduleMulti._load_csv reads it. */
#include "export/target.h"

#include "schedule/table.h"

static gboolean render(Export *e, GString *text, GError **error)
{
  const ScheduleShape shape = plan_shape(e->plan);
  g_autofree char *table = schedule_table_text(e->plan->schedule, &shape, error);

  if (table)
    g_string_append(text, table);
  return table != NULL;
}

const Exporter exporter_torch_schedule = {
  .name = "torch-schedule",
  .target = "torch.distributed.pipelining",
  .extension = "csv",
  .render = render,
};
