/* Reads numbers from files of /proc and /sys. */
#include <stdlib.h>
#include <string.h>

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

bool probe_number_after(const char *text, const char *key, double *value)
{
    size_t n = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0)
            return first_number(line + n, value);
    }
    return false;
}

bool probe_meminfo(const char *root, const char *key, double *bytes)
{
    char text[8192];
    if (probe_read(root, "/proc/meminfo", text, sizeof(text)) <= 0 || !probe_number_after(text, key, bytes))
        return false;
    *bytes *= 1024;
    return true;
}

bool probe_read_ticks(const char *root, probe_ticks *ticks)
{
    char text[512], *at = text;
    double fields[10] = {0};
    *ticks = (probe_ticks){0};
    if (probe_read(root, "/proc/stat", text, sizeof(text)) <= 0 || strncmp(text, "cpu ", 4) != 0)
        return false;
    at += 4;
    for (int i = 0; i < 8; i++) { /* user nice system idle iowait irq softirq steal; guests are in user */
        fields[i] = strtod(at, &at);
        ticks->total += fields[i];
    }
    ticks->steal = fields[7];
    return ticks->total > 0;
}
