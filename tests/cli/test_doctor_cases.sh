#!/usr/bin/env bash
# `tessera doctor log` on excerpts of real logs, tests/doctor/cases: what it is, who it was, and no other cause.
. "$(dirname "$0")/support.sh"
. "$project/tests/cli/doctor_report.sh"
export XDG_CONFIG_HOME=$work/config
cases=$project/tests/doctor/cases

# has_case NAME ROLE ID HEADLINE [NOT...]: the entry ID plays the part ROLE, the headline has the words HEADLINE, no other
# entry is called a cause, and the words NOT are nowhere in the headline.
has_case() {
    local name=$1 role=$2 id=$3 words=$4 causes
    read_logs "$cases/$name.log"
    causes=$(ids_with_role cause)
    if ! ids_with_role "$role" | grep -qw -- "$id"; then
        fail "$name: no $role '$id': $(ids_with_role "$role")"
    elif [ "$causes" != "$([ "$role" = cause ] && echo "$id ")" ]; then
        fail "$name: causes: $causes"
    elif ! grep -qF -- "$words" headline; then
        fail "$name: expected \"$words\" in $(cat headline)"
    else
        for words in "${@:5}"; do
            grep -qF -- "$words" headline && fail "$name: \"$words\" in $(cat headline)" && return
        done
        pass "$name"
    fi
}

has_case ray-actor-died cause ray-actor-died 'actor poolWorker_0:3 on 192.0.2.14 (pid 5120): a Ray worker process died'
has_case ray-memory-monitor cause ray-memory-monitor \
    "actor ReferenceActor.__init__ on 192.0.2.9 (pid 308): the host's memory ran out" GPU
has_case deepspeed-return-code cause killed 'a process got SIGKILL' 4011 'local rank'
has_case ascend-hccl effect ascend-hccl-timeout 'only what follows from one' 'rank 1:'
has_case rocm-page-fault cause rocm-page-fault 'GPU node-3 (pid 5050, 0000:3d:00.0)'
has_case jax-coordination effect jax-task-lost 'task 5: a process of JAX stopped answering'
has_case jax-barrier-names effect jax-barrier 'tasks 1-3: processes of JAX did not come'
has_case torch-save-write-failed cause checkpoint-write-failed 'a checkpoint could not be written'
has_case nan-megatron cause loss-printed-nan '(step 5426)' rank
has_case ibv-modify-qp cause nccl-ib-connect 'from GPU 5 on node-a (pid 100, mlx5_5:1) to ::ffff:192.0.2.65' memory
has_case srun-out-of-memory cause slurm-oom-kill 'tasks 1-3 on node-e: '
has_case slurm-node-lost-tessera cause slurm-node-fail 'host h3: Slurm lost a host' h2
has_case slurm-saved-before-limit cause tessera-interrupted 'the run was asked to stop; it saved and ended'
has_case slurm-node-fail-host cause slurm-node-fail 'host node-g: Slurm lost a host' node-h
has_case slurm-preempted cause slurm-preempted 'job 3451 on gpu-a07: a job of higher priority took the hosts'
has_case slurm-time-limit cause slurm-time-limit 'job 3451 on gpu-a07: the job reached its time limit' 'host gpu-a07'
has_case mpirun-signal cause killed 'rank 37 on node-j (pid 4242): a process got SIGKILL'
has_case torchrun-all-at-once effect torchrun-child-failed 'ranks 0-1 on node-l ended in the same second' 'rank 0 '
has_case watchdog-one-rank-absent-in-part-of-a-log effect pytorch-watchdog-timeout 'ranks 0,2-4 waited' 'rank 1 never'
has_case watchdog-behind-one-group effect pytorch-watchdog-timeout \
    'rank 3 in ALLREDUCE #64088 of 1024 elements, ranks 0-1 in ALLREDUCE #96120'
grep -qF 'rank 3 is 32032 collectives behind ranks 0-1' report.json &&
    grep -qF 'ran for 7.1 h before its limit of 0.5 h' report.json &&
    pass "how far behind, and for how long" || fail "how far behind, and for how long: $(cat report.json)"
has_case hard-wrapped-lines effect pytorch-watchdog-timeout 'ranks 0-1,3 waited 600 s in ALLREDUCE #778' 'rank 2'
has_case dump-signal-own effect pytorch-dump-signal-own 'rank 5 waited in collective #79197'
has_case mismatch-odd-rank cause pytorch-collective-mismatch 'rank 7 in REDUCE #0, ranks 0-6 in ALLGATHER #101' \
    'rank 1'
