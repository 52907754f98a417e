#!/usr/bin/env bash
# The checkpoints of a short training: listed, inspected, verified, compared, cut, merged, converted, edited, pruned.
# Damage is named.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
train() { # STEPS RANKS FOLDER
    "$tessera" train run.yaml -n "$2" training.steps="$1" checkpoint.interval=2 checkpoint.keep_latest_k=4 \
        job.dump_folder="$3" >train.log 2>&1
}
train 8 2 out || { fail "training: $(tail -n 3 train.log)"; finish; }
ckpt=out/checkpoint
newest=$ckpt/step-00000008

# ---- ls, inspect, verify
expect "ls shows steps" 0 "step-00000008  <- newest" "$tessera" ckpt ls $ckpt
expect "ls counts" 0 "4 checkpoints" "$tessera" ckpt ls $ckpt
expect "ls as JSON" 0 '"state": "valid"' "$tessera" ckpt ls $ckpt --json
expect "ls of the job's folder says where they are" 2 "did you mean out/checkpoint?" "$tessera" ckpt ls out
expect "ls as metrics" 0 'tessera_checkpoints_bytes{name="step-00000008"} ' "$tessera" ckpt ls $ckpt --prometheus
expect_metrics "which can be read" 0 "$tessera" ckpt ls $ckpt
expect_metrics "and those of pieces" 0 "$tessera" ckpt inspect $newest --pieces
expect "inspect as a page" 0 "<tr><th>n_tensors<td>90" "$tessera" ckpt inspect $ckpt --html
expect "inspect takes the newest" 0 "tessera, step 8" "$tessera" ckpt inspect $ckpt
expect "inspect shows metadata by the keys of edit" 0 "meta.seed " "$tessera" ckpt inspect $newest --meta
expect "inspect counts" 0 "90 tensors" "$tessera" ckpt inspect $newest
expect "inspect filters" 0 "3 tensors like 'embed_tokens'" "$tessera" ckpt inspect $newest embed_tokens
expect "inspect filters by pattern" 0 "1 tensor like 'model.*embed*'" "$tessera" ckpt inspect $newest 'model.*embed*'
expect "inspect shows pieces" 0 "rank-00001.data: bytes [" "$tessera" ckpt inspect $newest embed_tokens --pieces
expect "inspect as JSON" 0 '"n_tensors": 90' "$tessera" ckpt inspect $newest --json
expect "verify" 0 "ok  $newest: 90 tensors" "$tessera" ckpt verify $newest
expect "verify --newest reads one" 0 "ok  $newest: 90 tensors" "$tessera" ckpt verify $ckpt --newest
grep -q step-00000006 output && fail "verify --newest reads others, too" || pass "and no other"
expect "inspect finds nothing like it" 1 "0 tensors like 'nosuch'" "$tessera" ckpt inspect $newest nosuch
expect "verify takes a folder of them" 0 "ok  $ckpt/step-00000002: 90 tensors" "$tessera" ckpt verify $ckpt

# ---- diff
expect "a checkpoint is alike itself" 0 "90 same" "$tessera" ckpt diff $ckpt $newest
expect "two steps differ" 1 "90 different" "$tessera" ckpt diff $ckpt/step-00000006 $newest
expect "within a tolerance they do not" 0 "90 close" "$tessera" ckpt diff $ckpt/step-00000006 $newest --tolerance 10
expect "diff as JSON" 1 '"alike": false' "$tessera" ckpt diff $ckpt/step-00000006 $newest --json
expect "the model of the training is its last checkpoint's, rounded" 0 "30 close" \
    "$tessera" ckpt diff $newest out/model --model-only --tolerance 0.004

