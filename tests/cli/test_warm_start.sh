#!/usr/bin/env bash
# Starting from other runs and models, and loading parts of a checkpoint.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
base="training.steps=6 lr_scheduler.decay_type=constant lr_scheduler.warmup_steps=0 validation.enable=false
      model.save_dtype=float32"

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
train() { "$tessera" train run.yaml -n 2 $base "$@"; }

# differ NAME A B, equal NAME A B: the losses of two runs.
equal() { cmp -s <(columns "$2") <(columns "$3") && pass "$1" || fail "$1: $(diff <(columns "$2") <(columns "$3") | head -n 3)"; }
differ() { cmp -s <(columns "$2") <(columns "$3") && fail "$1" || pass "$1"; }

train job.dump_folder=first >log 2>&1 || { tail -n 3 log; exit 1; }

# The weights of a run, of its Hugging Face folder, and of one checkpoint by name: the same start.
expect "from a run's checkpoints" 0 "starts from the weights of first/checkpoint/step-00000006 (tessera)" \
    train job.dump_folder=a checkpoint.initial_load_path=first/checkpoint
expect "from a Hugging Face folder" 0 "starts from the weights of first/model (safetensors)" \
    train job.dump_folder=b checkpoint.initial_load_path=first/model
expect "as model.path does" 0 "model: c/model" train job.dump_folder=c model.config= model.path=first/model \
    tokenizer.path=first/tokenizer.json
equal "both are the same start" a b
equal "and that of model.path" a c
"$tessera" convert first/checkpoint first_dcp --to dcp >log 2>&1 || fail "to DCP: $(tail -n 1 log)"
expect "from a distributed checkpoint" 0 "starts from the weights of first_dcp (dcp)" train job.dump_folder=g \
    checkpoint.initial_load_path=first_dcp tokenizer.path=first/tokenizer.json
grep -q "are not taken" output && fail "$(grep taken output)" || pass "whose counters are no weights that were left out"
equal "and that of a distributed checkpoint" a g
expect "which is no run under Tessera's names" 2 "tessera convert --to tessera" train job.dump_folder=e \
    checkpoint.initial_load_path=first_dcp checkpoint.initial_load_model_only=false tokenizer.path=first/tokenizer.json
differ "which random weights are not" a first
expect "once there is a checkpoint of its own it is not asked for" 0 "resumed from step 6 of a/checkpoint" \
    train job.dump_folder=a checkpoint.initial_load_path=elsewhere training.steps=7

# model.path takes every format, too: the folder has config.json and tokenizer next to the weights.
"$tessera" convert first/checkpoint first.pt --to torch >log 2>&1 || fail "to torch.save: $(tail -n 1 log)"
"$tessera" convert first/checkpoint bare.pt --to torch --model-only >log 2>&1 || fail "to a model: $(tail -n 1 log)"
expect "from a file of torch.save" 0 "starts from the weights of first.pt (torch.save)" train job.dump_folder=h \
    checkpoint.initial_load_path=first.pt tokenizer.path=first/tokenizer.json
equal "and that of torch.save" b h
# wrap FILE: the safetensors file with the names that DDP around torch.compile gives.
wrap() {
    local n header
    n=$(($(od -An -tu8 -N8 "$1")))
    header=$(head -c $((8 + n)) "$1" | tail -c "$n" | sed -E 's/"(model|lm_head)\./"module._orig_mod.\1./g')
    # shellcheck disable=SC2059
    printf "$(printf '\\x%02x' $((${#header} & 255)) $((${#header} >> 8 & 255)) $((${#header} >> 16)) 0 0 0 0 0)"
    printf '%s' "$header"
    tail -c +$((9 + n)) "$1"
}
wrap first/model/model.safetensors >wrapped.safetensors
expect "from a wrapped model" 0 "starts from the weights of wrapped.safetensors" train job.dump_folder=i \
    checkpoint.initial_load_path=wrapped.safetensors tokenizer.path=first/tokenizer.json
grep -q "are not taken" output && fail "$(grep taken output)" || pass "whose names are read without the wrappers"
equal "and that of a wrapped model" b i
expect "which goes into a model folder under its own names" 0 "safetensors to hf, read again and equal" \
    "$tessera" convert wrapped.safetensors unwrapped --to hf --assets first/model
cmp unwrapped/model.safetensors first/model/model.safetensors && pass "bit for bit" || fail "other bytes"
sed 's/"vocab_size": /&1/' first/model/config.json >model_other.json
mkdir other && mv model_other.json other/config.json
expect "but not into one of another model" 2 "misfits: 'model.embed_tokens.weight' has shape" \
    "$tessera" convert wrapped.safetensors refused --to hf --assets other
[ -e refused ] && fail "it wrote something" || pass "which is not made"

