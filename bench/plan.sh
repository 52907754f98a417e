#!/bin/bash
# Compares predicted and measured times of a step: two models, six layouts, three sizes of the batch. First measures the
# kernels and the operations between ranks that the plans stand on; no prediction uses a time of a step.
# Usage: bench/plan.sh TESSERA [STEPS [MODEL ...]]
set -eu
tessera=$1 steps=${2:-5}
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
  while IFS=: read -r name ranks layout; do
    # A calibration covers all sizes of the batch, whose micro-batches are the same.
    # shellcheck disable=SC2046
    "$tessera" plan --calibrate --cache "$work" -n "$ranks" $(settings "$model" 8 "$layout") --json > "$work/calibrated"
  done <<< "$layouts"
done

python3 - "$work" <<'P'
print(f"{'model':10} {'layout':10} {'rows':>4} {'predicted':>10} {'measured':>10} {'error':>7}")
P
for model in $models; do
  for rows in 4 8 16; do
    while IFS=: read -r name ranks layout; do
      # shellcheck disable=SC2046
      "$tessera" plan --measure --no-corrections --cache "$work" --steps "$steps" -n "$ranks" \
        $(settings "$model" "$rows" "$layout") --json > "$work/measured.json" < /dev/null
      python3 - "$work" "$model" "$name" "$rows" <<'P'
import json, sys
work, model, name, rows = sys.argv[1:]
row = {r["name"]: r for r in json.load(open(work + "/measured.json"))["rows"]}["step"]
with open(work + "/errors", "a") as out:
    print(row["error"], file=out)
print(f"{model:10} {name:10} {rows:>4} {row['predicted']:8.1f} ms {row['measured']:8.1f} ms {row['error']:+7.1%}", flush=True)
P
    done <<< "$layouts"
  done
done
python3 - "$work" <<'P'
import sys
errors = sorted(abs(float(line)) for line in open(sys.argv[1] + "/errors"))
within = sum(e <= 0.15 for e in errors)
print(f"{within} of {len(errors)} within 15%; median error {errors[len(errors) // 2]:.1%}, largest {errors[-1]:.1%}")
P
