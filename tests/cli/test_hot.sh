#!/usr/bin/env bash
# A rank that is killed at any moment of a step is replaced, and nothing of the run shows it: the same weights, the same
# losses, no line of metrics.jsonl missing or doubled.
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

# Between the tensors of an update: a life for each, and a rank. A step that was begun is never begun again, so the first
# tensors come in one life after the other. (Within a tensor: tests/parallel/test_adamw_kept.c.)
for moment in shard shard-done; do
    spec=""
    for shard in 0 1 2 7 15 22 28 29; do
        spec="$spec; rank=$((shard % 4)) step=$((1 + shard % 6)) point=phase:$moment:$shard kind=sigkill life=0"
    done
    train disturbed -n 4 "fault.spec=${spec#; }"
    same "killed at the $moment of 8 tensors" disturbed plain
done

finish
