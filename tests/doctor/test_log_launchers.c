/* Texts of launchers, stores and barriers, and of the ends of processes, made from the formats of their
 * sources: which entry they are, whom they are about, and that no other entry is called a cause. */
#include "support/log_samples.h"

static const log_named_sample samples[] = {
    /* launchers */
    {"spawned-process-trace", "local rank 1", "-- Process 1 terminated with the following error:"},
    {"spawned-process-failed", "local rank 2",
     "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with exit code 1"},
    {"spawned-process-failed", "local rank 2", "process 2 terminated with signal SIGABRT"},
    {"killed", "local rank 2",
     "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL"},
    {"segfault", "local rank 0", "process 0 terminated with signal SIGSEGV"},
    {"python-exception", "local rank 1",
     "-- Process 1 terminated with the following error:\nTraceback (most recent call last):\nValueError: x"},
    {"spawned-process-failed", "rank 3 (pid 77)",
     "[rank: 3] Child process with PID 77 terminated with code 1. Forcefully terminating all other processes to avoid "
     "zombies"},
    {"killed", "rank 3 (pid 77)",
     "[rank: 3] Child process with PID 77 terminated with code -9. Forcefully terminating"},
    {"spawned-process-failed", "rank 5", "ERROR:composer.cli.launcher:Rank 5 crashed with exit code 1."},
    {"killed", "rank 5",
     "ERROR:composer.cli.launcher:Rank 5 crashed with exit code -9.\n"
     "ERROR:composer.cli.launcher:Global rank 0 (PID 100) exited with code -15"},
    {"bus-error", "rank 2",
     "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.\n"
     "Global rank 0 (PID 100) exited with code -15\nGlobal rank 2 (PID 102) exited with code -7"},
    {"segfault", "rank 0 (pid 100)", "ERROR:composer.cli.launcher:Global rank 0 (PID 100) exited with code -11"},
    {"spawned-process-failed", "rank 2",
     "pytorch_lightning.utilities.exceptions.DeadlockDetectedException: DeadLock detected from rank: 2 "},
    {"launcher-command-failed", "",
     "subprocess.CalledProcessError: Command '['python', 't.py']' returned non-zero exit status 1."},
    {"killed", "", "subprocess.CalledProcessError: Command '['python', 't.py']' died with <Signals.SIGKILL: 9>."},
    {"launcher-command-failed", "rank 0 (pid 100)", "Global rank 0 (PID 100) exited with code 1"},
    {"torchrun-restart", "", "[default] Worker group FAILED. 3/3 attempts left; will restart worker group"},
    {"torchrun-exit-barrier", "", "Error waiting on exit barrier. Elapsed: 300.1 seconds"},
    {"torchrun-exit-barrier", "",
     "  File \"/x/torch/distributed/elastic/agent/server/api.py\", line 904, in _exit_barrier\n"
     "RuntimeError: Socket Timeout"},
    {"deepspeed-launcher", "",
     "[2025-01-01 10:00:00,130] [INFO] [launch.py:131:sigkill_handler] Killing subprocess 250621"},
    {"cuda-out-of-memory", "GPU 1",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 23.70 "
     "GiB of which 1.60 GiB is free."},
    {"cuda-out-of-memory", "rank 3 (GPU 0)",
     "[rank3]: RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity"},
    {"nccl-wrong-interface", "",
     "n1:7:8 [0] include/socket.h:403 NCCL WARN Connect to fe80::c4eb:49ff:fe04:e32d%6<57335> failed : Network is "
     "unreachable"},
    {"nccl-ib-device-failed", "host n1",
     "n1:7:8 [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error"},
    {"nccl-p2p-setup", "host n1",
     "n1:7:8 [0] /b/rccl/src/transport/p2p.cc:237 NCCL WARN Cuda failure 'invalid argument'"},
    {"kernel-oom-limit", "process (pid 4242)",
     "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=4242,uid=0\n"
     "Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB\n"
     "oom_reaper: reaped process 4242 (python), now anon-rss:0kB"},
    {"kernel-oom-numa", "process (pid 4242)",
     "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,task=python,pid=4242,uid=0\n"
     "Out of memory: Killed process 4242 (python) total-vm:1kB"},
    {"kernel-oom-kill", "process (pid 4242)",
     "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task=python,pid=4242,uid=0"},
    {"killed", "",
     "[12-16 14:27:08] Rank 0 scheduler is dead. Please check if there are relevant logs.\n"
     "[12-16 14:27:10] Exit code: -9"},
    {"kubernetes-evicted", "pod job-worker-3 on n7",
     "Name:             job-worker-3\nNode:             n7/192.0.2.7\nReason:           Evicted\n"
     "Message:          The node was low on resource: ephemeral-storage. Container main was using 9Gi, request is 0"},
    {"kubernetes-evicted", "host n7",
     "  Warning  Evicted  3m  kubelet, n7  The node was low on resource: memory. Container main was using 60Gi"},
    {"kubernetes-refused", "host n7", "job-worker-3  ml  Evicted  n7  Pod The node had condition: [DiskPressure]. "},
    {"kubernetes-refused", "", "Message:  Pod was rejected: The node had condition: [MemoryPressure]. "},
    {"kubernetes-node-short", "host n7",
     "12m  Normal  NodeHasDiskPressure  node/n7  Node n7 status is now: NodeHasDiskPressure"},
    {"cuda-xid-memory", "GPU 0000:00:08",
     "NVRM: Xid (PCI:0000:00:05): 43, pid=1, name=p, Ch 00000008\nNVRM: Xid (PCI:0000:00:07): 31, pid=2, name=p\n"
     "NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No"},
    {"cuda-fallen-off-bus", "GPU 0000:00:08",
     "NVRM: Xid (PCI:0000:00:07): 13, pid=2, name=p, Graphics Exception\nNVRM: Xid (PCI:0000:00:08): 79, pid=1, GPU "
     "has fallen off the bus."},
    {"kubernetes-evicted", "pod egg-0",
     "4m11s Warning Evicted pod/egg-0 The node was low on resource: memory. Container egg was using 5053216Ki\n"
     "4m7s Warning Evicted pod/egg-1 The node had condition: [MemoryPressure]."},
    {"disk-quota", "", "OSError: [Errno 122] Disk quota exceeded"},
    {"paddle-launcher", "ranks 2-3",
     "ERROR 2025-01-01 10:00:00,611 launch_utils.py:545] ABORT!!! Out of all 8 trainers, the trainer process with "
     "rank=[2, 3] was aborted. Please check its log."},
    {"dataloader-worker-killed", "process (pid 1104)",
     "SystemError: (Fatal) DataLoader process (pid 1104) exited is killed by signal: Killed. (at "
     "/p/data_loader.cc:181)"},
    {"dataloader-shm", "process (pid 325)",
     "RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error. It is possible that dataloader's"},
    {"nccl-used-after-error", "",
     "init.cc:290 NCCL WARN Attempt to use communicator before the previous operation returned ncclSuccess"},
    {"nccl-ofi-internal", "",
     "process_completions:1648 NCCL WARN NET/OFI Write complete from unexpected request type!"},
    {"store-port-reserved", "",
     "[W socket.cpp:401] [c10d] The server socket has failed to bind to [::]:22 (errno: 98 - Address already in use)."},
    {"store-address-in-use", "",
     "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed "
     "to bind to [::]:44796 (errno: 98 - Address already in use)."},
    {"remote-shell-killed", "host node-b",
     "command terminated with exit code 137\nORTE has lost communication with a remote daemon.\n"
     "  HNP daemon   : [[11377,0],0] on node node-a\n  Remote daemon: [[11377,0],1] on node node-b"},
    {"data-file-damaged", "",
     "OSError: Caught OSError in DataLoader worker process 3.\n"
     "PIL.UnidentifiedImageError: cannot identify image file <_io.BufferedReader name='a.JPEG'>"},
    {"file-replaced", "", "OSError: [Errno 116] Stale file handle: '/data/cache/x.arrow'"},
    {"mount-lost", "", "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data'"},
    {"tpu-worker-leaves", "task 2",
     "INFO:tensorflow:ShutdownHook: lame workers found: HeartbeatManager(/job:worker/replica:0/task:2/device:CPU:0)"},
    {"nccl-not-loaded", "",
     "x.cc:133: NCCL operation ncclGetUniqueId(&id) failed: Unable to load NCCL library. Multi-GPU collectives will"},
    {"ascend-hccp-process", "", "EJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training"},
    {"neuron-bootstrap-waits", "",
     "2025-Jan-01 10:00:00.0210 66:77 [31] bootstrap.cc:89 CCOM WARN Timeout waiting for incoming connection (waited "
     "120 sec)"},
    {"cuda-xid-firmware", "GPU 0000:01:00",
     "NVRM: _kgspRpcRecvPoll: LibOS heartbeat timed out\nNVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed "
     "from 0x0 (None) to 0x1 (GPU Reset Required)"},
    {"ray-resources", "",
     "WARNING 04-01 02:45:50 ray_utils.py:320] The number of required GPUs exceeds the total number of available GPUs "
     "in the placement group."},
    {"ray-raylet-marked-dead", "",
     "Check failed: a != b Exiting because this node manager has mistakenly been marked dead by the monitor."},
    {"vllm-worker-start-failed", "",
     "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for "
     "root cause."},
    {"torchrun-agents-lost", "",
     "The node 'n1_77_0' has failed to send a keep-alive heartbeat to the rendezvous 'r' due to an error of type "
     "RendezvousConnectionError."},
    {"torchrun-rendezvous-timeout", "", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"},
    {"torchrun-worker-in-storage", "process (pid 77)",
     "[default] Worker pid=77 stuck in uninterruptible sleep (D-state) for 60.0s (>= 60.0s); marking worker group "
     "UNHEALTHY"},
    {"cuda-after-fork", "",
     "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must"},
    {"deepspeed-launcher", "", /* the command is that of the last process, whichever ended */
     "[2025-01-01 10:00:00,130] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 't.py', '--local_rank=3'] "
     "exits with return code = 1"},
    {"bus-error", "",
     "[launch.py:325:sigkill_handler] ['python', '-u', 't.py', '--local_rank=3'] exits with return code = -7"},
    {"deepspeed-launcher", "host node-b", "pdsh@node-a: node-b: ssh exited with exit code 1"},
    {"deepspeed-ssh", "host node-b", "pdsh@node-a: node-b: ssh exited with exit code 255"},
    {"deepspeed-ssh", "host n2",
     "RuntimeError: Using hostfile at /job/hostfile but host=n2 was not reachable via ssh. If you are running"},
    /* stores and barriers */
    {"store-connect-timeout", "", "RuntimeError: connect() timed out. Original timeout was 1800000 ms."},
    {"store-connect-timeout", "",
     "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
     "(10.0.0.1, 29500)."},
    {"store-connect-timeout", "",
     "[E socket.cpp:957] [c10d] The client socket has failed to connect to any network address of (n1, 29500)."},
    {"store-address-in-use", "",
     "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
     "29500, "
     "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"},
    {"store-wait-timeout", "", "[c10d] waitForInput: poll for socket SocketImpl(fd=64) returned 0, likely a timeout"},
    {"store-wait-timeout", "", "[c10d] waitForInput: socket SocketImpl(fd=64) timed out after 600000ms"},
    {"store-wait-timeout", "", "RuntimeError: Socket Timeout"},
    {"store-nccl-id", "rank 0",
     "[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retreiving ncclUniqueId "
     "from [0] via c10d "
     "key-value store by key '0', but store->get('0') got error: Socket Timeout"},
    {"store-nccl-id", "",
     "[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicators and retrieving ncclUniqueId "
     "from roots via "
     "TCPStore by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /0"},
    {"store-barrier-timeout", "",
     "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: "
     "store_based_barrier_key:1 "
     "(world_size=8, worker_count=7, timeout=0:30:00)"},
    {"store-peer-closed", "",
     "[rank3]: Failed to check the \"should dump\" flag on TCPStore, (maybe TCPStore server has shut down too early)"},
    {"barrier-timeout", "ranks 1,3", "RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms"},
    {"barrier-peer-lost", "rank 0",
     "RuntimeError: Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
     "rank 0. Please check rank 0 logs for faulty rank."},
    {"pytorch-desync", "rank 3",
     "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
     "\t   - [3] joined but didn't finish collective #41 (count from 1)"},
    {"pytorch-desync", "ranks 2,5",
     "To our best knowledge, ranks [2, 5] are the lagging ranks that caused this timeout."},
    {"gloo-peer-closed", "host 10.0.0.3",
     "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
     "[10.0.0.3]:4123"},
    {"gloo-not-connected", "ranks 1-2", "Rank 0 is NOT connected to: [1, 2]"},
    {"gloo-not-connected", "host 10.0.0.3", "[/src/gloo/transport/tcp/pair.cc:311] Connect timeout [10.0.0.3]:4123"},
    {"nccl-invalid-rank", "rank 1",
     "[rank1]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:318, "
     "invalid argument (run with NCCL_DEBUG=WARN for details), NCCL version 2.20.5\n"
     "[rank1]: ncclInvalidArgument: Invalid value for an argument.\n[rank1]: Last error:\n"
     "[rank1]: Invalid rank requested : 1/1"},
    {"nccl-invalid-usage", "", "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"},
    {"nccl-internal-error", "",
     "RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers"},
    {"nccl-invalid-usage", "",
     "RuntimeError: Internal: nccl_thunk.cc:162: NCCL operation ncclAllReduce(send, recv, n, t, op, comm, s) failed: "
     "invalid usage: while running replica 0"},
    {"nccl-unhandled-cuda-error", "",
     "(train pid=22) 2025-01-01 10:00:00.227 node-a:22:99 [0] include/alloc.h:102 NCCL WARN Cuda failure 1 'invalid "
     "argument'"},
    {"ib-completion-unknown", "", "(W pid=22, ip=192.0.2.9) mlx5: node-a: got completion with error:"},
    {"nccl-p2p-failure", "host node-a",
     "(pid=22) node-a:22:99 [0] x.cc:238 NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported "
     "between these two devices"},
    {"native-assertion", "rank 5",
     "[rank5]: python3: /src/permute.cu:412: void launch(Args): Assertion 'args.tokens != nullptr' failed."},
    {"mpi-call-failed", "",
     "*** An error occurred in MPI_Init_thread\n*** on a NULL communicator\n*** MPI_ERRORS_ARE_FATAL (processes in "
     "this communicator will now abort,"},
    {"store-wait-timeout", "", "torch.distributed.DistStoreError: Socket Timeout"},
    {"nccl-not-loaded", "",
     "(VllmWorker rank=3 pid=77) ERROR 01-01 10:00:00 [pynccl_wrapper.py:229] Failed to load NCCL library from "
     "/lib/libnccl.so.2. It is expected if you are not running on NVIDIA/AMD GPUs."},
    {"nccl-communicator-aborted", "", "RuntimeError: NCCL communicator was aborted."},
    {"checkpoint-keys", "",
     "[rank3]: megatron.core.dist_checkpointing.core.CheckpointingException: Cannot find global shape metadata for N-D "
     "flattened tensor ShardedTensor(key='w')"},
    {"checkpoint-keys", "", "[rank0]: KeyError: MetadataIndex(fqn='w', offset=torch.Size([2, 0]), index=24)"},
    {"checkpoint-shape", "",
     "CheckpointingException: Global shape mismatch for loaded ((1024, 768)) and expected ((512, 768)) tensor"},
    {"tpu-fatal", "actor W on 192.0.2.9 (pid 77, /dev/accel0)",
     "(W pid=77, ip=192.0.2.9) E0827 10:00:00.1 9 driver.cc:820] [/dev/accel0 tpu1013:pe1:0] !!!! FATAL ERROR !!!! for "
     "[/dev/accel0 tpu1013:pe1:0] , fatal_error: true"},
    {"fsdp-outside-forward", "",
     "[rank4]: RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
     "DTensor before calling distributed operators!"},
    {"fsdp-outside-forward", "", "RuntimeError: 'weight' must be 2-D"},
    {"deepspeed-ranks-disagree", "",
     "RuntimeError: still have inflight params [{'id': 7, 'status': 'AVAILABLE', 'numel': 64, 'ds_numel': 64}]"},
    {"deepspeed-ranks-disagree", "",
     "AssertionError: {'id': 0, 'status': 'NOT_AVAILABLE', 'numel': 0, 'ds_numel': 64, 'shape': (0,)}"},
    {"gloo-not-connected", "host 10.0.0.3",
     "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] Connect "
     "timeout [10.0.0.3]:4123"},
    {"pytorch-nccl-timeout", "",
     "[Rank 3] Work WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=30000) timed out in blocking wait."},
    {"pytorch-collective-mismatch", "",
     "RuntimeError: Error when verifying shape tensors for collective ALLREDUCE on rank 0. This likely indicates that "
     "input shapes into"},
    {"pytorch-models-differ", "",
     "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 60 params, while rank 0 has inconsistent "
     "62 params."},
    {"pytorch-models-differ", "",
     "RuntimeError: params[3] in this process with sizes [8, 8] appears not to match sizes of the same param in "
     "process 0."},
    {"pytorch-unused-parameters", "",
     "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss "
     "returned by training_step."},
    /* Signals, as Paddle and shells report them */
    {"paddle-terminated", "",
     "FatalError: A serious error (Termination signal) is detected by the operating system. (at init.cc:303)"},
    {"paddle-terminated", "", "FatalError: `Termination signal` is detected by the operating system."},
    {"aborted", "", "FatalError: `Process abort signal` is detected by the operating system."},
    {"illegal-instruction", "", "FatalError: `Illegal instruction` is detected by the operating system."},
    {"bus-error", "",
     "FatalError: `Access to an undefined portion of a memory object` is detected by the operating system."},
    {"segfault", "process (pid 77)", "run.sh: line 12: 77 Segmentation fault      (core dumped) python t.py"},
    /* Those who lost another one */
    {"ray-actor-dead", "actor 0e55 on 192.0.2.7",
     "[2026-01-10 11:43:09,1 I 7 8] actor_manager.cc:139: received notification on actor, state: DEAD, actor_id: 0e55, "
     "ip address: 192.0.2.7, port: 43, worker_id: 0f, raylet_id: 10, num_restarts: 0, has creation_task_exception=1"},
    {"ray-actor-dead", "actor 0e55",
     "[2026-01-10 11:43:09,1 I 7 8] actor_manager.cc:139: received notification on actor, state: DEAD, actor_id: 0e55, "
     "ip address: , port: 0, num_restarts: 0, death context type=CreationTaskFailureContext"},
    {"tf-collective-aborted", "",
     "2026-01-10 11:43:09.1: E tensorflow/ring_reducer.cc:369] Aborting RingReduce with Unavailable: Socket closed"},
    {"cloud-preempted", "", "I 01-10 11:43:09 controller.py:100] The cluster is preempted or failed. Recovering..."},
    /* Compilers that a program runs */
    {"neuron-compiler", "",
     "subprocess.CalledProcessError: Command '['neuronx-cc', 'compile', 'model.MODULE_137+d5.hlo_module.pb', '-O1']' "
     "returned non-zero exit status 70."},
    {"deepspeed-op-build", "",
     "subprocess.CalledProcessError: Command '['/usr/local/cuda/bin/nvcc', '-c', 'a.cu']' returned non-zero exit "
     "status 2."},
};

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    test_log_expect_whom(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(each_text_is_its_entry_and_names_whom_it_is_about)};

TEST_MAIN(cases)
