/* What tests of hardware files share: a whole cluster in one text, and clusters that must load. */
#ifndef TDP_TESTS_WHOLE_H
#define TDP_TESTS_WHOLE_H

#include "hardware/cluster.h"

extern const char whole_text[];

/* The cluster of a text, of a file or one of hardware/; the test fails where it is refused. Free with cluster_free. */
Cluster *whole_parse(const char *text);
Cluster *whole_load(const char *name);

/* The text with the first `from` replaced; newly allocated. */
char *whole_replace(const char *text, const char *from, const char *to);

#endif
