#include <string.h>

#include "base/units.h"
#include "hardware/part.h"
#include "hardware/plausible.h"

const char *const attention_kernel_names[] = {"unfused", "efficient", "triton", "flash1", "flash", "flash3", NULL};
static const char *const pass_names[] = {"forward", "backward", NULL};

#define ANY_US .max = 1e9, .scale = US
#define CROWDING .min = 1, .max = 1000

/* ---- sections ---- */

/* An object of the file. */
typedef struct Section {
  const char *key;
  gboolean required;
  gboolean (*read)(const PartSource *source, const struct Section *section, Kernels *kernels, GError **error);
  gsize offset; /* in Kernels: of models by number format, or of a constant that is above 0 once the others were read */
  const JsonField *fields; /* of these constants */
  gsize n_fields, provenance; /* the latter their offset in Kernels; 0 = none is kept */
} Section;

/* Under `like`, whether a number of the part that it is like stays. */
static gboolean one_stays(const PartSource *source, const JsonField *fields, gsize n, gconstpointer model)
{
  for (gsize i = 0; i < n; i++) {
    double value = fields[i].type == JSON_REAL ? G_STRUCT_MEMBER(double, model, fields[i].offset) : 0;
    if (fields[i].type == JSON_REAL && !json_get(source->object, fields[i].key) &&
        (fields[i].required || value > fields[i].min))
      return TRUE;
  }
  return FALSE;
}

/* A set of constants, of which `known` were read before: they stay, with their provenance, where no key stands. */
static gboolean read_constants(const PartSource *source, const JsonField *fields, gsize n, gboolean known,
                               gpointer model, Provenance *provenance, GError **error)
{
  PartSource merged = *source;
  merged.partial = known;
  if (provenance && !(known && one_stays(source, fields, n, model)))
    *provenance = PROVENANCE_MEASURED;
  return part_fields(&merged, fields, n, model, provenance, error);
}

static gboolean read_numbers(const PartSource *source, const Section *section, Kernels *kernels, GError **error)
{
  gboolean known = G_STRUCT_MEMBER(double, kernels, section->offset) > 0;
  Provenance *provenance = section->provenance ? &G_STRUCT_MEMBER(Provenance, kernels, section->provenance) : NULL;

  return read_constants(source, section->fields, section->n_fields, known, kernels, provenance, error);
}

/* ---- matmul ---- */

const JsonField matmul_fields[] = {
  {"launch_us", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, launch_s), TRUE, ANY_US},
  {"efficiency", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, efficiency), TRUE, PLAUSIBLE_EFFICIENCY},
  {"tile_overhead_us", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, tile_overhead_s), TRUE, ANY_US},
  {"bandwidth_fraction", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, bandwidth_fraction), TRUE, G_MINDOUBLE, 4},
  {"tile_exponent", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, tile_exponent), TRUE, 0, 2},
  {"overlap_power", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, overlap_power), TRUE, 1, 64},
  {"split_us", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, split_s), TRUE, ANY_US},
  {"wave_weight", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, wave_weight), TRUE, 0, 1},
  {"tile", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, tile), .max = 1024},
  {"first_bandwidth_fraction", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, first_bandwidth_fraction), .max = 64},
  {"crowding", JSON_REAL, G_STRUCT_OFFSET(MatmulModel, crowding), CROWDING},
  {NULL},
};

static gboolean read_models(const PartSource *source, const Section *section, Kernels *kernels, GError **error)
{
  MatmulModel *models = G_STRUCT_MEMBER_P(kernels, section->offset);
  JsonField formats[DTYPE_COUNT];
  for (int d = 0; d < DTYPE_COUNT; d++)
    formats[d] = (JsonField){.key = dtype_names[d], .type = JSON_ANY};
  if (!part_fields(source, formats, DTYPE_COUNT, kernels, NULL, error))
    return FALSE;
  for (int d = 0; d < DTYPE_COUNT; d++) {
    const cJSON *item = json_get(source->object, dtype_names[d]);
    MatmulModel *model = &models[d];
    PartSource inside;
    if (!item)
      continue;
    if (!part_inside(source, item, &inside, error))
      return FALSE;
    if (!model->known)
      model->crowding = 1;
    if (!read_constants(&inside, matmul_fields, G_N_ELEMENTS(matmul_fields) - 1, model->known, model, &model->provenance,
                        error))
      return FALSE;
    model->known = TRUE;
  }
  return TRUE;
}

static void borrow(Kernels *kernels, DType to, DType from, gboolean as_default)
{
  MatmulModel *model = &kernels->matmul[to];
  if (model->known)
    return;
  *model = kernels->matmul[from];
  if (as_default)
    model->provenance = PROVENANCE_DEFAULT;
}

/* ---- attention ---- */

