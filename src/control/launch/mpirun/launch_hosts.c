/* Parses lists of hosts. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "control/launch/mpirun/launch_line.h"

static bool is_host_name(const char *name)
{
    if (!isalnum((unsigned char)name[0]))
        return false;
    for (const char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr(".-_", *c) == NULL)
            return false;
    return true;
}

/* Adds a host. `slots` NULL: one slot. `entry` is used in messages. */
static tess_status add(tess_launch_hosts *hosts, const char *entry, const char *name, const char *slots)
{
    char *end = NULL;
    long n = slots != NULL ? strtol(slots, &end, 10) : 1;
    TESS_CHECK(is_host_name(name) && strlen(name) < LAUNCH_NAME_BYTES, TESS_E_INVALID,
               "%.200s: '%.140s' is no host name", entry, name);
    TESS_CHECK(slots == NULL || (*slots != '\0' && *end == '\0' && n >= 1 && n <= LAUNCH_MOST_SLOTS), TESS_E_INVALID,
               "%.200s: slots must be a number from 1 to %d", entry, LAUNCH_MOST_SLOTS);
    for (int i = 0; i < hosts->n; i++)
        TESS_CHECK(strcmp(hosts->hosts[i].name, name) != 0, TESS_E_INVALID,
                   "%.200s: host '%s' is named twice: add its slots up in one entry", entry, name);
    TESS_CHECK(hosts->n < LAUNCH_MOST_HOSTS, TESS_E_INVALID, "%.200s: more than %d hosts", entry, LAUNCH_MOST_HOSTS);
    tess_launch_host *host = &hosts->hosts[hosts->n++];
    memcpy(host->name, name, strlen(name) + 1);
    host->slots = (int)n;
    return TESS_OK;
}

/* Parses an entry: "h1", "h1:4" or "h1 slots=4". */
static tess_status add_entry(tess_launch_hosts *hosts, const char *entry)
{
    char copy[512];
    TESS_CHECK(strlen(entry) < sizeof(copy), TESS_E_INVALID, "%.60s...: too long for a host", entry);
    memcpy(copy, entry, strlen(entry) + 1);
    char *slots = strpbrk(copy, ": \t");
    if (slots != NULL) {
        bool colon = *slots == ':';
        *slots++ = '\0';
        slots += strspn(slots, " \t");
        if (!colon && strncmp(slots, "slots=", 6) == 0)
            slots += 6;
    }
    return add(hosts, entry, copy, slots);
}

tess_status tess_launch_hosts_parse(const char *text, tess_launch_hosts *hosts)
{
    char entry[512];
    for (;;) {
        size_t n = strcspn(text, ",");
        TESS_CHECK(n > 0, TESS_E_INVALID, "an entry of the list of hosts is empty: write it like h1:4,h2:4");
        snprintf(entry, sizeof(entry), "%.*s", (int)(n < 400 ? n : 400), text);
        TESS_TRY(add_entry(hosts, entry));
        if (text[n] == '\0')
            return TESS_OK;
        text += n + 1;
    }
}

/* Removes the comment, and blanks at both ends. */
static char *trim(char *line)
{
    line[strcspn(line, "#\r")] = '\0';
    line += strspn(line, " \t");
    for (size_t n = strlen(line); n > 0 && strchr(" \t", line[n - 1]) != NULL; n--)
        line[n - 1] = '\0';
    return line;
}

tess_status tess_launch_hosts_read(tess_mem *mem, const char *path, tess_launch_hosts *hosts)
{
    char *text, *save = NULL;
    size_t size;
    TESS_TRY(tess_os_read(mem, path, 1 << 20, &text, &size));
    tess_status status = TESS_OK;
    int before = hosts->n, number = 1;
    for (char *line = text; line != NULL && status == TESS_OK; line = save, number++) {
        save = strchr(line, '\n');
        if (save != NULL)
            *save++ = '\0';
        line = trim(line);
        if (*line != '\0' && (status = add_entry(hosts, line)) != TESS_OK)
            tess_fail_context(status, "%s, line %d", path, number);
    }
    tess_mem_free(mem, text);
    TESS_CHECK(status != TESS_OK || hosts->n > before, TESS_E_INVALID, "%s: names no host", path);
    return status;
}
