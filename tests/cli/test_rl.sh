#!/usr/bin/env bash
# Reinforcement learning has the same bits on any number of ranks, with any strategy, and however a run was interrupted;
# training gives every token the log-probability that it was drawn with.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"

# ---- Exactly on-policy, on 1 to 4 ranks ----
# exact FOLDER STEPS: each step says that no token differs, and of how many.
exact() {
    [ "$(grep -cE 'logprob_diff 0 \(0 of [0-9,]+ tokens\)' "$1.out")" = "$2" ] && pass "$1: every token as drawn" ||
        { fail "$1: some token is not as it was drawn"; tail -n 5 "$1.out" | sed 's/^/    /'; }
}

rl plain -n 1 || fail "the plain run: $(tail -n 1 plain.out)"
exact plain 6
memory plain
for n in 2 3 4; do
    rl ranks -n $n || fail "$n ranks: $(tail -n 1 ranks.out)"
    same "$n ranks" ranks plain
    rm -rf ranks
done
for strategy in none zero2; do
    rl ranks -n 2 parallelism.shard_strategy=$strategy training.threads=1
    same "2 ranks, $strategy" ranks plain
    rm -rf ranks
done
# How much is drawn at once, and in which passes, is no part of the result.
rl scaled -n 2 training.loss_scale=1024
sed -i 's/, "loss_scale": 1024//' scaled/metrics.jsonl
same "a scale of the loss changes no bit" scaled plain
rl narrow -n 2 rollout.max_sequences=3 rollout.pass_tokens=5
same "few sequences at once" narrow plain

# ---- Filter, budget, lag, several updates ----
i=0
for options in "rl.filter=true" "rollout.budget_tokens=2 rollout.in_flight=9" "rollout.lag=1" "rl.updates=2 rl.epochs=2 rl.algorithm=gspo" \
    "rl.algorithm=reinforce_pp rl.kl_beta=0.01 rl.kl_in_reward=true" "rl.algorithm=ppo rl.lambda=0.95 critic.lr=1e-3 rl.updates=2 rl.epochs=2 rl.balance=lpt" \
    "rl.algorithm=ppo rl.lambda=0.95 critic.trunk=shared rl.updates=2 rl.epochs=2 rl.balance=karmarkar_karp" \
    "rl.algorithm=cispo rl.kl_beta=0.05 reference.update_interval=1 rl.epochs=4 rl.kl_target=0.01"; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    { rl "one$i" -n 1 $options && rl "three$i" -n 3 $options; } || fail "$options: $(cat "one$i.out" "three$i.out" | tail -n 1)"
    same "3 ranks, $options" "three$i" "one$i"
    # Killed while it learns, and while it draws; goes on elsewhere.
    # shellcheck disable=SC2086
    rl "cut$i" -n 2 $options "fault.spec=rank=1 step=4 point=phase:backward kind=sigkill"
    # shellcheck disable=SC2086
    rl "cut$i" -n 3 $options "fault.spec=rank=0 step=5 point=phase:rollout kind=sigkill"
    # shellcheck disable=SC2086
    rl "cut$i" -n 1 $options || fail "going on: $(tail -n 1 "cut$i.out")"
    same "killed twice, $options" "cut$i" "one$i"
    if [[ $options = *shared* ]]; then # all that it learns lies in memory that outlives a rank
        # shellcheck disable=SC2086
        rl "hot$i" -n 3 $options recovery.enable=true "fault.spec=rank=1 step=4 point=phase:backward kind=sigkill"
        same "a rank is replaced, $options" "hot$i" "one$i"
        grep -q "replaced in " "hot$i.out" && pass "in the middle of a rollout" || fail "no rank was replaced"
        grep -q v_head "one$i/model/model.safetensors" && fail "the value head is exported" || pass "the value head stays here"
    fi
    rm -rf "one$i" "three$i" "cut$i" "hot$i"
done

# The value model learns: of a reward that the prompt decides (the first digit is copied), it explains more and more.
rl values -n 2 rl.algorithm=ppo critic.lr=3e-3 optimizer.lr=0 training.steps=30 validation.enable=false rollout.prompts=20 \
    reward.kind=regex 'reward.regex=^[1-4]'
memory values less
explained=$(grep -o '"train/explained_variance": [-0-9.e]*' values/metrics.jsonl | cut -d' ' -f2 | tr '\n' ' ')
awk -v v="$explained" 'BEGIN { n = split(v, x, " "); exit !(n == 30 && x[1] < 0.1 && x[n] > 0.5) }' &&
    pass "the critic explains more and more" || fail "explained variance: $explained"

# Values of the policy's own last layer do so, too.
rl shared -n 2 rl.algorithm=ppo critic.trunk=shared optimizer.lr=3e-3 training.steps=30 validation.enable=false \
    rollout.prompts=20 reward.kind=regex 'reward.regex=^[1-4]'
losses=$(grep -o '"train/value_loss": [-0-9.e]*' shared/metrics.jsonl | cut -d' ' -f2 | tr '\n' ' ')
awk -v v="$losses" 'BEGIN { n = split(v, x, " "); exit !(n == 30 && x[n] < x[1] / 10) }' &&
    pass "a shared trunk learns values" || fail "value losses: $losses"

