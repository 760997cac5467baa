#!/bin/sh
# What programs are made of (docs/packaging/sbom): JSON, with each package that the Makefile links and each program that
# SECURITY.md says is started.
set -u

cd "$(dirname "$0")/.." || exit 1
text=$(docs/packaging/sbom 0.0.0) || { echo "not ok sbom: cannot be made"; exit; }
missing=
for name in $(sed -n 's/^PACKAGES := //p; s/^EXEC_PACKAGES := \([a-z]*\).*/\1/p' Makefile) ompi-c \
  $(sed -n 's/.*Programs started by name are found in `PATH`: //p' docs/SECURITY.md | grep -o '`[a-z0-9]*`' | tr -d '`'); do
  case $text in *"\"name\": \"$name\""*) ;; *) missing="$missing $name" ;; esac
done
if [ -z "$missing" ] && echo "$text" | tdp-sim --model - --cluster cpu --plan tiny-single 2>&1 | grep -q 'spdxVersion: unknown key'; then
  echo "ok sbom"
else echo "not ok sbom: lacks$missing, or is no JSON"; fi
