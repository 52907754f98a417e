/* Checks the limits of this user's processes (ulimit). */
#include <dirent.h>

#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

enum { FILES_WARN = 1024, FILES_BASE = 64, FILES_A_RANK = 4, THREADS_BESIDE = 4 };
#define LOCKED_WARN 65536.0
#define CORE_FILE_WARN 1e6
#define MAPPED_OF_MEMORY 9 /* a job maps shared memory of eight times the machine's memory */

static const char *amount(uint64_t limit, char *text, size_t size)
{
    if (limit == UINT64_MAX)
        snprintf(text, size, "unlimited");
    else
        tess_format_bytes((double)limit, text, size);
    return text;
}

void probe_open_files(const probe_host *host, tess_probe_finding *finding)
{
    uint64_t limit = host->limits[TESS_OS_OPEN_FILES];
    uint64_t least = FILES_BASE + (uint64_t)(FILES_A_RANK * host->plan.n_ranks);
    if (limit == UINT64_MAX)
        probe_say(finding, TESS_PROBE_OK, "unlimited");
    else if (limit < least)
        probe_say(finding, TESS_PROBE_FAIL, "a process may open %llu files; %d ranks need %llu",
                  (unsigned long long)limit, host->plan.n_ranks, (unsigned long long)least);
    else
        probe_say(finding, limit < FILES_WARN ? TESS_PROBE_WARN : TESS_PROBE_OK,
                  limit < FILES_WARN ? "a process may open only %llu files: MPI and many data files need more" : "%llu",
                  (unsigned long long)limit);
}

/* Whether the host has InfiniBand or RoCE. They register the buffers that they send, which needs locked memory. */
static bool has_rdma(const char *root)
{
    char path[PROBE_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    DIR *folder = opendir(path);
    bool found = false;
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        found = found || entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return found;
}

void probe_locked_memory(const probe_host *host, tess_probe_finding *finding)
{
    char text[32];
    uint64_t limit = host->limits[TESS_OS_LOCKED_MEMORY];
    amount(limit, text, sizeof(text));
    if (limit != UINT64_MAX && has_rdma(host->root))
        probe_say(finding, TESS_PROBE_FAIL,
                  "a process may lock %s, but here is InfiniBand or RoCE, which locks every buffer that it sends",
                  text);
    else if ((double)limit < LOCKED_WARN)
        probe_say(finding, TESS_PROBE_WARN, "a process may lock only %s", text);
    else
        probe_say(finding, TESS_PROBE_OK, "%s", text);
}

void probe_processes(const probe_host *host, tess_probe_finding *finding)
{
    uint64_t limit = host->limits[TESS_OS_PROCESSES];
    int ranks = host->plan.n_ranks, share = host->affinity_cores / (ranks > 0 ? ranks : 1);
    uint64_t needed = (uint64_t)ranks * (uint64_t)(THREADS_BESIDE + (share > 1 ? share : 1));
    if (limit == UINT64_MAX || host->is_root)
        probe_say(finding, TESS_PROBE_OK, limit == UINT64_MAX ? "unlimited" : "root has no limit");
    else if (limit < needed)
        probe_say(finding, TESS_PROBE_FAIL, "the user may have %llu processes and threads; %d ranks need about %llu",
                  (unsigned long long)limit, ranks, (unsigned long long)needed);
    else
        probe_say(finding, limit < 4 * needed ? TESS_PROBE_WARN : TESS_PROBE_OK,
                  limit < 4 * needed ? "the user may have only %llu processes and threads in all" : "%llu",
                  (unsigned long long)limit);
}

void probe_core_files(const probe_host *host, tess_probe_finding *finding)
{
    char text[32];
    uint64_t limit = host->limits[TESS_OS_CORE_FILE];
    if (limit > 0 && (double)limit < CORE_FILE_WARN)
        probe_say(finding, TESS_PROBE_WARN, "core files are cut at %s: no debugger can read them",
                  amount(limit, text, sizeof(text)));
    else
        probe_say(finding, TESS_PROBE_OK, "%s", limit == 0 ? "none are written" : amount(limit, text, sizeof(text)));
}

void probe_address_space(const probe_host *host, tess_probe_finding *finding)
{
    char text[32];
    double memory = 0;
    uint64_t limit = host->limits[TESS_OS_ADDRESS_SPACE];
    probe_meminfo(host->root, "MemTotal:", &memory);
    amount(limit, text, sizeof(text));
    if (limit != UINT64_MAX && (double)limit < MAPPED_OF_MEMORY * memory)
        probe_say(finding, TESS_PROBE_FAIL,
                  "a process may map %s; ranks map a sparse shared memory of eight times the machine's", text);
    else
        probe_say(finding, TESS_PROBE_OK, "%s", text);
}
