/* Claims as Markdown and as pictures. */
#include "pages/claim.h"

#include "report/gnuplot.h"

#include <math.h>

static char *number(double value)
{
  if (isnan(value))
    return g_strdup("-");
  return fabs(value) >= 1e4 && fabs(value) < 1e7 ? g_strdup_printf("%.0f", value) : g_strdup_printf("%.4g", value);
}

static char *claimed(const Figure *f)
{
  if (f->says)
    return g_strdup(f->says);
  if (!isnan(f->expect))
    return number(f->expect);
  if (!isnan(f->above) && !isnan(f->below))
    return g_strdup_printf("%.4g to %.4g", f->above, f->below);
  if (!isnan(f->above))
    return g_strdup_printf("above %.4g", f->above);
  return isnan(f->below) ? g_strdup("") : g_strdup_printf("below %.4g", f->below);
}

static char *difference(const Figure *f)
{
  gboolean stated = !isnan(f->expect) || !isnan(f->above) || !isnan(f->below);

  if (!stated)
    return g_strdup("");
  if (isnan(f->expect) || f->expect == 0 || f->value == f->expect)
    return g_strdup(f->holds ? "holds" : "does not hold");
  return g_strdup_printf("%+.1f %%%s", 100 * (f->value / f->expect - 1), f->holds ? "" : ", does not hold");
}

static void write_figures(const Claim *c, GString *out)
{
  g_string_append(out, "\n| | claimed | simulated | |\n|---|---:|---:|---|\n");
  for (guint i = 0; i < c->figures->len; i++) {
    const Figure *f = &g_array_index(c->figures, Figure, i);
    g_autofree char *says = claimed(f), *value = number(f->value), *against = difference(f);
    g_string_append_printf(out, "| %s | %s | %s | %s |\n", f->what, says, value, against);
  }
}

static void write_sweep(const Claim *c, GString *out)
{
  g_string_append_printf(out, "\n| %s |", json_get(c->sweep, "axis")->valuestring);
  for (guint k = 0; k < c->series->len; k++)
    g_string_append_printf(out, " %s |", g_array_index(c->series, Series, k).title);
  g_string_append(out, "\n|---:|");
  for (guint k = 0; k < c->series->len; k++)
    g_string_append(out, "---:|");
  g_string_append_c(out, '\n');
  for (guint i = 0; i < c->points->len; i++) {
    g_autofree char *x = number(g_array_index(c->points, double, i));
    g_string_append_printf(out, "| %s |", x);
    for (guint k = 0; k < c->series->len; k++) {
      g_autofree char *y = number(g_array_index(g_array_index(c->series, Series, k).values, double, i));
      g_string_append_printf(out, " %s |", y);
    }
    g_string_append_c(out, '\n');
  }
  if (json_get(c->sweep, "picture"))
    g_string_append_printf(out, "\n![%s](%s)\n", json_get(c->sweep, "title")->valuestring,
                           json_get(c->sweep, "picture")->valuestring);
}

void claim_write(const Claim *c, GString *out)
{
  g_string_append_printf(out, "\n## %s: %s\n\n%s *(%s)*\n", c->id, c->verdict, c->claim, c->source);
  if (c->figures->len > 0)
    write_figures(c, out);
  if (c->points->len > 0)
    write_sweep(c, out);
  if (c->reason)
    g_string_append_printf(out, "\n%s\n", c->reason);
}

typedef struct {
  GString *data;
  GPtrArray *titles;
  double least, most;
} Curves;

/* Series marked `table_only` are not drawn. */
static void add_curve(Curves *curves, const Claim *c, int index)
{
  const Series *s = &g_array_index(c->series, Series, index);

  if (json_get(cJSON_GetArrayItem(json_get(c->sweep, "series"), index), "table_only"))
    return;
  g_ptr_array_add(curves->titles, (gpointer)s->title);
  for (guint i = 0; i < c->points->len; i++) {
    double y = g_array_index(s->values, double, i);
    g_string_append_printf(curves->data, "%.9g %.9g\n", g_array_index(c->points, double, i), y);
    curves->least = fmin(curves->least, y);
    curves->most = fmax(curves->most, y);
  }
  g_string_append(curves->data, "\n\n");
}

static gboolean draw(const Claim *c, Picture *p, const char *folder, GError **error)
{
  g_autoptr(GPtrArray) titles = g_ptr_array_new();
  g_autoptr(GString) data = g_string_new(NULL);
  Curves curves = { data, titles, INFINITY, 0 };

  for (guint k = 0; k < c->series->len; k++)
    add_curve(&curves, c, (int)k);
  picture_set_text(p, "heading", json_get(c->sweep, "title")->valuestring);
  picture_set_text(p, "x_title", json_get(c->sweep, "axis")->valuestring);
  picture_set_text(p, "y_title", json_get(c->sweep, "y")->valuestring);
  picture_set_real(p, "y_least", curves.least);
  picture_set_real(p, "y_most", curves.most);
  picture_set_reals(p, "tic", (const double *)c->points->data, (int)c->points->len);
  picture_set_texts(p, "title", (char *const *)titles->pdata, (int)titles->len);
  return picture_write(p, "curves.dat", data, error) && picture_draw(p, &(PicturesTo) { .folder = folder }, error);
}

gboolean claim_plot(const Claim *c, const char *folder, GError **error)
{
  Picture p;

  if (c->points->len == 0)
    return TRUE;
  g_autofree char *name = g_strdup_printf("claim-%s", c->id);
  if (!picture_init(&p, "curves", name, error))
    return FALSE;
  gboolean ok = draw(c, &p, folder, error);
  picture_clear(&p);
  return ok;
}
