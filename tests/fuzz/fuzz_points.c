/* Times that tdp-calibrate measured and reads again: the machine that is fitted to them is a cluster. */
#include "fuzz.h"

#include "calibrate/machine_fit.h"

#include <gsl/gsl_errno.h>
#include <string.h>

static void fit(const MachineHead *head, const GArray *points)
{
  g_auto(MachineFit) machine = { 0 };
  GError *error = NULL;

  gboolean ok = machine_fit(head, points, &machine, &error);
  fuzz_judge(ok, &error);
  if (!ok)
    return;
  g_autofree char *json = machine_fit_json(&machine, "found", "tdp-run"), *text = machine_fit_text(&machine, points);
  g_autoptr(Cluster) cluster = cluster_parse(json, strlen(json), "found", &error);
  g_assert(g_utf8_validate(text, -1, NULL) && !strstr(text, "nan"));
  fuzz_judge(cluster != NULL, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  GError *error = NULL;
  MachineHead head;

  gsl_set_error_handler_off();
  fuzz_serve(data, size, NULL);
  g_autoptr(GArray) points = points_load(FUZZ_PATH, &head, &error);
  fuzz_judge(points != NULL, &error);
  if (!points)
    return 0;
  g_strlcpy(head.device, "device", sizeof head.device); /* its name may be one of no number */
  fit(&head, points);
  return 0;
}
