#!/usr/bin/env bash
# error.json: a table of endings. Each way to die leaves a record that names the rank and the cause; success and bad
# input leave none.
. "$(dirname "$0")/support.sh"
make_model model.json
make_text 60 >text.txt
make_config run.yaml

# field FILE KEY: a member of the record; "null" as in JSON.
field() { python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1])).get(sys.argv[2])))' "$1" "$2"; }

# ending NAME CODE RANK KIND CAUSE WORDS...: the run ends with the code, and its record names the rank, the kind and a part
# of the cause. RANK "-": no rank is to blame; "any": all ranks have the same error, and one of them ended first.
ending() {
    local name=$1 code=$2 rank=$3 kind=$4 cause=$5 got=0
    shift 5
    rm -rf out
    "$tessera" train run.yaml "$@" >log 2>&1 || got=$?
    check_record "$name" "$got" "$code" "$rank" "$kind" "$cause"
}
check_record() {
    local name=$1 got=$2 code=$3 rank=$4 kind=$5 cause=$6 told wrong=
    [ "$got" = "$code" ] || wrong="exit code $got, expected $code: $(tail -n 1 log)"
    [ -e out/error.json ] || { fail "$name: no record ($wrong)"; return; }
    [ "$rank" != - ] || rank=null
    told=$(field out/error.json rank)
    [ "$told" = "$rank" ] || [ "$rank" = any ] || wrong+=" rank $told, expected $rank"
    [ "$(field out/error.json kind)" = "\"$kind\"" ] || wrong+=" kind $(field out/error.json kind), expected $kind"
    field out/error.json cause | grep -qF -- "$cause" || wrong+=" cause $(field out/error.json cause), expected $cause"
    [ "$(field out/error.json job_exit_code)" = "$got" ] || wrong+=" job_exit_code $(field out/error.json job_exit_code)"
    python3 - out/error.json <<'P' || wrong+=" not what torchrun reads"
import json, sys
record = json.load(open(sys.argv[1]))
assert record["message"]["message"] == record["cause"]
assert int(record["message"]["extraInfo"]["timestamp"]) > 1700000000 and record["version"] and record["command"]
P
    [ -z "$wrong" ] && pass "$name" || fail "$name:$wrong"
}

fault() { echo "fault.spec=rank=$1 step=2 point=$2 kind=$3"; }
short="training.steps=4 comm.timeout_s=5"
ending "a crash" 139 1 crash "rank 1 was killed by signal 11 (SIGSEGV)" -n 2 $short "$(fault 1 step crash)"
ending "a kill" 137 1 "killed by a signal" "rank 1 was killed by signal 9 (SIGKILL)" -n 2 $short "$(fault 1 step sigkill)"
ending "an exit" 7 1 failed "rank 1 exited with code 7" -n 2 $short "$(fault 1 step exit) code=7"
ending "a rank that hangs" 1 1 stuck "rank 1 never came to" -n 2 training.steps=4 comm.timeout_s=2 \
    "$(fault 1 step sigstop)"
ending "a full disk" 2 any "disk full" "o space left" -n 2 $short checkpoint.enable=true checkpoint.interval=2 \
    checkpoint.async=false checkpoint.on_error=stop "fault.spec=rank=0 step=2 point=save:write kind=enospc"
ending "numbers that are none" 2 any "NaN or infinity" "rank 1, micro-batch 1" -n 2 $short "$(fault 1 gradient nan) times=0" \
    numbers.on_nonfinite=stop
ending "a rank alone" 2 0 "NaN or infinity" "is nan at row" $short "$(fault 0 gradient nan) times=0" numbers.on_nonfinite=stop
ending "recovery that gives up" 139 1 crash "rank 1 was killed by signal 11" -n 2 $short recovery.enable=true \
    recovery.hot=false checkpoint.enable=true recovery.max_failures=1 "$(fault 1 step crash) times=0"

# ---- Ctrl-C
rm -rf out log
setsid "$tessera" train run.yaml -n 2 training.steps=100000 >log 2>&1 &
job=$!
await $job has_text log "step: *[1-9]" || fail "the run does not start: $(cat log)"
kill -INT $job
got=0
wait $job || got=$?
check_record "ctrl-C" "$got" 130 - "asked to stop" ""

