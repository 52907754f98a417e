#!/usr/bin/env bash
# A rank that is killed at any moment of a step is replaced: the run has the same weights and losses, and no line of
# metrics.jsonl is missing or doubled.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/hot.sh"

# ---- Every moment of a step, in 4 ranks ----
train plain -n 4 || fail "the undisturbed run"
i=0
for point in phase:judging phase:judged phase:updated phase:forward phase:backward:2 phase:optimizer phase:checkpoint \
    phase:validation phase:log phase:data before:reduce_scatter_pieces after:all_gather_pieces 'before:all_reduce#2'; do
    i=$((i + 1))
    rank=$((i % 4))
    [ "$point" = phase:log ] && rank=0
    train disturbed -n 4 "fault.spec=rank=$rank step=3 point=$point kind=sigkill"
    same "killed at $point of step 3, rank $rank" disturbed plain
done

# Between the tensors of an update, in a life and a rank each. A step that was begun is never begun again, so the first
# tensors come in successive lives. (Within a tensor: tests/parallel/test_optimizer_kept.c.)
[ "${TESSERA_SHARDS:-}" = device ] && moments="" || moments="shard shard-done" # a device has no journal: it has the step before
for moment in $moments; do
    spec=""
    for shard in 0 1 2 7 15 22 28 29; do
        spec="$spec; rank=$((shard % 4)) step=$((1 + shard % 6)) point=phase:$moment:$shard kind=sigkill life=0"
    done
    train disturbed -n 4 "fault.spec=${spec#; }"
    same "killed at the $moment of 8 tensors" disturbed plain
done

# ---- What changes while a job runs
# stop FOLDER ARGUMENTS...: starts a run whose rank 1 stops at the beginning of step 3; end NAME FOLDER: kills it there.
stop() {
    ./tessera train changing.yaml -n 4 job.dump_folder="$1" "${common[@]}" \
        fault.spec="rank=1 step=3 point=step kind=sigstop" "${@:2}" >"$1.out" 2>&1 </dev/null &
    launcher=$!
    await $launcher is_stopped $launcher 1 || fail "$1: $(tail -n 3 "$1.out")"
}
end() {
    kill -KILL "$(rank $launcher 1)"
    wait $launcher || fail "$1: $(tail -n 3 "$2.out")"
}

# Another version replaces the program: the job continues with the version that it began with.
cp run.yaml changing.yaml
cp "$tessera" tessera
stop upgraded
rm tessera
printf '#!/bin/sh\nexit 1\n' >tessera
chmod +x tessera
end "a run whose program is replaced" upgraded
same "killed after its program was replaced" upgraded plain
rm tessera
ln -s "$tessera" tessera

# A full disk loses the new trace: here its folder cannot be made.
stop traceless debug.trace=true
rm -r traceless/trace
touch traceless/trace
end "a run without room for its trace" traceless
expect "that is told" 0 "warning: there is no trace of this job from here on: " cat traceless.out
same "killed where no trace can be made" traceless plain

# The user edits the file for the next run: this one keeps its configuration after every kind of recovery.
for hot in true false; do
    cp run.yaml changing.yaml
    stop edited recovery.hot=$hot
    sed -i 's/lr: 3e-3/lr: 1e-2/' changing.yaml
    end "a run whose configuration is edited, hot=$hot" edited
    if [ $hot = true ]; then
        same "killed after its configuration was edited" edited plain
    else
        cmp -s plain/model/model.safetensors edited/model/model.safetensors && pass "also where all begin anew" ||
            fail "all begin anew with another configuration: $(tail -n 3 edited.out)"
    fi
done

finish
