#!/bin/sh
# Flows on shared links end when SimGrid says so, in each case of simgrid-compare.
set -u

compare=${BUILD:-build}/simgrid-compare
if [ ! -x "$compare" ]; then
  echo "skip simgrid: built where g++ and libsimgrid-dev are"
  exit
fi
if table=$("$compare"); then
  echo "ok simgrid"
else
  echo "not ok simgrid: off by more than 1 %"
fi
echo "$table"