has_case store-nccl-id effect store-nccl-id 'rank 0: it did not come to the first collective'
has_case store-connect-old cause store-connect-timeout "did not reach the store"
has_case order-duplicate-gpu cause nccl-duplicate-gpu 'ranks 0,2: several ranks use one GPU'
has_case order-slurm-oom cause slurm-oom-kill "the host's memory ran out"
has_case xid-nvlink5 cause cuda-xid-nvlink "GPU 0000:dc:00: the driver reported an error of a GPU's NVLink" ed:00
has_case xid-13-illegal-instruction cause cuda-xid-program 'GPU 0000:cb:00: '
has_case nccl-shm-old cause nccl-shm-failure 'host node-m: NCCL got no shared memory'
has_case rank-prefix-padded cause cuda-illegal-access 'rank 3: '

# says NAME HEADLINE LINE...: a log of these lines has the words in its headline.
says() {
    local name=$1 words=$2
    shift 2
    printf '%s\n' "$@" >log.txt
    read_logs log.txt
    grep -qF -- "$words" headline && pass "$name" || fail "$name: expected \"$words\" in $(cat headline)"
}

# guilty NAME RANKS LINE...: who is guilty by a log of these lines, "" for nobody.
guilty() {
    local name=$1 ranks=$2 found
    shift 2
    printf '%s\n' "$@" >log.txt
    read_logs log.txt
    found=$(tr -d ' \n' <report.json | sed 's/.*"guilty_ranks":\[\([^]]*\)\].*/\1/; s/,/ /g')
    [ "$found" = "$ranks" ] && pass "$name" || fail "$name: guilty '$found', expected '$ranks'"
}

differs() { # RANK OP OTHER OP
    echo "[rank$1]: RuntimeError: Detected mismatch between collectives on ranks. Rank $1 is running collective:" \
        "CollectiveFingerPrint(SequenceNumber=9, OpType=$2, TensorShape=[4], TensorDtypes=Float), but Rank $3 is" \
        "running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=$4, TensorShape=[4], TensorDtypes=Float)."
}
guilty 'two ranks disagree: a tie' '' "$(differs 0 ALLREDUCE 1 BROADCAST)"
guilty 'both say so' '' "$(differs 0 ALLREDUCE 1 BROADCAST)" "$(differs 1 BROADCAST 0 ALLREDUCE)"
guilty 'the odd one of three by its own report and those of others' 0 "$(differs 0 BROADCAST 1 ALLREDUCE)" \
    "$(differs 1 ALLREDUCE 0 BROADCAST)" "$(differs 2 ALLREDUCE 0 BROADCAST)"
waits() { # RANK OP SEQUENCE
    echo "[rank$1]:[E101 10:00:05.0 ProcessGroupNCCL.cpp:607] [Rank $1] Watchdog caught collective operation timeout:" \
        "WorkNCCL(SeqNum=$3, OpType=$2, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600060 milliseconds."
}
guilty 'a message has two sides' '' "$(waits 0 SEND 7)" "$(waits 1 RECV 7)" "$(waits 2 RECV 8)"
guilty 'progress in another group' '' "$(waits 2 ALLREDUCE 45390)" \
    "[rank0]:[E101 10:00:05.2 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to \
a collective timeout from  rank 2. Last enqueued NCCL work: 136, last completed NCCL work: 136." "$(waits 1 ALLREDUCE 45390)"
guilty 'the number of ranks, by Lightning' 2 'Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4' \
    "$(waits 0 ALLREDUCE 7)" "$(waits 1 ALLREDUCE 7)" "$(waits 3 ALLREDUCE 7)"
guilty 'the number of ranks of a part' '' 'local_world_size=4, tensor parallel world size: 4' \
    "$(waits 0 ALLREDUCE 7)" "$(waits 1 ALLREDUCE 7)" "$(waits 3 ALLREDUCE 7)"

