/* Families of decoders with an attention that is theirs alone. */
#include "model/family_rows.h"

static const Family rows[] = {
  {"jetmoe",
   {LLAMA, .norms = 2, .positions = 4096, .kv_heads = 16, .head_dim = 128, .tied = TRUE, .attention_experts = TRUE,
    .needs_experts = TRUE, .experts = 8, .experts_per_token = 2, .balance_loss = 0.01}},
};

const FamilyRows family_attentions = {rows, G_N_ELEMENTS(rows)};
