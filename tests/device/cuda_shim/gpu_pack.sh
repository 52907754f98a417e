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
TESSERA_CUDA=$fake/libtessera_cuda.so "$project/tools/gpu-pack" "$build" "$work/made/gpu-pack" >packed || fail "it does not pack: $(cat packed)"
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
! first_run "$fake" "devices=1,fail=cuEventElapsedTime:1:719" 'uploads|kernels' >log || fail "an error goes unseen: $(cat log)"
grep -qE '^kernels +FAILED' log && grep -qE '^rows-uploads +ok' log || fail "after an error: $(cat log)"
first_run "$fake" devices=1 'uploads|kernels' 9 >log && grep -qE '^kernels +late' log && ! grep -qE ' ok ' log || fail "it begins what would end late: $(cat log)"
! first_run "$fake" devices=1 'memory' >log && grep -qE '^peers-memory +FAILED' log || fail "memory that goes through the host is a proof: $(cat log)"
if first_run "$fake" devices=1 'uploads|cublas_is_there' 570 "" >log; grep -q libcublasLt ../../results/info.log; then
    echo "SKIPPED: this machine has cuBLAS, so it cannot be missing"
else
    grep -qE '^cublas_is_there +FAILED' log || fail "a missing cuBLAS goes unseen: $(cat log)"
fi
! first_run "" devices=1 . >log && grep -q "no NVIDIA GPU" log || fail "without a GPU: $(cat log)"
echo "ok"
