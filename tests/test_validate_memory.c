/* Memory of published runs, as their figures count it. */
#include "fixture.h"
#include "case_rows.h"
#include "plan/framework.h"
#include "validate/validate.h"

#include <stdio.h>

static const char header[] = CASE_COLUMNS "\n";

static gboolean add_rows(Validation *v, const char *rows, GError **error)
{
  return case_rows_add(v, header, rows, error);
}

#define COUNTED(kind) \
  "a,s,src,megatron-deepspeed,megatron-deepspeed-2022,GPT,4,1024,4096,16,16,512,50000,gelu,unfused,dgx,8,1,0,2,1,,4,1,1,2,16," \
  "full,fp16,,,,0.5,9," kind ",\n"

/* The driver counts context and communicators, the allocator what it keeps for the step's end. */
START_TEST(memory_is_counted_alike)
{
  g_autoptr(Validation) v = validation_new(-1);
  g_autoptr(Framework) framework = framework_load("megatron-deepspeed-2022", NULL);
  double bytes[3];

  ck_assert(add_rows(v, COUNTED("max_allocated") COUNTED("max_reserved") COUNTED("nvidia-smi"), NULL));
  for (int i = 0; i < 3; i++)
    bytes[i] = ((CaseResult *)g_ptr_array_index(v->cases, i))->predicted_memory_bytes;
  /* the embedding's fp32 and fp64 copies at least */
  ck_assert_double_gt(bytes[1] - bytes[0], 12 * 1024 * 50048.0 / 4);
  ck_assert_double_eq_tol(bytes[2] - bytes[1], framework->context_bytes + 2 * framework->group_bytes, 1);
}
END_TEST

#define FULL(kind) \
  "a,s,src,megatron,megatron-core,GPT,18,4096,16384,32,32,3072,51200,gelu,flash,dgx,1,1,0,1,1,,1,1,0,1,2,none,fp16,,,,0.5,79," \
  kind ",\n"

/* The step's copies and all that passes hold are more than the device has; the allocator gives copies back by then. */
START_TEST(no_more_is_reserved_than_there_is)
{
  g_autoptr(Validation) v = validation_new(-1);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 1);
  g_autoptr(Framework) framework = framework_load("megatron-core", NULL);
  double bytes[3];

  ck_assert(add_rows(v, FULL("max_allocated") FULL("max_reserved") FULL("nvidia-smi"), NULL));
  for (int i = 0; i < 3; i++) {
    const CaseResult *c = g_ptr_array_index(v->cases, i);
    ck_assert_msg(!c->skipped, "%s", c->skipped);
    ck_assert_double_lt(c->memory_need, 0.99);
    bytes[i] = c->predicted_memory_bytes;
  }
  ck_assert_double_eq_tol(bytes[2], cluster->device.memory_bytes, 1);
  ck_assert_double_eq_tol(bytes[1], cluster->device.memory_bytes - framework->context_bytes, 1);
  ck_assert_double_lt(bytes[0], 0.99 * bytes[1]);
}
END_TEST

#define FORGED(batch) \
  "a,s,src,pytorch-fsdp2,kempnerforge-2026,Llama-3-8B,32,4096,14336,32,8,4096,128256,swiglu,flash,dgx,8,1,0,1,1,,8,1,3," \
  "1," batch ",full,bf16,,,,0.5,9,max_allocated,\n"

/* Where gradients of several micro-batches are summed over ranks once, all of them stay in fp32: 7/8 of 4 bytes more. */
START_TEST(gradients_summed_once)
{
  g_autoptr(Validation) v = validation_new(-1);
  double bytes[2], params = 8.03e9;

  ck_assert(add_rows(v, FORGED("8") FORGED("16"), NULL));
  for (int i = 0; i < 2; i++)
    bytes[i] = ((CaseResult *)g_ptr_array_index(v->cases, i))->predicted_memory_bytes;
  ck_assert_double_eq_tol(bytes[1] - bytes[0], 7 / 8.0 * 4 * params, 0.05 * 4 * params);
  /* bf16 weights and moments, fp32 gradients, of the rank's part: no main copy */
  ck_assert_double_lt(bytes[0], (6 + 4) / 8.0 * params + 10e9);
}
END_TEST

#define LOGGED(framework, generation, zero, batch) \
  "a,s,src," framework "," generation ",Llama-3-8B,8,1024,3584,8,8,4096,128256,swiglu,flash,dgx,2,1,0,2,1,1f1b," \
  "1,1," zero "," batch ",32,full,bf16,,,,0.5,9,max_allocated,\n"

#define PAIR(framework, generation, zero) \
  LOGGED(framework, generation, zero, "1"), LOGGED(framework, generation, zero, "4")

static const struct {
  const char *small, *large;
  gboolean logits; /* of the figures' stage */
} logged[] = {
  { PAIR("pytorch-fsdp2", "torchtitan-2025-11", "3"), TRUE },
  { PAIR("pytorch-fsdp2", "kempnerforge-2026", "3"), FALSE },
  { PAIR("nanotron", "nanotron-2025", "0"), FALSE },
  { PAIR("megatron", "megatron-core", "0"), TRUE },
};

/* Three more sequences in a micro-batch add their logits, at least 6 bytes each, to the last stage, the fullest. */
START_TEST(figures_are_of_a_stage)
{
  g_autoptr(Validation) v = validation_new(-1);
  const double logits = 3 * 4096 * 128256.0;
  double bytes[2];

  ck_assert(add_rows(v, logged[_i].small, NULL) && add_rows(v, logged[_i].large, NULL));
  for (int i = 0; i < 2; i++) {
    const CaseResult *c = g_ptr_array_index(v->cases, i);
    ck_assert_msg(!c->skipped, "%s", c->skipped);
    bytes[i] = c->predicted_memory_bytes;
  }
  if (logged[_i].logits)
    ck_assert_double_gt(bytes[1] - bytes[0], 5 * logits);
  else
    ck_assert_double_lt(bytes[1] - bytes[0], 2 * logits);
}
END_TEST

TEST_LOOPS("validate_memory", { memory_is_counted_alike }, { no_more_is_reserved_than_there_is },
           { gradients_summed_once }, { figures_are_of_a_stage, G_N_ELEMENTS(logged) })
