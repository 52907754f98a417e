#!/usr/bin/env bash
# exports_test.sh LIBRARY PROJECT: libtessera exports what the public headers declare, and nothing else.
set -euo pipefail
library=$1 project=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A build for fuzzing exports what its compiler adds.
nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//; /^__.*___sancov/d' | sort -u >"$work/exported"
cat "$project"/include/tessera/*.h | sed 's|/\*.*\*/||' | tr '\n' ' ' | grep -oE 'TESS_API [^(;]*\(' |
    grep -oE 'tess_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 100 ] || { echo "found few declarations in the headers" >&2; exit 1; }
diff "$work/declared" "$work/exported" >&2 || { echo "the headers declare (<) and the library exports (>) other symbols" >&2; exit 1; }
echo "ok: $(wc -l <"$work/exported") symbols"
