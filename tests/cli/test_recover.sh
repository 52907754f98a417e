#!/usr/bin/env bash
# Automatic recovery: the action for each failure, the same weights afterwards, and the limit of failures.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
sed 's/"hidden_size": 42/"hidden_size": 84/' model.json >other.json

# train FOLDER RANKS ARGUMENTS...: runs 9 steps with saves; returns the exit code.
options=(training.steps=9 checkpoint.interval=3 metrics.log_freq=1 validation.enable=false debug.trace=false
    training.threads=1 recovery.enable=true recovery.hot=false recovery.backoff_s=0.1)
train() {
    timeout 600 "$tessera" train run.yaml -n "$2" job.dump_folder="$1" "${options[@]}" "${@:3}" >"$1.out" 2>&1 </dev/null
}
losses() { tac "$1/metrics.jsonl" | awk -F, '!seen[$1]++ {print $1, $2, $3}' | tac; } # of every step, from its last life
says() { if grep -qF -- "$2" "$1.out"; then pass "$3"; else fail "$3: expected \"$2\" in: $(tail -n 4 "$1.out")"; fi; }
same() { # NAME FOLDER: the results are those of the undisturbed run
    if ! cmp -s undisturbed/model/model.safetensors "$2/model/model.safetensors"; then
        fail "$1: other weights: $(tail -n 3 "$2.out")"
    elif ! diff <(losses undisturbed) <(losses "$2") >difference; then
        fail "$1: other losses: $(head -n 4 difference)"
    else
        pass "$1"
    fi
}
ends() { # NAME CODE FOLDER RANKS ARGUMENTS...
    local name=$1 code=$2 got=0
    shift 2
    train "$@" || got=$?
    if [ "$got" = "$code" ]; then pass "$name"; else fail "$name: exit code $got, not $code: $(tail -n 4 "$1.out")"; fi
}

train undisturbed 2 || fail "the undisturbed run: $(tail -n 2 undisturbed.out)"

train crash 2 fault.spec="rank=1 step=5 point=phase:forward kind=crash; rank=0 step=8 point=step kind=exit"
same "after a crash all start again, to the same weights" crash
says crash "rank 1 was killed by signal 11 (SIGSEGV)" "it says who crashed"
says crash "all ranks start again from the newest checkpoint at once; failure 1, 3 within 3600 s end the job" "and what is done"
says crash "resumed from step 3" "and from where it goes on"
says crash "warning: fault 2 never happened on rank 0: rank=0 step=8 point=step kind=exit (it is for life 1 of the rank, which ends in its life 2)" \
    "a fault of a rank that was started anew meanwhile is warned of"
if has_text crash.out "fault 1 never"; then fail "so is the one that happened"; else pass "the one that happened is not"; fi

train anew 2 checkpoint.resume=false fault.spec="rank=1 step=5 point=phase:forward kind=crash"
same "a run that was told to start anew does so once" anew
says anew "resumed from step 3" "and then goes on from its own checkpoint"

train early 2 fault.spec="rank=0 step=2 point=step kind=exit code=9"
same "before there is a checkpoint they start from the beginning" early

train skip 2 fault.spec="rank=1 step=5 point=before:reduce_scatter_pieces kind=skip"
same "after ranks disagreed" skip

train nan 2 fault.spec="rank=1 step=5 point=gradient kind=nan tensor=model.norm.weight times=0"
same "after a NaN that does not come again" nan
ends "a NaN that comes again ends the job" 2 again 2 \
    fault.spec="rank=1 step=5 point=gradient kind=nan tensor=model.norm.weight times=0 life=0"
says again "the same (NaN or infinity) at step 5 for the second time" "and says why"
ends "recovery.on_nan=stop" 2 stop 2 recovery.on_nan=stop \
    fault.spec="rank=1 step=5 point=gradient kind=nan tensor=model.norm.weight times=0 life=0"
[ "$(grep -c resumed stop.out)" = 0 ] && pass "does not start again" || fail "it started again"

ends "a crash that comes again at its step ends the job" 139 crashes 2 \
    fault.spec="rank=1 step=5 point=phase:forward kind=crash life=0"
