#!/usr/bin/env bash
# What is checked around a pipeline before its first step: numbers that do not fit, ranks that disagree.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
pp=parallelism.pipeline_parallel_degree
schedule=parallelism.pipeline_parallel_schedule

# refused NAME EXIT_CODE TEXT RANKS OVERRIDES...
refused() {
    local name=$1 code=$2 text=$3 ranks=$4
    shift 4
    rm -rf out
    expect "$name" "$code" "$text" "$tessera" train run.yaml -n "$ranks" "$@"
}

# ---- Ranks that do not plan the same
refused "a rank of a stage with fewer micro-batches" 1 "before the first step: ranks disagree, the odd one out: rank 3 has" \
    4 $pp=2 training.local_batch_size=1 fault.spec="rank=3 step=1 kind=uneven"
finish
