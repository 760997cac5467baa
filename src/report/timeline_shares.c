#include "report/timeline_shares.h"

#include <math.h>

typedef struct {
  double seconds;
  double red, green, blue; /* times seconds */
} Mix;

static int kind_of(const Span *s)
{
  return s->kind == TASK_PASS ? s->pass : PASS_COUNT + s->kind;
}

static void mix_span(Mix *mixes, int n_bins, double bin_s, const Span *s, guint32 rgb)
{
  int first = CLAMP((int)(s->start / bin_s), 0, n_bins - 1), last = CLAMP((int)(s->end / bin_s), 0, n_bins - 1);

  for (int bin = first; bin <= last; bin++) {
    Mix *m = &mixes[bin * SHARE_KINDS + kind_of(s)];
    double seconds = MAX(MIN(s->end, (bin + 1) * bin_s) - MAX(s->start, bin * bin_s), 0);
    m->seconds += seconds;
    m->red += seconds * (rgb >> 16);
    m->green += seconds * (rgb >> 8 & 255);
    m->blue += seconds * (rgb & 255);
  }
}

/* Steps of eight, so that neighbours can look alike. */
static guint32 channel(double sum, double seconds)
{
  guint32 value = (guint32)(sum / seconds + 0.5);
  return MIN((value + 4) & ~7u, 255);
}

static void share_out(const Mix *m, double bin_s, int least, Shares *out, int kind)
{
  int levels = (int)lround(m->seconds / bin_s * SHARE_LEVELS);

  if (m->seconds < 1e-3 * bin_s)
    return;
  out->levels[kind] = MAX(levels, least);
  out->rgb[kind] = channel(m->red, m->seconds) << 16 | channel(m->green, m->seconds) << 8;
  out->rgb[kind] |= channel(m->blue, m->seconds);
}

Shares *shares_new(const TimelineColors *colors, const GArray *boxes, double bin_s, int n_bins, int least)
{
  Shares *bins = g_new0(Shares, n_bins);
  g_autofree Mix *mixes = g_new0(Mix, n_bins * SHARE_KINDS);

  for (guint i = 0; i < boxes->len; i++) {
    const Span *s = &g_array_index(boxes, Span, i);
    mix_span(mixes, n_bins, bin_s, s, timeline_color(colors, s));
  }
  for (int bin = 0; bin < n_bins; bin++)
    for (int kind = 0; kind < SHARE_KINDS; kind++)
      share_out(&mixes[bin * SHARE_KINDS + kind], bin_s, least, &bins[bin], kind);
  return bins;
}
