#!/usr/bin/env bash
# State on disk: the bits of state in memory, in every combination; a rank that is killed in the middle of an update loses
# nothing; what cannot work is refused. `test_offload.sh TESSERA PROJECT all` tries every combination of what is offloaded
# with every strategy and number of ranks.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
all=${3:-}
disk=$(mktemp -d "$(dirname "$tessera")/offload-XXXXXX") # /tmp may be in memory
trap 'rm -rf "$work" "$disk"' EXIT
common=(training.steps=4 lr_scheduler.warmup_steps=2 training.threads=1 model.save_dtype=float32
    checkpoint.interval=1000 debug.trace=false validation.enable=false)

numbers() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
equal() { cmp -s <(numbers "$1") <(numbers "$2") && cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors"; }
train() { # FOLDER ARGUMENTS...
    local folder=$1
    shift
    timeout 600 "$tessera" train run.yaml job.dump_folder="$folder" "${common[@]}" "$@" >"$folder.out" 2>&1 </dev/null
}

# same NAME REFERENCE ARGUMENTS...
same() {
    local name=$1 reference=$2
    shift 2
    if ! train out offload.folder="$disk" "$@"; then
        fail "$name: $(tail -n 3 out.out)"
    elif ! grep -q 'of all ranks on disk: ' out.out; then
        fail "$name: nothing is on disk: $(cat out.out)"
    elif equal out "$reference"; then
        pass "$name"
    else
        fail "$name: other bits, first at $(diff <(numbers out) <(numbers "$reference") | head -n 2 | tail -n 1)"
    fi
    pools out >last_pools
    rm -rf out
}

everything=(offload.params=true offload.grads=true offload.optimizer=true)
kept=(offload.activations=true)
strategy=parallelism.shard_strategy
replicas=parallelism.data_parallel_replicate_degree
train plain || { cat plain.out; exit 1; }
train plain_32 training.mixed_precision_param=float32 || { cat plain_32.out; exit 1; }

if [ "$all" = all ]; then
    for n in 1 2 4 8; do
        for s in none zero1 zero2 full; do
            for mode in none full every_n "selective activation_checkpoint.recompute=feed_forward"; do
                how=(-n $n "${kept[@]}" $strategy=$s activation_checkpoint.mode=${mode/ */} ${mode#${mode/ */}})
                same "${how[*]}" plain "${how[@]}"
                same "${how[*]}, float32" plain_32 "${how[@]}" training.mixed_precision_param=float32
                same "${how[*]}, and the state" plain "${how[@]}" "${everything[@]}" offload.resident=1
            done
        done
    done
    for bits in 1 2 3 4 5 6 7; do
        what=(offload.params=$((bits & 1)) offload.grads=$((bits >> 1 & 1)) offload.optimizer=$((bits >> 2)))
        for n in 1 2 4 8; do
            for s in none zero1 zero2 full hybrid; do
                how=(-n $n "${what[@]/=1/=true}" $strategy=$s)
                how=("${how[@]/=0/=false}")
                [ $s = hybrid ] && how+=($replicas=$((n > 1 ? 2 : 1)))
                same "${how[*]}" plain "${how[@]}"
                same "${how[*]}, float32" plain_32 "${how[@]}" training.mixed_precision_param=float32
            done
        done
    done
    finish
fi

# Little room, so that pages leave: one byte is what the units in use take.
same "1 rank, everything" plain "${everything[@]}" offload.resident=1
grep -q 'warning: offload.resident=1: 1 B is less than the .* set offload.resident=[0-9]* or more' out.out &&
    pass "what is used at once is told" || fail "too little room is not told: $(cat out.out)"
awk '$1 == "comm" { right = $2 <= 1.02 * $3 } END { exit !right }' last_pools && pass "and foretold" ||
    fail "the comm pool took more than was predicted: $(cat last_pools)"
same "1 rank, everything, weights in place" plain_32 "${everything[@]}" training.mixed_precision_param=float32
same "1 rank, gradients, zero2" plain offload.grads=true $strategy=zero2
same "2 ranks, everything" plain -n 2 "${everything[@]}" "${kept[@]}"
same "1 rank, activations" plain_32 training.mixed_precision_param=float32 "${kept[@]}" activation_checkpoint.mode=every_n
TESSERA_DEVICE=far expect "activations of a device apart" 2 "kernels read the host's memory there, and device far has its own" \
    "$tessera" train run.yaml job.dump_folder=refused "${kept[@]}" offload.folder="$disk"
same "3 ranks, weights and moments, zero1" plain -n 3 offload.params=true offload.optimizer=true $strategy=zero1
same "2 ranks, everything, none" plain -n 2 "${everything[@]}" $strategy=none
same "2 x 2 ranks, everything" plain -n 4 "${everything[@]}" $strategy=hybrid $replicas=2
same "3 x 1 ranks, gradients" plain -n 3 offload.grads=true $strategy=hybrid $replicas=3
train passes training.passes=2 || fail "passes: $(tail -n 3 passes.out)"
same "1 rank, 2 passes" passes training.passes=2 "${everything[@]}" offload.resident=1
train muon optimizer.name=muon || fail "muon: $(tail -n 3 muon.out)"
same "2 ranks, muon" muon -n 2 optimizer.name=muon "${everything[@]}"

# Killed between tensors of an update and in the middle of a backward; then the whole job, which goes on from a checkpoint.
killed="rank=1 step=2 point=phase:shard:7 kind=sigkill; rank=0 step=3 point=phase:backward:1 kind=sigkill"
same "2 ranks, killed in an update and in a backward" plain -n 2 "${everything[@]}" recovery.enable=true \
    recovery.max_failures=0 fault.spec="$killed"
grep -q 'replaced in' out.out && pass "its ranks were replaced" || fail "nobody was replaced: $(cat out.out)"
train out -n 2 "${everything[@]}" offload.folder="$disk" checkpoint.interval=2 recovery.enable=false \
    fault.spec="rank=0 step=4 point=phase:shard:3 kind=sigkill"
same "from a checkpoint, with 1 rank" plain "${everything[@]}"

expect "no folder" 2 "offload.folder: a folder on a disk is needed" \
    "$tessera" train run.yaml job.dump_folder=refused offload.grads=true
expect "a folder that is not there" 2 "offload.folder: there is no folder nowhere" \
    "$tessera" train run.yaml job.dump_folder=refused offload.grads=true offload.folder=nowhere
expect "a folder in memory" 2 "/dev/shm is a tmpfs, whose files are memory" \
    "$tessera" train run.yaml job.dump_folder=refused offload.grads=true offload.folder=/dev/shm
expect "copies in memory besides" 2 "checkpoint.memory_copies keeps the state in memory" \
    "$tessera" train run.yaml job.dump_folder=refused offload.grads=true offload.folder="$disk" \
    checkpoint.memory_copies=true
sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 900/; s/"vocab_size": *[0-9]*/"vocab_size": 4000000/' model.json |
    sed 's/"intermediate_size": *[0-9]*/"intermediate_size": 4000000/' >large.json
expect "a disk that is too small" 2 "on the disk of $disk, which has" \
    "$tessera" train run.yaml job.dump_folder=refused model.config=large.json "${everything[@]}" offload.folder="$disk"
[ -e refused ] && fail "something was written by runs that were refused" || pass "nothing was written"
expect "a layout on disk is verified" 0 "the same bits: this layout" "$tessera" verify run.yaml -n 2 --steps 1 "${everything[@]}" \
    offload.folder="$disk"
[ -z "$(ls -A "$disk")" ] && pass "nothing is left on the disk" || fail "left on the disk: $(ls -A "$disk")"
finish
