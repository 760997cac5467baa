#include "report/timeline_shares.h"

#include <math.h>

typedef struct {
  double seconds;
  double red, green, blue; /* times seconds */
} Mix;

/* A share of a box's time. */
static void mix_part(Mix *mixes, int n_bins, double bin_s, const Box *box, int kind, double share, guint32 rgb)
{
  int first = CLAMP((int)(box->start / bin_s), 0, n_bins - 1), last = CLAMP((int)(box->end / bin_s), 0, n_bins - 1);

  for (int bin = first; bin <= last; bin++) {
    Mix *m = &mixes[bin * SHARE_KINDS + kind];
    double seconds = share * MAX(MIN(box->end, (bin + 1) * bin_s) - MAX(box->start, bin * bin_s), 0);
    m->seconds += seconds;
    m->red += seconds * (rgb >> 16);
    m->green += seconds * (rgb >> 8 & 255);
    m->blue += seconds * (rgb & 255);
  }
}

static void mix_span(Mix *mixes, int n_bins, double bin_s, const Box *box, const TimelineColors *colors)
{
  for (int i = 0; i < box->n_passes; i++)
    mix_part(mixes, n_bins, bin_s, box, box->passes[i].pass, 1.0 / box->n_passes,
             timeline_pass_color(colors, &box->passes[i]));
  if (box->n_passes == 0)
    mix_part(mixes, n_bins, bin_s, box, PASS_COUNT + box->kind, 1, timeline_kind_color(box->kind));
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

  for (guint i = 0; i < boxes->len; i++)
    mix_span(mixes, n_bins, bin_s, &g_array_index(boxes, Box, i), colors);
  for (int bin = 0; bin < n_bins; bin++)
    for (int kind = 0; kind < SHARE_KINDS; kind++)
      share_out(&mixes[bin * SHARE_KINDS + kind], bin_s, least, &bins[bin], kind);
  return bins;
}
