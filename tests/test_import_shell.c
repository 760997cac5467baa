/* Launch scripts, read without running them. */
#include "main.h"

#include "commands.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void reads(const char *script, const char *expected)
{
  g_autoptr(ShellScript) s = shell_read(script, NULL, NULL);
  test_text(commands_text(s), expected);
}

START_TEST(words_and_quotes)
{
  reads("run a  'b c' \"d e\" f\\ g # no\n", "run|a|b c|d e|f g\n");
  reads("run a \\\n  b\\\nc\r\n", "run|a|bc\n");
  reads("run a'b'\"c\"d ''\n", "run|abcd|\n");
  reads("X=1 run $X ${X}2 '$X' \"$X\" \\$X\n", "run|1|12|$X|1|$X\n");
  reads("run --split '99,1,0' >out 2>&1 <in\n", "run|--split|99,1,0\n");
  reads("one; two && three || four\nfive | six &\n", "one\ntwo\nthree\nfive\nsix\n");
}
END_TEST

START_TEST(variables)
{
  reads("A=\" --x 1 \\\n --y 2\"\nrun $A\n", "run|--x|1|--y|2\n");
  reads("A=\"--x 1\"\nrun \"$A\"\n", "run|--x 1\n");
  reads("A=(--x 1 # one\n  \"--y 2\" )\nA+=(--z)\nrun ${A[@]}\nrun \"${A[@]}\"\n",
        "run|--x|1|--y|2|--z\nrun|--x|1|--y 2|--z\n");
  reads("E=()\nrun \"${E[@]}\" ${E[@]} x\n", "run|x\n");
  reads("run $UNSET \"${UNSET}\" ${UNSET:-7} ${UNSET-8} ${SET:+9} ${A:=3} $A ${1:-d}\n",
        "run|$UNSET|$UNSET|7|8|3|3|d\n");
  reads("A=a\nA+=b\nexport A B=$A\nrun $A $B ${#A}\n", "run|ab|ab|2\n");
  reads("N=model-8b.tar.gz\nrun ${N%.gz} ${N%%.*} ${N#*-} ${N##*.}\n", "run|model-8b.tar|model-8b|8b.tar.gz|gz\n");
  reads("D=${X:-${Y:-deep}}\nrun $D\n", "run|deep\n");
  reads("run `date` $(hostname -s) a$(x \"(\" )b\n", "run|$(...)|$(...)|a$(...)b\n");
}
END_TEST

START_TEST(arithmetic)
{
  reads("A=8 B=4\nrun $((A*B)) $(( ($A + 2) / 3 - 1 )) $((A % 3)) $((-A)) $((2*UNSET))\n",
        "run|32|2|2|-8|$((2*UNSET))\n");
  reads("run $((1/0)) $((300000000000*2)) $((9223372036854775807*9))\n",
        "run|$((1/0))|600000000000|$((9223372036854775807*9))\n");
  reads("f() { f() { run 2; }; run 1; }\nf\nf\n", "run|1\nrun|2\n"); /* defined anew while it runs */
  reads("A=B\nB=A\nrun $((A))\n", "run|$((A))\n"); /* names that name each other end */
}
END_TEST

START_TEST(branches)
{
  reads("S=350m\nif [[ $S == 125m ]]; then N=12; elif [ $S = 350m ]; then N=24; else N=0; fi\nrun $N\n", "run|24\n");
  reads("if [ -z \"$X\" ]; then run empty; fi\nif [[ -n $X || -d /any ]]; then run folder; fi\n",
        "run|empty\nrun|folder\n");
  reads("N=4\nif [ $N -gt 1 -a $N -le 4 ]; then run more; fi\n[[ $N -lt 2 ]] && run less\n", "run|more\n");
  reads("[ -f x ] || exit 1\nrun\n", "run\n");
  reads("case llama-8b in gpt*) run gpt;; llama*|mistral) run llama ;; *) run other;; esac\n", "run|llama\n");
  reads("for n in 8 16; do run $n; done\nwhile true; do run never; done\nrun last\n", "run|8\nrun|last\n");
  reads("if ! test -z \"$X\"; then run no; else run yes; fi\n", "run|yes\n");
}
END_TEST

START_TEST(texts_within)
{
  reads("go() { run $X; }\nX=1\ngo\n", "run|1\n");
  reads("CMD=\"run 'a b' $Y\"\neval $CMD\nsrun bash -c \"one; two \\$Z\"\nbash -x -c 'three'\n",
        "run|a b|$Y\none\ntwo|$Z\nthree\n");
  reads("N=2\nsbatch <<EOF\n#SBATCH -N 1\nrun $N \\$M\nEOF\nlast\n", "sbatch\nrun|2|$M\nlast\n");
  reads("f() { f; }\nf\nrun\n", "run\n"); /* calls that never end do */
}
END_TEST

