#!/usr/bin/env bash
# embed_diagnosis_test.sh TESSERA JOB PROGRAM [PYTHON_PROGRAM]: of jobs of the program JOB, the example says what
# `tessera trace` says. TESSERA_LIBRARY names the library for the Python program.
set -euo pipefail
tessera=$1 job=$2 program=$3 python=${4:-}
work=$(mktemp -d)
launcher=
end() {
    [ -z "$launcher" ] || kill -KILL "$launcher" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
fail() {
    echo "FAILED $1" >&2
    [ -z "${2:-}" ] || cat "$2" >&2
    exit 1
}

# A job that has ended: the same bytes, and the same exit codes.
fault='rank=1 point=before:reduce_scatter_pieces kind=sigkill'
TESSERA_FAULT=$fault "$tessera" run --trace "$work/dead" -n 3 -- "$job" >"$work/log" 2>&1 && fail "the drill failed" "$work/log"
"$tessera" trace "$work/dead" --json >"$work/expected" && fail "trace blames nobody"
"$program" "$work/dead" --json >"$work/got" && fail "a culprit is no success"
cmp "$work/expected" "$work/got" || fail "the JSON differs"
code=0
"$program" "$work/dead" >"$work/said" || code=$?
[ "$code" = 3 ] || fail "exit code $code, expected 3" "$work/said"
grep -q '^rank_lost: rank 1 .*killed by signal 9' "$work/said" || fail "no verdict" "$work/said"
grep -q '^  culprits: 1$' "$work/said" || fail "no culprit" "$work/said"
grep -q '^  rank 1, process [1-9].* killed' "$work/said" || fail "no process" "$work/said"
if [ -n "$python" ]; then
    python3 "$python" "$work/dead" >"$work/python" && fail "Python: a culprit is no success"
    diff "$work/said" "$work/python" || fail "Python says something else"
    python3 "$python" "$work/dead" --json | cmp "$work/expected" - || fail "Python: the JSON differs"
fi

if [ -n "$python" ]; then
    code=0
    python3 "$python" --json >"$work/said" 2>&1 || code=$?
    [ "$code" = 2 ] && grep -q 'name the job' "$work/said" || fail "Python: --json of no job: $code" "$work/said"
fi

# A folder without a job is refused with a message.
code=0
"$program" "$work" >"$work/said" 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'neither traces of a job' "$work/said" || fail "an empty folder: $code" "$work/said"

# A running job whose rank 1 is stopped: by its launcher, by the rank, and in the list of all jobs.
TESSERA_FAULT='rank=1 point=before:reduce_scatter_pieces kind=sigstop' "$tessera" run -n 3 -- "$job" >"$work/log" 2>&1 &
launcher=$!
for ((i = 0; i < 3000; i++)); do
    "$program" "$launcher" >"$work/said" 2>&1 || true
    grep -q '^rank_stopped: rank 1 ' "$work/said" && break
    kill -0 "$launcher" 2>/dev/null || fail "the job ended" "$work/log"
    sleep 0.1
done
grep -q '^  culprits: 1$' "$work/said" || fail "the stopped rank is not found" "$work/said"
stopped=$(sed -n 's/^  rank 1, process \([0-9]*\)\( on [^ ]*\)\{0,1\}: .*/\1/p' "$work/said")
grep -q 'stopped stopped' "$work/said" && fail "the state is said twice" "$work/said"
"$program" "$stopped" >"$work/said" 2>&1 || true
grep -q '^rank_stopped: rank 1 ' "$work/said" || fail "by the rank's own process" "$work/said"
"$program" >"$work/said" 2>&1 || true
grep -q "^job $launcher, 3 ranks, " "$work/said" || fail "the job is not listed" "$work/said"
if [ -n "$python" ]; then
    python3 "$python" >"$work/python" 2>&1 || true
    grep -q "^job $launcher, 3 ranks, " "$work/python" || fail "Python: the job is not listed" "$work/python"
fi
kill -CONT "$stopped"
wait "$launcher" || fail "the job was disturbed" "$work/log"
launcher=
echo "ok"
