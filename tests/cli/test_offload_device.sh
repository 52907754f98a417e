#!/usr/bin/env bash
# Shards in the memory of a device, with state that is away from it: in the host's memory, or on disk. The bits are those
# of a run on the host that offloads nothing, on any number of ranks.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
disk=$(mktemp -d "$(dirname "$tessera")/offload-XXXXXX") # /tmp may be in memory
trap 'rm -rf "$work" "$disk"' EXIT
common=(training.steps=4 lr_scheduler.warmup_steps=2 training.threads=1 model.save_dtype=float32
    checkpoint.interval=1000 debug.trace=false validation.enable=false)
single=training.mixed_precision_param=float32
strategy=parallelism.shard_strategy
replicas=parallelism.data_parallel_replicate_degree

numbers() { grep -oE '"step": [0-9]*, ("loss": [^,]*, "grad_norm"|"validation_loss"): [^,]*' "$1/metrics.jsonl"; }
train() { # FOLDER ARGUMENTS...
    local folder=$1
    shift
    timeout 600 "$tessera" train run.yaml job.dump_folder="$folder" "${common[@]}" "$@" >"$folder.out" 2>&1 </dev/null
}
# same NAME REFERENCE ARGUMENTS...: on the far device
same() {
    local name=$1 reference=$2
    shift 2
    if ! TESSERA_FAR_DELAYS=3:200 train out job.device=far job.shards=device "$@"; then
        fail "$name: $(tail -n 3 out.out)"
    elif cmp -s <(numbers out) <(numbers "$reference") &&
        cmp -s out/model/model.safetensors "$reference/model/model.safetensors"; then
        pass "$name"
    else
        fail "$name: other bits, first at $(diff <(numbers out) <(numbers "$reference") | head -n 2 | tail -n 1)"
    fi
    mv out.out last.out
    rm -rf out
}

everything=(offload.params=true offload.grads=true offload.optimizer=true)
train plain || { cat plain.out; exit 1; }
train plain_32 $single || { cat plain_32.out; exit 1; }

for n in 1 2 3; do
    same "$n ranks, everything to the host" plain -n $n "${everything[@]}"
    same "$n ranks, everything to a disk" plain -n $n "${everything[@]}" offload.folder="$disk" offload.resident=1
    grep -q 'of all ranks on disk: ' last.out && pass "it is there" || fail "nothing is on disk: $(cat last.out)"
done
same "1 rank, float32, everything" plain_32 $single "${everything[@]}"
same "2 ranks, float32, everything" plain_32 $single -n 2 "${everything[@]}"
same "2 ranks, float32, weights whole" plain_32 $single -n 2 "${everything[@]}" $strategy=none
same "3 ranks, weights whole, on disk" plain -n 3 "${everything[@]}" $strategy=none offload.folder="$disk"
same "2 ranks, moments, zero1" plain -n 2 offload.optimizer=true $strategy=zero1
same "3 ranks, weights, zero2" plain -n 3 offload.params=true $strategy=zero2
same "2 x 2 ranks, everything" plain -n 4 "${everything[@]}" $strategy=hybrid $replicas=2
for where in "" "offload.folder=$disk"; do
    same "3 x 1 ranks, weights ${where:+, on disk}" plain -n 3 offload.params=true $where $strategy=hybrid $replicas=3
done
same "3 x 1 ranks, gradients" plain -n 3 offload.grads=true $strategy=hybrid $replicas=3
same "4 ranks, resharded to pairs" plain -n 4 "${everything[@]}" parallelism.fsdp_reshard_after_forward=2

# More layers than places: in step 2, and in the second batch of an evaluation, units are brought ahead that have lost
# their places.
sed 's/"num_hidden_layers": 3/"num_hidden_layers": 8/' model.json >deep.json
deep=(model.config=deep.json validation.enable=true validation.interval=2 validation.steps=2)
train deep "${deep[@]}" || fail "8 layers: $(tail -n 3 deep.out)"
for ahead in 0 1 2; do
    same "1 rank, 8 layers, $ahead ahead" deep "${deep[@]}" "${everything[@]}" parallelism.fsdp_prefetch=$ahead
done
same "2 ranks, 8 layers" deep -n 2 "${deep[@]}" "${everything[@]}"
same "2 x 1 ranks, 8 layers, weights" deep -n 2 "${deep[@]}" offload.params=true $strategy=hybrid $replicas=2

train passes training.passes=2 || fail "passes: $(tail -n 3 passes.out)"
same "1 rank, 2 passes" passes training.passes=2 "${everything[@]}"
train clipped training.max_value=0.001 || fail "clipped: $(tail -n 3 clipped.out)"
same "2 ranks, values clipped on the host" clipped -n 2 training.max_value=0.001 "${everything[@]}"

# Killed between two steps and in a backward: the successor finds one complete generation, in memory or on disk.
killed="rank=1 step=2 point=phase:updated kind=sigkill; rank=0 step=3 point=phase:backward:1 kind=sigkill"
for where in "" "offload.folder=$disk"; do
    same "2 ranks, killed after an update and in a backward ${where:+, on disk}" plain -n 2 "${everything[@]}" $where \
        recovery.enable=true recovery.hot=true recovery.max_failures=0 fault.spec="$killed"
    grep -q 'replaced in' last.out && pass "its ranks were replaced" || fail "nobody was replaced: $(cat last.out)"
done

# The pools of the device are the predicted ones.
expect "a layout is as planned" 0 "the same bits: this layout" env TESSERA_DEVICE=far TESSERA_SHARDS=device "$tessera" \
    verify run.yaml -n 2 --steps 1 "${everything[@]}"
expect "moments that are not AdamW's" 2 "set optimizer.name=adamw" env TESSERA_DEVICE=far TESSERA_SHARDS=device \
    "$tessera" train run.yaml job.dump_folder=refused optimizer.name=muon job.shards=device "${everything[@]}"
expect "shards of the host need a folder" 2 "offload.folder: a folder on a disk is needed" \
    "$tessera" train run.yaml job.dump_folder=refused job.device=far job.shards=host offload.grads=true
[ -z "$(ls -A "$disk")" ] && pass "nothing is left on the disk" || fail "left on the disk: $(ls -A "$disk")"
finish
