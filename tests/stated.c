#include "stated.h"

#include "fixture.h"
#include "layouts.h"

void stated_init(Planned *f, const char *framework, int devices)
{
  planned_init(f, fixture_llama(8, 1024, 16, 16, 1024, 1000), fixture_cluster("dgx", devices), framework);
  planned_spread(f, 2);
  f->cluster->host_memory_bytes = 1e12;
  f->cluster->host_memory_bytes_per_s = 2e11;
  f->cluster->nvme_bytes = 1e13;
  f->cluster->nvme_read_bytes_per_s = 2e10;
  f->cluster->nvme_write_bytes_per_s = 1e10;
  f->cluster->device.host_bytes_per_s = 2.5e10;
}

StatedRun stated_run(Planned *f)
{
  StatedRun r = { .m = planned_run(f) };

  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Task *t = &g_array_index(f->program->tasks, Task, i);
    r.bytes[t->kind] += g_array_index(f->program->segments, Segment, t->segment).comm_bytes;
    r.tasks[t->kind]++;
  }
  return r;
}

double stated_params(const Planned *f)
{
  g_autoptr(PriceTable) prices = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  double params = 0;

  for (int i = 0; i < f->model->n_layers; i++)
    params += prices->layers[f->model->layers[i]].params;
  return params;
}
