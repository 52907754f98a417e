#!/usr/bin/env bash
# How `tessera generate` samples and where it stops: the command line, generation_config.json, and the position limit.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_text 40 | tail -n 15 >held.txt
make_model model.json
make_config run.yaml
"$tessera" train run.yaml validation.enable=false model.save_dtype=float32 training.mixed_precision_param=float32 \
    >log 2>&1 && mv out/model m || { cat log; exit 1; }
rm -rf out

generate() { "$tessera" generate m --prompt "the ship sailed" --logprobs --max-new-tokens 24 "$@" 2>notes; }
tokens() { generate "$@" | grep '"generated": true' | sed 's/.*"token": \([0-9]*\).*/\1/'; }
same() { if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $(diff "$2" "$3" | head -n 4)"; fi; }
differs() { if [ -s "$2" ] && [ -s "$3" ] && ! cmp -s "$2" "$3"; then pass "$1"; else fail "$1"; fi; }
file() { echo "$1" >m/generation_config.json; }

expect "a full disk is the cause of lost output" 1 "standard output: No space left on device" \
    bash -c "'$tessera' generate m --prompt 'the ship' --max-new-tokens 4 >/dev/full"

# ---- generation_config.json
tokens --temperature 0 >greedy
tokens >usual
same "the defaults" usual <(tokens --temperature 0.8 --top-k 0 --top-p 0.95 --repetition-penalty 1)
[ ! -s notes ] && pass "no file, no note" || fail "no file: $(cat notes)"

file '{"_from_model_config": true, "bos_token_id": 1, "transformers_version": "4.40.0"}'
same "a file that says nothing of sampling" usual <(tokens)
[ ! -s notes ] && pass "and no note" || fail "a note: $(cat notes)"

file '{"do_sample": false, "temperature": 0.6}'
same "do_sample false: greedy" greedy <(tokens)
expect "and the note says so" 0 "generation_config.json: temperature 0" cat notes
tokens --temperature 1.3 --top-k 0 --top-p 1 >asked
differs "the command line wins" greedy asked

file '{"do_sample": true, "temperature": 1.3, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.2, "min_p": 0.05,
       "typical_p": 0.9, "num_beams": 2, "early_stopping": false, "max_new_tokens": 9, "pad_token_id": 3}'
tokens >of_file
same "temperature, top_p, top_k, min_p and repetition_penalty of the file" of_file \
    <(tokens --temperature 1.3 --top-p 0.9 --top-k 20 --min-p 0.05 --repetition-penalty 1.2)
differs "which is not the usual" of_file usual
expect "the note names them, and what is ignored" 0 "$(printf '%s' \
    'generation_config.json: temperature 1.3, top_k 20, top_p 0.9, min_p 0.05, repetition_penalty 1.2; ignored: typical_p, num_beams')" \
    sh -c "'$tessera' generate m --prompt the --max-new-tokens 1"
expect "what the command line says is not taken from it" 0 "generation_config.json: top_k 20, min_p 0.05, repetition_penalty 1.2;" \
    sh -c "'$tessera' generate m --prompt the --max-new-tokens 1 --temperature 2 --top-p 1"
[ "$("$tessera" generate m --prompt the --logprobs 2>notes | grep -c '"generated": true')" = 9 ] &&
    pass "max_new_tokens of the file" || fail "max_new_tokens: $(cat notes)"
same "--temperature wins" <(tokens --temperature 0.7) <(tokens --temperature 0.7 --top-p 0.9 --top-k 20 --min-p 0.05 --repetition-penalty 1.2)
tokens --min-p 0.9 >narrow
differs "--min-p wins" of_file narrow
same "--min-p 1 takes the likeliest alone" <(tokens --min-p 1) <(tokens --top-k 1)

file '{"do_sample": true}'
same "do_sample alone: transformers' defaults" <(tokens) <(tokens --temperature 1 --top-k 50 --top-p 1)

# Instruct models stop by the tokens of this file alone.
end=$(sed -n 6p greedy) # the greedy text ends with its first occurrence
awk -v end="$end" '{ print } $0 == end { exit }' greedy >until_end
file "{\"eos_token_id\": [299, $end]}"
tokens --temperature 0 >got
same "the file's end tokens stop the text" got until_end
expect "and are named" 0 "generation_config.json: end tokens 299, $end" cat notes
file "{\"eos_token_id\": $end}"
same "one end token" until_end <(tokens --temperature 0)
file '{"eos_token_id": null}'
same "none: those of config.json" greedy <(tokens --temperature 0)

