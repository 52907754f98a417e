#!/usr/bin/env bash
# The watcher of a job's host reports each problem once, and training goes on.
. "$(dirname "$0")/support.sh"

make_text 200 >text.txt
make_model model.json
make_config config.yaml
words=("$tessera" train config.yaml validation.enable=false checkpoint.enable=false training.steps=6
    lr_scheduler.warmup_steps=2 health.interval_s=0.05 health.memory_percent=0)
train() { "${words[@]}" -n "$1" job.dump_folder="$2" "${@:3}"; }
cat >pager <<'SH'
#!/bin/sh
cat >>paged.jsonl
echo "$TESSERA_ALERT_STATE: $TESSERA_ALERT_TEXT" >>paged.txt
SH
chmod +x pager

# train_until PATTERN FOLDER ARGUMENTS...: rank 1 stops in step 3, and continues once the run's alerts have the pattern.
train_until() {
    "${words[@]}" -n 2 job.dump_folder="$2" "${@:3}" fault.spec="rank=1 step=3 point=step kind=sigstop" &
    launcher=$!
    await $launcher is_stopped $launcher 1 && await $launcher has_text "$2/alerts.jsonl" "$1"
    kill -CONT "$(rank $launcher 1)"
    wait $launcher
}

expect "a healthy host" 0 "6 steps" train 2 good
expect "is no news" 1 "" cat good/alerts.jsonl

# A problem is reported when it begins, and again when it has lasted too long.
expect "too little room" 0 "tessera: health: degraded: " train_until unhealthy full health.disk_bytes=900000TiB \
    health.alert_command=./pager,--now
expect "in the file" 0 '"state":"degraded","text":"degraded: ' cat full/alerts.jsonl
expect "as JSON" 0 '"checks":{"disk":{"failing":true,"value":' cat full/alerts.jsonl
expect "unhealthy after three looks" 0 '"state":"unhealthy","text":"unhealthy (3 looks in a row): ' cat full/alerts.jsonl
expect "and no more of it" 0 "2" grep -c disk full/alerts.jsonl
expect "the program gets the lines" 0 "same" bash -c "cmp paged.jsonl full/alerts.jsonl && echo same"
expect "and the words" 0 "unhealthy: unhealthy (3 looks in a row): " cat paged.txt

# A rank stops its heartbeat and returns. On a slow machine rank 0 may also be silent, and be reported first.
"${words[@]}" -n 2 job.dump_folder=silent training.steps=1000000 health.heartbeat_s=0.5 \
    fault.spec="rank=1 step=3 kind=sigstop" >silent.log 2>&1 &
launcher=$!
await $launcher is_stopped $launcher 1 &&
    await $launcher has_text silent/alerts.jsonl 'rank [01] gave no sign of life for' ||
    fail "a silent rank: $(tail -n 3 silent.log)"
kill -CONT "$(rank $launcher 1)"
await $launcher has_text silent/alerts.jsonl '"state":"healthy"' || fail "it is back: $(tail -n 3 silent.log)"
kill -TERM $launcher
wait $launcher
expect "a silent rank" 0 "gave no sign of life for" grep "health: degraded: rank " silent.log
expect "is told when it is back" 0 '"state":"healthy","text":"healthy again: rank' cat silent/alerts.jsonl
expect "one rank alone has a watcher too" 0 "health: degraded: " train 1 one health.memory_percent=0.001
expect "none is wanted" 0 "6 steps" train 2 off health.enable=false health.memory_percent=0.001
expect "and none is there" 1 "" cat off/alerts.jsonl
expect "a program that hangs keeps nobody waiting for long" 0 "was killed" train 2 hung health.disk_bytes=1e18 \
    health.alert_command=sleep,600 health.alert_timeout_s=0.3
expect "one that is not there is told" 0 "an alert did not arrive: ./no-pager: no such program" train 2 lost \
    health.disk_bytes=1e18 health.alert_command=./no-pager

# A helper that is killed is reported, replaced and reaped: the watcher, the keeper of saves, the writer of job.json.
child() { pgrep -P "$1" -x "$2"; }                    # PARENT NAME
is_another() { [ -n "$(child $1 $2)" ] && [ "$(child $1 $2)" != "$3" ]; } # PARENT NAME PID
has_no_zombie() { ! ps -o stat= --ppid "$1" | grep -q Z; }
"${words[@]}" -n 2 job.dump_folder=helpers checkpoint.enable=true checkpoint.interval=100 \
    fault.spec="rank=1 step=3 kind=sigstop" >helpers.log 2>&1 &
launcher=$!
await $launcher is_stopped $launcher 1
watcher=$(child $launcher tessera-health)
kill -KILL "$watcher" "$(child $launcher tessera-keeper)"
await $launcher is_another $launcher tessera-health "$watcher" && pass "a killed watcher is replaced" ||
    fail "no watcher: $(tail -n 3 helpers.log)"
