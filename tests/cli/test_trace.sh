#!/usr/bin/env bash
# tessera trace on failed jobs, a running one, dumps of PyTorch, and anything else.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
short="training.steps=12 validation.enable=false checkpoint.interval=1000"

# drill NAME FAULT CODE TEXT: runs a job of four ranks with this fault, and checks what trace reports of it.
drill() {
    rm -rf out
    timeout 600 "$tessera" train run.yaml -n 4 job.dump_folder=out $short fault.spec="$2" >log 2>&1
    expect "$1" "$3" "$4" "$tessera" trace out
}

drill "a job that ends well" "rank=0 step=99 kind=crash" 0 "finished: all ranks ended in good order"
expect "what a run cost" 0 "units at 3600" "$tessera" report out --cost --price 3600
"$tessera" report out --cost --price 3600 --steps 24 --json >cost.json
awk -F'[:,]' '/"rank_hours"/ { h[++n] = $2 } /"total"/ { total = $2 } /"cost"/ && $2 ~ /[0-9]/ { left = $2 }
    END { exit !(n == 2 && total > 0 && total / h[1] > 3599 && total / h[1] < 3601 && left > 0) }' cost.json &&
    pass "the hours of four ranks at their price" || fail "the hours of four ranks at their price: $(cat cost.json)"
expect "without a price there is no cost" 2 "metrics.price_per_rank_hour" "$tessera" report out --cost
drill "a killed rank" "rank=2 step=5 kind=sigkill" 3 "rank_lost: rank 2 was killed by signal 9 (SIGKILL)"
expect "the launcher's own word is told" 3 "the launcher said: rank 2 was killed" "$tessera" trace out/trace
expect "JSON has a version" 3 '"version": 1' "$tessera" trace out --json
expect "JSON names the guilty" 3 '"class": "rank_lost"' "$tessera" trace out --json
expect "the newest operations of a rank" 3 "completed" "$tessera" trace out --last 5 --rank 1
expect "a rank that there is not" 2 "outside 0 .. 3" "$tessera" trace out --rank 4
drill "a crash" "rank=1 step=4 point=phase:backward kind=crash" 3 "rank 1 was killed by signal 11 (SIGSEGV)"
drill "a wrong count" "rank=3 step=6 point=before:any kind=count" 3 "mismatch_count: rank 3"
drill "a skipped operation" "rank=0 step=6 point=before:reduce_scatter_pieces kind=skip" 3 "skipped: rank 0"
# Rank 0 arrives when all others wait for it, so that both of the pair have arrived: one alone would look like a skip.
rm -rf out
"$tessera" train run.yaml -n 4 job.dump_folder=out $short comm.soft_timeout_s=0.2 fault.spec="rank=1 step=6 \
point=before:all_gather_pieces kind=order; rank=0 step=6 point=before:all_gather_pieces kind=sigstop" >log 2>&1 &
launcher=$!
await $launcher has_text log "rank 0 has kept 3 ranks waiting .* stopped"
kill -CONT "$(rank $launcher 0)"
wait $launcher
expect "a swapped pair" 3 "order: rank 1" "$tessera" trace out
expect "a timeline and dumps are written beside" 3 "order: rank 1" \
    "$tessera" trace out --perfetto timeline.json --flight-recorder dumps
expect "a flame graph" 3 "order: rank 1" "$tessera" trace out --flame flame.svg
expect "its picture has the ranks" 0 "<title>rank 3: " cat flame.svg
"$tessera" trace out --flame folded >/dev/null
awk '!/^all;rank [0-3];[a-z:0-9-]+;.* [0-9]+$/ { bad = $0 } { n++ } END { exit !(n > 12 && bad == "") }' folded &&
    pass "and folded stacks" || fail "folded stacks: $(head -n 3 folded)"
expect "the timeline is one" 0 "traceEvents" head -c 1000 timeline.json
expect "the dumps give the same verdict" 3 "rank 1" "$tessera" trace dumps

