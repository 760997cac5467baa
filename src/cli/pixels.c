#include "cli/pixels.h"

#include "base/files.h"
#include "cli/say.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ANSWER_MOST_MS 1000
#define CHUNK 4096        /* of base64, at most in one escape */
#define COLUMN_PIXELS 8   /* about, where the terminal does not say */
#define COLUMNS_USUAL 80

/* A picture of one pixel, not to be shown, and the attributes of the terminal, whose answer comes last. */
static const char ask[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c";

/* Whether the answer to the second question has come, "ESC [ ? 62 ; 4 c". */
static gboolean is_complete(const char *answer)
{
  const char *attributes = strstr(answer, "\033[?");
  return attributes && strchr(attributes, 'c');
}

static void read_answer(int terminal, GString *answer)
{
  gint64 until = g_get_monotonic_time() + ANSWER_MOST_MS * 1000;
  char bytes[256];

  while (!is_complete(answer->str)) {
    struct pollfd waits = { .fd = terminal, .events = POLLIN };
    gint64 left = (until - g_get_monotonic_time()) / 1000;
    if (left <= 0 || poll(&waits, 1, (int)left) <= 0)
      return;
    ssize_t n = read(terminal, bytes, sizeof bytes);
    if (n <= 0)
      return;
    g_string_append_len(answer, bytes, n);
  }
}

static Pixels kind_of(const char *answer)
{
  const char *attributes = strstr(answer, "\033[?");

  if (strstr(answer, "\033_Gi=31;OK"))
    return PIXELS_KITTY;
  if (!is_complete(answer))
    return PIXELS_NONE;
  g_autofree char *list = g_strndup(attributes + 3, strcspn(attributes + 3, "c"));
  g_auto(GStrv) each = g_strsplit(list, ";", -1);
  for (int i = 1; each[0] && each[i]; i++) /* the first is the terminal's level */
    if (g_str_equal(each[i], "4"))
      return PIXELS_SIXEL;
  return PIXELS_NONE;
}

static Pixels asked(int terminal)
{
  struct termios usual, raw;
  g_autoptr(GString) answer = g_string_new(NULL);

  if (tcgetpgrp(terminal) != getpgrp() || tcgetattr(terminal, &usual) != 0)
    return PIXELS_NONE;
  raw = usual;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  fflush(stdout);
  if (tcsetattr(terminal, TCSANOW, &raw) != 0)
    return PIXELS_NONE;
  if (write(terminal, ask, strlen(ask)) == (ssize_t)strlen(ask))
    read_answer(terminal, answer);
  tcsetattr(terminal, TCSANOW, &usual);
  return kind_of(answer->str);
}

Pixels pixels_offered(void)
{
  if (!say_colored())
    return PIXELS_NONE;
  int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0)
    return PIXELS_NONE;
  Pixels kind = asked(terminal);
  close(terminal);
  return kind;
}

int pixels_across(void)
{
  struct winsize size = { 0 };

  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_xpixel > 0)
    return size.ws_xpixel;
  return say_columns(COLUMNS_USUAL) * COLUMN_PIXELS;
}

static void put_png(const char *bytes, gsize length)
{
  g_autofree char *coded = g_base64_encode((const guchar *)bytes, length);
  gsize left = strlen(coded);

  printf("\033_Ga=T,f=100,q=2,c=%d,m=%d;", say_columns(COLUMNS_USUAL), left > CHUNK);
  for (const char *at = coded; left > 0; at += CHUNK) {
    gsize n = MIN(left, CHUNK);
    left -= n;
    fwrite(at, 1, n, stdout);
    printf("\033\\");
    if (left > 0)
      printf("\033_Gm=%d;", left > CHUNK);
  }
}

gboolean pixels_show(Pixels kind, const char *path, GError **error)
{
  gsize length;
  g_autofree char *bytes = files_read(path, &length, error);

  if (!bytes)
    return FALSE;
  if (kind == PIXELS_KITTY)
    put_png(bytes, length);
  else
    fwrite(bytes, 1, length, stdout);
  printf("\n");
  return TRUE;
}
