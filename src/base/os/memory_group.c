#include "base/os/memory_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"

/* Version 1 shows a missing limit as the largest multiple of a page. */
static const uint64_t no_limit = UINT64_C(1) << 60;

/* Finds the group's path as the kernel spells it: "0::/path" in version 2, "4:memory:/path" in version 1. When both are
 * present version 1 wins, because it then has the memory controller. */
static bool find_path(int pid, char *path, size_t size, bool *version2)
{
    char name[48], line[1024];
    bool found = false;
    snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *controllers = strchr(line, ':'), *where = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (where == NULL)
            continue;
        *where++ = '\0';
        where[strcspn(where, "\n")] = '\0';
        bool unified = controllers[1] == '\0', memory = strcmp(controllers + 1, "memory") == 0;
        if (memory || (unified && !found)) {
            snprintf(path, size, "%s", where);
            *version2 = unified;
            found = true;
        }
    }
    fclose(file);
    return found;
}

/* Finds the mount point of that hierarchy, and which of its groups the mount shows as its root. */
static bool find_mount(bool version2, char *mount, size_t size, char *root, size_t root_size)
{
    char line[2048], from[512], to[512];
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        const char *type = strstr(line, " - ");
        if (type == NULL || sscanf(line, "%*d %*d %*s %511s %511s", from, to) != 2)
            continue;
        bool is_2 = strncmp(type, " - cgroup2 ", 11) == 0, is_1 = strncmp(type, " - cgroup ", 10) == 0;
        found = version2 ? is_2 : is_1 && strstr(type, "memory") != NULL;
    }
    fclose(file);
    if (found) {
        snprintf(mount, size, "%s", to);
        snprintf(root, root_size, "%s", strcmp(from, "/") == 0 ? "" : from);
    }
    return found;
}

bool tess_memory_group_find(int pid, tess_memory_group *group)
{
    char path[512], mount[TESS_GROUP_FOLDER_BYTES], root[512];
    *group = (tess_memory_group){0};
    if (!find_path(pid, path, sizeof(path), &group->version2) ||
        !find_mount(group->version2, mount, sizeof(mount), root, sizeof(root)))
        return false;
    size_t hidden = strlen(root);
    const char *shown = strncmp(path, root, hidden) == 0 ? path + hidden : "";
    int n = snprintf(group->folder, sizeof(group->folder), "%s%s", mount, strcmp(shown, "/") == 0 ? "" : shown);
    if (n < 0 || (size_t)n >= sizeof(group->folder))
        return false;
    group->mount_length = strlen(mount);
    return tess_os_is_dir(group->folder);
}

/* Reads the first number of a file of the group, or the number behind `key`. False: not there, or "max". */
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

/* Finds the group with the tightest limit, and writes its path to `folder`. */
static bool find_tightest(const tess_memory_group *group, char *folder, uint64_t *limit)
{
    char at[TESS_GROUP_FOLDER_BYTES];
    bool found = false;
    snprintf(at, sizeof(at), "%s", group->folder);
    for (;;) {
        uint64_t here;
        if (read_number(at, group->version2 ? "memory.max" : "memory.limit_in_bytes", "", &here) && here < no_limit &&
            (!found || here < *limit)) {
            found = true;
            *limit = here;
            memcpy(folder, at, sizeof(at));
        }
        char *slash = strrchr(at, '/');
        if (slash == NULL || (size_t)(slash - at) < group->mount_length)
            return found;
        *slash = '\0';
    }
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

uint64_t tess_memory_group_kills(const tess_memory_group *group)
{
    uint64_t kills = 0;
    read_number(group->folder, group->version2 ? "memory.events" : "memory.oom_control", "oom_kill ", &kills);
    return kills;
}