rm -rf alone
"$tessera" train run.yaml -n 1 job.dump_folder=alone $short fault.spec="rank=0 step=5 kind=sigkill" >log 2>&1
expect "one rank, which nobody saw die" 4 "undecided: the records end in the middle of the work" "$tessera" trace alone

rm -f out/trace/job.json
expect "rings alone do as well" 3 "order: rank 1" "$tessera" trace out
rm -f out/trace/rank-00003.ring
expect "and so do three of four" 3 "order: rank 1" "$tessera" trace out
for ring in out/trace/*.ring; do truncate -s 100 "$ring"; done
expect "truncated rings are told" 2 "its header alone has 4096" "$tessera" trace out

# A stopped rank in a running job.
setsid "$tessera" train run.yaml -n 4 job.dump_folder=live training.steps=100000 validation.enable=false \
    checkpoint.interval=100000 >log 2>&1 &
launcher=$!
await $launcher has_lines live/metrics.jsonl 3
traced() { "$tessera" trace "$launcher" 2>&1 | grep -q -- "$1"; }
if await $launcher traced healthy; then pass "a healthy job"; else fail "a healthy job: $(tail -n 3 log)"; fi
victim=$(rank "$launcher" 3)
expect "a breakpoint on a rank" 0 "-p $victim -ex" "$tessera" debug "$launcher" --rank 3 --at tess_engine_step --dry-run
expect "which rank must be said" 2 "which of the 4 ranks" "$tessera" debug "$launcher" --dry-run
kill -STOP "$victim"
await $launcher traced rank_stopped
expect "a stopped rank of a live job" 3 "rank_stopped: rank " "$tessera" trace "$launcher"
expect "the same by the rank's pid" 3 "is stopped" "$tessera" trace "$victim"
expect "the same by the folder" 3 "is stopped" "$tessera" trace live
kill -CONT "$victim"
if await $launcher traced healthy; then pass "nobody was disturbed"; else fail "nobody was disturbed: $(tail -n 3 log)"; fi
kill -INT "$launcher"
wait "$launcher"

# A job that its operator stops: in good order, and by a second ctrl-C.
rm -rf stopped
setsid env --default-signal=INT "$tessera" train run.yaml -n 2 job.dump_folder=stopped \
    training.steps=100000 validation.enable=false checkpoint.interval=20 checkpoint.keep_latest_k=2 \
    fault.spec="rank=1 step=33 point=step kind=sleep ms=600000" >log 2>&1 &
launcher=$!
is_at_step() { "$tessera" top $launcher --json 2>/dev/null | grep -q "\"step\":$1"; }
await $launcher is_at_step 33
kill -INT $launcher
await $launcher has_text log "asked to stop"
kill -INT $launcher
wait $launcher
kept="newest checkpoint: step 20, 1[23] steps lost"
if has_text log "stopped by the operator .asked to stop twice: the ranks were killed.; $kept"; then
    pass "the end of a job that was asked to stop twice says what is kept"
else
    fail "the end of a job that was asked to stop twice says what is kept: $(tail -n 3 log)"
fi
expect "its operator stopped it" 0 "finished: stopped by the operator: all ranks were asked to stop, and were killed in step 33" \
    "$tessera" trace stopped
if "$tessera" trace stopped | grep -q "the launcher said: .*$kept"; then
    pass "the trace says what is kept"
else
    fail "the trace says what is kept: $("$tessera" trace stopped | head -n 3)"
fi
setsid env --default-signal=INT "$tessera" run -n 2 -- sleep 600 >log 2>&1 &
launcher=$!
await $launcher pgrep -P $launcher sleep >/dev/null
kill -INT $launcher
wait $launcher
code=$?
if [ $code = 130 ] && has_text log "asked to stop \(SIGINT\): the ranks are told to end"; then
    pass "a program under tessera run ends at the first request, and it is told"
else
    fail "a program under tessera run ends at the first request, and it is told: exit code $code, $(cat log)"
fi

# A killed launcher reports nothing more: its earlier notices are there, and how long ranks had waited.
"$tessera" train run.yaml -n 4 job.dump_folder=dead training.steps=100000 validation.enable=false \
    checkpoint.interval=100000 comm.soft_timeout_s=0.2 >log 2>&1 &
launcher=$!
await $launcher has_lines dead/metrics.jsonl 3
kill -STOP "$(rank $launcher 3)"
await $launcher has_text dead/trace/job.json '"text": "rank 3 kept 3 ranks waiting for '
await $launcher traced 'for \([3-9]\|[0-9][0-9]\)[0-9.]* s' # well beyond the diagnosis's threshold, in the rings too
expect "what is told is seen while the job lives" 3 "rank 3 kept 3 ranks waiting for " "$tessera" trace $launcher
kill -KILL $launcher
wait $launcher 2>/dev/null
expect "the verdict on a job whose launcher was killed" 3 "rank_stopped: rank 3 is stopped" "$tessera" trace dead
has_text output "; ranks 0-2 wait for it in .*, for [0-9.]+ s" && pass "and how long it was waited for" ||
    fail "and how long it was waited for: $(head -n 1 output)"
has_text output "^  20.*  step [0-9]+  rank 3 kept 3 ranks waiting for [0-9.]+ s and more in .*; it was .*stopped" &&
    pass "and what its launcher had told" || fail "and what its launcher had told: $(cat output)"
expect "in JSON, too" 3 '"kind": "wait"' "$tessera" trace dead --json
expect_metrics "and as metrics" 3 "$tessera" trace dead

fixtures=$project/tests/doctor/fixtures
expect "dumps of PyTorch" 3 "missing_rank: rank 2 keeps ranks 0 1 3 waiting in all_reduce #5" \
    "$tessera" trace "$fixtures/nccl"
for dumps in "$fixtures"/*; do
    expect_metrics "metrics of ${dumps##*/}" 3 "$tessera" trace "$dumps"
