#!/usr/bin/env bash
# training.fp8: the same bits on any number of ranks and however layers are cut or run again, and near bfloat16.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# train FOLDER ARGUMENTS...
train() {
    local out=$1
    shift
    "$tessera" train run.yaml job.dump_folder="$out" training.steps=8 checkpoint.interval=4 model.save_dtype=float32 "$@" >log 2>&1 ||
        { fail "$*: $(tail -n 3 log)"; return 1; }
}

# same NAME REFERENCE ARGUMENTS...: a run with the columns and weights of the one in folder REFERENCE.
same() {
    local name=$1 reference=$2
    shift 2
    rm -rf out
    train out training.fp8=true "$@" || return
    if cmp -s <(columns out) <(columns "$reference") && cmp -s out/model/model.safetensors "$reference/model/model.safetensors"; then
        pass "$name"
    else
        fail "$name: the columns or the weights differ: $(diff <(columns out) <(columns "$reference") | head -n 3)"
    fi
}

# The pools of a run of 2 ranks in `out` are within 2% of their prediction, on each rank.
as_predicted() {
    pools out | awk '$4 == "" || $4 > 0.02 * $3 / 2 { off = 1 } END { exit off || NR == 0 }' &&
        pass "memory as predicted" || fail "memory: $(pools out)"
}

# near NAME FOLDER REFERENCE: other losses, none further off than 1%.
near() {
    awk 'NR == FNR { want[FNR] = $4; next } { off = $4 / want[FNR] - 1; differs = differs || off != 0; if (off > 1e-2 || off < -1e-2) exit 1 }
        END { if (!differs) exit 1 }' <(columns "$3" | tr -d ,) <(columns "$2" | tr -d ,) && pass "$1" ||
        fail "$1: $(diff <(columns "$3") <(columns "$2") | head -n 4)"
}

single=training.mixed_precision_param=float32
train bfloat16
train plain training.threads=1 training.fp8=true
near "fp8 follows bfloat16" plain bfloat16
same "2 ranks" plain -n 2
as_predicted
same "4 ranks, weights whole, run again" plain -n 4 parallelism.shard_strategy=none activation_checkpoint.mode=full
same "2 stages, weights' gradients later" plain -n 2 parallelism.pipeline_parallel_degree=2 \
    parallelism.pipeline_parallel_schedule=zb_h1
same "a device beside the host" plain job.device=far
train single $single training.fp8=true
near "in float32 too" single bfloat16
same "float32, 3 ranks, some run again" single $single -n 3 activation_checkpoint.mode=every_n
rm -rf out/checkpoint/step-00000008 out/model
train out $single training.fp8=true -n 2
has_text log 'resumed from step 4' && cmp -s out/model/model.safetensors single/model/model.safetensors &&
    pass "stopped and resumed" || fail "stopped and resumed: $(tail -n 3 log)"

# Gathered as codes: the bits of weights that are gathered in bfloat16 and rounded by each that reads them.
wide=model.config=wide.json
sed 's/"intermediate_size": 53/"intermediate_size": 301/' model.json >wide.json # rows of three blocks
rm -rf plain
train plain $wide training.fp8=true
for layout in "-n 1" "-n 3 parallelism.shard_strategy=none" \
    "-n 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2" "-n 2"; do
    same "codes, $layout" plain $wide training.gather=fp8 $layout
done
as_predicted
# The same on a device that has the shards, also if weights, gradients and moments are away from it.
for layout in "-n 1" "-n 2" "-n 3 parallelism.shard_strategy=none" "-n 2 offload.params=true offload.optimizer=true" \
    "-n 1 offload.params=true" "-n 3 offload.params=true offload.grads=true"; do
    TESSERA_FAR_DELAYS=2:100 same "codes on a device, $layout" plain $wide training.gather=fp8 job.device=far \
        job.shards=device $layout
done
expect "codes are as planned" 0 "the same bits: this layout" "$tessera" verify run.yaml -n 2 --steps 1 $wide training.fp8=true \
    training.gather=fp8
rm -rf single
train single $single training.fp8=true
same "codes of float32 weights" single $single training.gather=fp8 -n 2 parallelism.shard_strategy=zero1
same "codes of float32 weights on a device" single $single training.gather=fp8 -n 2 job.device=far job.shards=device
same "codes of float32 weights that are read in place" single $single training.gather=fp8

bad() { # NAME TEXT ARGUMENTS...
    local name=$1 text=$2
    shift 2
    expect "$name" 2 "$text" "$tessera" train run.yaml job.dump_folder=none training.fp8=true "$@"
}
bad float16_is_refused "not in float16" training.mixed_precision_param=float16 training.loss_scale=0
bad shared_layers_are_refused "set parallelism.tensor_parallel_degree=1" -n 2 parallelism.tensor_parallel_degree=2
bad adapters_are_refused "leave out lora.rank" lora.rank=4
bad codes_of_the_host_are_of_the_cpu "training.gather: codes of the host's shards are read by the CPU's products alone" \
    training.gather=fp8 job.device=far
bad codes_are_of_fp8 "training.gather: weights that are gathered in fp8 are rounded" training.fp8=false training.gather=fp8
[ ! -e none ] && pass "nothing was written" || fail "a folder was written"
finish
