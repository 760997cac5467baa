/* Megatron-LM's arguments of the formats of weights, gradients and moments. */
#include "import/megatron_launch.h"
#include "plan/framework.h"

/* Of Megatron-FSDP: what it calls "auto" is the format of the model's own weights and gradients; on the wire that of the
 * accumulated ones. */
static const char *own_format(Reading *r, const char *name)
{
  const char *format = reading_text(r, name);

  if (!g_str_equal(format, "auto"))
    return format;
  return g_str_equal(name, "megatron_fsdp_grad_comm_dtype") ? ""
         : reading_flag(r, "bf16")                          ? "bf16"
         : reading_flag(r, "fp16")                          ? "fp16"
                                                            : "fp32";
}

/* Whether gradients are accumulated in fp32 where nothing is said of them. */
static gboolean wide_by_default(const Reading *r)
{
  g_autoptr(Framework) f = framework_load(r->framework ? r->framework : "megatron-core", NULL);

  return f && MAX(f->gradient_bytes, f->bf16_gradient_bytes) == 4;
}

/* Its words replace those of precision-aware optimizers (training/arguments.py of August 2026). */
void megatron_formats_put(Reading *r, JsonWriter *w)
{
  static const char *const formats[][2] = {
    { "main_params_dtype", "megatron_fsdp_main_params_dtype" }, { "main_grads_dtype", "megatron_fsdp_main_grads_dtype" },
    { "exp_avg_dtype", NULL }, { "exp_avg_sq_dtype", NULL },
  };
  gboolean precise = reading_flag(r, "use_precision_aware_optimizer"), narrow = reading_flag(r, "grad_reduce_in_bf16");
  gboolean fsdp = reading_flag(r, "use_megatron_fsdp");
  const char *sent = fsdp ? own_format(r, "megatron_fsdp_grad_comm_dtype") : "";

  for (gsize i = 0; i < G_N_ELEMENTS(formats); i++) {
    const char *own = fsdp && formats[i][1] ? own_format(r, formats[i][1]) : "";
    const char *format = reading_text(r, formats[i][0]);
    if (i == 1 && !narrow && g_str_equal(own, "fp32") && reading_flag(r, "bf16") && wide_by_default(r))
      continue;
    if (*own)
      json_put_string(w, formats[i][0], own);
    else if (narrow && g_str_equal(formats[i][0], "main_grads_dtype")) /* they are reduced where they are accumulated */
      json_put_string(w, formats[i][0], "bf16");
    else if (precise && *format)
      json_put_string(w, formats[i][0], format);
  }
  if (*sent)
    json_put_string(w, "grad_reduce_dtype", sent);
}
