/* Messages whose family is told from the word that differs: the same line of a program with another code, another name
 * or another beginning. Each text gives the words of the headline, and whether it is a root cause. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

#define ROW(pid, rss, name) "[ 77.1] [ " #pid "]  1000 " #pid " 5861879 " #rss " 2015232 30009 -998 " name "\n"

typedef struct sample {
    const char *text, *headline; /* the headline begins with these words; "": nothing is found */
    bool is_cause;
} sample;

static const sample hosts_and_jobs[] = {
    /* The kernel's table shows the process that used most, where the line that names the killed one is cut off. */
    {ROW(41, 276, "init") ROW(102, 47747, "python") ROW(103, 243385180, "python3")
         ROW(104, 2529507, "python") "[ 77.2] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=38e6\n",
     "the kernel killed a process, because its container or cgroup reached its memory limit; the largest process was "
     "python3 (pid 103), 928 GiB",
     true},
    {ROW(41, 276, "init") ROW(102, 47747, "python") "[ 77.2] Out of memory: Killed process 102 (python) total-vm:1kB\n",
     "process (pid 102): the kernel killed a process for memory", true},
    {"(my-task, pid=77) I 12-10 21:39:39 controller.py:118] Cluster is preempted (status: INIT). Recovering...\n",
     "task my-task (pid 77): the cloud takes a machine", true},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
     "job 77.0 on n1: the job reached its time limit", true},
    {"submitit WARNING (2026-01-01 04:18:45,881) - Bypassing signal SIGTERM\n"
     "submitit WARNING (2026-01-01 04:18:45,881) - Caught signal SIGUSR2 on n1: this job is preempted.\n"
     "submitit INFO (2026-01-01 04:18:45,912) - Requeued job 78 (3 remaining timeouts)\n",
     "job 78: the scheduler took the job back (preemption)", true},
    {"submitit WARNING (2026-01-01 04:18:45,881) - Caught signal SIGUSR2 on n1: this job is timed-out.\n",
     "the job reached its time limit", true},
    {"rank 3 in job 1  n1_4567   caused collective abort of all ranks\n  exit status of rank 3: killed by signal 9\n",
     "rank 3: a process got SIGKILL", false},
    {"[launch.py:1:sigkill_handler] Killing subprocess 80\n"
     "[launch.py:2:sigkill_handler] ['python3', '-u', 't.py', '--local_rank=0'] exits with return code = -9\n",
     "local rank 0: a process got SIGKILL", false},
    {"[launch.py:1:sigkill_handler] Killing subprocess 80\n[launch.py:1:sigkill_handler] Killing subprocess 81\n"
     "[launch.py:2:sigkill_handler] ['python3', '-u', 't.py', '--local_rank=1'] exits with return code = -9\n",
     "a process got SIGKILL", false},
    {"double free or corruption (!prev)\nt.sh: line 3: 77 Aborted (core dumped) python t.py\n",
     "native code damaged the memory of its own process (a check of the allocator or of glibc), and the process "
     "aborted: double free",
     true},
    {"W0110 09:35:41.194000 77 torch/distributed/elastic/agent/server/api.py:719] Received 1 death signal, shutting "
     "down\n",
     "the launcher's terminal or session was closed (SIGHUP), and it ended its ranks, reported by process (pid 77)",
     true},
    {"W0110 09:35:41.194000 140123456 torch/distributed/elastic/agent/server/api.py:719] Received 1 death signal, "
     "shutting down\n",
     "the launcher's terminal or session was closed (SIGHUP), and it ended its ranks", true},
};