# ---- Killed at random points, on other numbers of ranks each time ----
x=7
for run in 1 2 3; do
    for attempt in 1 2 3 4 5 6 7 8; do
        x=$(((x * 1103515245 + 12345) % 2147483648))
        setsid timeout -s KILL "$((x / 65536 % 3)).$((x / 1024 % 10))$((x / 64 % 10))" "$tessera" rl rl.yaml job.dump_folder=random \
            -n $((1 + x / 4096 % 4)) checkpoint.interval=1 >random.out 2>&1 </dev/null && break
    done
    [ -e random/model/model.safetensors ] || rl random -n 2 checkpoint.interval=1 || fail "the run after the kills: $(tail -n 1 random.out)"
    same "killed $((attempt - 1)) times at random" random plain
    rm -rf random
done

# ---- A rank is replaced ----
i=0
for point in phase:rollout phase:reward phase:backward; do
    i=$((i + 1))
    rl "hot$i" -n 3 recovery.enable=true "fault.spec=rank=1 step=3 point=$point kind=sigkill"
    same "a rank killed in $point is replaced" "hot$i" plain
    expect "and that is told" 0 "replaced in " cat "hot$i.out"
done

# ---- The journal is the truth ----
# A grader that gives each answer another reward every time it is asked; a kill after it has graded asks it no more.
cat >grader.sh <<'GRADER'
#!/bin/sh
while read -r line; do
    id=${line#*\"id\":}
    echo x >>"$COUNT"
    echo "{\"id\": ${id%%,*}, \"reward\": $(($(wc -l <"$COUNT") % 7))}"
done
GRADER
chmod +x grader.sh
export COUNT=$work/count
grade=(reward.kind=command "reward.command=[$work/grader.sh]" reward.env=COUNT reward.workers=1 validation.enable=false training.steps=2 checkpoint.enable=false)
rl judged -n 1 "${grade[@]}" "fault.spec=rank=0 step=2 point=phase:forward kind=sigkill" 
asked=$(wc -l <"$COUNT")
rl judged -n 2 "${grade[@]}" || fail "graded: $(tail -n 1 judged.out)"
[ "$asked" = 48 ] && [ "$(wc -l <"$COUNT")" = 48 ] && pass "what was graded is not graded again" ||
    fail "graded $asked answers, then $(($(wc -l <"$COUNT") - asked)) more"
# A rank draws and is killed before it grades; another one grades in its place, and is killed in turn.
: >"$COUNT"
rl regraded -n 2 "${grade[@]}" "fault.spec=rank=1 step=1 point=phase:reward kind=sigkill"
rl regraded -n 1 "${grade[@]}" "fault.spec=rank=0 step=1 point=phase:forward kind=sigkill"
asked=$(wc -l <"$COUNT")
rl regraded -n 1 "${grade[@]}" "fault.spec=rank=0 step=1 point=phase:forward kind=sigkill"
[ "$asked" -ge 24 ] && [ "$(wc -l <"$COUNT")" = "$asked" ] && pass "nor is what another rank has graded" ||
    fail "graded $asked answers, then $(($(wc -l <"$COUNT") - asked)) more"

# ---- Several turns ----
# What the environment says is part of the text and is not learned: the model has two turns of one token or more.
cat >world.sh <<'WORLD'
#!/bin/sh
while read -r line; do
    id=${line#*\"id\":}
    case $line in
    *\"turn\":0,*) echo "{\"id\": ${id%%,*}, \"observation\": \"=9:\"}" ;;
    *) echo "{\"id\": ${id%%,*}, \"observation\": null}" ;;
    esac
done
WORLD
chmod +x world.sh
for n in 1 3; do
    rl "turns$n" -n $n "rollout.env_command=[$work/world.sh]" rollout.max_new_tokens=14 training.seq_len=32 training.steps=3 ||
        fail "turns: $(tail -n 1 "turns$n.out")"
done
same "two turns on 3 ranks" turns3 turns1
exact turns1 3
[ "$(grep -cE '"rollout/turns/mean": 1\.[1-9]' turns1/metrics.jsonl)" = 3 ] && pass "turns are counted, and some samples have two" ||
    fail "turns: $(grep -o 'rollout/turns/mean": [0-9.]*' turns1/metrics.jsonl | tr '\n' ' ')"
mean=$(grep -o 'length: [0-9.]*' turns1.out | tail -n 1 | cut -d' ' -f2)
awk -v m="$mean" 'BEGIN { exit !(m > 7) }' && pass "both turns are learned" || fail "turns of $mean tokens"
expect "a world that ends is named" 2 "rollout.env_command: '$work/dead.sh' ended (exit code 3) before it was given anything" "$tessera" rl rl.yaml job.dump_folder=dead \
    "rollout.env_command=[$(printf '#!/bin/sh\nexit 3\n' >dead.sh && chmod +x dead.sh && echo "$work/dead.sh")]"
expect "a world that ends later, too" 2 ", turn 0 (exit code 3): it has ended" "$tessera" rl rl.yaml job.dump_folder=later -n 2 \
    "rollout.env_command=[$(printf '#!/bin/sh\nread -r line\nexit 3\n' >later.sh && chmod +x later.sh && echo "$work/later.sh")]"

# A world that fails for the two held-out prompts: two of two turns, however many ranks draw them, apart or together.
cat >partial.sh <<'WORLD'
#!/bin/sh
while read -r line; do
    id=${line#*\"id\":}
    prompt=${line#*\"prompt\":\"}
    if grep -qF "\"${prompt%%\"*}\"" "$1"; then echo no; else echo "{\"id\": ${id%%,*}, \"observation\": null}"; fi
done
WORLD
chmod +x partial.sh
head -n 2 questions.jsonl >two.jsonl
for degree in data_parallel_shard_degree=1 data_parallel_shard_degree=2 pipeline_parallel_degree=2; do
    rm -rf partial
    rl partial -n ${degree#*=} parallelism.$degree "rollout.env_command=[$work/partial.sh,$work/two.jsonl]" \
        reward.max_failures=0.05 training.steps=1 validation.files=two.jsonl evaluation.n=1
    expect "failed turns of an evaluation make it void with $degree" 0 "the evaluation of step 1 is missing: " \
        grep -E "of step 1 is missing: [12] turns failed, reward.max_failures allows 0.05 of 2 samples" partial.out
done

# ---- Rollouts drawn by one run and learned from by another ----
rl drawn -n 2 rl.phase=rollout training.steps=3
expect "rollouts without training" 0 "rollout:     2  reward: " cat drawn.out
[ -e drawn/model ] && fail "a model was written without training" || pass "they write no model"
for n in 1 3; do
    rm -rf "learned$n"; mkdir "learned$n"; cp -r drawn/rl "learned$n/rl"
    rl "learned$n" -n $n rl.phase=train training.steps=3 || fail "learning alone: $(tail -n 1 "learned$n.out")"
done
same "learned from kept samples on 3 ranks" learned3 learned1
cat >judge.sh <<'JUDGE'
#!/bin/sh
while read -r line; do
    id=${line#*\"id\":}
    echo "{\"id\": ${id%%,*}, \"reward\": 1}"
done
JUDGE
chmod +x judge.sh
judged=(-n 1 training.steps=1 validation.enable=false reward.kind=command "reward.command=[$work/judge.sh]")
rl judged rl.phase=rollout "${judged[@]}" || fail "rollouts with a judge: $(tail -n 1 judged.out)"
printf '#!/bin/sh\nexit 3\n' >judge.sh
rl judged rl.phase=train "${judged[@]}" && pass "kept samples need no judge" || fail "kept samples need no judge: $(tail -n 1 judged.out)"
expect "nothing is drawn where nothing was kept" 2 "cannot be drawn again" "$tessera" rl rl.yaml job.dump_folder=none rl.phase=train

# ---- Preferences ----
awk -F'"' 'NR <= 24 { split($4, p, " "); print "{\"prompt\": \"" $4 "\", \"chosen\": \"" $8 "\", \"rejected\": \"1+1\"}" }' sft.jsonl >pairs.jsonl
for n in 1 3; do
    rl "dpo$n" -n $n data.files=pairs.jsonl rl.algorithm=dpo training.steps=4 rollout.prompts=8 validation.enable=false
done
same "preferences on 3 ranks" dpo3 dpo1
first=$(grep -o 'margin: [-0-9.]*' dpo1.out | head -n 1 | cut -d' ' -f2)
last=$(grep -o 'margin: [-0-9.]*' dpo1.out | tail -n 1 | cut -d' ' -f2)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b > a + 0.01) }' && pass "the margin rises" || fail "margin $first to $last"

# ---- Bad input: a message with the fix, exit code 2 ----
bad() { local name=$1 text=$2; shift 2; expect "$name" 2 "$text" "$tessera" rl rl.yaml job.dump_folder=bad "$@"; }
bad "no tokenizer" "name the policy's tokenizer" model.path= model.config=model.json
bad "answers longer than a sequence" "leave no room for a prompt" rollout.max_new_tokens=24
bad "uneven updates" "give a divisor of rollout.prompts" rl.updates=4
bad "lag with a budget" "leave one of the two out" rollout.lag=1 rollout.budget_tokens=2
bad "a folder for a shared trunk" "leave critic.path out" rl.algorithm=ppo critic.trunk=shared critic.path=sft/model
bad "float16" "have no float16" training.mixed_precision_param=float16
bad "fp8" "set training.fp8=false" training.fp8=true
bad "a scale beside a critic of its own" "set critic.trunk=shared" rl.algorithm=ppo training.loss_scale=0
bad "a grader that is none" "reward" reward.kind=sings
bad "an unknown algorithm" "rl.algorithm" rl.algorithm=grop
bad "prompts that are none" "a JSON object over several lines, and no records" data.files=sft/model/config.json
[ -e bad ] && fail "a refused run has written something" || pass "a refused run writes nothing"
finish