static const JsonField curve_fields[] = {
  {"kernel", JSON_ENUM, G_STRUCT_OFFSET(AttentionCurve, kernel), TRUE, .names = attention_kernel_names},
  {"pass", JSON_ENUM, G_STRUCT_OFFSET(AttentionCurve, backward), TRUE, .names = pass_names},
  {"causal", JSON_BOOL, G_STRUCT_OFFSET(AttentionCurve, causal), TRUE},
  {"narrow", JSON_BOOL, G_STRUCT_OFFSET(AttentionCurve, narrow)},
  {"head_dim", JSON_INT, G_STRUCT_OFFSET(AttentionCurve, head_dim), TRUE, 1, 65536},
  {"seq", JSON_ANY, 0, TRUE},
  {"utilization", JSON_ANY, 0, TRUE},
};

static gboolean read_points(const PartSource *source, AttentionCurve *curve, GError **error)
{
  const cJSON *seq = json_get(source->object, "seq"), *shares = json_get(source->object, "utilization");
  curve->n = json_get_reals(source->doc, seq, curve->seq, ATTENTION_POINTS_MAX, error);
  if (curve->n < 0)
    return FALSE;
  int n = json_get_reals(source->doc, shares, curve->utilization, ATTENTION_POINTS_MAX, error);
  if (n < 0)
    return FALSE;
  if (curve->n == 0)
    return json_error(source->doc, seq, error, "at least one sequence length");
  if (n != curve->n)
    return json_error(source->doc, shares, error, "%d numbers, one for each of seq, found %d", curve->n, n);
  for (int i = 0; i < n; i++) {
    double below = i ? curve->seq[i - 1] : 0;
    if (curve->seq[i] <= below)
      return json_error(source->doc, cJSON_GetArrayItem(seq, i), error, "a number above %g: lengths rise", below);
    if (curve->utilization[i] <= 0 || curve->utilization[i] > 1)
      return json_error(source->doc, cJSON_GetArrayItem(shares, i), error, "a number above 0 and at most 1");
  }
  return TRUE;
}

static gboolean read_curve(const PartSource *source, AttentionCurve *out, GError **error)
{
  *out = (AttentionCurve){.provenance = PROVENANCE_MEASURED};
  if (!part_fields(source, curve_fields, G_N_ELEMENTS(curve_fields), out, &out->provenance, error))
    return FALSE;
  if (out->kernel == ATTENTION_UNFUSED)
    return json_error(source->doc, json_get(source->object, "kernel"), error,
                      "a fused kernel: unfused attention is matmuls and softmax");
  return read_points(source, out, error);
}

static gboolean read_curves(const PartSource *above, const cJSON *array, Kernels *kernels, GError **error)
{
  if (!cJSON_IsArray(array))
    return json_error(above->doc, array, error, "an array of objects");
  g_free(kernels->attention);
  kernels->attention = g_new0(AttentionCurve, cJSON_GetArraySize(array));
  kernels->n_attention = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, array) {
    AttentionCurve *curve = &kernels->attention[kernels->n_attention];
    PartSource inside;
    if (!part_inside(above, item, &inside, error) || !read_curve(&inside, curve, error))
      return FALSE;
    for (int i = 0; i < kernels->n_attention; i++)
      if (attention_alike(&kernels->attention[i], curve) && kernels->attention[i].head_dim == curve->head_dim)
        return json_error(above->doc, item, error, "another kernel, pass, causal, narrow or head_dim than curves[%d]", i);
    kernels->n_attention++;
  }
  return TRUE;
}

static gboolean read_attention(const PartSource *source, const Section *section, Kernels *kernels, GError **error)
{
  static const JsonField fields[] = {
    {"launch_us", JSON_REAL, G_STRUCT_OFFSET(Kernels, attention_launch_s), ANY_US},
    {"tail", JSON_REAL, G_STRUCT_OFFSET(Kernels, attention_tail), .max = 10},
    {"sustained_fraction", JSON_REAL, G_STRUCT_OFFSET(Kernels, attention_sustained), FALSE, 0.1, 1},
    {"crowding", JSON_REAL, G_STRUCT_OFFSET(Kernels, attention_crowding), CROWDING},
    {"curves", JSON_ANY},
  };
  const cJSON *curves = json_get(source->object, "curves");
  (void)section;
  return part_fields(source, fields, G_N_ELEMENTS(fields), kernels, NULL, error) &&
         (!curves || read_curves(source, curves, kernels, error));
}

/* ---- rows that are not aligned ---- */

static const JsonField unaligned_fields[] = {
  {"words", JSON_REAL, G_STRUCT_OFFSET(Kernels, unaligned[0][0]), TRUE, 1, 100},
  {"words_of_activations", JSON_REAL, G_STRUCT_OFFSET(Kernels, unaligned[0][1]), TRUE, 1, 100},
  {"bytes", JSON_REAL, G_STRUCT_OFFSET(Kernels, unaligned[1][0]), TRUE, 1, 100},
  {"bytes_of_activations", JSON_REAL, G_STRUCT_OFFSET(Kernels, unaligned[1][1]), TRUE, 1, 100},
};

