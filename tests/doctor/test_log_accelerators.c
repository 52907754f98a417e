/* Texts of accelerators and containers, made from the formats of their
 * sources: which entry they are, whom they are about, and that no other entry is called a cause. */
#include "support/log_samples.h"

static const log_named_sample samples[] = {
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
};

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    test_log_expect_whom(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(each_text_is_its_entry_and_names_whom_it_is_about)};

TEST_MAIN(cases)
