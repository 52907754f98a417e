#include "base/os/os.h"

#include <stdio.h>
#include <string.h>

/* Fields 3 and 4 of /proc/PID/stat, behind a name in parentheses that may hold anything. False: no such process. */
static bool read_stat(int pid, char *state, int *parent)
{
    char path[32], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    return at != NULL && sscanf(at, ") %c %d", state, parent) == 2;
}

char tess_os_process_state(int pid)
{
    char state;
    int parent;
    return read_stat(pid, &state, &parent) ? state : '\0';
}

uint64_t tess_os_process_starved_ns(int pid)
{
    char path[64];
    unsigned long long ran_ns, starved_ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &ran_ns, &starved_ns) != 2)
        starved_ns = 0;
    fclose(file);
    return starved_ns;
}

int tess_os_process_parent(int pid)
{
    char state;
    int parent;
    return read_stat(pid, &state, &parent) ? parent : 0;
}
