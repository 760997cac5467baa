/* Which optimizers and which formats of products, states and reductions a plan may have. */
#include "plan/check.h"
#include "plan/excludes.h"
#include "plan/keys.h"

/* Formats that each state may have. */
static const guint formats[STATE_COUNT] = {
  [STATE_MAIN_PARAMS] = 1u << FORMAT_FP32 | 1u << FORMAT_BF16 | 1u << FORMAT_FP16,
  [STATE_MAIN_GRADS] = 1u << FORMAT_FP32 | 1u << FORMAT_BF16 | 1u << FORMAT_FP16,
  [STATE_EXP_AVG] = 1u << FORMAT_FP32 | 1u << FORMAT_BF16 | 1u << FORMAT_FP16 | 1u << FORMAT_FP8,
  [STATE_EXP_AVG_SQ] = 1u << FORMAT_FP32 | 1u << FORMAT_BF16 | 1u << FORMAT_FP16 | 1u << FORMAT_FP8,
  [STATE_GRAD_REDUCE] = 1u << FORMAT_FP32 | 1u << FORMAT_BF16 | 1u << FORMAT_FP16,
  [STATE_TENSOR_REDUCE] = 1u << FORMAT_FP32 | 1u << FORMAT_BF16 | 1u << FORMAT_FP16,
};

static gboolean check_format(const Subject *s, OptimizerState state, GError **error)
{
  const Plan *p = s->plan;
  const char *key = optimizer_state_names[state], *format = state_format_names[p->optimizer.formats[state]];

  if (!(optimizer_kind(&p->optimizer)->formats >> state & 1))
    return broken(error, "%s: \"%s\": expected nothing, optimizer %s has no such state", key, format,
                  optimizer_names[p->optimizer.name]);
  if (!(formats[state] >> p->optimizer.formats[state] & 1))
    return broken(error, "%s: \"%s\": expected fp32, bf16 or fp16", key, format);
  if (!(p->framework->state_formats >> state & 1))
    return broken(error, "%s: \"%s\": expected nothing, %s has no choice", key, format, p->framework->name);
  return TRUE;
}

static gboolean check_settings(const Subject *s, GError **error)
{
  const Optimizer *o = &s->plan->optimizer, usual = optimizer_default();
  const char *name = optimizer_names[o->name];

  if (o->name != OPTIMIZER_SGD && o->momentum != usual.momentum)
    return broken(error, "sgd_momentum: %g: expected nothing with optimizer %s", o->momentum, name);
  if (o->name != OPTIMIZER_ADAM8BIT && o->block != usual.block)
    return broken(error, "optimizer_block_size: %d: expected nothing with optimizer %s", o->block, name);
  if (o->name != OPTIMIZER_MUON && o->newton_steps != usual.newton_steps)
    return broken(error, "muon_num_ns_steps: %d: expected nothing with optimizer %s", o->newton_steps, name);
  if (o->name != OPTIMIZER_MUON && o->muon_mode != usual.muon_mode)
    return broken(error, "muon_tp_mode: \"%s\": expected nothing with optimizer %s", muon_mode_names[o->muon_mode],
                  name);
  return TRUE;
}

static gboolean check_main_params(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  StateFormat format = p->optimizer.formats[STATE_MAIN_PARAMS];

  if (p->precision == DTYPE_FP32 && format && format != FORMAT_FP32)
    return broken(error, "main_params_dtype: \"%s\": expected fp32, which is the weights' own",
                  state_format_names[format]);
  if (p->optimizer.remainders && (p->precision != DTYPE_BF16 || (format && format != FORMAT_FP32)))
    return broken(error, "store_param_remainders: true: expected precision bf16 and main_params_dtype fp32");
  if (p->optimizer.remainders && !(p->framework->state_formats >> STATE_MAIN_PARAMS & 1))
    return broken(error, "store_param_remainders: true: expected false, %s keeps whole ones", p->framework->name);
  return TRUE;
}

gboolean check_optimizer(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!(p->framework->optimizers >> p->optimizer.name & 1))
    return broken(error, "optimizer: \"%s\": expected one that %s runs", optimizer_names[p->optimizer.name],
                  p->framework->name);
  if (p->offload.optimizer && !optimizer_kind(&p->optimizer)->on_host)
    return broken(error, "optimizer: \"%s\": expected adam, adamw or sgd where the optimizer is on the host",
                  optimizer_names[p->optimizer.name]);
  for (int state = 0; state < STATE_COUNT; state++)
    if (p->optimizer.formats[state] && !check_format(s, state, error))
      return FALSE;
  return check_settings(s, error) && check_main_params(s, error);
}

static gboolean scales_blocks(const Cluster *c)
{
  for (int i = 0; i < cluster_types(c); i++)
    if (!device_scales_blocks(&cluster_type(c, i)->device))
      return FALSE;
  return TRUE;
}

static gboolean no_narrow_gather(const Plan *p, GError **error)
{
  const Framework *f = p->framework;
  Fp8Recipe recipe = plan_recipe(p);

  if (!(f->param_gathers >> recipe & 1))
    return broken(error, "fp8_param_gather: true: expected false, %s gathers in 16 bits under %s", f->name,
                  fp8_recipe_names[recipe]);
  if (!f->fp8_primary || !plan_stage_writes_narrow(p))
    return broken(error, "fp8_param_gather: true: expected zero_stage %s, it is %d",
                  !f->fp8_primary ? "3" : recipe == FP8_NVFP4 ? "1" : "1 or more", p->zero);
  if (p->offload.optimizer)
    return broken(error, "fp8_param_gather: true: expected false where the optimizer is offloaded%s",
                  recipe == FP8_NVFP4 ? "" : ", unless fp8_recipe is delayed");
  return broken(error, "fp8_param_gather: true: expected an optimizer of Adam's kind with main weights%s in fp32, which "
                "alone writes such weights", recipe == FP8_DELAYED ? " and moments" : "");
}

