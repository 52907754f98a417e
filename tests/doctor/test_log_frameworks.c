/* Texts of launchers, frameworks, networks and accelerators, made from the formats of their sources: which entry they
 * are, whom they are about, and that no other entry is called a cause. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

static tess_knowledge *knowledge;
static tess_survey survey;

static const struct {
    const char *id, *who, *text; /* who: as the report names it; "": nobody */
} samples[] = {
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
    /* Ray */
    {"ray-actor-died", "actor pool_0:3 on 192.0.2.14 (pid 5120)",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: "
     "W\n\tactor_id: 01\n\tpid: 5120\n"
     "\tname: pool_0:3\n\tnamespace: n\n\tip: 192.0.2.14\n"
     "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
     "unexpectedly "
     "exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed by the "
     "OOM killer"},
    {"ray-actor-died", "host 192.0.2.9 (pid 308)",
     "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
     "problem, check the logs "
     "for the dead worker. RayTask ID: a Worker ID: b Node ID: c Worker IP address: 192.0.2.9 Worker port: 10005 "
     "Worker PID: 308 "
     "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly by a signal."},
    {"ray-actor-died", "host 192.0.2.9",
     "(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM), 3 Workers crashed due to other reasons "
     "at node (ID: a1, IP: "
     "192.0.2.9) over the last time period."},
    {"ray-worker-slow-start", "process (pid 308)",
     "(raylet) Some workers of the worker process(308) have not registered within the timeout. The process is still "
     "alive, probably it's hanging"},
    {"ray-memory-monitor", "host 192.0.2.9",
     "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons "
     "at node (ID: a1, IP: "
     "192.0.2.9) over the last time period."},
    {"ray-memory-monitor", "host 192.0.2.9",
     "Memory on the node (IP: 192.0.2.9, ID: a1) was 498.00GB used / 512.00GB limit (0.972656)"},
    {"ray-memory-monitor", "actor Ref.__init__ on 192.0.2.9 (pid 308)",
     "The actor is dead because its worker process has died. Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: "
     "Task was killed due "
     "to the node running low on memory.\nMemory on the node (IP: 192.0.2.9, ID: a1) where the task (actor ID: b, "
     "name=Ref.__init__, "
     "pid=308, memory used=411.15GB) was running was 498.00GB / 512.00GB (0.972656), which exceeds the memory usage "
     "threshold of 0.95."},
    {"ray-task-error", "actor Worker.fit on 10.0.0.7 (pid 77)",
     "ray.exceptions.RayTaskError(RuntimeError): ray::Worker.fit() (pid=77, ip=10.0.0.7, actor_id=a1, repr=<w.Worker "
     "object>)"},
    {"ray-task-error", "actor Worker.__init__ on 10.0.0.7 (pid 77)",
     "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
     "ray::Worker.__init__() (pid=77, ip=10.0.0.7)"},
    {"ray-owner-died", "host 192.0.2.1",
     "The actor is dead because its owner has died. Owner Id: 01 Owner Ip address: 192.0.2.1 Owner worker exit type: "
     "SYSTEM_ERROR"},
    {"ray-actor-ended", "", "The actor is dead because it was killed by `ray.kill`."},
    {"ray-actor-gone", "", "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."},
    {"ray-node-lost", "host 192.0.2.4",
     "(raylet) The node with node id: a1b2 and address: 192.0.2.4 and node name: n4 has been marked dead because the "
     "detector has missed too "
     "many heartbeats from it. This can happen when a \t(1) raylet crashes unexpectedly (OOM, etc.)"},
    {"ray-node-lost", "host 192.0.2.4",
     "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node IP: "
     "192.0.2.4, node ID: a1."},
    {"ray-node-lost", "",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 7\n\tip: "
     "192.0.2.4\n"
     "The actor died because its node has died. Node Id: a1b2\n\tthe actor's node was terminated unexpectedly: health "
     "check failed"},
    {"ray-node-preempted", "",
     "The actor died because its node has died. Node Id: a1b2\n\tthe actor's node was preempted: spot"},
    {"ray-raylet-died", "",
     "Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM "
     "killer"},
    {"ray-raylet-died", "",
     "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information."},
    {"ray-head-lost", "", "Failed to connect to GCS within 60 seconds. GCS may have been killed."},
    {"ray-object-store-full", "",
     "ray.exceptions.ObjectStoreFullError: Failed to put object a1 in object store because it is full."},
    {"ray-disk-filling", "",
     "(raylet) file_system_monitor.cc:116: /tmp/ray/session_1 is over 95% full, available space: 1; capacity: 2."},
    {"ray-resources", "",
     "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}] within 1800 seconds. See "
     "`ray status`"},
    {"ray-resources", "", "ValueError: Total available GPUs 8 is less than total desired GPUs 16"},
    {"ray-resources-wait", "",
     "Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}. cannot be scheduled right "
     "now. It requires"},
    {"ray-runtime-env", "", "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment."},
    {"ray-ranks-missing", "ranks 1,3", "The following ranks have not joined the collective operation: [1, 3]"},
    /* vLLM and SGLang */
    {"vllm-engine-died", "actor EngineCore_DP0",
     "ERROR 01-01 10:00:00 [core_client.py:600] Engine core proc EngineCore_DP0 died unexpectedly, shutting down "
     "client."},
    {"vllm-engine-died", "",
     "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root "
     "cause."},
    {"vllm-engine-died", "actor EngineCore_DP0",
     "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': "
     "1}"},
    {"vllm-worker-died", "rank 3",
     "ERROR 01-01 10:00:00 [multiproc_executor.py:140] Worker proc VllmWorker-3 died unexpectedly, shutting down "
     "executor."},
    {"killed", "process (pid 88)", "ERROR 01-01 10:00:00 Worker VllmWorkerProcess pid 88 died, exit code: -9"},
    {"python-name-missing", "actor EngineCore_DP0 (pid 9)",
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] EngineCore failed to start.\n"
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] Traceback (most recent call last):\n"
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] AttributeError: 'X' object has no attribute 'y'"},
    {"python-exception", "actor RayWorkerWrapper on 10.0.0.8 (pid 18)",
     "(RayWorkerWrapper pid=18, ip=10.0.0.8) ERROR 01-01 10:00:00 worker_base.py:382] Error executing method "
     "init_device. This might cause "
     "deadlock in distributed execution.\n(RayWorkerWrapper pid=18, ip=10.0.0.8) ERROR 01-01 10:00:00 "
     "worker_base.py:382] ValueError: x"},
    {"vllm-worker-trace", "",
     "ERROR 01-01 10:00:00 [worker_base.py:620] Error executing method 'load_model'. This might cause deadlock in "
     "distributed execution."},
    {"cuda-check-failed", "", "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'invalid argument'"},
    {"vllm-worker-silent", "", "TimeoutError: RPC call to execute_model timed out."},
    {"vllm-broadcast-waits", "",
     "INFO 01-01 10:00:00 [shm_broadcast.py:548] No available shared memory broadcast block found in 60 seconds."},
    {"inference-cache-memory", "",
     "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"},
    {"inference-memory-taken", "actor Worker (pid 9)",
     "(Worker pid=9) ERROR 01-01 10:00:00 [multiproc_executor.py:901] ValueError: Free memory on device cuda:0 "
     "(52.81/95.01 GiB) on startup "
     "is less than desired GPU memory utilization (0.9, 85.51 GiB)."},
    {"inference-cache-memory", "", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."},
    {"sglang-trace", "actor TP3",
     "[2025-01-01 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):"},
    {"sglang-process-died", "", "Received sigquit from a child process. It usually means the child failed."},
    {"sglang-process-died", "rank 2",
     "RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a "
     "common"},
    {"sglang-process-died", "process (pid 77)", "Scheduler or DataParallelController 77 terminated with -9"},
    {"sglang-watchdog", "",
     "[2025-01-01 10:00:00] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"},
    {"sglang-ranks-missing", "",
     "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading."},
    {"generation-server-unreachable", "",
     "ConnectionError: The vLLM server can't be reached at http://n1:8000 after 240 seconds. Make sure"},
    /* DeepSpeed, Megatron, numbers */
    {"deepspeed-ranks-disagree", "",
     "RuntimeError: disagreement between rank0 and rank3: rank0: [1, 2], rank3: [1, 3]"},
    {"deepspeed-checkpoint-world", "",
     "ZeRORuntimeException: The checkpoint being loaded used a DP world size of 8 but the current world size is 4."},
    {"megatron-result-invalid", "rank 13 on node-15 (GPU 5)",
     "AssertionError: Rank 13: found NaN in local grad norm in backward pass before data-parallel communication "
     "collective. Device: 5, node: node-15"},
    {"megatron-result-invalid", "rank 3 on n1 (GPU 2)",
     "RuntimeError: Rank 3, node n1, device 2, iteration 17: Unexpected result nan (message='found NaN in local "
     "forward loss calculation')"},
    {"megatron-gpu-fault", "rank 3 on n1 (GPU 2)",
     "Rank 3, node n1, device 2, iteration #17: Possible persistent error!!"},
    {"loss-printed-nan", "",
     " iteration     5426/  250000 | consumed samples: 8 | lm loss: NAN | loss scale: 1.0 | grad norm: 1.0 |"},
    {"loss-anomaly", "", "RuntimeError: Train loss contains a NaN."},
    {"loss-anomaly", "",
     "Monitored metric val_loss = nan is not finite. Previous best value was 1.000. Signaling Trainer to stop."},
    {"loss-printed-nan", "", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.1}"},
    {"loss-scale-minimum", "",
     "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."},
    {"deepspeed-loss-scale-minimum", "",
     "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."},
    /* Horovod */
    {"horovod-stall", "ranks 1,3",
     "[1,0]<stderr>:[W stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or "
     "broadcasted by subset of ranks and "
     "are waiting for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying "
     "to submit\n"
     "[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:1: [grad.0, grad.1]\n[1,0]<stderr>:3!: [grad.0]"},
    {"horovod-shut-down", "",
     "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception on "
     "one of the ranks"},
    {"horovod-process-failed", "rank 1",
     "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to "
     "be terminated. The first "
     "process to do so was:\nProcess name: 1\nExit code: 1"},
    {"horovod-mismatch", "",
     "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [3], but another rank sent a tensor of shape "
     "[4]."},
    /* checkpoints */
    {"checkpoint-write-failed", "",
     "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 448 vs 342"},
    {"checkpoint-write-failed", "", "RuntimeError: basic_ios::clear: iostream error"},
    {"checkpoint-serialize", "",
     "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 5, kind: Other, message: \"x\" })"},
    {"checkpoint-serialize", "", "RuntimeError: Parent directory /out/step_9 does not exist."},
    {"checkpoint-exception", "ranks 1,3",
     "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([1, 3])"},
    {"checkpoint-safe-load", "", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"},
    {"pickle-empty", "", "EOFError: Ran out of input"},
    {"checkpoint-device", "",
     "RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 4."},
    {"checkpoint-keys", "", "RuntimeError: Missing key in checkpoint state_dict: model.x."},
    {"checkpoint-load-failed", "", "ERROR: Invalid metadata file /ckpt/latest_checkpointed_iteration.txt. Exiting"},
    {"megatron-no-checkpoint", "", "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt"},
    /* data */
    {"dataloader-worker-died", "",
     "    raise RuntimeError(f'DataLoader worker (pid(s) {pids_str}) exited unexpectedly') from e\n"
     "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly"},
    {"killed", "rank 2", "Process 2 exit with status code 137."},
    {"cuda-unknown-error", "local rank 3",
     "[default3]:terminate called after throwing an instance of 'c10::CUDAError'\n"
     "[default3]:  what():  CUDA error: unknown error"},
    {"mpich-error", "rank 0",
     "Rank 0 [Sat May 22 07:06:41 2021] [c3-0c2s4n2] Fatal error in MPI_Comm_spawn: Other MPI error, error stack:\n"
     "MPI_Comm_spawn(144).........: MPI_Comm_spawn(cmd=\"w\", argv=(nil), maxprocs=2, MPI_INFO_NULL, root=0) failed\n"
     "MPID_Comm_spawn_multiple(70): Function MPID_Comm_spawn_multiple not implemented"},
    {"dataloader-worker-killed", "process (pid 12)",
     "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. "},
    {"dataloader-shm", "process (pid 12)",
     "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's"},
    {"python-name-missing", "rank 2",
     "[rank2]: KeyError: Caught KeyError in DataLoader worker process 3.\n[rank2]: Original Traceback (most recent "
     "call last):\n[rank2]: KeyError: 'x'"},
    {"batch-does-not-stack", "",
     "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1"},
    {"shapes-differ-between-ranks", "",
     "Cannot apply desired operation due to shape mismatches. All shapes across devices must be valid."},
    {"too-many-files", "", "RuntimeError: received 0 items of ancdata"},
    {"python-exception", "rank 3", "[rank3]: RuntimeError: tokens of document 7 are missing"},
    {"python-own-check", "rank 3", "[rank3]: AssertionError"},
    {"python-exception", "", "    pyarrow.lib.ArrowTypeError: x"},
    {"data-file-damaged", "rank 3", "[rank3]: pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer"},
    {"python-exception", "", "Exception: a reason"},
    {"python-exception", "", "2025-01-01 10:00:00,100 - trainer - ERROR - ValueError: x"},
    {"python-exception", "", "2025-01-01 10:00:00,100 ValueError: x"},
    /* JAX */
    {"jax-task-lost", "task 5",
     "UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat timeout. This indicates that the remote task has "
     "failed"},
    {"jax-task-lost", "task 1",
     "UNAVAILABLE: The following tasks are unhealthy (stopped sending "
     "heartbeats):\n/job:jax_worker/replica:0/task:1\nThe tasks have crashed."},
    {"jax-task-lost", "task 3",
     "ABORTED: /job:jax_worker/replica:0/task:3 unexpectedly tried to connect with a different incarnation. It has "
     "likely restarted."},
    {"jax-task-lost", "task 5",
     "UNAVAILABLE: Task 5 heartbeat timeout. This indicates that the remote task has failed"},
    {"jax-task-lost", "tasks 8,10",
     "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n8\n10\nThe tasks have crashed."},
    {"jax-task-lost", "task 3", "ABORTED: 3 unexpectedly tried to connect with a different incarnation."},
    {"jax-barrier", "tasks 1,3",
     "DEADLINE_EXCEEDED: Barrier timed out. Id: b::0. This usually happens because a task triggered the barrier too "
     "early.\n# of tasks that reached the barrier: 2/4.\nThe first task at the barrier: 0. Some timed out task "
     "names:\n1\n3\n"},
    {"megascale-bad-chip", "host n7",
     "Megascale detects a hang that is likely caused by bad TPU chips on the following hosts. Please remove the hosts "
     "from the fleet.\n  The host that have bad TPUs are: n7\n  Full error digest:"},
    {"megascale-hang", "", "Megascale hang detected: Timed out waiting for 4 graphs to complete at launch_id 13650."},
    {"jax-programs-differ", "",
     "Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device "
     "check-failure. Node 0 halted unexpectedly at tag:pc TensorCoreSequencer:1:0x1d9: scheckne: \n***\nAn unexpected "
     "leader shows up in the launch group with a different launch id than the current group leader."},
    {"tpu-addresses", "",
     "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: Invalid --x_worker_addresses specified. "
     "Expected 4 worker addresses, got 1."},
    {"ascend-hccl-absent", "ranks 1,3,5",
     "TopoDetect ERROR occur !!! fault_type[1], fault_info[\"Failed to connect agent[1,3,5,]\"]"},
    {"jax-service-ended", "",
     "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that "
     "another task died"},
    {"jax-service-ended", "",
     "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted "
     "unexpectedly"},
    {"jax-coordinator-unreachable", "",
     "DEADLINE_EXCEEDED: Deadline Exceeded\nAdditional GRPC error information from remote target coordination_service "
     "while calling "
     "/tensorflow.CoordinationService/RegisterTask:"},
    {"jax-rendezvous", "",
     "[id=3] This thread has been waiting for `all-reduce` for 10 seconds and may be stuck. All 8 threads joined the "
     "rendezvous"},
    {"accelerator-out-of-memory", "",
     "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 18.5G of 15.7G hbm."},
    {"cuda-out-of-memory", "",
     "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes."},
    {"jax-task-lost", "task 0",
     "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): /job:jax_worker/replica:0/task:0"},
    {"jax-task-lost", "tasks 8,10",
     " 0: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n 0: "
     "/job:jax_worker/replica:0/task:8\n"
     " 0: /job:jax_worker/replica:0/task:10\n 0: The tasks have crashed."},
    {"jax-barrier", "task 1",
     "INTERNAL: Getting local topologies failed: Error 1: GetKeyValue() timed out with key: cuda:local_topology/cuda/1 "
     "and duration: 2m"},
    {"jax-programs-differ", "",
     "An unexpected peer shows up in the launch group with a different launch id than the current group leader."},
    {"jax-programs-differ", "", "AssertionError: sync_global_devices name mismatch ('step')."},
    {"jax-backend", "",
     "RuntimeError: Unable to initialize backend 'tpu': INTERNAL: Failed to get global TPU topology."},
    {"ray-start-timeout", "",
     "Exception: The current node timed out during startup. This could happen because some of the raylet failed to "
     "startup"},
    {"ray-actor-gone", "",
     "TimeoutError: Failed to get register_center_actor x_register_center in [] for 300 seconds."},
    {"program-not-started", "", "python: can't open file '/job/train.py': [Errno 2] No such file or directory"},
    {"program-not-started", "", "[rank3]: /usr/bin/python3: No module named train"},
    {"program-arguments", "", "train.py: error: unrecognized arguments: --local_rank=0"},
    {"loss-scale-minimum", "", "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1"},
    {"loss-scale-minimum", "",
     "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 4.76837158203125e-07"},
    {"vllm-engine-died", "",
     "AsyncEngineDeadError: Task finished unexpectedly. This should never happen! Please open an issue on Github."},
    {"sglang-trace", "",
     "[2025-01-01 10:00:00] TpModelWorkerClient hit an exception: Traceback (most recent call last):"},
    {"jax-rendezvous", "",
     "Termination timeout for `all-reduce` of 40 seconds exceeded. Exiting to ensure a consistent program state."},
    {"torchrun-agents-lost", "", "torch.distributed.elastic.rendezvous.api.RendezvousGracefulExitError"},
    {"interrupted", "", " [2025-01-01 10:00:00] exiting program after receiving SIGTERM."},
    {"interrupted", "", "[rank1]: KeyboardInterrupt"},
    {"megatron-helpers", "", "ERROR:megatron.core.datasets.utils:Failed to compile the C++ dataset helper functions"},
    {"gradients-differ", "",
     "FloatingPointError: Fatal error: gradients are inconsistent between workers. Try --ddp-backend=legacy_ddp."},
    {"torch-compile-failed", "rank 1", "[rank1]: torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"},
    {"lightning-slurm", "",
     "RuntimeError: You set `--ntasks=8` in your SLURM bash script, but this variable is not supported. HINT: Use"},
    {"gloo-sizes-differ", "",
     "[rank1]: RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length "
     "<= op.nbytes. 16 vs 8"},
    {"cuda-invalid-device", "",
     "MisconfigurationException: You requested gpu: [0, 1]\n But your machine only has: [0]"},
    {"hub-download", "",
     "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the"},
    {"ssh-login-failed", "host n7", "ssh: connect to host n7 port 22: No route to host"},
    {"ssh-login-failed", "host n7", "pdsh@n1: n7: connect: timed out"},
    {"ssh-login-failed", "host n7", "user@n7: Permission denied (publickey)."},
    {"tpu-held", "",
     "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 9."},
    /* networks */
    {"nccl-connect-refused", "",
     "n1:40:41 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Software "
     "caused "
     "connection abort"},
    {"nccl-connect-refused", "",
     "n1:7:8 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying (34/34) after sleep for 3400 "
     "msec"},
    {"nccl-connect-retried", "",
     "n1:7:8 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying (1/34) after sleep for 100 "
     "msec"},
    {"nccl-connect-retried", "", "n1:7:8 [0] NCCL INFO Call to connect returned Connection refused, retrying"},
    {"nccl-connect-retried", "",
     "n1:7:8 [0] NCCL INFO socketPollConnect: connect to 192.0.2.4<4111> returned Connection refused, retrying (13/34) "
     "after sleep for 1300 msec"},
    {"nccl-ib-async-event", "host n1 (mlx5_3:1)",
     "n1:7:8 [3] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_3:1 async fatal event on QP (0x7f01): local access "
     "violation work queue error"},
    {"nccl-ib-port-down", "host n1 (mlx5_3:1)",
     "n1:7:8 [3] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error"},
    {"nccl-ib-event-harmless", "GPU 3 on n1 (pid 7)",
     "n1:7:8 [3] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_3:1 Got async error event: client reregistration"},
    {"nccl-ib-event-harmless", "host n1 (pid 33913)",
     "[16300.549] [n1:33913:1]      ib_device.c:482  UCX  WARN  IB Async event on mlx5_0: SM change on port 1"},
    {"nccl-shm-attach", "",
     "n1:7:8 [0] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-a1 (size "
     "14156128), error: No such file or directory (2)"},
    {"nccl-shm-register", "host n1",
     "n1:7:8 [1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'\n"
     "n1:7:8 [1] misc/shmutils.cc:114 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a1 (size "
     "9637888)"},
    {"nccl-p2p-failure", "host n1",
     "n1:7:8 [0] allocator.cc:89 (ncclMemAlloc) NCCL WARN Cuda failure 205 'mapping of buffer object failed'\n"
     "n1: Test NCCL failure common.cu:1107 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '"},
    {"nccl-peer-limit", "host n1",
     "n1:7:8 [0] allocator.cc:79 NCCL WARN Cuda failure 711 'peer mapping resources exhausted'\n"
     "RuntimeError: NCCL error: unhandled cuda error"},
    {"nccl-nvls", "host n1",
     "n1:7:8 [0] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'\n"
     "RuntimeError: NCCL error: unhandled cuda error"},
    {"nccl-ofi-missing", "GPU 0 on n1 (pid 7)",
     "n1:7:8 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available"},
    {"nccl-ofi-setup", "rank 23 on n1 (GPU 7, pid 7)",
     "[1,23]<stdout>:n1:7:8 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: "
     "Invalid "
     "argument"},
    {"nccl-ofi-request", "",
     "n1:7:8 [0] ofi_process_cq:1033 NCCL WARN NET/OFI Request 0x7f1b completed with error. RC: 21. Error: 4 (unknown "
     "error). Completed length: 0, Request: { dev: 0 }"},
    {"ofi-no-provider", "",
     "2025:01:01-10:00:00:( 8320) |CCL_ERROR| atl_ofi.cpp:243 init: can't find suitable provider\n"
     "RuntimeError: oneCCL: atl_ofi_comm.cpp:278 init_transport: EXCEPTION: failed to initialize ATL"},
    {"ofi-no-provider", "",
     "find_provider(2819)..........: OFI fi_getinfo() failed (ofi_init.c:2819:find_provider:No data)"},
    {"oneccl-worker", "",
     "2025:01:01-10:00:00:(35980) |CCL_ERROR| base_thread.cpp:36 start: error while creating worker thread #0 "
     "pthread_create returns 22\n"
     "RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 0"},
    {"ucx-retry-exceeded", "",
     "[n1:31180:0:31180] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 "
     "hw_synd "
     "0/0)\nmpirun noticed that process rank 3 with PID 31180 on node n1 exited on signal 6 (Aborted)."},
    {"ucx-memlock", "host n1 (pid 118)",
     "[166.473] [n1:118:0]  ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. Please "
     "set max "
     "locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"},
    {"host-name-unknown", "host head-1",
     "(A pid=3, ip=10.1.1.4) [0]:[W socket.cpp:558] [c10d] The IPv6 network addresses of (head-1, 50176) cannot be "
     "retrieved (gai error: -2 - Name or service not known).\n"
     "(A pid=3, ip=10.1.1.4) [0]:[W socket.cpp:558] [c10d] The IPv4 network addresses of (head-1, 50176) cannot be "
     "retrieved (gai error: -2 - Name or service not known).\n"
     "(A pid=3, ip=10.1.1.4) [0]:[E socket.cpp:610] [c10d] The client socket has failed to connect to any network "
     "address of (head-1, 50176)."},
    {"slurm-controller", "", "squeue: fatal: Could not establish a configuration source"},
    {"slurm-step-waits", "rank 29",
     "29: srun: Job 77 step creation still disabled, retrying (Requested nodes are busy)"},
    {"nccl-sizes-differ", "",
     "0: n1:7:8 [5] bootstrap.cc:77 NCCL WARN Message truncated : received 256 bytes instead of 4"},
    {"nccl-sizes-differ", "",
     "transport/net_socket.cc:424 NCCL WARN NET/Socket : peer 10.0.0.3<59210> message truncated : receiving 1048576 "
     "bytes "
     "instead of 65536"},
    {"nccl-ras-mismatch", "",
     "  Communicator ranks have different AllGather operation counts\n  30 ranks have launched up to operation 640\n"
     "  Rank 12 -- GPU 4 managed by process 323 on node 10.1.1.4"},
    {"nccl-ras-missing-rank", "rank 1 on 10.1.1.4 (GPU 0, pid 600)",
     "  Missing communicator data from 1 rank\n  Rank 1 -- GPU 0 managed by process 600 on node 10.1.1.4"},
    {"deepep-timeout", "",
     "DeepEP dispatch NVL receiver timeout, channel: 6, RDMA: 0, nvl: 0, src NVL: 5, head: 315, tail: 315\n"
     "  what():  Failed: CUDA error /x/deep_ep.cpp:83 'unspecified launch failure'"},
    {"nvshmem-setup", "",
     "/x/nvshmem/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA"},
    {"openmpi-tcp", "",
     "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n\n  Local host: n2\n"
     "  PID:        24\n  Message:    connect() to 169.254.1.1:1026 failed\n  Error:      Resource temporarily "
     "unavailable "
     "(11)"},
    {"openmpi-tcp", "",
     "[n1][[32355,1],2][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] connect() to 192.168.122.1 "
     "failed: No "
     "route to host (113)"},
    {"mpi-pmi-mismatch", "", "[n1:4242] OPAL ERROR: Error in file pmix2x_client.c at line 109"},
    {"slurm-pmix", "",
     "slurmstepd: error:  mpi/pmix_v2: _tcp_connect: n3 [0]: pmixp_dconn_tcp.c:139: Cannot establish the connection"},
    {"slurm-node-fail", "host n4",
     "slurmstepd: error:  mpi/pmix_v5: pmixp_p2p_send: n3 [4]: pmixp_utils.c:469: send failed, rc=1001, exceeded the "
     "retry "
     "limit\nsrun: error: Node failure on n4"},
    {"container-start", "host n2",
     "slurmstepd: error: pyxis: container start failed with error code: 1\nslurmstepd: error: pyxis: couldn't start "
     "container\nsrun: error: n2: task 1: Exited with exit code 1"},
    {"launcher-command-failed", "",
     "UnexpectedStatusException: Error for Training job j: Failed. Reason: AlgorithmError: ExecuteUserScriptError:"},
    {"mpi-ofi-failed", "",
     "MPICH ERROR [Rank 519] [job id 94.0] [Tue Jan  1 10:00:00 2025] [n1] - Abort(539602063) (rank 519 in comm 0): "
     "Fatal "
     "error in PMPI_Iprobe: Other MPI error, error stack:\n"
     "MPIDI_OFI_handle_cq_error(1075): OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error "
     "- "
     "PTLTE_NOT_FOUND)"},
    {"mpi-ofi-failed", "", "mtl_ofi.h:101: Error returned from fi_cq_readerr: Resource temporarily unavailable(-11)."},
    {"mpi-queue-full", "",
     "PE 0: MPICH WARNING: OFI is failing to make progress on posting a receive. MPICH suspects a hang due to "
     "completion "
     "queue exhaustion."},
    {"nccl-ib-connect", "", "Failed to modify QP to RTR: Connection timed out"},
    {"nccl-connect-refused", "",
     "h-7:41:43 [1] NCCL INFO ncclOsSocketPollConnect: connect to 10.9.0.4<21700> returned Connection refused, "
     "retrying "
     "(34/34) after sleep for 3400 msec"},
    {"nccl-connect-refused", "",
     "h-7:41:43 [0] NCCL INFO Call to connect returned Connection refused, retrying\n"
     "h-7:41:43 [0] include/socket.h:390 NCCL WARN Connect to 10.9.0.4<21700> failed : Connection refused"},
    {"nccl-ib-connect", "",
     "n1:7:8 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable"},
    {"cuda-fallen-off-bus", "GPU 0000:17:00.0",
     "CUDA Error: no CUDA-capable device is detected\n"
     "Unable to determine the device handle for GPU0000:17:00.0: Unknown Error"},
    {"nccl-ofi-request", "",
     "libfabric:45:17::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Invalid address My EFA addr: a My "
     "host "
     "id: i-0db Peer EFA addr: b Peer host id: i-0ce (7)"},
    {"ssh-login-failed", "host w-0",
     "ssh: Could not resolve hostname w-0: Temporary failure in name resolution\n"
     "ORTE was unable to reliably start one or more daemons."},
    {"kubernetes-image", "pod job-master-0",
     "Error from server (BadRequest): container \"pytorch\" in pod \"job-master-0\" is waiting to start: trying and "
     "failing to pull image"},
    {"rocm-hardware-error", "GPU 0000:dd:00.0",
     "[50.5] amdgpu 0000:dd:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"},
    /* accelerators and containers */
    {"nvidia-access-lost", "", "Failed to initialize NVML: Unknown Error\nRuntimeError: No CUDA GPUs are available"},
    {"container-gpu", "",
     "docker: Error response from daemon: failed to create task for container: nvidia-container-cli: initialization "
     "error: "
     "driver rpc error: timed out: unknown."},
    {"fabric-manager-needless", "",
     "nvidia-fabricmanager-start.sh[4]: request to query NVSwitch device information from NVSwitch driver failed with "
     "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"},
    {"rocm-queue-no-memory", "",
     ":0:rocdevice.cpp :2786: 1 us: Callback: Queue 0x7f01 aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES "
     "code: 1"},
    {"neuron-load", "",
     "RuntimeError: INTERNAL: From /job:c_localservice/replica:0/task:0:\n  (0) INTERNAL: Nrt::Load failed on "
     "NeuronCores "
     "0-0(2): nrt_load status=1, error message=\"Non specific failure\"."},
    {"neuron-driver", "",
     "2025-Jan-01 10:00:00.0082 11:11 ERROR NRT:nrt_init Unable to determine Neuron Driver version. Please check"},
    {"gaudi-acquire", "", "RuntimeError: synStatus=26 [Generic failure] Device acquire failed."},
    {"gaudi-failed", "rank 2",
     "[rank2]: RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure]."},
    {"ascend-hccp-process", "",
     "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\n"
     "EJ0001: 2025-01-01-10:00:00 Failed to initialize the HCCP process. Reason: Maybe the last training process is "
     "running."},
    {"ascend-hccl-mismatch", "",
     "EI0005: The arguments for collective communication are inconsistent between ranks: count"},
    {"ascend-hccl-timeout", "", "EI0002: The wait execution of the Notify register times out. Reason: unknown"},
    {"ascend-hccl-port", "host 192.0.2.7 (pid 77)",
     "[ERROR] HCCL(77,python):2026-01-10-11:43:09.1 [hccl_socket.cc:1] [77][HcclSocket][Listen] socket type[1], listen "
     "on ip[192.0.2.7] and specific port[16666] fail. Please check the port status."},
    {"ascend-kernel-failed", "process (pid 77, chipId:7, dieId:0)",
     "EZ9999[PID: 77] 2026-01-10-11:43:09.1 (EZ9999): The error from device(chipId:7, dieId:0), serial number is 9, "
     "there is an exception of fftsplus aicore error, core id is 12, error code = 0x20000"},
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
    /* A loss that is not there */
    {"loss-left-out", "",
     " iteration       10/  250000 | elapsed time per iteration (ms): 12.0 | loss scale: 1.0 | grad norm: 0.751 | "},
    {"loss-left-out", "",
     " iteration       10/  250000 | loss scale: 512.0 | grad norm: 0.751 | number of skipped iterations:   0 |"},
    {"ucx-device-open", "",
     "[1767225600.123456] [n1:77  :0]  ib_md.c:1933 UCX  ERROR ibv_open_device(mlx5_9) failed: No such file or "
     "directory"},
};

/* Logs, and the beginning of what is said of them. */
static const struct {
    const char *text, *headline;
} logs[] = {
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

static void begin(void)
{
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
}

static void read_text(const char *text)
{
    char path[512];
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_OK(tess_survey_read(&survey, path));
}

static const char *id_of(int entry)
{
    return tess_knowledge_at(knowledge, entry)->row.id;
}

/* Whether the text is the entry, about `who`, and nothing else is a cause; says what is not so. */
static bool is_sample(const char *id, const char *who, const char *text)
{
    char named[400] = "", causes[400] = "";
    size_t n = 0;
    bool is_there = false;
    read_text(text);
    for (int i = 0; i < tess_knowledge_n(knowledge); i++) {
        if (survey.matches[i].n_lines == 0)
            continue;
        if (strcmp(id_of(i), id) == 0) {
            is_there = true;
            log_who_text(&survey.matches[i].who, named, sizeof(named));
        } else if (log_role_of(&survey, i) == TESS_LOG_CAUSE) {
            n = tess_text_add(causes, sizeof(causes), n, " %s", id_of(i));
        }
    }
    tess_survey_free(&survey);
    bool is_right = is_there && causes[0] == '\0' && strcmp(named, who) == 0;
    if (!is_right)
        fprintf(stderr, "\"%.100s\": %s%s; about '%s', expected '%s'; other causes:%s\n", text, id,
                is_there ? "" : " is not found", named, who, causes);
    return is_right;
}

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    int n_wrong = 0;
    begin();
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        n_wrong += !is_sample(samples[i].id, samples[i].who, samples[i].text);
    EXPECT_INT(n_wrong, 0);
    tess_knowledge_destroy(&knowledge);
}

static void a_cause_is_told_from_who_reports_it(void)
{
    tess_log_diagnosis diagnosis;
    begin();
    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        read_text(logs[i].text);
        tess_log_diagnose(&survey, 0, &diagnosis);
        if (strncmp(diagnosis.headline, logs[i].headline, strlen(logs[i].headline)) != 0)
            test_fail(__FILE__, __LINE__, "\"%.80s\": expected \"%s\" in \"%s\"", logs[i].text, logs[i].headline,
                      diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static void lines_of_healthy_runs_are_no_errors(void)
{
    begin();
    for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
        read_text(healthy[i]);
        for (int e = 0; e < tess_knowledge_n(knowledge); e++)
            if (survey.matches[e].n_lines > 0 && log_role_of(&survey, e) <= TESS_LOG_EFFECT)
                test_fail(__FILE__, __LINE__, "\"%.100s\" is called %s", healthy[i], id_of(e));
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static const test_case cases[] = {
    CASE(each_text_is_its_entry_and_names_whom_it_is_about),
    CASE(a_cause_is_told_from_who_reports_it),
    CASE(lines_of_healthy_runs_are_no_errors),
};

TEST_MAIN(cases)
