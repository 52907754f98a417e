#!/usr/bin/env bash
# A rank that keeps others waiting is named while the job runs, and again when the job ends because of it.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
long="-n 4 job.dump_folder=out training.steps=100000 validation.enable=false checkpoint.interval=100000"

# start DEADLINE KEY=VALUE...: starts a run in the background ($launcher); returns after two steps. If the machine stands
# still for as long as the deadline, the run ends before: it is tried again with ten times the deadline.
start() {
    for deadline in "$1" "${1}0" "${1}00"; do
        rm -rf out
        "$tessera" train run.yaml $long comm.timeout_s="$deadline" "${@:2}" >log 2>&1 </dev/null &
        launcher=$!
        await $launcher has_lines out/metrics.jsonl 2 && return 0
    done
    fail "a run starts: $(tail -n 3 log)"
    return 1
}

# expect_said NAME TEXT...: a line of the launcher has all texts.
expect_said() {
    local name=$1 lines text
    shift
    lines=$(grep '^tessera: ' log)
    for text in "$@"; do
        lines=$(grep -F -- "$text" <<<"$lines")
    done
    if [ -n "$lines" ]; then
        pass "$name"
    else
        fail "$name: no line has '$*' in"
        sed 's/^/    /' log | tail -n 8
    fi
}

expect "timers are listed" 0 "deadline, evaluation          1800  3 x comm.timeout_s" "$tessera" doctor timers
expect "a configuration with its timers" 0 "deadline, checkpoint            21" "$tessera" doctor timers run.yaml comm.timeout_s=7
expect "those that follow from others" 0 "silence, training              3.5  1/2 x comm.timeout_s" "$tessera" doctor timers run.yaml comm.timeout_s=7
expect "the doctor says which order is wrong" 2 "'silence, training' is 700 s (health.heartbeat_s) and must be shorter than" \
    "$tessera" doctor timers run.yaml health.heartbeat_s=700
expect "timers in the wrong order are refused" 2 "'notice, training' is 9 s" \
    "$tessera" train run.yaml -n 2 comm.soft_timeout_s=9 comm.timeout_s=8

start 3 comm.soft_timeout_s=0.2 && {
    kill -STOP "$(rank $launcher 2)"
    wait $launcher && fail "a job with a stopped rank ends with 0"
    expect_said "a stopped rank is the cause at the end" "rank 2 never came to" "stopped (state T" "gave up"
    echo "       told in $(grep -c '^tessera: ' log) lines" # tools/drill judges how many
    grep -q '"situation": "stopped"' out/trace/job.json && pass "job.json says so" || fail "job.json: $(cat out/trace/job.json)"
}

start 1 comm.on_timeout=report && {
    pid=$(rank $launcher 1)
    kill -STOP "$pid"
    await $launcher has_text log "rank 1 .*waiting on"
    kill -CONT "$pid"
    await $launcher has_text log "rank 1 has come after"
    kill -INT $launcher
    wait $launcher
    expect_said "a stopped rank is named" "rank 1 " " waiting for " "stopped (state T"
    expect_said "where it is only reported the job waits on" "rank 1 " "the deadline of $deadline s has passed"
    expect_said "and goes on" "rank 1 has come after"
}

# No rank waits for another while all are stopped.
start 30 && {
    pids=$(for r in 0 1 2 3; do rank $launcher $r; done | xargs)
    # shellcheck disable=SC2086
    kill -STOP $pids
    # Not a wait for the text: it must come within seconds.
    for _ in {1..100}; do has_text log "all ranks are stopped" && break; sleep 0.1; done
    expect_said "all ranks are stopped, and how they go on" "all ranks are stopped (state T" "kill -CONT $pids"
    expect "top says so" 0 "all ranks are stopped: kill -CONT" "$tessera" top out --once
    expect "and trace" 3 "rank_stopped: all ranks are stopped" "$tessera" trace out
    expect "with the command" 3 "or go on: kill -CONT $pids" "$tessera" trace out
    # shellcheck disable=SC2086
    kill -CONT $pids
    await $launcher has_text log "the ranks were stopped for [0-9.]* s and go on"
    kill -INT $launcher
    wait $launcher
    expect_said "they are back" "the ranks were stopped for" "s and go on"
    [ "$(grep -c "are stopped" log)" = 1 ] && pass "it is said once" || fail "it is said once: $(grep stopped log)"
    ! grep -q "kept .* waiting" log && pass "no rank is blamed for it" || fail "a rank is blamed: $(grep kept log)"
}
finish
