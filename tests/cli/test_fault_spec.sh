#!/usr/bin/env bash
# fault.spec: a bad spec is refused before ranks start, and an injected fault is named.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
# train NAME CODE TEXT SPEC [WORDS...]
train() {
    local name=$1 code=$2 text=$3 spec=$4
    shift 4
    expect "$name" "$code" "$text" "$tessera" train run.yaml -n 2 training.steps=4 lr_scheduler.warmup_steps=1 validation.enable=false \
        checkpoint.enable=false "fault.spec=$spec" "$@"
    rm -rf out
}
train "an unknown kind" 2 "fault.spec: fault 1: unknown kind 'skp': did you mean 'skip'?" "rank=1 kind=skp"
train "an unknown key" 2 "unknown key 'stp': did you mean 'step'?" "rank=1 kind=skip stp=4"
train "an unknown operation" 2 "did you mean 'reduce_scatter'?" "rank=1 kind=skip point=before:reduce_scater"
train "a rank that is not there" 2 "rank: 2 is outside 0 .. 1" "rank=2 kind=exit"
train "an unknown phase" 2 "fault.spec: fault 1: unknown phase 'bakward': did you mean 'backward'?" "rank=1 point=phase:bakward kind=exit"
train "a phase like no other" 2 "unknown phase 'zzzzzzzz': there are setup, data, forward," "rank=1 point=phase:zzzzzzzz kind=exit"
train "a root where there is none" 2 "kind=root cannot happen to all_reduce, but to broadcast," "rank=1 point=before:all_reduce kind=root"
# A fault can name every phase of a run.
"$tessera" train run.yaml -n 2 training.steps=4 lr_scheduler.warmup_steps=1 job.dump_folder=out checkpoint.interval=2 >log 2>&1
phases=$("$tessera" trace out --json | grep -o '"phase": "[a-z-]*"' | sort -u | cut -d'"' -f4)
rm -rf out
spec=$(for phase in $phases; do echo "rank=1 point=phase:$phase kind=exit;"; done)
train "phases of a run: ${phases//$'\n'/ }" 2 "fault $(($(wc -w <<<"$phases") + 1)): unknown kind 'zzz'" "$spec kind=zzz"
train "a spec without faults" 0 "step" ""
train "a step that never comes" 0 "step" "rank=1 step=9 kind=exit"
train "a rank that exits" 3 "rank 1 exited with code 3" "rank=1 step=2 point=phase:optimizer kind=exit"
train "and where" 137 "in phase 'forward' of step 2 (1)" "rank=1 step=2 point=phase:forward:1 kind=sigkill"
train "an operation that is left out" 1 "ranks disagree" \
    "rank=1 step=2 point=before:reduce_scatter_pieces kind=skip"
train "a rank without a micro-batch" 2 "rank 1 exited with code 2" "rank=1 step=2 kind=uneven n=4"
train "a plan that differs is told before the first step" 1 \
    "before the first step: ranks disagree: rank 0 has 4, rank 1 has 3 of a step's micro-batches; all need" "rank=1 step=1 kind=uneven"
train "the seed draws the rank" 3 "rank" "rank=random step=random steps=3 kind=exit" fault.seed=7
expect "the environment asks for one" 5 "rank 0 exited with code 5" env TESSERA_FAULT="rank=0 step=2 kind=exit code=5" \
    "$tessera" train run.yaml -n 2 training.steps=4 lr_scheduler.warmup_steps=1 validation.enable=false checkpoint.enable=false
finish
