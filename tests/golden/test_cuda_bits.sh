#!/usr/bin/env bash
# test_cuda_bits.sh TESSERA PROJECT MODEL [all]: a GPU gives the bits that are recorded for the table `ref`; `all`: in both dtypes,
# for ranks that share it, strategies and recomputation. Without a GPU a driver that plays one does (tests/CMakeLists.txt); TESSERA_DEVICE
# names another device, TESSERA_SHARDS whose memory has the shards.
. "$(dirname "$0")/../cli/support.sh"
. "$project/tests/golden/bits.sh"
model=$3
export TESSERA_DEVICE=${TESSERA_DEVICE:-cuda} TESSERA_CUBLAS=off # the plug-in's own products
prepare "$model"

compare() { # DTYPE RANKS STRATEGY RECOMPUTE
    local name="$model $1, $TESSERA_DEVICE, shards ${TESSERA_SHARDS:-auto}, $2 ranks, strategy $3, recompute $4"
    recorded "$model" "$1" "$(record_of "$1" ref)" >wanted
    if [ ! -s wanted ]; then
        fail "tests/golden/$model.txt says nothing of $1 on ref"
    elif ! bits ref "$@" >got; then
        fail "$name: $(tail -n 3 log)"
    elif ! grep -q "^device $TESSERA_DEVICE" log; then
        fail "$name: it did not run there: $(head -n 3 log)"
    elif [ "${TESSERA_SHARDS:-}" = device ] && ! grep -q "lie in the device's memory" log; then
        fail "$name: its shards are elsewhere"
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
elif [ "$TESSERA_DEVICE" = far ]; then
    compare float32 1 full none
    compare bfloat16 2 zero1 full
    compare bfloat16 2 none none
    compare float32 3 full none
    compare float32 4 hybrid full
else
    compare float32 2 zero2 none
fi
finish
