#!/usr/bin/env bash
# The benches measure, filter, write JSON, and compare with an older report.
. "$(dirname "$0")/support.sh"

expect "benches are listed" 0 "tessera bench machine" "$tessera" bench --help
expect "no bench named" 2 "tessera bench kernels" "$tessera" bench
expect "a bench misspelt" 2 "did you mean 'bench machine'" "$tessera" bench machin
expect "options are listed" 0 "--tolerance" "$tessera" bench kernels --help
expect "machine: memory" 0 "memory triad, streaming stores, 1 thread" "$tessera" bench machine --quick --threads 1 --filter memory
expect "machine: peaks" 0 "GFLOP/s" "$tessera" bench machine --quick --threads 1 --json=machine.json
expect "kernels: a product" 0 "gemm bf16 dW gpt2 mlp.up 768x3072x512" "$tessera" bench kernels --quick --threads 1 --filter "gemm bf16 dW"
expect "kernels: all tables" 0 "adamw" "$tessera" bench kernels --quick --json=kernels.json
grep -q '"name": "attention bf16 backward gpt2 1x128x12x64"' kernels.json && pass "kernels: the JSON has rows" || fail "kernels: no row in the JSON"
expect "kernels: another table" 0 "kernels  ref" "$tessera" bench kernels --quick --threads 1 --table ref --filter layernorm
expect "kernels: on a device beside the host" 0 "timed by the host" "$tessera" bench kernels --quick --device far --filter bf16
grep -q 'embedding backward\|attention bf16 backward gpt2' output && pass "kernels: attention there" || fail "kernels: $(cat output)"
expect "kernels: on a device that is none" 2 "choose cpu, far or cuda" "$tessera" bench kernels --device tpu
expect "transfer: copies are measured and checked" 0 "from device, pinned 10 MB" "$tessera" bench transfer --device far --quick \
    --json=transfer.json
awk -F': ' '/"name": "(to|from) device, (un)?pinned 10 MB"/ { n++ } /^ *"rate": / && $2 + 0 > 0 { rates++ } /^ *"pin": [0-9]/ { pins++ }
    END { exit !(n == 4 && rates == 4 && pins == 1) }' transfer.json && pass "transfer: four rows" || fail "transfer: $(cat transfer.json)"
expect "transfer: the host is no device" 2 "its memory is the host's" "$tessera" bench transfer --device cpu
expect "precision: runs and casts" 0 "gradients to fp8 E5M2, scale a block" "$tessera" bench precision --quick --batch 2 --micro 1 \
    --seq 16 -n 2 --json=precision.json
# A gather reads float32 and writes what it gathers: 4 + 2 bytes instead of 4 + 4. Loss: 1e-2 of float32's. Codes of fp8 are
# made once a step and copied (test_parallel_fsdp_codes counts them), and gathered again where an update writes other copies.
awk -F': ' '/"name"/ { name = $2 } /^ *"gathered": / { gathered[name] = $2 + 0 } /^ *"off": / { off[name] = $2 + 0 }
    END { f = gathered["\"float32\","]
        for (name in off) {
            n++
            half = name ~ /float32/ ? 1 : 0.75
            if (name ~ /fp8 gathered/)
                half = gathered[name] / f
            if (!(f > 0 && gathered[name] > f * half * 0.999 && gathered[name] < f * half * 1.001 && off[name] < 1e-2)) exit 1
        }
        exit n != 7 }' precision.json && pass "precision: half the bytes, and the loss" || fail "precision: $(cat precision.json)"
expect "a filter that nothing passes" 2 "no row's name contains it" "$tessera" bench kernels --quick --filter nonesuch
expect "a number that is none" 2 "--threads" "$tessera" bench machine --threads two
expect "a table that is none" 2 "choose ref, avx2, avx512, avx512_bf16 or amx" "$tessera" bench kernels --table sse

"$tessera" bench machine --quick --threads 1 --filter triad --json >stdout.json 2>stderr.txt
if head -c 1 stdout.json | grep -q '{' && tail -c 2 stdout.json | grep -q '}' && grep -q "GB/s" stderr.txt; then
    pass "--json alone: JSON on stdout, the table on stderr"
else
    fail "--json alone mixes them"
fi

# Against its own report made a thousand times faster any machine is slower; against one ten thousand times slower it is not.
scale() { awk -v by="$1" '/"median"|"best"/ && /[0-9]/ { sub(/[0-9][0-9.]*/, $2 * by) } { print }' machine.json; }
scale 1000 >faster.json
scale 0.0001 >slower.json
expect "a regression is found" 1 "rows slower by more than 10%" "$tessera" bench machine --quick --threads 1 --compare faster.json
expect "no regression" 0 "0 of " "$tessera" bench machine --quick --threads 1 --compare slower.json
expect "tolerance is a number" 2 "--tolerance" "$tessera" bench machine --tolerance some
expect "older report missing" 2 "gone.json" "$tessera" bench machine --compare gone.json
expect "older report of another bench" 2 "tessera bench machine" "$tessera" bench kernels --compare machine.json
echo '{"bench": "machine", "tables": 3}' >bad.json
expect "older report malformed" 2 "bad.json: no array 'tables'" "$tessera" bench machine --compare bad.json
expect "JSON into no folder" 2 "gone/x.json" "$tessera" bench machine --quick --threads 1 --filter triad --json=gone/x.json
finish