static const sample launchers[] = {
    {"rank3: RuntimeError: CUDA error: an illegal memory access was encountered\n", "rank 3: a kernel read", true},
    {"rank3: ValueError: x\n", "rank 3: a Python exception: ValueError: x", true},
    {"[GPU 3] RuntimeError: CUDA error: an illegal memory access was encountered\n", "GPU 3: a kernel read", true},
    {"2026-01-01 10:00:00 n1 python[123]: RuntimeError: CUDA error: an illegal memory access was encountered\n",
     "host n1: a kernel read", true},
    {"(APIServer pid=32) (EngineCore_0 pid=296) (VllmWorker TP0 pid=302) ERROR 09-07 11:25:27 "
     "[multiproc_executor.py:559] "
     "RuntimeError: CUDA error: an illegal memory access was encountered\n",
     "actor VllmWorker TP0 (pid 302): a kernel read or wrote", true},
    {"2026-01-16 20:44:18 192.0.2.8 [14] RuntimeError: CUDA error: an illegal memory access was encountered\n",
     "task 14 on 192.0.2.8: a kernel read or wrote", true},
    {"torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 2 (pid: 77) of binary: "
     "p\n",
     "local rank 2 (pid 77): a process got SIGKILL", false},
    {"*** SIGSEGV (@(nil)), see gl__41#s15 received by PID 77 (TID 78) on cpu 17; stack trace: ***\n",
     "process (pid 77): a process crashed (a segmentation fault, SIGSEGV)", false},
    {"E1224 22:35:53.165575   26868 continuator.cc:1331] 0x0x0_TC0: *** Halt is unexpected, all pending programs will "
     "fail. This is likely an XLA compiler bug\n",
     "a core of a TPU halted", false},
    {"132 | 1534166953114 | pciBusID: 0000:00:06.0\n133 | 1534166953117 | RuntimeError: CUDA out of memory.\n",
     "a device (or a pool) has no memory", true},
    {"LAUNCH ERROR 2026-03-10 00:35:50,216 Container failed !!!\nContainer rank 1 status failed cmd ['python', '-u', "
     "'t.py'] code -9 log ./log/workerlog.1\n",
     "local rank 1: a process got SIGKILL", false},
    {"LAUNCH INFO 2026-11-21 02:35:54,384 Pod failed\nContainer rank 0 status failed cmd ['python', '-u', 't.py'] code "
     "1 "
     "log log/workerlog.0\n",
     "local rank 0: it is a process that ended with an error, as Paddle's launcher says", false},
    {"W0409 07:28:49.530000 1359 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting "
     "down workers\nW0409 07:28:49.531000 1359 torch/distributed/elastic/multiprocessing/api.py:897] Sending process "
     "1365 closing signal SIGTERM\n",
     "no error that ends a job is in these logs, only what follows from one: the launcher (torchrun's agent) was asked "
     "to "
     "end from outside",
     false},
    {"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
     "/g/gloo/transport/tcp/pair.cc:498] optval == 0. 111 vs 0. SO_ERROR: Connection refused\n",
     "ranks of gloo did not connect to each other", false},
    {"Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    os.environ['MASTER_ADDR']\n"
     "KeyError: 'MASTER_ADDR'\n",
     "a process does not have the variables that tell it its rank and its peers", true},
    {"Port 29500 is in use, trying 29501\n", "", false},
    {"INFO 12-23 23:51:23 [gpu_worker.py:298] Available KV cache memory: 52.77 GiB\n", "", false},
    {"NAME      READY     STATUS    RESTARTS   AGE\njob-0-ft226   1/1       Running   0          15m\n", "", false},
    {"22/06/01 10:29:44 ERROR tracker: 2022-06-01 10:29:44,401 INFO [0] train-logloss:0.39\n", "", false},
    {"[22340.220490] amdgpu: sq_intr: error, detail 0x00000000, type 1, sh 1, priv 1, wave_id 4, simd_id 0, wgp_id 0\n",
     "an AMD GPU stopped with an exception", true},
};

