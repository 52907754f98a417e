#!/usr/bin/env bash
# Hot recovery under every sharding strategy, of several ranks at once, and during a replacement.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/hot.sh"

train plain -n 4 || fail "the undisturbed run"

# lost NAME N: in the run in "disturbed" ranks were lost N times, and all faults have happened.
lost() {
    local n
    n=$(grep -c '^tessera: rank .* was killed by signal' disturbed.out)
    if [ "$n" != "$2" ] || has_text disturbed.out "never happened"; then
        fail "$1: $n losses, not $2: $(grep -E 'killed|never' disturbed.out)"
    else
        pass "$1"
    fi
}

# ---- Several ranks, and again while they are replaced ----
train disturbed -n 4 fault.spec="rank=1 step=2 point=phase:backward:0 kind=sigkill; rank=2 step=2 point=phase:backward:0 kind=sigkill"
same "two ranks at once" disturbed plain
train disturbed -n 4 fault.spec="rank=all step=3 point=phase:shard:4 kind=sigkill"
same "all ranks at once, in the update" disturbed plain
train disturbed -n 4 fault.spec="rank=all step=4 point=phase:forward kind=sigkill"
same "all ranks at once, in forward" disturbed plain
train disturbed -n 4 fault.spec="rank=1 step=3 point=phase:shard:4 kind=sigkill; rank=1 point=phase:shard:5 kind=sigkill life=2; rank=1 point=phase:setup kind=sigkill life=3"
lost "one rank three times" 3
same "again while the step is ended, and again while ranks meet" disturbed plain
train disturbed -n 4 fault.spec="rank=3 step=3 point=phase:forward kind=crash"
same "a rank that crashes" disturbed plain

# ---- Strategies and numbers of ranks ----
for how in "1 full" "1 none" "2 none" "2 zero1" "4 zero2" "8 full" "8 zero1" "4 none" "4 hybrid"; do
    ranks=${how% *} strategy=${how#* } more=""
    [ "$ranks" = 1 ] && second=life=2 || second="" # alone, the rank that dies again is the one that died
    [ "$strategy" = hybrid ] && more="parallelism.data_parallel_replicate_degree=2"
    # shellcheck disable=SC2086
    train alike -n "$ranks" parallelism.shard_strategy="$strategy" $more || fail "$how: the undisturbed run"
    # shellcheck disable=SC2086
    train disturbed -n "$ranks" parallelism.shard_strategy="$strategy" $more \
        fault.spec="rank=$((ranks - 1)) step=2 point=phase:shard:2 kind=sigkill; rank=0 step=4 point=phase:backward:1 kind=sigkill $second"
    lost "two ranks, one after the other" 2
    same "$strategy over $ranks" disturbed alike
    rm -rf alike
done

# ---- Where it ends ----
expect "a rank that is killed again and again" 137 "3 failures within 3600 s" \
    "$tessera" train run.yaml -n 2 job.dump_folder=vain recovery.enable=true fault.spec="rank=1 step=2 point=phase:forward kind=sigkill life=0"
expect "recovery.enable=false" 137 "rank 1 was killed by signal 9 (SIGKILL)" \
    "$tessera" train run.yaml -n 2 job.dump_folder=off fault.spec="rank=1 step=2 point=phase:forward kind=sigkill"

finish
