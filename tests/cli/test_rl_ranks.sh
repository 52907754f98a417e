#!/usr/bin/env bash
# Ranks that only draw (rollout.ranks): weights, metrics and journals are the bits of a run whose ranks do both, for any
# number of either, drawn before the step or during it, and whatever kills a run; what is wrong is named.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"

for lag in 0 1; do
    rl plain$lag -n 1 rollout.lag=$lag || fail "the plain run: $(tail -n 1 plain$lag.out)"
done

# apart NAME LAG FOLDER ARGUMENTS...: has the bits of plainLAG, and every token is as it was drawn.
apart() {
    local name=$1 lag=$2 folder=$3
    shift 3
    rl "$folder" rollout.lag="$lag" "$@" || fail "$name: $(tail -n 1 "$folder.out")"
    same "$name" "$folder" "plain$lag"
    grep -q 'logprob_diff 0 (0 of [1-9]' "$folder.out" || fail "$name: $(grep -m 1 logprob_diff "$folder.out")"
}
for lag in 0 1; do
    apart "1 trains, 1 draws, lag $lag" $lag one$lag -n 2 rollout.ranks=1
    diff -r plain$lag/rl one$lag/rl >difference 2>&1 && pass "lag $lag: the same journals" || fail "lag $lag: $(head -n 1 difference)"
done
# A copy of the weights is 100 kB: many buckets, which begin and end anywhere.
apart "2 train, 2 draw" 0 two -n 4 rollout.ranks=2 rollout.sync_bytes=5000
memory two less
apart "1 trains, 2 draw, lag 1" 1 three -n 3 rollout.ranks=2
apart "2 train, 1 draws, lag 1, another strategy" 1 zero2 -n 3 rollout.ranks=1 parallelism.shard_strategy=zero2
for key in update_weights_time update_weights_bytes train_wait_time; do
    grep -q "\"perf/$key\": [0-9.e-]*[1-9]" two/metrics.jsonl && pass "metrics have $key" || fail "no $key in metrics"
done

# ---- Killed, and on with another number of ranks ----
# killed LAG ARGUMENTS...: one that trains, then one that draws.
killed() {
    local lag=$1
    shift
    rl cut -n 3 rollout.ranks=1 rollout.lag="$lag" "$@" "fault.spec=rank=0 step=4 point=phase:backward kind=sigkill" &&
        fail "killed, lag $lag: nothing was"
    rl cut -n 3 rollout.ranks=2 rollout.lag="$lag" "$@" "fault.spec=rank=2 step=5 point=phase:rollout kind=sigkill" &&
        fail "killed, lag $lag: no rank that draws was"
    grep -q "rank 2 was killed by signal 9" cut.out && pass "the rank that was lost is named" || fail "$(tail -n 1 cut.out)"
    rl cut -n 2 rollout.ranks=1 rollout.lag="$lag" "$@" || fail "going on: $(tail -n 1 cut.out)"
}
for lag in 0 1; do
    killed $lag
    same "killed twice, lag $lag" cut plain$lag
    rm -rf cut
done
rl plain2 -n 1 rollout.budget_tokens=2 rollout.in_flight=9
rl budget -n 2 rollout.budget_tokens=2 rollout.in_flight=9 || fail "samples under way: $(tail -n 1 budget.out)"
memory budget less
killed 0 rollout.budget_tokens=2 rollout.in_flight=9
same "killed twice, with samples under way" cut plain2
rm -rf cut
rl plain3 -n 1 rollout.lag=1 rl.updates=2 checkpoint.interval=1
killed 1 rl.updates=2 checkpoint.interval=1
same "killed twice, two steps a rollout" cut plain3

# ---- Lost, and replaced or left out ----
lost() { local name=$1 lag=$2 text=$3 folder=$4; shift 4
    rl "$folder" rollout.lag="$lag" recovery.enable=true recovery.backoff_s=0.1 "$@"
    same "$name" "$folder" "plain$lag"
    grep -qF "$text" "$folder.out" && pass "and that is told" || fail "$name: $(grep tessera: "$folder.out")"
}
lost "a rank that draws is replaced" 0 "replaced in " hot -n 3 rollout.ranks=1 \
    "fault.spec=rank=2 step=3 point=phase:rollout kind=sigkill"
lost "with a lag the job goes on from its checkpoint" 1 "all ranks start again from the newest checkpoint" again -n 3 \
    rollout.ranks=1 "fault.spec=rank=2 step=3 point=phase:weights kind=sigkill"
