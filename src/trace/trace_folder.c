#include "trace/trace_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"

/* Parses a name such as "rank-00003.ring". */
static bool parse(const char *name, const char *prefix, const char *suffix, int *number)
{
    enum { LEAST_DIGITS = 5, MOST_DIGITS = 8 };
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return false;
    size_t n = strspn(name + length, "0123456789");
    if (n < LEAST_DIGITS || n > MOST_DIGITS || strcmp(name + length + n, suffix) != 0)
        return false;
    *number = (int)strtol(name + length, NULL, 10);
    return true;
}

tess_status tess_trace_ring_path(const char *folder, int rank, char *path, size_t size)
{
    char name[32];
    snprintf(name, sizeof(name), "rank-%05d.ring", rank);
    return tess_os_join(path, size, folder, name);
}

bool tess_trace_ring_name(const char *name, int *rank)
{
    return parse(name, "rank-", ".ring", rank);
}

tess_status tess_trace_job_path(const char *folder, int host, char *path, size_t size)
{
    char name[32] = TESS_TRACE_JOB_FILE;
    if (host > 0)
        snprintf(name, sizeof(name), "job-%05d.json", host);
    return tess_os_join(path, size, folder, name);
}

bool tess_trace_job_name(const char *name, int *host)
{
    *host = 0;
    return strcmp(name, TESS_TRACE_JOB_FILE) == 0 || parse(name, "job-", ".json", host);
}

static tess_status find_ours(void *context, const char *name)
{
    int rank;
    *(bool *)context |= tess_trace_ring_name(name, &rank) || strcmp(name, TESS_TRACE_JOB_FILE) == 0;
    return TESS_OK;
}

tess_status tess_trace_folder_begin(const char *folder)
{
    char previous[4096];
    bool used = false;
    if (tess_os_is_dir(folder))
        TESS_TRY(tess_os_list(folder, find_ours, &used));
    if (used) {
        size_t length = strlen(folder);
        while (length > 1 && folder[length - 1] == '/')
            length--;
        int n = snprintf(previous, sizeof(previous), "%.*s.previous", (int)length, folder);
        TESS_CHECK(n > 0 && (size_t)n < sizeof(previous), TESS_E_INVALID, "%s: the path is too long", folder);
        TESS_TRY(tess_os_remove_tree(previous));
        TESS_TRY(tess_os_rename(folder, previous));
    }
    return tess_os_make_dirs(folder);
}
