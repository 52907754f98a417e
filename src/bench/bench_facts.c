/* Common parts of benches: facts about the machine at the beginning of a report, and paths of files next to this
 * program. */
#include <string.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/objects.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "bench/bench.h"
#include "device/kernels.h"

/* Reads a field of the first core from /proc/cpuinfo, or writes "unknown". */
static void cpuinfo(const char *field, char *text, size_t size)
{
    char first_core[8192];
    tess_os_read_text("/proc/cpuinfo", first_core, sizeof(first_core));
    const char *line = strstr(first_core, field), *colon = line != NULL ? strchr(line, ':') : NULL;
    snprintf(text, size, "unknown");
    if (colon == NULL)
        return;
    colon += 1 + strspn(colon + 1, " ");
    snprintf(text, size, "%.*s", (int)strcspn(colon, "\n"), colon);
}

const char *tess_bench_beside(const char *file, char *path, size_t size)
{
    char self[TESS_TEXT_SIZE];
    path[0] = '\0';
    if (tess_os_own_path(self, sizeof(self)) == TESS_OK)
        snprintf(path, size, "%.*s%s", (int)(tess_object_file_name(self) - self), self, file);
    tess_error_clear();
    return path;
}

size_t tess_bench_cache_bytes(int level)
{
    static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    long bytes = level >= 1 && level <= 3 ? sysconf(names[level - 1]) : 0;
    return bytes > 0 ? (size_t)bytes : 0;
}

tess_status tess_bench_machine_facts(tess_bench_report *report, const char *kernel_table)
{
    char cpu[256], mhz[64], features[512], cache[3][32], memory[32];
    const tess_kernels *kernels;
    TESS_TRY(tess_kernels_select(kernel_table[0] != '\0' ? kernel_table : NULL, &kernels));
    cpuinfo("model name", cpu, sizeof(cpu));
    cpuinfo("cpu MHz", mhz, sizeof(mhz));
    for (int level = 1; level <= 3; level++)
        tess_format_bytes((double)tess_bench_cache_bytes(level), cache[level - 1], sizeof(cache[0]));
    tess_format_bytes((double)tess_os_memory_bytes(), memory, sizeof(memory));
    TESS_TRY(tess_bench_report_fact(report, "cpu", "%s", cpu));
    TESS_TRY(tess_bench_report_fact(report, "cores", "%d, %s MHz as the system states it", tess_os_cores(), mhz));
    TESS_TRY(tess_bench_report_fact(report, "caches", "L1 %s and L2 %s a core, L3 %s", cache[0], cache[1], cache[2]));
    TESS_TRY(tess_bench_report_fact(report, "memory", "%s", memory));
    TESS_TRY(tess_bench_report_fact(report, "features", "%s", tess_cpu_features(features, sizeof(features))));
    return tess_bench_report_fact(report, "kernels", "%s", kernels->name);
}
