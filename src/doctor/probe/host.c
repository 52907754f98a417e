/* The table of checks of a host, and the loop that runs them. */
#include <string.h>

#include "doctor/probe/gpu_impl.h"
#include "doctor/probe/probe_impl.h"

static const struct {
    const char *name;
    probe_look *look;
} rows[] = {{"cpu", probe_kernels},
            {"clock-rate", probe_frequency},
            {"throttling", probe_throttling},
            {"steal", probe_steal},
            {"cores", probe_cores},
            {"load", probe_load},
            {"memory", probe_memory},
            {"cgroup-memory", probe_cgroup},
            {"swap", probe_swap},
            {"overcommit", probe_overcommit},
            {"huge-pages", probe_huge_pages},
            {"open-files", probe_open_files},
            {"locked-memory", probe_locked_memory},
            {"processes", probe_processes},
            {"core-files", probe_core_files},
            {"address-space", probe_address_space},
            {"shm", probe_shm},
            {"dump-folder", probe_dump_folder},
            {"dump-space", probe_dump_space},
            {"dump-speed", probe_dump_speed},
            {"tmp", probe_tmp},
            {"memfd", probe_memfd},
            {"futex", probe_futex},
            {"kernel", probe_kernel},
            {"ptrace", probe_ptrace},
            {"perf", probe_perf},
            {"leftovers", probe_stale},
            {"clocksource", probe_clocksource},
            {"time-sync", probe_ntp},
            {"socket-buffers", probe_socket_buffers},
            {"tcp-buffers", probe_tcp_buffers},
            {"infiniband", probe_infiniband},
            {"interface", probe_interface},
            {"tcp", probe_tcp}};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

void probe_host_look(const probe_host *host, tess_probe_findings *findings)
{
    for (int i = 0; i < N_ROWS; i++) {
        tess_probe_finding *finding = probe_begin(findings, TESS_PROBE_HOST, rows[i].name, host->plan.only);
        if (finding != NULL)
            rows[i].look(host, finding);
    }
}

void tess_probe_host(const tess_probe_plan *plan, const char *root, tess_probe_findings *findings)
{
    probe_host host;
    probe_host_ask(plan, root, &host);
    probe_host_look(&host, findings);
    if (root[0] == '\0') /* a test's root folder describes no GPUs */
        probe_gpu_look(plan->only, findings);
}
