#!/usr/bin/env bash
# Every optimizer gives the same bits however ranks share its state, learns, and goes on from its checkpoint on another
# number of ranks. Bad settings are named.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
sed -i 's/"intermediate_size": 53/"intermediate_size": 301/' model.json # rows of more than one block of 8-bit state
make_config run.yaml

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# train FOLDER ARGUMENTS...
train() {
    local out=$1
    shift
    rm -rf "$out/model"
    "$tessera" train run.yaml job.dump_folder="$out" training.steps=4 checkpoint.interval=2 model.save_dtype=float32 \
        training.mixed_precision_param=float32 lr_scheduler.warmup_steps=2 "$@" >log 2>&1 ||
        { fail "$*: $(tail -n 3 log)"; return 1; }
}

# same NAME FOLDER: the columns and the weights of folder out are those of FOLDER.
same() {
    if cmp -s <(columns out) <(columns "$2") && cmp -s out/model/model.safetensors "$2/model/model.safetensors"; then
        pass "$1"
    else
        fail "$1: the columns or the weights differ: $(diff <(columns out) <(columns "$2") | head -n 3)"
    fi
}

# `as_alone OPTIMIZER LAYOUT...` is the run of folder $name with another layout.
as_alone() {
    rm -rf out
    train out optimizer.name=$1 "${@:2}" && same "$name: ${*:2}" "$name"
}

for optimizer in adam "sgd optimizer.lr=0.05" muon adamw8bit "adamw optimizer.state_dtype=bfloat16"; do
    name=${optimizer// /_}
    train "$name" optimizer.name=$optimizer || continue
    as_alone "$optimizer" -n 8
    as_alone "$optimizer" -n 2 parallelism.shard_strategy=none
    as_alone "$optimizer" -n 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2
    rm -rf out/checkpoint/step-00000004
    train out optimizer.name=$optimizer -n 3 && has_text log 'resumed from step 2' && same "$name: 4 ranks, then 3" "$name"
done
name=muon
as_alone muon -n 4 parallelism.shard_strategy=zero1
as_alone muon -n 2 parallelism.shard_strategy=zero2

# Matrices that ranks share by columns or rows, of which those that shard have rows.
tensor=parallelism.tensor_parallel_degree=2
as_alone muon -n 2 $tensor
as_alone muon -n 4 $tensor parallelism.shard_strategy=none
as_alone muon -n 6 $tensor recovery.enable=true recovery.max_failures=0 \
    "fault.spec=rank=2 step=2 point=phase:shard-done:20 kind=sigkill"
has_text log 'replaced in' && pass "a rank was lost" || fail "no rank was lost: $(tail -n 3 log)"
as_alone muon -n 8 $tensor parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2

# Ranks die between the tensors of an update: those that have ended it compute its matrices once more.
spec="rank=0 step=1 point=phase:shard-done:35 kind=sigkill"
spec="$spec; rank=1 step=2 point=phase:shard-done:1 kind=sigkill"
spec="$spec; rank=2 step=3 point=phase:shard-done:20 kind=sigkill"
as_alone muon -n 3 recovery.enable=true recovery.max_failures=0 "fault.spec=$spec"
[ "$(grep -c 'replaced in' log)" = 3 ] && pass "three ranks were lost" || fail "no ranks were lost: $(tail -n 5 log)"

# Clipped by value: the same on any number of ranks and where one is lost in its update; a bound that is never met changes nothing.
name=clipped
train clipped optimizer.name=sgd optimizer.lr=0.05 training.max_value=1e-3
train free optimizer.name=sgd optimizer.lr=0.05
rm -rf out
train out optimizer.name=sgd optimizer.lr=0.05 training.max_value=1e3 && same "a bound that no element meets" free
cmp -s clipped/model/model.safetensors free/model/model.safetensors && fail "nothing was clipped" || pass "elements were clipped"
as_alone sgd optimizer.lr=0.05 training.max_value=1e-3 -n 3
as_alone sgd optimizer.lr=0.05 training.max_value=1e-3 -n 2 recovery.enable=true recovery.max_failures=0 \
    "fault.spec=rank=1 step=2 point=phase:shard-done:5 kind=sigkill"
has_text log 'replaced in' && pass "a rank was lost" || fail "no rank was lost: $(tail -n 3 log)"

expect an_unknown_optimizer_is_named 2 "optimizer.name: 'adamx' is not one of adamw|adam|sgd|muon|adamw8bit" \
    "$tessera" train run.yaml job.dump_folder=out2 optimizer.name=adamx
[ ! -e out2 ] && pass "nothing was written" || fail "out2 was written: $(ls out2)"
expect state_of_another_optimizer_is_named 2 "momentum_buffer': the checkpoint is of another optimizer" \
    "$tessera" train run.yaml job.dump_folder=adam optimizer.name=sgd training.steps=6
finish
