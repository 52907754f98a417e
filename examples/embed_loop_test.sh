#!/usr/bin/env bash
# embed_loop_test.sh TESSERA BUILD PROJECT COMPILER: the example, built against an installed tree, prints the losses of its
# own loop through Tessera's, to the last bit: on any number of ranks, with any strategy, and killed and resumed with others.
set -euo pipefail
tessera=$1 build=$2 project=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH LD_LIBRARY_PATH
cmake --install "$build" --prefix "$work/tree" >"$work/install.log" 2>&1 || { tail -n 1 "$work/install.log" >&2; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$work/tree" -name tessera.pc)")
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tessera)
sanitizers=()
nm "$LD_LIBRARY_PATH/libtessera.a" 2>/dev/null | grep __asan_init >/dev/null && sanitizers=(-fsanitize=address,undefined)
# shellcheck disable=SC2046
"$compiler" "${sanitizers[@]}" -std=c17 -O1 -Wall -Wextra -Wpedantic -Werror -ffp-contract=off "$project/examples/embed_loop.c" \
    -o "$work/loop" $(pkg-config --cflags --libs tessera) -lm
cd "$work"
fail() { echo "$1" >&2; cat "$work/log" >&2; exit 1; }
same() { diff own "$1" >&2 || fail "$2: its own loop (<) and Tessera's (>) differ"; }

./loop own >own
for n in 1 2 3 4; do
    "$tessera" run -n $n -- ./loop "out$n" >got 2>log || fail "$n ranks fail"
    same got "$n ranks"
    "$tessera" ckpt diff "out1/checkpoint/step-00000040" "out$n/checkpoint/step-00000040" >/dev/null 2>log || fail "weights of $n ranks differ"
done
./loop alone >got 2>log || fail "alone it fails"
same got "alone"
for strategy in none zero1 zero2; do
    "$tessera" run -n 3 -- ./loop "out-$strategy" parallelism.shard_strategy=$strategy >got 2>log || fail "$strategy fails"
    same got "$strategy"
done
# The optimizer of the library instead of the program's.
./loop own adamw >own-adamw
for n in 1 3; do
    "$tessera" run -n $n -- ./loop "adamw$n" adamw >got 2>log || fail "adamw: $n ranks fail"
    diff own-adamw got >&2 || fail "adamw, $n ranks: its own loop (<) and Tessera's (>) differ"
done

# A rank is killed in step 24. Steps 21 to 23 are done again, by two ranks, and later ones by four.
"$tessera" run -n 3 -- ./loop killed checkpoint.interval=10 checkpoint.async=false fault.spec="rank=1 step=24 point=phase:backward kind=sigkill" \
    >first 2>log && fail "a killed rank was not noticed"
[ "$(tail -n 1 first | cut -d, -f1)" = "step 23" ] || fail "the last step before the kill is: $(tail -n 1 first)"
"$tessera" run -n 2 -- ./loop killed checkpoint.interval=10 training.steps=30 lr_scheduler.steps=40 >second 2>log || fail "two ranks do not resume"
grep -q 'resumed from step 20 of .*saved by 3 ranks' log || fail "two ranks did not resume"
"$tessera" run -n 4 -- ./loop killed checkpoint.interval=10 >third 2>log || fail "four ranks do not resume"
grep -q 'resumed from step 30 ' log || fail "four ranks did not resume"
{ sed '/^step 21,/,$d' first; cat second third; } >got
same got "killed and resumed"

# A run that is asked to stop saves its newest step.
"$tessera" run -n 2 -- ./loop stopped training.steps=1000000 validation.enable=false optimizer.lr=1e-6 >got 2>log &
launcher=$!
while kill -0 $launcher 2>/dev/null && [ "$(wc -l <got)" -lt 5 ]; do sleep 0.05; done
kill -TERM $launcher
wait $launcher || [ $? = 143 ] || fail "a run that is asked to stop fails"
last=$(tail -n 1 got | sed 's/step \(.*\), loss.*/\1/')
[ -d "stopped/checkpoint/$(printf 'step-%08d' "$last")" ] || fail "step $last was not saved"

# The loop keeps metrics, traces and the model.
[ "$(grep -c '"loss"' out3/metrics.jsonl)" = 40 ] || fail "metrics.jsonl has not one line a step"
[ "$(grep -c '"validation_loss"' out3/metrics.jsonl)" = 3 ] || fail "metrics.jsonl has not one line an evaluation"
"$tessera" trace out3 >/dev/null 2>log || fail "tessera trace cannot read the run"
[ -s out3/model/model.safetensors ] || fail "there is no model"

# Settings that cannot be meant are refused by name.
refuses() {
    ./loop refused "$1" >/dev/null 2>log && fail "$1 is not refused"
    grep -q "embed_loop: .*$2" log || fail "$1: the message does not say $2"
}
refuses data.files=x 'data.files does not apply'
refuses optimizer.weight_decay=0.5 'optimizer.weight_decay does not apply'
refuses training.passes=2 'training.passes does not apply'
refuses training.stepz=2 'training.steps'
refuses training.local_batch_size=2 'training.local_batch_size: 2; the program decides'
echo "ok: $(head -n 1 own) ... $(tail -n 1 own)"