static const sample storage_and_peers[] = {
    {"[1,mpirank:7,algo-1]<stderr>:RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n",
     "rank 7 on algo-1: a device (or a pool) has no memory", true},
    {"The replica workerpool1-1 exited with a non-zero status of 1. Termination reason: Error.\n",
     "actor workerpool1-1: an operator of Kubernetes saw a pod of the job end", false},
    {"The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137(OOM).\n",
     "actor workerpool0-0: the kernel killed a process of a container for memory", true},
    {"RuntimeError: Failed to download s3://data/train/index.json -> /tmp/x/train/index.json. Got errors:\n",
     "an object store (S3, GCS, Azure) did not serve a request: s3://data/train/index.json", true},
    {"[unset]: aborting job:\nFatal error in PMPI_Init_thread:\nInternal MPI error!, error stack:\n"
     "MPIR_Init_thread(446)......:\nrdma_iba_hca_init_noqp(679): Attributes failed sanity check\n",
     "a call of MPI failed, and MPICH (or Intel MPI, MVAPICH) ends the job: Attributes failed sanity check", false},
    {"OSError: [Errno 108] Cannot send after transport endpoint shutdown\n", "storage failed", true},
    {"OSError: [Errno 112] Host is down: '/mnt/data'\n", "storage failed", true},
    {"[rank0]: ValueError: Checksum mismatch for shard.00001.mds\n", "rank 0: a data file cannot be decoded", true},
    {"zlib.error: Error -3 while decompressing data: incorrect header check\n", "a data file cannot be decoded", true},
    {"pyxis: error: a container with name \"x\" does not exist, and --container-image is not set\n",
     "a container could not be started", true},
    {"/var/spool/slurmd/job7/slurm_script: line 9: torchrun: command not found\n",
     "a script calls a command that is not there: torchrun", true},
    {"OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.\n",
     "the OpenMP library refused to start or to go on", true},
    {"lightgbm.basic.LightGBMError: Connecting to rank 3 failed\n", "rank 3: workers of XGBoost or LightGBM lost",
     false},
    {"*** Error in `/usr/bin/python': free(): invalid pointer: 0x00007ff37b2f34d8 ***\n",
     "native code damaged the memory of its own process", true},
};

static const sample more_signals[] = {
    {"!!!!!!! Segfault encountered !!!!!!!\n", "a process crashed (a segmentation fault, SIGSEGV)", false},
    {"torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization with error: device >= 0 && device < "
     "num_gpus INTERNAL ASSERT FAILED\n",
     "a process asks for a GPU that it does not see", true},
    {"jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Mosaic failed to compile TPU kernel: Not implemented\n",
     "XLA could not compile a program", true},
};

static const sample losses[] = {
    {"iter 100: loss nan, time 100ms\n", "training diverged", false},
    {"INFO Train: [0/300][4050/5004] lr 0.000500 train_loss=inf mem 4814MB\n", "training diverged", false},
    {"\"loss\": NaN, \"step\": 10\n", "training diverged", false},
    {"step 3 val_loss=nan lr 0.1\nloss scale: 1.0 loss=nan_checked\n", "", false},
};

static const sample clusters[] = {
    {"grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = "
     "StatusCode.UNAVAILABLE\n",
     "a connection to another process broke, or nothing listened there", false},
    {"ray.exceptions.RaySystemError: System error: RPC Error message: failed to connect to all addresses; last error: "
     "UNKNOWN: ipv4:192.0.2.8:6379: tcp handshaker shutdown; RPC Error details:\n",
     "a process of Ray does not reach the head (its GCS): 192.0.2.8:6379", false},
    {"E0101 00:00:00.000000 1 coordination_service_agent.cc:1] UNAVAILABLE: Socket closed\nF0101 00:00:00.000000 1 "
     "client.h:77] Terminating process because the JAX distributed service detected fatal errors.\n",
     "no error that ends a job is in these logs, only what follows from one: JAX ends a process", false},
    {"Events:\n  Normal   Scheduled    4m44s  default-scheduler  Successfully assigned ns/job-0 to n1\n"
     "  Warning  FailedMount  102s   kubelet  MountVolume.SetUp failed for volume \"nfs\" : mount failed: exit status "
     "32\n"
     "Mounting arguments: -t nfs store-a:/data /var/lib/kubelet/pods/5088/volumes/nfs\n",
     "pod job-0 on n1 (to store-a): Kubernetes could not mount what a pod asks for: \"nfs\"", true},
    {"NAME      READY     STATUS    RESTARTS   AGE\njob-0-ft226   0/1       Pending   0          15m\n"
     "  Warning  FailedScheduling  2s  default-scheduler  0/6 nodes are available: 6 Insufficient nvidia.com/gpu.\n",
     "no error that ends a job is in these logs, only a warning: pod job-0-ft226: a pod waits for a node", false},
    {"1m Warning FailedScheduling pod/job-1 0/6 nodes are available: 6 Insufficient nvidia.com/gpu.\n",
     "no error that ends a job is in these logs, only a warning: pod job-1: a pod waits for a node", false},
    {"1m Normal TaintManagerEviction pod/job-2 Marking for deletion Pod default/job-2\n",
     "pod job-2: the node of a pod was shut down", true},
    {"ERROR:tensorflow:Remote function on worker /job:worker/replica:0/task:1 failed with UnavailableError():failed\n"
     "Additional GRPC error information from remote target /job:ps/replica:0/task:0/device:CPU:0 while calling /x:\n",
     "task /job:ps/replica:0/task:0: a task of TensorFlow's cluster was not reached", false},
    {"tensorflow.python.framework.errors_impl.UnavailableError: Socket closed\n", "", false},
    {"tensorflow.python.framework.errors_impl.UnknownError: Failed to get convolution algorithm. This is probably "
     "because cuDNN failed to initialize, so try looking\n",
     "cuBLAS or cuDNN could not start or run in TensorFlow, mostly because the GPU has no memory left for it", true},
    {"tensorflow.python.framework.errors_impl.NotFoundError: Key conv1/weights not found in checkpoint\n",
     "a checkpoint does not have what the model asks for", true},
    {"2026-01-01 00:00:00.1: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic "
     "library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file\n",
     "", false},
    {"(1) RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory.\nException in device=TPU:4: RES\n",
     "TPU:4: a device of JAX has no memory", true},
};

