#!/usr/bin/env bash
# test_cuda_bits.sh TESSERA PROJECT MODEL [all]: a GPU gives the bits that are recorded for the table `ref`; `all`: in both dtypes,
# for ranks that share it, strategies and recomputation. Without a GPU a driver that plays one does (tests/CMakeLists.txt).
. "$(dirname "$0")/../cli/support.sh"
. "$project/tests/golden/bits.sh"
model=$3
export TESSERA_DEVICE=cuda TESSERA_CUBLAS=off # the plug-in's own products
prepare "$model"

compare() { # DTYPE RANKS STRATEGY RECOMPUTE
    local name="$model $1, cuda, $2 ranks, strategy $3, recompute $4"
    recorded "$model" "$1" "$(record_of "$1" ref)" >wanted
    if [ ! -s wanted ]; then
        fail "tests/golden/$model.txt says nothing of $1 on ref"
    elif ! bits ref "$@" >got; then
        fail "$name: $(tail -n 3 log)"
    elif ! grep -q "device cuda" log; then
        fail "$name: it did not run on a GPU: $(head -n 3 log)"
    elif cmp -s wanted got; then
        pass "$name"
    else
        fail "$name: $(diff wanted got | head -n 4)"
    fi
}

if [ "${4:-}" = all ]; then
    for dtype in float32 bfloat16; do
        for recompute in none full; do
            compare "$dtype" 1 none $recompute
            compare "$dtype" 2 zero1 $recompute
            compare "$dtype" 2 zero2 $recompute
            compare "$dtype" 4 full $recompute
            compare "$dtype" 4 hybrid $recompute
        done
    done
else
    compare float32 2 zero2 none
fi
finish
