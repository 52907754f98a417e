#!/usr/bin/env bash
# planted.sh BUILD: errors that are planted in our own kernels, one at a time, are found, and the message says what is wrong. The
# PTX is changed when it is loaded (TESS_PTX_PLANT), so nothing is compiled. test_ptx.c has more kinds, without nvcc.
set -u
ptx=$(realpath "$1")/tests/ptx
[ -e "$ptx/ptx_norm" ] || { echo "SKIPPED: there is no PTX to interpret: make test-ptx builds it, where CUDA's nvcc is installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TESS_PTX_TARGET=${TESS_PTX_TARGET:-sm_90a} TESS_PTX_LOG=$work/log
failed=0
# Each row has what~message~program~case~kernel~number~find~text
while IFS='~' read -r what message program case kernel number find text; do
    rm -f "$work/log"
    TESS_PTX_PLANT="$kernel~$number~$find~$text" timeout 120 "$ptx/ptx_$program" $case >"$work/out" 2>&1
    code=$?
    if ! grep -q '^planted' "$work/log"; then
        echo "FAILED $what: $kernel has no $number times '$find' now: choose another place"
    elif [ "$message" = approximates ] && grep -q "^launch $kernel.* approximates" "$work/log"; then
        echo "ok     $what: the launch approximates"
        continue
    elif [ $code != 0 ] && grep -q "$message" "$work/out"; then
        echo "ok     $what: $(grep -m 1 -o "$message.*" "$work/out" | cut -c 1-110)"
        continue
    else
        echo "FAILED $what is not found (exit code $code): $(tail -n 1 "$work/out")"
    fi
    failed=1
done <<'ROWS'
a barrier is missing~race: ~cross_entropy~entropy~_Z20cross_entropy_kernelI14exact_gradientfLb0~2~bar\.sync 0;~
a barrier that some threads skip~divergence: ~embedding~~_Z20add_up_counts_kernel~5~@(%p[0-9]+) bra~@\1 bar.sync 0; @\1 bra
an asynchronous copy is used too early~asynchronous copy: ~ptx_rows~leaves~_Z18tensor_gemm_kernelIfLi1ELi1ELi4E~1~cp\.async\.wait_group 2;~cp.async.wait_group 7;
a loop runs once too often~out of range: ~ptx_rows~aligned~_Z16move_rows_kernelI11cuda_word16~1~setp\.ge\.s64~setp.gt.s64
an address is not aligned~misaligned: ~ptx_rows~aligned~_Z16move_rows_kernelI11cuda_word16~1~ld\.global\.s32 ([^]]*)\]~ld.global.s32 \1+2]
a shuffle names half of the lanes~divergence: ~norm~~_Z19norm_forward_kernelIf~1~mov\.u32 (%r[0-9]+), -1;~mov.u32 \1, 65535;
a division by 0~a division by 0~ptx_rows~aligned~_Z16move_rows_kernelI11cuda_word16~1~div\.u32 ([^,]*, [^,]*), [^;]*;~div.u32 \1, 0;
a sum begins with no value~no value: ~reduce~~_Z16row_sumsq_kernel~1~mov\.f64 %fd[0-9]+, 0d0000000000000000;~
shared memory is read that nothing wrote~no value: ~cross_entropy~entropy~_Z20cross_entropy_kernelI14exact_gradientfLb0~1~st\.shared\.f32 [^;]*;~
an atomic is no atomic~race: ~embedding~~_Z18rank_tokens_kernel~1~atom\.global\.add\.u32 ([^,]*), (\[[^]]*\]), [^;]*;~ld.global.u32 \1, \2; st.global.u32 \2, 1;
a quotient is approximate~approximates~norm~~_Z19norm_forward_kernelIf~1~div\.rn\.f32~div.approx.f32
a term is subtracted~FAILED~reduce~~_Z20reduce_floats_kernel~1~add\.rn\.f32~sub.rn.f32
ROWS
exit $failed
