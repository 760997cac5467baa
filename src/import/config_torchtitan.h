/* What readers of torchtitan's TOML and Python share. Private to this folder. */
#ifndef TDP_IMPORT_CONFIG_TORCHTITAN_H
#define TDP_IMPORT_CONFIG_TORCHTITAN_H

#include "import/config_launch.h"

#define PARALLEL "parallelism."

/* Of settings by the names that TOML has. */
gboolean torchtitan_read(ConfigReading *reading);
extern const SettingGroup torchtitan_groups[];

#endif
