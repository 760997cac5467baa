/*
 * Units of files, in bytes, seconds and joules; and numbers for people, as newly
 * allocated text with a fitting unit: times in seconds, sizes in bytes (binary
 * prefixes), counts in decimal ones.
 */
#ifndef TDP_BASE_UNITS_H
#define TDP_BASE_UNITS_H

#include <glib.h>

#define KIB 1024.0
#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * 1024.0 * 1024.0)
#define GB 1e9
#define US 1e-6
#define MINUTE 60.0
#define HOUR 3600.0
#define DAY 86400.0
#define MWH 3.6e9

char *format_seconds(double seconds); /* "12.3 us", "4.56 ms", "18.1 s" */
char *format_duration(double seconds); /* in two units, whole: "1 d 18 h", "17 min 48 s", "12 s" */

/* Enough digits to tell neighbours apart: "129.455 s", "37.234 ms"; what is long also as a duration: "1067.400 s
 * (17 min 47 s)". */
char *format_seconds_exact(double seconds);
char *format_bytes(double bytes);     /* "512 B", "1.50 MiB", "71.2 GiB" */
char *format_count(double count);     /* "950", "1.54 k", "175 G" */
char *format_integer(gint64 value);   /* "174 604 259 328" */
char *format_real(double value);      /* fewest digits that read back the same */

/* To four digits, as files have fitted and measured numbers. */
double round_digits(double value);

#endif
