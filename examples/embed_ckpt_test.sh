#!/usr/bin/env bash
# embed_ckpt_test.sh COMPILER TESSERA LIBRARY_FOLDER PROJECT [FLAGS ...]: each public header compiles alone as C++17,
# and the example does what it says. 77: there is no such compiler.
set -euo pipefail
compiler=$1 tessera=$2 library=$3 project=$4
shift 4
command -v "$compiler" >/dev/null || { echo "skipped: no $compiler" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++17 -O1 -Wall -Wextra -Wpedantic -Werror -I "$project/include" "$@")
for header in "$project"/include/tessera/*.h; do
    printf '#include <tessera/%s>\n' "$(basename "$header")" >"$work/header.cpp"
    "$compiler" "${flags[@]}" -fsyntax-only "$work/header.cpp"
done
program=$work/embed_ckpt
"$compiler" "${flags[@]}" -ffp-contract=off "$project/examples/embed_ckpt.cpp" -o "$program" -L "$library" -ltessera \
    -Wl,-rpath,"$library"
bash "$project/examples/embed_resume_test.sh" "$tessera" "$program"
