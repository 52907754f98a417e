#!/usr/bin/env bash
# A run that is interrupted, loses a rank or fills the disk reports it, and loses nothing.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
long="training.steps=100000 validation.enable=false checkpoint.interval=100000"

# start RANKS: starts a long run in the background; returns after a few steps.
# Shells start background jobs with SIGINT ignored: the trap restores it.
start() {
    rm -rf out log
    [ -z "${keep:-}" ] || cp -r "$keep" out
    lines=$(cat out/metrics.jsonl 2>/dev/null | wc -l)
    setsid bash -c 'trap - INT; exec "$@"' _ "$tessera" train run.yaml -n "$1" job.dump_folder=out $long \
        >log 2>&1 &
    launcher=$!
    await "$launcher" has_lines out/metrics.jsonl $((lines + 3)) && return 0
    fail "a run of $1 ranks starts: $(tail -n 3 log)"
    return 1
}
ends() { # EXIT_CODE NAME
    local got=0
    wait "$launcher" || got=$?
    if [ "$got" = "$1" ]; then pass "$2"; else fail "$2: exit code $got, expected $1: $(tail -n 4 log)"; fi
}
says() { if grep -qE -- "$1" log; then pass "$2"; else fail "$2: expected /$1/ in: $(tail -n 6 log)"; fi; }

for n in 1 4; do
    start $n && {
        kill -INT "$launcher"
        ends 130 "$n ranks: ctrl-C ends with 130"
        says "interrupted after step" "$n ranks: ctrl-C says where it stopped"
        if ls out/checkpoint/step-*/commit.json >/dev/null 2>&1; then pass "$n ranks: ctrl-C saved"; else fail "$n ranks: ctrl-C saved"; fi
        done_steps=$(wc -l <out/metrics.jsonl)
        expect "$n ranks: and goes on from there" 0 "resumed from step $done_steps" "$tessera" train run.yaml -n 2 \
            job.dump_folder=out training.steps=$((done_steps + 2)) validation.enable=false
    }
done

start 4 && {
    kill -KILL "$(rank "$launcher" 2)"
    ends 137 "a killed rank ends the job with 128 + 9"
    says "rank 2 was killed by signal 9" "the killed rank is named"
    [ "$(grep -c 'was killed by signal 9' log)" = 1 ] && pass "and named once" || fail "named more than once: $(cat log)"
    if await $$ has_ended "$launcher"; then pass "no process is left behind"; else fail "processes were left behind"; fi
}

# A limit on file sizes, set during the run, simulates a full disk.
"$tessera" train run.yaml job.dump_folder=kept training.steps=15 validation.enable=false >log 2>&1 || fail "15 steps: $(tail -n 2 log)"
before=$(cd kept && find checkpoint -type f | sort | xargs cksum)
keep=kept
start 1 && {
    for process in $(pgrep -g "$launcher"); do prlimit --pid "$process" --fsize=65536; done
    kill -INT "$launcher"
    ends 2 "a full disk ends the run with 2"
    says "checkpoint of step [0-9]+:.*(File too large|No space)" "and says what could not be written"
}
keep=
mv out disk
if [ "$before" = "$(cd disk && find checkpoint -type f | sort | xargs cksum)" ]; then
    pass "the old checkpoint is untouched and nothing else is left"
else
    fail "the checkpoint folder changed: $(find disk/checkpoint)"
fi
expect "and the run goes on when there is room" 0 "resumed from step 15" "$tessera" train run.yaml -n 2 job.dump_folder=disk \
    validation.enable=false

expect "run starts a program as ranks" 0 "rank" "$tessera" run -n 3 -- sh -c 'echo "rank $TESSERA_RANK of $TESSERA_WORLD"'
expect "run gives the exit code of the rank that failed" 7 "exited with code 7" "$tessera" run -n 3 --grace 0.1 -- \
    sh -c '[ "$TESSERA_RANK" = 1 ] && exit 7; exec sleep 600'

# The launcher is stopped until both have ended, and then sees the end of rank 0 first.
cat >rank.sh <<'END'
echo $$ >pid.$TESSERA_RANK
[ "$TESSERA_RANK" = 1 ] && exec sleep 600
until [ -s pid.1 ]; do sleep 0.05; done
kill -STOP $PPID
kill -9 "$(cat pid.1)"
(sleep 0.3; kill -CONT $PPID) >/dev/null 2>&1 &
exit 3
END
expect "a rank that was killed is the cause of another's exit" 137 "rank 1 was killed by signal 9" "$tessera" run -n 2 -- \
    sh rank.sh
finish
