#!/usr/bin/env bash
# interpret.sh BUILD quick|all: runs the tests of the rows with their kernels on the interpreter of PTX, and holds that every
# kernel that nvcc made was launched. `quick`: one target, the tests that take seconds. `all`: every target and test.
# TESS_PTX_JOBS: processes at a time (default: the number of cores).
set -u
build=$1 how=$2
ptx=$build/tests/ptx fake=$build/tests/cuda_fake
[ -e "$ptx/ptx_norm" ] || { echo "SKIPPED: CUDA's nvcc is not installed, so there is no PTX to interpret"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Tests with the rows linked, then those of the plug-in: a program and the cases to run, or "" for all.
quick=(convert copy_rows rope glu norm reduce rows embedding routing cross_entropy)
slow=(adamw gemm gemm_fused gemm_grouped gemm_leaves attention)
plugin=("test_device_cuda every_row" "test_device_cuda_tensor ")
# Kernels that no test launches, and why.
declare -A left_out=()

case $how in
quick) targets=(sm_90a) programs=("${quick[@]}") ;;
all) targets=($(strings -n 8 "$ptx/norm.o" | sed -n 's/^\.target \(sm_[0-9a-z]*\).*/\1/p' | sort -u)) programs=("${quick[@]}" "${slow[@]}") ;;
*) echo "interpret.sh BUILD quick|all" >&2; exit 2 ;;
esac

one() { # TARGET PROGRAM [CASE]
    local name=$1-$2 begin=$SECONDS code
    export TESS_PTX_TARGET=$1 TESS_PTX_LOG=$work/$name.log
    if [[ $2 == test_* ]]; then
        LD_PRELOAD=$ptx/libtess_ptx.so LD_LIBRARY_PATH=$fake TESSERA_CUDA=$ptx/libtessera_cuda.so \
            TESSERA_CUBLAS=$([[ $2 == *tensor* ]] && echo own || echo off) "$build/tests/$2" ${3:+"$3"} >"$work/$name.out" 2>&1
    else
        "$ptx/ptx_$2" >"$work/$name.out" 2>&1
    fi
    code=$?
    [ "$code" = 0 ] || { grep -vE '^ok ' "$work/$name.out"; echo "FAILED $name"; touch "$work/failed"; return; }
    echo "ok     $name ($((SECONDS - begin)) s)"
}
export -f one
export ptx fake build work

for target in "${targets[@]}"; do
    for program in "${programs[@]}" "${plugin[@]}"; do
        echo "$target $program"
    done
done | xargs -P "${TESS_PTX_JOBS:-$(nproc)}" -I{} bash -c 'one $1' one {}

for target in "${targets[@]}"; do
    cat "$work/$target"-*.log >"$work/log"
    sed -n 's/^kernel //p' "$work/log" | sort -u >"$work/kernels"
    awk '$1 == "launch" { print $2 }' "$work/log" | sort -u >"$work/launched"
    echo "$target: $(wc -l <"$work/launched") of $(wc -l <"$work/kernels") kernels launched, $(grep -c ^launch "$work/log") launches"
    while read -r kernel; do
        [ -n "${left_out[$kernel]-}" ] && { echo "left out: $kernel: ${left_out[$kernel]}"; continue; }
        echo "FAILED $target: no test launches $kernel" && touch "$work/failed"
    done < <(comm -23 "$work/kernels" "$work/launched")
    for kernel in "${!left_out[@]}"; do
        ! grep -qxF "$kernel" "$work/launched" || { echo "FAILED $kernel is launched: it is not left out any more"; touch "$work/failed"; }
    done
done
[ ! -e "$work/failed" ]
