#!/usr/bin/env bash
# Two jobs, one job.dump_folder: the second is refused with the name of the first and writes nothing; a dead job does not
# block the folder.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
base="validation.enable=false checkpoint.keep_latest_k=2 recovery.enable=false"

train() { "$tessera" train run.yaml -n 2 $base "$@"; }

# A job that runs until it is killed: a rank of it stands still in its third step.
"$tessera" train run.yaml -n 2 $base training.steps=8 checkpoint.interval=2 \
    fault.spec="rank=1 step=3 point=phase:forward kind=sigstop" >first 2>&1 &
launcher=$!
await $launcher test -e out/checkpoint/step-00000002/commit.json && await $launcher is_stopped $launcher 1 &&
    await $launcher test -e out/trace/job.json || # which the launcher writes once it has looked at its ranks
    fail "the first job: $(tail -n 3 first)"

find out -type f | sort >before
cp out/metrics.jsonl metrics.before
expect "a second job is refused" 2 "job.dump_folder: the job of process $launcher on " train training.steps=8
expect "with one rank, too" 2 "writes into 'out': wait for it or end it" "$tessera" train run.yaml $base
find out -type f | sort | diff - before >difference && cmp -s out/metrics.jsonl metrics.before &&
    pass "and has written nothing" || fail "the second job wrote: $(head -n 3 difference)"
expect "another folder is free" 0 "model: other/model" train training.steps=2 lr_scheduler.warmup_steps=1 \
    job.dump_folder=other

kill -9 $launcher
expect "what is left of a killed job is waited for" 0 "resumed from step 2" train training.steps=8
expect "and the folder of one that has ended is free" 0 "resumed from step 8" train training.steps=9

[ ! -e out/job.lock ] && pass "of which nothing is left" || fail "out/job.lock is still there"

expect "a folder that nothing can be written into" 2 "job.dump_folder: nothing can be written into '/proc/self': open " \
    train job.dump_folder=/proc/self
mkdir out/job.lock # as on a file system without locks
expect "where nothing can be locked a line says so" 0 "whether another job writes there is not known" train \
    training.steps=10
finish