# One job as dumps of the Flight Recorder and as logs: `tessera trace` and `tessera doctor log` name the same ranks.
# both RANK COMPLETED [OPEN OP]: the rank has completed all up to #COMPLETED, and may wait in #OPEN.
both() {
    local entries="" n
    for ((n = $2 - 2; n <= $2; n++)); do entries+=$(entry $n ALLREDUCE completed),; done
    [ $# -gt 2 ] && entries+=$(entry "$3" "$4" scheduled),
    echo "{\"version\":\"2.4\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1, 2, 3]\"}}," \
        "\"entries\":[${entries%,}]}" >job/nccl_trace_rank_"$1".json
    local progress="last enqueued NCCL work: ${3:-$2}, last completed NCCL work: $2."
    local here="[rank$1]:[E101 10:00:05.1 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank $1]"
    if [ $# -gt 2 ]; then
        { waits "$1" "$4" "$3"; echo "$here Exception detected by watchdog at work: $3, $progress"; } >>job.log
    else
        echo "$here Received a dump signal due to a collective timeout from rank 0. $progress" >>job.log
    fi
}
entry() { # SEQUENCE OP STATE
    local retired=false name=all_reduce
    [ "$3" = completed ] && retired=true
    [ "$2" = BROADCAST ] && name=broadcast
    echo "{\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":$1,\"p2p_seq_id\":0,\"is_p2p\":false,\"op_id\":$1," \
        "\"profiling_name\":\"nccl:$name\",\"state\":\"$3\",\"retired\":$retired,\"input_sizes\":[[4]],\"output_sizes\":[[4]]," \
        "\"input_dtypes\":[\"Float\"],\"output_dtypes\":[\"Float\"],\"time_created_ns\":$(($1 * 1000000)),\"frames\":[]}"
}
agree() { # NAME RANKS: both name them, "" in a tie
    local by_trace by_log
    by_trace=$("$tessera" trace --json job | tr -d ' \n' |
        sed 's/.*"tie":true.*//; s/.*"guilty":\[\([^]]*\)\].*/\1/; s/,/ /g')
    by_log=$("$tessera" doctor log --json --world 4 job.log | tr -d ' \n' |
        sed 's/.*"guilty_ranks":\[\([^]]*\)\].*/\1/; s/,/ /g')
    [ "$by_trace/$by_log" = "$2/$2" ] && pass "$1" || fail "$1: trace '$by_trace', log '$by_log', expected '$2'"
    rm -rf job job.log
    mkdir job
}
mkdir job
for r in 0 1 3; do both $r 10 11 ALLREDUCE; done; both 2 10
agree 'trace and log: a rank outside' 2
both 0 10 11 ALLREDUCE; for r in 1 2 3; do both $r 10; done
agree 'trace and log: one collective more' 0
for r in 0 1 2; do both $r 10 11 ALLREDUCE; done; both 3 10 11 BROADCAST
agree 'trace and log: another operation' 3
for r in 0 1 2; do both $r 20 21 ALLREDUCE; done; both 3 10 11 ALLREDUCE
agree 'trace and log: a rank behind' 3
for r in 0 1; do both $r 10 11 ALLREDUCE; done; for r in 2 3; do both $r 10 11 BROADCAST; done
agree 'trace and log: a tie' ''
for r in 0 1 2 3; do both $r 10 11 ALLREDUCE; done
agree 'trace and log: nobody is missing' ''

oom='torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'
says 'srun -l, two digits' 'rank 12: a device' "12: $oom"
says 'a role of torchrun' 'rank 3: a device' "[trainer3]:$oom"
says 'a role of torchrun below srun -l' 'rank 3: a device' " 0: [trainer3]:$oom"
says 'Open MPI 5' 'rank 7: a device' "[prterun-n1-77@1,7]<stderr>: $oom"
says "Ray's worker" 'actor Policy on 10.0.0.7 (pid 77): a device' "(Policy pid=77, ip=10.0.0.7) $oom"
says "vLLM's worker" 'rank 2 (pid 77): a device' "(VllmWorker rank=2 pid=77) ERROR 01-01 10:00:00 $oom"
says 'a pod' 'host job-worker-3: a device' "[pod/job-worker-3/pytorch] $oom"
says 'a pod of compose' 'host job-worker-3: a device' "job-worker-3  | $oom"
says 'pdsh' 'host node-a: a device' "node-a: $oom"
says "the kernel's host" 'GPU 0000:dc:00 on n1: ' 'Jan 10 11:43:09 n1 kernel: NVRM: Xid (PCI:0000:dc:00): 79, pid=1'
says 'JSON: rank and host' 'rank 5 on node-q: a device' \
    "{\"time\":\"2025-01-01T10:00:00Z\",\"rank\":5,\"hostname\":\"node-q\",\"message\":\"step\\n$oom\"}"
says 'JSON: a container' 'rank 3 on job-worker-3: a device' \
    "{\"log\":\"[rank3]: $oom\\n\",\"stream\":\"stderr\",\"kubernetes\":{\"pod_name\":\"job-worker-3\"}}"
says 'JSON: the last line of a trace' 'rank 5: a Python exception' \
    '{"rank":"5","record":{"exception":"Traceback (most recent call last):\nValueError: a \"word\""}}'
says 'hydra names the host' 'host node-j (pid 4242): a process got SIGKILL' \
    '=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES' '=   PID 4242 RUNNING AT node-j' '=   EXIT CODE: 9'
says 'hydra of Intel MPI' 'rank 3 on node-j (pid 4242): a process got SIGKILL' \
    '=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES' '=   RANK 3 PID 4242 RUNNING AT node-j' \
    '=   KILLED BY SIGNAL: 9 (Killed)'
says 'mpirun: an exit code' 'rank 3 on node-b (pid 77): mpirun ends the job' \
    'mpirun has exited due to process rank 3 with PID 77 on' 'node node-b exiting improperly. There are three reasons'
says 'mpirun: the first process' 'rank 3: mpirun ends the job' \
    'mpirun detected that one or more processes exited with non-zero status, thus causing' '' \
    '  Process name: [[12345,1],3]' '  Exit code:    1'
says 'mpirun: 137 is SIGKILL' 'rank 3: a process got SIGKILL' \
    'mpirun detected that one or more processes exited with non-zero status, thus causing' '' \
    '  Process name: [[12345,1],3]' '  Exit code:    137'
says 'srun: 139 is a crash' 'task 3 on n1: a process crashed' 'srun: error: n1: task 3: Exited with exit code 139'
says 'Open MPI names host and process of a crash' 'host node-a (pid 4242): a process crashed' \
    '[node-a:04242] *** Process received signal ***' '[node-a:04242] Signal: Segmentation fault (11)'
says 'UCX, too' 'host node-a (pid 4242): a process crashed' \
    '[node-a:4242 :0:4250] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)'
says 'MPI lost a peer' 'host n2: a rank of this host ended' \
    'An MPI communication peer process has unexpectedly disconnected.  This' '  Local host: n1' '  Local PID:  7' \
    '  Peer host:  n2'
says 'a message of PRRTE in two lines' 'rank 0 on node-b1 (pid 3927): a process got SIGKILL' \
    '--------------------------------------------------------------------------' \
    'prterun noticed that process rank 0 with PID 3927 on node node-b1 exited on' 'signal 9 (Killed).' \
    '--------------------------------------------------------------------------' \
    '[node-a:03907] [prterun-node-a-9052@0,1] prted:comm:process_commands() Processing Command: PRTE_DAEMON_KILL'
says 'an assertion says which part failed' 'FlashAttention failed: Assertion' \
    "python: /p/flash_attn/csrc/flash_api.cpp:125: int f(int): Assertion \`n > 0' failed."
says 'srun: who ended first, not whom srun killed' 'task 3 on n1: Slurm ends the step' \
    'srun: error: n1: task 3: Exited with exit code 1' 'srun: Terminating StepId=7.0' \
    'srun: error: n1: tasks 0-2: Killed'
says 'srun: who ended first, not whom it ended at a time' \
    'task 5 on n17: a module of Python is missing in this environment: ModuleNotFoundError' \
    "ModuleNotFoundError: No module named 'x'" 'srun: error: n17: task 5: Exited with exit code 1' \
    'slurmstepd: error: *** STEP 77.0 ON n12 CANCELLED AT 2025-02-03T10:11:12 ***' \
    'srun: error: n12: tasks 0-4: Terminated'
says 'srun: a task was killed' 'task 2 on n1: a process got SIGKILL' 'srun: error: n1: task 2: Killed'
says 'torchrun: one was killed, others aborted' 'rank 1 on n1 (pid 8): a process got SIGKILL' 'Failures:' '[1]:' \
    '  time      : 2025-01-01_10:00:10' '  host      : n1' '  rank      : 1 (local_rank: 1)' \
    '  exitcode  : -9 (pid: 8)' 'Root Cause (first observed failure):' '[0]:' \
    '  time      : 2025-01-01_10:00:10' '  host      : n1' '  rank      : 0 (local_rank: 0)' \
    '  exitcode  : -6 (pid: 7)'
failure() { # RANK TIME CODE
    echo "  time      : 2025-01-01_$2"; echo '  host      : n1'; echo "  rank      : $1 (local_rank: $1)"
    echo "  exitcode  : $3 (pid: 1$1)"
}
says 'torchrun: whom it killed itself is no cause' 'ranks 1,3 on n1 ended in the same second, with exit code 1' \
    'Failures:' "$(failure 3 13:02:58 1)" "$(failure 0 13:03:29 -9)" "$(failure 2 13:03:29 -15)" \
    'Root Cause (first observed failure):' "$(failure 1 13:02:58 1)"
says 'torchrun: of the tables of two hosts the earlier one counts' 'rank 4 on n1 (pid 14) failed first, with exit code 1' \
    'Failures:' 'Root Cause (first observed failure):' "$(failure 1 13:03:05 1)" \
    'Failures:' 'Root Cause (first observed failure):' "$(failure 4 13:02:58 1)"
for time in 09:45:00 10:10:00; do
    case $time in
    09*) words='rank 2 on n1 never joined ALLREDUCE #7' ;;
    *) words='ranks 0-1 waited 600 s in ALLREDUCE #7 of 4 elements; probably a rank did not come' ;;
    esac
    says "torchrun: a rank ended at $time, the others had waited at 10:00:05 for 10 minutes" "$words" "$(waits 0 ALLREDUCE 7)" \
        "$(waits 1 ALLREDUCE 7)" 'Root Cause (first observed failure):' "$(failure 2 $time 1)"