says crashes "2 failures in all:" "with a report"
ends "kills are counted within a window" 137 kills 2 recovery.max_failures=2 \
    fault.spec="rank=1 step=5 point=step kind=sigkill life=0"
says kills "2 failures within 3600 s (recovery.max_failures, recovery.window_s): the job stops" "and end the job"
ends "a refusal is not tried again" 2 refused 2 training.global_batch_size=7
[ "$(grep -c . refused.out)" = 1 ] && pass "and is told once" || fail "told: $(cat refused.out)"
for i in 1 2 3; do # the rank that ends first varies
    ends "an error that all ranks have is not tried again either" 2 undisturbed 2 model.config=other.json \
        recovery.hot=true training.steps=12
    [ "$(grep -c '^tessera:' undisturbed.out)" = 1 ] && says undisturbed "the checkpoint is of another model" "and is told once" ||
        fail "told: $(grep '^tessera:' undisturbed.out)"
done

train bad 4 elastic.min_ranks=2 elastic.retry_s=1e6 \
    fault.spec="rank=1 step=1 point=step kind=exit; rank=1 step=1 point=step kind=exit life=2"
same "a place that fails at the same step each time is left out" bad
says bad "the place of rank 1 failed 2 times and is left out: 3 ranks go on" "it says so"

train gone 4 elastic.min_ranks=2 elastic.retry_s=1e6 \
    fault.spec="rank=3 step=1 point=step kind=exit; rank=3 step=1 point=step kind=exit life=2"
same "a fault of a rank that is gone is nobody's, and no mistake" gone
says gone "the place of rank 3 failed 2 times and is left out: 3 ranks go on" "its place is left out"

train pairs 4 elastic.min_ranks=2 elastic.retry_s=1e6 parallelism.fsdp_reshard_after_forward=2 \
    fault.spec="rank=1 step=1 point=step kind=exit; rank=1 step=1 point=step kind=exit life=2"
same "ranks that are resharded in pairs" pairs
says pairs "the place of rank 1 failed 2 times and is left out: 2 ranks go on" "go on as pairs"

ends "more ranks at least than there are are refused" 2 places 2 elastic.min_ranks=4
says places "elastic.min_ranks: 4 are more than the 2 that start (-n)" "and it says so"
ends "ranks that no place can leave" 0 alone_all 2 elastic.min_ranks=2
says alone_all "elastic.min_ranks=2 leaves no place out: after the loss of one of 2 places at most 1 rank can go on: set elastic.min_ranks=1" "are told"
ends "the number that is named" 0 alone_one 2 elastic.min_ranks=1
if has_text alone_one.out "leaves no place out"; then fail "is taken: $(tail -n 4 alone_one.out)"; else pass "is taken"; fi
ends "a layout that runs on no fewer ranks" 0 alone_tp 2 elastic.min_ranks=1 parallelism.tensor_parallel_degree=2
says alone_tp "elastic.min_ranks=1 leaves no place out: this layout runs on no fewer than 2 ranks" "says so"
ends "fewer ranks at most than there are are refused" 2 places 2 elastic.max_ranks=1
says places "elastic.max_ranks: 1 are fewer than the 2 that start (-n)" "and it says so"

# A rank of the third life stands still until the launcher has looked for room for more ranks.
"$tessera" train run.yaml -n 4 job.dump_folder=place "${options[@]}" comm.soft_timeout_s=0.2 \
    elastic.min_ranks=2 elastic.retry_s=0.1 fault.spec="rank=1 step=4 point=step kind=exit; \
rank=1 step=5 point=step kind=exit life=2; rank=0 step=5 point=step kind=sigstop life=3" >place.out 2>&1 </dev/null &
launcher=$!
await $launcher is_stopped $launcher 0 && await $launcher has_text place.out 'rank 0 has kept .* stopped'
kill -CONT "$(rank $launcher 0)"
wait $launcher
same "a place that keeps failing is left out, and comes back" place
says place "the place of rank 1 failed 2 times and is left out: 3 ranks go on" "it says so"
says place "there is room for more ranks: 4 instead of 3 go on from this checkpoint" "and when it is back"
finish
