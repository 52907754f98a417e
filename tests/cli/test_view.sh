#!/usr/bin/env bash
# `tessera train` on terminals of several widths, on a dumb one, without colour, quiet and as JSON.
source "$(dirname "$0")/support.sh"
seq -f "line %g of a text that says little" 3000 >book.txt
"$tessera" init pretrain training.steps=12 training.seq_len=16 training.local_batch_size=1 training.global_batch_size=2 \
    metrics.log_freq=4 checkpoint.enable=false validation.enable=false sample.prompt= >run.yaml

# Trains on a terminal: on_terminal COLUMNS [NAME=VALUE ...] writes all that the terminal receives.
on_terminal() {
    local columns=$1
    shift
    rm -rf out
    env TERM=xterm FOLDER=out/pretrain "$@" script -qec "stty cols $columns rows 50; '$tessera' train run.yaml job.dump_folder=\"\$FOLDER\"" /dev/null </dev/null | tr '\r' '\n'
}
# Removes escape sequences, which show nothing.
plain() { sed 's/\x1b\[[0-9;]*[mK]//g' "$1"; }
# The widest line of the bar and the curve, and of a step if it is short. Notes may be longer.
widest() { plain shown | grep -aE '^[^ ]* *100% |^step [0-9]|[│└]' | LC_ALL=C.UTF-8 wc -L; }

for columns in 40 80 100 200; do
    on_terminal $columns >shown
    most=$(widest)
    [ "$most" -gt 30 ] && [ "$most" -le $columns ] && pass "$columns columns: at most $most are used" ||
        fail "$columns columns: a line has $most: $(plain shown | grep -a "ETA" | tail -n 1)"
    grep -q $'\x1b\[36m' shown && pass "$columns columns: the curve has a colour" || fail "$columns columns: no colour"
    grep -q "next:  tessera generate out/pretrain/model" shown && pass "$columns columns: what to type next" ||
        fail "$columns columns: nothing says what to type next"
    if [ $columns -lt 100 ]; then
        plain shown | grep -q '^step 12/12  loss' && pass "$columns columns: short lines" || fail "$columns columns: no short line"
    else
        plain shown | grep -q '^step:    12  loss: .* mfu: .*  lr: [0-9.e-]*  ETA: 0:00$' && pass "$columns columns: long lines" ||
            fail "$columns columns: no long line"
    fi
done
on_terminal 80 NO_COLOR=1 >shown
grep -q $'\x1b\[[0-9]*m' shown && fail "NO_COLOR: there is a colour" || pass "NO_COLOR"
on_terminal 80 TERM=dumb >shown
grep -qP '[\x80-\xff]|\x1b' shown && fail "a dumb terminal: $(grep -aP '[\x80-\xff]|\x1b' shown | head -n 1)" || pass "a dumb terminal gets ASCII"
grep -q '^ *[0-9.]* |.*\*' shown && pass "and a curve" || fail "a dumb terminal gets no curve"
rm -rf out
"$tessera" train run.yaml --quiet >shown 2>&1
grep -q '^12 steps in' shown && ! grep -q '^step' shown && pass "--quiet" || fail "--quiet: $(tail -n 3 shown)"
rm -rf out
"$tessera" train run.yaml --log json >shown 2>errors
[ "$(grep -c '^{"kind":"step","step":[0-9]*,"steps":12,"loss":[0-9.]*,' shown)" = 12 ] && ! grep -qv '^{"kind":"[a-z]*",.*}$' shown &&
    [ "$(tail -n 1 shown)" = '{"kind":"end","status":"TESS_OK","steps":12,"interrupted":false,"model":"out/pretrain/model"}' ] && pass "--log json" ||
    fail "--log json: $(grep -v '^{"kind"' shown | head -n 2) $(tail -n 1 shown)"
"$tessera" train run.yaml --log json job.dump_folder=$'a\xff b' checkpoint.enable=false >shown 2>errors
tail -n 1 shown | grep -q '^{"kind":"end","status":"TESS_OK",' && pass "a folder that is not UTF-8" || fail "a folder that is not UTF-8: $(tail -n 1 shown)"
"$tessera" train run.yaml --log json data.files=gone.txt job.dump_folder=gone >shown 2>errors
tail -n 1 shown | grep -q '^{"kind":"end","status":"TESS_E_' && pass "a run that fails says so" || fail "a run that fails: $(tail -n 1 shown)"
on_terminal 80 NO_COLOR=1 FOLDER="a'b; echo x" >shown
grep -qF "tessera report 'a'\\''b; echo x'" shown && pass "paths are quoted for a shell" || fail "paths are not quoted: $(grep -a -A3 next: shown)"

# ---- tessera info, on terminals of several widths ----
info_on() { env TERM=xterm "$@" script -qec "stty cols $columns rows 50; '$tessera' info optimizer" /dev/null </dev/null | tr -d '\r' | sed 's/\x1b\[K//' | grep .; }
for columns in 40 80 100 200; do
    info_on >shown
    # A value and a list of choices are not cut.
    most=$(grep -vE '^  [a-z0-9_]+=|^ +\(' shown | LC_ALL=C.UTF-8 wc -L)
    [ "$most" -gt 20 ] && [ "$most" -le $columns ] && ! grep -q $'\x1b' shown && pass "info in $columns columns: at most $most are used" ||
        fail "info in $columns columns: a line has $most: $(head -n 5 shown)"
    info_on NO_COLOR=1 | cmp -s - shown && info_on TERM=dumb | cmp -s - shown && pass "info in $columns columns, dumb and without colour" ||
        fail "info differs on a dumb terminal"
done
"$tessera" info optimizer | cat >piped
[ "$(grep -v '^  [a-z0-9_]*=.*(' piped | LC_ALL=C.UTF-8 wc -L)" -le 120 ] && grep -q '^  lr=' piped && pass "info in a pipe" || fail "info in a pipe: $(head -n 3 piped)"

expect "an unknown form" 2 "choose text or json" "$tessera" train run.yaml --log yaml
expect "two forms" 2 "keep one" "$tessera" train run.yaml --log json --quiet
finish
