/* Whom the headline of a diagnosis names: who only reports what another one did is never the culprit. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

#define STEP(n) "2026-01-10 11:43:09,1 Node[0] Epoch[" #n "] Batch [20-40] Speed: 2047.38 samples/sec accuracy=0.1\n"
#define PROBE \
    "[1767225600.123456] [n1:77  :0]  ib_md.c:1933 UCX  ERROR ibv_open_device(mlx5_9) failed: No such device\n"

static const struct {
    const char *text, *headline, *absent; /* the headline has the words `headline`, and not `absent` (NULL: any) */
} samples[] = {
    /* The printer of an effect is not the culprit, and does not lend its name to a line of nobody. */
    {"[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)\n"
     "[2025-03-09 00:57:15 TP0] Watchdog timeout (self.watchdog_timeout=300)\n"
     "[2025-03-09 00:57:20] Received sigquit from a child process. It usually means the child failed.\nKilled\n",
     "only what follows from one: a scheduler of SGLang stood still", "one: actor"},
    {"[2025-06-26 07:25:31 DP4 TP4] Watchdog timeout (self.watchdog_timeout=300)\n",
     "look into those of the other ranks", "one: actor"},
    {"[2025-06-26 07:25:31 PP1 ATTN_CP0 MOE_DP2 TP3 EP1] torch.OutOfMemoryError: CUDA out of memory.\n",
     "actor PP1 ATTN_CP0 MOE_DP2 TP3 EP1: a device", NULL},
    {"[2025-06-26 07:25:31 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
     "  File \"x.py\", line 3, in f\n"
     "ValueError: TP rank 0 could finish the model loading, but there are other ranks that didn't finish loading.\n",
     "another rank did not finish to load", "TP0:"},
    {"run.sh: line 3: 77 Killed python t.py\n", "process (pid 77): a process got SIGKILL", NULL},
    {"[launch.py:131:sigkill_handler] Killing subprocess 250621\nKilled\n", "DeepSpeed's launcher ends the ranks",
     "SIGKILL"},
    /* No answer of the other side. */
    {"[n1:77:0:77] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"
     "[n1:77:0:77] ib_mlx5_log.c:177  DCI QP 0xd16 wqe[6168]: SEND s-e [rqpn 0x17de rlid 1037] [va 0x7f len 5770]\n"
     "[n1:78:0:78] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd "
     "0/0)\n",
     "from host n1 (mlx5_0:1/IB) to rlid 1037", "n1:"},
    {"[master:77:0:77] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)\n",
     "reported by host master (pid 77, mlx5_0:1/RoCE)", "master:"},
    {"n1:7:8 [1] net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 192.0.2.7<1> with error 4, opcode 1, len 1\n"
     "n2:9:9 [1] net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 192.0.2.1<1> with error 4, opcode 1, len 1\n"
     "n1:7:8 [1] net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 192.0.2.7<1> with error 4, opcode 1, len 1\n",
     "status 4), from GPU 1 on n1, n2 to 192.0.2.7, 192.0.2.1", NULL},
    /* A process that a launcher saw end because it had waited for too long. */
    {"Timed out waiting 1800000ms for send operation to complete\n-- Process 3 terminated with the following error:\n"
     "Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n",
     "only what follows from one: gloo waited", "rank 3"},
    /* Things that ranks share, such as storage and settings, are not the fault of the rank that reports them. */
    {"[rank3]: OSError: [Errno 122] Disk quota exceeded\n", "the quota of the user, group or folder", "rank 3:"},
    {"[rank7]:  iteration 5/ 10 | lm loss: nan | grad norm: nan |\n", "NaN", "rank 7:"},
    /* All processes of torchrun's list that ended at once are named, and the missing beginning of the list is reported.
     */
    {"Failures:\n[1]:\n  time      : 2023-07-24_10:22:38\n  host      : n1\n  rank      : 1 (local_rank: 1)\n"
     "  exitcode  : -7 (pid: 753)\n  error_file: <N/A>\n  traceback : Signal 7 (SIGBUS) received by PID 753\n"
     "[2]:\n  time      : 2023-07-24_10:22:39\n  host      : n1\n  rank      : 2 (local_rank: 2)\n"
     "  exitcode  : -7 (pid: 754)\n",
     "ranks 1-2 on n1: a mapped page could not be had", "pid 753"},
    {"Failures:\n[1]:\n  time      : 2023-07-24_10:22:38\n  host      : n1\n  rank      : 1 (local_rank: 1)\n"
     "  exitcode  : 1 (pid: 753)\n",
     "rank 1 on n1 (pid 753) failed, with exit code 1, as torchrun saw it; the error itself is not in these logs; whom "
     "torchrun saw end first (its Root "
     "Cause)",
     NULL},
    {"Failures:\n[1]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 753)\n", "no error that ends a job",
     "rank 1"},
    /* Names in a later line of the same message. */
    {"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
     "RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error.\n",
     "process (pid 325): a data worker", NULL},
    {"mean/HorovodAllreduce_mean_0 [missing ranks: 0, 1, 3, 4]\nmean/HorovodAllreduce_mean_0 [missing ranks: 0, 1, "
     "4]\n",
     "ranks 0-1,4: ", NULL},
    {"2023-04-29 06:01:12.977 [177/train/578 (pid 28936)] OSError: [Errno 28] No space left on device\n",
     "reported by process (pid 28936)", "rank 177"},
    {"F0501 14:26:21.964082  4048 node_manager.cc:395] Check failed: x Exiting because this node manager has "
     "mistakenly "
     "been marked dead by the monitor.\n",
     "process (pid 4048): Ray's own process", NULL},
    {"[2023-05-01 14:26:21,964 C 4048 4060] (raylet) node_manager.cc:1036: [Timeout] Exiting because this node manager "
     "has mistakenly been marked as dead by the GCS\n",
     "process (pid 4048): Ray's own process", NULL},
    /* A warning alone is no error, but is reported. */
    {"kernel: NVRM: Xid (PCI:0018:01:00): 145, pid=1, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x4 0x1)\n",
     "no error that ends a job is in these logs, only a warning: GPU 0018:01:00: ", NULL},
    {"    message: '0/3 nodes are available: 3 Insufficient cpu.'\n    reason: Unschedulable\n",
     "no error that ends a job is in these logs, only a warning: a pod waits for a node: 3 Insufficient cpu", NULL},
    {"Exception ignored in: <function _It.__del__ at 0x2>\nTraceback (most recent call last):\n"
     "  File \"/v/torch/utils/data/dataloader.py\", line 399, in __del__\n    self._shutdown_workers()\n"
     "  File \"/v/multiprocessing/connection.py\", line 493, in Client\n    answer",
     "no error that ends a job is in these logs, only a warning: Python went on", NULL},
    {"n1:7:8 [0] NCCL INFO NET/IB : No device found.\n", "no error that ends a job", "warning"},
    /* Several processes of whom one says the same at once. */
    {"(raylet) [2025-10-31 17:08:05,490 E 7 7] (raylet) worker_pool.cc:586: Some workers of the worker process(26154) "
     "have "
     "not registered within the timeout. The process is dead, probably it crashed during start.\n"
     "(raylet) [2025-10-31 17:08:05,550 E 7 7] (raylet) worker_pool.cc:586: Some workers of the worker process(26158) "
     "have "
     "not registered within the timeout. The process is dead, probably it crashed during start.\n",
     "processes (pids 26154, 26158): a Ray worker process died", NULL},
    {"[n1:00823] Signal: Segmentation fault (11)\n[n1:00824] Signal: Segmentation fault (11)\n",
     "host n1 (pids 823, 824): a process crashed", NULL},
    /* A process on a host that is lost is not the cause. */
    {"ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n        class_name: "
     "Actor\n"
     "        pid: 248\n        ip: 192.0.2.142\n"
     "The actor is dead because its node has died. Node Id: 2eea4cfb179c\n",
     "host 192.0.2.142 (pid 248): Ray lost a host: Node Id: 2eea4cfb179c", NULL},
    {"ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n        class_name: F\n"
     "The actor is dead because its node has died. Node Id: 5d11b677f340\n"
     "The actor never ran - it was cancelled before it started running.\n",
     "Ray lost a host: Node Id: 5d11b677f340", NULL},
    {"[n2:00823] Signal: Segmentation fault (11)\nORTE was unable to reliably start one or more daemons.\n",
     "host n2 (pid 823): a process crashed", NULL},
    /* A host that lacks something, and the rank that saw it first. */
    {"[rank1]: torch.distributed.DistBackendError: Error while creating shared memory segment /dev/shm/nccl-x (size "
     "9)\n",
     "NCCL got no shared memory, reported by rank 1", "rank 1:"},
    {"MPICH ERROR [Rank 202] [job id 2.0] [Fri Sep 25 12:09:31 2026] [nid005874]\n"
     "Fatal error in PMPI_Waitall: Other MPI error\nMPIDI_OFI_handle_cq_error(1310): OFI poll failed\n",
     "a transfer of MPI over libfabric failed, reported by rank 202", NULL},
    /* A trace whose end is an effect: who prints it waited. */
    {"2024-08-22 13:50:25 ERROR 7 [worker_base.py:148] Error executing method start_worker. This might cause deadlock "
     "in "
     "distributed execution.\n2024-08-22 13:50:25 ERROR 7 [worker_base.py:148] RuntimeError: "
     "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer\n",
     "only what follows from one: a peer of gloo ended", NULL},
    /* Hosts that print the same at once. */
    {"node-a: RuntimeError: CUDA error: an illegal memory access was encountered\n"
     "node-b: RuntimeError: CUDA error: an illegal memory access was encountered\n",
     "hosts node-a, node-b: a kernel read or wrote", NULL},
    {"node-a: run.sh: line 3: 77 Killed python t.py\nnode-b: run.sh: line 3: 78 Killed python t.py\n",
     "hosts node-a, node-b: a process got SIGKILL", NULL},
    {"node-a: Segmentation fault (core dumped)\nnode-b: Segmentation fault (core dumped)\n",
     "hosts node-a, node-b: a process crashed", NULL},
    {"node-a: [2025-01-01 10:00:00,130] [ERROR] [launch.py:321:sigkill_handler] ['python', '--local_rank=7'] exits "
     "with "
     "return code = -9\n"
     "node-b: [2025-01-01 10:00:01,130] [ERROR] [launch.py:321:sigkill_handler] ['python', '--local_rank=7'] exits "
     "with "
     "return code = -9\n",
     "hosts node-a, node-b: a process got SIGKILL", "local rank"},
    {"AssertionError: Rank 13: found NaN in local grad norm in backward pass before data-parallel communication\n"
     "collective. Device: 5, node: node-15-11\n",
     "rank 13 on node-15-11 (GPU 5): the loss or gradients", NULL},
    /* A launcher that says which rank it was. */
    {"[2025-12-16 14:27:10] Rank 3 scheduler is dead. Please check if there are relevant logs.\n"
     "[2025-12-16 14:27:10] Exit code: -9\n",
     "rank 3: a process got SIGKILL", NULL},
    /* A line of NCCL names its GPU; lines of several GPUs are about their host. */
    {"n1:7:8 [4] transport/nvls.cc:245 NCCL WARN Cuda failure 'invalid argument'\n",
     "host n1: NCCL could not set up NVLink SHARP (NVLS), reported by its GPU 4", NULL},
    {"n1:7:8 [4] transport/nvls.cc:245 NCCL WARN Cuda failure 'invalid argument'\n"
     "n1:9:9 [5] transport/nvls.cc:245 NCCL WARN Cuda failure 'invalid argument'\n",
     "host n1: NCCL could not set up NVLink SHARP (NVLS)", "GPU"},
    /* A line that announced a traceback, whose exception is not there, says less than an effect. */
    {"[rank2]:[E101 11:43:09.1 ProcessGroupGloo.cpp:143] Rank 2 successfully reached monitoredBarrier, but received "
     "errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
     "[2026-01-10 11:43:09 TP2] Scheduler hit an exception: Traceback (most recent call last):\n"
     "  File \"a/scheduler.py\", line 3, in run\n    s = Scheduler()\n"
     "  File \"a/worker.py\", line 9, in __init__\n",
     "rank 0: a rank could not be reached in a barrier any more", "TP2"},
    /* The process whose traceback is cut ended, not the one that reports it. */
    {"(APIServer pid=70) ERROR 01-10 11:43:09 [chat.py:12] x.EngineDeadError: EngineCore encountered an issue. See "
     "stack "
     "trace (above) for the root cause.\n"
     "(EngineCore_DP1 pid=77) Traceback (most recent call last):\n"
     "(EngineCore_DP1 pid=77)   File \"a/process.py\", line 3, in _bootstrap\n(EngineCore_DP1 pid=77)     self.run()\n",
     "actor EngineCore_DP1 (pid 77): vLLM's engine process ended", "APIServer"},
    /* The only process that torchrun saw end raised the exception that is there. */
    {"Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    y = a @ b\n"
     "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
     "E0110 11:43:09.1 7 torch/api.py:826] failed (exitcode: 1) local_rank: 2 (pid: 4127) of binary: /bin/python\n",
     "local rank 2 (pid 4127): cuBLAS or cuDNN failed", NULL},
    {"Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    y = a @ b\n"
     "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
     "ERROR:torch.api:failed (exitcode: 1) local_rank: 2 (pid: 4127) of binary: /bin/python\n"
     "ERROR:torch.api:failed (exitcode: 1) local_rank: 3 (pid: 4128) of binary: /bin/python\n",
     "cuBLAS or cuDNN failed", "local rank"},
    {"[rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
     "send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
     "E0110 11:43:09.1 7 torch/api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 7214) of binary: /bin/python\n",
     "rank 0 (pid 7214): a rank could not be reached in a barrier", NULL},
    /* The first Xid of a GPU is the cause of the later ones; an error long before is not one of them. */
    {"[Fri Aug 30 12:02:41 2024] peermem: x:127 ERROR detected invalid context of a program\n"
     "[Fri Aug 30 12:34:28 2024] NVRM: Xid (PCI:0000:3b:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp "
     "Exception on (GPC 7, TPC 6, SM 1): Illegal Instruction Parameter\n"
     "[Fri Aug 30 12:34:33 2024] NVRM: Xid (PCI:0000:3b:00): 109, pid=77, name=python, Ch 00000008, errorString CTX "
     "SWITCH TIMEOUT, Info 0x58005\n",
     "GPU 0000:3b:00 (pid 77): the driver reported a fault of a program", "before it"},
    {"NVRM: Xid (PCI:0000:3b:00): 109, pid=77, name=python, Ch 8, errorString CTX SWITCH TIMEOUT, Info 0x5\n",
     "did not switch from one process to another", NULL},
    /* Lines that each name two ranks on one GPU are about one group of ranks. */
    {"n1:7:8 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000\n"
     "n1:8:8 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 1000\n",
     "ranks 0,2-3 on n1 (GPU 1000): several ranks use one GPU", NULL},
    /* Hosts by the prefixes of launchers and harnesses, events of Kubernetes and the prompt of a shell. */
    {"NODE6E: OSError: [Errno 24] Too many open files\n", "host NODE6E: a process may open no more files", NULL},
    {"EZ9999: OSError: [Errno 24] Too many open files\n", "a process may open no more files", "host"},
    {"2026-01-10 11:43:09.1[7][DEBUG] lisa.env[e1].node[3].cmd[4].stdout Error 802: system not yet initialized\n",
     "host node[3]: GPUs behind NVSwitch", NULL},
    {"Normal Scheduled 26m default-scheduler Successfully assigned gpu/job-0 to node-a.example\n"
     "Warning FailedCreatePodSandBox 4m kubelet no runtime for \"nvidia\" is configured\n",
     "host node-a.example: a container with GPUs", NULL},
    {"Normal Scheduled 26m default-scheduler Successfully assigned gpu/job-0 to node-a.example\n"
     "Normal Scheduled 26m default-scheduler Successfully assigned gpu/job-1 to node-b.example\n"
     "Warning FailedCreatePodSandBox 4m kubelet no runtime for \"nvidia\" is configured\n",
     "a container with GPUs", "host node"},
    {"(env) root@0a1b2c:/data# python t.py\n"
     "a/joblib/x.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode\n",
     "host 0a1b2c: there was no room for a semaphore in /dev/shm", "disk"},
    {"Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    q = SimpleQueue()\n"
     "  File \"/usr/lib/python3.12/multiprocessing/synchronize.py\", line 57, in __init__\n    sl = SemLock(k)\n"
     "OSError: [Errno 28] No space left on device\n",
     "there was no room for a lock or semaphore in /dev/shm", "disk"},
    {"Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    f.write(b)\n"
     "OSError: [Errno 28] No space left on device\n",
     "its disk is full", "/dev/shm"},
    /* A device that could not be opened is no error if the run goes on. */
    {PROBE STEP(1) STEP(2), "UCX could not open an InfiniBand or RoCE card", "no error"},
    {PROBE STEP(1) STEP(2) STEP(3) STEP(4), "no error that ends a job is in these logs", "root cause"},
    /* A loss that is left out is named with its step. */
    {" iteration 7/ 9 | lm loss: 7.3E-01 | loss scale: 1.0 | grad norm: 0.7 |\n"
     " iteration 8/ 9 | learning rate: 6E-06 | loss scale: 1.0 | grad n",
     "the loss of a step is missing; Megatron leaves out one that is NaN (or not above zero) (step 8)", NULL},
    /* The device and the core of a fault on an NPU, and the device that has no memory. */
    {"RecentErrMsg: [PID: 77] Memory_Allocation_Failure(EL0004): Failed to allocate memory.\n"
     "        TraceBack (most recent call last):\n"
     "        open device 2 failed, runtime result = 507033.[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:148]\n",
     "no memory for the next allocation: device 2", NULL},
    {"(j pid=7) I 01-10 11:43:09 controller.py:100] The cluster is preempted.\n"
     "(j pid=7) E 01-10 11:43:39 backend_utils.py:999] Failed to cancel jobs on cluster job-a-7.\n",
     "the cloud takes a machine of the job back (spot, preemption or maintenance): job-a-7", NULL},
    {"FatalError: A serious error (Termination signal) is detected by the operating system. (at init.cc:303)\n"
     "  [SignalInfo: *** SIGTERM (@0x92b7) received by PID 77 (TID 0x7f) from PID 76 ***]\n",
     "a process of Paddle was asked to end (SIGTERM)", "root cause"},
    /* Jobs that a shell reports, the worker of a data loader, and the file of a checkpoint. */
    {"run.sh: line 9: 77 Aborted                 (core dumped) python t.py --a\n"
     "run.sh: line 9: 78 Aborted                 (core dumped) python t.py\n",
     "processes (pids 77, 78): a process ended itself (SIGABRT)", NULL},
    {"AssertionError: Caught AssertionError in DataLoader worker process 3.\nOriginal Traceback (most recent call "
     "last):\n"
     "  File \"a/data.py\", line 3, in __getitem__\n    assert len(a) == len(b)\nAssertionError\n",
     "AssertionError (assert len(a) == len(b)), in data worker 3", NULL},
    {"load checkpoint from local path: out/step_10.pth\nTraceback (most recent call last):\n  File \"x.py\", line 3, "
     "in f\n"
     "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n",
     "a corrupt checkpoint; it cannot be read: out/step_10.pth", NULL},
    /* A warning that is repeated is what is known, if there is nothing else. */
    {"'(MaxRetryError(\"HTTPSConnectionPool(host='hub.example', port=443): Max retries exceeded with url: /a (Caused "
     "by "
     "ConnectTimeoutError(<x>, 'timed out'))\"))' thrown while requesting HEAD https://hub.example/a\n"
     "'(MaxRetryError(\"HTTPSConnectionPool(host='hub.example', port=443): Max retries exceeded with url: /a (Caused "
     "by "
     "ConnectTimeoutError(<x>, 'timed out'))\"))' thrown while requesting HEAD https://hub.example/a\n",
     "the files do not come: hub.example (2 times); no error that ends a job", NULL},
};

