/* Pictures in a terminal that shows them: Kitty's protocol for PNG files, sixels. */
#ifndef TDP_CLI_PIXELS_H
#define TDP_CLI_PIXELS_H

#include <glib.h>

typedef enum { PIXELS_NONE, PIXELS_KITTY, PIXELS_SIXEL } Pixels;

/* What the terminal of stdout shows, by its own answer: it is asked for Kitty's protocol and for its attributes, which
 * nearly all terminals give, and has a second for that. PIXELS_NONE where stdout is no terminal, this is no foreground
 * program, or colours are refused. */
Pixels pixels_offered(void);

/* How wide the terminal is in pixels, by its own word or about. */
int pixels_across(void);

/* Shows a file of that kind, a PNG or sixels, over the terminal's width; TDP_ERROR_RUNTIME if it cannot be read. */
gboolean pixels_show(Pixels kind, const char *path, GError **error);

#endif