done
says 'srun: many tasks ended' 'only what follows from one' 'srun: error: n1: tasks 2-7: Exited with exit code 1' \
    'srun: error: n2: tasks 8-13,15: Exited with exit code 1' 'srun: error: n2: task 14: Exited with exit code 1'
says 'a launcher speaks of its own host' 'host node7: a mapped page' \
    "node7: [launch.py:325:sigkill_handler] ['python', '--local_rank=3'] exits with return code = -7"
says 'where to look' 'only what follows from one' \
    'node3:22:99 [6] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node5<43210>'
grep -qF 'the other side was node5: look there first' report.json && pass "the peer is told" || fail "$(cat report.json)"
init() { echo "node$(($1 / 2)):10$1:11$1 [$(($1 % 2))] NCCL INFO ncclCommInitRank comm 0x1 rank $1 nranks 4 cudaDev 0"; }
says "NCCL's ranks have hosts" 'rank 3 on node1 never joined ALLREDUCE #7' "$(init 0)" "$(init 1)" "$(init 2)" \
    "$(init 3)" "$(waits 0 ALLREDUCE 7)" "$(waits 1 ALLREDUCE 7)" "$(waits 2 ALLREDUCE 7)"
says "NCCL's processes have ranks" 'rank 2 on node1 (GPU 0, pid 102): memory or a queue' "$(init 0)" "$(init 2)" \
    'node1:102:777 [0] misc/ibvwrap.cc:99 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory'
