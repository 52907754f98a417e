/* Preflight's checks of a host: a healthy one made of files and values, and one fault at a time in it. */
#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "doctor/probe/probe_impl.h"

typedef struct file {
    const char *path, *text;
} file;

#define STAT_SELF "/proc/self/stat"
#define CPU "/sys/devices/system/cpu/"

/* The rest of /proc/PID/stat after the parent, of a process started a second after the machine. */
#define STAT_REST " 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0"

/* Started one hour after the machine, at 100 ticks a second. */
#define SELF "500 (tessera) S 400 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 360000 0"

static const file healthy[] = {
    {"/proc/stat", "cpu  1000 0 500 98000 100 0 0 10 0 0\ncpu0 1 2 3\n"},
    {"/proc/loadavg", "0.10 0.20 0.30 1/88 500\n"},
    {STAT_SELF, SELF},
    {"/proc/500/stat", SELF},
    {"/proc/7/stat", "7 (sh (R) x) S 1" STAT_REST},
    {"/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\nSwapTotal: 4194304 kB\n"
                      "SwapFree: 4194304 kB\n"},
    {"/proc/self/cgroup", "0::/job/step\n"},
    {"/sys/fs/cgroup/job/step/memory.max", "max\n"},
    {"/sys/fs/cgroup/job/memory.max", "17179869184\n"},
    {"/sys/fs/cgroup/job/memory.current", "1073741824\n"},
    {"/sys/fs/cgroup/job/step/cpu.max", "max 100000\n"},
    {"/proc/sys/vm/overcommit_memory", "0\n"},
    {"/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
    {"/proc/sys/kernel/osrelease", "6.1.0-30-amd64\n"},
    {"/proc/sys/kernel/yama/ptrace_scope", "1\n"},
    {"/proc/sys/kernel/perf_event_paranoid", "2\n"},
    {"/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"},
    {CPU "cpu0/cpufreq/scaling_cur_freq", "3400000\n"},
    {CPU "cpu0/cpufreq/scaling_max_freq", "3500000\n"},
    {CPU "cpu0/cpufreq/cpuinfo_max_freq", "3500000\n"},
    {CPU "cpu1/cpufreq/scaling_cur_freq", "800000\n"},
    {CPU "cpu0/thermal_throttle/core_throttle_count", "0\n"},
    {CPU "cpufreq/boost", "1\n"},
    {"/proc/sys/net/core/rmem_max", "134217728\n"},
    {"/proc/sys/net/core/wmem_max", "134217728\n"},
    {"/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t134217728\n"},
    {"/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t134217728\n"},
    {"/proc/net/route", "Iface\tDestination\tGateway\nib0\t0000000A\t0\neth0\t00000000\t0100000A\n"},
    {"/sys/class/net/eth0/operstate", "up\n"},
    {"/sys/class/net/eth0/speed", "25000\n"},
};

static void put(const char *root, const file *f)
{
    char path[1024], folder[1024];
    snprintf(path, sizeof(path), "%s%s", root, f->path);
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    EXPECT_OK(tess_os_make_dirs(folder));
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL && fputs(f->text, file) >= 0 && fclose(file) == 0);
}

static const char *make_root(void)
{
    const char *root = test_folder();
    for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++)
        put(root, &healthy[i]);
    return root;
}

/* Four ranks on eight cores, which need 4 GiB of memory. */
static probe_host make_host(const char *root)
{
    probe_host host = {
        .root = root,
        .plan = {.n_ranks = 4, .n_hosts = 1, .state_bytes = 4.0 * (1 << 30), .checkpoint_bytes = 3.0 * (1 << 30)},
        .affinity_cores = 8,
        .kernels = "amx",
        .best_kernels = "amx",
        .clock_known = true,
        .clock_synced = true,
        .clock_error_s = 0.002,
        .shm = {8ull << 30, 8ull << 30},
        .futex_works = true,
        .dump = {.named = "out", .there = ".", .space = {1ull << 40, 1ull << 39}, .bytes_per_s = 1e9},
        .tmp = {.named = "/tmp", .there = "/tmp", .space = {1ull << 36, 1ull << 35}, .bytes_per_s = 1e9},
    };
    for (int i = 0; i < TESS_OS_LIMIT_COUNT; i++)
        host.limits[i] = UINT64_MAX;
    EXPECT(probe_read_ticks(root, &host.before));
    return host;
}

