/* Logs in which a cause must be told from the process that only reports it, and lines of healthy runs. */
#include "support/log_samples.h"

/* Logs, and the beginning of what is said of them. */
static const log_case logs[] = {
    {"NPUStream.cpp:370 NPU error, error code is 107020.\n"
     "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the "
     "Notify record from remote rank [4294967295].",
     "no error that ends a job is in these logs, only what follows from one: a rank of Ascend's HCCL waited"},
    {"Oct  7 12:58:23 host-a kernel: [ 2.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled "
     "seq=1, emitted seq=2\n"
     "Oct  7 12:58:23 host-a kernel: [ 2.2] amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!",
     "GPU 0000:0a:00.0 on host-a: an AMD GPU stopped"},
    {"[1.1] amdgpu 0000:c5:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=95, emitted seq=97\n"
     "[1.2] amdgpu 0000:c5:00.0: amdgpu:  Process code pid 1048 thread code:cs0 pid 1066\n"
     "[1.3] amdgpu 0000:c5:00.0: amdgpu: GPU reset begin!",
     "GPU 0000:c5:00.0 (pid 1048): an AMD GPU stopped"},
    {"[ERROR] ME(16:28,MainProcess):2026-01-01 [_api.py:331] Scheduler process 162 exit with exception.\n"
     "[ERROR] ME(16:28,MainProcess):2026-01-01 [_api.py:431] Time out nodes are ['3']",
     "task 3: MindSpore's scheduler has not heard from a worker"},
    {"2026-04-04 03:10:10.7: F 79 statusor.cc:33] Attempting to fetch value instead of handling error UNKNOWN: TPU "
     "initialization failed: No ba16c7433 device found.\nhttps://symbolize.example/r/?trace=7f07",
     "JAX could not start its devices: No ba16c7433 device found"},
    {"RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\n"
     "[ERROR] 2026-05-21-11:57:54 (PID:927, Device:3, RankID:3) ERR02200 DIST call hccl api failed.\n"
     "EJ0001: 2026-05-21-11:57:54.167.645 Failed to initialize the HCCP process.",
     "rank 3 (pid 927): an Ascend device is still used"},
    {"E 91 session_master.cc:505] Session is failing with the following status: Session master detected TPU session "
     "error from worker job-15.headless-svc:8471. The reporting TPU chip locations are:tpu31:pe4:3, \ntpu31:pe4:2\n"
     "E 91 tpunetd_client.cc:311] Detected failure SLICE_FAILURE_CHIP_DRIVER_ERROR in session e6c8",
     "host job-15.headless-svc (tpu31:pe4:3): a TPU chip stopped"},
    {"[1.1] amdgpu 0000:65:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:200)\n"
     "[1.2] amdgpu 0000:65:00.0: amdgpu:  Process VLLM::EngineCor pid 7304 thread VLLM::EngineCor pid 7304",
     "GPU 0000:65:00.0 (pid 7304): the driver of an AMD GPU"},
    {"INTERNAL: custom call 'xla.gpu.func.launch' failed: Failed to launch CUDA kernel: fusion_1560 with block "
     "dimensions: 160x1x1: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered.",
     "a kernel read or wrote where it must not"},
    {"RuntimeError: zero_:compiler_depend.ts:26 NPU function error: call aclnnInplaceZero failed, error code is 561103",
     "the software of the Ascend NPU is not complete, or its parts do not fit each other: aclnnInplaceZero"},
    {"errors_impl.AbortedError: RecvTensor expects a different device incarnation: 151 vs. 177. Your worker job "
     "(\"/job:worker/replica:0/task:2\") was probably restarted.",
     "task 2: a worker of TensorFlow was started again"},
    {"node1.3297hfi_userinit: mmap of rcvhdrq at dabbad0004 failed: Resource temporarily unavailable",
     "host node1 (pid 3297): libfabric could not be set up for MPI"},
    {"RuntimeError: [1] is setting up HCCL communicator and retrieving hcclUniqueId from [0] via c10d key-value store "
     "by key '0', but store->get('0') got error: failed to recv, got 0 bytes",
     "rank 0: "},
    {"2026-Jan-01 10:00:00.1 8:9 ERROR NRT:nrt_infodump   Nodename: ip-192-0-2-60\n"
     "2026-Jan-01 10:00:00.2 8:9 ERROR NRT:nrt_infodump   Driver version: 2.19\n"
     "2026-Jan-01 10:00:00.3 8:9 ERROR NRT:nrt_infodump   Failure: NRT_INVALID in nrt_load()",
     "host ip-192-0-2-60 (pid 8): the runtime of Neuron could not load"},
    {"(TaskRunner pid=41) ray.exceptions.RayTaskError(OutOfMemoryError): ray::Worker.update() (pid=5120, "
     "ip=192.0.2.14, actor_id=a1)\n"
     "(TaskRunner pid=41)   File \"w.py\", line 3, in update\n"
     "(TaskRunner pid=41) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
     "actor Worker.update on 192.0.2.14 (pid 5120): a device (or a pool) has no memory"},
    {"ray.exceptions.RayTaskError(RuntimeError): ray::Runner.run() (pid=41, ip=192.0.2.1)\n"
     "ray.exceptions.RayTaskError(RuntimeError): ray::Worker.update() (pid=5120, ip=192.0.2.14, actor_id=a1)\n"
     "RuntimeError: CUDA error: an illegal memory access was encountered",
     "actor Worker.update on 192.0.2.14 (pid 5120): a kernel read or wrote"},
    {"ray.exceptions.RayTaskError(ActorDiedError): ray::TaskRunner.run() (pid=41, ip=192.0.2.1, actor_id=a1)\n"
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 7\n\tname: "
     "pool_0:3\n\tip: 192.0.2.4\n"
     "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
     "unexpectedly exits",
     "actor pool_0:3 on 192.0.2.4 (pid 7): a Ray worker process died"},
    {"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 7\n\tip: "
     "192.0.2.4\n"
     "The actor died because its node has died. Node Id: a1b2\n\tthe actor's node was terminated unexpectedly: health "
     "check failed",
     "host 192.0.2.4 (pid 7): Ray lost a host"},
    {"(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user\n"
     "[ 1234.5] Out of memory: Killed process 4242 (raylet) total-vm:1kB, anon-rss:1kB",
     "process (pid 4242): the kernel killed a process for memory"},
    {"[2025-01-01 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):\n  File \"s.py\", line "
     "3, in f\n"
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n\n"
     "[2025-01-01 10:00:00] Received sigquit from a child process. It usually means the child failed.",
     "actor TP3: a device (or a pool) has no memory"},
    {"(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] EngineCore failed to start.\n"
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] ValueError: No available memory for the cache blocks.\n"
     "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
     "actor EngineCore_DP0 (pid 9): the GPU has too little free memory"},
    {"-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"t.py\", line 3, "
     "in f\nKeyError: 'x'",
     "local rank 1: the program used a name or key that is not there: KeyError"},
    {"Global rank 0 (PID 100) exited with code -15\n----------Begin global rank 3 STDERR----------\nTraceback (most "
     "recent call last):\n"
     "ValueError: x\n----------End global rank 3 STDERR----------",
     "rank 3: a Python exception"},
    {"[rank1]: RuntimeError: CUDA out of memory encountered on a different rank\n"
     "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
     "rank 3: a device (or a pool) has no memory"},
    {"[1,0]<stderr>:horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an "
     "exception on one\n"
     "[1,2]<stderr>:KeyError: 'x'",
     "rank 2: the program used a name or key that is not there"},
    {"CheckpointException ranks:dict_keys([3])\nTraceback (most recent call last): (RANK 3)\n  File \"f.py\", line 3, "
     "in f\n"
     "OSError: [Errno 28] No space left on device: '/out'",
     "a file could not be written, because its disk is full, reported by rank 3"},
    {"UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat timeout. This indicates that the remote task has "
     "failed\n"
     "Terminating process because the JAX distributed service detected fatal errors.",
     "task 5: a process of JAX stopped answering"},
    {"[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
     "[10.0.0.3]:4123\n"
     "[rank1]: AssertionError: no sample",
     "rank 1: the program's own check failed: AssertionError: no sample"},
    {"[rank0]: ImportError: cannot import name 'x'\n"
     "[rank1]: torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to "
     "connect to (n1, 29500).",
     "rank 0: a library has another version"},
    {"[rank0]: [engine.py:3437] Failed saving model checkpoint to /out with tag 9\n[rank0]: OSError: [Errno 28] No "
     "space left on device",
     "a file could not be written, because its disk is full, reported by rank 0"},
    {"[rank1]: RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
     "[2025-01-01 10:00:00] Received sigquit from a child process. It usually means the child failed.",
     "a system call failed inside NCCL, mostly at start-up, reported by rank 1"},
    {"ray.exceptions.RayTaskError(DistBackendError): ray::Actor.fit() (pid=77, ip=192.0.2.9, actor_id=01)\n"
     "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, internal error - please report this issue "
     "to the NCCL developers, NCCL version 2.21.5",
     "NCCL found itself in a state that should not be, reported by actor Actor.fit on 192.0.2.9 (pid 77)"},
    {"[rank3]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:542] [Rank 3] Collective WorkNCCL(SeqNum=3, OpType=BROADCAST, "
     "NumelIn=8, NumelOut=8, Timeout(ms)=1800000) raised the following async exception: NCCL error: remote process "
     "exited or there was a network error, NCCL version 2.20.5",
     "no error that ends a job"},
    {"[rank3]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=71, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=1000) ran for 1000 milliseconds before "
     "timing out.\nsrun: error: node-a: task 3: Aborted (core dumped)",
     "rank 3 waited 1 s in BROADCAST #71"},
    {"../aten/src/ATen/native/cuda/Loss.cu:242: nll: block: [0,0,0], thread: [5,0,0] Assertion `t < n` failed.\n"
     "[rank2]: RuntimeError: CUDA error: device-side assert triggered",
     "rank 2: a kernel's own check failed"},
    {"python3: /src/permute.cu:412: void launch(Args): Assertion 'args.tokens != nullptr' failed.",
     "native code found a state"},
    {"Exception: \n\n-- Process 3 terminated with the following error:\nTraceback (most recent call last):\n"
     "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 1800000ms for send operation to "
     "complete",
     "no error that ends a job"},
    {"[rank2]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=9, OpType=ALLGATHER_BA[451/1919]n=8, NumelOut=16, Timeout(ms)=1000) ran for 1000 milliseconds "
     "before timing out.\n"
     "[rank0]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=9, OpType=ALLGATHER_BASE, NumelIn=8, NumelOut=16, Timeout(ms)=1000) ran for 1000 milliseconds "
     "before timing out.\n"
     "[rank2]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 2]  failure detected by watchdog at "
     "work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8",
     "ranks 0,2 waited 1 s in ALLGATHER_BASE #9"},
    {"192.0.2.4: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting\n"
     "pdsh@node-a: 192.0.2.4: ssh exited with exit code 1",
     "no error that ends a job"},
    {"torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
     "srun: error: node-b: task 1: Exited with exit code 1",
     "no error that ends a job"},
    {"slurmstepd: error: *** STEP 6.0 ON node-b CANCELLED AT 2026-02-03T12:18:08 ***\n"
     "srun: error: node-b: task 0: Terminated",
     "no error that ends a job"},
    {"ORTE has lost communication with its daemon located on node:\n\n   hostname:  node-c\n",
     "host node-c: mpirun lost its daemon on a host"},
    {"srun: error: node-b: task 9: Exited with exit code 1\n"
     "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
     "task 9 on node-b: Slurm ends the step"},
    {"INFO:root:Waiting in store based barrier to initialize process group for rank: 3, key: store_based_barrier_key:1 "
     "(world_size=8, worker_count=7, timeout=0:30:00)",
     "no error that ends a job"},
    {"slurmstepd: error: *** STEP 608.0 ON node-a CANCELLED AT 2025-01-01T02:06:12 DUE TO JOB REQUEUE ***\n"
     "srun: error: node-a: tasks 2-3: Exited with exit code 1",
     "job 608.0 on node-a: Slurm ended the job to queue it again"},
    {"Root Cause (first observed failure):\n[0]:\n  time      : 2025-01-01_10:00:00\n  host      : node-a\n"
     "  rank      : 10 (local_rank: 2)\n  exitcode  : -6 (pid: 214)\nsrun: error: node-a: task 0: Exited with exit "
     "code 1",
     "rank 10 on node-a (pid 214) failed first, with exit code -6"},
    {"KeyError: 'mask'\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\n"
     "KeyError: 'mask'\nFailures:\n  <NO_OTHER_FAILURES>\nRoot Cause (first observed failure):\n[0]:\n  time      : "
     "2025-01-01_10:00:00\n  host      : node-a\n  rank      : 7 (local_rank: 3)\n  exitcode  : 1 (pid: 214)",
     "rank 7 on node-a (pid 214): the program used a name or key that is not there: KeyError: 'mask'"},
    {"Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\nKeyError: 'mask'\nFailures:\n"
     "[1]:\n  time      : 2025-01-01_10:00:02\n  host      : node-a\n  rank      : 4 (local_rank: 0)\n  exitcode  : 1 "
     "(pid: 211)\nRoot Cause (first observed failure):\n[0]:\n  time      : 2025-01-01_10:00:00\n  host      : "
     "node-a\n  rank      : 7 (local_rank: 3)\n  exitcode  : 1 (pid: 214)",
     "the program used a name or key that is not there: KeyError: 'mask'"},
    {"torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.\n"
     "srun: error: node-a: task 0: Exited with exit code 1",
     "no error that ends a job"},
    {"[2025-01-01 10:00:00] Received sigquit from a child process. It usually means the child failed.\n"
     "Exception: Server process exited with code -9. Check server logs for errors.",
     "a process of SGLang's server ended"},
    {"ray.exceptions.RayTaskError(RuntimeError): ray::Actor.fit() (pid=77, ip=192.0.2.9, actor_id=01)\n"
     "  File \"a.py\", line 3, in fit\n"
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [192.0.2.4]:38032",
     "host 192.0.2.4: a peer of gloo ended"},
    {"[2025-01-01 10:00:00,130] [ERROR] [launch.py:321:sigkill_handler] ['python', 't.py', '--local_rank=7'] exits "
     "with return code = -9",
     "a process got SIGKILL; it could say nothing"},
    {"UserWarning: device_train_microbatch_size='auto' attempts to catch CUDA Out of Memory errors and adjust the "
     "batch size.\nERROR:composer.cli.launcher:Rank 0 crashed with exit code -11.",
     "rank 0: a process crashed"},
    {"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
     "CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[8]), but Rank 0 is running collective: "
     "CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[4]).",
     "ranks are in different collectives (a tie): rank 0 in ALLREDUCE #9 of 4 elements, rank 1 in ALLREDUCE #9 of 8 "
     "elements"},
    {"ssh: connect to host n7 port 22: Connection refused\npdsh@n1: n7: ssh exited with exit code 255",
     "host n7: a launcher could not log in"},
};

