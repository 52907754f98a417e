#!/usr/bin/env bash
# gpu_pack.sh PROJECT BUILD FAKE: what tools/gpu-pack gathers runs with nothing of this machine's but glibc, and is small, with the real
# plug-in too where nvcc has built it; with the driver and the plug-in of FAKE, which play a GPU, its first run goes through, and says so
# when something fails or proves nothing.
set -u
project=$1 build=$2 fake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED $*"; exit 1; }

cd "$work" || exit 1
if [ -e "$build/libtessera_cuda.so" ]; then
    env -u TESSERA_CUDA "$project/tools/gpu-pack" "$build" "$work/real/gpu-pack" >packed || fail "the real plug-in is not packed: $(cat packed)"
    cat packed
    rm -r real
fi
printf '#A model of no GPU, for this test.\nkernels\tlayernorm forward bf16 gpt2 64x768\t0.001\nkernels\ta row that nobody measures\t2\n' >model.tsv
TESSERA_CUDA=$fake/libtessera_cuda.so "$project/tools/gpu-pack" "$build" "$work/made/gpu-pack" model.tsv >packed || fail "it does not pack: $(cat packed)"
cat packed
mkdir elsewhere && tar -C elsewhere -xf made/gpu-pack.tar.gz && rm -r made || fail "no tar"
cd elsewhere/gpu-pack || exit 1
strangers=$(LD_LIBRARY_PATH=$PWD/lib ldd bin/* | awk -v here="$PWD/lib/" '$2 == "=>" && index($3, here) != 1 { print $1 }' | sort -u |
    grep -vxE 'lib(c|m|dl|rt|pthread|resolv)\.so\.[0-9]+')
[ -z "$strangers" ] || fail "it takes libraries of this machine: $strangers"

first_run() { # FAKE WISH STAGES [SECONDS [CUBLAS]]
    env -i PATH=/usr/bin:/bin HOME="$work" LD_LIBRARY_PATH="$1" TESSERA_CUBLAS="${5-off}" CUDA_FAKE="$2" ./gpu-first-run --quick --seconds "${4:-570}" --only "$3" "$work/results"
}
first_run "$fake" devices=1,ipc=1 'uploads|timed|memory|kernels' >log || fail "its first run: $(cat log)"
grep -q '"failed": 0' ../../results/summary.json || fail "summary: $(cat ../../results/summary.json)"
for stage in rows-uploads rows-timed_events peers-memory kernels; do
    grep -qE "^$stage +ok" log || fail "no stage $stage: $(cat log)"
done
[ "$(tar -tzf ../../results.tar.gz | grep -cE '^results/(rows-uploads.log|summary.json|kernels.json)$')" = 3 ] || fail "the archive: $(tar -tzf ../../results.tar.gz)"
tail -n 12 log | grep -qE '^rows-uploads +ok' || fail "the table is not at the end: $(cat log)"
grep -q 'rmsnorm\|layernorm' log && grep -q '"tables"' ../../results/kernels.json || fail "no figures: $(cat log)"
awk '/^A model of no GPU/ { at = NR } /^kernels: layernorm forward bf16 gpt2 64x768 +0.001 +[0-9.]+/ && NR == at + 2 { row = NR }
    /^kernels: a row that nobody measures +2 not measured/ && NR == at + 3 { other = NR } /^tessera .* bench kernels/ { tables = NR }
    END { exit !(at && row && other && other < tables) }' log || fail "the model is not next to what was measured, before the tables: $(cat log)"
! first_run "$fake" "devices=1,fail=cuEventElapsedTime:1:719" 'uploads|kernels' >log || fail "an error goes unseen: $(cat log)"
grep -qE '^kernels +FAILED' log && grep -qE '^rows-uploads +ok' log || fail "after an error: $(cat log)"
first_run "$fake" devices=1 'uploads|kernels' 9 >log && grep -qE '^kernels +late' log && ! grep -qE ' ok ' log || fail "it begins what would end late: $(cat log)"
! first_run "$fake" devices=1 'memory' >log && grep -qE '^peers-memory +FAILED' log || fail "memory that goes through the host is a proof: $(cat log)"
if first_run "$fake" devices=1 'uploads|cublas_is_there' 570 "" >log; grep -q libcublasLt ../../results/info.log; then
    echo "SKIPPED: this machine has cuBLAS, so it cannot be missing"
else
    grep -qE '^cublas_is_there +FAILED' log || fail "a missing cuBLAS goes unseen: $(cat log)"
fi
# The plug-in that nvcc made, its kernels on the interpreter of PTX, its launches in the driver's queues: every proof and the bench,
# from the pack. (Machine code of GPUs, and CUDA's runtime of the plug-in that is shipped, want a real driver.)
if [ -e "$build/tests/ptx/libtessera_cuda.so" ]; then
    TESSERA_CUDA=$build/tests/ptx/libtessera_cuda.so "$project/tools/gpu-pack" "$build" "$work/nvcc/gpu-pack" >packed || fail "it does not pack: $(cat packed)"
    cd "$work/nvcc/gpu-pack" || exit 1
    env -i PATH=/usr/bin:/bin HOME="$work" LD_LIBRARY_PATH="$fake" LD_PRELOAD="$PWD/lib/libtess_ptx.so" TESS_PTX_TARGET=sm_90a TESSERA_CUBLAS=own \
        CUDA_FAKE=devices=2,ipc=1 ./gpu-first-run --quick --only 'rows|tensor|memory|kernels' "$work/nvcc-results" >log || fail "nvcc's plug-in: $(cat log)"
    for stage in rows-every_row rows-uploads rows-timed_events tensor-attention tensor-products_are_within tensor-rows_do_not peers-memory kernels; do
        grep -qE "^$stage +ok" log || fail "nvcc's plug-in: no stage $stage: $(cat log)"
    done
    cd "$work/elsewhere/gpu-pack" || exit 1
else
    echo "SKIPPED: nvcc's plug-in with its kernels on the interpreter: make test-ptx builds it"
fi
! first_run "" devices=1 . >log && grep -q "no NVIDIA GPU" log || fail "without a GPU: $(cat log)"
echo "ok"