static const sample engines_and_builds[] = {
    {"(EngineCore_DP0 pid=77) INFO 12-23 23:51:23 [gpu_worker.py:298] Available KV cache memory: -2.77 GiB\n"
     "(EngineCore_DP0 pid=77) ERROR 12-23 23:51:23 [core.py:708] EngineCore failed to start.\n",
     "actor EngineCore_DP0 (pid 77): the GPU has too little free memory", true},
    {"ERROR 06-26 23:10:17 [async_llm.py:420] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an "
     "issue.\n"
     "Failed: Cuda error /w/csrc/custom_all_reduce.cuh:455 'an illegal memory access was encountered'\n",
     "a kernel read or wrote where it must not", true},
    {"ERROR 06-26 23:10:17 [async_llm.py:420] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an "
     "issue.\n"
     "Failed: Cuda error /w/csrc/custom_all_red\n",
     "a CUDA call failed in the engine's own all-reduce", true},
    {"ray.exceptions.RayTaskError(RuntimeError): ray::WorkerDict.save() (pid=77, ip=[192.0.2.4], actor_id=3f65)\n"
     "  File \"torch/serialization.py\", line 1266, in _save\n"
     "RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file data/37\n",
     "a checkpoint could not be written, reported by actor WorkerDict.save on 192.0.2.4 (pid 77)", true},
    {"nvcc fatal   : Unsupported gpu architecture 'compute_89'\nninja: build stopped: subcommand failed.\n",
     "an extension was not built, because the compiler (nvcc) does not know the architecture of the GPU: compute_89",
     true},
    {"Exception: >- DeepSpeed Op Builder: Installed CUDA version 12.0 does not match the version torch was compiled "
     "with "
     "11.8, unable to compile\n",
     "an extension was not built, because the CUDA toolkit of the system is not of the version", true},
    {"FAILED: adam.cuda.o\ncsrc/adam.cu:12:10: fatal error: cuda_fp8.h: No such file or directory\n"
     "ninja: build stopped: subcommand failed.\n",
     "an extension was not built, because its source did not compile or link: cuda_fp8.h", true},
    {"AssertionError: Index file doesn't match expected format. Make sure that --dataset-impl is configured "
     "properly.\n",
     "the index of a tokenized data set (.idx) is damaged", true},
    {"OSError: Unable to open file (unable to lock file, errno = 11, error message = 'Resource temporarily "
     "unavailable')\n",
     "a file is locked by another process", true},
    {"ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n",
     "an address or port that the program wants to listen on is taken: '0.0.0.0', 8000", true},
    {"[W socket.cpp:401] [c10d] The server socket has failed to listen on [::]:47531 (errno: 98 - Address already in "
     "use).\n",
     "the port of the store is taken: [::]:47531", true},
    {"n1:7:8 [3] NCCL INFO misc/socket.cc:567 -> 2\nn1:7:8 [3] NCCL INFO transport/net_socket.cc:336 -> 2\n"
     "n1:7:8 [3] proxy.cc:1519 NCCL WARN [Proxy Service 11] Failed to execute operation Connect from rank 11, retcode "
     "2\n",
     "rank 11 on n1 (GPU 3, pid 7): NCCL could not use a TCP socket", false},
    {"n1:7:8 [3] NCCL INFO misc/socket.cc:47 -> 3\nn1:7:8 [3] NCCL INFO misc/socket.cc:829 -> 3\n", "", false},
    {"[rank8]:[W318 11:02:41.9 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=1, addr=[n2]:48750, "
     "remote=[n1]:20000): Connection reset by peer\n",
     "no error that ends a job is in these logs, only what follows from one: the store's connection broke, reported by "
     "rank 8; look into those of n1",
     false},
    {"unable to create StreamExecutor for CUDA:1: failed initializing: CUDA_ERROR_INVALID_DEVICE: invalid device "
     "ordinal\n",
     "a process asks for a GPU that it does not see, or sees the wrong GPU: CUDA:1", true},
};

