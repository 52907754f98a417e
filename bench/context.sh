#!/usr/bin/env bash
# Times rows of 16,384 tokens on two ranks in turns: sharded data (FSDP), and divided tokens (cp) by each method and
# order. Each turn runs every variant once, in an order that alternates, and gives ratios; the medians of the ratios are
# printed, by time and by rank 0's processor time, and then the median times. Trust processor time where other programs
# run. On two quiet cores with AMX a turn takes about half a minute (bf16).
#
#   bench/context.sh build/tessera [TURNS] [TOKENS] [PRECISION]
#
# PRECISION is bf16 or fp32.
set -euo pipefail
tessera=$1 turns=${2:-7} tokens=${3:-16384} precision=${4:-bf16}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/model.json" <<JSON
{"model_type": "llama", "vocab_size": 4096, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": $tokens,
 "rms_norm_eps": 1e-06, "rope_theta": 500000.0, "tie_word_embeddings": false}
JSON
names=(fsdp ulysses gather contiguous ring ring_contiguous)
declare -A options=(
    [fsdp]=""
    [ulysses]="--cp 2 --cp-method ulysses"
    [gather]="--cp 2 --cp-method gather"
    [contiguous]="--cp 2 --cp-method gather --cp-order contiguous"
    [ring]="--cp 2 --cp-method ring"
    [ring_contiguous]="--cp 2 --cp-method ring --cp-order contiguous"
)
# times_of NAME: milliseconds of a step of two rows, the median of two steps, and of rank 0's processor time.
times_of() {
    "$tessera" bench step --model "$work/model.json" --batch 2 --micro 1 --seq "$tokens" -n 2 --threads 1 --steps 2 \
        --precision "$precision" ${options[$1]} --json="$work/report.json" >/dev/null 2>"$work/log" ||
        { cat "$work/log" >&2; exit 1; }
    awk '$1 == "\"time\":" && !time { time = $2 + 0 } $1 == "\"cpu\":" && !cpu { cpu = $2 + 0 }
         END { print time, cpu }' "$work/report.json"
}

for ((turn = 0; turn < turns; turn++)); do
    for ((i = 0; i < ${#names[@]}; i++)); do
        name=${names[turn % 2 == 0 ? i : ${#names[@]} - 1 - i]}
        echo "$turn $name $(times_of "$name")" | tee -a "$work/times" >&2
    done
done

# middle: the median of the lines, and the least and the most of them.
middle() {
    sort -g | awk '{ r[NR] = $1 } END {
        print NR % 2 ? r[(NR + 1) / 2] : (r[NR / 2] + r[NR / 2 + 1]) / 2, r[1], r[NR] }'
}
# ratio TEXT A B: the median over turns of the time of A by that of B, and of the processor time.
ratio() {
    for column in 3 4; do
        awk -v a="$2" -v b="$3" -v c=$column '$2 == a { x[$1] = $c } $2 == b { y[$1] = $c }
            END { for (t in x) print x[t] / y[t] }' "$work/times" | middle
    done | awk -v text="$1" 'NR == 1 { time = sprintf("%.3f (%.3f to %.3f)", $1, $2, $3) }
        END { printf "%-50s %s; processor time %.3f (%.3f to %.3f)\n", text, time, $1, $2, $3 }'
}
echo "$tokens tokens, $precision, 2 ranks of 1 thread, medians of $turns turns (least to most)"
ratio "speed of cp 2 by heads (ulysses), by FSDP's" fsdp ulysses
ratio "speed of cp 2 by queries (gather), by FSDP's" fsdp gather
ratio "time of the contiguous order by zigzag's (gather)" contiguous gather
ratio "speed of cp 2 in a ring, by FSDP's" fsdp ring
ratio "time of the contiguous order by zigzag's (ring)" ring_contiguous ring
for name in "${names[@]}"; do
    awk -v n="$name" '$2 == n { print $3 / 1000 }' "$work/times" | middle | awk -v n="$name" '{ printf "%-16s %.2f s\n", n, $1 }'
done
