#!/usr/bin/env bash
# Law 1: losses and gradient norms are functions of the configuration and the data, not of how the work was shared.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# same NAME REFERENCE ARGUMENTS...: runs 30 steps, which equal those in folder REFERENCE in every digit.
same() {
    local name=$1 reference=$2
    shift 2
    rm -rf out
    if ! "$tessera" train run.yaml job.dump_folder=out "$@" >log 2>&1; then
        fail "$name: $(tail -n 3 log)"
    elif ! cmp -s <(columns out) <(columns "$reference"); then
        fail "$name: the columns differ, first at"
        diff <(columns out) <(columns "$reference") | head -n 3 | sed 's/^/    /'
    elif ! cmp -s out/model/model.safetensors "$reference/model/model.safetensors"; then
        fail "$name: the weights differ"
    else
        pass "$name"
    fi
}

for dtype in bfloat16 float32; do
    base="training.mixed_precision_param=$dtype model.save_dtype=float32"
    "$tessera" train run.yaml job.dump_folder="ref_$dtype" training.threads=1 $base >log 2>&1 || { cat log; exit 1; }
    [ "$(columns "ref_$dtype" | wc -l)" = 30 ] || { fail "30 steps in metrics.jsonl"; finish; }
    for n in 2 4 8; do
        same "$dtype: $n ranks, full" "ref_$dtype" -n $n $base
    done
    for strategy in none zero1 zero2; do
        same "$dtype: 4 ranks, $strategy" "ref_$dtype" -n 4 parallelism.shard_strategy=$strategy $base
    done
    same "$dtype: 2 x 2 ranks, hybrid" "ref_$dtype" -n 4 parallelism.shard_strategy=hybrid \
        parallelism.data_parallel_replicate_degree=2 $base
    same "$dtype: 2 threads" "ref_$dtype" training.threads=2 $base
    same "$dtype: 2 ranks of 2 threads" "ref_$dtype" -n 2 training.threads=2 $base
    same "$dtype: activation checkpointing, full" "ref_$dtype" -n 2 activation_checkpoint.mode=full $base
    same "$dtype: activation checkpointing, every 2" "ref_$dtype" -n 2 activation_checkpoint.mode=every_n $base
    same "$dtype: activation checkpointing, selective" "ref_$dtype" -n 4 $base activation_checkpoint.mode=selective \
        activation_checkpoint.budget=$([ $dtype = float32 ] && echo 160 || echo 120)KiB
    same "$dtype: keep parameters until backward" "ref_$dtype" -n 2 parallelism.fsdp_reshard_after_forward=0 $base
    same "$dtype: no prefetch" "ref_$dtype" -n 2 parallelism.fsdp_prefetch=0 $base
    same "$dtype: prefetch 3" "ref_$dtype" -n 4 parallelism.fsdp_prefetch=3 $base
    same "$dtype: units of two layers" "ref_$dtype" -n 3 parallelism.fsdp_unit_blocks=2 $base
done
same "bfloat16: 1 rank, zero2" ref_bfloat16 parallelism.shard_strategy=zero2 model.save_dtype=float32
same "bfloat16: 8 ranks, none, the model in one unit" ref_bfloat16 -n 8 parallelism.shard_strategy=none \
    parallelism.fsdp_unit_blocks=99 parallelism.fsdp_unit_mixed=true model.save_dtype=float32
same "bfloat16: 8 ranks, 4 x 2 hybrid" ref_bfloat16 -n 8 parallelism.shard_strategy=hybrid \
    parallelism.data_parallel_replicate_degree=4 model.save_dtype=float32
# Devices share no gathered copies: each rank keeps half of them.
TESSERA_DEVICE=far TESSERA_SHARDS=device same "bfloat16: 4 devices, resharded to pairs" ref_bfloat16 -n 4 \
    parallelism.fsdp_reshard_after_forward=2 model.save_dtype=float32

# Stopped after 15 steps and resumed with another number of ranks.
resume() {
    local first=$1 then=$2 name="stopped at 15 with $1 ranks, resumed with $2"
    rm -rf out
    base="training.mixed_precision_param=bfloat16 model.save_dtype=float32"
    "$tessera" train run.yaml -n "$first" job.dump_folder=out $base >log 2>&1 || { fail "$name: $(tail -n 3 log)"; return; }
    rm -rf out/checkpoint/step-00000030 out/model
    if ! "$tessera" train run.yaml -n "$then" job.dump_folder=out $base >log 2>&1; then
        fail "$name: $(tail -n 3 log)"
    elif ! grep -q 'resumed from step 15' log; then
        fail "$name: did not resume: $(head -n 8 log)"
    elif cmp -s <(columns out) <(columns ref_bfloat16) &&
        cmp -s out/model/model.safetensors ref_bfloat16/model/model.safetensors; then
        pass "$name"
    else
        fail "$name: the columns or the weights differ"
    fi
}
resume 1 4
resume 4 1
resume 8 2
finish
