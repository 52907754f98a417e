#!/usr/bin/env bash
# job.reload: a changed configuration counts from a stated step on, with the bits of two runs that are joined there.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config config.yaml
sed -i 's/steps: 30/steps: 8/; s/interval: 15/interval: 100/' config.yaml
columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
plain=(validation.enable=false model.save_dtype=float32)

# Two runs, joined after step 5.
"$tessera" train config.yaml "${plain[@]}" job.dump_folder=joined checkpoint.interval=5 >log 2>&1 || { cat log; exit 1; }
sed 's/lr: 3e-3/lr: 1e-3/' config.yaml >other.yaml
cmp -s config.yaml other.yaml && { fail "the learning rate is in the configuration"; finish; }
"$tessera" train other.yaml "${plain[@]}" job.dump_folder=joined checkpoint.load_step=5 >log 2>&1 || { cat log; exit 1; }

# begin MS: a run that waits in step 3 while the file changes; the job is $launcher.
begin() {
    { cat config.yaml; printf 'job:\n  reload: true\n  reload_step: 0\n'; } >run.yaml
    rm -rf out run.log
    "$tessera" train run.yaml "${plain[@]}" -n 2 fault.spec="rank=all step=3 point=phase:backward kind=sleep ms=$1" \
        >run.log 2>&1 &
    launcher=$!
    await $launcher has_lines out/metrics.jsonl 2 || fail "the run begins: $(tail -n 3 run.log)"
}
change() { sed "$1; s/reload_step: .*/reload_step: $2/" run.yaml >new.yaml && mv new.yaml run.yaml; }
ends() { # NAME
    local code=0
    wait $launcher || code=$?
    [ $code = 0 ] || fail "$1: exit code $code: $(tail -n 3 run.log)"
}
says() { grep -qF -- "$2" run.log && pass "$1" || fail "$1: expected \"$2\" in $(grep reload run.log)"; }

begin 4000
change 's/lr: 3e-3/lr: 1e-3/' 5
await $launcher has_text run.log "after step 5" || fail "the change is noted: $(tail -n 3 run.log)"
ends "a learning rate changes after step 5"
says "the keys are named" "job.reload: after step 5: job.reload_step (0 -> 5), optimizer.lr (0.003 -> 0.001)"
says "all ranks go on with it" "all ranks go on from this checkpoint with the changed configuration"
cmp -s <(columns out) <(columns joined) && pass "losses and gradients are those of two runs" ||
    fail "losses and gradients are those of two runs: $(diff <(columns out) <(columns joined) | head -n 4)"
cmp -s out/model/model.safetensors joined/model/model.safetensors && pass "and so are the weights" ||
    fail "and so are the weights"

# After a refusal nothing changes, and the run ends as if nothing had been asked.
begin 9000
change 's/lr: 3e-3/lr: 1e-3/' 2
await $launcher has_text run.log "has passed" || fail "a step that has passed: $(tail -n 3 run.log)"
says "a step that has passed is refused" "nothing is changed: job.reload_step: step 2 has passed: the ranks are in step 3"
change 's/seed: .*/&/; s/lr: 1e-3/lr: 3e-3\n  beta1: 0.8/' 6
await $launcher has_text run.log "beta1" || fail "a key of the layout: $(tail -n 3 run.log)"
says "what decides the layout of the state is refused" "nothing is changed: optimizer.beta1 (0.9 -> 0.8) cannot change while"
change '/beta1/d; s/lr: 3e-3/lr: 1e-3/' 8
await $launcher has_text run.log "not before" || fail "the last step: $(tail -n 3 run.log)"
says "the last step is refused" "the run ends with step 8, and step 8 is not before that"
change 's/lr: 1e-3/lr: 2e-3/' 6
await $launcher has_text run.log "after step 6" || fail "another change: $(tail -n 3 run.log)"
change 's/lr: 2e-3/lr: 3e-3/' 0
await $launcher has_text run.log "called off" || fail "it is called off: $(tail -n 3 run.log)"
says "a change can be called off" "job.reload: the change after step 6 is called off"
ends "nothing was changed"
"$tessera" train config.yaml "${plain[@]}" job.dump_folder=calm >log 2>&1 || { cat log; exit 1; }
cmp -s out/model/model.safetensors calm/model/model.safetensors && pass "the weights of a run without changes" ||
    fail "the weights of a run without changes"
finish
