#!/usr/bin/env bash
# checkpoint.memory_copies: a job whose processes all end goes on from its last step, in another launch of the same
# command; and only where that is what its user must want.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/hot.sh"

copies=(recovery.enable=false checkpoint.memory_copies=true checkpoint.interval=100)
kept() { grep -oE '/dev/shm/tessera-[0-9a-z-]+' "$1.out" | head -n 1; }

# broken_off FOLDER ARGUMENTS...: a run that dies as a whole in its 4th step.
broken_off() {
    local folder=$1
    shift
    train "$folder" -n 2 "${copies[@]}" fault.spec="rank=all step=4 point=phase:optimizer kind=sigkill" "$@"
    [ $? = 137 ] && grep -q "the same command goes on from it" "$folder.out" && [ -e "$(kept "$folder")/rank-00001.keep" ] ||
        fail "$folder: nothing was kept"
    at=$(kept "$folder")
}

# goes_on NAME FOLDER TEXT ARGUMENTS...: says TEXT, ends as the undisturbed run does, and leaves nothing in memory.
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

broken_off unused
train unused -n 2 recovery.enable=false checkpoint.memory_copies=false checkpoint.interval=100 || fail "without copies: $(tail -n 3 unused.out)"
grep -qF "copies of this run's last step lie in memory ($at) and are not used" unused.out &&
    pass "copies that are not used are named" || fail "copies that are not used: $(head -n 5 unused.out)"
rm -r "$at"

broken_off fewer
expect "another number of ranks is refused while work is kept" 2 "step 3 of this run is kept by 2 ranks: -n 2 goes on" \
    "$tessera" train run.yaml job.dump_folder=fewer -n 4 "${common[@]}" "${copies[@]}"
train fewer -n 4 checkpoint.memory_copies=false && grep -qF "$new" fewer.out && pass "or goes on without it" ||
    fail "without what is kept: $(tail -n 3 fewer.out)"
rm -r "$at"

broken_off other
expect "other settings are refused while work is kept" 2 "step 3 of this run is kept in memory" \
    "$tessera" train run.yaml job.dump_folder=other -n 2 "${common[@]}" "${copies[@]}" training.local_batch_size=1
goes_on "and what is kept stays" other "going on from step 3, kept in memory" -n 2

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

finish
