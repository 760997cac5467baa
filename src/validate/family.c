#include "validate/family.h"

static const CaseFamily families[] = {
  /* LLM Foundry: no_bias, alibi, tied weights, dropout 0, vocab_size of its yamls */
  { "MPT-", 50368, "layernorm", "alibi", FALSE, TRUE, FALSE },
  /* nanotron's scaling_benchmarks.py ties embeddings where ffn_hidden is below 10,000 */
  { "nanotron Llama 1.34B", 0, "rmsnorm", "rope", FALSE, TRUE, FALSE },
  { "nanotron Llama 3.57B", 0, "rmsnorm", "rope", FALSE, TRUE, FALSE },
  /* tokenizers of the released weights */
  { "Llama-3", 128256, "rmsnorm", "rope", FALSE, FALSE, FALSE },
  { "Llama-2", 32000, "rmsnorm", "rope", FALSE, FALSE, FALSE },
  { "Llama2", 32000, "rmsnorm", "rope", FALSE, FALSE, FALSE },
  { "InternLM", 103168, "rmsnorm", "rope", FALSE, FALSE, FALSE },
  { "Nemotron-4", 256000, "rmsnorm", "rope", FALSE, FALSE, FALSE },
};

static const CaseFamily gpt = { "", 0, "layernorm", "learned", TRUE, TRUE, TRUE };
static const CaseFamily other = { "", 0, "rmsnorm", "rope", FALSE, FALSE, FALSE };

const CaseFamily *case_family(const char *model, const char *mlp)
{
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    if (g_str_has_prefix(model, families[i].prefix))
      return &families[i];
  return g_str_equal(mlp, "gelu") ? &gpt : &other;
}
