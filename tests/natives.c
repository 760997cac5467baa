#include "natives.h"

#include "fixture.h"
#include "plan/excludes.h"
#include "search/polish.h"
#include "search/search.h"
#include "sim/simulate.h"

#include <string.h>

const char *const native_names[] = { "no plan", "lossless", "model", "lossy", "refused", NULL };

const char *const native_frameworks[] = { "megatron-core", "deepspeed", "torchtitan", "nanotron-2025",
                                          "maxtext-2026" };
const int native_frameworks_n = G_N_ELEMENTS(native_frameworks);

const NativeQuestion native_questions[NATIVE_QUESTIONS] = {
  { "llama-3.1-8b", "dgx-h100", 8, 64, 0, NULL, NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 32, 128, 8192, NULL, NULL, TRUE },
  { "llama-3.1-8b", "dgx-h100", 32, 64, 32768, "cp=4", NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 16, 32, 65536, NULL, NULL, FALSE },
  { "llama-3.1-8b", "dgx-a100-40gb", 16, 64, 4096, NULL, NULL, TRUE },
  { "llama-3.1-8b", "dgx-a100-80gb", 64, 512, 4096, "tp=2", NULL, FALSE },
  { "llama-3.1-8b", "hgx-b200", 16, 64, 8192, "pp=4", NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 8, 32, 4096, "tp=8", NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 8, 32, 4096, "pp=8", NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 32, 128, 8192, "pp=2", "states,order", TRUE },
  { "llama-3.1-8b", "dgx-h100", 32, 128, 8192, "zero=3", NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 64, 256, 8192, NULL, "offload,zero++,states,order", FALSE },
  { "llama-3.1-70b", "dgx-h100", 64, 128, 8192, NULL, NULL, TRUE },
  { "llama-3.1-70b", "dgx-h100", 128, 256, 8192, "tp=8", NULL, FALSE },
  { "llama-3.1-70b", "dgx-h100", 64, 64, 32768, NULL, NULL, FALSE },
  { "llama-3.1-70b", "dgx-h100", 16, 32, 4096, "pp=1", "offload", FALSE },
  { "llama-3.1-405b", "dgx-h100", 512, 512, 8192, "tp=8,pp=16", NULL, FALSE },
  { "llama-2-7b", "dgx-a100-80gb", 8, 32, 0, NULL, NULL, FALSE },
  { "llama-2-13b", "dgx-a100-40gb", 32, 128, 0, NULL, NULL, FALSE },
  { "llama-2-70b", "dgx-a100-80gb", 64, 128, 0, "pp=4", NULL, FALSE },
  { "qwen3-8b", "dgx-h100", 16, 64, 8192, NULL, NULL, FALSE },
  { "qwen3-32b", "dgx-h100", 32, 64, 8192, NULL, NULL, FALSE },
  { "qwen3-30b-a3b", "dgx-h100", 32, 128, 4096, "pp=1", NULL, FALSE },
  { "mixtral-8x7b", "dgx-h100", 32, 128, 4096, NULL, NULL, FALSE },
  { "deepseek-v2-lite", "dgx-h100", 16, 64, 4096, NULL, NULL, FALSE },
  { "gpt3", "dgx", 256, 512, 0, NULL, NULL, FALSE },
  { "gpt2-xl", "dgx-a100-40gb", 8, 64, 0, NULL, NULL, FALSE },
  { "gpt-neox-20b", "dgx-a100-80gb", 32, 64, 0, NULL, NULL, FALSE },
  { "mistral-7b", "dgx-h100", 16, 64, 8192, NULL, NULL, FALSE },
  { "bert-large", "dgx-a100-40gb", 8, 256, 0, NULL, NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 24, 48, 8192, NULL, NULL, TRUE },
  { "qwen3-8b", "dgx-h100", 24, 72, 4096, "pp=3", NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 32, 48, 8192, "pp=4", NULL, FALSE },
  { "llama-3.1-70b", "dgx-h100", 96, 192, 8192, NULL, NULL, TRUE },
  { "llama-2-13b", "dgx-a100-80gb", 48, 96, 0, NULL, NULL, FALSE },
  { "qwen3-14b", "dgx-h100", 96, 288, 4096, "tp=2", NULL, FALSE },
  { "mixtral-8x7b", "dgx-h100", 24, 96, 4096, NULL, NULL, FALSE },
  { "llama-3.1-8b", "dgx-h100", 16, 64, 8192, NULL, NULL, TRUE, "fp8" },
  { "llama-3.1-70b", "dgx-h100", 96, 192, 8192, NULL, NULL, FALSE, "fp8" },
  { "mixtral-8x7b", "dgx-h100", 32, 128, 4096, NULL, NULL, FALSE, "fp8" },
  { "llama-3.1-8b", "dgx-h100", 16, 64, 4096, NULL, NULL, FALSE, "tf32", "maxtext-2026" },
  { "llama-2-7b", "dgx-a100-80gb", 24, 48, 0, NULL, NULL, FALSE, "fp32", "maxtext-2026" },
};