mkdir of_dcp of_bin
cp first_dcp/.metadata first_dcp/* of_dcp
cp bare.pt of_bin/pytorch_model.bin
cp -r first/checkpoint/step-00000006 of_step
"$tessera" eval first/model --data text.txt --json >want 2>log
for folder in of_dcp of_bin of_step; do
    expect "$folder: no config.json" 2 "copy it there" "$tessera" eval $folder --data text.txt
    expect "$folder: nor to train" 2 "$folder/config.json: no such file" train job.dump_folder=none model.config= \
        model.path=$folder
    cp first/model/config.json $folder
    expect "$folder: no tokenizer" 2 "$folder/tokenizer.json: no such file" "$tessera" generate $folder --prompt a
    cp first/model/tokenizer.json $folder
    expect "$folder: training starts from it" 0 "model: from_$folder/model" train job.dump_folder=from_$folder \
        model.config= model.path=$folder
    grep -q "not used by this model" output && fail "$folder: $(grep 'not used' output)"
    equal "$folder: with the bits of safetensors" b from_$folder
    for dtype in float32 bfloat16; do
        "$tessera" eval first/model --data text.txt --json --dtype $dtype >want 2>log
        "$tessera" eval $folder --data text.txt --json --dtype $dtype >got 2>>log
        cmp -s want got && pass "$folder: $dtype: and so it evaluates" || fail "$folder: $dtype: $(tail -n 1 log)"
    done
    expect "$folder: and generates" 0 "the" "$tessera" generate $folder --prompt the --max-new-tokens 3
done
size=$(stat -c %s of_bin/pytorch_model.bin)
printf '\377\377' | dd of=of_bin/pytorch_model.bin conv=notrunc status=none bs=1 seek=$((size / 2))
expect "a damaged file is named" 2 "of_bin/pytorch_model.bin" "$tessera" eval of_bin --data text.txt

# The whole state of another run: the same continuation.
train job.dump_folder=first training.steps=9 >log 2>&1 || fail "$(tail -n 3 log)"
expect "all of another run" 0 "goes on from the run of first/checkpoint/step-00000006/ (tessera)" \
    train job.dump_folder=d training.steps=9 checkpoint.initial_load_path=first/checkpoint/step-00000006/ \
    checkpoint.initial_load_model_only=false
cmp -s <(columns d) <(columns first | tail -n 3) && pass "goes on with its losses" || fail "$(columns d)"
expect "a model is no run" 2 "tensors are missing" train job.dump_folder=e \
    checkpoint.initial_load_path=first/model checkpoint.initial_load_model_only=false
expect "what is not there is told" 2 "checkpoint.initial_load_path: elsewhere: no such file or folder" \
    train job.dump_folder=e checkpoint.initial_load_path=elsewhere tokenizer.path=first/tokenizer.json
expect "without a tokenizer's name, too" 2 "checkpoint.initial_load_path=elsewhere: no such file or folder" \
    train job.dump_folder=e checkpoint.initial_load_path=elsewhere
expect "no tokenizer is made up for weights" 2 "set tokenizer.path to the one that its weights were trained with" \
    train job.dump_folder=e checkpoint.initial_load_path=run.yaml

# Parts.
without() { expect "$1" 0 "$2" train job.dump_folder=first training.steps=12 checkpoint.exclude_from_loading="$3"; }
cp -r first kept
without "without the optimizer" "resumed from step 9" optimizer
differ "is another run" first kept
mv first without
cp -r without twice
"$tessera" train run.yaml -n 2 $base job.dump_folder=twice training.steps=14 checkpoint.exclude_from_loading=optimizer \
    >log 2>&1 || fail "$(tail -n 3 log)"
"$tessera" train run.yaml -n 2 $base job.dump_folder=without training.steps=14 >log 2>&1 || fail "$(tail -n 3 log)"
equal "started again with the same words, nothing is lost once more" twice without
for part in data lr_scheduler "model.embed*"; do
    rm -rf first
    cp -r kept first
    without "without $part" "resumed from step 9" "$part"
done
rm -rf first && cp -r kept first
expect "a slip of the pen is told" 2 "'optimiser' is none of optimizer, lr_scheduler and data" \
    train job.dump_folder=first training.steps=12 checkpoint.exclude_from_loading=optimiser
sed -i 's/"vocab_size": 301/"vocab_size": 303/' model.json
expect "another vocabulary" 2 "but this model's shape is [303, 42]" train job.dump_folder=f \
    checkpoint.initial_load_path=first/model
expect "whose tensors start anew when they are named" 0 "starts from the weights of first/model" \
    train job.dump_folder=f checkpoint.initial_load_path=first/model \
    checkpoint.exclude_from_loading=model.embed_tokens.weight,lm_head.weight
finish