/* Lines of runs that go on. */
static const char *const healthy[] = {
    "h-7:41:43 [1] NCCL INFO Call to connect returned Connection refused, retrying",
    "h-7:41:43 [1] NCCL INFO socketPollConnect: connect to 10.9.0.4<21700> returned Connection refused, retrying "
    "(3/34) "
    "after sleep for 300 msec",
    "[0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed",
    "[0] transport/net_ib.cc:117 NCCL WARN NET/IB : Unable to open device mlx5_6",
    "node-a:22:99 [3] NCCL INFO TUNER/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: "
    "No such file or directory : when loading libnccl-tuner.so",
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot assign "
    "requested address).",
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 113 - No route to host).",
    "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in "
    "use).",
    "[W socket.cpp:436] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not "
    "supported by protocol).",
    "[W socket.cpp:601] [c10d] The IPv6 network addresses of (n1, 29500) cannot be retrieved (gai error: -2 - Name or "
    "service not known).",
    "WARNING:urllib3.connectionpool:Retrying (Retry(total=2)) after connection broken by 'NewConnectionError([Errno "
    "101] Network is unreachable)'",
    "'[Errno 101] Network is unreachable' thrown while requesting HEAD "
    "https://huggingface.co/x/resolve/main/config.json",
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\nTraceback (most recent call "
    "last):\n  File \"x.py\", line 3, in "
    "__del__\nAssertionError: can only test a child process",
    "n1:27:28 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "Unable to find latest file at /out/latest, if trying to load latest checkpoint please ensure this file exists",
    "CUDA out of memory detected. Train microbatch size will be decreased from 8 -> 4.",
    "Raylet is terminated. Termination is graceful.",
    "INFO:jax._src.xla_bridge:Unable to initialize backend 'rocm': NOT_FOUND: Could not find registered platform",
    "Validation_Error: 0.31, mean_squared_error: 0.5",
    "FutureWarning: `torch.cpu.amp.autocast(args...)` is deprecated.",
    "{'loss': 1.5, 'grad_norm': inf, 'learning_rate': 1e-05}",
    " iteration       10/  250000 | lm loss: 2.310000E+00 | grad norm: 0.751 | number of nan iterations:   0 |",
    " iteration       10/  250000 | lm loss: 2.310000E+00 | loss scale: 1.0 | grad norm: 0.751 | number of skipped "
    "iterations:   0 |",
    " iteration       10/  250000 | loss scale: 512.0 | number of skipped iterations:   1 |",
    "I 01-10 11:43:09 recovery.py:7] The cluster is preempted before the job is submitted.",
    "actor_manager.cc:139: received notification on actor, state: ALIVE, actor_id: 0e55, ip address: 192.0.2.7, port: "
    "43, num_restarts: 0, has creation_task_exception=0",
    "Process 77 exits successfully.",
    "n1:7:8 [7] NCCL INFO NET/OFI No NIC info for dev 0",
    "n1:7:8 [0] NCCL INFO NET/Plugin: Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: "
    "cannot open shared object file: No such file or directory",
    "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
    "(Receiver ID)",
    ":3:hip_code_object.cpp:460 : 0: init: Returned hipErrorNoBinaryForGpu : continue parsing "
    "remaining arguments",
    "step 20: no NaN detected in the gradients",
    "W tensorflow gpu_device.cc:1597] Unable to enable peer access between device ordinals 0 and 9, status: Internal: "
    "CUDA_ERROR_TOO_MANY_PEERS: peer mapping resources exhausted",
    "n1:7:8 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : Got async event : GID table change",
    "[W socket.cpp:697] [c10d] The IPv6 network addresses of (n1, 39067) cannot be retrieved (gai error: -3 - "
    "Temporary "
    "failure in name resolution).",
    "(raylet) Warning: this actor cannot be scheduled right now. It requires {GPU: 1.0} for placement",
    "ERROR 01-01 10:00:00 Worker VllmWorkerProcess pid 88 died, exit code: -15",
};

