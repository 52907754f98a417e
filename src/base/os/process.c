/* State, parent, age and waiting time of processes, read from /proc. */
#include "base/os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/machine.h"

/* Reads /proc/PID/stat, and returns the text from the parenthesis that closes its second field on; that field is a name
 * with any content. NULL: no such process. */
static const char *read_stat(int pid, char *text, size_t size)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    return tess_os_read_text(path, text, size) > 0 ? strrchr(text, ')') : NULL;
}

static bool read_state(int pid, char *state, int *parent)
{
    char text[1024];
    const char *at = read_stat(pid, text, sizeof(text));
    return at != NULL && sscanf(at, ") %c %d", state, parent) == 2;
}

char tess_os_process_state(int pid)
{
    char state;
    int parent;
    return read_state(pid, &state, &parent) ? state : '\0';
}

int tess_os_process_parent(int pid)
{
    char state;
    int parent;
    return read_state(pid, &state, &parent) ? parent : 0;
}

double tess_os_age_of_process_s(int pid)
{
    enum { STARTED = 22 }; /* the field for the start time, in clock ticks since boot */
    char text[1024];
    const char *at = read_stat(pid, text, sizeof(text));
    for (int field = 2; at != NULL && field < STARTED; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return 0;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - strtod(at + 1, NULL) / (double)sysconf(_SC_CLK_TCK);
}

uint64_t tess_os_process_starved_ns(int pid)
{
    char path[64], text[128];
    unsigned long long ran_ns, starved_ns;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    tess_os_read_text(path, text, sizeof(text));
    return sscanf(text, "%llu %llu", &ran_ns, &starved_ns) == 2 ? starved_ns : 0;
}
