#!/usr/bin/env bash
# A conversation on a pipe: one line in, one answer out, with the tokens that `tessera generate` gives for the text that the
# template writes; what the turn before has read is not read again.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model plain.json
sed 's/"max_position_embeddings": 64/"max_position_embeddings": 32768/' plain.json >model.json # without an end of text
make_config run.yaml
"$tessera" tokenize train text.txt --vocab-size 290 --out tok.json >log 2>&1 || { cat log; exit 1; }
# The model has 301 tokens: those that the tokenizer does not have may be drawn.
expect "a sample of ids that the tokenizer does not have" 0 "sample:" "$tessera" train run.yaml tokenizer.path=tok.json training.steps=2 \
    lr_scheduler.warmup_steps=0 validation.enable=false checkpoint.enable=false model.save_dtype=float32 job.dump_folder=out \
    sample.prompt="the ship" sample.max_new_tokens=300 sample.temperature=50 sample.top_p=1
model=out/model
expect "a base model is refused" 2 "out/model: no chat template that can be used" "$tessera" chat $model
cat >$model/chat_template.jinja <<'JINJA'
{%- for m in messages %}{{ '<' + m.role + '>\n' + m.content + '\n' }}{% endfor %}{{ '<assistant>\n' if add_generation_prompt }}
JINJA
chat() { "$tessera" chat $model --temperature 0 --max-new-tokens 12 "$@" 2>errors; }
same() { if cmp -s "$2" "$3"; then pass "$1"; else fail "$1: $(diff "$2" "$3" | head -n 4)"; fi; }
printf 'the ship\nand a café?\n' | chat --stats >answers
# The answers that `generate` gives for the same messages.
cat >want.py <<'PY'
import json, subprocess, sys
tessera, model = sys.argv[1:]
messages, generate = [], [tessera, "generate", model, "--temperature", "0", "--max-new-tokens", "12", "--jsonl", "--prompts", "prompt.jsonl"]
for line in ("the ship", "and a caf\u00e9?"):
    messages.append({"role": "user", "content": line})
    json.dump({"messages": messages, "add_generation_prompt": True}, open("chat.json", "w"))
    text = subprocess.run([tessera, "tokenize", "template", model, "--messages", "chat.json"], capture_output=True, check=True).stdout.decode()
    json.dump({"prompt": text}, open("prompt.jsonl", "w"))
    answer = json.loads(subprocess.run(generate, capture_output=True, check=True).stdout)["text"]
    messages.append({"role": "assistant", "content": answer})
    print(answer)
PY
python3 want.py "$tessera" $model >want
same "each answer is that of the whole conversation" answers want
[ "$(grep -o '"shared": [0-9]*' errors | cut -d ' ' -f 2)" -gt 20 ] && pass "the turn before is not read again" ||
    fail "the turn before: $(cat errors)"

printf 'the ship\n/reset\nthe ship\n/system Be\xc3\xa9.\nthe ship\n/save talks.jsonl\n/system\n/reset\nthe ship\n/save talks.jsonl\n/quit\nnever\n' | chat >answers
sed -n 2p answers >got
head -n 1 want >first_line
same "/reset forgets" got first_line
sed -n 4p answers >got
same "/system without a text: none" got first_line
[ "$(wc -l <answers)" = 4 ] && pass "/quit ends" || fail "/quit: $(wc -l <answers) answers"
python3 -c 'import json
for line in open("talks.jsonl"): print(*[m["role"] for m in json.loads(line)["messages"]])' >got
printf 'system user assistant user assistant\nuser assistant\n' >roles
same "/save appends a line a conversation" got roles
expect "which training and eval read" 0 "bits per byte" "$tessera" eval $model --data talks.jsonl --seq-len 256
printf 'a\nb\nc\n' | chat --temperature 9 --max-new-tokens 200 >answers
iconv -f UTF-8 -t UTF-8 answers >/dev/null && [ -s answers ] && pass "answers are whole characters" || fail "answers: $(cat errors)"

refused() { # NAME TEXT INPUT ARGUMENTS...
    printf "$3" >input
    "$tessera" chat $model --temperature 0 "${@:4}" <input >output 2>&1
    [ $? = 2 ] && grep -qF -- "$2" output && pass "$1" || fail "$1: $(cat output)"
}
refused "no command" "'/save_it x' is no command: /help lists them" '/save_it x\n'
refused "nothing to save" "/save: nothing has been said yet" '/save never.jsonl\n'
refused "a conversation that is too long" "the conversation has" 'the ship sailed over the sea and the stars\n' --max-length 12
refused "a line that is no text" "this line is not" 'a\xff\n'
echo '{{ raise_exception("no") }}' >no.jinja
refused "a template that refuses" "the template refuses it: no" 'a\n' --chat-template no.jinja
[ ! -e never.jsonl ] || fail "something was written"

# Ctrl-C ends the answer and not the program. This one would be 30,000 tokens long.
mkfifo lines
"$tessera" chat $model --temperature 0 --max-new-tokens 30000 --max-length 32768 --stats <lines >answers 2>errors &
pid=$!
exec 3>lines
echo "the ship" >&3
has_bytes() { [ "$(stat -c %s "$1")" -gt "$2" ]; }
await $pid has_bytes answers 20
kill -INT $pid
await $pid has_lines answers 1
kill -INT $pid # while it waits for a line
printf '/reset\n/save stopped.jsonl\n' >&3
exec 3>&-
code=0
wait $pid || code=$?
[ $code = 2 ] && grep -q "nothing has been said yet" errors && pass "Ctrl-C ends the answer, and not the program" ||
    fail "Ctrl-C: exit code $code, $(cat errors)"
finish
