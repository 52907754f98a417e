#!/usr/bin/env bash
# Whether a document begins with a bos token: one rule for training, validation, evaluation and generation, the
# tokenizer's template, unless data.add_bos says otherwise; a run goes on as it began.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_text 40 | tail -n 15 >held.txt
make_model plain.json
sed 's/"model_type"/"bos_token_id": 0, "model_type"/' plain.json >model.json
make_config run.yaml

good() { # NAME COMMAND...: exit code 0
    local name=$1
    shift
    "$@" >log 2>&1 </dev/null || { fail "$name: $(tail -n 3 log)"; finish; }
}
same() { if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $(diff "$2" "$3" | head -n 4)"; fi; }
other() { if cmp -s "$2" "$3"; then fail "$1: nothing differs"; else pass "$1"; fi; }
number() { grep -o "\"$1\": [^,}]*" | tail -n 1 | cut -d ' ' -f 2; }
digits() { sed -E 's/.*"position": ([0-9]+), "token": ([0-9]+), "logprob": ([^,}]+).*/\1 \2 \3/'; }
columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# The same tokenizer without and with a template that puts the token 0 before a text.
mkdir none bos
good "a tokenizer" "$tessera" tokenize train text.txt --vocab-size 301 --out none/tokenizer.json
add_template <none/tokenizer.json >bos/tokenizer.json
"$tessera" tokenize encode none --text "the ship" >want
"$tessera" tokenize encode bos --text "the ship" --special >got
[ "$(cat got)" = "0 $(cat want)" ] && pass "the template puts 0 before a text" || fail "the template: $(cat got)"

# ---- One rule
steps="training.steps=10 lr_scheduler.warmup_steps=0 model.save_dtype=float32 training.mixed_precision_param=float32"
go() { # FOLDER TOKENIZER ARGUMENTS...
    local folder=$1 tokenizer=$2
    shift 2
    good "$folder" "$tessera" train run.yaml -n 2 job.dump_folder=$folder tokenizer.path=$tokenizer validation.files=held.txt $steps "$@"
    columns $folder >$folder.txt
}
go with bos
number validation_loss <with/metrics.jsonl >want
"$tessera" eval with/model --data held.txt --seq-len 19 --json >eval.json 2>log
number loss <eval.json >got
same "eval gives the loss of the last validation" got want
"$tessera" eval with/model --data held.txt --seq-len 19 --json --add-bos false >without.json 2>log
[ "$(number n_tokens <eval.json)" = $(($(number n_tokens <without.json) + 1)) ] &&
    pass "the first token of a text is predicted, too" || fail "tokens: $(cat eval.json without.json)"
[ "$(number n_bytes <eval.json)" = "$(stat -c %s held.txt)" ] && pass "and every byte counts" || fail "bytes: $(cat eval.json)"
awk '{ printf "{\"text\": \"%s\"}\n", $0 }' held.txt >held.jsonl
n_tokens() { "$tessera" eval with/model --data held.jsonl --seq-len 40 --json "$@" 2>log | number n_tokens; }
[ "$(n_tokens)" = $(($(n_tokens --add-bos=false) + 15)) ] && pass "in each line of jsonl" || fail "jsonl: $(n_tokens)"

printf 'the ship sailed over a calm' >line
for add in "" "--add-bos true" "--add-bos false"; do
    "$tessera" eval with/model --data line --per-token --threads 1 $add 2>log | digits >want
    "$tessera" generate with/model --prompt "$(cat line)" --max-new-tokens 1 --logprobs --temperature 0 $add 2>log |
        grep '"generated": false' | digits >got
    [ -s want ] && same "${add:-of itself}: generate gives the digits of eval" got want || fail "eval: $(cat log)"
done
good "a sample" "$tessera" train run.yaml job.dump_folder=sampled tokenizer.path=bos $steps training.steps=1 sample.prompt="the ship" \
    sample.temperature=0 sample.max_new_tokens=5
sed -n '/sample:/,/the ship/p' log | tail -n 1 | sed 's/^tessera: //' >want
"$tessera" generate sampled/model --prompt "the ship" --temperature 0 --max-new-tokens 5 >got 2>log
grep -q 'the ship' want && [ "$(tr -d '\n' <got)" = "$(tr -d '\n' <want)" ] && pass "the sample of a run is what generate gives" ||
    fail "sample: $(cat want), generate: $(cat got)"

go forced none data.add_bos=true
same "add_bos=true with config.json's bos_token_id: the template's losses" forced.txt with.txt
same "and weights" forced/model/model.safetensors with/model/model.safetensors
go without bos data.add_bos=false
go plain none
other "the bos token changes the losses" with.txt without.txt
same "add_bos=false: the losses without a template" without.txt plain.txt
go plain_false none data.add_bos=false
same "without a template nothing changes" plain_false.txt plain.txt

expect "no bos token: train" 2 "data.add_bos=true: there is no bos token" "$tessera" train run.yaml job.dump_folder=refused \
    model.config=plain.json tokenizer.path=none data.add_bos=true
[ ! -e refused ] || fail "wrote $(ls refused)"
sed 's/"bos_token_id": [0-9]*/"bos_token_id": null/' plain/model/config.json >config && mv config plain/model/config.json
expect "no bos token: eval" 2 "there is no bos token" "$tessera" eval plain/model --data held.txt --add-bos true
expect "no bos token: generate" 2 "there is no bos token" "$tessera" generate plain/model --prompt the --add-bos true
expect "another word" 2 "'yes'" "$tessera" eval plain/model --data held.txt --add-bos yes
expect "another value" 2 "auto|true|false" "$tessera" train run.yaml data.add_bos=yes

# ---- A run goes on as it began
steps="lr_scheduler.decay_type=constant lr_scheduler.warmup_steps=0 model.save_dtype=float32 checkpoint.interval=1000"
go whole_out bos data.add_bos=false training.steps=12
go whole_with none data.add_bos=true training.steps=12
go out bos data.add_bos=false training.steps=5
go out bos training.steps=12
grep -q 'documents go on without a bos token, as this run began' log && pass "it says so" || fail "no word: $(cat log)"
same "begun without: goes on without" out.txt whole_out.txt
same "and ends with the same weights" out/model/model.safetensors whole_out/model/model.safetensors
go in none data.add_bos=true training.steps=5
go in none training.steps=12
grep -q 'documents go on with a bos token, as this run began' log && pass "it says so" || fail "no word: $(cat log)"
same "begun with: goes on with" in.txt whole_with.txt
number validation_loss <in/metrics.jsonl >got
number validation_loss <whole_with/metrics.jsonl >want
same "and validates with" got want
go again bos training.steps=5
go again bos data.add_bos=true training.steps=6
grep -q 'bos token, as this run began' log && fail "said where nothing differs" || pass "nothing is said where nothing differs"
expect "begun without, asked for" 2 "the run began with data.add_bos=false" "$tessera" train run.yaml job.dump_folder=out \
    tokenizer.path=bos validation.files=held.txt $steps data.add_bos=true training.steps=13
go out bos data.add_bos=true training.steps=13 checkpoint.exclude_from_loading=data
go out bos training.steps=14
grep -q 'as this run began' log && fail "the data did not begin anew: $(cat log)" || pass "the data begins anew, with it"

# A rank that is replaced takes it from memory.
go hot bos data.add_bos=false training.steps=5
go hot bos training.steps=12 recovery.enable=true fault.spec="rank=1 step=8 point=phase:forward kind=crash"
grep -q 'going on from step 7' log && pass "a rank was replaced" || fail "no rank was replaced: $(cat log)"
same "a replaced rank goes on without it" hot.txt whole_out.txt
finish
