#!/usr/bin/env bash
# Samples of reinforcement learning: where they end, and how they are read from the journal.
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
expect "a share of the tokens" 2 "rollout.top_p is not supported: answers are drawn from all tokens" \
    "$tessera" rl rl.yaml job.dump_folder=bad rollout.top_p=0.9
sed 's/^  n: 3/  n: 3\n  top_k: 20/' rl.yaml >cuts.yaml
expect "some of the tokens" 2 "evaluation.top_k is not supported" "$tessera" rl cuts.yaml job.dump_folder=bad

# ---- Parts of rewards, and the journal ----
rl drawn -n 2 training.steps=3 validation.enable=false || fail "a run: $(tail -n 1 drawn.out)"
samples() { "$tessera" rl samples "$@" 2>&1 </dev/null; }
samples drawn --rollout all --json >all.jsonl
[ "$(wc -l <all.jsonl)" = 72 ] && pass "every sample is read once" || fail "$(wc -l <all.jsonl) samples: $(head -n 1 all.jsonl)"
# field NAME: its numbers, line by line.
field() { sed "s/.*\"$1\":\([-0-9.e]*\).*/\1/" all.jsonl; }
[ "$(field sample | tr '\n' ' ')" = "$(seq 0 71 | tr '\n' ' ')" ] && pass "in the order of their numbers" || fail "$(field sample | head)"
for part in signs length; do
    paste <(field rollout) <(field "$part") | awk '{ n[$1]++; sum[$1] += $2 } END { for (r = 0; r < 3; r++) print sum[r] / n[r] }' >means
    metric drawn "rollout/reward/$part" | tr ' ' '\n' | grep . | paste means - | awk '
        { off = $1 - $2; if (off * off > 1e-9) bad = 1 } END { exit bad || NR != 3 }' &&
        pass "metrics have the mean of the part $part" || fail "$part: $(cat means) and $(metric drawn "rollout/reward/$part")"
done
paste <(field reward) <(field signs) <(field length) | awk '{ off = $1 - $2 - $3 / 10; if (off * off > 1e-12) exit 1 }' &&
    pass "a reward is the weighted sum of its parts" || fail "parts: $(head -n 1 all.jsonl)"
# Line 49 is the first sample of the newest rollout.
prompt=$(sed -n '49s/.*"prompt":"\([^"]*\)".*/\1/p' all.jsonl)
answer=$(sed -n '49s/.*"response":"\([^"]*\)".*/\1/p' all.jsonl)
expect "a table of the newest rollout" 0 "$prompt | $answer" samples drawn
[ "$(grep -c '^ *2  ' output)" = 24 ] && pass "and of no other" || fail "$(cat output)"
expect "it ends with the means" 0 "24 samples, mean reward " samples drawn --rollout 2
expect "one sample" 0 "1 sample, mean reward" samples drawn --rollout 0-2 --sample 30
[ "$(samples drawn --rollout all --min-reward 0.5 --json | wc -l)" = "$(field reward | awk '$1 >= 0.5' | wc -l)" ] &&
    pass "samples by their reward" || fail "of at least 0.5: $(samples drawn --rollout all --min-reward 0.5 | tail -n 1)"
[ "$(samples drawn --rollout all --find "$prompt" --json | wc -l)" = 4 ] && pass "samples by their text" ||
    fail "with '$prompt': $(samples drawn --rollout all --find "$prompt")"
expect "a limit" 0 "3 samples, " samples drawn --limit 3
expect "by their end" 0 "0 samples" samples stops --rollout all --finish unfinished
samples stops --rollout all --finish stop --json | grep -v '"response":"[^"]*1[0-9]*","reward"' >others
[ ! -s others ] && [ "$(samples stops --finish stop --json | wc -l)" -gt 5 ] && pass "answers that a stop text ended" ||
    fail "stop texts: $(head -n 2 others)"
[ "$(samples drawn --sample 50 --json --tokens | grep -o '"ids":\[[0-9,]*\]' | tr ',' '\n' | wc -l)" = \
    "$(samples drawn --sample 50 --json | sed 's/.*"tokens":\([0-9]*\).*/\1/')" ] && pass "tokens" ||
    fail "tokens: $(samples drawn --sample 50 --json --tokens)"
# Samples that a run with other weights has left are not shown as this one's.
rl once -n 3 training.steps=3 validation.enable=false checkpoint.enable=false
rl once -n 1 training.steps=3 validation.enable=false checkpoint.enable=false optimizer.lr=2e-3
[ "$(ls once/rl/rollout-00000002 | wc -l)" = 3 ] || fail "files of both: $(ls once/rl/*)"
rl alone -n 1 training.steps=3 validation.enable=false checkpoint.enable=false optimizer.lr=2e-3
diff <(samples alone --rollout all --json) <(samples once --rollout all --json) >difference &&
    pass "samples of an earlier run in the folder are left out" || fail "$(head -n 4 difference | cut -c1-200)"
bad() { local name=$1 text=$2; shift 2; expect "$name" 2 "$text" "$tessera" rl samples "$@"; }
bad "a run that drew nothing" "sft/rl: no such folder: name the job.dump_folder of a run of" sft
bad "rollouts that are none" "--rollout: '1..2' is neither a number" drawn --rollout 1..2
bad "an end that is none" "--finish" drawn --finish eos
bad "a rollout that the journal lacks" "--rollout: the journal has none of 3-7, but 0 to 2" drawn --rollout 3-7
bad "tokens in a table" "--tokens are printed with --json only" drawn --tokens
bad "no folder" "name one folder of a run"
rm drawn/rl/tokenizer.json
bad "no tokenizer" "--tokenizer names another" drawn
expect "another one" 0 "24 samples" samples drawn --tokenizer sft/model

# ---- Texts for people (metrics.samples), and lines on narrow terminals ----
rl texts -n 2 training.steps=2 validation.enable=false metrics.samples=3 || fail "metrics.samples: $(tail -n 1 texts.out)"
samples texts --rollout all --json | awk -F '"sample":' '{ n = $2 + 0 } n % 24 < 3' |
    sed -E 's/.*("prompt":"[^"]*","response":"[^"]*","reward":[-0-9.e]*).*/\1/' >wanted
sed -E 's/.*("prompt":"[^"]*","response":"[^"]*","reward":[-0-9.e]*).*/\1/' texts/samples.jsonl >written
[ "$(wc -l <written)" = 6 ] && cmp -s wanted written && pass "samples.jsonl has the first answers of each rollout" || fail "$(diff wanted written | head -n 4)"
for columns in 40 80; do
    rm -rf narrow
    TERM=xterm script -qec "stty cols $columns; '$tessera' rl rl.yaml job.dump_folder=narrow training.steps=2 validation.enable=false checkpoint.enable=false" \
        /dev/null </dev/null | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[mK]//g' >narrow.out
    grep -qE "^step 2/2  reward [-0-9.]+  .*ETA 0:00$" narrow.out && ! grep -E '^step [0-9]' narrow.out | grep -q ".\{$((columns + 1))\}" &&
        pass "$columns columns: short lines" || fail "$columns columns: $(grep '^step' narrow.out)"
done
finish
