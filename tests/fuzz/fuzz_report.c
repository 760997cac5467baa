/* What tdp-run --json printed, as a case. */
#include "fuzz.h"

#include "validate/case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  GError *error = NULL;
  double seconds, bytes;
  Case c;

  fuzz_serve(data, size, NULL);
  g_autofree char *text = fuzz_text(data, size);
  fuzz_judge(case_init_report(&c, text, size, "input", &seconds, &bytes, &error), &error);
  case_clear(&c);
  return 0;
}