static const tess_probe_finding *find(const tess_probe_findings *findings, const char *name)
{
    for (int i = 0; i < findings->n; i++)
        if (strcmp(findings->at[i].name, name) == 0)
            return &findings->at[i];
    test_fail(__FILE__, __LINE__, "there is no finding '%s'", name);
}

/* Whether a check of a healthy host says anything but that all is well. The host has no InfiniBand, no port to try. */
static bool complains(const tess_probe_finding *f)
{
    bool may_lack = strcmp(f->name, "infiniband") == 0 || strcmp(f->name, "tcp") == 0;
    return f->outcome != TESS_PROBE_OK && !(may_lack && f->outcome == TESS_PROBE_ABSENT);
}

/* The named finding has this outcome and text; no other check complains. */
static void expect_found(const probe_host *host, const char *name, tess_probe_outcome outcome, const char *text)
{
    tess_probe_findings findings = {0};
    probe_host_look(host, &findings);
    const tess_probe_finding *finding = find(&findings, name);
    EXPECT_CONTAINS(finding->text, text);
    EXPECT_INT(finding->outcome, outcome);
    for (int i = 0; i < findings.n; i++)
        if (&findings.at[i] != finding && complains(&findings.at[i]))
            test_fail(__FILE__, __LINE__, "with a fault of %s, %s says: %s", name, findings.at[i].name,
                      findings.at[i].text);
}

static void healthy_host_has_no_complaint(void)
{
    tess_probe_findings findings = {0};
    probe_host host = make_host(make_root());
    probe_host_look(&host, &findings);
    EXPECT(findings.n >= 34);
    for (int i = 0; i < findings.n; i++)
        if (complains(&findings.at[i]))
            test_fail(__FILE__, __LINE__, "%s: %s", findings.at[i].name, findings.at[i].text);
}

typedef struct fault {
    file in;
    const char *check;
    tess_probe_outcome outcome;
    const char *text;
} fault;

static void faults_in_proc_and_sys_are_found(void)
{
    static const fault faults[] = {
        {{CPU "cpu0/cpufreq/scaling_cur_freq", "900000"}, "clock-rate", TESS_PROBE_WARN, "0.90 GHz of 3.50 GHz"},
        {{CPU "cpu0/cpufreq/scaling_max_freq", "2000000"}, "clock-rate", TESS_PROBE_WARN, "limited to 2.00 GHz"},
        {{CPU "cpu1/thermal_throttle/package_throttle_count", "17"}, "throttling", TESS_PROBE_WARN, "heat 17 times"},
        {{"/proc/stat", "cpu 1500 0 600 98500 100 0 0 400 0 0"}, "steal", TESS_PROBE_WARN, "% of the cores' time"},
        {{"/sys/fs/cgroup/job/cpu.max", "250000 100000"}, "cores", TESS_PROBE_WARN, "worth 2.5 of the 8 cores"},
        {{"/sys/fs/cgroup/job/cpu.max", "50000 100000"}, "cores", TESS_PROBE_FAIL, "0.50 of a core"},
        {{"/proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/c\n"}, "cores", TESS_PROBE_OK, "8 for 4"},
        {{"/proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 2000000 kB\n"}, "memory", TESS_PROBE_FAIL, "4.00 GiB"},
        {{"/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 2097152 kB\n"},
         "memory",
         TESS_PROBE_WARN,
         "only 2.00 GiB are available"},
        {{"/sys/fs/cgroup/job/memory.max", "1073741824"}, "cgroup-memory", TESS_PROBE_FAIL, "OOM-killed"},
        {{"/sys/fs/cgroup/job/memory.current", "16106127360"}, "cgroup-memory", TESS_PROBE_WARN, "15.0 GiB of"},
        {{"/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\nSwapTotal: 4194304 kB\nSwapFree: 9 kB\n"},
         "swap",
         TESS_PROBE_WARN,
         "4.00 GiB are swapped out"},
        {{"/proc/sys/vm/overcommit_memory", "2"}, "overcommit", TESS_PROBE_FAIL, "vm.overcommit_memory=2"},
        {{"/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"},
         "huge-pages",
         TESS_PROBE_WARN,
         "pages of 4 KiB"},
        {{"/proc/sys/kernel/osrelease", "4.18.0-553.el8"}, "kernel", TESS_PROBE_WARN, "Linux 4.18.0-553.el8"},
        {{"/proc/sys/kernel/yama/ptrace_scope", "3"}, "ptrace", TESS_PROBE_WARN, "ptrace_scope=3"},
        {{"/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"},
         "clocksource",
         TESS_PROBE_WARN,
         "hpet: reading the time"},
        {{"/proc/7/stat", "7 (tessera) S 1" STAT_REST}, "leftovers", TESS_PROBE_WARN, "7 (3599 s old, orphaned)"},
        {{"/proc/9/stat", "9 (cc1) R 1" STAT_REST}, "load", TESS_PROBE_OK, "0.10"}, /* one on eight cores */
    };
    const char *root = make_root();
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        probe_host host = make_host(root);
        put(root, &faults[i].in);
        expect_found(&host, faults[i].check, faults[i].outcome, faults[i].text);
        char path[1024];
        snprintf(path, sizeof(path), "%s%s", root, faults[i].in.path);
        tess_os_remove(path);
        for (size_t k = 0; k < sizeof(healthy) / sizeof(healthy[0]); k++)
            if (strcmp(healthy[k].path, faults[i].in.path) == 0)
                put(root, &healthy[k]);
    }
}

