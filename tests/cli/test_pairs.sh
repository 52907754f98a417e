#!/usr/bin/env bash
# Prompts and completions, and conversations: the completions and what the assistant says alone are trained on and
# counted, with the bits of one rank on any number, and a run goes on as it began.
. "$(dirname "$0")/support.sh"
make_model plain.json
sed 's/"model_type"/"eos_token_id": 0, "model_type"/' plain.json >model.json
make_config run.yaml
make_text 400 | awk '{ printf "{\"prompt\": \"%s %s\", \"completion\": \" %s %s.\", \"note\": \"line %d\"}\n", $1, $2, $3, $4, NR }' >pairs.jsonl
"$tessera" tokenize train pairs.jsonl --vocab-size 301 --out tokenizer.json >log 2>&1 || { cat log; exit 1; }

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
number() { grep -o "\"$1\": [^,}]*" | tail -n 1 | cut -d ' ' -f 2; }
same() { if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $(diff "$2" "$3" | head -n 4)"; fi; }
go() { # FOLDER ARGUMENTS...
    local folder=$1
    shift
    "$tessera" train run.yaml job.dump_folder="$folder" data.files=pairs.jsonl tokenizer.path=tokenizer.json training.seq_len=30 \
        training.global_batch_size=8 training.steps=20 checkpoint.interval=10 lr_scheduler.warmup_steps=0 \
        model.save_dtype=float32 training.mixed_precision_param=float32 "$@" >log 2>&1 || { fail "$folder: $(tail -n 3 log)"; finish; }
    columns "$folder" >"$folder.txt"
}

go one
[ "$(wc -l <one.txt)" = 20 ] && pass "20 steps" || fail "$(wc -l <one.txt) steps"
for n in 2 4; do
    go on_$n -n $n
    same "$n ranks: losses" on_$n.txt one.txt
    same "$n ranks: weights" on_$n/model/model.safetensors one/model/model.safetensors
done
go again -n 4
rm -rf again/checkpoint/step-00000020 again/model
go again -n 1
grep -q "resumed from step 10" log && pass "it resumes" || fail "no resume: $(head -n 5 log)"
same "on as many ranks, weights" again/model/model.safetensors one/model/model.safetensors

# The last lines are held out: their completions' tokens and bytes count.
held() { # eval of the lines that are held out, in JSON
    "$tessera" eval one/model --data held.jsonl --seq-len 30 --json "$@" 2>log
}
bytes=$(stat -c %s pairs.jsonl)
awk -v from=$((bytes * 95 / 100)) '{ if (at >= from) print; at += length($0) + 1 }' pairs.jsonl >held.jsonl
number validation_loss <one/metrics.jsonl >want
held | number loss >got
same "eval gives the loss of the last validation" got want
sed -E 's/.*"completion": "([^"]*)".*/\1/' held.jsonl | tr -d '\n' | wc -c >want
held | number n_bytes >got
same "every byte of the completions counts, and no other" got want
sed 's/"prompt"/"question"/; s/"completion"/"answer"/' held.jsonl >renamed.jsonl
held >want
"$tessera" eval one/model --data renamed.jsonl --prompt-key question --completion-key answer --seq-len 30 --json >got 2>log
same "members of other names" got want
expect "train: members of other names" 0 "2 steps" "$tessera" train run.yaml job.dump_folder=renamed data.files=renamed.jsonl \
    tokenizer.path=tokenizer.json training.seq_len=30 data.prompt_key=question data.completion_key=answer training.steps=2 \
    validation.enable=false lr_scheduler.warmup_steps=0
expect "a tokenizer is trained on both" 0 "1 steps" "$tessera" train run.yaml job.dump_folder=trained data.files=pairs.jsonl \
    training.steps=1 lr_scheduler.warmup_steps=0

# ---- A run goes on with the same reading of the same data
expect "another split" 2 "made with another data.split" "$tessera" train run.yaml job.dump_folder=one data.files=pairs.jsonl \
    tokenizer.path=tokenizer.json training.seq_len=30 training.global_batch_size=8 training.steps=40 data.split=true
expect "another key" 2 "made with data.prompt_key=prompt, now it is note" "$tessera" train run.yaml job.dump_folder=one \
    data.files=pairs.jsonl tokenizer.path=tokenizer.json training.seq_len=30 training.global_batch_size=8 training.steps=40 \
    data.prompt_key=note
expect "what is longer than a row is told" 0 "are longer than a row of 6 tokens and cut at its end" "$tessera" train run.yaml \
    job.dump_folder=short data.files=pairs.jsonl tokenizer.path=tokenizer.json training.seq_len=6 training.steps=2 lr_scheduler.warmup_steps=0

# ---- Conversations: with a template that writes what the pairs are, the same training
awk -F'"' '{ printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", $4, $8 }' \
    pairs.jsonl >chats.jsonl
cat >chat.jinja <<'JINJA'
{%- for m in messages %}
    {%- if m.role == 'assistant' %}
        {%- generation %}{{ m.content }}<|endoftext|>{% endgeneration %}
    {%- else %}
        {{- m.content }}
    {%- endif %}
{%- endfor %}
JINJA
tail -n 1 chats.jsonl >last.json
[ "$("$tessera" tokenize template chat.jinja --messages last.json)" = "$(tail -n 1 pairs.jsonl | awk -F'"' '{ print $4 $8 }')<|endoftext|>" ] &&
    pass "the template writes a conversation" || fail "template: $("$tessera" tokenize template chat.jinja --messages last.json 2>&1)"
chat="data.files=chats.jsonl data.chat_template=chat.jinja validation.enable=false"
go pairs_alone validation.enable=false
go chats $chat
same "a conversation is trained on as its pair is" chats.txt pairs_alone.txt
same "to the same weights" chats/model/model.safetensors pairs_alone/model/model.safetensors
same "its template goes with the model" chats/model/chat_template.jinja chat.jinja
awk -F'"' '{ printf "{\"prompt\": [{\"role\": \"user\", \"content\": \"%s\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"%s\"}]}\n", $4, $8 }' \
    pairs.jsonl >chat_pairs.jsonl
go chat_pairs $chat data.files=chat_pairs.jsonl
same "a pair of messages is trained on as that of its texts" chat_pairs/model/model.safetensors pairs_alone/model/model.safetensors
sed '1s/"prompt": \[[^]]*\]/"prompt": "the"/' chat_pairs.jsonl >mixed.jsonl
expect "half a pair of messages" 2 "mixed.jsonl: line 1: one of 'prompt' and 'completion' is a list of messages" "$tessera" train \
    run.yaml job.dump_folder=refused $chat data.files=mixed.jsonl tokenizer.path=tokenizer.json data.shuffle=false
for n in 2 4; do
    go chats_$n -n $n $chat
    same "conversations, $n ranks: weights" chats_$n/model/model.safetensors chats/model/model.safetensors
done
awk -F'"' '{ printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", $4, $8 }' \
    held.jsonl >held_chats.jsonl
held >want
"$tessera" eval one/model --data held_chats.jsonl --chat-template chat.jinja --seq-len 30 --json >got 2>log
same "eval counts the same" got want
cp chat.jinja one/model/chat_template.jinja
"$tessera" eval one/model --data held_chats.jsonl --seq-len 30 --json >got 2>log
same "with the template of the model's folder" got want
# Conversations of 1 to 4 turns, packed into rows: each token has the bits that it has where its conversation is alone.
awk -F'"' '{ turn = "{\"role\": \"user\", \"content\": \"" $4 "\"}, {\"role\": \"assistant\", \"content\": \"" $8 "\"}"
             talk = talk (talk != "" ? ", " : "") turn
             if (++k > n % 4) { print "{\"messages\": [" talk "]}"; talk = ""; k = 0; n++ } }' held.jsonl | head -n 8 >talks.jsonl
tokens() { "$tessera" eval one/model --data "$1" --seq-len 64 --per-token 2>log | cut -d , -f 2-; }
tokens talks.jsonl >got
split -l 1 talks.jsonl talk_
for talk in talk_*; do
    mv $talk $talk.jsonl
    tokens $talk.jsonl
done >want
[ "$(ls talk_* | wc -l)" -ge 4 ] && [ "$(wc -l <want)" -gt 60 ] || fail "$(ls talk_* | wc -l) conversations, $(wc -l <want) tokens"
same "packed conversations: each token's log-probability as in a row of its own, in bits" got want
(head -n 1 chats.jsonl; echo '{"messages": []}') >empty.jsonl
expect "an empty conversation" 2 "empty.jsonl: line 2: 'messages' is empty" "$tessera" tokenize shard one/model empty.jsonl --out never.shard
[ ! -e never.shard ] && [ ! -e never.shard.partial ] || fail "an empty conversation: something was written"
expect "no template" 2 "chats.jsonl: line 1: a conversation, but there is no chat template" "$tessera" train run.yaml \
    job.dump_folder=refused data.files=chats.jsonl tokenizer.path=tokenizer.json
echo '{% for m in messages %}{{ m.content }}{% endfor %}{# other #}{{ raise_exception("no") }}' >other.jinja
expect "a template that refuses" 2 "chats.jsonl: line 1: chat template: line 1: the template refuses it: no" "$tessera" train \
    run.yaml job.dump_folder=refused data.files=chats.jsonl data.chat_template=other.jinja tokenizer.path=tokenizer.json \
    data.shuffle=false
sed 's/content }}$/content }} /; 1i {# changed #}' chat.jinja >changed.jinja
expect "another template" 2 "made with another chat template" "$tessera" train run.yaml job.dump_folder=chats $chat \
    data.chat_template=changed.jinja tokenizer.path=tokenizer.json training.seq_len=30 training.global_batch_size=8 training.steps=40
echo '{% if %}' >bad.jinja
expect "a template that is none" 2 "bad.jinja: chat template: line 1: expected" "$tessera" tokenize template bad.jinja --messages last.json
finish
