/*
 * The goals of the search in one table: bench/goals [FOLDER OF PROGRAMS (build)]
 *
 * Each question is asked of tdp-plan on one thread, three times: the least
 * processor time, the most memory, and instructions under cachegrind where
 * valgrind is there (clocks of a shared machine vary, counts do not). Plans
 * decided a second are the space over that time. "-": nothing comparable is published.
 */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

typedef struct {
  const char *title, *arguments;
  double goal_s;
  const char *known;
} Question;

static const Question questions[] = {
  { "GPT-3, 512 A100", "--model gpt3 --cluster dgx --gpus 512", 0.2,
    "Calculon 140 s (2 cores), SimuMax 16 s for 203 plans, Piper 71 s, AMP 500 s, FlexFlow 30 min" },
  { "GPT-3, 1,024 A100", "--model gpt3 --cluster dgx --gpus 1024", 0.2, "-" },
  { "GPT-3, 16,384 A100, offload, ZeRO++", "--model gpt3 --cluster dgx --gpus 16384 --space offload,zero++", 2, "-" },
  { "1T, 16,384 A100, offload, ZeRO++", "--model megatron-1t --cluster dgx --gpus 16384 --space offload,zero++", 2,
    "-" },
  { "GPT-3, 64 A100", "--model gpt3 --cluster dgx --gpus 64", 0, "-" },
  { "Mixtral 8x7B, 64 H100", "--model mixtral-8x7b --cluster dgx-h100 --gpus 64", 0, "-" },
};

#define RUNS 3
#define STARTS 20
#define START_GOAL_MS 20
#define DECIDED_GOAL 1e6
#define MEMORY_GOAL_MIB 200

typedef struct {
  char *out, *err;
  double wall_s, user_s, mib;
} Run;

static char *read_all(int fd)
{
  GString *text = g_string_new(NULL);
  FILE *file = fdopen(fd, "r");
  char buffer[4096];

  for (gsize n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;)
    g_string_append_len(text, buffer, n);
  fclose(file);
  return g_string_free(text, FALSE);
}

static Run run(const char *command)
{
  Run r = { 0 };
  struct rusage used;
  GError *error = NULL;
  g_auto(GStrv) argv = NULL;
  GPid pid;
  int out, err, status;
  gint64 begin = g_get_monotonic_time();

  if (!g_shell_parse_argv(command, NULL, &argv, &error) ||
      !g_spawn_async_with_pipes(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH, NULL, NULL, &pid,
                                NULL, &out, &err, &error))
    g_error("%s", error->message);
  r.out = read_all(out);
  r.err = read_all(err);
  if (wait4(pid, &status, 0, &used) < 0 || status != 0)
    g_error("%s: failed: %s", command, r.err);
  r.wall_s = (g_get_monotonic_time() - begin) * 1e-6;
  r.user_s = used.ru_utime.tv_sec + 1e-6 * used.ru_utime.tv_usec;
  r.mib = used.ru_maxrss / 1024.0;
  return r;
}

static void run_clear(Run *r)
{
  g_free(r->out);
  g_free(r->err);
}

/* The number in front of the word, 0 if it is not there. */
static double number_before(const char *text, const char *word)
{
  const char *at = strstr(text, word);

  while (at && at > text && !g_ascii_isspace(at[-1]))
    at--;
  return at ? g_ascii_strtod(at, NULL) : 0;
}

static double instructions(const char *command)
{
  g_autofree char *valgrind = g_find_program_in_path("valgrind");
  double count = 0;

  if (!valgrind)
    return 0;
  g_autofree char *counted = g_strdup_printf("%s --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null %s",
                                             valgrind, command);
  Run r = run(counted);
  const char *refs = strstr(r.err, "I   refs:");
  for (const char *c = refs ? refs : ""; *c && *c != '\n'; c++)
    count = g_ascii_isdigit(*c) ? 10 * count + (*c - '0') : count;
  run_clear(&r);
  return count;
}

static void print_row(const char *what, const char *measured, const char *goal, const char *verdict, const char *known)
{
  printf("%-54s %-38s %-10s %-8s %s\n", what, measured, goal, verdict, known);
  fflush(stdout);
}

static const char *verdict(gboolean reached)
{
  return reached ? "yes" : "no";
}

/* Keeps the most plans decided a second, and the most memory. */
static void ask(const Question *q, const char *programs, double *decided, double *mib)
{
  g_autofree char *command = g_strdup_printf("%s/tdp-plan %s --threads 1 --verbose", programs, q->arguments);
  double least = G_MAXDOUBLE, plans = 0, simulated = 0, count = instructions(command);

  for (int i = 0; i < RUNS; i++) {
    Run r = run(command);
    const char *search = strstr(r.err, "search: ");
    least = MIN(least, r.user_s);
    *mib = MAX(*mib, r.mib);
    plans = search ? number_before(search, " plans") : 0;
    simulated = search ? number_before(search, " simulated") : 0;
    run_clear(&r);
  }
  *decided = MAX(*decided, plans / least);
  g_autofree char *measured = g_strdup_printf("%.2f s, %.2fe9 instr., %.0f sim.", least, count / 1e9, simulated);
  g_autofree char *goal = q->goal_s > 0 ? g_strdup_printf("<= %.1f s", q->goal_s) : g_strdup("-");
  g_autofree char *what = g_strdup_printf("%s (%.0f plans)", q->title, plans);
  print_row(what, measured, goal, q->goal_s > 0 ? verdict(least <= q->goal_s) : "-", q->known);
}

static void start_up(const char *programs)
{
  g_autofree char *command = g_strdup_printf("%s/tdp-plan --version", programs);
  double least = G_MAXDOUBLE;

  for (int i = 0; i < STARTS; i++) {
    Run r = run(command);
    least = MIN(least, 1e3 * r.wall_s);
    run_clear(&r);
  }
  g_autofree char *measured = g_strdup_printf("%.1f ms", least);
  print_row("start-up to first output", measured, "<= 20 ms", verdict(least <= START_GOAL_MS), "-");
}

int main(int argc, char **argv)
{
  const char *programs = argc > 1 ? argv[1] : "build";
  double decided = 0, mib = 0;

  print_row("what", "measured", "goal", "reached", "best known");
  for (gsize i = 0; i < G_N_ELEMENTS(questions); i++)
    ask(&questions[i], programs, &decided, &mib);
  g_autofree char *rate = g_strdup_printf("%.2g /s", decided), *memory = g_strdup_printf("%.0f MiB", mib);
  print_row("plans decided", rate, ">= 1e6 /s", verdict(decided >= DECIDED_GOAL),
            "Calculon 310 /s (4,360 without its log), llm-analysis 4,400 /s");
  start_up(programs);
  print_row("memory, most of all questions", memory, "<= 200 MiB", verdict(mib <= MEMORY_GOAL_MIB), "-");
  return 0;
}
