#!/bin/sh
# tests/mutations/run judges the programs of its own copies whatever build its caller tests, and each list still applies.
set -u

cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

# expect NAME STATUS OUTPUT COMMAND...: one run, compared whole.
expect() {
  name=$1 status=$2 output=$3
  shift 3
  found=$("$@" 2>&1)
  code=$?
  if [ "$code" = "$status" ] && [ "$found" = "$output" ]; then
    echo "ok $name"
  else
    echo "not ok $name: exit $code, expected $status"
    printf 'expected: %s\nfound:    %s\n' "$output" "$found"
    failed=1
  fi
}

# A tree whose program is right, and a build of another tree, whose program always is.
mkdir -p "$tmp/tree/tests/mutations" "$tmp/other"
cp tests/mutations/run "$tmp/tree/tests/mutations"
cat >"$tmp/tree/program" <<'END'
#!/bin/sh
# twice
echo $((2 * 2))
END
printf '#!/bin/sh\necho 4\n' >"$tmp/other/program"
chmod +x "$tmp/tree/program" "$tmp/other/program"
cat >"$tmp/tree/tests/mutations/list" <<'END'
! mkdir -p build && cp program build && test "$(program)" = 4
= half
@ program
- echo $((2 * 2))
+ echo $((2 / 2))
= no remark
@ program
- # twice
= a third of it
@ program
- echo $((2 * 3))
= in a file that is gone
@ missing
- echo
END
# shellcheck disable=SC2016 # for the list's command
sed 's/(program)/("$BUILD\/program")/' "$tmp/tree/tests/mutations/list" >"$tmp/tree/tests/mutations/by-folder"
stale='stale   a third of it: program: its lines stand there 0 times
stale   in a file that is gone: missing: No such file or directory'
for list in list by-folder; do
  expect "mutations, $list, beside another build" 1 "caught  half
MISSED  no remark
$stale
1 of 4 caught" env JOBS=1 BUILD="$tmp/other" PATH="$tmp/other:$PATH" "$tmp/tree/tests/mutations/run" "$list"
done
expect "mutations that do not apply" 1 "$stale" "$tmp/tree/tests/mutations/run" --stale list

for list in tests/mutations/*; do
  case $list in */run) ;; *) expect "$list applies" 0 "" tests/mutations/run --stale "$list" ;; esac
done
exit $failed
