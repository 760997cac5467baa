/* The parameters of model files, a line each, or what is not understood of one: "FILE count" or "FILE ! error". */
#include "model/model.h"

#include <stdio.h>

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Model) model = model_load(argv[i], &error);

    if (model)
      printf("%s %" G_GINT64_FORMAT "\n", argv[i], (gint64)model->params);
    else
      printf("%s ! %s\n", argv[i], error->message);
  }
  return 0;
}
