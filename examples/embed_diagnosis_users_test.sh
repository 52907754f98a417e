#!/usr/bin/env bash
# embed_diagnosis_users_test.sh TESSERA JOB LIBRARY PROJECT: users in C++17 and in Python's ctypes get the same diagnosis.
# 77: there is no g++ or no python3.
set -euo pipefail
tessera=$1 job=$2 library=$3 project=$4
export TESSERA_LIBRARY=$library
command -v g++ >/dev/null || { echo "skipped: no g++" >&2; exit 77; }
python3 -c 'import ctypes' 2>/dev/null || { echo "skipped: no python3 with ctypes" >&2; exit 77; }
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
g++ -std=c++17 -O1 -Wall -Wextra -Wpedantic -Werror -I "$project/include" -x c++ "$project/examples/embed_diagnosis.c" \
    -o "$build/embed_diagnosis" -L "$(dirname "$library")" -ltessera -Wl,-rpath,"$(dirname "$library")"
bash "$project/examples/embed_diagnosis_test.sh" "$tessera" "$job" "$build/embed_diagnosis" \
    "$project/examples/embed_diagnosis.py"