# ---- split, merge, extract, convert
expect "split" 0 "read again and equal" "$tessera" ckpt split $newest split -n 5
[ "$(ls split/step-00000008/*.data | wc -l)" = 5 ] && pass "split makes as many files" || fail "$(ls split/*)"
expect "what was split is alike" 0 "90 same" "$tessera" ckpt diff $newest split
expect "merge into one data file" 0 "equal" "$tessera" ckpt merge split merged
[ "$(ls merged/step-00000008/*.data | wc -l)" = 1 ] && pass "merge makes one file" || fail "$(ls merged/*)"
expect "what was merged is alike" 0 "90 same" "$tessera" ckpt diff $newest merged
expect "merge into a safetensors file" 0 "90 tensors" "$tessera" ckpt merge $ckpt all.safetensors
expect "which is alike" 0 "90 same" "$tessera" ckpt diff $newest all.safetensors
expect_metrics "and whose pieces no rank wrote" 0 "$tessera" ckpt inspect all.safetensors --pieces
expect_metrics "differences as metrics" 0 "$tessera" ckpt diff $newest all.safetensors
expect "merge into a file of torch.save" 0 "90 tensors" "$tessera" ckpt merge $ckpt all.pt
expect "which is alike, too" 0 "90 same" "$tessera" ckpt diff $newest all.pt
expect "ls takes a file" 0 "1 checkpoint, " "$tessera" ckpt ls all.pt
expect "ls refuses a file of another kind" 2 "text.txt: it is none of: " "$tessera" ckpt ls text.txt
expect "merge into a file of no format" 2 "other.foo: files end in .safetensors" "$tessera" ckpt merge $ckpt other.foo
[ -e other.foo ] && fail "it made something" || pass "and makes nothing"
expect "a folder may have any name" 0 "90 tensors" "$tessera" ckpt merge $ckpt other.foo/
for file in all.pt all.safetensors; do
    expect "$file back to Tessera" 0 "step 8" "$tessera" convert $file from_$file --to tessera
    expect "is alike" 0 "90 same" "$tessera" ckpt diff $newest from_$file
    expect "and says what the run said" 0 "meta.data_cursor" "$tessera" ckpt inspect from_$file --meta
    "$tessera" ckpt inspect $newest --meta | grep '^  meta' >meta_before
    "$tessera" ckpt inspect from_$file --meta | grep '^  meta' >meta_after
    diff meta_before meta_after >difference && pass "the same" || fail "metadata differs: $(head -n 4 difference)"
done
expect "DCP" 0 "tessera to dcp" "$tessera" convert $ckpt to_dcp_first --to dcp
expect "DCP to safetensors" 0 "dcp to safetensors" "$tessera" convert to_dcp_first dcp.safetensors --to safetensors
expect "and from there to Tessera" 0 "step 8" "$tessera" convert dcp.safetensors from_dcp_file --to tessera
expect "is alike, as well" 0 "90 same" "$tessera" ckpt diff $newest from_dcp_file
expect "extract a file" 0 "30 tensors" "$tessera" ckpt extract $ckpt model.safetensors
expect "extract a folder" 0 "30 tensors" "$tessera" ckpt extract $ckpt extracted
expect "which can be evaluated" 0 '"loss"' "$tessera" eval extracted --data text.txt --seq-len 19 --json
for format in hf dcp megatron tessera; do
    expect "convert to $format" 0 "tessera to $format, read again and equal" "$tessera" convert $ckpt to_$format --to $format
done
for format in dcp megatron tessera; do
    expect "$format is alike" 0 "90 same" "$tessera" ckpt diff $newest to_$format
    expect "$format verifies" 0 "ok  to_$format" "$tessera" ckpt verify to_$format
    expect "$format is listed" 0 "1 checkpoint" "$tessera" ckpt ls to_$format
done
expect "DCP back to Tessera" 0 "dcp to tessera" "$tessera" convert to_dcp back --to tessera
expect "is alike" 0 "90 same" "$tessera" ckpt diff $newest back
expect "convert with another dtype" 0 "30 tensors" \
    "$tessera" convert $ckpt half.safetensors --to safetensors --model-only --dtype bfloat16
expect "which it has" 0 "BF16" "$tessera" ckpt inspect half.safetensors
expect "a file's name says what it is, without --to" 0 "90 tensors" "$tessera" convert $ckpt named.pt
expect "it is a file of torch.save" 0 "named.pt: torch.save" "$tessera" ckpt inspect named.pt
expect "--files is for formats of several" 2 "--files: --to torch has no data files" \
    "$tessera" convert $ckpt other.pt --files 3
expect "a file's name says what it is" 2 "ends in .safetensors" "$tessera" convert $ckpt half --to safetensors
expect "a folder of Hugging Face to another, as ever" 0 "30 tensors" "$tessera" convert out/model again --dtype float32

# ---- A run resumes from the converted checkpoint with the same losses
train 12 1 out || fail "resume: $(tail -n 3 train.log)"
for through in back from_all.pt from_all.safetensors from_dcp_file; do
    rm -rf other
    mkdir other && mv $through other/checkpoint && cp out/tokenizer.json other/
    train 12 1 other || fail "resume after $through: $(tail -n 3 train.log)"
    expect "a training that was converted there and back ($through) goes on to the same bits" 0 "90 same" \
        "$tessera" ckpt diff out/checkpoint other/checkpoint
done

