/* The JSON form of nccl-tests. Private to this folder. */
#ifndef TDP_IMPORT_NCCL_TESTS_JSON_H
#define TDP_IMPORT_NCCL_TESTS_JSON_H

#include "import/nccl_tests.h"

/* Fills the run, all but its collective; `op` stays NULL where the arguments do
 * not tell it. The environment, which the file holds too, is not looked at. */
gboolean nccl_tests_read_json(const char *text, NcclTests *tests, NcclRun *run, GError **error);

#endif
