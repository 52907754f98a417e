/* Headlines tell what a log says, and word an inference as one. Each family of messages has the words of its headline,
 * and words that it must not have because the text does not say so. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"
#include "support/test.h"

#define BAR "Preparing set...:  46%|####      | 31/67 [29:02<35:12, 58.67s/it]\n"
#define TRACE "Traceback (most recent call last):\n  File \"t.py\", line 8, in main\n    run(args)\n"
#define COUNT \
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
#define CLOSING(pid) "W0101 10:00:19.639000 1000 api.py:1014] Sending process " pid " closing signal SIGTERM\n"
#define FAILURE(rank, second, pid)                                                                                 \
    "  time      : 2026-01-01_10:00:" second "\n  host      : n4\n  rank      : " rank " (local_rank: " rank ")\n" \
    "  exitcode  : -6 (pid: " pid ")  (SIGABRT)\n"
#define CODE(rank, code)                                                                                   \
    "  time      : 2026-01-01_10:00:20\n  host      : n4\n  rank      : " rank " (local_rank: " rank ")\n" \
    "  exitcode  : " code " (pid: 51" rank ")\n"
#define RAISED "Traceback (most recent call last):\n  File \"t.py\", line 8, in main\n"
#define ROOT "Root Cause (first observed failure):\n[0]:\n"
#define IB_TEST \
    "n4:51:61 [1] transport/net_ib/p2p.cc:783 NCCL WARN NET/IB: ncclIbTest: Got CQE with error (devIndex=0)\n"
#define IB(status)                                                                                           \
    "n4:51:61 [1] transport/net_ib.cc:648 NCCL WARN NET/IB: Got completion from peer 192.0.2.8<40554> with " \
    "status=" status " vendor_err=129 localGid ::ffff:1.1.2.2 remoteGids::ffff:1.1.1.4 hca mlx5_3\n"
#define CONNECT                                                                                                   \
    "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to (localhost, " \
    "29400).\n"

typedef struct sample {
    const char *text, *headline, *absent; /* absent NULL: any other words may be there */
} sample;

