/* What a trace of torch's profiler says of a run: its devices' kernels, and its steps. */
#ifndef TDP_KINETO_READ_H
#define TDP_KINETO_READ_H

#include <glib.h>

typedef struct {
  void (*kernel)(gpointer data, const char *name, double seconds); /* one run of a kernel, a copy or a fill */
  void (*strange)(gpointer data, const char *what);                /* an event that cannot be read, passed over */
  gpointer data;
} KinetoReader;

/* Steps that the trace marks, and how long they took together; zeros if it marks none. Kernels that start in no step, as
 * those launched before the first do, are told to nobody but counted. */
typedef struct {
  int n;
  double seconds;
  int outside;      /* kernels */
  double outside_s;
  double busy_s;    /* while one at least of those told runs; 0 = the trace does not say when */
} KinetoSteps;

gboolean kineto_recognises(const char *text);

/* Tells the reader of each event; `name` is the file's, for errors: TDP_ERROR_INPUT where the text is not such a trace. */
gboolean kineto_read(const char *text, const char *name, const KinetoReader *reader, KinetoSteps *steps,
                     GError **error);

#endif
