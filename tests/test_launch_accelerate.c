/* accelerate's YAML: what it says, what it leaves open, and plans that go round. */
#include "main.h"

#include "export/export.h"
#include "import/launch.h"
#include "plan/check.h"
#include "planned.h"

#include <string.h>

#define MACHINES "compute_environment: LOCAL_MACHINE\nnum_machines: 2\nnum_processes: 16\nmachine_rank: 0\nuse_cpu: false\n"
#define FSDP MACHINES "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n" \
                      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
#define MEGATRON MACHINES "distributed_type: MEGATRON_LM\nmixed_precision: bf16\nmegatron_lm_config:\n  megatron_lm_tp_degree: 4\n"
#define WHOLE MEGATRON "  megatron_lm_context_parallel_size: 1\n"
#define KEPT "\"zero_stage\": 3, \"zero_optimization\": {, \"reshard_after_forward\": false"
#define SIZES "parallelism_config:\n  parallelism_config_"

static const struct {
  const char *text, *plan[4]; /* "!..." what it does not say */
} files[] = {
  { FSDP, { "\"gpus\": 16", "\"zero_stage\": 3", "\"framework\": \"fsdp\"", "!shard_group_size" } },
  { FSDP "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n", { KEPT, "\"global_batch_size\": 16" } },
  { FSDP "  fsdp_sharding_strategy: SHARD_GRAD_OP\n", { KEPT, "!offload" } },
  { FSDP "  fsdp_sharding_strategy: 3\n", { "\"zero_stage\": 0" } },
  { FSDP "  fsdp_sharding_strategy: HYBRID_SHARD\n", { "\"zero_stage\": 3", "\"shard_group_size\": 8" } },
  { FSDP "  fsdp_sharding_strategy: 5\n", { KEPT, "\"shard_group_size\": 8" } },
  { FSDP "  fsdp_offload_params: true\n  fsdp_activation_checkpointing: true\n",
    { "\"recompute_granularity\": \"full\"", "\"optimizer\": \"cpu\", \"parameters\": \"cpu\"" } },
  { FSDP SIZES "tp_size: 2\n  parallelism_config_cp_size: 2\n  parallelism_config_dp_replicate_size: 2\n",
    { "\"tensor_model_parallel_size\": 2", "\"cp_comm_type\": \"all_gather\"", "\"shard_group_size\": 4",
      "\"global_batch_size\": 4" } },
  { WHOLE, { "\"tensor_model_parallel_size\": 4", "\"zero_stage\": 0", "\"recompute_granularity\": \"full\"", "!method" } },
  { WHOLE "  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 8\n  megatron_lm_use_distributed_optimizer: true\n"
             "  megatron_lm_recompute_method: block\n  megatron_lm_recompute_num_layers: 0\n",
    { "\"zero_stage\": 1", "\"global_batch_size\": 16", "\"recompute_granularity\": \"none\"", "!_num_layers" } },
  { WHOLE "  megatron_lm_recompute_num_layers: 4\n", { "\"recompute_method\": \"uniform\"", "\"recompute_num_layers\": 4" } },
  { WHOLE "  megatron_lm_recompute_granularity: selective\n", { "\"recompute_granularity\": \"selective\"", "!method" } },
  { FSDP "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n", { KEPT } },
  { FSDP "  fsdp_reshard_after_forward: FULL_SHARD\n", { "\"zero_stage\": 3" } },
  { FSDP SIZES "dp_replicate_size: 16\n  parallelism_config_dp_shard_size: 1\n", { "\"zero_stage\": 0", "!shard_group" } },
  { FSDP SIZES "dp_shard_size: 1\n", { "\"zero_stage\": 3", "!shard_group" } }, /* of nothing but ones */
  { MEGATRON, { "\"context_parallel_size\": 2", "\"global_batch_size\": 2" } },
};

