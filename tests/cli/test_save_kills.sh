#!/usr/bin/env bash
# A run that is killed during a save resumes with the bits of an undisturbed one; a folder that cannot be made is
# reported.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
options="validation.enable=false training.steps=20 checkpoint.interval=5"

train() { "$tessera" train run.yaml $options "$@" >log 2>&1 </dev/null; }

train -n 2 job.dump_folder=reference || fail "20 steps: $(tail -n 3 log)"
for fault in "rank=0 point=save:make_folder" "rank=1 point=save:write" "rank=0 point=save:name_manifest" \
    "rank=0 point=save:rename" "rank=0 point=save:sync_parent"; do
    rm -rf out
    train -n 2 job.dump_folder=out checkpoint.async=false fault.spec="$fault step=10 kind=sigkill"
    if grep -q "was killed by signal 9" log; then pass "$fault: strikes"; else fail "$fault: strikes: $(tail -n 3 log)"; fi
    if train -n 4 job.dump_folder=out && cmp -s out/model/model.safetensors reference/model/model.safetensors; then
        pass "$fault: the run goes on to the same weights"
    else
        fail "$fault: the run goes on to the same weights: $(tail -n 3 log)"
    fi
    if ls out/checkpoint | grep -q tmp; then fail "$fault: left $(ls out/checkpoint)"; else pass "$fault: nothing is left of it"; fi
done

mkdir barred && touch barred/checkpoint
expect "a folder that cannot be made" 1 "barred/checkpoint" "$tessera" train run.yaml $options checkpoint.async=false \
    checkpoint.on_error=stop job.dump_folder=barred
finish
