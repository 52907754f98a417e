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
# The counts of rows in src/plan/gpu/gpu_rows.c are those of the kernels: a plan takes as long as the launches.
compare_plan() {
    "$build/tessera" plan model.config=gpt2-124m training.local_batch_size=16 training.global_batch_size=32 training.seq_len=1024 \
        training.mixed_precision_param=bfloat16 job.device=cuda --machine h100-sxm --json >"$work/plan.json"
    local planned launched
    planned=$(sed -n 's/^ *"step_ms": \([0-9.e+-]*\),*$/\1/p' "$work/plan.json")
    launched=$(sed -n 's/^  "ms": \([0-9.e+-]*\),*$/\1/p' "$work/step.json")
    awk -v a="$planned" -v b="$launched" 'BEGIN { exit !(a > 0.9 * b && a < 1.1 * b) }' ||
        { echo "FAILED tessera plan: a step of $planned ms, and its launches take $launched: correct the counts of src/plan/gpu/gpu_rows.c"; failed=1; return; }
    echo "ok     tessera plan: $planned ms, its launches $launched"
}
# The first run on a GPU prints the step's time next to its own (tools/gpu-first-run).
compare_bench() {
    local ms
    ms=$(sed -n 's/^  "ms": \([0-9.e+-]*\),*$/\1/p' "$work/step.json")
    printf ' "name": "step",\n "time": 50\n' >"$work/step-gpt2.json"
    "$source/tools/gpu-compare" "$work/gpu-model.tsv" "$work" >"$work/compared"
    awk -v ms="$ms" '$1 == "step-gpt2:" && $2 == "step" && $4 == 50 && $3 > ms - 0.1 && $3 < ms + 0.1 { found = 1 } END { exit !found }' "$work/compared" ||
        { echo "FAILED a step of $ms ms is not next to what was measured: $(cat "$work/compared")"; failed=1; return; }
    cat "$work/compared"
}
GPU_STEP_SAMPLE=0 "$source/tools/gpu-step" --build "$build" --out "$work" llama-5m 4 256 >/dev/null
hold llama
GPU_STEP_SAMPLE=0 "$source/tools/gpu-step" --build "$build" --out "$work" >/dev/null
hold counts
! GPU_STEP_SAMPLE=0 "$source/tools/gpu-step" --build "$build" --out "$work" --bench step-gpt2 >/dev/null 2>&1 ||
    { echo "FAILED kernels without times give the step's time"; failed=1; }
if [ -e "$build/tests/ptx/libtessera_cuda.so" ]; then
    "$source/tools/gpu-step" --build "$build" --out "$work" --bench step-gpt2 >/dev/null
    hold counts
    hold interpreted
    compare_plan
    compare_bench
fi
exit $failed
