#!/bin/sh
# The CUDA backend's kernels on the device of this machine, if it has one and the
# backend was built (make check builds it where nvcc is).
set -u

programs=$BUILD/cuda
if [ ! -x "$programs/gpu-kernels" ]; then
  echo "skip cuda: not built, no nvcc"
  exit 0
fi
table=$("$programs/gpu-kernels" 2>&1)
case $? in
0) echo "ok cuda: $(echo "$table" | tail -n 1)" ;;
77) echo "skip cuda: compiled and linked only: ${table#skipped: }" ;;
*)
  echo "not ok cuda"
  echo "$table"
  ;;
esac
