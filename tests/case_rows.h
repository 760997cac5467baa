/* Rows of a case file, read into a validation. */
#ifndef TDP_TESTS_CASE_ROWS_H
#define TDP_TESTS_CASE_ROWS_H

#include "base/files.h"
#include "main.h"
#include "validate/validate.h"

#include <stdio.h>

/* Columns that every case file has. */
#define CASE_COLUMNS                                                                                                      \
  "id,sweep,source,framework,generation,model,layers,hidden,ffn_hidden,heads,kv_heads,seq,vocab,mlp,attention,cluster,"  \
  "gpus,tp,sp,pp,vpp,schedule,dp,cp,zero,micro_batch,global_batch,recompute,precision,shard_group,layer_split,overlap,"  \
  "iteration_s,memory_gib,memory_kind,note"

static inline gboolean case_rows_add(Validation *v, const char *header, const char *rows, GError **error)
{
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "cases.csv", NULL);
  g_autofree char *text = g_strconcat(header, rows, NULL);

  ck_assert(files_write(path, text, strlen(text), NULL));
  gboolean ok = validation_add_file(v, path, error);
  remove(path);
  remove(folder);
  return ok;
}

#endif