START_TEST(files_say_their_plan)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(files[_i].text, "x.yaml", &(LaunchOptions) { 0 }, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  g_auto(GStrv) lines = g_regex_split_simple("[,\\s]*\\n\\s*", l->plan, 0, 0);
  g_autofree char *plan = g_strjoinv(", ", lines);
  for (int i = 0; i < 4 && files[_i].plan[i]; i++) {
    gboolean not = files[_i].plan[i][0] == '!';
    ck_assert_msg((strstr(plan, files[_i].plan[i] + not) == NULL) == not, "%s: %s", files[_i].plan[i], plan);
  }
  ck_assert_uint_eq(l->unknown->len + l->not_simulated->len, 0);
  /* micro-batch and length; passes of a step, or accelerate's own ranks of a context */
  gboolean fsdp = strstr(files[_i].text, "FSDP") != NULL;
  ck_assert_uint_eq(l->assumed->len, 2 + (fsdp || g_str_equal(files[_i].text, MEGATRON)));
}
END_TEST

/* A step's sequences, where the program says them. */
START_TEST(batches_are_told)
{
  g_autoptr(Launch) fsdp = launch_read(FSDP, "x.yaml", &(LaunchOptions) { .batch = 64 }, NULL);
  g_autoptr(Launch) megatron = launch_read(WHOLE "  megatron_lm_num_micro_batches: 2\n", "x.yaml",
                                           &(LaunchOptions) { .batch = 64 }, NULL);
  g_autoptr(Launch) open = launch_read("{ \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": \"auto\" }",
                                       "x.json", &(LaunchOptions) { .gpus = 8, .batch = 64 }, NULL);
  g_autoptr(Launch) said = launch_read("{ \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2 }", "x.json",
                                       &(LaunchOptions) { .gpus = 8, .batch = 64 }, NULL);

  ck_assert_ptr_nonnull(strstr(fsdp->plan, "\"global_batch_size\": 64"));
  ck_assert_ptr_nonnull(strstr(megatron->plan, "\"global_batch_size\": 8")); /* which is not what was told: refused later */
  ck_assert_ptr_nonnull(strstr(open->plan, "\"global_batch_size\": 64"));
  ck_assert_ptr_nonnull(strstr(said->plan, "\"global_batch_size\": 32"));
  ck_assert_uint_eq(fsdp->assumed->len, 2);
}
END_TEST

static const char *const refusals[][2] = {
  { MACHINES "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n",
    "x.yaml: distributed_type: DEEPSPEED: expected DeepSpeed's own JSON in place of this file, the one of deepspeed_config_file" },
  { MACHINES "distributed_type: MULTI_GPU\n", "x.yaml: distributed_type: MULTI_GPU: expected FSDP or MEGATRON_LM: nothing is "
                                              "divided here (--framework ddp plans without a file)" },
  { WHOLE "  megatron_lm_pp_degree: 3\n", "x.yaml: num_processes: 16: expected a multiple of the 12 that the degrees divide" },
  { FSDP SIZES "dp_replicate_size: 3\n", "x.yaml: parallelism_config.parallelism_config_dp_replicate_size: 3: expected a divisor "
                                         "of the 16 data-parallel ranks" },
  { MACHINES "distributed_type: FSDP\nmixed_precision: int8\n", "x.yaml: mixed_precision: int8: expected no, fp16, bf16 or fp8" },
  { "num_processes: -8\ndistributed_type: FSDP\n", "x.yaml: num_processes: -8: expected a whole number from 1" },
  { FSDP SIZES "tp_size: -2\n  parallelism_config_cp_size: -2\n",
    "x.yaml: parallelism_config.parallelism_config_tp_size: -2: expected a whole number from 1" },
  { FSDP SIZES "dp_shard_size: 3\n", "x.yaml: parallelism_config.parallelism_config_dp_shard_size: 3: expected 16, which "
                                     "num_processes 16 leaves to it" },
  { FSDP SIZES "cp_comm_strategy: ring\n",
    "x.yaml: parallelism_config.parallelism_config_cp_comm_strategy: ring: expected allgather or alltoall" },
  { FSDP "  fsdp_sharding_strategy: HYBRID\n", "x.yaml: fsdp_config.fsdp_sharding_strategy: HYBRID: expected one of "
                                              "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2" },
  { "num_processes: 16\nnum_machines: 3\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: 4\n",
    "x.yaml: num_machines: 3: expected a divisor of the 16 data-parallel ranks" },
  { WHOLE "  megatron_lm_num_micro_batches: -5\n",
    "x.yaml: megatron_lm_config.megatron_lm_num_micro_batches: -5: expected a whole number from 1" },
  { WHOLE "  megatron_lm_recompute_num_layers: -1\n",
    "x.yaml: megatron_lm_config.megatron_lm_recompute_num_layers: -1: expected a whole number from 0" },
  { WHOLE "  megatron_lm_recompute_method: blocks\n",
    "x.yaml: megatron_lm_config.megatron_lm_recompute_method: blocks: expected uniform or block" },
};

