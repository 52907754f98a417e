#!/usr/bin/env bash
# `tessera init`: each kind is a configuration that the program reads back with the same values, and the first one trains.
source "$(dirname "$0")/support.sh"
awkward=(job.description='a: "b" # c, [d] '\''e'\' data.files='"x,y.txt",*.txt,a #b,a: b,{a,!a,z.txt')
for kind in pretrain text chat lora rl; do
    "$tessera" init $kind "${awkward[@]}" >$kind.yaml || fail "init $kind"
    # The values of the file, and those that the program reads from it.
    awk '/^[a-z_]+:/ { section = $1; sub(/:/, "", section) }
         /^  [a-z_]+: / && !/^  (description|files): / { key = $1; value = $2; sub(/:$/, "", key); gsub(/[][]/, "", value)
                                               print section "." key "=" value }' $kind.yaml | sort >written
    # The model is missing, so `info` fails after the list of options.
    "$tessera" info $kind.yaml 2>errors | awk '/^[a-z_]+: / { section = $1; sub(/:/, "", section) }
         /^  [a-z_]+=/ { print section "." $1 }' | sort >read
    [ "$(wc -l <written)" -gt 12 ] && [ -z "$(comm -23 written read)" ] && pass "$kind: $(wc -l <written) keys are read back" ||
        fail "$kind: $(comm -23 written read | head -n 3)"
    expect "$kind: an awkward text" 0 "description=a: \"b\" # c, [d] 'e'" "$tessera" info $kind.yaml job.description
    expect "$kind: an awkward list" 0 "files=\"x,y.txt\",*.txt,a #b,a: b,{a,!a,z.txt" "$tessera" info $kind.yaml data.files
done
"$tessera" init pretrain model.path=x >source.yaml
grep -q '^  path: x ' source.yaml && ! grep -q '^  config:' source.yaml && pass "the model comes from one place" || fail "$(grep -A2 ^model source.yaml)"
"$tessera" init chat job.description=$'tab\there\x7f' >control.yaml
expect "control characters" 0 "description=tab here" "$tessera" info control.yaml job.description
expect "a text that is not UTF-8" 2 "job.description: the text is not UTF-8" "$tessera" init chat job.description=$'\xff'
expect "an unknown kind" 2 "choose pretrain, text, chat, lora or rl" "$tessera" init sft
expect "an unknown key" 2 "did you mean 'training.steps'?" "$tessera" init rl training.step=3
seq -f "line %g of a text that says little" 3000 >book.txt
"$tessera" init pretrain training.steps=2 training.seq_len=32 training.local_batch_size=1 >run.yaml
expect "the first kind trains as it is" 0 "2 steps in" "$tessera" train run.yaml -n 2
finish
