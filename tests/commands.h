/* What a launch script would start, as tests compare it. */
#ifndef TDP_TEST_COMMANDS_H
#define TDP_TEST_COMMANDS_H

#include "import/shell.h"

/* The words of all commands, joined by "|", a command a line; newly allocated. */
char *commands_text(const ShellScript *script);

#endif