says "the host of the rank that failed" 'rank 3 on node1: a device' "$(init 3)" "[rank3]: $oom"
for first in '2025-01-01 06:00:00' '2025-01-01 09:49:00'; do
    printf '%s\n' "[rank1]: $first socket.gaierror: Name or service not known" "[rank0]:[E101 10:00:05.0 x.cpp:1] $(waits 0 ALLREDUCE 7)" \
        "[rank2]:[E101 10:00:05.0 x.cpp:1] $(waits 2 ALLREDUCE 7)" >log.txt
    read_logs log.txt
    case $first in
    *06:*) words='ranks 0,2 waited' ;;
    *) words='the name of a host does not resolve' ;;
    esac
    grep -qF "$words" headline && pass "an error at $first" || fail "an error at $first: $(cat headline)"
done
says 'fields of a logger' 'rank 4 on gpu-4: a kernel read' \
    'time="2025-02-03T10:11:12Z" msg="failed" rank=4 host=gpu-4 err="CUDA error: an illegal memory access was encountered"'
guilty "lines that Ray leaves out" '' "nranks 4" "$(waits 0 ALLREDUCE 7)" "$(waits 1 ALLREDUCE 7)" \
    "$(waits 3 ALLREDUCE 7) [repeated 1x across cluster] (Ray deduplicates logs by default.)" ' nranks 4 '
