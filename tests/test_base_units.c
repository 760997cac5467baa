#include "main.h"

#include <math.h>

#include "base/units.h"

START_TEST(seconds_have_three_digits)
{
  test_text(format_seconds(12.3e-6), "12.3 us");
  test_text(format_seconds(4.56e-3), "4.56 ms");
  test_text(format_seconds(18.1), "18.1 s");
  test_text(format_seconds(2e-9), "2.00 ns");
  test_text(format_seconds(3e-10), "0.300 ns");
  test_text(format_seconds(123), "123 s");
  test_text(format_seconds(-0.25), "-250 ms");
}
END_TEST

START_TEST(seconds_change_unit_where_they_round_up)
{
  test_text(format_seconds(999.4e-6), "999 us");
  test_text(format_seconds(999.6e-6), "1.00 ms");
  test_text(format_seconds(9.996e-3), "10.0 ms");
  test_text(format_seconds(1200), "20.0 min");
  test_text(format_seconds(7200), "2.00 h");
  test_text(format_seconds(47.96 * 3600), "2.00 d");
  test_text(format_seconds(34.2 * 86400), "34.2 d");
}
END_TEST

START_TEST(durations_have_two_whole_units)
{
  test_text(format_duration(152830.254), "1 d 18 h");
  test_text(format_duration(1067.4), "17 min 47 s");
  test_text(format_duration(3599.6), "1 h");
  test_text(format_duration(3600), "1 h");
  test_text(format_duration(3661), "1 h 1 min");
  test_text(format_duration(59.4), "59 s");
  test_text(format_duration(0.2), "0 s");
  test_text(format_duration(INFINITY), "inf s");
}
END_TEST

START_TEST(exact_seconds_say_what_is_long_otherwise_too)
{
  test_text(format_seconds_exact(152830.2541), "152830.254 s (1 d 18 h)");
  test_text(format_seconds_exact(999.9), "999.900 s");
  test_text(format_seconds_exact(0.0372341), "37.234 ms");
}
END_TEST

START_TEST(zero_and_non_finite)
{
  test_text(format_seconds(0), "0 s");
  test_text(format_seconds(-0.0), "0 s");
  test_text(format_bytes(0), "0 B");
  test_text(format_count(0), "0");
  test_text(format_seconds(INFINITY), "inf s");
  test_text(format_count(NAN), "nan");
}
END_TEST

START_TEST(bytes_are_binary)
{
  test_text(format_bytes(512), "512 B");
  test_text(format_bytes(7), "7 B");
  test_text(format_bytes(1.5 * MIB), "1.50 MiB");
  test_text(format_bytes(71.2 * GIB), "71.2 GiB");
  test_text(format_bytes(1023), "1023 B");
  test_text(format_bytes(1000 * KIB), "1000 KiB");
  test_text(format_bytes(1023.6 * KIB), "1.00 MiB");
  test_text(format_bytes(2048 * GIB), "2.00 TiB");
}
END_TEST

START_TEST(counts_are_decimal)
{
  test_text(format_count(950), "950");
  test_text(format_count(1540), "1.54 k");
  test_text(format_count(174604259328.0), "175 G");
  test_text(format_count(999999), "1.00 M");
  test_text(format_count(2.5), "2.50");
  test_text(format_count(1e30), "1000000000000 E");
}
END_TEST

START_TEST(integers_are_grouped)
{
  test_text(format_integer(174604259328), "174 604 259 328");
  test_text(format_integer(0), "0");
  test_text(format_integer(999), "999");
  test_text(format_integer(1000), "1 000");
  test_text(format_integer(-999), "-999");
  test_text(format_integer(-1000), "-1 000");
  test_text(format_integer(G_MININT64), "-9 223 372 036 854 775 808");
}
END_TEST

START_TEST(reals_are_short)
{
  test_text(format_real(12), "12");
  test_text(format_real(100000), "100000");
  test_text(format_real(0.1), "0.1");
  test_text(format_real(-2.5), "-2.5");
  test_text(format_real(0.1 + 0.2), "0.30000000000000004");
  test_text(format_real(9007199254740992.0), "9007199254740992");
}
END_TEST

START_TEST(reals_read_back)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  for (int i = 0; i < 100000; i++) {
    union { guint64 bits; double real; } value;
    value.bits = (guint64)g_rand_int(rand) << 32 | g_rand_int(rand);
    if (!isfinite(value.real))
      continue;
    g_autofree char *text = format_real(value.real);
    ck_assert_msg(g_ascii_strtod(text, NULL) == value.real, "%s", text);
  }
}
END_TEST

TEST_MAIN("units", seconds_have_three_digits, seconds_change_unit_where_they_round_up, durations_have_two_whole_units,
          exact_seconds_say_what_is_long_otherwise_too,
          zero_and_non_finite, bytes_are_binary, counts_are_decimal, integers_are_grouped,
          reals_are_short, reals_read_back)
