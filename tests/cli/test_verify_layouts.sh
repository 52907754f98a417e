#!/usr/bin/env bash
# `tessera verify --layouts`: every way to share a model among ranks is run and compared with one rank; what cannot run
# says why; differences are named.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 5/' model.json
make_config run.yaml
walk() { "$tessera" verify run.yaml --steps 2 training.threads=1 "$@"; }
lines() { # NAME NUMBER PATTERN: of the last output
    local n
    n=$(grep -cE "$3" output)
    [ "$n" = "$2" ] && pass "$1" || fail "$1: $n lines, expected $2: $(tail -n 8 output)"
}

# All of more ranks, on sizes that nothing divides: minutes.
if [ -n "${3:-}" ]; then
    sed -i 's/"num_hidden_layers": 5/"num_hidden_layers": 11/' model.json
    for n in 5 6 8; do
        expect "every layout of $n ranks" 0 "the same bits" walk -n $n --layouts all training.local_batch_size=1 \
            training.global_batch_size=24
        tail -n 7 output
    done
    finish
fi

# Five layers: no stages for two a rank of four.
expect "every layout of four ranks" 0 "the same bits: 69 of 69 (3 more cannot run" walk -n 4 --layouts all
lines "each has a line" 72 "^(same|refused) "
lines "stages without layers are refused" 3 "^refused .*4 ranks with 2 stages each .* more stages than the model's 5 layers"
lines "an axis has a line" 1 "^pp            1: 18 of 18, 2: 48 of 48, 4: 3 of 3$"
lines "and another one" 1 "^tp            1: 55 of 55, 2: 13 of 13, 4: 1 of 1$"
lines "and strategies" 1 "^strategy      none: 8 of 8, zero1: 17 of 17, zero2: 17 of 17, full: 18 of 18, hybrid: 9 of 9$"
lines "and schedules" 1 "^schedule      gpipe: 9 of 9, 1f1b: 9 of 9, interleaved: 8 of 8, zb_h1: 9 of 9, zbv: 8 of 8, "

expect "three stages" 0 "the same bits: 3 of 3 (3 more cannot run" walk -n 3 --layouts pp=3
expect_metrics "as metrics" 0 walk -n 3 --layouts pp=3
expect "a group that does not divide the shards cannot run" 0 "the same bits: 3 of 3 (1 more cannot run" walk -n 3 \
    --layouts dp_shard=3 parallelism.fsdp_reshard_after_forward=2
expect "those with some words" 0 "the same bits: 4 of 4" walk -n 4 \
    --layouts pp=2,dp_shard=2,strategy=full,strategy=none,schedule=1f1b,schedule=ZB_H1
lines "and no others" 4 "^same     pp 2 \((1f1b|zb_h1)\) x dp_shard 2, (none|full) "
expect "one rank is a layout" 0 "same     one rank, full" walk -n 1 --layouts all
expect "as JSON" 0 '"refused": 0' walk -n 2 --layouts pp=1 --json
grep -q '"outcome": "same"' output && ! grep -q "^same" output && pass "and nothing else" || fail "JSON: $(cat output)"

# ---- What is wrong
expect "a schedule that needs more micro-batches" 2 "dualpipev with 2 ranks needs 4 or more micro-batches, not 2" walk -n 2 \
    --layouts schedule=dualpipev training.global_batch_size=4
grep -q "^nothing is known: none of 1 layouts can run" output && pass "is no success" || fail "no success: $(tail -n 2 output)"
expect "a layout that gives other bits" 5 "not the same: 0 of 2" walk -n 2 --layouts pp=2,schedule=1f1b,schedule=gpipe \
    fault.spec="rank=0 step=2 point=gradient kind=flip tensor=model.layers.0.mlp.up_proj.weight bit=20"
lines "the difference is named with its stage" 2 \
    "^differs .* from step 2 on, first model.layers.0.mlp.up_proj.weight \(stage 0 of 2\)"
grep -q "^schedule      gpipe: 0 of 1, 1f1b: 0 of 1$" output && pass "the axis tells" || fail "axis: $(tail -n 8 output)"
expect "a layout that fails" 1 "failed   dp_shard 2, none" walk -n 2 --layouts strategy=none,pp=1 \
    fault.spec="rank=1 step=2 point=phase:optimizer kind=exit"
expect "an unknown word" 2 "'xp' is none of pp, dp_replicate, dp_shard, cp, tp, ep, strategy, schedule" walk -n 2 --layouts xp=2
expect "no condition" 2 "'everything' is no condition: write all, or words" walk -n 2 --layouts everything
expect "an unknown strategy" 2 "'zero3' is not one of none, zero1, zero2, full, hybrid" walk --layouts strategy=zero3
expect "an unknown schedule" 2 "1f1b" walk --layouts schedule=1f1p
expect "a degree that is none" 2 "pp=two: give a number from 1" walk --layouts pp=two
expect "ranks that divide tokens without leaves" 2 "set training.context_leaves=4" walk -n 4 --layouts cp=2
expect "a degree that does not divide" 2 "no layout of 4 ranks is so" walk -n 4 --layouts pp=3
[ -e out ] && fail "the dump folder was made" || pass "nothing was written"
finish
