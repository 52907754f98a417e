#!/usr/bin/env bash
# test_bits.sh TESSERA PROJECT MODEL [all]: kernel tables, strategies and recomputation give the bits that are recorded for
# the model (tests/golden/bits.sh). A table is what differs in kernels, so the fastest one that every such CPU shares has
# every strategy with and without recomputation, and the others three of these; `all`: each has every one. A change that moves
# bits on purpose records them again: tests/golden/record says how.
. "$(dirname "$0")/../cli/support.sh"
. "$project/tests/golden/bits.sh"
model=$3
all=${4:-}
prepare "$model"

# difference WANTED GOT: the first step that differs, in words.
difference() {
    awk 'NR == FNR { want[FNR] = $0; n = FNR; next }
        $0 != want[FNR] {
            split(want[FNR], w, " ")
            if ($1 == "weights") print "the steps agree, but the trained weights do not: " w[2] " was expected, SHA-256 is " $2
            else if ($2 != w[2]) print "step " $1 ": loss " w[2] " was expected, is " $2
            else print "step " $1 ": grad_norm " w[3] " was expected, is " $3
            told = 1
            exit
        }
        END { if (!told && FNR != n) print "there are " FNR " lines, " n " were expected" }' "$1" "$2"
}

# compare DTYPE TABLE RANKS STRATEGY RECOMPUTE: to the file `wanted`, which the first run makes where there is no record.
compare() {
    local name="$model $1, kernels $2, $3 ranks, strategy $4, recompute $5"
    if ! bits "$2" "$1" "$3" "$4" "$5" >got; then
        fail "$name: $(tail -n 3 log)"
    elif [ ! -s wanted ]; then
        cp got wanted
        pass "$name (what the others are compared to)"
    elif cmp -s wanted got; then
        pass "$name"
    else
        fail "$name: $(difference wanted got)"
        echo "    expected by $expected_by"
    fi
}

widest=ref
has_table avx2 && widest=avx2
for table in "${tables[@]}"; do
    if ! has_table "$table"; then
        missing="kernels $table: not on this CPU, so their bits were not compared"
        recorded "$model" bfloat16 "$(record_of bfloat16 "$table")" | grep -qx "not recorded" &&
            missing+="; bfloat16 is not recorded: tests/golden/record 'WHY' on a machine with them"
        echo "SKIPPED: $missing"
        continue
    fi
    for dtype in $(dtypes_of "$model"); do
        shared=$(record_of "$dtype" "$table")
        expected_by="record $dtype of tests/golden/$model.txt"
        recorded "$model" "$dtype" "$shared" >wanted
        if [ ! -s wanted ]; then
            fail "tests/golden/$model.txt says nothing of $dtype on $shared"
            continue
        elif grep -qx "not recorded" wanted; then
            echo "SKIPPED: kernels $table: $dtype is not recorded, so its runs were compared to each other: tests/golden/record 'WHY'"
            : >wanted
            expected_by="the first run with these kernels: there is no record"
        fi
        if [ "$table" = $widest ] || [ -n "$all" ]; then
            for recompute in none full ${all:+feed_forward,attention attention_inputs,residual}; do
                for strategy in none zero1 zero2; do
                    compare "$dtype" "$table" 2 "$strategy" "$recompute"
                done
                for strategy in full hybrid; do
                    compare "$dtype" "$table" 4 "$strategy" "$recompute"
                done
            done
        else
            compare "$dtype" "$table" 2 zero2 none
            compare "$dtype" "$table" 4 hybrid full
            compare "$dtype" "$table" 2 full feed_forward,attention_inputs
        fi
    done
done
finish
