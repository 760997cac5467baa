/* A fitted link as a file of hardware/links/ and as text for people. */

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "calibrate/link.h"

#define PERCENT 100

char *link_calibration_json(const LinkCalibration *c, const char *name, const char *files)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;
  g_autofree char *note =
    g_strdup_printf("efficiencies are shares of %.4g GB/s, a device each way", c->bytes_per_s / GB);
  g_autoptr(GString) source = g_string_new(NULL);
  g_string_append_printf(source, "fitted: %s, %d points, mean error %.1f %%", files, c->n, PERCENT * c->errors.mean);
  if (c->held_out.n)
    g_string_append_printf(source, ", %.1f %% on %d left out", PERCENT * c->held_out.mean, c->held_out.n);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", name);
  json_put_string(&w, "like", c->like);
  for (const LinkConstant *constant = link_constants; constant->key; constant++)
    if (constant->mask & c->fitted)
      json_put_real(&w, constant->key, round_digits(json_field_real(link_field(constant->key), &c->link)));
  if (c->fitted & FIT_LINK_P2P) { /* not those of the link that it is like */
    json_put_real(&w, "p2p_sqrt_us_per_sqrt_byte", 0);
    json_put_real(&w, "short_gb_per_s", 0);
  }
  json_put_string(&w, "note", note);
  json_put_string(&w, "source", source->str);
  json_close(&w, '}');
  return g_string_free(text, FALSE);
}

/* ---- for people ---- */

static char *points_table(const LinkCalibration *c, const LinkPoint *points)
{
  g_autoptr(Table) table = table_new("<collective|nodes|ranks|bytes|measured us|fitted us|error %|<algorithm");
  for (int i = 0; i < c->n; i++) {
    const LinkPoint *point = &points[i];
    table_add(table, "%s|%d|%d|%.0f|%.2f|%.2f|%+.1f|%s", collective_names[point->collective], point->nodes,
              point->ranks, point->bytes, point->seconds * 1e6, c->fitted_s[i] * 1e6,
              PERCENT * (c->fitted_s[i] / point->seconds - 1), c->algorithms[i]);
  }
  return table_text(table, 0);
}

static char *constants_table(const LinkCalibration *c)
{
  g_autoptr(Table) table = table_new("<constant|value|<");
  for (const LinkConstant *constant = link_constants; constant->key; constant++) {
    if (constant->mask == FIT_LINK_IN_SWITCH && !c->link.in_switch)
      continue;
    table_add(table, "%s|%.4g", constant->key, json_field_real(link_field(constant->key), &c->link));
    table_add(table, constant->mask & c->fitted ? "fitted" : "as %s", c->like);
  }
  return table_text(table, 0);
}

static void add_errors(GString *text, const FitErrors *errors, const char *of)
{
  g_string_append_printf(text, "%d points%s: mean error %.1f %%, median %.1f %%, ", errors->n, of,
                         PERCENT * errors->mean, PERCENT * errors->median);
  g_string_append_printf(text, "90 %% below %.1f %%, largest %.1f %%\n", PERCENT * errors->p90, PERCENT * errors->max);
}

char *link_calibration_text(const LinkCalibration *c, const LinkPoint *points)
{
  g_autofree char *rows = points_table(c, points), *constants = constants_table(c);
  GString *text = g_string_new(NULL);
  g_string_append_printf(text, "%s\n%s\nnominal rate: %.4g GB/s, a device each way\n", rows, constants,
                         c->bytes_per_s / GB);
  add_errors(text, &c->errors, "");
  if (c->held_out.n)
    add_errors(text, &c->held_out, " left out of a fit of the others");
  return g_string_free(text, FALSE);
}
