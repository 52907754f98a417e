/* Logs of the programs below a training script (schedulers, kernels, drivers, MPI) in which one line is the cause of
 * the others, and the beginning of what the report says. */
#include "support/log_samples.h"

#define KERNEL "Jan 10 11:43:09 n1 kernel: "
#define XID KERNEL "NVRM: Xid (PCI:0000:3b:00): "

static const log_case logs[] = {
    {XID "79, pid=77, GPU has fallen off the bus.\n[rank3]: torch.AcceleratorError: CUDA error: unknown error\n",
     "GPU 0000:3b:00 on n1: a GPU is no longer there", NULL},
    {XID "48, pid=77, name=python, DBE\n" XID "63, pid=77, Row Remapper: x\n" XID "45, pid=77, Ch 1\n" XID
         "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
     "GPU 0000:3b:00 on n1: the memory of a GPU", NULL},
    {XID "31, pid=77, name=python, MMU Fault\n" XID "43, pid=77, name=python, Ch 8\n"
         "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n",
     "GPU 0000:3b:00 on n1 (pid 77): the driver reported a fault of a program", NULL},
    {"n1:7:9 [2] proxy.cc:1 NCCL WARN [Service thread] Could not receive type from localRank 3, res=3, closed=0\n", "",
     NULL},
    {XID "43, pid=77, name=python, Ch 8\n", "GPU 0000:3b:00 on n1 (pid 77): the driver stopped the work", NULL},
    {XID "45, pid=77, name=python, Ch 8\n", "", NULL},
    {XID "145, RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x4 0x1)\n" XID "45, pid=77, Ch 1 caused by previous Xid 145\n",
     "GPU 0000:3b:00 on n1: the driver reported an error of a GPU's NVLink", NULL},
    {XID "45, pid=77, name=python, Ch 1 caused by previous Xid 95\n",
     "GPU 0000:3b:00 on n1 (pid 77): the driver ended the channels of a process", NULL},
    {XID "145, RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x4 0x1)\n", "", NULL},
    {KERNEL "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n" KERNEL "Mem-Info:\n" KERNEL
            "Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB\n",
     "host n1 (pid 4242): the kernel killed a process", NULL},
    {KERNEL "INFO: task python:4242 blocked for more than 122 seconds.\n" XID
            "119, Timeout after 45s of waiting for RPC "
            "response from GPU3 GSP!\n",
     "GPU 0000:3b:00 on n1: a GPU or its firmware", NULL},
    {KERNEL "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n",
     "host n1 (nvswitch0): ", NULL},
    {"NET/OFI Request 0x7f completed with error. RC: 107. Error: 13 (Unresponsive remote (was previously responsive))\n"
     "srun: error: n7: task 12: Segmentation fault (core dumped)\n",
     "task 12 on n7: a process crashed", NULL},
    {"srun: error: n7: task 12: Out Of Memory\nsrun: error: n8: task 13: Killed\n", "task 12 on n7: the host's memory",
     NULL},
    {"srun: error: Task launch for StepId=77.0 failed on node n3: Job credential expired\nsrun: Job step aborted\n",
     "host n3: a host did not accept Slurm's credential", NULL},
    {"      Reason:       OOMKilled\n      Exit Code:    137\n", "the kernel killed a process of a container", NULL},
    {"job-worker-3   0/1     OOMKilled   0          12m\n",
     "pod job-worker-3: the kernel killed a process of a container", NULL},
    {"1m Normal Preempted pod/job-worker-3 Preempted by pod 7c9e on node gpu-4\n"
     "torch.distributed.DistBackendError: NCCL timeout after 1800 seconds\n",
     "pod job-worker-3 on gpu-4: a pod of higher", NULL},
    {"n1:7:8 [3] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 192.0.2.7<1> with "
     "status=IBV_WC_WR_FLUSH_ERR(5)\n"
     "n2:7:8 [1] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 192.0.2.1<1> with "
     "status=IBV_WC_RETRY_EXC_ERR(12)\n",
     "InfiniBand or RoCE sent again and again and got no answer", NULL},
    {"prterun noticed that process rank 3 with PID 77 on node n2 exited on\nsignal 9 (Killed).\n",
     "rank 3 on n2 (pid 77): a process got SIGKILL", NULL},
    {"[node-1:77:0:77] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd "
     "0/0)\n"
     "[node-1:77:0:77] ib_mlx5_log.c:177  DCI QP 0xd16 wqe[6168]: SEND s-e [rqpn 0x17de rlid 1037] [va 0x7f len 5770]\n"
     "[node-1:78:0:78] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd "
     "0/0)\n",
     "InfiniBand or RoCE sent again and again and got no answer of the other side, from host node-1 (mlx5_0:1/IB) to "
     "rlid 1037",
     NULL},
    {"Jan 10 11:43:09 n1 systemd-oomd[588]: Killed /user.slice/train.scope due to memory pressure for /user.slice "
     "being "
     "57.97% > 50.00% for > 20s with reclaim activity\n",
     "host n1: a program that watches memory (systemd-oomd, earlyoom) ended processes before the kernel had to: "
     "train.scope",
     NULL},
    {"    message: 1/8 workers are evicted\n    reason: MPIJobEvicted\n", "Kubernetes evicted the pod: 1/8 workers",
     NULL},
    {"Reason:         Evicted\nMessage:        The node was low on resource: memory. Threshold quantity: 100Mi\n",
     "Kubernetes evicted the pod: memory", NULL},
    {"slurmstepd: error: pyxis: container start failed with error code: 1\n"
     "slurmstepd: error: pyxis:     id: cannot find name for user ID 42\n"
     "srun: error: n1: task 0: Exited with exit code 1\n",
     "host n1: a host does not know the user of the job", NULL},
    {"Warning FailedCreatePodSandBox 22m kubelet Failed to create pod sandbox: rpc error: code = Unavailable desc = "
     "connection error: connection refused\n"
     "Warning FailedCreatePodSandBox 4m kubelet Failed to create pod sandbox: rpc error: code = Unknown desc = failed "
     "to "
     "get sandbox runtime: no runtime for \"nvidia\" is configured\n",
     "Kubernetes could not start a pod, because the container runtime of its node lacks", NULL},
    {"[74889.5] pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010\n"
     "[74889.6] nvidia 0000:02:00.0: device has no AER-aware driver\n"
     "[74889.7] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n",
     "GPU 0000:02:00.0: a device of the PCIe bus failed, or its link went down", NULL},
    {"REASON               USER      TIMESTAMP           NODELIST\n"
     "Kill task failed     root      2024-01-25T15:12:23 n2\n"
     "Feb 22 17:46:38 n1 slurmd[13562]: spank-epilog: error: pyxis: mkdir: cannot create directory "
     "'/opt/enroot/data': Permission denied\n",
     "host n1: the container may not write or read a directory: /opt/enroot/data", NULL},
    {"libfabric:17778:1732779731::efa:cq:efa_rdm_cq_open():688<warn> Unable to create extended CQ: Cannot allocate "
     "memory\n"
     "algo-1:17778:17848 [5] nccl_ofi_ofiutils_init_connection:274 NCCL WARN NET/OFI Couldn't open CQ. RC: -22, ERROR: "
     "Invalid argument\n",
     "the driver of EFA gave libfabric no queue or memory region", NULL},
    {"MPICH ERROR [Rank 9] [job id 19.3] [Thu Nov  7 08:55:17 2019] [unknown] [nid000866] - Abort(1) (rank 9 in comm "
     "0): "
     "Fatal error in PMPI_Barrier: Other MPI error, error stack:\n"
     "MPIDI_OFI_handle_cq_error(902).......: OFI poll failed (ofi_events.h:904:MPIDI_OFI_handle_cq_error:Unspecified "
     "error\n",
     "a transfer of MPI over libfabric failed, reported by rank 9 on nid000866", NULL},
    {"(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: f Worker "
     "IP address: 192.0.2.1 Worker port: 1 Worker PID: 90738 Worker exit type: SYSTEM_ERROR Worker exit detail: x\n"
     "(W pid=92234, ip=192.0.2.1) mlx5: n1: got completion with error: [repeated 2x across cluster]\n",
     "host 192.0.2.1 (pid 90738): a Ray worker process died", NULL},
    {"mlx5: cn10: got completion with error:\n00000000 00000000 00000000 00000000\n",
     "a work request of InfiniBand failed", NULL},
    {"[9.1] java invoked oom-killer: gfp_mask=0xd0, order=0\n[9.2] Call Trace:\n"
     "[9.3]  [<ffffffff8112cdd8>] ? mem_cgroup_oom_synchronize+0x4e8/0x550\n",
     "the kernel found no memory for a process, and looks for one to kill: mem_cgroup_oom_synchronize", NULL},
    {"ORTE does not know how to route a message to the specified daemon\nlocated on the indicated node:\n\n"
     "  my node:   n1\n  target node:  n2\n",
     "host n2: mpirun lost its daemon on a host", NULL},
    {"Feb 20 18:59:13 n2 slurmd[57977]: fatal: gres.conf duplicate records for gpu\n",
     "host n2: a daemon of Slurm ended or could not start on this host: gres.conf duplicate records for gpu", NULL},
    {"INFO: At 2016-08-24 - event for worker-0: {kubelet node-1} Evicted: The node was low on compute resources.\n",
     "pod worker-0: Kubernetes evicted the pod: compute resources", NULL},
    {KERNEL "nvme nvme0: controller is down; will reset: CSTS=0xffffffff\nOSError: [Errno 5] Input/output error\n",
     "host n1: a disk of the host failed, or no longer answers: nvme0", NULL},
    {"Jan 10 11:43:09 n1 earlyoom[77]: sending SIGTERM to process 4242 uid 1000 \"python\": oom_score 900\n",
     "host n1 (pid 4242): a program that watches memory", NULL},
    {"[1767225600.123456] [node-1:77:0]  ib_mlx5_dv.c:430  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed on mlx5_0, "
     "syndrome 0x2c4154: Remote I/O error\n[node-1:77] pml_ucx.c:421  Error: ucp_ep_create(proc=47) failed: "
     "Input/output "
     "error\n",
     "host node-1 (pid 77, mlx5_0): a call of UCX to the InfiniBand or RoCE card failed", NULL},
    {"[node-1:77:0:77] ib_mlx5_log.c:177  Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/2)\n"
     "[node-1:77:0:77] ib_mlx5_log.c:177  RC QP 0x169 wqe[3]: SEND s-- [va 0x7f len 1] [rqpn 0x169 dlid=12 sl=0 "
     "port=1]\n",
     "a transfer over InfiniBand or RoCE failed in the card: Local protection, from host node-1 (pid 77, mlx5_0:1/IB) "
     "to dlid=12",
     NULL},
    {"NVRM: The NVIDIA GPU 0000:b3:00.0\n       NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
     "       NVRM: fallen off the bus and is not responding to commands.\n",
     "GPU 0000:b3:00.0: a GPU is no longer there", NULL},
    {"node-1.77PSM2 can't open hfi unit: -1 (err=23)\nPSM2 was unable to open an endpoint. Please make sure\n",
     "host node-1 (pid 77): libfabric could not be set up for MPI", NULL},
    {"## n05.361hfp_gen1_context_open: hfi_userinit_internal: failed, trying again (3/3)\n"
     "## n05.361hfi_userinit_internal: assign_context command failed: Device or resource busy\n"
     "## n05.361PSM2 can't open hfi unit: 0 (err=23)\n",
     "host n05 (pid 361): the Omni-Path device of a host has no free context", NULL},
    {"mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
     "Executable: ./train\nNode: n16\n\nwhile attempting to start process rank 0.\n",
     "host n16: the program could not be started: ./train", NULL},
    {"Open MPI tried to fork a new process via the \"execve\" system call but failed.  Open MPI checks many things\n\n"
     "  Local host:        n16\n  Working dir:       /home\n  Application name:  /home/train.py\n"
     "  Error:             Exec format error\n",
     "host n16: the program could not be started: /home/train.py", NULL},
    {"[ 7.2] bond0: (slave eth2): link status down for interface, disabling it in 200 ms\n",
     "a link of the host's network", NULL},
    {"[n1:42 :0:42]    ud_iface.c:737  UCX Fatal: transport error: Endpoint timeout\n", "", NULL},
    {"Sep 18 03:19:01 n7 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, "
     "status=1/FAILURE\n",
     "host n7: a service of the host ended, or could not start: nvidia-fabricmanager.service", NULL},
    {"[TensorRT-LLM][ERROR] CUDA runtime error in cudaDeviceGetDefaultMemPool(&memPool, device): operation not "
     "supported "
     "(/app/runtime/bufferManager.cpp:170)\n",
     "a CUDA call failed in an extension, which ended its process: cudaDeviceGetDefaultMemPool(&memPool, device): "
     "operation not supported",
     NULL},
    {"df: '/backup/tapes': Transport endpoint is not connected\n",
     "the process behind a mounted file system ended (ENOTCONN): /backup/tapes", NULL},
    {"Mar 17 12:45:18 n7 kubelet[42]: eviction_manager.go:159] Failed to admit pod job-0_default(04524076) - node has "
     "conditions: [DiskPressure]\n",
     "host n7: Kubernetes gave a pod no place on its node, which was short of memory, disk or processes: DiskPressure",
     NULL},
    {"ERROR 07-26 14:50:35 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 42 died, exit code: -11\n",
     "process (pid 42): a process crashed", NULL},
    {"[2026-04-20 17:24:52,119 W 1 1] rpc_client.h:153: Failed to connect to GCS at address 192.0.2.5:41000 within 5 "
     "seconds.\n2026-04-20 17:24:47,111 INFO scripts.py:1124 -- Local node IP: 192.0.2.9\nTraceback (most recent call "
     "last):\n File \"/usr/local/bin/ray\", line 10, in <module>\n sys.exit(main())\n",
     "a process of Ray does not reach the head (its GCS): 192.0.2.5:41000", NULL},
    {"Abort(1091471) on node 5 (rank 5 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\n"
     "MPIDI_OFI_mpi_init_hook(1382): OFI get address vector map failed\n",
     "rank 5: libfabric could not be set up for MPI on this host", NULL},
    {"/opt/nvshmem/src/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to create ah.\n"
     "/opt/nvshmem/src/host/transport/transport.cpp:420: non-zero status: 7 connect EPS failed \n",
     "NVSHMEM could not be set up: Unable to create ah", NULL},
    {"/opt/nvshmem/src/modules/transport/ibgda/ibgda.cpp:1393: non-zero status: 121 Error in mlx5dv_devx_obj_modify "
     "for "
     "INIT2RTR_QP with syndrome 764216\n",
     "NVSHMEM could not be set up: Error in mlx5dv_devx_obj_modify for INIT2RTR_QP with syndrome 764216", NULL},
    {"Unable to write to EQ: Missing or unavailable event queue. err: Input/output error (5) prov_errno: Unknown error "
     "-12 (-12) prov/efa/src/rxr/rxr.h:1343\n",
     "a transfer of libfabric (EFA) failed: Unknown error -12 (-12)", NULL},
    {"[ 9.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=5, emitted seq=7\n"
     "[ 9.2] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process train pid 42 thread t:cs0 pid 43\n"
     "[ 9.3] amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!\n",
     "GPU 0000:0c:00.0 (pid 42): an AMD GPU stopped with an exception", NULL},
    {"Memory access fault by GPU node-2 on address 0x422ea6b000. Reason: Page not present or supervisor privilege.\n"
     "*** SIGABRT (@0x9ec) received by PID 42 (TID 0x7f642c526700) from PID 42; stack trace: ***\n",
     "GPU node-2 (pid 42): a kernel on an AMD GPU read or wrote where it must not", NULL},
    {"srun: error: Task launch for StepId=96.0 failed on node n2: No such process\n"
     "srun: error: Task launch for StepId=96.0 failed on node n1: Socket timed out on send/recv operation\n",
     "host n1: Slurm could not start the tasks: Socket timed out on send/recv operation", NULL},
    {"job-worker-0   0/1     CreateContainerError   0          2m29s\n"
     "Warning  Failed  113s   kubelet  Error: container create failed: runc create failed: unable to start container "
     "process: container init was OOM-killed (memory limit too low?)\n",
     "pod job-worker-0: the kernel killed a process of a container for memory", NULL},
    {"[Thu Dec  7 00:05:15 2017] Memory cgroup out of memory: Kill process 72 (java) score 0 or sacrifice child\n"
     "[Thu Dec  7 00:05:15 2017] Killed process 42 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB\n",
     "process (pid 42): the kernel killed a process, because its container or cgroup reached its memory limit", NULL},
    {"2026-Jan-01 06:02:18.0992 42:43 ERROR  NMGR:dlr_infer      Inference completed with err: 1004\n",
     "process (pid 42): the runtime of a Neuron device could not load or run a program", NULL},
    {"CUDA error 2 at ggml-cuda.cu:5509: out of memory\ncurrent device: 3\n",
     "GPU 3: a device (or a pool) has no memory", NULL},
    {"mount.lustre: mount mds1@o2ib1:/scratch at /scratch failed: Device or resource busy\n",
     "a file system could not be mounted: mount mds1@o2ib1:/scratch at /scratch failed: Device or resource busy", NULL},
    {"botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
     "\"https://s3.example.org/\"\n",
     "an object store (S3, GCS, Azure) did not serve a request: Could not connect to the endpoint URL", NULL},
    {"botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the UploadPart operation\n",
     "an object store (S3, GCS, Azure) did not serve a request: (SlowDown) when calling the UploadPart operation",
     NULL},
    {"[ 9.1] mlx5_core 0000:61:00.0: mlx5_cmd_check:795:(pid 7): ALLOC_UAR(0x802) op_mod(0x0) failed, status limits "
     "exceeded(0x8), syndrome (0x5a7939)\n",
     "a network card had no resources left for another process (contexts, pages of doorbells, queues): 0000:61:00.0",
     NULL},
    {"[1767225600.123456] [n1:42:0]   ib_md.c:1678 UCX  ERROR ibv_open_device(mlx5_0) failed: Cannot allocate memory\n",
     "host n1: a network card had no resources left for another process", NULL},
    {"[1767225600.123456] [n1:42:0]   ib_iface.c:812 UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate "
     "memory\n",
     "host n1 (pid 42): UCX may not lock memory", NULL},
    {"Error: command buffer exited with error status.\n\tError: \n\t(null)\n\tInternal Error (0000000e:Internal "
     "Error)\n",
     "the GPU of a Mac did not complete its work (a command buffer of Metal failed): Internal Error (0000000e", NULL},
    {"HEALTH_WARN 1 MDSs report slow metadata IOs; 256 slow ops, oldest one blocked for 3285 sec, osd.29 has slow "
     "ops\n",
     "a Ceph cluster did not serve requests in time: 3285 sec, osd.29", NULL},
    {"error syncing job: admission webhook \"pods.example.org\" denied the request: podgroup \"job-27\" not found\n",
     "Kubernetes refused an object of the job, so its pods were never made: podgroup \"job-27\" not found", NULL},
    {"[ 9.1] EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0 page:0xb757589)\n",
     "the memory or the processor of the host reported an error that cannot be corrected: "
     "CPU_SrcID#1_MC#1_Chan#2_DIMM#0",
     NULL},
    {"Abort(1614479) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Unknown error class, error stack:\n"
     "create_vni_context(2221).....: OFI endpoint open failed (ofi_init.c:2221:create_vni_context:Invalid argument)\n",
     "rank 0: libfabric could not be set up for MPI on this host: Invalid argument", NULL},
    {"slurmstepd: error: pyxis: container start failed with error code: 1\n"
     "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory\n"
     "srun: error: n1: task 1: Exited with exit code 1\nsrun: error: n2: task 0: Exited with exit code 1\n",
     "the program of a container is not in its image, or not for this processor: /bin/bash", NULL},
    {"Cancelling deletion of Pod default/job-worker-3 | TaintManagerEviction | May 12, 2021, 12:04:59 PM\n", "", NULL},
    {"2300:  I0712 15:54:56.488170 5711 dump.go:53] At 2026-01-01 00:00:00 +0000 UTC - event for job-worker-3: "
     "{kubelet "
     "n1} Evicted: The node was low on resource: memory. Threshold quantity: 250Mi, available: 232700Ki.\n",
     "pod job-worker-3: Kubernetes evicted the pod: memory", NULL},
    {"NodeName=gpu-07 Arch=x86_64 CoresPerSocket=1\n   Gres=gpu:8\n   NodeAddr=gpu-07 NodeHostName=gpu-07 "
     "Version=24.05\n"
     "   State=IDLE+DRAIN ThreadsPerCore=1\n"
     "   Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-01-01T00:00:00]\n",
     "host gpu-07: Slurm takes no more jobs to a host, or put it down: gres/gpu count reported lower", NULL},
    {"[ 1.0] INFO: task python:4242 blocked for more than 122 seconds.\n[ 1.0] Call Trace:\n"
     "[ 1.0]  nvidia_ioctl+0x4a/0xa0 [nvidia]\n",
     "process (pid 4242): processes stand in the kernel, in state D: python; nvidia", NULL},
    {"[ 1.0] mlx5_core 0000:01:00.0: mlx5_load_one failed with error code -22\n",
     "a device of the host could not be used, as its driver did not start it or is not there: 0000:01:00.0", NULL},
    {"[1767225600.123456] [node-1:77:0]  ib_verbs.h:84   UCX  ERROR ibv_exp_query_device(mlx5_0) returned 38: "
     "Inappropriate ioctl for device\n",
     "host node-1 (pid 77, mlx5_0): a call of UCX to the InfiniBand or RoCE card", NULL},
    {"docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed\n"
     "nvidia-container-cli: initialization error: cannot open shared object file: no such file or directory: "
     "unknown.\n",
     "a container with GPUs could not be started: cannot open shared object file: no such file or directory", NULL},
    {"node-1.hsn: rank 3 died from signal 9\nnode-2.hsn: rank 4 died from signal 15\n",
     "rank 3 on node-1.hsn: a process got SIGKILL", NULL},
    {"slurmstepd: error: container_p_join: open failed /scratch/77/.active: No such file or directory\n"
     "slurmstepd: error: container_g_join failed: 77\n",
     "Slurm could not start the tasks: open failed /scratch/77/.active: No such file or directory", NULL},
    {"[node-1:77] PMIX ERROR: OUT-OF-RESOURCE in file client/pmix_client.c at line 231\n"
     "[node-1:77] OPAL ERROR: Error in file pmix3x_client.c at line 112\n",
     "PMIx could not set up its data for a process of MPI", NULL},
    {"FATAL:   container creation failed: exec: \"/usr/bin/nvidia-container-cli\": stat /usr/bin/nvidia-container-cli: "
     "no "
     "such file or directory\n",
     "a container with GPUs could not be started: stat /usr/bin/nvidia-container-cli", NULL},
    {"FATAL:   container creation failed: mount hook function failure: mount /var/x/storage->/storage error: while "
     "mounting "
     "/var/x/storage: destination /storage doesn't exist in container\n",
     "a folder could not be mounted in a container: /storage", NULL},
    {"Pod Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown "
     "desc = "
     "Unable to retrieve list of available devices: error creating nvml.Device 3: nvml: GPU is lost, which is "
     "unexpected\n",
     "GPU 3: a GPU is no longer there", NULL},
    {"[1767225600.123456] [node-1:77:0]   sock.c:116  UCX  ERROR connect(fd=34, dest_addr=192.0.2.77:35892) failed: "
     "Connection timed out\n[node-1:77] pml_ucx.c:383  Error: ucp_ep_create(proc=95) failed: Destination is "
     "unreachable\n",
     "UCX could not connect to another process over TCP, from host node-1 (pid 77) to 192.0.2.77:35892", NULL},
    {"Sep 28 05:37:59 node-1 kubelet[77]: I0928 05:37:59.659033 77 eviction_manager.go:369] \"Eviction manager: "
     "attempting "
     "to reclaim\" resourceName=\"ephemeral-storage\"\n",
     "host node-1: a node of Kubernetes is short of memory, disk or processes, and its kubelet evicts pods: ephemeral",
     NULL},
    {"Node node-1 status is now: NodeHasNoDiskPressure\n", "", NULL},
    {"  135: libfabric:47445:1656625588:cxi:core:cxip_ux_onload_cb():2444<warn> RXC (0xe910:7:0): Flow control "
     "triggered due "
     "to failure to append LE. Software endpoint mode required.\n",
     "rank 135: the Slingshot card of a rank had no entries", NULL},
    {"[0003] ERROR: init.c:466: shmem_internal_heap_postinit\n[0003]        Transport init failed (-38)\n",
     "rank 3: OpenSHMEM could not set up its transport", NULL},
    {KERNEL "sd 7:0:0:1: [sdf] tag#5 Add. Sense: Unrecovered read error\n",
     "host n1: a disk of the host failed, or no longer answers: sdf", NULL},
    {"NAME         STATE    AGE\npytorchjob   Failed   12m\n\nNAME                                      READY   STATUS "
     "   "
     "RESTARTS   AGE\ntrainer-master-0                                      1/1     Running     0          12m\n"
     "trainer-worker-0                                      0/1     OOMKilled   0          12m\n",
     "pod trainer-worker-0: the kernel killed a process of a container for memory", NULL},
    {"Kill task failed     root      2026-01-01T00:00:00 n3\n",
     "host n3: Slurm takes no more jobs to a host, or put it down: Kill task failed", NULL},
    {"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 77 RUNNING AT n2\n"
     "=   KILLED BY SIGNAL: 9 (Killed)\n",
     "rank 3 on n2 (pid 77): a process got SIGKILL", NULL},
};

static void one_line_is_the_cause_of_the_others(void)
{
    test_log_expect_headlines(logs, sizeof(logs) / sizeof(logs[0]));
}

static const test_case cases[] = {CASE(one_line_is_the_cause_of_the_others)};

TEST_MAIN(cases)
