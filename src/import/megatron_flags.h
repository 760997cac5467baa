/* Megatron-LM's arguments that neither a model nor a plan is read from, grouped by what they are about. Private to this
 * folder. */
#ifndef TDP_IMPORT_MEGATRON_FLAGS_H
#define TDP_IMPORT_MEGATRON_FLAGS_H

#include "import/launch_parts.h"

/* Names as Argument has them. */
extern const SettingGroup megatron_flag_groups[];

#endif
