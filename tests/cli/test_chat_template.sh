#!/usr/bin/env bash
# The inputs that a chat template gets from its model, and the conversations that it writes: special tokens,
# numbers of any size, the token that ends a document, templates that change earlier turns, where an exported model stops.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model plain.json
sed 's/"vocab_size": 301/"vocab_size": 301, "bos_token_id": 0, "eos_token_id": 290/; s/"max_position_embeddings": 64/"max_position_embeddings": 256/' \
    plain.json >model.json
make_config run.yaml
"$tessera" tokenize train text.txt --vocab-size 290 --out plain_tok.json >log 2>&1 || { cat log; exit 1; }
# Three special tokens after the others.
python3 - <<'PY'
import json
t = json.load(open("plain_tok.json"))
for i, text in enumerate(("<s>", "<|im_start|>", "<|im_end|>")):
    t["added_tokens"].append({"id": 290 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True})
json.dump(t, open("tok.json", "w"))
PY
expect "a model to look at" 0 "" "$tessera" train run.yaml tokenizer.path=tok.json training.steps=2 lr_scheduler.warmup_steps=0 \
    validation.enable=false checkpoint.enable=false model.save_dtype=float32 job.dump_folder=out
model=out/model
cat >bos.jinja <<'JINJA'
{{ bos_token + eos_token }}{% for m in messages %}<|im_start|>{{ m.role + '\n' + m.content }}<|im_end|>
{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }}
JINJA
echo '{"messages": [{"role": "user", "content": "the ship"}, {"role": "assistant", "content": "the stars"}]}' >chat.jsonl
loss() { "$tessera" eval "$@" --dtype float32 --json 2>errors | grep -o '"loss": [0-9.]*'; }
config() { echo "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"$1}" >$model/tokenizer_config.json; }

# ---- Special tokens: a template in a file sees those that it sees in the model's folder, and trains on their ids.
literal() { sed "s/{{ bos_token + eos_token }}/$1/" bos.jinja >literal.jinja; loss $model --data chat.jsonl --chat-template literal.jinja; }
same() { # NAME LITERAL: the template's tokens are these
    local file folder want
    want=$(literal "$2")
    file=$(loss $model --data chat.jsonl --chat-template bos.jinja)
    cp bos.jinja $model/chat_template.jinja
    folder=$(loss $model --data chat.jsonl)
    rm $model/chat_template.jinja
    [ -n "$want" ] && [ "$file" = "$want" ] && [ "$folder" = "$want" ] && pass "$1" ||
        fail "$1: $want as text, $file with a file, $folder in the folder: $(cat errors)"
}
none=$(literal "")
config ', "bos_token": "<s>", "eos_token": {"content": "<|im_end|>", "special": true}'
same "a template in a file sees the tokenizer's special tokens" "<s><|im_end|>"
[ "$(literal "<s><|im_end|>")" != "$none" ] && pass "which the loss tells apart" || fail "the loss does not depend on special tokens"
config ', "model_max_length": 1000000000000000019884624838656, "bos_token": "<s>", "eos_token": "<|im_end|>"'
same "beside a number that 64 bits do not hold" "<s><|im_end|>"
config ', "bos_token": "<|im_start|>"'
echo '{"bos_token": {"content": "<s>"}, "eos_token": "<|im_end|>"}' >$model/special_tokens_map.json
same "special_tokens_map.json is read, and replaces what the other file says" "<s><|im_end|>"
config ', "bos_token": "<|im_start|>", "eos_token": "<s>", "added_tokens_decoder": {}'
same "but not where tokenizer_config.json lists the added tokens" "<|im_start|><s>"
rm $model/special_tokens_map.json
echo '{"messages": [{"role": "user", "content": "x"}]}' >one.json
cp bos.jinja $model/chat_template.jinja
expect "tokenize template: a file has those of its folder" 0 "<|im_start|><s><|im_start|>user" "$tessera" tokenize template $model/chat_template.jinja --messages one.json
rm $model/chat_template.jinja
config ', "bos_token": 7'
expect "a special token that is none is named" 2 "tokenizer_config.json: bos_token is neither a text" "$tessera" eval $model --data chat.jsonl

# ---- Errors of a template are reported, and are no missing template.
config ', "bos_token": "<s>", "chat_template": "{% include x %}"'
expect "a template that cannot be used is told why" 2 "the chat template cannot be used: $model/tokenizer_config.json" "$tessera" eval $model --data chat.jsonl
echo '{"text": "the ship", "uid": 18446744073709551615, "x": -1e3}' >text.jsonl
expect "which plain text does not need; a number beyond 64 bits is one" 0 "(" "$tessera" eval $model --data text.jsonl
expect "chat tells it, too" 2 "tessera: the chat template cannot be used" "$tessera" chat $model
echo '{"messages": [{"role": "user", "content": "x", "n": 18446744073709551615}]}' >big.json
echo '{{ messages[0].n > 5 }}' >compare.jinja
echo '{{ messages[0].n }}' >write.jinja
expect "a template may compare such a number" 0 "True" "$tessera" tokenize template compare.jinja --messages big.json
expect "but its digits are not known" 2 "a number of 2^63 or more cannot be written: an integer's last digits are not known" "$tessera" tokenize template write.jinja --messages big.json