bad() { # TEXT NEEDLE
    file "$1"
    expect "refused: $1" 2 "$2" "$tessera" generate m --prompt the
    expect "and named: $1" 2 "m/generation_config.json" "$tessera" generate m --prompt the
}
bad '{"temperature": "hot"}' "'temperature' is"
bad '{"temperature": -1}' "temperature is -1; it must be in [0, 100]"
bad '{"top_p": 1.5}' "top_p is 1.5"
bad '{"top_k": 2.5}' "'top_k'"
bad '{"do_sample": 1}' "'do_sample' is"
bad '{"repetition_penalty": 0}' "repetition_penalty is 0"
bad '{"eos_token_id": ["</s>"]}' "eos_token_id[0] is not a token"
bad '{"eos_token_id": -4}' "eos_token_id is -4"
bad '{"max_new_tokens": -4}' "max_new_tokens is -4"
bad '[1]' "expected a JSON object"
bad '{"top_k": ' "not valid JSON"
expect "the sample at the end of a training reads it too, before the training" 2 "bad_model/generation_config.json" sh -c \
    "cp -r m bad_model && '$tessera' train run.yaml model.config= model.path=bad_model sample.prompt=the"
[ ! -e out ] && pass "which has not begun" || fail "the training ran: $(ls out)"
file "{\"eos_token_id\": [$end]}"
expect "where its end tokens hold" 0 "sample:" "$tessera" train run.yaml model.config= model.path=m training.steps=1 \
    lr_scheduler.warmup_steps=0 optimizer.lr=0 validation.enable=false sample.prompt="the ship sailed" sample.temperature=0 sample.max_new_tokens=24 \
    model.save_dtype=float32
sed -n '/sample:/,$p' output | sed 's/.*sample://' | grep -v '^tessera' >sampled
text=$("$tessera" generate m --prompt "the ship sailed" --temperature 0 --max-new-tokens 24 2>notes)
grep -qF -- "$text" output && ! grep -qF -- "$text " output && pass "as in generate" || fail "sample: $(cat output), not $text"
rm m/generation_config.json

