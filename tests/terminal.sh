#!/bin/sh
# What programs print on a terminal: no wider than it, coloured unless that is refused, progress taken away again. To a
# pipe the same as ever.
set -u

command -v python3 >/dev/null || { echo "skip terminal: no python3"; exit; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cat >"$work/terminal.py" <<'END'
import fcntl, os, pty, struct, sys, termios
answers = {"kitty": b"\033_Gi=31;OK\033\\\033[?62c", "sixel": b"\033[?62;4;22c"} # to what terminals are asked
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, int(sys.argv[1]), 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
said = b""
asked = False
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more:
        break
    said += more
    if not asked and b"\033[c" in said:
        asked = True
        os.write(terminal, answers.get(os.environ.get("SHOWS"), b"\033[?1;2c"))
sys.stdout.buffer.write(said.replace(b"\r\n", b"\n"))
END
terminal() { # columns, command...
  env -u COLUMNS -u NO_COLOR TERM=xterm python3 "$work/terminal.py" "$@"
}
widest() { # of what is on stdin: without escapes, and what a carriage return writes over
  python3 -c '
import re, sys
text = re.sub("\x1b\\[[0-9;]*[mKc]|\x1b_[^\x1b]*\x1b\\\\", "", sys.stdin.buffer.read().decode())
print(max(len(part) for line in text.split("\n") for part in line.split("\r") if not "torchrun" in line))'
}

for columns in 60 80 132; do
  for command in "tdp-plan --model gpt3 --cluster dgx --explain --plots -" "tdp-plan --list frameworks" "tdp-plan --help" \
    "tdp-sim --model gpt3 --cluster dgx --plan gpt3-128 --ops --collectives" "tdp-sim --schedule zb-v --stages 4" \
    "tdp-validate tests/validation/zb.csv --rows"; do
    # shellcheck disable=SC2086 # several words
    found=$(terminal $columns $command | tee "$work/said" | widest)
    if [ "$found" -le "$columns" ]; then echo "ok terminal-$columns"
    else echo "not ok terminal-$columns: $command has a line of $found"; fi
  done
done

question="tdp-sim --model tiny --cluster cpu --plan tiny-1f1b --plots -"
# shellcheck disable=SC2086 # several words
{
  terminal 120 $question >"$work/colored"
  terminal 120 env NO_COLOR=1 $question >"$work/refused"
  terminal 120 env TERM=dumb $question >"$work/dumb"
  terminal 120 env COLUMNS=50 $question >"$work/told"
  env -u NO_COLOR COLUMNS=50 $question >"$work/piped"
}
escape=$(printf '\033')
if grep -q "$escape\[48" "$work/colored"; then echo "ok terminal-colors"; else echo "not ok terminal-colors: none"; fi
if grep -q "$escape" "$work/refused" "$work/dumb" "$work/piped"; then echo "not ok terminal-refused: colours all the same"
else echo "ok terminal-refused"; fi
if cmp -s "$work/piped" "$work/refused"; then echo "ok terminal-piped"
else echo "not ok terminal-piped: a pipe gets other text than a terminal of 120 columns"; fi
if [ "$(widest <"$work/told")" -le 50 ]; then echo "ok terminal-told"; else echo "not ok terminal-told: COLUMNS is not obeyed"; fi

# A terminal that shows pixels gets pictures, if there is gnuplot: PNG files, which begin so in base64, or sixels.
if command -v gnuplot >/dev/null; then
  for step in "--schedule zb-v --stages 4:1" "--model gpt3 --cluster dgx --plan gpt3-128:3"; do
    question=${step%:*} wanted=${step##*:}
    # shellcheck disable=SC2086 # several words
    {
      SHOWS=kitty terminal 120 tdp-sim $question --plots - >"$work/kitty"
      SHOWS=sixel terminal 120 tdp-sim $question --plots - >"$work/sixel"
      SHOWS=kitty terminal 120 env NO_COLOR=1 tdp-sim $question --plots - >"$work/none"
    }
    kitty=$(grep -ao "f=100,q=2,c=120,m=1;iVBORw0KGgo" "$work/kitty" | wc -l)
    sixel=$(grep -ao "${escape}Pq" "$work/sixel" | wc -l)
    if [ "$kitty $sixel" = "$wanted $wanted" ]; then echo "ok terminal-pixels-$wanted"
    else echo "not ok terminal-pixels-$wanted: $kitty PNG files and $sixel sixels of $wanted"; fi
    if grep -q "^stage 0 |" "$work/kitty" "$work/sixel"; then echo "not ok terminal-pixels-$wanted: letters, too"
    elif grep -q "$escape" "$work/none" || ! grep -q "^stage 0 |" "$work/none"; then
      echo "not ok terminal-pixels-$wanted: NO_COLOR is not obeyed"
    else echo "ok terminal-pixels-$wanted-alone"; fi
  done
else echo "skip terminal-pixels: no gnuplot"; fi

# Progress is erased before the answer, which begins a line of its own.
terminal 80 tdp-plan --model mixtral-8x22b --cluster dgx-h100 --gpus 2048 --threads 1 --exact >"$work/said"
if ! grep -q 'settled' "$work/said"; then echo "skip terminal-progress: too fast to be seen"
elif tr '\r' '\n' <"$work/said" | grep -q "^$escape\[Kmodel  "; then echo "ok terminal-progress"
else echo "not ok terminal-progress: it is left beside the answer"; fi

# What is wrong is said in one piece: those of several ranks stand beside each other, not within.
python3 - <<'END'
import os, socket, subprocess
own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) # keeps pieces apart
subprocess.run(["tdp-run", "--plan", "tiny-single", "--steps", "0"], stdout=subprocess.DEVNULL, stderr=theirs)
theirs.close()
pieces = []
while piece := own.recv(4096):
    pieces.append(piece)
whole = pieces == [b"tdp-run: --steps: 0: expected an integer of at least 1\n"]
print("ok terminal-whole-lines" if whole else f"not ok terminal-whole-lines: {len(pieces)} pieces, first {pieces[:2]}")
END
