#!/usr/bin/env bash
# compiles.sh PROJECT BUILD: what CUDA's compiler said of the plug-in that was built in BUILD: it took every row for every
# architecture that is meant, without a warning, and no kernel spills registers. No product and sum that a row rounds apart
# became one FMA; nothing that a row divides, roots or leaves subnormal is an approximation. The plug-in needs no library of CUDA.
set -u
cd "$1" || exit 1
build=$2
plugin=$build/libtessera_cuda.so
[ -e "$plugin" ] || { echo "SKIPPED: CUDA's nvcc is not installed, or the plug-in for GPUs is not built (TESS_CUDA)"; exit 77; }
nvcc=$(sed -n 's/^TESS_NVCC:FILEPATH=//p' "$build/CMakeCache.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain=" copies reduce runs sums "                          # rows whose definition has no FMA
fused=" embedding elementwise norm cross_entropy routing " # rows with FMAs, which divide or leave subnormals
failed=0

for source in src/device/cuda/*.cu src/device/cuda/kernels/*.cu; do
    name=$(basename "$source" .cu)
    log=$build/cuda/$name.log
    kernels=$(grep -c 'bytes spill stores' "$log")
    [ "$kernels" -gt 0 ] || [ "$name" = cuda_plugin ] || { echo "FAILED $name has no kernels"; failed=1; }
    ! grep -i 'warning' "$log" || { echo "FAILED $name has warnings"; failed=1; }
    if grep 'bytes spill stores' "$log" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
        grep -B 2 'bytes spill stores' "$log"
        echo "FAILED $name spills registers"
        failed=1
    fi
    if [[ $plain$fused == *" $name "* ]]; then
        "$nvcc" -std=c++17 -fmad=false -D_GNU_SOURCE -Isrc -Iinclude -arch=compute_80 -ptx "$source" -o "$work/$name.ptx" || failed=1
        [[ $plain != *" $name "* ]] || ! grep -n 'fma' "$work/$name.ptx" || { echo "FAILED $name has an FMA"; failed=1; }
        ! grep -nE '\.(ftz|approx)' "$work/$name.ptx" || { echo "FAILED $name has an approximation"; failed=1; }
    fi
    echo "ok     $name: $kernels kernels"
done
if readelf -d "$plugin" | grep -iE 'NEEDED.*(cuda|nvidia)'; then
    echo "FAILED the plug-in links a library of CUDA"
    failed=1
fi
exit $failed