static void others_that_run_are_named(void)
{
    const char *root = make_root();
    put(root, &(file){"/proc/9/stat", "9 (cc1) R 1" STAT_REST});
    put(root, &(file){"/proc/11/stat", "11 (a) S) R 1" STAT_REST});
    probe_host host = make_host(root);
    host.affinity_cores = 6;
    expect_found(&host, "load", TESS_PROBE_WARN, "2 other processes run on 6 cores: ");
    tess_probe_findings findings = {0};
    probe_host_look(&host, &findings);
    EXPECT_CONTAINS(find(&findings, "load")->text, "cc1 (9)");
    EXPECT_CONTAINS(find(&findings, "load")->text, "a) S (11)");
}

static void old_control_groups_are_read_too(void)
{
    const char *root = make_root();
    probe_host host = make_host(root);
    put(root, &(file){"/proc/self/cgroup", "12:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n"});
    put(root, &(file){"/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712"});
    expect_found(&host, "cgroup-memory", TESS_PROBE_OK, "no limit");
    put(root, &(file){"/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "2147483648"});
    expect_found(&host, "cgroup-memory", TESS_PROBE_FAIL, "may use 2.00 GiB");
    host.plan.state_bytes = 0;
    put(root, &(file){"/sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "2147483000"});
    expect_found(&host, "cgroup-memory", TESS_PROBE_WARN, "of the cgroup's 2.00 GiB");
    tess_os_remove_tree(root);
    root = make_root();
    put(root, &(file){"/proc/self/cgroup", "3:cpu,cpuacct:/docker/abc\n"});
    put(root, &(file){"/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1"});
    put(root, &(file){"/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "300000"});
    put(root, &(file){"/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000"});
    expect_found(&host, "cores", TESS_PROBE_WARN, "worth 3.0 of the 8 cores");
    tess_os_remove_tree(root);
    root = make_root();
    put(root, &(file){"/proc/self/cgroup", "4:memory,hugetlb:/docker/abc\n"});
    put(root,
        &(file){"/proc/self/mountinfo", "35 25 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                                        "36 25 0:31 /docker /mnt/mem,tlb rw - cgroup cgroup rw,memory,hugetlb\n"});
    put(root, &(file){"/mnt/mem,tlb/abc/memory.limit_in_bytes", "1073741824"});
    put(root, &(file){"/mnt/mem,tlb/abc/memory.usage_in_bytes", "1073741000"});
    expect_found(&host, "cgroup-memory", TESS_PROBE_WARN, "of the cgroup's 1.00 GiB");
}

/* Each fault changes one value of a healthy host. */
#define FAULT(check, outcome, text, ...)           \
    do {                                           \
        probe_host host = make_host(root);         \
        __VA_ARGS__;                               \
        expect_found(&host, check, outcome, text); \
    } while (0)

static void faults_of_limits_are_found(void)
{
    const char *root = make_root();
    FAULT("open-files", TESS_PROBE_FAIL, "may open 64 files; 4 ranks need 80", host.limits[TESS_OS_OPEN_FILES] = 64);
    FAULT("open-files", TESS_PROBE_WARN, "only 256 files", host.limits[TESS_OS_OPEN_FILES] = 256);
    FAULT("locked-memory", TESS_PROBE_WARN, "only 16.0 KiB", host.limits[TESS_OS_LOCKED_MEMORY] = 16384);
    FAULT("processes", TESS_PROBE_FAIL, "4 ranks need about 24", host.limits[TESS_OS_PROCESSES] = 20);
    FAULT("processes", TESS_PROBE_WARN, "only 60", host.limits[TESS_OS_PROCESSES] = 60);
    FAULT("core-files", TESS_PROBE_WARN, "cut at 1.00 KiB", host.limits[TESS_OS_CORE_FILE] = 1024);
    FAULT("address-space", TESS_PROBE_FAIL, "may map 64.0 GiB", host.limits[TESS_OS_ADDRESS_SPACE] = 64ull << 30);
    put(root, &(file){"/sys/class/infiniband/mlx5_0/node_type", "1: CA"});
    FAULT("locked-memory", TESS_PROBE_FAIL, "InfiniBand", host.limits[TESS_OS_LOCKED_MEMORY] = 8 << 20);
}

static void faults_of_disks_and_memory_are_found(void)
{
    const char *root = make_root();
    FAULT("shm", TESS_PROBE_WARN, "64.0 MiB of 64.0 MiB", host.shm = (tess_os_space){64 << 20, 64 << 20});
    FAULT("dump-space", TESS_PROBE_FAIL, "a checkpoint takes 3.00 GiB", host.dump.space.free = 2ull << 30);
    FAULT("dump-space", TESS_PROBE_WARN, "a checkpoint takes twice", host.dump.space.free = 4ull << 30);
    FAULT("dump-space", TESS_PROBE_FAIL, "5.00 MiB of", host.dump.space.free = 5 << 20; host.plan.checkpoint_bytes = 0);
    FAULT("dump-speed", TESS_PROBE_WARN, "only 9.54 MiB/s", host.dump.bytes_per_s = 1e7;
          host.plan.checkpoint_bytes = 0);
    FAULT("dump-speed", TESS_PROBE_WARN, "a checkpoint takes 322 s", host.dump.bytes_per_s = 1e7);
    FAULT("tmp", TESS_PROBE_WARN, "1.00 MiB are free", host.tmp.space.free = 1 << 20);
    FAULT("tmp", TESS_PROBE_FAIL, "Read-only", snprintf(host.tmp.error, sizeof(host.tmp.error), "Read-only"));
    FAULT("dump-folder", TESS_PROBE_FAIL, "job.dump_folder out: no space",
          snprintf(host.dump.error, sizeof(host.dump.error), "no space"));
    FAULT("memfd", TESS_PROBE_FAIL, "EPERM", snprintf(host.memfd_error, sizeof(host.memfd_error), "EPERM"));
    FAULT("futex", TESS_PROBE_FAIL, "spin", host.futex_works = false);
}

static void faults_of_cores_and_clocks_are_found(void)
{
    const char *root = make_root();
    FAULT("cpu", TESS_PROBE_WARN, "'ref' are in use", host.kernels = "ref");
    FAULT("cpu", TESS_PROBE_WARN, "no AVX2", host.kernels = host.best_kernels = "ref");
    FAULT("cpu", TESS_PROBE_WARN, "lacks the kernel's permission", host.kernels = host.best_kernels = "avx512_bf16";
          snprintf(host.amx_missing, sizeof(host.amx_missing), "the kernel's permission for tile registers"));
    FAULT("cpu", TESS_PROBE_OK, "avx2", host.kernels = host.best_kernels = "avx2";
          snprintf(host.amx_missing, sizeof(host.amx_missing), "avx512f, amx_tile"));
    FAULT("cores", TESS_PROBE_WARN, "4 ranks share 3 cores", host.affinity_cores = 3);
    FAULT("time-sync", TESS_PROBE_WARN, "not synchronised", host.clock_synced = false; host.plan.n_hosts = 2);
    FAULT("time-sync", TESS_PROBE_WARN, "off by 2.5 s", host.clock_error_s = 2.5);
    FAULT("time-sync", TESS_PROBE_OK, "no matter", host.clock_synced = false);
}

static void faults_of_networks_are_found(void)
{
    char target[64];
    int fd = -1;
    uint16_t port;
    const char *root = make_root();
    put(root, &(file){"/proc/sys/net/core/rmem_max", "212992"});
    FAULT("socket-buffers", TESS_PROBE_OK, "no matter", host.plan.n_hosts = 1);
    FAULT("socket-buffers", TESS_PROBE_WARN, "rmem_max 208 KiB, wmem_max 128 MiB", host.plan.n_hosts = 2);
    put(root, &(file){"/proc/sys/net/core/rmem_max", "134217728"});
    put(root, &(file){"/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304"});
    FAULT("tcp-buffers", TESS_PROBE_WARN, "tcp_wmem up to 4.00 MiB", host.plan.n_hosts = 2);
    put(root, &(file){"/proc/sys/net/ipv4/tcp_wmem", "4096 16384 134217728"});
    put(root, &(file){"/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"});
    put(root, &(file){"/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n"});
    FAULT("infiniband", TESS_PROBE_OK, "1 port active, 200 Gb/sec", host.plan.n_hosts = 2);
    put(root, &(file){"/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"});
    put(root, &(file){"/sys/class/infiniband/mlx5_1/ports/1/phys_state", "3: Disabled\n"});
    FAULT("infiniband", TESS_PROBE_WARN, "mlx5_1 port 1 is '1: DOWN', its link '3: Disabled'", host.plan.n_hosts = 2);
    put(root, &(file){"/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n"});
    put(root, &(file){"/sys/class/net/eth0/speed", "1000\n"});
    FAULT("interface", TESS_PROBE_WARN, "eth0, 1 Gbit/s", host.plan.n_hosts = 2);
    put(root, &(file){"/sys/class/net/eth0/operstate", "down\n"});
    FAULT("interface", TESS_PROBE_FAIL, "eth0 is down", host.plan.n_hosts = 2);
    put(root, &(file){"/sys/class/net/eth0/operstate", "up\n"});
    EXPECT_OK(tess_os_listen("127.0.0.1", 0, 0, &fd, &port));
    snprintf(target, sizeof(target), "127.0.0.1:%d", port);
    FAULT("tcp", TESS_PROBE_OK, " answers in ", host.plan.tcp = target);
    tess_os_close(&fd);
    FAULT("tcp", TESS_PROBE_FAIL, "Connection refused", host.plan.tcp = target);
    FAULT("tcp", TESS_PROBE_FAIL, "'localhost' is not HOST:PORT", host.plan.tcp = "localhost");
}

/* Asking the system: real folders, real limits. */
static void folders_are_tried_for_real(void)
{
    char missing[1024], below_file[1024], file_path[1024];
    probe_host host;
    const char *root = make_root();
    tess_probe_plan plan = {.n_ranks = 1, .n_hosts = 1, .tmp_folder = root, .dump_folder = missing};
    snprintf(missing, sizeof(missing), "%s/not/yet/there", root);
    probe_host_ask(&plan, "", &host);
    EXPECT_TEXT(host.dump.error, "");
    EXPECT_TEXT(host.dump.there, root);
    EXPECT(host.dump.bytes_per_s > 0 && host.dump.space.total > host.dump.space.free);
    EXPECT(host.futex_works && host.memfd_error[0] == '\0');

    snprintf(file_path, sizeof(file_path), "%s/proc/loadavg", root);
    snprintf(below_file, sizeof(below_file), "%s/out", file_path);
    plan.dump_folder = below_file;
    plan.tmp_folder = "/proc/self/task"; /* nobody, not even root, may create files there */
    probe_host_ask(&plan, "", &host);
    EXPECT_CONTAINS(host.dump.error, "loadavg");
    EXPECT_CONTAINS(host.tmp.error, "/proc/self/task");
}

static void only_the_wanted_checks_are_done(void)
{
    tess_probe_findings findings = {0};
    probe_host host = make_host(make_root());
    host.plan.only = "memory,swap";
    probe_host_look(&host, &findings);
    EXPECT_INT(findings.n, 2);
    EXPECT_TEXT(findings.at[0].name, "memory");
    EXPECT_TEXT(findings.at[1].name, "swap");
    EXPECT(!tess_probe_wanted("cgroup-memory", "memory") && tess_probe_wanted("a,memory", "memory"));
}

static void text_of_others_cannot_steer_a_terminal(void)
{
    tess_probe_findings findings = {0};
    tess_probe_add(&findings, TESS_PROBE_HOST, "load", TESS_PROBE_WARN, "a\033[31mb\nc\xff \xc3\xa9");
    EXPECT_TEXT(findings.at[0].text, "a?[31mb?c? \xc3\xa9");
}

static const test_case cases[] = {
    CASE(healthy_host_has_no_complaint),
    CASE(faults_in_proc_and_sys_are_found),
    CASE(others_that_run_are_named),
    CASE(old_control_groups_are_read_too),
    CASE(faults_of_limits_are_found),
    CASE(faults_of_disks_and_memory_are_found),
    CASE(faults_of_cores_and_clocks_are_found),
    CASE(faults_of_networks_are_found),
    CASE(folders_are_tried_for_real),
    CASE(only_the_wanted_checks_are_done),
    CASE(text_of_others_cannot_steer_a_terminal),
};

TEST_MAIN(cases)
