#!/usr/bin/env bash
# exports_test.sh LIBRARY PROJECT: libtessera exports the functions of tools/abi.txt, each with the version that added it, and
# nothing else; and the public headers still have the ABI of that table.
set -euo pipefail
library=$1 project=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$project/tools/abi"
# A table of other headers: one function more, a smaller struct, a field elsewhere, a function of another type.
sed 's/^0.1 struct tess_piece 32$/0.1 struct tess_piece 24/; s/^0.1 field tess_box.size 64 /0.1 field tess_box.size 56 /
    s/^\(0.1 function tess_dtype_size .*\)(tess_dtype)/\1(int)/; $a0.1 function tess_gone void tess_gone (void)' \
    "$project/tools/abi.txt" >"$work/other.txt"
if "$project/tools/abi" "$work/other.txt" >"$work/breaks" || [ "$(grep -c '^breaks programs:' "$work/breaks")" != 4 ]; then
    echo "tools/abi does not find four breaks:" >&2
    cat "$work/breaks" >&2
    exit 1
fi
# A build for fuzzing exports what its compiler adds. The versions themselves are absolute symbols.
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sed '/^__.*___sancov/d' | sort -u >"$work/exported"
awk '$2 == "function" { print $3 "@@TESSERA_" $1 }' "$project/tools/abi.txt" | sort -u >"$work/released"
diff "$work/released" "$work/exported" >&2 || { echo "tools/abi.txt has (<) and the library exports (>) other symbols" >&2; exit 1; }
readelf -d "$library" | grep -q 'SONAME.*\[libtessera.so.0\]' || { echo "the soname is not libtessera.so.0" >&2; exit 1; }
echo "ok: $(wc -l <"$work/exported") symbols"
