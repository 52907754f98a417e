/* Checks that the memory of this host has room for stages. Without this check the kernel would kill ranks instead of
 * letting saves fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "ckpt/async/saver_impl.h"

/* The fraction of the free memory that remains for other processes. */
static const double margin = 0.05;

/* Estimates the memory that this rank has allocated but not touched yet: the first training step touches it. */
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

tess_status async_check_room(const tess_saver *s, size_t bytes)
{
    char want[32], have[32];
    int64_t needed[2] = {(int64_t)bytes, (int64_t)untouched_bytes(s->mem)};
    /* Findings of the host's first rank: whether memory is missing, and half of the free memory. */
    int64_t found[2] = {0, 0};
    struct stat info;
    TESS_TRY(tess_all_reduce(s->hosts->mine, needed, needed, 2, TESS_I64, TESS_SUM, NULL));
    if (s->slot == 0) {
        bool by_group;
        uint64_t available = tess_memory_available(&by_group);
        int64_t staged = fstat(s->area.fd, &info) == 0 ? (int64_t)info.st_blocks * 512 : 0;
        int64_t fresh = needed[0] > staged ? needed[0] - staged : 0;
        found[0] = fresh > 0 && (double)(fresh + needed[1]) > (double)available * (1 - margin);
        found[1] = (int64_t)(available / 2); /* half, so that even UINT64_MAX fits */
    }
    TESS_TRY(tess_broadcast(s->hosts->mine, found, 2, TESS_I64, 0, NULL));
    TESS_CHECK(found[0] == 0, TESS_E_NOMEM,
               "copies of what a checkpoint holds take %s of this host's memory, beside what training is about to use; "
               "%s are free",
               tess_format_bytes((double)needed[0], want, sizeof(want)),
               tess_format_bytes(2.0 * (double)found[1], have, sizeof(have)));
    return TESS_OK;
}