START_TEST(others_are_refused)
{
  g_autoptr(GError) error = NULL;

  ck_assert_ptr_null(launch_read(refusals[_i][0], "x.yaml", &(LaunchOptions) { 0 }, &error));
  ck_assert_str_eq(error->message, refusals[_i][1]);
}
END_TEST

static const struct {
  const char *framework;
  int tp, pp, zero, shards;
  Recompute recompute;
  gboolean kept;
} plans[] = {
  { "fsdp", 1, 1, 3, 0, RECOMPUTE_FULL }, { "fsdp", 1, 1, 3, 8, RECOMPUTE_NONE, TRUE }, { "fsdp", 2, 1, 3, 0, RECOMPUTE_NONE },
  { FRAMEWORK_USUAL, 2, 2, 1, 0, RECOMPUTE_FULL }, { FRAMEWORK_USUAL, 4, 1, 0, 0, RECOMPUTE_NONE },
};

/* What is written is read as the plan that it was. */
START_TEST(plans_go_round)
{
  Planned p;
  g_autoptr(GError) error = NULL;

  planned_init(&p, fixture_llama(8, 1024, 16, 16, 1024, 1024), fixture_cluster("dgx", 16), plans[_i].framework);
  planned_divide(&p, plans[_i].tp, plans[_i].pp, 16 / plans[_i].tp / plans[_i].pp);
  p.plan.sequence_parallel = plans[_i].tp > 1 && plans[_i].framework[0] == 'm';
  p.plan.global_batch = p.plan.dp * 4;
  p.plan.zero = plans[_i].zero;
  p.plan.shard_group = plans[_i].shards;
  p.plan.recompute = plans[_i].recompute;
  p.plan.sharding.keeps_gathered = plans[_i].kept;
  g_autofree char *text = export_plan(exporter_find("accelerate"), p.model, p.cluster, &p.plan, NULL, &error);
  ck_assert_msg(text != NULL, "%s", error ? error->message : "");
  g_autoptr(Launch) l = launch_read(text, "x.yaml", &(LaunchOptions) { 0 }, &error);
  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  Plan read;
  g_autoptr(Framework) framework = NULL;
  ck_assert(plan_parse(l->plan, strlen(l->plan), "p", p.model, &read, &framework, &error));
  ck_assert_str_eq(framework->name, plans[_i].framework);
  ck_assert_int_eq(read.tp, plans[_i].tp);
  ck_assert_int_eq(read.pp, plans[_i].pp);
  ck_assert_int_eq(read.dp, p.plan.dp);
  ck_assert_int_eq(read.zero, plans[_i].zero);
  ck_assert_int_eq(read.sharding.keeps_gathered, plans[_i].kept);
  ck_assert_int_eq(plan_shards(&read), plan_shards(&p.plan));
  ck_assert_int_eq(read.recompute, plans[_i].recompute);
  ck_assert_int_eq(read.sequence_parallel, p.plan.sequence_parallel);
  ck_assert_int_eq(plan_micro_batches(&read), plans[_i].framework[0] == 'm' ? plan_micro_batches(&p.plan) : 1);
  ck_assert_uint_eq(l->unknown->len + l->not_simulated->len, 0);
  planned_clear(&p);
}
END_TEST

TEST_LOOPS("launch accelerate", { files_say_their_plan, G_N_ELEMENTS(files) }, { batches_are_told },
           { others_are_refused, G_N_ELEMENTS(refusals) }, { plans_go_round, G_N_ELEMENTS(plans) })
