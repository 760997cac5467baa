#!/bin/sh
# What make install puts somewhere: it runs wherever it is moved to, nothing is made again for another prefix, uninstall
# takes all of it away, and objects are the same bytes wherever they are made.
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
verdict() { # status name why
  if [ "$1" -eq 0 ]; then echo "ok install-$2"; else echo "not ok install-$2: $3"; fi
}
ours() { make -s BUILD="${BUILD##*/}" "$@"; }

: >"$work/before"
ours install PREFIX="/opt/else where" DESTDIR="$work/other" >"$work/log" 2>&1 &&
  [ "$(find "$work/other" -mindepth 2 -maxdepth 2)" = "$work/other/opt/else where" ]
verdict $? space "a prefix with a space: $(tail -n 1 "$work/log")"
made=$(find "$BUILD"/obj/src/base/*.o "$BUILD"/tdp-* -newer "$work/before" | paste -sd ' ')
[ -z "$made" ]
verdict $? prefix "another prefix makes $made"

ours install PREFIX=/opt/tdp DESTDIR="$work/root" >"$work/log" 2>&1
verdict $? all "$(tail -n 1 "$work/log")"
mv "$work/root/opt/tdp" "$work/moved"
question="--model gpt3 --cluster dgx --gpus 64 --json"
# shellcheck disable=SC2086 # several words
tdp-plan $question >"$work/here" && (cd / && TDP_DATA='' "$work/moved/bin/tdp-plan" $question) >"$work/there" 2>"$work/log"
cmp -s "$work/here" "$work/there"
verdict $? moved "a moved program answers otherwise: $(head -n 1 "$work/log")"
without=
for program in "$work"/moved/bin/*; do
  [ -f "$work/moved/share/man/man1/$(basename "$program").1" ] || without="$without $(basename "$program")"
done
[ -z "$without" ]
verdict $? pages "no man page of$without"
found=$(PKG_CONFIG_PATH=$work/moved/lib/pkgconfig pkg-config --variable=libdir tdp)
[ "$(realpath "${found:-/}")" = "$work/moved/lib" ]
verdict $? pkg-config "tdp.pc names $found"

# Shells find completions by themselves, each by its own rule.
found="$(cd "$work/moved/share/bash-completion/completions" && echo tdp-*)"
[ "$found" = "$(cd "$work/moved/bin" && echo tdp-*)" ]
verdict $? bash "completions are there of $found"
if command -v fish >/dev/null; then
  # shellcheck disable=SC2016 # fish expands it
  found=$(PATH=$work/moved/bin:$PATH XDG_DATA_DIRS=$work/moved/share XDG_CONFIG_HOME=$work HOME=$work \
    fish -c 'complete -C"tdp-plan --wh"; complete -C"tdp-sim --cluster dgx-h1"' 2>&1 | cut -f 1 | paste -sd ' ')
  [ "$found" = "--why-not dgx-h100" ]
  verdict $? fish "offers $found"
else echo "skip install-fish: no fish"; fi
if command -v zsh >/dev/null; then
  # shellcheck disable=SC2016 # zsh expands it
  found=$(ZDOTDIR=$work zsh -fc 'fpath=($1 $fpath); autoload -U compinit; compinit -u -D; print $_comps[tdp-plan]' zsh \
    "$work/moved/share/zsh/site-functions" 2>&1)
  [ "$found" = _tdp ]
  verdict $? zsh "completes by $found"
else echo "skip install-zsh: no zsh"; fi

ours install PREFIX=/opt/tdp DESTDIR="$work/root" >/dev/null 2>&1
echo "another's" >"$work/root/opt/tdp/bin/other"
ours uninstall PREFIX=/opt/tdp DESTDIR="$work/root" >"$work/log" 2>&1
left=$(cd "$work/root" && find . ! -type d | paste -sd ' ')
[ "$left" = ./opt/tdp/bin/other ]
verdict $? uninstall "leaves $left $(head -n 1 "$work/log")"

objects="build/obj/src/base/units.o build/obj/src/cli/cli.o"
for tree in a longer/b; do
  mkdir -p "$work/$tree" && cp -R Makefile src "$work/$tree"
  # shellcheck disable=SC2086 # several files
  make -s -C "$work/$tree" CFLAGS="-O2 -g" $objects >"$work/log" 2>&1
done
for object in $objects; do
  cmp "$work/a/$object" "$work/longer/b/$object" >"$work/log" 2>&1
  verdict $? "bytes-$(basename "$object" .o)" "$(head -n 1 "$work/log")"
done
