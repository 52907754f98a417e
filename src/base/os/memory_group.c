#include "base/os/memory_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"

/* Version 1 reports no limit as the largest multiple of a page. */
static const uint64_t no_limit = UINT64_C(1) << 60;

/* Whether the list, such as "memory,hugetlb", contains the name. */
static bool lists(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strstr(names, name); at != NULL; at = strstr(at + n, name))
        if ((at == names || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

/* Finds the group's path in the form that the kernel prints: "0::/path" in version 2, "4:memory,hugetlb:/path" in
 * version 1. If both are present, version 1 wins: then it has the controller. */
static bool find_path(const char *root, int pid, const char *controller, char *path, size_t size, bool *version2)
{
    char name[TESS_GROUP_FOLDER_BYTES], line[1024];
    bool found = false;
    snprintf(name, sizeof(name), "%s/proc/%d/cgroup", root, pid);
    if (pid == 0)
        snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *controllers = strchr(line, ':'), *where = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (where == NULL)
            continue;
        *where++ = '\0';
        where[strcspn(where, "\n")] = '\0';
        bool unified = controllers[1] == '\0', named = lists(controllers + 1, controller);
        if (named || (unified && !found)) {
            snprintf(path, size, "%s", where);
            *version2 = unified;
            found = true;
        }
    }
    fclose(file);
    return found;
}

/* Finds the mount point of the group's hierarchy, and which group the mount shows as its root. If no mount is visible,
 * assumes the usual mount point. */
static void find_mount(const char *root, const char *controller, bool version2, char *mount, size_t size, char *shown,
                       size_t shown_size)
{
    char name[TESS_GROUP_FOLDER_BYTES], line[2048], from[512], to[512];
    snprintf(mount, size, "%s/sys/fs/cgroup%s%s", root, version2 ? "" : "/", version2 ? "" : controller);
    snprintf(name, sizeof(name), "%s/proc/self/mountinfo", root);
    shown[0] = '\0';
    FILE *file = fopen(name, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *type = strstr(line, " - "), *options = strrchr(line, ' ');
        if (type == NULL || sscanf(line, "%*d %*d %*s %511s %511s", from, to) != 2)
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (version2 ? strncmp(type, " - cgroup2 ", 11) != 0
                     : strncmp(type, " - cgroup ", 10) != 0 || !lists(options + 1, controller))
            continue;
        snprintf(mount, size, "%s%s", root, to);
        snprintf(shown, shown_size, "%s", strcmp(from, "/") == 0 ? "" : from);
        break;
    }
    if (file != NULL)
        fclose(file);
}

bool tess_control_group_find(const char *root, int pid, const char *controller, tess_memory_group *group)
{
    char path[512], mount[TESS_GROUP_FOLDER_BYTES], hidden[512];
    *group = (tess_memory_group){0};
    if (!find_path(root, pid, controller, path, sizeof(path), &group->version2))
        return false;
    find_mount(root, controller, group->version2, mount, sizeof(mount), hidden, sizeof(hidden));
    const char *shown = strncmp(path, hidden, strlen(hidden)) == 0 ? path + strlen(hidden) : "";
    int n = snprintf(group->folder, sizeof(group->folder), "%s%s", mount, strcmp(shown, "/") == 0 ? "" : shown);
    if (n < 0 || (size_t)n >= sizeof(group->folder))
        return false;
    group->mount_length = strlen(mount);
    return tess_os_is_dir(group->folder);
}

bool tess_memory_group_find(int pid, tess_memory_group *group)
{
    return tess_control_group_find("", pid, "memory", group);
}

/* Reads the first number in a file of the group, or the number after `key`. False: there is none, or it is "max". */
static bool read_number(const char *folder, const char *name, const char *key, uint64_t *number)
{
    char path[TESS_GROUP_FOLDER_BYTES + 64], line[256];
    bool found = false;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t skip = strlen(key);
    while (!found && fgets(line, sizeof(line), file) != NULL)
        found = strncmp(line, key, skip) == 0 && sscanf(line + skip, "%" SCNu64, number) == 1;
    fclose(file);
    return found;
}

/* Shortens `folder` to the parent group. False: it is the topmost. */
static bool to_parent(const tess_memory_group *group, char *folder)
{
    char *slash = strrchr(folder, '/');
    if (slash == NULL || (size_t)(slash - folder) < group->mount_length)
        return false;
    *slash = '\0';
    return true;
}

/* Finds the group with the tightest limit, and writes its path to `folder`. */
static bool find_tightest(const tess_memory_group *group, char *folder, uint64_t *limit)
{
    char at[TESS_GROUP_FOLDER_BYTES];
    bool found = false;
    memcpy(at, group->folder, sizeof(at));
    do {
        uint64_t here;
        if (!read_number(at, group->version2 ? "memory.max" : "memory.limit_in_bytes", "", &here) || here >= no_limit ||
            (found && here >= *limit))
            continue;
        found = true;
        *limit = here;
        memcpy(folder, at, sizeof(at));
    } while (to_parent(group, at));
    return found;
}

static uint64_t used_in(const tess_memory_group *group, const char *folder)
{
    uint64_t used = 0;
    read_number(folder, group->version2 ? "memory.current" : "memory.usage_in_bytes", "", &used);
    return used;
}

bool tess_memory_group_limit(const tess_memory_group *group, uint64_t *limit, uint64_t *used)
{
    char folder[TESS_GROUP_FOLDER_BYTES];
    bool found = find_tightest(group, folder, limit);
    *used = found ? used_in(group, folder) : 0;
    return found;
}

bool tess_memory_group_need(const tess_memory_group *group, uint64_t *limit, uint64_t *needed)
{
    static const char *const copies[][2] = {{"total_active_file ", "total_inactive_file "},
                                            {"active_file ", "inactive_file "}};
    char folder[TESS_GROUP_FOLDER_BYTES];
    if (!find_tightest(group, folder, limit))
        return false;
    *needed = used_in(group, folder);
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = 0;
        read_number(folder, "memory.stat", copies[group->version2][i], &bytes);
        *needed -= bytes < *needed ? bytes : *needed;
    }
    return true;
}