static void a_cause_is_told_from_who_reports_it(void)
{
    tess_knowledge *knowledge = test_log_knowledge();
    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        tess_log_diagnosis d;
        test_log_diagnose(knowledge, logs[i].text, &d);
        if (strncmp(d.headline, logs[i].headline, strlen(logs[i].headline)) != 0)
            test_fail(__FILE__, __LINE__, "\"%.80s\": expected \"%s\" in \"%s\"", logs[i].text, logs[i].headline,
                      d.headline);
    }
    tess_knowledge_destroy(&knowledge);
}

static void lines_of_healthy_runs_are_no_errors(void)
{
    tess_knowledge *knowledge = test_log_knowledge();
    for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
        tess_survey survey;
        test_log_read(knowledge, healthy[i], &survey);
        for (int e = 0; e < tess_knowledge_n(knowledge); e++)
            if (survey.matches[e].n_lines > 0 && log_role_of(&survey, e) <= TESS_LOG_EFFECT)
                test_fail(__FILE__, __LINE__, "\"%.100s\" is called %s", healthy[i],
                          tess_knowledge_at(knowledge, e)->row.id);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static const test_case cases[] = {
    CASE(a_cause_is_told_from_who_reports_it),
    CASE(lines_of_healthy_runs_are_no_errors),
};

TEST_MAIN(cases)
