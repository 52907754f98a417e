/* Collects the inputs of the checks that /proc and /sys do not hold, by calls to the system. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "device/cpuid.h"
#include "device/kernels.h"
#include "doctor/probe/probe_impl.h"

enum { WRITE_MOST = 256 << 20 };
#define WRITE_S 0.5

static void take_error(char *text)
{
    snprintf(text, PROBE_REASON_BYTES, "%s", tess_error_message());
    tess_error_clear();
}

/* Finds the folder, or the nearest existing parent in which it would be created. */
static void find_existing(const char *path, char *there)
{
    snprintf(there, PROBE_PATH_BYTES, "%s", path);
    while (!tess_os_is_dir(there) && !tess_os_is_file(there)) {
        char *slash = strrchr(there, '/');
        if (slash == NULL) {
            snprintf(there, PROBE_PATH_BYTES, ".");
            return;
        }
        slash[slash == there] = '\0';
    }
}

static void ask_folder(const char *path, bool write, probe_folder *folder)
{
    folder->named = path;
    find_existing(path, folder->there);
    if (tess_os_space_at(folder->there, &folder->space) != TESS_OK)
        tess_error_clear();
    if (write && tess_os_write_rate(folder->there, WRITE_MOST, WRITE_S, &folder->bytes_per_s) != TESS_OK)
        take_error(folder->error);
}

static void ask_cpu(probe_host *host)
{
    static const char *const names[CPU_LEVEL_COUNT] = {"ref", "avx2", "avx512", "avx512_bf16", "amx"};
    const tess_kernels *kernels;
    char missing[PROBE_REASON_BYTES];
    host->kernels = host->best_kernels = names[CPU_REF];
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        if (tess_cpu_supports((cpu_level)level, missing, sizeof(missing)) && tess_cpu_gains((cpu_level)level))
            host->best_kernels = names[level];
    /* the last level that the loop tried is the highest one: features that it lacks */
    snprintf(host->amx_missing, sizeof(host->amx_missing), "%s", missing);
    if (tess_kernels_select(NULL, &kernels) == TESS_OK)
        host->kernels = kernels->name;
    else
        tess_error_clear(); /* TESSERA_CPU names kernels that cannot run here; every command reports this itself */
}

static void ask_shared_memory(probe_host *host)
{
    enum { SIZE = 1 << 30 }; /* size of the test mapping; its pages are never allocated */
    void *address;
    tess_status status = tess_os_share("probe", SIZE, &address);
    if (status == TESS_OK) {
        *(volatile char *)address = 1;
        tess_os_unmap_shared(address, SIZE);
    } else {
        take_error(host->memfd_error);
    }
    if (tess_os_space_at("/dev/shm", &host->shm) != TESS_OK)
        tess_error_clear();
}

void probe_host_ask(const tess_probe_plan *plan, const char *root, probe_host *host)
{
    bool writes_dump = tess_probe_wanted(plan->only, "dump-folder") || tess_probe_wanted(plan->only, "dump-speed");
    *host = (probe_host){.root = root, .plan = *plan};
    probe_read_ticks(root, &host->before);
    for (int i = 0; i < TESS_OS_LIMIT_COUNT; i++)
        host->limits[i] = tess_os_limit_of((tess_os_limit)i);
    host->is_root = tess_os_is_root();
    host->affinity_cores = tess_os_affinity_cores();
    host->clock_known = tess_os_clock_is_synced(&host->clock_synced, &host->clock_error_s);
    host->futex_works = tess_os_futex_works();
    ask_cpu(host);
    ask_shared_memory(host);
    ask_folder(plan->dump_folder, writes_dump, &host->dump);
    ask_folder(plan->tmp_folder, tess_probe_wanted(plan->only, "tmp"), &host->tmp);
}
