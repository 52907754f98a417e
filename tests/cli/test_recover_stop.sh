#!/usr/bin/env bash
# A job that is asked to stop (a scheduler's SIGTERM or SIGUSR1, ctrl-C) saves within its grace, or is killed.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml

# start FOLDER ARGUMENTS...: starts a long run in the background; returns after a few steps.
start() {
    folder=$1
    shift
    setsid bash -c 'trap - INT; exec "$@"' _ "$tessera" train run.yaml -n 2 job.dump_folder="$folder" \
        training.steps=100000 validation.enable=false checkpoint.interval=100000 debug.trace=false training.threads=1 \
        recovery.enable=true "$@" >"$folder.out" 2>&1 &
    launcher=$!
    await "$launcher" has_lines "$folder/metrics.jsonl" 3 && return 0
    fail "a run starts: $(tail -n 3 "$folder.out")"
    return 1
}
# start_stuck FOLDER ARGUMENTS...: the same, but rank 1 stands still in a step.
start_stuck() {
    start "$@" fault.spec="rank=1 step=6 point=step kind=sigstop" && await "$launcher" is_stopped "$launcher" 1
}
waits_for_signals() { has_text "/proc/$1/syscall" '^128 '; } # PID, in rt_sigtimedwait
ends() { # NAME CODE
    local got=0
    wait "$launcher" || got=$?
    if [ "$got" = "$2" ]; then pass "$1"; else fail "$1: exit code $got, not $2: $(tail -n 4 "$folder.out")"; fi
}
says() { if grep -qE -- "$1" "$folder.out"; then pass "$2"; else fail "$2: expected /$1/ in: $(tail -n 4 "$folder.out")"; fi; }

for signal in TERM USR1; do
    start "by$signal" && {
        kill -$signal "$launcher"
        ends "SIG$signal ends with 130" 130
        says "asked to stop \(SIG$signal\): the ranks have 120 s to finish their step and save" "the grace is told"
        says "interrupted after step [0-9]+ .*: saved" "and the run is saved"
    }
done
start everybody && {
    kill -TERM $(pgrep -P "$launcher") "$launcher"
    ends "a SIGTERM to every process is one request" 130
    says "interrupted after step [0-9]+ .*: saved" "that is served"
}
start rank && {
    kill -TERM "$(rank "$launcher" 1)"
    ends "SIGTERM to a rank alone stops all" 130
    says "interrupted after step [0-9]+ .*: saved" "and they save"
}
start_stuck late checkpoint.emergency_grace_s=0.5 && {
    kill -TERM "$launcher"
    ends "when the grace is over the ranks are killed" 143
    says "not done within 0.5 s of being asked to stop: the ranks are killed, the newest complete checkpoint stands" "it says so"
}
start_stuck twice && {
    kill -TERM "$launcher"
    await "$launcher" has_text twice.out "asked to stop"
    kill -TERM "$launcher"
    ends "a second signal ends the ranks at once" 143
    says "asked to stop twice" "it says so"
}
start failing recovery.hot=false && {
    kill -STOP "$(rank "$launcher" 0)"
    kill -KILL "$(rank "$launcher" 1)"
    await "$launcher" has_text failing.out "all ranks start again"
    says "all ranks start again" "a rank is lost and all are to start again"
    kill -TERM "$launcher"
    await "$launcher" has_text failing.out "asked to stop"
    kill -TERM "$launcher"
    ends "a job that is asked to stop while it fails does not start again" 137
}
start pausing recovery.hot=false recovery.backoff_s=600 recovery.backoff_max_s=600 recovery.max_failures=0 \
    fault.spec="rank=1 point=phase:setup kind=sigkill life=2; rank=1 step=6 point=step kind=sigkill life=1" && {
    await "$launcher" has_text pausing.out "all ranks start again from the newest checkpoint in "
    await "$launcher" waits_for_signals "$launcher" # the pause has begun
    kill -TERM "$launcher"
    ends "a job that is asked to stop before it starts again ends" 130
    says "asked to stop \(SIGTERM\): the job does not start again" "it says so"
}
start growing elastic.max_ranks=4 elastic.retry_s=0 && {
    await "$launcher" has_lines growing/metrics.jsonl 100
    kill -TERM "$launcher"
    ends "a job that has room for more ranks ends when it is asked to stop" 130
    says "interrupted after step [0-9]+ .*: saved" "and saves"
}
finish
