/* What those of Megatron-LM's arguments are about that neither model nor plan are read from. Private to this folder. */
#ifndef TDP_IMPORT_MEGATRON_FLAGS_H
#define TDP_IMPORT_MEGATRON_FLAGS_H

#include "import/launch_parts.h"

/* Names as Argument has them. */
extern const SettingGroup megatron_flag_groups[];

#endif
