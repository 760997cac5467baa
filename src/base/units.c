#include "base/units.h"

#include <math.h>

#define LONG_S 1000 /* nobody reads longer times in seconds */

typedef struct {
  const char *name; /* NULL ends a list */
  double size;
  double limit;      /* the next unit takes over from this many */
  gboolean integral; /* whole numbers are shown without decimals */
} Unit;

static const Unit SECONDS[] = {
  {"ns", 1e-9, 1000}, {"us", 1e-6, 1000}, {"ms", 1e-3, 1000}, {"s", 1, 1000},
  {"min", 60, 120},   {"h", 3600, 48},    {"d", 86400},       {NULL}};

static const Unit BYTES[] = {
  {"B", 1, 1024, TRUE}, {"KiB", KIB, 1024},   {"MiB", MIB, 1024},   {"GiB", GIB, 1024},
  {"TiB", 0x1p40, 1024}, {"PiB", 0x1p50, 1024}, {"EiB", 0x1p60}, {NULL}};

static const Unit COUNTS[] = {
  {"", 1, 1000, TRUE}, {"k", 1e3, 1000}, {"M", 1e6, 1000}, {"G", 1e9, 1000},
  {"T", 1e12, 1000},   {"P", 1e15, 1000}, {"E", 1e18}, {NULL}};

/* Three significant digits, all digits left of the point. */
static int decimals(double x)
{
  return x < 0.9995 ? 3 : x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
}

static char *with_unit(double number, int digits, const char *unit)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE + 310], format[8];
  g_snprintf(format, sizeof format, "%%.%df", digits);
  g_ascii_formatd(text, sizeof text, format, number);
  return g_strconcat(text, *unit ? " " : "", unit, NULL);
}

static char *format_value(double value, const Unit *units, const char *base)
{
  if (value == 0 || !isfinite(value)) {
    g_autofree char *number = format_real(value == 0 ? 0 : value);
    return g_strconcat(number, *base ? " " : "", base, NULL);
  }
  for (const Unit *unit = units;; unit++) {
    double x = fabs(value) / unit->size;
    int digits = unit->integral && x == floor(x) ? 0 : decimals(x);
    double power = pow(10, digits);
    if (!unit[1].name || round(x * power) / power < unit->limit)
      return with_unit(value / unit->size, digits, unit->name);
  }
}

char *format_seconds(double seconds)
{
  return format_value(seconds, SECONDS, "s");
}

char *format_duration(double seconds)
{
  static const Unit units[] = { { "d", 86400 }, { "h", 3600 }, { "min", 60 }, { "s", 1 } };
  guint first = 0, last = G_N_ELEMENTS(units) - 1;

  if (!isfinite(seconds) || seconds >= 1e15)
    return format_seconds(seconds);
  while (first < last && round(seconds) < units[first].size)
    first++;
  const double small = units[MIN(first + 1, last)].size, count = round(seconds / small), in = units[first].size / small;
  const double whole = floor(count / in), rest = count - whole * in;
  if (first == last || rest == 0)
    return g_strdup_printf("%.0f %s", first == last ? count : whole, units[first].name);
  return g_strdup_printf("%.0f %s %.0f %s", whole, units[first].name, rest, units[first + 1].name);
}

char *format_seconds_exact(double seconds)
{
  g_autofree char *duration = seconds >= LONG_S ? format_duration(seconds) : NULL;

  if (duration)
    return g_strdup_printf("%.3f s (%s)", seconds, duration);
  return seconds >= 1 ? g_strdup_printf("%.3f s", seconds) : g_strdup_printf("%.3f ms", 1e3 * seconds);
}

char *format_bytes(double bytes)
{
  return format_value(bytes, BYTES, "B");
}

char *format_count(double count)
{
  return format_value(count, COUNTS, "");
}

char *format_integer(gint64 value)
{
  g_autofree char *digits = g_strdup_printf("%" G_GINT64_FORMAT, value);
  GString *text = g_string_new(digits);
  for (gssize at = (gssize)text->len - 3; at > (value < 0); at -= 3)
    g_string_insert_c(text, at, ' ');
  return g_string_free(text, FALSE);
}

char *format_real(double value)
{
  static const char *const formats[] = {"%.15g", "%.16g", "%.17g"};
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  for (guint i = 0; i < G_N_ELEMENTS(formats); i++) {
    g_ascii_formatd(text, sizeof text, formats[i], value);
    if (g_ascii_strtod(text, NULL) == value)
      break;
  }
  return g_strdup(text);
}

double round_digits(double value)
{
  char digits[G_ASCII_DTOSTR_BUF_SIZE];

  return g_ascii_strtod(g_ascii_formatd(digits, sizeof digits, "%.4g", value), NULL);
}
