#!/usr/bin/env bash
# checkpoint.memory_copies: after the loss of all processes the same command resumes from the last step, but only where
# the user must want that.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/hot.sh"

copies=(recovery.enable=false checkpoint.memory_copies=true checkpoint.interval=100)
kept() { grep -oE '/dev/shm/tessera-[0-9a-z-]+' "$1.out" | head -n 1; }

# broken_off FOLDER ARGUMENTS...: a run that is killed as a whole in its 4th step.
broken_off() {
    local folder=$1
    shift
    train "$folder" -n 2 "${copies[@]}" fault.spec="rank=all step=4 point=phase:optimizer kind=sigkill" "$@"
    [ $? = 137 ] && grep -q "goes on from it, checkpoint.memory_copies=false from the newest checkpoint" "$folder.out" &&
        [ -e "$(kept "$folder")/rank-00001.keep" ] ||
        fail "$folder: nothing was kept"
    at=$(kept "$folder")
}

# goes_on NAME FOLDER TEXT ARGUMENTS...: prints TEXT, ends with the weights of the undisturbed run, leaves no memory.
goes_on() {
    local name=$1 folder=$2 text=$3
    shift 3
    if ! train "$folder" "${copies[@]}" "$@"; then
        fail "$name: the second launch"
        tail -n 3 "$folder.out"
    elif ! grep -qF "$text" "$folder.out"; then
        fail "$name: expected \"$text\""
    elif ! cmp -s plain/model/model.safetensors "$folder/model/model.safetensors"; then
        fail "$name: other weights"
    elif ! diff <(numbers plain) <(numbers "$folder") >difference; then
        fail "$name: other metrics"
        head -n 4 difference
    elif [ -e "$at" ]; then
        fail "$name: $at is still there"
    else
        pass "$name"
    fi
}

train plain -n 2 || fail "the undisturbed run"
new="batch: 16 rows"

broken_off all
goes_on "all ranks killed" all "going on from step 3, kept in memory" -n 2
grep -q "learning rate" all.out && fail "a change is told: $(grep "learning rate" all.out)" || pass "the schedule stays"

broken_off slower
train slower -n 2 "${copies[@]}" optimizer.lr=1e-3
grep -qF "another schedule than until here: step 4 gets 0.0008, not 0.0024 (optimizer.lr was 0.003, now 0.001)" slower.out &&
    pass "another learning rate is told" || fail "another learning rate is told: $(head -n 8 slower.out)"

broken_off updating fault.spec="rank=all step=4 point=phase:shard:3 kind=sigkill"
goes_on "all ranks killed in an update" updating "going on from step 4, kept in memory" -n 2

"$tessera" train run.yaml job.dump_folder=launcher -n 2 "${common[@]}" "${copies[@]}" comm.soft_timeout_s=0.2 \
    fault.spec="rank=0 step=4 point=phase:forward kind=sigstop" >launcher.out 2>&1 </dev/null &
launcher=$!
await $launcher has_text launcher.out "rank 0 has kept rank 1 waiting .* stopped" || fail "a run stands still: $(tail -n 3 launcher.out)"
at=$(readlink "/proc/$launcher/fd/"* | grep -m 1 -oE '/dev/shm/tessera-[0-9a-z-]+')
kill -9 "$launcher"
wait "$launcher" 2>silent
goes_on "the launcher killed, too" launcher "going on from step 3, kept in memory" -n 2

# A second request kills the ranks: they save nothing, and the memory stays.
"$tessera" train run.yaml job.dump_folder=twice -n 2 "${common[@]}" "${copies[@]}" comm.soft_timeout_s=0.2 \
    checkpoint.emergency_grace_s=600 fault.spec="rank=0 step=4 point=phase:forward kind=sigstop" \
    >twice.out 2>&1 </dev/null &
launcher=$!
await $launcher has_text twice.out "rank 0 has kept rank 1 waiting .* stopped" || fail "a run stands still: $(tail -n 3 twice.out)"
kill -USR2 "$launcher"
await $launcher has_text twice.out "asked to stop \(SIGUSR2\)" || fail "it is asked to stop: $(tail -n 3 twice.out)"
kill -USR2 "$launcher"
wait "$launcher" 2>silent
at=$(kept twice)
grep -q "stopped by the operator (.*); there is no checkpoint$" twice.out && pass "steps in memory are not called lost" ||
    fail "steps in memory are not called lost: $(tail -n 1 twice.out)"
goes_on "asked to stop twice" twice "going on from step 3, kept in memory" -n 2

# The same before the first step has been done: there is nothing to keep.
"$tessera" train run.yaml job.dump_folder=early -n 2 "${common[@]}" "${copies[@]}" comm.soft_timeout_s=0.2 \
    checkpoint.emergency_grace_s=600 fault.spec="rank=0 step=1 point=phase:forward kind=sigstop" \
    >early.out 2>&1 </dev/null &
