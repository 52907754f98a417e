#!/usr/bin/env bash
# Kills one of 4 ranks (-9) every few seconds during a run, at random moments: nothing hangs, the weights are those of the
# undisturbed run, and a step is completed soon after each kill.
#
#     SOAK_STEPS=3000 SOAK_KILLS=1000 SOAK_MODEL=large SOAK_PAUSE=3 \
#         bash tests/cli/test_hot_soak.sh build/dev/tessera . [all]
#
# SOAK_MODEL=large: 10 M parameters. SOAK_PAUSE: mean seconds between a recovery and the next kill; after SOAK_KILLS the
# run is undisturbed. all: kills every rank at once. It prints the median time from a kill to the next completed step.
victims=${3:-one}
source "$(dirname "$0")/support.sh"
steps=${SOAK_STEPS:-400} most=${SOAK_KILLS:-20} pause=${SOAK_PAUSE:-0.1} limit=${SOAK_LIMIT:-1200}

make_text 300 >text.txt
make_model model.json
if [ "${SOAK_MODEL:-small}" = large ]; then
    make_text 20000 >text.txt
    sed -i -E 's/"vocab_size": [0-9]+, "hidden_size": [0-9]+/"vocab_size": 2048, "hidden_size": 320/
        s/"intermediate_size": [0-9]+, "num_hidden_layers": [0-9]+/"intermediate_size": 864, "num_hidden_layers": 7/
        s/"num_attention_heads": [0-9]+, "num_key_value_heads": [0-9]+, "head_dim": [0-9]+/"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 64/' model.json
fi
make_config run.yaml

# train FOLDER
train() {
    exec "$tessera" train run.yaml -n 4 job.dump_folder="$1" training.steps="$steps" training.local_batch_size=2 \
        training.global_batch_size=16 checkpoint.interval=50 validation.enable=false training.threads=1 debug.trace=false \
        recovery.enable=true recovery.max_failures=0
}

now() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); } # milliseconds; the locale says which mark

# The processes of the ranks, without the launcher's other children.
ranks() { rank "$launcher" '[0-9]*'; }

last_step() { tail -n 1 disturbed/metrics.jsonl 2>/dev/null | sed -E 's/^\{"step": ([0-9]+).*/\1/'; }
n_replaced() { grep -c "going on from step" notices; }
alive() { kill -0 "$launcher" 2>/dev/null; }

# Waits for the first step after the $1-th recovery; fails when the run ends before.
await_step() {
    local from deadline=$((SECONDS + patience_s))
    while [ "$(n_replaced)" -lt "$1" ]; do
        alive && [ $SECONDS -lt $deadline ] || return 1
        sleep 0.005
    done
    from=$(grep "going on from step" notices | tail -n 1 | sed -E 's/.*from step ([0-9]+).*/\1/')
    while [ "$(last_step)" -le "$from" ]; do
        alive && [ $SECONDS -lt $deadline ] || return 1
        sleep 0.005
    done
}

(train undisturbed >log 2>&1 </dev/null) || fail "the undisturbed run"

train disturbed >disturbed.log 2>notices </dev/null &
launcher=$!
n_kills=0
RANDOM=1
: >times
while alive && [ ! -s disturbed/metrics.jsonl ]; do sleep 0.01; done
while alive && [ $SECONDS -lt "$limit" ]; do
    [ $n_kills -lt "$most" ] || { sleep 0.1; continue; }
    sleep "$(awk -v p="$pause" -v r=$RANDOM 'BEGIN { print p * 2 * r / 32768 }')"
    mapfile -t pids < <(ranks)
    [ "${#pids[@]}" = 4 ] || continue
    begin=$(now)
    n_before=$(n_replaced)
    if [ "$victims" = all ]; then kill -9 "${pids[@]}"; else kill -9 "${pids[RANDOM % 4]}"; fi 2>/dev/null || continue
    n_kills=$((n_kills + 1))
    await_step $((n_before + 1)) || break
    echo $(($(now) - begin)) >>times
done
if alive; then
    fail "the disturbed run hangs"
    kill -9 "$launcher"
fi
wait "$launcher"
code=$?

[ "$code" = 0 ] && pass "$n_kills kills, and the run comes to its end" || {
    fail "the disturbed run ends with $code after $n_kills kills"
    tail -n 3 notices disturbed.log
}
cmp -s undisturbed/model/model.safetensors disturbed/model/model.safetensors && pass "the same weights" || fail "other weights"
diff <(sed 's/, "tps".*//' undisturbed/metrics.jsonl) <(sed 's/, "tps".*//' disturbed/metrics.jsonl) >difference &&
    pass "the same metrics" || { fail "other metrics"; head -n 4 difference; }
n_times=$(wc -l <times)
[ "$n_times" -gt 0 ] && pass "from a kill to the next completed step: median $(sort -n times | sed -n "$(((n_times + 1) / 2))p") ms, at most $(sort -n times | tail -n 1) ms, of $n_times" ||
    fail "no rank was replaced"
finish
