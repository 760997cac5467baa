/*
 * How the programs meet files that are wrong: bench/refusals [FOLDER OF PROGRAMS (build) [COUNT (10000) [SEED (1)]]]
 *
 * COUNT structured mutations (tests/mutate.h) over every kind of file, each given to a program that reads the kind. A
 * file may be taken, or refused: exit 2, one line that names the program, the file, and the key or the place (where a
 * key is gone or misspelt, also another key, which it is missing beside or does not fit without), at most 64 MiB, what stood at the output's place untouched. A signal, another line or status, a file taken that no reader
 * may take, is a finding and printed; so is a refusal that names no key, up to 2 in 1,000. Exit 1 with findings.
 * Processor time is printed and no finding: a goal, 100 ms, for machines at rest.
 */
#include "../mutate.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_GOAL_MIB 64
#define TIME_GOAL_S 0.1
#define UNNAMED_MOST 0.002
#define LIMIT_S 60
#define KEPT "what stood here before\n"

typedef struct {
  const char *name, *seeds; /* patterns of the shell */
  MutateFormat format;
  const char *command; /* @: the file, %: an output */
  gboolean data;       /* the file's place is accuracy/ of the data directory */
} Kind;

static const Kind kinds[] = {
  { "model", "models/tiny.json models/tiny-llama.json models/tiny-moe.json models/gpt3.json", FORMAT_JSON,
    "tdp-sim --model @ --cluster cpu --plan tiny-single --csv %" },
  { "config.json", "tests/data/hf/[a-z]*.json models/gpt-oss-20b.json models/t5-small.json", FORMAT_FOREIGN,
    "tdp-sim --model @ --cluster dgx --plan tiny-single --csv %" },
  { "cluster", "hardware/cpu.json tests/fuzz/seeds/cluster/*.json hardware/gb200-nvl72.json", FORMAT_JSON,
    "tdp-sim --model tiny --cluster @ --plan tiny-single --csv %" },
  { "plan", "plans/tiny-1f1b.json plans/tiny-tp2-dp2.json plans/tiny-offload.json plans/tiny-tp2-cp2.json", FORMAT_JSON,
    "tdp-sim --model tiny --cluster cpu --plan @ --csv %" },
  { "framework", "plans/frameworks/torchtitan.json plans/frameworks/megatron-core.json plans/frameworks/deepspeed.json",
    FORMAT_JSON, "tdp-plan --model tiny --cluster cpu --gpus 1 --framework @ --output %" },
  { "operations", "hardware/operations/*.json", FORMAT_JSON,
    "tdp-sim --model tiny --cluster cpu --plan tiny-single --draws 3 --operations @ --csv %" },
  { "link", "hardware/links/nvlink3-switch.json hardware/links/efa*.json", FORMAT_JSON,
    "tdp-calibrate --nccl-tests tests/data/nccl-tests/v2.8-all-reduce.txt --cluster dgx --like @ --output %" },
  { "accuracy", "accuracy/memory.json accuracy/time.json accuracy/domain.json", FORMAT_FOREIGN,
    "tdp-sim --model tiny --cluster cpu --plan tiny-single --csv %", TRUE },
  { "tdp-run's report", "tests/data/tdp-run.json", FORMAT_FOREIGN, "tdp-validate @ --csv %" },
  { "cases", "tests/fuzz/seeds/cases/*.csv", FORMAT_CSV, "tdp-validate @ --csv %" },
  { "schedule", "tests/fuzz/seeds/schedule/*.csv", FORMAT_CELLS, "tdp-sim --schedule @" },
  { "points", "tests/fuzz/seeds/points/whole.csv", FORMAT_CSV, "tdp-calibrate --fit @ --output %" },
  { "state", "STATE", FORMAT_TEXT, "tdp-plan --model tiny --cluster cpu --gpus 2 --threads 1 --state @ --output %" },
  { "nccl-tests", "tests/data/nccl-tests/*.txt", FORMAT_TEXT,
    "tdp-calibrate --nccl-tests @ --cluster dgx --like nvlink3-switch --output %" },
  { "log, topology", "tests/data/import/*.log tests/data/import/topo-*", FORMAT_TEXT,
    "tdp-calibrate --import @ --gpu a100-sxm4-80gb --output %" },
  { "trace", "tests/data/import/kineto.json", FORMAT_FOREIGN, "tdp-calibrate --import @ --output %" },
  { "nsys", "tests/data/import/nsys-*.csv", FORMAT_CELLS, "tdp-calibrate --import @ --output %" },
  { "launch script", "tests/data/launch/*.sh tests/data/launch/*.slurm tests/data/launch/*.toml", FORMAT_TEXT,
    "tdp-sim --model tiny-llama --cluster dgx --plan @ --csv %" },
};

typedef struct {
  char *folder, *programs, *file, *output, *errors, *data;
  int taken, refused, named, findings, slow;
  double most_s, most_mib;
} Bench;

