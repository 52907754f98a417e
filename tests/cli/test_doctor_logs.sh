#!/usr/bin/env bash
# `tessera doctor log` on excerpts of logs that jobs wrote in public, tests/doctor/logs: NAME.expected next to each says
# in words what is right. A row here has the entry, its part, words of the headline, and words that would be false there.
. "$(dirname "$0")/support.sh"
. "$project/tests/cli/doctor_report.sh"
export XDG_CONFIG_HOME=$work/config
logs=$project/tests/doctor/logs

# is_read NUMBER ROLE ID HEADLINE [NOT...]: ROLE "cause" is a root cause; "known" is one in the report that the headline
# does not call so; "effect" is an effect.
is_read() {
    local file name=$1 role=$2 id=$3 words=$4 part=$2 is_cause=false
    file=$(echo "$logs/$1"-*.log)
    [ "$role" = known ] && part=cause
    [ "$role" = cause ] && is_cause=true
    read_logs "$file"
    name=$(basename "$file" .log)
    if ! ids_with_role "$part" | grep -qw -- "$id"; then
        fail "$name: no $part '$id': $(ids_with_role "$part")"
    elif [ "$role" != effect ] && [ "$role" != warning ] && ! grep -q "\"is_cause\": $is_cause" report.json; then
        fail "$name: is_cause is not $is_cause"
    elif ! grep -qF -- "$words" headline; then
        fail "$name: expected \"$words\" in $(cat headline)"
    else
        # neither a quotation nor who reports it accuses anybody
        sed -i 's/; its line: .*//; s/, reported by [^;]*//' headline
        for words in "${@:5}"; do
            grep -qF -- "$words" headline && fail "$name: \"$words\" in $(cat headline)" && return
        done
        pass "$name"
    fi
}

effects='only what follows from one'
is_read 001 effect pytorch-watchdog-timeout 'ranks 0,3-4 waited 600 s in _REDUCE_SCATTER_BASE #7753' 'rank 1' 'rank 2'
is_read 002 effect pytorch-watchdog-timeout 'rank 3 in ALLREDUCE #80078 of 2106881 elements, rank 7 in BROADCAST' never
is_read 003 effect pytorch-watchdog-timeout 'ranks 0,2 waited 600 s in _ALLGATHER_BASE #137429' 'rank 1' 1919 451
is_read 004 effect pytorch-watchdog-timeout "$effects" 'rank 1' 'rank 0'
is_read 005 effect pytorch-watchdog-timeout 'ranks 1-3,6-7 waited 1800 s in ALLREDUCE #469508' never
is_read 006 cause store-connect-timeout '192.0.2.1:1234' 'rank 1' memory
is_read 007 effect torchrun-rendezvous-closed "$effects" 'did not start' taken
is_read 008 cause dataloader-shm 'process (pid 325): a data worker was killed by SIGBUS' SIGKILL disk
is_read 010 cause disk-full 'a file could not be written, because its disk is full, reported by process (pid 28936)' 'rank 177' memory
is_read 011 effect nccl-peer-closed 'look into those of 192.0.2.3' 'rank 0' 36138
is_read 012 cause nccl-ib-retry-exceeded 'from GPU 4 on node-a (pid 984) to 192.0.2.59' 'rank 4' memory 'status 5' '59):'
is_read 013 cause nccl-ib-retry-exceeded 'from GPU 4 on node-a (pid 3468) to 192.0.2.236' 'rank 4' memory '236):'
is_read 014 cause cuda-out-of-memory 'GPU 1: a device (or a pool) has no memory' "host's" 'rank 1'
is_read 015 cause cuda-out-of-memory 'GPU 0: a device (or a pool) has no memory' "host's" exception
is_read 016 effect torchrun-child-failed 'ranks 0-3 on node-a ended in the same second' 'rank 0 ' killed memory
is_read 017 cause megatron-result-invalid 'rank 3 on node-c (GPU 3): the loss or gradients' exception
is_read 018 cause cuda-fallen-off-bus 'GPU 0000:b3:00.0: a GPU is no longer there' memory driver
is_read 019 warning cuda-xid-nvlink-corrected 'only a warning: GPU 0018:01:00: ' 'fallen off' memory
is_read 020 known slurm-requeued 'Slurm ended the job to queue it again' task 'host node-a' 'node-a failed'
is_read 021 cause slurm-time-limit 'the job reached its time limit' 'host node-a' 'node-a failed'
is_read 022 cause ray-node-lost 'host 192.0.2.101: Ray lost a host' memory
is_read 024 known ray-raylet-marked-dead "process (pid 4048): Ray's own process" memory crashed
is_read 025 effect ascend-hccl-timeout "$effects" 'rank 8' 8464 'GPU 0'
is_read 026 effect neuron-bootstrap-waits "$effects" 31 GPU
is_read 027 cause nccl-p2p-setup 'host node-a: direct access between the GPUs' 'rank 0' network memory
is_read 028 cause cuda-ecc "the GPU's memory has errors that it cannot correct" 197 rank
is_read 029 cause cuda-ecc "the GPU's memory has errors that it cannot correct" rank host
is_read 030 cause nccl-nvls 'host node-a: NCCL could not set up NVLink SHARP' 'GPU 5' rank
is_read 031 known bus-error 'a mapped page could not be had' 3966 3967 SIGKILL
is_read 032 known segfault 'a process crashed' 94984 SIGKILL memory
is_read 033 effect deepspeed-launcher "$effects" 250621 SIGKILL
is_read 034 cause deepspeed-ssh 'host node-b: ' rank\  exception
is_read 035 cause deepspeed-loss-scale-minimum 'float16 training gives up' 'rank 0' memory
is_read 036 cause cuda-device-assert "a kernel's own check failed" rank memory
is_read 037 cause kubernetes-evicted 'pod egg-0: Kubernetes evicted the pod: memory' egg-1 GPU disk
is_read 038 effect nccl-peer-closed 'look into those of 192.0.2.247' 'rank 9' node-a
is_read 039 cause nccl-ofi-internal 'libfabric (EFA) failed' memory 'does not allow'
is_read 040 cause disk-quota 'the quota of the user' rank shm
is_read 041 known killed 'rank 0: a process got SIGKILL' 'exception' GPU
is_read 042 effect sglang-ranks-missing "$effects" 'rank 1' node-a exception
is_read 043 cause ray-memory-monitor "host 192.0.2.76: the host's memory ran out" 135782 GPU
is_read 044 cause pytorch-unused-parameters \
    'did not use: mask_encoder.sensory_update.transform.bias, mask_encoder.sensory_update.transform.weight, reported by rank 3' \
    'rank 3:' 'rank 3 on' GPU
