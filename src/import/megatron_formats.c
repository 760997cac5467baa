/* Megatron-LM's arguments of the formats of weights, gradients and moments. */
#include "import/megatron_launch.h"
#include "plan/framework.h"

/* A format by its argument's words; a log lists torch's. */
static const char *format_text(Reading *r, const char *name)
{
  static const char *const names[][2] = { { "torch.float32", "fp32" }, { "torch.bfloat16", "bf16" },
                                          { "torch.float16", "fp16" }, { "torch.uint8", "fp8" } };
  const char *text = reading_text(r, name);

  for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
    if (g_str_equal(text, names[i][0]))
      return names[i][1];
  return text;
}

#define MAIN_GRADS "megatron_fsdp_main_grads_dtype"

static const char *const fsdp_formats[] = { "megatron_fsdp_main_params_dtype", MAIN_GRADS,
                                            "megatron_fsdp_grad_comm_dtype" };

gboolean megatron_formats_of_fsdp(Reading *r)
{
  gboolean any = FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS(fsdp_formats); i++)
    any |= *reading_text(r, fsdp_formats[i]) != '\0';
  return any && reading_flag(r, "use_megatron_fsdp");
}

/* Of Megatron-FSDP: what it calls "auto" is the format of the model's own weights and gradients; on the wire that of the
 * accumulated ones. */
static const char *own_format(Reading *r, const char *name, const char *format)
{
  if (!g_str_equal(format, "auto"))
    return format;
  return g_str_equal(name, "megatron_fsdp_grad_comm_dtype") ? ""
         : reading_flag(r, "bf16")                          ? "bf16"
         : reading_flag(r, "fp16")                          ? "fp16"
                                                            : "fp32";
}

/* Whether gradients are accumulated in fp32 where nothing is said of them. */
static gboolean wide_by_default(const char *framework)
{
  g_autoptr(Framework) f = framework_load(framework, NULL);

  return f && MAX(f->gradient_bytes, f->bf16_gradient_bytes) == 4;
}

/* Accumulated gradients of Megatron-FSDP where no argument names their format: from Core 0.17 on "auto", before as
 * everywhere. What runs the script is not known to be either: that is said. */
static const char *unnamed_grads(Reading *r, const char *framework)
{
  g_autoptr(Framework) f = framework_load(framework, NULL);

  if (r->core_16)
    return "";
  if (f && f->fsdp_own_gradients)
    return "auto";
  if (!r->framework && reading_flag(r, "bf16") && !reading_flag(r, "grad_reduce_in_bf16"))
    launch_assume_open(&r->to, "--framework megatron-core-2026", "main_grads_dtype: fp32, as before Core 0.17: since "
                       "then Megatron-FSDP accumulates in bf16 without --megatron-fsdp-main-grads-dtype");
  return "";
}

/* What Megatron-FSDP is told in words of its own; "" = nothing. */
static const char *fsdp_format(Reading *r, const char *framework, const char *name)
{
  const char *format = format_text(r, name);

  if (!*format && g_str_equal(name, MAIN_GRADS))
    format = unnamed_grads(r, framework);
  return own_format(r, name, format);
}

void megatron_shards_say(Reading *r, const char *name, int tensor)
{
  int shards = reading_int(r, name, tensor);
  g_autofree char *flag = argument_flag(name);

  if (shards > tensor)
    launch_assume(&r->to, "%s: %d: simulated as %d: ranks that divide weights beside tensor parallelism, and gather "
                  "each for its use, are not", flag, shards, tensor);
}

/* Its words replace those of precision-aware optimizers (training/arguments.py of August 2026). */
void megatron_formats_put(Reading *r, const char *framework, JsonWriter *w)
{
  static const char *const formats[][2] = {
    { "main_params_dtype", "megatron_fsdp_main_params_dtype" }, { "main_grads_dtype", MAIN_GRADS },
    { "exp_avg_dtype", NULL }, { "exp_avg_sq_dtype", NULL },
  };
  gboolean precise = reading_flag(r, "use_precision_aware_optimizer"), narrow = reading_flag(r, "grad_reduce_in_bf16");
  gboolean fsdp = reading_flag(r, "use_megatron_fsdp");
  const char *sent = fsdp ? fsdp_format(r, framework, "megatron_fsdp_grad_comm_dtype") : "";

  for (gsize i = 0; i < G_N_ELEMENTS(formats); i++) {
    const char *own = fsdp && formats[i][1] ? fsdp_format(r, framework, formats[i][1]) : "";
    const char *format = format_text(r, formats[i][0]);
    gboolean grads = g_str_equal(formats[i][0], "main_grads_dtype");
    if (grads && !narrow && g_str_equal(own, "fp32") && reading_flag(r, "bf16") && wide_by_default(framework))
      continue;
    if (*own)
      json_put_string(w, formats[i][0], own);
    else if (narrow && grads) /* they are reduced where they are accumulated */
      json_put_string(w, formats[i][0], "bf16");
    else if (precise && *format)
      json_put_string(w, formats[i][0], format);
  }
  if (*sent)
    json_put_string(w, "grad_reduce_dtype", sent);
}