static void the_headline_names_whom_the_lines_are_about(void)
{
    char path[512];
    tess_knowledge *knowledge;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const char *headline = samples[i].headline, *absent = samples[i].absent;
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        EXPECT_OK(tess_os_write_atomic(path, samples[i].text, strlen(samples[i].text)));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        if (strstr(diagnosis.headline, headline) == NULL ||
            (absent != NULL && strstr(diagnosis.headline, absent) != NULL))
            test_fail(__FILE__, __LINE__, "\"%.100s\": expected \"%s\" without \"%s\" in \"%s\"", samples[i].text,
                      headline, absent != NULL ? absent : "", diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* One function decides what is a host, wherever a host is read. */
static void words_of_logs_are_no_hosts(void)
{
    static const struct {
        const char *text;
        bool anywhere, expected;
    } words[] = {{"node-a", true, true},
                 {"worker3", true, true},
                 {"10.0.0.2", true, true},
                 {"DGX-04", true, true},
                 {"c000001", true, true},
                 {"gpu017.cluster.example", true, true},
                 {"trainer", false, true},
                 {"a100", false, true},
                 {"INFO", false, false},
                 {"localhost", false, false},
                 {"127.0.0.1", false, false},
                 {"rank3", false, false},
                 {"train.py", false, false},
                 {"torch.distributed.run", false, false},
                 {"socket.gaierror", false, false},
                 {"nvidia-container-cli", false, false},
                 {"unknown", false, false},
                 {"", false, false}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *text = words[i].text;
        if (log_is_host(text, strlen(text), LOG_HOST_ANYWHERE) != words[i].anywhere ||
            log_is_host(text, strlen(text), LOG_HOST_EXPECTED) != words[i].expected)
            test_fail(__FILE__, __LINE__, "'%s' is taken for something else", text);
    }
}

static const test_case cases[] = {
    CASE(words_of_logs_are_no_hosts),
    CASE(the_headline_names_whom_the_lines_are_about),
};

TEST_MAIN(cases)
