#!/usr/bin/env bash
# NVIDIA GPUs without one: what is missing is named, exit code 2, and nothing is written; and with a driver that plays GPUs in
# the host's memory and a plug-in with rows for the host ($TESS_CUDA_FAKE), whole runs have the bits of the CPU's `ref`.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml
fake=$TESS_CUDA_FAKE
unset LD_LIBRARY_PATH TESSERA_CUDA TESSERA_DEVICE CUDA_VISIBLE_DEVICES
export TESSERA_CUBLAS=off
args=(train run.yaml job.dump_folder=out job.device=cuda training.steps=3 training.global_batch_size=4 lr_scheduler.warmup_steps=1 validation.enable=false
    training.mixed_precision_param=float32)

bad() { # NAME TEXT VARIABLE=VALUE...
    local name=$1 text=$2
    shift 2
    expect "$name" 2 "$text" env "$@" "$tessera" "${args[@]}" -n 2
    [ ! -e out ] || fail "$name: wrote $(find out | head -n 3)"
    rm -rf out
}

readelf -d "$tessera" | grep -iE 'NEEDED.*(cuda|nvidia|nccl|cublas)' && fail "the command links CUDA" || pass "the command links no CUDA"

# ---- What is missing
plugin=$fake/libtessera_cuda.so
mkdir alone old
cp "$tessera" alone/
cp "$fake/libtessera_cuda_other_build.so" old/libcuda.so.1
tessera_here=$tessera tessera=$work/alone/tessera
bad "no plug-in" "this build has no plug-in for NVIDIA GPUs (libtessera_cuda.so): install CUDA's nvcc" A=
tessera=$tessera_here
bad "a plug-in by its name" "TESSERA_CUDA is 'mine', expected the path" TESSERA_CUDA=mine
bad "a plug-in that is not there" "there is no such file" TESSERA_CUDA=/nowhere/x.so
bad "a plug-in that is no library" "cannot load the plug-in" TESSERA_CUDA="$work/text.txt"
bad "a library that is no plug-in" "is no plug-in of Tessera" TESSERA_CUDA="$fake/libcuda.so.1"
bad "a plug-in of another version" "belongs to another version of Tessera (its table is version 99, ours" \
    TESSERA_CUDA="$fake/libtessera_cuda_other_version.so"
bad "a plug-in of another build" "belongs to another build of Tessera (0.0.0-other, ours is" \
    TESSERA_CUDA="$fake/libtessera_cuda_other_build.so"
if ldconfig -p | grep -q 'libcuda\.so\.1'; then
    echo "SKIPPED: this machine has NVIDIA's driver, so it cannot be missing"
else
    bad "no driver" "NVIDIA's driver is missing" TESSERA_CUDA="$plugin"
    if [ -e "$(dirname "$tessera")/libtessera_cuda.so" ]; then
        bad "the plug-in beside the command is its own" "NVIDIA's driver is missing" A=
    else
        echo "SKIPPED: nvcc is not installed, so there is no plug-in for GPUs"
    fi
fi
bad "a driver from before" "NVIDIA's driver (libcuda.so.1) is too old: it has no cuInit" TESSERA_CUDA="$plugin" \
    LD_LIBRARY_PATH="$work/old"
export TESSERA_CUDA=$plugin LD_LIBRARY_PATH=$fake
bad "a driver of another CUDA" "it supports CUDA 12.4" CUDA_FAKE=version=12040
bad "no GPU" "finds no GPU" CUDA_FAKE=devices=0
bad "GPUs that are hidden" "CUDA_VISIBLE_DEVICES is ''" CUDA_VISIBLE_DEVICES=
bad "GPUs of a wrong list" "CUDA_VISIBLE_DEVICES is '0,x', which lists 2 GPUs" CUDA_VISIBLE_DEVICES=0,x
bad "a GPU of another kind" "needs an Ampere GPU" CUDA_FAKE=major=7,minor=5
bad "a busy GPU" "another process has this GPU to itself" CUDA_FAKE=fail=cuDevicePrimaryCtxRetain:1:46

# ---- What there is
export CUDA_FAKE=devices=2
"$tessera" info >info
for text in 'driver:  supports CUDA 13.0' 'gpu 1:   Fake GPU B (0000:11:00.0), compute capability 9.0, 1.00 GiB, ECC on, 132' \
    'peers:   all read' "plug-in: $plugin, CUDA 13.0, sm_80" 'cublas:  '; do
    grep -qF "$text" info && pass "info: $text" || fail "info: no \"$text\" in: $(head -n 12 info)"
