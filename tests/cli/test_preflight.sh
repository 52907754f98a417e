#!/usr/bin/env bash
# Before a job: faults seeded into the machine, the ranks and the configuration are named, with exit code 4 when the job
# would fail.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
preflight() { "$tessera" doctor preflight "$@"; }

# found NAME CODE CHECK TEXT COMMAND...: the lines of the check in the report have the text.
found() {
    local name=$1 code=$2 check=$3 text=$4 got=0
    shift 4
    "$@" >output 2>&1 </dev/null || got=$?
    if [ "$got" = "$code" ] && grep -A4 -E "^(FAILED|warning) +$check " output | tr -s ' \n' ' ' | grep -qF -- "$text"; then
        pass "$name"
    else
        fail "$name: exit code $got (expected $code), expected of $check: $text"
        sed 's/^/    /' output | head -n 20
    fi
}

ready=0
preflight --only cores >cores || ready=4 # a quota of less than a core fails this check itself
says() { tr -s ' \n' ' ' <output | grep -qE -- "$1"; } # the report breaks lines where its measured values end them
expect "a healthy job is ready" $ready "all-reduce:" preflight -n 4 run.yaml job.dump_folder=out
says "all-reduce: right in all dtypes" && pass "sums of all dtypes" || fail "sums of all dtypes"
says "config: 16 rows a step = 4 ranks x 2 x 2" && pass "batch arithmetic" || fail "batch arithmetic"
says "model: .* parameters" && pass "size of the model" || fail "size of the model"
expect "eight ranks" 0 "8 ranks met" preflight -n 8 --only start,all-reduce,barrier
preflight -n 8 --json=eight.json run.yaml >/dev/null
awk -F'[:,]' '/"seconds"/ { found = $2 > 0 } END { exit !found }' eight.json &&
    pass "eight ranks: $(grep -o '"seconds".*' eight.json)" || fail "eight ranks: no time is told"
preflight -n 2 run.yaml job.dump_folder=out --checklist >list
[ "$(grep -cE '^ *[0-9]+  (pass|FAIL|later|you) ' list)" = 23 ] && grep -q 'FAIL .*several copies .*checkpoint.copies' list &&
    pass "the checklist: $(tail -n 1 list)" || fail "the checklist: $(cat list)"
expect "a port that answers" 4 "Connection refused" preflight --only tcp --tcp localhost:1
expect "every check is listed" 0 "clock-offset" preflight --list
expect "help tells the exit codes" 0 "4 a check has failed" preflight --help
expect "a check misspelt" 2 "did you mean 'memory'" preflight --only memmory
expect "one check alone" 0 "1 fine" preflight --only swap,gpu-ecc
expect "without a GPU" 0 "absent  gpu: no NVIDIA GPU here" env PATH=/nowhere "$tessera" doctor preflight --only gpu

# The configuration of the job.
found "configuration missing" 4 config "nowhere.yaml" preflight --only config nowhere.yaml
found "unknown key" 4 config "did you mean 'training.steps'" preflight --only config run.yaml training.stepps=3
expect "ranks that divide tokens" 0 "16 rows a step = 2 groups of 2 (cp 2, tp 1) x 4 x 2" preflight -n 4 --only config run.yaml \
    parallelism.context_parallel_degree=2 training.context_leaves=4
expect "ranks that do not divide" 0 "8 micro-batches of 2, which 3 ranks share unevenly" preflight -n 3 --only config run.yaml
found "data file missing" 4 data-files "gone.txt is not there" preflight --only data-files run.yaml data.files=gone.txt
: >empty.txt
found "data file empty" 4 data-files "empty.txt is empty" preflight --only data-files run.yaml data.files=empty.txt
found "model missing" 4 model "gone.json" preflight --only model run.yaml model.config=gone.json
mkdir -p out/checkpoint/step-00000040
found "damaged checkpoint" 4 checkpoint "step-00000040 has no commit.json" preflight --only checkpoint run.yaml job.dump_folder=out
expect "a job that starts anew" 0 "starts anew" \
    preflight --only checkpoint run.yaml job.dump_folder=out checkpoint.resume=false
found "dump folder below a file" 4 dump-folder "text.txt" preflight --only dump-folder run.yaml job.dump_folder=text.txt/out
found "dump folder that nobody can write" 4 dump-folder "/proc/self" preflight --only dump-folder run.yaml job.dump_folder=/proc/self/out
found "no folder for temporary files" 4 tmp "TMPDIR /proc/self/gone" env TMPDIR=/proc/self/gone "$tessera" doctor preflight --only tmp

# Limits of the process.
limited() { (ulimit "$1" "$2" && shift 2 && "$@"); }
found "few open files" 4 open-files "may open 60 files" limited -n 60 "$tessera" doctor preflight --only open-files
found "little locked memory" 0 locked-memory "only 16.0 KiB" limited -l 16 "$tessera" doctor preflight --only locked-memory
found "little address space" 4 address-space "may map 2.00 GiB" limited -v 2097152 "$tessera" doctor preflight --only address-space
found "cut core files" 0 core-files "cut at" limited -c 8 "$tessera" doctor preflight --only core-files
found "file size limit: no shared memory" 4 memfd "the ranks' shared memory cannot be made" \
    limited -f 64 "$tessera" doctor preflight --only memfd
found "file size limit: the ranks do not start" 4 start "" limited -f 64 "$tessera" doctor preflight -n 2 --only start
found "lesser kernels" 0 cpu "kernels 'ref' are in use" env TESSERA_CPU=ref "$tessera" doctor preflight --only cpu

# Ranks that are not alike.
found "a variable that differs" 0 environment "NCCL_ALGO is nothing on 2 ranks, Tree on rank 1" "$tessera" run -n 3 -- \
    sh -c 'test $TESSERA_RANK != 1 || export NCCL_ALGO=Tree; exec "$0" doctor preflight --only environment' "$tessera"
cp "$tessera" other
printf x >>other
found "another build" 4 same-program "another program than the others' runs on rank 2" "$tessera" run -n 3 -- \
    sh -c 'p=$0; test $TESSERA_RANK != 2 || p=./other; exec $p doctor preflight --only same-program' "$tessera"
found "another configuration" 4 same-program "another configuration than the others' was read by rank 0" "$tessera" run -n 3 -- \
    sh -c 'exec "$0" doctor preflight --only same-program run.yaml debug.seed=$((TESSERA_RANK > 0))' "$tessera"
if [ "$(nproc)" -ge 2 ]; then
    second=$(for c in $(seq 0 63); do taskset -c $c true 2>/dev/null && echo $c; done | sed -n 2p)
    taskset -c "$second" sh -c 'while :; do :; done' &
    burners=$!
    taskset -c "$second" sh -c 'while :; do :; done' &
    burners="$burners $!"
    found "a core that others use" 0 gemm-speed "rank 1 got only" preflight -n 2 --only gemm-speed
    kill $burners
    wait $burners 2>/dev/null
fi

expect "a report for programs" 4 '"format": "tessera-preflight"' preflight --only config,memory --json nowhere.yaml
for text in '"version": 1' '"verdict": "fail"' '"result": "fail"' '"name": "memory"' '"host": "'; do
    grep -qF "$text" output && pass "JSON: $text" || fail "JSON: $text"
done
expect "a report in a file" 0 "1 fine" preflight --only swap --json=report.json
grep -q '"result": "ok"' report.json && pass "the file" || fail "the file"
[ -z "$(find . -name '.tessera*')" ] && [ ! -e out/trace ] && pass "nothing stays" || fail "nothing stays"
finish
