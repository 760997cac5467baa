/* Winners of frameworks in their own exporters: lossless, lossy and why, refused. With a name: that framework's, one
 * question a line. */
#include "../natives.h"

#include <stdio.h>
#include <string.h>

static void print_one(const NativeQuestion *question, const Native *native)
{
  g_autofree char *text = native_text(question);

  printf("%-8s %s\n         %s\n         %s\n", native_names[native->kind], text, native->plan ? native->plan : "",
         native->why ? native->why : "");
}

int main(int argc, char **argv)
{
  for (int i = 0; i < native_frameworks_n; i++) {
    int counts[NATIVE_COUNT] = { 0 };
    if (argc > 1 && strcmp(argv[1], native_frameworks[i]) != 0)
      continue;
    for (int q = 0; q < NATIVE_QUESTIONS; q++) {
      if (!native_asked(&native_questions[q], native_frameworks[i]))
        continue;
      Native native = native_ask(&native_questions[q], native_frameworks[i]);
      counts[native.kind]++;
      if (argc > 1)
        print_one(&native_questions[q], &native);
      native_clear(&native);
    }
    printf("%-14s", native_frameworks[i]);
    for (int k = 0; k < NATIVE_COUNT; k++)
      printf("  %s %d", native_names[k], counts[k]);
    printf("\n");
  }
  return 0;
}
