#!/usr/bin/env bash
# embed_health_test.sh LIBRARY PROJECT PROGRAM: the examples in C and in Python report what their loop does. 77: there is
# no python3.
set -euo pipefail
export TESSERA_LIBRARY=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/expected" <<'END'
step 150 [loss]: degraded: the loss of step 150 is +6.96 standard deviations from the mean of the newest 128 (limit 6)
step 155 [loss]: healthy again: the loss of step 153 is -1.11 standard deviations from the mean of the newest 128 (limit 6)
step 180 [not_finite]: degraded: the loss or gradient norm of step 180 is NaN or infinite
step 185 [not_finite]: healthy again: loss and gradient norm of step 181 are finite
step 195 [gpu_memory]: degraded: 97.0% of the memory of GPU 0 is in use (limit 95%)
END
"$3" | diff "$work/expected" - >&2
python3 -c 'import ctypes' 2>/dev/null || { echo "skipped: no python3 with ctypes" >&2; exit 77; }
python3 "$2/examples/embed_health.py" | diff "$work/expected" - >&2
echo "ok"