static const JsonField library_fields[] = {
  {"added_power", JSON_REAL, G_STRUCT_OFFSET(Kernels, added_power), TRUE, 1, 64},
  {"experts_at_once", JSON_REAL, G_STRUCT_OFFSET(Kernels, experts_at_once), TRUE, 1, 64},
};

/* ---- early libraries ---- */

static const JsonField early_fields[] = {
  {"cuda_version", JSON_REAL, G_STRUCT_OFFSET(Kernels, early_cuda_version), TRUE, 1, 1000},
  {"product_share", JSON_REAL, G_STRUCT_OFFSET(Kernels, early_product_share), TRUE, PLAUSIBLE_EFFICIENCY},
  {"unaligned_fp16_share", JSON_REAL, G_STRUCT_OFFSET(Kernels, early_unaligned_share[DTYPE_FP16]), FALSE,
   PLAUSIBLE_EFFICIENCY},
  {"unaligned_bf16_share", JSON_REAL, G_STRUCT_OFFSET(Kernels, early_unaligned_share[DTYPE_BF16]), FALSE,
   PLAUSIBLE_EFFICIENCY},
};

static const JsonField promoted_fields[] = {
  {"efficiency_share", JSON_REAL, G_STRUCT_OFFSET(Kernels, promoted_share), TRUE, PLAUSIBLE_EFFICIENCY},
  {"tile_overhead_us", JSON_REAL, G_STRUCT_OFFSET(Kernels, promoted_overhead_s), TRUE, ANY_US},
};

/* ---- memory ---- */

static const JsonField memory_kernel_fields[] = {
  {"name", JSON_STRING, G_STRUCT_OFFSET(MemoryKernel, name), TRUE},
  {"pass", JSON_ENUM, G_STRUCT_OFFSET(MemoryKernel, backward), TRUE, .names = pass_names},
  {"fraction", JSON_REAL, G_STRUCT_OFFSET(MemoryKernel, fraction), TRUE, G_MINDOUBLE, 1000},
  {"gflops_per_sm", JSON_REAL, G_STRUCT_OFFSET(MemoryKernel, sm_flops_per_s), .min = 1e-3, .max = 1e9, .scale = 1e9},
  {"crowding", JSON_REAL, G_STRUCT_OFFSET(MemoryKernel, crowding), CROWDING},
};

void memory_kernels_clear(Kernels *kernels)
{
  for (int i = 0; i < kernels->n_memory_kernels; i++)
    g_free(kernels->memory_kernels[i].name);
  g_clear_pointer(&kernels->memory_kernels, g_free);
  kernels->n_memory_kernels = 0;
}

static int by_length(const void *a, const void *b)
{
  const MemoryKernel *first = a, *second = b;

  return (first->name_length < second->name_length) - (first->name_length > second->name_length);
}

/* The longest first, as a name of several words goes before its last one. */
static void sort_memory_kernels(Kernels *kernels)
{
  if (kernels->n_memory_kernels > 0)
    qsort(kernels->memory_kernels, kernels->n_memory_kernels, sizeof(MemoryKernel), by_length);
}

static gboolean read_memory_kernels(const PartSource *above, const cJSON *array, Kernels *kernels, GError **error)
{
  if (!cJSON_IsArray(array))
    return json_error(above->doc, array, error, "an array of objects");
  memory_kernels_clear(kernels); /* of the part that it is like */
  kernels->memory_kernels = g_new0(MemoryKernel, cJSON_GetArraySize(array));
  const cJSON *item;
  cJSON_ArrayForEach(item, array) {
    MemoryKernel *kernel = &kernels->memory_kernels[kernels->n_memory_kernels++];
    PartSource inside;
    *kernel = (MemoryKernel){.crowding = 1, .provenance = PROVENANCE_MEASURED};
    if (!part_inside(above, item, &inside, error) ||
        !part_fields(&inside, memory_kernel_fields, G_N_ELEMENTS(memory_kernel_fields), kernel, &kernel->provenance,
                     error))
      return FALSE;
    kernel->name_length = strlen(kernel->name);
  }
  sort_memory_kernels(kernels);
  return TRUE;
}

static const JsonField memory_fields[] = {
  {"fraction", JSON_REAL, G_STRUCT_OFFSET(Kernels, memory_fraction), TRUE, PLAUSIBLE_EFFICIENCY},
  {"launch_us", JSON_REAL, G_STRUCT_OFFSET(Kernels, memory_launch_s), TRUE, ANY_US},
  {"crowding", JSON_REAL, G_STRUCT_OFFSET(Kernels, memory_crowding), CROWDING},
  {"kernels", JSON_ANY},
};

