/*
 * One picture by gnuplot; private to report.
 *
 * C decides what stands where and writes it as data files and variables into a
 * temporary folder; a script of plots/ says how it looks and writes NAME.svg and
 * NAME.png there, which are then moved to the user's folder.
 */
#ifndef TDP_REPORT_GNUPLOT_H
#define TDP_REPORT_GNUPLOT_H

#include <glib.h>

typedef struct {
  const char *script; /* of plots/ */
  const char *name;   /* of the pictures; the script's variable `name` */
  char *folder;       /* temporary */
  GString *variables; /* assignments that the script starts from */
} Picture;

/* TDP_ERROR_RUNTIME if there is no room for temporary files. */
gboolean picture_init(Picture *picture, const char *script, const char *name, GError **error);
void picture_clear(Picture *picture);

void picture_set_real(Picture *picture, const char *variable, double value);
void picture_set_text(Picture *picture, const char *variable, const char *value);

/* An array of texts or of numbers; n > 0. */
void picture_set_texts(Picture *picture, const char *variable, char *const *values, int n);
void picture_set_reals(Picture *picture, const char *variable, const double *values, int n);

/* A data file of the script. */
gboolean picture_write(Picture *picture, const char *file, const GString *data, GError **error);

/* Runs the script and moves the pictures to `folder`, which must exist. */
gboolean picture_draw(Picture *picture, const char *folder, GError **error);

#endif
