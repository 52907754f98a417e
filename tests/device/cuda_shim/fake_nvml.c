/* A libnvidia-ml.so.1 for tests without a GPU. NVML_FAKE=PID:BYTES: that process uses the first GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process;

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, process *processes);

static int is_open;

int nvmlInit_v2(void)
{
    is_open++;
    return 0;
}

int nvmlShutdown(void)
{
    return is_open-- > 0 ? 0 : 1;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    *device = &is_open;
    return is_open > 0 && strcmp(bus, "0000:10:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, process *processes)
{
    const char *text = getenv("NVML_FAKE");
    unsigned room = *n;
    *n = 0;
    if (device != &is_open || room == 0)
        return 7;
    if (text != NULL && sscanf(text, "%u:%llu", &processes[0].pid, &processes[0].bytes) == 2)
        *n = 1;
    return 0;
}