done
expect "info: cuBLAS by its path" 0 "/cublas/libcublasLt.so.13: products in bfloat16; TESSERA_CUBLAS=own" env LD_LIBRARY_PATH="$fake:$fake/cublas" TESSERA_CUBLAS= \
    "$tessera" info
# The library of a python3 in PATH is found if no usual folder has it.
if "$tessera" info | grep -q '^nccl:.*/libnccl'; then
    echo "SKIPPED: this machine has NCCL, so it is not looked for beside python3"
else
    for place in venv/lib/python3.11/site-packages system/lib/python3/dist-packages pyenv/versions/3.12.1/lib/python3.12/site-packages; do
        mkdir -p "$place/nvidia/nccl/lib" "${place%%/*}/bin"
        cp "$fake/nccl/libnccl.so.2" "$place/nvidia/nccl/lib/"
        cp /bin/true "${place%%/*}/bin/python3"
        expect "info: a library of a python3 in PATH, $place" 0 "$work/$place/nvidia/nccl/lib/libnccl.so.2: bytes between" \
            env PATH="$work/${place%%/*}/bin:$PATH" "$tessera" info
    done
    mkdir links && ln -s "$work/venv/bin/python3" links/python3
    expect "info: a library of a link to a python3" 0 "$work/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2: bytes" \
        env PATH="$work/links:$PATH" "$tessera" info
fi
expect "info: cuBLAS is not wanted" 0 "TESSERA_CUBLAS is off: bfloat16 without tensor cores" "$tessera" info
expect "info: NCCL by its path" 0 "/nccl/libnccl.so.2: bytes between the GPUs of several hosts" env LD_LIBRARY_PATH="$fake:$fake/nccl" "$tessera" info
bad "a cuBLAS that is none" "expected off, own, or the path" TESSERA_CUBLAS=mine

# ---- Whose memory has the shards
refused() { # NAME TEXT ARGUMENTS...
    expect "$1" 2 "$2" "$tessera" "${args[@]}" -n 2 job.shards=device "${@:3}"
    [ ! -e out ] || fail "$1: wrote $(find out | head -n 3)"
    rm -rf out
}
refused "shards on a device that is none" "the memory of job.device=cpu is the host's: set job.device=cuda, or job.shards=host" job.device=cpu
refused "shards that no row of a GPU updates" "set optimizer.name=adamw optimizer.state_dtype=float32, or job.shards=host" optimizer.name=sgd
bad "shards somewhere else" "TESSERA_SHARDS 'gpu' is unknown: choose host or device" TESSERA_SHARDS=gpu

# ---- Whole runs: test_golden_cuda has more
TESSERA_CPU=ref "$tessera" "${args[@]}" job.dump_folder=ref job.device=cpu >log 2>&1 || { cat log; exit 1; }
"$tessera" "${args[@]}" -n 2 job.shards=device job.dump_folder=away offload.params=true offload.grads=true offload.optimizer=true \
    >log 2>&1 && cmp -s ref/model/model.safetensors away/model/model.safetensors && pass "state away from a GPU leaves the bits" ||
    fail "state away from a GPU: $(tail -n 3 log)"
generate() { "$tessera" generate ref/model --prompt "the ship" --max-new-tokens 8 --temperature 0 --dtype float32 "$@" 2>notes; }
TESSERA_CPU=ref generate --device cpu >want
cmp -s want <(generate --device cuda:1) && [ -s want ] && pass "generation: the text of the CPU" || fail "generation: $(tail -n 2 notes)"
bad "too many ranks for a GPU's memory" "device cuda:0 (Fake GPU A): 2 ranks on it would need" CUDA_FAKE=devices=1,memory=300000
cp output refused
expect "and how much there is, and what would help" 0 "293 KiB is free (a rank: activations" grep -F "fewer ranks a GPU, less of training.local_batch_size" refused
expect "a setting of the logits, too" 0 "or training.logit_bytes, or" cat refused
expect "no room for exchanges of ranks that share a model" 2 "exchanges 2.00 MiB" env CUDA_FAKE=devices=1,memory=4000000 \
    "$tessera" "${args[@]}" -n 2 parallelism.tensor_parallel_degree=2 job.shards=host
