/* Winners of frameworks in their own exporters: lossless, lossy and why, refused. With a name: that framework's, one
 * question a line. */
#include "../natives.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
  static const char *const pairs[][2] = { { "megatron-core", "megatron" }, { "deepspeed", "deepspeed" },
                                          { "torchtitan", "torchtitan" }, { "nanotron-2025", "nanotron" },
                                          { "fsdp", "accelerate" } };

  for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++) {
    int counts[NATIVE_COUNT] = { 0 };
    if (argc > 1 && strcmp(argv[1], pairs[i][0]) != 0)
      continue;
    for (int q = 0; q < NATIVE_QUESTIONS; q++) {
      Native native = native_ask(&native_questions[q], pairs[i][0], pairs[i][1]);
      counts[native.kind]++;
      if (argc > 1) {
        g_autofree char *text = native_text(&native_questions[q]);
        printf("%-8s %s\n         %s\n         %s\n", native_names[native.kind], text, native.plan ? native.plan : "",
               native.why ? native.why : "");
      }
      native_clear(&native);
    }
    printf("%-14s", pairs[i][0]);
    for (int k = 0; k < NATIVE_COUNT; k++)
      printf("  %s %d", native_names[k], counts[k]);
    printf("\n");
  }
  return 0;
}
