#!/usr/bin/env bash
# interpret.sh BUILD quick|all: runs the tests of the rows with their kernels on the interpreter of PTX. Every kernel that nvcc
# made must be launched, and only the kernels for tensor cores may approximate. `quick`: the tests that take seconds. `all`: every
# test.
# TESS_PTX_JOBS: processes at a time (default: the number of cores). TESS_PTX_LARGE: products and attention at their larger shapes.
set -u
build=$(realpath "$1") how=$2 here=$(realpath "$(dirname "$0")")
ptx=$build/tests/ptx fake=$build/tests/cuda_fake
[ -e "$ptx/ptx_norm" ] || { echo "SKIPPED: there is no PTX to interpret: make test-ptx builds it, where CUDA's nvcc is installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Tests with the rows linked, then those of the plug-in: a program and the cases to run, or "" for all. whole_run: a model.
quick=("cross_entropy tensor_tables" copy_rows convert rope glu norm rows routing gemm_fused "gemm_grouped a_gpu_computes" ptx_attention ptx_rows)
slow=(reduce embedding cross_entropy adamw "attention output_and")
plugin=("test_device_cuda every_row" "test_device_cuda_tensor " "test_device_cuda_products products_are_within" "test_device_cuda_products rows_do_not"
    "whole_run gpt2" "whole_run llama")
# Kernels that no test launches, and why: lines of left_out.txt with `all`, or with `quick` for the quick tests.
declare -A left_out=()
while read -r mode kernel reason; do
    [[ $mode == '#'* || ($mode == quick && $how == all) ]] || left_out[$kernel]=$reason
done <"$here/left_out.txt"

# The PTX of each target: one line a module. nvcc gives some targets the same, which need one run.
for object in "$ptx"/*.o; do
    LC_ALL=C tr '\0\n' '\n\1' <"$object" | LC_ALL=C grep -a '\.target sm_' | LC_ALL=C awk -v to="$work/ptx" '
        { match($0, /\.target sm_[0-9a-z]+/); target = substr($0, RSTART + 8, RLENGTH - 8)
          sub(/\.target sm_[0-9a-z]+/, ""); print >>(to "." target) }'
done
distinct=()
for text in "$work"/ptx.*; do
    for other in "${distinct[@]}"; do
        cmp -s "$text" "$work/ptx.$other" && { echo "same   ${text##*.} has the PTX of $other"; continue 2; }
    done
    distinct+=("${text##*.}")
done

case $how in
quick) targets=("${distinct[@]}") programs=("${quick[@]}") ;;
all) targets=("${distinct[@]}") programs=("${quick[@]}" "${slow[@]}") ;;
*) echo "interpret.sh BUILD quick|all" >&2; exit 2 ;;
esac

one() { # TARGET PROGRAM [CASE]
    local name=$1-$2${3:+-$3} begin=$SECONDS code
    export TESS_PTX_TARGET=$1 TESS_PTX_LOG=$work/$name.log
    if [[ $2 == whole_run ]]; then
        bash "$here/whole_run.sh" "$build/tessera" "$here/../../.." "$build" "$1" "$3" >"$work/$name.out" 2>&1
    elif [[ $2 == test_* ]]; then
        LD_PRELOAD=$ptx/libtess_ptx.so LD_LIBRARY_PATH=$fake TESSERA_CUDA=$ptx/libtessera_cuda.so \
            TESSERA_CUBLAS=$([[ $2 == test_device_cuda ]] && echo off || echo own) "$build/tests/$2" ${3:+"$3"} >"$work/$name.out" 2>&1
    else
        "$ptx/ptx_$2" ${3:+"$3"} >"$work/$name.out" 2>&1
    fi
    code=$?
    [ "$code" = 0 ] || { grep -vE '^ok ' "$work/$name.out"; echo "FAILED $name"; touch "$work/failed"; return; }
    echo "ok     $name ($((SECONDS - begin)) s)"
}
export -f one
export ptx fake build work here

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
    awk '$1 == "launch" && $4 == "approximates" && $3 !~ /^tensor_/ && $2 !~ /approximate_gradient/ { print "FAILED " $2 " of " $3 " approximates, but must have the bits of ref" }' \
        "$work/log" | sort -u | grep . && touch "$work/failed"
    while read -r kernel; do
        [ -n "${left_out[$kernel]-}" ] && { echo "left out: $kernel: ${left_out[$kernel]}"; continue; }
        echo "FAILED $target: no test launches $kernel" && touch "$work/failed"
    done < <(comm -23 "$work/kernels" "$work/launched")
    for kernel in "${!left_out[@]}"; do
        ! grep -qxF "$kernel" "$work/launched" || { echo "FAILED $kernel is launched: it is not left out any more"; touch "$work/failed"; }
    done
done
[ ! -e "$work/failed" ]
