/* The table of checks of a host, and the loop that runs them. */
#include <string.h>

#include "doctor/probe/gpu_impl.h"
#include "doctor/probe/probe_impl.h"

static const probe_row rows[] = {
    {{"cpu", "kernel tables that can run, permission for AMX", "warn when not the best the CPU has",
      "unset TESSERA_CPU; for AMX, Linux 5.16 or later and a hypervisor that passes it on"},
     probe_kernels},
    {{"clock-rate", "cpufreq under load: current, limit and highest",
      "warn below 60% of the highest, or a limit below 95%",
      "cpupower frequency-set -g performance; look for power capping"},
     probe_frequency},
    {{"throttling", "counters of thermal throttling", "warn above 0",
      "check fans and airflow; compare with other hosts"},
     probe_throttling},
    {{"steal", "time that the hypervisor gave to other virtual machines", "warn above 5%",
      "ask for dedicated cores, or another host: every rank waits for the slowest"},
     probe_steal},
    {{"cores", "affinity and cgroup quota against ranks", "warn when ranks share cores or a quota is below them",
      "start at most one rank a core; give whole cores (cpuset, or a quota of at least as many)"},
     probe_cores},
    {{"load", "running processes that are not of this job", "warn from a quarter of the cores on",
      "stop them, or start the job elsewhere: a shared core makes a slow rank"},
     probe_load},
    {{"memory", "MemTotal and MemAvailable against the memory that the ranks need",
      "fail when MemTotal is less, warn when MemAvailable is",
      "more hosts, fewer ranks here, a smaller model, or less memory for other programs"},
     probe_memory},
    {{"cgroup-memory", "the cgroup's limit and use", "fail when the ranks need more, warn above 90%",
      "raise the container's or the job's memory limit (memory.max, --memory, --mem)"},
     probe_cgroup},
    {{"swap", "swap in use", "warn above 5% of memory", "free memory, then swapoff -a && swapon -a"}, probe_swap},
    {{"overcommit", "vm.overcommit_memory", "fail at 2", "sysctl vm.overcommit_memory=0"}, probe_overcommit},
    {{"huge-pages", "transparent huge pages", "warn when never",
      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
     probe_huge_pages},
    {{"open-files", "ulimit -n", "fail below 64 + 4 x ranks, warn below 1024",
      "ulimit -n 65536 (LimitNOFILE=, limits.conf)"},
     probe_open_files},
    {{"locked-memory", "ulimit -l", "fail when limited and there is InfiniBand, warn below 64 KiB",
      "ulimit -l unlimited (LimitMEMLOCK=infinity, limits.conf, docker --ulimit memlock=-1)"},
     probe_locked_memory},
    {{"processes", "ulimit -u", "fail below the threads of the ranks, warn below four times them", "ulimit -u 65536"},
     probe_processes},
    {{"core-files", "ulimit -c", "warn when they are cut", "ulimit -c unlimited, or 0"}, probe_core_files},
    {{"address-space", "ulimit -v", "fail below nine times the machine's memory", "ulimit -v unlimited"},
     probe_address_space},
    {{"shm", "/dev/shm", "warn below 256 MiB free", "docker --shm-size=8g; mount -o remount,size=8G /dev/shm"},
     probe_shm},
    {{"dump-folder", "job.dump_folder can be written", "fail when not",
      "make it, or name another: job.dump_folder=DIR"},
     probe_dump_folder},
    {{"dump-space", "room on its disk", "fail below 64 MiB or a checkpoint, warn below 1 GiB or two",
      "free some, name another disk, or a smaller checkpoint.keep_latest_k"},
     probe_dump_space},
    {{"dump-speed", "write rate of its disk, measured for half a second",
      "warn below 50 MB/s, or a checkpoint above 60 s", "name a faster disk, or save less often (checkpoint.interval)"},
     probe_dump_speed},
    {{"tmp", "TMPDIR: can be written, room, speed", "fail when not, warn below 64 MiB or 50 MB/s",
      "TMPDIR=/a/local/folder"},
     probe_tmp},
    {{"memfd", "memfd_create, sparse and shared", "fail when refused",
      "no file size limit (ulimit -f), no seccomp filter for it"},
     probe_memfd},
    {{"futex", "futex waits", "fail when they do not wait", "allow futex in the container's seccomp filter"},
     probe_futex},
    {{"kernel", "the kernel's version, containers", "warn below 5.3", "a newer kernel"}, probe_kernel},
    {{"ptrace", "Yama's ptrace_scope", "warn at 2 (but root) and 3", "sysctl kernel.yama.ptrace_scope=1"},
     probe_ptrace},
    {{"perf", "perf_event_paranoid", "for information", "sysctl kernel.perf_event_paranoid=1"}, probe_perf},
    {{"leftovers", "tessera processes older than this job", "warn above 0",
      "look at them with ps; end those that are not needed"},
     probe_stale},
    {{"clocksource", "where the kernel reads the time", "warn when slow (hpet, acpi_pm, jiffies)",
      "boot with clocksource=tsc, where the TSC is stable"},
     probe_clocksource},
    {{"time-sync", "whether the clock is synchronised", "warn when not, with several hosts; or off by 1 s",
      "start chronyd or systemd-timesyncd"},
     probe_ntp},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const tess_probe_check *host_check_at(int i)
{
    return i < N_ROWS ? &rows[i].check : NULL;
}

void probe_host_look(const probe_host *host, tess_probe_findings *findings)
{
    for (int i = 0; i < N_ROWS; i++) {
        tess_probe_finding *finding = probe_begin(findings, TESS_PROBE_HOST, rows[i].check.name, host->plan.only);
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

const tess_probe_check *tess_probe_check_at(tess_probe_group group, int i)
{
    static const tess_probe_check *(*const groups[TESS_PROBE_GROUPS])(int i) = {
        [TESS_PROBE_HOST] = host_check_at,
        [TESS_PROBE_GPU] = probe_gpu_check_at,
        [TESS_PROBE_RANKS] = probe_rank_check_at,
    };
    return groups[group] != NULL ? groups[group](i) : NULL;
}
