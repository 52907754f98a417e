#!/usr/bin/env bash
# compiles.sh PROJECT: CUDA's compiler takes the rows of src/device/cuda for every architecture that is meant, no kernel spills
# registers, and no product and sum that a row rounds apart became one FMA.
set -u
cd "$1" || exit 1
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "SKIPPED: CUDA's nvcc is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++17 -fmad=false -Werror all-warnings -D_GNU_SOURCE -Isrc -Iinclude)
plain=" copies embedding reduce sums " # rows whose definition has no FMA
failed=0

for source in src/device/cuda/*.cu; do
    name=$(basename "$source" .cu)
    if ! "$nvcc" "${flags[@]}" -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
        -gencode arch=compute_100,code=sm_100 -Xptxas -v -c "$source" -o "$work/$name.o" >"$work/log" 2>&1; then
        cat "$work/log"
        echo "FAILED $name does not compile"
        failed=1
        continue
    fi
    kernels=$(grep -c 'bytes spill stores' "$work/log")
    [ "$kernels" -gt 0 ] || { echo "FAILED $name has no kernels"; failed=1; }
    if grep 'bytes spill stores' "$work/log" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
        grep -B 2 'bytes spill stores' "$work/log"
        echo "FAILED $name spills registers"
        failed=1
    fi
    if [[ $plain == *" $name "* ]]; then
        "$nvcc" "${flags[@]}" -arch=compute_80 -ptx "$source" -o "$work/$name.ptx" || failed=1
        ! grep -n 'fma' "$work/$name.ptx" || { echo "FAILED $name has an FMA"; failed=1; }
    fi
    echo "ok     $name: $kernels kernels"
done
exit $failed