is_read 045 cause tpu-worker-leaves 'task 0: a TPU worker' memory CPU
is_read 046 known bus-error 'rank 2: a mapped page could not be had' SIGKILL crashed
is_read 047 known spawned-process-failed 'rank 1: a process that the launcher had started ended' memory 'rank 0'
is_read 048 known segfault 'rank 0: a process crashed' SIGKILL memory
is_read 049 known killed 'local rank 0 (pid 10398): a process got SIGKILL' 10401 exception
is_read 050 known killed 'local rank 3: a process got SIGKILL' exception GPU
is_read 051 cause kernel-oom-kill 'pid 25315' GPU container
is_read 052 cause kernel-oom-limit 'host node-a (pid 461754): the kernel killed a process' GPU
is_read 053 effect pytorch-heartbeat-timeout "$effects" 'rank 6' 'rank 0'
is_read 054 effect pytorch-heartbeat-timeout "$effects" 'rank 4' 'ranks 0'
is_read 055 cause checkpoint-corrupt 'it cannot be read, reported by host node-12' full
is_read 056 cause file-replaced '(ESTALE)' 'rank 1:' full exception
is_read 057 cause library-mismatch 'reported by rank 6' 'rank 6:' GPU
is_read 058 cause store-address-in-use 'the port of the store is taken: :44796' rank
is_read 059 cause store-port-reserved "a system service (22 is sshd's)" rank 'old process'
is_read 060 known dataloader-worker-killed 'pid 1104' exception GPU
is_read 061 effect paddle-launcher 'rank 3: ' SIGABRT memory
is_read 062 effect horovod-stall 'rank 1: it has not submitted tensors' 'rank 0' crashed
is_read 063 effect horovod-stall 'ranks 0-1,4: it has not submitted' 'ranks 0-1,3'
is_read 064 effect gloo-timeout "$effects" 'rank 3' exception
is_read 065 effect peer-reset 'look into those of 192.0.2.92' rank\ 0 memory
is_read 066 effect gloo-peer-closed 'host 192.0.2.12: a peer of gloo ended; the cause is not' 'rank 4' exception
is_read 067 cause pytorch-models-differ 'Rank 1 has 212 params, while rank 0 has inconsistent 0 params' 'rank 1:' GPU
is_read 068 effect nccl-remote-error "$effects" XLA
is_read 069 cause nccl-not-loaded "NCCL's library could not be loaded" exception rank
is_read 070 cause accelerator-out-of-memory 'a device of JAX has no memory' chip "host's"
is_read 071 cause too-many-threads 'no more threads or processes' rank GPU
is_read 072 cause nccl-ib-port-down 'host node-a: a port of an InfiniBand' node-b 'GPU 0' rank
is_read 073 cause nccl-ib-device-failed 'host node-d: the InfiniBand or RoCE adapter' 'GPU 0' rank
is_read 074 cause remote-shell-killed 'host node-b-worker-0: ' node-a-launcher
is_read 075 cause ssh-login-failed 'host 192.0.2.1: a launcher could not log in' rank InfiniBand
is_read 076 cause nccl-connect-refused 'from GPU 6 on node-a (pid 240) to 192.0.2.4' 'rank 6' exception InfiniBand
is_read 077 cause nccl-wrong-interface 'fe80::c4eb:49ff:fe04:e32d' 'rank 1' ibverbs
is_read 078 cause nccl-world-differs 'two with the same rank' InfiniBand late
is_read 079 effect torchrun-exit-barrier "$effects" start-up node-
is_read 080 effect vllm-worker-start-failed "$effects" EngineCore_0 memory exception
is_read 081 cause cuda-xid-firmware 'GPU 0000:01:00: ' memory NVLink
is_read 082 cause cuda-xid-firmware 'GPU 0000:01:00: ' memory
is_read 083 effect nccl-ras-mismatch "$effects" 'rank 12' 'rank 13' 192.0.2.124
is_read 084 cause nccl-sizes-differ 'ranks exchanged messages of different sizes' 'host 192.0.2.6' memory
is_read 085 cause ascend-hccp-process '(HCCP) could not start on an Ascend device, probably' port exception
is_read 086 cause oneccl-worker 'oneCCL could not start its worker threads' rank memory
is_read 087 cause slurm-credential 'hosts node-a, node-b: ' rank
is_read 088 cause ray-resources 'fewer free resources' 192.0.2.101 memory
is_read 089 cause cuda-illegal-access 'a kernel read or wrote where it must not' NCCL memory
is_read 090 cause cuda-illegal-access 'a kernel read or wrote where it must not' rank NCCL
is_read 091 cause data-file-damaged 'rank 0: a data file cannot be decoded' 'rank 3' exception
is_read 092 cause gaudi-failed 'rank 2: the software of Gaudi' 'rank 3'
finish
