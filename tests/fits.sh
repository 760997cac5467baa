#!/bin/sh
# The fits of hardware/data, done anew, give what hardware/ has: constants of kernels within 2 %; of links, where several
# sets fit alike, the errors that stand beside them within 5 % and 0.2 points. Of the fits of products, which take nearly
# all of the time, each STRIDE-th (5; rows of 16 and of 8 bits take turns).
set -u

cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1

cp -R hardware models plans accuracy "$work"
jobs=hardware/data/fits.csv
{ grep '^matmul,' $jobs | tests/sample 5 hardware/data/* hardware/kernels/* hardware/gpus/*; grep -v '^matmul,' $jobs; } >"$work/sample"
grep -xFf "$work/sample" $jobs >"$work/$jobs"
if ! TDP_DATA=$work "$BUILD/tdp-fit" >"$work/out" 2>"$work/err"; then
  echo "not ok fits: tdp-fit failed"
  tail -3 "$work/err"
  exit 1
fi
for file in hardware/links/*.json; do
  paste -d '\n' "$file" "$work/$file" | sed -n 's/.*"\([a-z0-9_]*\)": "fitted: .* others \([0-9.]*\) %.*/\1 \2/p' | awk -v file="$file" '
    NR % 2 { stored = $2; next }
    ($2 - stored) ^ 2 > (0.05 * stored + 0.2) ^ 2 { print file ": " $1 ": error " stored " %, now " $2 " %" }'
done >"$work/stale"
for file in hardware/kernels/*.json; do
  paste -d '\n' "$file" "$work/$file" | awk -v file="$file" '
    NR % 2 { stored = $0; next }
    stored != $0 && !/": "[a-z]+: / {
      n = split(stored, a, /[^0-9.e-]+/)
      m = split($0, b, /[^0-9.e-]+/)
      for (i = 1; i <= n || i <= m; i++)
        if ((a[i] - b[i]) ^ 2 > (0.02 * (a[i] + b[i]) / 2) ^ 2) { print file ":" stored " now " $0; next }
    }'
done >>"$work/stale"
if [ -s "$work/stale" ]; then
  echo "not ok fits: constants that tdp-fit would change"
  cat "$work/stale"
  exit 1
fi
echo "ok fits: the constants of $(($(wc -l <"$work/$jobs") - 1)) jobs"