says 'a wrapper above the cause' 'rank 2: a kernel read or wrote' '[rank1]: ValueError: x' \
    "[rank2]: CUDA error: an illegal memory access was encountered"
says 'all ranks at once' 'ranks 0-2: a device' "[rank2]: $oom" "[rank0]: $oom" "[rank1]: $oom"
says 'one rank before the others' 'rank 1: a device' "[rank2]: 2025-01-01 10:00:09 $oom" \
    "[rank1]: 2025-01-01 10:00:01 $oom" "[rank0]: 2025-01-01 10:00:08 $oom"
says 'exceptions of several ranks that differ' 'rank 1: a Python exception' '[rank1]: ValueError: no such key' \
    '[rank0]: RuntimeError: the queue is gone'
says 'an exception of any name' 'rank 2 on node1: a Python exception: my.package.TrainerError: it is over' 'node1: [rank2]: my.package.TrainerError: it is over'
says 'an exception with a known text is that text' 'only what follows from one' \
    '[rank1]: RuntimeError: Connection reset by peer'
says 'a measured error' 'no error found in' 'Validation error: 0.3' 'mean squared error: 1e-3' \
    'loss: 2.1 ValError: 0.3' 'step 10 RMSError: 0.3'
says 'an exception behind several prefixes' 'rank 3: a Python exception' \
    '2025-01-01T10:00:00.1Z 3: [trainer3]:[2025-01-01 10:00:00,1] my.TrainerError: it is over'
says "torchrun's table among other lines" 'rank 1 on n1 (pid 8) failed first, with exit code 1' \
    'Root Cause (first observed failure):' 'x' 'x' '[0]:' 'x' 'x' '  time      : 2025-01-01_10:00:10' 'x' \
    '  host      : n1' 'x' 'x' '  rank      : 1 (local_rank: 1)' 'x' 'x' 'x' 'x' '  exitcode  : 1 (pid: 8)'
says 'who cannot reach the store only reports' "\"text\": \"a process did not reach" \
    '[rank3]: RuntimeError: The client socket has timed out after 60s while trying to connect to (n1, 29500).'
says 'a monitored barrier' 'ranks 1,3: ranks did not all reach a barrier' \
    '[rank0]: RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 10000 ms'
says "a process of torch's spawn" 'local rank 2: a process got SIGKILL' \
    'torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL'
says "the process that the kernel killed" 'host n1 (pid 4242): the kernel killed' \
    'Jan 10 11:43:09 n1 kernel: Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB'
says 'mpirun lost a host' 'host n2: mpirun lost its daemon' 'ORTE has lost communication with a remote daemon.' '' \
    '  HNP daemon   : [[12345,0],0] on node n1' '  Remote daemon: [[12345,0],1] on node n2'
says 'a full disk is no full /dev/shm' 'a file could not be written, because its disk is full' 'OSError: [Errno 28] No space left on device'
says "the host's memory is not the GPU's" 'the kernel killed a process' \
    'Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB'
mkdir -p logs && echo "$oom" >logs/job-worker-3.log
read_logs logs/job-worker-3.log
grep -qF 'host job-worker-3: a device' headline && pass "the name of a file" || fail "the name of a file: $(cat headline)"

# A user's own entries use the same fields.
own() { # FIELD...
    { printf 'flux:\n  role: cause\n'; printf '  %s\n' "$@"
      printf '  symptom: s\n  cause: c\n  check: k\n  fix: f\n'; } >own.yaml
    echo "flux capacitor of host n7" >log.txt
    "$tessera" doctor log --knowledge own.yaml log.txt
}
expect "a named group" 0 "root cause: host n7: s" own "match: 'capacitor of host (?<host>\S+)'"
expect "a group of another name" 2 "a group named 'node': choose rank" own "match: 'capacitor of host (?<node>\S+)'"
expect "an entry that is not there" 2 "explains 'no-such-entry': there is no such entry" own 'explains: no-such-entry'
expect "fallback is a word" 2 "fallback 'me': write yes" own 'fallback: me'
expect "who is a word" 2 "who 'me': write reporter" own 'who: me'
finish
