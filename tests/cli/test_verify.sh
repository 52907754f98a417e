#!/usr/bin/env bash
# `tessera verify`: good layouts give the bits of one rank; differences of others are described; nothing is written.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
same="the same bits: this layout gives what one rank gives"

for strategy in none zero1 zero2 full hybrid; do
    for n in 1 2 3 4 8; do
        degrees=
        if [ $strategy = hybrid ] && [ $n -gt 1 ]; then degrees=parallelism.data_parallel_replicate_degree=$((2 + n % 2)); fi
        expect "$strategy on $n" 0 "$same" "$tessera" verify run.yaml -n $n --steps 2 \
            parallelism.shard_strategy=$strategy $degrees training.threads=1
    done
done
expect "float32, gathered until backward, everything recomputed" 0 "$same" "$tessera" verify run.yaml -n 4 \
    training.mixed_precision_param=float32 parallelism.fsdp_reshard_after_forward=0 activation_checkpoint.mode=full
expect "gradients in bfloat16 on their way" 0 "$same" "$tessera" verify run.yaml -n 2 \
    training.mixed_precision_reduce=bfloat16
pp=parallelism.pipeline_parallel_degree
schedule=parallelism.pipeline_parallel_schedule
for words in "2 $pp=2" "3 $pp=3 $schedule=gpipe" "4 $pp=2 parallelism.shard_strategy=none $schedule=zb_h1" \
    "6 $pp=3 parallelism.shard_strategy=zero2 training.local_batch_size=1" \
    "4 $pp=2 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2"; do
    # shellcheck disable=SC2086
    expect "stages of a pipeline: -n $words" 0 "$same" "$tessera" verify run.yaml --steps 2 training.threads=1 -n $words
done

# ---- Every optimizer, and every option that changes memory: it is as planned
sed 's/"intermediate_size": 53/"intermediate_size": 301/' model.json >wide.json # rows of more than one block of 8-bit state
"$tessera" train run.yaml job.dump_folder=base training.steps=1 lr_scheduler.warmup_steps=0 validation.enable=false \
    checkpoint.enable=false >log 2>&1 || { cat log; exit 1; }
tp=parallelism.tensor_parallel_degree=2 none=parallelism.shard_strategy=none bf16=optimizer.state_dtype=bfloat16
as_planned() {
    expect "memory: $*" 0 "$same" "$tessera" verify run.yaml -n 2 --steps 1 training.threads=1 "$@"
}
for words in "adam" "sgd" "sgd optimizer.momentum=0 $none" "sgd $bf16 $pp=2" "muon" "muon $none" "muon $tp" "muon $bf16 $pp=2" \
    "adamw8bit" "adamw8bit $none" "adamw8bit $bf16 $pp=2" "adamw $bf16" "adamw $bf16 $tp" \
    "muon training.freeze=model.layers.0 job.device=far"; do
    # shellcheck disable=SC2086
    as_planned model.config=wide.json optimizer.name=$words
done
for words in "activation_checkpoint.mode=full activation_checkpoint.partition=true $tp" \
    "activation_checkpoint.mode=selective activation_checkpoint.recompute=feed_forward" \
    "training.passes=2" "training.fp8=true training.gather=fp8 job.device=cpu" "parallelism.fsdp_unit_blocks=2" \
    "offload.params=true offload.optimizer=true optimizer.name=muon" "offload.grads=true offload.activations=true job.device=cpu" \
    "lora.rank=4 model.config= model.path=base/model optimizer.name=muon"; do
    # shellcheck disable=SC2086
    as_planned offload.folder="$work" $words
done
expect "ranks that share layers are told" 0 "2 ranks, full, 2 share layers (tp), kernels" "$tessera" verify run.yaml --steps 1 $tp
expect "layouts: those without such ranks have nothing to share" 0 "the same bits: 2 of 2" "$tessera" verify run.yaml -n 2 \
    --steps 1 --layouts strategy=full,pp=1 activation_checkpoint.mode=full activation_checkpoint.partition=true $tp
expect "help names tensor parallelism" 0 "tensor parallelism" "$tessera" verify --help

expect "two ranks without -n" 0 "2 ranks, full" "$tessera" verify run.yaml --steps 1
expect "as JSON" 0 '"same": true' "$tessera" verify run.yaml --steps 1 --json
[ -e out ] && fail "the dump folder was made" || pass "nothing was written"

