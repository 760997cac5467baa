#include "base/sort.h"
#include "main.h"

START_TEST(medians_are_in_the_middle)
{
  double one[] = { -3 }, odd[] = { 5, -1, 2 }, even[] = { 8, 1, 4, -2 };

  ck_assert_double_eq(sort_median(one, 1), -3);
  ck_assert_double_eq(sort_median(odd, 3), 2);
  ck_assert_double_eq(sort_median(even, 4), 2.5);
  ck_assert_double_eq(even[0], -2);
  ck_assert_double_eq(even[3], 8);
}
END_TEST

TEST_MAIN("sort", medians_are_in_the_middle)