static const sample named_causes[] = {
    /* A container's name is read from the prefix of compose, whatever letters it has. */
    {"algo-1-X7YK_1  | 2026-01-01 04:33:21,672 ERROR - x - An error occurred (403) when calling the HeadObject "
     "operation: Forbidden\n",
     "an object store (S3, GCS, Azure) did not serve a request, because credentials or rights are missing: (403) when "
     "calling the HeadObject operation: Forbidden, reported by container algo-1-X7YK_1",
     true},
    {"trainer_2 | RuntimeError: CUDA error: an illegal memory access was encountered\n",
     "container trainer_2: a kernel", true},
    {"THCudaCheck FAIL file=/x/THCGeneral.cpp line=47 error=804 : forward compatibility was attempted on non supported "
     "HW\n",
     "CUDA's library (libcuda) and the NVIDIA driver in the kernel do not fit each other (CUDA error 803 or 804): "
     "forward compatibility",
     true},
    {"RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
     "NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver / cuda "
     "driver combination\n",
     "CUDA's library (libcuda) and the NVIDIA driver in the kernel do not fit each other (CUDA error 803 or 804): "
     "unsupported display",
     true},
    {"RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 35: CUDA driver version is insufficient for CUDA "
     "runtime version\n",
     "the driver is older than the CUDA of PyTorch needs", true},
    {"ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization "
     "(0.95, "
     "45.01 GiB).\nValueError: No available memory for the cache blocks.\n",
     "other processes already held memory of the GPU when the engine started, so less is free than it asks for: "
     "31.44/47.38 GiB",
     true},
    {"n1:77:88 [4] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed\nn1:77:88 [4] NCCL INFO ib_plugin.c:196 -> 2\n"
     "n1:77:89 [5] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed\n"
     "n1:77:90 [6] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed\n",
     "GPUs 4, 5, 6 on n1 (pid 77): memory or a queue", true},
    {"n1:77:88 [4] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed\n"
     "n1:78:89 [5] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed\n",
     "GPUs 4, 5 on n1 (pids 77, 78): memory or a queue", true},
    {"RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\n"
     "Parameter indices which did not receive grad for rank 2: 362 363 364\n In addition, you can set\n",
     "DDP waits for gradients of parameters that the step did not use: 362 363 364, reported by rank 2", true},
    {":{\"created\":\"@1.5\",\"description\":\"Error received from peer ipv4:192.0.2.3:36169\",\"grpc_message\":"
     "\"Collective ops is aborted by: Socket closed\\nAdditional GRPC error information from remote target "
     "/job:worker/replica:0/task:1:\\n:{\"created\":\"@1.4\",\"description\":\"Error received from peer "
     "ipv4:192.0.2.7:46431\",\"grpc_message\":\"Socket closed\",\"grpc_status\":14}\n",
     "task /job:worker/replica:0/task:1 on 192.0.2.7: its connection broke in a collective of TensorFlow", false},
    {"[2026-01-01 20:08:00,117 I 77 78] main.cc:483: received SIGTERM. Existing local drain request = None\n"
     "[2026-01-01 20:08:00,117 I 77 78] main.cc:284: Raylet graceful shutdown triggered, reason = "
     "EXPECTED_TERMINATION, reason message = received SIGTERM\n",
     "no error that ends a job is in these logs, only what follows from one: process (pid 77): Ray's own process of a "
     "host (the raylet) was asked to end from outside (SIGTERM)",
     false},
    {"Collective ops is aborted by: Socket closed\nAdditional GRPC error information from remote target "
     "/job:worker/replica:0/task:1:\n",
     "no error that ends a job is in these logs, only what follows from one: a worker of TensorFlow stopped its "
     "collective, because another one ended or was not reached; look into those of /job:worker/replica:0/task:1",
     false},
    {"[2026-01-01 20:08:00,117 I 77 78] (gcs_server) gcs_node_manager.cc:9: Removing node, node name = 192.0.2.3, "
     "death "
     "reason = UNEXPECTED_TERMINATION, death message = health check failed due to missing too many heartbeats\n",
     "host 192.0.2.3: Ray lost a host: health check failed due to missing too many heartbeats", true},
    {"[2026-01-01 20:08:00,117 I 77 78] (gcs_server) gcs_node_manager.cc:9: Removing node, node name = 192.0.2.3, "
     "death "
     "reason = EXPECTED_TERMINATION, death message = received SIGTERM\n",
     "", false},
    {"[2026-01-01 20:08:00,117 I 77 78] (raylet) node_manager.cc:9: Drain raylet RPC has been received. Deadline is 0. "
     "Drain reason: DRAIN_NODE_REASON_PREEMPTION. Drain reason message: preempted\n",
     "a host of Ray was preempted or drained", true},
    {"algo-1-X7YK_1 exited with code 137\nAborting on container exit...\n",
     "container algo-1-X7YK_1: compose saw a container end with an error code", false},
    {"algo-1-X7YK_1 exited with code 0\n", "", false},
    {"[2026-01-01 20:08:00,117 E 77 78] (raylet) main.cc:284: Raylet graceful shutdown triggered, reason = "
     "UNEXPECTED_TERMINATION, reason message = agent failed\n",
     "Ray's own process of a host (the raylet) gave up its host: agent failed, reported by process (pid 77)", false},
};

