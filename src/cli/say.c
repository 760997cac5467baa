#include "cli/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_USUAL = 80, COLUMNS_MIN = 20, TABLE_MIN = 4, TEXT_ROOM = 24 };

/* ---- the terminal ---- */

int say_columns_of(int descriptor)
{
  const char *told = g_getenv("COLUMNS");
  struct winsize size = { 0 };

  if (!isatty(descriptor))
    return 0;
  if (told && atoi(told) > 0)
    return MAX(atoi(told), COLUMNS_MIN);
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return COLUMNS_USUAL;
  return MAX(size.ws_col, COLUMNS_MIN);
}

int say_columns(int usual)
{
  int columns = say_columns_of(STDOUT_FILENO);
  return columns > 0 ? columns : usual;
}

gboolean say_colored(void)
{
  const char *refused = g_getenv("NO_COLOR"), *terminal = g_getenv("TERM");

  return isatty(STDOUT_FILENO) && !(refused && *refused) && g_strcmp0(terminal, "dumb") != 0;
}

/* ---- sentences ---- */

/* Blanks that a line's further ones begin with: below what stands behind its first gap, else its own. */
static int hanging(const gunichar *line, int length, int columns)
{
  int indent = 0;

  while (indent < length && line[indent] == ' ')
    indent++;
  for (int at = indent; at + 1 < MIN(length, columns / 2); at++)
    if (line[at] == ' ' && line[at + 1] == ' ') {
      while (at < length && line[at] == ' ')
        at++;
      return at <= columns / 2 ? at : indent;
    }
  return MIN(indent, columns / 2);
}

static int word_of(const gunichar *line, int length)
{
  int at = 0;

  while (at < length && line[at] != ' ')
    at++;
  return at;
}

/* How much of a line, which begins with a word, stands in `room` columns: whole words, at least one. */
static int broken(const gunichar *line, int length, int room)
{
  int at = word_of(line, length);

  for (int next = at; next < length && next <= room; at = next <= room ? next : at) {
    while (next < length && line[next] == ' ')
      next++;
    next += word_of(line + next, length - next);
  }
  return at;
}

static void put(GString *out, const gunichar *line, int length)
{
  for (int i = 0; i < length; i++)
    g_string_append_unichar(out, line[i]);
}

static void put_blanks(GString *out, int n)
{
  g_string_append_printf(out, "%*s", n, "");
}

static int skip_blanks(const gunichar *line, int length, int at)
{
  while (at < length && line[at] == ' ')
    at++;
  return at;
}

static void put_sentence(GString *out, const gunichar *line, int length, int columns)
{
  int under = hanging(line, length, columns), at = skip_blanks(line, length, 0), indent = MIN(at, columns / 2);

  while (at < length) {
    indent = CLAMP(columns - word_of(line + at, length - at), 0, indent);
    int next = broken(line + at, length - at, columns - indent);
    put_blanks(out, indent);
    put(out, line + at, next);
    at = skip_blanks(line, length, at + next);
    if (at < length)
      g_string_append_c(out, '\n');
    indent = under;
  }
  g_string_append_c(out, '\n');
}

/* ---- tables ---- */

typedef struct {
  gunichar *text;
  int length;
} Line;

typedef struct {
  int from, width; /* in each line, with the blanks before */
  int gap;         /* of these blanks, what all lines have */
  int least;       /* columns that it cannot do with less of: the gap and the longest word */
} Slice;

/* What a column of lines cannot do with less of: the gap and its longest word. */
static int least_of(const Line *lines, int n, const Slice *slice)
{
  int longest = 0;

  for (int i = 0; i < n; i++)
    for (int at = slice->from, word = 0; at < MIN(slice->from + slice->width, lines[i].length); at++) {
      word = lines[i].text[at] == ' ' ? 0 : word + 1;
      longest = MAX(longest, word);
    }
  return slice->gap + longest;
}

/* Where columns begin that all lines divide by two blanks; Slice. */
static GArray *slices_of(const Line *lines, int n)
{
  GArray *slices = g_array_new(FALSE, FALSE, sizeof(Slice));
  int width = 0, from = 0, gap = 0, blanks = 0;

  for (int i = 0; i < n; i++)
    width = MAX(width, lines[i].length);
  for (int at = 0, filled = FALSE; at <= width; at++) {
    gboolean blank = TRUE;
    for (int i = 0; i < n; i++)
      blank &= at >= lines[i].length || lines[i].text[at] == ' ';
    if ((at == width || (!blank && blanks >= 2)) && filled) {
      Slice slice = { .from = from, .width = (at == width ? at : at - blanks) - from, .gap = gap };
      slice.least = least_of(lines, n, &slice);
      g_array_append_val(slices, slice);
      from = at - blanks;
      gap = blanks;
    } else if (!blank && !filled) {
      gap = blanks;
    }
    filled |= !blank;
    blanks = blank ? blanks + 1 : 0;
  }
  return slices;
}

/* The k-th of the pieces, of at most `room` columns with the gap, that a line's part of a slice is broken into; returns
 * whether it is there. A part that is one piece stays at the right where it was. */
