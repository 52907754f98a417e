#!/usr/bin/env bash
# The steps of reinforcement learning: corrections act, defaults are those of the papers, and weights that adapt are part of where a run is.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"

# weights NAME FOLDER PLAIN: the two runs have written the same model.
weights() {
    cmp -s "$3/model/model.safetensors" "$2/model/model.safetensors" && pass "$1" ||
        { fail "$1: other weights"; tail -n 5 "$2.out" | sed 's/^/    /'; }
}
# metric FOLDER NAME: its values, step by step.
metric() { grep -o "\"$2\": [-0-9.e]*" "$1/metrics.jsonl" | cut -d' ' -f2 | tr '\n' ' '; }

# ---- Corrections of samples that older weights drew ----
rl lagging -n 1 rollout.lag=1 || fail "a lag: $(tail -n 1 lagging.out)"
for correction in tis "icepop rl.correction_low=0.9 rl.correction_high=1.1" \
    "sequence_mask rl.correction_low=0.99 rl.correction_high=1.01"; do
    name=${correction%% *}
    # shellcheck disable=SC2086
    rl "$name" -n 1 rollout.lag=1 rl.correction=$correction || fail "$name: $(tail -n 1 "$name.out")"
    # The first two rollouts are drawn by the first weights; the second one is learned by newer ones.
    awk -v w="$(metric "$name" train/tis_abs)" 'BEGIN { n = split(w, x, " "); exit !(n == 6 && x[1] == 0 && x[2] > 1e-4) }' &&
        ! cmp -s lagging/model/model.safetensors "$name/model/model.safetensors" &&
        pass "rl.correction=$name acts" || fail "rl.correction=$name: ratios $(metric "$name" train/tis_abs)"
done
rl asked -n 2 rollout.lag=1 rl.correction=tis rl.on_mismatch=correct
same "a correction implies that log-probabilities are computed again" asked tis
old="rollout.budget_tokens=2 rollout.in_flight=9 rl.correction=tis rl.updates=2"
# shellcheck disable=SC2086
{ rl carried -n 1 $old && ! rl cut -n 2 $old "fault.spec=rank=1 step=4 point=phase:backward kind=sigkill" && rl cut -n 3 $old; } ||
    fail "samples over several rollouts: $(tail -n 1 carried.out)"
awk -v w="$(metric carried train/tis_abs)" 'BEGIN { n = split(w, x, " "); exit !(n == 6 && x[n] > 1e-4) }' &&
    pass "samples that go on in the next rollout are corrected" || fail "ratios $(metric carried train/tis_abs)"
weights "killed between two steps on corrected samples" cut carried

# ---- Defaults ----
grep -v -e '^optimizer:' -e '  lr: 1e-3' rl.yaml >plain.yaml
# plain FOLDER ARGUMENTS...: two steps without a learning rate in the configuration.
plain() {
    local folder=$1
    shift
    timeout 600 "$tessera" rl plain.yaml job.dump_folder="$folder" training.steps=2 validation.enable=false "$@" \
        >"$folder.out" 2>&1 </dev/null || fail "$folder: $(tail -n 1 "$folder.out")"
}
plain slow -n 2
[ "$(metric slow lr)" = "5e-07 1e-06 " ] && pass "the learning rate is 1e-6" || fail "learning rates: $(metric slow lr)"
expect "and tessera info says so" 0 "  lr=1e-06 " "$tessera" info plain.yaml
for of in "gspo seq_mean_token_mean" "dr_grpo constant" "grpo token_mean"; do
    for n in 1 2; do
        plain "mean$n" -n $n rl.algorithm="${of% *}" $([ $n = 1 ] || echo "rl.reduction=${of#* }") optimizer.lr=1e-2
    done
    same "${of% *} reduces by ${of#* }" mean1 mean2
    [ "${of% *}" != dr_grpo ] || mv mean1 dr_grpo
    rm -rf mean1 mean2
done
plain nine -n 1 rl.algorithm=dr_grpo rl.constant=9 optimizer.lr=1e-2
same "its constant is rollout.max_new_tokens" nine dr_grpo

# ---- Numbers for people are means over tokens, whatever the reduction is ----
by_mean=$(grep -o 'entropy: [0-9.]*  .* length: [0-9.]*' slow.out | head -n 1)
plain summed -n 1 rl.reduction=seq_mean_token_sum
[ -n "$by_mean" ] && [ "$(grep -o 'entropy: [0-9.]*  .* length: [0-9.]*' summed.out | head -n 1)" = "$by_mean" ] &&
    pass "the entropy is a token's" || fail "$by_mean, and of sums $(grep -o 'entropy: [0-9.]*' summed.out | head -n 1)"

# shape: a line of the console without its numbers.
shape() { sed -E 's/-?[0-9][0-9.,]*/N/g; s/ +/ /g; s/ \.\.\.$//'; }
line=$(grep -m 1 '^    step: ' "$project/docs/rl.md" | sed 's/^ *//' | shape)
[[ -n $line && $(grep -m 1 '^step: ' slow.out | shape) = "$line"* ]] && pass "docs/rl.md shows such a line" ||
    fail "docs/rl.md has '$line', the console $(grep -m 1 '^step: ' slow.out | shape)"