static const sample subreasons[] = {
    {"60m Warning Evicted pod/job-7 Pod ephemeral local storage usage exceeds the total limit of containers "
     "1073741824. \n",
     "pod job-7: Kubernetes evicted the pod, because it wrote more to its local disk (ephemeral storage) than its "
     "limit: "
     "limit of containers 1073741824",
     true},
    {"60m Warning Evicted pod/job-7 The node was low on resource: memory. \n",
     "pod job-7: Kubernetes evicted the pod: memory", true},
    {"6m Warning Failed pod/job-7 Failed to pull image \"x/y\": rpc error: code = NotFound desc = "
     "docker.io/x/y:latest: "
     "not found\n6m Warning Failed pod/job-7 Error: ErrImagePull\n",
     "pod job-7: the registry does not have the image of a pod, or not with that tag or for that processor: \"x/y\"",
     true},
    {"6m Warning Failed pod/job-7 Failed to pull image \"x/y\": rpc error: code = Unknown desc = failed to pull: "
     "unexpected status code 401 Unauthorized\n",
     "pod job-7: the registry refused the image of a pod, for lack of credentials or rights: \"x/y\"", true},
    {"6m Warning Failed pod/job-7 Failed to pull image \"x/y\": failed to do request: dial tcp: lookup r on "
     "192.0.2.1:53: no such host\n",
     "pod job-7: a node did not reach the registry of a pod's image, or not to its end: \"x/y\"", true},
    {"6m Warning Failed pod/job-7 Failed to pull image \"x/y\": toomanyrequests: You have reached your pull rate "
     "limit.\n",
     "pod job-7: the registry limits how often images are pulled, and refused that of a pod: \"x/y\"", true},
    {"die: error: must run as root[rank5]: RuntimeError: Ninja is required to load C++ extensions\n",
     "rank 5: an extension was not built, because the build tool ninja is missing or does not run", true},
    {"OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.\n",
     "an extension was not built, because the CUDA toolkit (nvcc) is not found", true},
    {"(W rank=1 pid=77) subprocess.CalledProcessError: Command '['/x/triton/backends/nvidia/bin/ptxas', '-lineinfo', "
     "'--gpu-name=sm_100', '/tmp/t.ptx', '-o', '/tmp/t.ptx.o']' returned non-zero exit status 255.\n",
     "rank 1 (pid 77): a kernel was not compiled, because ptxas (of Triton) or NVRTC does not know the architecture of "
     "the GPU: sm_100",
     true},
    {"ptxas fatal   : Value 'sm_100a' is not defined for option 'gpu-name'\n",
     "a kernel was not compiled, because ptxas (of Triton) or NVRTC does not know the architecture of the GPU: sm_100a",
     true},
    {"RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)\n",
     "a kernel was not compiled, because ptxas (of Triton) or NVRTC does not know", true},
    {"[rank0]: RuntimeError: No backend type associated with device type xpu\n",
     "a process group has no communication backend (or it is not loaded) for this type of device: xpu, reported by "
     "rank "
     "0",
     true},
    {"RuntimeError: Unknown c10d backend type XCCL\n",
     "a process group has no communication backend (or it is not loaded) for this type of device: XCCL", true},
    {"[rank0]: RuntimeError: No backend type associated with device type cpu\n",
     "a collective was given a tensor that its backend cannot take: cpu", true},
    {"Failed to read file '/data/t.json' with error <class 'pyarrow.lib.ArrowInvalid'>: Could not convert 'x' with "
     "type "
     "str: tried to convert to double\nTraceback (most recent call last):\n  File \"t.py\", line 3, in f\n"
     "ValueError: Not able to read records in the JSON file at /data/t.json.\n"
     "datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset\n",
     "files or rows of a data set do not have the same columns or types: '/data/t.json' with error <class "
     "'pyarrow.lib.ArrowInvalid'>: Could not convert 'x'",
     true},
    {"Failed to read file '/data/t.json' with error <class 'pyarrow.lib.ArrowInvalid'>: something new\n"
     "ValueError: Not able to read records in the JSON file at /data/t.json.\n",
     "Hugging Face datasets could not read a file of a data set: '/data/t.json' with error <class "
     "'pyarrow.lib.ArrowInvalid'>: something new",
     true},
    {"../aten/src/ATen/native/cuda/Indexing.cu:1284: indexSelectLargeIndex: block: [1,0,0], thread: [0,0,0] Assertion "
     "`srcIndex < srcSelectDimSize` failed.\n",
     "a kernel's own check failed, mostly because an index (a token, position or label) is outside of its table: "
     "srcIndex < srcSelectDimSize",
     true},
    {"OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files "
     "and it looks like bert-base is not the path to a directory containing a file named config.json.\n",
     "weights or data could not be fetched: bert-base", true},
    {"huggingface_hub.errors.GatedRepoError: 403 Client Error.\nCannot access gated repo for url "
     "https://huggingface.co/x/y/resolve/main/config.json.\n",
     "the hub refused access to a model or data set that is gated or private", true},
    {"huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. Repository Not Found for url: "
     "https://huggingface.co/api/models/x.\n",
     "the hub does not have that model, data set, revision or file, or it is private: "
     "https://huggingface.co/api/models/x",
     true},
    {"requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/x\n",
     "a server (such as the hub) refused a request, because too many came at once: https://huggingface.co/x", true},
    {"huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing "
     "traffic has been disabled.\n",
     "a file of the hub is not in the cache of this host", true},
    {"botocore.exceptions.ClientError: An error occurred (NoSuchKey) when calling the GetObject operation: No key.\n",
     "an object store (S3, GCS, Azure) does not have the bucket or key that was asked for: (NoSuchKey)", true},
    {"botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation: Reduce.\n",
     "an object store (S3, GCS, Azure) did not serve a request: (SlowDown)", true},
    {"datasets.exceptions.DatasetGenerationCastError: An error occurred while generating the dataset\n\nAll the data "
     "files must have the same columns, but at some point there are 1 new columns ({'id'})\n",
     "files or rows of a data set do not have the same columns or types: there are 1 new columns ({'id'})", true},
    {"subprocess.CalledProcessError: Command '['ninja', '--version']' returned non-zero exit status 1.\n",
     "an extension was not built, because the build tool ninja is missing or does not run", true},
    {"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to 2147483648\n", "",
     false},
    {"[rank5]: RuntimeError: [PG 3 Rank 5] Process group watchdog thread terminated with exception: [Rank 5] Watchdog "
     "caught collective operation timeout: WorkNCCL(SeqNum=9141, OpType=_ALLGATHER_BASE, NumelIn=19008, "
     "NumelOut=152064, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n",
     "rank 5 waited 600 s", false},
};

