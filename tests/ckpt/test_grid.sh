#!/usr/bin/env bash
# A checkpoint whose pieces form an uneven grid of rows and columns is to every command what one of rows is: listed,
# verified, compared, converted, resumed. $3: regrid.
. "$(dirname "$0")/../cli/support.sh"
regrid=$(realpath "$3")
make_text 300 >text.txt
make_model model.json
make_config run.yaml
common=(lr_scheduler.warmup_steps=0 lr_scheduler.decay_type=constant validation.enable=false checkpoint.interval=2 model.save_dtype=float32)
train() { # FOLDER RANKS STEPS [ARGUMENTS]
    "$tessera" train run.yaml -n "$2" training.steps="$3" job.dump_folder="$1" "${common[@]}" "${@:4}" >log 2>&1
}
columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

train rows 6 2 || { fail "training: $(tail -n 3 log)"; finish; }
rows=rows/checkpoint/step-00000002
"$regrid" "$rows" grids 2 3 || { fail "regrid"; finish; }
grid=grids/step-00000002

# ---- ls, inspect, verify, diff
expect "ls shows it" 0 "step-00000002  <- newest" "$tessera" ckpt ls grids
expect "ls as JSON says that it is valid" 0 '"state": "valid"' "$tessera" ckpt ls grids --json
expect "inspect counts" 0 "90 tensors" "$tessera" ckpt inspect $grid
"$tessera" ckpt inspect $grid 'model.*0.mlp.down_proj*' --pieces >output
for box in '[0, 21) x [0, 18)' '[0, 21) x [36, 53)' '[21, 42) x [18, 36)'; do
    grep -qF "$box  rank-" output && pass "inspect shows the piece $box" || fail "no piece $box: $(cat output)"
done
grep -qF '[21, 42) x [36, 53)  rank-00005.data: bytes [' output && pass "and who wrote it" || fail "$(cat output)"
expect "verify" 0 "ok  $grid: 90 tensors" "$tessera" ckpt verify $grid
expect "diff finds the same values" 0 "90 same" "$tessera" ckpt diff $rows $grid

# ---- convert: the same bytes as from rows
mkdir from-rows from-grid
for words in "hf --assets rows/model" "all.safetensors" "all.pt" "dcp --files 4"; do
    read -r out more <<<"$words"
    [ -n "$more" ] && more="--to $out $more"
    for from in "$rows from-rows" "$grid from-grid"; do
        read -r in to <<<"$from"
        "$tessera" convert $in $to/$out $more >log 2>&1 || fail "convert $in: $(tail -n 3 log)"
    done
    diff -r from-rows/$out from-grid/$out >output && pass "$out has the same bytes" ||
        fail "$out differs: $(head -n 3 output)"
done
expect "split makes rows of it" 0 "read again and equal" "$tessera" ckpt split $grid split -n 4
expect "which are alike" 0 "90 same" "$tessera" ckpt diff $rows split

# ---- resume and start from it
mkdir -p grid/checkpoint
cp -r $grid grid/checkpoint
for run in "rows 3 6" "grid 4 6 parallelism.shard_strategy=none"; do
    read -r -a words <<<"$run"
    train "${words[@]}" && grep -q "resumed from step 2" log && pass "${words[0]}: goes on from step 2" ||
        fail "${words[0]}: $(tail -n 3 log)"
done
cmp -s <(columns rows | tail -n 4) <(columns grid) && pass "to the same losses" || fail "$(diff <(columns rows) <(columns grid))"
cmp -s {rows,grid}/model/model.safetensors && pass "and the same weights" || fail "the weights differ"
train warm 2 1 checkpoint.initial_load_path=$grid tokenizer.path=rows/tokenizer.json && pass "another run starts with its weights" ||
    fail "initial_load_path: $(tail -n 3 log)"

# ---- Damage in one piece of the grid is named with its box's file and rank.
printf 'x' | dd of=$grid/rank-00004.data bs=1 seek=8192 conv=notrunc status=none
expect "damage is named" 1 "rank-00004.data" "$tessera" ckpt verify $grid
finish