[ ! -e out ] || fail "no room for exchanges: wrote $(find out | head -n 3)"
rm -rf out
bad "a GPU that is in use" "293 KiB is free: process $$ (bash) has 67.0 GiB of it (a rank" CUDA_FAKE=devices=1,memory=300000 NVML_FAKE=$$:71940702208
bad "a busy GPU, and whose" "process $$ (bash) has 67.0 GiB of it: cuda:0 (Fake GPU A): create a context" \
    CUDA_FAKE=devices=1,fail=cuDevicePrimaryCtxRetain:1:46 NVML_FAKE=$$:71940702208
expect "too little memory" 1 "a smaller training.local_batch_size" env CUDA_FAKE=memory=50000 "$tessera" "${args[@]}" job.ignore_memory=true
cp output refused
expect "and how much there is" 0 "of 48.8 KiB free: cuda:0 (Fake GPU A): allocate: CUDA_ERROR_OUT_OF_MEMORY" cat refused

# ---- Tensor cores: bits of their own, a loss near that of `ref`, and one policy in training, evaluation and generation
last_loss() { sed -nE 's/^.*loss: *([0-9.]+).*$/\1/p' "$1" | tail -n 1; }
echo "the ship" >prompts.txt
short=(training.steps=2 training.mixed_precision_param=bfloat16)
TESSERA_CPU=ref "$tessera" "${args[@]}" "${short[@]}" job.dump_folder=narrow job.device=cpu >narrow.log 2>&1 || fail "bfloat16 on ref: $(tail -n 3 narrow.log)"
TESSERA_CUBLAS=own "$tessera" "${args[@]}" "${short[@]}" job.dump_folder=tensor >tensor.log 2>&1 || fail "tensor cores: $(tail -n 3 tensor.log)"
grep -qF ': kernels cuda-tc 9.0 r5' tensor.log && pass "tensor cores and their revision are in the name" || fail "which kernels: $(head -n 8 tensor.log)"
awk -v a="$(last_loss narrow.log)" -v b="$(last_loss tensor.log)" 'BEGIN { exit !(a > 1 && b > 1 && (a - b) ^ 2 < 1e-4 * a ^ 2) }' &&
    pass "tensor cores: a loss of $(last_loss tensor.log)" || fail "tensor cores: a loss of $(last_loss tensor.log), ref's is $(last_loss narrow.log)"
expect "tensor cores: one policy" 0 "exactly on-policy" env TESSERA_CUBLAS=own "$tessera" verify on-policy narrow/model --device cuda --dtype bfloat16 \
    --against-kernels none --new-tokens 2 --prompts prompts.txt

# ---- Pinned memory: a unit of 4.2 MiB; the driver refuses large copies from and to other memory
sed 's/"hidden_size": 42/"hidden_size": 128/; s/"intermediate_size": 53/"intermediate_size": 2730/; s/"num_hidden_layers": 3/"num_hidden_layers": 1/' model.json >wide.json
wide=("${args[@]}" model.config=wide.json training.steps=1 training.local_batch_size=1 training.global_batch_size=2 training.seq_len=3)
wide() { env CUDA_FAKE="$1" "$tessera" "${wide[@]}" job.dump_folder="$2" "${@:3}" >log 2>&1; }
for shards in device host; do
    wide devices=2,pageable=1000000 pinned-$shards -n 2 job.shards=$shards && pass "shards of the $shards: large copies are from and to pinned memory" ||
        fail "pinned memory, shards of the $shards: $(tail -n 3 log)"
done
wide devices=2,fail=cuMemHostRegister_v2:3:304 unpinned -n 2 job.shards=host && grep -q 'warning: copies to and from the GPU are slower: [0-9.]* MiB of this rank.s memory cannot be pinned: .*lock memory of the host' log &&
    pass "memory that cannot be pinned is told of" || fail "memory that cannot be pinned: $(tail -n 3 log)"
cmp -s pinned-host/model/model.safetensors unpinned/model/model.safetensors && cmp -s pinned-host/model/model.safetensors pinned-device/model/model.safetensors && pass "and leaves the bits" ||
    fail "memory that cannot be pinned leaves other bits"