# ---- The divergence in the reward is part of what the baseline is of ----
# Answers of one length: their advantages add up to 0 in each group.
for algorithm in dr_grpo grpo rloo; do
    rl inside -n 2 rl.algorithm=$algorithm rl.kl_beta=10 rl.kl_in_reward=true optimizer.lr=1e-2 rollout.max_new_tokens=3 \
        training.steps=4 validation.enable=false || fail "$algorithm: $(tail -n 1 inside.out)"
    awk -v m="$(metric inside train/advantage_mean)" -v s="$(metric inside train/advantage_std)" \
        'BEGIN { n = split(m, x, " "); split(s, d, " "); exit !(n == 4 && x[n] ^ 2 < 1e-12 && d[n] > 0.01) }' &&
        pass "$algorithm: the baseline has the divergence in it" ||
        fail "$algorithm: advantages of mean $(metric inside train/advantage_mean), deviation $(metric inside train/advantage_std)"
    rm -rf inside
done

# ---- Advice waits for enough steps after the warm-up ----
advice=(rl.kl_beta=0.05 rl.updates=2 validation.enable=false checkpoint.enable=false optimizer.lr=1e-9 lr_scheduler.warmup_steps=4)
rl advised -n 1 "${advice[@]}" training.steps=14 || fail "advice: $(tail -n 1 advised.out)"
[ "$(grep -n -m 1 '^advice: ' advised.out | cut -d: -f1)" = "$(($(grep -n '^step:    14' advised.out | cut -d: -f1) + 1))" ] &&
    pass "advice comes with the tenth step after the warm-up" || fail "$(grep -n -e '^advice' -e '^step' advised.out | cut -c1-90)"

# ---- A rank is replaced at every point of a step ----
adaptive="rl.kl_beta=0.05 rl.kl_target=0.01 rl.kl_horizon=20 rl.updates=2 training.loss_scale=0 rl.algorithm=ppo
    critic.trunk=shared checkpoint.interval=3"
# shellcheck disable=SC2086
rl adaptive -n 2 $adaptive || fail "adaptive weights: $(tail -n 1 adaptive.out)"
awk -v b="$(metric adaptive train/kl_beta)" 'BEGIN { split(b, x, " "); exit !(x[2] == x[1] && x[3] < x[2] && x[5] < x[4]) }' &&
    pass "the weight of the divergence adapts" || fail "kl_beta: $(metric adaptive train/kl_beta)"
# Step 2 ends a rollout, step 3 begins the next one; the evaluation after step 3 draws under the number of step 4.
for at in "2 judging" "2 judged" "2 shard" "2 shard-done" "2 updated" "3 data" "3 rollout" "3 reward" "3 forward" \
    "3 backward" "3 optimizer" "3 checkpoint" "4 rollout" "4 reward"; do
    # shellcheck disable=SC2086
    rl hot -n 2 $adaptive recovery.enable=true \
        "fault.spec=rank=$((${at%% *} % 2)) step=${at%% *} point=phase:${at#* } kind=sigkill"
    grep -q "replaced in " hot.out || fail "step $at: no rank was replaced"
    weights "a rank killed in step $at is replaced" hot adaptive
    [ "$(metric hot train/kl_beta | awk '{ print $NF }')" = "$(metric adaptive train/kl_beta | awk '{ print $NF }')" ] ||
        fail "step $at: kl_beta $(metric hot train/kl_beta)"
    rm -rf hot
done

# ---- A run that is asked to stop keeps what its last step has changed ----
follows="rl.kl_beta=0.05 rl.kl_target=0.01 rl.kl_horizon=20 rl.updates=2 reference.update_interval=2 reference.ema=0.5"
# shellcheck disable=SC2086
rl followed -n 1 $follows || fail "a reference that follows: $(tail -n 1 followed.out)"
# shellcheck disable=SC2086
"$tessera" rl rl.yaml job.dump_folder=stopped -n 1 $follows checkpoint.interval=100 \
    "fault.spec=rank=0 step=4 point=phase:rollout kind=sleep ms=1000" >stopped.out 2>&1 </dev/null &
await $! has_text stopped.out '^step:     3' && kill -TERM $!
wait $!
expect "it stops after step 4" 0 "interrupted after step 4" cat stopped.out
# shellcheck disable=SC2086
rl stopped -n 1 $follows || fail "going on: $(tail -n 1 stopped.out)"
weights "stopped after the last step on a rollout" stopped followed

# ---- Prompts that are under way when a rollout ends belong to where the run is ----
budget="rollout.budget_tokens=2 rollout.in_flight=9 rl.keep_journals=1 validation.enable=false"
# shellcheck disable=SC2086
rl whole -n 1 $budget || fail "a budget: $(tail -n 1 whole.out)"
# shellcheck disable=SC2086
{ rl parts -n 2 $budget training.steps=4 && rl parts -n 3 $budget; } || fail "going on: $(tail -n 1 parts.out)"
weights "a run goes on after its last rollout" parts whole
# shellcheck disable=SC2086
rl hot -n 2 $budget recovery.enable=true "fault.spec=rank=1 step=4 point=phase:judged kind=sigkill"
weights "a rank that is killed at the end of a rollout is replaced" hot whole
finish
