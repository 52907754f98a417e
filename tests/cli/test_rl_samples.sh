#!/usr/bin/env bash
# Samples of reinforcement learning: where they end.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"

# metric FOLDER NAME: its values, step by step.
metric() { grep -o "\"$2\": [-0-9.e]*" "$1/metrics.jsonl" | cut -d' ' -f2 | tr '\n' ' '; }
random=(model.path= model.config=model.json tokenizer.path=sft/model training.steps=3 validation.enable=false rollout.n=16)

# ---- A stop text that a token goes on after ----
# Of "10" and "1" alone nothing has two characters after the stop text.
rl stops -n 2 "${random[@]}" reward.kind=regex 'reward.regex=1..' rollout.stop=1 || fail "stop texts: $(tail -n 1 stops.out)"
[ "$(metric stops rollout/raw_reward)" = "0 0 0 " ] && pass "an answer ends with the token that completes a stop text" ||
    fail "answers went on after a stop text: $(metric stops rollout/raw_reward)"
awk -v t="$(metric stops rollout/truncated_ratio)" 'BEGIN { split(t, x, " "); exit !(x[1] > 0.3 && x[1] < 0.9) }' &&
    pass "some answers end so" || fail "truncated: $(metric stops rollout/truncated_ratio)"
finish
