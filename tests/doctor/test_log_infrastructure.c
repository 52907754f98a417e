/* Texts of the programs below a training script: schedulers, clouds, kernels, drivers of devices and communication
 * libraries. Each text, made from the format string of the program that prints it, is its entry and no other cause. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

static tess_knowledge *knowledge;

static void begin(void)
{
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
}

/* An empty id: no entry that ends a job. */
typedef struct sample {
    const char *text, *id;
} sample;

static const sample schedulers[] = {
    /* Slurm: slurmstepd, srun, slurmctld */
    {"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "slurm-time-limit"},
    {"salloc: Job 77 has exceeded its time limit and its allocation has been revoked.", "slurm-time-limit"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
     "slurm-preempted"},
    {"slurmctld: preempted JobId=77 has been requeued to reclaim resources for JobId=78", "slurm-preempted"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG "
     "FOR "
     "DETAILS ***",
     "slurm-node-fail"},
    {"srun: error: Node failure on n[3-4]", "slurm-node-fail"},
    {"slurmctld: requeue job JobId=77 due to failure of node n3", "slurm-node-fail"},
    {"srun: error: Aborting, io error and missing step on node 3", "slurm-node-fail"},
    {"srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd on node 3", "slurm-node-fail"},
    {"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***", "slurm-requeued"},
    {"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "slurm-cancelled"},
    {"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE to SIGNAL Terminated ***",
     "slurm-cancelled"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TASK FAILURE ***",
     "slurm-task-exit"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE to SIGNAL Killed ***",
     "slurm-task-exit"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 FAILED (non-zero exit code or other failure mode) ***", "slurm-task-exit"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "slurm-step-cancelled"},
    {"slurmstepd-n1: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "slurm-step-cancelled"},
    {"slurmstepd: error: _is_a_lwp: open() /proc/83665/status failed: No such file or directory", ""},
    {"srun: error: n1: task 3: Exited with exit code 1", "slurm-task-exit"},
    {"srun: error: n[1-2]: tasks 0-3,5,7+: Terminated", "slurm-task-exit"},
    {"srun: error: n1: tasks 1-3: User defined signal 1", "slurm-task-exit"},
    {"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", "slurm-task-exit"},
    {"srun: Force Terminated StepId=77.0", "slurm-task-exit"},
    {"srun: StepId=77.0 tasks 0-2: exited abnormally", "slurm-task-exit"},
    {"slurmstepd: error: *** 77 STEPD TERMINATED ON n1 AT 2026-01-01T00:00:00 DUE TO JOB NOT ENDING WITH SIGNALS ***",
     "slurm-unkillable"},
    {"slurmstepd: error: Detected 2 oom_kill events in StepId=77.0. Some of the step tasks have been OOM Killed.",
     "slurm-oom-kill"},
    {"srun: error: gpu-07: task 3: Out Of Memory", "slurm-oom-kill"},
    {"slurmstepd: error: StepId=77.0 exceeded memory limit (104857600 > 94371840), being killed", "slurm-oom-kill"},
    {"slurmstepd: task 3 (4242) Out Of Memory (OOM)", "slurm-oom-kill"},
    {"srun: error: n1: task 3: Killed", "killed"},
    {"srun: error: n1: task 3: Segmentation fault (core dumped)", "segfault"},
    {"srun: error: n1: task 3: Bus error", "bus-error"},
    {"srun: error: n1: task 3: Illegal instruction", "illegal-instruction"},
    {"srun: error: Task launch for StepId=77.0 failed on node n3: Job credential expired", "slurm-credential"},
    {"srun: error: Application launch failed: Invalid job credential", "slurm-credential"},
    {"slurmd: error: Munge decode failed: Expired credential", "slurm-credential"},
    {"srun: error: Task launch for StepId=77.0 failed on node n3: No such file or directory", "slurm-launch"},
    {"slurmstepd: error: execve(): python3: No such file or directory", "program-not-started"},
    {"srun: error: Unable to allocate resources: Invalid partition name specified", "slurm-launch"},
    {"srun: error: Unable to create step for job 77: Requested node configuration is not available", "slurm-launch"},
    {"srun: error: task 5 launch failed: Slurmd could not set up environment for batch job", "slurm-launch"},
    {"srun: Job 77 step creation temporarily disabled, retrying (Requested nodes are busy)", ""},
    {"salloc: error: Job submit/allocate failed: Invalid account or account/partition combination specified",
     "slurm-submit"},
    {"sbatch: error: Batch job submission failed: Requested node configuration is not available", "slurm-submit"},
    {"[2026-01-01T00:00:00.000] error: Nodes n[3-4] not responding, setting DOWN", "slurm-node-fail"},
    {"[2026-01-01T00:00:00.000] error: Nodes n3 not responding", ""},
    {"[2026-01-01T00:00:00.000] Node n3 unexpectedly rebooted boot_time=1767225600 last response=1767225000",
     "slurm-node-fail"},
    {"[2026-01-01T00:00:00.000] Killing JobId=77 on failed node n3", "slurm-node-fail"},
    {"   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)", "slurm-node-fail"},
    {"77.0            train  gpu  site  64  TIMEOUT      0:0", "slurm-time-limit"},
    {"[2026-01-01T00:00:00.000] Time limit exhausted for JobId=77", "slurm-time-limit"},
    {"[2026-01-01T00:00:00.000] update_node: node n3 reason set to: Kill task failed", "slurm-node-drained"},
    {"Kill task failed     root      2026-01-01T00:00:00 n3", "slurm-node-drained"},
    {"gres/gpu count repor slurm     2026-01-01T00:00:00 n[3,7]", "slurm-node-drained"},
    {"[2026-01-01T00:00:00.000] error: Setting node n3 state to INVAL with reason:gres/gpu count reported lower than "
     "configured (7 < 8)",
     "slurm-node-drained"},
    {"   Reason=NHC: check_hw_ib:  No IB port is ACTIVE. [root@2026-01-01T00:00:00]", "slurm-node-drained"},
    {"[2026-01-01T00:00:00.000] error: Prolog or job env setup failure on node n3, draining the node", "slurm-prolog"},
    {"srun: error: Task launch for StepId=77.0 failed on node n3: Job prolog failed", "slurm-prolog"},
    {"slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused", "slurm-connection"},
    {"srun: error: slurm_receive_msgs: [[n3]:6818] failed: Socket timed out on send/recv operation",
     "slurm-connection"},
    {"slurmctld: error: slurm_receive_msg [192.0.2.7:4242]: Transport endpoint is not connected", "slurm-connection"},
    {"slurmstepd: error:  mpi/pmix_v3: _errhandler: n1 [0]: pmixp_client_v2.c:212: Error handler invoked: status = -61",
     "slurm-pmix-notified"},
    {"slurmstepd: error: mpi/pmix_v4: _dmdx_timeout: n1 [0]: pmixp_dmdx.c:490: timeout: ns=slurm.pmix.77.0, rank=3, "
     "host=n2, ts=1767225600",
     "slurm-pmix"},
    {"slurmstepd: task 3 (4242) exited. Killed by signal 9.", "killed"},
    /* PBS, LSF, Grid Engine, HTCondor */
    {"=>> PBS: job killed: node 18 (n314) requested job terminate, 'EOF' (code 1099) - received SISTER_EOF attempting "
     "to "
     "communicate with sister MOM's",
     "batch-node-lost"},
    {"job 77.1 exceeded hard wallclock time - initiate terminate method", "batch-time-limit"},
    {"job 77 exceeds job hard limit \"h_vmem\" of queue \"all.q@n1\" (9.1 > limit:8.0) - sending SIGKILL",
     "batch-memory-limit"},
    {"failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "batch-time-limit"},
    {"failed       100 : assumedly after job", "batch-held"},
    {"\tError from slot1_3@n3.example.org: Docker job has gone over memory limit of 16384 Mb", "batch-memory-limit"},
    {"012 (077.000.000) 2026-01-01 00:00:00 Job was held.", "batch-held"},
    {"022 (077.000.000) 2026-01-01 00:00:00 Job disconnected, attempting to reconnect", "batch-node-lost"},
    {"004 (077.000.000) 2026-01-01 00:00:00 Job was evicted.", "batch-ended"},
    /* Kubernetes: kubelet, scheduler, controllers; Kubeflow and Volcano */
    {"The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi.",
     "kubernetes-evicted"},
    {"Container trainer exceeded its local ephemeral storage limit \"20Gi\". ", "kubernetes-storage-limit"},
    {"Pod ephemeral local storage usage exceeds the total limit of containers 20Gi. ", "kubernetes-storage-limit"},
    {"Usage of EmptyDir volume \"cache\" exceeds the limit \"64Gi\". ", "kubernetes-storage-limit"},
    {"5m Warning Evicted pod/job-worker-3 The node had condition: [DiskPressure]. ", "kubernetes-refused"},
    {"Pod is evicted, because of preempt", "kubernetes-evicted"},
    {"job-worker-3   0/1     OOMKilled   0          12m", "kubernetes-oom"},
    {"      Reason:       OOMKilled", "kubernetes-oom"},
    {"      Exit Code:    137", "killed"},
    {"1m Normal Preempted pod/job-worker-3 Preempted by pod 7c9e6679 on node gpu-4", "kubernetes-preempted"},
    {"default-scheduler: preempting to accommodate a higher priority pod", "kubernetes-preempted"},
    {"Message:        Pod was terminated in response to imminent node shutdown.", "kubernetes-node-lost"},
    {"Normal TaintManagerEviction pod/job-worker-3 Marking for deletion Pod default/job-worker-3",
     "kubernetes-node-lost"},
    {"Pod: default.job-worker-3 exited with code 1", "kubernetes-pod-exit"},
    {"DEBUG events Error pod job-worker-3 container pytorch exitCode: 1 terminated message: ", "kubernetes-pod-exit"},
    {"PyTorchJob job is failed because 1 Worker replica(s) failed.", "kubernetes-pod-exit"},
    {"job-worker-3   0/1     CrashLoopBackOff   5   12m", "kubernetes-pod-exit"},
    {"job-worker-3   0/1     ImagePullBackOff   0   12m", "kubernetes-image"},
    {"EC2InsufficientCapacityError: Instance type 'ml.g5.48xlarge' is temporarily unavailable in supported zones",
     "cloud-capacity"},
    {"ResourceLimitExceeded: An error occurred (ResourceLimitExceeded) when calling the CreateTrainingJob operation: "
     "The "
     "account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances",
     "cloud-capacity"},
    {"systemd-oomd[666]: Failed to kill any cgroups based on swap: Invalid argument", "oom-daemon-near"},
    {"[mpiexec@t-1-15.sdsc.edu] HYDT_bsci_launcher_pbs_init (./tools/bootstrap/external/pbs_init.c:33): tm_init() "
     "failed "
     "with TM error 17002",
     "mpich-launch"},
    {"ErrorCode:DCGM_FR_XID_ERROR GPU:4 PCI:0000:c4:00.0 GPU_UUID:GPU-d1816eb1 Detected XID 31 for GPU 4",
     "gpu-unhealthy"},
    {"XidCriticalError: Xid=69 on Device=GPU-7540a9b3-eeb9-1214-1526-f93c9ea826a8, the device will go unhealthy.",
     "gpu-unhealthy"},
    {"Failed to mount squashfs image in (read only): No such device", "container-image-broken"},
    {"FATAL:  container creation failed: mount /proc/self/fd/3->/mnt/rootfs error: while mounting image "
     "/proc/self/fd/3: "
     "kernel reported a bad superblock for squashfs image partition",
     "container-image-broken"},
    {"Operation error: The zone 'projects/p/zones/us-central1-a' does not have enough resources available to fulfill "
     "the "
     "request.",
     "cloud-capacity"},
    {"Feb 02 09:52:07 n1 slurmd[12912]: slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or "
     "directory",
     "slurm-daemon"},
    {"Sep 08 19:37:10 cn5.cluster.local systemd[1]: munge.service: Failed with result 'exit-code'.", "service-failed"},
    {"  Warning  ImageGCFailed  59m  kubelet  Failed to garbage collect required amount of images.",
     "kubernetes-node-short"},
    {"10.6.0.188   NotReady   10d       v1.7.2", "kubernetes-node-lost"},
    {"gpu-7   NotReady,SchedulingDisabled   <none>   21m   v1.30.1", "kubernetes-node-lost"},
    {"pyxis: importing docker image: hello-world.sqsh", "container-image"},
    {"MountVolume.SetUp failed for volume \"data\" : mount failed: exit status 32", "kubernetes-volume"},
    {"Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) a-0", "kubernetes-volume"},
    {"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "
     "\"nvidia\" is configured",
     "container-gpu"},
    {"Status reason OutOfMemoryError: Container killed due to memory usage", "kubernetes-oom"},
    {"CannotPullContainerError: pull image manifest has been retried 5 time(s)", "kubernetes-image"},
    {"slurmstepd: error: pyxis:     id: cannot find name for user ID 42", "container-user-unknown"},
    {"slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/enroot/42': Permission denied",
     "container-directory-denied"},
    {"[n2][[16379,1],2][btl_tcp.c:556:mca_btl_tcp_recv_blocking] remote peer unexpectedly closed connection while I "
     "was waiting for blocking message",
     "openmpi-peer-closed"},
    {"Failed to pull image \"registry/x:1\": rpc error: code = NotFound", "kubernetes-image-missing"},
    {"0/8 nodes are available: 8 Insufficient nvidia.com/gpu.", "kubernetes-pending"},
    {"    message: 1/8 workers are evicted", "kubernetes-evicted"},
    {"    reason: MPIJobEvicted", "kubernetes-evicted-state"},
    {"Reason:         Evicted", "kubernetes-evicted-state"},
    {"  reason: PreemptionByScheduler", "kubernetes-preempted"},
    {"Preempted to accommodate a workload (UID: 7c9e, JobUID: 8d0f) due to reclamation within the cohort",
     "kubernetes-preempted"},
    {"  reason: DeletionByTaintManager", "kubernetes-node-lost"},
    {"  reason: TerminationByKubelet", "kubernetes-node-lost"},
    {"evicting pod default/job-worker-3", "kubernetes-node-lost"},
    {"Workload was evicted as there was no replacement for unhealthy node(s): gpu-4", "kubernetes-node-lost"},
    {"Ready False KubeletNotReady [container runtime is down, PLEG is not healthy: pleg was last seen active 3m ago]",
     "kubernetes-node-lost"},
    {"    reason: BackoffLimitExceeded", "kubernetes-pod-exit"},
    {"    message: jobset failed due to one or more job failures (first failed job: train-workers-0)",
     "kubernetes-pod-exit"},
    {"    reason: PyTorchJobFailed", "kubernetes-pod-exit"},
    {"Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 8, Available: "
     "7, "
     "which is unexpected",
     "kubernetes-admission"},
    {"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is "
     "unexpected",
     "kubernetes-admission"},
    {"job-worker-3   0/1     OutOfnvidia.com/gpu   0   12m", "kubernetes-admission"},
    {"Job was active longer than specified deadline", "kubernetes-deadline"},
    {"    message: Exceeded the PodsReady timeout default/job", "kubernetes-deadline"},
    {"    reason: ClusterQueueStopped", "kubernetes-stopped"},
    {"Container pytorch failed liveness probe, will be restarted", "kubernetes-probe"},
    {"Readiness probe failed: dial tcp 192.0.2.7:8080: connect: connection refused", ""},
    {"pods \"job-worker-3\" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: 8, "
     "limited: 8",
     "kubernetes-quota"},
    {"error: unable to upgrade connection: container not found (\"worker\")", "kubernetes-exec"},
    {"Error from server: error dialing backend: dial tcp 192.0.2.7:10250: i/o timeout", "kubernetes-exec"},
    {"couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more "
     "needed",
     ""},
    /* clouds */
    {"Spot ITN received. Instance will be interrupted at 2026-01-01T00:00:00Z", "cloud-preempted"},
    {"{\"action\": \"terminate\", \"time\": \"2026-01-01T00:00:00Z\"}", "cloud-preempted"},
    {"Server.SpotInstanceTermination: Instance terminated by Spot", "cloud-preempted"},
    {"\"methodName\": \"compute.instances.preempted\"", "cloud-preempted"},
    {"\"EventType\": \"Preempt\", \"ResourceType\": \"VirtualMachine\"", "cloud-preempted"},
    {"EC2 Instance Rebalance Recommendation", "cloud-rebalance"},
    {"\"EventType\": \"Freeze\", \"ResourceType\": \"VirtualMachine\"", "cloud-rebalance"},
    {"An error occurred (InsufficientInstanceCapacity) when calling the RunInstances operation", "cloud-capacity"},
    {"Host EC2 (instance i-0123456789abcdef0) terminated.", "cloud-host-failed"},
    {"\"protoPayload.methodName\": \"compute.instances.hostError\"", "cloud-host-failed"},
    {"sagemaker.amazonaws.com/node-health-status=UnschedulablePendingReplacement", "kubernetes-node-lost"},
    {"FailureReason: CapacityError: Unable to provision requested ML compute capacity.", "sagemaker-failed"},
    {"TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "batch-time-limit"},
    {"=>> PBS: job killed: walltime 86430 exceeded limit 86400", "batch-time-limit"},
    {"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "batch-memory-limit"},
    {"=>> PBS: job killed: mem 38427376kb exceeded limit 33554432kb", "batch-memory-limit"},
    {"TERM_OWNER: job killed by owner.", "batch-ended"},
    {"Warning: 3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending", "kubernetes-pending"},
    {"[n1-0] terminated with exit code (137). Reason [Error].", "killed"},
    {"slurmstepd: error: pyxis: couldn't start container", "container-start"},
    {"WARNING scheduler.py: Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode", ""},
};

static const sample kernels[] = {
    {"[ 1.0] python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
     "kernel-oom-invoked"},
    {"[ 1.0] Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB", "kernel-oom-limit"},
    {"[ 1.0] oom_reaper: reaped process 4242 (python), now anon-rss:0kB, file-rss:0kB", "kernel-oom-kill"},
    {"[ 1.0] Killed process 4242 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB", "kernel-oom-kill"},
    {"[ 1.0] Task in /docker/7f killed as a result of limit of /docker/7f", "kernel-oom-limit"},
    {"Jan 10 11:43:09 n1 systemd[1]: train.service: A process of this unit has been killed by the OOM killer.",
     "kernel-oom-kill"},
    {"Jan 10 11:43:09 n1 systemd[1]: train.service: Failed with result 'oom-kill'.", "kernel-oom-kill"},
    {"Jan 10 11:43:09 n1 systemd-oomd[588]: Killed /user.slice/user-1000.slice/train.scope due to memory pressure for "
     "/user.slice being 57.97% > 50.00% for > 20s with reclaim activity",
     "oom-daemon"},
    {"Jan 10 11:43:09 n1 systemd-oomd[588]: Marked /user.slice/train.scope for killing due to memory used (7) / total "
     "(8) "
     "and swap used (7) / total (8) being more than 90.00%",
     "oom-daemon"},
    {"train.scope: systemd-oomd killed 12 process(es) in this unit.", "oom-daemon"},
    {"Jan 10 11:43:09 n1 earlyoom[77]: sending SIGTERM to process 4242 uid 1000 \"python\": oom_score 900, VmRSS 7 MiB",
     "oom-daemon"},
    {"Jan 10 11:43:09 n1 systemd[1]: train.service: Main process exited, code=killed, status=9/KILL", "killed"},
    {"[ 1.0] python: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO)",
     "kernel-page-allocation"},
    {"[ 1.0] traps: python[4242] trap divide error ip:7f00 sp:7f00 error:0 in libx.so[7f+1]", "arithmetic-exception"},
    {"[ 1.0] python[4242]: segfault at 10 ip 00007f0000000000 sp 00007f0000000000 error 4 in libx.so[7f+1]",
     "segfault"},
    {"[ 1.0] traps: python[4242] general protection fault ip:7f00 sp:7f00 error:0 in libx.so[7f+1]", "segfault"},
    {"[ 1.0] traps: python[4242] trap invalid opcode ip:7f00 sp:7f00 error:0 in libx.so[7f+1]", "illegal-instruction"},
    {"[n1:4242] Signal: Segmentation fault (11)", "segfault"},
    {"[n1:4242] Signal: Bus error (7)", "bus-error"},
    {"[n1:4242:0:4242] Caught signal 7 (Bus error: nonexistent physical address)", "bus-error"},
    {"[n1:4242:0:4242] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)", "segfault"},
    {"[ 1.0] INFO: task python:4242 blocked for more than 122 seconds.", "blocked-in-storage"},
    {"[ 1.0] nfs: server nas-1 not responding, still trying", "blocked-in-storage"},
    {"[ 1.0] Lustre: fs-OST0003-osc-ff: Connection to fs-OST0003 (at 192.0.2.5@o2ib) was lost; in progress operations "
     "using this service will wait for recovery to complete",
     "storage-server-lost"},
    {"[ 1.0] Lustre: fs-OST0003-osc-ff: This client was evicted by fs-OST0003; in progress operations using this "
     "service will fail.",
     "storage-evicted"},
    {"[ 1.0] libceph: osd12 (1)192.0.2.5:6801 socket closed (con state OPEN)", ""},
    {"OSError: [Errno 116] Stale file handle: '/data/x'", "file-replaced"},
    {"[ 1.0] blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ)", "disk-failed"},
    {"[ 1.0] Buffer I/O error on dev dm-0, logical block 1, lost async page write", "disk-failed"},
    {"[ 1.0] EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading directory",
     "file-system-failed"},
    {"[ 1.0] EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro", ""},
    {"[ 1.0] mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
     "host-memory-hardware"},
    {"[ 1.0] mce: [Hardware Error]: Machine check events logged", ""},
    {"[ 1.0] Memory failure: 0x1840200: Sending SIGBUS to python:4242 due to hardware memory corruption",
     "host-memory-hardware"},
    {"[ 1.0] pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0", "host-pcie"},
    {"[ 1.0] pcieport 0000:00:01.0: AER: Multiple Uncorrected (Non-Fatal) error received: 0000:01:00.0",
     "host-pcie-nonfatal"},
    {"[ 1.0] mlx5_core 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
     "host-pcie"},
    {"[ 1.0] mlx5_core 0000:41:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", ""},
    {"[ 1.0] pcieport 0000:00:01.0: DPC: containment event, status:0x1f01 source:0x0000", "host-pcie"},
    {"[ 1.0] pcieport 0000:00:01.0: pciehp: Slot(5): Link Down", "host-pcie"},
    {"[ 1.0] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)", ""},
    {"[ 1.0] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
     "host-memory-hardware"},
    {"[ 1.0] {1}[Hardware Error]: event severity: corrected", ""},
    {"[ 1.0] {1}[Hardware Error]: event severity: fatal", "host-memory-hardware"},
    {"[ 1.0] CPU7: Core temperature above threshold, cpu clock throttled (total events = 1)", ""},
    {"[ 1.0] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "host-stuck"},
    {"[ 1.0] Kernel panic - not syncing: Fatal exception in interrupt", "kernel-fault"},
    {"[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000008", "kernel-fault"},
    {"[ 1.0] mlx5_core 0000:41:00.0 eth2: Link down", "network-link-down"},
    {"[ 1.0] mlx5_core 0000:41:00.0: Port module event: module 0, Cable unplugged", "network-link-down"},
    {"[ 1.0] bond0: (slave eth2): link status definitely down, disabling slave", "network-link-down"},
    {"[ 1.0] i40e 0000:41:00.0 eth2: NIC Link is Down", "network-link-down"},
    {"[ 1.0] NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out", "network-device-failed"},
    {"[ 1.0] nvme nvme0: I/O 123 QID 4 timeout, aborting", "disk-failed"},
    {"[ 1.0] nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "disk-failed"},
    {"[ 1.0] critical medium error, dev nvme0n1, sector 2048 op 0x0:(READ) flags 0x0", "disk-failed"},
    {"[ 1.0] ata1.00: failed command: READ FPDMA QUEUED", "disk-failed"},
    {"[ 1.0] EXT4-fs (sda1): Remounting filesystem read-only", "file-system-failed"},
    {"[ 1.0] XFS (dm-0): Corruption of in-memory data (0x8) detected at xfs_defer_finish+0x1", "file-system-failed"},
    {"[ 1.0] XFS (dm-0): metadata I/O error in \"xfs_buf_ioend\" at daddr 0x1 len 8 error 5", "file-system-failed"},
    {"[ 1.0] libceph: mds0 (1)192.0.2.5:6801 session lost, hunting for new mds", "storage-server-lost"},
    {"[ 1.0] nfs: server nas-1 timed out", "blocked-in-storage"},
    {"[ 1.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4242]", "host-stuck"},
    {"[ 1.0] mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
     "network-device-failed"},
    {"OSError: [Errno 24] Too many open files: '/data/x'", "too-many-files"},
    {"RuntimeError: received 0 items of ancdata", "too-many-files"},
    {"OpenBLAS blas_thread_init: pthread_create failed for thread 17 of 64: Resource temporarily unavailable",
     "too-many-threads"},
    {"libgomp: Thread creation failed: Resource temporarily unavailable", "too-many-threads"},
    {"ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /x.so)", "library-mismatch"},
    {"ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x.so)", "library-mismatch"},
    {"n1:7:8 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared "
     "object "
     "file: No such file or directory",
     ""},
    {"[n1:77] mca_base_component_repository_open: unable to open mca_pml_ucx: libucp.so.0: cannot open shared object "
     "file: No such file or directory (ignored)",
     ""},
    {"ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "library-missing"},
    {"OSError: /x/libfoo.so: cannot allocate memory in static TLS block", "library-mismatch"},
    {"bash: ./train: cannot execute binary file: Exec format error", "library-mismatch"},
    {"RuntimeError: unable to allocate shared memory(shm) for file </torch_77>: Resource temporarily unavailable (11)",
     "dataloader-shm"},
    {"RuntimeError: unable to write to file </torch_77_1>: No space left on device (28)", "dataloader-shm"},
    {"ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96", "library-mismatch"},
};

static const sample gpus[] = {
    {"NVRM: Xid (PCI:0000:3b:00): 13, pid=77, name=python, Graphics Exception: ESR 0x505730=0x1", "cuda-xid-program"},
    {"NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 31, pid=77, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS",
     "cuda-xid-program"},
    {"NVRM: Xid (0000:3b:00): 32, Channel 00000001", "cuda-xid-program"},
    {"NVRM: Xid (PCI:0000:3b:00): 43, pid=77, name=python, Ch 00000008", "cuda-xid-stopped"},
    {"NVRM: Xid (PCI:0000:3b:00): 39, pid=77, name=python, CE0 error", "cuda-xid-engine"},
    {"NVRM: Xid (PCI:0000:3b:00): 45, pid=77, name=python, Ch 00000008 caused by previous Xid 48", "cuda-xid-cleanup"},
    {"NVRM: Xid (PCI:0000:3b:00): 45, pid=77, name=python, Ch 00000008 caused by previous Xid 149", "cuda-xid-nvlink"},
    {"NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 8 heartbeat 1", "cuda-xid-firmware"},
    {"NVRM: Xid (PCI:0000:3b:00): 48, pid=77, name=python, DBE (double bit error) ECC", "cuda-xid-memory"},
    {"NVRM: Xid (PCI:0000:3b:00): 62, 0000(0000) 00000000 00000000", "cuda-xid-firmware"},
    {"NVRM: Xid (PCI:0000:3b:00): 63, pid=77, Row Remapper: New row marked for remapping, reset gpu to activate.",
     "cuda-xid-remap"},
    {"NVRM: Xid (PCI:0000:3b:00): 64, Row Remapper: Error recording row", "cuda-xid-memory"},
    {"NVRM: Xid (PCI:0000:3b:00): 74, pid=77, NVLink: fatal error detected on link 3(0x10000, 0x0)", "cuda-xid-nvlink"},
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
     "cuda-fallen-off-bus"},
    {"NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "cuda-fallen-off-bus"},
    {"NVRM: Xid (PCI:0000:3b:00): 92, High single-bit ECC error rate", "cuda-xid-notice"},
    {"NVRM: Xid (PCI:0000:3b:00): 94, pid=77, Contained: CE User Channel (0x9). RST: No, D-RST: No", "cuda-xid-memory"},
    {"NVRM: Xid (PCI:0000:3b:00): 95, pid=77, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", "cuda-xid-memory"},
    {"NVRM: Xid (PCI:0000:3b:00): 119, pid=77, name=python, Timeout after 45s of waiting for RPC response from GPU3 "
     "GSP! "
     "Expected function 76 (GSP_RM_CONTROL) sequence 7 (0x1 0x2).",
     "cuda-xid-firmware"},
    {"NVRM: GPU6 _kgspLogRpcTimeout: ********************************* GSP Timeout **********************************",
     "cuda-xid-firmware"},
    {"NVRM: Xid (PCI:0000:3b:00): 120, pid=77, name=python, GSP task exception: Reason: store", "cuda-xid-firmware"},
    {"NVRM: Xid (PCI:0000:3b:00): 140, pid=77, name=python, An uncorrectable ECC error detected", "cuda-xid-memory"},
    {"NVRM: Xid (PCI:0000:3b:00): 143, GPU initialization failed", "cuda-xid-firmware"},
    {"NVRM: Xid (PCI:0000:3b:00): 144, SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000002)", "cuda-xid-nvlink"},
    {"NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 00 (0x00000004 0x00000001)", "cuda-xid-nvlink"},
    {"NVRM: Xid (PCI:0000:3b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x00000004 0x00000001)",
     "cuda-xid-nvlink-corrected"},
    {"NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", "cuda-xid-nvlink"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
     "cuda-xid-cleanup"},
    {"NVRM: Xid (PCI:0000:3b:00): 167, PCIe fatal timeout", "cuda-xid"},
    {"NVRM: Xid (PCI:0000:3b:00): 171, DRAM error", "cuda-xid-memory"},
    {"nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "nvswitch-sxid"},
    {"nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
     "nvswitch-sxid-corrected"},
    {"NVRM: API mismatch: the client has the version 535.104.05, but this kernel module has 535.54.03",
     "nvidia-driver-mismatch"},
    {"NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x65:1290)", "gpu-start-failed"},
    {"NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 3", "gpu-start-failed"},
    {"NVRM: GPU3 krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7", "gpu-locked-up"},
    {"NVRM: GPU at PCI:0000:3b:00: GPU-7c9e6679-0000-0000-0000-000000000000", ""},
    {"nv-fabricmanager[77]: fabric manager NVIDIA GPU driver interface version 535.1 don't match with driver version "
     "535.2. Please update with matching NVIDIA driver package.",
     "fabric-manager-failed"},
    {"| Memory                    | Fail - GPU: 3                                  |", "gpu-diagnosis-failed"},
    {"        HW Thermal Slowdown                    : Active", ""},
    {"        HW Thermal Slowdown                    : Not Active", ""},
    {"docker: Error response from daemon: pull access denied for x/y, repository does not exist or may require 'docker "
     "login': denied: requested access to the resource is denied.",
     "container-image"},
    {"slurmstepd: error: pyxis:     [ERROR] URL https://registry/v2/x/manifests/1 returned error code: 401 "
     "Unauthorized",
     "container-image"},
    {"slurmstepd: error: pyxis:     [ERROR] No such file or directory: /shared/x.sqsh", "container-image"},
    {"docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime "
     "create "
     "failed: runc create failed: unable to start container process: exec: \"train\": executable file not found in "
     "$PATH: "
     "unknown.",
     "container-program"},
    {"docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime "
     "create "
     "failed: could not apply required modification to OCI specification: error modifying OCI spec: failed to inject "
     "CDI "
     "devices: unresolvable CDI devices nvidia.com/gpu=all: unknown.",
     "container-gpu"},
    {"docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: "
     "/data.",
     "container-mount"},
    {"exec /usr/bin/python3: exec format error", "library-mismatch"},
    {"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
     "container-daemon"},
    {"enroot-nsenter: failed to create user namespace: Operation not permitted", "container-namespace"},
    {"slurmstepd: error: pyxis: child 4242 failed with error code: 1", "container-start"},
    {"Failed to initialize NVML: Driver/library version mismatch", "nvidia-driver-mismatch"},
    {"RuntimeError: CUDA error: misaligned address", "cuda-kernel-fault"},
    {"RuntimeError: CUDA error: an illegal instruction was encountered", "cuda-kernel-fault"},
    {"torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "cuda-illegal-access"},
    {"RuntimeError: CUDA error: unspecified launch failure", "cuda-launch-failure"},
    {"RuntimeError: CUDA error: uncorrectable ECC error encountered", "cuda-ecc"},
    {"torch.AcceleratorError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
     "cuda-peer-fault"},
    {"RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "cuda-device-busy"},
    {"UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment", ""},
    {"RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment", "cuda-device-busy"},
    {"RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "cuda-device-busy"},
    {"Loss.cu:240: nll_loss_forward: block: [0,0,0], thread: [6,0,0] Assertion `t >= 0` failed.", "cuda-device-assert"},
    {"RuntimeError: CUDA error: no kernel image is available for execution on the device", "cuda-no-kernel-image"},
    {"RuntimeError: HIP error: invalid device function", "cuda-no-kernel-image"},
    {"RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", "cuda-driver-too-old"},
    {"RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
     "fabric-manager"},
};
static const sample nccl[] = {
    {"NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this",
     "nccl-duplicate-gpu"},
    {"NCCL WARN NCCL version mismatch with remote peer 192.0.2.7<40001> (local: 2.27.3, remote 2.21.5)",
     "nccl-version-mismatch"},
    {"NCCL WARN NCCL library is too old. This application was compiled with NCCL version 2.28.3, but is running with "
     "NCCL",
     "nccl-version-mismatch"},
    {"NCCL WARN CUDA Driver version found is 12010. Minimum requirement is 12020", "cuda-driver-too-old"},
    {"misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from 192.0.2.7<40001> failed : Connection reset by "
     "peer",
     "nccl-peer-closed"},
    {"NCCL WARN ncclOsSocketProgressOpt: Call to send to 192.0.2.7<40001> failed : 32 (Broken pipe)",
     "nccl-peer-closed"},
    {"proxy.cc:1521 NCCL WARN [Service thread] Could not receive type from localRank 3, res=3, closed=0",
     "nccl-proxy-ends"},
    {"misc/socket.cc:527 NCCL WARN socketPollConnect: connect to 192.0.2.7<40001> returned Connection timed out, "
     "exceeded "
     "error retry count after 35 attempts",
     "nccl-connect-refused"},
    {"NCCL WARN ncclOsSocketPollConnect to 192.0.2.7<40001> failed with error Connection refused",
     "nccl-connect-refused"},
    {"NCCL WARN NET/Socket : no interface found", "nccl-no-interface"},
    {"NCCL WARN Call to socket failed : Address family not supported by protocol", "nccl-no-interface"},
    {"NCCL WARN Call to bind failed : Cannot assign requested address", "nccl-no-interface"},
    {"NCCL WARN no device found matching ib0, verify NCCL_OOB_NET_IFNAME", "nccl-no-interface"},
    {"NCCL WARN NET/IB: Got completion from peer 192.0.2.7<40001> with status=IBV_WC_RETRY_EXC_ERR(12) "
     "opcode=IBV_WC_SEND(0) vendor_err=129 localGid ::ffff:192.0.2.1 hca mlx5_0",
     "nccl-ib-retry-exceeded"},
    {"NCCL WARN NET/IB: Got completion from peer 192.0.2.7<40001> with status=IBV_WC_REM_ACCESS_ERR(10) "
     "opcode=IBV_WC_SEND(0) vendor_err=136 hca mlx5_0",
     "nccl-ib-remote-refused"},
    {"NCCL WARN NET/IB : Got completion from peer 192.0.2.7<40001> with status=5 opcode=0 len=0 vendor err 249 (Send)",
     "nccl-ib-flushed"},
    {"NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error", "nccl-ib-async-event"},
    {"NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)", "nccl-ib-port-event"},
    {"NCCL WARN NET/IB: Fatal error. Detected 2 failed devices out of 2 devices on the send communicator (comm=0x7f). "
     "No",
     "nccl-ib-devices-lost"},
    {"NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12", "nccl-ib-memory"},
    {"NCCL WARN Call to ibv_query_gid failed with error No data available errno 61", "nccl-ib-call"},
    {"NCCL WARN NET/IB : Unable to open device mlx5_3", "nccl-ib-device-skipped"},
    {"NCCL WARN Bootstrap Root : rank 3 of 16 ranks has already checked in", "nccl-world-differs"},
    {"NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 16 vs 8, nroots 1 vs 1", "nccl-world-differs"},
    {"NCCL WARN NET/Socket : peer 192.0.2.7<40001> message truncated : receiving 1048576 bytes instead of 524288. If "
     "you",
     "nccl-sizes-differ"},
    {"NCCL WARN NET/IB : req 0/1 tag 7 peer 192.0.2.7<40001> posted incorrect receive info: size 0 addr 0 rkeys[0]=0",
     "nccl-sizes-differ"},
    {"NCCL WARN Message truncated : received 1024 bytes instead of 256", "nccl-sizes-differ"},
    {"NCCL WARN No transport found for rank 3[1b000] -> rank 8[1b000]", "nccl-no-path"},
    {"NCCL WARN Detected mixed local Net device counts across ranks (min 7, max 8). Set NCCL_IGNORE_NET_MISMATCH=1 to",
     "nccl-devices-differ"},
    {"NCCL WARN Broadcast : invalid root 8 (root should be in the 0..8 range)", "nccl-wrong-call"},
    {"NCCL WARN AllReduce : sendbuff 0x10 is not a valid pointer", "nccl-wrong-call"},
    {"NCCL WARN No algorithm/protocol available for function AllGather with datatype ncclInt8. NCCL_ALGO was set to "
     "Tree.",
     "nccl-wrong-call"},
    {"NCCL WARN [Proxy Service 3] Failed to execute operation Close from rank 3, retcode 3", "nccl-proxy-ends"},
    {"NCCL WARN [Proxy Service 3] Failed to execute operation Connect from rank 5, retcode 3", "nccl-proxy"},
    {"NCCL WARN Cuda failure 'out of memory'", "nccl-no-gpu-memory"},
    {"NCCL WARN Failed to CUDA calloc async 4 bytes", "nccl-no-gpu-memory"},
    {"NCCL WARN Cuda failure 999 'unknown error'", "nccl-unhandled-cuda-error"},
    {"NCCL WARN Cuda failure 4 'driver shutting down'", ""},
    {"NCCL WARN nvmlDeviceGetHandleByPciBusId_v2() failed: GPU is lost", "cuda-fallen-off-bus"},
    {"NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation "
     "cannot "
     "be performed in the present state'.",
     "fabric-manager"},
    {"NCCL WARN MNNVL (cliqueSize 72) is available but not working on this system. Check the IMEX channel "
     "configuration",
     "nvlink-imex"},
    {"NCCL WARN Error: failed to extend /dev/shm/nccl-AbCdEf to 33030532 bytes, error: No space left on device (28)",
     "nccl-shm-failure"},
    {"RAS declaring peer 192.0.2.7<28028> as DEAD; rasDeadPeersHash 0x7", "nccl-ras-missing-rank"},
};
static const sample fabrics[] = {
    /* AMD */
    {"Queue at 0x7f00 inactivated due to async error:", "rocm-queue-aborted"},
    {"\tHSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory beyond the largest legal "
     "address.",
     "rocm-queue-aborted"},
    {"HW Exception by GPU node-3 (Agent handle: 0x5500) reason :GPU Hang", "rocm-queue-aborted"},
    {"HW Exception by GPU node-3 (Agent handle: 0x5500) reason :ECC", "cuda-ecc"},
    {"amdgpu 0000:c3:00.0: amdgpu: [gfxhub0] page fault (src_id:0 ring:24 vmid:8 pasid:32770)",
     "rocm-page-fault-kernel"},
    {"amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!. Source:  4", "rocm-queue-aborted"},
    {"amdgpu 0000:c3:00.0: amdgpu: ring sdma0 timeout, signaled seq=7, emitted seq=9", "rocm-queue-aborted"},
    {"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=2",
     "rocm-job-timeout"},
    {"amdgpu 0000:c3:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00341051", "rocm-page-fault-kernel"},
    {"amdgpu 0000:c3:00.0: amdgpu: ring sdma0 timeout, but soft recovered", ""},
    {"[drm ERROR :amdgpu_job_timedout] ring gfx_0.0.0 timeout, signaled seq=12, emitted seq=14", "rocm-job-timeout"},
    {":0:rocdevice.cpp:2652: 42 us: 48: [tid:0x7f] Device::callbackQueue aborting with error : "
     "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.",
     "rocm-queue-no-memory"},
    {"/app/csrc/x.hip:497: void f(int) [T = __hip_bfloat16]: Device-side assertion `false' failed.",
     "cuda-device-assert"},
    {"[FATAL ERROR]: HIP failure: 'invalid device function'", "cuda-no-kernel-image"},
    {"[24.9] MTGPU:(Error): 56377:  PID 1747 experienced error Guilty Lockup (0x1) caller[x] [188]", "mtgpu-lockup"},
    {"[24.9] MTGPU:(Error): 56377:  PID 1747 experienced error Innocent Lockup (0x2) caller[x] [188]", ""},
    {"[23:35:17][node-a][4288][ERR][BKCL][init.cpp:1485] BKCL dont support send", "bkcl-failed"},
    {"[XCCL][init.cpp:1186] host 192.0.2.7 addr_window check failed", "bkcl-failed"},
    {"what(): Collective call returned error", "gaudi-collective-failed"},
    {"habanalabs hl3: Device heartbeat failed! PCI link is healthy", "gaudi-device-failed"},
    {"accel accel3: 0000:4d:00.0 Failed to reset! Device is NOT usable", "gaudi-device-failed"},
    {"habanalabs hl3: Command submission 77 has not finished in 30 seconds!", "gaudi-no-progress"},
    {"Memory critical error by agent node-0 (Agent handle: 0x55) on address 0x7f. Reason: Memory in use. ",
     "rocm-memory-in-use"},
    {"E0000 1 2 cuda_dnn.cc:523] Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.8.0.",
     "library-mismatch"},
    {"XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at the errors above",
     "xla-library-start"},
    {"  (0) Failed precondition: The TPU system has not been initialized.", "tpu-not-initialized"},
    {"[W neuron_op_v2.cpp:133] Warning: Neuron runtime could not be initialized. Model was not sent to NeuronCore",
     "neuron-driver"},
    {"error: 'hipErrorIllegalAddress' at file.cpp:33", "cuda-illegal-access"},
    {"error: 'hipErrorLaunchFailure' at file.cpp:33", "cuda-launch-failure"},
    {"error: 'hipErrorECCNotCorrectable' at file.cpp:33", "cuda-ecc"},
    {"error: 'cudaErrorInvalidKernelImage' at file.cpp:33", "cuda-no-kernel-image"},
    {"error: 'hipErrorInvalidDevice' at file.cpp:33", "cuda-invalid-device"},
    {"error: 'cudaErrorMemoryAllocation' at file.cpp:33", "cuda-out-of-memory"},
    {"OSError: (External) ACL error, the error code is : 500002. (at npu_op_runner.cc:426)", "ascend-npu-error"},
    {"RuntimeError: The PyTorch Neuron Runtime could not be initialized. Neuron Driver issues are logged",
     "neuron-driver"},
    {"XlaRuntimeError: INTERNAL: Failed to launch ROCm kernel: redzone_checker with block dimensions: 1024x1x1: "
     "hipError_t(98)",
     "rocm-other-gpu"},
    {"amdgpu 0000:c5:00.0: amdgpu: No more SDMA queue to allocate", "rocm-queues-used-up"},
    {"RuntimeError: aclnnCausalConv1dGetWorkspaceSize failed with aclnnStatus=561002.", "ascend-operator"},
    {"EZ9999: [PID: 2] 2026-09-12-18:46:31.102.044 Parse dynamic kernel config fail.", "ascend-software"},
    {"[drv api] halDeviceEnableP2P failed: drv devId=6, phyIdSrc=0, drvRetCode=17!", "ascend-peer-access"},
    {"tpu_executor_init_fns.inc:110] TpuTransferManager_ReadDynamicShapes not available in this library.",
     "tpu-library"},
    {"PERMISSION_DENIED: open(/dev/accel0): Operation not permitted; Couldn't open device: /dev/accel0",
     "tpu-device-rights"},
    {"Abort was called at 283 line in file:", "xpu-driver-abort"},
    {"rocblaslt error: Could not load \"TensileLibrary_lazy_gfx1030.dat\"", "rocm-other-gpu"},
    {"[RanktableCheck] 'device ip' is not set correctly, must be set when multi Server", "ascend-hccl-config"},
    {"E20260106 06:43:02.966156  5793 ascend_direct_transport.cpp:820] Failed to connect to target: "
     "192.0.2.16:25482, status: 103900",
     "kv-transfer-failed"},
    {"*** SIGTERM received by PID 7142 (TID 7142) on cpu 80 from PID 7119; stack trace: ***", "interrupted"},
    {"RuntimeError: oneCCL: exec.cpp:122 start_workers: EXCEPTION: failed to start worker # 0", "oneccl-worker"},
    {"session_master.cc:505] Session is failing with the following status: Session master detected TPU session error "
     "from worker job-15.headless-svc:8471. The reporting TPU chip locations are:tpu31:pe4:3,",
     "tpu-fatal"},
    {"6x2x0_SC1: *** A program or fatal error occurred, all pending programs will fail, and results may be corrupted. "
     "This is likely an XLA compiler bug. Physical location: tpu3:pe2:2",
     "tpu-fatal"},
    {"tpunetd_client.cc:311] Detected failure SLICE_FAILURE_CHIP_DRIVER_ERROR in session e6c8; Start failure handling",
     "tpu-slice-failed"},
    {"session_master.cc:539] The task with address job-38.headless-svc:8471 missed 1 health checks.The most recent "
     "health check failed",
     "tpu-worker-lost"},
    {"INTERNAL: nccl_utils.cc:305: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled system "
     "error (run with NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) "
     "'socketTryAccept: Accept failed: Bad file descriptor'.",
     "xla-nccl-failed"},
    {"xe 0000:0b:00.0: [drm] Tile0: GT0: Engine memory CAT error [18]: class=ccs, guc_id=11", "xpu-page-fault"},
    {"GPU HANG: ecode 12:1:85def5fb, in llama-bench [1538400]", "xpu-device-lost"},
    {"  OP_REQUIRES failed at tpu_execute_op.cc:266 : INTERNAL: neuronx-cc compilation failed.", "neuron-compiler"},
    {"(EngineCore pid=118)   get device count failed, runtime result = 507899.[FUNC:ReportCallError]",
     "ascend-device-absent"},
    {"[ERROR] ME(16:28,MainProcess):2026-01-01 [_api.py:268] Worker process 130673 exit with exception.",
     "mindspore-worker-ended"},
    {"amdgpu 0000:c3:00.0: amdgpu: socket: 0, die: 0 2 uncorrectable hardware errors detected in umc block",
     "cuda-ecc"},
    {"amdgpu 0000:c3:00.0: amdgpu: socket: 0, die: 0 0 new uncorrectable hardware errors detected in umc block", ""},
    /* Ascend */
    {"EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the "
     "Notify record from remote rank [3].",
     "ascend-hccl-timeout"},
    {"EI0008: The CANN versions are inconsistent: tag [x], local_version [1.83], remote_version [1.84]",
     "ascend-hccl-mismatch"},
    {"EI0009: Transport init error. Reason: [Create][DestLink]Create Dest error!", "ascend-hccl-connect"},
    {"Execution Error ROCE CQE(EI0013): An error CQE occurred. Local information: server 192.0.2.1, device ID 0. Peer "
     "information: server 192.0.2.2, device ID 1, device IP 192.0.2.12.",
     "ascend-hccl-transfer"},
    {"Cluster Exception Location[IP/ID]:[192.0.2.6/5], Arrival Time:[x], ExceptionType:[Stuck Occurred]",
     "ascend-hccl-stuck"},
    {"EI0011: Failed to allocate [1024] bytes of NPU memory.", "ascend-out-of-memory"},
    {"RuntimeError: NPU function error: AclrtSynchronizeStreamWithTimeout, error code is 507015",
     "ascend-kernel-failed"},
    {"RuntimeError: SynchronizeStream:NPUStream.cpp:409 NPU function error: x, error code is 507899",
     "ascend-npu-error"},
    {"W NPUStream.cpp:409] Warning: NPU warning, error code is 507046[Error]: ", "ascend-stream-timeout"},
    {"EE1002: [PID: 7] 2026-01-01-10:00:00.000.001 Stream synchronize timeout. rtDeviceSynchronize failed",
     "ascend-stream-timeout"},
    {"        wait for compute device to finish failed, runtime result = 507046.[FUNC:ReportCallError]",
     "ascend-stream-timeout"},
    {"EI9999: The error from device(chipId:3, dieId:0), serial number is 9, hccl fftsplus task timeout occurred during "
     "task execution, stream_id:5, sq_id:5, task_id:3, stuck notify num:1, timeout=30min(default).",
     "ascend-hccl-timeout"},
    {"RuntimeError: x.cpp:82 HCCL function error: hcclCommInitRootInfoConfig(&c), error code is 9",
     "ascend-hccl-timeout"},
    {"[ERROR] HCCL(7,python3):2026-01-01 [hccl_socket_manager.cc:797] [9][Wait][LinkEstablish]wait socket establish "
     "timeout, role[1] rank[1] timeout[120 s]",
     "ascend-hccl-timeout"},
    {"[ERROR] HCCL(7,python3):2026-01-01 [topoinfo_exchange_server.cc:314] [9]topo exchange server get socket timeout! "
     "timeout[120 s]",
     "ascend-hccl-connect"},
    {"TopoDetect ERROR occur !!! fault_type[1], fault_info[\"Failed to connect agent[1,3,5,7,]\"]",
     "ascend-hccl-absent"},
    {"[InitChannelStage][ParameterConflict]CMD information cmdType check fail. local[6], remote[2]",
     "ascend-hccl-mismatch"},
    {"EI0004: The ranktable or rank is invalid,Reason:[x]. Please check the configured ranktable.",
     "ascend-hccl-config"},
    {"[TaskExecStage][HeartbeatAbnormal]local rank [192.0.2.1/1]: crimer rank [192.0.2.2/2] status[LOST] by informer "
     "rank "
     "[192.0.2.3/3]",
     "ascend-hccl-stuck"},
    {"RuntimeError: NPU function error: HBM MULTI BIT ECC ERROR., error code is 507054", "ascend-hardware"},
    {"RuntimeError: NPU function error: HCCS LINK ERROR, error code is 507056", "ascend-link"},
    {"RuntimeError: NPU function error: FORCE STOP, error code is 107022", "ascend-tasks-stopped"},
    {"[Error]: The memory on the device is exhausted. ", "ascend-out-of-memory"},
    {"Aicore kernel execute failed, device_id=0, stream_id=2, task_id=3, fault kernel_name=MatMul_1, hash=9",
     "ascend-kernel-failed"},
    {"EJ0003: Failed to bind the IP port. Reason: The IP address and port have been bound already.",
     "ascend-hccl-port"},
    {"EL0001: Device not found or invalid.", "ascend-device-absent"},
    {"EL0009: The stream resources are insufficient.", "ascend-device-busy"},
    {"EZ3002: Optype [X] of Ops kernel [AIcoreEngine] is unsupported. Reason: x", "ascend-operator"},
    {"[WARN]Feature is not supported and the possible cause is that driver and firmware packages do not match.",
     "ascend-software"},
    {"RuntimeError: The Inner error is reported as above. The process exits for this inner error, and the current "
     "working operator name is MatMul.",
     "ascend-npu-error"},
    {"The node: 3 is timed out. It may exit with exception, please check this node's log.", "mindspore-worker-lost"},
    {"Failed to connect to the meta server node url: 192.0.2.1:8118", "mindspore-scheduler-unreachable"},
    {"[ERROR] HCCL(7,python3):[op_base.cc:974][9][Init]errNo[0x0000000005000002]HcclCommInitRootInfo failed.",
     "ascend-npu-error"},
    /* Neuron */
    {"NRT:nrt_infodump Failure: NRT_EXEC_HW_ERR_HBM_UE in nrt_execute()", "neuron-hardware"},
    {"TDRV:exec_consume_infer_status_notifications (FATAL-RT-UNDEFINED-STATE) inference timeout (600000 ms) on Neuron "
     "Device 4 NC 1, waiting for execution completion notification",
     "neuron-timeout"},
    {"2026-Jan-01 10:00:00.1 8:9 ERROR NRT:nrt_infodump    Failure: NRT_INVALID in nrt_load()", "neuron-load"},
    {"2026-Jan-01 10:00:00.1 8:9 ERROR NRT:nrt_infodump    Failure: NRT_EXEC_OOB in nrt_execute()",
     "neuron-out-of-bounds"},
    {"2026-Jan-01 10:00:00.1 8:9 ERROR NMGR:dlr_infer    Inference completed with err: 1003.", "neuron-nan"},
    {"2026-Jan-01 10:00:00.1 8:9 ERROR NMGR:dlr_infer    Inference completed with err: 5", "neuron-timeout"},
    {"2026-Jan-01 10:00:00.1 8:9 ERROR NMGR:dlr_infer    Inference completed with err: 1202", "neuron-hardware"},
    {"RuntimeError: nrt_tensor_allocate status=4 message=\"Allocation Failure\"", "neuron-out-of-memory"},
    {"2026-Jan-01 10:00:00.1 8:8 ERROR NRT:nrt_allocate_neuron_cores  NeuronCore(s) not available - Requested:nc1-nc1 "
     "Available:0",
     "neuron-cores"},
    {"8:9 [12] bootstrap.cc:106 CCOM WARN RX, connection closed by remote peer", "neuron-peer-closed"},
    {"8:9 [2] net_plugin.cc:97 CCOM WARN OFI plugin initNet() failed is EFA enabled?", "neuron-collectives-setup"},
    {"[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient system memory.",
     "neuron-compiler"},
    /* Gaudi */
    {"[10:00:00.1][GC   ][error][tid:44F8A] Failed to load tpc kernel for node: TPC6, GUID: x. Got error: GLUE_FAILED",
     "gaudi-failed"},
    {"hcl_device_control_factory.cpp::71(initDevice): The condition [ false ] failed. Invalid server type (4[OCP1]) "
     "requested to generate controller.",
     "gaudi-server-type"},
    {"demo: In function initDevice(): synDeviceAcquire(&handle, nullptr) failed with synapse error: 20",
     "gaudi-acquire"},
    {"RuntimeError: [Rank:3] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::1024 (1)MB",
     "gaudi-out-of-memory"},
    {"Synapse detected a device critical error that requires a restart. Killing process in 5 seconds (hl: 3) 10:00:00 "
     "[No "
     "progress error]",
     "gaudi-no-progress"},
    {"Synapse detected a device critical error that requires a restart. Killing process in 5 seconds (hl: 3) 10:00:00 "
     "[please check log files for dfa cause]",
     "gaudi-device-failed"},
    {"[HCL ][error][tid:1] Connect to server ended with timeout. ip 192.0.2.1:5000", "gaudi-peer"},
    {"Nic(3) is DOWN, can't allocate connection", "gaudi-nic-down"},
    /* Intel GPUs */
    {"RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)", "xpu-device-lost"},
    {"Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", "xpu-out-of-memory"},
    {"RuntimeError: No XPU devices are available.", "xpu-absent"},
    {"2026:01:01-10:00:00:(7) |CCL_ERROR| KVS get error: timeout limit: 120 sec", "oneccl-waits"},
    {"RuntimeError: oneCCL: global.cpp:150 x: EXCEPTION: could not initialize any transport library",
     "oneccl-transport"},
    /* Moore Threads, Cambricon */
    {"RuntimeError: MCCL error in: /x/ProcessGroupMCCL.cpp:100, unhandled musa error, MCCL version 2.11",
     "other-ccl-error"},
    {"RuntimeError: MLU out of memory. Tried to allocate 2.00 GiB (MLU 3; 23.00 GiB total", "cuda-out-of-memory"},
    /* EFA, UCX */
    {"NET/OFI Request 0x7f completed with error. RC: 107. Error: 15 (Unreachable remote - never received a response)",
     "efa-unreachable"},
    {"NET/OFI Request 0x7f completed with error. RC: 107. Error: 13 (Unresponsive remote (was previously responsive))",
     "efa-peer-gone"},
    {"Libfabric EFA provider has encountered an internal error:", "efa-abort"},
    {"[1767225600.0] [n1:77:0] mm_posix.c:220  UCX  ERROR Not enough memory to write total of 4292720 bytes. Please "
     "check "
     "that /dev/shm or the directory you specified has more available memory.",
     "ucx-shm"},
    {"[1767225600.0] [n1:77:0] mm_ep.c:155  UCX  ERROR mm ep failed to connect to remote FIFO id 0x7: Shared memory "
     "error",
     "ucx-shm-attach"},
    {"[1767225600.0] [n1:77:0] ud_ep.c:278  UCX  FATAL UD endpoint 0x7 to n2:78: unhandled timeout error",
     "ucx-peer-lost"},
    /* Open MPI, MPICH */
    {"mpirun was unable to find the specified executable file, and therefore did", "program-not-started"},
    {"No components were able to be opened in the pml framework.", "openmpi-no-path"},
    {"[n1:77] [[64574,1],8] selected pml cm, but peer [[64574,1],0] on n2 selected pml ucx", "openmpi-no-path"},
    {"[1767225600.0] [n1:77:0] ib_device.c:670  UCX  ERROR ibv_query_gid(dev=mlx5_0 port=1 index=3) failed: Invalid "
     "argument",
     "ucx-ib-call"},
    {"[1767225600.0] [n1:77:0] ib_device.c:9  UCX  ERROR ibv_create_ah(dlid=49152 sl=0) on mlx5_0 failed: Invalid "
     "argument",
     "ucx-ib-call"},
    {"[n1:00077] pml_ucx.c:291  Error: Failed to create UCP worker", "ucx-worker"},
    {"An PRTE daemon has unexpectedly failed after launch and before", "openmpi-daemon-lost"},
    {"node_manager.cc:170: This node has beem marked as dead.", "ray-raylet-marked-dead"},
    {"prterun was unable to reliably start one or more daemons.", "openmpi-daemon-not-started"},
    {"The SLURM process starter for OpenMPI was unable to locate a", "openmpi-daemon-not-started"},
    {"A request was made to bind that would require binding", "openmpi-mapping"},
    {"A request was made to map by a hardware object, but a node in the", "openmpi-mapping"},
    {"While computing bindings, we found no available cpus on", "openmpi-mapping"},
    {"prterun was unable to start the specified application as it encountered an", "program-not-started"},
    {"PRTE tried to fork a new process via the \"execve\" system call but", "program-not-started"},
    {"The specified mapping directive is not recognized:", "openmpi-mapping"},
    {"MPI_INIT has failed because at least one MPI process is unreachable", "openmpi-no-path"},
    {"[n1:00077] *** An error occurred in MPI_Allreduce", "mpi-call-failed"},
    {"[n1:00077] *** MPI_ERR_TRUNCATE: message truncated", "mpi-truncate"},
    {"It appears as if there is not enough space for /tmp/x/shared_mem (the shared-memory backing", "ucx-shm"},
    {"prterun noticed that process rank 3 with PID 4242 on node n1 exited on", "openmpi-abort"},
    {"signal 9 (Killed).", "killed"},
    {"signal 11 (Segmentation fault).", "segfault"},
    {"prterun has exited due to process rank 3 with PID 4242 on node n1 calling", "openmpi-abort"},
    {"mpirun has detected an attempt to run as root.", "openmpi-root"},
    {"A request was made to bind to that would result in binding more", "openmpi-mapping"},
    {"PRTE detected a mismatch in versions between two processes.  This", "openmpi-versions"},
    {"PRTE has lost communication with a remote daemon.", "openmpi-daemon-lost"},
    {"It looks like MPI_INIT failed for some reason; your parallel process is", "mpi-setup-failed"},
    {"[n1:00077] PMIX ERROR: PMIX_ERR_UNREACH in file base/ptl_base_fns.c at line 77", "openmpi-unreachable"},
    {"[n1:00077] PMIX ERROR: OUT-OF-RESOURCE in file base/bfrop_base_unpack.c at line 77", "openmpi-internal"},
    {"[n1:00077] *** MPI_ERR_PROC_FAILED: Process Failure", "mpi-process-failed"},
    {"MPID_nem_tcp_connpoll(1845): Communication error with rank 3: Connection refused", "mpich-peer-gone"},
    {"MPICH ERROR [Rank 3] [job id 77.0] [Thu Jan  1 00:00:00 2026] [nid0001] - Abort(1) (rank 3 in comm 0): Fatal "
     "error",
     "mpich-error"},
    {"create_vni_context(1334): OFI addrinfo() failed (ofi_init.c:1334:create_vni_context:No data available)",
     "mpi-ofi-setup"},
    {"[mpiexec@n1] check_exit_codes (../../src/pm/i_hydra/libhydra/demux/hydra_demux_poll.c:117): unable to run "
     "bstrap_proxy on n2 (pid 4242, exit code 65280)",
     "mpich-launch"},
    {"[proxy:0:0@n1] HYDU_create_process (./utils/launch/launch.c:73): execvp error on file ./train (No such file or "
     "directory)",
     "mpich-launch"},
    {"[n1:mpispawn_0][child_handler] MPI process (rank: 3, pid: 4242) terminated with signal 9 -> abort job", "killed"},
    {"[n1:mpispawn_0][child_handler] MPI process (rank: 3, pid: 4242) exited with status 1", "mpich-abort"},
    {"[n1:mpi_rank_3][error_sighandler] Caught error: Segmentation fault (signal 11)", "segfault"},
    {"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)", "killed"},
    {"[n1:77:0:77] ib_mlx5_log.c:179  Remote access error on mlx5_0:1/IB (synd 0x13 vend 0x88 hw_synd 0/0)",
     "ucx-ib-completion"},
    {"[n1:77:0:77] ib_mlx5_log.c:179  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
     "ucx-retry-exceeded"},
    {"[1767225600.0] [n1:77:0] ucp_mm.c:159  UCX  ERROR failed to register address 0x7f mem_type bit 0x2 length 64 on "
     "md[4]=mlx5_0: Input/output error (md reg_mem_types 0x3)",
     "ucx-register"},
    {"[1767225600.0] [n1:77:0] ucp_context.c:1  UCX  WARN  UCP version is incompatible, required: 1.11, actual: 1.8 "
     "(release 0)",
     "ucx-version"},
    {"[1767225600.0] [n1:77:0] sock.c:9  UCX  ERROR something new failed", "ucx-error"},
    {"No PMIx server was reachable, but a PMI1/2 was detected.", "mpi-pmi-mismatch"},
    {"Abort(1091471) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Allreduce: Other MPI error, error stack:",
     "mpich-error"},
    {"Fatal error in internal_Init: Other MPI error, error stack:", "mpich-error"},
    {"APPLICATION TIMED OUT, TIMEOUT = 3600s", "mpich-timeout"},
    {"=   EXIT CODE: 9", "killed"},
    {"=   KILLED BY SIGNAL: 7 (Bus error)", "bus-error"},
};

/* Says what is wrong with a sample, and whether anything is. A wrapper next to a cause is its effect. */
static bool is_wrong(const sample *s)
{
    tess_found found;
    bool is_there = s->id[0] == '\0', is_wrong = false;
    tess_knowledge_begin_text(knowledge);
    tess_knowledge_find(knowledge, s->text, strlen(s->text), &found);
    for (int e = 0; e < found.n_entries; e++) {
        const tess_log_entry *entry = tess_knowledge_at(knowledge, found.entries[e].entry);
        bool is_it = strcmp(entry->row.id, s->id) == 0;
        is_there |= is_it;
        if (!is_it && entry->role == TESS_LOG_CAUSE) {
            fprintf(stderr, "    \"%s\" is also %s\n", s->text, entry->row.id);
            is_wrong = true;
        }
    }
    if (!is_there)
        fprintf(stderr, "    \"%s\" is not %s (%d others)\n", s->text, s->id, found.n_entries);
    return is_wrong || !is_there;
}

static void expect_entries(const sample *samples, size_t n)
{
    int n_wrong = 0;
    begin();
    for (size_t i = 0; i < n; i++)
        n_wrong += is_wrong(&samples[i]);
    EXPECT_INT(n_wrong, 0);
    tess_knowledge_destroy(&knowledge);
}

#define KERNEL "Jan 10 11:43:09 n1 kernel: "
#define XID KERNEL "NVRM: Xid (PCI:0000:3b:00): "

/* Logs in which one line is the cause of the others, and the beginning of what the report says; "": no cause. */
static const struct {
    const char *text, *headline;
} logs[] = {
    {XID "79, pid=77, GPU has fallen off the bus.\n[rank3]: torch.AcceleratorError: CUDA error: unknown error\n",
     "GPU 0000:3b:00 on n1: a GPU is no longer there"},
    {XID "48, pid=77, name=python, DBE\n" XID "63, pid=77, Row Remapper: x\n" XID "45, pid=77, Ch 1\n" XID
         "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
     "GPU 0000:3b:00 on n1: the memory of a GPU"},
    {XID "31, pid=77, name=python, MMU Fault\n" XID "43, pid=77, name=python, Ch 8\n"
         "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n",
     "GPU 0000:3b:00 on n1 (pid 77): the driver reported a fault of a program"},
    {"n1:7:9 [2] proxy.cc:1 NCCL WARN [Service thread] Could not receive type from localRank 3, res=3, closed=0\n", ""},
    {XID "43, pid=77, name=python, Ch 8\n", "GPU 0000:3b:00 on n1 (pid 77): the driver stopped the work"},
    {XID "45, pid=77, name=python, Ch 8\n", ""},
    {XID "145, RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x4 0x1)\n" XID "45, pid=77, Ch 1 caused by previous Xid 145\n",
     "GPU 0000:3b:00 on n1: the driver reported an error of a GPU's NVLink"},
    {XID "45, pid=77, name=python, Ch 1 caused by previous Xid 95\n",
     "GPU 0000:3b:00 on n1 (pid 77): the driver ended the channels of a process"},
    {XID "145, RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x4 0x1)\n", ""},
    {KERNEL "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n" KERNEL "Mem-Info:\n" KERNEL
            "Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB\n",
     "host n1 (pid 4242): the kernel killed a process"},
    {KERNEL "INFO: task python:4242 blocked for more than 122 seconds.\n" XID
            "119, Timeout after 45s of waiting for RPC "
            "response from GPU3 GSP!\n",
     "GPU 0000:3b:00 on n1: a GPU or its firmware"},
    {KERNEL "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n",
     "host n1 (nvswitch0): "},
    {"NET/OFI Request 0x7f completed with error. RC: 107. Error: 13 (Unresponsive remote (was previously responsive))\n"
     "srun: error: n7: task 12: Segmentation fault (core dumped)\n",
     "task 12 on n7: a process crashed"},
    {"srun: error: n7: task 12: Out Of Memory\nsrun: error: n8: task 13: Killed\n", "task 12 on n7: the host's memory"},
    {"srun: error: Task launch for StepId=77.0 failed on node n3: Job credential expired\nsrun: Job step aborted\n",
     "host n3: a host did not accept Slurm's credential"},
    {"      Reason:       OOMKilled\n      Exit Code:    137\n", "the memory limit of a container"},
    {"job-worker-3   0/1     OOMKilled   0          12m\n", "pod job-worker-3: the memory limit"},
    {"1m Normal Preempted pod/job-worker-3 Preempted by pod 7c9e on node gpu-4\n"
     "torch.distributed.DistBackendError: NCCL timeout after 1800 seconds\n",
     "pod job-worker-3 on gpu-4: a pod of higher"},
    {"n1:7:8 [3] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 192.0.2.7<1> with "
     "status=IBV_WC_WR_FLUSH_ERR(5)\n"
     "n2:7:8 [1] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 192.0.2.1<1> with "
     "status=IBV_WC_RETRY_EXC_ERR(12)\n",
     "InfiniBand or RoCE sent again and again and got no answer"},
    {"prterun noticed that process rank 3 with PID 77 on node n2 exited on\nsignal 9 (Killed).\n",
     "rank 3 on n2 (pid 77): a process got SIGKILL"},
    {"[node-1:77:0:77] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd "
     "0/0)\n"
     "[node-1:77:0:77] ib_mlx5_log.c:177  DCI QP 0xd16 wqe[6168]: SEND s-e [rqpn 0x17de rlid 1037] [va 0x7f len 5770]\n"
     "[node-1:78:0:78] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd "
     "0/0)\n",
     "InfiniBand or RoCE sent again and again and got no answer of the other side, from host node-1 (mlx5_0:1/IB) to "
     "rlid 1037"},
    {"Jan 10 11:43:09 n1 systemd-oomd[588]: Killed /user.slice/train.scope due to memory pressure for /user.slice "
     "being "
     "57.97% > 50.00% for > 20s with reclaim activity\n",
     "host n1: a program that watches memory (systemd-oomd, earlyoom) ended processes before the kernel had to: "
     "train.scope"},
    {"    message: 1/8 workers are evicted\n    reason: MPIJobEvicted\n", "Kubernetes evicted the pod: 1/8 workers"},
    {"Reason:         Evicted\nMessage:        The node was low on resource: memory. Threshold quantity: 100Mi\n",
     "Kubernetes evicted the pod: memory"},
    {"slurmstepd: error: pyxis: container start failed with error code: 1\n"
     "slurmstepd: error: pyxis:     id: cannot find name for user ID 42\n"
     "srun: error: n1: task 0: Exited with exit code 1\n",
     "host n1: a host does not know the user of the job"},
    {"Warning FailedCreatePodSandBox 22m kubelet Failed to create pod sandbox: rpc error: code = Unavailable desc = "
     "connection error: connection refused\n"
     "Warning FailedCreatePodSandBox 4m kubelet Failed to create pod sandbox: rpc error: code = Unknown desc = failed "
     "to "
     "get sandbox runtime: no runtime for \"nvidia\" is configured\n",
     "a container with GPUs could not be started: nvidia"},
    {"[74889.5] pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010\n"
     "[74889.6] nvidia 0000:02:00.0: device has no AER-aware driver\n"
     "[74889.7] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n",
     "GPU 0000:02:00.0: a device of the PCIe bus failed, or its link went down"},
    {"REASON               USER      TIMESTAMP           NODELIST\n"
     "Kill task failed     root      2024-01-25T15:12:23 n2\n"
     "Feb 22 17:46:38 n1 slurmd[13562]: spank-epilog: error: pyxis: mkdir: cannot create directory "
     "'/opt/enroot/data': Permission denied\n",
     "host n1: the container may not write or read a directory: /opt/enroot/data"},
    {"libfabric:17778:1732779731::efa:cq:efa_rdm_cq_open():688<warn> Unable to create extended CQ: Cannot allocate "
     "memory\n"
     "algo-1:17778:17848 [5] nccl_ofi_ofiutils_init_connection:274 NCCL WARN NET/OFI Couldn't open CQ. RC: -22, ERROR: "
     "Invalid argument\n",
     "the driver of EFA gave libfabric no queue or memory region"},
    {"MPICH ERROR [Rank 9] [job id 19.3] [Thu Nov  7 08:55:17 2019] [unknown] [nid000866] - Abort(1) (rank 9 in comm "
     "0): "
     "Fatal error in PMPI_Barrier: Other MPI error, error stack:\n"
     "MPIDI_OFI_handle_cq_error(902).......: OFI poll failed (ofi_events.h:904:MPIDI_OFI_handle_cq_error:Unspecified "
     "error\n",
     "a transfer of MPI over libfabric failed, reported by rank 9 on nid000866"},
    {"(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: f Worker "
     "IP address: 192.0.2.1 Worker port: 1 Worker PID: 90738 Worker exit type: SYSTEM_ERROR Worker exit detail: x\n"
     "(W pid=92234, ip=192.0.2.1) mlx5: n1: got completion with error: [repeated 2x across cluster]\n",
     "host 192.0.2.1 (pid 90738): a Ray worker process died"},
    {"mlx5: cn10: got completion with error:\n00000000 00000000 00000000 00000000\n",
     "a work request of InfiniBand failed"},
    {"[9.1] java invoked oom-killer: gfp_mask=0xd0, order=0\n[9.2] Call Trace:\n"
     "[9.3]  [<ffffffff8112cdd8>] ? mem_cgroup_oom_synchronize+0x4e8/0x550\n",
     "the kernel found no memory for a process, and looks for one to kill: mem_cgroup_oom_synchronize"},
    {"ORTE does not know how to route a message to the specified daemon\nlocated on the indicated node:\n\n"
     "  my node:   n1\n  target node:  n2\n",
     "host n2: mpirun lost a host"},
    {"Feb 20 18:59:13 n2 slurmd[57977]: fatal: gres.conf duplicate records for gpu\n",
     "host n2: a daemon of Slurm ended or could not start on this host: gres.conf duplicate records for gpu"},
    {"INFO: At 2016-08-24 - event for worker-0: {kubelet node-1} Evicted: The node was low on compute resources.\n",
     "pod worker-0: Kubernetes evicted the pod: compute resources"},
    {KERNEL "nvme nvme0: controller is down; will reset: CSTS=0xffffffff\nOSError: [Errno 5] Input/output error\n",
     "host n1: a disk of the host failed, or no longer answers: nvme0"},
    {"Jan 10 11:43:09 n1 earlyoom[77]: sending SIGTERM to process 4242 uid 1000 \"python\": oom_score 900\n",
     "host n1 (pid 4242): a program that watches memory"},
    {"[1767225600.123456] [node-1:77:0]  ib_mlx5_dv.c:430  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed on mlx5_0, "
     "syndrome 0x2c4154: Remote I/O error\n[node-1:77] pml_ucx.c:421  Error: ucp_ep_create(proc=47) failed: "
     "Input/output "
     "error\n",
     "host node-1 (pid 77, mlx5_0): a call of UCX to the InfiniBand or RoCE card failed"},
    {"[node-1:77:0:77] ib_mlx5_log.c:177  Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/2)\n"
     "[node-1:77:0:77] ib_mlx5_log.c:177  RC QP 0x169 wqe[3]: SEND s-- [va 0x7f len 1] [rqpn 0x169 dlid=12 sl=0 "
     "port=1]\n",
     "a transfer over InfiniBand or RoCE failed in the card: Local protection, from host node-1 (pid 77, mlx5_0:1/IB) "
     "to dlid=12"},
    {"NVRM: The NVIDIA GPU 0000:b3:00.0\n       NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
     "       NVRM: fallen off the bus and is not responding to commands.\n",
     "GPU 0000:b3:00.0: a GPU is no longer there"},
    {"node-1.77PSM2 can't open hfi unit: -1 (err=23)\nPSM2 was unable to open an endpoint. Please make sure\n",
     "host node-1 (pid 77): libfabric could not be set up for MPI"},
    {"## n05.361hfp_gen1_context_open: hfi_userinit_internal: failed, trying again (3/3)\n"
     "## n05.361hfi_userinit_internal: assign_context command failed: Device or resource busy\n"
     "## n05.361PSM2 can't open hfi unit: 0 (err=23)\n",
     "host n05 (pid 361): the Omni-Path device of a host has no free context"},
    {"mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
     "Executable: ./train\nNode: n16\n\nwhile attempting to start process rank 0.\n",
     "host n16: the program could not be started: ./train"},
    {"Open MPI tried to fork a new process via the \"execve\" system call but failed.  Open MPI checks many things\n\n"
     "  Local host:        n16\n  Working dir:       /home\n  Application name:  /home/train.py\n"
     "  Error:             Exec format error\n",
     "host n16: the program could not be started: /home/train.py"},
    {"[ 7.2] bond0: (slave eth2): link status down for interface, disabling it in 200 ms\n",
     "a link of the host's network"},
    {"[n1:42 :0:42]    ud_iface.c:737  UCX Fatal: transport error: Endpoint timeout\n", ""},
    {"Sep 18 03:19:01 n7 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, "
     "status=1/FAILURE\n",
     "host n7: a service of the host ended, or could not start: nvidia-fabricmanager.service"},
    {"[TensorRT-LLM][ERROR] CUDA runtime error in cudaDeviceGetDefaultMemPool(&memPool, device): operation not "
     "supported "
     "(/app/runtime/bufferManager.cpp:170)\n",
     "a CUDA call failed in an extension, which ended its process: cudaDeviceGetDefaultMemPool(&memPool, device): "
     "operation not supported"},
    {"df: '/backup/tapes': Transport endpoint is not connected\n",
     "the process behind a mounted file system ended (ENOTCONN): /backup/tapes"},
    {"Mar 17 12:45:18 n7 kubelet[42]: eviction_manager.go:159] Failed to admit pod job-0_default(04524076) - node has "
     "conditions: [DiskPressure]\n",
     "host n7: Kubernetes gave a pod no place on its node, which was short of memory, disk or processes: DiskPressure"},
    {"ERROR 07-26 14:50:35 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 42 died, exit code: -11\n",
     "process (pid 42): a process crashed"},
    {"[2026-04-20 17:24:52,119 W 1 1] rpc_client.h:153: Failed to connect to GCS at address 192.0.2.5:41000 within 5 "
     "seconds.\n2026-04-20 17:24:47,111 INFO scripts.py:1124 -- Local node IP: 192.0.2.9\nTraceback (most recent call "
     "last):\n File \"/usr/local/bin/ray\", line 10, in <module>\n sys.exit(main())\n",
     "a process of Ray does not reach the head (its GCS): 192.0.2.5:41000"},
    {"Abort(1091471) on node 5 (rank 5 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\n"
     "MPIDI_OFI_mpi_init_hook(1382): OFI get address vector map failed\n",
     "rank 5: libfabric could not be set up for MPI on this host"},
    {"/opt/nvshmem/src/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to create ah.\n"
     "/opt/nvshmem/src/host/transport/transport.cpp:420: non-zero status: 7 connect EPS failed \n",
     "NVSHMEM could not be set up: Unable to create ah"},
    {"/opt/nvshmem/src/modules/transport/ibgda/ibgda.cpp:1393: non-zero status: 121 Error in mlx5dv_devx_obj_modify "
     "for "
     "INIT2RTR_QP with syndrome 764216\n",
     "NVSHMEM could not be set up: Error in mlx5dv_devx_obj_modify for INIT2RTR_QP with syndrome 764216"},
    {"Unable to write to EQ: Missing or unavailable event queue. err: Input/output error (5) prov_errno: Unknown error "
     "-12 (-12) prov/efa/src/rxr/rxr.h:1343\n",
     "a transfer of libfabric (EFA) failed: Unknown error -12 (-12)"},
    {"[ 9.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=5, emitted seq=7\n"
     "[ 9.2] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process train pid 42 thread t:cs0 pid 43\n"
     "[ 9.3] amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!\n",
     "GPU 0000:0c:00.0 (pid 42): an AMD GPU stopped with an exception"},
    {"Memory access fault by GPU node-2 on address 0x422ea6b000. Reason: Page not present or supervisor privilege.\n"
     "*** SIGABRT (@0x9ec) received by PID 42 (TID 0x7f642c526700) from PID 42; stack trace: ***\n",
     "GPU node-2 (pid 42): a kernel on an AMD GPU read or wrote where it must not"},
    {"srun: error: Task launch for StepId=96.0 failed on node n2: No such process\n"
     "srun: error: Task launch for StepId=96.0 failed on node n1: Socket timed out on send/recv operation\n",
     "host n1: Slurm could not start the tasks: Socket timed out on send/recv operation"},
    {"job-worker-0   0/1     CreateContainerError   0          2m29s\n"
     "Warning  Failed  113s   kubelet  Error: container create failed: runc create failed: unable to start container "
     "process: container init was OOM-killed (memory limit too low?)\n",
     "pod job-worker-0: the memory limit of a container was reached"},
    {"[Thu Dec  7 00:05:15 2017] Memory cgroup out of memory: Kill process 72 (java) score 0 or sacrifice child\n"
     "[Thu Dec  7 00:05:15 2017] Killed process 42 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB\n",
     "process (pid 42): the kernel killed a process, because its container or cgroup reached its memory limit"},
    {"2026-Jan-01 06:02:18.0992 42:43 ERROR  NMGR:dlr_infer      Inference completed with err: 1004\n",
     "process (pid 42): the runtime of a Neuron device could not load or run a program"},
    {"CUDA error 2 at ggml-cuda.cu:5509: out of memory\ncurrent device: 3\n",
     "GPU 3: a device (or a pool) has no memory"},
    {"mount.lustre: mount mds1@o2ib1:/scratch at /scratch failed: Device or resource busy\n",
     "a file system could not be mounted: mount mds1@o2ib1:/scratch at /scratch failed: Device or resource busy"},
    {"botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
     "\"https://s3.example.org/\"\n",
     "an object store (S3, GCS, Azure) did not serve a request: Could not connect to the endpoint URL"},
    {"botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the UploadPart operation\n",
     "an object store (S3, GCS, Azure) did not serve a request: (SlowDown) when calling the UploadPart operation"},
    {"[ 9.1] mlx5_core 0000:61:00.0: mlx5_cmd_check:795:(pid 7): ALLOC_UAR(0x802) op_mod(0x0) failed, status limits "
     "exceeded(0x8), syndrome (0x5a7939)\n",
     "a network card had no resources left for another process (contexts, pages of doorbells, queues): 0000:61:00.0"},
    {"[1767225600.123456] [n1:42:0]   ib_md.c:1678 UCX  ERROR ibv_open_device(mlx5_0) failed: Cannot allocate memory\n",
     "host n1: a network card had no resources left for another process"},
    {"[1767225600.123456] [n1:42:0]   ib_iface.c:812 UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate "
     "memory\n",
     "host n1 (pid 42): UCX may not lock memory"},
    {"Error: command buffer exited with error status.\n\tError: \n\t(null)\n\tInternal Error (0000000e:Internal "
     "Error)\n",
     "the GPU of a Mac did not complete its work (a command buffer of Metal failed): Internal Error (0000000e"},
    {"HEALTH_WARN 1 MDSs report slow metadata IOs; 256 slow ops, oldest one blocked for 3285 sec, osd.29 has slow "
     "ops\n",
     "a Ceph cluster did not serve requests in time: 3285 sec, osd.29"},
    {"error syncing job: admission webhook \"pods.example.org\" denied the request: podgroup \"job-27\" not found\n",
     "Kubernetes refused an object of the job, so its pods were never made: podgroup \"job-27\" not found"},
    {"[ 9.1] EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0 page:0xb757589)\n",
     "the memory or the processor of the host reported an error that cannot be corrected: "
     "CPU_SrcID#1_MC#1_Chan#2_DIMM#0"},
    {"Abort(1614479) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Unknown error class, error stack:\n"
     "create_vni_context(2221).....: OFI endpoint open failed (ofi_init.c:2221:create_vni_context:Invalid argument)\n",
     "rank 0: libfabric could not be set up for MPI on this host: Invalid argument"},
    {"slurmstepd: error: pyxis: container start failed with error code: 1\n"
     "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory\n"
     "srun: error: n1: task 1: Exited with exit code 1\nsrun: error: n2: task 0: Exited with exit code 1\n",
     "the program of a container is not in its image, or not for this processor: /bin/bash"},
    {"Cancelling deletion of Pod default/job-worker-3 | TaintManagerEviction | May 12, 2021, 12:04:59 PM\n", ""},
    {"2300:  I0712 15:54:56.488170 5711 dump.go:53] At 2026-01-01 00:00:00 +0000 UTC - event for job-worker-3: "
     "{kubelet "
     "n1} Evicted: The node was low on resource: memory. Threshold quantity: 250Mi, available: 232700Ki.\n",
     "pod job-worker-3: Kubernetes evicted the pod: memory"},
    {"NodeName=gpu-07 Arch=x86_64 CoresPerSocket=1\n   Gres=gpu:8\n   NodeAddr=gpu-07 NodeHostName=gpu-07 "
     "Version=24.05\n"
     "   State=IDLE+DRAIN ThreadsPerCore=1\n"
     "   Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-01-01T00:00:00]\n",
     "host gpu-07: Slurm takes no more jobs to a host, or put it down: gres/gpu count reported lower"},
    {"[ 1.0] INFO: task python:4242 blocked for more than 122 seconds.\n[ 1.0] Call Trace:\n"
     "[ 1.0]  nvidia_ioctl+0x4a/0xa0 [nvidia]\n",
     "process (pid 4242): processes stand in the kernel, in state D: nvidia"},
    {"[ 1.0] mlx5_core 0000:01:00.0: mlx5_load_one failed with error code -22\n",
     "a device of the host could not be used, as its driver did not start it or is not there: 0000:01:00.0"},
    {"[1767225600.123456] [node-1:77:0]  ib_verbs.h:84   UCX  ERROR ibv_exp_query_device(mlx5_0) returned 38: "
     "Inappropriate ioctl for device\n",
     "host node-1 (pid 77, mlx5_0): a call of UCX to the InfiniBand or RoCE card"},
    {"docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed\n"
     "nvidia-container-cli: initialization error: cannot open shared object file: no such file or directory: "
     "unknown.\n",
     "a container with GPUs could not be started: cannot open shared object file: no such file or directory"},
    {"node-1.hsn: rank 3 died from signal 9\nnode-2.hsn: rank 4 died from signal 15\n",
     "rank 3 on node-1.hsn: a process got SIGKILL"},
    {"slurmstepd: error: container_p_join: open failed /scratch/77/.active: No such file or directory\n"
     "slurmstepd: error: container_g_join failed: 77\n",
     "Slurm could not start the tasks: open failed /scratch/77/.active: No such file or directory"},
    {"[node-1:77] PMIX ERROR: OUT-OF-RESOURCE in file client/pmix_client.c at line 231\n"
     "[node-1:77] OPAL ERROR: Error in file pmix3x_client.c at line 112\n",
     "PMIx could not set up its data for a process of MPI"},
    {"FATAL:   container creation failed: exec: \"/usr/bin/nvidia-container-cli\": stat /usr/bin/nvidia-container-cli: "
     "no "
     "such file or directory\n",
     "a container with GPUs could not be started: stat /usr/bin/nvidia-container-cli"},
    {"FATAL:   container creation failed: mount hook function failure: mount /var/x/storage->/storage error: while "
     "mounting "
     "/var/x/storage: destination /storage doesn't exist in container\n",
     "a folder could not be mounted in a container: /storage"},
    {"Pod Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown "
     "desc = "
     "Unable to retrieve list of available devices: error creating nvml.Device 3: nvml: GPU is lost, which is "
     "unexpected\n",
     "GPU 3: a GPU is no longer there"},
    {"[1767225600.123456] [node-1:77:0]   sock.c:116  UCX  ERROR connect(fd=34, dest_addr=192.0.2.77:35892) failed: "
     "Connection timed out\n[node-1:77] pml_ucx.c:383  Error: ucp_ep_create(proc=95) failed: Destination is "
     "unreachable\n",
     "UCX could not connect to another process over TCP, from host node-1 (pid 77) to 192.0.2.77:35892"},
    {"Sep 28 05:37:59 node-1 kubelet[77]: I0928 05:37:59.659033 77 eviction_manager.go:369] \"Eviction manager: "
     "attempting "
     "to reclaim\" resourceName=\"ephemeral-storage\"\n",
     "host node-1: a node of Kubernetes is short of memory, disk or processes, and its kubelet evicts pods: ephemeral"},
    {"Node node-1 status is now: NodeHasNoDiskPressure\n", ""},
    {"  135: libfabric:47445:1656625588:cxi:core:cxip_ux_onload_cb():2444<warn> RXC (0xe910:7:0): Flow control "
     "triggered due "
     "to failure to append LE. Software endpoint mode required.\n",
     "rank 135: the Slingshot card of a rank had no entries"},
    {"[0003] ERROR: init.c:466: shmem_internal_heap_postinit\n[0003]        Transport init failed (-38)\n",
     "rank 3: OpenSHMEM could not set up its transport"},
    {KERNEL "sd 7:0:0:1: [sdf] tag#5 Add. Sense: Unrecovered read error\n",
     "host n1: a disk of the host failed, or no longer answers: sdf"},
    {"NAME         STATE    AGE\npytorchjob   Failed   12m\n\nNAME                                      READY   STATUS "
     "   "
     "RESTARTS   AGE\ntrainer-master-0                                      1/1     Running     0          12m\n"
     "trainer-worker-0                                      0/1     OOMKilled   0          12m\n",
     "pod trainer-worker-0: the memory limit of a container was reached"},
    {"Kill task failed     root      2026-01-01T00:00:00 n3\n",
     "host n3: Slurm takes no more jobs to a host, or put it down: Kill task failed"},
    {"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 77 RUNNING AT n2\n"
     "=   KILLED BY SIGNAL: 9 (Killed)\n",
     "rank 3 on n2 (pid 77): a process got SIGKILL"},
};

static void one_line_is_the_cause_of_the_others(void)
{
    char path[512];
    begin();
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "log.txt"));
    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        EXPECT_OK(tess_os_write_atomic(path, logs[i].text, strlen(logs[i].text)));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        bool is_cause = diagnosis.kind == TESS_LOG_ERROR;
        if (is_cause != (logs[i].headline[0] != '\0') ||
            strncmp(diagnosis.headline, logs[i].headline, strlen(logs[i].headline)) != 0)
            test_fail(__FILE__, __LINE__, "\"%s\": expected '%s', got '%s'", logs[i].text, logs[i].headline,
                      diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static void schedulers_and_clouds(void)
{
    expect_entries(schedulers, sizeof(schedulers) / sizeof(schedulers[0]));
}

static void kernels_and_libraries(void)
{
    expect_entries(kernels, sizeof(kernels) / sizeof(kernels[0]));
}

static void gpus_of_nvidia(void)
{
    expect_entries(gpus, sizeof(gpus) / sizeof(gpus[0]));
}

static void nccl_up_to_2_30(void)
{
    expect_entries(nccl, sizeof(nccl) / sizeof(nccl[0]));
}

static void devices_fabrics_and_mpi(void)
{
    expect_entries(fabrics, sizeof(fabrics) / sizeof(fabrics[0]));
}

static const test_case cases[] = {
    CASE(schedulers_and_clouds), CASE(kernels_and_libraries),   CASE(gpus_of_nvidia),
    CASE(nccl_up_to_2_30),       CASE(devices_fabrics_and_mpi), CASE(one_line_is_the_cause_of_the_others),
};

TEST_MAIN(cases)