launcher=$!
await $launcher has_text early.out "rank 0 has kept rank 1 waiting .* stopped" || fail "a run stands still: $(tail -n 3 early.out)"
at=$(readlink "/proc/$launcher/fd/"* | grep -m 1 -oE '/dev/shm/tessera-[0-9a-z-]+')
kill -USR2 "$launcher"
await $launcher has_text early.out "asked to stop \(SIGUSR2\)" || fail "it is asked to stop: $(tail -n 3 early.out)"
kill -USR2 "$launcher"
wait "$launcher" 2>silent
[ -n "$at" ] && [ ! -e "$at" ] && ! grep -q "stays in memory" early.out && pass "no step is kept before the first one" ||
    fail "no step is kept before the first one: $at: $(tail -n 2 early.out)"
rm -rf "$at"

broken_off unused
train unused -n 2 recovery.enable=false checkpoint.memory_copies=false checkpoint.interval=100 || fail "without copies: $(tail -n 3 unused.out)"
grep -qF "copies of this run's last step lie in memory ($at) and are not used" unused.out &&
    pass "copies that are not used are named" || fail "copies that are not used: $(head -n 5 unused.out)"
rm -r "$at"

broken_off more
expect "what cannot be saved for others is refused" 2 "is kept in memory: the same command with -n 2 goes on from there" \
    "$tessera" train run.yaml job.dump_folder=more -n 4 "${common[@]}" "${copies[@]}" checkpoint.enable=false
goes_on "and is saved for more ranks where it can be" more "resumed from step 3 of more/checkpoint, saved by 2 ranks" -n 4
grep -qF "step 3 is kept in memory for -n 2: it is saved, and 4 ranks go on from there" more.out && pass "a line says so" ||
    fail "it is not told: $(grep tessera: more.out)"

broken_off one
goes_on "or for fewer, with what differs" one \
    "is kept in memory for -n 2 parallelism.fsdp_unit_blocks=1 parallelism.shard_strategy=full: it is saved, and 1 rank" \
    -n 1 parallelism.shard_strategy=none parallelism.fsdp_unit_blocks=2

# Ranks in an order of their own keep the parts of their places.
order=parallelism.rank_order
broken_off order -n 4 $order=0,2,1,3
goes_on "the same order of ranks" order "going on from step 3, kept in memory by 4 ranks" -n 4 $order=0,2,1,3
broken_off orders -n 4 $order=0,2,1,3
goes_on "another order of ranks" orders "is kept in memory for -n 4 $order=0,2,1,3: it is saved, and 4 ranks" -n 4 $order=0,3,2,1

# Moments of one optimizer are no state for another: they are saved, and refused as those of any checkpoint.
broken_off moments
train moments -n 2 "${copies[@]}" optimizer.name=muon
[ $? = 2 ] && grep -qF "step 3 is kept in memory for -n 2 optimizer.name=adamw: it is saved" moments.out &&
    grep -qF "the checkpoint is of another optimizer" moments.out && pass "another optimizer does not take the state" ||
    fail "another optimizer does not take the state: $(tail -n 3 moments.out)"
goes_on "and the one that made it goes on" moments "resumed from step 3 of moments/checkpoint" -n 2

# An update that was interrupted ends with the settings that it began with, also if the next launch has others.
train decayed -n 2 recovery.enable=false checkpoint.interval=4 checkpoint.keep_latest_k=0 &&
    train decayed -n 2 recovery.enable=false checkpoint.load_step=4 optimizer.weight_decay=50 || fail "another weight decay"
mv plain plain_other && mv decayed plain
broken_off decaying fault.spec="rank=all step=4 point=phase:shard:3 kind=sigkill"
goes_on "an update is ended by its own settings" decaying \
    "step 4 is kept in memory for -n 2 optimizer.weight_decay=0.1: it is saved" -n 2 optimizer.weight_decay=50
rm -r plain && mv plain_other plain

broken_off updated fault.spec="rank=all step=4 point=phase:shard:3 kind=sigkill"
goes_on "what was in the middle of an update is ended first" updated "resumed from step 4 of updated/checkpoint" -n 4

# The configuration does not set the batch: it stays that of the ranks with which the run began.
open=(training.global_batch_size=0)
train plain_open -n 4 "${open[@]}" || fail "the undisturbed run with a batch of its ranks"
broken_off open "${open[@]}" -n 4
mv plain plain_other && mv plain_open plain
goes_on "the batch stays that of the run" open "resumed from step 3" -n 2 "${open[@]}"
mv plain plain_open && mv plain_other plain

# training.steps below the step that was kept: it is saved all the same, by other ranks and by the same.
few=(lr_scheduler.warmup_steps=1 training.steps=2)
broken_off fewer lr_scheduler.warmup_steps=1
train fewer -n 4 "${copies[@]}" "${few[@]}"
grep -qF "resumed from step 3 of fewer/checkpoint, saved by 2 ranks" fewer.out && [ ! -e "$at" ] &&
    pass "more steps are kept than training.steps: they are saved for other ranks" ||
    fail "more steps are kept than training.steps: $(tail -n 5 fewer.out)"