/* NULL where devices have the recipe; else newly allocated, as below. */
static char *recipe_expected(const Plan *p, const Cluster *cluster)
{
  if (!plan_narrow(p) || plan_recipe(p) != FP8_MXFP8 || scales_blocks(cluster))
    return NULL;
  return g_strdup_printf("devices that scale blocks, cluster %s has none", cluster->name);
}

static gboolean check_recipe(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const Framework *f = p->framework;

  if (p->fp8_recipe && (p->products != PRODUCTS_FP8 || p->fp8_recipe == FP8_NVFP4))
    return broken(error, "fp8_recipe: \"%s\": expected nothing under precision %s", fp8_recipe_names[p->fp8_recipe],
                  dtype_names[plan_format(p)]);
  if (p->param_gather && !plan_narrow(p))
    return broken(error, "fp8_param_gather: expected nothing under precision %s", dtype_names[plan_format(p)]);
  if (!plan_narrow(p))
    return TRUE;
  g_autofree char *only = framework_narrows_only(f, plan_format(p), p->fp8_recipe);
  if (only && p->fp8_recipe && f->fp8)
    return broken(error, "fp8_recipe: \"%s\": expected %s", fp8_recipe_names[p->fp8_recipe], only);
  if (only)
    return broken(error, "precision: \"%s\": expected %s", dtype_names[plan_format(p)], only);
  if (p->param_gather == GATHER_NARROW && !plan_can_gather_narrow(p))
    return no_narrow_gather(p, error);
  g_autofree char *scaling = recipe_expected(p, s->cluster);
  if (scaling)
    return broken(error, "fp8_recipe: \"%s\": expected %s", fp8_recipe_names[plan_recipe(p)], scaling);
  return TRUE;
}

static gboolean check_wide(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const char *key = plan_key_of(p->wide.start ? KEY_WIDE_START : KEY_WIDE_END)->field.key;
  int blocks = p->wide.start ? p->wide.start : p->wide.end;

  if (!wide_any(&p->wide))
    return TRUE;
  if (!plan_narrow(p))
    return broken(error, "%s: %d: expected nothing: precision %s has no narrower products", key, blocks,
                  dtype_names[plan_format(p)]);
  if (s->model->encoder_blocks > 0)
    return broken(error, "%s: %d: expected 0 of an encoder-decoder", key, blocks);
  if (p->wide.start + p->wide.end > s->model->blocks)
    return broken(error, "num_layers_at_start_in_bf16: %d, num_layers_at_end_in_bf16: %d: expected at most the model's %d "
                  "together", p->wide.start, p->wide.end, s->model->blocks);
  return check_engine(s, CHOICE_WIDE_START, CHOICE_WIDE_END + 1, error);
}

/* Scales that the framework has no blocks in 16 bits beside. */
static gboolean check_wide_recipe(const Subject *s, GError **error)
{
  const guint64 of_recipe = 1ull << FEATURE_WIDE_BLOCKS | 1ull << FEATURE_DELAYED_SCALING;
  const Plan *p = s->plan;
  const Framework *f = p->framework;

  for (guint i = 0; i < f->excludes->len; i++) {
    const Exclusion *e = &g_array_index(f->excludes, Exclusion, i);
    if (e->features != of_recipe || !plan_has_all(p, s->model, s->cluster, e))
      continue;
    g_autofree char *others = fp8_recipes_text(f->fp8_recipes & ~(1u << plan_recipe(p)));
    return broken(error, "%s: %d: expected fp8_recipe %s, it is %s: %s",
                  plan_key_of(p->wide.start ? KEY_WIDE_START : KEY_WIDE_END)->field.key,
                  p->wide.start ? p->wide.start : p->wide.end, others, fp8_recipe_names[plan_recipe(p)], e->reason);
  }
  return TRUE;
}

gboolean plan_check_wide(const Plan *plan, const Model *model, const Cluster *cluster, GError **error)
{
  const Subject s = { plan, model, cluster };

  return check_wide(&s, error) && check_wide_recipe(&s, error);
}

static char *formats_text(const Device *device)
{
  GString *s = g_string_new(NULL);

  for (int i = 0; i < DTYPE_COUNT; i++)
    if (device->peak_flops_per_s[i] > 0)
      g_string_append_printf(s, "%s%s", s->len ? ", " : "", dtype_names[i]);
  return g_string_free(s, FALSE);
}

static char *format_expected(const Plan *plan, const Cluster *cluster)
{
  for (int i = 0; i < cluster_types(cluster); i++) {
    const Device *device = &cluster_type(cluster, i)->device;
    if (device->peak_flops_per_s[plan_format(plan)] > 0)
      continue;
    g_autofree char *has = formats_text(device);
    return g_strdup_printf("a format that %s supports (%s)", device->name, has);
  }
  return NULL;
}

char *plan_devices_expect(const Plan *plan, const Cluster *cluster)
{
  char *format = format_expected(plan, cluster);

  return format ? format : recipe_expected(plan, cluster);
}

gboolean check_formats(const Subject *s, GError **error)
{
  g_autofree char *format = format_expected(s->plan, s->cluster);

  if (format)
    return broken(error, "precision: \"%s\": expected %s", dtype_names[plan_format(s->plan)], format);
  return check_recipe(s, error);
}

gboolean check_precision(const Subject *s, GError **error)
{
  return check_formats(s, error) && check_wide(s, error);
}
