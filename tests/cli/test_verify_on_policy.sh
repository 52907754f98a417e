#!/usr/bin/env bash
# `tessera verify on-policy`, `invariance` and `advise`: one policy is found to be one, faults and kernels that look at
# their neighbours are named.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_text 12 | tail -n 3 | cut -c 1-40 >prompts.txt
make_model model.json
make_config run.yaml
exact="exactly on-policy:"

# ---- From a configuration, with initial weights
verify() { "$tessera" verify on-policy run.yaml --against-kernels none "$@"; }
expect "a configuration" 0 "$exact" verify
grep -q "^policy: kernels .*, bfloat16, T = 1; 8 texts, .* tokens predicted" output && pass "in the precision of the run" ||
    fail "the first line: $(head -n 1 output)"
expect "in float32, warmer" 0 "float32, T = 1.3" verify --dtype float32 --temperature 1.3
grep -qE "^  precision .* same +0 of " output && grep -qE "bfloat16 against the policy +differs [1-9]" output &&
    pass "another precision is another policy" || fail "precision: $(grep precision output)"
expect "on another number of threads, few tokens" 0 "$exact" verify --threads 1 --new-tokens 3
expect "against a table" 0 "kernel table  ref" "$tessera" verify on-policy run.yaml --against-kernels ref --new-tokens 4
expect "as JSON" 0 '"same": true' verify --json --new-tokens 4
python3 -c 'import json; r = json.load(open("output")); assert r["version"] == 1 and len(r["cases"]) > 30 and \
    all(c["different"] == 0 for c in r["cases"] if c["must_equal"])' && pass "which says so of each case" ||
    fail "cases of JSON"
expect_metrics "as metrics" 0 verify --new-tokens 4
[ -e out ] && fail "the dump folder was made" || pass "nothing was written"

# ---- From a model's folder, with prompts
"$tessera" train run.yaml training.steps=6 validation.enable=false sample.prompt= >log 2>&1 && mv out/model m && rm -rf out ||
    fail "train: $(tail -n 3 log)"
expect "a folder" 0 "$exact" "$tessera" verify on-policy m --against-kernels none --new-tokens 8
expect "with prompts" 0 "3 texts" "$tessera" verify on-policy m --prompts prompts.txt --against-kernels none --new-tokens 8
expect "a run that starts from the folder" 0 "3 texts" verify model.config= model.path=m --prompts prompts.txt --new-tokens 8

# ---- Faults are named
plant() { # PLACE LAYER
    expect "a fault: $1" 1 "the first layer that differs: $2" verify --new-tokens 4 --plant "$1"
    grep -q "^not on-policy: " output && pass "$1 is said to be the reason" || fail "$1: $(tail -n 4 output)"
}
plant "generation:1:attention output" "model.layers.0, attention output"
plant "evaluation:3:feed-forward output" "model.layers.2, feed-forward output"
plant "training:4:final norm" "head, final norm"
expect "and in JSON" 1 '"layer": "model.layers.1, attention output' verify --new-tokens 4 --json \
    --plant "evaluation:2:attention output"

# ---- What cannot be asked
expect "nothing named" 2 "name a model's folder" "$tessera" verify on-policy
expect "no such folder" 2 "none" "$tessera" verify on-policy none.yaml
expect "no such place" 2 "is no place for a fault" verify --plant nowhere
expect "no such table" 2 "nonsense" "$tessera" verify on-policy run.yaml --against-kernels nonsense
expect "prompts without a tokenizer" 2 "there is no tokenizer" verify --prompts prompts.txt
: >empty.txt
expect "no prompts" 2 "holds no prompt" "$tessera" verify on-policy m --prompts empty.txt
expect "no room" 2 "leave no room" verify --new-tokens 64
expect "a limit twice" 2 "model.max_length" verify --max-length 32

# ---- Invariance
expect "the best table" 0 "batch-invariant: " "$tessera" verify invariance --threads 2
grep -qE "^  cross_entropy +float32, V 50000.* same$" output && pass "softmax over 50000" || fail "no row: $(cat output)"
expect "no such table" 2 "nonsense" "$tessera" verify invariance --table nonsense
if ${CC:-cc} -x c -O2 -shared -fPIC -o kernel.so - 2>log <<'C'
#include <stdint.h>
#include <stdlib.h>
void scale(const float *x, float *y, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows * width; i++)
        y[i] = 3 * x[i];
}
void crash(const float *x, float *y, int64_t rows, int64_t width)
{
    if (rows == 64)
        abort();
    scale(x, y, rows, width);
}
void centre(const float *x, float *y, int64_t rows, int64_t width)
{
    int64_t part = rows < 4 ? 16 : width;
    for (int64_t r = 0; r < rows; r++, x += width, y += width) {
        float sum = 0;
        for (int64_t begin = 0; begin < width; begin += part) {
            float some = 0;
            for (int64_t i = begin; i < width && i < begin + part; i++)
                some += x[i];
            sum += some;
        }
        for (int64_t i = 0; i < width; i++)
            y[i] = x[i] - sum / width;
    }
}
C
then
    expect "a kernel of mine" 0 "batch-invariant" "$tessera" verify invariance --library kernel.so --symbol scale
    expect "one that is not invariant" 1 "changes with its neighbours" "$tessera" verify invariance --library kernel.so \
        --symbol centre
    expect "within a tolerance" 0 "batch-invariant within 1e-05" "$tessera" verify invariance --library ./kernel.so \
        --symbol centre --tolerance 1e-5 --width 300
    expect "as JSON" 1 '"same": false' "$tessera" verify invariance --library kernel.so --symbol centre --json
    expect "one that crashes" 1 "crash of kernel.so ended the process: Aborted" "$tessera" verify invariance \
        --library kernel.so --symbol crash
    expect "no such function" 2 "no function 'other'" "$tessera" verify invariance --library kernel.so --symbol other
else
    fail "no kernel to try: $(cat log)"
fi
expect "no such library" 2 "none.so" "$tessera" verify invariance --library none.so --symbol f
expect "half a name" 2 "a file and a name" "$tessera" verify invariance --library kernel.so
finish
