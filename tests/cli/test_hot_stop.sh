#!/usr/bin/env bash
# A job that is asked to stop while a lost rank is replaced saves the persistent state of all, and ends like any job that
# is asked to stop: no step is lost.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml

is_gone() { [ ! -e "/proc/$1" ]; }
has_rank() { [ -n "$(rank "$launcher" "$1")" ]; }

# start FOLDER ARGUMENTS...: starts a long run of three ranks in the background; returns after a few steps.
start() {
    folder=$1
    shift
    setsid bash -c 'trap - INT; exec "$@"' _ "$tessera" train run.yaml -n 3 job.dump_folder="$folder" \
        training.steps=100000 training.global_batch_size=18 validation.enable=false checkpoint.interval=100000 \
        debug.trace=false training.threads=1 recovery.enable=true checkpoint.emergency_grace_s=600 "$@" \
        >"$folder.out" 2>&1 &
    launcher=$!
    await "$launcher" has_lines "$folder/metrics.jsonl" 2 || fail "a run starts: $(tail -n 3 "$folder.out")"
}

# ends NAME: expects exit code 130, a checkpoint from which the next run resumes, and a line for the replaced rank.
ends() {
    local got=0 last
    wait "$launcher" || got=$?
    last=$(sed -n 's/^interrupted after step \([0-9]*\) .*: saved.*/\1/p' "$folder.out")
    if [ "$got" != 130 ] || [ -z "$last" ]; then
        fail "$1: exit code $got: $(tail -n 4 "$folder.out")"
    elif ! grep -q "replaced in .*, going on from step" "$folder.out"; then
        fail "$1: nobody was replaced: $(tail -n 4 "$folder.out")"
    elif ! "$tessera" train run.yaml -n 3 job.dump_folder="$folder" training.steps="$last" validation.enable=false \
        lr_scheduler.warmup_steps=0 training.global_batch_size=18 training.threads=1 2>&1 </dev/null | grep -q "step $last"; then
        fail "$1: the checkpoint of step $last does not load"
    else
        pass "$1"
    fi
}

# A stopped rank delays the replacement until it continues (or, on a slow machine, until its grace is over).
lose_one() {
    held=$(rank "$launcher" 0)
    lost=$(rank "$launcher" 1)
    kill -STOP "$held"
    kill -KILL "$lost"
    await "$launcher" is_gone "$lost" || fail "the launcher takes note of a killed rank"
}

start by_launcher
lose_one
kill -TERM "$launcher"
await "$launcher" grep -q "asked to stop (SIGTERM)" "$folder.out" || fail "the request is told: $(tail -n 3 "$folder.out")"
kill -CONT "$held"
ends "a stop between the loss and its replacement"

# Schedulers stop jobs in this way. One of the ranks waits for the replacement now, or soon.
start everybody
waiting=$(rank "$launcher" 2)
lose_one
kill -TERM "$launcher" "$waiting"
kill -CONT "$held"
ends "a stop that reaches every process meanwhile"

start newcomer
lose_one
kill -CONT "$held"
await "$launcher" has_rank 1 || fail "a rank takes the place of the one that was lost"
kill -TERM "$(rank "$launcher" 1)" "$launcher"
ends "a stop that reaches the new rank before it has joined"
finish
