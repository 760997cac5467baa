/* Each schedule on 4 ranks with 8 micro-batches, drawn as text: tests/golden/schedules/NAME.txt.
 * TDP_GOLDEN=rewrite writes the files instead (make golden); read the diff. */
#include "main.h"
#include "base/files.h"
#include "schedule_text.h"

static const double times[PASS_COUNT] = { 1, 2, 1, 1, 1, 0.5, 0.5 };

static char *draw_all(const Schedule *s)
{
  GString *text = g_string_new(NULL);

  for (int v = s->min_chunks; v <= MIN(4, s->max_chunks); v *= 2) {
    ScheduleShape shape = { .ranks = 4, .micro = 8, .chunks = v };
    double unit = 0.25 / v / (s->vocabulary ? 2 : 1) * schedule_copies(s);
    g_autofree char *drawing = schedule_draw(s, &shape, times, 0.9, unit);
    if (schedule_copies(s) == 2)
      g_string_append(text, "two copies of the model, ");
    g_string_append_printf(text, "%d chunk%s a rank\n%s", v, v > 1 ? "s" : "", drawing);
  }
  return g_string_free(text, FALSE);
}

START_TEST(drawings)
{
  g_autofree char *path = g_strdup_printf("tests/golden/schedules/%s.txt", schedules[_i]->name);
  g_autofree char *text = draw_all(schedules[_i]);
  gsize length;

  if (g_strcmp0(g_getenv("TDP_GOLDEN"), "rewrite") == 0) {
    ck_assert(files_write(path, text, strlen(text), NULL));
    return;
  }
  g_autofree char *expected = files_read(path, &length, NULL);
  ck_assert_msg(expected != NULL, "%s is not there: make golden", path);
  ck_assert_str_eq(text, expected);
}
END_TEST

int main(void)
{
  TestLoop tests[] = { { drawings, 0 } };

  while (schedules[tests[0].times])
    tests[0].times++;
  return test_main("schedule draw", tests, 1);
}
