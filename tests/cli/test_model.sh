#!/usr/bin/env bash
# A trained model is evaluated, continued, converted and tuned further; the digits agree wherever tokens and weights are
# the same. Broken folders are refused.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_text 40 | tail -n 15 >held.txt
make_model model.json
make_config run.yaml

good() { # NAME COMMAND...: exit code 0
    local name=$1
    shift
    if "$@" >log 2>&1 </dev/null; then return 0; fi
    fail "$name: $(tail -n 3 log)"
    return 1
}
same() { if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $(diff "$2" "$3" | head -n 4)"; fi; }
number() { grep -o "\"$1\": [^,}]*" | tail -n 1 | cut -d ' ' -f 2; }

# ---- Training, evaluation, generation
head -n 1 text.txt | tr -d '\n' | cut -c 1-60 | tr -d '\n' >line.0
printf 'the ship' >line.1
printf 'wake and nobody read them 77.' >line.2
printf 'calm \303\251t\303\251 \342\202\254' >line.3
for i in 0 1 2 3; do cat line.$i; echo; done >prompts.txt
digits() { sed -E 's/.*"position": ([0-9]+), "token": ([0-9]+), "logprob": ([^,}]+).*/\1 \2 \3/'; }

for dtype in float32 bfloat16; do
    out=model_$dtype
    good "$dtype: train" "$tessera" train run.yaml -n 2 job.dump_folder=run_$dtype model.save_dtype=$dtype \
        training.mixed_precision_param=$dtype validation.files=held.txt || continue
    mv run_$dtype/model $out
    "$tessera" eval $out --data held.txt --seq-len 19 --json >eval.json 2>log
    number validation_loss <run_$dtype/metrics.jsonl >want
    number loss <eval.json >got
    same "$dtype: eval gives the loss of the last validation, digit for digit" got want
    number validation_bits_per_byte <run_$dtype/metrics.jsonl >want
    number bits_per_byte <eval.json >got
    same "$dtype: and its bits per byte" got want

    rm -f want
    for i in 0 1 2 3; do
        "$tessera" eval $out --data line.$i --per-token --threads 1 2>log | digits | sed "s/^/$i /" >>want
    done
    [ "$(wc -l <want)" -gt 40 ] && pass "$dtype: eval --per-token reports tokens" || fail "$dtype: $(cat log)"
    "$tessera" eval $out --data line.0 --per-token 2>log | tee tokens | sed -n 's/.*"entropy": \([^,}]*\).*/\1/p' |
        awk '$1 > 0 && $1 < 20' >got
    [ -s got ] && [ "$(wc -l <got)" = "$(wc -l <tokens)" ] && pass "$dtype: with the entropy of each prediction" ||
        fail "$dtype: entropies: $(head -n 2 tokens)"
    for i in 0 1 2 3; do
        "$tessera" generate $out --prompt "$(cat line.$i)" --max-new-tokens 3 --logprobs --temperature 0 2>log |
            grep '"generated": false' | digits | sed "s/^/$i /"
    done >got
    same "$dtype: generate --logprobs gives the digits of eval" got want
    reference=
    for how in "--batch 1 --threads 1" "--batch 4 --threads 2" "--batch 3 --threads 1" "--batch 2 --threads 2"; do
        "$tessera" generate $out --prompts prompts.txt --max-new-tokens 6 --logprobs --temperature 0 $how >all 2>log
        for i in 0 1 2 3; do grep "\"prompt\": $i," all; done >sorted
        while read -r line; do echo "$line"; done <sorted | grep '"generated": false' |
            sed -E 's/.*"prompt": ([0-9]+).*"position": ([0-9]+), "token": ([0-9]+), "logprob": ([^,}]+).*/\1 \2 \3 \4/' >got
        same "$dtype: several prompts, $how: the digits of eval" got want
        [ -n "$reference" ] || { cp sorted reference && reference=1; }
        same "$dtype: several prompts, $how: the same continuations" sorted reference
    done
    "$tessera" generate $out --prompts prompts.txt --seed 5 --temperature 1.2 --max-new-tokens 12 >got 2>log
    "$tessera" generate $out --prompts prompts.txt --seed 5 --temperature 1.2 --max-new-tokens 12 --batch 1 >want 2>log
    same "$dtype: a seed decides the text" got want
done

out=model_bfloat16
[ -d $out ] && [ -d model_float32 ] || finish
expect "a prompt that is no UTF-8" 0 "a" "$tessera" generate $out --prompt "$(printf 'a\377\376b')" --max-new-tokens 3
expect "a prompt longer than the model" 2 "the model takes 64" "$tessera" generate $out --prompt "$(head -n 9 text.txt)"
expect "an empty prompt" 2 "is empty" "$tessera" generate $out --prompt ""
: >empty.txt
expect "an empty file of prompts" 2 "no prompt" "$tessera" generate $out --prompts empty.txt
expect "temperature out of range" 2 "--temperature" "$tessera" generate $out --prompt a --temperature -1
expect "a dtype to compute in" 2 "float32 or bfloat16" "$tessera" eval $out --data held.txt --dtype float16
expect "data missing" 2 "gone.txt" "$tessera" eval $out --data gone.txt
expect "data empty" 2 "empty" "$tessera" eval $out --data empty.txt
expect "rows longer than the model" 2 "2 to 64" "$tessera" eval $out --data held.txt --seq-len 65
expect "a full disk behind standard output" 1 "No space left" sh -c \
    "'$tessera' eval $out --data held.txt --per-token >/dev/full"

# ---- Conversion
weights() { cat "$1"/model*.safetensors; }
good "to float32" "$tessera" convert $out wide --dtype float32 &&
    good "and back" "$tessera" convert wide back --dtype bfloat16 && {
    same "to float32 and back: the same file" back/model.safetensors $out/model.safetensors
    "$tessera" eval wide --data held.txt --json --dtype bfloat16 >got 2>log
    "$tessera" eval $out --data held.txt --json >want 2>log
    same "and the same digits" got want
    expect "its config.json says so" 0 '"torch_dtype": "float32"' grep torch_dtype wide/config.json
}
sed 's/"hidden_size": 42/"hidden_size": 402/; s/"head_dim": 14/"head_dim": 134/' model.json >large.json
good "train a larger model" "$tessera" train run.yaml job.dump_folder=run_large model.config=large.json \
    training.steps=1 lr_scheduler.warmup_steps=0 model.save_dtype=float32 &&
    good "re-shard" "$tessera" convert run_large/model shards --shard-size 1000000B &&
    good "and join" "$tessera" convert shards joined && {
    [ "$(ls shards/model-*.safetensors | wc -l)" -gt 3 ] && pass "several files" || fail "shards: $(ls shards)"
    same "re-sharded and joined: the same file" joined/model.safetensors run_large/model/model.safetensors
    "$tessera" eval shards --data held.txt --json >got 2>log
    "$tessera" eval run_large/model --data held.txt --json >want 2>log
    same "the shards evaluate to the same digits" got want
    rm shards/model-00002-of-*.safetensors
    expect "a missing shard" 2 "model-00002-of" "$tessera" eval shards --data held.txt
}
expect "convert onto itself" 2 "same folder" "$tessera" convert $out $out
expect "convert into a folder in use" 2 "already holds" "$tessera" convert $out wide
expect "an ending that is not written" 2 "'.gguf' is not the ending of a format that is written" "$tessera" convert gone new.gguf
[ ! -e new.gguf ] && pass "and nothing is written" || fail "wrote $(ls new.gguf)"
expect "convert from nowhere" 2 "no such file or folder" "$tessera" convert gone new

# ---- Tuning further
expect "a learning rate of 0 changes nothing" 0 "20 steps" "$tessera" train run.yaml -n 2 job.dump_folder=still \
    model.config= model.path=model_float32 model.save_dtype=float32 optimizer.lr=0 training.steps=20
same "the same weights come out" still/model/model.safetensors model_float32/model.safetensors
same "and the tokenizer" still/model/tokenizer.json model_float32/tokenizer.json
cp -r model_float32 chat && echo '{"eos_token_id": [0, 7]}' >chat/generation_config.json
expect "a chat model" 0 "1 steps" "$tessera" train run.yaml job.dump_folder=chatted model.config= model.path=chat training.steps=1 \
    lr_scheduler.warmup_steps=0
same "keeps its generation_config.json" chatted/model/generation_config.json chat/generation_config.json
for n in 1 2 4; do
    good "validation on $n ranks" "$tessera" train run.yaml -n $n job.dump_folder=valid_$n validation.steps=3 training.steps=5
    grep validation valid_$n/metrics.jsonl >valid_$n.txt
    [ -s valid_$n.txt ] && same "three micro-batches of validation, $n ranks: the same digits" valid_$n.txt valid_1.txt
done
awk '{ printf "{\"body\": \"%s\", \"n\": %d}\n", $0, NR } NR % 7 == 0 { print "" }' text.txt >text.jsonl
expect "tune on jsonl" 0 "10 steps" "$tessera" train run.yaml -n 2 job.dump_folder=tuned model.config= model.path=$out \
    data.files=text.jsonl data.text_key=body training.steps=10 lr_scheduler.warmup_steps=0 validation.fraction=0.2
first=$(number loss < <(head -n 1 tuned/metrics.jsonl)) last=$(number loss < <(grep -v validation tuned/metrics.jsonl))
awk "BEGIN { exit !($last < $first && $first < 4.5) }" && pass "it starts from what was learnt and learns" ||
    fail "losses $first to $last"
expect "jsonl is evaluated by its key" 0 "bits per byte" "$tessera" eval $out --data text.jsonl --text-key body
sed 's/"n": /"token_mask": /' text.jsonl >masked.jsonl
expect "eval warns of a member like a mask" 0 "warning: masked.jsonl: lines with a member 'token_mask'" \
    "$tessera" eval $out --data masked.jsonl --text-key body
expect "train warns of it" 0 "warning: masked.jsonl: lines with a member 'token_mask'" "$tessera" train run.yaml -n 2 \
    job.dump_folder=masked model.config= model.path=$out data.files=masked.jsonl data.text_key=body training.steps=30 \
    lr_scheduler.warmup_steps=0
[ "$(grep -c token_mask output)" = 1 ] && pass "once, in several epochs" || fail "more than once: $(grep token_mask output)"
expect "jsonl without the key" 2 "text.jsonl: line 1" "$tessera" eval $out --data text.jsonl
refused() { # NAME TEXT OVERRIDES...: train refuses and writes nothing
    local name=$1 text=$2
    shift 2
    expect "$name" 2 "$text" "$tessera" train run.yaml job.dump_folder=refused "$@"
    [ ! -e refused ] || fail "$name: wrote $(find refused | tail -n 2)"
    rm -rf refused
}
for n in 1 2; do
    refused "$n ranks: jsonl without the key" "text.jsonl: line 1" -n $n data.files=text.jsonl
    refused "$n ranks: held-out text missing" "gone.txt" -n $n validation.files=gone.txt
    refused "$n ranks: a sample's prompt too long" "sample.prompt has" -n $n sample.prompt="$(head -n 5 text.txt)"
    refused "$n ranks: a vocabulary too small" "too small" -n $n tokenizer.vocab_size=100
    refused "$n ranks: a vocabulary too large" "vocab_size is 301" -n $n tokenizer.vocab_size=400
done

# ---- Memory
peaks() { sed -n 's/.*memory of all ranks at the peak: //p' | tr ',' '\n' | awk '{
    scale["B"] = 1; scale["KiB"] = 1024; scale["MiB"] = 1048576; print $1, $2 * scale[$3] }'; }
memory="model.config=large.json training.steps=1 lr_scheduler.warmup_steps=0 validation.enable=false checkpoint.enable=false"
"$tessera" train run.yaml -n 1 job.dump_folder=m1 $memory training.global_batch_size=2 2>&1 | peaks >one
"$tessera" train run.yaml -n 4 job.dump_folder=m4 $memory training.global_batch_size=8 2>&1 | peaks >four
for pool in params grads optimizer; do
    a=$(awk "\$1 == \"$pool\" { print \$2 }" one) b=$(awk "\$1 == \"$pool\" { print \$2 }" four)
    awk "BEGIN { exit !(${a:-0} > 1e6 && ${b:-0} >= ${a:-0} && ${b:-0} <= 1.03 * ${a:-0}) }" &&
        pass "$pool of 4 ranks together: within 3% of one rank's" || fail "$pool: $b bytes on 4 ranks, $a on one"
done

# ---- Tokenizers
expect "train a tokenizer" 0 "tokens from" "$tessera" tokenize train text.txt held.txt --vocab-size 350 --out tok.json
cat text.txt line.3 >mixed.txt
"$tessera" tokenize encode tok.json mixed.txt >ids 2>log && "$tessera" tokenize decode tok.json ids >got 2>>log
same "encode and decode give the text" got mixed.txt
"$tessera" tokenize encode tok.json <mixed.txt 2>log | "$tessera" tokenize decode tok.json - >got 2>>log
same "through pipes too" got mixed.txt
[ "$("$tessera" tokenize decode tok.json --text "$("$tessera" tokenize encode tok.json --text 'sea <|endoftext|>')")" = "sea " ] &&
    pass "special tokens are dropped" || fail "special tokens are dropped"
expect "or kept" 0 "<|endoftext|>" "$tessera" tokenize decode tok.json --text 0 --special
expect "no id" 2 "'x7' is not a token id" "$tessera" tokenize decode tok.json --text "3 x7"
expect "an id that there is not" 2 "350" "$tessera" tokenize decode tok.json --text "3 350"
expect "no text" 2 "no text" "$tessera" tokenize train empty.txt --out none.json
expect "a file and a text" 2 "one file or --text" "$tessera" tokenize encode tok.json held.txt --text a
expect "neither train, encode nor decode" 2 "neither" "$tessera" tokenize parse tok.json
[ ! -e none.json ] || fail "a tokenizer of no text was written"

# ---- Information
expect "info of a configuration" 0 "local_batch_size=2" "$tessera" info run.yaml
expect "info with overrides" 0 "steps=7 " "$tessera" info run.yaml training.steps=7
expect "info of a section" 0 "beta1=" "$tessera" info optimizer
grep -qE '^(kernels|training):' output && fail "and of others: $(cat output)" || pass "and of no other"
expect "info of a part of a key, as a run has it" 0 "steps=7 " "$tessera" info run.yaml training.steps=7 steps
expect "a key that no option has" 2 "no option has 'nosuch' in its key" "$tessera" info run.yaml nosuch
expect "a part of a key, and a folder" 2 "only a run's configuration" "$tessera" info $out steps
expect "info of a folder" 0 "model.layers.2.mlp.down_proj.weight" "$tessera" info $out
expect "options of a folder" 2 "only a run's configuration" "$tessera" info $out training.steps=7
expect "info of a config.json" 0 "59.7 k parameters" "$tessera" info model.json

# ---- Broken folders
broken() { # NAME TEXT: eval, generate and train refuse folder `bad`
    expect "$1: eval" 2 "$2" "$tessera" eval bad --data held.txt
    expect "$1: generate" 2 "$2" "$tessera" generate bad --prompt the
    refused "$1: train" "$2" -n 2 model.config= model.path=bad
}
unreadable() {
    broken "$1" "$2"
    expect "$1: convert" 2 "$2" "$tessera" convert bad new
    [ ! -e new ] && [ ! -e new.tmp ] || fail "$1: convert wrote"
    rm -rf new
}
fresh() { rm -rf bad && cp -r $out bad; }
fresh && truncate -s -10 bad/model.safetensors
unreadable "truncated weights" "model.safetensors"
fresh && truncate -s 5 bad/model.safetensors
unreadable "weights of five bytes" "model.safetensors"
fresh && printf '\377\377\377\377\377\377\377\177' | dd of=bad/model.safetensors conv=notrunc status=none
unreadable "a header of 2^63 bytes" "model.safetensors"
fresh && LC_ALL=C sed -i 's/"BF16"/"F64" /' bad/model.safetensors
unreadable "a header that lies of a dtype" "model.safetensors"
fresh && rm bad/model.safetensors
unreadable "no weights" "model.safetensors"
fresh && LC_ALL=C sed -i 's/model.norm.weight/model.nOrm.weight/' bad/model.safetensors
broken "a tensor misnamed" "the first is 'model.norm.weight'"
fresh && sed -i 's/"intermediate_size": 53/"intermediate_size": 54/' bad/config.json
broken "another shape in config.json" "config.json asks for [54, 42]"
fresh && rm bad/config.json
broken "no config.json" "bad/config.json"
fresh && rm bad/tokenizer.json
broken "no tokenizer" "bad/tokenizer.json"
fresh && echo '{' >bad/tokenizer.json
broken "a broken tokenizer" "bad/tokenizer.json"

for dtype in bfloat16 float32; do
    rm -rf bad && cp -r model_$dtype bad
    size=$(stat -c %s bad/model.safetensors)
    printf '\377\177' | dd of=bad/model.safetensors conv=notrunc status=none bs=1 seek=$((size - 2))
    for compute in float32 bfloat16; do
        expect "NaN in $dtype weights, computing in $compute: a warning" 0 "holds NaN or infinite values" \
            "$tessera" eval bad --data held.txt --dtype $compute
    done
    expect "NaN in $dtype weights: train warns" 2 "holds NaN or infinite values" "$tessera" train run.yaml -n 2 \
        job.dump_folder=nan_$dtype model.config= model.path=bad
    rm -rf new
    expect "NaN in $dtype weights: convert warns" 0 "1 NaN" "$tessera" convert bad new
done
expect "generation from NaN weights stops with a reason" 2 "weights are broken" "$tessera" generate bad --prompt the
finish
