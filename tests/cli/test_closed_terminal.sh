#!/usr/bin/env bash
# A terminal that closes sends SIGHUP and takes standard output with it. Neither loses the work of a run.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
long="training.steps=100000 validation.enable=false checkpoint.interval=100000 debug.trace=false training.threads=1"

# start FOLDER ARGUMENTS...: starts a long run in its own session; returns after a few steps.
start() {
    folder=$1
    shift
    setsid env --default-signal=HUP "$tessera" train run.yaml job.dump_folder="$folder" $long "$@" >"$folder.out" 2>&1 &
    launcher=$!
    await "$launcher" has_lines "$folder/metrics.jsonl" 3 && return 0
    fail "a run starts: $(tail -n 3 "$folder.out")"
    return 1
}
ends() { # NAME CODE
    local got=0
    wait "$launcher" || got=$?
    if [ "$got" = "$2" ]; then pass "$1"; else fail "$1: exit code $got, not $2: $(tail -n 4 "$folder.out")"; fi
}
says() { if grep -qsE -- "$1" "$folder.out"; then pass "$2"; else fail "$2: expected /$1/ in: $(tail -n 4 "$folder.out")"; fi; }

# ---- SIGHUP
for n in 1 2; do
    start "hup$n" -n $n && {
        expect "top finds a run without traces by its folder" 0 "step" "$tessera" top "hup$n" --once
        kill -HUP "$launcher"
        ends "SIGHUP to the parent of $n: exit code" 130
        says "interrupted after step [0-9]+ .*: saved" "SIGHUP to the parent of $n: saved"
    }
done
says "asked to stop \(SIGHUP\)" "the request is named"
for n in 1 2; do
    start "group$n" -n $n && {
        # The shell passes the terminal's SIGHUP on, and the system sends another when the shell ends.
        kill -HUP -- "-$launcher"
        kill -HUP -- "-$launcher" 2>/dev/null
        sleep 0.1
        kill -HUP -- "-$launcher" 2>/dev/null
        ends "several SIGHUP to all processes of $n: exit code" 130
        says "interrupted after step [0-9]+ .*: saved" "several SIGHUP to all processes of $n: saved"
    }
done
start recovering -n 2 recovery.enable=true && {
    kill -HUP -- "-$launcher"
    ends "SIGHUP is no failure to recover from" 130
    says "interrupted after step [0-9]+ .*: saved" "it is saved there, too"
}
for n in 1 2; do
    folder=nohup$n
    setsid nohup "$tessera" train run.yaml job.dump_folder=$folder $long -n $n >$folder.out 2>&1 &
    launcher=$!
    await "$launcher" has_lines $folder/metrics.jsonl 3
    kill -HUP -- "-$launcher"
    seen=$(wc -l <$folder/metrics.jsonl)
    if await "$launcher" has_lines $folder/metrics.jsonl $((seen + 3)); then
        pass "$n under nohup: SIGHUP is ignored"
    else
        fail "$n under nohup: SIGHUP is ignored: $(tail -n 3 $folder.out)"
    fi
    kill -TERM "$launcher"
    ends "$n under nohup: SIGTERM stops the run" 130
done

# ---- Output that nobody reads
# unread N STREAMS FOLDER: a run whose standard output, or both streams, go to a reader that ends after one line.
unread() {
    local code
    rm -f code
    {
        if [ "$2" = both ]; then exec 2>&1; else exec 2>"$3.err"; fi
        "$tessera" train run.yaml -n "$1" job.dump_folder="$3" metrics.log_freq=1 recovery.enable=true </dev/null
        echo $? >code
    } | head -n 1 >"$3.out"
    code=$(cat code)
    if [ "$code" = 0 ]; then pass "$1 rank(s), $2 unread: ends well"; else fail "$1 rank(s), $2 unread: exit code $code"; fi
    if has_text "$3/console.log" '^step:    30 ' && has_text "$3/console.log" '^30 steps in '; then
        pass "$1 rank(s), $2 unread: the lines are in the run's folder"
    else
        fail "$1 rank(s), $2 unread: console.log: $(tail -n 3 "$3/console.log" 2>&1)"
    fi
    [ -d "$3/checkpoint/step-00000030" ] || fail "$1 rank(s), $2 unread: the run is saved"
}
unread 1 stdout one
unread 2 stdout two
if has_text two.err "nobody reads standard output: the run goes on, and its lines go to two/console.log" &&
    ! has_text two.err "lost|killed|replaced"; then
    pass "it is told once, and no rank is lost"
else
    fail "it is told once, and no rank is lost: $(cat two.err)"
fi
unread 2 both all
"$tessera" train run.yaml -n 2 job.dump_folder=closed training.steps=10 >&- 2>&- <&-
code=$?
if [ $code = 0 ] && has_text closed/console.log '^10 steps in '; then
    pass "a run with closed descriptors"
else
    fail "a run with closed descriptors: exit code $code, $(tail -n 2 closed/console.log 2>&1)"
fi
expect "its checkpoint holds no lines" 0 "" "$tessera" ckpt verify closed/checkpoint
"$tessera" info 2>err >&-
code=$?
if [ $code = 1 ] && has_text err "standard output: Bad file descriptor"; then
    pass "a command for its output fails without one"
else
    fail "a command for its output fails without one: exit code $code, $(cat err)"
fi

# ---- A terminal that stays
script -qec "$tessera train run.yaml -n 2 job.dump_folder=described training.steps=10 'job.description=a description'" \
    /dev/null >described.out 2>&1 </dev/null
if [ "$(grep -c "a description" described.out)" = 1 ]; then
    pass "a run of two ranks describes itself once"
else
    fail "a run of two ranks describes itself once: $(head -n 3 described.out)"
fi

# ---- Programs under tessera run
"$tessera" run -n 2 -- sh -c 'sleep 0.2; exec yes' 2>err | head -n 1 >/dev/null
code=${PIPESTATUS[0]}
if [ "$code" = 141 ] && has_text err "SIGPIPE"; then
    pass "a program that writes to nobody ends by SIGPIPE, and so does its job"
else
    fail "a program that writes to nobody ends by SIGPIPE, and so does its job: exit code $code, $(cat err)"
fi
finish
