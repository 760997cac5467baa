/* Gradients of the scores of separate kernels, beside what a layer keeps: op.c, attention.c. */
#include "main.h"
#include "planned.h"

enum { HIDDEN = 1024, HEADS = 16, VOCAB = 1000, BEHIND = 24, WORST_FEED_FORWARD = 16, STREAM = 2 };

static void setup(Planned *p, const char *framework, int seq)
{
  planned_init(p, fixture_model(2, HIDDEN, HEADS, seq, VOCAB), fixture_cluster("dgx", 8), framework);
  p->plan.attention = ATTENTION_UNFUSED;
  p->plan.recompute = RECOMPUTE_NONE;
}

static LayerWork work_of(const Planned *p)
{
  LayerWork work;

  layer_work_init(&work, p->model, model_layer(p->model, 1), PASSES(&p->plan), p->cluster);
  return work;
}

static double scores_of(const Planned *p)
{
  return 2.0 * HEADS * p->plan.seq * p->plan.seq;
}

/*
 * Behind the core a block with dropout keeps 24 sbh: what the projection reads (2), the second norm (2), both products
 * (2 + 8), the activation (8) and two masks (2). All of it is gone when scores have gradients: one tensor where a fused
 * softmax writes over what it reads, else two. Beside it stands the gradient of the residual stream (2).
 */
START_TEST(behind_the_core_nothing_is_left)
{
  static const char *const frameworks[] = { "megatron-2021", "megatron-core" };
  Planned p;

  setup(&p, frameworks[_i], 4096);
  p.model->dropout = TRUE;
  double rows = (double)p.plan.seq * HIDDEN;
  LayerWork work = work_of(&p);
  ck_assert_double_eq_tol(work.transient_bytes, scores_of(&p) + (STREAM - BEHIND) * rows, 0.5);
  ck_assert_double_eq_tol(work.split_bytes, BEHIND * rows, 0.5); /* passes of input gradients alone give none back */
  layer_work_clear(&work);
  planned_clear(&p);
}
END_TEST

/* Of a short sequence the feed-forward's gradients are more. */
START_TEST(short_sequences_have_small_scores)
{
  Planned p;

  setup(&p, "megatron-2021", 512);
  LayerWork work = work_of(&p);
  ck_assert_double_eq_tol(work.transient_bytes, (STREAM + WORST_FEED_FORWARD) * (double)p.plan.seq * HIDDEN, 0.5);
  ck_assert_double_eq_tol(work.split_bytes, 0, 0.5);
  layer_work_clear(&work);
  planned_clear(&p);
}
END_TEST

/* torch.nn.functional's softmax makes its gradient beside the one that it reads. */
START_TEST(separate_softmax_has_two)
{
  Planned fused, apart;

  setup(&fused, "megatron-core", 4096);
  setup(&apart, "megatron-core", 4096);
  apart.framework->fused_softmax = FALSE;
  LayerWork one = work_of(&fused), two = work_of(&apart);
  ck_assert_double_eq_tol(two.transient_bytes - one.transient_bytes, scores_of(&fused), 0.5);
  ck_assert_double_eq(two.saved_bytes, one.saved_bytes);
  layer_work_clear(&one);
  layer_work_clear(&two);
  planned_clear(&fused);
  planned_clear(&apart);
}
END_TEST

/* A pass of input gradients alone takes what lies behind the core, too: it gives none of that back. */
START_TEST(split_passes_take_more)
{
  double taken[2] = { 0, 0 };
  Planned p;

  setup(&p, "torchtitan", 4096);
  LayerWork work = work_of(&p);
  ck_assert_double_gt(work.split_bytes, 0);
  for (int split = 0; split < 2; split++) {
    p.plan.schedule = schedule_find(split ? "zb-h1" : "1f1b");
    p.plan.pp = 2;
    p.plan.gpus = 8;
    p.plan.dp = 4;
    p.plan.global_batch = 16;
    planned_build(&p);
    for (guint i = 0; i < p.program->segments->len; i++) {
      const Segment *s = &g_array_index(p.program->segments, Segment, i);
      if (s->kind == TASK_PASS && s->pass == (split ? PASS_INPUT : PASS_BACKWARD) && s->first_layer == 0)
        taken[split] = s->alloc_bytes;
    }
  }
  ck_assert_double_gt(taken[0], 0);
  ck_assert_double_eq_tol(taken[1] - taken[0], work.split_bytes, 0.5);
  layer_work_clear(&work);
  planned_clear(&p);
}
END_TEST

TEST_LOOPS("scores", { split_passes_take_more }, { behind_the_core_nothing_is_left, 2 },
           { short_sequences_have_small_scores }, { separate_softmax_has_two })
