#include "report/timeline_picture.h"

#include "report/plots.h"

#include <string.h>

#define AXIS_PIXELS 62   /* numbers and title of the time axis */
#define LEGEND_PIXELS 22 /* a line of the legend */
#define SQUARE_PIXELS 13
#define LETTER_PIXELS 5.9 /* of a legend's name, about */
#define DIGIT_PIXELS 6.5  /* of a number in a box, about */
#define DIGIT_HEIGHT 11
#define SMALL 0.8         /* of small numbers, to the others */

enum { PLACE_COLUMNS = 5, SQUARE_COLUMNS = 3 };

void timeline_picture_init(TimelinePicture *t, double end_s, gboolean unitless, double top)
{
  *t = (TimelinePicture) { .end_s = end_s, .top = top };
  t->unit_s = plot_time_unit(end_s, &t->unit);
  if (unitless) {
    t->unit_s = 1;
    t->unit = "";
  }
  t->pixel_s = end_s / (TIMELINE_WIDTH - TIMELINE_LEFT - TIMELINE_RIGHT);
  t->boxes = g_string_new(NULL);
  t->numbers = g_string_new(NULL);
  t->small = g_string_new(NULL);
  t->texts = g_ptr_array_new_with_free_func(g_free);
  t->places = g_array_new(FALSE, FALSE, sizeof(double));
  t->squares = g_array_new(FALSE, FALSE, sizeof(double));
}

void timeline_picture_clear(TimelinePicture *t)
{
  g_string_free(t->boxes, TRUE);
  g_string_free(t->numbers, TRUE);
  g_string_free(t->small, TRUE);
  g_ptr_array_unref(t->texts);
  g_array_unref(t->places);
  g_array_unref(t->squares);
}

void timeline_box(TimelinePicture *t, double from_s, double to_s, double top, double height, guint32 rgb)
{
  g_string_append_printf(t->boxes, "%.7g %.7g %.6g %.6g %u\n", from_s / t->unit_s, to_s / t->unit_s, top, top + height,
                         rgb);
}

void timeline_number(TimelinePicture *t, double from_s, double to_s, double top, double height, guint32 micro,
                     guint32 rgb)
{
  g_autofree char *digits = g_strdup_printf("%u", micro);
  double across = (to_s - from_s) / t->pixel_s - 3, down = height;
  double scale = MIN(across / (strlen(digits) * DIGIT_PIXELS), down / DIGIT_HEIGHT);

  if (scale >= SMALL)
    g_string_append_printf(scale >= 1 ? t->numbers : t->small, "%.7g %.6g %s %u\n", (from_s + to_s) / 2 / t->unit_s,
                           top + height / 2, digits, timeline_ink(rgb));
}

void timeline_text(TimelinePicture *t, double x, double y, gboolean right, int size, guint32 rgb, const char *text)
{
  const double place[PLACE_COLUMNS] = { x, y, right, size, rgb };

  g_ptr_array_add(t->texts, g_strdup(text));
  g_array_append_vals(t->places, place, PLACE_COLUMNS);
}

/* ---- legend ---- */

/* Pixels of the squares from entry i on and of the name behind the last of them. */
static double entry_width(char *const *names, int i)
{
  double width = 0;

  for (; !*names[i]; i++)
    width += SQUARE_PIXELS;
  return width + 40 + LETTER_PIXELS * g_utf8_strlen(names[i], -1);
}

/* From the left, wrapped; returns the pixels below the axis. */
static double lay_legend(TimelinePicture *t, const TimelineColors *colors, double bottom)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) rgb = g_array_new(FALSE, FALSE, sizeof(double));
  double x = TIMELINE_LEFT, y = bottom + AXIS_PIXELS;
  gboolean begins = TRUE;

  timeline_legend(colors, names, rgb);
  for (guint i = 0; i < names->len; i++) {
    const char *name = names->pdata[i];
    if (begins && x > TIMELINE_LEFT && x + entry_width((char **)names->pdata, i) > TIMELINE_WIDTH) {
      x = TIMELINE_LEFT;
      y += LEGEND_PIXELS;
    }
    const double square[SQUARE_COLUMNS] = { x, y, g_array_index(rgb, double, i) };
    g_array_append_vals(t->squares, square, SQUARE_COLUMNS);
    timeline_text(t, x + SQUARE_PIXELS + 5, y, FALSE, 10, TIMELINE_INK, name);
    begins = *name != '\0';
    x += begins ? 40 + LETTER_PIXELS * g_utf8_strlen(name, -1) : SQUARE_PIXELS;
  }
  return y + LEGEND_PIXELS - bottom;
}

/* ---- the script's variables ---- */

/* Every `columns`-th value, starting with one, as an array. */
static void set_column(Picture *p, const char *variable, const GArray *values, int columns, int column)
{
  int n = values->len / columns;
  g_autofree double *picked = g_new(double, n);

  for (int i = 0; i < n; i++)
    picked[i] = g_array_index(values, double, i * columns + column);
  picture_set_reals(p, variable, picked, n);
}

static void set_marks(const TimelinePicture *t, Picture *p)
{
  static const char *const place[PLACE_COLUMNS] = { "word_x", "word_y", "word_right", "word_size", "word_color" };
  static const char *const square[SQUARE_COLUMNS] = { "square_x", "square_y", "square_color" };

  picture_set_real(p, "words", t->texts->len);
  picture_set_texts(p, "word", (char **)t->texts->pdata, t->texts->len);
  for (int i = 0; i < PLACE_COLUMNS; i++)
    set_column(p, place[i], t->places, PLACE_COLUMNS, i);
  picture_set_real(p, "squares", t->squares->len / SQUARE_COLUMNS);
  for (int i = 0; i < SQUARE_COLUMNS; i++)
    set_column(p, square[i], t->squares, SQUARE_COLUMNS, i);
}

gboolean timeline_picture_draw(TimelinePicture *t, const char *name, double bottom, const TimelineColors *colors,
                               const PicturesTo *to, GError **error)
{
  double below = lay_legend(t, colors, bottom);
  g_auto(Picture) p = { NULL };

  if (!picture_init(&p, "timeline", name, error))
    return FALSE;
  picture_set_real(&p, "width", TIMELINE_WIDTH);
  picture_set_real(&p, "height", bottom + below);
  picture_set_real(&p, "left", TIMELINE_LEFT);
  picture_set_real(&p, "right", TIMELINE_RIGHT);
  picture_set_real(&p, "top", t->top);
  picture_set_real(&p, "axis", bottom);
  picture_set_real(&p, "end", t->end_s / t->unit_s);
  picture_set_text(&p, "unit", t->unit);
  set_marks(t, &p);
  return picture_write(&p, "boxes.dat", t->boxes, error) && picture_write(&p, "numbers.dat", t->numbers, error) &&
         picture_write(&p, "small.dat", t->small, error) && picture_draw(&p, to, error);
}
