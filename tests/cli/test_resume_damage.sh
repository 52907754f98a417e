#!/usr/bin/env bash
# A checkpoint that is damaged, lacks a file, or belongs to another model or version: the message, and the ways out that it
# offers.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
base="training.steps=12 checkpoint.interval=4 checkpoint.keep_latest_k=0 validation.enable=false"
dir=out/checkpoint

"$tessera" train run.yaml -n 2 $base >log 2>&1 || { tail -n 3 log; exit 1; }
cp -r out whole

# Restores the state after 12 steps.
restore() {
    rm -rf out
    cp -r whole out
}

train() { "$tessera" train run.yaml -n 4 $base "$@"; }

# also NAME TEXT: the last output has TEXT, too.
also() { grep -qF -- "$2" output && pass "$1" || fail "$1: $(tail -n 3 output)"; }

# flip FILE OFFSET
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}


flip $dir/step-00000012/rank-00001.data 100
expect "a flipped bit is named" 2 "step-00000012/rank-00001.data: bytes [0, " train
also "with the rank that wrote it" "written by rank 1"
also "and the step before is offered" "checkpoint.load_step=8 would go on from step 8"
expect "which is then taken" 0 "resumed from step 8" train checkpoint.load_step=8
expect "and not once more when the same is started again" 0 "resumed from step 12" train checkpoint.load_step=8 \
    training.steps=13
[ -d $dir/step-00000012.aside ] && pass "and the damaged one is kept" || fail "no step-00000012.aside: $(ls $dir)"

restore
flip $dir/step-00000012/manifest.json 300
expect "a damaged manifest is named" 2 "step-00000012/manifest.json does not have the checksum of its save" train
also "and the step before is offered" "checkpoint.load_step=8 would go on from step 8"
flip $dir/step-00000008/rank-00000.data 0
expect "previous goes back as far as it must" 0 "resumed from step 4" train checkpoint.on_damage=previous
also "and says what is lost" "step 8 is lost: the run goes on from step 4"

restore
rm $dir/step-00000012/rank-00001.data
expect "a missing file is named" 2 "step-00000012/rank-00001.data is missing" train
rm -r $dir/step-00000012/commit.json $dir/step-00000004 $dir/step-00000008
expect "a save that was never finished is told" 2 "step-00000012 has no commit.json" train checkpoint.on_damage=previous
also "and nothing starts anew by itself" "there is no other (checkpoint.resume=false starts anew)"
expect "but when it is told to" 0 "model: out/model" train checkpoint.resume=false training.steps=1 \
    lr_scheduler.warmup_steps=1
also "with the old one out of the way" "1 newer checkpoint of out/checkpoint was set aside"

restore
ln -sf rank-00001.data $dir/step-00000012/rank-00001.data # a link to itself: an error of the system, no damage
expect "what cannot be read now is no damage" 1 "Too many levels of symbolic links" train recovery.enable=false \
    checkpoint.on_damage=previous
also "the run does not go back for it" "it is unknown whether step 12 is whole"
also "and what to do is told" "start again, or move its folder away"

restore
expect "a run makes copies in another place" 0 "step 13 was copied to copies in " train training.steps=13 checkpoint.copies=copies
rm -r out
expect "from which a run goes on that lost its folder" 0 "resumed from step 13" train training.steps=14 \
    checkpoint.copies=copies
also "with what is good there" "step 13 was brought from copies: every byte is as it was saved"
flip $dir/step-00000014/rank-00001.data 100
expect "or whose newest checkpoint is damaged" 0 "resumed from step 14" train training.steps=15 checkpoint.copies=copies
expect "a program that cannot store them is named, and the run goes on" 0 "copies of checkpoints: list: false ended with code 1" \
    train training.steps=16 checkpoint.copy_command=false checkpoint.copy_wait_s=1
also "once, and at the end" "false does not have the newest one"
expect "none of which is used when it starts anew" 0 "in copies were set aside" train training.steps=1 \
    lr_scheduler.warmup_steps=1 checkpoint.resume=false checkpoint.copies=copies

restore
mv $dir/step-00000012 $dir/step-00000012.old # as left by a save that was killed between two renames
expect "what stood aside for another is found" 0 "resumed from step 12" train training.steps=13

restore
expect "a step that is not there" 2 "checkpoint.load_step=7: out/checkpoint/step-00000007 is not there" train \
    checkpoint.load_step=7
sed 's/"num_hidden_layers": 3/"num_hidden_layers": 2/' model.json >fewer.json
expect "a model with fewer layers" 2 "layers.2.input_layernorm.weight' is not of this model" train model.config=fewer.json
sed 's/"intermediate_size": 53/"intermediate_size": 54/' model.json >wider.json
expect "a model of another width" 2 "but this model's is [54, 42]: the checkpoint is of another model; give the model that" train \
    model.config=wider.json
sed -i 's/"format": 3/"format": 4/' $dir/step-00000012/commit.json
expect "a format of the future" 2 "format 4 is newer than this version's 3" train
rm -r $dir/step-00000012/*
echo '{"format": 1}' >$dir/step-00000012/meta.json
expect "a format of the past" 2 "is of the format before 3" train
finish
