#include "model/torchtitan.h"

static const TorchtitanFlavor flavors[] = {
  { "llama3", "8B", "llama-3.1-8b", 4096, 32, 32, 14336, 0, 128256 },
  { "llama3", "70B", "llama-3.1-70b", 8192, 80, 64, 28672, 0, 128256 },
  { "llama3", "405B", "llama-3.1-405b", 16384, 126, 128, 53248, 0, 128256 },
  { "qwen3", "0.6B", "qwen3-0.6b", 1024, 28, 16, 3072, 0, 151936 },
  { "qwen3", "1.7B", "qwen3-1.7b", 2048, 28, 16, 6144, 0, 151936 },
  { "qwen3", "4B", "qwen3-4b", 2560, 36, 32, 9728, 0, 151936 },
  { "qwen3", "8B", "qwen3-8b", 4096, 36, 32, 12288, 0, 151936 },
  { "qwen3", "14B", "qwen3-14b", 5120, 40, 40, 17408, 0, 151936 },
  { "qwen3", "32B", "qwen3-32b", 5120, 64, 64, 25600, 0, 151936 },
  { "qwen3", "30B-A3B", "qwen3-30b-a3b", 2048, 48, 32, 768, 128, 151936 },
  { "qwen3", "235B-A22B", "qwen3-235b-a22b", 4096, 94, 64, 1536, 128, 151936 },
  { "deepseek_v3", "16B", "deepseek-v2-lite", 2048, 27, 16, 1408, 64, 102400 },
  { "deepseek_v3", "236B", "deepseek-v2", 5120, 60, 128, 1536, 160, 102400 },
  { "deepseek_v3", "671B", "deepseek-v3", 7168, 61, 128, 2048, 256, 129280 },
  { "llama2", "7B", "llama-2-7b", 0, 0, 0, 0, 0, 0 }, /* until December 2024 */
  { "llama2", "13B", "llama-2-13b", 0, 0, 0, 0, 0, 0 },
  { "llama2", "70B", "llama-2-70b", 0, 0, 0, 0, 0, 0 },
  { "llama3", "8B_flex", "llama-3.1-8b", 0, 0, 0, 0, 0, 0 },
  { "llama3", "8B_varlen", "llama-3.1-8b", 0, 0, 0, 0, 0, 0 },
  { "llama4", "17bx16e", "llama-4-scout", 0, 0, 0, 0, 0, 0 },
  { "llama4", "17bx16e_irope", "llama-4-scout", 0, 0, 0, 0, 0, 0 },
  { "llama4", "17bx128e", "llama-4-maverick", 0, 0, 0, 0, 0, 0 },
  { "llama4", "17bx128e_irope", "llama-4-maverick", 0, 0, 0, 0, 0, 0 },
  { "gpt_oss", "20b", "gpt-oss-20b", 0, 0, 0, 0, 0, 0 },
  { "gpt_oss", "120b", "gpt-oss-120b", 0, 0, 0, 0, 0, 0 },
};

const TorchtitanFlavor *torchtitan_flavor(const char *name, const char *flavor)
{
  for (gsize i = 0; i < G_N_ELEMENTS(flavors); i++)
    if (g_str_equal(flavors[i].name, name) && g_str_equal(flavors[i].flavor, flavor))
      return &flavors[i];
  return NULL;
}

const TorchtitanFlavor *torchtitan_flavor_of(const Model *m)
{
  const LayerSpec *last = model_layer(m, m->blocks);

  for (gsize i = 0; i < G_N_ELEMENTS(flavors); i++)
    if (flavors[i].hidden == m->hidden && flavors[i].blocks == m->blocks && flavors[i].vocab == m->vocab &&
        flavors[i].heads == last->attention.heads && flavors[i].width == last->ffn.width &&
        flavors[i].experts == last->ffn.experts)
      return &flavors[i];
  return NULL;
}
