#!/usr/bin/env bash
# Reinforcement learning whose samples ranks divide (cp): a ring with a reference, PPO's values, and ranks that only
# draw. Journals, weights and metrics are those of one rank.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"
cp=parallelism.context_parallel_degree pp=parallelism.pipeline_parallel_degree
ring=parallelism.context_parallel_method=ring gather=parallelism.context_parallel_method=gather
parts() { # NAME PLAIN N ARGUMENTS...: all N ranks have the same micro-batches, so there is one journal,
             # unless the name has dp
    local name=$1 plain=$2 n=$3
    shift 3
    rm -rf run
    rl run -n "$n" "$@" || fail "$name: $(tail -n 1 run.out)"
    same "$name" run "$plain"
    grep -qE "logprob_diff 0 \(0 of [1-9]" run.out || fail "$name: $(grep -m 1 logprob_diff run.out)"
    [[ "$name" == *dp* ]] && return
    diff -r "$plain/rl" run/rl >difference 2>&1 && pass "$name: the same journals" || fail "$name: $(head -n 1 difference)"
}
divided=(training.context_leaves=8 training.steps=2 validation.enable=false)

# GRPO with a reference and log-probabilities that are computed again
grpo=("${divided[@]}" rl.kl_beta=0.05 rl.correction=tis rl.updates=2)
rl grpo -n 1 "${grpo[@]}" || fail "one rank: $(tail -n 1 grpo.out)"
parts "a ring with a reference" grpo 2 "${grpo[@]}" $cp=2 $ring
parts "a ring of 4" grpo 4 "${grpo[@]}" $cp=4 $ring
parts "a ring in 2 stages" grpo 4 "${grpo[@]}" $cp=2 $pp=2 $ring
memory run less

# A loss that needs whole samples
rl gspo -n 1 "${divided[@]}" rl.algorithm=gspo || fail "one rank: $(tail -n 1 gspo.out)"
parts "GSPO in a ring" gspo 2 "${divided[@]}" rl.algorithm=gspo $cp=2 $ring
memory run

# The last micro-batch of some ranks is empty: those of one cp group gather no rows of a loss, which others do
rl odd -n 1 "${divided[@]}" rl.algorithm=gspo rl.updates=2 || fail "one rank: $(tail -n 1 odd.out)"
parts "GSPO whose micro-batches do not divide evenly, dp 2" odd 4 "${divided[@]}" rl.algorithm=gspo rl.updates=2 $cp=2
parts "GSPO whose micro-batches do not divide evenly, dp 2, a ring, 2 stages" odd 8 "${divided[@]}" rl.algorithm=gspo \
    rl.updates=2 $cp=2 $pp=2 $ring
rm -rf odd
rl odd -n 1 "${divided[@]}" rl.algorithm=ppo critic.trunk=shared rl.updates=2 || fail "one rank: $(tail -n 1 odd.out)"
parts "values whose micro-batches do not divide evenly, dp 2" odd 4 "${divided[@]}" rl.algorithm=ppo critic.trunk=shared \
    rl.updates=2 $cp=2

# Preferences, whose micro-batches do not divide evenly either
awk -F'"' 'NR <= 24 { print "{\"prompt\": \"" $4 "\", \"chosen\": \"" $8 "\", \"rejected\": \"1+1\"}" }' sft.jsonl >pairs.jsonl
pairs=(data.files=pairs.jsonl rl.algorithm=dpo "${divided[@]}" rollout.prompts=5)
rl dpo -n 1 "${pairs[@]}" || fail "one rank: $(tail -n 1 dpo.out)"
rm -rf run
rl run -n 4 "${pairs[@]}" $cp=2 || fail "DPO, dp 2: $(tail -n 1 run.out)"
same "DPO, cp 2, dp 2" run dpo

# PPO: a head on the policy, and a critic of its own
for trunk in shared own; do
    ppo=("${divided[@]}" rl.algorithm=ppo critic.trunk=$trunk)
    rm -rf ppo
    rl ppo -n 1 "${ppo[@]}" || fail "one rank: $(tail -n 1 ppo.out)"
    parts "values, trunk $trunk, cp 2" ppo 2 "${ppo[@]}" $cp=2
    memory run less
    parts "values, trunk $trunk, cp 2, dp 2, a ring" ppo 4 "${ppo[@]}" $cp=2 $ring
    parts "values, trunk $trunk, cp 2, 2 stages" ppo 4 "${ppo[@]}" $cp=2 $pp=2
done
parts "values, trunk own, cp 4, gather" ppo 4 "${ppo[@]}" $cp=4 $gather

# Ranks that only draw
draws=("${divided[@]}" rollout.lag=1 recovery.enable=false)
rl draws -n 1 "${draws[@]}" || fail "one rank: $(tail -n 1 draws.out)"
for layout in "3 1 $cp=2" "6 2 $cp=2 $ring" "5 1 $cp=4"; do
    set -- $layout
    rm -rf run
    rl run -n "$1" "${draws[@]}" rollout.ranks="$2" "${@:3}" || fail "$2 ranks draw: $(tail -n 1 run.out)"
    same "$2 of $1 ranks only draw, ${*:3}" run draws
done

# ---- What does not work
expect "ranks that only draw have whole layers" 2 "rollout.ranks: ranks that only draw" "$tessera" rl rl.yaml \
    job.dump_folder=bad -n 5 "${divided[@]}" rollout.ranks=1 $cp=2 parallelism.tensor_parallel_degree=2
expect "ranks that draw do not train" 2 \
    "2 does not divide the 3 ranks that train, because 1 more only draws: start 1 + a multiple of 2 ranks" "$tessera" rl \
    rl.yaml job.dump_folder=bad -n 4 "${divided[@]}" rollout.ranks=1 $cp=2
finish
