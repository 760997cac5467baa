/* Other tools' output: what each sample tells, and that no damage to it crashes. */
#include "base/csv.h"
#include "base/error.h"
#include "base/files.h"
#include "hardware/cluster.h"
#include "import/import.h"
#include "import/nccl_tests.h"
#include "main.h"

#include <glib/gstdio.h>
#include <math.h>

static const char *const samples[] = { "topo-h100.txt", "topo-a100.xml", "kineto.json", "megatron.log",
                                        "nsys-sum.csv", "nsys-trace.csv", "nccl-tests.json", "torchtitan.log" };

static char *sample(const char *name)
{
  g_autofree char *below = g_strdup_printf("tests/data/import/%s", name), *path = files_data_path(below);
  GError *error = NULL;
  char *text = import_load(path, &error);

  ck_assert_msg(text != NULL, "%s", error ? error->message : "");
  return text;
}

static char *imported(const char *name, const char *gpu, int strange)
{
  g_autofree char *text = sample(name);
  ImportNotes notes = { .file = name, .gpu = gpu };
  GError *error = NULL;
  const Importer *importer = importer_of(text);

  ck_assert_msg(importer != NULL, "%s is not known", name);
  char *out = importer->read(text, &notes, &error);
  ck_assert_msg(out != NULL, "%s", error ? error->message : "");
  ck_assert_int_eq(notes.strange, strange);
  import_notes_clear(&notes);
  return out;
}

/* The server of a text, in a cluster. */
static Cluster *server(const char *json)
{
  g_autofree char *text = g_strdup_printf("{\"name\": \"c\", \"nodes\": 2, \"server\": %s, \"source\": \"default: a test\"}", json);
  GError *error = NULL;
  Cluster *c = cluster_parse(text, strlen(text), "c", &error);

  ck_assert_msg(c != NULL, "%s", error ? error->message : "");
  return c;
}

START_TEST(matrix)
{
  g_autofree char *json = imported("topo-h100.txt", "h100-sxm5-80gb", 0);
  g_autoptr(Cluster) c = server(json);

  ck_assert_int_eq(c->devices_per_node, 4);
  ck_assert_str_eq(c->tiers[0].link.name, "nvlink4-switch");
  ck_assert_double_eq(c->tiers[0].bytes_per_s, 450e9);
  ck_assert(c->network_tier == 1); /* two NICs */
}
END_TEST

