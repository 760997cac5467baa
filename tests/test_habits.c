/* What generations of software and families of models do where a case file says nothing. */
#include "main.h"

#include "base/files.h"
#include "validate/family.h"
#include "validate/habits.h"
#include "validate/unstated.h"

#include <stdio.h>

typedef struct {
  const char *generation, *framework, *found, *note;
} Generation;

static const Generation generations[] = {
  { "megatron-2022", "fsdp", "megatron-2022" },
  { "nemo-2026-01", "megatron", "nemo-2026-02" },
  { "nemo-2025-01", "megatron", "nemo-2025-02" },
  { "fsdp-2021", "fsdp", "fsdp-2023-08" },
  { "torchtitan-2025-eager", "torchtitan", "torchtitan-2025-11-eager" },
  { "torchtitan-2026-08", "torchtitan", "torchtitan-2026-08" },
  { "torchtitan-2026-11", "torchtitan", "torchtitan-2026-09" },
  { "torchtitan-2026-06", "torchtitan", "torchtitan-2026-05" },
  { "torchtitan-2025-12", "torchtitan", "torchtitan-2025-11" },
  { "torchtitan-2025-10", "torchtitan", "torchtitan-2025-11-eager",
    "selective AC per op; loss compiled; natural routing" },
  { "torchtitan-2026-08", "torchtitan", "torchtitan-2026-08", "loss compiled" }, /* no such file */
  { "megascale-2023", "megatron", "megatron-core-2024" },
  { "selene-2021", "megatron", "megatron-2021" },
  { "megatron-2024-03", "megatron", "megatron-core-2024" },
  { "alpa-2022", "alpa", "megatron-core-2024" },
  { "", "deepspeed", "deepspeed" },
  { "nemo-2025-02", "megatron", "maxtext-2024-12", "3 (JAX FSDP=128, DP=1); MaxText (JAX); policy not stated" },
  { "nemo-2024-11", "megatron", "paxml-2024-03", "PaXML (JAX) FSDP+DP" },
  { "nemo-2025-02", "megatron", "nemo-2025-02", "runs beside Levanter (JAX)" },
  { "nemo-2025-02", "megatron", "nemo-2025-02", " (JAX)" },
};

START_TEST(generations_are_found)
{
  g_autofree char *found = unstated_generation(generations[_i].generation, generations[_i].framework,
                                               generations[_i].note ? generations[_i].note : "");

  ck_assert_str_eq(found, generations[_i].found);
}
END_TEST

static const struct {
  const char *key, *value, *expected;
} words[] = {
  { "shard_group", "rack", "gpus_per_node" },
  { "virtual_pipeline_model_parallel_size", "4", "fastest" },
  { "memory_stage", "middle", "fullest, first or last" },
  { "recompute_modules", "layernorm+layernorm", "modules joined by +, each once" },
  { "recompute_modules", "qkv", "modules joined by +, each once" },
};

START_TEST(bad_habits_are_refused)
{
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "f.json", NULL);
  g_autofree char *text = g_strdup_printf("{\"name\": \"f\", \"like\": \"maxtext-2024-12\", \"source\": {}, "
                                          "\"unstated\": {\"%s\": \"%s\", \"source\": {\"%s\": \"so\"}}}",
                                          words[_i].key, words[_i].value, words[_i].key);
  g_autofree char *said = g_strdup_printf("framework: %s: unstated.%s: \"%s\": expected %s", path, words[_i].key,
                                          words[_i].value, words[_i].expected);
  g_autoptr(GError) error = NULL;
  Habits habits;

  ck_assert(files_write(path, text, strlen(text), NULL));
  ck_assert(!habits_read(path, &habits, &error));
  ck_assert_str_eq(error->message, said);
  habits_clear(&habits);
  remove(path);
  remove(folder);
}
END_TEST

typedef struct {
  const char *model, *mlp, *positions;
  gboolean bias, tied;
} Family;

static const Family families[] = {
  { "MPT-7b", "gelu", "alibi", FALSE, TRUE },
  { "GPT-3 175B", "gelu", "learned", TRUE, TRUE },
  { "nanotron Llama 3.57B", "swiglu", "rope", FALSE, TRUE },
  { "nanotron Llama 8.86B", "swiglu", "rope", FALSE, FALSE },
  { "", "relu2", "rope", FALSE, FALSE },
};

START_TEST(families_have_habits)
{
  const CaseFamily *f = case_family(families[_i].model, families[_i].mlp);

  ck_assert_str_eq(f->positions, families[_i].positions);
  ck_assert_int_eq(f->bias, families[_i].bias);
  ck_assert_int_eq(f->tied, families[_i].tied);
}
END_TEST

TEST_LOOPS("habits", { generations_are_found, G_N_ELEMENTS(generations) },
           { bad_habits_are_refused, G_N_ELEMENTS(words) }, { families_have_habits, G_N_ELEMENTS(families) })
