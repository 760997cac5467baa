/* What nccl-tests prints, and the JSON that it writes. */
#include "fuzz.h"

#include "base/json.h"
#include "calibrate/calibrate.h"
#include "import/nccl_tests.h"

#include <gsl/gsl_errno.h>
#include <string.h>

enum { POINTS_MOST = 64 };

/* The link that is fitted to them, where they tell one; few points, which take milliseconds. */
static void fit(const GArray *points)
{
  const LinkSetup setup = { .cluster = "dgx", .like = "nvlink3-switch" };
  const LinkPoint *first = (const LinkPoint *)(gpointer)points->data;
  g_auto(LinkCalibration) link = { 0 };
  GError *error = NULL;
  gboolean ok = calibrate_link(first, (int)points->len, &setup, &link, &error);

  fuzz_judge(ok, &error);
  if (!ok)
    return;
  g_autofree char *text = link_calibration_text(&link, first), *json = link_calibration_json(&link, "found", "input");
  g_autoptr(JsonDoc) doc = json_parse(json, strlen(json), "found", NULL);
  g_assert(doc && !strstr(text, "nan"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const Collective told[] = { COLLECTIVE_COUNT, COLLECTIVE_ALL_REDUCE };
  g_autofree char *text = fuzz_text(data, size);

  gsl_set_error_handler_off();
  for (gsize i = 0; i < G_N_ELEMENTS(told); i++) {
    GError *error = NULL;
    g_autoptr(NcclTests) tests = nccl_tests_parse(text, "input", told[i], &error);
    fuzz_judge(tests != NULL, &error);
    if (!tests)
      continue;
    g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(LinkPoint));
    nccl_tests_points(tests, points);
    for (guint k = 0; k < points->len; k++)
      g_assert(g_array_index(points, LinkPoint, k).seconds > 0 && g_array_index(points, LinkPoint, k).bytes > 0);
    if (i == 0 && points->len > 0 && points->len <= POINTS_MOST)
      fit(points);
  }
  return 0;
}