await $launcher has_no_zombie $launcher && pass "and no helper stays a zombie" ||
    fail "zombies: $(ps -o pid=,stat=,comm= --ppid $launcher)"
again=$(child $launcher tessera-health)
kill -KILL "$again"
await $launcher is_another $launcher tessera-health "$again" || fail "a second time: $(tail -n 3 helpers.log)"
kill -CONT "$(rank $launcher 1)"
wait $launcher && pass "the job goes on" || fail "the job: $(tail -n 3 helpers.log)"
expect "one line tells it" 0 "health: the process that watches this host (pid $watcher) was killed by signal 9 (SIGKILL); another one takes its place in 0 s" cat helpers.log
expect "and one the next time" 0 "2" grep -c "takes its place" helpers.log
"${words[@]}" job.dump_folder=lone training.steps=1000000 >lone.log 2>&1 &
launcher=$!
await $launcher has_lines lone/metrics.jsonl 1
keeper=$(child $launcher tessera-keeper)
watcher=$(child "$keeper" tessera-health)
kill -KILL "$watcher"
await $launcher is_another "$keeper" tessera-health "$watcher" && pass "the watcher of a rank alone, too" ||
    fail "a rank alone: $(tail -n 3 lone.log)"
kill -TERM $launcher
wait $launcher
expect "is told" 0 "(pid $watcher) was killed by signal 9" grep "health: the process" lone.log

# The end of a rank is an alert, too.
expect "a killed rank" 0 "6 steps" train 2 killed recovery.enable=true recovery.hot=true fault.spec="rank=1 step=3 kind=sigkill"
await $$ has_text killed/alerts.jsonl recovery
expect "is an alert" 0 '"event":"recovery","state":"replaced","text":"rank 1 was killed by signal 9' cat killed/alerts.jsonl

# A full disk loses only what would have been written there, and only if there is never any room.
mkdir lines && ln -s /dev/full lines/metrics.jsonl
expect "metrics on a full disk" 0 "warning: metrics wait in memory until they can be written, and the run goes on: write lines/metrics.jsonl: No space left" train 2 lines
cp output lines.txt
expect "are told once" 0 "1" grep -c "metrics wait" lines.txt
expect "and counted in the end" 0 "1" grep -c "warning: 6 lines of metrics could not be written and are lost: .*No space left on device" lines.txt
expect "and the run goes on" 0 "6 steps" cat lines.txt
if mkdir -p small && mount -t tmpfs -o size=8m tmpfs small 2>/dev/null; then
    trap 'umount "$work/small"; rm -rf "$work"' EXIT
    "${words[@]}" -n 1 job.dump_folder=small/out training.steps=1000000 debug.trace=false >room.log 2>&1 &
    launcher=$!
    await $launcher has_lines small/out/metrics.jsonl 1 || fail "no step: $(tail -n 3 room.log)"
    cat /dev/zero >small/fill 2>/dev/null
    await $launcher has_text room.log "metrics wait" || fail "no line waits: $(tail -n 3 room.log)"
    rm small/fill
    await $launcher has_text room.log "are written again, after" || fail "no line is written again: $(tail -n 3 room.log)"
    kill -TERM $launcher
    wait $launcher
    expect "lines that waited are written once there is room" 0 "line" grep "metrics of step .* and on are written again, after" room.log
    steps() { sed -n 's/^{"step": \([0-9]*\), "loss.*/\1/p' small/out/metrics.jsonl; }
    seq 1 "$(steps | tail -n 1)" | cmp - <(steps) && pass "none is missing" || fail "lines are missing: $(tail -n 3 room.log)"
else
    echo "SKIPPED: no right to mount a small disk here"
fi
# Another limit is taken over while the job runs; another learning rate is not.
{ cat config.yaml; printf 'health:\n  disk_bytes: 0\njob:\n  reload: true\n'; } >changing.yaml
"$tessera" train changing.yaml "${words[@]:3}" -n 2 job.dump_folder=changed training.steps=1000000 >changed.log 2>&1 &
launcher=$!
await $launcher has_lines changed/metrics.jsonl 3
sed -i 's/disk_bytes: 0/disk_bytes: 900000TiB/' changing.yaml
await $launcher has_text changed/alerts.jsonl '"state":"degraded"' && pass "a limit changes while the job runs" ||
    fail "a limit changes while the job runs: $(tail -n 3 changed.log)"
sed -i 's/lr: 3e-3/lr: 1e-3/' changing.yaml
await $launcher has_text changed.log 'nothing is changed: optimizer.lr .0.003 -> 0.001. decides more' &&
    pass "what decides the weights does not" || fail "what decides the weights does not: $(tail -n 3 changed.log)"
grep -q 'have the old values' changed.log && fail "later ranks have the new values: $(grep 'old values' changed.log)" ||
    pass "later ranks have the new values"
kill -TERM $launcher
wait $launcher

finish
