/* How the values of keys that are no single number or name are read and written; private to this folder. */
#ifndef TDP_PLAN_KEY_VALUES_H
#define TDP_PLAN_KEY_VALUES_H

#include "plan/keys.h"

/* Each reads a value that is there, and writes one that says something; it is TRUE where no object of keys is to be
 * written beside it. "offload" is a word here; an object is read and written by its keys. */
KeyRead read_layer_split, read_strategies, read_types, read_recompute_layers, read_recompute_modules,
    read_graph_modules, read_param_gather, read_adapter, read_offload;
KeyWrite write_layer_split, write_strategies, write_types, write_recompute_layers, write_recompute_modules,
    write_graph_modules, write_param_gather, write_adapter, write_offload;

#endif
