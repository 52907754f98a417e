/* Whether the memory of this host has room for stages. Memory that is asked for and not there ends ranks, not saves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "ckpt/async/saver_impl.h"

/* Left for everybody else, of what is there. */
static const double margin = 0.05;

static uint64_t available_bytes(void)
{
    char text[4096];
    uint64_t room, available = UINT64_MAX;
    tess_memory_group group;
    tess_os_read_text("/proc/meminfo", text, sizeof(text));
    const char *line = strstr(text, "MemAvailable:");
    if (line != NULL)
        available = strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
    if (tess_memory_group_find((int)getpid(), &group) && tess_memory_group_room(&group, &room) && room < available)
        available = room;
    return available;
}

/* What this rank has allocated and not touched yet: its first step will. */
static uint64_t untouched_bytes(const tess_mem *mem)
{
    char text[128], *end;
    uint64_t allocated = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        allocated += tess_mem_stats(mem, (tess_pool)pool).bytes;
    if (tess_os_read_text("/proc/self/statm", text, sizeof(text)) < 0)
        return 0;
    strtoull(text, &end, 10);
    uint64_t resident = strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return allocated > resident ? allocated - resident : 0;
}

static uint64_t staged_bytes(const async_area *area)
{
    struct stat info;
    return fstat(area->fd, &info) == 0 ? (uint64_t)info.st_blocks * 512 : 0;
}

tess_status async_check_room(const tess_saver *s, size_t bytes)
{
    char want[32], have[32];
    int64_t needed[2] = {(int64_t)bytes, (int64_t)untouched_bytes(s->mem)};
    int64_t committed[2] = {0, 0}; /* by the host's first rank: missing, there */
    TESS_TRY(tess_all_reduce(s->hosts->mine, needed, needed, 2, TESS_I64, TESS_SUM, NULL));
    if (s->slot == 0) {
        uint64_t there = available_bytes(), kept = staged_bytes(&s->area);
        int64_t fresh = needed[0] > (int64_t)kept ? needed[0] - (int64_t)kept : 0;
        committed[0] = fresh > 0 && (double)(fresh + needed[1]) > (double)there * (1 - margin);
        committed[1] = (int64_t)(there / 2); /* UINT64_MAX fits */
    }
    TESS_TRY(tess_broadcast(s->hosts->mine, committed, 2, TESS_I64, 0, NULL));
    TESS_CHECK(committed[0] == 0, TESS_E_NOMEM,
               "copies of what a checkpoint holds take %s of this host's memory, beside what training is about to use; "
               "%s are free",
               tess_format_bytes((double)needed[0], want, sizeof(want)),
               tess_format_bytes(2.0 * (double)committed[1], have, sizeof(have)));
    return TESS_OK;
}
