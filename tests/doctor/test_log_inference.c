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

typedef struct sample {
    const char *text, *headline, *absent; /* absent NULL: any other words may be there */
} sample;

static const sample samples[] = {
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
    {"kind: Pod\nmetadata:\n  name: job-1\nstatus:\n  reason: OOMKilled\n", "pod job-1: the memory limit", NULL},
    {"\"kind\": \"PodGroup\",\n\"name\": \"group-1\"\nreason: OOMKilled\n", "the memory limit", "group-1"},
    {"Name:  job-3\nNamespace:  team\nPriority:  0\nMessage:  The node was low on resource: memory.\n",
     "pod job-3: Kubernetes evicted", NULL},
    {"Normal  Preempted  5s  default-scheduler  Preempted by pod 9f1c on node n7\n", "host n7: a pod of higher",
     "9f1c"},
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
