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

typedef struct memory_files {
    const char *controller, *tree, *limit, *used;
} memory_files;

static bool tightest_memory(const char *root, const memory_files *files, double *limit, double *used)
{
    char group[512], text[64];
    bool found = false;
    if (!find_group(root, files->controller, group, sizeof(group)))
        return false;
    do {
        if (!read_in(root, files->tree, group, files->limit, text, sizeof(text)) || strcmp(text, "max") == 0)
            continue;
        double value = strtod(text, NULL);
        if (value <= 0 || value >= NO_LIMIT_V1 || (found && value >= *limit))
            continue;
        found = true;
        *limit = value;
        *used = read_in(root, files->tree, group, files->used, text, sizeof(text)) ? strtod(text, NULL) : 0;
    } while (to_parent(group));
    return found;
}

bool probe_cgroup_memory(const char *root, double *limit, double *used)
{
    static const memory_files version2 = {"", "", "memory.max", "memory.current"},
                              version1 = {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"};
    return tightest_memory(root, &version2, limit, used) || tightest_memory(root, &version1, limit, used);
}

/* Reads "quota period" of a group; in version 1 each has its own file. False: no limit here. */
static bool read_quota(const char *root, bool version1, const char *group, double *cores)
{
    char text[64], *end;
    double quota, period;
    if (!read_in(root, version1 ? "/cpu" : "", group, version1 ? "cpu.cfs_quota_us" : "cpu.max", text, sizeof(text)))
        return false;
    quota = strtod(text, &end);
    if (version1 && !read_in(root, "/cpu", group, "cpu.cfs_period_us", text, sizeof(text)))
        return false;
    period = strtod(version1 ? text : end, NULL);
    *cores = period > 0 ? quota / period : 0;
    return quota > 0 && period > 0;
}

static bool tightest_quota(const char *root, bool version1, double *cores)
{
    char group[512];
    double value;
    bool found = false;
    if (!find_group(root, version1 ? "cpu" : "", group, sizeof(group)))
        return false;
    do {
        if (read_quota(root, version1, group, &value) && (!found || value < *cores)) {
            *cores = value;
            found = true;
        }
    } while (to_parent(group));
    return found;
}

bool probe_cgroup_cores(const char *root, double *cores)
{
    return tightest_quota(root, false, cores) || tightest_quota(root, true, cores);
}