# ---- edit
expect "edit" 0 "seed: 0 -> 5" "$tessera" ckpt edit split/step-00000008 meta.seed=5
expect "what was edited is valid" 0 "ok  split/step-00000008" "$tessera" ckpt verify split
expect "and says so" 0 "meta.seed                    5" "$tessera" ckpt inspect split --meta
expect "an edit that changes nothing says so" 0 "nothing to change" "$tessera" ckpt edit split/step-00000008 meta.seed=5
expect "edit of a folder of checkpoints" 2 "name its folder step-*" "$tessera" ckpt edit split seed=5
expect "edit names the nearest key" 2 "did you mean 'seed'" "$tessera" ckpt edit split/step-00000008 sed=5
expect "edit keeps types" 2 "is a number, not a text" "$tessera" ckpt edit split/step-00000008 seed=five
expect "edit adds when asked" 0 'note: (none) -> "good"' "$tessera" ckpt edit split/step-00000008 note=good --add
expect "edit leaves the step" 2 "its weights are those of step 8" "$tessera" ckpt edit split/step-00000008 meta.step=9
expect "edit of another format" 2 "only a Tessera checkpoint" "$tessera" ckpt edit to_dcp seed=1

# ---- Damage is named
flip() { printf '\125' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
cp -r merged broken
flip broken/step-00000008/rank-00000.data 70
expect "verify names file, bytes, tensor and rank" 1 "rank-00000.data: bytes [0, " "$tessera" ckpt verify broken
expect "and the writer" 1 "written by rank 0" "$tessera" ckpt verify broken/step-00000008
expect "diff does not compare what is damaged" 2 "checksum" "$tessera" ckpt diff broken $newest
truncate -s -100 broken/step-00000008/rank-00000.data
expect "verify names a file cut short" 1 "rank-00000.data has " "$tessera" ckpt verify broken
expect "ls shows it as damaged" 0 "damaged" "$tessera" ckpt ls broken
rm broken/step-00000008/commit.json
expect "a lost marker is damage: no save gives a name before it" 0 "has no commit.json" "$tessera" ckpt ls broken
expect "for verify, too" 1 "BAD broken/step-00000008 has no commit.json" "$tessera" ckpt verify broken
rm broken/step-00000008/*
expect "so is a folder that was emptied" 1 "BAD broken/step-00000008: there is nothing in it" "$tessera" ckpt verify broken
expect "also by its own name" 1 "there is nothing in it" "$tessera" ckpt verify broken/step-00000008
cp -r out/checkpoint older
rm older/step-00000012/manifest.json
expect "verify --newest goes to no older one" 1 "BAD older/step-00000012/manifest.json" "$tessera" ckpt verify older --newest
expect "nor does another command" 2 "manifest.json is missing; the newest that is whole is of step 10" \
    "$tessera" convert older taken --to dcp
[ -e taken ] && fail "it wrote something" || pass "which writes nothing"
expect "a job's folder says where they are" 2 "did you mean out/checkpoint?" "$tessera" ckpt verify out
cp -r to_dcp broken_dcp
rm broken_dcp/__1_0.distcp
expect "a missing file of DCP is named" 1 "__1_0.distcp" "$tessera" ckpt verify broken_dcp
expect "no such checkpoint" 2 "nowhere" "$tessera" ckpt inspect nowhere
expect "a file that is no checkpoint" 2 "text.txt" "$tessera" ckpt inspect text.txt
expect "an unknown format" 2 "choose hf" "$tessera" convert $ckpt x --to onnx
expect "an unknown verb" 2 "did you mean 'ckpt verify'" "$tessera" ckpt verfy $ckpt
expect "what is there stays" 2 "is there already" "$tessera" convert $newest to_tessera --to tessera
expect "the source is no place to write to" 2 "are the same" "$tessera" convert $newest $newest --to hf

# ---- prune
flip $ckpt/step-00000012/rank-00000.data 70
expect "a dry run removes nothing" 0 "would go" "$tessera" ckpt prune $ckpt --keep 1 --dry-run
expect "prune keeps good ones" 0 "kept, verified" "$tessera" ckpt prune $ckpt --keep 1
[ "$(ls $ckpt | tr '\n' ' ')" = "step-00000010 step-00000012 " ] &&
    pass "the newest good one stays, a damaged one is left alone" || fail "prune left $(ls $ckpt)"
flip $ckpt/step-00000010/rank-00000.data 70
expect "nothing is removed when none is good" 2 "nothing is removed" "$tessera" ckpt prune $ckpt --keep 1
finish
