/* What the allocator does with memory that was freed. */
#ifndef TDP_BASE_MEMORY_H
#define TDP_BASE_MEMORY_H

#include <glib.h>

/*
 * Memory that was freed stays with the process, but for what lies at the end of
 * its heap beyond `most` bytes; the heap grows by `pad` bytes more than is asked
 * for. Else each large array would be mapped, and its pages cleared anew. Holds
 * for the whole process: for programs, not for libraries. Both at most G_MAXINT.
 */
void memory_keep(int most, int pad);

#endif