# ---- The token that ends a document: the tokenizer's, else config.json's.
echo '{"text": "the ship"}' >text.jsonl
ends_with() { # NAME ID
    "$tessera" eval $model --data text.jsonl --per-token >tokens 2>errors
    [ "$(grep -c . tokens)" -gt 0 ] && tail -n 1 tokens | grep -qE -- "$2" && pass "$1" || fail "$1: $(tail -n 1 tokens; cat errors)"
}
config ', "eos_token": "<|im_end|>"'
ends_with "a document ends with the tokenizer's eos_token" 292
config ''
ends_with "or else with that of config.json" 290
sed -i 's/.*"eos_token_id".*/  "eos_token_id": null,/' $model/config.json
expect "if there is none, it is said" 0 "warning: no token ends a document" "$tessera" eval $model --data text.jsonl
sed -i '/"eos_token_id"/d' $model/config.json
expect "the default of a family is none if the tokenizer has no such special token" 0 "warning: no token ends a document" \
    "$tessera" eval $model --data text.jsonl

# ---- Templates that write a turn differently once others follow.
cat >two.jsonl <<'JSON'
{"messages": [{"role": "user", "content": "the ship"}, {"role": "assistant", "content": "the stars"}, {"role": "user", "content": "a sea"}, {"role": "assistant", "content": "slow"}]}
JSON
cat >one_by_one.jsonl <<'JSON'
{"prompt": [{"role": "user", "content": "the ship"}], "completion": [{"role": "assistant", "content": "the stars"}]}
{"prompt": [{"role": "user", "content": "the ship"}, {"role": "assistant", "content": "the stars"}, {"role": "user", "content": "a sea"}], "completion": [{"role": "assistant", "content": "slow"}]}
JSON
cat >forgets.jinja <<'JINJA'
{% for m in messages %}<|im_start|>{{ m.role + '\n' + (m.content if loop.last or m.role == 'user' else '...') }}<|im_end|>
{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }}
JINJA
got=$(loss $model --data two.jsonl --chat-template forgets.jinja)
want=$(loss $model --data one_by_one.jsonl --chat-template forgets.jinja)
[ -n "$got" ] && [ "$got" = "$want" ] && pass "each turn is a sample after what the model sees" || fail "turns: $got, expected $want"
expect "which is said" 0 "each turn of the assistant is a sample of its own" "$tessera" eval $model --data two.jsonl --chat-template forgets.jinja
cat >thinks.jinja <<'JINJA'
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}{%- if m.role == 'assistant' and loop.last %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{{- m.content + '<|im_end|>\n' }}{%- endfor %}{{- '<|im_start|>assistant\n' if add_generation_prompt }}
JINJA
expect "a family that is recognised has a training template" 0 "chat template: Qwen3's; conversations are trained on with the training template" \
    "$tessera" eval $model --data two.jsonl --chat-template thinks.jinja
cat >marked.jinja <<'JINJA'
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}{%- if m.role == 'assistant' %}{%- generation %}{{- '<think>\n\n</think>\n\n' + m.content + '<|im_end|>\n' }}
{%- endgeneration %}{%- else %}{{- m.content + '<|im_end|>\n' }}{%- endif %}{%- endfor %}
JINJA
got=$(loss $model --data two.jsonl --chat-template thinks.jinja)
want=$(loss $model --data two.jsonl --chat-template marked.jinja)
[ -n "$got" ] && [ "$got" = "$want" ] && pass "each of its turns keeps a thought" || fail "the training template: $got, expected $want"

# ---- An exported model has the names that its template saw in training, and stops at the end of a turn.
train() { "$tessera" train run.yaml tokenizer.path=tok.json training.steps=1 training.seq_len=64 training.global_batch_size=4 lr_scheduler.warmup_steps=0 \
    validation.enable=false checkpoint.enable=false model.save_dtype=float32 data.files=[chat.jsonl] "$@" >log 2>&1 || cat log; }
sed -i "s/bos_token + //" bos.jinja # no file names a bos_token here, and eos_token is that of config.json
train data.chat_template=bos.jinja job.dump_folder=sft -n 2
grep -q '"eos_token": "' sft/model/tokenizer_config.json && pass "the exported tokenizer names its end" || fail "tokenizer_config.json: $(cat sft/model/tokenizer_config.json)"
ends() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("eos_token_id"))' "$1"; }
[ "$(ends sft/model/generation_config.json)" = "[290, 292]" ] && pass "an exported model stops at the end of a turn" ||
    fail "generation_config.json: $(cat sft/model/generation_config.json)"
echo '{"temperature": 0.5, "eos_token_id": [292, 3]}' >sft/model/generation_config.json
train model.config= model.path=sft/model tokenizer.path= job.dump_folder=again
cmp -s sft/model/generation_config.json again/model/generation_config.json && pass "one that does is as it was" || fail "again: $(cat again/model/generation_config.json)"
train model.config= model.path=sft/model tokenizer.path= job.dump_folder=text data.files=[text.txt]
cmp -s sft/model/generation_config.json text/model/generation_config.json && pass "text changes nothing" || fail "text: $(cat text/model/generation_config.json)"

# ---- The example's first command, in a folder where nothing has run yet.
awk -v folder=new/places -f "$project/examples/places.awk"
[ "$(wc -l <new/places/held_out.jsonl)" = 200 ] && pass "the example makes its folder" || fail "places.awk: $(ls new/places)"
finish