static gboolean read_memory(const PartSource *source, const Section *section, Kernels *kernels, GError **error)
{
  const cJSON *array = json_get(source->object, "kernels");

  return read_numbers(source, section, kernels, error) &&
         (!array || read_memory_kernels(source, array, kernels, error));
}

static const JsonField dispatch_fields[] = {
  {"base_us", JSON_REAL, G_STRUCT_OFFSET(Kernels, dispatch.base_s), TRUE, ANY_US},
  {"row_us", JSON_REAL, G_STRUCT_OFFSET(Kernels, dispatch.row_s), TRUE, ANY_US},
  {"ns_per_byte", JSON_REAL, G_STRUCT_OFFSET(Kernels, dispatch.s_per_byte), TRUE, .max = 1e9, .scale = 1e-9},
  {"hybrid_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Kernels, dispatch.hybrid_bytes_per_s), .max = 1e6, .scale = GB},
  {"hybrid_slowdown", JSON_REAL, G_STRUCT_OFFSET(Kernels, dispatch.hybrid_slowdown), TRUE, 1, 100},
};

/* ---- the file ---- */

#define MODELS(models) read_models, G_STRUCT_OFFSET(Kernels, models)
#define NUMBERS(constant, fields) G_STRUCT_OFFSET(Kernels, constant), fields, G_N_ELEMENTS(fields)

static const Section sections[] = {
  {"matmul", TRUE, MODELS(matmul)},
  {"grouped", FALSE, MODELS(grouped)},
  {"input_gradient", FALSE, MODELS(gradients[PRODUCT_INPUT_GRADIENT])},
  {"weight_gradient", FALSE, MODELS(gradients[PRODUCT_WEIGHT_GRADIENT])},
  {"attention", FALSE, read_attention},
  {"unaligned", FALSE, read_numbers, NUMBERS(unaligned[0][0], unaligned_fields)},
  {"library", FALSE, read_numbers, NUMBERS(added_power, library_fields)},
  {"early", FALSE, read_numbers, NUMBERS(early_cuda_version, early_fields)},
  {"promoted", FALSE, read_numbers, NUMBERS(promoted_share, promoted_fields)},
  {"memory", TRUE, read_memory, NUMBERS(memory_fraction, memory_fields),
   G_STRUCT_OFFSET(Kernels, memory_provenance)},
  {"dispatch", FALSE, read_numbers, NUMBERS(dispatch.hybrid_slowdown, dispatch_fields),
   G_STRUCT_OFFSET(Kernels, dispatch.provenance)},
};

static gboolean read_kernels(const PartSource *source, gpointer out, GError **error)
{
  JsonField fields[1 + G_N_ELEMENTS(sections)] = {{"name", JSON_STRING, G_STRUCT_OFFSET(Kernels, name), TRUE}};

  for (gsize i = 0; i < G_N_ELEMENTS(sections); i++)
    fields[i + 1] = (JsonField){.key = sections[i].key, .type = JSON_ANY, .required = sections[i].required};
  if (!part_fields(source, fields, G_N_ELEMENTS(fields), out, NULL, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(sections); i++) {
    const cJSON *item = json_get(source->object, sections[i].key);
    PartSource inside;
    if (item && !(part_inside(source, item, &inside, error) && sections[i].read(&inside, &sections[i], out, error)))
      return FALSE;
  }
  return TRUE;
}

static gboolean finish_kernels(const PartSource *source, gpointer out, GError **error)
{
  Kernels *kernels = out;
  kernels->attention_crowding = MAX(kernels->attention_crowding, 1);
  kernels->memory_crowding = MAX(kernels->memory_crowding, 1);
  kernels->dispatch.hybrid_slowdown = MAX(kernels->dispatch.hybrid_slowdown, 1);
  borrow(kernels, DTYPE_FP16, DTYPE_BF16, FALSE);
  borrow(kernels, DTYPE_BF16, DTYPE_FP16, FALSE);
  if (!kernels->matmul[DTYPE_BF16].known)
    return part_missing(source, "matmul", error, "constants for bf16 or fp16");
  for (int d = 0; d < DTYPE_COUNT; d++) {
    borrow(kernels, d, DTYPE_BF16, TRUE);
    memcpy(kernels->matmul[d].unaligned, kernels->unaligned, sizeof kernels->unaligned);
    memcpy(kernels->grouped[d].unaligned, kernels->unaligned, sizeof kernels->unaligned);
    kernels->matmul[d].added_power = dtype_bytes[d] >= 2 ? kernels->added_power : 0; /* not measured in fewer */
    kernels->matmul[d].experts_at_once = kernels->experts_at_once;
  }
  return TRUE;
}

const PartKind kernels_part = {"kernels", "set of kernel constants", read_kernels, finish_kernels};