done
expect "operations are text" 2 "--last prints text: leave out --json" "$tessera" trace "$fixtures/nccl" --last 3 --json
expect "of a rank, too" 2 "--rank prints text: leave out --json" "$tessera" trace "$fixtures/nccl" --rank 1 --html
expect "a folder without traces" 2 "neither traces of a job" "$tessera" trace "$project/docs"
mkdir junk
echo "hello, no dump" >junk/nccl_trace_rank_0
expect "what is named as a dump and is none" 2 "nccl_trace_rank_0: offset 0" "$tessera" trace junk
expect "one dump of a folder" 2 "is one file: name the folder that holds it" "$tessera" trace junk/nccl_trace_rank_0
expect "no such thing" 2 "neither" "$tessera" trace nothing-here
expect "a process of no job" 2 "has no part in a job" "$tessera" trace $$
python3 -c 'import time; time.sleep(600)' &
python=$!
runs_python() { [[ $(readlink "/proc/$1/exe") == */python* ]]; }
await $python runs_python $python
mkdir bin
cat >bin/py-spy <<'SH'
#!/bin/sh
printf 'Process %s: python3\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread %s (idle): "MainThread"\n    <module> (<string>:1)\n' "$3" "$3"
SH
printf '#!/bin/sh\nexit 1\n' >bin/refused
chmod +x bin/py-spy bin/refused
no_py_spy=$work/no_py_spy # a PATH without it
mkdir "$no_py_spy"
expect "a Python process of no job, without py-spy" 2 "is a Python process and no job of tessera; py-spy shows its stacks: pip install" \
    env PATH="$no_py_spy" "$tessera" trace $python
expect "with py-spy" 0 "Thread $python (idle): \"MainThread\"" env PATH="$work/bin" "$tessera" trace $python
expect "which are text" 2 "is Python, whose stacks are text: leave out --json" "$tessera" trace $python --json
mv bin/refused bin/py-spy
expect "which has no right to look" 2 "needs the rights of a debugger" env PATH="$work/bin" "$tessera" trace $python
kill $python
expect "no argument" 2 "which job?" "$tessera" trace
expect "the exit codes are in the help" 0 "4 a tie" "$tessera" trace --help
finish
