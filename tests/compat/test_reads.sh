#!/usr/bin/env bash
# Files that older binaries have written are read as those binaries read them: checkpoints verify and go on to the same
# bits, traces give the same verdict, JSON keeps what it had, and exit codes are the same. tests/compat/make says how the files were made.
. "$(dirname "$0")/../cli/support.sh"
. "$project/tests/compat/cases.sh"

# stays EXPECTED ACTUAL: the same text. An object of JSON may have got more keys: all lines are still there, in order. A
# sentence of doctor log may quote its line now.
stays() {
    cmp -s "$1" "$2" && return
    [[ $1 == *-json.txt ]] && ! diff <(sed 's/,$//' "$1") <(sed 's/,$//; s/\("text": ".*\); its line: .*"$/\1"/' "$2") | grep -q '^<'
}

for folder in "$project"/tests/compat/*/; do
    name=$(basename "$folder")
    mkdir "$name"
    cd "$name"
    tar -xzf "$folder/run.tar.gz"
    tar -xzf "$folder/traces.tar.gz"
    look_at_all
    for expected in "$folder"/expected/*.txt; do
        case=$(basename "$expected" .txt)
        if stays "$expected" "actual/$case.txt"; then
            pass "$name: $case"
        else
            fail "$name: $case: expected (<), and now (>)"
            diff "$expected" "actual/$case.txt" | head -n 12 | cut -c 1-400 | sed 's/^/    /'
        fi
    done
    # Documents of a run that is older than data.add_bos begin with no bos token, whatever the tokenizer's template says.
    cp -r out begun
    add_template <out/tokenizer.json >begun/tokenizer.json
    resume begun 2 >begun.txt || fail "$name: bos: $(cat begun.txt)"
    grep -q 'documents go on without a bos token, as this run began' log && pass "$name: bos: it says so" ||
        fail "$name: bos: no word in $(cat log)"
    cmp -s begun/model/model.safetensors again/model/model.safetensors && cmp -s <(calm <begun/metrics.jsonl) <(calm <again/metrics.jsonl) &&
        pass "$name: bos: the same losses and weights" ||
        fail "$name: bos: $(diff <(calm <begun/metrics.jsonl) <(calm <again/metrics.jsonl) | head -n 3)"
    cd "$work"
done
finish
