#!/usr/bin/env bash
# Asynchronous checkpoints have the bytes of synchronous ones, whichever process dies.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
quiet="validation.enable=false training.steps=20 checkpoint.interval=5 checkpoint.keep_latest_k=0"

train() { "$tessera" train run.yaml $quiet "$@" >log 2>&1 </dev/null; }
has() { if grep -qE -- "$2" log; then pass "$1"; else fail "$1: expected /$2/ in: $(tail -n 6 log)"; fi; }
hasnt() { if grep -qE -- "$2" log; then fail "$1: did not expect: $(grep -E -- "$2" log | head -n 2)"; else pass "$1"; fi; }
# All files of the two folders are equal, except for the configuration, which holds the folder and the kind of save.
manifest() { sed -zE 's/"config": ?\{([^{}]|\{[^{}]*\})*\}//' "$1"; }
same_bytes() {
    local path
    if ! diff -r -x manifest.json -x commit.json out/checkpoint beside/checkpoint >difference; then
        fail "$1: $(head -n 3 difference)"
        return
    fi
    for path in out/checkpoint/*/manifest.json; do
        cmp -s <(manifest "$path") <(manifest "beside${path#out}") || { fail "$1: $path differs"; return; }
    done
    pass "$1: all files are the same bytes"
}
steps() { ls out/checkpoint | tr '\n' ' '; }

for n in 1 4; do
    rm -rf out beside
    train -n $n job.dump_folder=beside || fail "$n ranks: trains: $(tail -n 3 log)"
    has "$n ranks: says how long training stood still" 'checkpoint: step-00000010 staged in [0-9.]+ s'
    has "$n ranks: and that it was written" 'checkpoint: beside/checkpoint/step-00000020 written in [0-9.]+ s, .*/s'
    train -n $n job.dump_folder=out checkpoint.async=false || fail "$n ranks: trains: $(tail -n 3 log)"
    hasnt "$n ranks: async=false: nothing is staged" staged
    same_bytes "$n ranks"
done

# Rank 1 dies in the step after step 10 was staged; only the writer is left.
rm -rf out
train -n 4 job.dump_folder=out fault.spec="rank=1 step=11 point=step kind=sigkill"
has "a killed rank is named" 'rank 1 was killed by signal 9'
if [ "$(steps)" = "step-00000005 step-00000010 " ]; then pass "what was staged is there"; else fail "what was staged is there: $(steps)"; fi
train -n 2 job.dump_folder=out
has "and a run goes on from it" 'resumed from step 10'

# After a hot recovery a new process takes part in the next saves.
rm -rf out
train -n 4 job.dump_folder=out recovery.enable=true fault.spec="rank=1 step=11 point=step kind=sigkill" ||
    fail "a rank is replaced: $(tail -n 3 log)"
same_bytes "a rank is replaced"

# The writer carries out the faults of the life that each rank is in: rank 0 is in its first, the new rank 1 in its second.
rm -rf out
train -n 4 job.dump_folder=out recovery.enable=true fault.spec="rank=1 step=7 point=step kind=sigkill; \
rank=0 step=10 point=save:sync kind=eio life=2; rank=1 step=15 point=save:write kind=enospc life=2; \
rank=1 step=20 point=save:write kind=enospc" || fail "a disk that is full for a new rank: $(tail -n 3 log)"
has "a new rank's disk is full" 'warning: .*checkpoint of step 15: .*rank-00001.data.*[Nn]o space'
if [ "$(steps)" = "step-00000005 step-00000010 step-00000020 " ]; then pass "and nothing else"; else fail "and nothing else: $(steps)"; fi

# Older checkpoints are removed only after the newer ones were read back; a damaged one does not count, and is named.
for async in true false; do
    rm -rf out
    train -n 2 job.dump_folder=out training.steps=15 checkpoint.keep_latest_k=3 checkpoint.async=$async
    printf '\125' | dd of=out/checkpoint/step-00000010/rank-00001.data bs=1 seek=70 conv=notrunc 2>/dev/null
    train -n 2 job.dump_folder=out checkpoint.keep_latest_k=3 checkpoint.async=$async ||
        fail "async=$async: a damaged older one is no end: $(tail -n 3 log)"
    has "async=$async: a damaged one is named" 'warning: .*step-00000010/rank-00001.data: bytes \[0, .*does not count'
    if [ "$(steps)" = "step-00000005 step-00000010 step-00000015 step-00000020 " ]; then
        pass "async=$async: and an older one stays for it"
    else
        fail "async=$async: an older one stays for a damaged one: $(steps)"
    fi
done

rm -rf out
train -n 2 job.dump_folder=out fault.spec="rank=1 step=10 point=save:write kind=enospc" ||
    fail "a full disk is no end: $(tail -n 3 log)"
has "a full disk is told by name" 'warning: .*checkpoint of step 10: .*rank-00001.data.*[Nn]o space'
has "and that training goes on" 'older checkpoints stand, and training goes on'
if [ "$(steps)" = "step-00000005 step-00000015 step-00000020 " ]; then pass "the others are there"; else fail "the others: $(steps)"; fi

rm -rf out
train -n 2 job.dump_folder=out checkpoint.on_error=stop fault.spec="rank=0 step=10 point=save:rename kind=eio" &&
    fail "on_error=stop ends the run"
has "on_error=stop says why" 'checkpoint of step 10: .*step-00000010'
if [ "$(steps)" = "step-00000005 " ]; then pass "the one before stands"; else fail "the one before stands: $(steps)"; fi

rm -rf out
train -n 2 job.dump_folder=out fault.spec="rank=0 step=20 point=save:sync kind=eio" &&
    fail "a failure of the last checkpoint is one of the run"
has "the last one's failure is told" 'checkpoint of step 20'

rm -rf out
train -n 2 job.dump_folder=out fault.spec="rank=0 step=10 point=save:sync kind=sigkill" ||
    fail "a dead writer is no end: $(tail -n 3 log)"
has "a dead writer is named" 'warning: the process that writes checkpoints \(pid [0-9]+\) was killed by signal 9'
has "what it could not write is told" 'warning: .*was killed by signal 9 \(SIGKILL\), and so was the one before it'
if [ "$(steps)" = "step-00000005 step-00000015 step-00000020 " ]; then pass "and the next one writes"; else fail "and the next one writes: $(steps)"; fi

rm -rf out log
setsid bash -c 'trap - INT; exec "$@"' _ "$tessera" train run.yaml -n 2 job.dump_folder=out validation.enable=false \
    training.steps=1000000 checkpoint.interval=20 >log 2>&1 </dev/null &
launcher=$!
await "$launcher" has_text log 'step-00000020 written' || fail "a run starts: $(tail -n 3 log)"
kill -KILL "$(pgrep -g "$launcher" -x tessera-keeper)"
await "$launcher" has_text log 'training stands still while a checkpoint is written' &&
    await "$launcher" has_text log 'step-[0-9]* \([0-9.]+ s\)'
kill -INT "$launcher"
wait "$launcher"
has "without its keeper saves go on, with training standing still" 'checkpoint: out/checkpoint/step-[0-9]+ \([0-9.]+ s\)'
has "and that is told" 'warning: the process that starts writers of checkpoints has ended.*; training stands still'

rm -rf out
train -n 2 job.dump_folder=out checkpoint.compress=zstd checkpoint.weights_dtype=bfloat16 checkpoint.direct_io=false ||
    fail "packed and rounded: $(tail -n 3 log)"
rm -rf out/checkpoint/step-00000020
train -n 4 job.dump_folder=out checkpoint.compress=none
has "packed and rounded: goes on" 'resumed from step 15'
finish
