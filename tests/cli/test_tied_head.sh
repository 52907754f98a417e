#!/usr/bin/env bash
# A config.json that ties the head to the embedding, and weights with a head of their own: a head that differs is used,
# and the model is untied in every command; an equal one stays tied.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml
base="training.steps=4 lr_scheduler.decay_type=constant lr_scheduler.warmup_steps=0 validation.enable=false
      model.save_dtype=float32 checkpoint.interval=2 debug.trace=false training.mixed_precision_param=float32
      metrics.log_freq=1"
line="a head (lm_head.weight) that differs from the embedding, though config.json ties them"

train() { "$tessera" train run.yaml $base "$@"; }
fine_tune() { train model.config= "$@"; }
losses() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
# perplexity MODEL...: a line that equals no other where it fails.
perplexity() {
    "$tessera" eval "$@" --data text.txt --dtype float32 --json 2>eval.err | grep -o '"loss": [^,]*' || echo "none: $*"
}
# same NAME A B: two runs, by their losses and weights.
same() {
    cmp -s <(losses "$2") <(losses "$3") && cmp -s "$2/model/model.safetensors" "$3/model/model.safetensors" &&
        pass "$1" || fail "$1: $(diff <(losses "$2") <(losses "$3") | head -n 3)"
}

train job.dump_folder=first >log 2>&1 || { tail -n 3 log; exit 1; }
cp -r first/model untied
cp -r first/model tied
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' tied/config.json
# `at FILE NAME` prints where the data of a tensor begins and ends in a safetensors file.
at() {
    local n=$(($(od -An -tu8 -N8 "$1")))
    head -c $((8 + n)) "$1" | tail -c "$n" | grep -oE "\"$2\":\{[^}]*\}" | grep -oE '[0-9]+,[0-9]+\]\}' | tr -d ']}' | tr ',' ' ' |
        awk -v base=$((8 + n)) '{ print base + $1, $2 - $1 }'
}
cp -r tied equal
read -r from bytes < <(at equal/model.safetensors model.embed_tokens.weight)
read -r to _ < <(at equal/model.safetensors lm_head.weight)
dd if=untied/model.safetensors of=equal/model.safetensors bs=1 skip="$from" seek="$to" count="$bytes" conv=notrunc status=none

[ "$(perplexity tied)" = "$(perplexity untied)" ] && pass "eval uses the head" || fail "eval drops the head"
perplexity tied >silent
grep -qF "$line" eval.err && pass "and says so" || fail "it does not say so: $(cat eval.err)"
perplexity equal >silent
grep -qF "differs" eval.err && fail "equal heads: $(cat eval.err)" || pass "equal heads are not told"
expect "info knows it" 0 "lm_head.weight" "$tessera" info tied
"$tessera" info equal | grep -q lm_head.weight && fail "equal heads are untied" || pass "equal heads stay tied"

fine_tune job.dump_folder=a model.path=untied >log 2>&1 || fail "an untied model: $(tail -n 1 log)"
expect "training uses the head" 0 "$line" fine_tune job.dump_folder=b model.path=tied
same "and gives the bits of the untied model" a b
grep -q '"tie_word_embeddings": false' b/model/config.json && pass "whose config.json says so" || fail "config.json ties it"
fine_tune job.dump_folder=c model.path=tied training.steps=2 >log 2>&1 || fail "two steps: $(tail -n 1 log)"
fine_tune job.dump_folder=c model.path=tied -n 2 >log 2>&1 || fail "a resume: $(tail -n 1 log)"
same "so does a resumed run" a c
fine_tune job.dump_folder=d model.path=tied -n 2 parallelism.tensor_parallel_degree=2 >log 2>&1 || fail "tensor parallel: $(tail -n 1 log)"
same "and tensor parallelism" a d
fine_tune job.dump_folder=e model.path=tied -n 2 parallelism.pipeline_parallel_degree=2 >log 2>&1 || fail "a pipeline: $(tail -n 1 log)"
same "and a pipeline" a e

# Weights of checkpoint.initial_load_path: the run's own checkpoint says later what was tied.
make_model tied.json true
cp -r untied source
train model.config=model.json job.dump_folder=f tokenizer.path=untied/tokenizer.json \
    checkpoint.initial_load_path=untied/model.safetensors >log 2>&1 || fail "an untied start: $(tail -n 1 log)"
expect "a start from weights" 0 "$line" train model.config=tied.json job.dump_folder=g training.steps=2 \
    tokenizer.path=untied/tokenizer.json checkpoint.initial_load_path=source/model.safetensors
rm -r source
expect "goes on once they are gone" 0 "resumed from step 2 of g/checkpoint" train model.config=tied.json \
    job.dump_folder=g tokenizer.path=untied/tokenizer.json checkpoint.initial_load_path=source/model.safetensors
same "to the bits of an untied start" f g
train model.config=tied.json job.dump_folder=h >log 2>&1 || fail "a tied run: $(tail -n 1 log)"
"$tessera" ckpt inspect h/checkpoint | grep -q lm_head && fail "a new run is untied" || pass "a new run is tied"

# Adapters, and what becomes of them.
fine_tune job.dump_folder=i model.path=untied lora.rank=2 >log 2>&1 || fail "an adapter: $(tail -n 1 log)"
fine_tune job.dump_folder=j model.path=tied lora.rank=2 >log 2>&1 || fail "an adapter: $(tail -n 1 log)"
cmp -s <(losses i) <(losses j) && cmp -s i/adapter/adapter_model.safetensors j/adapter/adapter_model.safetensors &&
    pass "an adapter is that of the untied model" || fail "another adapter"
[ "$(perplexity tied --adapter j/adapter)" = "$(perplexity untied --adapter i/adapter)" ] && pass "and evaluates as it" ||
    fail "the adapter evaluates otherwise: $(cat eval.err)"
for model in tied untied; do
    "$tessera" convert $model merged_$model --to hf --adapter j/adapter >log 2>&1 || fail "merging: $(tail -n 1 log)"
done
[ "$(perplexity merged_tied)" = "$(perplexity merged_untied)" ] && pass "and merges as it" || fail "merged otherwise"
"$tessera" convert tied copied.pt --to torch --model-only >log 2>&1 &&
    "$tessera" convert copied.pt copied --to hf --assets tied >log 2>&1 || fail "converting: $(tail -n 1 log)"
[ "$(perplexity copied)" = "$(perplexity untied)" ] && pass "a converted copy has the head" || fail "a copy without the head"
finish
