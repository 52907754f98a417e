#include "base/os/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"

void tess_oom_begin(tess_oom_watch *watch)
{
    *watch = (tess_oom_watch){.log = -1};
    watch->has_group = tess_memory_group_find((int)getpid(), &watch->group);
    if (watch->has_group)
        watch->kills_known = tess_memory_group_kills(&watch->group);
    /* The log uses the machine's process numbers, which differ from ours in a container. The initial pid namespace
     * always has this inode number. */
    struct stat info;
    if (stat("/proc/self/ns/pid", &info) != 0 || info.st_ino != 0xEFFFFFFC)
        return;
    watch->log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (watch->log >= 0)
        lseek(watch->log, 0, SEEK_END);
}

void tess_oom_end(tess_oom_watch *watch)
{
    tess_os_close(&watch->log);
}

/* The longest time that a killed process may take to end. */
static const uint64_t ends_within_ns = UINT64_C(60000000000);

/* Parses "3,901,5000,-;...: Killed process 4711 (tessera) total-vm:8123kB, anon-rss:512kB, file-rss:4kB, shmem-rss:0kB,
 * UID:0 ...". */
bool tess_oom_parse(const char *line, tess_oom_kill *kill)
{
    static const char *const parts[] = {"anon-rss:", "file-rss:", "shmem-rss:"};
    const char *at = strstr(line, "Killed process ");
    if (at == NULL || strstr(line, "emory") == NULL)
        return false;
    unsigned long long microseconds = 0;
    if (sscanf(line, "%*u,%*u,%llu,", &microseconds) != 1)
        microseconds = 0;
    *kill = (tess_oom_kill){.pid = atoi(at + strlen("Killed process ")), .at_ns = microseconds * 1000};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *part = strstr(at, parts[i]);
        if (part != NULL)
            kill->bytes += strtoull(part + strlen(parts[i]), NULL, 10) * 1024;
    }
    return kill->pid > 0;
}

/* Reads all new records of the log. Each read returns one record; EPIPE says that records were lost before the next
 * one. */
static void read_log(tess_oom_watch *watch)
{
    char line[8192];
    while (watch->log >= 0) {
        ssize_t n = read(watch->log, line, sizeof(line) - 1);
        if (n < 0 && (errno == EPIPE || errno == EINTR))
            continue;
        if (n <= 0)
            return;
        line[n] = '\0';
        tess_oom_kill kill;
        if (tess_oom_parse(line, &kill))
            watch->logged[watch->n_logged++ % TESS_OOM_LOGGED] = kill;
    }
}

static tess_oom_kill *find_logged(tess_oom_watch *watch, int pid)
{
    uint64_t now_ns = tess_os_now_ns();
    for (int i = 0; i < watch->n_logged && i < TESS_OOM_LOGGED; i++) {
        tess_oom_kill *kill = &watch->logged[i];
        if (kill->pid == pid && (kill->at_ns == 0 || now_ns < kill->at_ns + ends_within_ns))
            return kill;
    }
    return NULL;
}

void tess_oom_ask(tess_oom_watch *watch, int pid, tess_oom_answer *answer)
{
    uint64_t used;
    *answer = (tess_oom_answer){0};
    read_log(watch);
    tess_oom_kill *logged = find_logged(watch, pid);
    uint64_t kills = watch->has_group ? tess_memory_group_kills(&watch->group) : 0;
    bool counted = kills > watch->kills_known;
    answer->certain = logged != NULL;
    answer->killed = answer->certain || (counted && watch->log < 0);
    if (!answer->killed)
        return;
    watch->kills_known += counted;
    if (logged != NULL) {
        answer->held_bytes = logged->bytes;
        logged->pid = 0;
    }
    if (counted && !tess_memory_group_limit(&watch->group, &answer->limit_bytes, &used))
        answer->limit_bytes = 0;
}
