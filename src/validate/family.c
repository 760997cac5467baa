#include "validate/family.h"

static const CaseFamily families[] = {
  /* LLM Foundry: no_bias, alibi, tied weights, dropout 0, vocab_size of its yamls */
  { "MPT-", 50368, "layernorm", "alibi", FALSE, TRUE, FALSE, NULL },
  /* nanotron's scaling_benchmarks.py ties embeddings where ffn_hidden is below 10,000 */
  { "nanotron Llama 1.34B", 0, "rmsnorm", "rope", FALSE, TRUE, FALSE, NULL },
  { "nanotron Llama 3.57B", 0, "rmsnorm", "rope", FALSE, TRUE, FALSE, NULL },
  /* VocabularyParallelism, pretrain_gpt.sh: --untie-embeddings-and-output-weights */
  { "GPT 4B v", 0, "layernorm", "learned", TRUE, FALSE, TRUE, NULL },
  /* tokenizers of the released weights */
  { "Llama-3", 128256, "rmsnorm", "rope", FALSE, FALSE, FALSE, NULL },
  { "Llama-2", 32000, "rmsnorm", "rope", FALSE, FALSE, FALSE, NULL },
  { "Llama2", 32000, "rmsnorm", "rope", FALSE, FALSE, FALSE, NULL },
  { "InternLM", 103168, "rmsnorm", "rope", FALSE, FALSE, FALSE, NULL },
  /* hybrids with Mamba-2; Megatron-Bridge trains two modules (nemotron_h_provider.py), whose TFLOP/s say so too */
  { "Nemotron-3-Nano-30B-A3B", 0, "rmsnorm", "none", FALSE, FALSE, FALSE, "nemotron-3-nano-30b-a3b" },
  { "Nemotron-3-Super-120B-A12B", 0, "rmsnorm", "none", FALSE, FALSE, FALSE, "nemotron-3-super-120b-a12b",
    "nemotron-3-super-120b-a12b-mtp" },
  { "Nemotron-4", 256000, "rmsnorm", "rope", FALSE, FALSE, FALSE, NULL },
  /* with experts: sizes of the released weights, or of the benchmark's own configuration */
  { "Grok-1", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE, "grok-1" },
  { "DeepSeek-V3 14 layers", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE, "deepseek-v3-14-layers" },
  { "DeepSeek-V3 4 layers", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE, "deepseek-v3-4-layers" },
  { "DeepSeek-V3 16B", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE, "deepseek-v2-lite" },
  { "MoE 8 experts top 2, dim 2048 (KempnerForge)", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE, "kempnerforge-moe-8" },
  { "MoE 64 experts top 2, dim 2048 (KempnerForge)", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE,
    "kempnerforge-moe-64" },
};

static const CaseFamily gpt = { "", 0, "layernorm", "learned", TRUE, TRUE, TRUE, NULL };
static const CaseFamily other = { "", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE, NULL };

const CaseFamily *case_family(const char *model, const char *mlp)
{
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    if (g_str_has_prefix(model, families[i].prefix))
      return &families[i];
  return g_str_equal(mlp, "gelu") ? &gpt : &other;
}
