#!/usr/bin/env bash
# Faults in a pipeline: the rank that made it is named, not the stages that wait for it, and no work is lost.
. "$(dirname "$0")/support.sh"
make_text 400 >text.txt
make_model model.json
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 6/' model.json
make_config run.yaml
stages=parallelism.pipeline_parallel_degree schedule=parallelism.pipeline_parallel_schedule
train() { # FOLDER RANKS ARGUMENTS...
    "$tessera" train run.yaml -n "$2" job.dump_folder="$1" training.threads=1 training.steps=10 model.save_dtype=float32 \
        validation.enable=false checkpoint.interval=2 "${@:3}"
}

# ---- Wrong numbers, on the rank and in the micro-batch where they were made
weight=model.layers.3.mlp.up_proj.weight
expect "a NaN of the second stage" 2 "first came rank 3, micro-batch 1 of 0..7: gradient '$weight' is nan at row" \
    train bad 4 $stages=2 fault.spec="rank=3 step=5 point=gradient kind=nan tensor=$weight times=0"
expect "a NaN of a rank's second stage" 2 "first came rank 0, micro-batch 0 of 0..7: gradient '$weight' is nan at row" \
    train bad 2 $stages=2 $schedule=interleaved fault.spec="rank=0 step=5 point=gradient kind=nan tensor=$weight times=0"
expect "a weight that is NaN" 2 "rank 3: weight '$weight' is nan at row" \
    train bad 4 $stages=2 checkpoint.enable=false fault.spec="rank=3 step=5 point=parameter kind=nan tensor=$weight"
expect "a NaN that does not come again" 0 "the run goes on with the second result" train once 4 $stages=2 $schedule=zb_h1 \
    numbers.on_nonfinite=skip fault.spec="rank=2 step=5 point=gradient kind=nan tensor=$weight"

# ---- A rank that stands still: others wait for each other in a chain that ends there
expect "the end of three stages stands still" 1 "rank 2 has kept 2 ranks waiting" \
    train bad 3 $stages=3 comm.timeout_s=3 fault.spec="rank=2 step=5 point=phase:forward kind=sigstop"
expect "the middle of three stages sleeps" 1 "rank 1 has kept 2 ranks waiting" \
    train bad 3 $stages=3 comm.timeout_s=3 fault.spec="rank=1 step=5 point=phase:backward kind=sleep ms=600000"
expect "a rank that shares a stage stands still" 1 "rank 1 has kept 3 ranks waiting" \
    train bad 4 $stages=2 comm.timeout_s=3 fault.spec="rank=1 step=5 point=phase:backward kind=sigstop"
expect "the trace of it names the same rank" 3 "rank 1 kept 3 ranks waiting" "$tessera" trace bad

# ---- A rank that is killed
columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
train plain 1 >log 2>&1 || { cat log; exit 1; }
same() { # NAME TEXT RANKS ARGUMENTS...: the bits of one rank that nobody disturbs, and TEXT in the output
    local name=$1 text=$2
    rm -rf out
    if ! train out "$3" recovery.enable=true recovery.backoff_s=0.01 "${@:4}" >log 2>&1; then
        fail "$name: $(tail -n 3 log)"
    elif ! cmp -s <(columns out) <(columns plain) || ! cmp -s out/model/model.safetensors plain/model/model.safetensors; then
        fail "$name: other bits"
    elif ! grep -q "$text" log; then
        fail "$name: no '$text' in: $(grep tessera: log)"
    else
        pass "$name"
    fi
}
cmp -s <(columns once) <(columns plain) && pass "the NaN left no trace" || fail "the NaN changed the run"
memory="going on from step"
for at in "phase:forward:4 $memory 4" "before:send $memory 4" "after:recv $memory 4" "phase:judged $memory 5"; do
    set -- $at
    same "killed at $1" "replaced in .* s, ${*:2}" 4 $stages=2 fault.spec="rank=3 step=5 point=$1 kind=sigkill"
done
same "killed, then another one: no stage has a second rank" "$memory 7" 3 $stages=3 $schedule=zb_h1 \
    fault.spec="rank=1 step=5 point=phase:backward kind=sigkill; rank=2 step=8 point=phase:forward kind=sigkill"
same "killed in a V" "$memory 8" 4 $stages=2 $schedule=zbv fault.spec="rank=2 step=9 point=phase:optimizer kind=sigkill"
same "all again from a checkpoint" "resumed from step 4" 4 $stages=2 recovery.hot=false \
    fault.spec="rank=3 step=5 point=phase:forward kind=sigkill"
same "without the place that fails: 2 of 3 ranks are two stages" "left out: 2 ranks go on" 4 $stages=2 recovery.hot=false \
    elastic.min_ranks=2 elastic.retry_s=1e6 \
    fault.spec="rank=1 step=3 point=step kind=exit; rank=1 step=3 point=step kind=exit life=2"
finish