static SearchResult *best_of(const NativeQuestion *q, const Model *model, const Cluster *cluster, const Plan *base)
{
  SearchOptions options = { .base = base, .fixed = fixed_none(), .top = 1, .threads = 1, .refine = TRUE };

  g_assert(!q->fix || fixed_parse("--fix", q->fix, &options.fixed, NULL));
  g_assert(!q->space || space_parse("--space", q->space, &options.space, NULL));
  return search(model, cluster, &options, NULL);
}

static Plan refined(const Model *model, const Cluster *cluster, const Plan *plan)
{
  g_autoptr(Trace) trace = simulate_plan(model, cluster, plan);
  g_autoptr(Polished) polished = polish_plan(model, cluster, plan, trace, NULL, 1);

  return polished->plan;
}

static NativeKind kind_of(const GPtrArray *losses)
{
  NativeKind kind = losses->len > 0 ? NATIVE_MODEL : NATIVE_LOSSLESS;

  for (guint i = 0; i < losses->len; i++)
    if (!g_str_has_prefix(losses->pdata[i], "model: "))
      kind = NATIVE_LOSSY;
  return kind;
}

static void export_winner(const Model *model, const Cluster *cluster, const Plan *plan, const Exporter *exporter,
                          Native *out)
{
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GError) refusal = NULL;
  g_autofree char *text = export_plan(exporter, model, cluster, plan, losses, &refusal);

  out->plan = plan_label(plan);
  if (!text) {
    out->kind = strstr(refusal->message, ": model ") ? NATIVE_MODEL : NATIVE_REFUSED;
    out->why = g_strdup(refusal->message);
    return;
  }
  out->kind = kind_of(losses);
  g_ptr_array_add(losses, NULL);
  out->why = g_strjoinv("; ", (char **)losses->pdata);
}

static DType format_of(const NativeQuestion *q, const Cluster *cluster)
{
  if (q->precision)
    return names_find(dtype_names, q->precision);
  return cluster->device.peak_flops_per_s[DTYPE_BF16] > 0 ? DTYPE_BF16 : DTYPE_FP16;
}

gboolean native_asked(const NativeQuestion *q, const char *framework)
{
  return !q->only || g_str_equal(q->only, framework);
}

Native native_ask(const NativeQuestion *q, const char *framework_name)
{
  Native out = { 0 };
  Model *model = fixture_known_model(q->model);
  Cluster *cluster = fixture_cluster(q->cluster, q->gpus);
  Framework *framework = fixture_framework(framework_name);
  Plan base = plan_default(model, framework);

  base.gpus = cluster->devices;
  base.global_batch = q->global_batch;
  base.seq = q->seq ? q->seq : base.seq;
  plan_set_format(&base, format_of(q, cluster));
  plan_settle_attention(&base, model, cluster);
  SearchResult *found = best_of(q, model, cluster, &base);
  if (found->best->len > 0) {
    Plan plan = g_array_index(found->best, Found, 0).plan;
    if (q->refine)
      plan = refined(model, cluster, &plan);
    export_winner(model, cluster, &plan, exporter_find(framework->engine), &out);
  }
  search_result_free(found);
  framework_free(framework);
  cluster_free(cluster);
  model_free(model);
  return out;
}

void native_clear(Native *native)
{
  g_free(native->plan);
  g_free(native->why);
}

char *native_text(const NativeQuestion *q)
{
  g_autofree char *seq = q->seq ? g_strdup_printf(" x %d", q->seq) : g_strdup("");

  return g_strdup_printf("%s on %d of %s, %d%s%s%s%s%s%s%s%s", q->model, q->gpus, q->cluster, q->global_batch, seq,
                         q->fix ? ", " : "", q->fix ? q->fix : "", q->space ? ", --space " : "",
                         q->space ? q->space : "", q->refine ? ", --refine" : "",
                         q->precision ? ", " : "", q->precision ? q->precision : "");
}
