/* Checks the cores: their instructions, their speed, and other processes that run on them. */
#include <string.h>

#include "base/os/memory_group.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

#define STEAL_WARN 0.05    /* share of the cores' time */
#define FREQUENCY_WARN 0.6 /* share of the highest frequency, under load */
#define CAPPED_WARN 0.95   /* share of the highest frequency; warns if the configured limit is lower */
#define SPIN_S 0.03        /* time for a sleeping core to reach its frequency */
#define LOAD_WARN 0.25     /* running processes of other programs, per core */

void probe_kernels(const probe_host *host, tess_probe_finding *finding)
{
    if (strcmp(host->kernels, host->best_kernels) != 0)
        probe_say(finding, TESS_PROBE_WARN,
                  "kernels '%s' are in use, but this machine can run '%s' (TESSERA_CPU is set)", host->kernels,
                  host->best_kernels);
    else if (strcmp(host->kernels, "ref") == 0)
        probe_say(finding, TESS_PROBE_WARN, "only the scalar reference kernels can run here: the CPU has no AVX2");
    else if (strstr(host->amx_missing, "permission") != NULL || strstr(host->amx_missing, "XCR0") != NULL)
        probe_say(finding, TESS_PROBE_WARN, "the CPU has AMX, but lacks %s; kernels '%s' run", host->amx_missing,
                  host->kernels);
    else
        probe_say(finding, TESS_PROBE_OK, "%s", host->kernels);
}

typedef struct frequencies {
    const char *root;
    double now, limit, highest; /* frequencies of the fastest core in kHz: current, limit, highest; 0: unknown */
    double throttled;           /* throttling events since boot, over all cores */
    bool has_counters;
} frequencies;

static void add_core(frequencies *f, const char *name)
{
    static const char *const counters[] = {"core_throttle_count", "package_throttle_count"};
    char path[PROBE_PATH_BYTES];
    double value;
    struct {
        const char *file;
        double *most;
    } rates[] = {{"scaling_cur_freq", &f->now}, {"scaling_max_freq", &f->limit}, {"cpuinfo_max_freq", &f->highest}};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s/cpufreq/%s", name, rates[i].file);
        if (probe_read_number(f->root, path, &value) && value > *rates[i].most)
            *rates[i].most = value;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s/thermal_throttle/%s", name, counters[i]);
        if (probe_read_number(f->root, path, &value)) {
            f->throttled += value;
            f->has_counters = true;
        }
    }
}

static tess_status visit_core(void *context, const char *name)
{
    if (strncmp(name, "cpu", 3) == 0 && name[3] >= '0' && name[3] <= '9')
        add_core(context, name);
    return TESS_OK;
}

static frequencies read_frequencies(const char *root)
{
    char path[PROBE_PATH_BYTES];
    frequencies f = {.root = root};
    snprintf(path, sizeof(path), "%s/sys/devices/system/cpu", root);
    if (tess_os_list(path, visit_core, &f) != TESS_OK)
        tess_error_clear();
    return f;
}

void probe_frequency(const probe_host *host, tess_probe_finding *finding)
{
    double until = tess_os_now_s() + SPIN_S;
    while (tess_os_now_s() < until)
        ;
    frequencies f = read_frequencies(host->root);
    if (f.highest == 0 || f.now == 0)
        probe_say(finding, TESS_PROBE_ABSENT, "no cpufreq: the hypervisor or the firmware controls the clock");
    else if (f.limit > 0 && f.limit < CAPPED_WARN * f.highest)
        probe_say(finding, TESS_PROBE_WARN, "the clock is limited to %.2f GHz of %.2f GHz (scaling_max_freq)",
                  f.limit * 1e-6, f.highest * 1e-6);
    else if (f.now < FREQUENCY_WARN * f.highest)
        probe_say(finding, TESS_PROBE_WARN, "the fastest core runs at %.2f GHz of %.2f GHz while it computes",
                  f.now * 1e-6, f.highest * 1e-6);
    else
        probe_say(finding, TESS_PROBE_OK, "%.2f of %.2f GHz", f.now * 1e-6, f.highest * 1e-6);
}

void probe_throttling(const probe_host *host, tess_probe_finding *finding)
{
    frequencies f = read_frequencies(host->root);
    if (!f.has_counters)
        probe_say(finding, TESS_PROBE_ABSENT, "no counters of thermal throttling");
    else if (f.throttled > 0)
        probe_say(finding, TESS_PROBE_WARN, "cores were slowed down by heat %.0f times since the machine started",
                  f.throttled);
    else
        probe_say(finding, TESS_PROBE_OK, "never");
}

void probe_steal(const probe_host *host, tess_probe_finding *finding)
{
    probe_ticks now;
    const char *when = "since the checks began";
    if (!probe_read_ticks(host->root, &now)) {
        probe_say(finding, TESS_PROBE_ABSENT, "no /proc/stat");
        return;
    }
    double total = now.total - host->before.total, steal = now.steal - host->before.steal;
    if (total <= 0) {
        total = now.total;
        steal = now.steal;
        when = "since the machine started";
    }
    bool much = steal > STEAL_WARN * total;
    probe_say(finding, much ? TESS_PROBE_WARN : TESS_PROBE_OK,
              much ? "%.1f%% of the cores' time went to other virtual machines %s" : "%.1f%% %s", 100 * steal / total,
              when);
}

void probe_cores(const probe_host *host, tess_probe_finding *finding)
{
    double quota = 0;
    int cores = host->affinity_cores, ranks = host->plan.n_ranks;
    bool limited = tess_control_group_cores(host->root, &quota) && quota < cores;
    if (limited && quota < 1)
        probe_say(finding, TESS_PROBE_FAIL,
                  "the cgroup's quota is %.2f of a core: ranks stand still for most of every period", quota);
    else if (limited)
        probe_say(finding, TESS_PROBE_WARN,
                  "the cgroup's quota is worth %.1f of the %d cores: ranks that spin use it up and are stopped", quota,
                  cores);
    else if (ranks > cores)
        probe_say(finding, TESS_PROBE_WARN, "%d ranks share %d core%s", ranks, cores, cores == 1 ? "" : "s");
    else
        probe_say(finding, TESS_PROBE_OK, "%d for %d rank%s", cores, ranks, ranks == 1 ? "" : "s");
}

typedef struct runners {
    /* this process: the ranks of its job have the same name; host_system.c reports older processes of that name */
    probe_process self;
    int n;
    char names[160]; /* names of the first few processes */
} runners;

static void visit_runner(void *context, const probe_process *process)
{
    runners *r = context;
    if (process->pid == r->self.pid || process->state != 'R' || strcmp(process->name, r->self.name) == 0)
        return;
    size_t at = strlen(r->names);
    if (r->n++ < 4)
        tess_text_add(r->names, sizeof(r->names), at, "%s%s (%d)", at > 0 ? ", " : "", process->name, process->pid);
}

void probe_load(const probe_host *host, tess_probe_finding *finding)
{
    double load = 0;
    runners r = {0};
    probe_read_self(host->root, &r.self);
    probe_read_number(host->root, "/proc/loadavg", &load);
    probe_each_process(host->root, visit_runner, &r);
    if (r.n > 0 && r.n >= LOAD_WARN * host->affinity_cores)
        probe_say(finding, TESS_PROBE_WARN, "%d other process%s on %d cores: %s; load %.2f", r.n,
                  r.n == 1 ? " runs" : "es run", host->affinity_cores, r.names, load);
    else
        probe_say(finding, TESS_PROBE_OK, "%.2f", load);
}