START_TEST(documents)
{
  const char *text = "N=4\nF=ds.json\ncat <<EOT > $F\n{ \"a\": $N }\nEOT\ncat >other <<'E'\n$N\nE\nrun\n";
  g_autoptr(ShellScript) s = shell_read(text, NULL, NULL);

  ck_assert_str_eq(g_hash_table_lookup(s->files, "ds.json"), "{ \"a\": 4 }\n");
  ck_assert_str_eq(g_hash_table_lookup(s->files, "other"), "$N\n");
  test_text(commands_text(s), "cat\ncat\nrun\n");
}
END_TEST

START_TEST(unread)
{
  const char *const given[] = { "SLURM_NNODES=4", NULL };
  g_autoptr(ShellScript) s = shell_read("a\nsource env.sh\nfor i in 1 2; do x; done\nrun $SLURM_NNODES\n", "/nowhere",
                                        given);

  ck_assert_uint_eq(s->unread->len, 2);
  ck_assert_str_eq(s->unread->pdata[0], "line 2: env.sh: sourced, and not beside the script");
  ck_assert_str_eq(s->unread->pdata[1], "line 3: for: its first turn alone is read");
  test_text(commands_text(s), "a\nx\nrun|4\n");
}
END_TEST

/* What a script names beside it is neither waited for nor read without end. */
START_TEST(sourced_special_files)
{
  g_autofree char *folder = test_directory(), *pipe = g_build_filename(folder, "pipe.sh", NULL);
  g_autofree char *zero = g_build_filename(folder, "zero.sh", NULL);
  g_autofree char *whole = g_build_filename(folder, "whole.sh", NULL);

  ck_assert_int_eq(mkfifo(pipe, 0600), 0);
  ck_assert_int_eq(symlink("/dev/zero", zero), 0);
  ck_assert(g_file_set_contents(whole, "N=4\n", -1, NULL));
  g_autoptr(ShellScript) s = shell_read(". ./pipe.sh\n. /etc/zero.sh\nsource whole.sh\nrun $N\n", folder, NULL);
  ck_assert_uint_eq(s->unread->len, 1);
  ck_assert_str_eq(s->unread->pdata[0], "line 2: /etc/zero.sh: sourced, and not beside the script");
  test_text(commands_text(s), "run|4\n");
  g_unlink(pipe);
  g_unlink(zero);
  g_unlink(whole);
  g_rmdir(folder);
}
END_TEST

/* Where a value stands, and where it is used. */
START_TEST(origins)
{
  const char *text = "TP=16\nARGS=\"--tp $TP --pp 2\"\nrun $ARGS x$((4*2))\n";
  g_autoptr(ShellScript) s = shell_read(text, NULL, NULL);
  const ShellCommand *c = s->commands->pdata[0];
  int first, end;

  ck_assert(shell_text_span(c->words->pdata[2], &first, &end));
  ck_assert_int_eq(first, 3);
  ck_assert_int_eq(end, 5);
  ck_assert(shell_text_use(c->words->pdata[2], &first, &end));
  ck_assert_int_eq(strncmp(text + first, "$TP", end - first), 0);
  ck_assert_int_eq(end - first, 3);
  ck_assert(shell_text_span(c->words->pdata[4], &first, &end));
  ck_assert_int_eq(text[first], '2');
  ck_assert(!shell_text_span(c->words->pdata[5], &first, &end)); /* half of it is computed */
  ck_assert(!shell_text_use(c->words->pdata[5], &first, &end));
}
END_TEST

/* Nothing makes it fail or stay: halves of scripts, and what no shell would take. */
START_TEST(anything_ends)
{
  static const char *const texts[] = { "", "'", "\"", "\"$", "${", "${x", "${x:-", "$((", "$((1+", "`", "$(", "a=(",
                                       "if", "if [",
                                       "if [[ a", "case", "case x in", "case x in a", "for", "for i in", "<<",
                                           "cat <<E", "f() {",
                                       ")", "}", ";;", "&&", "||", "fi", "done", "! !", "\\", "a=(\"", "${#", "${x[",
                                           "((", "[[",
                                       "( ( (", "a <<E\nE", "x=(1 2", "\xff\xfe", "$(( ( ( (", "esac;;", "for ((;;",
                                           "a|&b", "a ${x:-\"b", "a $(\"b", "${!x}" };

  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    shell_free(shell_read(texts[i], NULL, NULL));
  shell_free(shell_read("f() { f; f; }\nf\nA='eval $A; eval $A'\neval $A\n", NULL, NULL)); /* 2^40 calls */
  g_autoptr(GString) doubled = g_string_new("A=x\n");
  for (int i = 0; i < 40; i++)
    g_string_append(doubled, "A=$A$A\n");
  shell_free(shell_read(doubled->str, NULL, NULL));
}
END_TEST

TEST_MAIN("import-shell", words_and_quotes, variables, arithmetic, branches, texts_within, documents, unread,
          sourced_special_files, origins, anything_ends)
