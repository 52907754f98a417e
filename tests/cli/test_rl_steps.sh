#!/usr/bin/env bash
# What the steps of reinforcement learning compute: corrections act.
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

finish
