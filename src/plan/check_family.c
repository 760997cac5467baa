/* Rules of model families. */
#include "plan/check.h"

/* Stages of the encoder, then stages of the decoder (Megatron-LM's T5). */
static gboolean check_split_rank(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int encoder = s->model->encoder_blocks, decoder = s->model->blocks - encoder, rest = p->pp - p->split_rank;

  if (!p->split_rank)
    return TRUE;
  if (!encoder || p->vpp > 1 || plan_stages(p) != p->pp || p->split.stages || p->balanced)
    return broken(error, "pipeline_model_parallel_split_rank: %d: expected an encoder-decoder, one chunk a rank and no "
                         "layer_split", p->split_rank);
  if (rest < 1 || encoder % p->split_rank != 0 || decoder % rest != 0)
    return broken(error, "pipeline_model_parallel_split_rank: %d: expected a divisor of the %d encoder layers that "
                         "leaves a divisor of the %d decoder layers", p->split_rank, encoder, decoder);
  return TRUE;
}

/* Whether a stage starts with the decoder. */
static gboolean decoder_starts(const Subject *s)
{
  int first = 0;

  for (int stage = 0; stage < plan_stages(s->plan) && first < 1 + s->model->encoder_blocks; stage++)
    first = plan_stage_first_layer(s->plan, s->model, stage);
  return first == 1 + s->model->encoder_blocks;
}

gboolean check_stacks(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!check_split_rank(s, error))
    return FALSE;
  if (s->model->encoder_blocks && p->pp > 1 && g_str_equal(p->framework->engine, "megatron") && !decoder_starts(s))
    return broken(error, "pipeline_model_parallel_size: %d: expected that a stage starts with the decoder of model "
                         "%s, which is what %s runs, or a pipeline_model_parallel_split_rank", p->pp, s->model->name,
                  p->framework->name);
  return TRUE;
}

/* What layers read that layers before them made, beside hidden states; NULL if nothing. */
static const char *read_of_others(const Model *m)
{
  const char *what = m->side ? "embeddings for each" : NULL;

  for (int i = 0; i < m->n_specs && !what; i++)
    what = m->specs[i].attention.keyless ? "keys and values" : m->specs[i].attention.index_shared ? "choices of keys"
           : m->specs[i].branch ? "embeddings" : NULL;
  return what;
}

/* Ranks that hold a part of each layer's weights gather them as the layer runs, which is not modelled where another one
 * runs with them too. */
gboolean check_shared_weights(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  return p->zero < 3 || !model_shares_weights(s->model) ||
         broken(error, "zero_stage: %d: expected at most 2, layers of model %s share weights", p->zero, s->model->name);
}

gboolean check_family(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const Model *m = s->model;

  if (p->decoder_seq && !m->encoder_blocks)
    return broken(error, "decoder_seq_length: %d: expected nothing, model %s has no encoder beside its decoder",
                  p->decoder_seq, m->name);
  if (p->pp > 1 && read_of_others(m))
    return broken(error, "pipeline_model_parallel_size: %d: expected 1, layers of model %s read what others made: %s",
                  p->pp, m->name, read_of_others(m));
  if (p->pp > 1 && m->encoder_vocab && m->tied_embeddings)
    return broken(error, "pipeline_model_parallel_size: %d: expected 1, the head of model %s shares a table of its "
                         "decoder alone", p->pp, m->name);
  if (m->encoder_blocks && p->pp > 1 && p->framework->encoder_one_stage)
    return broken(error, "pipeline_model_parallel_size: %d: expected 1, %s runs encoder-decoders as %s without stages",
                  p->pp, p->framework->name, m->name);
  if (m->encoder_blocks && p->cp > 1)
    return broken(error, "context_parallel_size: %d: expected 1, model %s has cross attention", p->cp, m->name);
  return p->pp == 1 || !model_shares_weights(m) ||
         broken(error, "pipeline_model_parallel_size: %d: expected 1, layers of model %s share weights", p->pp,
                m->name);
}

/* Blocks by separate kernels, or by a fused one. */
gboolean check_sparse(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  SparseKernels kernels = p->attention == ATTENTION_UNFUSED ? SPARSE_SEPARATE : SPARSE_FUSED;

  if (s->model->sparse && !(p->framework->sparse >> kernels & 1))
    return broken(error, "attention: \"%s\": expected %s for the sparse_attention of model %s",
                  attention_kernel_names[p->attention],
                  p->framework->sparse == 1u << SPARSE_SEPARATE ? "unfused"
                  : p->framework->sparse ? "a fused kernel" : "a framework that runs block-sparse kernels",
                  s->model->name);
  return TRUE;
}

gboolean check_vocabulary(const Subject *s, GError **error)
{
  const Model *m = s->model;

  if (s->plan->schedule->vocabulary && (!m->vocab || m->mlm_head || m->encoder_blocks))
    return broken(error, "pipeline_schedule: \"%s\": expected one that does not divide the vocabulary, model %s has %s",
                  s->plan->schedule->name, m->name,
                  m->encoder_blocks ? "an encoder" : m->vocab ? "an mlm_head" : "none");
  return TRUE;
}

/* Megatron-LM's training asserts it. */
gboolean check_chunks(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (s->model->encoder_blocks && p->vpp > 1 && g_str_equal(p->framework->engine, "megatron"))
    return broken(error, "virtual_pipeline_model_parallel_size: %d: expected 1, %s gives ranks of encoder-decoders no "
                         "chunks",
                  p->vpp, p->framework->name);
  return TRUE;
}

gboolean check_mtp(const Subject *s, GError **error)
{
  const Model *m = s->model;

  if (m->mtp > 0 && (!s->plan->framework->mtp || s->plan->schedule->vocabulary))
    return broken(error, "model %s: mtp_num_layers: %d: expected 0 under %s and schedule %s", m->name, m->mtp,
                  s->plan->framework->name, s->plan->schedule->name);
  return TRUE;
}
