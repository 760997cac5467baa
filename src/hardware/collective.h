/* Kinds of communication among the ranks of a group, named as nccl-tests does. */
#ifndef TDP_HARDWARE_COLLECTIVE_H
#define TDP_HARDWARE_COLLECTIVE_H

typedef enum {
  COLLECTIVE_ALL_REDUCE,
  COLLECTIVE_ALL_GATHER,
  COLLECTIVE_REDUCE_SCATTER,
  COLLECTIVE_ALL_TO_ALL,
  COLLECTIVE_BROADCAST,
  COLLECTIVE_SEND, /* one rank to another: group of two */
  COLLECTIVE_COUNT,
} Collective;

extern const char *const collective_names[]; /* "all-reduce" ...; NULL-terminated */

#endif
