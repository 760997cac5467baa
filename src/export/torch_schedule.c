/* torch.distributed.pipelining: the order of passes alone, as PipelineScheduleMulti._load_csv reads it. */
#include "export/target.h"

#include "schedule/table.h"

static gboolean render(Export *e, GString *text, GError **error)
{
  const PipelineLayout *p = &e->layout.pipeline;
  g_autofree char *table = schedule_table_text(p->schedule, &p->shape, error);

  if (table)
    g_string_append(text, table);
  return table != NULL;
}

const Exporter exporter_torch_schedule = {
  .name = "torch-schedule",
  .target = "torch.distributed.pipelining",
  .extension = "csv",
  .adapters = TRUE,
  .render = render,
};