wide devices=2,fail=cuMemHostRegister_v2:2:304 hot -n 2 job.shards=device recovery.enable=true recovery.hot=true && ! grep -q 'was killed' log &&
    cmp -s pinned-device/model/model.safetensors hot/model/model.safetensors && pass "copies that outlive a rank need not be pinned" ||
    fail "copies that outlive a rank, not pinned: $(tail -n 3 log)"

# ---- Errors of the hardware: memory that ECC cannot correct, once
env CUDA_FAKE=devices=1,fail=cuStreamSynchronize:20:214 CUDA_FAKE_ONCE="$work/once" "$tessera" "${args[@]}" -n 2 job.shards=host job.dump_folder=ecc recovery.enable=true \
    recovery.backoff_s=0.1 debug.trace=false >log 2>&1 || fail "after an error of the GPU: $(tail -n 3 log)"
grep -q 'CUDA_ERROR_ECC_UNCORRECTABLE (214, .*reset the GPU (nvidia-smi -r).*all ranks start again' log && pass "an error of the GPU is named" ||
    fail "an error of the GPU: $(tail -n 3 log)"
grep -qxF 'device cuda:0 (Fake GPU A): kernels cuda' log && pass "the run says where it computes" || fail "where it computes: $(head -n 8 log)"
cmp -s ref/model/model.safetensors ecc/model/model.safetensors && pass "and leaves the bits" || fail "an error of the GPU leaves other bits"

# ---- A kernel, or a copy, that never ends
hangs=(training.steps=6 checkpoint.enable=false comm.timeout_s=3 job.dump_folder=hung)
expect "a kernel that hangs" 1 "of layer 1, enqueued " \
    env TESSERA_FAR_STALL=1:attention_forward:5:3600 "$tessera" "${args[@]}" -n 2 job.device=far "${hangs[@]}"
grep -qE "rank 1 never came to .* waiting for its device: stream compute: attention_forward of layer 1, .* has not finished; behind it [0-9]+ operations; rank 0 gave up" output &&
    pass "rank, stream and operation are named at the end" || fail "a kernel that hangs: $(tail -n 5 output)"
rm -f once
expect "a GPU that hangs" 1 "waiting for its device: stream compute: one of " \
    env CUDA_FAKE=devices=2,stuck=17 CUDA_FAKE_ONCE="$work/once" "$tessera" "${args[@]}" -n 2 "${hangs[@]}" job.shards=host
TESSERA_FAR_STALL=0:copy:40:3600 "$tessera" "${args[@]}" -n 1 job.device=far "${hangs[@]}" recovery.enable=true >alone.log 2>&1 </dev/null &
launcher=$!
await $launcher has_text alone.log "rank 0 has kept the job waiting for [0-9.]+ s for its device; it is in phase .*, waiting for its device: stream [a-z]+: copy " &&
    pass "a copy that hangs, of a rank alone" || fail "a copy that hangs: $(tail -n 3 alone.log)"
kill -9 $launcher # it would let the step end first
wait $launcher 2>/dev/null

# ---- Benches
expect "bench kernels" 0 "stated   989.4 TFLOP/s in bf16" env CUDA_FAKE=devices=1 "$tessera" bench kernels --quick --device cuda --json=kernels.json --filter layernorm
grep -q '"device": "cuda:0 (Fake GPU A), kernels cuda, timed by its own events"' kernels.json && grep -q '"name": "layernorm backward bf16' kernels.json &&
    pass "bench kernels: its JSON" || fail "bench kernels: $(head -n 20 kernels.json)"
expect "bench step" 0 "device   cuda:0 (Fake GPU A), kernels cuda" env CUDA_FAKE=devices=1 "$tessera" bench step --quick --device cuda --model model.json \
    --batch 2 --micro 1 --seq 17 -n 2
# The micro-batch from the memory of the GPU: chosen once, and kept.
auto=(train run.yaml job.dump_folder=auto training.local_batch_size=auto training.global_batch_size=8 lr_scheduler.warmup_steps=1
    validation.enable=false training.mixed_precision_param=float32)
expect "a GPU's memory chooses the micro-batch" 0 "what is free on its GPU" "$tessera" "${auto[@]}" job.device=cuda training.steps=1 -n 2
grep -q "auto: 4 rows, which need" output && pass "no rank is idle" || fail "$(cat output)"
expect "a resume keeps it on the host" 0 "auto: 4 rows, as in the checkpoint" "$tessera" "${auto[@]}" job.device=cpu training.steps=2 -n 1
finish
