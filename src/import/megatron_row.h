/* A whole list of Megatron-LM's arguments in columns of a case file. Private to this folder. */
#ifndef TDP_IMPORT_MEGATRON_ROW_H
#define TDP_IMPORT_MEGATRON_ROW_H

#include "import/import.h"

/* Sets the cells of what model and plan are read from (launch.h), and names in the notes what no column takes; a text
 * that is no whole run changes nothing, and the notes say why. Of a model that the columns do not describe, model_file is
 * left to be filled in, and they with it. */
void megatron_row_fill(const char *text, GHashTable *cells, ImportNotes *notes);

#endif
