#!/usr/bin/env bash
# job.reload: a change that the job could not go on with is refused beforehand, or the job goes back to the configuration
# before it. A planned change outlives the launcher.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_text 100 >held.txt
printf 'no' >tiny.txt
make_model model.json
make_config config.yaml
sed -i 's/steps: 30/steps: 8/; s/interval: 15/interval: 100/; s/^validation:/&\n  files: [held.txt]/' config.yaml
# A rank of two, as torchrun starts it.
ranks_of_another=(timeout 60 env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517
    "$tessera" train)
base() { cat config.yaml; printf 'job:\n  reload: true\n  reload_step: %s\n' "${1:-0}"; }
change() { sed "$1; s/reload_step: .*/reload_step: $2/" run.yaml >new.yaml && mv new.yaml run.yaml; }
# begin MS STATED: a new run that waits in step 3; the job is $launcher.
begin() {
    base "$2" >run.yaml
    rm -rf out run.log
    "$tessera" train run.yaml model.save_dtype=float32 -n 2 \
        fault.spec="rank=all step=3 point=phase:backward kind=sleep ms=$1" >run.log 2>&1 &
    launcher=$!
    await $launcher has_lines out/metrics.jsonl 2 || fail "the run begins: $(tail -n 3 run.log)"
}
# sees NAME PATTERN: the running job prints a line with the pattern.
sees() { await $launcher has_text run.log "$2" && pass "$1" || fail "$1: expected \"$2\" in $(grep reload run.log)"; }
kills() { kill -KILL $launcher; wait $launcher 2>/dev/null; }
refuses() { # NAME PATTERN EDIT
    base >run.yaml
    change "$3" 6
    sees "$1: refused while the run goes on" "nothing is changed: .*$2"
}

"$tessera" train config.yaml model.save_dtype=float32 job.dump_folder=calm >log 2>&1 || { cat log; exit 1; }
"$tessera" train config.yaml model.save_dtype=float32 job.dump_folder=joined checkpoint.interval=5 >log 2>&1 ||
    { cat log; exit 1; }
sed 's/lr: 3e-3/lr: 1e-3/' config.yaml >other.yaml
"$tessera" train other.yaml model.save_dtype=float32 job.dump_folder=joined checkpoint.load_step=5 >log 2>&1 ||
    { cat log; exit 1; }

# Refused are keys that a checkpoint compares, values that the task refuses, and files that are missing.
begin 600000 2
change 's/lr: 3e-3/lr: 2e-3/' 2
sees "a step that was stated at the start is named" 'job.reload_step=2 does not count again'
refuses "another seq_len" 'training.seq_len \(19 -> 32\) cannot change' 's/seq_len: 19/seq_len: 32/'
refuses "another share of held-out text" 'validation.files \(.*\) cannot change' '/held.txt/d'
refuses "other frozen parameters" 'training.freeze \(.*\) cannot change' 's/^training:/&\n  freeze: [embed]/'
refuses "a file that is not there" 'validation.files: .*gone.txt' 's/held.txt/gone.txt/'
refuses "early stopping without evaluations" 'validation.patience' 's/^validation:/&\n  enable: false\n  patience: 2/'
kills

# Only the ranks can tell that a text is too short: they refuse it, and the job goes on without the change.
begin 3000 0
change 's/held.txt/tiny.txt/' 5
sees "a text that is too short is noted" 'after step 5: '
code=0
wait $launcher || code=$?
[ $code = 0 ] && pass "the job ends well" || fail "the job ends well: exit code $code: $(tail -n 4 run.log)"
sees "it says that it goes back" 'does not start with the changed configuration'
cmp -s out/model/model.safetensors calm/model/model.safetensors && pass "the weights of a run without the change" ||
    fail "the weights of a run without the change"

# The launcher is killed before the step: the same command goes on with the old values until then.
begin 600000 0
change 's/lr: 3e-3/lr: 1e-3/' 5
sees "a change is planned" 'after step 5: '
kills
expect "one rank alone cannot take over the change" 2 "start it with -n" "$tessera" train run.yaml
expect "ranks that another launcher has started cannot, either" 2 "start it with -n" "${ranks_of_another[@]}" run.yaml
expect "the same command notes the change again" 0 "after step 5: job.reload_step (0 -> 5), optimizer.lr (0.003 -> 0.001)" \
    "$tessera" train run.yaml model.save_dtype=float32 -n 2
cmp -s out/model/model.safetensors joined/model/model.safetensors && pass "the bits are those of two runs" ||
    fail "the bits are those of two runs"
[ ! -e out/before-reload.yaml ] && pass "the text of before is removed" || fail "the text of before is removed"

expect "a step without job.reload is refused" 2 "job.reload_step=2: the file is looked at only with job.reload=true" \
    "$tessera" train config.yaml job.reload_step=2
base 2 >run.yaml
expect "ranks that another launcher has started refuse a step" 2 "job.reload_step=2: only the launcher of" \
    "${ranks_of_another[@]}" run.yaml job.dump_folder=elsewhere
finish
