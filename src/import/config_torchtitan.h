/* What readers of torchtitan's TOML and Python share. Private to this folder. */
#ifndef TDP_IMPORT_CONFIG_TORCHTITAN_H
#define TDP_IMPORT_CONFIG_TORCHTITAN_H

#include "import/config_launch.h"

#define PARALLEL "parallelism."
#define ROWS PARALLEL "enable_sequence_parallel" /* of Python alone, since 29 March 2026 (torchtitan @aa68af18e) */
#define FOLDED "training.counts_tokens" /* none of torchtitan's: Python that counts these, not sequences */

/* Of settings by the names that TOML has. */
gboolean torchtitan_read(ConfigReading *reading);

/* Whether what torchtitan takes where a setting is not told goes by stages, and these change. */
gboolean torchtitan_implied(const Settings *before, const Settings *after, const char *path);
extern const SettingGroup torchtitan_groups[];

#endif
