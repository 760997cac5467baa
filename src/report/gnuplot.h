/*
 * One picture by gnuplot; private to report.
 *
 * C decides what stands where and writes it as data files and variables into a
 * temporary folder; a script of plots/ says how it looks and writes NAME.FORMAT
 * there for each word of its variable `formats`, which are then moved.
 */
#ifndef TDP_REPORT_GNUPLOT_H
#define TDP_REPORT_GNUPLOT_H

#include <glib.h>

/* Where pictures go: a folder that exists gets NAME.svg and NAME.png or, for terminals that show sixels, NAME.six, which
 * is `pixels` wide. */
typedef struct {
  const char *folder;
  int pixels; /* 0: svg and png */
} PicturesTo;

typedef struct {
  const char *script; /* of plots/ */
  const char *name;   /* of the pictures; the script's variable `name` */
  char *folder;       /* temporary */
  GString *variables; /* assignments that the script starts from */
} Picture;

/* TDP_ERROR_RUNTIME if there is no room for temporary files. */
gboolean picture_init(Picture *picture, const char *script, const char *name, GError **error);
void picture_clear(Picture *picture);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Picture, picture_clear)

void picture_set_real(Picture *picture, const char *variable, double value);
void picture_set_text(Picture *picture, const char *variable, const char *value);

/* An array of texts or of numbers; n > 0. */
void picture_set_texts(Picture *picture, const char *variable, char *const *values, int n);
void picture_set_reals(Picture *picture, const char *variable, const double *values, int n);

/* A data file of the script. */
gboolean picture_write(Picture *picture, const char *file, const GString *data, GError **error);

/* Runs the script and moves the pictures to where they go. TDP_ERROR_RUNTIME if gnuplot is missing or fails. */
gboolean picture_draw(Picture *picture, const PicturesTo *to, GError **error);

#endif
