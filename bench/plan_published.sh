#!/bin/bash
# Predicts published runs of other programs, and prints the predictions next to what was published (docs/planning.md).
# Those programs compute in other ways than ours: Float8, compiled kernels, sums over ranks in another order. So of each
# group the first row scales the others, and only these are predictions.
# Usage: bench/plan_published.sh TESSERA
# Source: the page llama3_h100_202412_torchtitan of the benchmarks of torchtitan (8, 70 and 405 billion parameters; tokens per second
# of a GPU, GiB at the peak).
set -eu
tessera=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

model() { # name, hidden size, feed-forward, layers, heads
  cat > "$work/$1.json" <<M
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": $2, "intermediate_size": $3,
 "num_hidden_layers": $4, "num_attention_heads": $5, "num_key_value_heads": 8, "vocab_size": 128256,
 "max_position_embeddings": 1048576, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false,
 "hidden_act": "silu"}
M
}
model 8b 4096 14336 32 32
model 70b 8192 28672 80 64
model 405b 16384 53248 126 128

# A group, a name, the published tokens per second and GiB, the ranks, and settings.
full="activation_checkpoint.mode=full"
context() { echo "model.config=8b.json training.seq_len=$((32768 * $1)) training.local_batch_size=1 \
training.global_batch_size=$((8 / $1)) parallelism.context_parallel_degree=$1 training.context_leaves=$((2 * $1)) $full"; }
large="model.config=405b.json training.seq_len=8192 training.local_batch_size=1 training.global_batch_size=256 \
parallelism.tensor_parallel_degree=8 parallelism.pipeline_parallel_degree=8 $full"
runs="8B FSDP|8 GPUs|5762|82.4|8|model.config=8b.json training.seq_len=8192 training.local_batch_size=2
8B FSDP|128 GPUs|5605|67.0|128|model.config=8b.json training.seq_len=8192 training.local_batch_size=2
8B CP, 8 GPUs|CP 1|3890|83.9|8|$(context 1)
8B CP, 8 GPUs|CP 2|2540|84.2|8|$(context 2)
8B CP, 8 GPUs|CP 4|1071|84.0|8|$(context 4)
8B CP, 8 GPUs|CP 8|548|84.5|8|$(context 8)
FSDP + TP, 256 GPUs|70B TP 8|829|71.9|256|model.config=70b.json training.seq_len=8192 training.local_batch_size=16 \
parallelism.tensor_parallel_degree=8 $full
405B, 512 GPUs|1F1B|100|82.5|512|$large
405B, 512 GPUs|interleaved|128|72.7|512|$large parallelism.pipeline_parallel_schedule=interleaved"

cd "$work"
while IFS='|' read -r group name tokens memory ranks settings; do
  # shellcheck disable=SC2086
  "$tessera" plan $settings -n "$ranks" --machine h100-hbm2e-96gb --json > plan.json < /dev/null
  python3 - "$group" "$name" "$tokens" "$memory" >> rows <<'P'
import json, sys
plan = json.load(open("plan.json"))
print("|".join(sys.argv[1:] + [str(plan["time"]["tokens_per_s_rank"]), str(plan["memory"]["bytes"] / 2**30)]))
P
done <<< "$runs"
python3 - <<'P'
print("| group | run | published | predicted | error | published GiB | counted GiB |")
print("|---|---|---|---|---|---|---|")
factor, last = 1, None
for line in open("rows"):
    group, name, tokens, memory, got, gib = line.strip().split("|")
    tokens, got = float(tokens), float(got)
    first = group != last
    factor, last = (tokens / got, group) if first else (factor, last)
    error = f"scale {factor:.2f}" if first else f"{got * factor / tokens - 1:+.0%}"
    print(f"| {group} | {name} | {tokens:.0f} | {got * (1 if first else factor):.0f} | {error} | {memory} | {float(gib):.1f} |")
P