bool tess_memory_group_room(const tess_memory_group *group, uint64_t *room)
{
    uint64_t limit, needed;
    if (!tess_memory_group_need(group, &limit, &needed))
        return false;
    *room = limit > needed ? limit - needed : 0;
    return true;
}

uint64_t tess_memory_available(bool *by_group)
{
    uint64_t room, kib, available = UINT64_MAX;
    tess_memory_group group;
    if (read_number("/proc", "meminfo", "MemAvailable:", &kib))
        available = kib * 1024;
    *by_group =
        tess_memory_group_find((int)getpid(), &group) && tess_memory_group_room(&group, &room) && room < available;
    return *by_group ? room : available;
}

uint64_t tess_memory_group_kills(const tess_memory_group *group)
{
    uint64_t kills = 0;
    read_number(group->folder, group->version2 ? "memory.events" : "memory.oom_control", "oom_kill ", &kills);
    return kills;
}

/* Reads a group's quota of cores, and its period. False: the group has no quota. */
static bool read_quota(const tess_memory_group *group, double *quota, double *period)
{
    char path[TESS_GROUP_FOLDER_BYTES + 64], text[64] = "";
    uint64_t us, period_us;
    if (!group->version2) {
        bool set = read_number(group->folder, "cpu.cfs_quota_us", "", &us) && us <= INT64_MAX &&
                   read_number(group->folder, "cpu.cfs_period_us", "", &period_us);
        *quota = set ? (double)us : 0;
        *period = set ? (double)period_us : 0;
        return *quota > 0 && *period > 0;
    }
    snprintf(path, sizeof(path), "%s/cpu.max", group->folder);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool set = fgets(text, sizeof(text), file) != NULL && sscanf(text, "%lf %lf", quota, period) == 2;
    fclose(file);
    return set && *quota > 0 && *period > 0;
}

bool tess_control_group_cores(const char *root, double *cores)
{
    tess_memory_group group;
    bool found = false;
    double quota, period;
    if (!tess_control_group_find(root, 0, "cpu", &group))
        return false;
    do {
        if (!read_quota(&group, &quota, &period) || (found && quota / period >= *cores))
            continue;
        found = true;
        *cores = quota / period;
    } while (to_parent(&group, group.folder));
    return found;
}
