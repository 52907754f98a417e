#!/usr/bin/env bash
# Faults among ranks that share layers: the rank that made it is named, not those that wait for it at a point, and no
# work is lost.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
make_text 400 >text.txt
make_model model.json
sed -i 's/"num_attention_heads": 3, "num_key_value_heads": 1/"num_attention_heads": 6, "num_key_value_heads": 3/' model.json
make_config run.yaml
tp=parallelism.tensor_parallel_degree stages=parallelism.pipeline_parallel_degree
settings="training.threads=1 training.steps=10 model.save_dtype=float32 validation.enable=false checkpoint.interval=2"
train() { # FOLDER RANKS ARGUMENTS...
    "$tessera" train run.yaml -n "$2" job.dump_folder="$1" $settings "${@:3}"
}

# ---- Wrong numbers, on the rank that made them, at their place in the whole parameter
weight=model.layers.1.mlp.up_proj.weight # 53 rows, of which the second of two ranks has the last 26
expect "a NaN of the second rank" 2 "first came rank 3, micro-batch 1 of 0..7: gradient '$weight' is nan at row 44, column 22" \
    train bad 4 $tp=2 fault.spec="rank=3 step=5 point=gradient kind=nan tensor=$weight times=0"
expect "a weight that is NaN" 2 "rank 1: weight '$weight' is nan at row 44, column 22" \
    train bad 2 $tp=2 checkpoint.enable=false fault.spec="rank=1 step=5 point=parameter kind=nan tensor=$weight"
expect "a NaN that does not come again" 0 "the run goes on with the second result" train once 4 $tp=2 \
    numbers.on_nonfinite=skip fault.spec="rank=2 step=5 point=gradient kind=nan tensor=$weight"

# ---- A flipped bit in one rank's copy of what all ranks of a team hold
flip() { # NAME TEXT RANKS ARGUMENTS...: exit code 1, and TEXT in the output
    expect "$1" 1 "replicas have diverged: $2" train bad "$3" numbers.replica_check_interval=1 checkpoint.enable=false "${@:4}"
}
norm=model.layers.1.input_layernorm.weight
flip "a norm of one of three" "rank 1: weight '$norm': other bits than on 2 of 3 ranks" 3 $tp=3 \
    fault.spec="rank=1 step=5 point=state kind=flip bit=20 tensor=$norm"
flip "a moment of one of three" "rank 2: exp_avg of '$norm': other bits than on 2 of 3 ranks" 3 $tp=3 \
    fault.spec="rank=2 step=5 point=state kind=flip bit=20 tensor=$norm.exp_avg"
flip "two copies are a tie" "ranks 0 and 1 hold weight 'model.norm.weight' with different bits" 2 $tp=2 \
    fault.spec="rank=1 step=5 point=state kind=flip bit=20 tensor=model.norm.weight"
for strategy in none hybrid; do
    flip "a norm of one of four, $strategy" "rank 3: weight '$norm': other bits than on 3 of 4 ranks" 4 $tp=2 \
        parallelism.shard_strategy=$strategy parallelism.data_parallel_replicate_degree=2 \
        fault.spec="rank=3 step=5 point=state kind=flip bit=20 tensor=$norm"
done
expect "it is not saved" 1 "step 6: replicas have diverged: rank 1: weight '$norm'" train bad 3 $tp=3 \
    fault.spec="rank=1 step=5 point=state kind=flip bit=20 tensor=$norm"

# ---- A rank that stands still
expect "one of two stands still" 1 "rank 1 has kept rank 0 waiting" \
    train bad 2 $tp=2 comm.timeout_s=3 fault.spec="rank=1 step=5 point=phase:forward kind=sigstop"
expect "the trace of it names the same rank" 3 "rank 1 kept rank 0 waiting" "$tessera" trace bad
expect "one of four sleeps" 1 "rank 2 has kept 3 ranks waiting" \
    train bad 4 $tp=2 comm.timeout_s=3 fault.spec="rank=2 step=5 point=phase:backward kind=sleep ms=600000"
expect "one of a stage's two sleeps" 1 "rank 3 has kept 3 ranks waiting" \
    train bad 4 $tp=2 $stages=2 comm.timeout_s=3 fault.spec="rank=3 step=5 point=phase:backward kind=sleep ms=600000"
expect "the trace of it says what that rank has" 3 "rank 3 is pp 1, tp 1" "$tessera" trace bad
grep -qE "^ +2 +[0-9]+  pp 1, tp 0  " output && pass "and what others have" || fail "no places: $(cat output)"
"$tessera" trace bad --json | tr -d ' \n' >output
grep -q '"place":{"pp":0,"tp":1}' output && pass "and so in JSON" || fail "no place in: $(cat output)"
"$tessera" trace bad --perfetto=trace.json >output 2>&1
grep -q '"rank 1, pp 0, tp 1 on ' trace.json && pass "and on the timeline" || fail "no place: $(grep -m3 process_name trace.json)"
"$tessera" train run.yaml -n 4 job.dump_folder=live $settings $tp=2 $stages=2 training.steps=100000 \
    metrics.log_freq=1 >live.log 2>&1 &
launcher=$!
until grep -q "step:" live.log; do
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.1
done
"$tessera" top live --json >output
kill -INT "$launcher"
wait "$launcher"
grep -q '"place":{"pp":1,"tp":0}' output && pass "a live job's places" || fail "no place in: $(cat output)"

# ---- A rank that is killed
columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
reference plain
cmp -s <(columns once) <(columns plain) && pass "the NaN left no trace" || fail "the NaN changed the run"
flip "a frozen weight of a replica" "ranks 0 and 1 hold weight '$weight' with different bits" 2 \
    parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2 \
    lora.rank=2 model.config= model.path=plain/model training.mixed_precision_param=bfloat16 \
    fault.spec="rank=1 step=5 point=state kind=flip bit=3 tensor=$weight"
replaced() { # NAME TEXT RANKS ARGUMENTS...: the bits of one rank that nobody disturbs, and TEXT in the output
    same "$1" plain "$3" recovery.enable=true recovery.backoff_s=0.01 "${@:4}"
    grep -q "$2" log && pass "$1: $2" || fail "$1: no '$2' in: $(grep tessera: log)"
}
memory="going on from step"
for at in "phase:forward:2 $memory 4" "phase:backward $memory 4" "phase:judged $memory 5"; do
    set -- $at
    replaced "killed at $1" "replaced in .* s, ${*:2}" 4 $tp=2 fault.spec="rank=3 step=5 point=$1 kind=sigkill"
done
replaced "killed where no rank has a second" "$memory 4" 3 $tp=3 \
    fault.spec="rank=1 step=5 point=phase:backward kind=sigkill"
replaced "killed in two dimensions of the model" "$memory 4" 8 $tp=2 $stages=2 \
    fault.spec="rank=5 step=5 point=phase:forward kind=sigkill"
replaced "all again from a checkpoint" "resumed from step 4" 4 $tp=2 recovery.hot=false \
    fault.spec="rank=3 step=5 point=phase:forward kind=sigkill"
replaced "without the place that fails: 2 of 3 other ranks share layers" "left out: 2 ranks go on" 4 $tp=2 \
    recovery.hot=false elastic.min_ranks=2 elastic.retry_s=1e6 \
    fault.spec="rank=1 step=3 point=step kind=exit; rank=1 step=3 point=step kind=exit life=2"
finish
