#!/usr/bin/env bash
# `tessera bench step`: its report is consistent, every job gives the same bits, bad input is refused.
. "$(dirname "$0")/support.sh"

make_model model.json true
small="--model model.json --batch 4 --micro 1 --seq 19 --steps 2"
# measure NAME ARGUMENTS...: writes the report of a run to NAME.json.
measure() {
    local name=$1
    shift
    expect "bench step: $name" 0 "phases" "$tessera" bench step $small --json=$name.json "$@"
}
fact() { sed -n "s/.*\"$2\": \"\(.*\)\".*/\1/p" "$1.json"; }
# value NAME ROW KEY: prints a number of a row; a report has one key and value a line.
value() {
    awk -v row="\"name\": \"$2\"" -v key="\"$3\":" 'index($0, row) { in_row = 1 } in_row && $1 == key { print $2 + 0; exit }
        in_row && /}/ { exit }' "$1.json"
}

measure one
measure two -n 2
measure four -n 4 --threads 1
measure again -n 2 --strategy zero2 --recompute full
measure context -n 2 --cp 2 --leaves 4 --cp-method gather # rows of 19 tokens lie in one leaf
for name in two four again context; do
    for step in "step 1" "step 4"; do
        [ -n "$(fact $name "$step")" ] && [ "$(fact $name "$step")" = "$(fact one "$step")" ] &&
            pass "$name: $step has the bits of one rank" || fail "$name: $step: $(fact $name "$step"), one rank: $(fact one "$step")"
    done
done
[ "$(fact one "step 1")" != "$(fact one "step 4")" ] && pass "it learns" || fail "the loss stays: $(fact one "step 1")"

for name in one two; do
    sum=0
    for phase in other data gather forward backward reduce optimizer wait; do
        ms=$(value $name $phase time)
        [ -n "$ms" ] || fail "$name: no phase $phase"
        sum=$(awk "BEGIN { print $sum + ${ms:-0} }")
    done
    step=$(value $name step time)
    awk "BEGIN { exit !($step > 0 && $sum > 0.999 * $step && $sum < 1.001 * $step) }" &&
        pass "$name: the phases add up to the step" || fail "$name: phases $sum ms, step $step ms"
    awk "BEGIN { exit !($(value $name forward time) > 0 && $(value $name backward time) > 0) }" &&
        pass "$name: forward and backward are there" || fail "$name: forward $(value $name forward time)"
done
# `of POOL NAME` prints the memory of all ranks at the peak, in MiB.
of() { awk -v row="\"memory of $1\"" 'index($0, row) { in_row = 1 } in_row && /"all ranks"/ { print $3 + 0; exit }' "$2.json"; }
params() { of params "$1"; }
[ -n "$(params one)" ] && [ "$(params one)" = "$(params four)" ] && pass "four ranks hold the parameters of one" ||
    fail "params: $(params one) MiB on one rank, $(params four) on four"

# A pass holds the activations of its rows alone, and passes cut nothing else: the loss has the same bits.
# There are enough rows that the memory of kernels, which does not belong to them, is little compared with theirs.
for passes in 1 2 4; do
    measure passes$passes --batch 32 --micro 32 --seq 61 --passes $passes
    expect "bench step: $passes passes are in the report" 0 "$passes pass" cat passes$passes.json
done
for pair in "2 1" "4 2"; do
    set -- $pair
    awk "BEGIN { exit !($(of activations passes$1) < 0.7 * $(of activations passes$2)) }" &&
        pass "$1 passes need less than 0.7 of the activations of $2" ||
        fail "activations: $(of activations passes$1) MiB in $1 passes, $(of activations passes$2) in $2"
    [ "$(fact passes$1 "step 1" | cut -d, -f1)" = "$(fact passes$2 "step 1" | cut -d, -f1)" ] &&
        pass "$1 passes: the loss of $2" || fail "step 1: $(fact passes$1 "step 1"), $(fact passes$2 "step 1")"
done
expect "more passes than rows" 2 "--passes: 2, but a micro-batch has 1 row (--micro)" "$tessera" bench step $small --passes 2
expect "rows that micro-batches do not divide" 2 "--micro: 6 rows of a step are not a multiple of 4" \
    "$tessera" bench step --model model.json --seq 8 --batch 6 --quick
expect "ranks that layers do not divide" 2 "-n: 3 ranks are not a multiple of --tp 2 x --pp 1 x --cp 1" "$tessera" bench step $small -n 3 --tp 2
expect "fewer rows than a usual micro-batch" 0 "2 rows" "$tessera" bench step --model model.json --seq 8 --batch 2 --quick

# An old report slower than any machine, so that noise cannot fail the comparison.
awk '$1 == "\"time\":" { $2 = $2 * 1e4 "," } { print }' one.json >slower.json
expect "an older report is compared with" 0 "0 of 1 rows slower" "$tessera" bench step $small --compare slower.json
expect "a preset" 0 "5.87 M parameters" "$tessera" bench step --model llama-5m --batch 1 --micro 1 --seq 8 --quick
expect "fp32" 0 "fp32" "$tessera" bench step $small --precision fp32 --quick
expect "no such model" 2 "gpt2-1.5b, llama-1b, llama-405b, llama-5m" "$tessera" bench step --model gpt3
expect "ranks that share the batch unevenly" 0 "MFU" "$tessera" bench step $small --quick -n 3
expect "rows longer than the model" 2 "the model allows 1 to 64" "$tessera" bench step $small --seq 65
expect "--repeat" 2 "--steps" "$tessera" bench step $small --repeat 3
# Packing: 8 documents of 24 tokens on average in rows of 48, and of 12.
expect "bench packing" 0 "packed, mean 12" "$tessera" bench packing --model model.json --documents 8 --micro 2 --seq 48 --quick --json=packing.json
for mean in 24:50:2 12:75:4; do
    IFS=: read -r length waste fewer <<<$mean
    got="$(value packing "padded, mean $length" waste) $(value packing "packed, mean $length" waste) $(value packing "packed, mean $length" fewer)"
    [ "$got" = "$waste 0 $fewer" ] && pass "padding to 48 wastes $waste% at a mean of $length" || fail "packing, mean $length: $got"
    [ "$(value packing "padded, mean $length" loss)" = "$(value packing "packed, mean $length" loss)" ] && pass "the loss is the same" || fail "the loss differs"
done
# Its usual rows fit a model with the positions of its usual model.
sed 's/"max_position_embeddings": 64/"max_position_embeddings": 1024/' model.json >long.json
expect "bench packing by itself" 0 "packed, mean 256" "$tessera" bench packing --model long.json --documents 8 --quick
expect "rows that do not fill" 2 "multiples of 8 and 4" "$tessera" bench packing --model model.json --documents 6 --quick

finish
