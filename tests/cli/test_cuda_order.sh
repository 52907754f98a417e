#!/usr/bin/env bash
# Whole runs of two ranks on two GPUs, with the driver that plays them ($TESS_CUDA_FAKE): where the driver leaves out waits that
# the program asks for, or puts its events on another queue, the run fails, and the driver names the two operations. A run without
# such an error has the bits of the CPU under other delays, too.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml
fake=$TESS_CUDA_FAKE
export TESSERA_CUBLAS=off TESSERA_CUDA=$fake/libtessera_cuda.so LD_LIBRARY_PATH=$fake
args=(train run.yaml training.steps=2 training.global_batch_size=4 lr_scheduler.warmup_steps=1 validation.enable=false training.mixed_precision_param=float32 -n 2)

TESSERA_CPU=ref "$tessera" "${args[@]}" job.dump_folder=cpu >log 2>&1 || fail "the CPU: $(tail -n 3 log)"
same() { # NAME SHARDS DELAYS
    CUDA_FAKE=devices=2,ipc=1 CUDA_FAKE_DELAYS=$3 "$tessera" "${args[@]}" job.device=cuda job.shards="$2" job.dump_folder="gpu-$1" >log 2>&1 ||
        fail "$1: $(tail -n 5 log)"
    cmp cpu/model/model.safetensors "gpu-$1/model/model.safetensors" >/dev/null 2>&1 && pass "$1: the bits of the CPU" || fail "$1: other bits"
}
found() { # SHARDS ERROR TEXT
    CUDA_FAKE=devices=2,ipc=1,$2 "$tessera" "${args[@]}" job.device=cuda job.shards="$1" job.dump_folder=planted >log 2>&1 &&
        fail "$1, $2: the run goes through"
    grep -q "fake GPU driver: .*$3" log && pass "$1, $2: is found" || fail "$1, $2: expected '$3' in $(tail -n 5 log)"
    rm -rf planted
}
same "shards of the device, long delays" device 2:2000:20
same "shards of the host, many short delays" host 3:100:2
for shards in device host; do
    found $shards skip=cuStreamWaitEvent:0 "nothing puts one before the other"
    found $shards skip=cuEventRecord:0 "nothing puts one before the other"
    found $shards misplace=cuEventRecord:0 "nothing puts one before the other"
    found $shards skip=cuStreamSynchronize:0 "nothing puts one before the other"
done
found device skip=cuCtxSynchronize:0 "and the host has not waited for it"
finish