static const sample samples[] = {
    /* A message that only supposes its reason is worded so; one that shows it is not. */
    {"RuntimeError: DataLoader worker (pid 4312) is killed by signal: Bus error. It is possible that dataloader's "
     "workers are out of shared memory. Please try to raise your shared memory limit.\n",
     "supposes that shared memory ran out", "got no shared memory"},
    {"RuntimeError: unable to write to file </torch_19_77_3>\n", "a data worker got no shared memory", "supposes"},
    {"EJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training process is running.\n",
     "probably because an earlier process", "is still used"},
    {"E30003: may be other processes occupying this card\n", "probably because an earlier process", NULL},
    /* Words that Slurm and Ray share are Slurm's only on its own lines. A crash beats what it made Ray say. */
    {"ray.exceptions.ObjectLostError: Object 1f0ac35d641b4613ffffffffffff is lost due to node failure.\n",
     "asked for an object that is gone", "Slurm"},
    {"ray.exceptions.ObjectLostError: Object 1f0ac35d641b4613ffffffffffff is lost due to node failure.\n"
     "2026-01-01 10:00:01,234 WARNING worker.py:1215 -- A worker died or was killed while executing a task by an "
     "unexpected system error. Worker IP address: 192.0.2.4 Worker port: 3 Worker PID: 511\n"
     "(pid=511) *** SIGSEGV received at time=1767261601 on cpu 3 ***\n",
     "(pid 511): a process crashed", "what it said of itself"},
    {"the run of the user ended due to time limit of the queue\n", "", "Slurm"},
    {"slurmstepd: error: *** JOB 78 ON n4 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***\n",
     "Slurm lost a host", NULL},
    /* NCCL's RAS is no part of collectives. */
    {"n4:51:51 [0] ras/client_support.cc:181 NCCL WARN Call to bind failed: Address already in use\n"
     "n4:51:51 [0] NCCL INFO RAS failed to establish a client listening socket at localhost:28028\n"
     "n4:51:51 [0] NCCL INFO Bootstrap timings total 0.433246 (create 0.000034, send 0.000141)\n",
     "no error", "no free port"},
    {"n4:51:51 [0] misc/socket.cc:181 NCCL WARN Call to bind failed: Address already in use\n", "no free port", NULL},
    /* Whom torchrun stopped itself was alive when it saw the first one end. */
    {CLOSING("511") CLOSING("513") FAILURE("0", "20", "511") FAILURE("2", "20", "513") ROOT FAILURE("1", "19", "512"),
     "rank 1 on n4 (pid 512) failed first", "second"},
    {FAILURE("0", "20", "511") FAILURE("2", "20", "513") ROOT FAILURE("1", "19", "512"),
     "ended within a second of each other", "same second"},
    {FAILURE("0", "20", "511") ROOT FAILURE("1", "20", "512"), "ended in the same second", NULL},
    {"SuccessCheckpointExitCode = 77\n" CODE("0", "77") ROOT CODE("1", "77"), "calls a success", "failed"},
    {"SuccessCheckpointExitCode = 85\n" CODE("0", "77") ROOT CODE("1", "77"), "with exit code 77", "success"},
    /* A container of compose that ended with an error is no good end, whatever its name is. */
    {"dealer | RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [192.0.2.9]:7873\n"
     "party0 exited with code 0\nparty1 exited with code 0\ndealer exited with code 1\n",
     "host 192.0.2.9: a peer of gloo ended", "ended well"},
    /* The text of an exception counts, whatever the launcher logs right below it. */
    {TRACE "RuntimeError: the gradient has another type\nWARNING:torch.distributed.elastic.multiprocessing.api:Sending "
           "process 511 closing signal SIGTERM\n",
     "RuntimeError: the gradient has another type", "not in these logs"},
    {RAISED "    raise RuntimeError(\"UCC is not available.\")\n", "UCC is not available", "lost"},
    {RAISED "    raise ValueError('the mask has no rows')\n", "the mask has no rows", "text is not in"},
    {RAISED "    raise ValueError(f\"bad {name} here\")\n", "a Python exception", "bad"},
    /* The reason and the name of a kernel stand in other lines of one message of CANN. */
    {"EZ9999: [PID: 511] 2026-01-01-00:00:00.130.271 The error from device(chipId:3, dieId:0), serial number is 3, "
     "there is an exception of aivec error, core id is 7, error code = 0x800000\n"
     "  The extend info: errcode:(0x800000, 0, 0) errorStr: The UB address is not aligned. fixp_error0 info: 0x3\n"
     "  Aicore kernel execute failed, device_id=3, stream_id=2, fault kernel_name=rms_norm_8, program id=2\n",
     "core id is 7; The UB address is not aligned; fault kernel_name=rms_norm_8", NULL},
    {"RuntimeError: add:x.ts:265 NPU function error: call aclnnAdd failed, error code is 161002\n"
     "[ERROR] 2026-01-01-05:28:15 (PID:511, Device:2, RankID:-1) ERR00100 PTA call acl api failed.\n"
     "EZ1001: [PID: 511] 2026-01-01-05:28:15.526.256 tensor 1 not implemented for DT_UINT32, should be in [DT_FLOAT]\n",
     "aclnnAdd; PID:511, Device:2; tensor 1 not implemented for DT_UINT32", NULL},
    {"EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the "
     "Notify record from remote rank [5].\nthere are(is) 1 abnormal device(s):\n"
     "  serverId[192.0.2.7], deviceId[5], Heartbeat Lost Occurred, Possible Reason: 1. Process has exited\n",
     "serverId[192.0.2.7], deviceId[5], Heartbeat Lost Occurred", NULL},
    /* A status of InfiniBand, in words, and not the line that only announces it. */
    {IB_TEST IB("IBV_WC_RETRY_EXC_ERR(12)"), "got no answer of the other side", "a work request"},
    {IB_TEST IB("4 opcode=32614 len=3"),
     "local protection error, status 4), from GPU 1 on n4 (pid 51, mlx5_3) to "
     "192.0.2.8",
     NULL},
    {IB("IBV_WC_REM_INV_REQ_ERR(9)"), "refused a request", NULL},
    {IB("13 opcode=0 len=3"), "no buffer ready", NULL},
    {IB("IBV_WC_LOC_QP_OP_ERR(2)"), "status=IBV_WC_LOC_QP_OP_ERR", NULL},
    {IB_TEST, "a work request of InfiniBand failed", NULL},
    /* The reason beats what a launcher says of the end. */
    {"     bad line in namelist &control: \"  outdir = ./x,,\" (error could be in the previous line)\n"
     "Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n"
     "srun: error: n4: tasks 0-7: Killed\n",
     "rank 0: a program refused its input file", "launcher"},
    {"forrtl: severe (19): invalid reference to variable in NAMELIST input, unit 5\n", "refused its input", NULL},
    {"(Worker pid=511) Error: P2P access is not supported on this platform.\n", "pid 511): the program needs direct",
     "no error"},
    {"RuntimeError: Expected one of cpu, cuda, xpu device type at start of device string: hpu\n",
     "plug-in was not imported there: hpu", "sees no device"},
    {"RuntimeError: this step requires a GPU to run\n", "sees no device", NULL},
    {"[  9.2] NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2b85)\n"
     "               NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n"
     "[  9.3] NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x56:897)\n",
     "GPU 0000:41:00.0: this GPU needs NVIDIA's open kernel modules", "could not start a GPU"},
    {"bash: line 1: prted: command not found\nPRTE was unable to reliably start one or more daemons.\n",
     "not in the PATH there: prted", NULL},
    {"zsh:1: command not found: nothing\nORTE was unable to reliably start one or more daemons.\n",
     "could not start its daemons on the hosts", "PATH"},
    /* Whom a line is about. */
    {"Traceback (most recent call last):\n  File \"t.py\", line 8, in main\n    login(key)\nValueError: the key is too "
     "short\n[2026-01-01 03:43:23,037] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 511\n"
     "[2026-01-01 03:43:23,037] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 't.py', '--local_rank=0']\n",
     "local rank 0 (pid 511): ", NULL},
    {"Traceback (most recent call last):\n  File \"t.py\", line 8, in main\n    login(key)\nValueError: the key is too "
     "short\n[2026-01-01 03:43:23,037] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 511\n"
     "[2026-01-01 03:43:23,037] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 512\n"
     "[2026-01-01 03:43:23,037] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 't.py', '--local_rank=1']\n",
     "the key is too short", "rank"},
    {"(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: "
     "192.0.2.4 Worker port: 3 Worker PID: 511 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an "
     "exit code None. The worker may have exceeded K8s pod memory limits.\n",
     "host 192.0.2.4 (pid 511)", NULL},
    {"[ada@n7 exp]$ bash run.sh\n" CONNECT, "reported by host n7", NULL},
    {"ada@n7:~/exp$ bash run.sh\n" CONNECT, "reported by host n7", NULL},
    {"mail ada@n7.example for $ 5\n" CONNECT, "localhost, 29400", "n7"},
    {"ada@laptop:~$ kubectl describe pod job-7\nWarning  FailedScheduling  1h  default-scheduler  0/6 nodes are "
     "available: 6 Insufficient memory.\n",
     "a pod waits", "laptop"},
    {"Duplicate GPU detected : rank 0 and rank 4 both on CUDA device 7000\n[...]\n"
     "Duplicate GPU detected : rank 4 and rank 0 both on CUDA device 7000\n"
     "Duplicate GPU detected : rank 7 and rank 3 both on CUDA device c7000\n",
     "ranks 0,3-4,7: several ranks use one GPU: rank 0 and rank 4 both on CUDA device 7000; rank 7 and rank 3 both on "
     "CUDA device c7000",
     "rank 4 and rank 0"},
    {"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=4, "
     "NumelOut=4, Timeout(ms)=8000) ran for 8097 milliseconds before timing out.\n"
     " - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
     "     [2] finished collective #5, but didn't join collective #6 (count from 1)\n",
     "rank 2: PyTorch's desync report", "nobody"},
    /* A bar of a preparation explains only a wait for others, and only probably. */
    {BAR "[rank1]: torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 7/8 clients "
         "joined.\n",
     "a rank was probably still busy with it", NULL},
    {BAR "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n", "STEP 77.0 ON n1", "busy"},
    /* Resolvers, each in its own words. */
    {"nslookup: can't resolve '(null)': Name does not resolve\nnslookup: can't resolve 'job-master-0': Name does not "
     "resolve\nwaiting for master\n" TRACE,
     "job-master-0", "exception"},
    {"** server can't find job-master-0.team: NXDOMAIN\n" TRACE, "did not resolve when a tool looked it up", NULL},
    {"ping: bad address 'job-master-0'\n" TRACE, "nc): job-master-0", NULL},
    {"ping: unknown host job-master-0\n" TRACE, "nc): job-master-0", NULL},
    {"nc: getaddrinfo for host \"job-master-0\" port 29500: Name or service not known\n" TRACE, "nc): job-master-0",
     NULL},
    {"ping: job-master-0: Temporary failure in name resolution\n" TRACE, "nc): job-master-0", NULL},
    {"Host job-master-0 not found: 3(NXDOMAIN)\n" TRACE, "nc): job-master-0", NULL},
    {"wget: unable to resolve host address 'data.example'\n", "does not resolve (name service, DNS): data.example",
     NULL},
    {"mount.nfs: Failed to resolve server nfs-1: Name or service not known\n", "does not resolve", "looked it up"},
    {"grpc: 503 DNS resolution failed for head.ray:10001: C-ares status is not ARES_SUCCESS\n", "DNS): head.ray", NULL},
    {"java.net.UnknownHostException: nn-1: Name or service not known\n", "DNS): nn-1", NULL},
    /* A tool that waits for a host says nothing about a later error. */
    {"nslookup: can't resolve 'job-master-0': Name does not resolve\nwaiting for master\n"
     "[rank0]: torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 79.15 GiB\n",
     "rank 0 (GPU 0): a device", "resolve"},
    {"sudo: unable to resolve host n1: Name or service not known\n", "no error", "resolve"},
    /* CUDA does not start: a warning of Python is the cause of an exception whose text is lost, and else a warning. */
    {COUNT "Error 802: system not yet initialized (Triggered internally at x)\n" TRACE, "GPUs behind NVSwitch",
     "exception"},
    {COUNT "Error 803: system has unsupported display driver / cuda driver combination\n" TRACE,
     "do not fit each other", "exception"},
    {COUNT "Error 804: forward compatibility was attempted on non supported HW\n" TRACE, "do not fit each other", NULL},
    {COUNT "Error 805: MPS client failed to connect to the MPS control daemon or the MPS server\n" TRACE,
     "shares a GPU (MPS", NULL},
    {COUNT "Error 807: the MPS server is not ready to accept new MPS client requests\n" TRACE, "shares a GPU (MPS",
     NULL},
    {COUNT "Error 808: the hardware resources required to create MPS client have been exhausted\n" TRACE,
     "create MPS client have been exhausted", NULL},
    {COUNT "Error 304: OS call failed or operation not supported on this OS\n" TRACE, "304: OS call failed",
     "exception"},
    {COUNT "Error 999: unknown error\n" TRACE, "999: unknown error", "exception"},
    {COUNT "Error 802: system not yet initialized (Triggered internally at x)\n", "Python only warned of this", "root"},
    /* The pod of an event, wherever the text names it. */
    {"Warning FailedScheduling 40s default-scheduler 0/2 nodes are available: 1 Insufficient nvidia.com/gpu.\n"
     "apiVersion: v1\nkind: Pod\nmetadata:\n  name: gpu-job\nspec:\n  containers:\n    - name: main\n",
     "pod gpu-job: a pod waits", "main"},
    {"Name:         gpu-job\nNamespace:    team\nNode:         <none>\nEvents:\n  Warning  FailedScheduling  1h  "
     "default-scheduler  0/6 nodes are available: 6 Insufficient nvidia.com/gpu.\n",
     "pod gpu-job: a pod waits", NULL},
    {"\"Unable to schedule pod; no fit; waiting\" pod=\"team/job-0\" err=\"0/12 nodes are available: 12 Insufficient "
     "nvidia.com/gpu.\"\n",
     "pod job-0: a pod waits", NULL},
    {"Warning  BackOff  2m  kubelet  Back-off restarting failed container main in pod job-ab12_team(3f)\n",
     "pod job-ab12: ", NULL},
    {"kind: Pod\nmetadata:\n  name: job-1\nstatus:\n  reason: OOMKilled\n", "pod job-1: the kernel killed a process",
     NULL},
    {"\"kind\": \"PodGroup\",\n\"name\": \"group-1\"\nreason: OOMKilled\n", "the kernel killed a process", "group-1"},
    {"Name:  job-3\nNamespace:  team\nPriority:  0\nMessage:  The node was low on resource: memory.\n",
     "pod job-3: Kubernetes evicted", NULL},
    {"Normal  Preempted  5s  default-scheduler  Preempted by pod 9f1c on node n7\n", "host n7: a pod of higher",
     "pod 9f1c:"},
    {"{\"protoPayload\":{\"methodName\":\"compute.instances.preempted\",\"resourceName\":\"projects/p/zones/z/"
     "instances/"
     "n-1\"}}\n",
     "host n-1: the cloud takes", NULL},
    {"{\"detail-type\":\"EC2 Spot Instance Interruption "
     "Warning\",\"detail\":{\"instance-id\":\"i-0123456789abcdef0\"}}\n",
     "host i-0123456789abcdef0: the cloud takes", NULL},
    /* Peers of gloo, and the rank whose command the log shows. */
    {"RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] timed out connecting: "
     "SO_ERROR: "
     "Connection refused, remote=[192.0.2.7]:17308\n",
     "host 192.0.2.7: ranks of gloo did not connect", NULL},
    {"[E] failed to connect, willRetry=0, retry=3, retryLimit=3, rank=1, size=8, local=[192.0.2.6]:1, "
     "remote=[192.0.2.7]:17308, error=Connection refused\n",
     "host 192.0.2.7: ranks of gloo did not connect", NULL},
    {"root@n35:/job# python infer.py --rank 3\n[E ProcessGroupGloo.cpp:144] Gloo connectFullMesh failed with "
     "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n",
     "did not connect to each other, reported by rank 3", NULL},
    {"root@n35:/job# python infer.py --node_rank 3 --rank-file x\n[E ProcessGroupGloo.cpp:144] Gloo connectFullMesh "
     "failed "
     "with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n",
     "did not connect to each other", "rank 3"},
    /* torchrun's table ends before the exit code of its Root Cause. */
    {"Failures:\n[1]:\n  time      : 2026-01-07_13:02:58\n  host      : n1\n  rank      : 3 (local_rank: 3)\n  "
     "exitcode  : 1 "
     "(pid: 77)\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-01-07_13:02:58\n  host      : n1\n"
     "  rank      : 1 (local_rank: 1)\n",
     "ranks 1,3 on n1 ended in the same second", NULL},
    {"Failures:\n[1]:\n  time      : 2026-01-07_13:03:58\n  host      : n1\n  rank      : 3 (local_rank: 3)\n  "
     "exitcode  : 1 "
     "(pid: 77)\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-01-07_13:02:58\n  host      : n1\n"
     "  rank      : 1 (local_rank: 1)\n",
     "rank 1 on n1 failed first", NULL},
    /* The rank that others wait for did not raise the exception below. */
    {"[rank6]:[E421 04:13:43.457389636 ProcessGroupGloo.cpp:143] Rank 6 successfully reached monitoredBarrier, but "
     "received "
     "errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n[2026-01-21 04:13:43 "
     "TP6] "
     "Scheduler hit an exception: Traceback (most recent call last):\n  File \"s.py\", line 2, in run\n    f()\n",
     "a process of SGLang's server raised an exception", "rank 0: "},
    /* Other programs. */
    {"n2-x: Test NCCL failure common.cu:961 'internal error - please report this issue to the NCCL developers / '\n",
     "reported by host n2-x", NULL},
    {"[2026-01-27T11:37:57.377] _job_complete: JobId=77 WTERMSIG 9\n", "job 77: a process got SIGKILL", NULL},
    {"RuntimeError('Engine process (pid 77) died.')\n", "vLLM's engine process ended", NULL},
    {"[2026-01-01 10:10:10 TP5] Watchdog timeout (self.watchdog_last_forward_ct=12, self.watchdog_timeout=300)\n",
     "a scheduler of SGLang stood still", NULL},
    {"RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 2; 60.97 GiB total capacity)\n",
     "NPU 2: ", NULL},
    {"RuntimeError: DataLoader worker (pid(s) 71, 72) exited unexpectedly\n", "71, 72", NULL},
    {"OSError: [Errno 37] No locks available\n", "locked by another process, or its file system does not lock", NULL},
    {"EOFError: Ran out of input\n", "probably a checkpoint, a cache or a data file", "corrupt"},
};

static void headlines_say_what_was_read(void)
{
    char path[512];
    tess_knowledge *knowledge;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    int n_wrong = 0;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const sample *s = &samples[i];
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        EXPECT_OK(tess_os_write_atomic(path, s->text, strlen(s->text)));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        if (strstr(diagnosis.headline, s->headline) == NULL ||
            (s->absent != NULL && strstr(diagnosis.headline, s->absent) != NULL)) {
            printf("\"%.120s\": expected \"%s\" without \"%s\" in \"%s\"\n", s->text, s->headline,
                   s->absent != NULL ? s->absent : "", diagnosis.headline);
            n_wrong++;
        }
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
    EXPECT_INT(n_wrong, 0);
}

static const test_case cases[] = {
    CASE(headlines_say_what_was_read),
};

TEST_MAIN(cases)