broken_off fewer_same lr_scheduler.warmup_steps=1
train fewer_same -n 2 "${copies[@]}" "${few[@]}"
"$tessera" ckpt verify fewer_same/checkpoint/step-00000003 >silent 2>&1 && [ ! -e "$at" ] &&
    pass "and by the same ones" || fail "and by the same ones: $(tail -n 5 fewer_same.out)"

# A checkpoint that is damaged does not replace what is kept.
damaged_save() {
    local data=$1/checkpoint/step-00000003/rank-00000.data
    broken_off "$1" checkpoint.interval=3 checkpoint.async=false
    printf '\377' | dd of="$data" bs=1 seek=$(($(stat -c %s "$data") / 2)) conv=notrunc status=none
}
damaged_save bad
goes_on "a damaged checkpoint does not replace what is kept" bad "(the newest checkpoint is of step 3, and damaged)" -n 2
damaged_save bad_for_others
goes_on "nor does it for other ranks" bad_for_others \
    "step 3 is kept in memory for -n 2: it is saved, and 4 ranks go on from there" -n 4

broken_off other
expect "another text is refused while work is kept" 2 "step 3 of this run is kept in memory" \
    "$tessera" train run.yaml job.dump_folder=other -n 2 "${common[@]}" "${copies[@]}" data.files=model.json
expect "by other ranks, too" 2 "step 3 stays in memory: the same command with -n 2 goes on from there" \
    "$tessera" train run.yaml job.dump_folder=other -n 4 "${common[@]}" "${copies[@]}" data.files=model.json
goes_on "and what is kept stays" other "going on from step 3, kept in memory by 2 ranks (there is no checkpoint)" -n 2

broken_off gone
rm -rf gone
goes_on "a job whose folder was removed begins anew" gone "$new" -n 2

broken_off damaged
dd if=/dev/zero of="$at/rank-00001.keep" bs=64 count=1 conv=notrunc status=none
goes_on "a block that is damaged is not used" damaged "$new" -n 2

broken_off saved checkpoint.interval=3 checkpoint.async=false
goes_on "a checkpoint that is as new goes first" saved "the newest checkpoint is as new" -n 2

broken_off unwanted
goes_on "checkpoint.resume=false begins anew" unwanted "is not used: checkpoint.resume=false" -n 2 checkpoint.resume=false

# Inside one launch: every cause that restarts all ranks.
again=(-n 2 recovery.enable=true checkpoint.async=false)
rm -rf anew; at=none
goes_on "all start again from memory" anew "going on from step 4, kept in memory by 2 ranks (the newest checkpoint is of step 3)" \
    "${again[@]}" checkpoint.interval=3 recovery.hot=false fault.spec="rank=1 step=5 point=phase:backward kind=crash"
grep -qF "all ranks start again from what they keep in memory at once" anew.out && pass "which is told" || fail "it is not told"

goes_on "memory without a name will do" nameless "going on from step 5, kept in memory by 2 ranks" "${again[@]}" \
    checkpoint.memory_copies=false fault.spec="rank=1 step=5 point=phase:shard:3 kind=exit code=9"

goes_on "a checkpoint that is as new comes first" as_new \
    "resumed from step 3 of as_new/checkpoint, saved by 2 ranks (step 3, kept in memory, is not used: the newest checkpoint is as new)" \
    "${again[@]}" checkpoint.interval=3 recovery.hot=false fault.spec="rank=1 step=4 point=phase:backward kind=crash"

goes_on "a NaN is not gone on from" nan "resumed from step 3 of nan/checkpoint" "${again[@]}" checkpoint.interval=3 \
    fault.spec="rank=1 step=5 point=gradient kind=nan tensor=model.norm.weight times=0"

# A host is left out: four ranks save for three. Then the launcher is killed, and three save for the four of the same command.
places=("${copies[@]}" -n 4 recovery.enable=true recovery.hot=false elastic.min_ranks=2 elastic.retry_s=1e6)
"$tessera" train run.yaml job.dump_folder=places "${common[@]}" "${places[@]}" comm.soft_timeout_s=0.2 \
    fault.spec="rank=1 step=2 point=step kind=exit; rank=1 step=3 point=step kind=exit life=2; rank=0 step=5 point=phase:forward kind=sigstop life=3" \
    >places.out 2>&1 </dev/null &
launcher=$!
await $launcher has_text places.out "rank 0 has kept 2 ranks waiting .* stopped" || fail "three ranks go on: $(tail -n 3 places.out)"
at=$(readlink "/proc/$launcher/fd/"* | grep -m 1 -oE '/dev/shm/tessera-[0-9a-z-]+')
kill -9 "$launcher"
wait "$launcher" 2>silent
grep -qF "step 2 is kept in memory for -n 4: it is saved, and 3 ranks go on from there" places.out &&
    pass "a place that is left out costs no step" || fail "a place is left out: $(grep tessera: places.out)"
goes_on "and the same command goes on with all" places "resumed from step 4 of places/checkpoint, saved by 3 ranks" "${places[@]}"

finish
