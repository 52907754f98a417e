/* Texts of NCCL, MPI, UCX and the network, made from the formats of their
 * sources: which entry they are, whom they are about, and that no other entry is called a cause. */
#include "support/log_samples.h"

static const log_named_sample samples[] = {
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
};

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    test_log_expect_whom(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(each_text_is_its_entry_and_names_whom_it_is_about)};

TEST_MAIN(cases)