# ---- Runs that give other bits.
spoilt=(-n 3 fault.spec="rank=1 step=1 point=gradient kind=flip tensor=model.layers.2.mlp.down_proj.weight bit=27")
expect "a rank that spoils a gradient" 5 "not the same: from step 1 on" "$tessera" verify run.yaml "${spoilt[@]}"
grep -qE "^  model\.layers\.0\." output && pass "tensors are named" || fail "no tensor: $(cat output)"
grep -qE "the first, row [0-9]+ column [0-9]+ on rank [0-2]: .* \([0-9]+ ulp\)" output &&
    pass "with the place of the first" || fail "no place: $(cat output)"
# Tables with their own bfloat16 products have their own order of summation; the others have the bits of ref.
case $("$tessera" info | sed -n 's/^kernels: \([a-z0-9_]*\).*/\1/p') in
avx512_bf16 | amx)
    expect "other kernels" 5 "kernel tables add in orders of their own" "$tessera" verify run.yaml --steps 1 \
        --against-kernels ref training.seq_len=7
    differing=(--against-kernels ref training.seq_len=7)
    ;;
*)
    expect "other kernels" 0 "the same bits" "$tessera" verify run.yaml --steps 1 --against-kernels ref training.seq_len=7
    differing=("${spoilt[@]}")
    ;;
esac
expect "all tensors on request" 5 "model.layers.2.mlp.down_proj.weight" "$tessera" verify run.yaml --steps 1 --all \
    "${differing[@]}"
expect "differences as JSON" 5 '"n_different":' "$tessera" verify run.yaml --steps 1 --json "${differing[@]}"
TMPDIR=/nowhere expect "without room for values" 5 "by how much is not known" "$tessera" verify run.yaml --steps 1 \
    "${differing[@]}"

# ---- A bit flipped in transit, and one in a replica
expect "a gradient that one rank spoils" 5 "not the same: from step 2 on" "$tessera" verify run.yaml -n 4 \
    fault.spec="rank=2 step=2 point=gradient kind=flip tensor=model.layers.1.mlp.up_proj.weight bit=20"
grep -qF "gradients    1 of 30 tensors differ, the first after step 2" output && pass "one tensor in one step" ||
    fail "which tensor: $(cat output)"
[ "$(grep -E '^  model\.' output)" = "  model.layers.1.mlp.up_proj.weight" ] && pass "by its name" ||
    fail "by its name: $(cat output)"
grep -qF "gradient: 1 of 2226 elements differ" output && pass "in one element" || fail "elements: $(cat output)"
expect "in a pipeline" 5 "  model.layers.1.mlp.up_proj.weight (stage 1 of 3)" "$tessera" verify run.yaml -n 3 $pp=3 \
    fault.spec="rank=1 step=2 point=gradient kind=flip tensor=model.layers.1.mlp.up_proj.weight bit=20"
grep -q "^3 ranks, full, 3 stages in 1f1b" output && pass "which is described" || fail "which is described: $(cat output)"
expect "a pipeline as JSON" 0 '"schedule": "1f1b"' "$tessera" verify run.yaml -n 3 $pp=3 --steps 1 --json
expect "a copy that one rank spoils" 5 "copies of its weights are not the same: the odd one is rank 3" "$tessera" \
    verify run.yaml -n 4 --steps 2 parallelism.shard_strategy=none \
    fault.spec="rank=3 step=2 point=parameter kind=flip tensor=model.norm.weight bit=20"
expect "an element, in another order of ranks" 5 "row 45 column 22 on rank 1: " "$tessera" verify run.yaml -n 4 \
    parallelism.rank_order=0,2,3,1 \
    fault.spec="rank=0 step=2 point=gradient kind=flip tensor=model.layers.1.mlp.up_proj.weight bit=20"
expect "a copy, in another order of ranks" 5 "copies of its weights are not the same: the odd one is rank 3" "$tessera" \
    verify run.yaml -n 4 --steps 2 parallelism.shard_strategy=none parallelism.rank_order=0,3,1,2 \
    fault.spec="rank=3 step=2 point=parameter kind=flip tensor=model.norm.weight bit=20"

# ---- Runs that cannot be compared
expect "no such file" 2 "none.yaml" "$tessera" verify none.yaml
expect "no such kernels" 2 "nonsense" "$tessera" verify run.yaml --against-kernels nonsense
expect "no such model" 2 "missing.json" "$tessera" verify run.yaml model.config=missing.json
expect "too few steps" 2 "--steps" "$tessera" verify run.yaml --steps 0
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 TORCHELASTIC_RUN_ID=x \
    expect "ranks of somebody else" 2 "call it without" "$tessera" verify run.yaml
expect "a rank that dies" 1 "rank 1 " "$tessera" verify run.yaml -n 2 \
    fault.spec="rank=1 step=2 point=before:reduce_scatter_pieces kind=exit"
finish