# ---- What a record says beyond that
rm -rf out
"$tessera" train run.yaml -n 2 $short "$(fault 1 step crash)" --log-dir logs >log 2>&1
expect "the step" 0 2 field out/error.json step
expect "the phase" 0 '"' field out/error.json phase
expect "the signal" 0 11 field out/error.json signal
[ "$(field out/error.json pid)" -gt 1 ] && pass "the process" || fail "the process"
expect "trace shows it" 3 "rank 1 on host $(hostname)" "$tessera" trace out
expect "doctor log, too" 0 "error.json, " "$tessera" doctor log out
mkdir lost
python3 -c 'import json; r = json.load(open("out/error.json")); r.update(signal=0, exit_code=0); json.dump(r, open("lost/error.json", "w"))'
expect "a rank whose host is gone has no exit code" 0 "): did not end, in phase" "$tessera" doctor log lost

# ---- What is no failure
"$tessera" train run.yaml $short >log 2>&1 || fail "$(tail -n 1 log)"
[ -e out/error.json ] && fail "a run that ended well has a record" || pass "a run that ended well has no record"
[ -e out/error.previous.json ] && pass "that of the run before is moved aside" || fail "the run before has no record"
rm -rf out
expect "bad input" 2 "" "$tessera" train run.yaml -n 2 training.steps=4 model.config=nothing.json
[ -e out ] && fail "bad input has written something" || pass "bad input leaves no record, since it writes nothing"

# ---- A program that is no run: `tessera run`, and the exception of a Python program
cat >die.py <<'P'
import json, os, sys
os.chdir("/")
print("about to die", os.environ["TESSERA_RANK"], flush=True)
if os.environ["TESSERA_RANK"] == "1":
    text = {"message": {"message": "ValueError: a shape of [3, 4]", "extraInfo": {"timestamp": "1"}}}
    json.dump(text, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
    sys.exit(9)
P
expect "a program" 9 "" "$tessera" run -n 2 --log-dir out/logs -- python3 die.py
mv out/logs/error.json out 2>/dev/null
expect "its exception" 0 "ValueError: a shape of [3, 4]" field out/error.json cause
expect "and its last lines" 0 "about to die 1" field out/error.json output
# The same folder again, with programs that print less: nothing of an earlier command is taken for theirs.
rm -rf out
"$tessera" run -n 2 --log-dir out/logs -- bash -c 'echo old error >&2; echo old line; exit 3' >log 2>&1
"$tessera" run -n 2 --log-dir out/logs -- bash -c 'echo new line; [ $TESSERA_RANK = 0 ] && sleep 1; exit 4' >log 2>&1
mv out/logs/error.json out 2>/dev/null
expect "the last lines are those of this command" 0 '"new line\n"' field out/error.json output
"$tessera" run -n 2 --log-dir out/logs -- bash -c '[ $TESSERA_RANK = 0 ] && sleep 1; exit 5' >log 2>&1
mv out/logs/error.json out 2>/dev/null
[ "$(field out/error.json output)" = '""' ] && pass "a rank that printed nothing has no last lines" ||
    fail "last lines: $(field out/error.json output)"
[ "$(grep -c "a new process" out/logs/attempt_0/1/stderr.log)" = 1 ] && pass "and one mark" || fail "$(cat out/logs/attempt_0/1/stderr.log)"

# ---- torchrun, if there is one (its summary shows our message)
if command -v torchrun >/dev/null; then
    rm -rf out
    torchrun --no-python --nproc-per-node 2 --log-dir tl -r 3 "$tessera" train run.yaml $short \
        numbers.on_nonfinite=stop "$(fault 1 gradient nan) times=0" >log 2>&1 && fail "torchrun ends well"
    expect "torchrun shows the message" 0 "first came rank 1, micro-batch 1 of 0..7: gradient" \
        sed -n '/Root Cause/,$p' log
    expect "and the run has its record" 0 '"NaN or infinity"' field out/error.json kind
fi
rm -rf out && mkdir out
printf '{"message": 3}' >out/error.json
expect "a record that is none" 2 "warning: " "$tessera" doctor log out
finish