static gboolean put_piece(GString *out, const Line *line, Slice slice, int room, int k)
{
  const gunichar *text = line->text + MIN(slice.from, line->length);
  int length = CLAMP(line->length - slice.from, 0, slice.width), own = skip_blanks(text, length, 0);
  int at = own, piece = 0;

  while (length > own && text[length - 1] == ' ')
    length--;
  for (; k >= 0 && at < length; k--) {
    piece = broken(text + at, length - at, room - slice.gap);
    at = k > 0 ? skip_blanks(text, length, at + piece) : at;
  }
  piece = at < length ? piece : 0;
  int indent = piece == length - own ? MIN(own, room - piece) : slice.gap;
  put_blanks(out, indent);
  put(out, text + at, piece);
  put_blanks(out, MAX(MIN(slice.width, room) - indent - piece, 0));
  return piece > 0;
}

static void put_rows(GString *out, const Line *lines, int n, const GArray *shown, const int *rooms)
{
  for (int i = 0; i < n; i++) {
    gboolean any = TRUE;
    for (int k = 0; any; k++) {
      gsize before = out->len;
      any = FALSE;
      for (guint s = 0; s < shown->len; s++)
        any |= put_piece(out, &lines[i], g_array_index(shown, Slice, s), rooms[s], k);
      while (out->len > before && out->str[out->len - 1] == ' ')
        g_string_truncate(out, out->len - 1);
      if (any)
        g_string_append_c(out, '\n');
    }
  }
}

/* Columns that the first one gets, beside each of the others; 0 where they do not fit. */
static int first_room(const GArray *slices, int columns)
{
  const Slice *all = (const Slice *)slices->data;
  int room = MAX(MIN(all[0].width, columns / 2), all[0].least);

  for (guint i = 1; i < slices->len; i++)
    if (room + all[i].least > columns)
      return 0;
  return room;
}

/* Whether a column may stand in so many that are left: it is text of several lines then, or narrow enough. */
static gboolean may_stand(const Slice *slice, int left, gboolean alone)
{
  if (slice->width <= left)
    return TRUE;
  return slice->least <= left && (alone || (slice->width > 2 * TEXT_ROOM && left >= TEXT_ROOM));
}

/* As many columns as fit behind the first one, then the others. */
static void put_table(GString *out, const Line *lines, int n, const GArray *slices, int columns)
{
  const Slice *all = (const Slice *)slices->data;
  int first = first_room(slices, columns);

  for (guint next = 1; next < slices->len;) {
    g_autoptr(GArray) shown = g_array_new(FALSE, FALSE, sizeof(Slice));
    g_autofree int *rooms = g_new0(int, slices->len);
    int left = columns - first;
    g_array_append_val(shown, all[0]);
    rooms[0] = first;
    while (next < slices->len && may_stand(&all[next], left, shown->len == 1)) {
      rooms[shown->len] = MIN(all[next].width, left);
      g_array_append_val(shown, all[next]);
      left -= rooms[shown->len - 1];
      next++;
    }
    put_rows(out, lines, n, shown, rooms);
  }
}

/* ---- texts ---- */

static gboolean starts_indented(const Line *line)
{
  return line->length > 0 && line->text[0] == ' ';
}

static void put_block(GString *out, const Line *lines, int n, int columns)
{
  g_autoptr(GArray) slices = slices_of(lines, n);
  int width = 0;

  for (int i = 0; i < n; i++)
    width = MAX(width, lines[i].length);
  if (width > columns && n > 1 && slices->len >= TABLE_MIN && first_room(slices, columns) > 0)
    put_table(out, lines, n, slices, columns);
  else
    for (int i = 0; i < n; i++)
      put_sentence(out, lines[i].text, lines[i].length, columns);
}

char *say_folded(const char *text, int columns)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  g_auto(GStrv) parts = g_strsplit(valid, "\n", -1);
  int n = (int)g_strv_length(parts);
  gboolean ended = n > 0 && !*parts[n - 1];
  g_autofree Line *lines = g_new0(Line, n + 1);
  GString *out = g_string_new(NULL);

  for (int i = 0; i < n; i++) {
    glong length;
    lines[i].text = g_utf8_to_ucs4_fast(parts[i], -1, &length);
    lines[i].length = (int)length;
  }
  for (int i = 0, next; i < n - ended; i = next) {
    for (next = i + 1; next < n - ended && lines[next].length > 0 && lines[i].length > 0 &&
                       starts_indented(&lines[next]) == starts_indented(&lines[i]);)
      next++;
    put_block(out, lines + i, next - i, columns);
  }
  if (!ended && out->len > 0)
    g_string_truncate(out, out->len - 1);
  for (int i = 0; i < n; i++)
    g_free(lines[i].text);
  return g_string_free(out, FALSE);
}

void say(const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  int columns = say_columns(0);
  g_autofree char *folded = columns > 0 ? say_folded(text, columns) : g_steal_pointer(&text);
  fputs(folded, stdout);
}

void say_or_print(gboolean print, const char *text)
{
  if (print)
    fputs(text, stdout);
  else
    say("%s", text);
}
