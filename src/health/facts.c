#include "health/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/machine.h"
#include "base/os/memory_group.h"
#include "base/os/os.h"

enum { TEXT_BYTES = 8192, PATH_BYTES = 1024 };

static tess_health_reading know(double value)
{
    return (tess_health_reading){.known = true, .value = value, .who = -1, .rank = -1};
}

static const tess_health_reading nothing = {.who = -1, .rank = -1};

/* ---- Memory ---- */
/* Returns the number after `key` at the beginning of a line; -1: there is no such line. */
static double number_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0)
            return strtod(line + n, NULL);
    }
    return -1;
}

tess_health_reading tess_health_read_memory(const char *root)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (tess_os_read_text(path, text, sizeof(text)) <= 0)
        return nothing;
    double total = number_of(text, "MemTotal:"), available = number_of(text, "MemAvailable:");
    return total > 0 && available >= 0 ? know(100 * (1 - available / total)) : nothing;
}

tess_health_reading tess_health_read_group(int pid)
{
    tess_memory_group group;
    uint64_t limit, used;
    if (!tess_memory_group_find(pid, &group) || !tess_memory_group_need(&group, &limit, &used) || limit == 0)
        return nothing;
    return know(100 * (double)used / (double)limit);
}

tess_health_reading tess_health_read_load(const char *root)
{
    char path[PATH_BYTES], text[256];
    snprintf(path, sizeof(path), "%s/proc/loadavg", root);
    if (tess_os_read_text(path, text, sizeof(text)) <= 0)
        return nothing;
    return know(strtod(text, NULL) / tess_os_cores());
}

/* ---- Open files ---- */
static tess_status count_name(void *context, TESS_UNUSED const char *name)
{
    ++*(int *)context;
    return TESS_OK;
}

tess_health_reading tess_health_read_files(const char *root, const int *pids, int n)
{
    tess_health_reading worst = nothing;
    double worst_share = -1;
    for (int i = 0; i < n; i++) {
        char path[PATH_BYTES], limits[TEXT_BYTES];
        int n_open = 0;
        snprintf(path, sizeof(path), "%s/proc/%d/fd", root, pids[i]);
        if (pids[i] <= 0 || tess_os_list(path, count_name, &n_open) != TESS_OK) {
            tess_error_clear(); /* the process has ended */
            continue;
        }
        /* the line "Max open files            1024                 524288               files" */
        snprintf(path, sizeof(path), "%s/proc/%d/limits", root, pids[i]);
        double allowed = tess_os_read_text(path, limits, sizeof(limits)) > 0 ? number_of(limits, "Max open files") : 0;
        allowed = allowed > 0 ? allowed : 0;
        double share = allowed > 0 ? n_open / allowed : 0;
        if (share > worst_share) {
            worst_share = share;
            worst = (tess_health_reading){
                .known = true, .value = n_open, .limit = 0.9 * allowed, .who = pids[i], .rank = i};
        }
    }
    return worst;
}

/* ---- Disk ---- */
/* The newest checkpoint in a folder. Step numbers in names have at least eight digits. */
typedef struct newest_checkpoint {
    const char *folder;
    long long step;
    char path[PATH_BYTES];
} newest_checkpoint;

static tess_status see_checkpoint(void *context, const char *name)
{
    newest_checkpoint *n = context;
    char *end;
    if (strncmp(name, "step-", 5) != 0)
        return TESS_OK;
    long long step = strtoll(name + 5, &end, 10);
    if (*end == '\0' && end > name + 5 && step > n->step &&
        tess_os_join(n->path, sizeof(n->path), n->folder, name) == TESS_OK)
        n->step = step;
    return TESS_OK;
}

typedef struct folder_size {
    const char *folder;
    uint64_t bytes;
} folder_size;

static tess_status add_file(void *context, const char *name)
{
    folder_size *sum = context;
    char path[PATH_BYTES];
    uint64_t bytes = 0;
    if (tess_os_join(path, sizeof(path), sum->folder, name) == TESS_OK && tess_os_is_file(path) &&
        tess_os_file_size(path, &bytes) == TESS_OK)
        sum->bytes += bytes;
    return TESS_OK;
}

static double newest_checkpoint_bytes(const char *folder)
{
    newest_checkpoint n = {.folder = folder, .step = -1};
    folder_size sum = {.folder = n.path};
    bool found = tess_os_list(folder, see_checkpoint, &n) == TESS_OK && n.step >= 0 &&
                 tess_os_list(n.path, add_file, &sum) == TESS_OK;
    return found ? (double)sum.bytes : 0;
}

/* Shortens `path` to the nearest existing folder. */
static void go_up(char *path)
{
    while (!tess_os_is_dir(path)) {
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            strcpy(path, ".");
            return;
        }
        slash[slash == path] = '\0';
    }
}

void tess_health_read_disk(const char *folder, tess_health_reading *bytes, tess_health_reading *files)
{
    char path[PATH_BYTES];
    tess_os_space space;
    *bytes = *files = nothing;
    snprintf(path, sizeof(path), "%s", folder);
    go_up(path);
    if (tess_os_space_at(path, &space) == TESS_OK) {
        *bytes = know((double)space.free);
        bytes->limit = 2 * newest_checkpoint_bytes(folder);
        if (space.files > 0) /* some file systems create inodes on demand and report 0 */
            *files = know((double)space.free_files);
    }
    tess_error_clear();
}
