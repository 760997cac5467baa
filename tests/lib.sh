#!/bin/sh
# The library as others use it: installed, through pkg-config, from C and from Python, as a wheel.
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
verdict() { # status name why
  if [ "$1" -eq 0 ]; then echo "ok lib-$2"; else echo "not ok lib-$2: $3"; fi
}

library=$BUILD/libtdp.so
if [ ! -f "$library" ]; then
  echo "skip lib: built without libtdp.so"
  exit
fi
others=$(nm -D --defined-only "$library" | awk '$3 !~ /^tdp_/ { print $3 }' | paste -sd ' ')
[ -z "$others" ]
verdict $? symbols "also exports $others"

root=$work/root
make -s install BUILD="${BUILD##*/}" DESTDIR="$root" PREFIX=/opt/tdp >"$work/log" 2>&1
verdict $? install "$(tail -n 1 "$work/log")"
cat >"$work/ask.c" <<'END'
#include <stdio.h>
#include <tdp.h>

int main(int argc, char **argv)
{
  tdp_answer *a = argc == 2 ? tdp_plan(argv[1]) : NULL;
  int status = tdp_status(a);

  fputs(status == 0 ? tdp_json(a) : tdp_error(a), status == 0 ? stdout : stderr);
  tdp_free(a);
  return status;
}
END
flags=$(PKG_CONFIG_PATH=$root/opt/tdp/lib/pkgconfig pkg-config --define-variable=prefix="$root/opt/tdp" --cflags --libs tdp)
# shellcheck disable=SC2086 # several flags
cc -Wall -Werror "$work/ask.c" $flags -o "$work/ask" 2>"$work/log"
verdict $? compile "$(head -n 1 "$work/log")"
mv "$root/opt/tdp/share/tdp" "$root/opt/tdp/lib/tdp-data" 2>/dev/null # data are found by $TDP_DATA
LD_LIBRARY_PATH=$root/opt/tdp/lib TDP_DATA=$root/opt/tdp/lib/tdp-data "$work/ask" \
  '{"model": "gpt3", "cluster": "dgx", "gpus": 64}' >"$work/answer" 2>"$work/log"
verdict $? c "$(head -n 1 "$work/log")"
tdp-plan --model gpt3 --cluster dgx --gpus 64 --json | cmp -s - "$work/answer"
verdict $? same "the library's document is not tdp-plan's"

command -v python3 >/dev/null || { echo "skip lib-python: no python3"; exit; }
PYTHONPATH=python TDP_LIBRARY=$library python3 -c 'import doctest, sys, tdp; sys.exit(doctest.testmod(tdp).failed)' >"$work/log" 2>&1
verdict $? python "$(grep -A 3 '^Failed' "$work/log" | tail -n 2 | paste -sd ' ')"
for python in python3 /usr/bin/python3 none; do # several may be installed
  $python -W ignore -c 'import setuptools, wheel, pip, venv, ensurepip' 2>/dev/null && break
done
if [ $python = none ]; then
  echo "skip lib-wheel: python3-pip, -setuptools, -wheel or -venv is not installed"
  exit
fi
cp -R python "$work/python" && mkdir "$work/build" && cp "$library" "$work/build"
for folder in models hardware plans plots accuracy; do ln -s "$PWD/$folder" "$work/$folder"; done
again=$work/again/longer # the same wheel is made there
mkdir -p "$again"
cp -R "$work/python" "$work/build" "$again" && for folder in models hardware plans plots accuracy; do ln -s "$PWD/$folder" "$again/$folder"; done
touch -d 2001-01-01 "$again"/python/tdp/*.py
(cd "$work" && $python -m pip wheel -q --no-build-isolation --no-deps -w wheels ./python) >"$work/log" 2>&1 &&
  $python -m venv "$work/venv" && "$work/venv/bin/pip" install -q "$work"/wheels/*.whl >>"$work/log" 2>&1 &&
  (cd / && "$work/venv/bin/python" -c 'import tdp; assert tdp.plan("gpt3", "dgx", gpus=64)["plans"][0]["fits"]') >>"$work/log" 2>&1
verdict $? wheel "$(tail -n 1 "$work/log")"
(cd "$again" && $python -m pip wheel -q --no-build-isolation --no-deps -w wheels ./python) >"$work/log" 2>&1 &&
  cmp "$work"/wheels/*.whl "$again"/wheels/*.whl >>"$work/log" 2>&1
verdict $? wheel-bytes "$(tail -n 1 "$work/log")"
[ -n "$(find "$work/wheels" -name 'tdp-*-py3-none-*.whl' 2>/dev/null)" ]
verdict $? wheel-tag "is not for every Python 3: $(ls "$work/wheels" 2>&1)"
if ! python3 -c 'import pandas' 2>/dev/null; then
  echo "skip lib-example: pandas is not installed"
  exit
fi
PYTHONPATH=python TDP_LIBRARY=$library python3 python/examples/clusters.py >"$work/table" 2>"$work/log" &&
  [ "$(grep -c '^llama-3.1-70b ' "$work/table")" -eq 9 ]
verdict $? example "$(tail -n 1 "$work/log")"