/* A bridge joins two GPUs each: NVLink is a tier below PCIe. Where islands are unlike, or lie apart, PCIe is taken. */
START_TEST(islands)
{
  static const struct { const char *rows; int island, strange; } cases[] = {
    { "GPU0 X NV12 SYS SYS\nGPU1 NV12 X SYS SYS\nGPU2 SYS SYS X NV12\nGPU3 SYS SYS NV12 X\n", 2, 0 },
    { "GPU0 X NV12 NV12 SYS\nGPU1 NV12 X NV12 SYS\nGPU2 NV12 NV12 X SYS\nGPU3 SYS SYS SYS X\n", 0, 1 },
    { "GPU0 X SYS NV4 SYS\nGPU1 SYS X SYS NV4\nGPU2 NV4 SYS X SYS\nGPU3 SYS NV4 SYS X\n", 0, 1 },
    { "GPU0 X NV4 SYS SYS\nGPU1 NV4 X NV4 SYS\nGPU2 SYS NV4 X NV4\nGPU3 SYS SYS NV4 X\n", 4, 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strconcat("GPU0 GPU1 GPU2 GPU3 CPU Affinity\n", cases[i].rows, "NIC0: mlx5_0\n", NULL);
    ImportNotes notes = { .file = "f", .gpu = "a100-pcie-80gb" };
    g_autofree char *json = importer_of(text)->read(text, &notes, NULL);
    ck_assert_ptr_nonnull(json);
    ck_assert_int_eq(notes.strange, cases[i].strange);
    import_notes_clear(&notes);
    g_autofree char *one = g_strdup_printf("{\"name\": \"c\", \"nodes\": 1, \"server\": %s, \"source\": \"default: a test\"}", json);
    g_autoptr(Cluster) c = cluster_parse(one, strlen(one), "c", NULL);
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(c->n_tiers, cases[i].island == 2 ? 2 : 1);
    ck_assert_str_eq(c->tiers[c->n_tiers - 1].link.name, cases[i].island == 4 ? "nvlink2-mesh" : "pcie4");
    if (cases[i].island == 2) {
      ck_assert_int_eq(c->tiers[0].devices, 2);
      ck_assert_double_eq(c->tiers[0].bytes_per_s, 300e9);
    }
  }
}
END_TEST

/* A name that no file has is not written into one. */
START_TEST(unknown_gpu)
{
  g_autofree char *text = sample("topo-h100.txt");
  ImportNotes notes = { .file = "f", .gpu = "h100" };
  GError *error = NULL;

  ck_assert_ptr_null(importer_of(text)->read(text, &notes, &error));
  ck_assert_msg(g_str_has_prefix(error->message, "--gpu: \"h100\""), "%s", error->message);
  g_error_free(error);
  import_notes_clear(&notes);
}
END_TEST

START_TEST(xml)
{
  g_autofree char *json = imported("topo-a100.xml", "a100-sxm4-80gb", 0);
  g_autoptr(Cluster) c = server(json);

  ck_assert_int_eq(c->devices_per_node, 2);
  ck_assert_str_eq(c->tiers[0].link.name, "nvlink3-switch");
  ck_assert_str_eq(c->tiers[1].link.name, "infiniband-hdr");
  ck_assert_double_eq(c->tiers[0].bytes_per_s, 300e9);
  ck_assert_double_eq_tol(c->tiers[1].port_bytes_per_s, 25e9, 1); /* the InfiniBand port, not Ethernet's */
}
END_TEST

START_TEST(gpu_is_asked_for)
{
  g_autofree char *text = sample("topo-h100.txt");
  ImportNotes notes = { .file = "f" };
  GError *error = NULL;

  ck_assert_ptr_null(importer_of(text)->read(text, &notes, &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "--gpu"));
  g_error_free(error);
}
END_TEST

START_TEST(trace)
{
  g_autofree char *table = imported("kineto.json", NULL, 1); /* the kernel without duration */

  ck_assert_ptr_nonnull(strstr(table, "steps   2\nstep    1.00 ms\n"));
  ck_assert_ptr_nonnull(strstr(table, "product"));
  ck_assert_ptr_nonnull(strstr(table, "communication"));
  ck_assert_ptr_nonnull(strstr(table, "85.6 %")); /* 610 of 712.5 us */
}
END_TEST

#define EVENT(cat, name, ts, dur) \
  "{ \"cat\": \"" cat "\", \"name\": \"" name "\", \"ts\": " #ts ", \"dur\": " #dur " }"
#define STEPS EVENT("user_annotation", "ProfilerStep#1", 0, 1000) ", " EVENT("user_annotation", "ProfilerStep#2", 1000, 1000)

static char *read_events(const char *events)
{
  g_autofree char *text = g_strdup_printf("{ \"traceEvents\": [ %s ] }", events);
  ImportNotes notes = { .file = "f" };
  char *out = import_kineto.read(text, &notes, NULL);

  ck_assert_ptr_nonnull(out);
  ck_assert_int_eq(notes.strange, 0);
  import_notes_clear(&notes);
  return out;
}

/* A kernel before, between or behind marked steps is not of them. The device's marks count where there are some: it runs
 * behind the host. Streams overlap by 100 us a step. */
START_TEST(trace_outside_of_steps)
{
  g_autofree char *host = read_events(STEPS ", " EVENT("kernel", "gemm", -500, 800) ", " EVENT("kernel", "gemm", 100, 300) ", "
                                      EVENT("kernel", "nccl", 300, 200) ", " EVENT("kernel", "gemm", 1100, 300) ", "
                                      EVENT("kernel", "nccl", 1300, 200) ", " EVENT("kernel", "late", 2000, 50));
  g_autofree char *device = read_events(STEPS ", " EVENT("gpu_user_annotation", "ProfilerStep#1", 500, 900) ", "
                                        EVENT("gpu_user_annotation", "ProfilerStep#2", 1500, 900) ", "
                                        EVENT("kernel", "gemm", 100, 400) ", " EVENT("kernel", "gemm", 500, 900) ", "
                                        EVENT("kernel", "gemm", 1400, 100) ", " EVENT("kernel", "gemm", 2200, 100));
  g_autofree char *apart = read_events(STEPS ", " EVENT("kernel", "gemm", 9000, 300));

  ck_assert_ptr_nonnull(strstr(host, "kernels 500 us a step, 2 different\nbusy    400 us a step: "));
  ck_assert_ptr_nonnull(strstr(host, "outside 850 us of 2 kernels in no step, left out\n"));
  ck_assert_ptr_nonnull(strstr(device, "kernels 500 us a step, 1 different\noutside 500 us of 2 kernels in no step, left out\n"));
  ck_assert_ptr_null(strstr(apart, "outside"));
  ck_assert_ptr_nonnull(strstr(apart, "kernels 150 us a step"));
}
END_TEST

START_TEST(log_row)
{
  g_autofree char *csv = imported("megatron.log", NULL, 3); /* the banner and the two rules */

  ck_assert_ptr_nonnull(strstr(csv, "id,sweep,source,"));
  ck_assert_ptr_nonnull(strstr(csv, "24,4096,16384,32,,2048,51200,gelu,,,8,2,1,2,,,2,1,1,2,64,selective,bf16,,,none,2.0005,40,max_allocated"));
}
END_TEST

/* A Megatron log of arguments, "name value" lines, and of steps of so many ms. */
static char *megatron_log(const char *arguments, const double *ms, int n)
{
  GString *text = g_string_new(NULL);
  g_auto(GStrv) lines = g_strsplit(arguments, "\n", -1);

  for (int i = 0; lines[i]; i++) {
    g_auto(GStrv) words = g_strsplit(lines[i], " ", 2);
    g_string_append_printf(text, "  %s ...... %s\n", words[0], words[1]);
  }
  for (int i = 0; i < n; i++)
    g_string_append_printf(text, " iteration %d/ 9 | elapsed time per iteration (ms): %.1f | global batch size: 128 |\n", i + 1, ms[i]);
  return g_string_free(text, FALSE);
}

/* The cell of a row by its column, in `csv`. */
static void cell_is(const char *csv, const char *column, const char *expected)
{
  g_autoptr(Csv) read = csv_parse(csv, "f", NULL);

  ck_assert_ptr_nonnull(read);
  ck_assert_int_ge(csv_column(read, column), 0);
  ck_assert_msg(g_str_equal(csv_cell(read, 0, column), expected), "%s: %s, expected %s", column, csv_cell(read, 0, column),
                expected);
}

#define DENSE "num_layers 32\nhidden_size 4096\nffn_hidden_size 14336\nnum_attention_heads 32\nkv_channels 128\n" \
  "group_query_attention True\nnum_query_groups 8\nseq_length 4096\npadded_vocab_size 128256\nswiglu True\n" \
  "normalization RMSNorm\nposition_embedding_type rope\nadd_bias_linear False\nuntie_embeddings_and_output_weights True\n" \
  "attention_dropout 0.0\nhidden_dropout 0.0\nworld_size 32\ntensor_model_parallel_size 1\n" \
  "pipeline_model_parallel_size 1\nmicro_batch_size 1\nglobal_batch_size 128\nparams_dtype torch.bfloat16\nbf16 True\n" \
  "use_distributed_optimizer True"

/* What a dense model's arguments say stands in columns, none is dropped and none made up. */
START_TEST(log_of_options)
{
  static const double ms[] = { 20000, 5000, 5100 };
  ImportNotes notes = { .file = "f" };
  g_autofree char *text = megatron_log(DENSE "\nfp8 hybrid\nfp8_recipe blockwise\nrecompute_granularity full\n"
                                       "recompute_method block\nrecompute_num_layers 4\noverlap_grad_reduce True\n"
                                       "overlap_param_gather True\ncuda_graph_impl full_iteration\ncontext_parallel_size 2\n"
                                       "cp_comm_type a2a\nexp_avg_dtype bf16\nuse_precision_aware_optimizer True", ms, 3);
  g_autofree char *csv = import_megatron_log.read(text, &notes, NULL);

  ck_assert_ptr_nonnull(csv);
  ck_assert_str_eq(notes.untold, "model, cluster");
  ck_assert_ptr_null(notes.no_column);
  import_notes_clear(&notes);
  cell_is(csv, "hidden", "4096");
  cell_is(csv, "kv_heads", "8");
  cell_is(csv, "precision", "fp8");
  cell_is(csv, "fp8_recipe", "blockwise");
  cell_is(csv, "recompute", "full:4");
  cell_is(csv, "overlap", "data");
  cell_is(csv, "cuda_graph", "full");
  cell_is(csv, "cp_comm_type", "a2a");
  cell_is(csv, "exp_avg_dtype", "bf16");
  cell_is(csv, "generation", "megatron-core-2026");
  cell_is(csv, "iteration_s", "5.05");
}
END_TEST

/* A model that columns cannot describe is not one of the columns without what they lack. */
START_TEST(log_of_experts)
{
  static const double ms[] = { 20000, 5000, 9000, 9000, 5100 };
  ImportNotes notes = { .file = "f" };
  g_autofree char *text = megatron_log(DENSE "\nnum_experts 8\nmoe_router_topk 2\nexpert_model_parallel_size 8\n"
                                       "moe_token_dispatcher_type flex\nmoe_expert_capacity_factor 1.5\n"
                                       "recompute_granularity selective\nrecompute_modules ['moe_act', 'layernorm']\n"
                                       "overlap_grad_reduce True\noptimizer_cpu_offload True", ms, 5);
  g_autofree char *csv = import_megatron_log.read(text, &notes, NULL);

  ck_assert_ptr_nonnull(csv);
  ck_assert_str_eq(notes.untold, "cluster, model_file");
  ck_assert_ptr_nonnull(notes.no_column);
  ck_assert_str_eq(notes.no_column, "experts 8, experts_per_token 2, expert_ffn_hidden 14336, "
                   "moe_expert_capacity_factor 1.5, offload optimizer, overlap.gradients true, overlap.parameters false");
  import_notes_clear(&notes);
  cell_is(csv, "layers", "32");
  cell_is(csv, "hidden", "");
  cell_is(csv, "mlp", "");
  cell_is(csv, "ep", "8");
  cell_is(csv, "moe_dispatcher", "deepep");
  cell_is(csv, "recompute_modules", "moe_act layernorm");
  cell_is(csv, "overlap", "");
  cell_is(csv, "iteration_s", "7.05");
}
END_TEST

/* What cannot be read as a run is not passed over in silence. */
START_TEST(log_of_part)
{
  static const double ms[] = { 1000 };
  ImportNotes notes = { .file = "f" };
  g_autofree char *text = megatron_log(DENSE "\nnum_experts 8\nmoe_layer_freq 3", ms, 1);
  g_autofree char *csv = import_megatron_log.read(text, &notes, NULL);

  ck_assert_ptr_nonnull(csv);
  ck_assert_ptr_nonnull(notes.no_column);
  ck_assert_str_eq(notes.no_column, "what else the arguments say: f: --moe-layer-freq: 3: expected 1, or leading "
                   "dense layers as in ([0]*3+[1]*58)");
  import_notes_clear(&notes);
  cell_is(csv, "hidden", "4096");
}
END_TEST

/* 8 sequences of 8192 tokens on 8 devices that make 4096 tokens a second each. */
START_TEST(torchtitan_row)
{
  g_autofree char *csv = imported("torchtitan.log", NULL, 3); /* the job, tensor parallelism, the end */

  ck_assert_ptr_nonnull(strstr(csv, "\nimported,,,torchtitan,torchtitan,,,,,,,8192,,,,,8,2,1,1,,,4,1,3,2,8,selective,,,,,2,49.66,"
                                    "max_reserved,\"CUDA capacity: NVIDIA H100 with 95.00GiB memory; Model llama3 8B size: "
                                    "8,030,261,248 total parameters\"\n"));
}
END_TEST

/* Sequences end in the middle of nothing, whatever stands there. */
START_TEST(torchtitan_colours)
{
  static const char text[] = "\033[3\xe6\x97\xa5Model \033[\xc3\xbfx size: 8 total parameters\n"
                             "[rank0] - step:  2  loss: 7.6  memory: 8.50GiB(9%)  tps: 10,050\n";
  GError *error = NULL;
  ImportNotes notes = { .file = "f" };
  g_autofree char *csv = import_torchtitan_log.read(text, &notes, &error);

  ck_assert_ptr_nonnull(csv);
  ck_assert(g_utf8_validate(csv, -1, NULL));
  ck_assert_ptr_nonnull(strstr(csv, ",Model x size: 8 total parameters\n"));
  import_notes_clear(&notes);
}
END_TEST

static char *read_titan(const char *text, char **untold, GError **error)
{
  ImportNotes notes = { .file = "f" };
  const Importer *importer = importer_of(text);

  ck_assert(importer == &import_torchtitan_log);
  char *out = importer->read(text, &notes, error);
  if (untold)
    *untold = g_steal_pointer(&notes.untold);
  import_notes_clear(&notes);
  return out;
}

/* Without mesh or batch the clock of one rank tells; FSDP2 divides weights in pipelines, too; 2024's words for a
 * speed. */
START_TEST(torchtitan_forms)
{
#define LINE(rank, clock, step)                                          \
  "[rank" rank "]:2024-08-19 11:10:" clock " - root - INFO - step: " step \
  "  loss: 11.9  memory: 8.50GiB(9%)  wps: 5,380  mfu: 1.09%\n"
  g_autofree char *untold = NULL;
  g_autofree char *csv = read_titan(LINE("1", "20,000", "1") LINE("0", "20,900", "1") LINE("1", "23,000", "3")
                                    LINE("0", "29,900", "3") LINE("1", "26,000", "5"), &untold, NULL);
  g_autofree char *pipeline = read_titan("Building 2-D device mesh with ['pp', 'dp_shard'], [2, 4]\n"
                                         "Applied FSDP to the model\n" LINE("0", "20,000", "2"), NULL, NULL);
  GError *error = NULL;

  ck_assert_ptr_nonnull(strstr(csv, ",1.5,8.5,max_reserved,\n")); /* 3 s for two steps */
  ck_assert_ptr_nonnull(strstr(untold, "gpus"));
  ck_assert_ptr_null(strstr(untold, "iteration_s"));
  ck_assert_ptr_nonnull(strstr(pipeline, ",8,1,0,2,,,4,1,3,"));
  ck_assert_ptr_null(read_titan("step: none  loss: 1  tps: fast", NULL, &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  g_error_free(error);
}
END_TEST

START_TEST(nccl_json)
{
  g_autofree char *text = sample("nccl-tests.json");
  GError *error = NULL;
  g_autoptr(NcclTests) tests = nccl_tests_parse(text, "f", COLLECTIVE_COUNT, &error);

  ck_assert_msg(tests != NULL, "%s", error ? error->message : "");
  ck_assert_uint_eq(tests->runs->len, 1);
  const NcclRun *run = g_ptr_array_index(tests->runs, 0);
  ck_assert_str_eq(run->op, "all_reduce");
  ck_assert_int_eq(run->collective, COLLECTIVE_ALL_REDUCE);
  ck_assert_int_eq(run->ranks, 2);
  ck_assert_int_eq(run->nodes, 1);
  ck_assert_uint_eq(run->rows->len, 2);
  ck_assert_double_eq_tol(g_array_index(run->rows, NcclRow, 0).seconds, 20.5e-6, 1e-12);
  ck_assert_double_eq_tol(g_array_index(run->rows, NcclRow, 1).seconds, 30.1e-6, 1e-12);
  ck_assert(g_array_index(run->rows, NcclRow, 1).in_place);
}
END_TEST

START_TEST(nsys_sum)
{
  g_autofree char *table = imported("nsys-sum.csv", NULL, 0);

  ck_assert_ptr_nonnull(strstr(table, "step    not marked: all of the file\nkernels 10.5 ms in all, 4 different\n\n"));
  ck_assert_ptr_nonnull(strstr(table, "58.6 %")); /* 6.15 of 10.5 ms */
  ck_assert_ptr_nonnull(strstr(table, "attention"));
  ck_assert_ptr_nonnull(strstr(table, "copy"));
}
END_TEST

START_TEST(nsys_trace)
{
  g_autofree char *table = imported("nsys-trace.csv", NULL, 1);

  ck_assert_ptr_nonnull(strstr(table, "kernels 112 us in all, 2 different\n\n"));
  ck_assert_ptr_nonnull(strstr(table, "50.0 us")); /* of two products */
}
END_TEST

static char *read_nsys(const char *text, int strange, GError **error)
{
  ImportNotes notes = { .file = "f" };
  char *out = import_nsys.read(text, &notes, error);

  ck_assert_int_eq(notes.strange, strange);
  import_notes_clear(&notes);
  return out;
}

START_TEST(nsys_reordered)
{
  g_autofree char *table = read_nsys("Name,New,Instances,Total Time (ms)\n\"a<b, c>\",1,4,8\nx,y\n", 1, NULL);

  ck_assert_ptr_nonnull(strstr(table, "a<b, c>"));
  ck_assert_ptr_nonnull(strstr(table, "2.00 ms"));
}
END_TEST

START_TEST(nsys_unit)
{
  GError *error = NULL;

  ck_assert_ptr_null(read_nsys("Name,Duration (fortnights)\na,1\n", 2, &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  g_error_free(error);
}
END_TEST

/* A sum of devices says so; one of a single device need not. */
START_TEST(nsys_devices)
{
  g_autofree char *one = read_nsys("Duration (us),Device,Name\n5,H100 (0),a\n7,H100 (0),b\n", 0, NULL);
  g_autofree char *two = read_nsys("Duration (us),Device,Name\n5,H100 (0),a\n7,H100 (1),a\n", 0, NULL);

  ck_assert_ptr_null(strstr(one, "devices"));
  ck_assert_ptr_nonnull(strstr(two, "kernels 12.0 us in all, 1 different\ndevices 2, whose times are added up\n"));
}
END_TEST

/* What importing a database that the sqlite3 program makes gives, NULL without the program. */
static char *database(const char *sql, GError **error)
{
  g_autofree char *program = g_find_program_in_path("sqlite3"), *folder = g_dir_make_tmp("tdp-XXXXXX", NULL);
  g_autofree char *path = g_build_filename(folder, "run.sqlite", NULL);
  const char *argv[] = { "sqlite3", path, sql, NULL };
  char *table = NULL;

  if (program) {
    ck_assert(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL));
    g_autofree char *text = import_load(path, error);
    table = text ? read_nsys(text, 0, error) : NULL;
    g_unlink(path);
  }
  g_rmdir(folder);
  return table;
}

#define NSYS_TABLE(name, columns) \
  "CREATE TABLE CUPTI_ACTIVITY_KIND_" name "(start INTEGER, end INTEGER, deviceId INTEGER, " columns " INTEGER);"

/* With the tables of nsys export. */
START_TEST(nsys_database)
{
  g_autofree char *table = database("CREATE TABLE StringIds(id INTEGER, value TEXT);" NSYS_TABLE("KERNEL", "demangledName")
                                    "INSERT INTO StringIds VALUES(1, 'gemm<a, b>');"
                                    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(100, 2100, 0, 1), (3000, 7000, 0, 1);", NULL);

  if (table)
    ck_assert_ptr_nonnull(strstr(table, "3.00 us")); /* of two */
}
END_TEST

/* Graphs are recorded as wholes, and may be all that there is. */
START_TEST(nsys_graphs)
{
  GError *error = NULL;
  g_autofree char *table = database(NSYS_TABLE("GRAPH_TRACE", "graphId") NSYS_TABLE("MEMCPY", "copyKind")
                                    NSYS_TABLE("MEMSET", "value")
                                    "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(0, 9000, 0, 3), (9000, 16000, 1, 3);"
                                    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(0, 3000, 0, 1);"
                                    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(0, 1000, 0, 0);", NULL);

  if (!table)
    return;
  ck_assert_ptr_nonnull(strstr(table, "kernels 20.0 us in all, 3 different\ndevices 2, whose"));
  ck_assert_ptr_nonnull(strstr(table, "CUDA graph 3, its kernels not told apart  graph     2  8.00 us  16.0 us"));
  ck_assert_ptr_nonnull(strstr(table, "Memcpy HtoD                               copy      1"));
  ck_assert_ptr_nonnull(strstr(table, "Memset                                    copy      1"));
  ck_assert_ptr_null(database("CREATE TABLE t(a INTEGER);", &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "expected what nsys export --type sqlite writes"));
  g_error_free(error);
}
END_TEST

/* ---- damage ---- */

static guint64 next(guint64 *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* A cut, a byte of another value, a doubled or a swallowed piece. */
static char *damaged(const char *text, guint64 *state)
{
  gsize length = strlen(text), at = next(state) % length, piece = next(state) % 40, end = MIN(at + piece, length);
  GString *s = g_string_new(text);

  switch (next(state) % 4) {
  case 0:
    g_string_truncate(s, at);
    break;
  case 1:
    s->str[at] = (char)(1 + next(state) % 255);
    break;
  case 2:
    g_string_insert_len(s, end, text + at, end - at);
    break;
  default:
    g_string_erase(s, at, end - at);
  }
  return g_string_free(s, FALSE);
}

static void read_any(const char *text)
{
  ImportNotes notes = { .file = "f", .gpu = "h100-sxm5-80gb" };
  const Importer *importer = importer_of(text);
  g_autoptr(GError) error = NULL, other = NULL;
  g_autofree char *out = importer ? importer->read(text, &notes, &error) : NULL;

  ck_assert(!importer || (out != NULL) == (error == NULL));
  ck_assert(!error || error->code == TDP_ERROR_INPUT);
  import_notes_clear(&notes);
  NcclTests *tests = nccl_tests_parse(text, "f", COLLECTIVE_COUNT, &other);
  ck_assert((tests != NULL) == (other == NULL));
  nccl_tests_free(tests);
}

/* Unpacked whole, or refused: what gzip wrote before it failed is not a file. */
START_TEST(packed)
{
  g_autofree char *text = sample("megatron.log"), *folder = test_directory();
  g_autofree char *path = g_build_filename(folder, "log", NULL), *gz = g_strconcat(path, ".gz", NULL);
  const char *argv[] = { "gzip", path, NULL };
  g_autofree char *bytes = NULL;
  GError *error = NULL;
  gsize length;

  ck_assert(g_file_set_contents(path, text, -1, NULL));
  ck_assert(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL));
  g_autofree char *unpacked = import_load(gz, NULL);
  ck_assert_str_eq(unpacked, text);
  ck_assert(g_file_get_contents(gz, &bytes, &length, NULL));
  ck_assert(g_file_set_contents(gz, bytes, length - 9, NULL));
  ck_assert_ptr_null(import_load(gz, &error));
  ck_assert(g_error_matches(error, TDP_ERROR, TDP_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "log.gz: cannot be unpacked: "));
  g_error_free(error);
  g_unlink(gz);
  g_rmdir(folder);
}
END_TEST

START_TEST(damage)
{
  guint64 state = (guint64)_i + 1;
  g_autofree char *text = sample(samples[_i]);

  for (int i = 0; i < 1000; i++) {
    g_autofree char *once = damaged(text, &state);
    g_autofree char *twice = *once ? damaged(once, &state) : g_strdup("");
    read_any(once);
    read_any(twice);
  }
}
END_TEST

int main(void)
{
  const TestLoop tests[] = { { matrix, 0 }, { islands, 0 }, { unknown_gpu, 0 }, { xml, 0 }, { gpu_is_asked_for, 0 }, { trace, 0 },
                             { trace_outside_of_steps, 0 },
                             { log_row, 0 }, { log_of_options, 0 }, { log_of_experts, 0 }, { log_of_part, 0 }, { torchtitan_row, 0 }, { torchtitan_colours, 0 }, { torchtitan_forms, 0 },
                             { nccl_json, 0 }, { nsys_sum, 0 }, { nsys_trace, 0 },
                             { nsys_reordered, 0 }, { nsys_unit, 0 }, { nsys_database, 0 }, { nsys_devices, 0 }, { nsys_graphs, 0 },
                             { packed, 0 }, { damage, G_N_ELEMENTS(samples) } };
  return test_main("import", tests, G_N_ELEMENTS(tests));
}
