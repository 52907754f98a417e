#!/usr/bin/env bash
# Times rows of 16,384 tokens on two ranks in turns: sharded data (FSDP), and divided tokens (cp) by each method and
# order. Each turn runs every variant once, in an order that alternates, and gives ratios; the medians of the ratios are
# printed. Run it on two quiet cores: a turn takes about a minute.
#
#   bench/context.sh build/tessera [TURNS] [TOKENS]
set -euo pipefail
tessera=$1 turns=${2:-7} tokens=${3:-16384}
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
# time_of NAME: milliseconds of a step of two rows, the median of two steps.
time_of() {
    "$tessera" bench step --model "$work/model.json" --batch 2 --micro 1 --seq "$tokens" -n 2 --threads 1 --steps 2 \
        ${options[$1]} --json="$work/report.json" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
    awk '$1 == "\"time\":" { print $2 + 0; exit }' "$work/report.json"
}

for ((turn = 0; turn < turns; turn++)); do
    for ((i = 0; i < ${#names[@]}; i++)); do
        name=${names[turn % 2 == 0 ? i : ${#names[@]} - 1 - i]}
        echo "$turn $name $(time_of "$name")" | tee -a "$work/times" >&2
    done
done

# ratio TEXT A B: the median over turns of the time of A by that of B.
ratio() {
    awk -v a="$2" -v b="$3" '$2 == a { x[$1] = $3 } $2 == b { y[$1] = $3 } END { for (t in x) print x[t] / y[t] }' \
        "$work/times" | sort -g | awk -v text="$1" '{ r[NR] = $1 } END {
            m = NR % 2 ? r[(NR + 1) / 2] : (r[NR / 2] + r[NR / 2 + 1]) / 2
            printf "%-62s %.3f  (%.3f to %.3f)\n", text, m, r[1], r[NR] }'
}
ratio "speed of cp 2 by heads (ulysses), by FSDP's" fsdp ulysses
ratio "speed of cp 2 by queries (gather), by FSDP's" fsdp gather
ratio "time of the contiguous order by zigzag's (gather)" contiguous gather
ratio "speed of cp 2 in a ring, by FSDP's" fsdp ring
ratio "time of the contiguous order by zigzag's (ring)" ring_contiguous ring
