/* Checks memory: how much the job needs and can get, and the system's policies. */
#include <string.h>

#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

#define AVAILABLE_WARN 0.1 /* share of all memory */
#define SWAP_WARN 0.05     /* share of memory */
#define SHM_WARN (256.0 * (1 << 20))

enum { SIZE_TEXT = 32 };

/* Buffers for the formatted sizes of one sentence: "1.5 GiB". */
typedef struct memory_sizes {
    char text[3][SIZE_TEXT];
} memory_sizes;

static const char *put(memory_sizes *s, int i, double bytes)
{
    return tess_format_bytes(bytes, s->text[i], SIZE_TEXT);
}

/* The word before the estimate of what the ranks need. */
static const char *about_of(const probe_host *host)
{
    return host->plan.chooses ? "at least" : "about";
}

void probe_memory(const probe_host *host, tess_probe_finding *finding)
{
    memory_sizes s;
    const char *about = about_of(host);
    double total, available, needed = host->plan.state_bytes;
    if (!probe_meminfo(host->root, "MemTotal:", &total) || !probe_meminfo(host->root, "MemAvailable:", &available)) {
        probe_say(finding, TESS_PROBE_ABSENT, "/proc/meminfo does not say");
        return;
    }
    if (needed > total)
        probe_say(finding, TESS_PROBE_FAIL, "the ranks here need %s %s (estimate), but there are %s", about,
                  put(&s, 0, needed), put(&s, 1, total));
    else if (needed > available)
        probe_say(finding, TESS_PROBE_WARN, "the ranks here need %s %s (estimate), but of %s only %s are available",
                  about, put(&s, 0, needed), put(&s, 1, total), put(&s, 2, available));
    else if (available < AVAILABLE_WARN * total)
        probe_say(finding, TESS_PROBE_WARN, "only %s of %s are available", put(&s, 0, available), put(&s, 1, total));
    else if (needed > 0)
        probe_say(finding, TESS_PROBE_OK, "%s available, %s %s needed (estimate)%s", put(&s, 0, available), about,
                  put(&s, 1, needed), host->plan.chooses ? ": the run chooses (training.local_batch_size=auto)" : "");
    else
        probe_say(finding, TESS_PROBE_OK, "%s of %s available", put(&s, 0, available), put(&s, 1, total));
}

void probe_cgroup(const probe_host *host, tess_probe_finding *finding)
{
    memory_sizes s;
    tess_memory_group group;
    uint64_t most, in_use;
    if (!tess_control_group_find(host->root, 0, "memory", &group) || !tess_memory_group_limit(&group, &most, &in_use)) {
        probe_say(finding, TESS_PROBE_OK, "no limit");
        return;
    }
    double limit = (double)most, used = (double)in_use, needed = host->plan.state_bytes;
    if (needed > limit)
        probe_say(finding, TESS_PROBE_FAIL,
                  "the ranks here need %s %s (estimate), but the cgroup may use %s: they would be OOM-killed",
                  about_of(host), put(&s, 0, needed), put(&s, 1, limit));
    else if (used + needed > (1 - AVAILABLE_WARN) * limit)
        probe_say(finding, TESS_PROBE_WARN, "%s of the cgroup's %s are in use, and the ranks here need %s (estimate)",
                  put(&s, 0, used), put(&s, 1, limit), needed > 0 ? put(&s, 2, needed) : "more");
    else
        probe_say(finding, TESS_PROBE_OK, "%s of %s", put(&s, 0, used), put(&s, 1, limit));
}

void probe_swap(const probe_host *host, tess_probe_finding *finding)
{
    memory_sizes s;
    double memory = 0, total = 0, unused = 0;
    probe_meminfo(host->root, "MemTotal:", &memory);
    probe_meminfo(host->root, "SwapTotal:", &total);
    probe_meminfo(host->root, "SwapFree:", &unused);
    if (total - unused > SWAP_WARN * memory)
        probe_say(finding, TESS_PROBE_WARN, "%s are swapped out: a rank that touches them waits for the disk",
                  put(&s, 0, total - unused));
    else
        probe_say(finding, TESS_PROBE_OK, total > 0 ? "%s of %s in use" : "none", put(&s, 0, total - unused),
                  put(&s, 1, total));
}

void probe_overcommit(const probe_host *host, tess_probe_finding *finding)
{
    double policy = 0;
    probe_read_number(host->root, "/proc/sys/vm/overcommit_memory", &policy);
    if (policy == 2)
        probe_say(
            finding, TESS_PROBE_FAIL,
            "vm.overcommit_memory=2: the ranks' shared memory is sparse, eight times the machine's, and this policy "
            "refuses it");
    else
        probe_say(finding, TESS_PROBE_OK, "policy %.0f", policy);
}

/* Copies the chosen word, the one in brackets, of "always [madvise] never". */
static void chosen_word(const char *text, char *word, size_t size)
{
    const char *open = strchr(text, '[');
    snprintf(word, size, "%.*s", open != NULL ? (int)strcspn(open + 1, "]") : 0, open != NULL ? open + 1 : "");
}

void probe_huge_pages(const probe_host *host, tess_probe_finding *finding)
{
    char text[128], word[32];
    if (probe_read(host->root, "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text)) < 0) {
        probe_say(finding, TESS_PROBE_ABSENT, "no transparent huge pages");
        return;
    }
    chosen_word(text, word, sizeof(word));
    if (strcmp(word, "never") == 0)
        probe_say(finding, TESS_PROBE_WARN, "transparent huge pages are off: large buffers use pages of 4 KiB");
    else
        probe_say(finding, TESS_PROBE_OK, "%s", word);
}

void probe_shm(const probe_host *host, tess_probe_finding *finding)
{
    memory_sizes s;
    if (host->shm.total == 0)
        probe_say(finding, TESS_PROBE_ABSENT, "no /dev/shm (Tessera needs none; MPI, NCCL and PyTorch do)");
    else if ((double)host->shm.free < SHM_WARN)
        probe_say(finding, TESS_PROBE_WARN,
                  "%s of %s are free (Tessera needs none of it, but MPI, NCCL and PyTorch's loaders do)",
                  put(&s, 0, (double)host->shm.free), put(&s, 1, (double)host->shm.total));
    else
        probe_say(finding, TESS_PROBE_OK, "%s of %s free", put(&s, 0, (double)host->shm.free),
                  put(&s, 1, (double)host->shm.total));
}
