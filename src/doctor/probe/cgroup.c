/* The limits set by this process's control groups. In version 2, every group from the process's own up to the root may
 * set a limit; in a container, the root is the container's. Version 1 has a tree for each controller. */
#include <stdlib.h>
#include <string.h>

#include "doctor/probe/probe_impl.h"

/* Version 1 writes "no limit" as a value this large, within a page. */
#define NO_LIMIT_V1 9e18

/* Finds the path after "<controllers>:" in /proc/self/cgroup; controller "" means version 2. False: the process is in
 * no such group. */
static bool find_group(const char *root, const char *controller, char *path, size_t size)
{
    char text[4096];
    if (probe_read(root, "/proc/self/cgroup", text, sizeof(text)) <= 0)
        return false;
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        char *names = strchr(line, ':'), *at = names != NULL ? strchr(names + 1, ':') : NULL;
        if (at == NULL)
            continue;
        *at++ = '\0';
        if (!(controller[0] == '\0' ? names[1] == '\0' : tess_probe_wanted(names + 1, controller)))
            continue;
        snprintf(path, size, "%s", at);
        return true;
    }
    return false;
}

/* Shortens "/a/b" to "/a", "/a" to "". False: it was "" already. */
static bool to_parent(char *path)
{
    if (path[0] == '\0')
        return false;
    char *slash = strrchr(path, '/');
    *(slash != NULL ? slash : path) = '\0';
    return true;
}

static bool read_in(const char *root, const char *tree, const char *group, const char *file, char *text, size_t size)
{
    char path[PROBE_PATH_BYTES];
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/%s", tree, group, file);
    return probe_read(root, path, text, size) > 0;
}

/* Reads the limit that one group sets, and its use. False: it sets none. */
typedef bool read_limit(const char *root, bool version1, const char *group, double *limit, double *used);

static bool read_memory(const char *root, bool version1, const char *group, double *limit, double *used)
{
    char text[64];
    const char *tree = version1 ? "/memory" : "";
    if (!read_in(root, tree, group, version1 ? "memory.limit_in_bytes" : "memory.max", text, sizeof(text)) ||
        strcmp(text, "max") == 0)
        return false;
    *limit = strtod(text, NULL);
    const char *file = version1 ? "memory.usage_in_bytes" : "memory.current";
    *used = read_in(root, tree, group, file, text, sizeof(text)) ? strtod(text, NULL) : 0;
    return *limit > 0 && *limit < NO_LIMIT_V1;
}

/* Reads "quota period" of a group; in version 1 each has its own file. */
static bool read_quota(const char *root, bool version1, const char *group, double *cores, double *used)
{
    char text[64], *end;
    *used = 0;
    if (!read_in(root, version1 ? "/cpu" : "", group, version1 ? "cpu.cfs_quota_us" : "cpu.max", text, sizeof(text)))
        return false;
    double quota = strtod(text, &end);
    if (version1 && !read_in(root, "/cpu", group, "cpu.cfs_period_us", text, sizeof(text)))
        return false;
    double period = strtod(version1 ? text : end, NULL);
    *cores = period > 0 ? quota / period : 0;
    return quota > 0 && period > 0;
}

/* The tightest limit in version 2, or else in version 1. */
static bool find_tightest(const char *root, const char *controller, read_limit *read, double *limit, double *used)
{
    bool found = false;
    for (int version1 = 0; version1 <= 1 && !found; version1++) {
        char group[512];
        double here, used_here;
        if (!find_group(root, version1 ? controller : "", group, sizeof(group)))
            continue;
        do {
            if (!read(root, version1, group, &here, &used_here) || (found && here >= *limit))
                continue;
            found = true;
            *limit = here;
            *used = used_here;
        } while (to_parent(group));
    }
    return found;
}

bool probe_cgroup_memory(const char *root, double *limit, double *used)
{
    return find_tightest(root, "memory", read_memory, limit, used);
}

bool probe_cgroup_cores(const char *root, double *cores)
{
    double used;
    return find_tightest(root, "cpu", read_quota, cores, &used);
}