# ---- Several texts of a prompt, their ends, and how they are printed
sampled() { "$tessera" generate m --temperature 1 --top-p 1 --max-new-tokens 12 "$@" 2>notes; }
printf 'the ship\n\nan old sail\n' >prompts.txt
printf '{"prompt": "the ship", "label": "7"}\n{"prompt": "an old sail"}\n' >prompts.jsonl
sampled --prompts prompts.txt --n 3 --jsonl >texts
[ "$(grep -c '"finish": "length"' texts)" = 6 ] && pass "a line for each text" || fail "texts: $(cat texts notes)"
[ "$(cut -d, -f 1,2 texts | tr -d '{}":a-z, ' | tr '\n' ' ')" = "00 01 02 10 11 12 " ] && pass "in order" || fail "$(cat texts)"
[ "$(sort -u texts | wc -l)" = 6 ] && pass "each of its own" || fail "equal texts: $(cat texts)"
same "prompts from JSONL" texts <(sampled --prompts prompts.jsonl --n 3 --jsonl)
for batch in 1 2 6; do
    same "--batch $batch decides nothing" texts <(sampled --prompts prompts.txt --n 3 --jsonl --batch $batch)
done
sampled --prompts prompts.txt --n 3 --stats >/dev/null
expect "a prompt is read once" 0 '"texts": 6, "drawn": 72' cat notes
[ "$(sampled --prompts prompts.txt --n 2 | grep -c '^--- prompt [01], text [01]$')" = 4 ] && pass "texts have titles" || fail "titles"
sampled --prompt "the ship" --n 2 --logprobs >tokens_of
[ "$(grep -c '"prompt": 0, "index": 1, "position"' tokens_of)" = 12 ] && pass "tokens too" || fail "$(cat tokens_of)"
expect "a line that is no prompt" 2 "no.jsonl, line 2: no \"prompt\"" sh -c \
    "printf '{\"prompt\": \"a\"}\n{\"text\": \"a\"}\n' >no.jsonl; '$tessera' generate m --prompts no.jsonl"
expect "a line that is no JSON" 2 "broken.jsonl, line 1" sh -c "echo '{' >broken.jsonl; '$tessera' generate m --prompts broken.jsonl"
expect "an array that is cut off" 2 "cut.json, element 2: the JSON array is not closed" sh -c \
    "echo '[{\"prompt\": \"a\"},' >cut.json; '$tessera' generate m --prompts cut.json"

long=$(sampled --prompt "the ship" --max-new-tokens 40)
stop=$(printf '%s' "${long#the ship}" | cut -c 9-11)
cut_text=${long#the ship}
cut_text="the ship${cut_text%%"$stop"*}"
[ "$(sampled --prompt "the ship" --max-new-tokens 40 --stop "$stop")" = "$cut_text" ] && pass "--stop ends the text before it" ||
    fail "--stop '$stop': $(sampled --prompt "the ship" --max-new-tokens 40 --stop "$stop"), not $cut_text"
[ "$(sampled --prompt "the ship" --max-new-tokens 40 --stop "nowhere else" --stop "$stop")" = "$cut_text" ] &&
    pass "the first of several" || fail "two stops"
sampled --prompt "the ship" --max-new-tokens 40 --stop "$stop" --jsonl >stopped
expect "and JSON says so" 0 '"finish": "stop"' cat stopped
expect "a stop that never comes" 0 '"finish": "length"' sampled --prompt "the ship" --stop "nowhere else" --jsonl
expect "an empty one" 2 "an empty text ends nothing" "$tessera" generate m --prompt the --stop ""

# A decoder drops the space of a text's first token. The space of the first new token counts all the same.
sed 's/301/900/' model.json >words.json
"$tessera" train run.yaml model.config=words.json tokenizer.path="$project/tests/data/fixtures/llama2.json" training.steps=1 \
    lr_scheduler.warmup_steps=1 validation.enable=false checkpoint.enable=false >log 2>&1 || cat log
words() { "$tessera" generate out/model --prompt "the" --temperature 1 --top-p 1 --max-new-tokens 12 --jsonl "$@" 2>notes; }
for seed in $(seq 40); do
    first=$(words --seed "$seed" | grep -o '"text": " [a-z]' | cut -c 10-)
    [ -n "$first" ] && break
done
expect "--stop '$first' ends a text with its first new token" 0 '"finish": "stop"' words --seed "$seed" --stop "$first"

# The prompt ends in byte tokens. An untrained model soon draws one that makes their run invalid.
colon() { "$tessera" generate out/model --prompt "a：" --temperature 1 --top-p 1 --max-new-tokens 1 --jsonl --seed "$1" 2>&1; }
changed="\"text\": \"$(printf '\357\277\275')"
for seed in $(seq 80); do colon "$seed" | grep -q "$changed" && break; done
expect "--jsonl where a token changes the prompt's last character" 0 "$changed" colon "$seed"
rm -rf out

# ---- The position limit
expect "more new tokens than there is room for" 2 "--max-new-tokens: 90 after a prompt of 1 tokens; the model takes 64 together" \
    "$tessera" generate m --prompt e --max-new-tokens 90
expect "by default as many as there are" 0 '"position": 63' "$tessera" generate m --prompt e --logprobs
expect "a limit that the model does not have" 2 "--max-length: 65 positions; this model takes 2 to 64" \
    "$tessera" generate m --prompt e --max-length 65
expect "a smaller one" 2 "the model takes 8 together" "$tessera" generate m --prompt e --max-length 8 --max-new-tokens 8

# Dynamic rope scaling: the frequencies depend on the limit, not on the request.
sed 's/"max_position_embeddings": 64/"max_position_embeddings": 32, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}/' \
    model.json >dynamic.json
train=("$tessera" train run.yaml model.config=dynamic.json validation.files=held.txt model.save_dtype=float32 training.mixed_precision_param=float32)
expect "rows beyond the limit" 2 "training.seq_len: 40 is more than the 32 positions of dynamic.json" \
    "${train[@]}" training.seq_len=40
expect "and the key that raises it" 2 "model.max_length" "${train[@]}" training.seq_len=40
expect "preflight says it too" 4 "training.seq_len: 40 is more than" \
    "$tessera" doctor preflight -n 1 --only model run.yaml model.config=dynamic.json training.seq_len=40
for limit in 0 100; do
    rm -rf out
    expect "train with dynamic scaling, limit $limit" 0 "30 steps" "${train[@]}" model.max_length=$limit
    rm -rf dynamic_$limit
    mv out dynamic_$limit
done
differs "the limit changes what is computed" dynamic_0/model/model.safetensors dynamic_100/model/model.safetensors
expect "the trained folder keeps its limit" 0 '"tessera_max_length": 100' cat dynamic_100/model/config.json
loss() { grep -o "\"$1\": [^,}]*" | tail -n 1; }
for limit in 0 100; do
    "$tessera" eval dynamic_$limit/model --data held.txt --seq-len 19 --json 2>log | loss loss | cut -d ' ' -f 2 >got
    loss validation_loss <dynamic_$limit/metrics.jsonl | cut -d ' ' -f 2 >want
    same "limit $limit: eval gives the digits of validation" got want
done
d=dynamic_0/model
first() { "$tessera" generate $d --prompt "the ship sailed over" --logprobs --temperature 0 "$@" 2>log | head -n 8; }
first --max-new-tokens 4 >few
first --max-new-tokens 12 >many
[ -s few ] && same "the request decides nothing" few many
expect "a request beyond the model" 2 "--max-length N lets it take N" "$tessera" generate $d --prompt the --max-new-tokens 60
first --max-new-tokens 4 --max-length 90 >few
first --max-new-tokens 70 --max-length 90 >many
[ -s few ] && same "nor under a stated limit" few many
first --max-new-tokens 4 --max-length 91 >other
differs "which decides" few other
"$tessera" eval $d --data held.txt --seq-len 12 --max-length 90 --json >short 2>log
"$tessera" eval $d --data held.txt --seq-len 12 --json >unstated 2>log
differs "eval under a stated limit" short unstated
expect "eval beyond the model" 2 "the model takes 2 to 32" "$tessera" eval $d --data held.txt --seq-len 50
expect "eval beyond, with a limit" 0 "loss" "$tessera" eval $d --data held.txt --seq-len 50 --max-length 50
finish
