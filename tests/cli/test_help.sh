#!/usr/bin/env bash
# The help of every command: three examples with flags and keys that exist, and the exit codes.
source "$(dirname "$0")/support.sh"
"$tessera" info | sed -nE '/^[a-z_]+: /{s/:.*//;h}; /^  [a-z_]+=/{s/^  ([a-z_]+)=.*/\1/;G;s/(.*)\n(.*)/\2.\1/p}' >keys

# Checks the examples of a command: they begin with its name, and its help has their flags.
check() {
    local help examples word
    help=$("$tessera" "$@" --help)
    grep -q '^exit codes: 0 ' <<<"$help" || fail "$*: the help has no exit codes"
    sed '1,/^examples:$/d; /^$/,$d' <<<"$help" >examples
    [ "$(sort -u examples | wc -l)" = 3 ] || fail "$*: the help has not three examples"
    while read -r -a words; do
        [ "${words[1]}" = "$1" ] || fail "$*: an example is of another command: ${words[*]}"
        [ $# != 2 ] || [ "${words[2]}" = "$2" ] || fail "$*: an example is of another command: ${words[*]}"
        [[ $# = 1 && "${words[*]:0:3}" = "tessera "+(ckpt|doctor|bench|verify|rl)" "[a-z-]* ]] && help+=$("$tessera" "$1" "${words[2]}" --help)
        for word in "${words[@]:2}"; do
            case $word in
            --) break ;;
            -[!-]* | --*) grep -qE -- "^  ${word%%=*}( |=|\[)" <<<"$help" || fail "$*: no flag $word: ${words[*]}" ;;
            *[a-z].[a-z]*=*) [[ $help != *section.key=value* ]] || grep -qx "${word%%=*}" keys || fail "$*: no key $word: ${words[*]}" ;;
            esac
        done
    done <examples
    n_commands=$((n_commands + 1))
}

shopt -s extglob
n_commands=0
commands() { "$tessera" "$@" --help | sed -nE '/^examples:$/q; s/^  tessera ([a-z-]+( [a-z-]+)?)  .*/\1/p'; }
while read -r -a name; do check "${name[@]}"; done < <(
    commands
    for group in bench ckpt doctor; do commands "$group"; done
    printf '%s\n' "plan advise" "verify invariance" "verify on-policy" "rl samples")
[ "$n_commands" -gt 40 ] && [ -s keys ] && pass "the help of $n_commands commands"
expect "-V tells the version" 0 "$("$tessera" --version)" "$tessera" -V
expect "help of a verb" 0 "usage: tessera ckpt ls" "$tessera" help ckpt ls

# ---- tessera info: one section, or a word ----
"$tessera" info optimizer >section
head -n 1 section | grep -q '^optimizer: ' && ! grep -qvE '^optimizer: |^  [a-z0-9_]+=.* (number|integer|bytes|choice|true or false|text|list)|^      ' section &&
    grep -qE '^  lr=[0-9.e-]+ +number from 0 to [0-9.e+]+: ' section && pass "info shows one section, with types" || fail "info optimizer: $(cat section)"
[ "$(grep -c '^  [a-z]' section)" = "$("$tessera" info | awk '/^[a-z_]+: / { own = $1 == "optimizer:" } own && /^  [a-z]/' | wc -l)" ] && pass "all of it" || fail "$(grep -c '^  [a-z]' section) options"
expect "and its values" 0 "lr=0.5 " "$tessera" info optimizer optimizer.lr=0.5
expect "JSON has the types" 0 '"type": "true or false"' "$tessera" info metrics --json
"$tessera" info --filter 'LEARNING rate' >words
grep -q '^  min_lr_factor=' words && ! grep -q '^  beta1=' words && pass "a word of an explanation, in any case" || fail "$(cat words)"
expect "a word in one section" 0 "interval=" "$tessera" info validation --filter steps
grep -q '^checkpoint: ' output && fail "and other sections: $(cat output)" || pass "and no other"
expect "an unknown section" 2 "did you mean 'optimizer'?; the sections are job, model, " "$tessera" info optimiser
expect "a word that is nowhere" 2 "--filter: no option has 'xyzzy' in its key or its explanation" "$tessera" info --filter xyzzy
finish
