#include "device/cuda/cuda_users.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"
#include "device/cuda/cuda_library.h"

typedef struct nvmlDevice_st *nvml_device;

/* A process that uses a GPU. The structure's size is part of the library's interface. */
typedef struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all bits are set if it is unknown */
    unsigned gpu_instance, compute_instance;
} nvml_process;

/* The functions of the library. Each returns 0 or an error number. */
typedef struct nvml_library {
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus, nvml_device *device);
    int (*processes)(nvml_device device, unsigned *n, nvml_process *processes);
} nvml_library;

static const cuda_symbol symbols[] = {
    {"nvmlInit_v2", offsetof(nvml_library, init)},
    {"nvmlShutdown", offsetof(nvml_library, shutdown)},
    {"nvmlDeviceGetHandleByPciBusId_v2", offsetof(nvml_library, find)},
    {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(nvml_library, processes)},
};

enum { MOST_PROCESSES = 64, MOST_NAMED = 4 };

/* Writes the process's name, such as "python3", if this process may read it. */
static void read_name(unsigned pid, char name[32])
{
    char path[64];
    name[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(name, 32, file) == NULL)
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    fclose(file);
}

static size_t describe(const nvml_process *processes, unsigned n, char *text, size_t size)
{
    size_t at = 0;
    int n_named = 0;
    for (unsigned i = 0; i < n && n_named < MOST_NAMED; i++) {
        char name[32], bytes[32];
        const nvml_process *p = &processes[i];
        if (p->pid == (unsigned)getpid())
            continue;
        read_name(p->pid, name);
        at = tess_text_add(text, size, at, "%sprocess %u%s%s%s", n_named++ > 0 ? ", " : "", p->pid,
                           name[0] != '\0' ? " (" : "", name, name[0] != '\0' ? ")" : "");
        if (p->bytes != UINT64_MAX)
            at = tess_text_add(text, size, at, " has %s of it",
                               tess_format_bytes((double)p->bytes, bytes, sizeof(bytes)));
    }
    return at;
}

size_t tess_cuda_describe_users(const char *place, char *text, size_t size)
{
    nvml_library nvml;
    nvml_device device;
    nvml_process processes[MOST_PROCESSES];
    unsigned n = MOST_PROCESSES;
    size_t length = 0;
    text[0] = '\0';
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return 0;
    if (tess_cuda_library_bind(library, symbols, sizeof(symbols) / sizeof(symbols[0]), &nvml) == NULL &&
        nvml.init() == 0) {
        if (nvml.find(place, &device) == 0 && nvml.processes(device, &n, processes) == 0)
            length = describe(processes, n, text, size);
        nvml.shutdown();
    }
    dlclose(library);
    return length;
}
