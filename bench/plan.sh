#!/bin/bash
# Compares predicted and measured times of a step: two models, six layouts, three sizes of the batch. In each round a
# layout's kernels and operations are measured right before its steps, because the speed of shared machines changes from
# minute to minute. No prediction uses a time of a step. The table has the medians of the rounds.
# Usage: bench/plan.sh TESSERA [ROUNDS [MODEL ...]]
set -eu
tessera=$1 rounds=${2:-3}
shift; [ $# -eq 0 ] || shift
models=${*:-gpt2-124m llama-5m}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A name, the number of ranks, and the settings of each layout.
layouts="one:1:
full:2:
none:2:parallelism.shard_strategy=none
recompute:2:activation_checkpoint.mode=full
tp:2:parallelism.tensor_parallel_degree=2
pp:2:parallelism.pipeline_parallel_degree=2"

settings() { # model, rows of a step, settings of the layout
  echo "model.config=$1 training.seq_len=256 training.local_batch_size=2 training.global_batch_size=$2 $3"
}

for model in $models; do
  for round in $(seq "$rounds"); do
    while IFS=: read -r name ranks layout; do
      # The micro-batches of all sizes of the batch are the same.
      # shellcheck disable=SC2046
      "$tessera" plan --calibrate --cache "$work/$round" -n "$ranks" $(settings "$model" 8 "$layout") \
        --json > "$work/calibrated" < /dev/null
      for rows in 4 8 16; do
        # shellcheck disable=SC2046
        "$tessera" plan --measure --no-corrections --cache "$work/$round" --steps 3 -n "$ranks" \
          $(settings "$model" "$rows" "$layout") --json > "$work/measured.json" < /dev/null
        python3 - "$work" "$model" "$name" "$rows" <<'P'
import json, sys
work, model, name, rows = sys.argv[1:]
row = {r["name"]: r for r in json.load(open(work + "/measured.json"))["rows"]}["step"]
with open(work + "/rows", "a") as out:
    print(model, name, rows, row["predicted"], row["measured"], file=out)
P
      done
    done <<< "$layouts"
  done
done
python3 - "$work" <<'P'
import collections, statistics, sys
rounds = collections.defaultdict(list)
for line in open(sys.argv[1] + "/rows"):
    model, name, rows, predicted, measured = line.split()
    rounds[model, name, rows].append((float(predicted), float(measured)))
print("| model | layout | rows | predicted ms | measured ms | error | of the rounds |")
print("|---|---|---|---|---|---|---|")
errors = []
for (model, name, rows), pairs in rounds.items():
    each = [p / m - 1 for p, m in pairs]
    error = statistics.median(each)
    errors.append(abs(error))
    print(f"| {model} | {name} | {rows} | {statistics.median(p for p, _ in pairs):.0f} "
          f"| {statistics.median(m for _, m in pairs):.0f} | {error:+.0%} | {min(each):+.0%} to {max(each):+.0%} |")
errors.sort()
within = sum(e <= 0.15 for e in errors)
print(f"\n{within} of {len(errors)} within 15%; median error {errors[len(errors) // 2]:.0%}, largest {errors[-1]:.0%}")
P