lost "a place is left out: fewer train" 1 "is left out: 3 ranks go on" fewer -n 4 rollout.ranks=2 elastic.min_ranks=3 \
    elastic.retry_s=1e6 "fault.spec=rank=2 step=1 point=phase:rollout kind=exit; \
rank=2 step=1 point=phase:rollout kind=exit life=2"

# ---- An adapter of the policy; the reference is the model without it ----
# adapted NAME FOLDER ARGUMENTS...: has the bits of the folder "adapted".
adapted() {
    local name=$1 folder=$2
    shift 2
    rl "$folder" $lora "$@" || fail "$name: $(tail -n 1 "$folder.out")"
    cmp -s adapted/adapter/adapter_model.safetensors "$folder/adapter/adapter_model.safetensors" &&
        diff <(numbers adapted) <(numbers "$folder") >difference && pass "$name" || fail "$name: $(head -n 3 difference | cut -c1-300)"
}
lora="lora.rank=3 lora.alpha=6 rl.kl_beta=0.05 optimizer.lr=1e-2"
rl adapted -n 1 $lora || fail "an adapter: $(tail -n 1 adapted.out)"
grep -q "^step:     1 .* logprob_diff 0 .* kl: 0.0000" adapted.out && pass "it begins as its reference" || fail "$(grep -m 1 "^step:" adapted.out)"
grep -q "^step:     6 .* logprob_diff 0 .* kl: 0.0[0-9]*[1-9]" adapted.out && pass "and leaves it" || fail "$(grep "^step:     6" adapted.out)"
adapted "an adapter, 3 ranks train" adapted3 -n 3 parallelism.shard_strategy=zero2
adapted "an adapter, 2 train, 1 draws" drawn -n 3 rollout.ranks=1 rollout.sync_bytes=4096
bytes=($(grep -o '"perf/update_weights_bytes": [^,]*' drawn/metrics.jsonl | sed 's/.*: //'))
awk -v all="${bytes[0]}" -v adapter="${bytes[5]}" 'BEGIN { exit !(adapter > 0 && adapter < all / 5) }' &&
    pass "what is frozen is sent for each copy once" || fail "bytes sent: ${bytes[*]}"
rm -rf cut
adapted "an adapter, killed" cut -n 3 "fault.spec=rank=1 step=4 point=phase:backward kind=sigkill" recovery.enable=true recovery.backoff_s=0.1
expect "one policy, with its adapter" 0 "exactly on-policy" "$tessera" verify on-policy rl.yaml lora.path=adapted/adapter

# ---- training.local_batch_size=auto ----
rl chosen -n 3 training.steps=2 rollout.ranks=1 training.local_batch_size=auto training.memory_budget=4MiB ||
    fail "a chosen micro-batch: $(tail -n 1 chosen.out)"
rows=$(sed -n 's/.*local_batch_size=auto: \([0-9]*\) rows, which need.*/\1/p' chosen.out)
[ "${rows:-0}" -gt 1 ] && pass "ranks that train and draw take $rows rows" || fail "$(cat chosen.out)"
rl given -n 2 training.steps=2 training.local_batch_size="$rows" || fail "the same by hand: $(tail -n 1 given.out)"
same "as $rows rows by hand" chosen given
rl chosen -n 2 training.steps=3 training.local_batch_size=auto training.memory_budget=1MiB || fail "a resume: $(tail -n 1 chosen.out)"
grep -q "local_batch_size=auto: $rows rows, as in the checkpoint" chosen.out && pass "a resume keeps them" || fail "$(cat chosen.out)"

# ---- Bad input ----
bad() { local name=$1 text=$2; shift 2; expect "$name" 2 "$text" "$tessera" rl rl.yaml job.dump_folder=bad "$@"; }
bad "none to train" "rollout.ranks: 2 ranks that only draw leave none of 2 to train" -n 2 rollout.ranks=2
bad "one phase" "rollout.ranks: with rl.phase=train" -n 2 rollout.ranks=1 rl.phase=train
bad "too few after a loss" "elastic.min_ranks: of 1 ranks" -n 3 rollout.ranks=1 elastic.min_ranks=1
bad "an adapter whose reference follows" "lora the reference is the model without its adapter" $lora reference.update_interval=1
bad "values on frozen layers" "set critic.trunk=own" $lora rl.algorithm=ppo critic.trunk=shared
expect "text" 2 "rollout.ranks: text is not drawn" "$tessera" train rl.yaml job.dump_folder=bad -n 2 rollout.ranks=1
[ -e bad ] && fail "something was written" || pass "nothing was written"
finish
