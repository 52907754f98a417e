/* Reads files of /proc and /sys: numbers, and processes. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/probe/probe_impl.h"

ptrdiff_t probe_read(const char *root, const char *path, char *text, size_t size)
{
    char full[PROBE_PATH_BYTES];
    snprintf(full, sizeof(full), "%s%s", root, path);
    return tess_os_read_text(full, text, size);
}

static bool first_number(const char *text, double *value)
{
    char *end;
    const char *at = text + strcspn(text, "0123456789\n");
    *value = strtod(at, &end);
    return end != at;
}

bool probe_read_number(const char *root, const char *path, double *value)
{
    char text[64];
    return probe_read(root, path, text, sizeof(text)) > 0 && first_number(text, value);
}

bool probe_meminfo(const char *root, const char *key, double *bytes)
{
    char text[8192];
    size_t n = strlen(key);
    if (probe_read(root, "/proc/meminfo", text, sizeof(text)) <= 0)
        return false;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) != 0 || !first_number(line + n, bytes))
            continue;
        *bytes *= 1024;
        return true;
    }
    return false;
}

bool probe_read_ticks(const char *root, probe_ticks *ticks)
{
    char text[512], *at = text;
    double fields[10] = {0};
    *ticks = (probe_ticks){0};
    if (probe_read(root, "/proc/stat", text, sizeof(text)) <= 0 || strncmp(text, "cpu ", 4) != 0)
        return false;
    at += 4;
    /* user nice system idle iowait irq softirq steal; the time of guests is included in user */
    for (int i = 0; i < 8; i++) {
        fields[i] = strtod(at, &at);
        ticks->total += fields[i];
    }
    ticks->steal = fields[7];
    return ticks->total > 0;
}

/* Parses "PID (name) S PARENT ...". The name may hold any character. The start time is word 20 after it. */
static bool read_process(const char *root, const char *pid, probe_process *process)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    if (probe_read(root, path, text, sizeof(text)) <= 0)
        return false; /* the process has ended */
    const char *open = strchr(text, '('), *close = strrchr(text, ')'), *at = close;
    *process = (probe_process){.pid = atoi(text)};
    if (open == NULL || close == NULL || sscanf(close, ") %c %d", &process->state, &process->parent) != 2)
        return false;
    snprintf(process->name, sizeof(process->name), "%.*s", (int)(close - open - 1), open + 1);
    for (int word = 0; at != NULL && word < 20; word++)
        at = strchr(at + 1, ' ');
    process->start = at != NULL ? strtod(at, NULL) : 0;
    return at != NULL;
}

bool probe_read_self(const char *root, probe_process *process)
{
    return read_process(root, "self", process);
}

typedef struct process_walk {
    const char *root;
    void (*visit)(void *context, const probe_process *process);
    void *context;
} process_walk;

static tess_status visit_entry(void *context, const char *name)
{
    const process_walk *walk = context;
    probe_process process;
    if (name[0] >= '1' && name[0] <= '9' && read_process(walk->root, name, &process))
        walk->visit(walk->context, &process);
    return TESS_OK;
}

void probe_each_process(const char *root, void (*visit)(void *context, const probe_process *process), void *context)
{
    char path[PROBE_PATH_BYTES];
    process_walk walk = {.root = root, .visit = visit, .context = context};
    snprintf(path, sizeof(path), "%s/proc", root);
    if (tess_os_list(path, visit_entry, &walk) != TESS_OK)
        tess_error_clear();
}