static void expect_samples(const sample *samples, size_t n)
{
    tess_knowledge *knowledge;
    char path[512];
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "log.txt"));
    for (size_t i = 0; i < n; i++) {
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        const char *headline = samples[i].headline;
        EXPECT_OK(tess_os_write_atomic(path, samples[i].text, strlen(samples[i].text)));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        bool is_right = headline[0] == '\0'
                            ? diagnosis.kind <= TESS_LOG_KNOWN
                            : strncmp(diagnosis.headline, headline, strlen(headline)) == 0 &&
                                  (diagnosis.kind == TESS_LOG_ERROR && diagnosis.is_cause) == samples[i].is_cause;
        if (!is_right)
            test_fail(__FILE__, __LINE__, "\"%s\": expected '%s' (%d), got '%s' (%d)", samples[i].text, headline,
                      samples[i].is_cause, diagnosis.headline, diagnosis.is_cause);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static void hosts_jobs_and_signals_are_told_apart(void)
{
    expect_samples(hosts_and_jobs, sizeof(hosts_and_jobs) / sizeof(hosts_and_jobs[0]));
    expect_samples(more_signals, sizeof(more_signals) / sizeof(more_signals[0]));
    expect_samples(losses, sizeof(losses) / sizeof(losses[0]));
}

static void lines_of_launchers_and_collectors_are_read(void)
{
    expect_samples(launchers, sizeof(launchers) / sizeof(launchers[0]));
}

static void storage_commands_and_peers_are_known(void)
{
    expect_samples(storage_and_peers, sizeof(storage_and_peers) / sizeof(storage_and_peers[0]));
}

static void pods_and_tasks_of_clusters_are_named(void)
{
    expect_samples(clusters, sizeof(clusters) / sizeof(clusters[0]));
}

static void engines_and_builds_say_what_failed(void)
{
    expect_samples(engines_and_builds, sizeof(engines_and_builds) / sizeof(engines_and_builds[0]));
}

static void processes_and_devices_of_a_cause_are_named(void)
{
    expect_samples(named_causes, sizeof(named_causes) / sizeof(named_causes[0]));
}

static void reasons_within_a_class_are_told_apart(void)
{
    expect_samples(subreasons, sizeof(subreasons) / sizeof(subreasons[0]));
}

static void element_counts_tell_the_number_of_ranks(void)
{
    log_work gather = {.op = "_ALLGATHER_BASE", .numel_in = 19008, .numel_out = 152064};
    log_work scatter = {.op = "_REDUCE_SCATTER_BASE", .numel_in = 64, .numel_out = 16};
    log_work uneven = {.op = "ALLGATHER", .numel_in = 7, .numel_out = 16};
    log_work sum = {.op = "ALLREDUCE", .numel_in = 16, .numel_out = 16};
    EXPECT(log_ranks_by_counts(&gather) == 8);
    EXPECT(log_ranks_by_counts(&scatter) == 4);
    EXPECT(log_ranks_by_counts(&uneven) == 0);
    EXPECT(log_ranks_by_counts(&sum) == 0);
}

static const test_case cases[] = {
    CASE(hosts_jobs_and_signals_are_told_apart), CASE(lines_of_launchers_and_collectors_are_read),
    CASE(storage_commands_and_peers_are_known),  CASE(pods_and_tasks_of_clusters_are_named),
    CASE(engines_and_builds_say_what_failed),    CASE(processes_and_devices_of_a_cause_are_named),
    CASE(reasons_within_a_class_are_told_apart), CASE(element_counts_tell_the_number_of_ranks),
};

TEST_MAIN(cases)
