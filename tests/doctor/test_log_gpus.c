/* Texts of the drivers of NVIDIA's GPUs. Each text, made from the format string of the
 * program that prints it, is its entry and no other cause. */
#include "support/log_samples.h"

static const log_sample samples[] = {
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

static void gpus_of_nvidia(void)
{
    test_log_expect_entries(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(gpus_of_nvidia)};

TEST_MAIN(cases)