typedef struct {
  int status; /* -1 = a signal, or out of time */
  double processor_s, mib;
  char *talk;
} Run;

/* ---- running ---- */

static void child(const Bench *b, char **words)
{
  struct rlimit limit = { LIMIT_S, LIMIT_S };

  setrlimit(RLIMIT_CPU, &limit);
  alarm(2 * LIMIT_S);
  if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) || !freopen(b->errors, "w", stderr))
    _exit(126);
  g_setenv("TDP_DATA", b->data, TRUE);
  execv(words[0], words);
  _exit(127);
}

static char **words_of(const Bench *b, const char *command)
{
  char **words = g_strsplit(command, " ", -1);

  for (int i = 0; words[i]; i++) {
    char *word = i == 0                       ? g_build_filename(b->programs, words[i], NULL)
                 : g_str_equal(words[i], "@") ? g_strdup(b->file)
                 : g_str_equal(words[i], "%") ? g_strdup(b->output)
                                              : g_strdup(words[i]);
    g_free(words[i]);
    words[i] = word;
  }
  return words;
}

static Run run(const Bench *b, const char *command)
{
  g_auto(GStrv) words = words_of(b, command);
  struct rusage use;
  Run r = { -1 };
  int status;
  fflush(stdout);
  pid_t pid = fork();

  if (pid == 0)
    child(b, words);
  g_assert(pid > 0 && wait4(pid, &status, 0, &use) == pid);
  if (WIFEXITED(status))
    r.status = WEXITSTATUS(status);
  r.processor_s = use.ru_utime.tv_sec + use.ru_stime.tv_sec + 1e-6 * (use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  r.mib = use.ru_maxrss / 1024.0;
  if (!g_file_get_contents(b->errors, &r.talk, NULL, NULL))
    r.talk = g_strdup("");
  return r;
}

/* ---- judging ---- */

/* "FILE:12:3: " or "FILE:12: ", or "line 12" of a state. */
static gboolean names_place(const char *line, const char *file)
{
  const char *at = strstr(line, file);

  return (at && at[strlen(file)] == ':' && g_ascii_isdigit(at[strlen(file) + 1])) || strstr(line, ": line ");
}

/* "FILE: a.b[1]: ", with "plan: " between where a rule between keys is broken. */
static gboolean names_some_key(const char *line, const char *file)
{
  const char *at = strstr(line, file) + strlen(file);

  at += g_str_has_prefix(at, ": plan: ") ? strlen(": plan: ") : strlen(": ");
  gsize n = strspn(at, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.[]");
  return n > 0 && g_str_has_prefix(at + n, ": ");
}

static gboolean names_key(const Mutation *m, const char *line, const char *file)
{
  gboolean gone = m->misspelt || g_str_equal(m->change, "no such key");

  if (!m->key || strstr(line, m->key) || (m->misspelt && strstr(line, m->misspelt)))
    return TRUE;
  return (gone && names_some_key(line, file)) || names_place(line, file);
}

static gboolean untouched(const Bench *b)
{
  g_autofree char *now = NULL;

  return g_file_get_contents(b->output, &now, NULL, NULL) && g_str_equal(now, KEPT);
}

/* What is wrong with how the file was met; NULL if nothing is. */
static const char *judge(const Bench *b, const Kind *kind, const Mutation *m, const Run *r)
{
  const char *end = strchr(r->talk, '\n');
  g_autofree char *program = g_strndup(kind->command, strcspn(kind->command, " "));

  if (r->status == 0 || r->status == 3)
    return m->refused ? "taken" : NULL;
  if (r->status != 2)
    return "neither taken nor refused";
  if (!end || end[1] != '\0')
    return "not one line";
  if (!g_str_has_prefix(r->talk, program) || !strstr(r->talk, b->file))
    return "names no program or file";
  if (!g_utf8_validate(r->talk, -1, NULL) || strpbrk(r->talk, "\033"))
    return "not for a terminal";
  if (!untouched(b))
    return "the output is another";
  return r->mib > MEMORY_GOAL_MIB ? "much memory" : NULL;
}

static void show(const Kind *kind, const char *seed, const Mutation *m, const Run *r, const char *what, int number)
{
  printf("%s: mutation %d of %s, %s%s%s: %s (status %d, %.0f ms, %.0f MiB): %.300s%s", kind->name, number, seed, m->change,
         m->key ? " of " : "", m->key ? m->key : "", what, r->status, 1e3 * r->processor_s, r->mib, r->talk,
         *r->talk ? "" : "\n");
}

static void note(Bench *b, const Kind *kind, const char *seed, const Mutation *m, const Run *r, int number)
{
  const char *wrong = judge(b, kind, m, r);

  if (wrong) {
    b->findings++;
    show(kind, seed, m, r, wrong, number);
    return;
  }
  if (r->status != 2) {
    b->taken++;
    return;
  }
  b->refused++;
  b->most_s = MAX(b->most_s, r->processor_s);
  b->most_mib = MAX(b->most_mib, r->mib);
  b->slow += r->processor_s > TIME_GOAL_S;
  if (names_key(m, r->talk, b->file))
    b->named++;
  else
    show(kind, seed, m, r, "names no key", number);
}

/* ---- files ---- */

/* Without waiting for the disk. */
static void put(const char *path, const char *text, gsize length)
{
  FILE *file = g_fopen(path, "wb");

  g_assert(file && fwrite(text, 1, length, file) == length && fclose(file) == 0);
}

static char **seeds_of(Bench *b, const Kind *kind)
{
  g_autofree char *command = g_strdup_printf("ls %s", kind->seeds), *list = NULL;
  g_autofree char *state = g_build_filename(b->data, "state", NULL);
  char *words[] = { "sh", "-c", command, NULL };

  if (g_str_equal(kind->seeds, "STATE")) {
    char *made[] = { state, NULL };
    g_autofree char *kept = g_steal_pointer(&b->file);
    b->file = g_strdup(state);
    g_remove(state);
    Run r = run(b, kind->command);
    g_assert(r.status == 0);
    g_free(r.talk);
    g_free(b->file);
    b->file = g_steal_pointer(&kept);
    return g_strdupv(made);
  }
  g_assert(g_spawn_sync(NULL, words, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &list, NULL, NULL, NULL));
  return g_strsplit(g_strchomp(list), "\n", -1);
}

static void try(Bench *b, const Kind *kind, const char *seed, int number, GRand *rand)
{
  g_autofree char *text = NULL, *name = g_path_get_basename(seed);
  g_autofree char *dir = kind->data ? g_build_filename(b->data, "accuracy", NULL) : g_strdup(b->folder);
  gsize length;
  Mutation m;

  b->file = g_build_filename(dir, name, NULL);
  g_assert(g_file_get_contents(seed, &text, &length, NULL));
  mutate(&m, text, length, kind->format, rand);
  put(b->output, KEPT, strlen(KEPT));
  put(b->file, m.text->str, m.text->len);
  Run r = run(b, kind->command);
  note(b, kind, seed, &m, &r, number);
  if (kind->data)
    put(b->file, text, length);
  else
    g_remove(b->file);
  g_clear_pointer(&b->file, g_free);
  g_free(r.talk);
  mutation_clear(&m);
}

/* A data directory that is the tree's but for copies of accuracy/. */
static void make_data(Bench *b)
{
  static const char *const folders[] = { "models", "hardware", "plans", "plots" };
  g_autofree char *here = g_get_current_dir(), *to = g_build_filename(b->data, "accuracy", NULL);
  g_autofree char *copy = g_strdup_printf("cp -R accuracy '%s'", to);

  g_assert(g_mkdir(b->data, 0700) == 0);
  for (gsize i = 0; i < G_N_ELEMENTS(folders); i++) {
    g_autofree char *from = g_build_filename(here, folders[i], NULL), *at = g_build_filename(b->data, folders[i], NULL);
    g_assert(symlink(from, at) == 0);
  }
  g_assert(system(copy) == 0);
}

int main(int argc, char **argv)
{
  int count = argc > 2 ? atoi(argv[2]) : 10000, each = MAX(1, count / (int)G_N_ELEMENTS(kinds));
  GRand *rand = g_rand_new_with_seed(argc > 3 ? (guint32)atoi(argv[3]) : 1);
  g_autofree char *programs = g_canonicalize_filename(argc > 1 ? argv[1] : "build", NULL);
  Bench b = { .folder = g_dir_make_tmp("tdp-refusals-XXXXXX", NULL), .programs = programs };

  b.output = g_build_filename(b.folder, "output", NULL);
  b.errors = g_build_filename(b.folder, "errors", NULL);
  b.data = g_build_filename(b.folder, "data", NULL);
  make_data(&b);
  for (gsize k = 0; k < G_N_ELEMENTS(kinds); k++) {
    g_auto(GStrv) seeds = seeds_of(&b, &kinds[k]);
    for (int i = 0; i < each; i++)
      try(&b, &kinds[k], seeds[g_rand_int_range(rand, 0, (gint32)g_strv_length(seeds))], i, rand);
  }
  int unnamed = b.refused - b.named;
  printf("%d mutations of %d kinds of files: %d refused, %d of them without the key (%.2f %% name it), %d taken, "
         "%d findings; refusals took at most %.0f ms (%d more than %.0f) and %.0f MiB\n",
         each * (int)G_N_ELEMENTS(kinds), (int)G_N_ELEMENTS(kinds), b.refused, unnamed,
         100.0 * b.named / MAX(b.refused, 1), b.taken, b.findings, 1e3 * b.most_s, b.slow, 1e3 * TIME_GOAL_S, b.most_mib);
  g_autofree char *remove = g_strdup_printf("rm -rf '%s'", b.folder);
  g_assert(system(remove) == 0);
  g_rand_free(rand);
  return b.findings > 0 || unnamed > UNNAMED_MOST * b.refused;
}
