/* Texts of NCCL up to 2.30. Each text, made from the format string of the
 * program that prints it, is its entry and no other cause. */
#include "support/log_samples.h"

static const log_sample samples[] = {
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

static void nccl_up_to_2_30(void)
{
    test_log_expect_entries(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(nccl_up_to_2_30)};

TEST_MAIN(cases)
