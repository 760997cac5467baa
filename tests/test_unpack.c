/* Weights of 4 bits that products unpack: each matrix on its own. */
#include "main.h"
#include "op/op.h"
#include "planned.h"

static double unpack_kernels(const GArray *ops)
{
  double kernels = 0;

  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    kernels += g_str_equal(op->name, "unpack weights") ? op->memory.kernels : 0;
  }
  return kernels;
}

/* Of an expert, and of shared ones, gate and up are two matrices, of which one is there at a time. */
START_TEST(experts_unpack_gate_and_up_apart)
{
  const double h = 512, experts = 4;
  Planned p;
  LayerWork work;

  planned_init(&p, _i ? fixture_moe(2, h, 8, 16, 512, experts, 2, 1) : fixture_experts(2, h, 8, experts, 16, 512),
               fixture_cluster("dgx", 8), "fsdp");
  planned_spread(&p, 1);
  char *expected = adapter_parse("qlora:r=8,targets=q_proj,v_proj", &p.plan.adapter);
  ck_assert_ptr_null(expected);
  planned_accept(&p);
  const LayerSpec *spec = model_layer(p.model, 2);
  int shared = spec->ffn.shared_width > 0, router = 1, attention = 4;

  ck_assert_int_eq(spec->ffn.kind, MLP_SWIGLU);
  ck_assert_int_eq(shared, _i);
  layer_work_init(&work, p.model, spec, PASSES(&p.plan), p.cluster);
  ck_assert_double_eq(unpack_kernels(work.forward), ADAPTER_UNPACK_KERNELS * (attention + router + 3 * (experts + shared)));
  ck_assert_double_eq(unpack_kernels(work.backward), unpack_kernels(work.forward));
  double stream = op_boundary_bytes(p.model, PASSES(&p.plan)); /* the residual's gradient beside it */
  ck_assert_double_eq(work.transient_bytes - stream, 2 * h * MAX(spec->ffn.width, spec->ffn.shared_width));
  layer_work_clear(&work);
  planned_clear(&p);
}
END_TEST

TEST_LOOPS("unpack", { experts_unpack_gate_and_up_apart, 2 })
