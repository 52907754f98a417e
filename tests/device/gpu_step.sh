#!/usr/bin/env bash
# gpu_step.sh BUILD SOURCE: launches, waits of the host, copies and bytes of a training step on a GPU do not grow beyond
# gpu_step_limits.txt. They are counted without a GPU (tools/gpu-step).
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
hold() { # WHICH: compares the step's totals with the limits of this kind
    "$build/tessera" plan launches "$work/step.log" --json --top 1 >"$work/step.json"
    while read -r which name limit; do
        [ "$which" = "$1" ] || continue
        value=$(sed -n "s/^  \"$name\": \([0-9.e+-]*\),*$/\1/p" "$work/step.json")
        awk -v value="$value" -v limit="$limit" 'BEGIN { exit !(value != "" && value + 0 > 0 && value <= limit) }' ||
            { echo "FAILED a step has $name $value, and the limit is $limit"; failed=1; continue; }
        echo "ok     $name $value of $limit"
    done <"$source/tests/device/gpu_step_limits.txt"
}
GPU_STEP_SAMPLE=0 "$source/tools/gpu-step" --build "$build" --out "$work" >/dev/null
hold counts
if [ -e "$build/tests/ptx/libtessera_cuda.so" ]; then
    "$source/tools/gpu-step" --build "$build" --out "$work" >/dev/null
    hold counts
    hold interpreted
fi
exit $failed
