#include "report/timeline_colors.h"

#define CHUNKS_NAMED 6 /* in the legend; of more, some */
#define ONE_CHUNK 0.42 /* place between dark and light of a hue without chunks */

/* A hue a pass: from its first chunk to its last one. Told apart by colour-blind eyes too. */
static const struct {
  guint32 dark, light;
} hues[PASS_COUNT] = {
  [PASS_FORWARD] = { 0x2B6CB0, 0xBBD8F3 },   [PASS_BACKWARD] = { 0xD9730D, 0xFBD9A9 },
  [PASS_INPUT] = { 0xC2950A, 0xF6E3A1 },     [PASS_WEIGHT] = { 0x2E8B64, 0xBFE3CF },
  [PASS_RECOMPUTE] = { 0x5B6B85, 0xCDD5E1 }, [PASS_LOGITS] = { 0xB0508F, 0xF0CBE1 },
  [PASS_VOCAB] = { 0x7A4A2E, 0xDFC4B2 },
};

static const guint32 kind_colors[TASK_KIND_COUNT] = {
  [TASK_SEND] = 0x64748B,   [TASK_GATHER] = 0x14919B, [TASK_REDUCE] = 0xB83280,
  [TASK_TIED] = 0x975A16,   [TASK_NORM] = 0xC0504D,   [TASK_OPTIMIZER] = 0x7C4DBC,
  [TASK_COPIES] = 0xE58BBE, [TASK_VOCAB] = 0x7A8B1F,  [TASK_FETCH] = 0x4FA36C,
  [TASK_STORE] = 0xA3784F,  [TASK_OUTPUTS] = 0x8C6BB1,
};

static const char *const kind_titles[TASK_KIND_COUNT] = {
  [TASK_SEND] = "send",           [TASK_GATHER] = "gather parameters",
  [TASK_REDUCE] = "reduce gradients", [TASK_TIED] = "tied embedding",
  [TASK_COPIES] = "sum copies' gradients", [TASK_VOCAB] = "output layer's exchange",
  [TASK_NORM] = "gradient norm",      [TASK_OPTIMIZER] = "optimizer",
  [TASK_FETCH] = "copy from the host", [TASK_STORE] = "copy to the host",
  [TASK_OUTPUTS] = "gather outputs",
};

static const char *const pass_titles[PASS_COUNT] = {
  [PASS_FORWARD] = "forward",          [PASS_BACKWARD] = "backward",
  [PASS_INPUT] = "input gradient",     [PASS_WEIGHT] = "weight gradient",
  [PASS_RECOMPUTE] = "recomputation",  [PASS_LOGITS] = "output layer",
  [PASS_VOCAB] = "output layer's gradients",
};

void timeline_colors_init(TimelineColors *c, const Trace *trace)
{
  *c = (TimelineColors) { .chunks = 1, .fixed = trace->step_s > 0 };
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    c->kinds[s->kind] = TRUE;
    if (s->kind != TASK_PASS)
      continue;
    c->passes[s->pass] = TRUE;
    c->chunks = MAX(c->chunks, s->chunk + 1);
  }
}

void timeline_colors_join(TimelineColors *c, const TimelineColors *other)
{
  c->mixed |= other->mixed || c->chunks != other->chunks;
  c->chunks = MAX(c->chunks, other->chunks);
  c->fixed |= other->fixed;
  for (int pass = 0; pass < PASS_COUNT; pass++)
    c->passes[pass] |= other->passes[pass];
  for (int kind = 0; kind < TASK_KIND_COUNT; kind++)
    c->kinds[kind] |= other->kinds[kind];
}

void timeline_colors_compute_only(TimelineColors *c)
{
  for (int kind = 0; kind < TASK_KIND_COUNT; kind++)
    c->kinds[kind] &= kind == TASK_OPTIMIZER;
}

static guint32 blend(guint32 from, guint32 to, double share)
{
  guint32 rgb = 0;

  for (int shift = 0; shift < 24; shift += 8) {
    double a = from >> shift & 255, b = to >> shift & 255;
    rgb |= (guint32)(a + (b - a) * share + 0.5) << shift;
  }
  return rgb;
}

/* An input gradient is a backward's colour unless both occur. */
static guint32 pass_color(const TimelineColors *c, Pass pass, int chunk)
{
  double share = c->chunks > 1 ? (double)chunk / (c->chunks - 1) : ONE_CHUNK;
  Pass hue = pass == PASS_INPUT && !c->passes[PASS_BACKWARD] ? PASS_BACKWARD : pass;

  return blend(hues[hue].dark, hues[hue].light, share);
}

guint32 timeline_pass_color(const TimelineColors *c, const BoxPass *pass)
{
  return pass_color(c, pass->pass, pass->chunk);
}

guint32 timeline_kind_color(TaskKind kind)
{
  return kind_colors[kind];
}

const char *timeline_pass_title(Pass pass)
{
  return pass_titles[pass];
}

const char *timeline_kind_title(TaskKind kind)
{
  return kind_titles[kind] ? kind_titles[kind] : task_kind_names[kind];
}

guint32 timeline_ink(guint32 rgb)
{
  double light = 0.299 * (rgb >> 16) + 0.587 * (rgb >> 8 & 255) + 0.114 * (rgb & 255);
  return light > 135 ? 0x1A202C : 0xFFFFFF;
}

static void add_entry(GPtrArray *names, GArray *colors, char *name, guint32 rgb)
{
  double value = rgb;
  g_ptr_array_add(names, name);
  g_array_append_val(colors, value);
}

/* Squares of some chunks side by side; the name stands behind the last. */
static void add_pass(const TimelineColors *c, int pass, GPtrArray *names, GArray *colors)
{
  int n = MIN(c->chunks, CHUNKS_NAMED);

  for (int i = 0; i < n - 1; i++)
    add_entry(names, colors, g_strdup(""), pass_color(c, pass, i * (c->chunks - 1) / (n - 1)));
  char *name = c->mixed ? g_strdup_printf("%s, first to last chunk", pass_titles[pass])
               : n > 1  ? g_strdup_printf("%s, chunks 0 to %d", pass_titles[pass], c->chunks - 1)
                        : g_strdup(pass_titles[pass]);
  add_entry(names, colors, name, pass_color(c, pass, c->chunks - 1));
}

void timeline_legend(const TimelineColors *c, GPtrArray *names, GArray *colors)
{
  for (int pass = 0; pass < PASS_COUNT; pass++)
    if (c->passes[pass])
      add_pass(c, pass, names, colors);
  for (int kind = 0; kind < TASK_KIND_COUNT; kind++)
    if (c->kinds[kind] && kind_titles[kind])
      add_entry(names, colors, g_strdup(kind_titles[kind]), kind_colors[kind]);
  if (c->fixed)
    add_entry(names, colors, g_strdup("fixed time"), TIMELINE_FIXED);
  add_entry(names, colors, g_strdup("idle"), TIMELINE_IDLE);
}
